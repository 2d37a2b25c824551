"""`Agent` and `Session`, their parts, and agent cards."""
