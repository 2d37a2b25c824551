"""Patterns made of the names of real tools: each is run, and only tools that it matches are shown without a mark.

    python benchmarks/search_name_patterns.py FOLDER ... [--strategy bm25]

FOLDER is as for `search_probes.py`. Of each tool's name with two words and more, `first.*last` and `first_.*_last` are
searched. Python's `re` says which tools each matches. Prints how many patterns were not run, how many had another
`found` than tools that match, and how many showed a tool that does not match without marking it as weak.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path.pop(0)  # this folder: its file names would hide packages
    sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.search_probes import index_of, load_tools
from mcpagent.search.fields import local_name
from mcpagent.search.pattern import searched_text
from mcpagent.values.messages import ToolDefinition

LIMIT = 5


@dataclass(frozen=True)
class Figures:
    """Counts of patterns."""

    patterns: int
    not_run: int
    found_differs: int
    unmarked: int


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument(
        "--strategy", choices=("bm25", "hybrid", "regex"), action="append"
    )
    options = parser.parse_args()
    tools = [tool for folder in options.folders for tool in load_tools(folder)]
    for strategy in options.strategy or ["bm25", "hybrid", "regex"]:
        told = figures_of(tools, strategy)
        print(
            f"{strategy}: {told.patterns} patterns over {len(tools)} tools, {told.not_run} not run, "
            f"{told.found_differs} with another number found, {told.unmarked} with a tool unmarked that does not match"
        )


def patterns_of(tools: Sequence[ToolDefinition]) -> list[str]:
    """Return `first.*last` and `first_.*_last` of each name with two words and more, each once."""
    made: dict[str, None] = {}
    for tool in tools:
        words = [word for word in re.split(r"[_\-.]", local_name(tool)) if word]
        if len(words) > 1:
            made[f"{words[0]}.*{words[-1]}"] = None
            made[f"{words[0]}_.*_{words[-1]}"] = None
    return list(made)


def figures_of(tools: Sequence[ToolDefinition], strategy: str) -> Figures:
    index = index_of(tools, strategy)
    not_run = found_differs = unmarked = 0
    asked = patterns_of(tools)
    for pattern in asked:
        expression = re.compile(pattern, re.IGNORECASE | re.MULTILINE)
        matching = {
            tool.name for tool in tools if expression.search(searched_text(tool))
        }
        result = index.search(pattern, LIMIT)
        shown = {match.tool.name for match in result.matches if match.odds != "weak"}
        not_run += result.how not in (("regex",) if matching else ("closest", "none"))
        found_differs += result.found != len(matching)
        unmarked += not shown <= matching
    return Figures(len(asked), not_run, found_differs, unmarked)


if __name__ == "__main__":
    main()
