"""Sign in to remote MCP servers (OAuth), and use the stored sign-ins."""
