"""Requests with pasted text before or behind them: whether the search finds what the request alone finds.

    python benchmarks/search_pasted.py FOLDER ... [--strategy bm25] [--cap 60] [--kept-apart]

The queries of the FOLDERs (see `search_data.py`), each with one of the texts of `data/pasted_texts.json`, of about 150
words, before it, behind it, and with two of them around it. Prints recall@5 by kind of text, as a mean over the sources
of queries, for the request alone, with a blank line between, and with a line break.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.pop(0)  # this folder: its file names would hide packages
    sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.search_data import Row
from benchmarks.search_eval import queries_of
from benchmarks.search_probes import index_of, load_tools
from mcpagent.search.request_detection import RequestForm, candidates_in

DEPTH = 5
_STEPS, _RATE, _RIDGE = 1_500, 0.5, 4e-3
"""Of the gradient descent."""

_TEXTS = Path(__file__).parent / "data" / "pasted_texts.json"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--strategy", choices=("bm25", "hybrid"), default="bm25")
    parser.add_argument(
        "--cap", type=int, default=60, help="queries of each source (60)"
    )
    parser.add_argument(
        "--kept-apart",
        action="store_true",
        help="only the texts that were not looked at",
    )
    options = parser.parse_args()
    held = json.loads(_TEXTS.read_text("utf-8"))
    apart = set(held["kept_apart"])
    texts = {
        name: text
        for name, text in held["texts"].items()
        if (name in apart) == options.kept_apart
    }
    ways = places(list(texts.values()))
    found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for folder in options.folders:
        index = index_of(load_tools(folder), options.strategy)
        for number, row in enumerate(queries_of(folder, options.cap)):
            name = list(texts)[number % len(texts)]
            for way, placed in ways.items():
                names = index.search(placed(row["query"], number), DEPTH).names
                found[way, name][f"{folder.name} {row['source']}"].append(
                    recall(names, row)
                )
    print(f"| {options.strategy} | {' | '.join([*texts, 'all'])} |")
    print("|" + " --- |" * (len(texts) + 2))
    for way in ways:
        by_text = [found[way, name] for name in texts]
        sources = sorted({source for one in by_text for source in one})
        means = [
            statistics.fmean(value for values in one.values() for value in values)
            for one in by_text
        ]
        whole = [
            statistics.fmean(
                [value for one in by_text for value in one.get(source, [])]
            )
            for source in sources
        ]
        print(
            f"| {way} | {' | '.join(f'{mean:.3f}' for mean in [*means, statistics.fmean(whole)])} |"
        )


def places(texts: Sequence[str]) -> dict[str, Callable[[str, int], str]]:
    """Return the ways to put a request beside texts, by name."""

    def text_of(number: int) -> str:
        return texts[number % len(texts)]

    return {
        "alone": lambda query, _: query,
        "text before": lambda query, number: f"{text_of(number)}\n\n{query}",
        "text behind": lambda query, number: f"{query}\n\n{text_of(number)}",
        "texts around": lambda query, number: (
            f"{text_of(number)}\n\n{query}\n\n{text_of(number + 1)}"
        ),
        "before, one line break": lambda query, number: f"{text_of(number)}\n{query}",
        "behind, one line break": lambda query, number: f"{query}\n{text_of(number)}",
        "fenced, behind": lambda query, number: f"{query}\n```\n{text_of(number)}\n```",
    }


def fit(folders: Sequence[Path], cap: int) -> RequestForm:
    """Return the weights by which the candidate is chosen that is the request, on the texts that are not kept apart;
    `search_fit.py` writes them to the data file.
    """
    import numpy as np

    held = json.loads(_TEXTS.read_text("utf-8"))
    texts = [
        text for name, text in held["texts"].items() if name not in held["kept_apart"]
    ]
    choices: list[tuple[Any, int]] = []
    for folder in folders:
        index = index_of(load_tools(folder), "bm25")
        assert len(index)
        for number, row in enumerate(queries_of(folder, cap)):
            for placed in places(texts).values():
                candidates = candidates_in(placed(row["query"], number))
                right = [
                    at
                    for at, one in enumerate(candidates)
                    if one.text.strip() == row["query"].strip()
                ]
                if len(candidates) > 1 and right:
                    forms = [
                        index._held.ranker.covering(one.text, one.form)
                        for one in candidates
                    ]
                    choices.append((np.array(forms), right[0]))
    weights = np.zeros(len(RequestForm._fields))
    for _ in range(_STEPS):
        slope = _RIDGE * weights
        for forms, best in choices:
            told = forms @ weights
            chances = np.exp(told - told.max())
            chances /= chances.sum()
            slope += (chances @ forms - forms[best]) / len(choices)
        weights = weights - _RATE * slope
    return RequestForm(*(round(float(weight), 2) for weight in weights))


def recall(names: Sequence[str], row: Row) -> float:
    needs = row.get("groups") or [[name] for name in row["relevant"]]
    return statistics.fmean(any(name in names for name in need) for need in needs)


if __name__ == "__main__":
    main()
