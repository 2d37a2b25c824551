"""The terminal: what is printed, what is typed."""
