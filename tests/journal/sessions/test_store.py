"""What holds of a store, whichever database it is in."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mcpagent import (
    Agent,
    AgentStateError,
    Image,
    InputError,
    Message,
    ScriptedModel,
    SessionBusyError,
    Sessions,
    SessionStoreError,
    Text,
    ToolCall,
    ToolContext,
)
from mcpagent.history.conversation import Conversation
from mcpagent.journal.sessions.entries import MESSAGE
from mcpagent.journal.sessions.saved_state import MAX_KNOWN, KnownTools, SavedState
from mcpagent.journal.sessions.session_writer import SessionWriter
from mcpagent.journal.sessions.sql_tables import Migrations
from mcpagent.values.messages import ProviderBlock, Thinking, ToolDefinition, ToolResult
from mcpagent.values.tools import Tool, ToolOutput
from tests.journal.sessions.conftest import Place
from tests.journal.sessions.journal import journal
from tests.tables import each_row
from tests.terminal.process import ROOT

PARTS = (
    Text("words", {"id": "m1", "sk": "-sk-" + "a" * 30}),
    Thinking("hm", {"signature": "x/y+z=="}),
    ToolCall("1", "look", {"nested": [{"é": None, "half": "\ud800", "zero": "\0"}]}),
    ProviderBlock({"type": "own", "n": 1.5}),
)


def written(store: Sessions, session: str, *messages: Message, keep: int = 0, length: int = 0, **values: Any) -> None:
    title = messages[0].text if messages and not keep else ""
    store.write(session, journal(*messages, keep=keep, length=length, title=title, **values)).result(30)


def migrations(store: Sessions) -> Migrations:
    inside: Any = store._store
    found: Migrations = inside.migrations
    return found


def said(role: Any, text: str) -> Message:
    return Message(role, (Text(text),))


def test_what_is_written_is_read(place: Place) -> None:
    store = place.open()
    assert store.open("a") is None
    first = Message("user", (Text("naïve \U0001f600"), Image("image/png", "aGFsbG8=")))
    answer = Message("assistant", PARTS)
    results = Message("tool", (ToolResult("1", "look", (Text("5"),), None, 0.5),))
    written(store, "a", first, answer, results, told={"é": "\ud800"}, run={"turns": 1})
    for reader in (store, place.open()):
        kept = reader.read("a")
        assert kept.messages == (first, answer, results)
        assert kept.values == {"told": {"é": "\ud800"}, "run": {"turns": 1}}
        assert (kept.info.title, kept.info.messages) == ("naïve \U0001f600", 3)
    written(store, "a", said("user", "other"), keep=1, length=3, run=None)
    assert [message.text for message in store.read("a").messages] == ["naïve \U0001f600", "other"]
    assert store.read("a").values == {"told": {"é": "\ud800"}}
    assert store.check() == []


def test_a_session_is_held_by_one_process(place: Place) -> None:
    one, other = place.open(), place.open()
    written(one, "a", said("user", "hi"))
    with pytest.raises(SessionBusyError, match=f"process {os.getpid()} on ") as caught:
        other.open("a")
    assert caught.value.holder.pid == os.getpid()
    with pytest.raises(SessionBusyError):
        other.delete("a")
    with pytest.raises(SessionStoreError, match="was taken over by process"):
        written(other, "a", said("user", "mine"))
    assert other.sessions()[0].holder is not None
    assert other.prune(1e12) == []
    one.close()
    assert other.sessions()[0].holder is None
    kept = other.open("a")
    assert kept is not None
    with pytest.raises(SessionBusyError):
        one.open("a")


def test_of_two_that_begin_the_same_session_one_has_it(place: Place) -> None:
    one, other = place.open(), place.open()
    assert one.open("new") is None
    assert other.open("new") is None
    written(other, "new", said("user", "second"))
    with pytest.raises(SessionStoreError, match="was taken over by process"):
        written(one, "new", said("user", "first"))
    assert one.read("new").messages == (said("user", "second"),)


HOLDERS = """
import os, signal, sys
from mcpagent import *
from tests.journal.sessions.journal import journal
forking = os.fork() == 0
store = Sessions(sys.argv[1])
for name in ("forked",) if forking else ("a", "b"):
    store.write(name, journal("x")).result()
