"""`Agent` and `Session`, what they are made of, and agent cards."""
