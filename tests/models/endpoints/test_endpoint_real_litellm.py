"""A real LiteLLM proxy before simulated providers: three protocols, each with Claude and with GPT behind it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from benchmarks.local_models import GATEWAY_KEY, UnavailableError, gateway, gateway_program

from mcpagent.errors import McpAgentError
from mcpagent.models import AnthropicModel, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.http_model import HttpModel
from tests.models.test_http_model_simulator import discovers, talk
from tests.simulator.server import Simulator

pytestmark = [pytest.mark.slow, pytest.mark.heavy, pytest.mark.timeout(900)]

CLAUDE, GPT = "claude-sonnet-4-5", "gpt-4.1"


def models(address: str, name: str) -> dict[str, HttpModel]:
    """Return a model of each protocol that asks the proxy for this name."""
    return {
        "chat": OpenAIChatModel(name, base_url=f"{address}/v1", api_key=GATEWAY_KEY),
        "messages": AnthropicModel(name, base_url=address, api_key=GATEWAY_KEY),
        "responses": OpenAIResponsesModel(name, base_url=f"{address}/v1", api_key=GATEWAY_KEY),
    }


async def conversation(simulator: Simulator, model: HttpModel) -> list[str]:
    """Return every mismatch of one conversation that finds and calls tools."""
    refused, blind = len(simulator.log.refused), len(simulator.log.blind_calls)
    wrong: list[str] = []
    try:
        messages = await talk(model, 12)
    except McpAgentError as error:
        wrong.append(str(error))
    else:
        if messages[-1].text != "Done.":
            wrong.append(f"ended with {messages[-1].text!r}")
    finally:
        await model.aclose()
    wrong += [f"refused: {one.message}" for one in simulator.log.refused[refused:]]
    wrong += [f"blind call {call}" for call in simulator.log.blind_calls[blind:]]
    return wrong


async def test_a_conversation_with_discovery_passes_in_three_protocols_to_two_providers(tmp_path: Path) -> None:
    try:
        gateway_program(tmp_path)
    except UnavailableError as error:
        pytest.skip(str(error))
    wrong: list[str] = []
    async with Simulator(discovers) as simulator, AsyncExitStack() as stack:
        behind = {
            CLAUDE: {"model": f"anthropic/{CLAUDE}", "api_base": simulator.url, "api_key": "k"},
            GPT: {"model": f"openai/{GPT}", "api_base": f"{simulator.url}/v1", "api_key": "k"},
        }
        proxy = gateway(tmp_path, behind)
        address = await asyncio.to_thread(proxy.__enter__)  # it asks the simulators while it starts
        stack.push_async_callback(asyncio.to_thread, proxy.__exit__, None, None, None)
        for name in behind:
            for protocol, model in models(address, name).items():
                wrong += [f"{name} by {protocol}: {one}" for one in await conversation(simulator, model)]
    assert wrong == []
