"""What a turn costs beside other agent frameworks: CPU per turn and per call, in short and in long conversations.

    python -m benchmarks.loop [--wire] [--runs 3] [--home DIR]

Installs mcpagent (this repository) and the others, newest releases, each into an environment of its own in the home
folder, with the Python that runs this: fast-agent, whose releases for Python 3.11 are old and have another API, is
measured from 3.12 on (`python3.13 -m benchmarks.loop`) and else left out, which the closing lines say. A turn is a
prompt, an answer that calls one Python function, its result, and the final answer, after a history of N messages in the
framework's own form (`benchmarks/loop_systems.py`). CPU is the process's own, user and system: of beginning a
conversation with that history and its first turn, of the next turn, and of one more call and answer in a turn (a turn
with 5 calls less one with 1, a fourth of it). One process measures conversations of all lengths in turn, and the
processes of the frameworks are interleaved. With 100 conversations at once, in a process of their own, it is the first
turn of each, and memory is what the process's peak grows by for each, its history included; what takes over a minute of
these is run once. Tracing is off everywhere. It takes an hour; Ctrl-C prints what was measured so far.

The models are scripted, each of its framework's own kind; with `--wire` they are the frameworks' own for Chat
Completions, against a server of canned answers in another process.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.loop_systems import SYSTEMS, Ask, Ready, history, prompts

ROOT = Path(__file__).resolve().parents[1]
SIZES = (10, 100, 1_000, 5_000)
AT_ONCE = 100
PACKAGES = {
    "mcpagent": ["-e", str(ROOT)],
    "mcpagent-kept": ["-e", str(ROOT)],
    "pydantic-ai-slim": ["pydantic-ai-slim[openai]"],
    "openai-agents": ["openai-agents"],
    "openai-agents-kept": ["openai-agents"],
    "fast-agent-mcp": ["fast-agent-mcp"],
}
OURS, KEPT, *PEERS = PACKAGES
"""Ours twice: in memory, and with each step written into a file of sessions before the next one.

openai-agents, too: with the list it gives, and with its `SQLiteSession` in a file.
"""

SAME_PLACE = {KEPT: OURS, "openai-agents-kept": "openai-agents"}
"""The package whose environment another row is measured in."""

NEEDS_PYTHON = {"fast-agent-mcp": (3, 12)}
"""The first Python that the newest release runs on (Requires-Python of 0.10); pip gives an older one another API."""
LIMIT_SECONDS = 3_600.0
ONCE_SECONDS = 60.0
"""CPU seconds from which on 100 conversations at once are not run again."""

ENOUGH_SECONDS, MOST_ROUNDS = 4.0, 40
"""How long one process measures one conversation after the other."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One block of the table. `unit` stands for what is printed, `times` turns what was measured into it."""

    name: str
    conversations: int
    title: str
    times: float = 1_000.0


MEASURES = (
    Measure("next", 1, "a turn, CPU ms"),
    Measure("call", 1, "one more call in a turn, CPU ms"),
    Measure("first", 1, "beginning with the history, and a turn, CPU ms"),
    Measure(
        "turn", AT_ONCE, f"{AT_ONCE} conversations at once, a turn of each, CPU ms"
    ),
    Measure(
        "memory", AT_ONCE, f"{AT_ONCE} conversations at once, memory of each, KiB", 1.0
    ),
)
Figures = dict[tuple[str, int, str], list[float]]
"""What was measured, by package, length of the history and measure."""


class NotMeasuredError(Exception):
    """A process failed; its text is one line."""


# -- one process measures one thing -----------------------------------------------------------------------------------


async def measured(
    system: str, sizes: Sequence[int], conversations: int, address: str
) -> list[dict[str, float]]:
    """The figures of one process, by size: medians of conversations one after the other, or of all of them at once."""
    async with SYSTEMS[system](address) as ready:
        await _asked(await ready.begin(ready.native(history(10, "warm up"))), 1)
        if conversations > 1:
            return [await _at_once(ready, size, conversations) for size in sizes]
        return await _one_by_one(ready, sizes)


async def _one_by_one(ready: Ready, sizes: Sequence[int]) -> list[dict[str, float]]:
    """Short and long conversations take turns, so that their figures can be compared."""
    rounds: list[list[dict[str, float]]] = []
    until = time.process_time() + ENOUGH_SECONDS
    while not rounds or (len(rounds) < MOST_ROUNDS and time.process_time() < until):
        rounds.append(
            [await _one(ready, size, f"round {len(rounds)}") for size in sizes]
        )
    return [
        {
            name: statistics.median(figures[name] for figures in same_size)
            for name in same_size[0]
        }
        for same_size in zip(*rounds, strict=True)
    ]


async def _one(ready: Ready, size: int, name: str) -> dict[str, float]:
    native = ready.native(history(size, name))
    gc.collect()
    started = time.process_time()
    ask = await ready.begin(native)
    await _asked(ask, 1)
    first = time.process_time() - started
    one, five = await _cpu(ask, 1), await _cpu(ask, 5)
    return {"first": first, "next": one, "call": (five - one) / 4}


