"""OpenAI's Responses API: what is sent, byte for byte, and what is made of what comes back."""

from __future__ import annotations

from typing import Any

import pytest

from mcpagent.errors import ModelError
from mcpagent.models import ModelRequest, ModelSettings, OpenAIResponsesModel
from mcpagent.values.events import Event, TextDelta, ThinkingDelta, ignore
from mcpagent.values.messages import Message, Origin, ProviderBlock, Text, Thinking, ToolCall, Usage, user_message
from tests.tables import each_row
from tests.wire.provider import PlayedProvider, Waits, call_item, message_item, responses_stream, sse
from tests.wire.scene import PNG, SEARCH, SVG_LEFT_OUT, WEATHER, whole_request

HELLO = ModelRequest("", (user_message("hello"),))


def model(provider: PlayedProvider, **options: object) -> OpenAIResponsesModel:
    return OpenAIResponsesModel("gpt-x", api_key="key", http_client=provider.http_client, **options)  # type: ignore[arg-type]


async def test_the_whole_request_body() -> None:
    provider = PlayedProvider(responses_stream(message_item("Sunny.")))
    await model(provider).respond(whole_request(), ignore)
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"}
    function = {"type": "function", "strict": False}
    assert provider.bodies == [
        {
            "model": "gpt-x",
            "tools": [
                {**function, "name": "search_tools", "description": "Finds tools.", "parameters": SEARCH.parameters},
                {
                    **function,
                    "name": "get_weather",
                    "description": "Weather of a place.",
                    "parameters": WEATHER.parameters,
                },
                {**function, "name": "a_tool", "description": "", "parameters": {"type": "object", "properties": {}}},
            ],
            "instructions": "You help.",
            "input": [
                {"role": "user", "content": "Weather in Rome and Paris?"},
                {"role": "assistant", "content": "Let me look."},
                {
                    "type": "function_call",
                    "call_id": "call_1",
                    "name": "get_weather",
                    "arguments": '{"location":"Rome"}',
                },
                {
                    "type": "function_call",
                    "call_id": "call_2",
                    "name": "get_weather",
                    "arguments": '{"location":"Paris"}',
                },
                {
                    "type": "function_call_output",
                    "call_id": "call_1",
                    "output": [{"type": "input_text", "text": "21 C"}, image],
                },
                {"type": "function_call_output", "call_id": "call_2", "output": "Error: no such place"},
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "And this one?"},
                        image,
                        {"type": "input_text", "text": SVG_LEFT_OUT},
                    ],
                },
            ],
            "include": ["reasoning.encrypted_content"],
            "store": False,
            "stream": True,
        }
    ]
    request = provider.requests[0]
    assert str(request.url) == "https://api.openai.com/v1/responses"
    assert request.headers["authorization"] == "Bearer key"


async def test_tool_choice_none_keeps_the_tools_and_settings_are_sent() -> None:
    provider = PlayedProvider(responses_stream(message_item("ok")))
    settings = ModelSettings(max_output_tokens=50, temperature=0.5, extra={"reasoning": {"effort": "low"}})
    await model(provider).respond(whole_request(tool_choice="none", settings=settings), ignore)
    [body] = provider.bodies
    assert body["tool_choice"] == "none"
    assert len(body["tools"]) == 3
    assert (body["max_output_tokens"], body["temperature"], body["reasoning"]) == (50, 0.5, {"effort": "low"})


async def test_a_streamed_answer_with_reasoning_search_and_parallel_calls_is_kept_and_replayed_whole() -> None:
    items: list[dict[str, Any]] = [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Hmm."}],
            "content": [],
            "encrypted_content": "gAAA",
        },
        {
            "type": "tool_search_call",
            "id": "tsc_1",
            "call_id": None,
            "execution": "server",
            "status": "completed",
            "arguments": {"paths": ["crm"]},
        },
        {**message_item("Looking."), "phase": "commentary"},
        call_item("call_1", "get_weather", '{"location": "Rome"}', namespace="weather"),
        call_item("call_2", "list_all", ""),
        {"type": "future_item", "payload": {"a": [1]}},
    ]
    provider = PlayedProvider(responses_stream(*items))
    events: list[Event] = []
    answer = await model(provider).respond(HELLO, events.append)
    assert events == [TextDelta("Looking.")]
    assert answer.stop == "tool_calls"
    assert answer.usage == Usage(7, 3, cache_read_tokens=2, requests=1)
    assert [type(part) for part in answer.message.parts] == [
        Thinking,
        ProviderBlock,
        Text,
        ToolCall,
        ToolCall,
        ProviderBlock,
    ]
    assert [call.arguments for call in answer.message.tool_calls] == [{"location": "Rome"}, {}]
    body = model(provider).request_body(ModelRequest("", (user_message("hello"), answer.message)))
    assert body["input"][1:] == items


async def test_an_item_with_several_texts_and_a_refusal_comes_back_as_one_item() -> None:
    item = message_item("One.")
    item["content"] = [*item["content"], {"type": "refusal", "refusal": "No."}]
    provider = PlayedProvider(sse())
    answer = model(provider).read_answer({"status": "completed", "output": [message_item("Zero."), item]}, HELLO)
    assert (answer.stop, answer.message.text) == ("refusal", "Zero.One.No.")
    body = model(provider).request_body(ModelRequest("", (user_message("hello"), answer.message)))
    assert body["input"][1:] == [message_item("Zero."), item]


