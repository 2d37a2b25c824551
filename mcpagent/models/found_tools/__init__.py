"""Ways to call tools that a conversation found after it began."""
