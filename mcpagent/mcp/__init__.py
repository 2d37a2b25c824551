"""MCP servers: their life cycle, their lists and requests, and calls of their tools."""
