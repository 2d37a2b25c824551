"""Schemas of OpenAPI become valid JSON Schema of bounded size."""

from __future__ import annotations

import json
import time
from typing import Any

from jsonschema import Draft202012Validator

from mcpagent.openapi.api_documents import Node, load_document
from mcpagent.openapi.api_schemas import MAX_SCHEMA_CHARACTERS, SchemaConverter, cut_at_sentence
from tests.reference_work import reference_seconds


def converter(components: Any = None, direction: Any = "request") -> SchemaConverter:
    root = {"openapi": "3.0.0", "paths": {}, "components": {"schemas": components or {}}}
    return SchemaConverter(load_document(root), direction)


def converted(schema: Any, components: Any = None, direction: Any = "request") -> Any:
    writer = converter(components, direction)
    return writer.whole(writer.converted(Node(schema, writer.document.address)))


def test_keywords_become_those_of_json_schema() -> None:
    cases: list[tuple[Any, Any]] = [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": True, "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, {"type": "integer", "exclusiveMinimum": 1}),
        ({"type": "integer", "exclusiveMaximum": False, "maximum": 3}, {"type": "integer", "maximum": 3}),
        ({"type": ["string", "null"], "const": "a"}, {"type": ["string", "null"], "const": "a"}),
        ({"type": "file"}, {"type": "string", "format": "binary"}),
        ({"pattern": r"[a\_\-]\_"}, {"pattern": r"[a_\-]_"}),
        ({"pattern": r"[a\q]"}, {}),
        ({"type": "any", "example": 1, "xml": {}, "x-own": 1, "title": "T"}, {}),
        ({"type": "string", "minLength": "3", "required": True, "enum": []}, {"type": "string"}),
        ({"maximum": float("nan"), "multipleOf": 0}, {}),
        ({"pattern": "^a+$"}, {"pattern": "^a+$"}),
        ({"pattern": r"\p{L}"}, {}),
        ({"pattern": "("}, {}),
        ({"pattern": r"^[\w-_]+$"}, {}),
        ({"properties": {"a": {"type": "string", "readOnly": True}, "b": {}}, "required": ["a", "b", "b"]},
         {"properties": {"b": {}}, "required": ["b"]}),
        ({"$ref": "#/components/schemas/None"}, {}),
        ({"items": {"format": "date"}, "additionalProperties": False},
         {"items": {"format": "date"}, "additionalProperties": False}),
        ("no schema", {}),
    ]  # fmt: skip
    wrong = [(given, made) for given, expected in cases if (made := converted(given)) != expected]
    assert wrong == []


def test_a_response_has_types_and_no_limits() -> None:
    schema = {
        "type": "object",
        "required": ["a"],
        "properties": {
            "a": {"type": "string", "readOnly": True, "maxLength": 3},
            "b": {"type": "string", "writeOnly": True},
        },
    }
    assert converted(schema, direction="response") == {"type": "object", "properties": {"a": {"type": "string"}}}


def test_recursion_becomes_a_reference() -> None:
    tree = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}}},
    }
    made = converted({"$ref": "#/components/schemas/Tree"}, {"Tree": tree})
    assert made["$ref"] == "#/$defs/Tree"
    validator = Draft202012Validator(made)
    assert validator.is_valid({"children": [{"children": []}]})
    assert not validator.is_valid({"children": [{"children": 1}]})


def test_bombs_cost_little_and_stay_within_the_limit() -> None:
    doubling: dict[str, Any] = {
        f"S{level}": {"properties": {side: {"$ref": f"#/components/schemas/S{level + 1}"} for side in ("a", "b")}}
        for level in range(500)
    }
    shared: Any = {"type": "string"}
    for _ in range(40):
        shared = {"properties": {"a": shared, "b": shared}}  # as YAML aliases make it
    deep: Any = {}
    for _ in range(900):
        deep = {"items": deep}
    wide = {"properties": {f"name{number}": {"type": "string", "description": "x" * 300} for number in range(3_000)}}
    started = time.process_time()
    for schema in ({"$ref": "#/components/schemas/S0"}, shared, deep, wide):
        made = converted(schema, doubling)
        assert len(json.dumps(made)) < 2 * MAX_SCHEMA_CHARACTERS or schema is wide
    assert time.process_time() - started < 400 * reference_seconds()


def test_texts_are_cut_at_a_sentence() -> None:
    cases = {
        "Short.": "Short.",
        "One sentence. Another one that is longer.": "One sentence.",
        "v1.2 of it is here and goes on": "v1.2 of it is…",
        "First.\n\nSecond paragraph goes on and on": "First.",
    }
    assert {text: cut_at_sentence(text, 20) for text in cases} == cases
