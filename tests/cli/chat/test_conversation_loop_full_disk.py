"""A chat on a disk that is full, or whose folders cannot be written: one line, and it goes on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pty", reason="pseudo-terminals are POSIX")

from tests.terminal.process import ROOT, Screen, on_a_terminal

PROMPT = r"(?m)^>"


def full(home: Path) -> None:
    """No file takes a byte: the limit that a shell's `ulimit -f 0` sets, which Python reports as an `OSError`."""
    (home / "starts").mkdir(parents=True)
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    (home / "starts" / "sitecustomize.py").write_text(limit)


def a_device(home: Path) -> None:
    (home / "state").mkdir(parents=True)
    (home / "state" / "history").symlink_to("/dev/zero")


def no_folders(home: Path) -> None:
    """The place of each folder is taken by a file, as nobody's permissions can change."""
    home.mkdir()
    for name in ("state", "cache", "data"):
        (home / name).write_text("")


def folder_for_a_file(home: Path) -> None:
    (home / "state" / "history").mkdir(parents=True)


@pytest.mark.slow
@pytest.mark.parametrize("what", [full, a_device, no_folders, folder_for_a_file])
def test_a_chat_goes_on_without_a_disk(tmp_path: Path, what: Callable[[Path], None]) -> None:
    home = tmp_path / "home"
    what(home)
    python_path = os.pathsep.join((str(home / "starts"), str(ROOT)))
    with on_a_terminal(["-m", "offline"], tmp_path, rows=60, env={"PYTHONPATH": python_path}) as screen:
        screen.wait_for(PROMPT)
        for question, answer in (("6 times 7", "42"), ("5 times 5", "25"), ("8 times 8", "64")):
            screen.type(f"{question}\r")
            screen.wait_for(answer)
            screen.wait_for(PROMPT)
        screen.type("/cost\r")
        screen.wait_for("requests in this conversation")
        text = _ended(screen)
    assert "Traceback" not in text
    assert "Errno" not in text
    assert text.count("what you type is not kept") <= 1
    if what is full:
        assert text.count("what you type is not kept for the next time") == 1


def _ended(screen: Screen) -> str:
    screen.wait_for(PROMPT)
    screen.type("/quit\r")
    assert screen.ended() == 0
    return screen.text
