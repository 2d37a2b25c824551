"""The log of the program: what went wrong is in it, bounded, for its user's eyes only and without secrets."""

from __future__ import annotations

import logging
import stat
import sys
from pathlib import Path

import pytest

from mcpagent.cli.app import run as run_here
from mcpagent.cli.common.error_lines import (
    RunLog,
    keep_error,
    report_error,
    report_exception,
    run_log_path,
    write_entry,
)
from mcpagent.mcp.transports.server_log import MAX_LOG_BYTES
from mcpagent.utilities.text.secrets import hide
from tests.terminal.process import server_option
from tests.terminal.warm import on_a_terminal, run


def failing(text: str) -> Exception:
    try:
        raise RuntimeError(text)
    except RuntimeError as error:
        return error


def test_an_unexpected_error_is_one_line_that_names_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path))
    hide("the-hidden-value")
    report_exception(failing("odd the-hidden-value sk-ant-api03-abcdefghijklmnop \x1b[2J"), debug=False)
    [line] = capsys.readouterr().err.splitlines()
    path = run_log_path({"MCPAGENT_HOME": str(tmp_path)})
    assert line.startswith("error: internal error: RuntimeError: odd")
    assert line.endswith(f"log: {path}")
    kept = path.read_text("utf-8")
    assert "Traceback" in kept
    assert "RuntimeError: odd [redacted] [redacted] [2J" in kept
    assert "\x1b" not in kept
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX terminals")
def test_an_error_line_breaks_at_words_and_a_long_word_stays_whole(tmp_path: Path) -> None:
    word = "x" * 70
    for columns in (60, 100):
        with on_a_terminal(["tool", "list", word], tmp_path, columns=columns) as screen:
            assert screen.exit_code() == 2
        told = screen.text.rstrip("\n").split("\n")
        assert " ".join(line.strip() for line in told) == (
            'error: unknown command "tool"; did you mean: mcpagent tools list or mcpagent tools? (a question: '
            f"mcpagent -p 'tool list {word}')"
        )
        assert all(line.startswith("  ") for line in told[1:])
        assert all(len(line) <= columns for line in told if word not in line)


def test_a_log_that_cannot_be_written_is_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "state").write_text("a file where the folder should be", "utf-8")
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path))
    report_error("it failed", kept=failing("x"))
    assert capsys.readouterr().err == "error: it failed\n"


def test_the_log_has_a_bound(tmp_path: Path) -> None:
    path = tmp_path / "mcpagent.log"
    for _ in range(3):
        path.write_bytes(b"x" * (MAX_LOG_BYTES - 10))
        assert write_entry(path, "more")
    assert sorted(item.name for item in tmp_path.iterdir()) == ["mcpagent.log", "mcpagent.log.1"]
    assert path.stat().st_size < 100
    assert keep_error(path, failing("y" * 100_000))
    assert path.stat().st_size < 25_000


def test_warnings_of_libraries_are_kept_and_nothing_is_made_without_one(tmp_path: Path) -> None:
    path = tmp_path / "state" / "mcpagent.log"
    logger = logging.Logger("library")
    logger.addHandler(RunLog(path))
    logger.info("not this")
    assert not path.exists()
    logger.warning("look: %s", "here")
    assert path.read_text("utf-8").endswith("warning library: look: here\n")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX pipes")
def test_a_run_that_failed_outside_names_its_log_and_one_that_was_typed_wrong_does_not(tmp_path: Path) -> None:
    failed = run(["-p", "hi there", "-q", *server_option("dies")], tmp_path)
    assert failed.returncode == 5
    assert failed.stderr.splitlines()[-1].endswith("log: " + str(tmp_path / "home" / "state" / "mcpagent.log"))
    assert "GITHUB_TOKEN" in failed.stderr
    typed = run(["-p", "x", "-m", "nonsense"], tmp_path)
    assert typed.returncode == 3
    assert "log:" not in typed.stderr


def test_only_the_last_run_of_a_process_has_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("first", "second"):
        monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / name))
        assert run_here(["config", "path", "logs"]) == 0
    logging.getLogger("library").warning("look here")
    assert not (tmp_path / "first" / "state" / "mcpagent.log").exists()
    assert "look here" in (tmp_path / "second" / "state" / "mcpagent.log").read_text("utf-8")
