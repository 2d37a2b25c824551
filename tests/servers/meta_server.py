"""A server that gives back what a request carried beside its arguments: `_meta`, as JSON."""

from __future__ import annotations

import json
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

from mcp import MCPError


def build() -> MCPServer[Any]:
    server: MCPServer[Any] = MCPServer("meta", version="1.0", log_level="WARNING")

    @server.tool(structured_output=False)
    def show_meta(context: Context) -> str:
        """Gives back what the request carried."""
        return json.dumps(dict(context.request_context.meta or {}), default=str)

    @server.tool(structured_output=False)
    def refuse(context: Context) -> str:
        """Fails."""
        raise ValueError("no")

    @server.tool(structured_output=False)
    def refuse_request(context: Context) -> str:
        """Answers with an error of the protocol."""
        raise MCPError(code=-32042, message="not now")

    return server


if __name__ == "__main__":
    build().run("stdio")
