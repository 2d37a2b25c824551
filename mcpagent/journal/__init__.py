"""Write sessions as typed entries, and compute recordings, exports and traces from such entries."""
