"""JSON as people write it: comments and trailing commas, and where in the text each value stands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TypeAlias, cast

ValuePath: TypeAlias = tuple[str | int, ...]
"""Keys and list places from the top of a document to a value in it."""


_EXTRAS = re.compile(
    r"""(?P<string>"(?:[^"\\\n]|\\.)*"?) | (?P<line>//[^\n]*) | (?P<block>/\*.*?(?:\*/|\Z))""", re.VERBOSE | re.DOTALL
)
_TRAILING_COMMA = re.compile(r'"(?:[^"\\\n]|\\.)*"?|(,)(?=\s*[}\]])', re.DOTALL)


def blank_extras(text: str) -> str:
    """The text with comments and trailing commas turned into spaces, so that offsets stay."""

    def blank(match: re.Match[str]) -> str:
        found = match.group()
        return found if match["string"] else "".join("\n" if char == "\n" else " " for char in found)

    plain = _EXTRAS.sub(blank, text)
    return _TRAILING_COMMA.sub(lambda match: " " if match[1] else match.group(), plain)


_LEXEME = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


def value_offsets(text: str) -> Iterator[tuple[ValuePath, int]]:
    """(path, offset of the key or array item) for each value of a valid JSON text; a repeated key comes repeatedly."""
    path: list[str | int] = []
    open_kinds: list[str] = []
    expect_key = False
    for match in _LEXEME.finditer(text):
        lexeme = match.group()
        if expect_key and lexeme[0] == '"':
            path[-1] = json.loads(lexeme)
            expect_key = False
            yield tuple(path), match.start()
            continue
        if lexeme not in "}],:" and open_kinds and open_kinds[-1] == "[":
            yield tuple(path), match.start()
        if lexeme in ("{", "["):
            open_kinds.append(lexeme)
            path.append("" if lexeme == "{" else 0)
            expect_key = lexeme == "{"
        elif lexeme in ("}", "]"):
            open_kinds.pop()
            path.pop()
            expect_key = False
        elif lexeme == "," and open_kinds[-1] == "[":
            path[-1] = cast("int", path[-1]) + 1
        elif lexeme == ",":
            expect_key = True
