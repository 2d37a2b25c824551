"""Where references in a schema lead, and its parts as one object, for schemas of any shape."""

from __future__ import annotations

from typing import Any

from mcpagent.utilities.json_schema.parts import (
    dereferenced,
    merged_schema,
    properties_of,
    referred,
    required_of,
    rewritten,
)
from tests.tables import each_row

ROOT: dict[str, Any] = {
    "$defs": {"a/b": {"type": "string"}, "c~d": {"$ref": "#/$defs/a~1b"}, "me": {"$ref": "#/$defs/me"}},
    "anyOf": [{"type": "null"}],
}


@each_row(
    "reference, found",
    [
        ("#", ROOT),
        ("#/$defs/a~1b", {"type": "string"}),
        ("#/%24defs/a~1b", {"type": "string"}),
        ("#/anyOf/0", {"type": "null"}),
        ("#/anyOf/1", None),
        ("#/anyOf/x", None),
        ("#/$defs/none", None),
        ("#/$defs/a~1b/type/x", None),
        ("#name", None),
        ("other.json#/$defs", None),
        (7, None),
    ],
)
def test_a_reference_leads_into_the_root(reference: Any, found: Any) -> None:
    assert referred(ROOT, reference) == found


def test_references_are_followed_over_others_and_never_for_ever() -> None:
    assert dereferenced({"$ref": "#/$defs/c~0d"}, ROOT) == {"type": "string"}
    assert dereferenced({"$ref": "#/$defs/me"}, ROOT) == {"$ref": "#/$defs/me"}
    assert dereferenced({"$ref": "#/nothing"}, ROOT) == {"$ref": "#/nothing"}
    assert dereferenced(True, ROOT) is True


def test_what_all_of_adds_is_joined_and_the_nearer_part_wins() -> None:
    part = {"properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"], "title": "part"}
    root = {"$defs": {"Part": part}}
    whole = {"allOf": [{"$ref": "#/$defs/Part"}, {"required": ["c"]}, True], "properties": {"b": {"type": "null"}}}
    assert merged_schema({"title": "whole", **whole}, root) == {
        "title": "whole",
        "properties": {"a": {"type": "string"}, "b": {"type": "null"}},
        "required": ["c", "a"],
    }
    assert merged_schema({"$ref": "#", "description": "a circle"}, {"$ref": "#"}) == {"description": "a circle"}


@each_row("schema", [None, True, [], {}, {"properties": [], "required": "a"}, {"properties": None, "required": [1]}])
def test_a_schema_of_another_shape_has_no_properties(schema: Any) -> None:
    assert (dict(properties_of(schema)), required_of(schema)) == ({}, [])


def test_every_schema_is_rewritten_and_names_and_values_are_not() -> None:
    schema = {
        "title": "T",
        "properties": {"title": {"title": "t", "enum": [{"title": "value"}]}},
        "anyOf": [{"title": "branch"}, True],
        "required": ["title"],
    }
    assert rewritten(schema, lambda one: {key: rule for key, rule in one.items() if key != "title"}) == {
        "properties": {"title": {"enum": [{"title": "value"}]}},
        "anyOf": [{}, True],
        "required": ["title"],
    }
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"items": deep}
    assert rewritten(deep, lambda one: one)
