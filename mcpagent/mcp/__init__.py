"""MCP servers: their life, what they list and ask, and calls of their tools."""
