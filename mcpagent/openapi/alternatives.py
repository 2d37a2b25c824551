"""Convert the subtypes that a base schema names by a discriminator to alternatives of JSON Schema.

In a document, subtypes refer to their base with `allOf`, and a request refers to the base, which does not list them.
Format: OpenAPI 3.1, 4.8.25; Swagger 2.0, "Models with Polymorphism Support".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MOST_KINDS = 60
_BASE = "_base"


def with_alternatives(root: dict[str, Any]) -> dict[str, Any]:
    """Return the document with each such base as `anyOf` its subtypes, and the base itself under another name."""
    components = root.get("components")
    if isinstance(components, Mapping):
        schemas, prefix = components.get("schemas"), "#/components/schemas/"
    else:
        schemas, prefix = root.get("definitions"), "#/definitions/"
    if not isinstance(schemas, Mapping):
        return root
    bases = {
        str(name): schema
        for name, schema in schemas.items()
        if isinstance(schema, Mapping)
        and _property_of(schema)
        and "oneOf" not in schema
        and "anyOf" not in schema
    }
    kinds = _kinds(schemas, bases, prefix)
    if not kinds:
        return root
    moved = {f"{prefix}{name}": f"{prefix}{name}{_BASE}" for name in kinds}
    changed: dict[str, Any] = {
        name: _over_base(schema, moved)
        for name, schema in schemas.items()
        if _parts(schema)
    }
    changed |= {f"{name}{_BASE}": changed.get(name, schemas[name]) for name in kinds}
    changed |= {
        name: _alternatives(bases[name], schemas, found, prefix)
        for name, found in kinds.items()
    }
    all_schemas = {**schemas, **changed}
    if isinstance(components, Mapping):
        return {**root, "components": {**components, "schemas": all_schemas}}
    return {**root, "definitions": all_schemas}


def _property_of(schema: Mapping[str, Any]) -> str:
    """Return the name of the property that identifies the subtype, or ""."""
    found = schema.get("discriminator")
    if isinstance(found, Mapping):
        found = found.get("propertyName")
    return found if isinstance(found, str) else ""


def _parts(schema: Any) -> list[Any]:
    parts = schema.get("allOf") if isinstance(schema, Mapping) else None
    return parts if isinstance(parts, list) else []


def _kinds(
    schemas: Mapping[str, Any], bases: Mapping[str, Any], prefix: str
) -> dict[str, list[str]]:
    """Return the names of the subtypes of each base, for bases with a moderate number of subtypes."""
    kinds: dict[str, list[str]] = {}
    for name, schema in schemas.items():
        for part in _parts(schema):
            reference = part.get("$ref") if isinstance(part, Mapping) else None
            if isinstance(reference, str) and reference.startswith(prefix):
                base = reference.removeprefix(prefix)
                if base in bases and base != name:
                    kinds.setdefault(base, []).append(str(name))
    return {
        base: found
        for base, found in kinds.items()
        if len(found) <= _MOST_KINDS and f"{base}{_BASE}" not in schemas
    }


def _over_base(schema: Mapping[str, Any], moved: Mapping[str, str]) -> dict[str, Any]:
    """Return a subtype that refers to its base by the base's other name."""
    return {**schema, "allOf": [_moved(part, moved) for part in schema["allOf"]]}


def _moved(part: Any, moved: Mapping[str, str]) -> Any:
    reference = part.get("$ref") if isinstance(part, Mapping) else None
    if isinstance(reference, str) and reference in moved:
        return {**part, "$ref": moved[reference]}
    return part


def _alternatives(
    base: Mapping[str, Any],
    schemas: Mapping[str, Any],
    kinds: list[str],
    prefix: str,
) -> dict[str, Any]:
    found = base.get("discriminator")
    mapping = found.get("mapping") if isinstance(found, Mapping) else None
    values: dict[str, str] = {}
    for value, target in mapping.items() if isinstance(mapping, Mapping) else ():
        values[str(target).removeprefix(prefix)] = str(value)
    property_name = _property_of(base)
    alternatives = [
        {
            "allOf": [
                {"$ref": f"{prefix}{kind}"},
                {
                    "type": "object",
                    "properties": {
                        property_name: {
                            "type": "string",
                            "enum": [values.get(kind) or _own_value(schemas, kind)],
                        }
                    },
                    "required": [property_name],
                },
            ]
        }
        for kind in kinds
    ]
    described = {key: base[key] for key in ("description", "title") if key in base}
    return {**described, "anyOf": alternatives}


def _own_value(schemas: Mapping[str, Any], kind: str) -> str:
    return str(schemas[kind].get("x-ms-discriminator-value") or kind)
