"""Describe a tool in one line for a search result: its call signature and its first sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mcpagent.utilities.json_schema.parts import (
    dereferenced,
    properties_of,
    required_of,
)
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import ToolDefinition

MAX_SIGNATURE = 240
"""Maximum length of a signature with optional arguments; required arguments always appear."""

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


def call_signature(
    definition: ToolDefinition, room: int = MAX_SIGNATURE, *, types: bool = True
) -> str:
    """Return the call signature: `get_weather(location: str, unit?: celsius|fahrenheit)`; without `types`, only names.

    Required arguments come first and are always included. Optional ones follow as long as they fit into `room`
    characters, then `...`.
    """
    root = definition.parameters
    properties = properties_of(root)
    required = [name for name in required_of(root) if name in properties]
    arguments = [
        _argument(name, properties[name] if types else {}, "", root)
        for name in dict.fromkeys(required)
    ]
    length = len(definition.name) + sum(len(argument) + 2 for argument in arguments)
    for name in properties:
        if name in required:
            continue
        argument = _argument(name, properties[name], "?", root)
        length += len(argument) + 2
        if length > room:
            arguments.append("...")
            break
        arguments.append(argument)
    return f"{definition.name}({', '.join(arguments)})"


def first_sentences(description: str, limit: int = 160) -> str:
    """Return the first sentences that fit into `limit` characters as one line; if none fits, the first one, cut."""
    sentences = [
        line
        for part in _SENTENCE_END.split(description[: limit * 8].strip())
        if (line := safe_line(part, limit))
    ]
    text = ""
    if sentences:
        text = sentences[0]
    for sentence in sentences[1:]:
        if len(text) + 1 + len(sentence) > limit:
            break
        text += " " + sentence
    return text


def _argument(name: str, schema: Any, mark: str, root: Mapping[str, Any]) -> str:
    kind = type_words(schema, root)
    if kind:
        return f"{safe_line(name, 64)}{mark}: {kind}"
    return f"{safe_line(name, 64)}{mark}"


def type_words(schema: Any, root: Mapping[str, Any], depth: int = 0) -> str:
    """Return the type of values that match a schema, such as `str` or `celsius|fahrenheit`; "" if unknown.

    `root` is the schema that references point into.
    """
    schema = dereferenced(schema, root)
    if not isinstance(schema, dict):
        return ""
    values = schema.get("enum")
    if isinstance(values, list) and values:
        shown = [safe_line(str(value), 24) for value in values[:_MAX_ENUM]]
        return "|".join([*shown, "..."] if len(values) > _MAX_ENUM else shown)
    if "const" in schema:
        return safe_line(str(schema["const"]), 24)
    kind = schema.get("type")
    if isinstance(kind, list):
        return "|".join(dict.fromkeys(_short(one) for one in kind[:4] if one != "null"))
    if kind == "array" and depth < 2 and isinstance(schema.get("items"), dict):
        inner = type_words(schema["items"], root, depth + 1)
        if inner:
            return f"list[{inner}]"
        return "list"
    if isinstance(kind, str):
        return _short(kind)
    for key in ("anyOf", "oneOf", "allOf"):
        branches = schema.get(key)
        if isinstance(branches, list) and depth < 2:
            kinds = [type_words(branch, root, depth + 1) for branch in branches[:4]]
            return "|".join(
                dict.fromkeys(one for one in kinds if one and one != "null")
            )
    if "properties" in schema or "$ref" in schema:
        return "object"
    return ""


def _short(kind: Any) -> str:
    if isinstance(kind, str):
        return _SHORT_TYPES.get(kind, safe_line(kind, 16))
    return ""
