"""Bounds for endless runs: limits on the resources of a run, and detection of calls without progress."""
