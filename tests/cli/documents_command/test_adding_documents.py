"""The progress of `mcpagent docs add`: a bar on a terminal, else lines; changes are followed until Ctrl-C."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from mcpagent.cli.documents_command.adding_documents import LINE_SECONDS, progress_lines, progress_shown
from mcpagent.cli.screen.terminal import ASCII_GLYPHS, Terminal, silent_console
from mcpagent.documents.indexing import IndexProgress


def terminal(*, is_interactive: bool) -> tuple[Terminal, io.StringIO]:
    written = io.StringIO()
    console = Console(file=written, force_terminal=is_interactive, force_interactive=is_interactive, width=80)
    return Terminal(silent_console(), console, ASCII_GLYPHS), written


def test_a_terminal_shows_a_bar_with_files_chunks_and_the_time_left() -> None:
    shown, written = terminal(is_interactive=True)
    with progress_shown(shown) as show:
        show(IndexProgress(1, 4, 10, "file:///a", "added"))
    assert "1 of 4 files" in written.getvalue()
    assert "10 chunks" in written.getvalue()
    assert "--:--" in written.getvalue()


def test_a_pipe_gets_a_line_every_few_seconds() -> None:
    shown, written = terminal(is_interactive=False)
    clock = iter([0.0, LINE_SECONDS / 2, LINE_SECONDS, LINE_SECONDS + 0.1, 3 * LINE_SECONDS])
    show = progress_lines(shown, lambda: next(clock))
    for done in (1, 2, 3, 4):
        show(IndexProgress(done, 4, 10 * done, "file:///a", "added"))
    assert written.getvalue() == "2 of 4 files, 20 chunks, about 2.0 s left\n"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_changes_are_followed_until_the_user_ends_it(tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "a.md").write_text("# A")
    environ = {**os.environ, "MCPAGENT_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-m", "mcpagent", "docs", "add", "texts", "--follow"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, env=environ, text=True, bufsize=1, **streams) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "\u2713 1 added; 1 chunk written\n"
        (texts / "b.md").write_text("# B")
        assert process.stdout.readline() == "\u2713 1 added, 1 unchanged; 1 chunk written\n"
        (texts / "a.md").unlink()
        assert process.stdout.readline() == "\u2713 1 removed, 1 unchanged; 0 chunks written\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert "Traceback" not in process.stderr.read()
