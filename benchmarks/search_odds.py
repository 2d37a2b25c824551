"""How likely each match is: the chance that the search gives it, beside how often such a match was right.

    python benchmarks/search_odds.py CATALOGUE ... --queries FOLDER ...

CATALOGUE and FOLDER are as for `search_threshold.py`. The queries of the FOLDERs on their own catalogues, and requests
that hardly any server serves on every CATALOGUE. The tables are of the half of the queries that the weights were not
fitted on, and of the requests `HELD_OUT` and `FRESH`; `search_fit.py` fits on the other half and on `CALIBRATION`. A
right tool that the data do not name counts as wrong.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.pop(0)  # this folder: its file names would hide packages
    sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.search_eval import queries_of
from benchmarks.search_probes import index_of, load_tools
from benchmarks.search_threshold import is_held_out
from benchmarks.search_unserved import CALIBRATION, FRESH, HELD_OUT
from mcpagent.search.odds import OddsFeatures
from mcpagent.search.result import Odds, SearchResult

STRATEGIES = ("bm25", "hybrid", "sentences", "multilingual")
DEPTH = 8
_MOST, _LEAST_RATIO = 4.0, 0.5
_UNSERVED_WEIGHT = 12.0
"""All unserved requests of a catalogue together, beside one source of queries."""

_RIDGE = 1e-3


@dataclass(frozen=True)
class Shown:
    """One match: what its chance is made of, what it is called, and whether it is right."""

    evidence: tuple[float, float, float, float]
    odds: Odds
    is_right: bool
    weight: float
    is_first: bool
    is_served: bool


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("catalogues", type=Path, nargs="+")
    parser.add_argument("--queries", type=Path, nargs="*", default=[])
    parser.add_argument(
        "--cap", type=int, default=80, help="queries of each source (80)"
    )
    parser.add_argument("--strategy", choices=STRATEGIES, action="append")
    options = parser.parse_args()
    for strategy in options.strategy or STRATEGIES[:2]:
        _, tested = shown_by(strategy, options.catalogues, options.queries, options.cap)
        print(table(strategy, tested), end="\n\n")


def shown_by(
    strategy: str, catalogues: Sequence[Path], folders: Sequence[Path], cap: int
) -> tuple[list[Shown], list[Shown]]:
    """The matches that weights are fitted on, and those that show what they are worth."""
    fitted: list[Shown] = []
    tested: list[Shown] = []
    for folder in folders:
        index = index_of(load_tools(folder), strategy)
        rows = queries_of(folder, cap)
        sources = Counter(row["source"] for row in rows)
        for row in rows:
            right = {
                name for need in row.get("groups") or [row["relevant"]] for name in need
            }
            found = _shown(
                index.search(row["query"], DEPTH), right, 1 / sources[row["source"]]
            )
            (tested if is_held_out(row) else fitted).extend(found)
    for folder in catalogues:
        index = index_of(load_tools(folder), strategy)
        for requests, kept in ((CALIBRATION, fitted), ([*HELD_OUT, *FRESH], tested)):
            weight = _UNSERVED_WEIGHT / len(requests) / len(catalogues)
            for request in requests:
                kept.extend(_shown(index.search(request, DEPTH), set(), weight))
    return fitted, tested


def _shown(result: SearchResult, right: set[str], weight: float) -> Iterator[Shown]:
    scores = [match.score for match in result.matches]
    sure = math.log(min(max(result.strength, math.exp(-_MOST)), math.exp(_MOST)))
    for place, match in enumerate(result.matches):
        other = scores[0] if place else max([*scores[1:2], _LEAST_RATIO * scores[0]])
        lead = math.log(max(match.score, 1e-9) / other)
        evidence = (1.0, sure, max(lead, -2.0), float(place == 0))
        yield Shown(
            evidence,
            match.odds,
            match.tool.name in right,
            weight,
            place == 0,
            bool(right),
        )


def fit(shown: Sequence[Shown]) -> OddsFeatures:
    """Return the weights of a logistic regression, by Newton's method."""
    values = np.array([one.evidence for one in shown])
    right = np.array([float(one.is_right) for one in shown])
    share = np.array([one.weight for one in shown])
    weights = np.zeros(values.shape[1])
    for _ in range(60):
        chance = 1 / (1 + np.exp(-values @ weights))
        slope = values.T @ (share * (chance - right)) + _RIDGE * weights
        curve = (
            values * (share * chance * (1 - chance))[:, None]
        ).T @ values + _RIDGE * np.eye(len(weights))
        weights = weights - np.linalg.solve(curve, slope)
    return OddsFeatures(*(round(float(weight), 2) for weight in weights))


def table(strategy: str, shown: Sequence[Shown]) -> str:
    """Return how many matches of each kind were right, and how many unserved requests have one."""
    lines = [
        f"| {strategy} | of served requests | right | of unserved requests, first match |",
        "| --- " * 4 + "|",
    ]
    unserved = [one for one in shown if not one.is_served and one.is_first]
    all_right = sum(one.weight for one in shown if one.is_right)
    for odds in ("likely", "possible", "weak"):
        served = [one for one in shown if one.is_served and one.odds == odds]
        weight = sum(one.weight for one in served)
        right = sum(one.weight for one in served if one.is_right)
        first = sum(one.odds == odds for one in unserved)
        lines.append(
            f"| {odds} | {right / all_right:.0%} of the right tools shown | {right / max(weight, 1e-9):.2f} "
            f"| {first} of {len(unserved)} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
