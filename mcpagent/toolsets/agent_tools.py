"""Offer an agent as a tool of another agent: its definition for the model, and its start and end together with the
caller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol

from mcpagent.tool_search.unique_names import expect_legal_name
from mcpagent.values.messages import ToolDefinition
from mcpagent.values.tools import Tool, ToolOutput, expect_timeout

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "prompt": {
            "type": "string",
            "description": "The whole task: the one who gets it knows nothing else of it",
        }
    },
    "required": ["prompt"],
}


class Startable(Protocol):
    """An object that can be started and closed, such as an agent."""

    @property
    def is_started(self) -> bool:
        """Return whether it is started."""
        ...

    async def __aenter__(self) -> Any: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def agent_tool(
    agent: Startable,
    answer: Callable[[str, str], Awaitable[ToolOutput]],
    name: str,
    description: str,
    *,
    defer_loading: bool | None,
    timeout_seconds: float | None,
) -> Tool:
    """Return a tool that passes a prompt to the agent's `answer`. Raises `ConfigError` for an invalid name."""
    expect_timeout("as_tool", timeout_seconds)
    expect_legal_name(name)

    async def run(arguments: dict[str, Any]) -> ToolOutput:
        return await answer(arguments["prompt"], name)

    definition = ToolDefinition(name, description, _PARAMETERS, original_name=name)
    return Tool(
        definition,
        run,
        timeout_seconds,
        deferred=defer_loading,
        lifetime=_StartedOnce(agent),
    )


def agent_behind(tool: Tool) -> Startable | None:
    """Return the agent that a call of this tool runs; None for other tools."""
    if isinstance(tool.lifetime, _StartedOnce):
        return tool.lifetime.agent
    return None


@dataclass(slots=True)
class _StartedOnce:
    """Starts the agent if it is not started yet, and in that case also closes it."""

    agent: Startable
    starts: list[bool] = field(default_factory=list[bool], compare=False)

    def __hash__(self) -> int:
        return id(self.agent)

    async def __aenter__(self) -> Startable:
        starts = not self.agent.is_started
        self.starts.append(starts)
        if starts:
            await self.agent.__aenter__()
        return self.agent

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.starts.pop():
            await self.agent.__aexit__(None, None, None)
