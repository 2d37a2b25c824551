"""A tool that says everything: how often it is found, and loaded before the model is asked.

    python benchmarks/search_stuffed.py [FOLDER ...] [--strategy bm25]

The served requests of `search_everyday.py` over its tools, and the queries of the FOLDERs on their catalogues, with one
more tool, stuffed with the catalogue's most usual words in one of six ways. Prints for each way how many requests
have it among the first five, and how many load it unasked (`prefetch=1`: it is the first match, and likely enough); and
recall@5 without and with it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    sys.path.pop(0)  # this folder: its file names would hide packages
    sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.search_eval import queries_of
from benchmarks.search_everyday import load_requests
from benchmarks.search_everyday import load_tools as everyday_tools
from benchmarks.search_probes import index_of, load_tools
from mcpagent.search import ToolIndex
from mcpagent.search.fields import local_name
from mcpagent.search.words import STOP_WORDS, name_words, written_words
from mcpagent.values.messages import ToolDefinition

DEPTH = 5
STUFFED = "ultra__do_it_all"


class Asked(NamedTuple):
    request: str
    needs: Sequence[Sequence[str]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--strategy", choices=("bm25", "hybrid"), action="append")
    parser.add_argument(
        "--cap", type=int, default=60, help="queries of each source (60)"
    )
    options = parser.parse_args()
    sets = [(everyday_tools(), everyday())]
    for folder in options.folders:
        rows = [
            Asked(row["query"], row.get("groups") or [[one] for one in row["relevant"]])
            for row in queries_of(folder, options.cap)
        ]
        sets.append((load_tools(folder), rows))
    print(
        "| | requests | among the first five | loaded unasked | recall@5 without | with |\n|"
        + " --- |" * 6
    )
    for strategy in options.strategy or ["bm25", "hybrid"]:
        whole = [(index_of(tools, strategy), tools, asked) for tools, asked in sets]
        before = statistics.fmean(
            recall(index, one) for index, _, asked in whole for one in asked
        )
        for way in ways([]):
            among = loaded = count = 0
            recalls: list[float] = []
            for index, tools, asked in whole:
                index.replace("ultra", [ways(tools)[way]])
                for one in asked:
                    result = index.search(one.request, DEPTH)
                    first = result.matches[0] if result.matches else None
                    among += STUFFED in result.names
                    loaded += (
                        first is not None
                        and first.tool.name == STUFFED
                        and result.is_likely
                    )
                    recalls.append(recall(index, one))
                    count += 1
                index.replace("ultra", [])
            told = f"{among} | {loaded} ({loaded / count:.1%}) | {before:.3f} | {statistics.fmean(recalls):.3f}"
            print(f"| {strategy}, {way} | {count} | {told} |")


def everyday() -> list[Asked]:
    requests = [request for request in load_requests() if request.needs]
    return [
        Asked(
            one.text,
            [[name.replace(".", "__", 1) for name in need] for need in one.needs],
        )
        for one in requests
    ]


def ways(tools: Sequence[ToolDefinition]) -> dict[str, ToolDefinition]:
    """Return a tool stuffed with the most usual words of these tools, in each way."""
    words = Counter(
        word
        for tool in tools
        for word in {
            *name_words(local_name(tool)),
            *map(str.lower, written_words(tool.description)),
        }
        if len(word) > 2 and word not in STOP_WORDS
    )
    usual = [
        word for word, _ in sorted(words.items(), key=lambda one: (-one[1], one[0]))
    ]
    pairs = [f"{verb} {noun}" for verb in usual[:12] for noun in usual[12:36]]
    parameters = {
        "type": "object",
        "properties": {
            word: {"type": "string", "description": " ".join(usual[:150])}
            for word in usual[:200]
        },
    }
    plain = {"type": "object", "properties": {}}
    return {
        "words in the description": _tool(" ".join(usual[:300]), plain),
        "words in all fields": _tool(
            " ".join(usual[:300]), parameters, title=" ".join(usual[:40])
        ),
        "words repeated": _tool(
            " ".join(word for word in usual[:40] for _ in range(8)), plain
        ),
        "pairs of words": _tool("Use it to " + ", ".join(pairs), plain),
        "the whole vocabulary": _with_all(usual),
        "a name of forty words": _tool(
            " ".join(usual[:60]), plain, name="_".join(usual[:40])
        ),
    }


def _with_all(words: Sequence[str]) -> ToolDefinition:
    """Return a tool that has as many words as are read in each field, other ones in each as far as there are any."""
    described = ["_".join(words[at : at + 4]) for at in range(0, len(words), 4)][:200]
    properties = {
        name: {
            "type": "string",
            "description": " ".join(words[at * 7 : at * 7 + 7]),
            "enum": list(words[at * 9 : at * 9 + 9]),
        }
        for at, name in enumerate(described)
    }
    schema = {"type": "object", "properties": properties}
    return _tool(
        " ".join(words[:350]),
        schema,
        title=" ".join(words[:40]),
        name="_".join(words[:35]),
    )


def _tool(
    description: str,
    parameters: dict[str, Any],
    *,
    title: str = "",
    name: str = "do_it_all",
) -> ToolDefinition:
    return ToolDefinition(STUFFED, description, parameters, "ultra", name, title=title)


def recall(index: ToolIndex, asked: Asked) -> float:
    names = index.search(asked.request, DEPTH).names
    return statistics.fmean(any(name in names for name in need) for need in asked.needs)


if __name__ == "__main__":
    main()
