"""Parse a text as JSON or a table for queries, if possible, and describe its structure to a model in a few words."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal, TypeAlias

from mcpagent.history.intake.json_steps import (
    MANY_BYTES,
    JsonBudget,
    parse_in_steps,
    utf8_in_steps,
)
from mcpagent.utilities.python.garbage_collection import uncollected
from mcpagent.utilities.text.for_model import line_for_model

Kind: TypeAlias = Literal[
    "JSON", "NDJSON", "CSV", "TSV", "XML", "HTML", "images", "binary", "text"
]

MAX_SHAPE = 600
"""Maximum length of a description of the structure."""

MAX_CONTAINERS, MAX_ITEMS = 3_000_000, 12_000_000
"""Limits of parsed JSON: a list of `{}` takes thirty times the memory of its text."""

MAX_GLANCED = 400_000
"""Maximum number of values that are parsed for a description; of a larger result, only the beginning is parsed."""

MAX_ROWS, MAX_FIELDS = 1_500_000, 6_000_000
"""Limits of parsed tables: rows of two short fields take forty times the memory of their text."""

_SAMPLE, _KEYS, _LEVELS, _KEY = 25, 25, 3, 40
_FIRST_LINES = 20
_LINES_AT_ONCE = 500
_COUNTED_AT_ONCE = 1_000_000
_MAX_LEVELS = 190
_MAX_FIRST = 100_000


@dataclass(frozen=True, slots=True)
class ParsedOutput:
    """A parsed text. `value` is the data to query, None if it is missing or too large; `why` is then the reason."""

    kind: Kind
    value: Any = field(default=None, repr=False)
    why: str = ""
    parts: int = 0
    """Estimated number of values, for the limit of the cache."""
    is_sample: bool = False
    """True if `value` is only the beginning of the data."""


def read_data(text: str) -> ParsedOutput:
    """Detect the format of the text and parse it. Never raises: data that cannot be read counts as text."""
    begins = text[:_MAX_FIRST].lstrip("\ufeff \t\r\n")
    if begins[:1] in ("{", "["):
        return _json(text, begins)
    if begins[:1] == "<":
        return ParsedOutput(
            "HTML"
            if begins[:15].lower().startswith(("<!doctype html", "<html"))
            else "XML"
        )
    if kind := _table_kind(begins, is_whole=len(text) <= _MAX_FIRST):
        return _table(text, kind)
    return ParsedOutput("text")


def glance(text: str) -> ParsedOutput:
    """Parse the text like `read_data`; if it has very many values, only its beginning.

    That is enough for a description, and many objects would make each garbage collection slow.
    """
    containers, parts = _counted(text)
    if parts <= MAX_GLANCED or len(text) <= 2 * _MAX_FIRST:
        return read_data(text)
    head = text[: 2 * _MAX_FIRST].lstrip("\ufeff \t\r\n")
    whole_lines = head[: head.rfind("\n") + 1]
    if head[:1] not in ("{", "[") or _is_json(head.partition("\n")[0]):
        return replace(read_data(whole_lines), is_sample=True)
    if containers > MAX_CONTAINERS or parts > MAX_ITEMS:
        return read_data(text)  # it reports the limit without parsing
    from pydantic_core import from_json

    try:
        with uncollected():
            sample = from_json(head, allow_partial=True)
    except ValueError:
        return read_data(text)
    return ParsedOutput("JSON", sample, parts=parts, is_sample=True)


def _counted(text: str) -> tuple[int, int]:
    """Return upper bounds for the number of containers and of all values in the JSON; counted in steps."""
    containers = commas = 0
    for start in range(0, len(text), _COUNTED_AT_ONCE):
        end = start + _COUNTED_AT_ONCE
        containers += text.count("{", start, end) + text.count("[", start, end)
        commas += text.count(",", start, end)
    return containers, containers + commas


def _json(text: str, begins: str) -> ParsedOutput:
    containers, parts = _counted(text)
    is_lines = _is_json(begins.partition("\n")[0]) and "\n" in text.strip()
    kind: Kind = "NDJSON" if is_lines else "JSON"
    if containers > MAX_CONTAINERS or parts > MAX_ITEMS:
        return ParsedOutput(
            kind,
            why=f"it has over {min(containers, MAX_CONTAINERS):,} values in it, too many to be queried",
        )
    try:
        if is_lines:
            value = _lines_read(text)
        else:
            value = _parsed(text)
    except (ValueError, RecursionError, MemoryError) as error:
        return ParsedOutput(
            "text",
            why=f"it begins as JSON and is none: {line_for_model(str(error), 120)}",
        )
    return ParsedOutput(kind, value, parts=parts)


def _parsed(text: str) -> Any:
    """Parse JSON, nested at most 200 levels, with the fastest parser available. Raises `ValueError`."""
    from pydantic_core import from_json

    text = text.removeprefix("\ufeff")
    try:
        if len(text) > MANY_BYTES:
            return parse_in_steps(
                utf8_in_steps(text), JsonBudget(MAX_ITEMS, _MAX_LEVELS)
            )
        return from_json(text, allow_inf_nan=False, cache_strings="keys")
    except (TypeError, UnicodeEncodeError):  # a lone surrogate is invalid Unicode
        raise ValueError("it has half a character in it") from None


def _lines_read(text: str) -> list[Any]:
    """Parse one JSON value on each line. Raises `ValueError` with the number of an invalid line."""
    lines = [line for line in text.lstrip("\ufeff").split("\n") if line.strip()]
    values: list[Any] = []
    try:
        with uncollected():
            # Parse many lines as one text: parsing each line alone takes three times as long.
            for start in range(0, len(lines), _LINES_AT_ONCE):
                values += _parsed(
                    f"[{','.join(lines[start : start + _LINES_AT_ONCE])}]"
                )
        return values
    except ValueError:
        bad = next(
            (number for number, line in enumerate(lines, 1) if not _is_json(line)), 0
        )
        raise ValueError(f"line {bad} of its lines with values is no JSON") from None


def _is_json(text: str) -> bool:
    try:
        _parsed(text)
    except (ValueError, RecursionError):
        return False
    return True


def _table_kind(begins: str, *, is_whole: bool) -> Literal["CSV", "TSV"] | None:
    """Return "CSV" or "TSV" if the first lines all have the same number of fields, at least two; else None."""
    lines = begins.splitlines()[: _FIRST_LINES + 1]
    if not (is_whole or len(lines) <= _FIRST_LINES):
        lines = lines[:-1]
    if len(lines) < 3 or any(len(line) > 10_000 for line in lines):
        return None
    for delimiter in ("\t", ",", ";"):
        try:
            widths = {
                len(row)
                for row in csv.reader(lines, delimiter=delimiter, strict=True)
                if row
            }
        except csv.Error:
            continue
        if len(widths) == 1 and widths.pop() >= 2:
            if delimiter == "\t":
                return "TSV"
            return "CSV"
    return None


def _table(text: str, kind: Literal["CSV", "TSV"]) -> ParsedOutput:
    first = text[:_MAX_FIRST].lstrip("\ufeff").partition("\n")[0]
    if kind == "TSV":
        delimiter = "\t"
    else:
        delimiter = max(",;", key=first.count)
    if text.count("\n") > MAX_ROWS or text.count(delimiter) > MAX_FIELDS:
        return ParsedOutput(
            kind,
            why=f"it has over {MAX_ROWS:,} rows or {MAX_FIELDS:,} fields, too many to be queried",
        )
    try:
        rows = csv.reader(_lines(text.lstrip("\ufeff")), delimiter=delimiter)
        names = list[str]()
        _name_columns(names, next(rows))
        value: list[dict[str, str]] = []
        with uncollected():
            for row in rows:
                if len(row) > len(names):
                    _name_columns(names, [""] * len(row))
                if row:
                    value.append(dict(zip(names, row, strict=False)))
    except csv.Error as error:
        return ParsedOutput(
            "text",
            why=f"it begins as {kind} and is none: {line_for_model(str(error), 120)}",
        )
    # A row takes about as much memory as three fields.
    return ParsedOutput(kind, value, parts=len(value) * (len(names) + 3))


def _name_columns(names: list[str], row: list[str]) -> None:
    """Add names for columns without one: the cell's text, or a number if that is empty or already used."""
    known = set(names)
    for place, name in enumerate(row[len(names) :], len(names) + 1):
        name = name.strip()
        names.append(name if name and name not in known else f"column {place}")
        known.add(names[-1])


