"""A tool in one line for a search result: its call signature, and the first sentences of its description."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mcpagent.messages import ToolDefinition
from mcpagent.safe_text import safe_line

MAX_SIGNATURE = 240
"""Characters that optional arguments are listed within; required ones are always there."""

_MAX_ENUM = 6
_SHORT_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "null": "null",
}
_SENTENCE_END = re.compile(r"(?<=[.!?。])\s+(?=[^a-z])|\s*\n\s*\n\s*")


def call_signature(definition: ToolDefinition) -> str:
    """How to call it: `get_weather(location: str, unit?: celsius|fahrenheit)`.

    Required arguments come first and are always there; optional ones follow as far as 240 characters go, then `...`.
    """
    properties = definition.parameters.get("properties")
    if not isinstance(properties, dict):
        return f"{definition.name}()"
    listed = definition.parameters.get("required")
    names = listed if isinstance(listed, list) else []
    required = [name for name in names if isinstance(name, str) and name in properties]
    arguments = [_argument(name, properties[name], "") for name in dict.fromkeys(required)]
    length = len(definition.name) + sum(len(argument) + 2 for argument in arguments)
    for name in properties:
        if name in required:
            continue
        argument = _argument(name, properties[name], "?")
        length += len(argument) + 2
        if length > MAX_SIGNATURE:
            arguments.append("...")
            break
        arguments.append(argument)
    return f"{definition.name}({', '.join(arguments)})"


def first_sentences(description: str, limit: int = 160) -> str:
    """As many whole sentences from the start as fit in `limit` characters, on one line; else the first one, cut."""
    sentences = [
        line for part in _SENTENCE_END.split(description[: limit * 8].strip()) if (line := safe_line(part, limit))
    ]
    text = sentences[0] if sentences else ""
    for sentence in sentences[1:]:
        if len(text) + 1 + len(sentence) > limit:
            break
        text += " " + sentence
    return text


def _argument(name: str, schema: Any, mark: str) -> str:
    kind = _type(schema) if isinstance(schema, dict) else ""
    return f"{safe_line(name, 64)}{mark}: {kind}" if kind else f"{safe_line(name, 64)}{mark}"


def _type(schema: Mapping[str, Any], depth: int = 0) -> str:
    values = schema.get("enum")
    if isinstance(values, list) and values:
        shown = [safe_line(str(value), 24) for value in values[:_MAX_ENUM]]
        return "|".join([*shown, "..."] if len(values) > _MAX_ENUM else shown)
    if "const" in schema:
        return safe_line(str(schema["const"]), 24)
    kind = schema.get("type")
    if isinstance(kind, list):
        return "|".join(dict.fromkeys(_short(one) for one in kind[:4] if one != "null"))
    if kind == "array" and depth < 2 and isinstance(items := schema.get("items"), dict):
        inner = _type(items, depth + 1)
        return f"list[{inner}]" if inner else "list"
    if isinstance(kind, str):
        return _short(kind)
    for key in ("anyOf", "oneOf"):
        branches = schema.get(key)
        if isinstance(branches, list) and depth < 2:
            kinds = [_type(branch, depth + 1) for branch in branches[:4] if isinstance(branch, dict)]
            return "|".join(dict.fromkeys(one for one in kinds if one and one != "null"))
    return "object" if "properties" in schema or "$ref" in schema else ""


def _short(kind: Any) -> str:
    return _SHORT_TYPES.get(kind, safe_line(kind, 16)) if isinstance(kind, str) else ""