@each_row(
    "name, asked",
    [("gpt-5.4", True), ("gpt-6-sol", True), ("o4-mini", True), ("gpt-4o", False), ("gpt-5.2-chat-latest", False)],
)
def test_reasoning_is_asked_for_where_there_is_some(name: str, asked: bool) -> None:
    body = OpenAIResponsesModel(name).request_body(HELLO)
    assert body.get("include") == (["reasoning.encrypted_content"] if asked else None)


async def test_thoughts_are_shown_as_they_come() -> None:
    answer = {"status": "completed", "output": [message_item("ok")], "usage": None}
    provider = PlayedProvider(
        sse(
            {"type": "response.reasoning_summary_text.delta", "delta": "Hmm"},
            {"type": "response.refusal.delta", "delta": "No"},
            {"type": "response.completed", "response": answer},
        )
    )
    events: list[Event] = []
    await model(provider).respond(HELLO, events.append)
    assert events == [ThinkingDelta("Hmm"), TextDelta("No")]


async def test_a_last_event_without_items_is_completed_from_the_items_that_came() -> None:
    provider = PlayedProvider(
        sse(
            {"type": "response.output_item.done", "output_index": 1, "item": message_item("second")},
            {"type": "response.output_item.done", "output_index": 0, "item": {"type": "reasoning", "summary": []}},
            {"type": "response.completed", "response": {"status": "completed", "output": []}},
        )
    )
    answer = await model(provider).respond(HELLO, ignore)
    assert [type(part) for part in answer.message.parts] == [Thinking, Text]


@each_row("arguments", ['{"location": "Ro', '{"location": "Rome"}', ""])
async def test_a_call_at_which_the_answer_was_cut_off_is_never_whole(arguments: str) -> None:
    cut_call = call_item("call_2", "get_weather", arguments) | {"status": "incomplete"}
    provider = PlayedProvider(
        responses_stream(
            call_item("call_1", "get_weather", '{"location": "Oslo"}'),
            cut_call,
            status="incomplete",
            reason="max_output_tokens",
        )
    )
    answer = await model(provider).respond(HELLO, ignore)
    assert answer.stop == "length"
    whole, cut = answer.message.tool_calls
    assert not whole.malformed
    assert cut.malformed


async def test_malformed_arguments_are_kept_and_sent_back_as_they_came() -> None:
    item = call_item("call_1", "get_weather", '{"location": "Rome"')
    provider = PlayedProvider(responses_stream(item))
    answer = await model(provider).respond(HELLO, ignore)
    [call] = answer.message.tool_calls
    assert (call.malformed, call.arguments) == ('{"location": "Rome"', {})
    assert model(provider).request_body(ModelRequest("", (answer.message,)))["input"] == [item]


async def test_what_another_provider_thought_or_signed_is_not_sent() -> None:
    foreign = Message(
        "assistant",
        (
            Thinking("secret", {"type": "thinking", "signature": "x"}),
            ProviderBlock({"type": "server_tool_use"}),
            Text("Hi.", provider_data={"citations": []}),
            ToolCall("toolu_1", "f", {"a": 1}, provider_data={"caller": {"type": "direct"}}),
        ),
        origin=Origin("anthropic"),
    )
    body = model(PlayedProvider(sse())).request_body(ModelRequest("", (foreign,)))
    assert body["input"] == [
        {"role": "assistant", "content": "Hi."},
        {"type": "function_call", "call_id": "toolu_1", "name": "f", "arguments": '{"a":1}'},
    ]


@each_row(
    "event, status, retryable",
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "slow down", "param": None}, 429, True),
        (
            {
                "type": "response.failed",
                "response": {"status": "failed", "error": {"code": "server_error", "message": "oops"}},
            },
            500,
            True,
        ),
        (
            {
                "type": "response.failed",
                "response": {
                    "status": "failed",
                    "error": {"code": "context_length_exceeded", "message": "Your input exceeds the context window"},
                },
            },
            None,
            False,
        ),
    ],
)
async def test_an_error_inside_the_stream_is_an_error(
    event: dict[str, object], status: int | None, retryable: bool
) -> None:
    with pytest.raises(ModelError) as caught:
        await model(PlayedProvider(sse(event)), max_retries=0).respond(HELLO, ignore)
    assert (caught.value.status, caught.value.retryable) == (status, retryable)


async def test_a_stream_without_its_end_is_no_answer() -> None:
    item = call_item("call_1", "f", "{}")
    provider = PlayedProvider(sse({"type": "response.output_item.done", "output_index": 0, "item": item}))
    with pytest.raises(ModelError, match="cut off"):
        await model(provider, max_retries=0).respond(HELLO, ignore)


@each_row("status", ["failed", "cancelled"])
async def test_an_answer_that_its_provider_gave_up_is_asked_for_again(status: str) -> None:
    error = {"code": "server_error", "message": "overloaded"} if status == "failed" else None
    played = PlayedProvider(responses_stream(status=status, error=error), responses_stream(message_item("Fine.")))
    waits = Waits()
    answer = await model(played, sleep=waits).respond(HELLO, ignore)
    assert answer.message.text == "Fine."
    assert len(waits.seconds) == 1
