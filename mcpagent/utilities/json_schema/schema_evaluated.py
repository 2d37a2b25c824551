"""Compute the evaluated parts of a value, which `unevaluatedItems` and `unevaluatedProperties` skip."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mcpagent.utilities.json_schema.schema_check import Check
from mcpagent.utilities.json_schema.schema_form import REFERENCES


def evaluated_beside(
    check: Check, schema: dict[str, Any], value: Any
) -> frozenset[str | int]:
    """Return the property names or item indices that the schema evaluates, apart from its own `unevaluated...`
    keyword.
    """
    key = (id(schema), id(value))
    if key not in check.evaluated:
        check.evaluated[key] = (
            frozenset()
        )  # ends the recursion of a schema that refers to itself
        check.spend(1 + len(schema) + len(value))
        found = set(_spoken_of(check, schema, value))
        for part in _applied(check, schema, value):
            found |= _evaluated_by(check, part, value)
        check.evaluated[key] = frozenset(found)
    return check.evaluated[key]


def _evaluated_by(check: Check, schema: Any, value: Any) -> frozenset[str | int]:
    if isinstance(schema, bool):
        return frozenset()
    if (
        schema.get(
            "unevaluatedProperties" if isinstance(value, dict) else "unevaluatedItems"
        )
        is not None
    ):
        check.spend(len(value))
        return frozenset(value if isinstance(value, dict) else range(len(value)))
    return evaluated_beside(check, schema, value)


def _spoken_of(check: Check, schema: dict[str, Any], value: Any) -> Iterator[str | int]:
    """Yield the property names or item indices that the schema's own keywords evaluate, without its subschemas."""
    if isinstance(value, dict):
        patterns = schema.get("patternProperties") or {}
        if schema.get("additionalProperties") is not None:
            yield from value
        yield from value.keys() & (schema.get("properties") or {}).keys()
        yield from (
            name
            for name in value
            if any(check.matches(pattern, name) is not False for pattern in patterns)
        )
    elif isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, list):
            places = items
        else:
            places = schema.get("prefixItems") or []
        if isinstance(items, list):
            rest = schema.get("additionalItems")
        else:
            rest = items
        if rest is not None:
            yield from range(len(value))
        yield from range(min(len(places), len(value)))
        if (contained := schema.get("contains")) is not None:
            yield from (
                place for place, item in enumerate(value) if check.fits(contained, item)
            )


def _applied(check: Check, schema: dict[str, Any], value: Any) -> Iterator[Any]:
    """Yield the subschemas that apply to the same value: reference targets, `allOf`, and matching branches."""
    for keyword in REFERENCES:
        if schema.get(keyword) is not None:
            yield check.target(schema[keyword])
    yield from schema.get("allOf") or ()
    for keyword in ("anyOf", "oneOf"):
        yield from (
            part for part in schema.get(keyword) or () if check.fits(part, value)
        )
    if (condition := schema.get("if")) is not None:
        fits = check.fits(condition, value)
        yield from (
            part
            for part in (
                condition if fits else None,
                schema.get("then" if fits else "else"),
            )
            if part
        )
    if isinstance(value, dict):
        for keyword in ("dependentSchemas", "dependencies"):
            needs = schema.get(keyword) or {}
            yield from (
                part
                for name, part in needs.items()
                if name in value and isinstance(part, dict)
            )
