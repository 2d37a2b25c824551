"""Permissions: which calls run, which are asked about and which are denied, by one decision for every caller."""
