"""`mcpagent gateway` as a client starts it: over standard input and output, and over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from mcp import Client
from tests.gateway.behind import text_of
from tests.servers.leftovers import nothing_left, processes
from tests.terminal.process import ROOT, environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

SERVERS = ROOT / "tests" / "servers"


def configured(tmp_path: Path) -> Path:
    """A configuration of two servers, whose processes have the folder in their command lines."""
    weather = {"command": sys.executable, "args": [str(SERVERS / "weather_server.py"), str(tmp_path)]}
    every = {
        "command": sys.executable,
        "args": [str(SERVERS / "everyday.py"), "stdio", str(tmp_path)],
        "cwd": str(ROOT),
    }
    path = tmp_path / "servers.json"
    path.write_text(json.dumps({"mcpServers": {"weather": weather, "every": every}}))
    return path


def command(tmp_path: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "mcpagent", "gateway", "--config", str(configured(tmp_path)), *more]


def environ(tmp_path: Path) -> dict[str, str]:
    return {**environment(tmp_path / "home"), "PYTHONPATH": str(ROOT)}


@contextlib.asynccontextmanager
async def started(tmp_path: Path, *more: str, mode: str = "auto") -> AsyncIterator[Client]:
    words = command(tmp_path, *more)
    parameters = StdioServerParameters(command=words[0], args=words[1:], env=environ(tmp_path), cwd=str(ROOT))
    async with Client(stdio_client(parameters), mode=mode) as client:
        yield client


def reported(tmp_path: Path, *words: str) -> Any:
    line = [sys.executable, "-m", "mcpagent", "gateway", *words, "--json"]
    done = subprocess.run(line, env=environ(tmp_path), cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_over_standard_input_searches_and_calls(mode: str, tmp_path: Path) -> None:
    async with nothing_left(str(tmp_path), most_lag_seconds=30, most_process_seconds=30, most_wall_seconds=100):
        for _ in range(2):  # the second time from the cached lists
            async with started(tmp_path, mode=mode) as client:
                names = [tool.name for tool in (await client.list_tools()).tools]
                assert names == ["search_tools", "call_read_tool", "call_write_tool", "call_destructive_tool"]
                asked = {"query": "current weather for a location"}
                found = json.loads(text_of(await client.call_tool("search_tools", asked)))
                assert found["tools"][0]["name"] == "weather__get_weather"
                called = {"name": "weather__get_weather", "arguments": {"location": "Rome"}}
                result = await client.call_tool("call_read_tool", called)
                assert text_of(result) == "Rome: 18 degrees celsius, light rain"
                await client.call_tool("search_tools", {"query": "zzzz qqqq"})
    status = reported(tmp_path, "status")
    calls = {"tool": "weather__get_weather", "outcome": "answered", "calls": 2}
    assert status["running"] == []
    assert status["calls"] == [calls]
    assert status["failed_searches"] == [{"query": "zzzz qqqq", "searches": 2}]
    assert set(status["tokens_saved"]) == {"mcp"}
    kinds = [event["kind"] for event in reported(tmp_path, "logs")]
    assert kinds == ["start", "list", "search", "call", "search", "end"] * 2


async def test_a_gateway_over_http_ends_at_sigterm_with_its_servers(tmp_path: Path) -> None:
    async with nothing_left(str(tmp_path), most_lag_seconds=30, most_process_seconds=30, most_wall_seconds=100):
        token = {"MCPAGENT_GATEWAY_TOKEN": "of-the-tests"}
        process = await asyncio.create_subprocess_exec(
            *command(tmp_path, "--set", "http=0", "--set", "mode=all"),
            env=environ(tmp_path) | token,
            cwd=ROOT,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        try:
            async with asyncio.timeout(100):
                address = None
                while address is None:
                    address = re.search(r"http://\S+/mcp", (await process.stderr.readline()).decode())
                headers = {"Authorization": "Bearer of-the-tests"}
                async with (
                    httpx2.AsyncClient(headers=headers, timeout=60) as http,
                    Client(streamable_http_client(address[0], http_client=http)) as client,
                ):
                    assert len((await client.list_tools()).tools) == 9
                    assert text_of(await client.call_tool("every__add", {"a": 1})) == "2"
                process.send_signal(signal.SIGTERM)
                await process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


@pytest.mark.attack
@pytest.mark.parametrize("killed", ["gateway", "server"])
async def test_a_kill_leaves_no_process_and_the_next_start_works(killed: str, tmp_path: Path) -> None:
    for _ in range(2):
        words = command(tmp_path, "--set", "mode=all")
        parameters = StdioServerParameters(command=words[0], args=words[1:], env=environ(tmp_path), cwd=str(ROOT))
        with contextlib.suppress(BaseExceptionGroup, Exception):
            async with Client(stdio_client(parameters)) as client:
                await client.list_tools()
                assert text_of(await client.call_tool("every__add", {"a": 1})) == "2"
                begun = asyncio.Event()

                async def note(progress: float, total: float | None, message: str | None) -> None:
                    begun.set()  # noqa: B023 - it is awaited before the loop goes on

                steps = client.call_tool("every__steps", {"count": 10_000}, progress_callback=note)
                waiting = asyncio.create_task(steps)
                async with asyncio.timeout(60):
                    await begun.wait()
                marker = "everyday.py" if killed == "server" else "mcpagent gateway"
                for pid in pids(marker, tmp_path):
                    os.kill(pid, signal.SIGKILL)
                if killed == "server":
                    result = await waiting
                    assert result.is_error
                    assert "may have run" in text_of(result)
                    assert text_of(await client.call_tool("every__add", {"a": 1})) == "2"
                    assert text_of(await client.call_tool("weather__get_forecast", {"location": "Rome"}))
                else:
                    await asyncio.gather(waiting, return_exceptions=True)
        async with asyncio.timeout(60):
            while pids("", tmp_path):  # noqa: ASYNC110 - processes end without telling
                await asyncio.sleep(0.05)


CLIENT = """
import asyncio, json, sys
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

