"""Anthropic's Messages API: what is sent, byte for byte, and what is made of what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mcpagent.errors import ModelError
from mcpagent.models import AnthropicModel, ModelRequest, ModelSettings
from mcpagent.values.events import Event, TextDelta, ThinkingDelta, ToolsSearched, ignore
from mcpagent.values.messages import (
    Message,
    Origin,
    ProviderBlock,
    Text,
    Thinking,
    ToolCall,
    ToolsChanged,
    Usage,
    user_message,
)
from tests.tables import each_row
from tests.wire.provider import PlayedProvider, anthropic_stream, sse, text_block, tool_block
from tests.wire.scene import PNG, SEARCH, SVG_LEFT_OUT, WEATHER, whole_request

CACHED = {"type": "ephemeral"}
HELLO = ModelRequest("", (user_message("hello"),))


def model(provider: PlayedProvider, **options: object) -> AnthropicModel:
    return AnthropicModel("claude-x", api_key="key", http_client=provider.http_client, **options)  # type: ignore[arg-type]


async def test_the_whole_request_body() -> None:
    provider = PlayedProvider(anthropic_stream(text_block("Sunny.")))
    await model(provider).respond(whole_request(), ignore)
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    assert provider.bodies == [
        {
            "model": "claude-x",
            "max_tokens": 32_000,
            "tools": [
                {"name": "search_tools", "description": "Finds tools.", "input_schema": SEARCH.parameters},
                {"name": "get_weather", "description": "Weather of a place.", "input_schema": WEATHER.parameters},
                {"name": "a_tool", "description": "", "input_schema": {"type": "object", "properties": {}}},
            ],
            "system": [{"type": "text", "text": "You help.", "cache_control": CACHED}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Weather in Rome and Paris?"}]},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "text", "text": "Let me look."},
                        {"type": "tool_use", "id": "call_1", "name": "get_weather", "input": {"location": "Rome"}},
                        {"type": "tool_use", "id": "call_2", "name": "get_weather", "input": {"location": "Paris"}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "call_1",
                            "content": [{"type": "text", "text": "21 C"}, image],
                        },
                        {
                            "type": "tool_result",
                            "tool_use_id": "call_2",
                            "content": [{"type": "text", "text": "no such place"}],
                            "is_error": True,
                        },
                        {"type": "text", "text": "And this one?"},
                        image,
                        {"type": "text", "text": SVG_LEFT_OUT},
                    ],
                },
            ],
            "cache_control": CACHED,
            "stream": True,
        }
    ]
    request = provider.requests[0]
    assert str(request.url) == "https://api.anthropic.com/v1/messages"
    assert request.headers["authorization"] == "Bearer key"


async def test_tool_choice_none_keeps_the_tools_and_settings_are_sent() -> None:
    provider = PlayedProvider(anthropic_stream(text_block("ok")))
    settings = ModelSettings(temperature=0.5, extra={"top_k": 3})
    request = whole_request(tool_choice="none", settings=settings, system="")
    await model(provider, settings=ModelSettings(max_output_tokens=99, temperature=1)).respond(request, ignore)
    [body] = provider.bodies
    assert body["tool_choice"] == {"type": "none"}
    assert [tool["name"] for tool in body["tools"]] == ["search_tools", "get_weather", "a_tool"]
    assert "system" not in body
    assert [tool.get("cache_control") for tool in body["tools"]] == [None, None, CACHED]
    assert (body["max_tokens"], body["temperature"], body["top_k"]) == (99, 0.5, 3)


async def test_the_same_request_is_the_same_bytes() -> None:
    provider = PlayedProvider(anthropic_stream(text_block("ok")))
    for _ in range(2):
        await model(provider).respond(whole_request(), ignore)
    assert provider.requests[0].content == provider.requests[1].content


async def test_a_streamed_answer_with_thinking_search_and_parallel_calls_is_kept_and_replayed_whole() -> None:
    searched = {
        "type": "tool_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": {
            "type": "tool_search_tool_search_result",
            "tool_references": [{"type": "tool_reference", "tool_name": "get_weather"}],
        },
    }
    provider = PlayedProvider(
        anthropic_stream(
            [
                {"type": "thinking", "thinking": "", "signature": ""},
                {"type": "thinking_delta", "thinking": "Hmm"},
                {"type": "thinking_delta", "thinking": "."},
                {"type": "signature_delta", "signature": "sig=="},
            ],
            [{"type": "redacted_thinking", "data": "enc"}],
            text_block("Looking."),
            [
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_bm25", "input": {}},
                {"type": "input_json_delta", "partial_json": '{"query": "weather", "limit": 5}'},
            ],
            [searched],
            [{"type": "future_block", "payload": {"a": [1]}}, {"type": "future_delta", "note": "x"}],
            tool_block("toolu_1", "get_weather", '{"location": "Rome"}'),
            tool_block("toolu_2", "list_all", ""),
            stop="tool_use",
            usage={
                "input_tokens": 10,
                "output_tokens": 20,
                "cache_read_input_tokens": 300,
                "cache_creation_input_tokens": 40,
            },
        )
    )
    events: list[Event] = []
    asked = ModelRequest("", (user_message("hello"),), deferred_tools=(WEATHER,))
    answer = await model(provider).respond(asked, events.append)

    assert events == [
        ThinkingDelta("Hmm"),
        ThinkingDelta("."),
        TextDelta("Loo"),
        TextDelta("king."),
        ToolsSearched("weather", 1, ("get_weather",), 1, 0.0),
    ]
    assert answer.stop == "tool_calls"
    assert answer.usage == Usage(350, 20, cache_read_tokens=300, cache_write_tokens=40, requests=1)
    assert answer.message.origin == Origin("anthropic", "messages", "api.anthropic.com", "claude-x")
    assert [type(part) for part in answer.message.parts] == [
        Thinking,
        Thinking,
        Text,
        ProviderBlock,
        ProviderBlock,
        ToolsChanged,
        ProviderBlock,
        ToolCall,
        ToolCall,
    ]
    assert [call.arguments for call in answer.message.tool_calls] == [{"location": "Rome"}, {}]

    body = model(provider).request_body(ModelRequest("", (user_message("hello"), answer.message), (WEATHER,)))
    direct = {"type": "direct"}
    assert body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "Hmm.", "signature": "sig=="},
        {"type": "redacted_thinking", "data": "enc"},
        {"type": "text", "text": "Looking."},
        {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "tool_search_tool_bm25",
            "input": {"query": "weather", "limit": 5},
        },
        searched,
        {"type": "future_block", "payload": {"a": [1]}, "note": "x"},
        {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"location": "Rome"}, "caller": direct},
        {"type": "tool_use", "id": "toolu_2", "name": "list_all", "input": {}, "caller": direct},
    ]


async def test_what_another_provider_thought_or_signed_is_not_sent() -> None:
    foreign = Message(
        "assistant",
        (
            Thinking("secret", {"type": "reasoning", "encrypted_content": "x"}),
            ProviderBlock({"type": "web_search_call"}),
            Text("Hi.", provider_data={"item": {"id": "msg_1"}}),
            ToolCall("functions.f:0", "f.g", {"a": 1}, provider_data={"arguments": "{}"}),
        ),
        origin=Origin("openai"),
    )
    body = model(PlayedProvider(sse())).request_body(ModelRequest("", (user_message("x"), foreign)))
    text, call = body["messages"][1]["content"]
    assert text == {"type": "text", "text": "Hi."}
    assert call.keys() == {"type", "id", "name", "input"}
    assert (call["name"], call["input"]) == ("f_g", {"a": 1})
    assert call["id"].startswith("call_")


@each_row("arguments", ['{"location": "Ro', '["Rome"]', '{"a": NaN}', '{"a": 1} trailing'])
async def test_malformed_arguments_are_kept_and_never_repaired(arguments: str) -> None:
    provider = PlayedProvider(anthropic_stream(tool_block("toolu_1", "get_weather", arguments), stop="tool_use"))
    answer = await model(provider).respond(HELLO, ignore)
    [call] = answer.message.tool_calls
    assert (call.malformed, call.arguments) == (arguments, {})


@each_row("arguments", ['{"location": "Ro', '{"location": "Rome"}', ""])
async def test_a_call_at_which_the_answer_was_cut_off_is_never_whole(arguments: str) -> None:
    provider = PlayedProvider(
        anthropic_stream(
            tool_block("toolu_1", "get_weather", '{"location": "Oslo"}'),
            tool_block("toolu_2", "get_weather", arguments),
            stop="max_tokens",
        )
    )
    answer = await model(provider).respond(HELLO, ignore)
    assert answer.stop == "length"
    whole, cut = answer.message.tool_calls
    assert not whole.malformed
    assert cut.malformed
    assert cut.arguments == {}


@each_row(
    "reason, stop",
    [("end_turn", "end"), ("refusal", "refusal"), ("model_context_window_exceeded", "length"), ("new_reason", "end")],
)
async def test_stop_reasons(reason: str, stop: str) -> None:
    provider = PlayedProvider(anthropic_stream(text_block("text"), stop=reason))
    assert (await model(provider).respond(HELLO, ignore)).stop == stop


async def test_missing_and_repeated_call_ids_become_distinct() -> None:
    provider = PlayedProvider(
        anthropic_stream(*(tool_block(call_id, "f", "{}") for call_id in ("a", "", "a", "")), stop="tool_use")
    )
    answer = await model(provider).respond(HELLO, ignore)
    ids = [call.id for call in answer.message.tool_calls]
    assert len(set(ids)) == 4
    assert ids[0] == "a"


async def test_a_paused_turn_is_continued_and_counted() -> None:
    provider = PlayedProvider(
        anthropic_stream(text_block("One. "), stop="pause_turn"), anthropic_stream(text_block("Two."))
    )
    answer = await model(provider).respond(HELLO, ignore)
    assert (answer.message.text, answer.stop) == ("One. Two.", "end")
    assert answer.usage == Usage(14, 6, requests=2)
    assert provider.bodies[1]["messages"][1:] == [{"role": "assistant", "content": [{"type": "text", "text": "One. "}]}]


async def test_a_stream_without_its_end_is_no_answer() -> None:
    start = {"type": "message_start", "message": {"content": [], "usage": {}}}
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "f"}}
    provider = PlayedProvider(sse(start, block))
    with pytest.raises(ModelError, match="cut off") as caught:
        await model(provider, max_retries=0).respond(HELLO, ignore)
    assert caught.value.retryable
    assert caught.value.status is None


async def test_half_a_surrogate_pair_in_a_result_does_not_break_the_request() -> None:
    provider = PlayedProvider(anthropic_stream(text_block("ok")))
    await model(provider).respond(ModelRequest("", (user_message("bad \ud83d text"),)), ignore)
    assert provider.bodies[0]["messages"][0]["content"][0]["text"] == "bad ? text"


async def test_betas_are_sent_as_a_header() -> None:
    provider = PlayedProvider(anthropic_stream(text_block("ok")))
    await model(provider, betas=("a-2026", "b-2026")).respond(HELLO, ignore)
    assert provider.requests[0].headers["anthropic-beta"] == "a-2026,b-2026"
    assert provider.requests[0].url.params["beta"] == "true"


async def test_what_a_delta_tells_of_itself_is_not_the_blocks() -> None:
    thought: list[Mapping[str, Any]] = [
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "", "estimated_tokens": 120},
        {"type": "thinking_delta", "thinking": "Hm.", "estimated_tokens": 240},
        {"type": "signature_delta", "signature": "s"},
    ]
    played = PlayedProvider(anthropic_stream(thought, text_block("Fine.")))
    answer = await model(played).respond(HELLO, ignore)
    body = model(played).request_body(ModelRequest("", (*HELLO.messages, answer.message, user_message("And now?"))))
    assert body["messages"][1]["content"][0] == {"type": "thinking", "thinking": "Hm.", "signature": "s"}


async def test_an_answer_that_ends_with_a_compaction_goes_on() -> None:
    compaction: list[Mapping[str, Any]] = [
        {"type": "compaction", "content": None},
        {"type": "compaction_delta", "content": "They greeted.", "encrypted_content": None},
    ]
    played = PlayedProvider(anthropic_stream(compaction, stop="compaction"), anthropic_stream(text_block("Fine.")))
    answer = await model(played).respond(HELLO, ignore)
    assert (answer.message.text, answer.stop, answer.usage.requests) == ("Fine.", "end", 2)
    kept = {"type": "compaction", "content": "They greeted.", "encrypted_content": None}
    assert played.bodies[1]["messages"][-1] == {"role": "assistant", "content": [kept]}
