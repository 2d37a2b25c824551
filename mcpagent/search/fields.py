"""The texts of a tool that are searched, and the weight of a word in each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from mcpagent.search.constants import FITTED
from mcpagent.values.messages import ToolDefinition

MAX_TEXT = 2048
"""Maximum number of indexed characters of one field."""

MAX_NAME = 256
"""Maximum number of indexed characters of a name or title."""

_MAX_PARAMETERS = 200
_MAX_DEPTH = 6
_BRANCHING = frozenset(("items", "anyOf", "oneOf", "allOf"))
_NESTING = _BRANCHING | {"properties"}


@dataclass(frozen=True, slots=True)
class FieldWeight:
    """The parameters of a field in BM25F.

    `weight` is the field's weight. `b` (0 to 1) is the strength of its length normalisation, relative to `usual_words`.
    That length is a constant, not the catalogue's mean, so that a tool's score does not change when other tools come or
    go.
    """

    weight: float
    b: float
    usual_words: float


WEIGHTS: Mapping[str, FieldWeight] = {
    field: FieldWeight(
        weight,
        FITTED["field length normalization"][field],
        FITTED["field usual words"][field],
    )
    for field, weight in FITTED["field weights"].items()
}


def local_name(tool: ToolDefinition) -> str:
    """Return the tool's name on its own server."""
    if tool.original_name:
        return tool.original_name
    prefix = f"{tool.server}__"
    if tool.server:
        return tool.name.removeprefix(prefix)
    return tool.name


def field_texts(
    tool: ToolDefinition, server_description: str = "", examples: Sequence[str] = ()
) -> list[tuple[str, str]]:
    """Return every searched text of the tool as (field, text), with the text of its server last.

    The fields are the keys of `WEIGHTS`. `examples` are example requests of the tool.
    """
    names: list[str] = []
    descriptions: list[str] = []
    values: list[str] = []
    for name, schema in parameters(tool.parameters):
        names.append(name)
        text = schema.get("description")
        if isinstance(text, str):
            descriptions.append(text[:MAX_TEXT])
        if "enum" in schema or "items" in schema:
            values += enum_values(schema)
    texts = [
        ("name", local_name(tool)[:MAX_NAME]),
        ("title", tool.title[:MAX_NAME]),
        ("description", tool.description[:MAX_TEXT]),
        ("parameter", " ".join(names)[: 4 * MAX_TEXT]),
        ("parameter description", " ".join(descriptions)[: 4 * MAX_TEXT]),
        ("value", " ".join(values)[:MAX_TEXT]),
        ("example", "\n".join(examples)),
        ("tag", " ".join((*tool.tags, tool.category))[:MAX_TEXT]),
        ("server", (tool.server or "")[:MAX_NAME]),
        ("server description", server_description[:MAX_TEXT]),
    ]
    return [(field, text) for field, text in texts if text]


def enum_values(schema: Mapping[str, Any]) -> list[str]:
    """Return the text values that a parameter's schema allows (`enum`), also for the items of a list."""
    values = schema.get("enum")
    if not isinstance(values, list):
        items = schema.get("items")
        values = None
        if isinstance(items, dict):
            values = items.get("enum")
    if isinstance(values, list):
        return [value for value in values[:50] if isinstance(value, str)]
    return []


def parameters(schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the parameters as (name, schema), including nested ones, at most 200. A malformed schema is accepted."""
    waiting: list[tuple[Any, int]] = [(schema, 0)]
    for key in ("$defs", "definitions"):
        shared = schema.get(key)
        if isinstance(shared, dict):
            waiting += [(node, 1) for node in shared.values()]
    given = 0
    for node, depth in waiting:  # the loop below appends to it
        if not isinstance(node, dict):
            continue
        deeper = 0
        if depth < _MAX_DEPTH:
            deeper = depth + 1
        properties = node.get("properties")
        if isinstance(properties, dict):
            for name, child in islice(properties.items(), _MAX_PARAMETERS - given):
                given += 1
                if isinstance(child, dict):
                    yield str(name), child
                    if deeper and not _NESTING.isdisjoint(child):
                        waiting.append((child, deeper))
                else:
                    yield str(name), {}
        if deeper and not _BRANCHING.isdisjoint(node):
            waiting += [(branch, deeper) for branch in _branches(node)]


def _branches(node: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the subschemas, other than properties, that may contain further parameters."""
    if "items" in node:
        yield node["items"]
    for key in ("anyOf", "oneOf", "allOf"):
        branches = node.get(key)
        if isinstance(branches, list):
            yield from branches[:20]
