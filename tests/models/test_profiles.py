"""The neighbours of what the tables name: the next version, another spelling, another address of the same server."""

from __future__ import annotations

import json
from typing import Any

from mcpagent.models import AnthropicModel, ModelRequest, ModelSettings, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.capabilities import anthropic_capabilities
from mcpagent.models.http_model import HttpModel, is_openai
from mcpagent.models.profiles import profile_of, server_of, speaks_for_itself
from mcpagent.values.events import ignore
from mcpagent.values.messages import Origin, user_message
from tests.tables import each_row
from tests.wire.provider import PlayedProvider, chat_stream
from tests.wire.scene import SEARCH, WEATHER

HELLO = (user_message("hello"),)


def body_of(model: HttpModel, **settings: Any) -> dict[str, Any]:
    return model.request_body(ModelRequest("", HELLO, (SEARCH, WEATHER), settings=ModelSettings(**settings)))


@each_row(
    "name, like",
    [
        ("claude-opus-4-10", "claude-opus-4-8"),
        ("claude-opus-4.10", "claude-opus-4-8"),
        ("claude-opus-4-20250514", "claude-opus-4-0"),
        ("us.anthropic.claude-opus-4-8-20260701-v1:0", "claude-opus-4-8"),
        ("gpt-5.10", "gpt-5.5"),
        ("gpt-10", "gpt-6"),
        ("gpt-10.1-mini-2028-01-01", "gpt-6"),
        ("gpt-6-pro", "gpt-5.5-pro"),
        ("gpt-6-chat-latest", "gpt-5-chat-latest"),
        ("gpt-35-turbo", "gpt-3.5-turbo"),  # as Azure calls it
        ("GPT-5.5", "gpt-5.5"),
        ("azure/gpt-5.5", "gpt-5.5"),
    ],
)
def test_a_neighbour_has_the_profile_of_its_family(name: str, like: str) -> None:
    assert profile_of(Origin("p", model=name)) == profile_of(Origin("p", model=like))


def test_a_dated_model_of_vertex_finds_tools_as_the_same_one_does() -> None:
    assert anthropic_capabilities("claude-sonnet-4-5@20250929") == anthropic_capabilities("claude-sonnet-4-5-20250929")


@each_row(
    "provider, address, like",
    [
        ("deepseek", "proxy.example.com/deepseek/v1", "api.deepseek.com/v1"),
        ("mistral", "proxy.example.com/v1", "api.mistral.ai/v1"),
        ("groq", "localhost/v1", "api.groq.com/openai/v1"),
        ("xai", "proxy.example.com/v1", "api.x.ai/v1"),
        ("openrouter", "proxy.example.com/v1", "openrouter.ai/api/v1"),
        ("gemini", "proxy.example.com/v1", "generativelanguage.googleapis.com/v1beta/openai"),
        ("openai-chat", "mine.cognitiveservices.azure.com/openai/v1", "mine.openai.azure.com/openai/v1"),
        ("openai", "mine.services.ai.azure.com/openai/v1", "mine.openai.azure.com/openai/v1"),
        ("openai-chat", "api.moonshot.cn/v1", "api.moonshot.ai/v1"),
    ],
)
def test_a_proxy_and_another_region_take_what_the_server_takes(provider: str, address: str, like: str) -> None:
    assert server_of(Origin(provider, "chat", address, "m")) == server_of(Origin("", "chat", like, "m"))


def test_a_prefix_does_not_overrule_an_address_that_is_known() -> None:
    assert server_of(Origin("deepseek", "chat", "api.groq.com/openai/v1", "m")).dialect == ""


@each_row(
    "url, is_its",
    [
        ("https://api.openai.com/v1", True),
        ("https://eu.api.openai.com/v1/", True),
        ("http://api.openai.com/v1", False),
        ("https://evilapi.openai.com/v1", False),
        ("https://evil.example.com/.api.openai.com/v1", False),
        ("https://api.openai.com:443@evil.example.com/v1", False),
    ],
)
def test_openais_own_addresses(url: str, is_its: bool) -> None:
    """Its key goes to no other."""
    assert is_openai(url) is is_its
    assert (OpenAIChatModel("m", base_url=url).target.key_variable == "OPENAI_API_KEY") is is_its


@each_row(
    "url, field",
    [
        ("https://eu.api.openai.com/v1", "max_completion_tokens"),
        ("https://mine.openai.azure.com/openai/v1", "max_completion_tokens"),
        ("https://gateway.example.com/v1", "max_tokens"),
    ],
)
def test_the_longest_answer_as_the_server_calls_it(url: str, field: str) -> None:
    assert body_of(OpenAIChatModel("gpt-5.5", base_url=url), max_output_tokens=50)[field] == 50


