"""`mcpagent mcp`: adding, checking and signing in to servers."""
