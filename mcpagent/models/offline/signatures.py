"""Search results of `search_tools` as tools to choose from; their one-line signature read as a small schema."""

from __future__ import annotations

import json
import re
from typing import Any

from mcpagent.models.offline.ranking import ToolView

_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "object": "object", "null": "null"}
_ARGUMENT = re.compile(r"\s*([^:?,()]+)(\?)?(?::\s*(.*))?\s*", re.DOTALL)


def _arguments(inside: str) -> list[str]:
    """The text between the brackets cut at commas outside square brackets."""
    pieces, depth, start = [], 0, 0
    for index, char in enumerate(inside):
        depth += (char == "[") - (char == "]")
        if char == "," and depth == 0:
            pieces.append(inside[start:index])
            start = index + 1
    return [piece for piece in (*pieces, inside[start:]) if piece.strip() and piece.strip() != "..."]


def _schema_of_type(kind: str) -> dict[str, Any]:
    kind = kind.strip()
    if kind in _TYPES:
        return {"type": _TYPES[kind]}
    if kind.startswith("list"):
        inner = re.fullmatch(r"list\[(.*)\]", kind)
        return {"type": "array", "items": _schema_of_type(inner[1])} if inner else {"type": "array"}
    choices = [choice for choice in kind.split("|") if choice]
    if any(choice in _TYPES or choice.startswith("list") for choice in choices):
        return _schema_of_type(next(choice for choice in choices if choice in _TYPES or choice.startswith("list")))
    return {"enum": [choice for choice in choices if choice != "..."]} if len(choices) > 1 else {}


def schema_of_signature(signature: str) -> dict[str, Any]:
    """`get_weather(location: str, unit?: celsius|fahrenheit)` as a JSON Schema; an empty one where it is not that."""
    opened = signature.find("(")
    if opened < 0 or not signature.rstrip().endswith(")"):
        return {}
    properties: dict[str, Any] = {}
    required: list[str] = []
    for piece in _arguments(signature.rstrip()[opened + 1 : -1]):
        found = _ARGUMENT.fullmatch(piece)
        if not found:
            continue
        name = found[1].strip()
        properties[name] = _schema_of_type(found[3] or "")
        # What is inside an object is seen only once the tool is added.
        if not found[2] and "object" not in (found[3] or ""):
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def search_results(answer: str) -> list[ToolView]:
    """The tools in the JSON answer of `search_tools`, best first; none where it is something else."""
    try:
        data = json.loads(answer)
    except (ValueError, RecursionError):
        return []
    tools = data.get("tools") if isinstance(data, dict) else None
    return [
        ToolView(
            tool["name"],
            _text(tool.get("description")),
            schema_of_signature(_text(tool.get("signature"))),
            _text(tool.get("server")),
        )
        for tool in (tools if isinstance(tools, list) else [])
        if isinstance(tool, dict) and isinstance(tool.get("name"), str)
    ]
