"""What models on one's own servers need: calls as text, calls by prompt, and what was found out about a server."""
