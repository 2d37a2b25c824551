"""Runs that wait: for a session that somebody else has, for a place in the queue, for a worker of their model."""

from __future__ import annotations

import asyncio
import base64
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mcpagent import (
    Agent,
    AgentStateError,
    ConfigError,
    InputError,
    McpAgentError,
    ModelError,
    RunOptions,
    ScriptedModel,
    Sessions,
    SessionStoreError,
    ToolCall,
)
from mcpagent.agents.durable import DurableRuns
from mcpagent.agents.durable.queues import VERSION
from mcpagent.models.base import ModelRequest
from mcpagent.values.events import Event, Notice
from tests.journal.sessions.postgres_server import postgres_server
from tests.tables import each_row

SECONDS = 60.0
SECRET = "sk-this-is-no-real-key-1234567890"


@asynccontextmanager
async def served(agent: Agent[Any], durable: DurableRuns, **options: Any) -> AsyncIterator[None]:
    async with asyncio.timeout(SECONDS), agent, durable.serving(agent, **options):
        yield


def echo(request: ModelRequest) -> str:
    return f"answer to {request.messages[-1].text}"


def echoing(
    folder: Path, *, model: str = "", heard: Callable[[Event], None] | None = None, **limits: Any
) -> tuple[Agent[Any], DurableRuns, Sessions]:
    durable, store = DurableRuns(folder / "runs.db", **limits), Sessions(folder / "chats.db")
    scripted = ScriptedModel([echo] * 20)
    if model:
        scripted = ScriptedModel([echo] * 20, name=model)
    return Agent(scripted, sessions=store, options=RunOptions(wrappers=[durable]), on_event=heard), durable, store


async def in_state(run: Any, state: str) -> None:
    async with asyncio.timeout(SECONDS):
        while await run.state() != state:  # noqa: ASYNC110 - the engine has no event for it
            await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_a_run_whose_session_is_busy_takes_no_place_of_others(tmp_path: Path) -> None:
    """One at a time is done, and what waits for its session is not done; what was asked first is answered first."""
    agent, durable, store = echoing(tmp_path, at_once=1)
    other = Sessions(tmp_path / "chats.db")
    async with Agent(ScriptedModel([echo]), sessions=other) as elsewhere, served(agent, durable):
        chat = elsewhere.session("ann")  # of another process, as far as the stores know
        await chat.ask("mine")
        waiting = [await durable.start(f"question {number}", session="ann") for number in range(3)]
        free = await durable.start("free", session="bob")
        assert (await free.result()).answer == "answer to free"
        assert [await run.state() for run in waiting] == ["waiting"] * 3
        await durable.cancel(waiting[1].id)
        with pytest.raises(AgentStateError, match="was cancelled"):
            await waiting[1].result()
        chat._runtime.give_back()
        for number in (0, 2):
            assert (await waiting[number].result()).answer == f"answer to question {number}"
        assert await waiting[1].state() == "cancelled"
        mine = agent.session("carl")
        await mine.ask("mine")
        run = await durable.start("yours", session="carl")  # of this very process
        await in_state(run, "waiting")
        mine._runtime.give_back()
        assert (await run.result()).answer == "answer to yours"
    texts = [message.text for message in store.read("ann").messages if message.role == "user"]
    assert texts == ["mine", "question 0", "question 2"]
    store.close()
    other.close()


@pytest.mark.slow
async def test_leaving_does_not_wait_for_runs_that_wait(tmp_path: Path) -> None:
    agent, durable, store = echoing(tmp_path)
    other = Sessions(tmp_path / "chats.db")
    async with Agent(ScriptedModel([echo]), sessions=other) as elsewhere:
        chat = elsewhere.session("ann")
        await chat.ask("mine")
        async with served(agent, durable, stop_seconds=SECONDS * 10):
            run = await durable.start("yours", session="ann")
            await in_state(run, "waiting")
    again, durable_again, store_again = echoing(tmp_path)
    async with served(again, durable_again):
        assert (await (await durable_again.run(run.id)).result()).answer == "answer to yours"
        assert await asyncio.to_thread(lambda: "threads") == "threads"
    assert await asyncio.to_thread(lambda: "threads") == "threads"
    for one in (store, store_again, other):
        one.close()


