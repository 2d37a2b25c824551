"""`mcpagent sessions`: what it shows, and what it changes."""
