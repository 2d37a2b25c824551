"""Clouds and gateways over the SDKs' own clients: conversations, moved histories, recordings and random lives."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from random import Random
from typing import Any

import pytest

from mcpagent.errors import McpAgentError, ModelError
from mcpagent.models import AnthropicModel, ModelRequest, ModelSettings, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.http_model import HttpModel
from mcpagent.values.events import Event, Notice, ignore
from mcpagent.values.messages import Message, Text, ToolResult, user_message
from tests.models.test_http_model_recordings import HELLO, RECORDINGS, adapter, recorded, response_of
from tests.models.test_http_model_simulator import discovers, talk
from tests.models.test_sendable_history import MODELS as SOURCES
from tests.models.test_sendable_history import kinds_of, request_of, told
from tests.simulator.clouds import CLOUDS, CloudTransport, aws_frame
from tests.simulator.values import Brain
from tests.wire.life import KINDS, Life
from tests.wire.provider import PlayedProvider, Waits, chat_stream, failed
from tests.wire.scene import SEARCH, WEATHER

Maker = Callable[[Any], HttpModel]


def _bedrock(name: str) -> Maker:
    def make(http_client: Any) -> HttpModel:
        from anthropic import AsyncAnthropicBedrock

        pytest.importorskip("botocore", reason="pip install 'anthropic[bedrock]': it reads the framing of AWS")
        client = AsyncAnthropicBedrock(aws_region="us-east-1", api_key="k", http_client=http_client)
        return AnthropicModel(name, provider="bedrock", client=client, sleep=Waits())

    return make


def _vertex(name: str) -> Maker:
    def make(http_client: Any) -> HttpModel:
        from anthropic import AsyncAnthropicVertex

        client = AsyncAnthropicVertex(region="us-east5", project_id="mine", access_token="t", http_client=http_client)
        return AnthropicModel(name, provider="vertex", client=client, sleep=Waits())

    return make


def _foundry(http_client: Any) -> HttpModel:
    from anthropic import AsyncAnthropicFoundry

    client = AsyncAnthropicFoundry(resource="mine", api_key="k", http_client=http_client)
    return AnthropicModel("claude-opus-5-5", client=client, sleep=Waits())


def _azure(kind: Callable[..., HttpModel], name: str, **more: Any) -> Maker:
    def make(http_client: Any) -> HttpModel:
        from openai import AsyncAzureOpenAI

        client = AsyncAzureOpenAI(
            api_version="2025-04-01-preview",
            azure_endpoint="https://mine.openai.azure.com",
            api_key="k",
            http_client=http_client,
        )
        return kind(name, provider="azure", client=client, sleep=Waits(), **more)

    return make


def _azure_v1(http_client: Any) -> HttpModel:
    url = "https://mine.openai.azure.com/openai/v1"
    return OpenAIResponsesModel(
        "gpt-5.4", provider="azure", base_url=url, api_key="k", http_client=http_client, sleep=Waits()
    )


def _chat(provider: str, url: str, name: str, **headers: str) -> Maker:
    def make(http_client: Any) -> HttpModel:
        return OpenAIChatModel(
            name,
            provider=provider,
            base_url=url,
            api_key="k",
            http_client=http_client,
            settings=ModelSettings(headers=headers),
            sleep=Waits(),
        )

    return make


def _litellm(kind: Callable[..., HttpModel], name: str, url: str) -> Maker:
    def make(http_client: Any) -> HttpModel:
        return kind(name, base_url=url, api_key="k", http_client=http_client, sleep=Waits())

    return make


OPENROUTER, GATEWAY = "https://openrouter.ai/api/v1", "https://gateway.example/v1"
MODELS: Mapping[str, tuple[str, Maker]] = {
    "bedrock sonnet-4-5": ("bedrock", _bedrock("us.anthropic.claude-sonnet-4-5-20250929-v1:0")),
    "bedrock opus-4-8": ("bedrock", _bedrock("global.anthropic.claude-opus-4-8")),
    "bedrock opus-4-1": ("bedrock", _bedrock("us.anthropic.claude-opus-4-1-20250805-v1:0")),
    "bedrock by ARN": (
        "bedrock",
        _bedrock("arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-opus-4-8"),
    ),
    "bedrock without betas": ("bedrock without betas", _bedrock("eu.anthropic.claude-opus-4-7")),
    "vertex sonnet-4-5": ("vertex", _vertex("claude-sonnet-4-5@20250929")),
    "vertex opus-5-5": ("vertex", _vertex("claude-opus-5-5")),
    "foundry": ("foundry", _foundry),
    "azure chat": ("azure", _azure(OpenAIChatModel, "gpt-5.4")),
    "azure responses": ("azure", _azure(OpenAIResponsesModel, "gpt-5.4")),
    "azure v1": ("azure", _azure_v1),
    "azure deepseek": ("azure", _azure(OpenAIChatModel, "DeepSeek-V3.1")),
    "openrouter claude": ("openrouter", _chat("openrouter", OPENROUTER, "anthropic/claude-opus-4.5")),
    "openrouter claude by user turns": (
        "openrouter by user turns",
        _chat("openrouter", OPENROUTER, "anthropic/claude-opus-4.5"),
    ),
    "openrouter gpt": ("openrouter", _chat("openrouter", OPENROUTER, "openai/gpt-5.5")),
    "litellm claude by chat": ("litellm", _chat("openai-chat", GATEWAY, "anthropic/claude-sonnet-4-5")),
    "litellm gpt by chat": ("litellm", _chat("openai-chat", GATEWAY, "gpt-5.5")),
    "litellm claude": ("litellm", _litellm(AnthropicModel, "claude-sonnet-4-5", "https://gateway.example")),
    "litellm gpt": ("litellm", _litellm(OpenAIResponsesModel, "gpt-4.1", GATEWAY)),
    "portkey claude": (
        "portkey",
        _chat("openai-chat", "https://api.portkey.ai/v1", "claude-opus-4-5", **{"x-portkey-provider": "anthropic"}),
    ),
    "portkey by slug": ("portkey", _chat("openai-chat", "https://api.portkey.ai/v1", "@mine/claude-opus-4-5")),
    "vllm with tools": ("vllm with tools", _chat("vllm", "http://localhost:8000/v1", "qwen3-32b")),
}


LEARNED: Mapping[str, str] = {
    "bedrock without betas": "invalid beta flag",
}
"""What a model may be refused once; from then on it knows."""

IN_ONE_TURN: Mapping[str, float] = {"openrouter claude by user turns": 0.7}
"""The cached share of a single long turn, if nothing in it can be marked but the user's words."""


