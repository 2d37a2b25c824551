"""Gemini through its OpenAI-compatible endpoint: schemas it takes, signatures that come back, one history."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagent.errors import ModelError
from mcpagent.models import ModelRequest, OpenAIChatModel, resolve_model
from mcpagent.models.openai.gemini_schema import gemini_schema
from mcpagent.values.events import ignore
from mcpagent.values.messages import Message, Origin, Text, ToolCall, ToolDefinition, ToolResult, user_message
from tests.models.test_http_model_simulator import SYSTEM, discovers, talk
from tests.simulator.gemini_rules import UNSIGNED, _check_schema
from tests.simulator.server import Simulator
from tests.tables import each_row
from tests.wire.bounded import bounded
from tests.wire.life import Life, numbered
from tests.wire.provider import PlayedProvider, Waits, chat_stream
from tests.wire.scene import SEARCH, WEATHER

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"
RECORDING = SHARED / "cassettes" / "test_tool_availability_portability_matrix[R2-T5-local-search].yaml"


def gemini(url: str, **more: Any) -> OpenAIChatModel:
    base = f"{url}/v1beta/openai"
    return OpenAIChatModel("gemini-3-flash-preview", provider="gemini", base_url=base, api_key="k", **more)


async def test_a_conversation_with_discovery_is_accepted_and_its_signatures_come_back() -> None:
    async with Simulator(discovers) as simulator:
        model = gemini(simulator.url, max_retries=0)
        messages = await talk(model, 12)
        messages += [user_message("And now?")]
        await model.respond(ModelRequest(SYSTEM, tuple(messages), (SEARCH,)), ignore)
        await model.aclose()
    assert simulator.log.refused == []
    sent = json.dumps(simulator.log.bodies[-1]["messages"])
    for number in range(1, len(simulator.log.bodies)):
        assert f'"extra_content": {{"google": {{"thought_signature": "sig-{number}"}}}}' in sent


async def test_calls_of_another_provider_are_marked_as_unsigned() -> None:
    calls = (ToolCall("toolu_1", "search_tools", {"query": "x"}), ToolCall("toolu_2", "search_tools", {"query": "y"}))
    results = tuple(ToolResult(call.id, call.name, (Text("ok"),)) for call in calls)
    messages = (user_message("x"), Message("assistant", calls, origin=Origin("anthropic")), Message("tool", results))
    async with Simulator(lambda _view: ["fine"]) as simulator:
        model = gemini(simulator.url, max_retries=0)
        assert (await model.respond(ModelRequest("", messages, (SEARCH,)), ignore)).message.text == "fine"
        await model.aclose()
        plain = OpenAIChatModel("m", provider="vllm", base_url=f"{simulator.url}/v1beta/openai", max_retries=0)
        with pytest.raises(ModelError, match="missing a thought_signature"):
            await plain.respond(ModelRequest("", messages, (SEARCH,)), ignore)
        await plain.aclose()


async def test_every_kind_of_change_is_accepted() -> None:
    async with Simulator(lambda _view: ["ok"]) as simulator:
        model = gemini(simulator.url, max_retries=0)
        life = Life(Origin("anthropic"))
        for kind in ("add", "call", "remove", "add", "change", "attach", "lose", "withdraw_eager", "return_eager"):
            life.live((kind, (1, 2)))
            await model.respond(life.request(), ignore)
        await model.aclose()
    assert simulator.log.refused == []


async def test_one_schema_of_a_server_does_not_cost_the_whole_request() -> None:
    hostile = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": False,
        "properties": {"n": {"type": "integer", "exclusiveMinimum": 0}, "kind": {"const": "a"}, "any": {}},
    }
    tool = ToolDefinition("odd", "Odd.", hostile)
    async with Simulator(lambda _view: ["fine"]) as simulator:
        model = gemini(simulator.url, max_retries=0, sleep=Waits())
        await model.respond(ModelRequest("", (user_message("x"),), (tool,)), ignore)
        await model.aclose()
        plain = OpenAIChatModel("m", provider="vllm", base_url=f"{simulator.url}/v1beta/openai", max_retries=0)
        with pytest.raises(ModelError, match=r'Unknown name "\$schema" at .*: Cannot find field'):
            await plain.respond(ModelRequest("", (user_message("x"),), (tool,)), ignore)
        await plain.aclose()


def parameter(schema: object, **root: Any) -> Any:
    whole = gemini_schema({"type": "object", "properties": {"x": schema}, **root})
    return whole["properties"]["x"]


@each_row(
    "schema, written",
    [
        ({"type": "string", "format": "uri"}, {"type": "string"}),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        ({"type": ["string", "integer"]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"type": "integer", "nullable": True}),
        (
            {"oneOf": [{"type": "integer"}, {"type": "string"}], "description": "Id."},
            {"description": "Id.", "anyOf": [{"type": "integer"}, {"type": "string"}]},
        ),
        ({"const": "a"}, {"type": "string", "enum": ["a"], "format": "enum"}),
        ({"enum": ["a", "b", None]}, {"type": "string", "nullable": True, "enum": ["a", "b"], "format": "enum"}),
        ({"type": "integer", "enum": [1, 2]}, {"type": "integer", "description": "One of: 1, 2"}),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 1}),
        ({"type": "number", "exclusiveMaximum": 1.5}, {"type": "number", "maximum": 1.5}),
        ({"type": "array", "uniqueItems": True}, {"type": "array", "items": {"anyOf": "..."}}),
        ({"type": "array", "items": {"type": "string"}}, {"type": "array", "items": {"type": "string"}}),
        (
            {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]},
            {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "number"}]}},
        ),
        ({"type": "string", "properties": {}, "required": ["a"]}, {"type": "string"}),
        (
            {"properties": {"a": {"type": "string"}}, "required": ["a", "b"]},
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        ),
        (
            {"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"required": ["a"]}]},
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        ),
        ({"$ref": "#/$defs/Unit"}, {"type": "string", "enum": ["c", "f"], "format": "enum"}),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"type": "object"}),
        (True, {"anyOf": "..."}),
        ({"$ref": "#/$defs/Nowhere", "description": "Lost."}, {"description": "Lost.", "anyOf": "..."}),
    ],
)
def test_what_gemini_has_no_word_for_is_said_in_another_way(schema: object, written: Any) -> None:
    found = parameter(schema, **{"$defs": {"Unit": {"enum": ["c", "f"]}}})
    anything = [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]
    assert found == json.loads(json.dumps(written).replace('"..."', json.dumps(anything)))


def test_a_schema_that_holds_itself_ends() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}, "also": {"$ref": "#/$defs/N"}}}
    schema = {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}, "$defs": {"N": node}}
    written = gemini_schema(schema)
    _check_schema(written, "x")
    assert len(json.dumps(written)) < 1_000_000
    turning = gemini_schema({"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}})
    _check_schema(turning, "x")


KEYWORDS = (
    *("type", "properties", "items", "required", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "not", "format"),
    *("default", "description", "minimum", "exclusiveMinimum", "pattern", "prefixItems", "nullable", "minItems", "x"),
)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(["string", "object", "#/x"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(KEYWORDS),
                inner,
                max_size=4,
            )
        ),
        max_leaves=25,
    ).filter(lambda schema: isinstance(schema, dict))
)
@bounded
def test_any_schema_becomes_one_that_gemini_takes(schema: Any) -> None:
    written = gemini_schema(schema)
    _check_schema(written, "x")
    assert json.dumps(written) == json.dumps(gemini_schema(schema))


@pytest.mark.skipif(not SHARED.is_dir(), reason="no catalogues beside the repository (../shared/data/mcp-catalogs)")
def test_the_schemas_of_real_servers_become_such() -> None:
    seen = 0
    for path in sorted((SHARED / "mcp-catalogs").glob("*.json")):
        for tool in json.loads(path.read_text(encoding="utf-8"))["tools"]:
            written = gemini_schema(tool["inputSchema"])
            _check_schema(written, f"{path.stem}.{tool['name']}")
            assert set(written.get("properties", {})) >= set(tool["inputSchema"].get("properties", {}))
            seen += 1
    assert seen > 1_000


@pytest.mark.skipif(not RECORDING.is_file(), reason="no recordings beside the repository (../shared/data/cassettes)")
async def test_the_recorded_exchange() -> None:
    """Recorded in the native form: the same words and signatures, in the form of the compatible endpoint."""
    yaml = pytest.importorskip("yaml", reason="PyYAML reads the recordings; pip install pyyaml")
    [exchange] = yaml.safe_load(RECORDING.read_text(encoding="utf-8"))["interactions"]
    asked, answered = exchange["request"]["parsed_body"], exchange["response"]["parsed_body"]
    [part] = answered["candidates"][0]["content"]["parts"]
    call = asked["contents"][1]["parts"][0]
    signature = {"google": {"thought_signature": part["thoughtSignature"]}}
    whole = {"role": "assistant", "content": part["text"], "extra_content": signature}
    usage = {"prompt_tokens": answered["usageMetadata"]["promptTokenCount"], "completion_tokens": 19}
    history = (
        user_message(asked["contents"][0]["parts"][0]["text"]),
        Message(
            "assistant", (ToolCall(call["functionCall"]["id"], "search_tools", {"query": "x"}),), Origin("anthropic")
        ),
        Message("tool", (ToolResult(call["functionCall"]["id"], "search_tools", (Text("found"),)),)),
        user_message(asked["contents"][3]["parts"][0]["text"]),
    )
    found = tuple(
        ToolDefinition(tool["name"], tool["description"], tool["parameters_json_schema"])
        for tool in asked["tools"][0]["functionDeclarations"]
    )
    streamed = chat_stream({"content": part["text"]}, {"content": "", "extra_content": signature}, usage=usage)
    json_answer = httpx2.Response(200, json={"choices": [{"message": whole, "finish_reason": "stop"}], "usage": usage})
    for answer in (streamed, json_answer):
        model = gemini("http://localhost:1", http_client=PlayedProvider(answer).http_client)
        response = await model.respond(ModelRequest("", history, found), ignore)
        assert (response.message.text, response.usage.input_tokens) == (part["text"], 295)
        body = model.request_body(ModelRequest("", (*history, response.message, user_message("Go on.")), found))
        assert body["messages"][4] == whole
        dummy = body["messages"][1]["tool_calls"][0]["extra_content"]["google"]["thought_signature"]
        assert base64.b64encode(dummy.encode()).decode() == call["thoughtSignature"]
        assert dummy == UNSIGNED


def test_the_prefix_is_gemini() -> None:
    model = resolve_model("gemini:gemini-3-flash-preview", environ={"GEMINI_API_KEY": "k"})
    assert isinstance(model, OpenAIChatModel)
    body = model.request_body(ModelRequest("", (user_message("x"),), (WEATHER, numbered(1))))
    assert "$defs" not in json.dumps(body)
    assert "additionalProperties" not in json.dumps(body)
