"""Permissions: one decision for every caller whether a call runs, waits for a person or is denied."""
