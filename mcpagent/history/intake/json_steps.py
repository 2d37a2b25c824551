"""Parse large JSON in steps of bounded length, within a budget of values and levels.

A parser in C holds the interpreter until it ends: a text of 50 MB holds every event loop of the process for a second,
from a worker thread too. Here a thread parses pieces of 128 KB one after the other, so that other threads run in
between. Values over the budget are not parsed: they stay text, and cost no memory beyond that.
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
"""A smaller text is parsed at once, in some milliseconds."""

_PIECE = 128 * 1024
_LONG_TEXT = 1 << 20


@cache
def _compiled(pattern: bytes) -> re.Pattern[bytes]:
    """Compile a pattern of possessive groups with `re`, or with `regex` if this Python's `re` matches them wrongly.

    The large ones take tens of milliseconds, so the first large text compiles them, and no import does. `re` of Python
    3.11.2, which Debian 12 has, keeps the characters of an iteration that failed (gh-100061).
    """
    found = re.match(rb"(?:[ab]++|\(a++\))*+", b"ab(a")
    if found is not None and found.end() == 2:
        return re.compile(pattern, re.DOTALL)
    import regex

    return cast("re.Pattern[bytes]", regex.compile(pattern, regex.DOTALL))


_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_FLAT = rb'(?:[^"{}\[\]]++|' + _STRING + rb")*+"


def _nested(levels: int) -> bytes:
    """Return a pattern of the content of a container, with containers of so many levels in it."""
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
"""Whole items of a container, each with the following comma; at most six levels deep."""

_TEXT = rb'(?:[^"\\]++|\\.)*+'
_OPENING, _CLOSING = re.compile(rb"[\[{]++"), re.compile(rb"[\]}]++")
_BARE = re.compile(rb"[^,\]}\s]+")
_SPACE = re.compile(rb"[ \t\n\r]*+")


_LONGEST_NUMBER = 4_000
"""Digits; Python refuses to parse 4,300 as a number, and no model reads them as one."""

TOO_DEEP, TOO_MANY = "its JSON nests too deeply", "its JSON has too many values"

Bytes: TypeAlias = bytes | bytearray
"""JSON in its received form: a copy of a large one would block every thread, too."""


class BudgetExceededError(ValueError):
    """Raised for JSON over the budget; the text names the exceeded limit."""


@dataclass(slots=True)
class JsonBudget:
    """The number of values and levels that may still be parsed."""

    values: int = MAX_VALUES
    levels: int = MAX_LEVELS

    def take(self, piece: Bytes) -> None:
        """Count the values of a piece. Raises `BudgetExceededError`."""
        outside = _compiled(_STRING).sub(b"", piece)
        self.values -= (
            outside.count(b",") + outside.count(b"{") + outside.count(b"[") + 1
        )
        if self.values < 0:
            raise BudgetExceededError(TOO_MANY)


def parse_in_steps(data: Bytes, budget: JsonBudget | None = None) -> Any:
    """Parse one JSON value. Raises `ValueError` if it is invalid, and `BudgetExceededError` over the budget."""
    budget = budget or JsonBudget()
    start = _after_space(data, 0)
    with uncollected():
        value, end = _one(data, start, budget, 0)
    if _after_space(data, end) != len(data):
        raise ValueError(f"something follows the value at byte {end}")
    return value


def utf8_in_steps(text: str) -> bytes:
    """Return the text as UTF-8, encoded in steps. Raises `UnicodeEncodeError` for half characters."""
    steps = range(0, len(text), _LONG_TEXT)
    return b"".join([text[start : start + _LONG_TEXT].encode() for start in steps])


def read_object(data: Bytes, start: int, read: Callable[[str, int], int]) -> int:
    """Call `read` with the name of each member of the object that starts there, and where its value starts.

    `read` returns where the value ends; this returns where the object ends. Raises `ValueError` if it is broken.
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
    """Call `read` with the place of each item of the array that starts there, as `read_object` does."""
    place = _after_space(data, start + 1)
    if data[place : place + 1] == b"]":
        return place + 1
    while place >= 0:
        end = read(place)
        place = _next(data, end, b"]")
    return _after_space(data, end) + 1


def value_at(data: Bytes, start: int, budget: JsonBudget) -> tuple[Any, int]:
    """Return the value that starts there, and its end. Raises as `parse_in_steps` does."""
    return _one(data, start, budget, 0)


def end_of(data: Bytes, start: int) -> int:
    """Return where the value that starts there ends, however large it is. Raises `ValueError` if it is broken."""
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
    """Return where the container ends, -1 if longer than `most`. Raises `BudgetExceededError` beyond the levels."""
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
    """Return the value that starts there, and its end."""
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
    """Read the items of a container, many small ones at once, and return the end of the container."""
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
    """Return one value and its end: at once if it is small, else in steps."""
    if data[place : place + 1] in (b"{", b"["):
        end = _end_of_container(data, place, _PIECE, budget.levels - level)
        if end > 0:
            piece = data[place:end]
            budget.take(piece)
            return _parsed(piece), end
    return _value(data, place, budget, level + 1)


def _name_at(data: Bytes, place: int) -> tuple[str, int]:
    """Return the name of a member, and where its value starts."""
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
    """Return where the next item starts, -1 if the container ends. Raises `ValueError`."""
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
    """Return where the text that starts there ends, looked for in steps. Raises `ValueError`."""
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
        if sign == b"\\":  # the step ended between the two
            place += 2


def _text(data: Bytes, start: int, end: int) -> str:
    """Return a text, a long one in steps."""
    if end - start <= _LONG_TEXT:
        return str(_parsed(data[start:end]))
    if data.find(b"\\", start, end) < 0 and data.isascii():
        with memoryview(
            data
        ) as view:  # nothing to convert: the text needs no second copy
            return str(view[start + 1 : end - 1], "ascii")
    pieces: list[str] = []
    place = start + 1
    while place < end - 1:
        stop = _cut(data, place, min(place + _LONG_TEXT, end - 1), end - 1)
        pieces.append(str(_parsed(b'"' + data[place:stop] + b'"')))
        place = stop
    return "".join(pieces)


def _cut(data: Bytes, start: int, stop: int, end: int) -> int:
    """Return a place near `stop` where neither an escape nor a character is cut in two."""
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
    """Return whether an escape begins there: a backslash that an even number of others precedes."""
    before = data[start:place]
    return (
        data[place : place + 1] == b"\\"
        and (len(before) - len(before.rstrip(b"\\"))) % 2 == 0
    )


def _parsed(piece: Bytes) -> Any:
    from pydantic_core import from_json

    return from_json(piece)
