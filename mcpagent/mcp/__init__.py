"""MCP servers: their life cycle, their lists and questions, and calls of their tools."""
