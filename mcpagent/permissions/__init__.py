"""Permissions: the one place that decides whether a call runs, needs approval or is denied."""
