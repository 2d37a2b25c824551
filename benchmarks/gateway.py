"""The gateway beside fastmcp's proxy, in front of the same servers: calls, start, searches, definitions, memory.

    python -m benchmarks.gateway CATALOGUES [--peer PYTHON] [--calls 200]

`CATALOGUES` is a folder with `tools/list` answers of MCP servers as JSON; each becomes a server
(tests/servers/catalog_server.py). `PYTHON` is one with fastmcp. CPU is that of the process between client and servers.
Calls are those of one client over stdio, in turns with the other systems, to one server. The other columns are of all
servers: the start from cached lists, the list that the client gets first, and the memory after a search.
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
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True, slots=True)
class Running:
    """A client, and the folder in /proc of the process that it started."""

    client: Client
    process: Path

    @property
    def cpu_ms(self) -> float:
        """The CPU milliseconds of the process so far."""
        fields = (self.process / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")

    @property
    def memory_mb(self) -> float:
        """The resident megabytes of the process."""
        pages = int((self.process / "statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@asynccontextmanager
async def connected(command: list[str], home: Path) -> AsyncIterator[Running]:
    """A client of a gateway, with folders of its own. Modules are compiled once, as on a user's machine."""
    environ = {
        **os.environ,
        "HOME": str(home),
        "MCPAGENT_HOME": str(home / "own"),
        "PYTHONPYCACHEPREFIX": str(home / "compiled"),
    }
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    parameters = StdioServerParameters(
        command=command[0], args=command[1:], env=environ, cwd=str(ROOT)
    )
    before = children()
    async with Client(stdio_client(parameters), mode="legacy") as client:
        [process] = children() - before
        yield Running(client, process)


def children() -> set[Path]:
    """Return the folders in /proc of the processes that this one started."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            found.add(entry)
    return found


async def calls(
    systems: dict[str, list[str]], folder: Path, count: int
) -> dict[str, dict[str, float]]:
    """Measure calls of one server's tool through each system, in turns; its CPU and the median time."""
    rounds = 10
    async with AsyncExitStack() as stack:
        running = {
            name: await stack.enter_async_context(connected(command, folder))
            for name, command in systems.items()
        }
        for one in running.values():
            await one.client.list_tools()
            for _ in range(rounds):
                await one.client.call_tool("echo", {"text": "hello"})
        cpu: dict[str, float] = dict.fromkeys(systems, 0.0)
        seconds: dict[str, list[float]] = {name: [] for name in systems}
        for _ in range(rounds):
            for name, one in running.items():
                before = one.cpu_ms
                for _ in range(count // rounds):
                    started = time.perf_counter()
                    await one.client.call_tool("echo", {"text": "hello"})
                    seconds[name].append(time.perf_counter() - started)
                cpu[name] += one.cpu_ms - before
    return {
        name: {
            "CPU ms a call": cpu[name] / len(seconds[name]),
            "ms a call": statistics.median(seconds[name]) * 1000,
        }
        for name in systems
    }


async def of_all_servers(
    command: list[str], folder: Path, searches: int
) -> dict[str, float]:
    """Measure the start of a system over all servers, the first list, searches and memory."""
    async with connected(command, folder) as running:
        started = time.perf_counter()
        listed = (await running.client.list_tools()).tools
        found = {
            "ms to the first list": (time.perf_counter() - started) * 1000,
            "CPU s of the start": running.cpu_ms / 1000,
        }
        texts = [tool.model_dump(by_alias=True, exclude_none=True) for tool in listed]
        found["tokens of the list"] = len(json.dumps(texts)) // 4
        if any(tool.name == "search_tools" for tool in listed):
            await running.client.call_tool("search_tools", {"query": QUERIES[0]})
            costs = [await search_ms(running, number) for number in range(searches)]
            found["CPU ms a search"] = statistics.mean(costs)
        found["memory MB"] = running.memory_mb
    return found


async def search_ms(running: Running, number: int) -> float:
    """Return the mean CPU milliseconds of some searches."""
    before = running.cpu_ms
    for query in QUERIES:
        await running.client.call_tool(
            "search_tools", {"query": f"{query} {number % 7}"}
        )
    return (running.cpu_ms - before) / len(QUERIES)


CPU = {
    "CPU ms a call": "{:.1f}",
    "CPU s of the start": "{:.1f}",
    "tokens of the list": "{:,.0f}",
    "CPU ms a search": "{:.1f}",
    "memory MB": "{:.0f}",
}
"""The values that a busy machine hardly changes, each with its format."""

TIME = {"ms a call": "{:.1f}", "ms to the first list": "{:,.0f}"}
"""The values that say something on an idle machine alone."""


async def measured(
    folder: Path, catalogues: Path, count: int, peer: str
) -> dict[str, dict[str, float]]:
    """Measure all systems."""
    one, all_servers = folder / "echo.json", configuration(folder, catalogues)
    entry = {"command": sys.executable, "args": [str(ECHO), "ok"]}
    one.write_text(json.dumps({"mcpServers": {"echo": entry}}))
    gateway = [sys.executable, "-m", "mcpagent", "gateway", "--config"]
    plain = ["--set", "mode=all", "--set", "prefix=off"]
    systems = {
        "without": [sys.executable, str(ECHO), "ok"],
        "mcpagent gateway": [*gateway, str(one), *plain],
    }
    if peer:
        systems["fastmcp proxy"] = [peer, "-c", PEER, str(one)]
    found = await calls(systems, folder, count)
    everything = [*gateway, str(all_servers)]
    async with connected([*everything, "--set", "mode=all"], folder) as running:
        await running.client.list_tools()  # waits for all, which fills the cache
    searches = max(count // 8, 5)
    found["mcpagent gateway"] |= await of_all_servers(everything, folder, searches)
    if peer:
        command = [peer, "-c", PEER, str(all_servers)]
        found["fastmcp proxy"] |= await of_all_servers(command, folder, searches)
    return found


def rows(figures: dict[str, dict[str, float]], columns: dict[str, str]) -> list[str]:
    """Return some of the figures as a table in Markdown."""
    lines = [f"| | {' | '.join(columns)} |", "| --- " * (len(columns) + 1) + "|"]
    for name, values in figures.items():
        cells = [
            form.format(values[column]) if column in values else "-"
            for column, form in columns.items()
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Measure, and print the figures as two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("catalogues", type=Path)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--peer", default="", metavar="PYTHON")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = asyncio.run(
            measured(Path(name), given.catalogues, given.calls, given.peer)
        )
    print("\n".join([*rows(found, CPU), "", *rows(found, TIME)]))


if __name__ == "__main__":
    main()
