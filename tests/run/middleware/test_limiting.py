"""Limits: which calls they count."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mcpagent import Agent, ScriptedModel, Sessions, ToolCall
from mcpagent.errors import SessionStoreError
from mcpagent.journal.sessions import Entry, Holder
from mcpagent.models.scripted import Reply
from tests.journal.sessions.test_protocol import InMemory

pytestmark = pytest.mark.anyio


class FullOnce(InMemory):
    """A store that cannot write the first entry of a call that is sent."""

    is_full = True

    def append(self, session: str, entries: Sequence[Entry], owner: Holder | None) -> bool:
        if self.is_full and any(entry.kind == "call_sent" for entry in entries):
            self.is_full = False
            raise SessionStoreError("the disk is full")
        return super().append(session, entries, owner)


async def test_a_call_that_the_journal_refuses_is_not_counted() -> None:
    ran: list[int] = []

    def book(number: int) -> str:
        """Books."""
        ran.append(number)
        return "booked"

    script: list[Reply] = [ToolCall("c1", "book", {"number": 1}), ToolCall("c2", "book", {"number": 2}), "done"]
    async with Agent(ScriptedModel(script), tools=[book], sessions=Sessions(FullOnce())) as agent:
        result = await agent.session("a").run("go")
    assert result.answer == "done"
    assert ran == [2]
    assert result.spent.tool_calls == 1
