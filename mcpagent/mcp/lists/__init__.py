"""The lists of MCP servers: read them, cache them on disk, and pin tools."""
