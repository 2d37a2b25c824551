"""Connections to MCP servers: mcpagent beside the plain SDK client and fastmcp's, under load and on the same faults.

    python -m benchmarks.mcp [--home DIR] [--only WORDS] [SYSTEM ...]

Installs mcpagent (this repository), `mcp` and `fastmcp`, newest releases, each into an environment of its own in the
home folder. Each measurement runs in a process of its own against tests/servers/faulty_server.py, which needs nothing
installed. What hangs is ended after `LIMIT_SECONDS` and shown as such. Memory and what is left are read from /proc.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SERVER = ROOT / "tests" / "servers" / "faulty_server.py"
LIMIT_SECONDS = 300.0
CYCLES = 1_000
STARTS = 5
PACKAGES = {"mcpagent": ["-e", str(ROOT)], "sdk": ["mcp"], "fastmcp": ["fastmcp"]}

Call = Callable[[str, str], Awaitable[Any]]


@asynccontextmanager
async def mcpagent_client(mode: str) -> AsyncIterator[Call]:
    from mcpagent.config import ServerConfig
    from mcpagent.mcp.server_link import ServerLink

    config = ServerConfig(
        name="bench", command=sys.executable, args=(str(SERVER), *mode.split())
    )
    async with ServerLink(config) as toolset:
        tools = {tool.name: tool for tool in await toolset.tools()}

        async def call(tool: str, text: str) -> Any:
            return await tools[tool].run({"text": text})

        yield call


@asynccontextmanager
async def sdk_client(mode: str) -> AsyncIterator[Call]:
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters

    async with Client(
        StdioServerParameters(command=sys.executable, args=[str(SERVER), *mode.split()])
    ) as client:
        await client.list_tools()

        async def call(tool: str, text: str) -> Any:
            return await client.call_tool(tool, {"text": text})

        yield call


@asynccontextmanager
async def fastmcp_client(mode: str) -> AsyncIterator[Call]:
    from fastmcp import Client  # type: ignore[import-not-found,unused-ignore]
    from fastmcp.client.transports import StdioTransport  # type: ignore[import-not-found,unused-ignore]

    async with Client(
        StdioTransport(sys.executable, [str(SERVER), *mode.split()], keep_alive=False)
    ) as client:
        await client.list_tools()

        async def call(tool: str, text: str) -> Any:
            return await client.call_tool(tool, {"text": text}, raise_on_error=False)

        yield call


CLIENTS = {"mcpagent": mcpagent_client, "sdk": sdk_client, "fastmcp": fastmcp_client}


def resident_mib() -> float:
    status = Path("/proc/self/status")
    for line in status.read_text().splitlines() if status.exists() else ():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def children() -> int:
    """Living processes that this one started, and zombies."""
    found = 0
    for folder in Path("/proc").iterdir() if Path("/proc").is_dir() else ():
        try:
            found += (
                int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                == os.getpid()
            )
        except (OSError, ValueError, IndexError):
            continue
    return found


def open_files() -> int:
    return (
        len(list(Path("/proc/self/fd").iterdir()))
        if Path("/proc/self/fd").is_dir()
        else 0
    )


async def connect(system: str) -> str:
    async with CLIENTS[system]("ok"):
        pass
    times = []
    for _ in range(10):
        started = time.perf_counter()
        async with CLIENTS[system]("ok"):
            pass
        times.append(time.perf_counter() - started)
    return f"{sorted(times)[5] * 1000:.0f} ms"


async def cycles(system: str) -> str:
    async def some() -> None:
        for _ in range(CYCLES // 10):
            async with CLIENTS[system]("ok"):
                pass

    await some()
    files, memory, tasks = open_files(), resident_mib(), len(asyncio.all_tasks())
    started = time.perf_counter()
    await asyncio.gather(*(some() for _ in range(9)))
    seconds = time.perf_counter() - started
    left = f"{children()} processes, {open_files() - files} files, {len(asyncio.all_tasks()) - tasks} tasks left"
    return (
        f"{seconds:.0f} s; {left}; memory +{max(0.0, resident_mib() - memory):.0f} MiB"
    )


async def sequential(system: str) -> str:
    async with CLIENTS[system]("ok") as call:
        for number in range(500):
            await call("echo", str(number))
        memory, times = resident_mib(), []
        for number in range(10_000):
            started = time.perf_counter()
            await call("echo", str(number))
            times.append(time.perf_counter() - started)
        times.sort()
        grown = max(0.0, resident_mib() - memory)
        return f"p50 {times[5_000] * 1000:.2f} ms, p99 {times[9_900] * 1000:.2f} ms; memory +{grown:.0f} MiB"


async def concurrent(system: str) -> str:
    async with CLIENTS[system]("any-order") as call:
        times, right = [], 0
        for _ in range(11):
            started = time.perf_counter()
            results = await asyncio.gather(
                *(call("echo", str(number)) for number in range(200))
            )
            times.append((time.perf_counter() - started) * 1000)
            right += sum(
                result.content[0].text == str(number)
                for number, result in enumerate(results)
            )
    median = statistics.median(times[1:])
    return f"{median:.0f} ms ({times[0]:.0f} ms the first time), {right} of 2,200 answers with their callers"


@dataclass
class Held:
    """The longest that the event loop was held, in seconds, as a task that wakes every 5 ms noticed it."""

    seconds: float = 0.0


@asynccontextmanager
async def watched() -> AsyncIterator[Held]:
    held = Held()

    async def watch() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            held.seconds = max(held.seconds, time.perf_counter() - before - 0.005)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0.02)
    held.seconds = 0.0
    try:
        yield held
        await asyncio.sleep(0.02)
    finally:
        watching.cancel()


async def large(system: str) -> str:
    """One answer of 50 MB, and how long the event loop was held by it."""
    async with CLIENTS[system]("big-output") as call, watched() as held:
        started = time.perf_counter()
        ended = await outcome(call("trouble", "x"), 120)
        seconds = time.perf_counter() - started
    return f"{ended} after {seconds:.1f} s; loop held for {held.seconds * 1000:.0f} ms at most"


async def notifications(system: str) -> str:
    """100,000 log messages before one answer, which takes the server alone about half a second to write."""
    async with (
        CLIENTS[system]("flood-notifications --count 100000") as call,
        watched() as held,
    ):
        used, started = time.process_time(), time.perf_counter()
        ended = await outcome(call("trouble", "x"), 120)
        seconds, used = time.perf_counter() - started, time.process_time() - used
    return f"{ended} after {seconds:.1f} s, {used:.1f} s of CPU; loop held for {held.seconds * 1000:.0f} ms at most"


IMPORTED = {
    "mcpagent": ["mcpagent.mcp.server_link"],
    "sdk": ["mcp", "mcp.client.stdio"],
    "fastmcp": ["fastmcp", "fastmcp.client.transports"],
}
"""What a program that uses the client has at its head, and so has loaded before its event loop runs."""

LOADED = IMPORTED | {
    "mcpagent": ["mcpagent.mcp.server_link", "mcpagent.mcp.connection"]
}
"""The same with all that a connect needs: mcpagent loads the rest when it connects, beside the event loop."""


def first(option: str) -> Callable[[str], Awaitable[str]]:
    """The first connect of a process, medians of `STARTS` processes."""

    async def measure(system: str) -> str:
        found: list[tuple[float, ...]] = []
        for _ in range(STARTS):
            command = [sys.executable, "-m", "benchmarks.mcp", option, system]
            run = await asyncio.create_subprocess_exec(
                *command, cwd=ROOT, stdout=subprocess.PIPE
            )
            found.append(
                tuple(json.loads((await run.communicate())[0].splitlines()[-1]))
            )
        loading, connecting, cpu, held = (
            statistics.median(column) for column in zip(*found, strict=True)
        )
        return (
            f"packages in {loading:.2f} s, connected {connecting:.2f} s after that, {cpu:.2f} s of CPU in all; "
            f"loop held for {held * 1000:.0f} ms at most"
        )

    return measure


async def connected_first(system: str, loading: float) -> tuple[float, ...]:
    async with watched() as held:
        started = time.perf_counter()
        async with CLIENTS[system]("ok"):
            seconds = time.perf_counter() - started
            used = time.process_time()
    return loading, seconds, used, held.seconds


def started_first(system: str, modules: Iterable[str]) -> tuple[float, ...]:
    started = time.perf_counter()
    for module in modules:
        import_module(module)
    return asyncio.run(connected_first(system, time.perf_counter() - started))


def one_call(mode: str) -> Callable[[str], Awaitable[str]]:
    """How one troublesome call ends, and whether the next one works."""

    async def measure(system: str) -> str:
        async with CLIENTS[system](mode) as call:
            started = time.perf_counter()
            ended = await outcome(call("trouble", "x"))
            seconds = time.perf_counter() - started
            following = await outcome(call("echo", "next"))
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
            return f"connected after {seconds:.2f} s; next call: {await outcome(call('echo', 'next'))}"

    return measure


async def outcome(work: Awaitable[Any], limit: float = 10) -> str:
    try:
        async with asyncio.timeout(limit):
            result = await work
    except TimeoutError:
        return f"no answer in {limit:g} s"
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  whatever a client raises is the result
        return type(error).__name__
    kind = getattr(result, "error", None) or getattr(result, "is_error", None)
    return f"error {kind}" if kind else "ok"


MEASURES: dict[str, Callable[[str], Awaitable[str]]] = {
    "connect, list and close": connect,
    "10,000 calls one after the other": sequential,
    "200 calls at once, answered in any order": concurrent,
    f"{CYCLES:,} connections opened and closed, ten at a time": cycles,
    "50 MB in one answer": large,
    "100,000 notifications before an answer": notifications,
    "the first connect of a process": first("--first"),
    "the first connect of a process that has loaded all packages": first("--loaded"),
    "answer cut off": one_call("truncated-json"),
    "one byte that is not UTF-8": one_call("invalid-utf8"),
    "server killed in the call": one_call("kill-on-call"),
    "server that ignores the era probe": start("silent-discover"),
    "server that dies of the era probe": start("fatal-discover"),
    "one malformed tool in the list": start("list-one-bad"),
}


def installed(home: Path, system: str) -> Path:
    """The Python of an environment that has the system's newest release."""
    python = (
        home / system / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    )
    if not python.exists():
        print(f"installing {system}", file=sys.stderr)
        subprocess.run(
            [sys.executable, "-m", "venv", home / system], check=True, timeout=120
        )
        install = [
            str(python),
            "-m",
            "pip",
            "install",
            "-qq",
            "--disable-pip-version-check",
            *PACKAGES[system],
        ]
        subprocess.run(install, check=True, timeout=600)
    return python