if forking:
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(writing)
        os.read(reading, 1)  # until its parent is dead
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)
os.wait()
print("ready", flush=True)
sys.stdin.read()
"""
"""A process that holds "a" and "b", after another one, which held "forked" and had a fork, is dead."""


def test_what_a_dead_process_held_is_free(place: Place) -> None:
    """Nor does a fork hold what its parent held, or live on as if that one did."""
    store = place.open()
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDERS, place.where], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == b"ready\n"
        with pytest.raises(SessionBusyError, match=f"process {child.pid} "):
            store.open("a")
    finally:
        child.kill()
        child.communicate(timeout=30)  # which comes to its end when the fork is over too
    for _ in range(100):  # a server may see the end of a connection a moment later
        if all(info.holder is None for info in store.sessions()):
            break
        threading.Event().wait(0.05)
    assert store.open("a") is not None
    assert store.open("forked") is not None
    assert [f"process {child.pid} " in line for line in store.check()] == [True]
    assert store.check() == []
    assert store.open("b") is not None


def test_who_lost_a_session_writes_no_more(place: Place) -> None:
    one, other = place.open(), place.open()
    written(one, "a", said("user", "first"))
    place.lose_hold(one)
    assert other.open("a") is not None
    with pytest.raises(SessionStoreError, match="was taken over by process"):
        written(one, "a", said("user", "late"), keep=1)
    written(other, "a", said("user", "mine"), keep=1)
    assert [message.text for message in other.read("a").messages] == ["first", "mine"]


def test_words_of_a_search_are_no_operators(place: Place) -> None:
    store = place.open()
    written(store, "a", said("user", "The tea at five, a-b"), said("assistant", "Thé et café"), said("tool", "tea"))
    written(store, "b", said("user", "coffee"))
    expected = {
        "tea": [("a", 0)],
        "TEA at": [("a", 0)],
        "thé": [("a", 0), ("a", 1)],
        "a-b": [("a", 0)],
        "tea*": [("a", 0)],
        **{words: [] for words in ['"', "tea OR", "NEAR(tea", "col:tea", "' & !", "\\"]},
    }
    found = {words: sorted((item.session.id, item.place) for item in store.search(words)) for words in expected}
    assert found == expected


def test_what_is_found_stands_in_an_excerpt(place: Place) -> None:
    store = place.open()
    written(store, "a", said("user", f"{'before ' * 50} the Señor came {'after ' * 50}"))
    (found,) = store.search("senor")
    assert "Señor came" in found.excerpt
    assert len(found.excerpt) < 200
    assert store.match("senor")[0].id == "a"
    with pytest.raises(InputError):
        store.search("  ")


def test_a_very_long_message_is_kept(place: Place) -> None:
    store = place.open()
    text = " ".join(f"w{number}" for number in range(50_000))
    written(store, "a", said("user", text))
    assert store.read("a").messages[0].text == text
    assert len(store.search("w77")) == 1
    assert len(store.search("w77")[0].excerpt) < 500


@pytest.mark.parametrize("session", ["../x", "'; DROP TABLE sessions --", "\U0001f600", "%s ? :a", '"', "x" * 200, " "])
async def test_any_printable_id_is_an_id(place: Place, session: str) -> None:
    store = place.open()
    async with Agent(ScriptedModel(["hi"]), sessions=store) as agent:
        await agent.session(session).ask("hello")
    assert [info.id for info in store.sessions()] == [session]
    assert store.read(session).messages[-1].text == "hi"
    assert store.fork(session, "copy") == "copy"
    store.delete(session)
    assert [info.id for info in store.sessions()] == ["copy"]
    store.delete("copy")


@each_row("session", ["", "\0", "a\nb", "x" * 10_000, "\ud800", "\x1b[31m"])
async def test_what_is_no_id_is_told(tmp_path: Path, session: str) -> None:
    store = Sessions(tmp_path / "s.db")
    async with Agent(ScriptedModel([]), sessions=store) as agent:
        with pytest.raises(InputError, match="session id: expected 1 to 200 printable characters"):
            agent.session(session)
    store.close()


def test_managing(place: Place) -> None:
    store = place.open()
    call = Message("assistant", (ToolCall("1", "t", {}),))
    history = (said("user", "q"), call, Message("tool", (ToolResult("1", "t", (Text("r"),)),)), said("assistant", "a"))
    written(store, "one", *history, spent={"x": 1}, run={"y": 1})
    assert store.fork("one", "two", length=2) == "two"
    assert store.read("two").messages == history[:1]
    assert store.read("two").values == {}
    assert store.read(store.fork("one")).values == {"run": {"y": 1}}
    with pytest.raises(InputError, match='there is a session "two" already'):
        store.fork("one", "two")
    store.rename("two", "Tea\x1b[31m time")
    assert store.read("two").info.title.startswith("Tea")
    assert store.read("two").info.is_named
    assert "\x1b" not in store.read("two").info.title
    for work in (store.delete, store.read, lambda name: store.rename(name, "x"), store.fork):
        with pytest.raises(InputError, match='there is no session "none"'):
            work("none")
    other = place.open()
    assert [info.id for info in other.prune(1e12) if info.id in ("one", "two")] == ["two"]  # `one` is held
    assert store.check() == []


def test_which_tools_there_were_is_kept_of_so_many() -> None:
    async def nothing(arguments: dict[str, Any]) -> ToolOutput:
        return ToolOutput.of_text("nothing")

    def tools(count: int) -> tuple[Tool, ...]:
        return tuple(Tool(ToolDefinition(f"t{n}", "", {}, "s" if n % 2 else None), nothing) for n in range(count))

    few = KnownTools(tools(3))
    assert few.to_json() == {"": ["t0", "t2"], "s": ["t1"]}
    assert KnownTools.from_json(few.to_json()) == few == KnownTools(tools(3))
    assert few != KnownTools(tools(4))
    assert KnownTools(tools(MAX_KNOWN)).to_json() is not None
    assert KnownTools(tools(MAX_KNOWN + 1)).to_json() is None
    assert KnownTools.from_json(None) is None


async def test_what_was_all_taken_back_is_not_listed(place: Place) -> None:
    store = place.open()
    async with Agent(ScriptedModel(["one", "two"]), sessions=store) as agent:
        session = agent.session("ann")
        await session.ask("hello")
        assert [info.id for info in store.sessions()] == ["ann"]
        session.rewind(0)
        assert store.sessions() == []
        assert store.read("ann").messages == ()
        assert await session.ask("hello") == "two"
        assert [info.messages for info in store.sessions()] == [2]
        session.rewind(0)
    assert store.sessions() == []
    assert [info.id for info in store.prune(time.time() + 60)] == ["ann"]
    store.close()


def test_a_newer_store_is_told_and_left_as_it_is(place: Place) -> None:
    store = place.open()
    written(store, "a", said("user", "x"))
    newer = (*migrations(store), ("CREATE TABLE later(x INTEGER)",))
    after = place.backend(newer)
    assert [stored.id for stored in after.list()] == ["a"]
    known = place.backend().version
    told = rf"was written by a newer mcpagent \(tables {known + 1}, this one knows {known}\); update"
    with pytest.raises(SessionStoreError, match=told):
        written(store, "a", said("user", "y"), keep=1)
    store.close()
    with pytest.raises(SessionStoreError, match="newer mcpagent"):
        place.open().sessions()
    stored = after.read("a", MESSAGE)
    assert stored is not None
    assert len(stored.entries) == 1
    after.close()


def test_deleted_data_is_gone_and_its_space_returned(place: Place) -> None:
    if place.server is not None:
        return  # a server returns space by itself
    store = place.open()
    written(store, "jam", said("user", "x"))
    for number in range(20):
        data = {"tool": "get", "output": "x" * 100_000, "images": "[]"}
        store.put_output("jam", f"out_{number}", data).result(30)
    [[before]] = place.run("PRAGMA page_count")
    store.delete("jam")
    [[after]] = place.run("PRAGMA page_count")
    assert after < before / 4
    store.close()
    for file in Path(place.where).parent.rglob("*"):
        assert not file.is_file() or b"xxxx" not in file.read_bytes()


def test_a_store_from_before_the_first_release_is_told_and_left_as_it_is(place: Place) -> None:
    store = place.open()
    written(store, "a", said("user", "x"))
    store.close()
    version = "PRAGMA user_version" if place.server is None else "SELECT version FROM mcpagent.store_version"
    lower = "PRAGMA user_version = 3" if place.server is None else "UPDATE mcpagent.store_version SET version = 3"
    place.run(lower)
    with pytest.raises(SessionStoreError, match=r"before its first release \(tables 3\); use another"):
        place.open().sessions()
    assert place.run(version) == [(3,)]


def test_a_migration_that_fails_leaves_what_was_there(place: Place) -> None:
    store = place.open()
    written(store, "a", said("user", "x"))
    broken = place.backend((*migrations(store), ("CREATE TABLE later(x INTEGER)", "NO SQL")))
    with pytest.raises(SessionStoreError):
        broken.list()
    broken.close()
    assert store.read("a").messages == (said("user", "x"),)
    again = place.backend((*migrations(store), ("CREATE TABLE later(x INTEGER)",)))
    assert len(again.list()) == 1
    again.close()


def test_eight_open_it_first(place: Place) -> None:
    stores = [place.open() for _ in range(8)]
    ready = threading.Barrier(8)

    def first(number: int) -> None:
        ready.wait(30)
        written(stores[number], f"s{number}", said("user", "x"))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(first, range(8))) == [None] * 8
    assert len(stores[0].sessions()) == 8


def test_a_fork_has_a_store_of_its_own(place: Place) -> None:
    store = place.open()
    written(store, "a", said("user", "parent"))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        told = b"nothing"
        try:
            try:
                store.open("a")
            except SessionBusyError:
                written(store, "b", said("user", "child"))
                store.close()
                told = b"busy"
        except BaseException as error:  # noqa: BLE001 - told to the test
            told = repr(error).encode()
        finally:
            os.write(writing, told)
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b"busy"
    os.waitpid(child, 0)
    written(store, "a", said("user", "still mine"), keep=1)
    assert store.read("b").messages == (said("user", "child"),)
    assert store.read("a").info.messages == 2
    assert store.check() == []


# -- with agents -------------------------------------------------------------------------------------------------------


async def test_two_agents_in_one_process(place: Place) -> None:
    store = place.open()
    async with (
        Agent(ScriptedModel(["1", "2"]), sessions=store) as one,
        Agent(ScriptedModel(["3"]), sessions=store) as two,
    ):
        session = one.session("a")
        await session.ask("x")
        with pytest.raises(SessionBusyError, match=f"process {os.getpid()} on "):
            two.session("a")
        with pytest.raises(SessionBusyError):
            await asyncio.to_thread(two.session, "a")
        await session.ask("y")
        del session
        gc.collect()
        assert [message.text for message in (await asyncio.to_thread(two.session, "a")).messages] == [
            "x",
            "1",
            "y",
            "2",
        ]


async def test_one_agent_opens_it_several_times_at_once(place: Place) -> None:
    store = place.open()
    async with Agent(ScriptedModel(["1"]), sessions=store) as agent:
        await agent.session("a").ask("x")
        gc.collect()
        first, *others = await asyncio.gather(*(asyncio.to_thread(agent.session, "a") for _ in range(5)))
        assert all(other is first for other in others)
        opening = asyncio.ensure_future(asyncio.to_thread(agent.session, "b"))
        await asyncio.sleep(0)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
    assert all(info.holder is None for info in place.open().sessions())


async def test_nobody_has_a_session_that_is_gone(place: Place) -> None:
    store, other = place.open(), place.open()
    async with Agent(ScriptedModel(["1", "2"]), sessions=store) as agent:
        session = agent.session("a")
        await session.ask("x")
        session._runtime.begin_anew()
        fresh = session.id
        await session.ask("y")
        assert other.open("a") is not None
        other.release("a")
        with pytest.raises(SessionBusyError):
            other.open(fresh)
        del session
        gc.collect()
        store.flush().result(30)
        assert other.open(fresh) is not None


async def test_messages_that_are_given_to_a_session_that_is_there(place: Place) -> None:
    store, other = place.open(), place.open()
    async with Agent(ScriptedModel(["1"]), sessions=store) as agent:
        await agent.session("a").ask("x")
        gc.collect()
        with pytest.raises(InputError, match="has messages of its own"):
            agent.session("a", messages=[said("user", "other")])
        store.flush().result(30)
        assert other.open("a") is not None


def test_agents_without_an_event_loop_of_yours(place: Place) -> None:
    store = place.open()
    with Agent(ScriptedModel(["1", "2"]), sessions=store) as agent:
        session = agent.session("a")
        assert session.ask_sync("x") == "1"
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(session.ask_sync, "y").result(30) == "2"
    with Agent(ScriptedModel(["3"]), sessions=store) as agent:
        assert len(agent.session("a").messages) == 4
        assert agent.session("a").ask_sync("z") == "3"
    assert store.read("a").info.turns == 3


async def test_an_agent_that_closes_in_the_middle_of_a_run(place: Place) -> None:
    store = place.open()
    begun = asyncio.Event()

    async def wait() -> str:
        """Waits."""
        begun.set()
        await asyncio.sleep(60)
        return "never"

    agent = Agent(ScriptedModel([ToolCall("1", "wait", {})]), tools=[wait], sessions=store)
    async with agent:
        asking = asyncio.ensure_future(agent.session("a").ask("x"))
        await asyncio.wait_for(begun.wait(), 30)
    with pytest.raises(AgentStateError):
        await asking
    async with Agent(ScriptedModel(["done"]), tools=[wait], sessions=place.open()) as agent:
        session = agent.session("a")
        assert session.is_unfinished
        assert session.messages[-1].role == "tool"
        assert await session.resume() == "done"


async def test_what_cannot_be_written_is_not_acknowledged_and_comes_later(place: Place) -> None:
    store = place.open()
    async with Agent(ScriptedModel(["1", "2", "3"]), sessions=store) as agent:
        session = agent.session("a", tool_context=ToolContext())
        await session.ask("x")
        place.run("ALTER TABLE entries RENAME TO gone")
        with pytest.raises(SessionStoreError):
            await session.ask("y")
        place.run("ALTER TABLE gone RENAME TO entries")
        assert await session.ask("z") == "2"
    kept = place.open().read("a").messages
    assert [message.text for message in kept] == [message.text for message in session.messages]
    assert [message.text for message in kept][-2:] == ["z", "2"]


async def test_a_write_that_nobody_waited_for_does_not_fail_the_next_one(place: Place) -> None:
    store = place.open()
    keeper, conversation = SessionWriter(store, "a"), Conversation()
    conversation.say([Text("x")])
    await keeper.write(conversation, SavedState(), model="m")
    place.run("ALTER TABLE entries RENAME TO gone")
    conversation.say([Text("y")])
    failing = keeper.write_soon(conversation, SavedState(), model="m")
    store._running().soon(lambda: place.run("ALTER TABLE gone RENAME TO entries"))
    conversation.say([Text("z")])
    await keeper.write(conversation, SavedState(), model="m")
    assert failing is not None
    assert isinstance(failing.exception(), SessionStoreError)
    kept = place.open().read("a").messages
    assert [message.text for message in kept] == [message.text for message in conversation.messages]
