"""Parse large JSON in short steps, within a budget of values and levels.

A parser in C holds the interpreter lock until it ends: a text of 50 MB blocks every event loop of the process for a
second, even from a worker thread. Here, a thread parses pieces of 128 KB one after the other, so that other threads run
in between. Values over the budget are not parsed: they stay text and need no further memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias, cast

from mcpagent.history.intake.budget import MAX_LEVELS, MAX_VALUES
from mcpagent.utilities.python.garbage_collection import uncollected

MANY_BYTES = 256 * 1024
"""Minimum size of a text that is parsed in steps; a smaller one takes only some milliseconds."""

_PIECE = 128 * 1024
_LONG_TEXT = 1 << 20


@cache
def _compiled(pattern: bytes) -> re.Pattern[bytes]:
    """Compile a pattern with possessive groups by `re`, or by `regex` if `re` of this Python matches them wrongly.

    Large patterns take tens of milliseconds, so they are compiled for the first large text, not on import. `re` of
    Python 3.11.2, which Debian 12 has, keeps the characters of an iteration that failed (gh-100061).
    """
    found = re.match(rb"(?:[ab]++|\(a++\))*+", b"ab(a")
    if found is not None and found.end() == 2:
        return re.compile(pattern, re.DOTALL)
    import regex

    return cast("re.Pattern[bytes]", regex.compile(pattern, regex.DOTALL))


_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_FLAT = rb'(?:[^"{}\[\]]++|' + _STRING + rb")*+"


def _nested(levels: int) -> bytes:
    """Return a pattern that matches the content of a container with up to `levels` levels of containers in it."""
    inside = _FLAT
    for _ in range(levels):
        inside = (
            rb'(?:[^"{}\[\]]++|'
            + _STRING
            + rb"|\{"
            + inside
            + rb"\}|\["
            + inside
            + rb"\])*+"
        )
    return inside


_INSIDE = _nested(5)
_ITEM = (
    rb'(?:[^"{}\[\],]++|'
    + _STRING
    + rb"|\{"
    + _INSIDE
    + rb"\}|\["
    + _INSIDE
    + rb"\])*+"
)
_ITEMS = rb"(?:" + _ITEM + rb",)*+"
"""Matches whole items of a container, each with the following comma; at most six levels deep."""

_TEXT = rb'(?:[^"\\]++|\\.)*+'
_OPENING, _CLOSING = re.compile(rb"[\[{]++"), re.compile(rb"[\]}]++")
_BARE = re.compile(rb"[^,\]}\s]+")
_SPACE = re.compile(rb"[ \t\n\r]*+")


_LONGEST_NUMBER = 4_000
"""Maximum number of digits of a number; Python refuses to parse 4,300."""

TOO_DEEP, TOO_MANY = "its JSON nests too deeply", "its JSON has too many values"

Bytes: TypeAlias = bytes | bytearray
"""JSON as it was received; a copy of a large one would block every thread, too."""


class BudgetExceededError(ValueError):
    """Raised if JSON exceeds the budget; the message names the exceeded limit."""


@dataclass(slots=True)
class JsonBudget:
    """The number of values and nested levels that may still be parsed."""

    values: int = MAX_VALUES
    levels: int = MAX_LEVELS

    def take(self, piece: Bytes) -> None:
        """Count the values of a piece against the budget. Raises `BudgetExceededError`."""
        outside = _compiled(_STRING).sub(b"", piece)
        self.values -= (
            outside.count(b",") + outside.count(b"{") + outside.count(b"[") + 1
        )
        if self.values < 0:
            raise BudgetExceededError(TOO_MANY)


def parse_in_steps(data: Bytes, budget: JsonBudget | None = None) -> Any:
    """Parse one JSON value. Raises `ValueError` if it is invalid, and `BudgetExceededError` if it exceeds the
    budget.
    """
    budget = budget or JsonBudget()
    start = _after_space(data, 0)
    with uncollected():
        value, end = _one(data, start, budget, 0)
    if _after_space(data, end) != len(data):
        raise ValueError(f"something follows the value at byte {end}")
    return value


def utf8_in_steps(text: str) -> bytes:
    """Return the text as UTF-8, encoded in steps. Raises `UnicodeEncodeError` for lone surrogates."""
    steps = range(0, len(text), _LONG_TEXT)
    return b"".join([text[start : start + _LONG_TEXT].encode() for start in steps])


def read_object(data: Bytes, start: int, read: Callable[[str, int], int]) -> int:
    """Call `read` for each member of the object at `start`, with its name and the position of its value.

    `read` returns the end of the value; this function returns the end of the object. Raises `ValueError` for invalid
    JSON.
    """
    place = _after_space(data, start + 1)
    if data[place : place + 1] == b"}":
        return place + 1
    while place >= 0:
        name, place = _name_at(data, place)
        end = read(name, place)
        place = _next(data, end, b"}")
    return _after_space(data, end) + 1


def read_array(data: Bytes, start: int, read: Callable[[int], int]) -> int:
    """Call `read` with the position of each item of the array at `start`; otherwise like `read_object`."""
    place = _after_space(data, start + 1)
    if data[place : place + 1] == b"]":
        return place + 1
    while place >= 0:
        end = read(place)
        place = _next(data, end, b"]")
    return _after_space(data, end) + 1


def value_at(data: Bytes, start: int, budget: JsonBudget) -> tuple[Any, int]:
    """Return the value at `start`, and its end. Raises the same errors as `parse_in_steps`."""
    return _one(data, start, budget, 0)


def end_of(data: Bytes, start: int) -> int:
    """Return the end of the value at `start`, however large it is. Raises `ValueError` for invalid JSON."""
    first = data[start : start + 1]
    if first == b'"':
        return _end_of_text(data, start)
    if first in (b"{", b"["):
        return _end_of_container(data, start, len(data), len(data))
    found = _BARE.match(data, start)
    if found is None:
        raise ValueError(f"a value is missing at byte {start}")
    return found.end()


def _end_of_container(data: Bytes, start: int, most: int, levels: int) -> int:
    """Return the end of the container at `start`, -1 if it is longer than `most`.

    Raises `BudgetExceededError` if it has more than `levels` levels.
    """
    depth, place = 0, start
    while True:
        sign = data[place : place + 1]
        if sign in (b"{", b"["):
            opened = _end_of_run(_OPENING, data, place) - place
            depth, place = depth + opened, place + opened
            if depth > levels:
                raise BudgetExceededError(TOO_DEEP)
        elif sign in (b"}", b"]"):
            closed = _end_of_run(_CLOSING, data, place) - place
            if closed >= depth:
                return place + depth
            depth, place = depth - closed, place + closed
        elif sign == b'"':
            place = _end_of_text(data, place)
        elif place >= len(data):
            raise ValueError("it is cut off")
        if place - start > most:
            return -1
        found = _compiled(_INSIDE).match(data, place, min(place + _PIECE, len(data)))
        assert found is not None
        place = found.end()


def _end_of_run(pattern: re.Pattern[bytes], data: Bytes, place: int) -> int:
    found = pattern.match(data, place)
    assert found is not None
    return found.end()


def _value(data: Bytes, start: int, budget: JsonBudget, level: int) -> tuple[Any, int]:
    """Return the value at `start`, and its end; a container item by item."""
    first = data[start : start + 1]
    if first == b'"':
        end = _end_of_text(data, start)
        budget.values -= 1
        return _text(data, start, end), end
    if first in (b"{", b"["):
        if level >= budget.levels:
            raise BudgetExceededError(TOO_DEEP)
        container: Any = {} if first == b"{" else []
        return container, _fill(container, data, start, budget, level)
    end = end_of(data, start)
    if end - start > _LONGEST_NUMBER:
        return data[start:end].decode("utf-8", "replace"), end
    return _parsed(data[start:end]), end


def _fill(
    container: Any, data: Bytes, start: int, budget: JsonBudget, level: int
) -> int:
    """Read the items of the container at `start`, small ones in groups, and return its end."""
    is_object = isinstance(container, dict)
    if is_object:
        opens, closes = b"{", b"}"
    else:
        opens, closes = b"[", b"]"
    place = _after_space(data, start + 1)
    if data[place : place + 1] == closes:
        return place + 1
    while True:
        found = _compiled(_ITEMS).match(data, place, min(place + _PIECE, len(data)))
        assert found is not None
        if found.end() > place:
            piece = data[place : found.end() - 1]
            budget.take(piece)
            _put(container, _parsed(opens + piece + closes))
            place = _after_space(data, found.end())
        name = ""
        if is_object:
            name, place = _name_at(data, place)
        value, end = _one(data, place, budget, level)
        _put(container, {name: value} if is_object else [value])
        place = _next(data, end, closes)
        if place < 0:
            return _after_space(data, end) + 1


def _one(data: Bytes, place: int, budget: JsonBudget, level: int) -> tuple[Any, int]:
    """Return the value at `place`, and its end: parsed at once if it is small, else in steps."""
    if data[place : place + 1] in (b"{", b"["):
        end = _end_of_container(data, place, _PIECE, budget.levels - level)
        if end > 0:
            piece = data[place:end]
            budget.take(piece)
            return _parsed(piece), end
    return _value(data, place, budget, level + 1)


def _name_at(data: Bytes, place: int) -> tuple[str, int]:
    """Return the name of an object's member at `place`, and the position of its value."""
    name_end = _end_of_text(data, place)
    colon = _after_space(data, name_end)
    if data[colon : colon + 1] != b":":
        raise ValueError(f"a colon is missing at byte {colon}")
    return str(_parsed(data[place:name_end])), _after_space(data, colon + 1)


