"""`python -m mcpagent.demo.server`: the demo tools as an MCP server over stdio.

It uses the SDK's own server. A separate JSON-RPC loop would save about half a second of CPU at the start, but would
have to follow every protocol version that clients negotiate.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mcpagent.demo import DemoToolError
from mcpagent.demo import chance_tools as chance
from mcpagent.demo import clock_tools as clock
from mcpagent.demo import colour_tools as colours
from mcpagent.demo import file_tools as files
from mcpagent.demo import note_tools as notes
from mcpagent.demo import number_tools as numbers
from mcpagent.demo import place_tools as places
from mcpagent.demo import system_tools as system
from mcpagent.demo import text_tools as text
from mcpagent.demo import unit_tools as units

if TYPE_CHECKING:
    from mcp.server import MCPServer

THEMES = (clock, numbers, units, text, notes, files, chance, colours, places, system)


def tools_of(theme: ModuleType) -> list[Callable[..., Any]]:
    """Return the tools of a module: its public functions, in source order."""
    own = [
        value
        for name, value in vars(theme).items()
        if inspect.isfunction(value) and not name.startswith("_")
    ]
    return [function for function in own if function.__module__ == theme.__name__]


def _with_tool_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    from mcp.server.mcpserver.exceptions import ToolError

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except DemoToolError as problem:
            raise ToolError(str(problem)) from problem

    return run


def build_server() -> MCPServer[Any]:
    """Return a server with all demo tools; notes and todo entries last as long as the process."""
    from importlib.metadata import version

    from mcp.server import MCPServer
    from mcp.types import ToolAnnotations

    server: MCPServer[Any] = MCPServer(
        "mcpagent-demo",
        version=version("mcpagent"),
        instructions="Small everyday tools that need no network: time, maths, units, text, notes, files, places.",
        log_level="WARNING",
    )
    for theme in THEMES:
        for function in tools_of(theme):
            writes = function in notes.WRITING
            server.tool(
                description=inspect.cleandoc(function.__doc__ or ""),
                annotations=ToolAnnotations(
                    read_only_hint=not writes,
                    destructive_hint=function in notes.DELETING,
                    open_world_hint=False,
                ),
                structured_output=False,
            )(_with_tool_errors(function))
    return server


if __name__ == "__main__":
    build_server().run("stdio")
