"""Settings in the same words for every model: what is sent, what is left out and told once, and what is learned."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import httpx2
import pytest
from pydantic import TypeAdapter

from mcpagent import Agent
from mcpagent.errors import ConfigError, ModelError
from mcpagent.models import AnthropicModel, ModelRequest, ModelSettings, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.http_model import HttpModel
from mcpagent.models.model_names import names_in
from mcpagent.models.model_settings import LEVELS, as_texts, merged, settings_of
from mcpagent.models.profiles import UNKNOWN, profile_of
from mcpagent.models.resolve import resolve_model
from mcpagent.values.events import Event, Notice, ignore
from mcpagent.values.messages import Message, Origin, Text, ToolCall, ToolResult, user_message
from tests.tables import each_row
from tests.wire.provider import (
    PlayedProvider,
    anthropic_stream,
    chat_stream,
    failed,
    message_item,
    responses_stream,
    text_block,
)
from tests.wire.scene import SEARCH, WEATHER

HELLO = (user_message("hello"),)
TOOLS = (SEARCH, WEATHER)
CHAT: Mapping[str, tuple[str, str, str]] = {
    "gpt-4o by chat": ("openai-chat", "gpt-4o", "https://api.openai.com/v1"),
    "o3 by chat": ("openai-chat", "o3", "https://api.openai.com/v1"),
    "gemini": ("gemini", "gemini-3-flash", "https://generativelanguage.googleapis.com/v1beta/openai"),
    "mistral": ("mistral", "mistral-large", "https://api.mistral.ai/v1"),
    "deepseek": ("deepseek", "deepseek-reasoner", "https://api.deepseek.com/v1"),
    "groq": ("groq", "openai/gpt-oss-120b", "https://api.groq.com/openai/v1"),
    "xai": ("xai", "grok-5", "https://api.x.ai/v1"),
    "openrouter": ("openrouter", "anthropic/claude-opus-4.8", "https://openrouter.ai/api/v1"),
    "vllm": ("vllm", "qwen3", "http://localhost:8000/v1"),
    "llamacpp": ("llamacpp", "qwen3", "http://localhost:8080/v1"),
    "ollama": ("ollama", "qwen3", "http://localhost:11434/v1"),
    "a gateway": ("openai-chat", "m", "https://gateway.example.com/v1"),
}
MODELS: dict[str, HttpModel] = {
    **{name: AnthropicModel(name) for name in ("claude-opus-5-5", "claude-fable-5-2", "claude-opus-4-6")},
    **{name: AnthropicModel(name) for name in ("claude-sonnet-4-5", "claude-opus-4-1", "claude-3-5-haiku-20241022")},
    **{name: OpenAIResponsesModel(name) for name in ("gpt-5.5", "gpt-5", "gpt-5-pro", "o4-mini", "gpt-4.1", "mine")},
    **{name: OpenAIChatModel(model, provider=who, base_url=url) for name, (who, model, url) in CHAT.items()},
}
EACH: tuple[ModelSettings, ...] = (
    *(ModelSettings(thinking=level) for level in LEVELS),
    *(ModelSettings(thinking=tokens) for tokens in (1024, 10_000, 60_000)),
    ModelSettings(temperature=0.5),
    ModelSettings(top_p=0.9),
    ModelSettings(temperature=0.5, top_p=0.9, thinking="off"),
    ModelSettings(temperature=0.5, thinking="high"),
    ModelSettings(max_output_tokens=10),
    ModelSettings(max_output_tokens=10**7),
    ModelSettings(max_output_tokens=500, thinking="high"),
    ModelSettings(stop=("END", "STOP")),
    ModelSettings(seed=7),
    *(ModelSettings(tool_choice=choice) for choice in ("auto", "none", "required", "get_weather", "nothing")),
    ModelSettings(tool_choice="required", thinking="high", parallel_tool_calls=False),
    ModelSettings(parallel_tool_calls=False),
    ModelSettings(service_tier="auto"),
    ModelSettings(service_tier="flex"),
    *(ModelSettings(cache_ttl=ttl) for ttl in ("5m", "1h", "24h", "30m")),
    ModelSettings(prompt_cache_key="k"),
)


def request_of(settings: ModelSettings) -> ModelRequest:
    return ModelRequest("You help.", HELLO, TOOLS, settings=settings)


def params_of(model: HttpModel) -> TypeAdapter[Any]:
    return params_of_protocol(model.protocol)


@cache  # reading the SDKs' types takes seconds
def params_of_protocol(protocol: str) -> TypeAdapter[Any]:
    from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

    kinds: dict[str, Any] = {
        "messages": MessageCreateParamsStreaming,
        "responses": ResponseCreateParamsStreaming,
        "chat": CompletionCreateParamsStreaming,
    }
    return TypeAdapter(kinds[protocol])


BEYOND: Mapping[str, set[str]] = {
    "mistral": {"random_seed"},
    "deepseek": {"thinking"},
    "openrouter": {"reasoning"},
    "vllm": {"chat_template_kwargs"},
    "llamacpp": {"chat_template_kwargs"},
}
"""Fields that these servers have beside OpenAI's."""


