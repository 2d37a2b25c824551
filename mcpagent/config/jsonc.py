"""Read and edit JSON with comments and trailing commas, and locate each value in the text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

ValuePath: TypeAlias = tuple[str | int, ...]
"""The path of a value in a document: keys and list indexes."""


@dataclass(frozen=True, slots=True)
class Span:
    """The position of a value: from `start` to `end`. `key` is the start of its key; for a list item, it equals
    `start`.
    """

    path: ValuePath
    key: int
    start: int
    end: int


_EXTRAS = re.compile(
    r"""(?P<string>"(?:[^"\\\n]|\\.)*"?) | (?P<line>//[^\n]*) | (?P<block>/\*.*?(?:\*/|\Z))""",
    re.VERBOSE | re.DOTALL,
)
_TRAILING_COMMA = re.compile(r'"(?:[^"\\\n]|\\.)*"?|(,)(?=\s*[}\]])', re.DOTALL)
_LEXEME = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)

_NOT_A_LINE_END = re.compile(r"[^\n]")


def blank_comments(text: str) -> str:
    """Return the text with comments replaced by spaces, so that offsets and lines do not change."""

    def blank(match: re.Match[str]) -> str:
        found = match.group()
        if match["string"]:
            return found
        return _NOT_A_LINE_END.sub(" ", found)

    return _EXTRAS.sub(blank, text)


def blank_extras(text: str) -> str:
    """Return the text with comments and trailing commas replaced by spaces: plain JSON of the same length."""
    return _TRAILING_COMMA.sub(
        lambda match: " " if match[1] else match.group(), blank_comments(text)
    )


