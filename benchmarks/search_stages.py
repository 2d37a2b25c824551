"""Compare rules for the second stage of `strategy="auto"`: when a sentence encoder ranks again.

    python benchmarks/search_stages.py FOLDER ... [--unserved CATALOGUE] [--better sentences] [--cap 100]

Each query of the FOLDERs (as for `search.py`) and each request of `search_everyday.py` has a session of its own with
`--tools` tools: the right ones and others of the same catalogue, chosen by hash. The requests that no tool serves
(`search_unserved.py`) have sessions of CATALOGUE. Prints a Markdown table: for each rule the mean recall@5 of the
FOLDERs' sources, of the everyday requests and of those in six languages, how many served requests got nothing, how
many unserved ones got a likely match, and the share of the served requests, without those in six languages, for which
the encoder is asked. The vectors of tools are kept between runs.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path.pop(0)  # this folder: its file names would hide packages
    sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import search_everyday
from benchmarks.search_eval import queries_of
from benchmarks.search_probes import index_of, load_tools
from benchmarks.search_unserved import FRESH, HELD_OUT
from mcpagent.search import SearchResult
from mcpagent.values.messages import ToolDefinition

EVERYDAY, LANGUAGES = "everyday", "six languages"


@dataclass(frozen=True)
class Asked:
    """A request: `needs` has the names of the right tools for each need, and is empty if no tool serves it."""

    source: str
    text: str
    tools: Sequence[ToolDefinition]
    needs: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Found:
    """The results of both stages for a request."""

    asked: Asked
    quick: SearchResult
    better: SearchResult


def _best(result: SearchResult) -> str:
    if result.matches:
        return result.matches[0].odds
    return "none"


RULES: dict[str, tuple[str, ...]] = {
    "never": (),
    "if there is no match": ("none",),
    "if the best match is weak": ("none", "weak"),
    "if the best match is not likely": ("none", "weak", "possible"),
    "always": ("none", "weak", "possible", "likely"),
}
"""The odds of the best match by words and word vectors for which the encoder ranks again."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--unserved", type=Path, help="a catalogue for these")
    parser.add_argument(
        "--better", choices=("sentences", "multilingual"), default="multilingual"
    )
    parser.add_argument("--cap", type=int, default=100, help="of each source (100)")
    parser.add_argument("--tools", type=int, default=100, help="of a session (100)")
    options = parser.parse_args()
    found = [
        searched(asked, options.better, options.tools)
        for asked in requests(options.folders, options.unserved, options.cap)
    ]
    print(table(found))


def requests(
    folders: Sequence[Path], unserved: Path | None, cap: int
) -> Iterator[Asked]:
    """Yield all requests."""
    for folder in folders:
        tools = load_tools(folder)
        for row in queries_of(folder, cap):
            needs = row.get("groups") or [[name] for name in row["relevant"]]
            source = f"{folder.name} {row['source']}"
            yield Asked(source, row["query"], tools, needs)
    tools = search_everyday.load_tools()
    names = {f"{tool.server}.{tool.original_name}": tool.name for tool in tools}
    for source in (EVERYDAY, LANGUAGES):
        file = f"{'language' if source == LANGUAGES else source}_requests.json"
        for request in search_everyday.load_requests(search_everyday.DATA / file):
            needs = [[names[name] for name in need] for need in request.needs]
            yield Asked(source, request.text, tools, needs)
    if unserved is not None:
        tools = load_tools(unserved)
        for text in (*HELD_OUT, *FRESH):
            yield Asked("unserved", text, tools, ())


def searched(asked: Asked, better: str, most: int) -> Found:
    """Search in a session of so many tools."""
    right = {name for need in asked.needs for name in need}
    others = [tool for tool in asked.tools if tool.name not in right]
    others.sort(key=lambda tool: _hash(asked.text + tool.name))
    session = [tool for tool in asked.tools if tool.name in right]
    session += others[: max(most - len(session), 0)]
    quick = index_of(session, "hybrid").search(asked.text)
    return Found(asked, quick, index_of(session, better).search(asked.text))


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def table(found: Sequence[Found]) -> str:
    """Return a Markdown table with a row for each rule."""
    columns = [len({one.asked.source for one in found if one.asked.needs}) - 2]
    heads = [
        "the encoder ranks",
        f"recall@5, {columns[0]} columns",
        EVERYDAY,
        LANGUAGES,
    ]
    heads += ["no match", "unserved: likely", "requests that ask it"]
    lines = [heads, ["---"] * len(heads)]
    lines += [_row(name, rule, found) for name, rule in RULES.items()]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _row(name: str, rule: Sequence[str], found: Sequence[Found]) -> list[str]:
    recalls: defaultdict[str, list[float]] = defaultdict(list)
    silent, likely, unserved, asked = 0, 0, 0, list[bool]()
    for one in found:
        is_asked = _best(one.quick) in rule
        result = one.better if is_asked else one.quick
        if not one.asked.needs:
            unserved += 1
            likely += _best(result) == "likely"
            continue
        silent += not result.matches
        recalls[one.asked.source].append(
            statistics.fmean(
                not set(need).isdisjoint(result.names) for need in one.asked.needs
            )
        )
        if one.asked.source != LANGUAGES:
            asked.append(is_asked)
    means = {source: statistics.fmean(each) for source, each in recalls.items()}
    everyday, languages = means.pop(EVERYDAY), means.pop(LANGUAGES)
    shown = [statistics.fmean(means.values()), everyday, languages]
    return [
        name,
        *(f"{value:.3f}" for value in shown),
        f"{silent} of {len(found) - unserved}",
        f"{likely} of {unserved}",
        f"{statistics.fmean(asked):.0%}",
    ]


if __name__ == "__main__":
    main()