async def test_a_client_of_ones_own_is_asked_as_its_address_is() -> None:
    import openai

    played = PlayedProvider(chat_stream({"content": "Hello."}))
    client = openai.AsyncOpenAI(api_key="k", base_url="http://localhost:8000/v1", http_client=played.http_client)
    model = OpenAIChatModel("qwen3", client=client)
    await model.respond(ModelRequest("", HELLO, settings=ModelSettings(max_output_tokens=50)), ignore)
    assert (played.bodies[0].get("max_tokens"), "max_completion_tokens" in played.bodies[0]) == (50, False)
    assert model.calls is None  # it finds out whether the server takes tools


@each_row("name, sent", [("claude-opus-4-5", None), ("claude-opus-4-8", "none"), ("gpt-4o", None), ("qwen3", "none")])
def test_no_thinking_is_no_thinking_behind_a_gateway_too(name: str, sent: str | None) -> None:
    model = OpenAIChatModel(name, base_url="https://gateway.example.com/v1")
    request = ModelRequest("", HELLO, settings=ModelSettings(thinking="off"))
    assert model.request_body(request).get("reasoning_effort") == sent
    assert model.settings_of(request).left_out == {}


@each_row("name, most", [("claude-opus-4-1", None), ("claude-sonnet-4-5", 2_000)])
def test_a_thought_leaves_room_for_an_answer(name: str, most: int | None) -> None:
    body = body_of(AnthropicModel(name), thinking="high", max_output_tokens=most)
    assert body["thinking"]["budget_tokens"] <= body["max_tokens"] * 0.9


@each_row("name", ["claude-opus-4-8", "claude-sonnet-4-5"])
def test_claude_is_not_made_to_call_while_it_thinks(name: str) -> None:
    assert "tool_choice" not in body_of(AnthropicModel(name), thinking="high", tool_choice="required")
    assert body_of(AnthropicModel(name), tool_choice="required")["tool_choice"] == {"type": "any"}


@each_row(
    "url, discovery",
    [
        ("https://mine.openai.azure.com/openai/v1", "call_tool"),
        ("https://mine.services.ai.azure.com/openai/v1", "call_tool"),
        ("https://eu.api.openai.com/v1", "additional_tools"),
        ("https://gateway.example.com/v1", "batches"),
    ],
)
def test_found_tools_keep_the_cached_beginning_wherever_there_is_one(url: str, discovery: str) -> None:
    assert OpenAIResponsesModel("gpt-5.5", base_url=url).capabilities.discovery == discovery


LIKE_A_CALL = (
    json.dumps({"name": "Ann", "parameters": {"age": 3}}),
    'Qwen writes: <tool_call>{"name": "get_time", "arguments": {"zone": "UTC"}}</tool_call>',
)


@each_row("text", LIKE_A_CALL)
@each_row(
    "provider, name, url, is_call",
    [
        ("openai-chat", "gpt-5.5", "https://mine.openai.azure.com/openai/v1", False),
        ("openai-chat", "claude-opus-4-8", "https://gateway.example.com/v1", False),
        ("gemini", "gemini-3-flash", "https://generativelanguage.googleapis.com/v1beta/openai", False),
        ("openrouter", "openai/gpt-5.5", "https://openrouter.ai/api/v1", False),
        ("openai-chat", "qwen3", "https://gateway.example.com/v1", True),
        ("llamacpp", "qwen3-claude-sonnet-4-distill", "http://localhost:8080/v1", True),
    ],
)
async def test_json_that_was_asked_for_is_an_answer_where_calls_come_as_calls(
    provider: str, name: str, url: str, is_call: bool, text: str
) -> None:
    played = PlayedProvider(chat_stream({"content": text}))
    model = OpenAIChatModel(name, provider=provider, api_key="k", base_url=url, http_client=played.http_client)
    answer = await model.respond(ModelRequest("", HELLO, (SEARCH, WEATHER)), ignore)
    assert bool(answer.message.tool_calls) is is_call
    assert speaks_for_itself(model.origin) is not is_call
    if not is_call:
        assert answer.message.text == text


async def test_a_call_of_an_offered_tool_is_read_wherever_it_leaks() -> None:
    text = json.dumps({"name": "get_weather", "arguments": {"location": "Rome"}})
    played = PlayedProvider(chat_stream({"content": text}))
    url = "https://api.deepseek.com/v1"
    model = OpenAIChatModel("m", provider="deepseek", api_key="k", base_url=url, http_client=played.http_client)
    answer = await model.respond(ModelRequest("", HELLO, (SEARCH, WEATHER)), ignore)
    assert [call.name for call in answer.message.tool_calls] == ["get_weather"]
