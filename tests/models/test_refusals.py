"""What a provider refuses, in the words of real servers: left out, asked for otherwise, or tried again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx2
import pytest

from mcpagent.errors import ContextOverflowError, ModelError
from mcpagent.models import ModelRequest, ModelSettings, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.failures_and_retries import ReportedError, read_failure
from mcpagent.values.events import Event, Notice, ignore
from mcpagent.values.messages import Message, Text, ToolCall, ToolResult, user_message
from tests.tables import each_row
from tests.wire.provider import PlayedProvider, Waits, chat_stream, failed, message_item, responses_stream
from tests.wire.scene import SEARCH, WEATHER

HELLO = (user_message("hello"),)
ADDRESS = "https://x.example.com/v1"


def chat(played: PlayedProvider, **more: Any) -> OpenAIChatModel:
    return OpenAIChatModel(
        "m", api_key="k", http_client=played.http_client, sleep=Waits(), **{"base_url": ADDRESS, **more}
    )


def request_of(**settings: Any) -> ModelRequest:
    return ModelRequest("", HELLO, (SEARCH, WEATHER), settings=ModelSettings(**settings))


def notices(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


REFUSALS: Mapping[str, tuple[str, dict[str, Any], Any]] = {
    "Ollama": ("thinking", {"thinking": "low"}, {"error": {"message": '"llama3.2" does not support thinking'}}),
    "Ollama, as a text": ("thinking", {"thinking": "low"}, {"error": '"llama3.2" does not support thinking'}),
    "a gateway's words": ("thinking", {"thinking": "low"}, {"error": {"message": "Reasoning is not supported here"}}),
    "other spelling": ("top_p", {"top_p": 0.5}, {"error": {"message": "Top P is not valid for this model"}}),
    "FastAPI": (
        "seed",
        {"seed": 1},
        {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]},
    ),
    "Mistral": (
        "seed",
        {"seed": 1},
        {
            "object": "error",
            "message": {"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]},
        },
    ),
    "FastAPI, as a text": ("top_p", {"top_p": 0.5}, {"detail": "top_p: unknown field"}),
}


@each_row("case", list(REFUSALS))
async def test_a_refused_setting_is_left_out_whatever_words_refuse_it(case: str) -> None:
    setting, settings, said = REFUSALS[case]
    events: list[Event] = []
    played = PlayedProvider(failed(400, said), chat_stream({"content": "Hello."}))
    answer = await chat(played).respond(request_of(**settings, temperature=0.3), events.append)
    assert answer.message.text == "Hello."
    assert notices(events) == [f"openai-chat:m: {setting} is left out: it was refused"]
    assert played.bodies[-1]["temperature"] == 0.3


async def test_what_fastapi_refuses_is_said() -> None:
    detail = [{"loc": ["body", "messages", 0], "msg": "Field required"}, {"loc": "odd"}, 5]
    with pytest.raises(ModelError, match=r"body\.messages\.0: Field required; is refused"):
        await chat(PlayedProvider(failed(422, {"detail": detail}))).respond(request_of(), ignore)


@each_row("said", ["thinking of the user", "The seed of doubt", "stop sign in messages[0]"])
async def test_words_that_happen_to_be_a_settings_name_refuse_nothing(said: str) -> None:
    played = PlayedProvider(failed(400, {"error": {"message": f"Bad content: {said}"}}))
    with pytest.raises(ModelError):
        await chat(played).respond(request_of(thinking="low"), ignore)
    assert len(played.requests) == 1


OPTIONS: Mapping[str, tuple[str, Any]] = {
    "OpenAI's words": ("include", {"error": {"message": "Unknown parameter: 'include'.", "param": "include"}}),
    "FastAPI's": ("include", {"detail": [{"loc": ["body", "include"], "msg": "Extra inputs are not permitted"}]}),
    "store": ("store", {"error": {"message": "'store' is not supported"}}),
}


@each_row("case", list(OPTIONS))
async def test_a_gateway_that_does_not_know_what_is_asked_for_beside_the_answer_is_asked_without(case: str) -> None:
    field, said = OPTIONS[case]
    played = PlayedProvider(failed(400, said), responses_stream(message_item("Hello.")))
    model = OpenAIResponsesModel("m", api_key="k", base_url=ADDRESS, http_client=played.http_client)
    events: list[Event] = []
    for _ in range(2):
        assert (await model.respond(request_of(), events.append)).message.text == "Hello."
    assert [field in body for body in played.bodies] == [True, False, False]
    assert not notices(events)


async def test_usage_is_not_demanded_where_it_cannot_be_asked_for() -> None:
    said = {"error": {"message": "Unrecognized request argument supplied: stream_options"}}
    played = PlayedProvider(failed(400, said), chat_stream({"content": "Hello."}))
    await chat(played).respond(request_of(), ignore)
    assert ["stream_options" in body for body in played.bodies] == [True, False]


@each_row(
    "said",
    [
        "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
        "Messages must include a user's message: that is not supported",
    ],
)
async def test_what_only_mentions_such_a_field_does_not_take_it_away(said: str) -> None:
    played = PlayedProvider(failed(400, {"error": {"message": said}}))
    model = OpenAIResponsesModel("m", api_key="k", base_url=ADDRESS, http_client=played.http_client)
    with pytest.raises(ModelError):
        await model.respond(request_of(), ignore)
    assert len(played.requests) == 1


ROOM: Mapping[str, tuple[str, int]] = {
    "vLLM": (
        "'max_tokens' or 'max_completion_tokens' is too large: 8000. This model's maximum context length is 8192 tokens"
        " and your request has 1000 input tokens (8000 > 8192 - 1000).",
        7192,
    ),
    "OpenAI and vLLM before": (
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens "
        "(1000 in the messages, 8000 in the completion). Please reduce the length of the messages or completion.",
        7192,
    ),
    "OpenAI": (
        "max_tokens is too large: 8000. This model supports at most 4096 completion tokens, whereas you provided 8000.",
        4096,
    ),
    "Groq": ("`max_tokens` must be less than or equal to `4096`, the maximum value for `max_tokens`", 4096),
    "DeepSeek": ("Invalid max_tokens value, the valid range of max_tokens is [1, 4096]", 4096),
}


@each_row("case", list(ROOM))
async def test_so_long_an_answer_is_not_a_conversation_that_is_too_long(case: str) -> None:
    said, most = ROOM[case]
    played = PlayedProvider(failed(400, {"error": {"message": said}}), chat_stream({"content": "Hello."}))
    answer = await chat(played).respond(request_of(max_output_tokens=8000), ignore)
    assert answer.message.text == "Hello."
    assert [body["max_tokens"] for body in played.bodies] == [8000, most]


async def test_a_conversation_that_leaves_no_room_for_an_answer_is_too_long() -> None:
    said = (
        "This model's maximum context length is 8192 tokens and your request has 8100 input tokens (100 > 8192 - 8100)."
    )
    played = PlayedProvider(failed(400, {"error": {"message": said}}))
    with pytest.raises(ContextOverflowError):
        await chat(played).respond(request_of(max_output_tokens=100), ignore)


async def test_the_limit_is_kept_where_it_has_another_name() -> None:
    message = (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    )
    said = {"error": {"message": message, "param": "max_tokens", "code": "unsupported_parameter"}}
    played = PlayedProvider(failed(400, said), chat_stream({"content": "Hello."}))
    model, events = chat(played), list[Event]()
    for _ in range(2):
        await model.respond(request_of(max_output_tokens=50), events.append)
    assert [body.get("max_completion_tokens") for body in played.bodies] == [None, 50, 50]
    assert "max_tokens" not in played.bodies[-1]
    assert not notices(events)


@each_row(
    "said",
    [
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 1",
        "Missing `reasoning_content` field in the assistant message at message index 1",
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
    ],
)
async def test_a_history_without_reasoning_is_written_as_a_model_wants_it_behind_a_gateway(said: str) -> None:
    call = ToolCall("c1", "get_weather", {"location": "Rome"})
    result = ToolResult("c1", "get_weather", (Text("Rain."),))
    moved = (*HELLO, Message("assistant", (call,)), Message("tool", (result,)))
    played = PlayedProvider(failed(400, {"error": {"message": said}}), chat_stream({"content": "It rains."}))
    request = ModelRequest("", moved, (SEARCH, WEATHER))
    assert (await chat(played).respond(request, ignore)).message.text == "It rains."
    turns = [[turn for turn in body["messages"] if turn["role"] == "assistant"] for body in played.bodies]
    assert [turn.get("reasoning_content") for [turn] in turns] == [None, ""]


GIVEN_UP: Mapping[str, Any] = {
    "an error": {"error": {"type": "overloaded_error", "message": "busy"}},
    "an error as a text": {"error": "overloaded", "choices": []},
    "given up": {
        "choices": [{"message": {"content": "Hal"}, "finish_reason": "insufficient_system_resource"}],
        "usage": {},
    },
}


@each_row("case", list(GIVEN_UP))
async def test_a_failure_in_one_piece_is_tried_again_as_one_in_a_stream_is(case: str) -> None:
    played = PlayedProvider(httpx2.Response(200, json=GIVEN_UP[case]), chat_stream({"content": "Hello."}))
    assert (await chat(played).respond(request_of(), ignore)).message.text == "Hello."


def test_an_error_of_any_shape_is_read() -> None:
    for body in ("busy", 5, None, ["x"], {"message": "busy"}):
        assert read_failure(ReportedError(body)).message