async def _cpu(ask: Ask, calls: int) -> float:
    started = time.process_time()
    await _asked(ask, calls)
    return time.process_time() - started


async def _at_once(ready: Ready, size: int, conversations: int) -> dict[str, float]:
    lines = [history(size, f"conversation {number}") for number in range(conversations)]
    gc.collect()
    before = _memory("VmRSS")
    _count_peak_anew()
    asks = [await ready.begin(ready.native(one)) for one in lines]
    started = time.process_time()
    await asyncio.gather(*(_asked(ask, 1) for ask in asks))
    seconds = time.process_time() - started
    return {
        "turn": seconds / conversations,
        "memory": (_memory("VmHWM") - before) / conversations,
    }


_PROMPTS = prompts()


async def _asked(ask: Ask, calls: int) -> None:
    answer = await ask(f"{next(_PROMPTS)}[calls={calls}]")
    if answer != f"Done after {calls} calls.":
        raise AssertionError(f"another answer than the script's: {answer!r}")


def _count_peak_anew() -> None:
    Path("/proc/self/clear_refs").write_text("5", "ascii")


def _memory(which: str) -> float:
    """Resident memory in KiB: VmRSS now, VmHWM at its peak."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(which))


# -- all of them ------------------------------------------------------------------------------------------------------


def installed(home: Path, package: str, requirements: Sequence[str]) -> Path:
    """The Python of an environment that has the package."""
    python = home / package / "bin" / "python"
    if not (home / package / "ready").exists():
        print(f"installing {package} ...", file=sys.stderr, flush=True)
        subprocess.run(
            [sys.executable, "-m", "venv", "--clear", home / package],
            check=True,
            timeout=120,
        )
        pip = [
            str(python),
            "-m",
            "pip",
            "install",
            "-qq",
            "--disable-pip-version-check",
            *requirements,
        ]
        subprocess.run(pip, check=True, timeout=900)
        (home / package / "ready").touch()
    return python


@contextmanager
def canned_server() -> Iterator[str]:
    """The address of a server of canned answers, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.loop_server"]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        process.communicate(timeout=30)


def run_one(
    python: Path, package: str, sizes: Sequence[int], conversations: int, address: str
) -> tuple[list[dict[str, float]], float]:
    """The figures of one process, by size, and the CPU seconds it took."""
    listed = ",".join(map(str, sizes))
    command = [
        str(python),
        "-m",
        "benchmarks.loop",
        "--one",
        package,
        listed,
        str(conversations),
        address,
    ]
    with tempfile.TemporaryDirectory() as folder:
        variables = {
            "PATH": "/usr/bin:/bin",
            "HOME": folder,
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
        }
        apart: dict[str, Any] = {
            "cwd": folder,
            "env": variables,
            "start_new_session": True,
        }  # Ctrl-C is not for it
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
            **apart,
        )
    if done.returncode:
        last = next(
            (line for line in reversed(done.stderr.splitlines()) if line.strip()), ""
        )
        raise NotMeasuredError(f"exit code {done.returncode}: {last[:200]}")
    *_, line = done.stdout.splitlines()
    result = json.loads(line)
    return result["figures"], result["seconds"]


def measure_all(
    pythons: Mapping[str, Path],
    sizes: Sequence[int],
    runs: int,
    address: str,
    found: Figures,
) -> None:
    """Adds what it measures to `found`."""
    once: set[tuple[str, tuple[int, ...], int]] = set()
    together = [
        (tuple(sizes), 1),
        *(((size,), AT_ONCE) for size in sizes),
    ]  # memory is measured in a fresh process
    for run in range(runs):
        for some, conversations in together:
            for package, python in pythons.items():
                if (package, some, conversations) in once:
                    continue
                try:
                    by_size, seconds = run_one(
                        python, package, some, conversations, address
                    )
                except NotMeasuredError as problem:
                    print(
                        f"not measured: {package}, {some}, {conversations}: {problem}",
                        file=sys.stderr,
                        flush=True,
                    )
                    continue
                if seconds > ONCE_SECONDS and conversations > 1:
                    once.add((package, some, conversations))
                for size, figures in zip(some, by_size, strict=True):
                    for name, value in figures.items():
                        found.setdefault((package, size, name), []).append(value)
                print(
                    f"run {run + 1}: {package}, {some}, {conversations}: {by_size}",
                    file=sys.stderr,
                    flush=True,
                )


# -- the table --------------------------------------------------------------------------------------------------------


def table(found: Figures, versions: Mapping[str, str], sizes: Sequence[int]) -> str:
    lines = [
        f"{'messages before the turn (times mcpagent)':<44}"
        + "".join(f"{size:>17,}" for size in sizes)
    ]
    for measure in MEASURES:
        lines.append(measure.title)
        for package, number in versions.items():
            cells = "".join(
                f"{_cell(found, package, size, measure):>17}" for size in sizes
            )
            lines.append(f"    {f'{package} {number}':<40}{cells}")
    return "\n".join(lines)


