"""Find and rewrite the schemas inside a schema: reference targets, properties, subschemas. Accepts malformed schemas
too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

_BY_NAME = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
"""Keywords whose value is an object with names of properties or definitions as keys."""

_DATA = frozenset({"enum", "const", "default", "examples", "required"})
_DEEPEST = 60
_MOST_REFERENCES = 8


def referred(root: Any, reference: Any) -> Any:
    """Return the part of the root schema that a reference such as `#` or `#/$defs/Unit` names (RFC 6901); None if it is
    missing.
    """
    if not isinstance(reference, str) or not (
        reference == "#" or reference.startswith("#/")
    ):
        return None
    found = root
    for escaped in unquote(reference).split("/")[1:]:
        step = escaped.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = found.get(step)
        elif (
            isinstance(found, list)
            and step.isdecimal()
            and len(step) < 10
            and int(step) < len(found)
        ):
            found = found[int(step)]
        else:
            return None
    return found


def dereferenced(schema: Any, root: Any) -> Any:
    """Return the target of the schema's `$ref` in the root, following further references; without a `$ref`, the schema
    itself.
    """
    for _ in range(_MOST_REFERENCES):
        found = None
        if isinstance(schema, Mapping):
            found = referred(root, schema.get("$ref"))
        if not isinstance(found, Mapping):
            break
        schema = found
    return schema


def merged_schema(schema: Mapping[str, Any], root: Any) -> dict[str, Any]:
    """Return the schema merged with the target of its `$ref` and the parts of its `allOf`; on a conflict, the schema
    itself wins.

    A schema that refers to itself, or through too many references, becomes one that accepts anything.
    """
    whole = dict(schema)
    for _ in range(_MOST_REFERENCES):
        parts = [
            referred(root, whole.pop("$ref", None)),
            *_listed(whole.pop("allOf", None)),
        ]
        parts = [part for part in parts if isinstance(part, Mapping)]
        if not parts:
            return whole
        for part in parts:
            members = {
                "properties": {**properties_of(part), **properties_of(whole)},
                "required": list(
                    dict.fromkeys([*required_of(whole), *required_of(part)])
                ),
            }
            whole = {
                **part,
                **whole,
                **{key: rule for key, rule in members.items() if rule},
            }
    return {key: whole[key] for key in ("description",) if key in whole}


def properties_of(schema: Any) -> Mapping[str, Any]:
    """Return the `properties` of an object's schema; {} for any other schema."""
    found = None
    if isinstance(schema, Mapping):
        found = schema.get("properties")
    if isinstance(found, Mapping):
        return found
    return {}


def required_of(schema: Any) -> list[str]:
    """Return the names in `required` of an object's schema."""
    found = None
    if isinstance(schema, Mapping):
        found = schema.get("required")
    return [name for name in _listed(found) if isinstance(name, str)]


def _listed(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return []


def rewritten(
    schema: Any,
    change: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    depth: int = 0,
) -> Any:
    """Return the schema with `change` applied to each subschema, the outer ones first; subschemas that are nested too
    deeply become `{}`.

    `change` receives a schema and returns its replacement. Names of properties and constant values stay unchanged.
    """
    if depth > _DEEPEST:
        return {}
    if isinstance(schema, list):
        return [rewritten(one, change, depth + 1) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    made: dict[str, Any] = {}
    for key, rule in change(schema).items():
        if key in _DATA:
            made[key] = rule
        elif key in _BY_NAME and isinstance(rule, Mapping):
            made[key] = {
                name: rewritten(one, change, depth + 1) for name, one in rule.items()
            }
        else:
            made[key] = rewritten(rule, change, depth + 1)
    return made


def untitled(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON Schema without the titles that pydantic generates."""
    bare: dict[str, Any] = rewritten(schema, _without_title)
    return bare


def _without_title(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {key: rule for key, rule in schema.items() if key != "title"}
