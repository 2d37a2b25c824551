"""A program that waits for approval continues on another machine whose workers share a key, and on no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from mcpagent import CallsPendingError, Sessions
from tests.code_mode.programs_scene import SEARCH, Tools
from tests.code_mode.test_program_answers import agent_of, last_result, run_code
from tests.journal.sessions.postgres_server import postgres_server

pytestmark = pytest.mark.anyio

PROGRAM = "from tools.functions import forbidden, shout\nkept = await shout(text='a')\nkept, await forbidden(path='a')"
PASSWORD = "horse-77-staple"


@pytest.fixture
def database() -> Iterator[str]:
    """The address of a database with a password, as its owner has it."""
    server, user = postgres_server(), f"u{uuid4().hex[:12]}"
    name = server.new_database()
    server.run(f"CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}'")
    server.run(f"ALTER DATABASE {name} OWNER TO {user}")
    yield server.on_loopback(user, PASSWORD, name)
    server.run(f"DROP DATABASE {name} WITH (FORCE)")
    server.run(f"DROP ROLE {user}")


async def on_two_machines(where: str, folder: Path, monkeypatch: pytest.MonkeyPatch, tools: Tools) -> str:
    """Return what the model was told of the program, which waited on one machine and was answered on another."""
    monkeypatch.setenv("MCPAGENT_HOME", str(folder / "first"))
    store = Sessions(where)
    async with agent_of(tools, SEARCH, run_code(PROGRAM), sessions=store) as agent:
        with pytest.raises(CallsPendingError):
            await agent.session("it").ask("go")
    store.close()
    monkeypatch.setenv("MCPAGENT_HOME", str(folder / "second"))
    store = Sessions(where)
    async with agent_of(tools, "done", sessions=store) as agent:
        session = agent.session("it")
        await session.resume([call.approve() for call in session.pending])
        told = last_result(session.messages)
    store.close()
    return told


async def test_workers_of_a_database_share_its_own_key(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = Tools()
    assert await on_two_machines(database, tmp_path, monkeypatch, tools) == "('A', 'deleted a')"
    assert tools.ran == [("shout", "a"), ("forbidden", "a")]


async def test_workers_share_the_key_of_their_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPAGENT_SIGNING_KEY", "one key for all workers of this test")
    tools = Tools()
    told = await on_two_machines(str(tmp_path / "sessions.db"), tmp_path, monkeypatch, tools)
    assert told == "('A', 'deleted a')"


async def test_without_a_shared_key_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = Tools()
    told = await on_two_machines(str(tmp_path / "sessions.db"), tmp_path, monkeypatch, tools)
    assert told.splitlines()[1:] == ["Calls with a known result:", '- functions.shout({"text": "a"}): "A"']
    assert tools.ran == [("shout", "a")]
