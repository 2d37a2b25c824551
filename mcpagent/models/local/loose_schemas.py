"""Tool schemas for servers that make a grammar of them, and refuse the whole request for what they cannot.

llama.cpp takes a `pattern` only from `^` to `$` and without classes such as `\\d`, and refuses large repetitions. What
is left out is said more loosely: arguments are checked against the original schema anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_REFUSED = ("grammar", "json schema", "json_schema", "schema conversion", "pattern must start")
_LEFT_OUT = frozenset(
    {
        *("pattern", "patternProperties", "propertyNames", "format", "minLength", "maxLength", "minItems", "maxItems"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems", "contains"),
        *("minProperties", "maxProperties", "not", "if", "then", "else", "dependentRequired", "dependentSchemas"),
    }
)
_MAPS = frozenset({"properties", "$defs", "definitions"})
_VALUES = frozenset({"enum", "const", "default", "examples", "required"})
_DEEPEST = 60


def refuses_schemas(message: str) -> bool:
    """Whether an error's text says that a schema could not be made a grammar."""
    return any(words in message.lower() for words in _REFUSED)


def loose_schema(schema: Any, depth: int = 0) -> Any:
    """The schema without what a grammar may not express. Names of properties and values stay what they are."""
    if depth > _DEEPEST:
        return {}
    if isinstance(schema, list):
        return [loose_schema(one, depth + 1) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept = {key: value for key, value in schema.items() if key not in _LEFT_OUT}
    return {key: _loose(key, value, depth) for key, value in kept.items()}


def _loose(key: str, value: Any, depth: int) -> Any:
    if key in _VALUES:
        return value
    if key in _MAPS and isinstance(value, Mapping):
        return {name: loose_schema(one, depth + 1) for name, one in value.items()}
    return loose_schema(value, depth + 1)


def with_loose_schemas(body: Mapping[str, Any]) -> dict[str, Any]:
    """A request of any of the three protocols with the schemas of its tools, and of what may be answered, loose."""
    made = dict(body)
    if isinstance(body.get("tools"), list):
        made["tools"] = [_loose_tool(tool) for tool in body["tools"]]
    match body.get("response_format"):
        case {"json_schema": {"schema": schema, **named}, **kind}:
            made["response_format"] = {**kind, "json_schema": {**named, "schema": loose_schema(schema)}}
        case _:
            pass
    return made


def _loose_tool(tool: Any) -> Any:
    if not isinstance(tool, Mapping):
        return tool
    schemas = {key: loose_schema(tool[key]) for key in ("parameters", "input_schema") if key in tool}
    inner = {"function": _loose_tool(tool["function"])} if "function" in tool else {}
    return {**tool, **schemas, **inner}
