"""What MCP servers list: read, cached on disk, and pinned."""
