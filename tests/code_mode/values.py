"""Random JSON values of a schema's types, for calls written by a stub."""

from __future__ import annotations

from random import Random
from typing import Any

_TEXTS = ("x", "", 'it"s', "line\nbreak", "naïve ☂", "\\N{x}", "}}{{")


def some_value(schema: Any, root: dict[str, Any], chance: Random, depth: int = 0) -> Any:  # noqa: C901
    """Patterns, formats and bounds do not matter here; nested as deep as the schema asks for."""
    if not isinstance(schema, dict) or depth > 30:
        return "x"
    if "enum" in schema:
        return chance.choice(schema["enum"])
    if "const" in schema:
        return schema["const"]
    if "$ref" in schema:
        node: Any = root
        for step in schema["$ref"].removeprefix("#/").split("/"):
            node = node[step]
        return some_value(node, root, chance, depth + 1)
    for key in ("anyOf", "oneOf"):
        if schema.get(key) and "properties" not in schema:
            return some_value(chance.choice(schema[key]), root, chance, depth + 1)
    if schema.get("allOf") and "properties" not in schema and "type" not in schema:
        return some_value(schema["allOf"][0], root, chance, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "array" if "items" in schema else "string")
    match chance.choice(kind) if isinstance(kind, list) else kind:
        case "object":
            return some_arguments(schema, root, chance, depth)
        case "array":
            return [some_value(schema.get("items"), root, chance, depth + 1) for _ in range(chance.randint(0, 2))]
        case "integer":
            return chance.randint(-5, 100)
        case "number":
            return chance.choice([3, 0.5, -1])
        case "boolean":
            return chance.random() < 0.5
        case "null":
            return None
        case _:
            return chance.choice(_TEXTS)


def some_arguments(schema: dict[str, Any], root: dict[str, Any], chance: Random, depth: int = 0) -> dict[str, Any]:
    """The required properties, and some of the others."""
    required = set(schema.get("required") or ())
    return {
        name: some_value(inner, root, chance, depth + 1)
        for name, inner in (schema.get("properties") or {}).items()
        if name in required or chance.random() < 0.4
    }
