"""`mcpagent gateway`."""
