"""Silence is silence: pieces of an answer end it, anything else does not, and it is said only where it is true."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcpagent.config import ServerConfig
from mcpagent.mcp.server_link import ServerLink
from mcpagent.values.messages import Text
from mcpagent.values.tools import Tool, ToolOutput
from tests.mcp.at_once import at_once
from tests.servers.booking import booking
from tests.servers.leftovers import nothing_left
from tests.speed import within

SERVER = Path(__file__).resolve().parents[1] / "servers" / "endings.py"
ANSWER = '{"jsonrpc":"2.0","id":THIS,"result":{"content":[{"type":"text","text":"fine"}]}}'
KINDS = ("stdio", "spread", "http", "events", "modern", "sse")
PIECES = 14
"""All of them take twice the limit of silence, and each a seventh of it."""


@asynccontextmanager
async def tool_of(kind: str, tmp_path: Path, **limits: Any) -> AsyncIterator[Tool]:
    async with AsyncExitStack() as stack:
        if kind in ("stdio", "spread"):
            config = ServerConfig(
                "b", command=sys.executable, args=(str(SERVER), "legacy", str(tmp_path / "l")), **limits
            )
        else:
            server = await stack.enter_async_context(booking({"events": "http"}.get(kind, kind)))  # type: ignore[arg-type]
            config = ServerConfig("b", url=server.url, transport="sse" if kind == "sse" else "http", **limits)
        link = await stack.enter_async_context(ServerLink(config))
        (tool,) = await link.tools()
        yield tool


def call(kind: str, body: str, pieces: int) -> dict[str, Any]:
    if kind in ("events", "sse"):
        body = f"event: message\ndata: {body}\n\n"
    body = body.replace("{", "{\n", 1)[:-1] + "\n}" if kind == "spread" else body
    body += "\n" if kind in ("stdio", "spread") else ""
    media = "text/event-stream" if kind == "events" else "application/json"
    return {"key": "k", "body": body, "pieces": pieces, "type": media}


def text_of(output: ToolOutput) -> str:
    (part,) = output.content
    assert isinstance(part, Text)
    return part.text


async def test_an_answer_that_comes_slowly_is_no_silence(tmp_path: Path) -> None:
    async def answered(kind: str) -> None:
        async with tool_of(kind, tmp_path, timeout_seconds=0.7, total_timeout_seconds=60) as tool:
            output = await tool.run(call(kind, ANSWER, PIECES))
        assert (output.error, text_of(output)) == (None, "fine")

    async with nothing_left():
        await at_once(answered, KINDS)


async def test_nor_is_an_error_that_does_nor_the_time_that_the_server_asked_for(tmp_path: Path) -> None:
    async def failed(kind: str) -> None:
        async with tool_of(kind, tmp_path, timeout_seconds=0.7, total_timeout_seconds=60) as tool:
            output = await tool.run(call("http", "out of order" * 10, PIECES) | {"status": 500})
        assert "answered HTTP 500" in text_of(output)
        assert "out of order" in text_of(output)

    async def called_later(kind: str, limit: float, later: str) -> None:
        async with tool_of(kind, tmp_path, timeout_seconds=limit, total_timeout_seconds=60) as tool:
            output = await tool.run({"key": "k", "status": 429, "headers": {"Retry-After": later}, "body": "too many"})
        assert "answered HTTP 429 Reason: too many" in text_of(output)
        assert "may have run" not in text_of(output)

    async with nothing_left():
        await asyncio.gather(at_once(failed, ["http", "sse"]), called_later("http", 0.4, "0.7"))


async def test_one_that_never_ends_ends_with_its_time(tmp_path: Path) -> None:
    async def ended(kind: str) -> None:
        limits = {"timeout_seconds": 60, "total_timeout_seconds": 0.8, "shutdown_seconds": 0.2}
        async with tool_of(kind, tmp_path, **limits) as tool:
            output = await tool.run(call(kind, ANSWER, PIECES))
        assert output.error == "timeout"
        assert 'did not finish tools/call "book" within 0.8 s' in text_of(output)

    async with nothing_left():
        await at_once(ended, KINDS)


OTHER_THINGS = [
    ("stdio", "working on it\n"),
    ("stdio", '{"level": 30, "error": null}\n'),
    ("events", ": ping\n\n"),
    ("events", "\n"),
    ("sse", ": ping\n\n"),
]


async def test_other_things_are_no_answer_and_no_silence(tmp_path: Path) -> None:
    async def ended(kind: str, said: str) -> None:
        limits = {"timeout_seconds": 0.5, "total_timeout_seconds": 60, "shutdown_seconds": 0.2}
        async with tool_of(kind, tmp_path, **limits) as tool:
            wanted = call(kind, said, -1) | {"body": said}
            output = await tool.run(wanted)
        assert output.error == "timeout"
        text = text_of(output)
        assert "sent other things and nothing of an answer for 0.5 s" in text
        assert "silent" not in text
        assert "the call may have run" in text
        assert kind != "stdio" or "it wrote: " + said.strip() in text

    async with nothing_left():
        await at_once(ended, OTHER_THINGS)


async def test_t15_nothing_at_all_is_called_silence(tmp_path: Path) -> None:
    async def ended(kind: str) -> None:
        async with tool_of(kind, tmp_path, timeout_seconds=0.4, shutdown_seconds=0.2) as tool:
            output = await tool.run({"key": "k", "hang": True})
        assert 'was silent for 0.4 s during tools/call "book"' in text_of(output)

    async with nothing_left():
        await at_once(ended, KINDS)


# --- floods ---

LINES = {
    "short": "x\n",
    "prose": "2026-11-25 12:00:00 INFO the server is doing something of interest to nobody at all, really\n",
    "request": '{"method": "GET", "path": "/a/long/path/to/somewhere", "status": 200, "error": null, "result": 3}\n',
    "json": '{"level": 30, "time": 1764072000, "pid": 17, "msg": "the server is doing something", "error": null}\n',
    "repr": "{'level': 'info', 'message': 'the server is doing something of interest to nobody at all'}\n",
    "long": "x" * 1_000_000 + "\n",
}
FLOOD_BYTES = 20_000_000


@pytest.mark.slow
@pytest.mark.parametrize("kind", LINES)
async def test_t16_a_flood_of_what_is_no_message_costs_little_and_hides_no_answer(kind: str, tmp_path: Path) -> None:
    async with nothing_left(), tool_of("stdio", tmp_path) as tool:
        count = FLOOD_BYTES // len(LINES[kind])
        before = time.process_time()
        output = await tool.run({"key": "k", "line": LINES[kind], "lines": count, "body": ANSWER})
        cost = time.process_time() - before
    assert text_of(output) == "fine"
    assert within(cost, 2.4)


@pytest.mark.slow
async def test_one_without_end_is_ended_with_its_reason(tmp_path: Path) -> None:
    async with nothing_left(), tool_of("stdio", tmp_path, max_message_bytes=1_000_000) as tool:
        output = await tool.run({"key": "k", "line": LINES["prose"], "lines": 10_000_000, "body": ANSWER})
        assert output.error == "server_down"
        assert 'server "b" was ended, since it wrote ' in text_of(output)
        assert "MiB to its standard output that are not MCP during tools/call" in text_of(output)
        assert text_of(await tool.run({"key": "k", "body": ANSWER})) == "fine"
