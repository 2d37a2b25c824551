"""What learning from use does to searches: for tools that were used before, and for those that never were.

    python benchmarks/search_learning.py FOLDER ...
    python benchmarks/search_learning.py --cache ~/.cache/mcpagent-benchmarks    # made from packages, as in search.py
    python benchmarks/search_learning.py --uses 1 --strategy bm25

Of each folder's queries (see `search_data.py`) a few of two thirds of the tools, `--uses` a tool, are recorded as
searches after which the tool was called. Then other queries are asked, with and without that history: those of the
tools that were used ("used"), and of the last third ("never used"), which learning can only push down. Prints recall@5
of both as a Markdown table.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.pop(0)  # this folder: its file names would hide packages
    sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.search_data import Row, build, read_rows
from benchmarks.search_probes import load_tools
from mcpagent.search import SearchHistory, ToolIndex

DEPTH = 5
_MOST_USED, _MOST_NEVER_USED = 250, 150
"""Queries asked of each folder."""


@dataclass(frozen=True)
class Split:
    """Queries that are recorded, other ones of the same tools, and those of tools that no recorded query has."""

    recorded: Sequence[Row]
    used: Sequence[Row]
    never_used: Sequence[Row]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument(
        "--cache", type=Path, help="where the catalogues from packages are kept"
    )
    parser.add_argument(
        "--uses", type=int, default=4, help="recorded queries a tool (4)"
    )
    parser.add_argument("--strategy", choices=("bm25", "hybrid"), action="append")
    parser.add_argument(
        "--most",
        type=int,
        default=100_000,
        help="recorded queries of each folder (all)",
    )
    parser.add_argument(
        "--hit", action="store_true", help="print hit@1 in place of recall@5"
    )
    options = parser.parse_args()
    folders = options.folders or build(
        options.cache or Path(tempfile.gettempdir()) / "mcpagent-benchmarks"
    )
    strategies = options.strategy or [
        "bm25",
        *(["hybrid"] if find_spec("wordllama") else []),
    ]
    print(
        "| | recorded | used: before | after | never used: before | after |\n| --- | --- | --- | --- | --- | --- |"
    )
    for strategy in strategies:
        rows = [
            row
            for folder in folders
            if (
                row := measured(
                    folder,
                    strategy,
                    options.uses,
                    options.most,
                    1 if options.hit else DEPTH,
                )
            )
        ]
        for name, recorded, *shares in rows:
            print(
                f"| {strategy}, {name} | {recorded} |",
                " | ".join(f"{share:.3f}" for share in shares),
                "|",
            )
        means = [
            statistics.fmean(shares)
            for shares in zip(*(row[2:] for row in rows), strict=True)
        ]
        print(
            f"| {strategy}, mean | |", " | ".join(f"{mean:.3f}" for mean in means), "|"
        )


def measured(
    folder: Path, strategy: str, uses: int, most: int, depth: int
) -> tuple[str, int, float, float, float, float] | None:
    """The folder's name, how much was recorded, and recall before and after; None if it has too few queries."""
    split = split_of(read_rows(folder / "queries.jsonl"), uses, most)
    if not split.used or not split.never_used:
        return None
    tools = load_tools(folder)
    with tempfile.TemporaryDirectory() as kept:
        history = SearchHistory(Path(kept) / "history.sqlite3")
        for row in split.recorded:
            relevant = [tool.key for tool in tools if tool.name in row["relevant"]]
            history.record(row["query"], relevant, relevant)
        shares = []
        for known in (None, history):
            index = ToolIndex(strategy, history=known)  # type: ignore[arg-type]  # one of the two choices
            index.replace("all", tools)
            shares.append(
                [recall(index, rows, depth) for rows in (split.used, split.never_used)]
            )
    (used, never), (used_after, never_after) = shares
    return folder.name, len(split.recorded), used, used_after, never, never_after


def split_of(queries: Sequence[Row], uses: int, most: int = 100_000) -> Split:
    """Always the same split of the same queries."""
    rows = sorted(
        (row for row in queries if row["source"] != "title+service"),
        key=lambda row: _hash(row["query"]),
    )
    tools = sorted({tool for row in rows for tool in row["relevant"]}, key=_hash)
    may_be_used = set(tools[: len(tools) * 2 // 3])
    used: Counter[str] = Counter()
    recorded: list[Any] = []
    others: list[Any] = []
    for row in rows:
        if (
            len(recorded) < most
            and may_be_used.issuperset(row["relevant"])
            and all(used[tool] < uses for tool in row["relevant"])
        ):
            recorded.append(row)
            used.update(row["relevant"])
        else:
            others.append(row)
    return Split(
        recorded,
        [row for row in others if not used.keys().isdisjoint(row["relevant"])][
            :_MOST_USED
        ],
        [row for row in others if may_be_used.isdisjoint(row["relevant"])][
            :_MOST_NEVER_USED
        ],
    )


def recall(index: ToolIndex, rows: Sequence[Row], depth: int) -> float:
    """The mean share of the right tools among the first ones; of the first alone, whether it is right."""
    found = [
        (set(index.search(row["query"], DEPTH).names[:depth]), row["relevant"])
        for row in rows
    ]
    if depth == 1:
        return statistics.fmean(
            float(any(tool in names for tool in right)) for names, right in found
        )
    return statistics.fmean(
        sum(tool in names for tool in right) / len(right) for names, right in found
    )


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


if __name__ == "__main__":
    main()
