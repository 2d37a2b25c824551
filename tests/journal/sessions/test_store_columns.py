"""A column of another type than mcpagent writes is one line with the file and the fix, not an internal error."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from pathlib import Path

import pytest

from mcpagent import Agent, ScriptedModel, Sessions
from mcpagent.cli.app import run


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A file with one session in it."""

    async def fill() -> None:
        store = Sessions(tmp_path / "s.db")
        async with Agent(ScriptedModel(["hello"]), sessions=store) as agent:
            await agent.session("ann").ask("hi there")
        store.close()

    asyncio.run(fill())
    return tmp_path / "s.db"


@pytest.mark.parametrize("column", ["session", "data", "time"])
def test_it_is_told_in_one_line(column: str, stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, value in enumerate(("x'ff'", "'text'", "5", "9e999")):
        path = stored.with_name(f"{column}{number}.db")
        shutil.copy(stored, path)
        database = sqlite3.connect(path)
        database.execute(f"UPDATE entries SET {column} = {value}")
        database.commit()
        database.close()
        for command in (["sessions", "list"], ["sessions", "show", "ann"], ["trace", "show", "ann"]):
            run([*command, "--set", f"session_db={path}"])
            said = capsys.readouterr().err
            assert "internal error" not in said
            assert said.count("\n") <= 1