async def main(words):
    parameters = StdioServerParameters(command=words[0], args=words[1:], env=json.loads(sys.argv[2]))
    async with Client(stdio_client(parameters)) as client:
        await client.call_tool("every__add", {"a": 1})
        async def note(*_):
            print("begun", flush=True)
        await client.call_tool("every__steps", {"count": 10_000}, progress_callback=note)

asyncio.run(main(json.loads(sys.argv[1])))
"""


@pytest.mark.attack
async def test_a_killed_client_takes_its_gateway_and_servers_along(tmp_path: Path) -> None:
    words = command(tmp_path, "--set", "mode=all")
    for _ in range(2):
        client = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", CLIENT, json.dumps(words), json.dumps(environ(tmp_path))),
            cwd=ROOT,
            env=environ(tmp_path),
            stdout=asyncio.subprocess.PIPE,
        )
        assert client.stdout is not None
        try:
            async with asyncio.timeout(100):
                assert await client.stdout.readline() == b"begun\n"
                assert pids("mcpagent gateway", tmp_path)
                assert pids("everyday.py", tmp_path)
        finally:
            client.kill()
            await client.wait()
        async with asyncio.timeout(60):
            while pids("", tmp_path):  # noqa: ASYNC110 - processes end without telling
                await asyncio.sleep(0.05)
    async with started(tmp_path, "--set", "mode=all") as again:
        assert text_of(await again.call_tool("every__add", {"a": 1})) == "2"
    status = reported(tmp_path, "status")
    assert status["running"] == []


def pids(marker: str, tmp_path: Path) -> list[int]:
    """The living processes of the test with a marker in their command lines."""
    return [
        pid
        for pid, text in processes(str(tmp_path)).items()
        if str(tmp_path) in text and marker in text and text[0] != "Z"
    ]