def _cell(found: Figures, package: str, size: int, measure: Measure) -> str:
    value, ratio = (
        _median(found, package, size, measure),
        _ratio(found, package, OURS, size, measure),
    )
    if value is None or ratio is None:
        return "-"
    return (
        f"{value:.2f} ({ratio:.1f}x)" if value < 10 else f"{value:,.0f} ({ratio:.1f}x)"
    )


def _median(found: Figures, package: str, size: int, measure: Measure) -> float | None:
    values = found.get((package, size, measure.name))
    return statistics.median(values) * measure.times if values else None


def _ratio(
    found: Figures, package: str, other: str, size: int, measure: Measure
) -> float | None:
    value, others = (
        _median(found, package, size, measure),
        _median(found, other, size, measure),
    )
    return None if value is None or others is None else value / others


def left_out(packages: Sequence[str], python: tuple[int, int]) -> dict[str, str]:
    """Packages that cannot be measured with this Python, each with what to do."""
    needed = {
        package: NEEDS_PYTHON[package]
        for package in packages
        if python < NEEDS_PYTHON.get(package, python)
    }
    return {
        package: f"left out: {package} needs Python {least[0]}.{least[1]}, this is {python[0]}.{python[1]}; "
        f"run python{least[0]}.{least[1]} -m benchmarks.loop, or a later one, with a --home of its own"
        for package, least in needed.items()
    }


def verdicts(
    found: Figures, versions: Mapping[str, str], sizes: Sequence[int]
) -> list[str]:
    """Who is ahead of whom, who was not measured, and what long histories cost, one line each."""
    lines: list[str] = []
    ours = [package for package in (OURS, KEPT) if package in versions]
    for peer, own in [
        (package, own) for package in versions if package not in ours for own in ours
    ]:
        cells = {
            f"{measure.title}, {size:,} messages": _ratio(
                found, peer, own, size, measure
            )
            for measure in MEASURES
            for size in sizes
        }
        ratios = {cell: ratio for cell, ratio in cells.items() if ratio is not None}
        if not ratios:
            lines.append(f"not measured: {peer}; the lines on stderr say why")
            continue
        behind = [
            f"{cell} ({ratio:.2f}x)" for cell, ratio in ratios.items() if ratio <= 1
        ]
        told = (
            f"no: {'; '.join(behind)}" if behind else f"yes, in all {len(ratios)} cells"
        )
        lines.append(
            f"{own} ahead of {peer}: {told} ({min(ratios.values()):.1f} to {max(ratios.values()):.1f} times)"
        )
    few, many = min(sizes), max(sizes)
    for own, measure in [
        (own, measure)
        for own in ours
        for measure in MEASURES
        if measure.name in ("next", "turn")
    ]:
        short, long = (
            _median(found, own, few, measure),
            _median(found, own, many, measure),
        )
        if short is not None and long is not None:
            lines.append(
                f"{many:,} against {few:,} messages: {long / short:.1f} times ({own}, {measure.title})"
            )
    return lines


def version(python: Path, package: str) -> str:
    code = f"import importlib.metadata; print(importlib.metadata.version({package!r}))"
    done = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    return done.stdout.strip()


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        package, listed, conversations, address = sys.argv[2:]
        sizes = [int(size) for size in listed.split(",")]
        figures = asyncio.run(measured(package, sizes, int(conversations), address))
        print(json.dumps({"figures": figures, "seconds": time.process_time()}))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--wire",
        action="store_true",
        help="the frameworks' own models, against a loopback server",
    )
    parser.add_argument(
        "--runs", type=int, default=3, help="runs of each measurement (default: 3)"
    )
    parser.add_argument(
        "--home", type=Path, default=ROOT / ".demo" / "loop", help="where to install"
    )
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=SIZES, help="messages before the turn"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=PACKAGES,
        default=[*PACKAGES],
        help="measure only these",
    )
    options = parser.parse_args()
    home: Path = options.home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    missing = left_out(options.only, sys.version_info[:2])
    wanted = [
        package
        for package in dict.fromkeys((OURS, *options.only))
        if package not in missing
    ]
    pythons = {
        one: installed(home, SAME_PLACE.get(one, one), PACKAGES[one]) for one in wanted
    }
    versions = {
        one: version(python, SAME_PLACE.get(one, one))
        for one, python in pythons.items()
    }
    found: Figures = {}
    with canned_server() as address, suppress(KeyboardInterrupt):
        measure_all(
            pythons, options.sizes, options.runs, address if options.wire else "", found
        )
    print(
        f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, {options.runs} runs each, interleaved; ",
        end="",
    )
    print("Chat Completions on loopback" if options.wire else "scripted models")
    print(table(found, versions, options.sizes))
    print("\n".join([*verdicts(found, versions, options.sizes), *missing.values()]))


if __name__ == "__main__":
    main()
