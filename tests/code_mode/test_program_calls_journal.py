"""The result of a program's call belongs to the call: a program whose state is lost is reported, not run again."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from mcpagent.code_mode import memory
from mcpagent.code_mode.memory import Memory
from tests.tables import each_row

killed = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")

SECRET = "token = 'ghp_' + 'A1b2' * 6"
LARGE = "large = 'x' * 9_000_000"

LOST = [
    ("a secret in its variables", SECRET, "", "home"),
    ("a state that is too large", LARGE, "", "home"),
    ("a damaged state", "", "replace(data, 'held', 'told')", "home"),
    ("a state that is gone", "", "'{}'", "home"),
    ("the key of another user", "", "", "other"),
]


def run(folder: Path, home: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "MCPAGENT_HOME": str(folder / home)}
    command = [sys.executable, "-m", "tests.code_mode.unkept_program", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, env=environ, check=False)


def change(store: Path, statement: str) -> None:
    with closing(sqlite3.connect(store)) as database, database:
        database.execute(statement)


@killed
@pytest.mark.slow
@pytest.mark.timeout(300)
@each_row("why, before, value, home", LOST)
def test_a_program_whose_state_is_lost_is_reported_and_not_run(
    tmp_path: Path, why: str, before: str, value: str, home: str
) -> None:
    """Also the result that arrived while another call was running is known."""
    died = run(tmp_path, "home", before)
    assert died.returncode == -9, (why, died.stderr)
    if value:
        change(tmp_path / "sessions.db", f"UPDATE entries SET data = {value} WHERE key LIKE 's/value/programs/%'")
    ended = run(tmp_path, home, before, "resume")
    told = ended.stdout.splitlines()
    assert "cannot continue" in told[0], (why, ended.stderr)
    assert told[1:] == [
        "Calls with a known result:",
        '- functions.write({"n": 1}): "written 1"',
        '- functions.write({"n": 2}): "written 2"',
        "Calls whose outcome is unknown (they may have run):",
        '- functions.write({"n": 3})',
    ]
    assert (tmp_path / "writes").read_text().split() == ["1", "2", "3"]


@killed
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_result_of_another_call_is_not_taken(tmp_path: Path) -> None:
    """Whose tool and arguments differ from those that the program asked for; its own outcome is unknown then."""
    assert run(tmp_path, "home", "print('begun')").returncode == -9
    first = "(SELECT data FROM entries WHERE kind = 'call' AND data LIKE '%{\\\"n\\\": 1}%')"
    second = "data LIKE '%{\\\"n\\\": 2}%'"
    change(tmp_path / "sessions.db", f"UPDATE entries SET data = {first} WHERE kind = 'call' AND {second}")
    ended = run(tmp_path, "home", "", "resume")
    assert ended.stdout.startswith("begun\nline 5: await asyncio.gather(write(n=2), write(n=3))"), ended.stderr
    assert "it may have run. It was not sent again" in ended.stdout
    assert (tmp_path / "writes").read_text().split() == ["1", "2", "3"]


def test_another_version_of_the_interpreter_loads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path))
    kept = Memory(b"state").to_json("mine")
    assert Memory.from_json(kept, "mine").state == b"state"
    monkeypatch.setattr(memory, "interpreter_version", lambda: "0.1")
    assert Memory.from_json(kept, "mine").state == b""
