"""Our search beside bm25s at one size, as ratios: machines differ by a factor of two, and busy ones by more.

    pip install -e '.[bench]'
    python benchmarks/search_ratio.py FOLDER ... [--tools 10000] [--rounds 5]

FOLDER is as for `search.py`; their tools are mixed, always in the same order, and their queries asked, each once. The
searches take turns, each round in a process of its own, and a ratio is that of one round; the medians are printed.
Where numpy finds AVX-512, selecting the best of many zeros takes it ten times as long as without, and bm25s with it:
`NPY_DISABLE_CPU_FEATURES="X86_V4 AVX512_ICL"` shows how it is elsewhere.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.pop(0)  # this folder: its file names would hide packages
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.search_data import read_rows
from benchmarks.search_eval import DEPTHS, queries_of
from benchmarks.search_systems import OURS, PEERS

PEER = "bm25s name + description"
SYSTEMS = (PEER, "mcpagent bm25", "mcpagent hybrid")
FIGURES = {"build_s": "build", "p50_ms": "p50", "p95_ms": "p95"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--tools", type=int, default=10_000)
    parser.add_argument(
        "--cap", type=int, default=100, help="queries of each source (100)"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(
            json.dumps(
                measure(options.folders, options.worker, options.tools, options.cap)
            )
        )
        return
    rounds: list[dict[str, dict[str, float]]] = []
    for _ in range(options.rounds):
        command = [
            sys.executable,
            __file__,
            *map(str, options.folders),
            "--tools",
            str(options.tools),
        ]
        command += ["--cap", str(options.cap), "--worker"]
        rounds.append(
            {
                name: json.loads(
                    subprocess.run(
                        [*command, name], stdout=subprocess.PIPE, check=True
                    ).stdout
                )
                for name in SYSTEMS
            }
        )
    print(f"On {processor()}:\n")
    print(
        f"| {options.tools:,} tools | {' | '.join(FIGURES.values())} |\n"
        + "| --- " * (len(FIGURES) + 1)
        + "|"
    )
    for name in SYSTEMS[1:]:
        ratios = [
            statistics.median(one[name][key] / one[PEER][key] for one in rounds)
            for key in FIGURES
        ]
        print(
            f"| {name}, times bm25s | {' | '.join(f'{ratio:.1f}' for ratio in ratios)} |"
        )


def processor() -> str:
    """The processor's name and number of cores, and whether numpy finds AVX-512 and may use it."""
    lines = (
        Path("/proc/cpuinfo").read_text().splitlines()
        if Path("/proc/cpuinfo").is_file()
        else []
    )
    held = dict(line.split(":", 1) for line in lines if ":" in line)
    told = {name.strip(): value.strip() for name, value in held.items()}
    flags = told.get("flags", "").split()
    kept = "NPY_DISABLE_CPU_FEATURES" not in os.environ
    wide = "with AVX-512" if "avx512f" in flags and kept else "without AVX-512"
    model = f"model {told.get('model', '?')} of family {told.get('cpu family', '?')}"
    return f"{told.get('model name') or platform.machine()}, {model}, {os.cpu_count()} cores, {wide}"


def measure(folders: list[Path], system: str, size: int, cap: int) -> dict[str, float]:
    """CPU seconds of the build and milliseconds of a query over the first tools in the order of their names' hashes."""
    rows = {
        row["name"]: row
        for folder in folders
        for row in read_rows(folder / "catalog.jsonl")
    }
    names = sorted(
        rows, key=lambda name: hashlib.sha256(name.encode("utf-8", "replace")).digest()
    )[:size]
    catalog = [rows[name] for name in names]
    queries = [row["query"] for folder in folders for row in queries_of(folder, cap)]
    factory = (OURS | PEERS)[system]
    factory(catalog[:100])("imports what it needs", DEPTHS[-1])
    start = time.process_time()
    search = factory(catalog)
    build = time.process_time() - start
    search("makes the vectors", DEPTHS[-1])
    times = []
    for query in queries:
        start = time.process_time()
        search(query, DEPTHS[-1])
        times.append((time.process_time() - start) * 1e3)
    times.sort()
    return {
        "build_s": build,
        "p50_ms": times[len(times) // 2],
        "p95_ms": times[int(len(times) * 0.95)],
    }


if __name__ == "__main__":
    main()
