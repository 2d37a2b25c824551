"""A small MCP server over stdio for the examples in the docs: the weather, which never changes here."""

from __future__ import annotations

from typing import Any, Literal

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

server: MCPServer[Any] = MCPServer(
    "weather", title="the weather now and on the next days", version="1.0", log_level="WARNING"
)
READS = ToolAnnotations(read_only_hint=True)


@server.tool(structured_output=False, annotations=READS)
def get_weather(location: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> str:
    """Get the current weather for a location."""
    return f"{location}: 18 degrees {unit}, light rain"


@server.tool(structured_output=False, annotations=READS)
def get_forecast(location: str, days: int = 3) -> str:
    """Get the weather forecast for a location, day by day."""
    return f"{location}: rain for {days} days"


if __name__ == "__main__":
    server.run("stdio")