@pytest.mark.slow
async def test_a_run_that_nobody_does_is_told(tmp_path: Path) -> None:
    heard: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, Notice):
            heard.append(event.text)

    agent, durable, store = echoing(tmp_path, model="test:mine", heard=hear, unserved_seconds=0.2)
    async with served(agent, durable, works=False):
        run = await durable.start("hello", session="ann")
        assert len(heard) == 1
        assert 'no worker does the runs of the model "test:mine": no worker is running' in heard[0]
        assert "mcpagent worker -m test:mine" in heard[0]
        with pytest.raises(AgentStateError, match=f'run "{run.id}" waits: no worker does'):
            await run.result()
    with closing(sqlite3.connect(tmp_path / "runs.db")) as database, database:
        database.execute("UPDATE workflow_status SET application_version = 'mcpagent-0'")
    async with served(agent, durable, works=False):
        with pytest.raises(AgentStateError, match=r"begun by another version of mcpagent \(mcpagent-0\)"):
            await (await durable.run(run.id)).result()
    with closing(sqlite3.connect(tmp_path / "runs.db")) as database, database:
        database.execute("UPDATE workflow_status SET application_version = ?", (VERSION,))
    worker, working, worker_store = echoing(tmp_path, model="test:mine")
    async with served(worker, working):
        assert (await (await working.run(run.id)).result()).answer == "answer to hello"
    store.close()
    worker_store.close()


@pytest.mark.slow
async def test_who_only_asks_leaves_the_bounds_as_they_are(tmp_path: Path) -> None:
    """A user whose sessions are many has the places of one user, whatever the client knows of that."""
    under_way: list[int] = []
    most = 0

    async def hold() -> str:
        """Takes its time."""
        nonlocal most
        under_way.append(1)
        most = max(most, len(under_way))
        await asyncio.sleep(0.3)  # as long as the engine takes to look for the next one
        under_way.pop()
        return "held"

    def reply(request: ModelRequest) -> ToolCall | str:
        return "done" if request.messages[-1].tool_results else ToolCall("1", "hold", {})

    agent, durable, store = echoing(tmp_path, per_user=1, at_once=5)
    async with served(agent, durable):
        pass
    client, asking, client_store = echoing(tmp_path)
    async with served(client, asking, works=False):
        runs = [await asking.start("hello", session=f"s{number}", user="ann\0\ud800") for number in range(3)]
    worker_store, working = Sessions(tmp_path / "chats.db"), DurableRuns(tmp_path / "runs.db", per_user=1)
    worker = Agent(
        ScriptedModel([reply] * 6), tools=[hold], sessions=worker_store, options=RunOptions(wrappers=[working])
    )
    async with served(worker, working):
        for run in runs:
            assert (await (await working.run(run.id)).result()).answer == "done"
    assert most == 1
    for one in (store, client_store, worker_store):
        one.close()


@pytest.mark.slow
async def test_ids_that_cannot_be_used_are_told(tmp_path: Path) -> None:
    agent, durable, store = echoing(tmp_path)
    wrong: list[Any] = ["a\0", "\ud800", " ", "x" * 201, "a\nb", 5]
    calls: list[Any] = [durable.run, durable.cancel, lambda run: durable.start("hello", run=run)]
    async with served(agent, durable, works=False):
        for call in calls:
            for run in wrong:
                with pytest.raises(InputError, match="run id"):
                    await call(run)
    store.close()


def stored(folder: Path) -> str:
    """All that both databases have, decoded too."""
    found: list[str] = []
    for name in ("runs.db", "chats.db"):
        with closing(sqlite3.connect(folder / name)) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            rows = [row for (table,) in tables for row in connection.execute(f"SELECT * FROM {table}")]
        for value in (str(value) for row in rows for value in row):
            found.append(value)
            try:
                found.append(base64.b64decode(value, validate=True).decode("utf-8", "replace"))
            except ValueError:
                continue
    return "\n".join(found)


