"""The words of chunks and queries, as full text indexes receive them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from mcpagent.search.words import STOP_WORDS
from mcpagent.utilities.text.safe_text import without_halves

_MOST_WORDS = 40
"""Maximum number of words of a query that are searched."""

_WORD = re.compile(r"\w+")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")


def indexed_words(title: str, section: Iterable[str], text: str) -> tuple[str, str]:
    """Return two texts for the index: the words of title and headings, and the words of the text."""
    heading = without_halves("\n".join([title, *section]))
    return _spaced(heading), _spaced(without_halves(text))


def _spaced(text: str) -> str:
    """Return the text with spaces around each character of scripts without spaces, such as Chinese. So each of these
    characters is a word.
    """
    if text.isascii():
        return text
    return _UNSPACED.sub(r" \g<0> ", text)


def query_words(query: str) -> list[str]:
    """Return the words of a query. English words such as "the" are included only if the query has no other words."""
    lowered: dict[str, None] = {}
    for word in _WORD.findall(without_halves(query).lower()):
        lowered |= dict.fromkeys(_parts_of(word))
    telling = [word for word in lowered if word not in STOP_WORDS]
    return (telling or [*lowered])[:_MOST_WORDS]


def _parts_of(word: str) -> list[str]:
    """Return the word, or for a script without spaces each pair of adjacent characters, which FTS5 reads as a
    phrase."""
    chars = _UNSPACED.findall(word)
    if not chars:
        return [word]
    pairs = [f"{first} {second}" for first, second in pairwise(chars)]
    return (pairs or chars) + _UNSPACED.sub(" ", word).split()
