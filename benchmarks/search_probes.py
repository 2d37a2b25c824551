"""Queries made from a catalogue itself: what a search must find because it stands there.

    python benchmarks/search_probes.py FOLDER ... [--strategy bm25]

FOLDER holds `catalog.jsonl.gz`, or JSON files as MCP servers answer to `tools/list` (`{"server", "tools"}`). Prints
the share of queries whose tool is among the first five: a word that stands only in one parameter's description, or
only inside one camelCase name; a description's first words, as they are, with one typo in every word of four letters
and more or two in every word of six and more; two descriptions joined in four ways (both among the
first five); exact names in other styles; six names at once (all six first). Languages, and how sure a match is, are
asked for by `search_everyday.py`.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import gettempdir

if __name__ == "__main__":
    sys.path.pop(0)  # this folder: its file names would hide packages
    sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.search_data import read_rows
from mcpagent.search import ToolIndex
from mcpagent.search.fields import field_texts, local_name
from mcpagent.search.words import spoken, terms, written_words
from mcpagent.values.messages import ToolDefinition

SENTENCES = ("sentences", "multilingual")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_SAMPLE = 200
_DESCRIPTION_WORDS = 12
_JOINED_WORDS = 6
_JOINTS = (", ", " and ", " or ", " + ")


def load_tools(folder: Path) -> list[ToolDefinition]:
    """The tools of a folder in either form."""
    tools = [
        ToolDefinition(
            f"{data['server']}__{tool['name']}",
            tool.get("description") or "",
            tool.get("inputSchema") or {},
            data["server"],
            tool["name"],
            title=tool.get("title") or "",
        )
        for path in sorted(folder.glob("*.json"))
        for data in [json.loads(path.read_bytes())]
        for tool in data["tools"]
    ]
    for row in read_rows(folder / "catalog.jsonl"):
        local = row["name"].removeprefix(f"{row['server']}__")
        tools.append(
            ToolDefinition(
                row["name"],
                row["description"] or "",
                row["input_schema"] or {},
                row["server"],
                local,
            )
        )
    return tools


def index_of(
    tools: Sequence[ToolDefinition], strategy: str, min_strength: float | None = None
) -> ToolIndex:
    """An index of the tools; the vectors of a sentence encoder, which take minutes, are kept."""
    cache = (
        Path(gettempdir()) / "mcpagent-benchmarks" if strategy in SENTENCES else None
    )
    index = ToolIndex(strategy, min_strength=min_strength, cache_folder=cache)  # type: ignore[arg-type]
    servers: dict[str | None, list[ToolDefinition]] = {}
    for tool in tools:
        servers.setdefault(tool.server, []).append(tool)
    for server, theirs in servers.items():
        index.replace(server, theirs)
    return index


def with_typos(text: str, random_: random.Random, shortest: int = 4) -> str:
    """One letter left out, doubled, changed or swapped with the next, in every word of so many letters and more."""

    def mistype(match: re.Match[str]) -> str:
        word = match[0]
        if len(word) < shortest:
            return word
        at = random_.randrange(1, len(word) - 1)
        kinds: list[Callable[[], str]] = [
            lambda: word[:at] + word[at + 1 :],
            lambda: word[:at] + word[at] + word[at:],
            lambda: word[:at] + random_.choice(_LETTERS) + word[at + 1 :],
            lambda: word[:at] + word[at + 1] + word[at] + word[at + 2 :],
        ]
        return random_.choice(kinds)()

    return re.sub(r"[A-Za-z]{4,}", mistype, text)


def only_words(
    tools: Sequence[ToolDefinition], field: str
) -> Iterator[tuple[str, str]]:
    """(word, tool) for words that stand in that field of one tool and nowhere else."""
    holders: Counter[str] = Counter()
    places: dict[str, tuple[str, str, str]] = {}
    for tool in tools:
        for where, text in field_texts(tool):
            shown = spoken(text) if where == "name" else text
            for word in {word.lower() for word in written_words(shown)}:
                for term in terms(word):
                    if places.get(term, ("", ""))[:2] != (tool.name, where):
                        holders[term] += 1
                    places[term] = (tool.name, where, word)
    for term, (name, where, word) in sorted(places.items()):
        if holders[term] == 1 and where == field and len(word) > 3 and word.isalpha():
            yield word, name


def probes(tools: Sequence[ToolDefinition]) -> dict[str, list[tuple[str, list[str]]]]:
    """(query, tools wanted among the first) by kind of probe."""
    random_ = random.Random(7)
    described = [tool for tool in tools if len(tool.description.split()) >= 4]
    texts = [
        (" ".join(tool.description.split()[:_DESCRIPTION_WORDS]), [tool.name])
        for tool in described
    ]
    camel = [(word, [name]) for word, name in only_words(tools, "name")]
    styled = [
        (
            style(local_name(tool)),
            [other.name for other in tools if local_name(other) == local_name(tool)],
        )
        for tool in tools
        for style in (
            str.upper,
            lambda name: spoken(name).title().replace(" ", ""),
            lambda name: spoken(name),
        )
    ]
    six = [random_.sample(tools, 6) for _ in range(_SAMPLE)]
    kinds = {
        "word only in a parameter description": [
            (word, [name]) for word, name in only_words(tools, "parameter description")
        ],
        "word only in a name": camel,
        "description": texts,
        "description, a typo in each word": [
            (with_typos(text, random_), names) for text, names in texts
        ],
        "description, two typos in long words": [
            (with_typos(with_typos(text, random_, 6), random_, 6), names)
            for text, names in texts
        ],
        **{
            f"two descriptions, joined by {joint!r}": [
                (
                    joint.join(
                        " ".join(text.split()[:_JOINED_WORDS]) for text, _ in two
                    ),
                    [two[0][1][0], two[1][1][0]],
                )
                for two in (random_.sample(texts, 2) for _ in range(_SAMPLE))
            ]
            for joint in (_JOINTS if len(texts) > 1 else ())
        },
        "name in another style": styled,
        "six names at once": [
            (", ".join(tool.name for tool in some), [tool.name for tool in some])
            for some in six
        ],
    }
    return {
        kind: random_.sample(found, min(_SAMPLE, len(found)))
        for kind, found in kinds.items()
    }


def hit(found: Sequence[str], wanted: Sequence[str], kind: str) -> bool:
    if kind == "six names at once":
        return set(found[:6]) == set(wanted)
    if "joined" in kind:
        return set(wanted) <= set(found[:5])
    return any(name in found[:5] for name in wanted)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--strategy", default="bm25")
    options = parser.parse_args()
    for folder in options.folders:
        tools = load_tools(folder)
        index = index_of(tools, options.strategy)
        print(f"{folder.name}: {len(tools)} tools, {options.strategy}")
        for kind, queries in probes(tools).items():
            if queries:
                hits = sum(
                    hit(index.search(query, 10).names, wanted, kind)
                    for query, wanted in queries
                )
                print(f"  {kind:40} {hits / len(queries):.3f} of {len(queries)}")


if __name__ == "__main__":
    main()
