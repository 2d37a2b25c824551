"""Limits for endless runs: the resources of a run, and detection of calls without progress."""
