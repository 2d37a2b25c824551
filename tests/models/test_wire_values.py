"""What every provider accepts: schemas, names, ids, images and arguments, for any input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagent.models import AnthropicModel, ModelRequest, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.http_model import HttpModel
from mcpagent.models.transport.sdk_connection import encoded
from mcpagent.models.wire_values import (
    distinct_ids,
    legal_id,
    object_schema,
    parse_object,
    read_call,
    sendable_name,
    shown_parts,
)
from mcpagent.values.messages import Image, Message, Text, ToolCall, ToolDefinition, ToolResult, user_message
from tests.simulator import anthropic_rules, openai_rules
from tests.tables import each_row
from tests.wire.bounded import bounded
from tests.wire.scene import PNG

CATALOGUES = Path(__file__).resolve().parents[3] / "shared" / "data" / "mcp-catalogs"
MODELS: tuple[HttpModel, ...] = (AnthropicModel("claude-opus-5"), OpenAIResponsesModel("gpt-5.4"), OpenAIChatModel("m"))

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
schema_keys = st.sampled_from(
    ["type", "properties", "required", "anyOf", "oneOf", "allOf", "not", "enum", "$defs", "if"]
)
schemas: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    schema_keys, json_values | st.just("object") | st.just([{"properties": {"a": {}}}])
)


def test_a_legal_schema_is_sent_as_it_is() -> None:
    schema = {"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}]}}, "$defs": {}, "title": "T"}
    assert object_schema(schema) == schema


@each_row(
    "schema, widened",
    [
        ({}, {"type": "object", "properties": {}}),
        ({"type": "object"}, {"type": "object", "properties": {}}),
        ({"type": "object", "properties": None, "required": None}, {"type": "object", "properties": {}}),
        (
            {"type": "object", "properties": {"a": {}}, "required": ["a"], "not": {"required": ["b"]}},
            {"type": "object", "properties": {"a": {}}, "required": ["a"]},
        ),
        (
            {"anyOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"properties": {"b": {}}}]},
            {"type": "object", "properties": {"b": {}, "a": {"type": "string"}}},
        ),
        (
            {"allOf": [{"properties": {"a": {}}, "required": ["a"]}], "properties": {"c": {}}, "required": ["c"]},
            {"type": "object", "properties": {"a": {}, "c": {}}, "required": ["c", "a"]},
        ),
    ],
)
def test_a_schema_that_would_be_refused_is_widened_at_the_top(schema: dict[str, Any], widened: dict[str, Any]) -> None:
    assert object_schema(schema) == widened


def check(model: HttpModel, body: dict[str, Any]) -> None:
    """By the simulated provider's rules."""
    sent = json.loads(encoded(body))
    if isinstance(model, AnthropicModel):
        anthropic_rules.check(sent, {})
    elif isinstance(model, OpenAIResponsesModel):
        openai_rules.check_responses(sent, {})
    else:
        openai_rules.check_chat(sent, {})


@given(schemas)
@bounded
def test_any_schema_becomes_legal(schema: dict[str, Any]) -> None:
    before = json.dumps(schema)
    request = ModelRequest("", (user_message("x"),), (ToolDefinition("t", "d", schema),))
    for model in MODELS:
        check(model, model.request_body(request))
    assert json.dumps(schema) == before


@pytest.mark.skipif(not CATALOGUES.is_dir(), reason="no catalogues beside the repository (../shared/data/mcp-catalogs)")
def test_the_schemas_of_real_servers_are_legal_and_unchanged() -> None:
    schemas_of_tools: list[dict[str, Any]] = []
    for path in sorted(CATALOGUES.glob("*.json")):
        schemas_of_tools += [tool["inputSchema"] for tool in json.loads(path.read_text(encoding="utf-8"))["tools"]]
    tools = tuple(ToolDefinition(f"t{number}", "d", schema) for number, schema in enumerate(schemas_of_tools))
    assert len(tools) > 1000
    for model in MODELS:
        check(model, model.request_body(ModelRequest("", (user_message("x"),), tools)))
    changed = [schema for schema in schemas_of_tools if object_schema(schema) != schema]
    assert all(
        schema.keys() & {"anyOf", "oneOf", "allOf", "not", "enum", "if"} or "properties" not in schema
        for schema in changed
    )


@given(st.text(), st.sampled_from([40, 64]))
@bounded
def test_ids_and_names_become_legal_and_stay_distinct(text: str, longest: int) -> None:
    made = legal_id(text, longest=longest)
    assert 0 < len(made) <= longest
    assert all(char.isascii() and (char.isalnum() or char in "_-") for char in made + sendable_name(text))
    assert legal_id(made, longest=longest) == made
    assert legal_id(text + "x", longest=longest) != made
    assert 0 < len(sendable_name(text)) <= 64


given_ids = st.lists(st.sampled_from(["", "a", "b", "call_1_1", "call_1_2"]), max_size=5)


@given(given_ids, given_ids)
@bounded
def test_all_calls_of_a_conversation_have_distinct_ids(before: list[str], now: list[str]) -> None:
    earlier = Message("assistant", distinct_ids([ToolCall(call_id, "f", {}) for call_id in before], ()))
    later = Message("assistant", distinct_ids([ToolCall(call_id, "f", {}) for call_id in now], (earlier,)))
    made = [call.id for call in (*earlier.tool_calls, *later.tool_calls)]
    assert len(set(made)) == len(made) == len(before) + len(now)
    assert all(made)


@given(st.text() | json_values.map(json.dumps))
@bounded
def test_arguments_are_one_object_or_malformed(text: str) -> None:
    parsed = parse_object(text)
    call = read_call("c", "f", text, cut_off=False)
    assert bool(call.malformed) == (parsed is None)
    assert call.arguments == (parsed or {})
    assert read_call("c", "f", text, cut_off=True).malformed


@each_row("text", ["9" * 5000, "[" * 100_000, '{"a": Infinity}'])
def test_arguments_made_to_break_a_parser(text: str) -> None:
    assert parse_object(text) is None


texts = st.text() | st.just("\ud83d") | st.just("")
parts = st.builds(Text, texts) | st.builds(
    Image, st.sampled_from(["image/png", "text/plain", ""]), st.just(PNG) | texts
)


@given(st.lists(st.lists(parts, max_size=3).map(tuple), min_size=1, max_size=3), st.lists(parts, max_size=3))
@bounded
def test_any_results_and_words_make_a_legal_request(results: list[Any], words: list[Any]) -> None:
    calls = tuple(ToolCall(f"c{n}", "f", {"a": "\ud83d"}) for n in range(len(results)))
    answered = tuple(ToolResult(f"c{n}", "f", content) for n, content in enumerate(results))
    messages = (
        user_message("x"),
        Message("assistant", calls),
        Message("tool", answered),
        Message("user", tuple(words)),
    )
    for model in MODELS:
        check(model, model.request_body(ModelRequest("", messages)))
    assert all(shown_parts(result) for result in answered)
