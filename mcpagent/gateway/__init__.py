"""The gateway: one MCP server in front of a user's MCP servers, for the models of other programs."""
