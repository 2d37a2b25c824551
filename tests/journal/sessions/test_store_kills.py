"""kill -9 at whatever moment: all that was acknowledged is there, and the session comes to the same end."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, Sessions, SessionStoreError
from mcpagent.journal.sessions import sqlite
from mcpagent.journal.sessions.sqlite import SqliteStore
from tests.journal.sessions.conftest import Place
from tests.journal.sessions.journal import journal
from tests.journal.sessions.postgres_server import postgres_server
from tests.journal.sessions.scripted_turns import Outside, agent, go_on
from tests.terminal.process import ROOT, environment

BORDERS = 9


def killed(place: str, folder: Path, kills: int, times: int, seconds: float, seed: int = 0) -> dict[str, Any]:
    arguments = [place, folder, kills, times, seed]
    # Python 3.12 takes a thread for alive that has ended and been joined, as long as the system still counts it.
    quiet = ["-W", "ignore:This process:DeprecationWarning"]
    command = [sys.executable, *quiet, "-m", "tests.journal.sessions.killed_sessions", *map(str, arguments)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(folder / "home"),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    told: dict[str, Any] = json.loads(done.stdout)
    print(told)
    assert told["wrong"] == []
    assert told["kills"] == kills + BORDERS * times
    assert sorted(told["at_border"].values()) == [times] * BORDERS
    assert done.stderr == ""
    return told


@pytest.mark.slow
def test_some_kills_of_sessions_in_a_file(tmp_path: Path) -> None:
    assert killed("sqlite", tmp_path, 4, 1, 100)["acknowledged"] > 0


@pytest.mark.slow
def test_some_kills_of_sessions_in_a_server(tmp_path: Path) -> None:
    server = postgres_server()
    killed(server.address(server.new_database()), tmp_path, 4, 1, 110)


@pytest.mark.attack
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("kind", "kills", "seed"), [("sqlite", 350, 1), ("sqlite", 350, 2), ("postgres", 300, 3)])
def test_1000_kills_and_20_at_each_border(
    tmp_path: Path, kind: str, kills: int, seed: int, share_of_seeds: float
) -> None:
    """With `--seeds all`: a thousand; else a quarter, as for all attacks."""
    kills = int(kills * share_of_seeds)
    place = kind
    if kind == "postgres":
        server = postgres_server()
        place = server.address(server.new_database())
    told = killed(place, tmp_path, kills, 10 if kind == "sqlite" else 20, 880, seed)
    assert told["acknowledged"] > kills
    assert told["unknown"] > 0


# -- where something else is killed, or lost ---------------------------------------------------------------------------


def in_a_fork(work: Any) -> None:
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


@pytest.mark.slow
def test_a_kill_while_the_tables_are_changed(place: Place) -> None:
    """There is the old version or the new one, and the next process goes on from it."""
    store = place.open()
    store.write("a", journal("x")).result(30)
    store.close()
    known = place.backend().migrations
    later = (
        "ALTER TABLE entries ADD COLUMN color TEXT",
        "CREATE TABLE later(x INTEGER)",
        "INSERT INTO later(x) VALUES(1)",
    )
    for place_of_kill in range(8):

        def migrate(number: int = place_of_kill) -> None:
            backend: Any = place.backend((*known, later))
            seen = 0

            def counted(connection: Any) -> Any:
                execute = connection.execute

                def executing(sql: Any, *values: Any) -> Any:
                    nonlocal seen
                    if any(
                        str(sql).startswith(word) for word in ("ALTER", "CREATE", "INSERT INTO l", "UPDATE", "PRAGMA")
                    ):
                        seen += 1
                        if seen > number:
                            os.kill(os.getpid(), signal.SIGKILL)
                    return execute(sql, *values)

                return executing

            if place.server is not None:
                execute = backend.execute
                backend.execute = counted(type("C", (), {"execute": staticmethod(execute)}))
                backend.list()
            else:
                make = backend._migrate

                class Watched:
                    def __init__(self, inside: Any) -> None:
                        self.execute = counted(inside)

                backend._migrate = lambda connection: make(Watched(connection))
                backend.list()

        in_a_fork(migrate)
        tables = (
            "SELECT count(*) FROM sqlite_master WHERE name = 'later'"
            if place.server is None
            else "SELECT count(*) FROM pg_class WHERE relname = 'later'"
        )
        made = int(place.run(tables)[0][0])
        version = (
            place.run("PRAGMA user_version") if place.server is None else place.run("SELECT version FROM store_version")
        )[0][0]
        assert version == place.backend().version + made
        if made:
            break
        before = place.backend()
        assert len(before.list()) == 1
        before.close()
    assert place_of_kill > 2
    backend = place.backend((*known, later))
    assert [stored.id for stored in backend.list()] == ["a"]
    backend.close()
    assert place.run("SELECT x FROM later") == [(1,)]
    with pytest.raises(SessionStoreError, match="newer"):
        place.open().sessions()


async def test_a_loss_of_power_leaves_a_beginning_of_the_history(tmp_path: Path) -> None:
    """The file as it was, and any part of the log that had come to the disk (docs: sqlite.org/walformat.html)."""
    store, outside = Sessions(tmp_path / "s.db", durability="full"), Outside(tmp_path / "log")
    async with agent(store, outside) as made:
        session = made.session("a")
        await go_on(session)
        messages = session.messages
        store.flush().result(30)
        data, log = (tmp_path / "s.db").read_bytes(), (tmp_path / "s.db-wal").read_bytes()
    store.close()
    assert len(log) > 50_000
    chance, lengths = random.Random(3), set[int]()
    cuts = [0, 31, 32, len(log), *(chance.randrange(len(log)) for _ in range(30))]
    for number, cut in enumerate(cuts):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "s.db").write_bytes(data)
        (folder / "s.db-wal").write_bytes(log[:cut])
        lost = SqliteStore(folder / "s.db", "full", sqlite.MIGRATIONS)
        assert [line for line in lost.check() if line != "ok"] == []
        lost.close()
        with SessionStoreOf(folder / "s.db") as after:
            kept = after.read("a").messages if after.sessions() else ()
            assert kept == messages[: len(kept)]
            lengths.add(len(kept))
        shutil.rmtree(folder)
    assert len(messages) in lengths
    assert len(lengths) > 5


class SessionStoreOf:
    def __init__(self, path: Path) -> None:
        self._store = Sessions(path)

    def __enter__(self) -> Sessions:
        return self._store

    def __exit__(self, *_: object) -> None:
        self._store.close()


async def test_an_approval_that_waited_still_waits(place: Place) -> None:
    from mcpagent import ScriptedModel, ToolCall, function_tool
    from mcpagent.errors import McpAgentError

    ran: list[str] = []

    def pay(to: str) -> str:
        """Pays."""
        ran.append(to)
        return f"paid {to}"

    def made(store: Sessions, *replies: Any) -> Agent[Any]:
        return Agent(ScriptedModel(replies), tools=[function_tool(pay)], approval=True, sessions=store)

    async with made(place.open(), [ToolCall("1", "pay", {"to": "ann"}), ToolCall("2", "pay", {"to": "bob"})]) as agent:
        with pytest.raises(McpAgentError):
            await agent.session("a").ask("Pay.")
    async with made(place.open()) as agent:
        session = agent.session("a")
        first = session.pending
        assert [(call.call_id, call.arguments) for call in first] == [("1", {"to": "ann"}), ("2", {"to": "bob"})]
        assert not session.is_unfinished
        assert ran == []
    async with made(place.open(), "done") as agent:
        session = agent.session("a")
        assert session.pending == first
        assert await session.resume([session.pending[0].approve(), session.pending[1].deny("no")]) == "done"
        assert ran == ["ann"]