NO_SAMPLING = ("claude-opus-5-5", "claude-fable-5-2", "gpt-5", "gpt-5-pro", "o4-mini", "o3 by chat")
ONE_OF_SAMPLING = ("claude-opus-4-6", "claude-sonnet-4-5", "claude-opus-4-1")
LARGEST = {"claude-opus-4-1": 32_000, "claude-3-5-haiku-20241022": 8192, "claude-sonnet-4-5": 64_000}
ADAPTIVE = ("claude-opus-5-5", "claude-fable-5-2", "claude-opus-4-6")
EFFORTS: Mapping[str, set[str]] = {
    "gpt-5": {"minimal", "low", "medium", "high"},
    "gpt-5-pro": {"high"},
    "o4-mini": {"low", "medium", "high"},
    "o3 by chat": {"low", "medium", "high"},
    "gpt-5.5": {"none", "low", "medium", "high", "xhigh"},
    "gpt-4.1": set(),
    "gpt-4o by chat": set(),
}


def refuses(name: str, body: Mapping[str, Any]) -> str:
    """Why the provider would not take the request, by what its documentation says; "" if it would."""
    sampling = [key for key in ("temperature", "top_p") if key in body]
    if (name in NO_SAMPLING and sampling) or (name in ONE_OF_SAMPLING and len(sampling) == 2):
        return f"{name} takes no {sampling}"
    if name.startswith("claude"):
        return refused_by_anthropic(name, body, sampling)
    effort = body.get("reasoning_effort") or body.get("reasoning", {}).get("effort")
    if effort and effort not in EFFORTS.get(name, {effort}):
        return f"effort {effort}"
    if name == "gpt-5.5" and sampling and effort != "none":
        return "temperature"
    return "stop" if "stop" in body and name == "o3 by chat" else ""


