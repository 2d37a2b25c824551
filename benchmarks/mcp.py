"""Connections to MCP servers: mcpagent's toolset beside the plain SDK client and fastmcp's, on the same faults.

    python -m benchmarks.mcp                 all systems that are installed
    python -m benchmarks.mcp mcpagent sdk    only these

Each measurement runs in a process of its own against tests/servers/faulty_server.py. What hangs is ended after
`LIMIT_SECONDS` and shown as such. Needs the test extra; fastmcp is measured where it is importable.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SERVER = ROOT / "tests" / "servers" / "faulty_server.py"
LIMIT_SECONDS = 60.0
SYSTEMS = ("mcpagent", "sdk", "fastmcp")

Call = Callable[[str, str], Awaitable[Any]]


@asynccontextmanager
async def mcpagent_client(mode: str) -> AsyncIterator[Call]:
    from mcpagent.config import ServerConfig
    from mcpagent.mcp.toolset import McpToolset

    config = ServerConfig(name="bench", command=sys.executable, args=(str(SERVER), mode))
    async with McpToolset(config) as toolset:
        tools = {tool.name: tool for tool in await toolset.tools()}

        async def call(tool: str, text: str) -> Any:
            return await tools[tool].run({"text": text})

        yield call


@asynccontextmanager
async def sdk_client(mode: str) -> AsyncIterator[Call]:
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters

    async with Client(StdioServerParameters(command=sys.executable, args=[str(SERVER), mode])) as client:
        await client.list_tools()

        async def call(tool: str, text: str) -> Any:
            return await client.call_tool(tool, {"text": text})

        yield call


@asynccontextmanager
async def fastmcp_client(mode: str) -> AsyncIterator[Call]:
    from fastmcp import Client  # type: ignore[import-not-found,unused-ignore]
    from fastmcp.client.transports import StdioTransport  # type: ignore[import-not-found,unused-ignore]

    async with Client(StdioTransport(sys.executable, [str(SERVER), mode], keep_alive=False)) as client:
        await client.list_tools()

        async def call(tool: str, text: str) -> Any:
            return await client.call_tool(tool, {"text": text}, raise_on_error=False)

        yield call


CLIENTS = {"mcpagent": mcpagent_client, "sdk": sdk_client, "fastmcp": fastmcp_client}


async def connect(system: str) -> str:
    async with CLIENTS[system]("ok"):
        pass
    started = time.perf_counter()
    for _ in range(10):
        async with CLIENTS[system]("ok"):
            pass
    return f"{(time.perf_counter() - started) * 100:.0f} ms"


async def sequential(system: str) -> str:
    async with CLIENTS[system]("ok") as call:
        times = []
        for number in range(1000):
            started = time.perf_counter()
            await call("echo", str(number))
            times.append(time.perf_counter() - started)
    times.sort()
    return f"p50 {times[500] * 1000:.1f} ms, p99 {times[990] * 1000:.1f} ms"


async def concurrent(system: str) -> str:
    async with CLIENTS[system]("ok") as call:
        started = time.perf_counter()
        await asyncio.gather(*(call("echo", str(number)) for number in range(200)))
        return f"{(time.perf_counter() - started) * 1000:.0f} ms"


def one_call(mode: str) -> Callable[[str], Awaitable[str]]:
    """How one troublesome call ends, and whether the next one works."""

    async def measure(system: str) -> str:
        async with CLIENTS[system](mode) as call:
            started = time.perf_counter()
            ended = await _outcome(call("trouble", "x"))
            seconds = time.perf_counter() - started
            following = await _outcome(call("echo", "next"))
            return f"{ended} after {seconds:.2f} s; next call: {following}"

    return measure


def start(mode: str) -> Callable[[str], Awaitable[str]]:
    """How long one connect and list takes, the SDK's import aside."""

    async def measure(system: str) -> str:
        async with CLIENTS[system]("ok"):
            pass
        started = time.perf_counter()
        async with CLIENTS[system](mode) as call:
            seconds = time.perf_counter() - started
            return f"connected after {seconds:.2f} s; next call: {await _outcome(call('echo', 'next'))}"

    return measure


async def _outcome(work: Awaitable[Any]) -> str:
    try:
        async with asyncio.timeout(10):
            result = await work
    except TimeoutError:
        return "no answer in 10 s"
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  whatever a client raises is the result
        return type(error).__name__
    kind = getattr(result, "error", None) or getattr(result, "is_error", None)
    return f"error {kind}" if kind else "ok"


MEASURES: dict[str, Callable[[str], Awaitable[str]]] = {
    "connect, list and close (mean of 10)": connect,
    "1,000 calls one after the other": sequential,
    "200 calls at once": concurrent,
    "50 MB in one answer": one_call("big-output"),
    "answer cut off": one_call("truncated-json"),
    "one byte that is not UTF-8": one_call("invalid-utf8"),
    "server killed in the call": one_call("kill-on-call"),
    "server that ignores the era probe": start("silent-discover"),
    "server that dies of the era probe": start("fatal-discover"),
    "one malformed tool in the list": start("list-one-bad"),
}


def measured(system: str, measure: str) -> str:
    command = [sys.executable, "-m", "benchmarks.mcp", "--one", system, measure]
    try:
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"still running after {LIMIT_SECONDS:.0f} s"
    if run.returncode == 0:
        return str(json.loads(run.stdout.splitlines()[-1]))
    return f"failed: {(run.stderr.strip().splitlines() or ['?'])[-1][:100]}"


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(asyncio.run(MEASURES[sys.argv[3]](sys.argv[2]))))  # type: ignore[arg-type]
        return
    systems = sys.argv[1:] or [system for system in SYSTEMS if system != "fastmcp" or find_spec("fastmcp")]
    for measure in MEASURES:
        print(measure)
        for system in systems:
            print(f"    {system:10} {measured(system, measure)}", flush=True)


if __name__ == "__main__":
    main()
