"""An agent in code mode over small tools, a scripted model, and what it was told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcpagent import Agent, CodeMode, Limits, RunOptions, ScriptedModel, ToolCall
from mcpagent.values.events import Event
from mcpagent.values.messages import ToolResult

SEARCH = ToolCall("", "search_tools", {"query": "select:shout,add,slow,fails,forbidden,listed"})


class Tools:
    """Functions that remember how they were called."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, Any]] = []
        self.at_once = self.most_at_once = 0

    async def shout(self, text: str) -> str:
        """Shout a text."""
        self.ran.append(("shout", text))
        return text.upper()

    async def add(self, a: int, b: int = 1) -> int:
        """Add two numbers."""
        self.ran.append(("add", (a, b)))
        return a + b

    async def slow(self, name: str) -> str:
        """Take a turn of the loop, with others at the same time."""
        import asyncio

        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        for _ in range(20):
            await asyncio.sleep(0)
        self.at_once -= 1
        self.ran.append(("slow", name))
        return name

    async def fails(self, why: str) -> str:
        """Fail."""
        self.ran.append(("fails", why))
        raise RuntimeError(why)

    async def forbidden(self, path: str) -> str:
        """Delete a file."""
        self.ran.append(("forbidden", path))
        return f"deleted {path}"

    async def listed(self, count: int) -> list[dict[str, Any]]:
        """List items."""
        self.ran.append(("listed", count))
        return [{"id": number, "name": f"item {number}"} for number in range(count)]

    @property
    def all(self) -> list[Any]:
        return [self.shout, self.add, self.slow, self.fails, self.forbidden, self.listed]


async def told(
    *programs: str, tools: Tools | None = None, events: list[Event] | None = None, search: bool = True, **options: Any
) -> list[ToolResult]:
    """The results of the programs, run one after the other in one conversation."""
    code = options.pop("code_mode", CodeMode())
    calls: Sequence[Any] = [
        *([SEARCH] if search else []),
        *(ToolCall("", "run_code", {"code": one}) for one in programs),
    ]
    model = ScriptedModel([*calls, "done"])
    listen = events.append if events is not None else None
    given = (tools or Tools()).all
    options.setdefault("options", RunOptions(limits=Limits(turns=1_000)))
    async with Agent(model, tools=given, code_mode=code, on_event=listen, **options) as agent:
        assert await agent.ask("go") == "done"
        found = [result for message in agent.messages for result in message.tool_results]
    return [result for result in found if result.name == "run_code"]