def refused_by_anthropic(name: str, body: Mapping[str, Any], sampling: list[str]) -> str:
    thinking = body.get("thinking", {})
    budget = thinking.get("budget_tokens", 0)
    never = name.startswith("claude-3-5") or (name == "claude-fable-5-2" and thinking.get("type") == "disabled")
    reasons = {
        "max_tokens": body["max_tokens"] > LARGEST.get(name, 128_000),
        "thinking.type": thinking.get("type") == ("enabled" if name in ADAPTIVE else "adaptive"),
        "thinking": bool(thinking) and never,
        "budget_tokens": bool(budget) and (not 1024 <= budget < body["max_tokens"] or bool(sampling)),
        "tool_choice": bool(budget) and body.get("tool_choice", {}).get("type") in ("any", "tool"),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


@pytest.mark.slow
@each_row("name", list(MODELS))
def test_no_setting_makes_a_request_that_is_refused(name: str) -> None:
    model = MODELS[name]
    for settings in EACH:
        body = json.loads(json.dumps(model.request_body(request_of(settings))))
        params_of(model).validate_python({**body, "model": "m"})
        assert refuses(name, body) == "", settings
        # What was set is there, or it is told why it is not.
        left_out = model.settings_of(request_of(settings)).left_out
        plain = model.request_body(request_of(ModelSettings()))
        changed = {key for key in {*body, *plain} if body.get(key) != plain.get(key)}
        as_it_is = {"thinking": "off", "cache_ttl": "5m", "tool_choice": "auto"}  # off where nothing thinks
        assert changed or left_out or settings.given().items() <= as_it_is.items(), settings


@each_row("name", list(MODELS))
def test_a_body_has_only_fields_that_its_server_knows(name: str) -> None:
    from typing import get_type_hints

    model = MODELS[name]
    kind: Any = params_of(model)._type
    former = {"temperature", "top_p"} if model.protocol == "messages" else set[str]()  # for older models only
    known = {*get_type_hints(kind), *BEYOND.get(name, ()), *former}
    for settings in EACH:
        assert known >= model.request_body(request_of(settings)).keys(), settings


async def test_what_is_left_out_is_told_once() -> None:
    events: list[Event] = []
    played = PlayedProvider(anthropic_stream(text_block("Hello.")))
    model = AnthropicModel("claude-opus-5-5", api_key="k", http_client=played.http_client)
    settings = ModelSettings(temperature=0.2, seed=1)
    for _ in range(2):
        await model.respond(ModelRequest("", HELLO, settings=settings), events.append)
    assert sorted(event.text for event in events if isinstance(event, Notice)) == [
        "anthropic:claude-opus-5-5: seed is left out: its API knows none",
        "anthropic:claude-opus-5-5: temperature is left out: it takes none",
    ]


REFUSALS: Mapping[str, dict[str, Any]] = {
    "OpenAI": {
        "message": "Unsupported parameter: 'temperature' is not supported with this model.",
        "param": "temperature",
        "code": "unsupported_parameter",
    },
    "OpenAI, of a value": {"message": "Unsupported value: only 1 is supported.", "param": "temperature"},
    "Groq": {"message": "property 'temperature' is unsupported"},
    "Gemini": {"message": 'Invalid JSON payload received. Unknown name "temperature": Cannot find field.'},
}


@each_row("case", list(REFUSALS))
async def test_what_a_provider_refuses_is_left_out_from_then_on(case: str) -> None:
    events: list[Event] = []
    played = PlayedProvider(failed(400, {"error": REFUSALS[case]}), chat_stream({"content": "Hello."}))
    model = OpenAIChatModel("m", api_key="k", base_url="https://x.example.com/v1", http_client=played.http_client)
    request = ModelRequest("", HELLO, settings=ModelSettings(temperature=0.2, top_p=0.5))
    for _ in range(2):
        assert (await model.respond(request, events.append)).message.text == "Hello."
    assert ["temperature" in body for body in played.bodies] == [True, False, False]
    assert all(body["top_p"] == 0.5 for body in played.bodies)
    told = [event.text for event in events if isinstance(event, Notice)]
    assert told == ["openai-chat:m: temperature is left out: it was refused"]


NOT_OF_A_SETTING: Mapping[str, str] = {
    "what nobody set": "Invalid 'messages[0].content': expected a string",
    "a conversation that is too long": "maximum context length is 8192 tokens; reduce messages or max_tokens",
}


@each_row("case", list(NOT_OF_A_SETTING))
async def test_other_refusals_are_errors_at_once(case: str) -> None:
    played = PlayedProvider(failed(400, {"error": {"message": NOT_OF_A_SETTING[case]}}))
    model = OpenAIChatModel("m", api_key="k", base_url="https://x.example.com/v1", http_client=played.http_client)
    settings = ModelSettings(temperature=0.2, max_output_tokens=500)
    with pytest.raises(ModelError):
        await model.respond(ModelRequest("", HELLO, settings=settings), ignore)
    assert len(played.requests) == 1


def test_headers_are_not_shown() -> None:
    assert "secret" not in repr(ModelSettings(headers={"X-Key": "secret"}))


async def test_a_refusal_of_what_nobody_set_is_an_error() -> None:
    error = {"message": "Invalid 'messages[0].content'", "param": "messages[0].content"}
    played = PlayedProvider(failed(400, {"error": error}))
    model = OpenAIChatModel("m", api_key="k", http_client=played.http_client)
    with pytest.raises(ModelError, match="messages"):
        await model.respond(ModelRequest("", HELLO, settings=ModelSettings(temperature=0.2)), ignore)
    assert len(played.requests) == 1


@each_row(
    "model, asked",
    [
        ("gpt-5.5", True),
        ("o3", True),
        ("gpt-5-mini-2025-08-07", True),
        ("ft:gpt-5-mini:me::id", True),
        ("gpt-4o", False),
        ("ft:gpt-4o-2024-08-06:me::id", False),
        ("ft:gpt-4.1-mini-2025-04-14:me::id", False),
        ("gpt-5-chat-latest", False),
        ("gpt-5.3-chat-latest", False),
        ("chatgpt-4o-latest", False),
        ("my-deployment", True),  # until it says that it has none
    ],
)
def test_who_is_asked_for_encrypted_reasoning(model: str, asked: bool) -> None:
    body = OpenAIResponsesModel(model).request_body(ModelRequest("", HELLO))
    assert ("include" in body) is asked


async def test_a_deployment_of_any_name_says_that_it_does_not_reason() -> None:
    said = "Encrypted content is not supported with this model."
    refusal = failed(400, {"error": {"message": said, "type": "invalid_request_error", "param": "include"}})
    played = PlayedProvider(refusal, responses_stream(message_item("Hello.")))
    model = OpenAIResponsesModel(
        "my-deployment", api_key="k", base_url="https://mine.openai.azure.com/openai/v1", http_client=played.http_client
    )
    events: list[Event] = []
    for _ in range(2):
        await model.respond(ModelRequest("", HELLO), events.append)
    assert ["include" in body for body in played.bodies] == [True, False, False]
    assert not [event for event in events if isinstance(event, Notice)]


@each_row(
    "said, most",
    [
        ("max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for claude-x", 8192),
        ("input length and `max_tokens` exceed context limit: 170000 + 32000 > 200000, decrease input length", 30_000),
    ],
)
async def test_an_answer_that_is_too_long_is_asked_for_shorter(said: str, most: int) -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
    played = PlayedProvider(failed(400, error), anthropic_stream(text_block("Hello.")))
    model = AnthropicModel("claude-x", api_key="k", http_client=played.http_client)
    assert (await model.respond(ModelRequest("", HELLO), ignore)).message.text == "Hello."
    assert [body["max_tokens"] for body in played.bodies] == [32_000, most]


async def test_a_server_that_always_wants_it_otherwise_is_not_asked_without_end() -> None:
    def refusal(most: int) -> httpx2.Response:
        said = f"max_tokens: 32000 > {most}, which is the maximum allowed number of output tokens"
        return failed(400, {"type": "error", "error": {"type": "invalid_request_error", "message": said}})

    played = PlayedProvider(*(refusal(20_000 - number) for number in range(1_000)))
    model = AnthropicModel("claude-x", api_key="k", http_client=played.http_client)
    with pytest.raises(ModelError, match="max_tokens"):
        await model.respond(ModelRequest("", HELLO), ignore)
    assert len(played.requests) < 12


async def test_a_refused_choice_of_tools_does_not_take_away_that_none_is_to_be_called() -> None:
    error = {"message": "Unsupported value: 'tool_choice' must be auto", "param": "tool_choice"}
    played = PlayedProvider(failed(400, {"error": error}), chat_stream({"content": "Hello."}))
    model = OpenAIChatModel("m", api_key="k", base_url="https://x.example.com/v1", http_client=played.http_client)
    settings = ModelSettings(tool_choice="required")
    await model.respond(ModelRequest("", HELLO, TOOLS, settings=settings), ignore)
    await model.respond(ModelRequest("", HELLO, TOOLS, tool_choice="none", settings=settings), ignore)
    assert [body.get("tool_choice") for body in played.bodies] == ["required", None, "none"]


async def test_a_conversation_that_leaves_no_room_is_too_long() -> None:
    said = "input length and `max_tokens` exceed context limit: 199900 + 32000 > 200000, decrease input length"
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
    played = PlayedProvider(failed(400, error))
    model = AnthropicModel("claude-x", api_key="k", http_client=played.http_client)
    with pytest.raises(ModelError, match="the conversation is too long"):
        await model.respond(ModelRequest("", HELLO), ignore)


def test_a_call_is_demanded_of_the_first_answer_only() -> None:
    call = ToolCall("c1", "get_weather", {})
    later = (*HELLO, Message("assistant", (call,)), Message("tool", (ToolResult("c1", "get_weather", (Text("21"),)),)))
    for name in ("claude-opus-5-5", "gpt-5.5", "gpt-4o by chat"):
        settings = ModelSettings(tool_choice="required")
        first = MODELS[name].request_body(ModelRequest("", HELLO, TOOLS, settings=settings))
        then = MODELS[name].request_body(ModelRequest("", later, TOOLS, settings=settings))
        assert first["tool_choice"] in ("required", {"type": "any"})
        assert "tool_choice" not in then


def test_what_is_told_after_results_is_no_question() -> None:
    call = ToolCall("c1", "get_weather", {})
    result = Message("tool", (ToolResult("c1", "get_weather", (Text("21"),)),))
    told = (*HELLO, Message("assistant", (call,)), result, user_message("The call was made twice."))
    asked = (*told, Message("assistant", (Text("21 degrees."),)), user_message("Note."), user_message("And now?"))
    settings = ModelSettings(tool_choice="required")
    for messages, is_demanded in ((told, False), (asked, True)):
        body = MODELS["gpt-5.5"].request_body(ModelRequest("", messages, TOOLS, settings=settings))
        assert ("tool_choice" in body) is is_demanded


def test_a_run_that_must_end_calls_nothing() -> None:
    settings = ModelSettings(tool_choice="required", parallel_tool_calls=False)
    for name in ("claude-opus-5-5", "gpt-5.5", "gpt-4o by chat"):
        body = MODELS[name].request_body(ModelRequest("", HELLO, TOOLS, tool_choice="none", settings=settings))
        assert body["tool_choice"] in ("none", {"type": "none"})


def test_the_cache_is_kept_as_long_as_is_said() -> None:
    body = AnthropicModel("claude-opus-5-5").request_body(request_of(ModelSettings(cache_ttl="1h")))
    assert json.dumps(body).count('"ttl": "1h"') == json.dumps(body).count('"cache_control"') == 2


async def test_headers_go_out_and_nowhere_else() -> None:
    played = PlayedProvider(chat_stream({"content": "Hello."}))
    model = OpenAIChatModel("m", api_key="k", http_client=played.http_client)
    await model.respond(ModelRequest("", HELLO, settings=ModelSettings(headers={"X-Team": "blue"})), ignore)
    assert played.requests[0].headers["x-team"] == "blue"
    assert "blue" not in json.dumps(played.bodies)


async def test_an_error_names_the_request() -> None:
    error = {"error": {"type": "invalid_request_error", "message": "no", "code": "odd"}}
    played = PlayedProvider(failed(400, error, {"request-id": "req_123"}))
    model = AnthropicModel("claude-x", api_key="k", http_client=played.http_client)
    with pytest.raises(ModelError, match="request req_123") as caught:
        await model.respond(ModelRequest("", HELLO), ignore)
    assert (caught.value.request_id, caught.value.code) == ("req_123", "odd")


@each_row("name", ["claude-opus-5-5", "gpt-5.5", "a gateway"])
def test_tools_that_the_provider_runs_stand_beside_ours(name: str) -> None:
    theirs = {"type": "web_search_20250305", "name": "web_search"}
    plain = MODELS[name].request_body(request_of(ModelSettings()))
    body = MODELS[name].request_body(request_of(ModelSettings(extra={"tools": [theirs], "metadata": {}})))
    assert body == {**plain, "tools": [theirs, *plain["tools"]], "metadata": {}}
    alone = MODELS[name].request_body(ModelRequest("", HELLO, settings=ModelSettings(extra={"tools": [theirs]})))
    assert alone["tools"] == [theirs]


async def test_what_the_provider_ran_stays_in_the_history() -> None:
    asked = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "rain"}}
    page = {"type": "web_search_result", "url": "https://example.org", "title": "T", "encrypted_content": "e"}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [page]}
    said = {"type": "text", "text": "It rains."}
    content = [asked, found, said]
    whole = httpx2.Response(200, json={"type": "message", "role": "assistant", "content": content, "usage": {}})
    played = PlayedProvider(whole, anthropic_stream(text_block("Yes.")))
    settings = ModelSettings(extra={"tools": [{"type": "web_search_20250305", "name": "web_search"}]})
    model = AnthropicModel("claude-opus-5-5", api_key="k", http_client=played.http_client, settings=settings)
    async with Agent(model) as agent:
        assert await agent.ask("Rain?") == "It rains."
        assert await agent.ask("Sure?") == "Yes."
    assert played.bodies[1]["messages"][1]["content"] == content


