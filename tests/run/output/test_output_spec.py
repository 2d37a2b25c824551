"""From a type to the schema that is asked for, and from a text to the value or what is wrong with it, by field."""

from __future__ import annotations

import json
from time import process_time
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field

from mcpagent.errors import InputError
from mcpagent.models.output_modes.strict_schemas import ANTHROPIC, OPENAI, strict_schema
from mcpagent.run.output.json_documents import partial_document
from mcpagent.run.output.output_spec import RESULT, output_spec, spec_from_json, spec_to_json
from tests.reference_work import reference_seconds
from tests.run.output.held import filled
from tests.run.output.used_types import USED, Cat, City, Dog, Even, Trip
from tests.simulator.output_rules import anthropic_output, openai_output
from tests.tables import each_row

BEYOND = {"open", "dict", "any schema"}
"""What has names, or values, that nobody knows before."""


@each_row("name", USED)
def test_a_type_that_people_use(name: str) -> None:
    output_type, document, value = USED[name]
    spec = output_spec(output_type)
    assert spec.format.schema["type"] == "object"
    asked = {RESULT: document} if spec.is_wrapped else document
    for text in (json.dumps(asked), json.dumps(document), f"Here:\n```json\n{json.dumps(asked, indent=1)}\n```\n"):
        assert spec.read(text).value == value
        assert type(spec.read(text).value) is type(value)
    assert spec.partial(json.dumps(asked)) == document
    again = spec_from_json(json.loads(json.dumps(spec_to_json(spec))))
    assert again.format == spec.format
    assert again.read(json.dumps(asked)).document == document


@each_row("name", USED)
def test_its_schema_in_the_subsets_of_providers(name: str) -> None:
    output_type, document, value = USED[name]
    spec = output_spec(output_type)
    asked = {RESULT: document} if spec.is_wrapped else document
    for subset, check in ((OPENAI, _as_openai), (ANTHROPIC, _as_anthropic)):
        strict = strict_schema(spec.format.schema, subset)
        assert strict == strict_schema(spec.format.schema, subset)
        assert (strict is None) is (name in (BEYOND if subset is OPENAI else BEYOND | {"recursive"}))
        if strict is None:
            continue
        check(strict)
        assert spec.read(json.dumps(filled(asked, strict, strict))).value == value


def _as_openai(schema: dict[str, Any]) -> None:
    named = {"name": "a", "schema": schema, "strict": True}
    openai_output({"model": "gpt-6", "response_format": {"type": "json_schema", "json_schema": named}})


def _as_anthropic(schema: dict[str, Any]) -> None:
    anthropic_output({"model": "claude-new", "output_config": {"format": {"type": "json_schema", "schema": schema}}})


@each_row(
    "output_type, text, told",
    [
        (City, '{"name": "", "people": -1}', {"name": "at least 1 character", "people": "greater than or equal to 0"}),
        (City, '{"name": "Rome"}', {"people": "Field required"}),
        (list[City], '{"result": [{"name": "Rome", "people": 1}, {"name": 2}]}', {"1.name": "string", "1.people": ""}),
        (Even, '{"number": 3}', {"number": "must be even, got 3"}),
        (Trip, "[]", {"": "an object, got []"}),
        (int, '"x"', {"": "valid integer"}),
        ({"type": "array", "items": {"type": "integer"}}, '[1, "a"]', {"1": "'a' is not of type 'integer'"}),
        (City, "It is Rome.", {"": "it is no JSON"}),
        (City, '```json\n{"a": 1}\n```\n```json\n{"b": 1}\n```', {"": "it is no JSON"}),
        (City, "  ", {"": "the answer is empty"}),
        (float, "NaN", {"": "it is no JSON"}),
        ({}, "[1e999]", {"": "it is no JSON"}),
        ({}, '{"a": -Infinity}', {"": "it is no JSON"}),
        ({}, "[" * 100_000, {"": "it is no JSON"}),
    ],
)
def test_what_does_not_fit_is_told_by_field(output_type: Any, text: str, told: dict[str, str]) -> None:
    problems = output_spec(output_type).read(text).problems
    assert [problem.path for problem in problems] == list(told)
    for problem, words in zip(problems, told.values(), strict=True):
        assert words in problem.text
        assert str(problem).isprintable()


class Careless(BaseModel):
    """Its validator raises whatever comes."""

    number: int

    def model_post_init(self, _: Any) -> None:
        raise KeyError("nothing")


def test_a_validator_that_raises_anything_is_a_problem_of_the_answer() -> None:
    (problem,) = output_spec(Careless).read('{"number": 1}').problems
    assert str(problem) == "the answer: a validator raised KeyError: 'nothing'"


@each_row("given_type", [5, "City", [int], (int,), 2.5, True, object(), print, lambda: 1])
def test_what_is_no_type_is_told_in_one_line(given_type: Any) -> None:
    with pytest.raises(InputError, match=r"^output_type: .*a type \(a pydantic model") as told:
        output_spec(given_type)
    assert "\n" not in str(told.value)


