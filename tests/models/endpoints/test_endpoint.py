"""One value says what an address and the model behind it take; request bodies follow it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mcpagent.models import AnthropicModel, ModelRequest, ModelSettings, OpenAIChatModel, resolve_model
from mcpagent.models.endpoints.endpoint import endpoint_of
from mcpagent.models.http_model import HttpModel
from mcpagent.values.events import ignore
from mcpagent.values.messages import Message, Origin, Text, ToolCall, ToolResult, user_message
from tests.simulator import anthropic_rules, openai_rules
from tests.simulator.values import require
from tests.tables import each_row
from tests.wire.provider import PlayedProvider, anthropic_stream, text_block
from tests.wire.scene import SEARCH, WEATHER

EPHEMERAL = {"type": "ephemeral"}
CALL = ToolCall("call_1", "get_weather", {"location": "Rome"})
RESULT = ToolResult("call_1", "get_weather", (Text("Sunny."),))
TALK = (
    user_message("Weather?"),
    Message("assistant", (Text("Looking."), CALL)),
    Message("tool", (RESULT,)),
)


@each_row(
    "origin, caching, discovery",
    [
        (Origin("anthropic", "messages", "api.anthropic.com", "claude-opus-5-5"), "field", "references"),
        (Origin("anthropic", "messages", "me.services.ai.azure.com/anthropic", "claude-opus-5"), "field", "references"),
        (
            Origin(
                "bedrock", "messages", "bedrock-runtime.us-east-1.amazonaws.com", "us.anthropic.claude-sonnet-4-5-v1:0"
            ),
            "markers",
            "references",
        ),
        (Origin("bedrock", "messages", "localhost", "global.anthropic.claude-opus-4-8"), "markers", "references"),
        (
            Origin("vertex", "messages", "us-east5-aiplatform.googleapis.com/v1", "claude-sonnet-4-5@20250929"),
            "markers",
            "references",
        ),
        (Origin("anthropic", "messages", "aiplatform.googleapis.com", "claude-opus-4-8"), "markers", "references"),
        (Origin("openrouter", "chat", "openrouter.ai/api/v1", "anthropic/claude-opus-4.5"), "markers", "call_tool"),
        (Origin("openai-chat", "chat", "gateway.example/v1", "claude-opus-4-5"), "markers", "call_tool"),
        (Origin("openai-chat", "chat", "api.anthropic.com/v1", "claude-opus-4-5"), "none", "append"),
        (Origin("openrouter", "chat", "openrouter.ai/api/v1", "openai/gpt-5.5"), "automatic", "batches"),
        (Origin("ollama", "chat", "localhost/v1", "claude-like:7b"), "automatic", "batches"),
        (Origin("openai", "responses", "api.openai.com/v1", "gpt-5.4"), "automatic", "additional_tools"),
        (Origin("openai", "responses", "eu.api.openai.com/v1", "gpt-5.4"), "automatic", "additional_tools"),
        (Origin("openai", "responses", "gateway.example/v1", "gpt-5.4"), "automatic", "batches"),
        (Origin("azure", "responses", "me.openai.azure.com/openai/v1", "gpt-5.4"), "automatic", "call_tool"),
        (Origin("deepseek", "chat", "api.deepseek.com/v1", "deepseek-chat"), "automatic", "call_tool"),
    ],
)  # fmt: skip
def test_caching_and_discovery_go_by_the_address_and_the_family(origin: Origin, caching: str, discovery: str) -> None:
    endpoint = endpoint_of(origin)
    assert (endpoint.caching, endpoint.can.discovery) == (caching, discovery)
    assert endpoint.most_markers == (4 if caching in ("field", "markers") else 0)


def cloud_check(body: Mapping[str, Any]) -> None:
    """As Bedrock and Vertex validate a body (inspect_ai#3851, vercel/ai#13986, langchain-google#1612)."""
    require("cache_control" not in body, "cache_control: Extra inputs are not permitted")
    anthropic_rules.check(body, {"anthropic-beta": "mid-conversation-tool-changes-2026-07-01"})


def at_cloud(provider: str, name: str) -> HttpModel:
    return AnthropicModel(name, provider=provider, base_url="http://localhost:1", api_key="k")


CLOUDS = [
    ("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ("bedrock", "global.anthropic.claude-opus-4-8"),
    ("vertex", "claude-sonnet-4-5@20250929"),
    ("vertex", "claude-opus-5-5"),
]


@each_row("provider, name", CLOUDS)
def test_clouds_get_markers_on_blocks_and_no_field(provider: str, name: str) -> None:
    model = at_cloud(provider, name)
    for messages in (TALK[:1], TALK, (*TALK, user_message("And Paris?"))):
        body = json.loads(json.dumps(model.request_body(ModelRequest("Be brief.", messages, (WEATHER,)))))
        cloud_check(body)
        assert body["system"][-1]["cache_control"] == EPHEMERAL
        assert body["messages"][-1]["content"][-1]["cache_control"] == EPHEMERAL


@each_row("provider, name", CLOUDS)
def test_at_clouds_only_the_marker_moves_as_a_conversation_grows(provider: str, name: str) -> None:
    model = at_cloud(provider, name)
    short, long = (
        unmarked(model.request_body(ModelRequest("S", messages, (SEARCH, WEATHER)))["messages"])
        for messages in (TALK, (*TALK, Message("assistant", (Text("Sunny."),)), user_message("And Paris?")))
    )
    assert long[: len(short)] == short


def unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [unmarked(one) for one in value]
    if isinstance(value, dict):
        return {key: unmarked(one) for key, one in value.items() if key != "cache_control"}
    return value


def test_at_anthropic_itself_the_field_stays() -> None:
    body = AnthropicModel("claude-opus-5-5").request_body(ModelRequest("S", TALK, (WEATHER,)))
    assert body["cache_control"] == EPHEMERAL
    assert "cache_control" not in body["messages"][-1]["content"][-1]


GATEWAYS = [
    ("openrouter", "https://openrouter.ai/api/v1", "anthropic/claude-sonnet-4.5"),
    ("openai-chat", "https://gateway.example/v1", "anthropic/claude-opus-5-5"),
    ("openai-chat", "https://gateway.example/v1", "us.anthropic.claude-opus-4-8"),
]


@each_row("provider, url, name", GATEWAYS)
def test_claude_behind_a_gateway_is_marked_in_blocks(provider: str, url: str, name: str) -> None:
    model = OpenAIChatModel(name, provider=provider, base_url=url, api_key="k")
    body = model.request_body(ModelRequest("Be brief.", TALK, (WEATHER,)))
    assert marked(body["messages"]) == [0, 1, 3]
    assert body["messages"][0]["content"] == [{"type": "text", "text": "Be brief.", "cache_control": EPHEMERAL}]
    hour = ModelSettings(cache_ttl="1h")
    longer = model.request_body(ModelRequest("S", (*TALK, user_message("And Paris?")), (WEATHER,), settings=hour))
    assert longer["messages"][-1]["content"][-1]["cache_control"] == {**EPHEMERAL, "ttl": "1h"}


def test_after_many_messages_the_end_of_the_request_before_is_marked_too() -> None:
    model = OpenAIChatModel("anthropic/claude-opus-5-5", provider="openrouter", base_url="https://openrouter.ai/api/v1")
    calls = tuple(ToolCall(f"call_{number}", "get_weather", {"location": "Rome"}) for number in range(30))
    results = tuple(ToolResult(call.id, call.name, (Text("Sunny."),)) for call in calls)
    messages = (user_message("Weather?"), Message("assistant", calls), Message("tool", results))
    body = model.request_body(ModelRequest("S", messages, (WEATHER,)))
    assert marked(body["messages"]) == [0, 1, len(body["messages"]) - 1]


def marked(messages: Sequence[Mapping[str, Any]]) -> list[int]:
    return [place for place, message in enumerate(messages) if "cache_control" in json.dumps(message)]


@each_row(
    "provider, url, name",
    [
        ("openrouter", "https://openrouter.ai/api/v1", "openai/gpt-5.5"),
        ("openai-chat", None, "gpt-5.5"),
        ("openai-chat", "https://api.anthropic.com/v1", "claude-opus-5-5"),
        ("ollama", "http://localhost:11434/v1", "claude-like:7b"),
    ],
)
def test_no_other_model_gets_markers(provider: str, url: str | None, name: str) -> None:
    model = OpenAIChatModel(name, provider=provider, base_url=url, api_key="k")
    body = model.request_body(ModelRequest("Be brief.", TALK, (WEATHER,)))
    assert marked(body["messages"]) == []
    openai_rules.check_chat(body, {})


@each_row("url", ["https://proxy.example/v1", "https://proxy.example/v1/", "https://proxy.example"])
async def test_an_address_of_anthropics_may_end_in_v1(url: str) -> None:
    provider = PlayedProvider(anthropic_stream(text_block("Hello.")))
    model = AnthropicModel("claude-opus-5-5", base_url=url, api_key="k", http_client=provider.http_client)
    await model.respond(ModelRequest("", (user_message("hello"),)), ignore)
    assert str(provider.requests[0].url) == "https://proxy.example/v1/messages"


@each_row(
    "prefix, variable, url",
    [
        ("together", "TOGETHER_API_KEY", "https://api.together.xyz/v1"),
        ("fireworks", "FIREWORKS_API_KEY", "https://api.fireworks.ai/inference/v1"),
        ("cerebras", "CEREBRAS_API_KEY", "https://api.cerebras.ai/v1"),
        ("moonshot", "MOONSHOT_API_KEY", "https://api.moonshot.ai/v1"),
        ("zai", "ZAI_API_KEY", "https://api.z.ai/api/paas/v4"),
        ("huggingface", "HF_TOKEN", "https://router.huggingface.co/v1"),
        ("cohere", "COHERE_API_KEY", "https://api.cohere.ai/compatibility/v1"),
        ("google", "GOOGLE_API_KEY", "https://generativelanguage.googleapis.com/v1beta/openai"),
    ],
)
def test_every_prefix_has_its_address_and_key(prefix: str, variable: str, url: str) -> None:
    model = resolve_model(f"{prefix}:some-model", environ={variable: "k"})
    assert isinstance(model, OpenAIChatModel)
    assert model.target.base_url == url
    assert model.target.key_variable == variable
    assert model.key() == "k"
