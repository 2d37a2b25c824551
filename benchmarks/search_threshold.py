"""Finds out what tells a request that a catalogue serves from one that it does not, and how sure a match must be.

    python benchmarks/search_threshold.py CATALOGUE ... --queries FOLDER ... [--strategy bm25]

CATALOGUE and FOLDER are as for `search_probes.py` and `search.py`. Prints for each threshold how many of the requests
`HELD_OUT` and `FRESH` of `search_unserved.py` get tools that are not marked as weak, and what recall@5 such tools have
on queries that the regression has not seen. `weights_for` is that regression, over the evidence for each best match:
queries of the FOLDERs on their own catalogues, as they are, mistyped and short, against the requests `CALIBRATION` on
every CATALOGUE and on parts of it. `search_fit.py` writes its weights to the data file.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.pop(0)  # this folder: its file names would hide packages
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.search_data import Row
from benchmarks.search_eval import queries_of
from benchmarks.search_probes import index_of, load_tools, with_typos
from benchmarks.search_unserved import CALIBRATION, FRESH, HELD_OUT
from mcpagent.search import ToolIndex
from mcpagent.search.fields import local_name
from mcpagent.search.odds import Evidence
from mcpagent.search.words import spoken
from mcpagent.values.messages import ToolDefinition

THRESHOLDS = (0.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.5, 1.0)
_PARTS = ((12, 20), (40, 10), (120, 5))
"""Tools of a part of a catalogue, and how many such parts."""

_PART_REQUESTS = 20
_PART_WEIGHT = 0.3
"""How much all parts of one size count beside the whole."""

_MISTYPED = 0.25
"""How much a mistyped query counts beside the one as it was."""

_SHORT, _SHORT_WEIGHT = 120, 1.0
"""Queries of one to three words of a tool's name, for each folder, and what they count together."""

_RIDGE = 1e-3


@dataclass(frozen=True)
class Sample:
    """The evidence for one request's best match."""

    evidence: Evidence
    is_served: bool
    weight: float


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("catalogues", type=Path, nargs="+")
    parser.add_argument("--queries", type=Path, nargs="*", default=[])
    parser.add_argument(
        "--strategy",
        choices=("bm25", "hybrid", "sentences", "multilingual"),
        default="bm25",
    )
    parser.add_argument(
        "--cap", type=int, default=200, help="queries of each source (200)"
    )
    options = parser.parse_args()
    catalogues = {folder.name: load_tools(folder) for folder in options.catalogues}
    served = {
        folder: index_of(load_tools(folder), options.strategy, 0.0)
        for folder in options.queries
    }
    queries = {folder: queries_of(folder, options.cap) for folder in options.queries}
    _tell_thresholds(catalogues, served, queries, options.strategy)


def weights_for(
    catalogues: Sequence[Path], folders: Sequence[Path], strategy: str, cap: int
) -> Evidence:
    """The weights of the evidence for a best match of that strategy."""
    samples = list(_unserved_samples(map(load_tools, catalogues), strategy))
    random_ = random.Random(3)
    for folder in folders:
        index = index_of(load_tools(folder), strategy, 0.0)
        rows = [row for row in queries_of(folder, cap) if not is_held_out(row)]
        samples += _served_samples(index, rows, 1.0)
        samples += _short_samples(index, _SHORT_WEIGHT)
        for size, count in _PARTS:
            for _ in range(count):
                part = _part(index.tools, size, random_)
                names = {tool.name for tool in part}
                theirs = [row for row in rows if names.issuperset(row["relevant"])]
                samples += _served_samples(
                    index_of(part, strategy, 0.0), theirs, _PART_WEIGHT / count
                )
    return fit(samples)


def is_held_out(row: Row) -> bool:
    return bool(hashlib.sha256(b"threshold" + row["query"].encode()).digest()[0] & 1)


def _unserved_samples(
    catalogues: Iterable[Sequence[ToolDefinition]], strategy: str
) -> Iterator[Sample]:
    random_ = random.Random(5)
    for tools in catalogues:
        yield from _samples(
            index_of(tools, strategy, 0.0), CALIBRATION, is_served=False, weight=1.0
        )
        for size, count in _PARTS:
            for _ in range(count):
                index = index_of(_part(tools, size, random_), strategy, 0.0)
                weight = _PART_WEIGHT / count * len(CALIBRATION) / _PART_REQUESTS
                some = random_.sample(CALIBRATION, _PART_REQUESTS)
                yield from _samples(index, some, is_served=False, weight=weight)


def _part(
    tools: Sequence[ToolDefinition], size: int, random_: random.Random
) -> list[ToolDefinition]:
    """Whole servers of about so many tools together."""
    servers: dict[str | None, list[ToolDefinition]] = defaultdict(list)
    for tool in tools:
        servers[tool.server].append(tool)
    chosen: list[ToolDefinition] = []
    for server in random_.sample(list(servers), len(servers)):
        if len(chosen) + len(servers[server]) <= size * 1.3:
            chosen += servers[server]
    return chosen


