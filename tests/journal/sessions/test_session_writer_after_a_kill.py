"""Each state that a store has between two writes, gone on from in another agent, as after a kill at that moment."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from mcpagent import Agent, Message, ScriptedModel, Sessions, ToolCall
from mcpagent.history.conversation import UNKNOWN
from mcpagent.models.base import ModelRequest
from mcpagent.toolsets.functions import function_tool

QUESTION = "Do it all."


class Outside:
    """What tools did outside of the agent, which no kill takes back."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.may_look = threading.Event()
        self.may_look.set()

    def tools(self) -> list[Any]:
        def book(place: str) -> str:
            """Books a place."""
            self.done.append(f"book {place}")
            return f"booked {place}"

        def look(place: str) -> str:
            """Looks at a place."""
            assert self.may_look.wait(30)
            self.done.append(f"look {place}")
            return f"seen {place}"

        return [function_tool(book), function_tool(look, read_only=True)]


def replies(request: ModelRequest) -> list[ToolCall] | str:
    """By what the history has: a row of calls, two at once, one more, and the end."""
    last = request.messages[-1]
    results = sum(len(message.tool_results) for message in request.messages)
    if results == 0:
        return [ToolCall("1", "book", {"place": "a"})]
    if results == 1:
        return [ToolCall("2", "book", {"place": "b"}), ToolCall("3", "look", {"place": "b"})]
    if results == 3:
        return [ToolCall("4", "look", {"place": "c"})]
    assert last.role in ("tool", "user")
    return "done"


def model() -> ScriptedModel:
    return ScriptedModel([replies] * 12)


def copy_of(store: Path, to: Path) -> None:
    """The database as a process finds it after another one was killed: with its log, as it is."""
    to.mkdir()
    for name in ("", "-wal"):
        if (source := store.with_name(store.name + name)).exists():
            shutil.copy(source, to / source.name)


async def states(tmp_path: Path) -> list[tuple[Path, list[str]]]:
    """The database after each write of a run, and what the tools had done by then."""
    outside, taken = Outside(), list[tuple[Path, list[str]]]()
    # The look ends behind the booking beside it, so that one state has a result of a call whose neighbour runs.
    outside.may_look.clear()
    store = Sessions(tmp_path / "first" / "s.db")
    inside: Any = store._store
    append = inside.append

    def appending(session: str, entries: Any, owner: Any) -> bool:
        is_written = append(session, entries, owner)
        to = tmp_path / f"state{len(taken)}"
        copy_of(tmp_path / "first" / "s.db", to)
        taken.append((to / "s.db", list(outside.done)))
        if any(entry.key == "s/call/2" and entry.kind == "call_ended" for entry in entries):
            outside.may_look.set()
        return bool(is_written)

    inside.append = appending
    async with Agent(model(), tools=outside.tools(), sessions=store) as agent:
        assert await agent.session("ann").ask(QUESTION) == "done"
    store.close()
    assert outside.done == ["book a", "book b", "look b", "look c"] or len(outside.done) == 4
    return taken


def valid(messages: Sequence[Message]) -> None:
    """Each call has its result right behind it, once."""
    for place, message in enumerate(messages):
        if message.tool_calls:
            results = messages[place + 1].tool_results
            assert [result.call_id for result in results] == [call.id for call in message.tool_calls]


async def test_each_state_goes_on_to_the_same_answer(tmp_path: Path) -> None:
    taken = await states(tmp_path)
    assert len(taken) >= 10
    for path, done in taken:
        outside = Outside()
        outside.done = list(done)
        store = Sessions(path)
        async with Agent(model(), tools=outside.tools(), sessions=store) as agent:
            session = agent.session("ann")
            before = [message.text for message in session.messages if message.role == "user"]
            assert before == [QUESTION]
            if session.is_unfinished:
                assert await session.resume() == "done"
            assert session.messages[-1].text == "done"
            valid(session.messages)
            assert outside.done.count("book a") <= 1
            assert outside.done.count("book b") <= 1
            unknown = [r for m in session.messages for r in m.tool_results if r.text == UNKNOWN]
            for result in unknown:
                assert result.name == "book"
            once = session.messages
        store.close()
        again = Sessions(path)
        async with Agent(ScriptedModel([]), tools=outside.tools(), sessions=again) as agent:
            session = agent.session("ann")
            assert session.messages == once
            assert not session.is_unfinished
        again.close()
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def test_a_call_that_was_sent_is_unknown_and_asked_questions_go_on(tmp_path: Path) -> None:
    taken = await states(tmp_path)
    told = 0
    for path, _ in taken:
        store = Sessions(path)
        async with Agent(ScriptedModel(["fine"]), tools=Outside().tools(), sessions=store) as agent:
            session = agent.session("ann")
            assert await session.ask("And now?") == "fine"
            valid(session.messages)
            told += any(r.text == UNKNOWN for m in session.messages for r in m.tool_results)
        store.close()
    assert told >= 2


async def test_a_tool_that_went_and_came_back_while_nobody_was_there(tmp_path: Path) -> None:
    store, tools = Sessions(tmp_path / "s.db"), Outside().tools()
    offers: list[list[str]] = []

    def answer(request: ModelRequest) -> str:
        offers.append([tool.name for tool in request.tools])
        return "fine"

    for there in (tools, [], tools, tools[:1], tools):
        async with Agent(ScriptedModel([answer]), tools=there, sessions=store) as agent:
            assert await agent.session("ann").ask("And now?") == "fine"
    assert offers[0] == ["book", "look"]
    assert sorted(offers[-1]) == ["book", "look"]
    assert offers[1] == []
    store.close()


async def test_a_result_belongs_to_a_call_with_the_same_arguments_alone(tmp_path: Path) -> None:
    """Another call under the ID of one that is journaled gets no result of it, and is not sent either."""
    seen = 0
    for path, done in await states(tmp_path):
        with closing(sqlite3.connect(path)) as connection:
            ended = "SELECT data FROM entries WHERE key = 's/call/2' AND kind = 'call_ended'"
            if not connection.execute(ended).fetchall():
                continue
            other = ('{"place":"b"}', '{"place":"z"}')
            changed = "UPDATE entries SET data = replace(data, ?, ?) WHERE kind = 'message'"
            connection.execute(changed, other)
            connection.commit()
        seen += 1
        outside, store = Outside(), Sessions(path)
        outside.done = list(done)
        async with Agent(model(), tools=outside.tools(), sessions=store) as agent:
            session = agent.session("ann")
            [unknown] = [r for m in session.messages for r in m.tool_results if r.call_id == "2"]
            assert unknown.text == UNKNOWN
            assert await session.resume() == "done"
        store.close()
        assert [one for one in outside.done if one.startswith("book")] == ["book a", "book b"]
    assert seen
