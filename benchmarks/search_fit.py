"""Fits the numbers of the ranking on the development half, and writes them with the date to one data file.

    python benchmarks/search_fit.py CATALOGUE ... --queries FOLDER ... [--only ranking] [--rounds 1] [--cap 60]

CATALOGUE and FOLDER are as for `search_threshold.py`. The file is `mcpagent/search/constants.json`, read again at the
start, so each step begins with what the last one found:

    ranking   weights of fields, words, needs and vectors: each is tried a quarter higher and lower, and kept if
              recall@5 (and a fifth of recall@1) of half of the queries gains; the other half says what it is worth
    request   what tells a request from the text around it (`search_pasted.py`)
    odds      what tells a request that a catalogue serves, for each strategy (`search_threshold.py`)
    chance    how likely each match is (`search_odds.py`)

Queries are of the half that `is_held_out` does not name.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

if __name__ == "__main__":
    sys.path.pop(0)  # this folder: its file names would hide packages
    sys.path.insert(0, str(Path(__file__).parents[1]))

from mcpagent.search.constants import FILE, FITTED

STEPS = ("ranking", "request", "odds", "chance")
STEP = 1.25
LEAST_GAIN = 0.0003
FIRST_COUNTS = 0.2
TRIED = {
    "field weights": None,
    "field length normalization": None,
    "words": ("k1", "name coverage", "piece", "joined", "guess"),
    "vector parts": None,
    "fusion": ("strong", "words"),
    "needs": ("weight", "rarity", "answered"),
}
"""The groups of numbers that the ranking's step tries, and which of each (None: all)."""

_ODDS = {
    "bm25": "odds by words",
    "hybrid": "odds with word vectors",
    "sentences": "odds with sentences",
    "multilingual": "odds with sentences of 16 languages",
}
"""The strategies whose odds are fitted, and the groups of their weights."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("catalogues", type=Path, nargs="*")
    parser.add_argument("--queries", type=Path, nargs="+", required=True)
    parser.add_argument("--only", choices=STEPS, action="append")
    parser.add_argument(
        "--strategy", choices=list(_ODDS), action="append", help="whose odds (all)"
    )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--cap", type=int, default=60, help="queries of each source (60)"
    )
    parser.add_argument("--evaluate", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.evaluate:
        FITTED.update(json.load(sys.stdin))  # before what reads it is imported
        print(json.dumps(evaluated(options.queries, options.cap)))
        return
    steps = options.only or STEPS
    strategies = options.strategy or list(_ODDS)
    if "ranking" in steps:
        for _ in range(options.rounds):
            fit_ranking(options.queries, options.cap)
    if "request" in steps:
        from benchmarks.search_pasted import fit as fit_request

        FITTED["request"] = fit_request(options.queries, options.cap)._asdict()
        write()
    if "odds" in steps:
        from benchmarks.search_threshold import weights_for

        for strategy in strategies:
            weights = weights_for(
                options.catalogues, options.queries, strategy, options.cap
            )
            FITTED[_ODDS[strategy]] = weights._asdict()
            write()
    if "chance" in steps:
        from benchmarks.search_odds import fit as fit_chance
        from benchmarks.search_odds import shown_by

        found = [
            shown_by(one, options.catalogues, options.queries, options.cap)[0]
            for one in ("bm25", "hybrid")
        ]
        FITTED["chance"] = fit_chance(
            [match for matches in found for match in matches]
        )._asdict()
        write()


def write() -> None:
    """Write the numbers with the date."""
    held = {
        "fitted": f"{datetime.now(UTC):%Y-%m-%d}",
        "by": "benchmarks/search_fit.py",
        "numbers": FITTED,
    }
    FILE.write_text(json.dumps(held, indent=1) + "\n", "utf-8")


def fit_ranking(folders: list[Path], cap: int) -> None:
    """Try each number higher and lower, and keep what gains on the half that is fitted on."""
    best = asked(FITTED, folders, cap)
    print(f"before: {best}", flush=True)
    for group, chosen in TRIED.items():
        for name in chosen or list(FITTED[group]):
            for factor in (STEP, 1 / STEP):
                tried = json.loads(json.dumps(FITTED))
                tried[group][name] = round(tried[group][name] * factor, 3)
                found = asked(tried, folders, cap)
                if found["fitted"] >= best["fitted"] + LEAST_GAIN:
                    print(
                        f"{group}, {name}: {FITTED[group][name]} to {tried[group][name]}: {found}",
                        flush=True,
                    )
                    best = found
                    FITTED[group][name] = tried[group][name]
                    write()
                    break


def asked(
    numbers: dict[str, dict[str, float]], folders: list[Path], cap: int
) -> dict[str, float]:
    """Return what a process of its own finds with these numbers."""
    command = [
        sys.executable,
        __file__,
        "--evaluate",
        "--cap",
        str(cap),
        "--queries",
        *map(str, folders),
    ]
    told = subprocess.run(
        command, input=json.dumps(numbers).encode(), stdout=subprocess.PIPE, check=True
    ).stdout
    found: dict[str, float] = json.loads(told)
    return found


def evaluated(folders: list[Path], cap: int) -> dict[str, float]:
    """Return the mean over strategies and sources of the fitted half, and of the other."""
    from benchmarks.search_eval import queries_of
    from benchmarks.search_probes import index_of, load_tools
    from benchmarks.search_threshold import is_held_out, recall

    found: defaultdict[bool, defaultdict[tuple[str, str, str], list[float]]] = (
        defaultdict(lambda: defaultdict(list))
    )
    for strategy in ("bm25", *(["hybrid"] if find_spec("wordllama") else [])):
        for folder in folders:
            index = index_of(load_tools(folder), strategy)
            for row in queries_of(folder, cap):
                names = index.search(row["query"]).names
                worth = recall(names, row) + FIRST_COUNTS * recall(names[:1], row)
                found[is_held_out(row)][strategy, folder.name, row["source"]].append(
                    worth
                )
    return {
        kind: round(
            statistics.fmean(map(statistics.fmean, found[is_other].values())), 5
        )
        for kind, is_other in (("fitted", False), ("other half", True))
    }


if __name__ == "__main__":
    main()
