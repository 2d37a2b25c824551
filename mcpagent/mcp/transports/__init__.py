"""The transports to an MCP server (stdio, HTTP and SSE), and the repair of its messages."""