def _served_samples(
    index: ToolIndex, rows: Sequence[Row], weight: float
) -> Iterator[Sample]:
    """Those of the queries whose tools are found at all; each source of queries counts as much as each other."""
    random_ = random.Random(7)
    sources: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if recall(index.search(row["query"]).names, row):
            sources[row["source"]].append(row["query"])
    for texts in sources.values():
        yield from _samples(index, texts, is_served=True, weight=weight / len(texts))
        mistyped = [with_typos(text, random_) for text in texts]
        yield from _samples(
            index, mistyped, is_served=True, weight=weight * _MISTYPED / len(texts)
        )


def _short_samples(index: ToolIndex, weight: float) -> Iterator[Sample]:
    """Queries as a model writes them: some words of a tool's name, as they are and mistyped."""
    random_ = random.Random(11)
    texts = []
    for tool in random_.sample(index.tools, min(_SHORT, len(index.tools))):
        words = spoken(local_name(tool)).split()
        count = random_.randint(1, 3)
        texts.append(" ".join(words[-count:]))
    yield from _samples(index, texts, is_served=True, weight=weight / _SHORT)
    mistyped = [with_typos(text, random_) for text in texts]
    yield from _samples(
        index, mistyped, is_served=True, weight=weight * _MISTYPED / _SHORT
    )


def _samples(
    index: ToolIndex, texts: Iterable[str], *, is_served: bool, weight: float
) -> Iterator[Sample]:
    assert len(index)  # and so all is indexed now
    for text in texts:
        evidence = index._held.ranker.rank(text, 5).assessed.evidence
        if evidence is not None:
            yield Sample(evidence, is_served, weight)


def fit(samples: Sequence[Sample]) -> Evidence:
    """Weights of a logistic regression by Newton's method, both kinds weighing the same in all."""
    values = np.array([sample.evidence[1:] for sample in samples])
    wanted = np.array([float(sample.is_served) for sample in samples])
    share = np.array([sample.weight for sample in samples])
    for kind in (0.0, 1.0):
        share[wanted == kind] /= share[wanted == kind].sum()
    mean, spread = (
        values.mean(axis=0),
        np.where(values.std(axis=0) > 0, values.std(axis=0), 1.0),
    )
    table = np.hstack([np.ones((len(values), 1)), (values - mean) / spread])
    weights = np.zeros(table.shape[1])
    for _ in range(60):
        chance = 1 / (1 + np.exp(-table @ weights))
        slope = table.T @ (share * (chance - wanted)) + _RIDGE * weights
        curve = (
            table * (share * chance * (1 - chance))[:, None]
        ).T @ table + _RIDGE * np.eye(len(weights))
        weights = weights - np.linalg.solve(curve, slope)
    own = weights[1:] / spread
    return Evidence(
        *(round(float(weight), 2) for weight in (weights[0] - own @ mean, *own))
    )


def _tell_thresholds(
    catalogues: dict[str, list[ToolDefinition]],
    served: dict[Path, ToolIndex],
    queries: dict[Path, list[Row]],
    strategy: str,
) -> None:
    answered = {
        f"{name}, {len(tools):,} tools": [
            result.strength if result.matches else -1.0
            for index in [index_of(tools, strategy, 0.0)]
            for result in map(index.search, [*HELD_OUT, *FRESH])
        ]
        for name, tools in catalogues.items()
    }
    recalls: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for folder, index in served.items():
        for row in filter(is_held_out, queries[folder]):
            result = index.search(row["query"])
            recalls[f"{folder.name} {row['source']}"].append(
                (recall(result.names, row), result.strength)
            )
    whole = {
        source: statistics.fmean(recall for recall, _ in found)
        for source, found in recalls.items()
    }
    print(f"| `{strategy}` | {' | '.join(answered)} | recall@5 | most lost by |")
    print("|" + " --- |" * (len(answered) + 3))
    for threshold in THRESHOLDS:
        counts = [
            f"{sum(one >= threshold for one in found)} of {len(found)}"
            for found in answered.values()
        ]
        kept = {
            source: statistics.fmean(
                recall * (strength >= threshold) for recall, strength in found
            )
            for source, found in recalls.items()
        }
        worst = max(kept, key=lambda source: whole[source] - kept[source], default="")
        lost = f"{worst} {whole[worst] - kept[worst]:.3f}" if worst else ""
        mean = f"{statistics.fmean(kept.values()):.4f}" if kept else ""
        print(f"| {threshold:.2f} | {' | '.join(counts)} | {mean} | {lost} |")


def recall(names: Sequence[str], row: Row) -> float:
    needs = row.get("groups") or [[name] for name in row["relevant"]]
    return statistics.fmean(any(name in names for name in need) for need in needs)


if __name__ == "__main__":
    main()
