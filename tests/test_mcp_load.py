"""Many calls, many connections, large answers: nothing is lost, nothing grows, nothing stays."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mcpagent.config import ServerConfig
from mcpagent.mcp.toolset import McpToolset
from mcpagent.messages import Text
from mcpagent.tools import Tool, ToolOutput
from tests.servers.leftovers import nothing_left

SERVER = Path(__file__).parent / "servers" / "faulty_server.py"

pytestmark = pytest.mark.slow


def config(mode: str, *arguments: str, **settings: Any) -> ServerConfig:
    return ServerConfig(name="load", command=sys.executable, args=(str(SERVER), mode, *arguments), **settings)


async def by_name(toolset: McpToolset) -> dict[str, Tool]:
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
    async with nothing_left(), McpToolset(config("ok")) as toolset:
        echo = (await by_name(toolset))["echo"]
        for number in range(500):
            await echo.run({"text": str(number)})
        before = resident_mib()
        for number in range(10_000):
            assert text_of(await echo.run({"text": str(number)})) == str(number)
        assert resident_mib() - before <= 10


async def test_a_large_answer_is_delivered_in_time_and_the_loop_stays_free() -> None:
    size = 30 * 1024 * 1024
    async with nothing_left() as lag, McpToolset(config("big-output", "--size", str(size))) as toolset:
        started = time.monotonic()
        output = await (await by_name(toolset))["trouble"].run({})
        assert len(text_of(output)) == size
        assert time.monotonic() - started < 6
        assert lag.seconds < 1.0


async def test_connecting_and_closing_a_hundred_times_leaves_nothing() -> None:
    async with nothing_left():
        for _ in range(20):
            toolsets = [McpToolset(config("ok")) for _ in range(5)]
            await asyncio.gather(*(toolset.__aenter__() for toolset in toolsets))
            await asyncio.gather(*(toolset.__aexit__(None, None, None) for toolset in toolsets))