def measured(python: Path, system: str, measure: str) -> str:
    command = [str(python), "-m", "benchmarks.mcp", "--one", system, measure]
    try:
        run = subprocess.run(
            command,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"still running after {LIMIT_SECONDS:.0f} s"
    if run.returncode == 0:
        return str(json.loads(run.stdout.splitlines()[-1]))
    lines = [line.strip(" |+-") for line in run.stderr.splitlines()]
    return f"failed: {next((line for line in reversed(lines) if 'Error' in line or 'Exception' in line), '?')[:100]}"


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(asyncio.run(MEASURES[sys.argv[3]](sys.argv[2]))))  # type: ignore[arg-type]
        return
    if sys.argv[1:2] in (["--first"], ["--loaded"]):
        modules = IMPORTED if sys.argv[1] == "--first" else LOADED
        print(json.dumps(started_first(sys.argv[2], modules[sys.argv[2]])))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--home",
        type=Path,
        help="where the environments are kept; default: a folder that is removed",
    )
    parser.add_argument(
        "--only", default="", help="only what is measured with these words in its name"
    )
    parser.add_argument(
        "systems", nargs="*", choices=[*PACKAGES, []], help="default: all"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = options.home or Path(folder)
        pythons = {
            system: installed(home, system) for system in options.systems or PACKAGES
        }
        for measure in (name for name in MEASURES if options.only in name):
            print(measure)
            for system, python in pythons.items():
                print(
                    f"    {system:10} {measured(python, system, measure)}", flush=True
                )


if __name__ == "__main__":
    main()