async def conversation(name: str) -> list[str]:
    """Return every mismatch of one conversation that finds and calls five tools."""
    transport, model = at(name, discovers)
    try:
        messages = await talk(model, 12)
    except McpAgentError as error:
        return [f"{name}: {error}", *refused(name, transport)]
    log = transport.behind.log
    wrong = refused(name, transport)
    wrong += [f"{name}: blind call {call}" for call in log.blind_calls]
    if messages[-1].text != "Done.":
        wrong.append(f"{name}: ended with {messages[-1].text!r}")
    late = log.counted[4:]  # after the second search
    share = sum(count.read for count in late) / max(sum(count.total for count in late), 1)
    if share < IN_ONE_TURN.get(name, 0.9):
        wrong.append(f"{name}: {share:.0%} cached")
    return wrong


def at(name: str, brain: Brain, *, pieces: int = 0) -> tuple[CloudTransport, HttpModel]:
    """Return a cloud that answers with the brain, and the model that talks to it."""
    cloud, make = MODELS[name]
    transport = CloudTransport(CLOUDS[cloud], brain, pieces=pieces)
    return transport, make(transport.http_client)


def refused(name: str, transport: CloudTransport) -> list[str]:
    """Return the refusals that no model had to learn first."""
    said = [one.message for one in transport.refused]
    if said[:1] == [LEARNED.get(name)]:
        said = said[1:]
    return [f"{name}: refused: {one}" for one in said]


def names() -> list[str]:
    """Return the models whose SDK is installed with what it needs."""
    has_botocore = find_spec("botocore") is not None
    return [name for name, (cloud, _) in MODELS.items() if has_botocore or "bedrock" not in cloud]


@pytest.mark.slow
async def test_a_conversation_with_discovery_passes_every_cloud_and_gateway() -> None:
    wrong: list[str] = []
    for name in names():
        wrong += await conversation(name)
    assert wrong == []


# -- Histories that come from elsewhere -------------------------------------------------------------------------------


