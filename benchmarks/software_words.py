"""Writes the words that occur in software, by which `mcpagent` tells a key from a name.

    python benchmarks/software_words.py FOLDER ...

FOLDER has a `catalog.jsonl.gz` of tools, as for `search.py`; use catalogues under a permissive licence. The other
source is the text of the installed packages under MIT, BSD, Apache, ISC or PSF licences. A word is written if at least
seven packages or servers have it; each digit of a word is written as 0. Words are facts: nothing else is copied. Of
these words, the second file has the information of each letter after two others.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, distributions
from itertools import pairwise, product
from pathlib import Path
from typing import Any

sys.path.pop(0)  # this folder: its file names would hide packages
sys.path.insert(0, str(Path(__file__).parents[1]))

from mcpagent.utilities.text import word_detection
from mcpagent.utilities.text.word_detection import LETTERS, PIECE, units_of

SOURCES_NEEDED = 7
LONGEST_PIECE = 60
_FREE = re.compile(r"MIT|BSD|Apache|ISC|PSF", re.IGNORECASE)
_OTHER = re.compile(r"GPL|GNU|MPL|Mozilla", re.IGNORECASE)
_WORD = re.compile("(?=0*[a-z])[a-z0]{2,30}")
_SUFFIXES = frozenset({".py", ".pyi", ".json", ".md", ".txt"})
_LEFT_OUT = frozenset({"mcpagent", "botocore"})
"""This package, and the one whose texts a catalogue has already."""


def words_in(text: str) -> set[str]:
    """Return the words of a text, each once."""
    pieces = {piece for piece in PIECE.findall(text) if len(piece) <= LONGEST_PIECE}
    words = {word for piece in pieces for word in units_of(piece)}
    return {word for word in words if _WORD.fullmatch(word)}


def texts_in(data: Any) -> Iterator[str]:
    """Yield the keys and texts of JSON data."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        yield from data
        for item in data.values():
            yield from texts_in(item)
    elif isinstance(data, list):
        for item in data:
            yield from texts_in(item)


def of_catalogue(folder: Path) -> dict[str, set[str]]:
    """Return the words of a catalogue by server; without servers, by the beginning of the tool's name."""
    texts: dict[str, list[str]] = defaultdict(list)
    with gzip.open(folder / "catalog.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            tool = json.loads(line)
            is_one_server = tool["server"] == folder.name
            source = tool["name"][:12] if is_one_server else tool["server"]
            texts[f"{folder.name}/{source}"] += texts_in(tool)
    return {source: words_in(" ".join(said)) for source, said in texts.items()}


def of_package(package: Distribution) -> set[str]:
    """Return the words in the text files of an installed package."""
    found: set[str] = set()
    for file in package.files or ():
        if file.suffix in _SUFFIXES or file.name == "METADATA":
            try:
                found |= words_in(
                    Path(str(file.locate())).read_text("utf-8", "ignore")[:2_000_000]
                )
            except OSError:
                continue
    return found


def is_free(package: Distribution) -> bool:
    """Return whether the licence of a package is a permissive one."""
    about = package.metadata
    fields = ("License-Expression", "License", "Classifier")
    licence = next(
        filter(None, (";".join(about.get_all(name) or ()) for name in fields)), ""
    )
    return bool(_FREE.search(licence[:3_000])) and not _OTHER.search(licence[:300])


def rows(words: Sequence[str]) -> Iterator[str]:
    """Yield the rows of `letter_bits.txt`: a triple that no word has is as likely as its pair, and so on."""
    text = "\n\n".join(["", *words, ""])
    alone, pairs = Counter(text), Counter(map("".join, pairwise(text)))
    triples = Counter(text[start : start + 3] for start in range(len(text) - 2))
    for one, other in product(LETTERS, repeat=2):
        row = ""
        for letter in LETTERS:
            first = (alone[letter] + 1) / len(text)
            second = (pairs[other + letter] + 3 * first) / (alone[other] + 3)
            third = triples[one + other + letter] + 3 * second
            bits = -math.log2(third / (pairs[one + other] + 3))
            row += chr(ord("#") + min(round(4 * bits), 90))
        yield row


def main() -> None:
    """Write the list."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument(
        "--out", type=Path, default=Path(word_detection.__file__).parent
    )
    options = parser.parse_args()
    sources: dict[str, set[str]] = {}
    for folder in options.folders:
        sources |= of_catalogue(folder)
    for package in distributions():
        name = package.metadata["Name"].lower()
        if name not in _LEFT_OUT and is_free(package):
            sources.setdefault(f"package {name}", of_package(package))
    counts: Counter[str] = Counter()
    for words in sources.values():
        counts.update(words)
    chosen = sorted(word for word, count in counts.items() if count >= SOURCES_NEEDED)
    (options.out / "software_words.txt").write_text("\n".join(chosen) + "\n", "utf-8")
    (options.out / "letter_bits.txt").write_text(
        "\n".join(rows(chosen)) + "\n", "ascii"
    )
    print(f"{len(chosen):,} words of {len(sources):,} sources")


if __name__ == "__main__":
    main()
