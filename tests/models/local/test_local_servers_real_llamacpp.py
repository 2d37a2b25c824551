"""A real llama.cpp server with a small model out of packages, in each protocol; and LiteLLM before it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.local_models import (
    GATEWAY_KEY,
    UnavailableError,
    gateway,
    gateway_program,
    model_file,
    passed_on,
    running,
    server_program,
)

from mcpagent import Agent, Limits, ModelSettings, RunOptions
from mcpagent.demo.server import THEMES, tools_of
from mcpagent.models import AnthropicModel, ModelRequest, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.http_model import HttpModel
from mcpagent.toolsets.functions import function_tool
from mcpagent.values.events import ignore
from mcpagent.values.messages import Message, Text, ToolDefinition, ToolResult, user_message

pytestmark = [pytest.mark.slow, pytest.mark.heavy, pytest.mark.timeout(900)]

MODEL = "qwen2.5-coder-0.5b"
SETTINGS = ModelSettings(temperature=0.0, max_output_tokens=40, profile="small")
MOST_TOOLS = 32


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"Sunny in {city}"


def models(address: str, key: str = "none", *, provider: str = "llamacpp") -> Sequence[HttpModel]:
    root = address.removesuffix("/v1")
    return (
        OpenAIChatModel(MODEL, base_url=address, api_key=key, provider=provider),
        AnthropicModel(MODEL, base_url=root, api_key=key),
        OpenAIResponsesModel(MODEL, base_url=address, api_key=key),
    )


def with_patterns() -> tuple[ToolDefinition, ...]:
    """Tools of the demo whose schemas hold one: what llama.cpp refuses first."""
    all_of_them = (function_tool(function).definition for theme in THEMES for function in tools_of(theme))
    return tuple(tool for tool in all_of_them if '"pattern"' in json.dumps(tool.parameters))[:MOST_TOOLS]


async def _calls_and_goes_on(model: HttpModel) -> None:
    async with Agent(
        model, tools=[get_weather], options=RunOptions(limits=Limits(turns=3), settings=SETTINGS)
    ) as agent:
        first = await agent.run("What is the weather in Rome? Use get_weather.")
        second = await agent.run("Thank you.")
    [call, *_] = [call for message in first.messages for call in message.tool_calls]
    [result, *_] = [result for message in first.messages for result in message.tool_results]
    assert (call.name, call.arguments) == ("get_weather", {"city": "Rome"})
    assert (result.text, result.error) == ("Sunny in Rome", None)
    for run in (first, second):
        assert run.usage.input_tokens > 0
        assert run.usage.output_tokens > 0
        assert run.answer


async def _take_all_schemas(asked: Sequence[HttpModel]) -> None:
    """llama.cpp makes a grammar of all schemas, and refuses a request for what it cannot say in one."""
    tools = with_patterns()
    assert tools
    settings = ModelSettings(temperature=0.0, max_output_tokens=8)
    for model in asked:  # the next one finds the same beginning in the server's cache
        request = ModelRequest("", (user_message("Say yes."),), tools, settings=settings)
        response = await model.respond(request, ignore)
        assert response.usage.output_tokens > 0


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the packages are kept while this file is run."""
    return tmp_path_factory.mktemp("llamacpp")


@pytest.fixture(scope="module")
def address(home: Path) -> Iterator[str]:
    try:
        server_program(home)
        model_file(home, MODEL)
    except UnavailableError as error:
        pytest.skip(str(error))
    with running(home, MODEL, window=8_192) as at:
        yield at


async def test_a_real_llamacpp_calls_tools_in_all_three_protocols(address: str) -> None:
    asked = models(address)
    for model in asked:
        await _calls_and_goes_on(model)
    await _take_all_schemas(asked)
    for model in asked:
        await model.aclose()


async def test_litellm_before_it_passes_on_calls_in_all_three_protocols(home: Path, address: str) -> None:
    try:
        gateway_program(home)
    except UnavailableError as error:
        pytest.skip(str(error))
    with gateway(home, passed_on(MODEL, address)) as at:
        for model in models(f"{at}/v1", GATEWAY_KEY, provider="openai-chat"):
            await _passes_on(model)
            await model.aclose()


async def _passes_on(model: HttpModel) -> None:
    """A call, and its result, each of few tokens."""
    asked = user_message("What is the weather in Rome? Use get_weather.")
    request = ModelRequest("", (asked,), (function_tool(get_weather).definition,), settings=SETTINGS)
    answer = await model.respond(request, ignore)
    [call, *_] = answer.message.tool_calls
    assert (call.name, call.arguments) == ("get_weather", {"city": "Rome"}), model
    results = tuple(ToolResult(call.id, call.name, (Text("Sunny in Rome"),)) for call in answer.message.tool_calls)
    told = replace(request, messages=(asked, answer.message, Message("tool", results)))
    assert (await model.respond(told, ignore)).usage.output_tokens > 0, model