async def sent(name: str, requests: Mapping[str, ModelRequest]) -> list[str]:
    """Return every refusal of these requests, sent to one model one after the other."""
    transport, model = at(name, lambda _view: ["ok"])
    wrong: list[str] = []
    for kind, request in requests.items():
        try:
            answer = await model.respond(request, ignore)
        except McpAgentError as error:
            wrong.append(f"{name}, {kind}: {error}")
            continue
        if answer.message.text != "ok":
            wrong.append(f"{name}, {kind}: {answer.message.text!r}")
    return [*wrong, *refused(name, transport)]


def moved_histories() -> dict[str, ModelRequest]:
    return {
        f"{source}, {kind}": request_of(source, told(source, kind), found=kind == "tool search")
        for source in SOURCES
        for kind in kinds_of(source)
    }


def bare(request: ModelRequest) -> ModelRequest:
    """Return the request without tools, as a summary or an agent without tools asks."""
    return replace(request, tools=(), deferred_tools=())


@pytest.mark.slow
async def test_every_history_of_every_model_passes_every_cloud_and_gateway() -> None:
    requests = {kind: replace(request, deferred_tools=()) for kind, request in moved_histories().items()}
    without = {f"{kind}, no tools": bare(request) for kind, request in requests.items()}
    wrong: list[str] = []
    for name in names():
        wrong += await sent(name, {**requests, **without})
    assert wrong == []


@pytest.mark.slow
async def test_random_lives_pass_every_cloud_and_gateway() -> None:
    wrong: list[str] = []
    for name in names():
        for seed in range(8):
            chance = Random(seed)
            life = Life(at(name, lambda _view: ["ok"])[1].origin)
            requests: dict[str, ModelRequest] = {}
            for step in range(12):
                numbers = tuple(chance.randrange(5) for _ in range(chance.randint(1, 3)))
                life.live((chance.choice(KINDS), numbers))
                requests[f"life {seed}, step {step}"] = life.request()
            wrong += await sent(name, requests)
    assert wrong == []


@pytest.mark.slow
@pytest.mark.skipif(not RECORDINGS.is_dir(), reason="no recordings beside the repository (../shared/data/cassettes)")
async def test_recorded_answers_pass_every_cloud_and_gateway() -> None:
    requests: dict[str, ModelRequest] = {}
    for recording, protocol, exchanges in recorded():
        for place, exchange in enumerate(exchanges):
            message = (await adapter(protocol, response_of(exchange)).respond(HELLO, ignore)).message
            results = tuple(ToolResult(call.id, call.name, (Text("ok"),)) for call in message.tool_calls)
            after = [Message("tool", results)] if results else []
            history = (user_message("x"), message, *after, user_message("And now?"))
            requests[f"{recording} {place}"] = ModelRequest("S", history, (SEARCH, WEATHER))
    assert len(requests) > 40
    wrong: list[str] = []
    for name in names():
        wrong += await sent(name, requests)
    assert wrong == []


# -- Rules that one cloud has -----------------------------------------------------------------------------------------


async def test_a_history_with_calls_is_summarised_without_tools() -> None:
    request = bare(request_of("gpt-5.5", told("gpt-5.5", "several calls"), found=False))
    wrong: list[str] = []
    for name in names():
        wrong += await sent(name, {"summary": request})
    assert wrong == []


async def test_settings_that_a_gateway_does_not_know_are_left_out_with_a_notice() -> None:
    transport, model = at("litellm claude by chat", lambda _view: ["ok"])
    settings = ModelSettings(seed=7, temperature=0.5)
    events: list[Event] = []
    for _ in range(2):
        request = ModelRequest("S", (user_message("hello"),), (WEATHER,), settings=settings)
        assert (await model.respond(request, events.append)).message.text == "ok"
    assert len(transport.refused) == 1
    assert "seed" in str([event for event in events if isinstance(event, Notice)])
    assert "temperature" in transport.behind.log.bodies[-1]


async def test_long_descriptions_are_cut_where_the_server_has_a_limit_and_only_there() -> None:
    long = replace(WEATHER, description="word " * 400)
    request = ModelRequest("S", (user_message("hello"),), (SEARCH, long))
    for name in names():
        transport, model = at(name, lambda _view: ["ok"])
        events: list[Event] = []
        await model.respond(request, events.append)
        assert refused(name, transport) == []
        is_cut = long.description not in json.dumps(transport.behind.log.bodies[-1])
        assert is_cut == name.startswith("azure"), name
        assert ("1,024 characters are cut" in str(events)) == is_cut, name


