"""Chat Completions: what is sent, byte for byte, and what is made of what comes back, from OpenAI and from others."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from mcpagent.errors import ModelError
from mcpagent.models import ModelRequest, ModelSettings, OpenAIChatModel
from mcpagent.values.events import Event, TextDelta, ThinkingDelta, ignore
from mcpagent.values.messages import Message, Origin, Text, Thinking, ToolCall, ToolDefinition, Usage, user_message
from tests.tables import each_row
from tests.wire.provider import PlayedProvider, Waits, chat_stream, failed, sse
from tests.wire.scene import PNG, SEARCH, SVG_LEFT_OUT, WEATHER, whole_request

HELLO = ModelRequest("", (user_message("hello"),))


def model(played: PlayedProvider, **options: object) -> OpenAIChatModel:
    return OpenAIChatModel("m", api_key="key", http_client=played.http_client, **options)  # type: ignore[arg-type]


def local(played: PlayedProvider) -> OpenAIChatModel:
    return model(played, provider="ollama", base_url="http://localhost:11434/v1")


def function(name: str, arguments: object, call_id: str = "", **extra: object) -> dict[str, object]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}, **extra}


async def test_the_whole_request_body() -> None:
    provider = PlayedProvider(chat_stream({"role": "assistant", "content": "Sunny."}))
    await model(provider).respond(whole_request(), ignore)
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    assert provider.bodies == [
        {
            "model": "m",
            "tools": [
                {"type": "function", "function": shown}
                for shown in (
                    {"name": "search_tools", "description": "Finds tools.", "parameters": SEARCH.parameters},
                    {"name": "get_weather", "description": "Weather of a place.", "parameters": WEATHER.parameters},
                    {"name": "a_tool", "description": "", "parameters": {"type": "object", "properties": {}}},
                )
            ],
            "messages": [
                {"role": "system", "content": "You help."},
                {"role": "user", "content": "Weather in Rome and Paris?"},
                {
                    "role": "assistant",
                    "content": "Let me look.  ",
                    "tool_calls": [
                        function("get_weather", '{"location":"Rome"}', "call_1"),
                        function("get_weather", '{"location":"Paris"}', "call_2"),
                    ],
                },
                {"role": "tool", "tool_call_id": "call_1", "content": "21 C\n[1 image(s) in the next message]"},
                {"role": "tool", "tool_call_id": "call_2", "content": "Error: no such place"},
                {"role": "user", "content": [{"type": "text", "text": "From the result of get_weather:"}, image]},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "And this one?"},
                        image,
                        {"type": "text", "text": SVG_LEFT_OUT},
                    ],
                },
            ],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ]
    assert str(provider.requests[0].url) == "https://api.openai.com/v1/chat/completions"


async def test_tool_choice_none_keeps_the_tools_and_the_output_limit_has_the_servers_name() -> None:
    provider = PlayedProvider(chat_stream({"content": "ok"}))
    request = whole_request(tool_choice="none", settings=ModelSettings(max_output_tokens=9, temperature=0))
    await model(provider).respond(request, ignore)
    await local(provider).respond(request, ignore)
    openai, ollama = provider.bodies
    assert openai["tool_choice"] == "none"
    assert len(openai["tools"]) == 3
    assert (openai["max_completion_tokens"], ollama["max_tokens"]) == (9, 9)
    assert (openai["temperature"], ollama["temperature"]) == (0, 0)
    assert provider.requests[1].url.host == "localhost"


async def test_a_streamed_answer_with_reasoning_and_parallel_calls_is_kept_and_replayed_whole() -> None:
    signature = {"google": {"thought_signature": "sig=="}}
    provider = PlayedProvider(
        chat_stream(
            {"role": "assistant", "content": ""},
            {"reasoning_content": "Hm"},
            {"reasoning_content": "m."},
            {"content": "Look"},
            {"content": "ing."},
            {"tool_calls": [{"index": 0, **function("get_weather", "", "call_1"), "extra_content": signature}]},
            {"tool_calls": [{"index": 1, **function("list_all", "", "call_2")}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": '{"location": '}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": '"Rome"}'}}]},
            finish="tool_calls",
            usage={"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 64}},
        )
    )
    events: list[Event] = []
    answer = await model(provider).respond(HELLO, events.append)
    assert events == [ThinkingDelta("Hm"), ThinkingDelta("m."), TextDelta("Look"), TextDelta("ing.")]
    assert answer.stop == "tool_calls"
    assert answer.usage == Usage(100, 5, cache_read_tokens=64, requests=1)
    assert [type(part) for part in answer.message.parts] == [Thinking, Text, ToolCall, ToolCall]
    assert [call.arguments for call in answer.message.tool_calls] == [{"location": "Rome"}, {}]
    body = model(provider).request_body(ModelRequest("", (answer.message,)))
    assert body["messages"] == [
        {
            "role": "assistant",
            "content": "Looking.",
            "reasoning_content": "Hmm.",
            "tool_calls": [
                function("get_weather", '{"location": "Rome"}', "call_1", extra_content=signature),
                function("list_all", "{}", "call_2"),
            ],
        }
    ]


async def test_calls_of_servers_that_send_no_index_or_the_same_one() -> None:
    whole = [function("f", '{"a":1}', "x"), function("g", '{"b":2}', "y")]
    for deltas in (
        [{"tool_calls": whole}],
        [{"tool_calls": [{"index": 0, **call}]} for call in whole],
        [{"tool_calls": [call]} for call in whole],
    ):
        answer = await local(PlayedProvider(chat_stream(*deltas))).respond(HELLO, ignore)
        assert [(call.name, call.arguments, call.id) for call in answer.message.tool_calls] == [
            ("f", {"a": 1}, "x"),
            ("g", {"b": 2}, "y"),
        ]
        assert answer.stop == "tool_calls"  # although the server said "stop"


async def test_calls_without_ids_and_with_arguments_as_an_object() -> None:
    calls = [{"function": {"name": "f", "arguments": {"a": 1}}}, {"function": {"name": "f", "arguments": {"a": 2}}}]
    answer = await local(PlayedProvider(chat_stream({"tool_calls": calls}))).respond(HELLO, ignore)
    first, second = answer.message.tool_calls
    assert (first.arguments, second.arguments) == ({"a": 1}, {"a": 2})
    assert first.id
    assert second.id
    assert first.id != second.id


async def test_two_hundred_parallel_calls() -> None:
    deltas = [{"tool_calls": [{"index": n, **function("f", f'{{"n":{n}}}', f"c{n}")}]} for n in range(200)]
    answer = await model(PlayedProvider(chat_stream(*deltas, finish="tool_calls"))).respond(HELLO, ignore)
    assert [call.arguments["n"] for call in answer.message.tool_calls] == list(range(200))


async def test_a_server_that_answers_in_one_piece_although_a_stream_was_asked_for() -> None:
    message: dict[str, object] = {"role": "assistant", "content": "Hi.", "refusal": None, "annotations": []}
    answer = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 4}}
    provider = PlayedProvider(httpx2.Response(200, json=answer))
    response = await local(provider).respond(HELLO, ignore)
    assert (response.message.text, response.stop, response.usage.input_tokens) == ("Hi.", "end", 4)


@each_row("reason", ["length", "max_tokens", "model_length"])
@each_row("arguments", ['{"location": "Ro', '{"location": "Rome"}', ""])
async def test_a_call_at_which_the_answer_was_cut_off_is_never_whole(arguments: str, reason: str) -> None:
    calls = [{"index": 0, **function("f", "{}", "a")}, {"index": 1, **function("f", arguments, "b")}]
    answer = await model(PlayedProvider(chat_stream({"tool_calls": calls}, finish=reason))).respond(HELLO, ignore)
    assert answer.stop == "length"
    whole, cut = answer.message.tool_calls
    assert not whole.malformed
    assert cut.malformed


async def test_a_malformed_call_goes_back_without_arguments_since_servers_parse_them() -> None:
    calls = [{"index": 0, **function("f", '{"a": ', "x")}]
    answer = await model(PlayedProvider(chat_stream({"tool_calls": calls}, finish="tool_calls"))).respond(HELLO, ignore)
    [call] = answer.message.tool_calls
    assert call.malformed == '{"a":'
    body = model(PlayedProvider(sse())).request_body(ModelRequest("", (answer.message,)))
    assert body["messages"][0]["tool_calls"] == [function("f", "{}", "x")]


async def test_a_refusal_is_one() -> None:
    answer = await model(PlayedProvider(chat_stream({"refusal": "I can't."}))).respond(HELLO, ignore)
    assert (answer.stop, answer.message.text) == ("refusal", "I can't.")
    body = model(PlayedProvider(sse())).request_body(ModelRequest("", (answer.message,)))
    assert body["messages"] == [{"role": "assistant", "content": None, "refusal": "I can't."}]


async def test_another_servers_reasoning_is_not_sent_and_long_ids_are_shortened_alike() -> None:
    call_id = "call_" + "x" * 60
    foreign = Message(
        "assistant",
        (Thinking("secret", {"reasoning_content": "secret"}), ToolCall(call_id, "f", {"a": 1})),
        origin=Origin("vllm"),
    )
    body = local(PlayedProvider(sse())).request_body(ModelRequest("", (*HELLO.messages, foreign)))
    _, written = body["messages"]
    assert written.keys() == {"role", "content", "tool_calls"}
    assert len(written["tool_calls"][0]["id"]) <= 40


async def test_a_stream_without_its_end_is_no_answer() -> None:
    chunks = [{"choices": [{"index": 0, "delta": {"content": "Hel"}, "finish_reason": None}]}]
    with pytest.raises(ModelError, match="cut off"):
        await model(PlayedProvider(sse(*chunks, named=False)), max_retries=0).respond(HELLO, ignore)
    with pytest.raises(ModelError, match="cut off"):  # nothing came at all
        await model(PlayedProvider(sse(named=False, done=True)), max_retries=0).respond(HELLO, ignore)


@each_row(
    "delta, stop",
    [
        ({"content": "Hello."}, "end"),
        ({"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": "f", "arguments": "{}"}}]}, "tool_calls"),
    ],
)
async def test_some_servers_say_only_done(delta: dict[str, Any], stop: str) -> None:
    answer = await model(PlayedProvider(chat_stream(delta, finish=None))).respond(HELLO, ignore)
    assert answer.stop == stop
    assert answer.message.text == delta.get("content", "")


@each_row("former", [None, {}, {"name": "", "arguments": ""}, {"name": None, "arguments": "{}"}])
@each_row("is_streamed", [True, False])
async def test_an_empty_function_call_is_none(former: Any, is_streamed: bool) -> None:
    said = {"role": "assistant", "content": "Hello.", "function_call": former}
    whole = httpx2.Response(200, json={"choices": [{"message": said, "finish_reason": "stop"}]})
    answer = await model(PlayedProvider(chat_stream(said) if is_streamed else whole)).respond(HELLO, ignore)
    assert (answer.message.text, answer.message.tool_calls, answer.stop) == ("Hello.", (), "end")


async def test_an_answer_that_its_provider_gave_up_is_asked_for_again() -> None:
    waits = Waits()
    played = PlayedProvider(chat_stream({}, finish="insufficient_system_resource"), chat_stream({"content": "Hello."}))
    answer = await model(played, sleep=waits).respond(HELLO, ignore)
    assert answer.message.text == "Hello."
    assert len(waits.seconds) == 1


async def test_what_groq_says_of_its_own_tools_is_not_sent_back() -> None:
    said = {
        "content": "42.",
        "executed_tools": [{"index": 0, "type": "python"}],
        "channel": "final",
        "reasoning": "Hm.",
    }
    played = PlayedProvider(chat_stream(said))
    groq = model(played, base_url="https://api.groq.com/openai/v1", provider="groq")
    answer = await groq.respond(HELLO, ignore)
    body = groq.request_body(ModelRequest("", (*HELLO.messages, answer.message, user_message("And now?"))))
    assert body["messages"][1] == {"role": "assistant", "content": "42.", "reasoning": "Hm."}


GENERATED = {
    "a form that is known": ('<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>', "f", {"a": 1}, ""),
    "JSON": ('{"name": "f", "arguments": {"a": 1}}', "f", {"a": 1}, ""),
    "one that nobody can read": ('<function=f>{"a": 1', "f", {}, '<function=f>{"a": 1'),
    "words": ("I would call it.", "", {}, "I would call it."),
}


@each_row("case", list(GENERATED))
@each_row("in_stream", [True, False])
async def test_a_call_that_groq_could_not_read_is_the_models_to_put_right(case: str, in_stream: bool) -> None:
    text, name, arguments, malformed = GENERATED[case]
    told = "Failed to call a function. Please adjust your prompt."
    error = {"message": told, "type": "invalid_request_error", "code": "tool_use_failed", "failed_generation": text}
    played = PlayedProvider(sse({"error": error}, named=False) if in_stream else failed(400, {"error": error}))
    groq = model(played, base_url="https://api.groq.com/openai/v1", provider="groq")
    tools = (ToolDefinition("f", "F.", {"type": "object", "properties": {"a": {"type": "integer"}}}),)
    answer = await groq.respond(ModelRequest("", HELLO.messages, tools), ignore)
    [call] = answer.message.tool_calls
    assert (call.name, call.arguments, call.malformed) == (name, arguments, malformed)
    assert (answer.stop, answer.message.text, len(played.requests)) == ("tool_calls", "", 1)


async def test_an_error_inside_the_stream_is_an_error() -> None:
    provider = PlayedProvider(sse({"error": {"message": "boom", "code": 502}}, named=False))
    with pytest.raises(ModelError, match="boom") as caught:
        await model(provider, provider="ollama", max_retries=0).respond(HELLO, ignore)
    assert caught.value.provider == "ollama"