# -- One value, wherever it is set ------------------------------------------------------------------------------------


def test_the_models_own_settings_are_those_that_a_run_leaves_open() -> None:
    own = ModelSettings(temperature=0.2, stop=("END",), extra={"a": 1, "b": 1}, headers={"X-A": "1"})
    given = ModelSettings(temperature=0.0, thinking="low", extra={"b": 2}, headers={"X-B": "2"})
    assert merged(own, given) == ModelSettings(
        temperature=0.0,
        stop=("END",),
        thinking="low",
        extra={"a": 1, "b": 2},
        headers={"X-A": "1", "X-B": "2"},
    )


TEXTS: Mapping[str, tuple[str, Any]] = {
    "thinking": ("high", "high"),
    "top_p": (".9", 0.9),
    "stop": ('["a", "b"]', ("a", "b")),
    "seed": ("-3", -3),
    "tool_choice": ("get_weather", "get_weather"),
    "parallel_tool_calls": ("no", False),
    "service_tier": ("flex", "flex"),
    "cache_ttl": ("1h", "1h"),
    "prompt_cache_key": ("k", "k"),
    "max_output_tokens": ("99", 99),
    "temperature": ("0", 0.0),
    "timeout_seconds": ("20", 20.0),
}


def test_settings_are_read_from_text_and_written_as_text() -> None:
    told = {**{name: text for name, (text, _) in TEXTS.items()}, "extra.metadata": '{"user_id":"u"}'}
    settings = settings_of(told, "--set")
    assert settings.given() == {
        **{name: value for name, (_, value) in TEXTS.items()},
        "extra": {"metadata": {"user_id": "u"}},
    }
    assert settings_of(as_texts(settings), "--set") == settings
    assert settings_of({"thinking": "2048"}, "--set").thinking == 2048
    assert settings_of({"header.X-A": "1"}, "--set").headers == {"X-A": "1"}
    assert as_texts(settings_of({"header.X-A": "secret"}, "--set")) == {}


