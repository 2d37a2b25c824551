"""What providers refuse of the form of an answer, and what they hold the model to: it writes nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mcpagent.run.validation import problems
from tests.simulator.values import Said, require

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_OPENAI_KEYS = frozenset(
    "type properties required additionalProperties items anyOf enum const description pattern format minimum maximum "  # noqa: SIM905
    "exclusiveMinimum exclusiveMaximum multipleOf minItems maxItems $ref $defs title".split()
)
_ANTHROPIC_KEYS = frozenset(
    "type properties required additionalProperties items anyOf allOf enum const description format minItems $ref "  # noqa: SIM905
    "$defs title default".split()
)
_FORMATS = frozenset("date-time time date duration email hostname uri ipv4 ipv6 uuid".split())  # noqa: SIM905
UNFORMED = (
    "claude-3",
    "claude-opus-4-0",
    "claude-opus-4-1",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2",
    "gpt-3",
    "gpt-4-",
)
"""Models that take no form."""


def openai_output(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The schema of the answer, as Chat Completions or Responses are sent it; refused if it is not in the subset."""
    chat, responses = body.get("response_format"), body.get("text", {}).get("format")
    where = "response_format" if chat is not None else "text.format"
    form: dict[str, Any] | None = chat if chat is not None else responses
    if form is None:
        return None
    require(form["type"] == "json_schema", f"Unknown {where}")
    named: dict[str, Any] = form["json_schema"] if chat is not None else form
    refused = body["model"].startswith(UNFORMED)
    require(not refused, f"Invalid parameter: '{where}' of type 'json_schema' is not supported with this model.")
    require(_NAME.fullmatch(named["name"]), f"Invalid '{where}.name': string does not match pattern")
    known = {"name", "schema", "strict", "description", "type"}
    require(named.keys() <= known, f"Unknown parameter: '{where}.{next(iter(named.keys() - known), '')}'")
    schema: Mapping[str, Any] = named["schema"]
    said = f"Invalid schema for response_format '{named['name']}': "
    require(schema.get("type") == "object", f"{said}schema must be a JSON Schema of 'type: \"object\"'")
    if named.get("strict"):
        require("anyOf" not in schema, f"{said}'anyOf' is not permitted at the root")
        _check_openai(schema, schema, said, 0)
    return schema


def _check_openai(schema: Any, root: Mapping[str, Any], said: str, depth: int) -> None:
    require(isinstance(schema, Mapping), f"{said}schema must be an object")
    require(depth <= 10, f"{said}more than 10 levels of nesting")
    unknown = schema.keys() - _OPENAI_KEYS
    require(not unknown, f"{said}'{next(iter(unknown), '')}' is not permitted")
    if "$ref" in schema:
        require(schema.keys() == {"$ref"}, f"{said}$ref cannot have keywords {set(schema) - {'$ref'}}")
        require(_target(schema["$ref"], root), f"{said}reference can only point to a definition")
        return
    require("type" in schema or {"anyOf", "enum", "const"} & schema.keys(), f"{said}schema must have a 'type' key")
    if schema.get("type") == "object":
        require(schema.get("additionalProperties") is False, f"{said}'additionalProperties' is required to be false")
        named = schema.get("properties", {})
        whole = list(schema.get("required", ())) == list(named)
        require(whole, f"{said}'required' is required to include every key in properties")
    if schema.get("type") == "array":
        require("items" in schema, f"{said}array schema missing items")
    require(schema.get("format", "date") in _FORMATS - {"uri"}, f"{said}'{schema.get('format')}' is not a valid format")
    for inner in _inner(schema):
        _check_openai(inner, root, said, depth + 1)


def anthropic_output(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The same of the Messages API."""
    form = body.get("output_config", {}).get("format")
    if form is None:
        return None
    able = not body["model"].startswith(UNFORMED)
    require(able, f"'{body['model']}' does not support output format.")
    require(form.keys() == {"type", "schema"}, "output_config.format: Extra inputs are not permitted")
    schema: Mapping[str, Any] = form["schema"]
    counts = {"optional": 0, "unions": 0}
    _check_anthropic(schema, schema, (), counts)
    require(counts["optional"] <= 24, "Schemas contains too many optional parameters")
    require(counts["unions"] <= 16, "Schemas contains too many parameters with union types")
    return schema


def _check_anthropic(schema: Any, root: Mapping[str, Any], within: Sequence[str], counts: dict[str, int]) -> None:
    said = "output_config.format.schema: "
    require(isinstance(schema, Mapping), f"{said}must be an object")
    unknown = schema.keys() - _ANTHROPIC_KEYS
    require(
        not unknown, f"{said}For '{schema.get('type')}' type, property '{next(iter(unknown), '')}' is not supported"
    )
    if "$ref" in schema:
        reference = schema["$ref"]
        require(reference not in within, f"{said}Circular reference detected")
        target = _target(reference, root)
        require(target, f"{said}reference to nothing")
        _check_anthropic(target, root, [*within, reference], counts)
        return
    if schema.get("type") == "object":
        require(schema.get("additionalProperties") is False, f"{said}additionalProperties must be false")
        counts["optional"] += len(schema.get("properties", {})) - len(schema.get("required", ()))
    counts["unions"] += "anyOf" in schema
    require(schema.get("minItems", 0) in (0, 1), f"{said}minItems: only 0 and 1 are supported")
    require("type" in schema or {"anyOf", "allOf", "enum", "const"} & schema.keys(), f"{said}no type")
    require(schema.get("format", "date") in _FORMATS, f"{said}format is not supported")
    for inner in _inner(schema, with_definitions=False):
        _check_anthropic(inner, root, within, counts)


def _inner(schema: Mapping[str, Any], *, with_definitions: bool = True) -> list[Any]:
    found = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), *schema.get("allOf", ())]
    found += [schema["items"]] if "items" in schema else []
    return found + (list(schema.get("$defs", {}).values()) if with_definitions else [])


def _target(reference: str, root: Mapping[str, Any]) -> Any:
    name = reference.removeprefix("#/$defs/")
    return root.get("$defs", {}).get(name) if name != reference else None


def check_held(said: Sequence[Said], schema: Mapping[str, Any] | None) -> None:
    """A brain that writes what the schema does not allow cannot be: the provider would not let it."""
    calls = any(not isinstance(piece, str) for piece in said)
    if schema is not None and not calls:
        text = "".join(piece for piece in said if isinstance(piece, str))
        assert problems(dict(schema), json.loads(text)) == [], text
