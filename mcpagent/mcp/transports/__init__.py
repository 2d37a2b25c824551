"""The ways to an MCP server, stdio, HTTP and SSE, and what comes over them made usable."""
