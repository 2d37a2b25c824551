"""A process that writes nothing: one line says so early, and the error of the timeout names the same cause."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from mcpagent.config import ServerConfig
from mcpagent.errors import ServerError
from mcpagent.mcp.connection import (
    GREETING_SECONDS,
    SILENT_SECONDS,
    UNREAD_SECONDS,
    McpConnection,
    silence_of,
)
from mcpagent.mcp.server_link import ServerLink
from mcpagent.mcp.server_notifications import ServerNews
from mcpagent.mcp.transports.stdio import StdioTransport
from mcpagent.utilities.text.secrets import Secret
from mcpagent.values.events import Event, Notice

SERVER = Path(__file__).resolve().parents[1] / "servers" / "faulty_server.py"


READS = "import pathlib, sys; sys.stdin.readline(); pathlib.Path(sys.argv[1]).touch(); sys.stdin.read()"


async def test_a_program_that_reads_and_writes_nothing_is_reported_while_waiting_goes_on(tmp_path: Path) -> None:
    """An interpreter alone does so: it takes the first request for the begin of a program."""
    news: list[ServerNews] = []
    waits: list[float] = []
    has_read, reported = tmp_path / "read", asyncio.Event()

    def report(item: ServerNews) -> None:
        news.append(item)
        reported.set()

    async def clock(seconds: float) -> None:
        waits.append(seconds)
        async with asyncio.timeout(60):
            while not has_read.exists():  # noqa: ASYNC110  (another process makes it)
                await asyncio.sleep(0)

    config = ServerConfig("x", command=sys.executable, args=("-c", READS, str(has_read)))
    connection = McpConnection(config, report, environ=os.environ, pause=clock)
    opening = asyncio.create_task(connection.open())
    async with asyncio.timeout(60):
        await reported.wait()
    assert not opening.done()
    assert waits == [SILENT_SECONDS + GREETING_SECONDS]
    (only,) = news
    assert only.kind == "silence"
    assert only.text.startswith(f"{sys.executable} has neither answered nor written for 2 s; is it a server? command: ")
    assert only.text.endswith(str(has_read))
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)


async def test_one_that_has_not_read_yet_is_reported_later_and_the_final_error_names_the_same_cause() -> None:
    news: list[ServerNews] = []
    waits: list[float] = []

    async def at_once(seconds: float) -> None:
        waits.append(seconds)

    config = ServerConfig("x", command="sleep", args=("60",), connect_timeout_seconds=1.0)
    connection = McpConnection(config, news.append, environ=os.environ, pause=at_once)
    with pytest.raises(ServerError) as caught:
        await connection.open()
    cause = "sleep has neither answered nor written for {} s; is it a server? command: sleep 60"
    assert [item.text for item in news] == [cause.format(10)]
    assert sum(waits) == UNREAD_SECONDS + GREETING_SECONDS
    assert f'server "x" {cause.format(1)}; if it is one, raise "connect_timeout_seconds"' == str(caught.value)


async def test_a_server_that_answers_is_not_reported(tmp_path: Path) -> None:
    asked: list[str] = []

    async def clock(_: float) -> None:
        asked.append("asked")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            asked.append("cancelled")
            raise

    news: list[ServerNews] = []
    config = ServerConfig("x", command=sys.executable, args=(str(SERVER), "ok", "--log", str(tmp_path / "log")))
    connection = McpConnection(config, news.append, environ=os.environ, pause=clock)
    await connection.open()
    await connection.close()
    assert asked == ["asked", "cancelled"]
    assert not [item for item in news if item.kind == "silence"]


@pytest.mark.parametrize(
    ("code", "is_silent"), [("pass", True), ("import sys; print('loading', file=sys.stderr)", False)]
)
async def test_a_word_on_stderr_is_no_silence(code: str, is_silent: bool) -> None:
    config = ServerConfig("x", command=sys.executable, args=("-c", code))
    transport = StdioTransport(config, lambda _: None, os.environ)
    async with transport as (messages, _):
        assert [message async for message in messages] == []
        assert transport.is_silent is is_silent


def test_the_command_is_shown_in_full_and_its_secrets_by_their_names() -> None:
    args: tuple[str | Secret, ...] = ("-y", "a b", Secret("hunter2", "${TOKEN}"), "\x1b[2J", *["long"] * 90)
    text = silence_of(ServerConfig("x", command="npx", args=args), 2.0)
    assert "command: npx -y 'a b' '${TOKEN}' " in text
    assert text.endswith("long " * 89 + "long")
    assert "hunter2" not in text
    assert text.isprintable()


async def test_a_program_that_uses_the_library_gets_a_notice_and_no_lasting_warning() -> None:
    events: list[Event] = []
    link = ServerLink(ServerConfig("x", command="unused"), emit=events.append)
    link._report(ServerNews("silence", "python has neither answered"))
    assert events == [Notice('server "x": python has neither answered', "warning")]
    assert link.status.warnings == ()
