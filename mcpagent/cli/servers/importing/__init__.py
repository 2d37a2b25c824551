"""Import the servers of other MCP clients: locate their files, and convert their entries."""