class OwnError(Exception):
    """Of a user's own code."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["model", "own"])
async def test_no_secret_is_stored_of_what_ends_a_run(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", SECRET)

    def fail(request: ModelRequest) -> str:
        if kind == "own":
            raise OwnError(f"no {SECRET}", {"key": SECRET})
        raise ModelError(f"no {SECRET}", provider=SECRET, code=SECRET)

    durable, store = DurableRuns(tmp_path / "runs.db"), Sessions(tmp_path / "chats.db")
    agent = Agent(ScriptedModel([fail]), sessions=store, options=RunOptions(wrappers=[durable]))
    async with served(agent, durable):
        run = await durable.start(f"hello \0 \ud800 {SECRET}", session="ann", user=SECRET)
        with pytest.raises(McpAgentError) as raised:
            await run.result()
    assert "redacted" in str(raised.value)
    if kind == "model":
        assert isinstance(raised.value, ModelError)
    else:
        assert str(raised.value).startswith("OwnError: ")
    store.close()
    assert "hello" in stored(tmp_path)
    assert SECRET not in stored(tmp_path)


@each_row("wrong", ["mysql://host/name", "", "."])
def test_what_is_no_place_for_a_database(wrong: str) -> None:
    for kind in (DurableRuns, Sessions):
        with pytest.raises(ConfigError, match=r"write a file, or postgresql://"):
            kind(wrong)


def opened_here() -> set[Path]:
    """The files that this process has open, where there is a `/proc`."""
    found: set[Path] = set()
    for descriptor in Path("/proc/self/fd").glob("*"):
        with suppress(OSError):  # that of the folder itself
            found.add(descriptor.readlink())
    return found


async def test_a_database_that_cannot_be_used(tmp_path: Path) -> None:
    garbage, foreign, folder = tmp_path / "garbage.db", tmp_path / "foreign.db", tmp_path / "folder"
    garbage.write_text("no database at all, but more than a hundred characters of something else" * 9)
    with closing(sqlite3.connect(foreign)) as connection:
        connection.execute("CREATE TABLE theirs(a)")
    folder.mkdir()
    told: dict[str, str] = {}
    store = Sessions(tmp_path / "chats.db")
    for path in (garbage, foreign, folder, garbage / "runs.db"):
        durable = DurableRuns(path)
        agent = Agent(ScriptedModel([]), sessions=store, options=RunOptions(wrappers=[durable]))
        async with asyncio.timeout(SECONDS), agent:
            with pytest.raises(SessionStoreError) as raised:
                async with durable.serving(agent):
                    pass
        told[path.name] = str(raised.value)
        assert path not in opened_here(), "the error remembers what was open"
        assert str(path) in told[path.name]
        assert "name another one: --database FILE" in told[path.name]
    assert "damaged" in told["garbage.db"]
    assert "another program's" in told["foreign.db"]
    assert "is a folder" in told["folder"]
    with closing(sqlite3.connect(foreign)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
    store.close()


@pytest.mark.slow
async def test_a_postgresql_that_cannot_be_used(tmp_path: Path) -> None:
    """One line each: what, and what to do; never the password."""
    server = postgres_server()
    database, user = server.new_database(), f"weak{uuid4().hex[:8]}"
    server.run(f"CREATE ROLE {user} LOGIN PASSWORD 'pw-of-nobody'")
    cases = {
        "postgresql://ann:pw-of-nobody@127.0.0.1:1/x": "is the server running there",
        server.on_loopback(user, "pw-of-nobody-else", database): "check user and password",
        server.on_loopback(user, "pw-of-nobody", database): "GRANT CREATE ON DATABASE",
        "postgresql://a:pw-of-nobody@@:x/": "the address cannot be read; write postgresql://",
    }
    store = Sessions(tmp_path / "chats.db")
    for address, said in cases.items():
        durable = DurableRuns(address)
        agent = Agent(ScriptedModel([]), sessions=store, options=RunOptions(wrappers=[durable]))
        async with asyncio.timeout(SECONDS), agent:
            with pytest.raises(SessionStoreError) as raised:
                async with durable.serving(agent):
                    pass
        assert said in str(raised.value)
        assert "pw-of-nobody" not in f"{raised.value} {durable}"
    store.close()
