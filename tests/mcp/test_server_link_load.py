"""Many calls, many connections, large answers: nothing is lost, nothing grows, nothing stays."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcpagent.config import ServerConfig
from mcpagent.mcp.lists.list_cache import ListCache
from mcpagent.mcp.lists.listing import MAX_TOOLS
from mcpagent.mcp.server_link import ServerLink
from mcpagent.values.events import Event, ServerLogged
from mcpagent.values.messages import Text
from mcpagent.values.tools import Tool, ToolOutput
from tests.loop_holds import most_calls
from tests.servers.leftovers import nothing_left
from tests.speed import within

SERVER = Path(__file__).resolve().parents[1] / "servers" / "faulty_server.py"

pytestmark = pytest.mark.slow


def config(mode: str, *arguments: str, **settings: Any) -> ServerConfig:
    return ServerConfig(name="load", command=sys.executable, args=(str(SERVER), mode, *arguments), **settings)


async def by_name(toolset: ServerLink) -> dict[str, Tool]:
    return {tool.name: tool for tool in await toolset.tools()}


def text_of(output: ToolOutput) -> str:
    return "\n".join(part.text for part in output.content if isinstance(part, Text))


def resident_mib() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to read the memory in use")
async def test_ten_thousand_calls_one_after_the_other() -> None:
    async with nothing_left(), ServerLink(config("ok")) as toolset:
        echo = (await by_name(toolset))["echo"]
        for number in range(500):
            await echo.run({"text": str(number)})
        before = resident_mib()
        for number in range(10_000):
            assert text_of(await echo.run({"text": str(number)})) == str(number)
        assert resident_mib() - before <= 10


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to read the memory in use")
@pytest.mark.parametrize("mode", ["big-output", "big-many-blocks"])
async def test_fifty_megabytes_in_one_answer_are_delivered_and_the_loop_stays_free(mode: str) -> None:
    size = 50 * 1024 * 1024
    before = resident_mib()
    # Parsing keeps the interpreter to itself, which is the longest step; the promise is one second.
    async with nothing_left(), ServerLink(config(mode, "--size", str(size))) as toolset:
        used = time.process_time()
        output = await (await by_name(toolset))["trouble"].run({})
        assert within(time.process_time() - used, 6)  # the promise is by the clock, which a busy machine would break
        assert output.error is None
        assert sum(len(part.text) for part in output.content if isinstance(part, Text)) >= size * 0.7
    assert resident_mib() - before <= 5 * 50


@pytest.mark.timeout(240)
async def test_connecting_and_closing_hundreds_of_times_leaves_nothing() -> None:
    """Ten at the same time; what the first rounds load for good is not counted as growth."""

    async def connected(times: int) -> None:
        for _ in range(times):
            async with ServerLink(config("ok", era="legacy")) as toolset:
                assert toolset.status.tool_count == 2

    async with nothing_left():
        await asyncio.gather(*(connected(2) for _ in range(10)))
        before = resident_mib()
        await asyncio.gather(*(connected(40) for _ in range(10)))
        assert resident_mib() - before <= 8


MOST_CALLS = 10_000
"""Functions that may be called in one turn of the loop: some five milliseconds of the reference machine."""


async def test_ten_thousand_tools_are_listed_stored_and_listed_again_beside_the_loop(tmp_path: Path) -> None:
    """From the server, which may take seconds in other threads, and from the file that is then written."""
    cache = ListCache(tmp_path)

    async def listed() -> int:
        async with ServerLink(config("list-huge"), cache=cache) as toolset:
            return len(await toolset.tools())

    async with nothing_left():
        first, tools = await most_calls(listed)
        assert tools == MAX_TOOLS
        again, tools = await most_calls(listed)
    assert tools == MAX_TOOLS
    assert first < MOST_CALLS
    assert again < MOST_CALLS


async def test_twenty_thousand_notifications_leave_the_loop_between_them() -> None:
    async with nothing_left(), ServerLink(config("flood-notifications", "--count", "20000")) as toolset:
        trouble = (await by_name(toolset))["trouble"]
        most, output = await most_calls(lambda: trouble.run({"text": "x"}))
    assert text_of(output) == "no trouble"
    assert most < MOST_CALLS


FLOODING = SERVER.with_name("flooding_http.py")


@asynccontextmanager
async def flooding(count: int, path: str) -> AsyncIterator[ServerConfig]:
    """A server over HTTP in a process of its own: its work is not that of this loop."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(FLOODING), str(count), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        url = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
        yield ServerConfig("load", url=url + path, transport="http", timeout_seconds=100)
    finally:
        process.kill()
        await process.communicate()


@pytest.mark.parametrize("path", ["/mcp", "/events"])
async def test_over_http_ten_thousand_tools_are_listed_beside_the_loop_too(path: str, tmp_path: Path) -> None:
    cache = ListCache(tmp_path)
    async with nothing_left(), flooding(MAX_TOOLS, path) as server:

        async def listed() -> int:
            async with ServerLink(server, cache=cache) as toolset:
                return len(await toolset.tools())

        first, tools = await most_calls(listed)
        assert tools == MAX_TOOLS
        again, tools = await most_calls(listed)
        assert tools == MAX_TOOLS
    assert first < MOST_CALLS
    assert again < MOST_CALLS


async def test_over_http_twenty_thousand_notifications_leave_the_loop_between_them() -> None:
    logged = list[ServerLogged]()

    def hear(event: Event) -> None:
        if isinstance(event, ServerLogged):
            logged.append(event)

    async with nothing_left(), flooding(20_000, "/mcp") as server, ServerLink(server, emit=hear) as toolset:
        tool = (await by_name(toolset))["tool_7"]
        most, output = await most_calls(lambda: tool.run({"text": "x"}))
    assert text_of(output) == "fine"
    assert logged[0].text == "0"
    assert most < MOST_CALLS
