"""How cost grows with the catalogue: 1,000 to 100,000 tools.

    python benchmarks/search_growth.py FOLDER ... [--svg docs/search-growth.svg]

FOLDER is as for `search.py`; their tools are mixed, always in the same order, and their queries asked; where they are
too few they come again as those of other servers. Prints CPU time of building, of reading the built index from disk, of
the first search (which makes the vectors), of a query (best of three, limit 5) and of taking up a server whose tools
all changed, and what the index read from disk adds in memory: to the process's own (Linux tells; memory freed before is
used again, so that small sizes show little), and the file, which all processes share. Each size in a process of its
own; `--svg` draws the query times.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import math
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.pop(0)  # this folder: its file names would hide packages
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.search_eval import queries_of
from benchmarks.search_probes import load_tools
from mcpagent.search import ToolIndex
from mcpagent.values.messages import ToolDefinition

SIZES = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
STRATEGIES = ("bm25", "hybrid")
COLUMNS = {
    "build_s": "build s CPU",
    "read_s": "from disk",
    "first_s": "first search",
    "p50_ms": "p50 ms CPU",
    "p95_ms": "p95",
    "change_ms": "a changed server",
    "own_mb": "own MB",
    "shared_mb": "shared MB",
}
_SERVER_SIZE = 22
_COLOURS = ("#1f6f8b", "#c8553d")
_WIDTH, _HEIGHT, _MARGIN = 640, 320, 48


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument(
        "--cap", type=int, default=25, help="queries of each source (25)"
    )
    parser.add_argument("--svg", type=Path, help="where to draw the query times")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        strategy, size = options.worker
        print(json.dumps(measure(options.folders, strategy, int(size), options.cap)))
        return
    rows: dict[str, list[dict[str, float]]] = {strategy: [] for strategy in STRATEGIES}
    print(
        f"| | tools | {' | '.join(COLUMNS.values())} |\n"
        + "| --- " * (len(COLUMNS) + 2)
        + "|"
    )
    for strategy in STRATEGIES:
        for size in SIZES:
            command = [
                sys.executable,
                __file__,
                *map(str, options.folders),
                "--cap",
                str(options.cap),
            ]
            done = subprocess.run(
                [*command, "--worker", strategy, str(size)],
                stdout=subprocess.PIPE,
                check=True,
            )
            row = json.loads(done.stdout)
            rows[strategy].append(row)
            shown = " | ".join(f"{row[column]:.2f}" for column in COLUMNS)
            print(f"| {strategy} | {row['tools']:,} | {shown} |", flush=True)
    if options.svg:
        options.svg.write_text(drawing(rows))


def measure(folders: list[Path], strategy: str, size: int, cap: int) -> dict[str, Any]:
    """The figures of `COLUMNS` over the first `size` tools of all folders in the order of their names' hashes."""
    by_name = {tool.name: tool for folder in folders for tool in load_tools(folder)}
    names = sorted(
        by_name,
        key=lambda name: hashlib.sha256(name.encode("utf-8", "replace")).digest(),
    )
    mixed = [by_name[name] for name in names[:size]]
    servers: dict[str, list[ToolDefinition]] = {}
    for place in range(size):
        tool, again = mixed[place % len(mixed)], place // len(mixed)
        if again:
            tool = replace(
                tool, name=f"{tool.name}_{again}", server=f"{tool.server}{again}"
            )
        servers.setdefault(tool.server or "", []).append(tool)
    queries = [row["query"] for folder in folders for row in queries_of(folder, cap)]
    del by_name, names, mixed
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        reader, writer = multiprocessing.Pipe(duplex=False)
        builder = multiprocessing.get_context("fork").Process(
            target=_build, args=(servers, strategy, folder, writer)
        )
        builder.start()
        build_s = reader.recv()
        builder.join()
        before = _own_mb()
        index, read_s = _built(servers, strategy, folder)
        own_mb = _own_mb() - before
        first_s = _milliseconds(index.search, "a first search of anything") / 1e3
        times = sorted(
            min(_milliseconds(index.search, query) for _ in range(3))
            for query in queries
        )
        usual = min(
            servers,
            key=lambda server: (abs(len(servers[server]) - _SERVER_SIZE), server),
        )
        index.replace(
            usual,
            [
                replace(tool, description=f"{tool.description} New.")
                for tool in servers[usual]
            ],
        )
        change_ms = _milliseconds(len, index)
        shared = sum(path.stat().st_size for path in folder.glob("index-*.bin"))
    return {
        "tools": size,
        "build_s": build_s,
        "read_s": read_s,
        "first_s": first_s,
        "p50_ms": times[len(times) // 2],
        "p95_ms": times[int(len(times) * 0.95)],
        "change_ms": change_ms,
        "own_mb": own_mb,
        "shared_mb": shared / 1e6,
    }


def _build(
    servers: dict[str, list[ToolDefinition]],
    strategy: str,
    folder: Path,
    writer: Connection,
) -> None:
    writer.send(_built(servers, strategy, folder)[1])


def _built(
    servers: dict[str, list[ToolDefinition]], strategy: str, folder: Path
) -> tuple[ToolIndex, float]:
    """The index over all tools, made at once and not at the first query, and the seconds that took."""
    start = time.process_time()
    index = ToolIndex(strategy, cache_folder=folder)  # type: ignore[arg-type]
    for server, tools in servers.items():
        index.replace(server, tools)
    assert len(index) == sum(map(len, servers.values()))
    return index, time.process_time() - start


def _own_mb() -> float:
    gc.collect()
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next(
        (int(line.split()[1]) / 1e3 for line in lines if line.startswith("RssAnon")),
        math.nan,
    )


def _milliseconds(call: Callable[[Any], object], argument: object) -> float:
    start = time.process_time()
    call(argument)
    return (time.process_time() - start) * 1e3


def drawing(rows: dict[str, list[dict[str, float]]]) -> str:
    """An SVG of p95 milliseconds over the number of tools, both from 0 and linear."""
    most_tools = max(row["tools"] for found in rows.values() for row in found)
    most_time = max(row["p95_ms"] for found in rows.values() for row in found)
    lines = []
    for place, (strategy, found) in enumerate(rows.items()):
        points = [
            (
                _MARGIN + row["tools"] / most_tools * (_WIDTH - 2 * _MARGIN),
                _HEIGHT - _MARGIN - row["p95_ms"] / most_time * (_HEIGHT - 2 * _MARGIN),
            )
            for row in found
        ]
        path = " ".join(f"{x:.0f},{y:.0f}" for x, y in points)
        lines.append(
            f'<polyline points="{path}" fill="none" stroke="{_COLOURS[place]}" stroke-width="2"/>'
        )
        x, y = points[-1]
        label = f"{strategy} {found[-1]['p95_ms']:.1f} ms"
        lines.append(
            f'<text x="{x:.0f}" y="{y - 8:.0f}" text-anchor="end" fill="{_COLOURS[place]}">{label}</text>'
        )
    left, bottom, right = _MARGIN, _HEIGHT - _MARGIN, _WIDTH - _MARGIN
    lines.append(
        f'<path d="M{left},{_MARGIN} V{bottom} H{right}" fill="none" stroke="#555"/>'
    )
    lines.append(
        f'<text x="{right}" y="{bottom + 20}" text-anchor="end" fill="#555">{most_tools:,.0f} tools</text>'
    )
    lines.append(
        f'<text x="{left}" y="{_MARGIN - 12}" fill="#555">p95 of a query, ms of CPU</text>'
    )
    style = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="13"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {style}>\n'
        + "\n".join(lines)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    main()
