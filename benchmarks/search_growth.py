"""How cost grows with the catalogue: 1,000 to 50,000 tools.

    python benchmarks/search_growth.py FOLDER ... [--svg docs/search-growth.svg]

FOLDER is as for `search.py`; their tools are mixed, always in the same order, and their queries asked. Prints CPU time
of building, of the first search (which makes the vectors) and of a query (best of three, limit 5), each size in a
process of its own; `--svg` draws the query times.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.pop(0)  # this folder: its file names would hide packages
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.search_eval import queries_of
from benchmarks.search_probes import index_of, load_tools

SIZES = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
STRATEGIES = ("bm25", "hybrid")
COLUMNS = ("build_s", "first_s", "p50_ms", "p95_ms")
_COLOURS = ("#1f6f8b", "#c8553d")
_WIDTH, _HEIGHT, _MARGIN = 640, 320, 48


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--cap", type=int, default=25, help="queries of each source (25)")
    parser.add_argument("--svg", type=Path, help="where to draw the query times")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        strategy, size = options.worker
        print(json.dumps(measure(options.folders, strategy, int(size), options.cap)))
        return
    rows: dict[str, list[dict[str, float]]] = {strategy: [] for strategy in STRATEGIES}
    print("| | tools | build s CPU | first search | p50 ms CPU | p95 |\n" + "| --- " * 6 + "|")
    for strategy in STRATEGIES:
        for size in SIZES:
            command = [sys.executable, __file__, *map(str, options.folders), "--cap", str(options.cap)]
            done = subprocess.run([*command, "--worker", strategy, str(size)], stdout=subprocess.PIPE, check=True)
            row = json.loads(done.stdout)
            rows[strategy].append(row)
            shown = " | ".join(f"{row[column]:.2f}" for column in COLUMNS)
            print(f"| {strategy} | {row['tools']:,} | {shown} |", flush=True)
            if row["tools"] < size:
                break
    if options.svg:
        options.svg.write_text(drawing(rows))


def measure(folders: list[Path], strategy: str, size: int, cap: int) -> dict[str, Any]:
    """The figures of `COLUMNS` over the first `size` tools of all folders in the order of their names' hashes."""
    by_name = {tool.name: tool for folder in folders for tool in load_tools(folder)}
    names = sorted(by_name, key=lambda name: hashlib.sha256(name.encode("utf-8", "replace")).digest())
    tools = [by_name[name] for name in names[:size]]
    queries = [row["query"] for folder in folders for row in queries_of(folder, cap)]
    del by_name, names
    gc.collect()
    start = time.process_time()
    index = index_of(tools, strategy)
    assert len(index) == len(tools)  # and so all is indexed now, not at the first query
    built = time.process_time()
    index.search("a first search of anything")
    first = time.process_time()
    times = sorted(min(_milliseconds(index.search, query) for _ in range(3)) for query in queries)
    return {
        "tools": len(tools),
        "build_s": built - start,
        "first_s": first - built,
        "p50_ms": times[len(times) // 2],
        "p95_ms": times[int(len(times) * 0.95)],
    }


def _milliseconds(search: Any, query: str) -> float:
    start = time.process_time()
    search(query)
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
        lines.append(f'<polyline points="{path}" fill="none" stroke="{_COLOURS[place]}" stroke-width="2"/>')
        x, y = points[-1]
        label = f"{strategy} {found[-1]['p95_ms']:.1f} ms"
        lines.append(f'<text x="{x:.0f}" y="{y - 8:.0f}" text-anchor="end" fill="{_COLOURS[place]}">{label}</text>')
    left, bottom, right = _MARGIN, _HEIGHT - _MARGIN, _WIDTH - _MARGIN
    lines.append(f'<path d="M{left},{_MARGIN} V{bottom} H{right}" fill="none" stroke="#555"/>')
    lines.append(f'<text x="{right}" y="{bottom + 20}" text-anchor="end" fill="#555">{most_tools:,.0f} tools</text>')
    lines.append(f'<text x="{left}" y="{_MARGIN - 12}" fill="#555">p95 of a query, ms of CPU</text>')
    style = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="13"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {style}>\n' + "\n".join(lines) + "\n</svg>\n"


if __name__ == "__main__":
    main()
