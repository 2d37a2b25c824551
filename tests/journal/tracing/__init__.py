"""Traces: which spans there are, where they stand, what is in them, and where they go."""