@each_row(
    "name, text, said",
    [
        (
            "thinking",
            "hgih",
            'thinking is "hgih"; write "off", "minimal", "low", "medium", "high", "xhigh", "max", a number of tokens',
        ),
        ("thinking", "12", 'thinking is "12"; write'),
        ("top_p", "2", 'top_p is "2"; write a number above 0 and up to 1'),
        ("top_p", "nan", "write a number above 0 and up to 1"),
        ("seed", "x", 'seed is "x"; write a whole number'),
        ("stop", "", "write a text, or a list"),
        ("parallel_tool_calls", "maybe", "write True, False"),
        ("cache_ttl", "2h", "write one of 5m, 30m, 1h"),
        ("temprature", "1", '"temprature" is not known; write one of max_output_tokens, temperature, thinking'),
        ("header.X-A", "a\nb", "header.NAME: expected one line"),
        ("header.", "a", "is not known"),
    ],
)
def test_what_cannot_be_set_is_said(name: str, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_of({name: text}, "--set")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_each_model_of_a_chain_has_its_own() -> None:
    spec = "anthropic:claude-opus-5-5?thinking=low, openai:gpt-5.5?thinking=high&prompt_cache_key=k"
    chain: Any = resolve_model(spec, environ={"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"})
    first, second = chain.models
    assert (first.settings, second.settings) == (
        ModelSettings(thinking="low"),
        ModelSettings(thinking="high", prompt_cache_key="k"),
    )


@each_row(
    "name, largest",
    [
        ("claude-opus-5-5", 128_000),
        ("claude-sonnet-4-5-20250929", 64_000),
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", 64_000),
        ("claude-opus-4-1@20250805", 32_000),
        ("claude-opus-4-20250514", 32_000),
        ("anthropic/claude-opus-4.8", 128_000),
        ("claude-3-5-haiku-20241022", 8192),
        ("claude-3-opus-20240229", 4096),
        ("gpt-5.5", 128_000),
        ("openai/gpt-4.1-mini", 32_768),
    ],
)
def test_a_model_is_known_whatever_stands_around_its_name(name: str, largest: int) -> None:
    profile = profile_of(Origin("x", "chat", "gateway.example.com", name))
    assert profile.max_output_tokens == largest
    assert profile.source


def test_every_model_that_the_sdks_name_is_known() -> None:
    from typing import get_args

    from anthropic.types.model_param import ModelParam
    from openai.types.shared.chat_model import ChatModel

    names = [one for part in get_args(ModelParam) for one in get_args(part)] + list(get_args(ChatModel))
    unknown = [name for name in names if profile_of(Origin("x", model=name)) == UNKNOWN]
    assert set(unknown) <= {"claude-mythos-preview", "codex-mini-latest"}


# -- Clients of one's own ---------------------------------------------------------------------------------------------


async def test_a_client_of_azure() -> None:
    from openai import AsyncAzureOpenAI

    played = PlayedProvider(responses_stream(message_item("Hello.")))
    client = AsyncAzureOpenAI(
        azure_endpoint="https://mine.openai.azure.com", api_key="k", api_version="v", http_client=played.http_client
    )
    model = OpenAIResponsesModel("my-deployment", client=client)
    assert (await model.respond(ModelRequest("", HELLO), ignore)).message.text == "Hello."
    await model.aclose()
    assert not client.is_closed()
    [sent] = played.requests
    assert (sent.url.host, sent.headers["api-key"]) == ("mine.openai.azure.com", "k")
    assert model.origin.address.startswith("mine.openai.azure.com")


async def test_a_client_of_googles_cloud() -> None:
    from anthropic import AsyncAnthropicVertex

    played = PlayedProvider(anthropic_stream(text_block("Hello.")))
    client = AsyncAnthropicVertex(
        region="europe-west1", project_id="p", access_token="t", http_client=played.http_client
    )
    model = AnthropicModel("claude-opus-4-8", client=client)
    assert (await model.respond(ModelRequest("", HELLO), ignore)).message.text == "Hello."
    [sent] = played.requests
    assert "projects/p" in str(sent.url)
    assert "model" not in json.loads(sent.content)


@each_row(
    "spec, variables, url, key",
    [
        ("groq:m", {"GROQ_API_KEY": "k"}, "https://api.groq.com/openai/v1/chat/completions", "k"),
        ("mistral:m", {"MISTRAL_API_KEY": "k"}, "https://api.mistral.ai/v1/chat/completions", "k"),
        ("deepseek:m", {"DEEPSEEK_API_KEY": "k"}, "https://api.deepseek.com/v1/chat/completions", "k"),
        ("xai:m", {"XAI_API_KEY": "k"}, "https://api.x.ai/v1/chat/completions", "k"),
        (
            "azure:mine",
            {"AZURE_OPENAI_API_KEY": "k", "AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com/"},
            "https://r.openai.azure.com/openai/v1/responses",
            "k",
        ),
    ],
)
async def test_a_prefix_is_an_address_and_a_key(spec: str, variables: dict[str, str], url: str, key: str) -> None:
    is_azure = spec.startswith("azure")
    answer: httpx2.Response = responses_stream(message_item("Hi.")) if is_azure else chat_stream({"content": "Hi."})
    played = PlayedProvider(answer)
    model = resolve_model(spec, environ=variables, http_client=played.http_client)
    assert (await model.respond(ModelRequest("", HELLO), ignore)).message.text == "Hi."
    [sent] = played.requests
    assert (str(sent.url), sent.headers["authorization"]) == (url, f"Bearer {key}")


def test_a_cloud_that_cannot_be_reached_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("CLOUD_ML_REGION", "AWS_REGION", "AWS_DEFAULT_REGION", "ANTHROPIC_VERTEX_PROJECT_ID"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ConfigError, match=r"model: vertex: .*pip install 'anthropic\[vertex\]'"):
        resolve_model("vertex:claude-opus-4-8", environ={})
    with pytest.raises(ConfigError, match="AZURE_OPENAI_ENDPOINT is not set"):
        resolve_model("azure:mine", environ={"AZURE_OPENAI_API_KEY": "k"})


@each_row(
    "spec, names",
    [
        ("offline", ["offline"]),
        ("ollama:a, groq:b?temperature=0 ,offline", ["ollama:a", "groq:b?temperature=0", "offline"]),
        ('groq:a?extra.x=[{"b":1,"c":"]"}],offline', ['groq:a?extra.x=[{"b":1,"c":"]"}]', "offline"]),
        ('groq:a?stop=["[",","],offline', ['groq:a?stop=["[",","]', "offline"]),
        ("groq:a?stop=[,offline", ["groq:a?stop=[", "offline"]),
        ("groq:a?stop=],offline", ["groq:a?stop=]", "offline"]),
    ],
)
def test_commas_inside_of_an_option_separate_no_names(spec: str, names: list[str]) -> None:
    assert names_in(spec) == names


def test_names_are_read_in_one_pass() -> None:
    assert len(names_in("[" * 200_000 + "," * 200_000)) == 200_001
