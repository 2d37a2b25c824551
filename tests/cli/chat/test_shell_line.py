"""`!command`, the editor, and a status line of the user's own: programs that the user names."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from mcpagent.cli.chat import shell_line
from mcpagent.cli.chat import status_line as status_command
from mcpagent.cli.chat.shell_line import offer_shell, run_shell
from mcpagent.cli.chat.status_line import Status, StatusCommand, status_document
from mcpagent.cli.common.user_programs import edited, editor_command
from mcpagent.errors import ConfigError, InputError
from mcpagent.utilities.processes.child_programs import MAX_KEPT, ProgramOutput
from tests.tables import each_row

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX shells")

ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/nowhere"}


async def shell(command: str, folder: Path) -> tuple[ProgramOutput, list[str]]:
    shown: list[str] = []
    return await run_shell(command, folder, ENVIRON, shown.append), shown


async def test_output_is_shown_printable_and_kept(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    result, shown = await shell("ls; printf '\\033]0;title\\007red\\n' >&2; printf 'last'; exit 3", tmp_path)
    assert shown == ["a.txt", "]0;titlered", "last"]
    assert result.output == "a.txt\n]0;titlered\nlast"
    assert result.ending == "exit code 3"


async def test_long_output_keeps_its_start_and_its_end(tmp_path: Path) -> None:
    result, _ = await shell("seq 1 200000", tmp_path)
    assert result.output.startswith("1\n2\n3\n")
    assert result.output.endswith("\n200000")
    assert "characters left out]" in result.output
    assert len(result.output) <= MAX_KEPT + 100


async def test_a_command_ends_with_all_it_started(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    running = asyncio.create_task(shell(f"sleep 1000 & echo $! > {pid_file}; echo up; wait", tmp_path))
    async with asyncio.timeout(30):
        while not (pid_file.exists() and pid_file.read_text().strip()):  # noqa: ASYNC110 - a file tells nobody
            await asyncio.sleep(0.02)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    pid = int(pid_file.read_text())
    async with asyncio.timeout(30):
        while _is_running(pid):  # noqa: ASYNC110 - it is no child of ours that could be waited for
            await asyncio.sleep(0.02)


@each_row("steps", range(2, 10))
async def test_so_it_does_when_it_is_cancelled_while_it_starts(tmp_path: Path, steps: int) -> None:
    pid_file = tmp_path / "pid"
    running = asyncio.create_task(shell(f"sleep 1000 & echo $! > {pid_file}; wait", tmp_path))
    for _ in range(steps):
        await asyncio.sleep(0)
    end = time.monotonic() + 30
    while not (pid_file.exists() and pid_file.read_text().strip()) and time.monotonic() < end:
        time.sleep(0.01)  # noqa: ASYNC251 - the loop has to stand still
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    pid = int(pid_file.read_text())
    async with asyncio.timeout(30):
        while _is_running(pid):  # noqa: ASYNC110 - it is no child of ours that could be waited for
            await asyncio.sleep(0.02)


def _is_running(pid: int) -> bool:
    """Whether it is there and no zombie, which only waits for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_a_command_that_does_not_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell_line, "SECONDS", 0.2)
    result, _ = await shell("echo begun; sleep 1000", tmp_path)
    assert result.output == "begun"
    assert result.ending == "stopped after 0.2 s"


@each_row("typed, runs, kept", [("", False, False), ("y", True, False), ("m", True, True)])
async def test_nothing_runs_before_a_yes(typed: str, runs: bool, kept: bool, tmp_path: Path) -> None:
    asked: list[str] = []
    said: list[str] = []

    async def choose(question: str) -> str:
        asked.append(question)
        return typed

    given = await offer_shell("touch made; echo '```'", tmp_path, ENVIRON, choose, said.append)
    assert len(asked) == 1
    assert (tmp_path / "made").exists() is runs
    assert given == ("Output of `touch made; echo '```'` (exit code 0):\n````\n```\n````" if kept else "")


async def test_the_editor_is_the_users_own(tmp_path: Path) -> None:
    script = tmp_path / "editor"
    script.write_text('#!/bin/sh\nfound=$(cat "$2"); echo "$found, changed in $1" > "$2"\n')
    script.chmod(0o700)
    assert await edited("before", {"EDITOR": "false", "VISUAL": f"{script} 'two words'"}) == (
        "before, changed in two words\n"
    )
    assert editor_command({"EDITOR": "code --wait"}) == ["code", "--wait"]
    with pytest.raises(InputError, match="exit code 1"):
        await edited("before", {"EDITOR": "false"})
    with pytest.raises(InputError, match="cannot be started"):
        await edited("before", {"EDITOR": str(tmp_path / "missing")})
    with pytest.raises(InputError, match="check the quotes"):
        editor_command({"EDITOR": "'open"})
    with pytest.raises(InputError, match="set EDITOR"):
        editor_command({"PATH": str(tmp_path / "empty")})


async def own_line(command: str, folder: Path) -> StatusCommand:
    changed = asyncio.Event()
    line = StatusCommand(command, ENVIRON, folder, changed.set)
    status = Status("anthropic:claude-x", offered=3, known=527, used=4_100)
    line.update(status_document(status, str(folder)))
    await asyncio.wait_for(changed.wait(), 30)
    await line.close()
    return line


async def test_a_status_line_of_the_users_own_gets_json_and_is_made_safe(tmp_path: Path) -> None:
    script = tmp_path / "line.py"
    script.write_text(
        "import json, sys\nd = json.load(sys.stdin)\n"
        "print(d['model']['display_name'], d['tools']['known'], d['context']['tokens'], '\\033]0;x\\007')\n"
        "print('more')\n"
    )
    line = await own_line(f"'{sys.executable}' '{script}'", tmp_path)
    assert line.said == "claude-x 527 4100 ]0;x"


async def test_a_status_line_that_fails_or_hangs_is_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await own_line("false", tmp_path)).said is None
    assert "cannot be started" in (await own_line(str(tmp_path / "missing"), tmp_path)).problem
    monkeypatch.setattr(status_command, "SECONDS", 0.2)
    hanging = await own_line("sleep 1000", tmp_path)
    assert (hanging.said, "took longer" in hanging.problem) == (None, True)
    # Without a shell: this is an argument, not a second command.
    assert (await own_line("echo a; touch made", tmp_path)).said == "a; touch made"
    for wrong in ("'open", "   "):
        with pytest.raises(ConfigError):
            StatusCommand(wrong, ENVIRON, tmp_path, lambda: None)