def _put(container: Any, more: Any) -> None:
    if isinstance(container, dict):
        container.update(more)
    else:
        container += more


def _next(data: Bytes, end: int, closes: bytes) -> int:
    """Return the position of the next item, -1 at the end of the container. Raises `ValueError`."""
    place = _after_space(data, end)
    sign = data[place : place + 1]
    if sign == closes:
        return -1
    if sign != b",":
        raise ValueError(f"a comma is missing at byte {place}")
    return _after_space(data, place + 1)


def _after_space(data: Bytes, place: int) -> int:
    found = _SPACE.match(data, place)
    assert found is not None
    return found.end()


def _end_of_text(data: Bytes, start: int) -> int:
    """Return the end of the string at `start`, searching in steps. Raises `ValueError`."""
    if data[start : start + 1] != b'"':
        raise ValueError(f"a text is missing at byte {start}")
    place = start + 1
    while True:
        found = _compiled(_TEXT).match(data, place, min(place + _PIECE, len(data)))
        assert found is not None
        place = found.end()
        sign = data[place : place + 1]
        if sign == b'"':
            return place + 1
        if place >= len(data) or (sign == b"\\" and place + 2 > len(data)):
            raise ValueError("a text in it is cut off")
        if sign == b"\\":  # the step ended between a backslash and its character
            place += 2


