"""A device or a pipe is no file to keep sessions or traces in, and is told as what it is."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.terminal.warm import run

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX")]


@pytest.mark.parametrize("command", ["trace show {}", "sessions list --set session_db={}"])
@pytest.mark.parametrize("what", ["/dev/zero", "./pipe"])
def test_it_is_refused_in_one_line_with_the_cause(command: str, what: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = run(command.format(what).split(), tmp_path)
    assert done.returncode != 0
    assert done.stderr.count("\n") == 1
    assert "is no regular file" in done.stderr
