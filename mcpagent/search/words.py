"""Split text into index terms: words split at case, digits and punctuation, in lower case, without accents, stemmed.

A written word gives one or more terms: `GitHub` gives `github`, `git` and `hub`. A run of Chinese, Japanese or Korean
characters, which has no spaces, gives its pairs of characters. `plain` and `name_key` return one form for all spellings
of a word or a name.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Protocol

MAX_WORD = 40
"""Maximum number of characters of a word that are used; longer words are keys, hashes or encoded data."""

_WRITTEN = re.compile(r"[^\W_]+")
_ONLY_WORDS = bytes(char if chr(char).isalnum() else 32 for char in range(128)) + bytes(
    128
)
"""A table for `bytes.translate` that replaces all characters except ASCII letters and digits by spaces; three times as
fast as a pattern.
"""

_BETWEEN = "\x7f"
_ONLY_WORDS_BETWEEN = bytes(
    char if char == ord(_BETWEEN) else kept for char, kept in enumerate(_ONLY_WORDS)
)

_TYPOGRAPHIC = "\u2018\u2019\u201c\u201d\u2013\u2014\u2026\u00a0"
"""Typographic characters that are replaced by spaces, so that most English texts become ASCII."""

_PIECE = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+|[^\W\dA-Za-z_]+")
_CASE_CHANGE = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+")

_STOP_WORDS = (
    "a about above again also am an and any are as at be because been being below both but by can could did do does "
    "doing don during each etc few for from further had has have having he hello her here hers hey hi him his how i "
    "if in into is it its just let like ll me might more must my need no nor not now of ok okay once only or other "
    "our over per please re s same shall she should so some such t than thank thanks that the their them then there "
    "these they this those through to too under until us used using ve very via want was way we well were what when "
    "where whether which while who whom why will with within without would you your"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""English words that say nothing about the purpose of a tool; they are not indexed."""


_SPACED = "".join(char if char.isalnum() else " " for char in map(chr, range(128)))


def plain(text: str) -> str:
    """Return the text in lower case without accents, so that `Café` and `cafe` are equal."""
    if text.isascii():
        return text.lower()
    # Twice: compatibility characters such as ℡ contain capitals, and folding these can produce accents again.
    decomposed = unicodedata.normalize(
        "NFKD", unicodedata.normalize("NFKD", text).casefold()
    )
    return unicodedata.normalize(
        "NFC", "".join(char for char in decomposed if not unicodedata.combining(char))
    )


def name_key(name: str) -> str:
    """Return the key that all spellings of a name share: `GetWeather`, `get-weather` and `get weather` give
    `getweather`.
    """
    if name.isascii():
        return name.lower().translate(_SPACED).replace(" ", "")
    return "".join(char for char in plain(name) if char.isalnum())


class _Stemmer(Protocol):
    maxCacheSize: int  # noqa: N815 - the library's name

    def stemWord(self, word: str) -> str: ...  # noqa: N802 - the library's name


@cache
def _stemmer() -> _Stemmer:
    from Stemmer import Stemmer

    stemmer: _Stemmer = Stemmer("english")
    stemmer.maxCacheSize = (
        0  # a cache of the stemmer would cost ten times the stemming itself
    )
    return stemmer


def written_words(text: str) -> list[str]:
    """Return the runs of letters and digits in a text, unchanged."""
    if not text.isascii():
        for char in _TYPOGRAPHIC:
            text = text.replace(char, " ")
        if not text.isascii():
            return _WRITTEN.findall(text)
    return text.encode().translate(_ONLY_WORDS).decode().split()


@lru_cache(maxsize=40_000)
def words_of_name(name: str) -> tuple[str, ...]:
    """Return `written_words` of a tool's name, with a cache."""
    return tuple(written_words(name))


def words_of_all(texts: Sequence[str]) -> list[list[str]]:
    """Return `written_words` of each text, in one pass if possible."""
    joined = _BETWEEN.join(texts)
    if not joined.isascii() or joined.count(_BETWEEN) != len(texts) - 1:
        return list(map(written_words, texts))
    return list(
        map(
            str.split,
            joined.encode().translate(_ONLY_WORDS_BETWEEN).decode().split(_BETWEEN),
        )
    )


def stemmed(word: str) -> str:
    """Return the stem of a plain word (Snowball's English stemmer)."""
    return _stemmer().stemWord(word)


stem = lru_cache(maxsize=20_000)(stemmed)
"""`stemmed` with a cache."""


def pieces(written: str) -> list[str]:
    """Return the words inside one written word in plain form, the word itself first."""
    whole = plain(written[:MAX_WORD])
    if not whole.isascii():
        return _unspaced_pieces(whole)
    parts = [whole]
    if _CASE_CHANGE.search(written):
        parts += map(str.lower, _PIECE.findall(written[:MAX_WORD]))
    if len(parts) > 1:
        return list(dict.fromkeys(parts))
    return parts


def _unspaced_pieces(word: str) -> list[str]:
    if not _UNSPACED.search(word):
        return [word]
    parts: list[str] = []
    for run in _UNSPACED.findall(word):
        parts += [run[at : at + 2] for at in range(max(len(run) - 1, 1))]
    parts += [rest for rest in _UNSPACED.sub(" ", word).split() if rest]
    return list(dict.fromkeys(parts))


def terms(written: str) -> list[str]:
    """Return the index terms of one written word; [] for a stop word."""
    if is_one_piece(written):
        term = ""
        if len(written) > 1:
            term = _term(written.lower())
        if term:
            return [term]
        return []
    return list(dict.fromkeys(filter(None, map(_term, pieces(written)))))


@lru_cache(maxsize=40_000)
def _term(part: str) -> str:
    """Return the index term of a plain word; "" for a stop word or a single letter."""
    says_something = part not in STOP_WORDS and (
        len(part) > 1 or part.isdigit() or not part.isascii()
    )
    if says_something:
        return _stemmer().stemWord(part)
    return ""


def is_one_piece(written: str) -> bool:
    """Return whether the word certainly contains no other words. The check is quick, and saves splitting most words."""
    plainly = written.isascii() and written.isalpha() and len(written) <= MAX_WORD
    return plainly and (written[1:].islower() or written.islower() or written.isupper())


def spoken(name: str) -> str:
    """Return an identifier as words: `getWeatherForecast` gives `get weather forecast`."""
    return " ".join(_PIECE.findall(name)).lower()


def name_words(name: str) -> list[str]:
    """Return an identifier as a list of words: `get`, `weather`, `forecast`."""
    if name.isascii():
        return [piece.lower() for piece in _PIECE.findall(name)]
    return written_words(spoken(name))
