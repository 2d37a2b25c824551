"""Our own check of values against JSON Schemas: what it says, compared with what `jsonschema` says."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema.exceptions import best_match
from jsonschema.validators import Draft202012Validator, validator_for

from mcpagent.run.validation import fitted, problems
from mcpagent.utilities.json_schema.schema_form import FORMS, UncheckedError, usable
from mcpagent.utilities.json_schema.schema_keywords import KEYWORDS
from tests.tables import each_row


def words(schema: Any, value: Any) -> list[str]:
    return [f"{place}: {text}" if place else text for place, text in problems(schema, value)]


NEVER = ["False schema does not allow 1"]
BOTH = ["$defs: 'b' does not match '^a'", "pattern: 1 is not of type 'string'"]
OLD = {"$schema": "http://json-schema.org/draft-07/schema#"}
NESTED = {"type": "object", "properties": {"and": {"type": "array", "items": {"$ref": "#"}}}, "required": ["and"]}


@each_row(
    "schema, value, said",
    [
        (False, 1, ["False schema does not allow 1"]),
        ({"type": ["string", "null"]}, 1, ["1 is not of type 'string', 'null'"]),
        ({"type": "integer"}, 1.0, []),
        ({"type": "integer"}, True, ["True is not of type 'integer'"]),
        ({"enum": [1, "a", None]}, True, ["True is not one of [1, 'a', None]"]),
        ({"enum": [[{"a": 1}]]}, [{"a": 1.0}], []),
        ({"const": None}, 0, ["None was expected"]),
        ({"minimum": 2, "maximum": 5}, 1, ["1 is less than the minimum of 2"]),
        ({"minimum": 2, "exclusiveMinimum": True}, 2, ["2 is less than the minimum of 2"]),
        ({"exclusiveMaximum": 5}, 5, ["5 is greater than or equal to the maximum of 5"]),
        ({"multipleOf": 0.1}, 0.3, []),
        ({"multipleOf": 3}, 10, ["10 is not a multiple of 3"]),
        ({"minLength": 1}, "", ["'' should be non-empty"]),
        ({"maxLength": 2}, "abc", ["'abc' is too long"]),
        ({"pattern": "^a+$"}, "b", ["'b' does not match '^a+$'"]),
        ({"pattern": "^(?!x)a"}, "xa", ["'xa' does not match '^(?!x)a'"]),
        ({"minItems": 2}, [1], ["[1] is too short"]),
        ({"uniqueItems": True}, [{"a": 1}, {"a": 1.0}], ["[{'a': 1}, {'a': 1.0}] has non-unique elements"]),
        ({"uniqueItems": True}, [1, True, 2**70, 2.0**71], []),
        ({"uniqueItems": True}, [2**70, 2.0**70], [f"[{2**70}, {2.0**70}] has non-unique elements"]),
        ({"contains": {"type": "string"}}, [1], ["[1] does not contain items matching the given schema"]),
        ({"prefixItems": [{}], "items": False}, [1, 2], ["Expected at most 1 items but found 1 more"]),
        (
            {"items": [{}], "additionalItems": False},
            [1, 2, 3],
            ["Additional items are not allowed (2, 3 were unexpected)"],
        ),
        ({"required": ["a", "b"]}, {}, ["'a' is a required property", "'b' is a required property"]),
        (
            {"properties": {"a": {"required": True}}, "additionalProperties": False},
            {"a": 1, "{b}": 2},
            ["Additional properties are not allowed ('{b}' was unexpected)"],
        ),
        ({"patternProperties": {"^x": {"type": "string"}}, "additionalProperties": False}, {"x1": "a"}, []),
        ({"patternProperties": {"^x": {"type": "string"}}}, {"x1": 1}, ["x1: 1 is not of type 'string'"]),
        ({"patternProperties": {"(": {}}, "additionalProperties": False}, {"anything": 1}, []),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, ["'ab' is too long"]),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, ["'b' is a dependency of 'a'"]),
        ({"dependencies": {"a": {"required": ["c"]}}}, {"a": 1}, ["'c' is a required property"]),
        ({"anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}]}, "", ["'' should be non-empty"]),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            3,
            ["3 is not valid under any of the given schemas"],
        ),
        (
            {"oneOf": [{"type": "integer"}, {"type": "number"}]},
            3,
            ["3 is valid under each of [{'type': 'integer'}, {'type': 'number'}]"],
        ),
        ({"not": {"type": "integer"}}, 3, ["3 should not be valid under {'type': 'integer'}"]),
        ({"if": {"type": "integer"}, "then": {"minimum": 5}, "else": False}, 3, ["3 is less than the minimum of 5"]),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "null"}}}, 1, ["1 is not of type 'null'"]),
        ({"$ref": "#named", "$defs": {"x": {"$anchor": "named", "type": "null"}}}, 1, ["1 is not of type 'null'"]),
        ({"$id": "https://a.example/s", "$ref": "https://a.example/s#/$defs/x", "$defs": {"x": False}}, 1, NEVER),
        ({**OLD, "$ref": "#/definitions/x", "type": "string", "definitions": {"x": {}}}, 1, []),
        (NESTED, {"and": [{"and": []}, {"or": 1}]}, ["and.1: 'and' is a required property"]),
        (
            {"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False},
            {"a": 1, "b": 2},
            ["Unevaluated properties are not allowed ('b' was unexpected)"],
        ),
        ({"type": "string", "format": "email", "enum": None, "items": None}, "no mail", []),
        (
            {"properties": {"$defs": {"pattern": "^a"}, "pattern": {"type": "string"}}},
            {"$defs": "b", "pattern": 1},
            BOTH,
        ),
    ],
)
def test_what_is_said(schema: Any, value: Any, said: list[str]) -> None:
    assert words(schema, value) == said


@each_row(
    "schema, why",
    [
        ([], "it is no object"),
        ({"type": "nonsense"}, "type: 'nonsense' is not what belongs there"),
        ({"properties": []}, "properties: [] is not what belongs there"),
        ({"properties": {"a": {"items": {"minimum": "1"}}}}, "minimum: '1' is not what belongs there"),
        ({"$ref": "http://127.0.0.1:9/x"}, "a reference leads out of it: http://127.0.0.1:9/x"),
        ({"$ref": "file:///etc/passwd"}, "a reference leads out of it: file:///etc/passwd"),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "$ref #/$defs/none leads to no schema"),
        ({"$ref": "#/enum", "enum": [1]}, "$ref #/enum leads to no schema"),
        ({"$ref": "#x", "$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}}, "it has two parts called x"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$id": "b"}}}, "parts of it have addresses of their own ($id)"),
    ],
)
def test_why_a_schema_cannot_be_used(schema: Any, why: str) -> None:
    with pytest.raises(UncheckedError) as caught:
        usable(schema)
    assert str(caught.value) == why


def test_every_keyword_that_is_checked_has_a_form() -> None:
    assert KEYWORDS.keys() - FORMS.keys() == {"const"}


_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, "", "a", "b", "ab"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
_counts = st.integers(0, 3)
_names = st.lists(st.sampled_from("abc"), max_size=2, unique=True)
_types = st.sampled_from(["array", "boolean", "integer", "null", "number", "object", "string"])


def _keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, min_size=1, max_size=3)
    maps = st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    forms: dict[str, st.SearchStrategy[Any]] = {
        "type": _types | st.lists(_types, min_size=1, max_size=2, unique=True),
        "enum": st.lists(_values, min_size=1, max_size=3),
        "const": _values,
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), st.integers(-3, 3)),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _counts),
        "pattern": st.sampled_from(["^a", "b$", "^$"]),
        "uniqueItems": st.booleans(),
        "required": _names,
        **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), lists),
        **dict.fromkeys(("not", "if", "then", "else", "items", "contains", "propertyNames"), inner),
        **dict.fromkeys(("additionalProperties", "unevaluatedItems", "unevaluatedProperties"), inner),
        **dict.fromkeys(("properties", "dependentSchemas"), maps),
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "[bc]"]), inner, max_size=2),
        "dependentRequired": st.dictionaries(st.sampled_from("abc"), _names, max_size=2),
        **dict.fromkeys(("minContains", "maxContains"), _counts),
        "$ref": st.sampled_from(["#/$defs/a", "#/$defs/b"]),
    }
    return st.lists(st.sampled_from(sorted(forms)), max_size=4, unique=True).flatmap(
        lambda chosen: st.fixed_dictionaries({keyword: forms[keyword] for keyword in chosen})
    )


_schemas = st.recursive(st.booleans() | _keywords(st.booleans()), _keywords, max_leaves=6)


def _document(schema: Any, one: Any, other: Any) -> Any:
    """The schema with two more that it may refer to; the first of them only to the second, and that to none.

    `jsonschema` ends in a recursion without an end, at times in a panic, where schemas come back to themselves.
    """
    to_other = json.dumps(one).replace("#/$defs/a", "#/$defs/b")
    to_none = json.dumps(other).replace('"$ref"', '"$comment"')
    return {"allOf": [schema], "$defs": {"a": json.loads(to_other), "b": json.loads(to_none)}}


_documents = st.builds(_document, _schemas, _schemas, _schemas)


@pytest.mark.slow
@settings(max_examples=300)
@given(_documents, _values)
def test_it_says_yes_and_no_as_jsonschema_does(schema: dict[str, Any], value: Any) -> None:
    Draft202012Validator.check_schema(schema)
    expected = Draft202012Validator(schema).is_valid(value)
    found = problems(schema, value)
    assert (not found) == expected, json.dumps([schema, value, found])


@pytest.mark.slow
@settings(max_examples=120)
@given(_schemas, _values)
@example({"properties": {"a": False}}, {"a": None})
def test_its_first_words_are_those_of_jsonschema_for_plain_schemas(schema: Any, value: Any) -> None:
    plain = {"type", "enum", "const", "required", "properties", "minLength", "minimum", "anyOf", "items", "maxItems"}
    if isinstance(schema, bool) or not schema.keys() <= plain or "$ref" in json.dumps(schema):
        return
    errors = list(Draft202012Validator(schema).iter_errors(value))
    found = problems(schema, value)
    assert bool(errors) == bool(found)
    for error, (place, text) in zip(errors[:1], found, strict=False):
        if not error.context and isinstance(best_match([error]), jsonschema.ValidationError):
            assert text == " ".join(error.message.split())
            if error.validator is not None:  # to what `False` forbids it says no place
                assert place == ".".join(map(str, error.absolute_path))


def test_the_draft_that_a_schema_names_is_the_one_it_is_read_as() -> None:
    for uri in ("http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#"):
        schema = {"$schema": uri, "$ref": "#/definitions/n", "maximum": 1, "definitions": {"n": {"type": "integer"}}}
        assert validator_for(schema)(schema).is_valid(5)
        assert not words(schema, 5)
    assert words({"$ref": "#/$defs/n", "maximum": 1, "$defs": {"n": {}}}, 5) == ["5 is greater than the maximum of 1"]


async def test_nulls_behind_references_and_in_unions_are_left_out() -> None:
    place = {"type": "object", "properties": {"city": {"type": "string"}, "street": {"type": "string"}}}
    other = {"type": "object", "properties": {"post": {"type": "string"}}, "required": ["post"]}
    schema = {
        "type": "object",
        "properties": {
            "to": {"anyOf": [{"$ref": "#/$defs/place"}, other]},
            "also": {"items": {"$ref": "#/$defs/place"}},
        },
        "$defs": {"place": place},
    }
    given = {"to": {"city": "Rome", "street": None}, "also": [{"street": None}]}
    assert (await fitted(schema, given))[0] == {"to": {"city": "Rome"}, "also": [{}]}
    assert (await fitted(schema, {"to": 1}))[0] == {"to": 1}