def _lines(text: str) -> Iterator[str]:
    """Yield the lines with their ends."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


# -- Descriptions ------------------------------------------------------------------------------------------------------


def shape_in_words(data: ParsedOutput) -> str:
    """Describe the data with counts: `array of 80,000 objects {"id": integer, "tags": array of strings}`."""
    if data.value is None:
        return ""
    rows = None
    if data.kind in ("CSV", "TSV"):
        rows = data.value
    if rows is not None:
        names = ", ".join(
            _quoted(name) for name in islice(rows[0] if rows else (), _KEYS)
        )
        return _cut(f"{_count_of(data, rows)}rows with the columns {names}")
    if data.kind == "NDJSON":
        return _cut(
            f"{_count_of(data, data.value)}lines, each {_words(_sampled(data.value), _LEVELS)}"
        )
    return _cut(_words((data.value,), _LEVELS, counted=not data.is_sample))


def _count_of(data: ParsedOutput, items: Sequence[Any]) -> str:
    if data.is_sample:
        return ""
    return f"{len(items):,} "


def _words(values: Iterable[Any], levels: int, *, counted: bool = False) -> str:
    """Describe the types of values that occur at the same position."""
    by_type: dict[str, list[Any]] = {}
    for value in values:
        by_type.setdefault(_type_name(value), []).append(value)
    told = [
        _of_type(name, found, levels, counted=counted)
        for name, found in sorted(by_type.items())
    ]
    if told:
        return " or ".join(told)
    return "nothing"


def _of_type(name: str, values: Sequence[Any], levels: int, *, counted: bool) -> str:
    if name == "object":
        return _objects(values, levels, counted=counted)
    if name == "array":
        items = [item for value in values for item in _sampled(value)][: _SAMPLE * 2]
        one = None
        if counted and len(values) == 1:
            one = values[0]
        many = "array of"
        if one is not None:
            many = f"array of {len(one):,}"
        inner = "values"
        if levels > 0:
            inner = _words(items, levels - 1)
        if one is not None:
            return f"{many} × {inner}"
        return f"{many} {inner}"
    return name


def _objects(values: Sequence[Mapping[str, Any]], levels: int, *, counted: bool) -> str:
    keys = dict.fromkeys(key for value in values for key in islice(value, _KEYS))
    count = max((len(value) for value in values), default=0)
    if levels <= 0 or not keys:
        if keys:
            return f"object with {count:,} keys"
        return "object"
    shown = list(keys)[:_KEYS]
    told = (
        f"{_quoted(key)}: {_words((v[key] for v in values if key in v), levels - 1, counted=counted)}"
        for key in shown
    )
    more = ""
    if count > len(shown):
        more = f", ... {count:,} keys"
    return f"{{{', '.join(told)}{more}}}"


def _sampled(items: Sequence[Any]) -> list[Any]:
    """Return some of the items, evenly spread over the whole list."""
    step = max(len(items) // _SAMPLE, 1)
    if isinstance(items, list):
        return list(islice(items, 0, None, step))[:_SAMPLE]
    return []


def _type_name(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _quoted(key: str) -> str:
    return json.dumps(line_for_model(str(key), _KEY), ensure_ascii=False)


def _cut(words: str) -> str:
    if len(words) <= MAX_SHAPE:
        return words
    return f"{words[:MAX_SHAPE].rstrip()} ..."
