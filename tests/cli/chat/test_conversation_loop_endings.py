"""How a chat ends that is not left by the user: told by a signal, with its terminal gone; and stopped for a while."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

pytest.importorskip("pty", reason="pseudo-terminals are POSIX")

from tests.terminal.process import SMALL_SERVER, Screen
from tests.terminal.warm import on_a_terminal

PROMPT = r"(?m)^>"


def with_a_server(folder: Path, model: str = "offline") -> list[str]:
    """The small server, which writes its process id into the folder."""
    starter = folder / "starter.py"
    starter.write_text(
        "import os, pathlib, runpy, sys\n"
        f"pathlib.Path({str(folder / 'pid')!r}).write_text(str(os.getpid()))\n"
        f"sys.argv[0] = {str(SMALL_SERVER)!r}\nrunpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    return ["-m", model, "--server", f"small='{sys.executable}' '{starter}' writes"]


def is_running(folder: Path) -> bool:
    try:
        os.kill(int((folder / "pid").read_text()), 0)
    except ProcessLookupError:
        return False
    return True


def idle(screen: Screen) -> None:
    screen.type("/cost\r")
    screen.wait_for("requests in this conversation")
    screen.wait_for(PROMPT)


def in_a_turn(screen: Screen) -> None:
    screen.type("wait 60 seconds\r")
    screen.wait_for("running wait_seconds")


def in_a_question(screen: Screen) -> None:
    screen.type("push branch main to origin\r")
    screen.wait_for(r"run it\? \[N\]")


def in_a_command(screen: Screen) -> None:
    screen.type("!echo begun; sleep 100\r")
    screen.wait_for("run it")
    screen.type("y\r")
    screen.wait_for("begun")


MOMENTS = (idle, in_a_turn, in_a_question, in_a_command)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "moment"),
    [
        (signal.SIGTERM, 143, idle),
        *(pytest.param(signal.SIGTERM, 143, moment, marks=pytest.mark.slow) for moment in MOMENTS[1:]),
        *(pytest.param(signal.SIGHUP, 129, moment, marks=pytest.mark.slow) for moment in MOMENTS),
    ],
)
def test_a_signal_ends_everything_and_puts_the_terminal_back(
    number: signal.Signals, code: int, moment: object, tmp_path: Path, changing_model: str
) -> None:
    model = changing_model if moment is in_a_question else "offline"
    with on_a_terminal([*with_a_server(tmp_path, model), "--allow", "small.wait_*"], tmp_path) as screen:
        before = screen.settings()
        screen.wait_for("mcp 1 ok")
        moment(screen)  # type: ignore[operator]
        assert is_running(tmp_path)
        os.kill(screen.pid, number)
        assert screen.exit_code() == code
        assert screen.settings() == before
        assert not is_running(tmp_path)
    assert "Traceback" not in screen.text
    assert "error" not in screen.text
    history = (tmp_path / "home" / "state" / "history").read_text("utf-8")
    assert history.count("\n+") == 1


@pytest.mark.parametrize("moment", [pytest.param(moment, marks=pytest.mark.slow) for moment in MOMENTS])
def test_a_closed_window_ends_everything(moment: object, tmp_path: Path, changing_model: str) -> None:
    model = changing_model if moment is in_a_question else "offline"
    with on_a_terminal([*with_a_server(tmp_path, model), "--allow", "small.wait_*"], tmp_path) as screen:
        screen.wait_for("mcp 1 ok")
        moment(screen)  # type: ignore[operator]
        screen.hang_up()
        assert screen.ended() == 129
        assert not is_running(tmp_path)
    log = tmp_path / "home" / "state" / "mcpagent.log"
    assert not log.exists() or "Traceback" not in log.read_text("utf-8")
