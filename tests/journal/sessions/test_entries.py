"""The entries of a session's journal, as any store gets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from mcpagent import Agent, ScriptedModel, Sessions, ToolCall
from mcpagent.journal.sessions import Entry, Holder
from mcpagent.models.scripted import Reply
from tests.journal.sessions.test_protocol import InMemory

pytestmark = pytest.mark.anyio


@dataclass
class Journaled(InMemory):
    """A store that remembers all entries in the order in which they came."""

    entries: list[Entry] = field(default_factory=list[Entry])

    def append(self, session: str, entries: Sequence[Entry], owner: Holder | None) -> bool:
        is_written = super().append(session, entries, owner)
        self.entries += entries if is_written else ()
        return is_written


def look(place: str) -> str:
    """Look at a place."""
    return f"seen {place}"


async def test_entries_say_what_happened_in_which_run_and_call_and_when() -> None:
    store = Journaled()
    calls = [ToolCall("c1", "look", {"place": "a"}), ToolCall("c2", "look", {"place": "b"})]
    script: list[Reply] = [calls, "done", "again"]
    async with Agent(ScriptedModel(script), tools=[look], sessions=Sessions(store)) as agent:
        session = agent.session("it")
        assert await session.ask("one") == "done"
        assert await session.ask("two") == "again"
    runs = [*dict.fromkeys(entry.run for entry in store.entries)]
    assert len(runs) == 2
    assert all(runs)
    times = [entry.time for entry in store.entries]
    assert times == sorted(times)
    first = [(entry.kind, entry.call) for entry in store.entries if entry.run == runs[0]]
    told = [one for one in first if one[0] in ("message", "call_sent", "call_ended")]
    assert [kind for kind, _ in told].count("message") == 4
    sent = [call for kind, call in told if kind == "call_sent"]
    assert sent == ["c1", "c2"]
    begun, ended = told.index(("call_sent", "c2")), told.index(("call_ended", sent[0]))
    assert begun < ended, "the result is written while the other call runs, or with it"
    assert {"run_started", "session_started", "usage", "summary"} <= {kind for kind, _ in first}
