"""Taking back messages of a conversation takes back what their programs did to its variables."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, ScriptedModel, Sessions, ToolCall
from mcpagent.agents.session import Session
from mcpagent.code_mode import memory
from mcpagent.code_mode.memory import Memory, ProgramVariables

pytestmark = pytest.mark.anyio


def scripted(*programs: str) -> ScriptedModel:
    """Run one program for each question."""
    replies = [(ToolCall(f"run {number}", "run_code", {"code": code}), "done") for number, code in enumerate(programs)]
    return ScriptedModel([reply for pair in replies for reply in pair])


def last_result(session: Session[Any]) -> str:
    return [one.text for message in session.messages for one in message.tool_results][-1]


@pytest.mark.parametrize("again", [False, True], ids=["the same process", "another process"])
async def test_a_rewind_restores_the_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, again: bool) -> None:
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "home"))
    programs = ["n = 1", "n = 2\nm = 5", "n = 3"]
    store = Sessions(tmp_path / "sessions.db")
    async with Agent(scripted(*programs, "n", "n"), code_mode=True, sessions=store) as agent:
        session = agent.session("it")
        lengths = [0]
        for _ in programs:
            await session.ask("go")
            lengths.append(len(session.messages))
        if not again:
            session.rewind(lengths[2])
            await session.ask("go")
            assert last_result(session) == "2"
            session.rewind(lengths[1])
            await session.ask("go")
            assert last_result(session) == "1"
            session.rewind(0)
            assert not session.messages
            return
    async with Agent(scripted("n, m", "m"), code_mode=True, sessions=store) as agent:
        session = agent.session("it")
        session.rewind(lengths[2])
        await session.ask("go")
        assert last_result(session) == "(2, 5)"
        session.rewind(lengths[1])
        await session.ask("go")
        assert "unresolved-reference" in last_result(session)
    store.close()
    with closing(sqlite3.connect(tmp_path / "sessions.db")) as database:
        kept = database.execute(
            "SELECT substr(key, 9) FROM entries WHERE key LIKE 's/value/programs/%' ORDER BY key"
        ).fetchall()
    assert [name for (name,) in kept] == ["programs/variables"]  # those that were taken back are gone


def test_the_oldest_variables_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_KEPT", 10)
    one = Memory()
    for place in (2, 4, 6):
        one.state = str(place).encode() * 4
        one.mark(place)
    one.rewind(5, (), 5)
    assert (one.state, one.lost) == (b"4444", "")
    one.rewind(3, (), 3)
    assert (one.state, "not kept any more" in one.lost) == (b"", True)
    one.rewind(1, (), 1)
    assert (one.state, one.lost, one.earlier) == (b"", "", ())


def test_the_variables_of_another_place_are_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path))
    one = Memory()
    for place in (2, 4, 6):
        one.state = str(place).encode()
        one.mark(place)
    kept = one.to_json("mine")
    again = Memory.from_json(kept, "mine")
    assert again.earlier == one.earlier
    swapped = Memory.from_json({**kept, "variables@2": kept["variables@4"]}, "mine")
    assert [one.state for one in swapped.earlier] == [b"", b"4", b"6"]
    assert swapped.earlier[0] == ProgramVariables(2, lost=swapped.earlier[0].lost)
