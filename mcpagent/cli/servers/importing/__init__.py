"""Servers that other MCP clients know, taken over: where their files are, and what is different in them."""
