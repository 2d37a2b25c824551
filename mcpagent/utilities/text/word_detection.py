"""Distinguish words and numbers from random characters, by the words that occur in software.

`benchmarks/software_words.py` writes the two data files, which are read when the first value is judged.
`software_words.txt` has the words. `letter_bits.txt` has a row for each pair of letters, with one character for each of
`LETTERS`: the information of this letter after the pair, in quarters of a bit from "#" on.
"""

from __future__ import annotations

import math
import re
from functools import cache
from pathlib import Path

LETTERS = "\n0abcdefghijklmnopqrstuvwxyz"
"""The alphabet of the model: a line feed marks the beginning or end of a word, 0 represents any digit."""

PIECE = re.compile(r"[^\s_./:,;=@|\"'`\\-]+")
"""Matches a piece between characters that join words."""

_UNIT = re.compile(r"(?:[A-Z]+(?![a-z])|[A-Z]?[a-z]+)\d*|\d+|.")
_HEX = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_DIGIT = re.compile(r"\d")
_SHORTEST = 4
"""Minimum length of a piece that is judged: a shorter one may be an abbreviation or a part of a key."""

_DIGIT_BITS = math.log2(10)
_NUMBER_BITS = 6.0
_SYMBOL_BITS = 6.0
_MOST_BITS = 6.7
_MOST_BITS_OF_HEX = 4.3
"""Maximum bits per character of a hexadecimal value: a hexadecimal digit has 4 bits, random text 5 to 6."""


@cache
def _words() -> frozenset[str]:
    """Return the words that occur in software, in lower case, with 0 for each digit."""
    path = Path(__file__).with_name("software_words.txt")
    return frozenset(path.read_text("utf-8").split())


@cache
def _rows() -> dict[str, dict[str, float]]:
    """Return the information of each letter in bits, by the pair of letters before it."""
    lines = Path(__file__).with_name("letter_bits.txt").read_text("ascii").splitlines()
    twos = [one + other for one in LETTERS for other in LETTERS]
    return {
        two: dict(zip(LETTERS, (bits_of(char) for char in line), strict=True))
        for two, line in zip(twos, lines, strict=True)
    }


def bits_of(char: str) -> float:
    """Return the number of bits that a character of `letter_bits.txt` encodes."""
    return (ord(char) - ord("#")) / 4


def is_word(text: str) -> bool:
    """Return whether the text is a word that occurs in software, or several joined by `_`: `postgres`,
    `tool_result`.
    """
    words = text.lower().split("_")
    return all(map(str.isalpha, words)) and _words().issuperset(words)


def units_of(piece: str) -> list[str]:
    """Return the words of a piece, in the form of `software_words.txt`: `s3BucketName2` has `s0`, `bucket` and
    `name0`.
    """
    return [_DIGIT.sub("0", unit.lower()) for unit in _UNIT.findall(piece)]


def unread(text: str) -> int:
    """Return the number of characters in pieces of the text that are neither words nor numbers."""
    return sum(
        len(piece)
        for piece in PIECE.findall(text)
        if len(piece) >= _SHORTEST and not _is_read(piece)
    )


def _is_read(piece: str) -> bool:
    """Return whether the piece is a number, or costs fewer bits as words than as random characters.

    Keys are ASCII, so any other piece counts as words.
    """
    if piece.isdecimal() or not piece.isascii():
        return True
    most = _MOST_BITS
    if _HEX.fullmatch(piece):
        most = _MOST_BITS_OF_HEX
    return sum(map(_bits, units_of(piece))) <= most * len(piece)


@cache
def _word_bits() -> float:
    return math.log2(len(_words()))


def _bits(word: str) -> float:
    """Return the information of a word in bits: by its position in the list, or by its letters, each after the pair
    before it.
    """
    if not word.isalnum():
        return _SYMBOL_BITS
    digits = _DIGIT_BITS * word.count("0")
    if not word.strip("0"):
        return digits + _NUMBER_BITS
    if word in _words():
        return digits + _word_bits()
    bits, before = digits, "\n\n"
    for letter in f"{word}\n":
        bits += _rows()[before][letter]
        before = before[1] + letter
    return bits
