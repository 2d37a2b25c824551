"""What was set aside, in both kinds of store: whole, of one session alone, for seven days."""

from __future__ import annotations

import asyncio
import time

import pytest

from mcpagent import Agent, ScriptedModel, SessionBusyError, Sessions, SessionStoreError, ToolCall
from mcpagent.journal.sessions.store import OUTPUTS_KEPT_SECONDS
from mcpagent.journal.sessions.stored_outputs import StoredOutputs
from mcpagent.run.large_results.large_output import LargeOutput
from mcpagent.values.messages import Image
from tests.journal.sessions.conftest import Place
from tests.journal.sessions.journal import journal

ODD = "naïve \U0001f600 \ud800 \0 \r\n\t" * 3_000


def begun(store: Sessions, session: str) -> None:
    store.write(session, journal("x")).result(30)


def put(store: Sessions, session: str, handle: str, text: str = "whole") -> None:
    store.put_output(session, handle, {"tool": "get", "output": text, "images": "[]"}).result(30)


def older(place: Place, days: float) -> None:
    expires = time.time() - days * 86_400 + OUTPUTS_KEPT_SECONDS
    place.run(f"UPDATE {'mcpagent.' if place.server else ''}entries SET expires = {expires} WHERE kind = 'output'")


def kept_in(place: Place) -> int:
    return int(
        place.run(f"SELECT count(*) FROM {'mcpagent.' if place.server else ''}entries WHERE kind = 'output'")[0][0]
    )


async def test_what_is_kept_is_read_by_another_process(place: Place) -> None:
    store = place.open()
    begun(store, "a")
    shelf = StoredOutputs(store, "a")
    output = LargeOutput(shelf.clean(ODD), (Image("image/png", "aGk="),))
    await shelf.put(output, "get")
    await shelf.put(output, "get")
    store.close()
    again = StoredOutputs(place.open(), "a")
    read = await again.get(output.handle)
    assert read == output
    assert read is not None
    assert read.handle == output.handle
    assert "\0" not in read.text
    assert "\ud800" not in read.text
    assert await again.get("out_000000000000") is None
    assert kept_in(place) == 1


async def test_of_one_session_alone(place: Place) -> None:
    store = place.open()
    for session in ("a", "b"):
        begun(store, session)
    put(store, "a", "out_1", "a's")
    assert await StoredOutputs(store, "b").get("out_1") is None
    put(store, "b", "out_1", "b's")
    for session in ("a", "b"):
        found = await StoredOutputs(store, session).get("out_1")
        assert found is not None
        assert found.text == f"{session}'s"


def test_for_seven_days_since_it_was_set_aside_last(place: Place) -> None:
    store = place.open()
    begun(store, "a")
    put(store, "a", "out_1")
    older(place, 6.9)
    put(store, "a", "out_2")
    older(place, 6.9)
    assert store.output("a", "out_1").result(30) is not None
    older(place, 7.1)
    assert store.output("a", "out_1").result(30) is None  # though it is still there
    assert kept_in(place) == 2
    put(store, "a", "out_2")
    assert store.output("a", "out_2").result(30) is not None
    store.prune(0.0)
    assert [kept_in(place), store.outputs()] == [1, (1, 45)]
    older(place, OUTPUTS_KEPT_SECONDS / 86_400 + 1)
    store.close()
    later = place.open()
    later.open("a")  # who takes a session clears up
    assert kept_in(place) == 0


def test_a_copy_has_its_own_and_what_is_deleted_is_gone(place: Place) -> None:
    store = place.open()
    begun(store, "a")
    put(store, "a", "out_1")
    store.close()
    store = place.open()
    copy = store.fork("a")
    store.delete("a")
    assert kept_in(place) == 1
    assert store.output(copy, "out_1").result(30) is not None
    assert store.output("a", "out_1").result(30) is None
    assert store.check() == []
    store.delete(copy)
    assert kept_in(place) == 0


def test_nothing_is_written_into_a_session_of_another_process(place: Place) -> None:
    store, other = place.open(), place.open()
    begun(store, "a")
    with pytest.raises((SessionStoreError, SessionBusyError)):
        put(other, "a", "out_1")
    assert kept_in(place) == 0


async def test_what_cannot_be_written_stays_in_memory(place: Place) -> None:
    store, other = place.open(), place.open()
    begun(store, "a")
    shelf = StoredOutputs(other, "a")
    await shelf.put(LargeOutput("text"), "get")
    assert await shelf.get(LargeOutput("text").handle) == LargeOutput("text")
    assert kept_in(place) == 0


async def test_two_sessions_at_once(place: Place) -> None:
    """Each model reads its own, whatever the other one set aside meanwhile."""

    def get(name: str) -> str:
        """Gives text."""
        return f"{name} " * 20_000

    def replies(name: str) -> ScriptedModel:
        first = ToolCall("", "get", {"name": name})
        read = ToolCall("", "read_large_output", {"handle": LargeOutput(f"{name} " * 20_000).handle})
        return ScriptedModel([first, read, "done"])

    store = place.open()
    agents = [Agent(replies(name), tools=[get], sessions=store) for name in ("one", "two")]
    async with agents[0], agents[1]:
        sessions = [agent.session(str(number)) for number, agent in enumerate(agents)]
        await asyncio.gather(*(session.ask("x") for session in sessions))
        read = [session.messages[-2].tool_results[0].text for session in sessions]
    assert ["one one" in read[0], "two" in read[0], "two two" in read[1], "one" in read[1]] == [
        True,
        False,
        True,
        False,
    ]
    assert kept_in(place) == 2
    assert all(len(part.text) < 20_000 for part in store.read("0").messages[2].tool_results)
