"""Servers of one's own, in all three protocols: what they refuse is learned, and what they leave out is borne."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpagent.errors import ModelError
from mcpagent.events import ignore
from mcpagent.messages import ToolDefinition, user_message
from mcpagent.models import AnthropicModel, ModelRequest, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.http_model import HttpModel
from mcpagent.models.local.loose_schemas import loose_schema
from mcpagent.models.local.server_traits import TraitCache
from tests.wire.provider import (
    PlayedProvider,
    anthropic_stream,
    call_item,
    chat_stream,
    failed,
    message_item,
    responses_stream,
    sse,
    text_block,
)

PROTOCOLS = ("chat", "messages", "responses")
CODE = {"type": "string", "pattern": r"^\d{5}$", "description": "A code."}
BY_CODE = ToolDefinition(
    "by_code", "Finds by code.", {"type": "object", "properties": {"pattern": CODE}, "required": ["pattern"]}
)
ASKED = ModelRequest("", (user_message("Find 12345"),), (BY_CODE,))
REFUSED = failed(400, {"error": {"message": "JSON schema conversion failed: failed to parse grammar"}})


def model(protocol: str, played: PlayedProvider, **options: Any) -> HttpModel:
    options = {"http_client": played.http_client, "base_url": "http://localhost:1/v1", "max_retries": 0, **options}
    if protocol == "messages":
        return AnthropicModel("m", api_key="", **options)
    return (
        OpenAIResponsesModel("m", api_key="", **options) if protocol == "responses" else OpenAIChatModel("m", **options)
    )


def said(protocol: str, text: str) -> Any:
    if protocol == "messages":
        return anthropic_stream(text_block(text))
    return responses_stream(message_item(text)) if protocol == "responses" else chat_stream({"content": text})


def schemas(body: dict[str, Any]) -> list[Any]:
    tools = [tool.get("function", tool) for tool in body["tools"]]
    return [tool.get("parameters", tool.get("input_schema")) for tool in tools]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_refused_schema_is_sent_loosely_from_then_on(protocol: str, tmp_path: Path) -> None:
    played = PlayedProvider(REFUSED, said(protocol, "One."), said(protocol, "Two."))
    made = model(protocol, played, traits=TraitCache(tmp_path))
    assert (await made.respond(ASKED, ignore)).message.text == "One."
    assert (await model(protocol, played, traits=TraitCache(tmp_path)).respond(ASKED, ignore)).message.text == "Two."
    first, second, third = map(schemas, played.bodies)
    assert first == [BY_CODE.parameters]
    loose = {"type": "string", "description": "A code."}
    assert second == third == [{"type": "object", "properties": {"pattern": loose}, "required": ["pattern"]}]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_schema_that_cannot_be_looser_is_refused_once(protocol: str) -> None:
    played = PlayedProvider(REFUSED)
    plain = ModelRequest("", ASKED.messages, (ToolDefinition("plain", "", {"type": "object", "properties": {}}),))
    with pytest.raises(ModelError, match="grammar"):
        await model(protocol, played).respond(plain, ignore)
    assert len(played.bodies) == 1


def test_values_and_names_of_properties_are_no_keywords() -> None:
    schema = {
        "properties": {"format": {"enum": [{"pattern": "x"}]}, "n": {"anyOf": [{"maximum": 3, "type": "integer"}]}}
    }
    assert loose_schema(schema) == {
        "properties": {"format": {"enum": [{"pattern": "x"}]}, "n": {"anyOf": [{"type": "integer"}]}}
    }


async def test_responses_items_without_an_index_come_in_order() -> None:
    items = [message_item("Let me look."), call_item("call_1", "by_code", "{}")]
    done = [{"type": "response.output_item.done", "item": item} for item in items]
    whole = {"type": "response.completed", "response": {"status": "completed", "output": [], "usage": None}}
    response = await model("responses", PlayedProvider(sse(*done, whole))).respond(ASKED, ignore)
    assert response.message.text == "Let me look."
    assert [call.name for call in response.message.tool_calls] == ["by_code"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_call_written_as_text_is_a_call(protocol: str) -> None:
    text = json.dumps({"name": "by_code", "arguments": {"pattern": "12345"}})
    shown: list[Any] = []
    response = await model(protocol, PlayedProvider(said(protocol, text))).respond(ASKED, shown.append)
    [call] = response.message.tool_calls
    assert (call.name, call.arguments, response.stop, shown) == ("by_code", {"pattern": "12345"}, "tool_calls", [])
