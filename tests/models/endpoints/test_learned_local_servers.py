"""Servers of one's own, in all three protocols: what they refuse is learned, and what they leave out is borne."""

from __future__ import annotations

import json
from asyncio import StreamReader, StreamWriter, start_server
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent
from mcpagent.errors import ModelError
from mcpagent.models import AnthropicModel, ModelRequest, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.endpoints.learned import LearnedStore
from mcpagent.models.http_model import HttpModel
from mcpagent.models.local.loose_schemas import loose_schema
from mcpagent.values.events import Notice, ignore
from mcpagent.values.messages import ToolDefinition, user_message
from tests.tables import each_row
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
        return AnthropicModel("m", api_key="key", **options)
    return (
        OpenAIResponsesModel("m", api_key="key", **options)
        if protocol == "responses"
        else OpenAIChatModel("m", **options)
    )


def said(protocol: str, text: str) -> Any:
    if protocol == "messages":
        return anthropic_stream(text_block(text))
    return responses_stream(message_item(text)) if protocol == "responses" else chat_stream({"content": text})


def schemas(body: dict[str, Any]) -> list[Any]:
    tools = [tool.get("function", tool) for tool in body["tools"]]
    return [tool.get("parameters", tool.get("input_schema")) for tool in tools]


@each_row("protocol", PROTOCOLS)
async def test_a_refused_schema_is_sent_loosely_from_then_on(protocol: str, tmp_path: Path) -> None:
    played = PlayedProvider(REFUSED, said(protocol, "One."), said(protocol, "Two."))
    made = model(protocol, played, traits=LearnedStore(tmp_path))
    assert (await made.respond(ASKED, ignore)).message.text == "One."
    assert (await model(protocol, played, traits=LearnedStore(tmp_path)).respond(ASKED, ignore)).message.text == "Two."
    first, second, third = map(schemas, played.bodies)
    assert first == [BY_CODE.parameters]
    loose = {"type": "string", "description": "A code."}
    assert second == third == [{"type": "object", "properties": {"pattern": loose}, "required": ["pattern"]}]


@each_row("protocol", PROTOCOLS)
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


@each_row("protocol", PROTOCOLS)
async def test_a_call_written_as_text_is_a_call(protocol: str) -> None:
    text = json.dumps({"name": "by_code", "arguments": {"pattern": "12345"}})
    shown: list[Any] = []
    response = await model(protocol, PlayedProvider(said(protocol, text))).respond(ASKED, shown.append)
    [call] = response.message.tool_calls
    assert (call.name, call.arguments, response.stop, shown) == ("by_code", {"pattern": "12345"}, "tool_calls", [])


WRITTEN = [
    '{"name": "other_tool", "arguments": {"n": 5}}',
    '<tool_call>{"name": "other_tool", "arguments": {"n": 5}}</tool_call>',
    "<tool_call><function=other_tool><parameter=n>5</parameter></function></tool_call>",
    '[TOOL_CALLS]other_tool[ARGS]{"n": 5}',
]


@each_row("protocol", PROTOCOLS)
@each_row("text", WRITTEN)
async def test_a_written_call_of_a_tool_that_is_not_offered_is_a_call_too(protocol: str, text: str) -> None:
    shown: list[Any] = []
    response = await model(protocol, PlayedProvider(said(protocol, text))).respond(ASKED, shown.append)
    [call] = response.message.tool_calls
    assert (call.name, call.arguments, response.message.text, shown) == ("other_tool", {"n": 5}, "", [])


@each_row(
    "text",
    [
        '{"name": "by_id", "parameters": {"type": "object", "properties": {}}}',
        '{"name": "Anna Bell", "arguments": {}}',
        "[note(x=1)]",
        '{"answer": 5}',
    ],
)
async def test_what_only_looks_like_a_call_stays_the_answer(text: str) -> None:
    response = await model("chat", PlayedProvider(said("chat", text))).respond(ASKED, ignore)
    assert (response.message.tool_calls, response.message.text) == ((), text)


async def test_a_model_that_writes_a_call_of_an_unknown_tool_is_told_so() -> None:
    played = PlayedProvider(said("chat", WRITTEN[0]), said("chat", "Sorry."))
    async with Agent(model("chat", played), tools=[by_name]) as agent:
        assert await agent.ask("Find Anna") == "Sorry."
    result = played.bodies[1]["messages"][-1]
    assert result["role"] == "tool"
    assert "other_tool" in result["content"]


def by_name(name: str) -> str:
    """Finds by name."""
    return name


class _ClosesIdle:
    """Answers the first request of the first connection, and closes that with the next; then serves as it should."""

    def __init__(self, answers: int) -> None:
        self.connections = 0
        self._answers = answers

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.connections += 1
        left = 1 if self.connections == 1 else self._answers
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                [length] = [
                    int(line.split(b":")[1]) for line in head.splitlines() if line.lower().startswith(b"content-l")
                ]
                await reader.readexactly(length)
                if not left:
                    break
                left -= 1
                body = chat_stream({"content": "Yes."}).content
                kind = b"Content-Type: text/event-stream\r\n"
                writer.write(b"HTTP/1.1 200 OK\r\n" + kind + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
        except EOFError:
            pass
        finally:
            writer.close()


async def asked_twice(server: _ClosesIdle) -> list[Any]:
    events: list[Any] = []
    async with await start_server(server.serve, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        made = OpenAIChatModel("m", base_url=f"http://127.0.0.1:{port}/v1", max_retries=0)
        try:
            for _ in range(2):
                response = await made.respond(ASKED, events.append)
                assert response.message.text == "Yes."
        finally:
            await made.aclose()
    return [event for event in events if isinstance(event, Notice)]


async def test_a_connection_closed_while_idle_is_opened_anew_without_a_word() -> None:
    server = _ClosesIdle(answers=5)
    assert await asked_twice(server) == []
    assert server.connections == 2


async def test_a_server_that_closes_every_connection_is_not_said_to_have_cut_an_answer() -> None:
    server = _ClosesIdle(answers=0)
    with pytest.raises(ModelError, match="closed the connection before it answered"):
        await asked_twice(server)
    assert server.connections == 2


@each_row(
    "pattern, is_sent",
    [
        ("^[a-z]+$", True),
        (r"^a\.b$", True),
        (r"^\d{5}$", False),
        ("[a-z]+", False),
        ("^(?!x)y$", False),
        ("^a$|b$", False),
    ],
)
async def test_llamacpp_gets_the_patterns_it_takes(pattern: str, is_sent: bool) -> None:
    value = {"type": "string", "pattern": pattern, "maxLength": 5}
    tool = ToolDefinition("t", "", {"type": "object", "properties": {"value": value}})
    played = PlayedProvider(said("chat", "Yes."))
    made = OpenAIChatModel("m", provider="llamacpp", base_url="http://localhost:1/v1", http_client=played.http_client)
    await made.respond(ModelRequest("", ASKED.messages, (tool,)), ignore)
    [schema] = schemas(played.bodies[0])
    assert schema["properties"]["value"] == (value if is_sent else {"type": "string", "maxLength": 5})
