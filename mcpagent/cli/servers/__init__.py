"""`mcpagent mcp`: add, check, and sign in to servers."""
