"""What another process wrote into a session, or deleted of it, stays so, whatever this one believed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mcpagent import (
    Agent,
    McpAgentError,
    Message,
    RunOptions,
    ScriptedModel,
    SessionBusyError,
    Sessions,
    SessionStoreError,
    ToolCall,
)
from mcpagent.agents.durable import DurableRuns
from mcpagent.journal.sessions import Holder, StoredSession
from mcpagent.models.base import ModelRequest
from tests.agents.durable.test_runner_waiting import stored
from tests.journal.sessions.conftest import Place
from tests.journal.sessions.journal import journal
from tests.journal.sessions.test_protocol import InMemory
from tests.journal.sessions.test_store_secrets import everything
from tests.tables import each_row

LOST = "what is said here is not kept any more"
KEY = "Zq83hfLkQp29XmVb71RtYc55NsWd"


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]


def kept(store: Sessions, session: str) -> list[str]:
    return texts(store.read(session).messages)


def write(
    store: Sessions, session: str, text: str = "hello", *, updated: float = 1.0, run: str = "", **values: Any
) -> None:
    """A session of one message, which this process has from now on."""
    store.write(session, journal(text, title=text, updated=updated, **values), run=run).result(30)


def give_back(store: Sessions, session: str) -> None:
    store.open(session)
    store.release(session)
    store.flush().result(30)


async def answer(store: Sessions, session: str, *questions: str) -> list[str]:
    """Asks as another process would, from the opening of the session to its end; returns its texts."""
    model = ScriptedModel([f"answer to {question}" for question in questions])
    async with Agent(model, sessions=store) as agent:
        talk = agent.session(session)
        for question in questions:
            await talk.ask(question)
        said = texts(talk.messages)
    store.close()
    return said


async def test_two_processes_begin_a_session_and_the_slower_one_is_told(place: Place) -> None:
    store = place.open()
    async with Agent(ScriptedModel(["mine", "mine"]), sessions=store) as agent:
        session = agent.session("ann")
        theirs = await answer(place.open(), "ann", "one", "two")
        for question in ("three", "four"):
            with pytest.raises(SessionStoreError, match=f"was written or deleted by another process; {LOST}"):
                await session.ask(question)
    assert kept(place.open(), "ann") == theirs == ["one", "answer to one", "two", "answer to two"]
    assert store.check() == []


async def test_who_lost_a_session_does_not_write_over_its_next_holder(place: Place) -> None:
    store = place.open()
    async with Agent(ScriptedModel(["first", "mine", "mine"]), sessions=store) as agent:
        session = agent.session("ann")
        await session.ask("zero")
        store.flush().result(30)
        place.lose_hold(store)
        theirs = await answer(place.open(), "ann", "one", "two")
        for question in ("three", "four"):
            with pytest.raises(SessionStoreError, match=LOST):
                await session.ask(question)
    assert kept(place.open(), "ann") == theirs
    assert theirs[:3] == ["zero", "first", "one"]


async def test_large_results_do_not_take_a_session_back(place: Place) -> None:
    """Each of two parallel calls sets its result aside, after another process went on with the session."""
    both, answered = threading.Barrier(3), threading.Event()

    def big(number: int) -> str:
        """Gives much."""
        both.wait(30)
        assert answered.wait(30)
        return f"{number} line of it\n" * 9_000

    store, other = place.open(), place.open()
    calls = [ToolCall(str(number), "big", {"number": number}) for number in (1, 2)]
    async with Agent(ScriptedModel([calls, "mine"]), tools=[big], sessions=store) as agent:
        asking = asyncio.ensure_future(agent.session("ann").ask("zero"))
        await asyncio.to_thread(both.wait, 30)
        store.flush().result(30)
        place.lose_hold(store)
        async with Agent(ScriptedModel(["theirs", "more"]), tools=[big], sessions=other) as another:
            session = another.session("ann")
            assert await session.resume() == "theirs"
            assert await session.ask("one") == "more"
            theirs = session.messages
        other.close()
        answered.set()
        with pytest.raises(SessionStoreError, match=LOST):
            await asking
    assert place.open().read("ann").messages == theirs


@dataclass
class Lapsing(InMemory):
    """Its leases end while the process `stopped` does not run: until `goes_on` is set."""

    renew_seconds: float | None = 0.01
    stopped: Holder | None = None
    lapsed: threading.Event = field(default_factory=threading.Event)
    goes_on: threading.Event = field(default_factory=threading.Event)
    renewed: threading.Event = field(default_factory=threading.Event)

    def lease(self, session: str, owner: Holder) -> Holder | None:
        if owner != self.stopped:
            return super().lease(session, owner)
        del self.leases[session]
        self.lapsed.set()
        assert self.goes_on.wait(30)
        self.stopped = None
        other = super().lease(session, owner)
        self.renewed.set()
        return other


@each_row("is_deleted", [False, True])
async def test_a_renewal_does_not_take_back_what_another_one_used(is_deleted: bool) -> None:
    inside = Lapsing()
    store, other = Sessions(inside), Sessions(inside)
    async with Agent(ScriptedModel(["first", "mine"]), sessions=store) as agent:
        session = agent.session("ann")
        await session.ask("zero")
        inside.stopped = inside.leases["ann"]
        assert await asyncio.to_thread(inside.lapsed.wait, 30)
        theirs: list[str] = []
        if is_deleted:
            other.delete("ann")
        else:
            theirs = await answer(other, "ann", "one")
        inside.goes_on.set()
        assert await asyncio.to_thread(inside.renewed.wait, 30)
        with pytest.raises(SessionStoreError, match=LOST):
            await session.ask("two")
    store.close()
    assert ([] if is_deleted else kept(other, "ann")) == theirs
    assert ("ann" in inside.kept) is not is_deleted
    other.close()


async def test_a_copy_does_not_send_a_call_again_that_is_under_way(place: Place) -> None:
    paid: list[str] = []
    begun, ends = asyncio.Event(), asyncio.Event()

    async def pay(what: str) -> str:
        """Pays."""
        paid.append(what)
        begun.set()
        await ends.wait()
        return "paid"

    store = place.open()
    async with Agent(ScriptedModel([ToolCall("1", "pay", {"what": "tea"})]), tools=[pay], sessions=store) as agent:
        asking = asyncio.ensure_future(agent.session("ann").ask("x"))
        await asyncio.wait_for(begun.wait(), 30)
        store.flush().result(30)
        length = len(store.read("ann").messages)
        copies = [store.fork("ann"), store.fork("ann", length=length), store.fork("ann", length=99)]
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    ends.set()
    assert length == 2
    for copy in copies:
        async with Agent(ScriptedModel(["done"]), tools=[pay], sessions=place.open()) as agent:
            session = agent.session(copy)
            assert session.is_unfinished
            assert await session.resume() == "done"
            assert paid == ["tea"]


async def test_a_copy_is_not_written_over_by_who_has_its_id_open(place: Place) -> None:
    store = place.open()
    said = await answer(place.open(), "src", "one")
    async with Agent(ScriptedModel(["mine"]), sessions=place.open()) as agent:
        session = agent.session("new")
        assert store.fork("src", "new") == "new"
        with pytest.raises(SessionStoreError, match="was written or deleted by another process"):
            await session.ask("two")
    assert kept(store, "new") == said


def test_a_session_of_a_durable_run_is_not_deleted(place: Place) -> None:
    store = place.open()
    for name in ("a", "running", "z"):
        write(store, name)
    write(store, "running", durable="r1", run="r1", updated=2.0)
    for name in ("a", "running", "z"):
        give_back(store, name)
    for one in (store, place.open()):
        with pytest.raises(SessionBusyError, match='belongs to durable run "r1"') as caught:
            one.delete("running")
        assert caught.value.run == "r1"
    assert sorted(info.id for info in store.prune(50.0)) == ["a", "z"]
    assert [info.id for info in store.sessions()] == ["running"]
    assert kept(store, "running") == ["hello"]


@dataclass
class Listing(InMemory):
    """Something happens after a list is read, before anyone uses it."""

    renew_seconds: float | None = None
    after: Callable[[], None] = lambda: None

    def list(self) -> Sequence[StoredSession]:
        found = super().list()
        self.after()
        return found


@each_row("is_held", [False, True])
def test_what_was_used_since_it_was_listed_is_not_pruned(is_held: bool) -> None:
    inside = Listing()
    store, other = Sessions(inside), Sessions(inside)

    def use() -> None:
        write(other, "b", "used again", updated=100.0)
        if not is_held:
            give_back(other, "b")

    for name in ("a", "b", "c"):
        write(store, name)
        give_back(store, name)
    inside.after = use
    assert sorted(info.id for info in store.prune(50.0)) == ["a", "c"]
    assert kept(store, "b") == ["used again"]
    assert ("b" in inside.leases) is is_held
    store.close()
    other.close()


async def test_no_title_ends_in_a_part_of_a_secret(place: Place) -> None:
    store = place.open(secrets=[KEY])
    async with Agent(ScriptedModel(["ok"] * 3), sessions=store) as agent:
        for before in (55, 65, 75):
            prompt = f"{'x' * before} {KEY}"
            session = agent.session(f"s{before}")
            await session.ask(prompt)
            title = store.read(session.id).info.title
            store.rename(session.id, prompt)
            for shown in (title, store.read(session.id).info.title):
                assert shown.startswith("x" * before)
                assert KEY[:4] not in shown
    assert KEY[:4] not in everything(place)


@pytest.mark.slow
async def test_no_end_of_a_run_ends_in_a_part_of_a_secret(tmp_path: Path) -> None:
    """Neither in the session nor in what the engine of durable runs stores."""

    def fail(request: ModelRequest) -> str:
        raise ValueError(f"{'x' * 470} {KEY}")

    durable, store = DurableRuns(tmp_path / "runs.db"), Sessions(tmp_path / "chats.db", secrets=[KEY])
    agent = Agent(ScriptedModel([fail]), sessions=store, options=RunOptions(wrappers=[durable]))
    async with asyncio.timeout(60), agent, durable.serving(agent):
        run = await durable.start("hello", session="ann", run="r1")
        with pytest.raises(McpAgentError) as raised:
            await run.result()
    store.close()
    assert str(raised.value).startswith("ValueError: xxx")
    for text in (str(raised.value), stored(tmp_path)):
        assert "xxx" in text
        assert KEY[:4] not in text


async def test_variables_that_a_rewind_took_back_do_not_come_back(place: Place) -> None:
    """Though the write of the rewind failed: the next one drops them."""
    store = place.open()
    assign, show = (ToolCall(str(number), "run_code", {"code": code}) for number, code in enumerate(("x = 41", "x")))
    async with Agent(ScriptedModel([assign, "set", "hello"]), code_mode=True, sessions=store) as agent:
        session = agent.session("ann")
        await session.ask("set x")
        store.flush().result(30)
        assert any("program" in name for name in store.read("ann").values)
        place.run("ALTER TABLE entries RENAME TO gone")
        session.rewind(0)
        store.flush().result(30)
        place.run("ALTER TABLE gone RENAME TO entries")
        assert await session.ask("hi") == "hello"
    store.close()
    async with Agent(ScriptedModel([show, "end"]), code_mode=True, sessions=place.open()) as agent:
        session = agent.session("ann")
        await session.ask("what is x?")
        assert "`x` used when not defined" in session.messages[-2].tool_results[0].text


def test_deleted_words_are_in_no_file(place: Place) -> None:
    """Also while the store is open, and another process has it open too."""
    store, other = place.open(), place.open()
    write(store, "a", "the quince marmalade")
    write(store, "b", "plum jam")
    store.put_output("a", "out_1", {"tool": "get", "output": "quinces " * 50_000, "images": "[]"}).result(30)
    assert [found.session.id for found in other.search("marmalade")] == ["a"]
    assert "marmalade" in everything(place)
    store.delete("a")
    for word in ("quince", "marmalade"):
        assert word not in everything(place)
    assert "plum" in everything(place)
    assert [found.session.id for found in other.search("jam")] == ["b"]