async def test_a_server_that_refuses_a_long_description_is_sent_a_short_one() -> None:
    said = (
        "Invalid 'tools[1].function.description': string too long. Expected a string with maximum length 1024, "
        "but got a string with length 2000 instead."
    )
    refusal = {"error": {"message": said, "param": "tools[1].function.description", "code": "string_above_max_length"}}
    provider = PlayedProvider(failed(400, refusal), chat_stream({"content": "ok"}))
    model = OpenAIChatModel("gpt-4o", api_key="k", http_client=provider.http_client)
    long = replace(WEATHER, description="word " * 400)
    answer = await model.respond(ModelRequest("S", (user_message("hello"),), (SEARCH, long)), ignore)
    assert answer.message.text == "ok"
    assert [len(body["tools"][1]["function"]["description"]) for body in provider.bodies] == [2000, 1024]


async def test_a_server_without_a_parser_of_calls_is_asked_in_words_after_one_refusal() -> None:
    transport = CloudTransport(CLOUDS["vllm"], lambda _view: ["It rains."])
    model = _chat("vllm", "http://localhost:8000/v1", "qwen3-32b")(transport.http_client)
    request = ModelRequest("S", (user_message("Rain?"),), (WEATHER,))
    for _ in range(2):
        assert (await model.respond(request, ignore)).message.text == "It rains."
    assert len([one for one in transport.refused if "--enable-auto-tool-choice" in one.message]) == 1


async def test_a_gateway_that_is_not_told_the_provider_is_told_of_in_one_line() -> None:
    transport = CloudTransport(CLOUDS["portkey"], lambda _view: ["ok"])
    model = _chat("openai-chat", "https://api.portkey.ai/v1", "claude-opus-4-5")(transport.http_client)
    with pytest.raises(ModelError, match="x-portkey-provider header is required"):
        await model.respond(ModelRequest("S", (user_message("hello"),)), ignore)


# -- Framing ----------------------------------------------------------------------------------------------------------

FRAMED = ("bedrock opus-4-8", "vertex opus-5-5", "azure responses", "litellm gpt by chat")


async def test_an_answer_in_pieces_is_the_same_answer() -> None:
    for name in set(FRAMED) & set(names()):
        for pieces in (1, 7, 0):
            transport, model = at(name, lambda _view: ["It rains. \N{UMBRELLA}"], pieces=pieces)
            answer = await model.respond(ModelRequest("S", (user_message("Rain?"),)), ignore)
            assert (answer.message.text, transport.refused) == ("It rains. \N{UMBRELLA}", []), (name, pieces)


@pytest.mark.slow
async def test_a_stream_cut_at_any_byte_is_an_answer_or_one_line() -> None:
    for name in set(FRAMED) & set(names()):
        most = 1
        while True:
            transport, model = at(name, lambda _view: ["It rains."])
            transport.most = most
            text, error = await answered(model)
            assert text == "It rains." or (error and "\n" not in error), (name, most, text, error)
            if most >= transport.size:
                break
            most += 13


async def answered(model: HttpModel) -> tuple[str, str]:
    """Return the answer to a question, and the error if there is none."""
    request = ModelRequest("S", (user_message("Rain?"),), settings=ModelSettings(timeout_seconds=5))
    try:
        return (await model.respond(request, ignore)).message.text, ""
    except ModelError as error:
        return "", str(error)


async def test_an_exception_in_the_framing_of_aws_is_told_with_its_name() -> None:
    pytest.importorskip("botocore", reason="pip install 'anthropic[bedrock]': it reads the framing of AWS")
    headers = {
        ":exception-type": "modelStreamErrorException",
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    frame = aws_frame(headers, json.dumps({"message": "The model broke."}).encode())
    cloud = replace(CLOUDS["bedrock"], stream=lambda _path, _events: frame)
    transport = CloudTransport(cloud, lambda _view: ["ok"])
    model = _bedrock("global.anthropic.claude-opus-4-8")(transport.http_client)
    with pytest.raises(ModelError, match=r"The model broke\."):
        await model.respond(ModelRequest("S", (user_message("hello"),)), ignore)
