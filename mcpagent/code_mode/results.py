"""Convert the result of a tool to a value for a program, and record the shape of such values."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from mcpagent.code_mode.importable import is_wrapped, result_schema
from mcpagent.code_mode.python_table import CALL_ERRORS
from mcpagent.code_mode.stubs import plain_words
from mcpagent.history.intake.file_descriptions import file_line
from mcpagent.utilities.python.worker_threads import is_large, json_in_steps
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import Audio, Document, Image, Text, ToolErrorKind
from mcpagent.values.tools import Tool, ToolOutput

MAX_ERROR = 2_000
MAX_SHAPE = 240
_STEP = 500_000
_MAX_READ, _MAX_KEYS, _MAX_LEVELS, _MAX_ROWS = 20_000, 12, 3, 20
_KINDS = {bool: "bool", int: "int", float: "float", str: "str", type(None): "None"}

_EXCEPTIONS: dict[ToolErrorKind, str] = {
    "denied": CALL_ERRORS["PermissionDenied"],
    "server_down": CALL_ERRORS["ServerUnavailable"],
    "timeout": CALL_ERRORS["OutcomeUnknown"],
    "invalid_arguments": "ValueError",
    "unknown_tool": "LookupError",
}

SHOWN_ERRORS = {kind: name for name, kind in CALL_ERRORS.items()}
"""The names of exceptions in texts, by the interpreter's classes."""


def exception_of(text: str, kind: ToolErrorKind = "failed") -> dict[str, Any]:
    """Return the exception for the program that reports an error of this kind."""
    return {
        "exc_type": _EXCEPTIONS.get(kind, CALL_ERRORS["ToolError"]),
        "message": safe_line(text, MAX_ERROR),
    }


def value_text(tool: Tool, output: ToolOutput) -> str:
    """Return the result in the sandbox's format: `j` and JSON, or `t` and a text, which is parsed as JSON if possible.

    The value is the structured content, if the server returns any; otherwise the text, or with images all parts as a
    list. Lone surrogates are replaced.
    """
    text = _written(tool, output)
    if text.isascii():
        return text
    steps = (
        text[start : start + _STEP] for start in range(0, len(text), _STEP)
    )  # in steps, so that other threads can run in between
    return "".join(step.encode("utf-8", "replace").decode() for step in steps)


def _written(tool: Tool, output: ToolOutput) -> str:
    if (data := output.structured) is not None:
        if (
            is_wrapped(tool.output_schema)
            and isinstance(data, dict)
            and data.keys() == {"result"}
        ):
            data = data["result"]
        return "j" + json_in_steps(data)
    if all(isinstance(part, Text) for part in output.content):
        texts = [part.text for part in output.content if isinstance(part, Text)]
        schema = result_schema(tool)
        if texts and schema is not None and schema.get("type") == "string":
            return "j" + json_in_steps("\n".join(texts))
        if texts:
            return "t" + "\n".join(texts)
        return "jnull"
    parts: list[Any] = []
    for part in output.content:
        match part:
            case Text(text=text):
                parts.append(text)
            case Image() | Document() | Audio():
                parts.append({part.type: part.media_type, "data": part.data})
            case _:
                parts.append(file_line(part, "not fetched"))
    return "j" + json_in_steps(parts)


def shape_of(text: str) -> str:
    """Return the shape of such a value, as `list[{"id": int, "title": str}]`; "" if the shape has no information."""
    if len(text) > _MAX_READ or (text[:1] == "t" and text[1:2] not in ("{", "[")):
        return ""
    try:
        value = json.loads(text[1:])
    except (ValueError, RecursionError):
        return ""
    if is_large(value) or not isinstance(value, dict | list):
        return ""
    shape = plain_words(_shape([value], 0))
    if len(shape) <= MAX_SHAPE:
        return shape
    return f"{shape[:MAX_SHAPE]}..."


def _shape(samples: Sequence[Any], level: int) -> str:
    """Return the common type of some values: fields by name; mappings without their keys, which are data."""
    objects = [one for one in samples if isinstance(one, dict)]
    lists = [one for one in samples if isinstance(one, list)]
    kinds = [_KINDS.get(type(one), "") for one in samples]
    if objects:
        kinds.append(_object_shape(objects, level))
    if lists:
        items = [item for one in lists for item in one[:_MAX_ROWS]][:_MAX_ROWS]
        inner = f"[{_shape(items, level + 1)}]" if items and level < _MAX_LEVELS else ""
        kinds.append(f"list{inner}")
    return " | ".join(
        sorted(
            {kind for kind in kinds if kind}, key=lambda kind: (kind == "None", kind)
        )
    )


def _object_shape(objects: Sequence[dict[str, Any]], level: int) -> str:
    if level >= _MAX_LEVELS:
        return "dict"
    counts = Counter(key for one in objects for key in one)
    least = 2 if len(objects) > 1 else 1
    fields = [
        key
        for key, count in counts.items()
        if count >= least and key.isidentifier() and len(key) <= 40
    ]
    values = [value for one in objects for value in one.values()]
    is_mapping = len(objects) == 1 and len({type(value) for value in values}) < 2
    if not fields or is_mapping:
        inner = _shape(values[:_MAX_ROWS], level + 1)
        return f"dict[str, {inner}]" if inner else "dict"
    shown = [
        f"{key!a}: {_shape([one[key] for one in objects if key in one], level + 1)}"
        for key in fields[:_MAX_KEYS]
    ]
    more = ["..."] if len(counts) > len(shown) else []
    return "{" + ", ".join([*shown, *more]) + "}"
