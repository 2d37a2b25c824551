"""`mcpagent sessions`: show and change stored sessions."""
