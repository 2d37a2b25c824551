"""The shape of a result that one session saw is in no search of another session of the agent."""

from __future__ import annotations

from typing import Any

import pytest

from mcpagent import Agent, ScriptedModel, ToolCall

pytestmark = pytest.mark.anyio

SEARCH = ToolCall("", "search_tools", {"query": "select:files"})
PROGRAM = ToolCall("", "run_code", {"code": "from tools.functions import files\nlen(await files())"})


async def test_an_observed_shape_belongs_to_its_session() -> None:
    async def files() -> list[dict[str, Any]]:
        """List the files of the user."""
        return [{"canary_field": 1, "offer-canary-7.pdf": 1}] * 2

    model = ScriptedModel([SEARCH, PROGRAM, SEARCH, "done", SEARCH, PROGRAM, SEARCH, "done"])
    async with Agent(model, tools=[files], code_mode=True) as agent:
        told: list[list[str]] = []
        for name in ("ann", "bob"):
            session = agent.session(name)
            await session.ask("go")
            told.append([result.text for message in session.messages for result in message.tool_results])
    for first, _, again in told:
        assert "canary" not in first
        assert "A result seen (not promised): list[{'canary_field': int, ...}]" in again
        assert "offer-canary" not in again