def _text(data: Bytes, start: int, end: int) -> str:
    """Return the string between the two positions; a long one is decoded in steps."""
    if end - start <= _LONG_TEXT:
        return str(_parsed(data[start:end]))
    if data.find(b"\\", start, end) < 0 and data.isascii():
        with memoryview(
            data
        ) as view:  # without escapes, the string needs no second copy
            return str(view[start + 1 : end - 1], "ascii")
    pieces: list[str] = []
    place = start + 1
    while place < end - 1:
        stop = _cut(data, place, min(place + _LONG_TEXT, end - 1), end - 1)
        pieces.append(str(_parsed(b'"' + data[place:stop] + b'"')))
        place = stop
    return "".join(pieces)


def _cut(data: Bytes, start: int, stop: int, end: int) -> int:
    """Return a position near `stop` that divides neither an escape nor a UTF-8 character."""
    if stop >= end:
        return end
    while data[stop] & 0xC0 == 0x80:
        stop -= 1
    for place in range(max(start, stop - 5), stop):
        length = 2
        if data[place + 1 : place + 2] == b"u":
            length = 6
        if place + length > stop and _is_escape(data, start, place):
            stop = place
            break
    is_half = _FIRST_HALF.match(data, stop - 6, stop) is not None and _is_escape(
        data, start, stop - 6
    )
    if is_half:
        return stop - 6
    return stop


_FIRST_HALF = re.compile(rb"\\u[dD][89abAB]")


def _is_escape(data: Bytes, start: int, place: int) -> bool:
    """Return whether an escape begins at `place`: a backslash after an even number of other backslashes."""
    before = data[start:place]
    return (
        data[place : place + 1] == b"\\"
        and (len(before) - len(before.rstrip(b"\\"))) % 2 == 0
    )


def _parsed(piece: Bytes) -> Any:
    from pydantic_core import from_json

    return from_json(piece)
