"""The gateway beside fastmcp's proxy, in front of the same servers: definitions, first list, calls, searches, memory.

    python -m benchmarks.gateway CATALOGUES [--calls 200] [--peer PYTHON]

`CATALOGUES` is a folder with `tools/list` answers of MCP servers as JSON; each becomes a server
(tests/servers/catalog_server.py). `--peer` is a Python with fastmcp. Times are CPU or wall seconds of one run on one
machine, so compare them only with each other. Calls are those of one client, one after the other, over stdio.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

ROOT = Path(__file__).resolve().parent.parent
SERVER = ROOT / "tests" / "servers" / "catalog_server.py"
ECHO = ROOT / "tests" / "servers" / "faulty_server.py"
QUERIES = (
    "current weather",
    "create an issue",
    "list the files of a folder",
    "send a message",
    "search the web",
    "run a query",
    "read a page",
    "upload a file",
)
PEER = """
import json, sys
from fastmcp.server import create_proxy
create_proxy(json.load(open(sys.argv[1]))).run("stdio", show_banner=False)
"""


def configuration(folder: Path, catalogues: Path) -> Path:
    """Write a configuration with one server for each catalogue."""
    files = sorted(catalogues.glob("*.json"))
    entries = {
        file.stem: {"command": sys.executable, "args": [str(SERVER), str(file)]}
        for file in files
    }
    path = folder / "servers.json"
    path.write_text(json.dumps({"mcpServers": entries}))
    return path


@asynccontextmanager
async def connected(command: list[str], home: Path) -> AsyncIterator[Client]:
    """A client of a gateway, with folders of its own."""
    environ = {**os.environ, "HOME": str(home), "MCPAGENT_HOME": str(home / "own")}
    parameters = StdioServerParameters(
        command=command[0], args=command[1:], env=environ, cwd=str(ROOT)
    )
    async with Client(stdio_client(parameters), mode="legacy") as client:
        yield client


def child(words: str) -> Path:
    """Return the folder in /proc of the process with these words in its command line."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if words in line and int(entry.name) != os.getpid():
            return entry
    raise LookupError(words)


def cpu_seconds(process: Path) -> float:
    """Return the CPU seconds of a process."""
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(process: Path) -> float:
    """Return the resident megabytes of a process."""
    pages = int((process / "statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def calls_of(client: Client, name: str, arguments: Any, count: int) -> float:
    """Return the median milliseconds of a call."""
    await client.call_tool(name, arguments)
    seconds = []
    for _ in range(count):
        started = time.perf_counter()
        await client.call_tool(name, arguments)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds) * 1000


async def measured(folder: Path, catalogues: Path, count: int) -> dict[str, Any]:
    """Measure the gateway in search mode over all servers, from cached lists."""
    config = configuration(folder, catalogues)
    command = [sys.executable, "-m", "mcpagent", "gateway", "--config", str(config)]
    async with connected([*command, "--set", "mode=all"], folder) as client:
        tools = (
            await client.list_tools()
        ).tools  # waits for all, which fills the cache
    found: dict[str, Any] = {"tools": len(tools)}
    started = time.perf_counter()
    async with connected(command, folder) as client:
        greeted = time.perf_counter()
        listed = (await client.list_tools()).tools
        found["first_list_ms"] = (time.perf_counter() - greeted) * 1000
        found["start_to_list_ms"] = (time.perf_counter() - started) * 1000
        text = json.dumps(
            [tool.model_dump(by_alias=True, exclude_none=True) for tool in listed]
        )
        found["listed_tokens"] = len(text) // 4
        process = child(f"gateway --config {config}")
        await client.call_tool("search_tools", {"query": QUERIES[0]})
        costs = []
        for number in range(count):
            before = cpu_seconds(process)
            for query in QUERIES:
                await client.call_tool(
                    "search_tools", {"query": f"{query} {number % 7}"}
                )
            costs.append((cpu_seconds(process) - before) * 1000 / len(QUERIES))
        costs.sort()
        found["search_cpu_ms_mean"] = statistics.mean(costs)
        found["search_cpu_ms_p95_of_8"] = costs[int(len(costs) * 0.95) - 1]
        found["memory_mb"] = memory_mb(process)
    return found


async def overhead(folder: Path, count: int, peer: str) -> dict[str, float]:
    """Measure a call direct, through the gateway, and through fastmcp's proxy, each over stdio."""
    entry = {"command": sys.executable, "args": [str(ECHO), "ok"]}
    config = folder / "echo.json"
    config.write_text(json.dumps({"mcpServers": {"echo": entry}}))
    text, found = {"text": "hello"}, {}
    gateway = [sys.executable, "-m", "mcpagent", "gateway", "--config", str(config)]
    ways = {
        "direct_ms": [sys.executable, str(ECHO), "ok"],
        "gateway_ms": [*gateway, "--set", "mode=all", "--set", "prefix=off"],
    }
    if peer:
        ways["fastmcp_ms"] = [peer, "-c", PEER, str(config)]
    for name, command in ways.items():
        async with connected(command, folder) as client:
            await client.list_tools()
            found[name] = await calls_of(client, "echo", text, count)
    return found


def main() -> None:
    """Measure, and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("catalogues", type=Path)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--peer", default="")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures = asyncio.run(
            measured(folder, given.catalogues, max(given.calls // 8, 5))
        )
        figures |= asyncio.run(overhead(folder, given.calls, given.peer))
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
