"""Arguments against schemas: paths named, time bounded, no network."""

import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcpagent.run.validation import argument_problem
from tests.speed import within
from tests.tables import each_row

MAIL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "to": {"type": "string"},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
        "priority": {"enum": ["low", "high"]},
    },
    "required": ["to"],
    "$defs": {"tag": {"type": "string"}},
}


@each_row(
    "arguments, words",
    [
        ({"to": "ann"}, ""),
        ({}, "'to' is a required property"),
        ({"to": 1}, "to: 1 is not of type 'string'"),
        ({"to": "ann", "tags": ["a", 2]}, "tags.1: 2 is not of type 'string'"),
        ({"to": "ann", "priority": "mid"}, "priority: 'mid' is not one of ['low', 'high']"),
    ],
)
def test_the_problem_names_the_path(arguments: dict[str, Any], words: str) -> None:
    assert argument_problem(MAIL, arguments) == words


def test_deep_and_huge_arguments_are_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(10_000):
        deep = {"a": deep}
    assert "deeper than 64" in argument_problem({"type": "object"}, deep)
    assert "larger than" in argument_problem({"type": "object"}, {"a": "x" * 1_048_577})
    assert "larger than" in argument_problem({"type": "object"}, dict.fromkeys(map(str, range(150_000))))


def test_t12_a_hostile_pattern_costs_no_time_and_a_property_called_pattern_is_kept() -> None:
    schema = {
        "type": "object",
        "properties": {"text": {"type": "string", "pattern": "(a+)+$"}, "pattern": {"type": "integer"}},
    }
    started = time.thread_time()
    assert argument_problem(schema, {"text": "a" * 5_000 + "!"}) == ""
    assert within(time.thread_time() - started, 5)
    assert "pattern: 'x'" in argument_problem(schema, {"pattern": "x"})


@each_row(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/missing"}}},
        {"type": "nonsense"},
        {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}},
    ],
)
def test_a_schema_that_is_broken_checks_nothing(schema: dict[str, Any]) -> None:
    assert argument_problem(schema, {"a": 1}) == ""


def test_references_that_multiply_cost_bounded_time() -> None:
    levels = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}, {"$ref": f"#/$defs/a{n + 1}"}]} for n in range(40)}
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/a0"}}, "$defs": {**levels, "a40": {}}}
    started = time.thread_time()
    assert argument_problem(schema, {"x": 1}) == ""
    assert within(time.thread_time() - started, 10)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["type", "properties", "required", "enum", "$ref", "items", "pattern"]), _json))
def test_no_schema_makes_it_raise(schema: dict[str, Any]) -> None:
    assert isinstance(argument_problem(schema, {"a": [1, {"b": None}]}), str)
