"""What tools returned, made readable: JSON as sentences and lists, moments as people say them, long texts cut."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from mcpagent.messages import Image, ToolResult
from mcpagent.models.offline.words import concept, split_words
from mcpagent.safe_text import safe_line, safe_text

MAX_LINES = 60
MAX_CHARACTERS = 6_000
_MAX_ITEMS = 40
_MAX_DEPTH = 4
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?")
_ZONE_KEY = re.compile(r"time_?zone|\btz\b|\bzone\b", re.IGNORECASE)
_ERROR_PREFIX = re.compile(
    r"^(?:(?:error|exception)\b(?: (?:executing|calling) (?:tool )?[\w.-]+)?\s*:\s*)+", re.IGNORECASE
)


def rendered(result: ToolResult, asked: frozenset[str]) -> str:
    """One result for a person. `asked` are the concepts of the request: fields of that name come first."""
    images = [f"({part.media_type} image)" for part in result.content if isinstance(part, Image)]
    text = safe_text(result.text).strip()
    data = _parsed(text)
    shown = _cut(text) if data is _NOT_JSON else _value(data, asked, 0)
    return "\n".join(piece for piece in (shown, *images) if piece) or "(nothing)"


def error_line(result: ToolResult) -> str:
    """What went wrong, in one line."""
    lines = [line for line in safe_text(result.text).splitlines() if line.strip()]
    return safe_line(_ERROR_PREFIX.sub("", " ".join(lines[:3]) if lines else "no reason given"), 300)


_NOT_JSON = object()


def _parsed(text: str) -> Any:
    if text[:1] not in ("{", "["):
        return _NOT_JSON
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _NOT_JSON


def _cut(text: str) -> str:
    lines = text.splitlines()
    kept = "\n".join(lines[:MAX_LINES])
    if len(lines) > MAX_LINES or len(kept) > MAX_CHARACTERS:
        kept = kept[:MAX_CHARACTERS]
        return f"{kept}\n... ({len(text):,} characters in all)"
    return kept


def spoken_key(key: Any) -> str:
    """`day_of_week` and `dayOfWeek` as "day of week"."""
    text = str(key)
    is_identifier = text.isidentifier() and ("_" in text or re.search(r"[a-z][A-Z]", text))
    return " ".join(split_words(text)) if is_identifier else safe_line(text, 60)


def _moment(text: str) -> str | None:
    if not _MOMENT.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return f"{moment:%H:%M} on {moment:%A}, {moment.day} {moment:%B %Y}"


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:,.10g}" if abs(value) >= 10_000 else f"{value:.10g}"
    return (_moment(value) or value) if isinstance(value, str) else str(value)


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, Mapping | list)


def _value(value: Any, asked: frozenset[str], depth: int) -> str:
    if _is_scalar(value):
        return _cut(_scalar(value))
    if depth >= _MAX_DEPTH:
        return _cut(json.dumps(value, ensure_ascii=False))[:300]
    if isinstance(value, Mapping):
        return _record(value, asked, depth)
    return _items(value, asked, depth)


def _record(record: Mapping[str, Any], asked: frozenset[str], depth: int) -> str:
    if len(record) == 1:
        key, inner = next(iter(record.items()))
        if str(key).lower() in ("result", "results", "data", "value", "output", "text", "content", "items"):
            return _value(inner, asked, depth)
    if not record:
        return "(nothing)"
    if all(_is_scalar(inner) for inner in record.values()):
        return _flat(record, asked)
    indent = "  " * depth
    lines = []
    for key, inner in list(record.items())[:_MAX_ITEMS]:
        shown = _value(inner, asked, depth + 1)
        separator = f":\n{indent}  " if "\n" in shown else ": "
        lines.append(f"{indent if depth else ''}{spoken_key(key)}{separator}{shown}")
    return "\n".join(lines)


def _flat(record: Mapping[str, Any], asked: frozenset[str]) -> str:
    """A record of plain values in one phrase, led by a moment or by the fields that were asked for."""
    shown = {key: _scalar(value) for key, value in record.items()}
    moment = next((key for key, value in record.items() if isinstance(value, str) and _moment(value)), None)
    if moment is not None and (len(record) <= 3 or any(_ZONE_KEY.search(str(key)) for key in record)):
        place = next((key for key in record if _ZONE_KEY.search(str(key))), None)
        lead = shown[moment] + (f" in {shown[place]}" if place else "")
        rest = {
            key: value
            for key, value in shown.items()
            if key not in (moment, place) and value not in lead and record[key] is not False and record[key] is not None
        }
        return lead + _in_brackets(rest)
    wanted = [key for key in record if {concept(word) for word in split_words(str(key))} & asked]
    if wanted and len(wanted) < len(record):
        lead = "; ".join(f"{spoken_key(key)}: {shown[key]}" for key in wanted)
        return lead + _in_brackets({key: value for key, value in shown.items() if key not in wanted})
    separator = "\n" if len(record) > 4 or any("\n" in value for value in shown.values()) else "; "
    return separator.join(f"{spoken_key(key)}: {value}" for key, value in list(shown.items())[:_MAX_ITEMS])


def _in_brackets(rest: Mapping[str, str]) -> str:
    inner = "; ".join(f"{spoken_key(key)}: {value}" for key, value in list(rest.items())[:12])
    return f" ({safe_line(inner, 400)})" if inner else ""


def _items(items: Sequence[Any], asked: frozenset[str], depth: int) -> str:
    if not items:
        return "(nothing)"
    if len(items) == 1:
        return _value(items[0], asked, depth)
    if all(isinstance(item, int | float) for item in items) and len(items) <= 200:
        return ", ".join(_scalar(item) for item in items)
    indent = "  " * depth
    lines = [f"{indent}- {_one_line(_value(item, frozenset(), depth + 1))}" for item in items[:_MAX_ITEMS]]
    more = [f"{indent}... and {len(items) - _MAX_ITEMS} more"] if len(items) > _MAX_ITEMS else []
    return "\n".join((*lines, *more)).lstrip()


def _one_line(text: str) -> str:
    return safe_line(text.replace("\n", "; "), 400)
