"""What a server writes to its standard error is kept: bounded, printable, without secrets, for its user only."""

from __future__ import annotations

import asyncio
import stat
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpagent.config import ServerConfig
from mcpagent.errors import ServerError
from mcpagent.mcp.server_link import ServerLink
from mcpagent.mcp.transports.server_log import ServerLog, log_path
from mcpagent.utilities.text.secrets import hide
from tests.servers.leftovers import nothing_left
from tests.tables import each_row

SERVER = Path(__file__).resolve().parents[2] / "servers" / "faulty_server.py"


def config(mode: str, **env: str) -> ServerConfig:
    return ServerConfig(name="Faulty One", command=sys.executable, args=(str(SERVER), mode), env=env)


def said(path: Path) -> list[str]:
    """The lines of a log without their times."""
    return [line.partition(" ")[2] for line in path.read_text().splitlines()]


async def test_the_last_words_of_a_server_are_kept_without_its_secrets(tmp_path: Path) -> None:
    async with nothing_left():
        toolset = ServerLink(config("tell-secrets", API_TOKEN="hunter2-hunter2"), log_folder=tmp_path / "logs")
        with pytest.raises(ServerError):
            await toolset.__aenter__()
    path = log_path(tmp_path / "logs", "Faulty One")
    assert said(path)[0].startswith("--- started, process ")
    assert "cannot sign in with [redacted]" in said(path)
    assert said(path)[-1] == "--- exited with code 5"
    assert "hunter2" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_control_characters_do_not_get_into_the_log(tmp_path: Path) -> None:
    with pytest.raises(ServerError):
        await ServerLink(config("stderr-ansi"), log_folder=tmp_path).__aenter__()
    assert all(line.isprintable() for line in log_path(tmp_path, "Faulty One").read_text().splitlines())


async def test_an_invisible_character_in_a_secret_does_not_get_it_into_the_log(tmp_path: Path) -> None:
    hide("Sk4q9Wd7Lm2xTT0uVw")
    log = ServerLog(tmp_path / "server.log")
    log.output("nul Sk4q9\0Wd7Lm2xTT0uVw\nzero width Sk4q9\u200bWd7Lm2xTT0uVw\nother Sk4q9\0x\n".encode())
    log.close()
    assert said(tmp_path / "server.log") == ["nul [redacted]", "zero width [redacted]", "other Sk4q9x"]


async def test_a_flood_is_kept_in_part_and_in_bounds(tmp_path: Path) -> None:
    async with nothing_left(), ServerLink(config("flood-stderr-lines"), log_folder=tmp_path) as toolset:
        (trouble,) = [tool for tool in await toolset.tools() if tool.name == "trouble"]
        assert (await trouble.run({})).error is None
    path = log_path(tmp_path, "Faulty One")
    assert any("lines are left out" in line for line in said(path))
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 2.1 * 1024 * 1024


async def test_a_full_log_starts_anew_and_the_one_before_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    for number in range(5):
        log = ServerLog(path, max_bytes=150)
        log.output(f"line {number} {'x' * 30}\n".encode())
        log.close()
    assert [line[:6] for line in said(path)] == ["line 4"]
    assert [line[:6] for line in said(tmp_path / "a.log.1")] == ["line 2", "line 3"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.log", "a.log.1"]


async def test_lines_are_whole_however_the_output_is_cut(tmp_path: Path) -> None:
    hide("s3cret-s3cret")
    log = ServerLog(tmp_path / "a.log")
    for byte in "one\ntwo s3cret-s3cret\r\n\nlast ünïcode".encode():
        log.output(bytes([byte]))
    log.close()
    assert said(tmp_path / "a.log") == ["one", "two [redacted]", "last ünïcode"]


async def test_the_log_is_written_while_the_server_lives(tmp_path: Path) -> None:
    log = ServerLog(tmp_path / "a.log")
    log.output(b"alive\n")
    async with asyncio.timeout(30):
        while not (tmp_path / "a.log").exists():  # noqa: ASYNC110  a timer writes it
            await asyncio.sleep(0.01)
    assert said(tmp_path / "a.log") == ["alive"]


async def test_a_log_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "elsewhere").touch()
    (tmp_path / "link.log").symlink_to(tmp_path / "elsewhere")
    for path in (tmp_path / "file" / "a.log", tmp_path / "link.log"):
        log = ServerLog(path)
        log.output(b"x\n")
        log.close()
    assert (tmp_path / "elsewhere").read_text() == ""


@each_row("name", ["../../etc/passwd", "a/b", "A", "", "con:x", "\0", "ü" * 300, "."])
def test_any_name_gives_a_file_in_the_folder(name: str, tmp_path: Path) -> None:
    path = log_path(tmp_path, name)
    assert path.parent == tmp_path
    assert path.name.isascii()
    assert len(path.name) < 80
    path.touch()


@settings(max_examples=50)
@given(st.text(max_size=80), st.text(max_size=80))
def test_two_names_never_share_a_file(first: str, second: str) -> None:
    assert (log_path(Path(), first) == log_path(Path(), second)) == (first == second)
    assert log_path(Path(), "github").name == "github.log"
