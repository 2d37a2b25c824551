"""A toolset of very many tools, which differ in little."""

from __future__ import annotations

from typing import Any

from mcpagent import Tool, ToolDefinition, ToolOutput


def many_tools(count: int = 1220) -> list[Tool]:
    async def run(_arguments: dict[str, Any]) -> ToolOutput:
        return ToolOutput.of_text("done")

    properties = {f"argument_{number}": {"type": "string", "description": "words " * 8} for number in range(6)}
    return [
        Tool(
            ToolDefinition(
                f"tool_{number}",
                f"Does task number {number} of the many things there are to do. " * 3,
                {"type": "object", "properties": properties},
                f"server{number % 40}",
                f"tool_{number}",
            ),
            run,
        )
        for number in range(count)
    ]


class Many:
    """A toolset of these tools, whichever they are now."""

    def __init__(self, tools: list[Tool]) -> None:
        self._tools = tools

    async def tools(self) -> list[Tool]:
        return self._tools

    async def __aenter__(self) -> Many:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None
