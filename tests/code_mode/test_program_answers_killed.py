"""A program that was under way in a process that was killed goes on in the next one, at the calls that it was in."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcpagent import Sessions
from mcpagent.code_mode.memory import EndedProgram, Memory, Underway
from mcpagent.code_mode.sandbox import AskedCall
from mcpagent.journal.sessions.entries import clean_json

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")


def run(folder: Path, dies_in: str, how: str = "", home: Path | None = None) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "MCPAGENT_HOME": str(home or folder / "home")}
    command = [sys.executable, "-m", "tests.code_mode.killed_program", str(folder), dies_in, how]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, env=environ, check=False)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("call", range(10))
def test_killed_in_any_call_it_goes_on_there(tmp_path: Path, call: int) -> None:
    """The call that the kill fell into is safe to repeat here; no other is made twice."""
    killed = run(tmp_path, str(call))
    assert killed.returncode == -9, killed.stderr
    ended = run(tmp_path, "-")
    assert ended.stdout == "done\nhalf\n145\n", ended.stderr
    assert sorted(map(int, (tmp_path / "calls").read_text().split())) == list(range(10))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("call", [0, 5])
def test_a_durable_run_goes_on_in_the_program(tmp_path: Path, call: int) -> None:
    """Which is one step of its workflow: what it had done is known all the same, and the variables before it."""
    killed = run(tmp_path, str(call), "durable")
    assert killed.returncode == -9, killed.stderr
    ended = run(tmp_path, "-", "durable")
    assert ended.stdout == "done\nhalf\n145\n", ended.stderr
    assert sorted(map(int, (tmp_path / "calls").read_text().split())) == list(range(10))
    assert (tmp_path / "counted").read_text() == "10"  # those of the process that died count for the limits, too


@pytest.mark.slow
@pytest.mark.parametrize("how", ["", "durable"])
def test_a_call_that_may_have_run_is_not_made_again(tmp_path: Path, how: str) -> None:
    assert run(tmp_path, "2+", how).returncode == -9
    ended = run(tmp_path, "-", how)
    assert "OutcomeUnknown: The process that made this call ended before it had an answer" in ended.stdout, ended.stderr
    assert (tmp_path / "calls").read_text().split() == ["0", "1", "2"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["", "durable"])
def test_killed_at_its_end_it_is_not_run_again(tmp_path: Path, how: str) -> None:
    assert run(tmp_path, "end", how).returncode == -9
    ended = run(tmp_path, "-", how)
    assert ended.stdout == "done\nhalf\n145\n", ended.stderr
    assert sorted(map(int, (tmp_path / "calls").read_text().split())) == list(range(10))


@pytest.mark.slow
def test_what_another_user_kept_is_not_taken(tmp_path: Path) -> None:
    """Without the key that signed it nothing of the program is loaded."""
    assert run(tmp_path, "3").returncode == -9
    before = (tmp_path / "calls").read_text()
    ended = run(tmp_path, "-", home=tmp_path / "other")
    assert "145" not in ended.stdout
    assert (tmp_path / "calls").read_text() == before


def test_what_is_kept_is_bound_to_its_session_and_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path))
    underway = Underway("call", 3, "x = 1", b"\x00\xff", (AskedCall(1, "a.b", "{}"),), calls=2, printed="out")
    memory = Memory(b"state", ("x = 1\n",), ("a",), underway=underway)
    kept = memory.to_json("mine")
    assert memory.to_json("mine") is kept
    again = Memory.from_json(kept, "mine")
    assert (again.state, again.context, again.modules, again.underway) == (b"state", ("x = 1\n",), ("a",), underway)
    changed = {name: {**part, "held": part["held"].replace("x = 1", "x = 2")} for name, part in kept.items()}
    exchanged = {"variables": kept["underway"], "underway": kept["variables"]}
    unsigned = {"variables": 3, "underway": {**kept["underway"], "signature": "\N{BULLET}"}}
    for data, session in ((kept, "other"), (changed, "mine"), (exchanged, "mine"), (unsigned, "mine")):
        refused = Memory.from_json(data, session)
        assert (refused.state, refused.underway, refused.ended) == (b"", None, None)
        assert "gone" in refused.lost
    # A store takes secrets out of what it is given: the rest stays usable.
    without = Memory.from_json({**kept, "underway": changed["underway"]}, "mine")
    assert (without.state, without.underway, without.lost) == (b"state", None, "")
    assert Memory.from_json({}, "mine").lost == ""
    if sys.platform != "win32":
        assert (tmp_path / "state" / "code-mode.key").stat().st_mode & 0o077 == 0


def test_how_a_program_ended_is_known_whatever_it_showed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets are taken out before it is signed: a store that did so afterwards would make it another text."""
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path))
    shown = "the token\nghp_A1b2A1b2A1b2A1b2A1b2A1b2 of correct horse"
    with contextlib.closing(Sessions(tmp_path / "sessions.db", secrets=["correct horse"])):
        memory = Memory(b"state", ended=EndedProgram("call", 3, shown))
        again = Memory.from_json(json.loads(clean_json(memory.to_json("mine"))), "mine")
    assert again.ended is not None
    assert again.ended.call_id == "call"
    assert again.state == b"state"
    assert "ghp_" not in again.ended.text
    assert "correct horse" not in again.ended.text
