"""Convert tool schemas to the subset of JSON Schema that Gemini's endpoint supports.

The endpoint refuses a whole request because of one unknown keyword ("Unknown name ... Cannot find field"). The
supported fields are those of its `Schema` (https://ai.google.dev/api/caching#Schema). Stricter schemas are simplified:
arguments are validated against the original anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcpagent.models.wire_values import json_text, object_schema
from mcpagent.utilities.json_schema.parts import (
    merged_schema,
    properties_of,
    required_of,
)

UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""A placeholder for the signature of a call by another model, because Gemini 3 refuses a call without one.
https://ai.google.dev/gemini-api/docs/thought-signatures
"""

_KEPT: Mapping[str, type] = {
    "title": str,
    "description": str,
    "nullable": bool,
    "default": object,
}
_BY_TYPE: Mapping[str, tuple[str, ...]] = {
    "string": ("minLength", "maxLength", "pattern"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "boolean": (),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
_FORMATS = {
    "string": ("date-time",),
    "number": ("float", "double"),
    "integer": ("int32", "int64"),
}
_ANYTHING = {"anyOf": [{"type": kind} for kind in ("string", "number", "boolean")]}
_DEEPEST = 12
_MOST_NODES = 2_000
"""Maximum number of nodes of a schema after its references are inlined, as Gemini requires; deeper or larger parts
become `{}`.
"""


def gemini_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool's parameters as a schema for Gemini. Never fails; the same input always gives the same result."""
    return _Writer(schema).write(object_schema(schema), 0)


class _Writer:
    """Writes one schema; its references point into `root`."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._nodes = 0

    def write(self, schema: object, depth: int) -> dict[str, Any]:
        self._nodes += 1
        if (
            not isinstance(schema, Mapping)
            or depth > _DEEPEST
            or self._nodes > _MOST_NODES
        ):
            return dict(_ANYTHING)
        schema = merged_schema(schema, self._root)
        kinds, is_nullable = _kinds(schema)
        told = {key: schema.get(key) for key in _KEPT}
        kept = {
            key: value
            for key, value in told.items()
            if value is not None and isinstance(value, _KEPT[key])
        }
        if is_nullable:
            kept["nullable"] = True
        branches = [*_list(schema.get("anyOf")), *_list(schema.get("oneOf"))]
        if branches:
            return self._one_of(branches, kept, depth)
        if len(kinds) > 1:
            return {
                **kept,
                "anyOf": [self._typed(kind, schema, {}, depth) for kind in kinds],
            }
        if kinds:
            return self._typed(kinds[0], schema, kept, depth)
        return {**kept, **_ANYTHING}

    def _one_of(
        self, branches: list[Any], kept: dict[str, Any], depth: int
    ) -> dict[str, Any]:
        real = [branch for branch in branches if branch != {"type": "null"}]
        if len(real) < len(branches):
            kept["nullable"] = True
        written = [self.write(branch, depth + 1) for branch in real]
        if len(written) == 1:
            return {**written[0], **kept}
        return {**kept, "anyOf": written or _ANYTHING["anyOf"]}

    def _typed(
        self, kind: str, schema: Mapping[str, Any], kept: dict[str, Any], depth: int
    ) -> dict[str, Any]:
        numbers = {
            key: schema[key]
            for key in _BY_TYPE[kind]
            if _is_limit(key, schema.get(key))
        }
        written = {"type": kind, **kept, **numbers, **_bounds(kind, schema)}
        if schema.get("format") in _FORMATS.get(kind, ()):
            written["format"] = schema["format"]
        written |= _choices(kind, schema, written.get("description"))
        if kind == "array":
            written["items"] = self._items(schema, depth)
        if kind == "object":
            written |= self._members(schema, depth)
        return written

    def _items(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        places = _list(schema.get("prefixItems")) or _list(schema.get("items"))
        if places:
            return {"anyOf": [self.write(place, depth + 1) for place in places]}
        return self.write(schema.get("items"), depth + 1)

    def _members(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        written: dict[str, Any] = {
            str(name): self.write(inner, depth + 1)
            for name, inner in properties_of(schema).items()
        }
        required = [name for name in required_of(schema) if name in written]
        members: dict[str, Any] = (
            {"properties": written} if written or not depth else {}
        )
        if required:
            return {**members, "required": required}
        return members


def _kinds(schema: Mapping[str, Any]) -> tuple[list[str], bool]:
    """Return the types that a schema states or implies by its keywords, and whether it allows null."""
    said = schema.get("type")
    if isinstance(said, list):
        named = said
    else:
        named = [said]
    kinds = [kind for kind in named if isinstance(kind, str) and kind in _BY_TYPE]
    values = _enumerated(schema)
    if not kinds and values:
        kinds = []
        if all(isinstance(value, str) for value in values if value is not None):
            kinds = ["string"]
    if not kinds and "properties" in schema:
        kinds = ["object"]
    if not kinds and ("items" in schema or "prefixItems" in schema):
        kinds = ["array"]
    return kinds, "null" in named or None in values


def _enumerated(schema: Mapping[str, Any]) -> list[Any]:
    if "const" in schema:
        return [schema["const"]]
    return _list(schema.get("enum"))


def _choices(
    kind: str, schema: Mapping[str, Any], description: object
) -> dict[str, Any]:
    """Return an `enum` with the allowed texts; other allowed values are listed in the description."""
    values = [value for value in _enumerated(schema) if value is not None]
    if not values:
        return {}
    if kind == "string" and all(isinstance(value, str) and value for value in values):
        return {"enum": values, "format": "enum"}
    words = f"One of: {', '.join(map(json_text, values))}"
    return {"description": f"{description} {words}" if description else words}


def _bounds(kind: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return exclusive limits as inclusive ones: the next whole number for integers, else the limit itself."""
    step = 0
    if kind == "integer":
        step = 1
    found: dict[str, tuple[Any, int]] = {
        "minimum": (schema.get("exclusiveMinimum"), step),
        "maximum": (schema.get("exclusiveMaximum"), -step),
    }
    is_number = kind in ("integer", "number")
    return {
        key: bound + by
        for key, (bound, by) in found.items()
        if is_number and _is_limit(key, bound)
    }


def _is_limit(key: str, value: object) -> bool:
    if key == "pattern":
        return isinstance(value, str)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _list(value: object) -> list[Any]:
    if isinstance(value, list):
        return value
    return []
