"""Limits for endless runs: the resources of a run, and calls that lead nowhere."""
