"""The way from a prompt to a tool is short: counted in our own functions, the same on every machine."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import mcpagent
from mcpagent import Agent, ScriptedModel, ToolCall

PACKAGE = str(Path(mcpagent.__file__).parent)
MOST_CALLS = 400


async def test_from_ask_to_a_tool_few_of_our_functions_are_called() -> None:
    entered: Counter[tuple[str, str]] = Counter()

    def note(frame: FrameType, event: str, _value: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            entered[code.co_filename, code.co_qualname] += 1

    async def lamps_left() -> int:
        """Return how many lamps are left."""
        sys.setprofile(None)
        return 12

    async with Agent(ScriptedModel([ToolCall("1", "lamps_left", {}), "12"] * 2), tools=[lamps_left]) as agent:
        await agent.ask("What is loaded once is loaded now.")
        session = agent.session()
        sys.setprofile(note)
        try:
            assert await session.ask("How many lamps are left?") == "12"
        finally:
            sys.setprofile(None)
    assert 0 < entered.total() <= MOST_CALLS, entered.most_common(20)