@each_row(
    "schema, said",
    [
        ({"type": 3}, "no JSON Schema that can be used: type"),
        ({"$ref": "https://example.com/s.json"}, "a reference leads out of it"),
        ({"$ref": "#"}, "refers to itself without an end"),
        ({"const": float("nan")}, "which is JSON data"),
        ({"enum": {1, 2}}, "which is JSON data"),
    ],
)
def test_a_schema_that_cannot_be_used_is_told_before_anything_is_asked(schema: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        output_spec(schema)


def test_references_of_a_schema_lead_where_they_led_once_it_is_a_part() -> None:
    schema = {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"$ref": "#"}]}}
    spec = output_spec(schema)
    assert spec.is_wrapped
    whole = output_spec(spec.format.schema)
    for document, fits in (([1, [2, []]], True), ([1, ["x"]], False)):
        assert (not whole.read(json.dumps({RESULT: document})).problems) is fits
        assert (not spec.read(json.dumps({RESULT: document})).problems) is fits


@each_row(
    "output_type, name",
    [
        (Annotated[int, AfterValidator(lambda number: number)], "int"),
        (list[Annotated[int, AfterValidator(lambda number: number)]], "list_int"),
        (Annotated[Cat | Dog, Field(discriminator="kind")], "Cat_Dog"),
        (dict[str, City | None], "dict_str_City_None"),
        (tuple[int, ...], "tuple_int"),
        (Literal["a", 1], "Literal_a_1"),
    ],
)
def test_a_model_is_told_the_same_name_in_every_process(output_type: Any, name: str) -> None:
    assert output_spec(output_type).format.name == name


def test_nulls_in_a_union_that_refers_to_itself_take_no_time() -> None:
    """Two that both have what the other has, thirty levels deep: tried one by one these would never end."""
    closed = {"type": "object", "additionalProperties": False}
    defined: dict[str, Any] = {}
    for at in range(30):
        inner = {"a": {"$ref": f"#/$defs/d{at + 1}"}}
        branches = [{**closed, "properties": inner}, {**closed, "properties": {**inner, "b": {"type": "string"}}}]
        defined[f"d{at}"] = {"anyOf": branches}
    spec = output_spec({"$ref": "#/$defs/d0", "$defs": {**defined, "d30": {"type": "string"}}})
    text = '{"b": null, "a": ' * 30 + '"x"' + "}" * 30
    whole = '{"a": ' * 30 + '"x"' + "}" * 30
    assert spec.read(text).value == json.loads(whole)


def test_a_property_that_is_called_as_the_wrapping_is_its_own() -> None:
    spec = output_spec({"type": "object", "properties": {RESULT: {"type": "integer"}}, "required": [RESULT]})
    assert not spec.is_wrapped
    assert spec.read('{"result": 1}').value == {"result": 1}
    open_one = output_spec({"anyOf": [{"type": "object", "required": ["result"]}, {"type": "null"}]})
    assert open_one.read('{"result": {"result": 1}}').value == {"result": 1}
    assert open_one.read('{"result": 1}').value == {"result": 1}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(_JSON, st.data())
def test_what_has_come_of_a_document_never_fails_and_ends_with_all_of_it(document: Any, data: st.DataObject) -> None:
    text = json.dumps(document)
    spec = output_spec({})
    spec.partial(text[: data.draw(st.integers(0, len(text)))])
    partial_document(data.draw(st.text(max_size=20)))
    if isinstance(document, dict | list) and document != {}:
        assert spec.partial(text) == document
        assert spec.read(text).value == document


_SCHEMAS = st.recursive(
    st.sampled_from(
        [{"type": "string"}, {"type": ["integer", "null"]}, {"enum": ["a", 1]}, {}, True, {"$ref": "#/$defs/d"}]
    ),
    lambda inner: (
        st.builds(
            lambda named, required: {
                "type": "object",
                "properties": named,
                "required": [n for n in named if n in required],
            },
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            st.sets(st.sampled_from("abc")),
        )
        | st.builds(lambda one: {"type": "array", "items": one}, inner)
        | st.builds(lambda many: {"anyOf": many}, st.lists(inner, min_size=1, max_size=3))
    ),
    max_leaves=10,
)


@given(_SCHEMAS, _SCHEMAS)
def test_a_schema_is_in_the_subset_or_not_said_in_it_at_all(schema: Any, definition: Any) -> None:
    whole = {"type": "object", "properties": {"x": schema}, "$defs": {"d": definition}}
    for subset, check in ((OPENAI, _as_openai), (ANTHROPIC, _as_anthropic)):
        if (strict := strict_schema(whole, subset)) is not None:
            check(strict)


@each_row("text", ["```\n" + " " * 300_000, "```json\n" * 50_000, "``` " * 50_000, "{" * 50_000 + "```\n"])
def test_a_text_that_is_made_to_take_long_takes_no_time(text: str) -> None:
    started = process_time()
    assert output_spec(City).read(text).problems
    output_spec(City).partial(text)
    assert process_time() - started < 1_000 * reference_seconds()