def comments(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each comment."""
    return [match.span() for match in _EXTRAS.finditer(text) if not match["string"]]


@dataclass(slots=True)
class _Open:
    """A value that the scanner has entered but not left: an object, a list, or the whole text ("")."""

    kind: str
    path: ValuePath
    key: int
    start: int
    step: str | int
    step_at: int = -1


def value_spans(text: str) -> Iterator[Span]:
    """Yield every value in a valid JSON text, inner values first; a value under a repeated key is yielded each time."""
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
            if parent is not None and parent.kind == "{":
                key = parent.step_at
            else:
                key = at
            if lexeme in ("{", "["):
                open_values.append(
                    _Open(lexeme, path, key, at, "" if lexeme == "{" else 0)
                )
                expect_key = lexeme == "{"
            else:
                yield Span(path, key, at, match.end())


# -- Edits that preserve comments, order, indentation and trailing commas ----------------------------------------------

MAX_INLINE = 88
"""Maximum width of a list or an inner object that is written on one line."""


def with_value(text: str, path: ValuePath, value: Any) -> str:
    """Return the text with this value at the path; missing objects on the path are created.

    The text must be valid JSON with comments, and its top value an object. Raises `ValueError` if another value on the
    path is not an object.
    """
    spans = _spans(text)
    for depth in range(len(path), -1, -1):
        span = spans.get(path[:depth])
        if span is None:
            continue
        if depth == len(path):
            written = _fitting(
                value, _indent_of_line(text, span.key), span.start - span.key, text
            )
            return text[: span.start] + written + text[span.end :]
        if text[span.start] != "{":
            raise ValueError(f"{'.'.join(map(str, path[:depth]))} is no object")
        for key in reversed(path[depth + 1 :]):
            value = {key: value}
        return _with_member(text, spans, span, str(path[depth]), value)
    raise ValueError("the text holds no value")


def without_value(text: str, path: tuple[str, ...]) -> str:
    """Return the text without the member at the path; other comments stay. If the member is missing, the text is
    unchanged.
    """
    while (span := _spans(text).get(path)) is not None:
        text = _without(text, span)
    return text


def _spans(text: str) -> dict[ValuePath, Span]:
    return {span.path: span for span in value_spans(blank_extras(text))}


def _with_member(
    text: str, spans: Mapping[ValuePath, Span], holder: Span, key: str, value: Any
) -> str:
    inside = [
        span
        for path, span in spans.items()
        if path[:-1] == holder.path and holder.start < span.key < holder.end
    ]
    outer = _indent_of_line(text, holder.key)
    if not inside:
        return _with_first_member(text, holder, outer, key, value)
    last = max(inside, key=lambda span: span.end)
    plain = blank_comments(text)
    comma = plain.find(",", last.end, holder.end)
    if comma < 0:
        after = last.end
    else:
        after = comma + 1
    place = _end_of_line(text, plain, after, holder.end - 1)
    joint = ""
    if comma < 0:
        joint = ","
    if place is None:
        written = f"{json.dumps(key)}: {_inline(value)}" + ("," if comma >= 0 else "")
        return text[:after] + joint + " " + written + text[after:]
    indent = _indent_of_line(text, last.key) or outer + _unit(text)
    member = _member(key, value, indent, text) + ("," if comma >= 0 else "")
    return (
        text[:after]
        + joint
        + text[after:place]
        + _newline(text)
        + indent
        + member
        + text[place:]
    )


def _with_first_member(
    text: str, holder: Span, outer: str, key: str, value: Any
) -> str:
    indent = outer + _unit(text)
    before = text[: holder.end - 1].rstrip(" \t\r\n")
    newline = _newline(text)
    member = _member(key, value, indent, text)
    return f"{before}{newline}{indent}{member}{newline}{outer}{text[holder.end - 1 :]}"


def _end_of_line(text: str, plain: str, place: int, limit: int) -> int | None:
    """Return the end of the line of `place`, after its comments; None if other text follows on the line."""
    ends = dict(comments(text))
    while place < limit:
        if text[place] == "\n":
            if text[place - 1] == "\r":
                return place - 1
            return place
        if place in ends:
            place = ends[place]
        elif plain[place].isspace():
            place += 1
        else:
            return None
    return None


def _without(text: str, span: Span) -> str:
    plain = blank_comments(text)
    start, end = span.key, span.end
    following = len(plain) - len(plain[end:].lstrip())
    if plain[following] == ",":
        cut = [(start, end), (following, _after_spaces(text, following + 1))]
    else:
        comma = len(plain[:start].rstrip()) - 1
        if text[comma + 1 : start].strip(" \t"):
            gap = comma + 1
        else:
            gap = start
        if plain[comma] == ",":
            cut = [(comma, gap), (start, end)]
        else:
            cut = [(start, end)]
    for begin, stop in reversed(cut):
        text = text[:begin] + text[stop:]
    removed_before = sum(stop - begin for begin, stop in cut if stop <= start)
    return _without_blank_line(text, start - removed_before)


def _after_spaces(text: str, place: int) -> int:
    """Return the index after the spaces at `place`, or `place` itself if only the end of the line follows."""
    after = place + len(text[place:]) - len(text[place:].lstrip(" \t"))
    if text[after] in "\r\n":
        return place
    return after


def _without_blank_line(text: str, place: int) -> str:
    """Remove the line at this offset if it is blank."""
    begin = text.rfind("\n", 0, place) + 1
    stop = text.find("\n", place)
    if begin == 0 or stop < 0:
        return text
    if not text[begin:stop].strip():
        return text[:begin] + text[stop + 1 :]
    if not text[begin:place].strip():
        return text[:begin] + text[begin:place] + text[place:].lstrip(" \t")
    return text


def _indent_of_line(text: str, place: int) -> str:
    """Return the white space that the line begins with."""
    begin = text.rfind("\n", 0, place) + 1
    found = re.match(r"[ \t]*", text[begin:place])
    if found:
        return found.group()
    return ""


def _unit(text: str) -> str:
    """Return one step of indentation: the smallest indentation in the text, else two spaces."""
    steps = [found for found in re.findall(r"^([ \t]+)\"", text, re.MULTILINE) if found]
    return min(steps, key=len) if steps else "  "


def _newline(text: str) -> str:
    if "\r\n" in text:
        return "\r\n"
    return "\n"


def _inline(value: Any) -> str:
    written = json.dumps(value, ensure_ascii=False)
    try:
        written.encode()
    except UnicodeEncodeError:
        written = json.dumps(value)
    return written


def _member(key: str, value: Any, indent: str, text: str) -> str:
    name = f"{json.dumps(key)}: "
    return name + _fitting(value, indent, len(name), text)


def _fitting(value: Any, indent: str, before: int, text: str) -> str:
    """Return the value on one line if it fits after `before` columns; else each member of an object on a line."""
    inline = _inline(value)
    is_object = isinstance(value, Mapping) and bool(value)
    is_flat = is_object and not any(
        isinstance(item, Mapping) for item in value.values()
    )
    if not is_object or (is_flat and len(indent) + before + len(inline) <= MAX_INLINE):
        return inline
    inner, newline = indent + _unit(text), _newline(text)
    members = [inner + _member(key, item, inner, text) for key, item in value.items()]
    return "{" + newline + f",{newline}".join(members) + newline + indent + "}"
