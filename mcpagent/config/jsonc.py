"""JSON as people write it: comments and trailing commas, and where in the text each value stands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias, cast

ValuePath: TypeAlias = tuple[str | int, ...]
"""Keys and list places from the top of a document to a value in it."""


@dataclass(frozen=True, slots=True)
class Span:
    """Where a value is in its text: `start` to `end`, and `key`, where its key begins (`start` for a list's item)."""

    path: ValuePath
    key: int
    start: int
    end: int


_EXTRAS = re.compile(
    r"""(?P<string>"(?:[^"\\\n]|\\.)*"?) | (?P<line>//[^\n]*) | (?P<block>/\*.*?(?:\*/|\Z))""", re.VERBOSE | re.DOTALL
)
_TRAILING_COMMA = re.compile(r'"(?:[^"\\\n]|\\.)*"?|(,)(?=\s*[}\]])', re.DOTALL)
_LEXEME = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


def blank_comments(text: str) -> str:
    """The text with comments turned into spaces, so that offsets and lines stay."""

    def blank(match: re.Match[str]) -> str:
        found = match.group()
        return found if match["string"] else "".join("\n" if char == "\n" else " " for char in found)

    return _EXTRAS.sub(blank, text)


def blank_extras(text: str) -> str:
    """The text with comments and trailing commas turned into spaces: plain JSON of the same length."""
    return _TRAILING_COMMA.sub(lambda match: " " if match[1] else match.group(), blank_comments(text))


def comments(text: str) -> list[tuple[int, int]]:
    """Start and end of each comment."""
    return [match.span() for match in _EXTRAS.finditer(text) if not match["string"]]


@dataclass(slots=True)
class _Open:
    """A value whose end is not reached yet: an object, a list, or the whole text ("")."""

    kind: str
    path: ValuePath
    key: int
    start: int
    step: str | int
    step_at: int = -1


def value_spans(text: str) -> Iterator[Span]:
    """Every value of a valid JSON text, inner ones first; a repeated key comes repeatedly."""
    open_values: list[_Open] = []
    expect_key = False
    for match in _LEXEME.finditer(text):
        lexeme, at = match.group(), match.start()
        parent = open_values[-1] if open_values else None
        if expect_key and lexeme[0] == '"' and parent is not None:
            parent.step, parent.step_at, expect_key = json.loads(lexeme), at, False
        elif lexeme in ("}", "]"):
            closed = open_values.pop()
            yield Span(closed.path, closed.key, closed.start, match.end())
            expect_key = False
        elif lexeme == ",":
            holder = cast("_Open", parent)
            expect_key = holder.kind == "{"
            if not expect_key:
                holder.step = cast("int", holder.step) + 1
        elif lexeme != ":":
            path = () if parent is None else (*parent.path, parent.step)
            key = parent.step_at if parent is not None and parent.kind == "{" else at
            if lexeme in ("{", "["):
                open_values.append(_Open(lexeme, path, key, at, "" if lexeme == "{" else 0))
                expect_key = lexeme == "{"
            else:
                yield Span(path, key, at, match.end())
