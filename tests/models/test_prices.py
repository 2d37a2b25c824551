"""What requests cost, and what tool definitions took of it: per request, per run, per agent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpagent import Agent, Tool, ToolOutput, ToolSearch
from mcpagent.models import AnthropicModel, FallbackModel, ModelRequest, OpenAIChatModel, ScriptedModel, resolve_model
from mcpagent.models.base import ModelResponse, search_cost
from mcpagent.models.endpoints.endpoint import context_window
from mcpagent.models.prices import dollars_for
from mcpagent.tool_search.search_options import paying_tokens
from mcpagent.values.events import Event, RequestSent, ResponseReceived, RunFinished, ignore
from mcpagent.values.messages import Message, Spent, Text, ToolCall, ToolDefinition, Usage, user_message
from tests.models.test_tool_changes_in_history_agents import catalogue
from tests.scenes import session_tools
from tests.tables import each_row
from tests.wire.provider import PlayedProvider, anthropic_stream, chat_stream, text_block, tool_block

ANTHROPIC = "https://api.anthropic.com"
MILLION = Usage(input_tokens=1_000_000, output_tokens=0)


def test_cached_tokens_have_prices_of_their_own() -> None:
    """Sonnet 4.5: 3 dollars per million tokens read, 0.30 from the cache, 3.75 into it, 15 written."""
    price = dollars_for(MILLION, "anthropic", "claude-sonnet-4-5", ANTHROPIC)
    assert price is not None
    fresh = Usage(100_000, 10_000, cache_read_tokens=60_000, cache_write_tokens=20_000)
    expected = 20_000 * 3 + 60_000 * 0.3 + 20_000 * 3.75 + 10_000 * 15
    assert dollars_for(fresh, "anthropic", "claude-sonnet-4-5", ANTHROPIC) == pytest.approx(expected / 1e6)


@each_row(
    "provider, model, base_url, known",
    [
        ("openai", "gpt-5.5", "https://api.openai.com/v1", True),
        ("gemini", "gemini-3-flash-preview", "https://generativelanguage.googleapis.com/v1beta/openai", True),
        ("anthropic", "claude-opus-4-8", "https://gateway.example/anthropic", True),
        ("openai-chat", "my-model", "http://localhost:8000/v1", False),
        ("openai", "a-model-of-the-year-3000", "https://api.openai.com/v1", False),
    ],
)
def test_a_price_is_known_or_said_not_to_be(provider: str, model: str, base_url: str, known: bool) -> None:
    assert (dollars_for(MILLION, provider, model, base_url) is not None) == known


def test_servers_of_ones_own_cost_nothing_and_impossible_counters_have_no_price() -> None:
    local = "http://localhost:11434/v1"
    assert dollars_for(MILLION, "ollama", "qwen3", local) == 0
    assert dollars_for(MILLION, "ollama", "nebula-cloudy", local) == 0
    for model, at in (("gpt-oss:120b-cloud", local), ("glm-5:Cloud", local), ("gpt-oss", "https://ollama.com/v1")):
        assert dollars_for(MILLION, "ollama", model, at) is None, model
    impossible = Usage(input_tokens=1, cache_read_tokens=5)
    assert dollars_for(impossible, "anthropic", "claude-sonnet-4-5", ANTHROPIC) is None


async def test_an_agent_reports_tokens_money_and_definitions() -> None:
    counted = {
        "input_tokens": 1_000,
        "cache_read_input_tokens": 3_000,
        "cache_creation_input_tokens": 2_000,
        "output_tokens": 100,
    }
    added = json.dumps({"tool_names": ["weather_0"]})
    played = PlayedProvider(
        anthropic_stream(tool_block("toolu_1", "add_tool", added), stop="tool_use", usage=counted),
        anthropic_stream(text_block("Done."), usage=counted),
    )
    model = AnthropicModel("claude-sonnet-4-5", api_key="k", http_client=played.http_client)
    events: list[Event] = []
    async with Agent(model, tools=catalogue(60), with_tool_search_mode=True, on_event=events.append) as agent:
        await agent.ask("go")
        spent = agent.spent
    each = (1_000 * 3 + 3_000 * 0.3 + 2_000 * 3.75 + 100 * 15) / 1e6
    received = [event for event in events if isinstance(event, ResponseReceived)]
    assert [event.dollars for event in received] == pytest.approx([each, each])
    assert spent.dollars == pytest.approx(2 * each)
    assert spent.cost_known
    assert spent.usage == agent.spent.usage == Usage(12_000, 200, 6_000, 4_000, 2)
    sent = [event for event in events if isinstance(event, RequestSent)]
    assert spent.definition_tokens == sum(event.offered_tokens for event in sent) > 0
    assert spent.definition_tokens + spent.saved_tokens == 2 * sent[0].known_tokens
    assert spent.saved_tokens == sum(event.saved_tokens for event in sent) > 0
    assert [event.spent for event in events if isinstance(event, RunFinished)] == [spent]


async def test_one_request_without_a_known_price_makes_the_sum_a_lower_bound() -> None:
    played = PlayedProvider(chat_stream({"content": "hi"}))
    model = OpenAIChatModel("mystery", base_url="http://localhost:1/v1", http_client=played.http_client)
    async with Agent(model) as agent:
        assert (agent.spent, agent.spent.cost_known) == (Spent(), True)
        await agent.ask("hello")
        assert (agent.spent.dollars, agent.spent.cost_known) == (0.0, False)


async def test_the_offline_model_costs_nothing() -> None:
    async with Agent("offline") as agent:
        await agent.ask("hello")
        assert (agent.spent.dollars, agent.spent.cost_known) == (0.0, True)
        assert agent.spent.usage.input_tokens > 0


async def test_a_chain_counts_the_model_that_answered_and_the_empty_answer_before() -> None:
    def answering(text: str, dollars: float) -> ScriptedModel:
        message = Message("assistant", (Text(text),))
        return ScriptedModel([ModelResponse(message, Usage(10, 1, requests=1), "end", dollars)])

    chain = FallbackModel([answering("", 0.25), answering("hi", 0.5)])
    answer = await chain.respond(ModelRequest("", (user_message("x"),)), ignore)
    assert (answer.message.text, answer.dollars, answer.usage) == ("hi", 0.75, Usage(20, 2, requests=2))


async def test_a_delegated_conversation_counts_for_the_one_who_asked() -> None:
    inner = AnthropicModel(
        "claude-sonnet-4-5",
        api_key="k",
        http_client=PlayedProvider(
            anthropic_stream(text_block("42"), usage={"input_tokens": 1_000, "output_tokens": 1})
        ).http_client,
    )
    outer = ScriptedModel([ToolCall("", "helper", {"prompt": "think"}), "It is 42."])
    helper = Agent(inner)
    async with Agent(outer, tools=[helper.as_tool("helper", "Helps.")]) as agent:
        await agent.ask("go")
        assert agent.spent.dollars == pytest.approx(0.003, rel=0.01)
        assert agent.spent.cost_known


@each_row(
    "model, cost",
    [
        ("anthropic:claude-sonnet-4-6", 20_000),  # a cached token costs a tenth
        ("anthropic:claude-sonnet-5-5", 40_000),
        ("anthropic:claude-fable-5-2", 80_000),
        ("anthropic:claude-opus-4-1", 30_000),  # a tenth, and the first found tools rewrite the beginning
        ("openai:gpt-5.5", 20_000),
        ("openai:gpt-4o", 4_000),
        ("openai:gpt-4-turbo", 4_000),  # no discount: a half counts
        ("openai-chat:gpt-4o", 4_000),
        ("gemini:gemini-2.5-flash", 30_000),
        ("openrouter:deepseek/deepseek-v4.1-flash", 150_000),  # a fiftieth
        ("openrouter:xiaomi/mimo-v2.5-pro", 362_500),
        ("ollama:qwen3", 20_000),
        ("openai-chat:unheard-of", 30_000),
        ("openai-chat:unheard-of?discovery=append", 60_000),
        ("openai-chat:unheard-of?discovery=call_tool", 20_000),
        (["openai:gpt-4o", "anthropic:claude-sonnet-5-5", "ollama:qwen3"], 40_000),
        ("offline", None),
    ],
)
def test_what_a_search_costs(model: str | list[str], cost: float | None) -> None:
    keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"), "k")
    found = search_cost(resolve_model(model, environ=keys))
    assert found == (cost if cost is None else pytest.approx(cost))


@each_row(
    "cost, load, tokens",
    [
        (None, "add_tool", 29_000),
        (20_000, "add_tool", 29_000),
        (40_000, "add_tool", 49_000),
        (80_000, "add_tool", 89_000),
        (4_000, "add_tool", 13_000),
        (400_000, "add_tool", 409_000),
        (20_000, "search", 49_500),
        (4_000, "search", 25_500),
    ],
)
def test_where_search_begins_to_pay(cost: float | None, load: Any, tokens: int) -> None:
    assert paying_tokens(cost, load=load) == tokens
    for size, searches in ((tokens - 1_000, False), (tokens + 1_000, True)):
        options = ToolSearch(enabled="auto", load=load)
        catalog = session_tools(usual_tools(size), options, search_cost=lambda: cost)
        assert catalog.searching is searches


def test_the_price_is_asked_for_only_where_it_decides() -> None:
    def never() -> float:
        raise AssertionError

    for size in (700, 12_000, 420_000):
        catalog = session_tools(usual_tools(size), ToolSearch(enabled="auto"), search_cost=never)
        assert catalog.searching is (size == 420_000)


def test_a_few_large_tools_are_offered_since_a_task_pays_for_most_of_them_either_way() -> None:
    for count, searches in ((10, False), (16, False), (24, True)):
        tools = [
            Tool(ToolDefinition(f"t{number}", "x" * 12_000, {"type": "object"}), _unused) for number in range(count)
        ]
        assert session_tools(tools, ToolSearch(enabled="auto")).searching is searches


def usual_tools(tokens: int) -> list[Tool]:
    """Tools of 350 tokens each."""
    described = "x" * (4 * 350 - 75)
    definitions = (
        ToolDefinition(f"tool_{number:03}", described, {"type": "object"}) for number in range(tokens // 350)
    )
    return [Tool(definition, _unused) for definition in definitions]


async def _unused(_arguments: dict[str, Any]) -> ToolOutput:
    raise AssertionError


@each_row(
    "provider, model, window",
    [
        ("gemini", "gemini-3-pro-preview", 1_048_576),
        ("gemini", "gemini-2.5-pro", 1_048_576),
        ("gemini", "gemini-9-pro", None),
        ("mistral", "mistral-large-latest", 256_000),
        ("mistral", "devstral-medium-latest", 128_000),
        ("deepseek", "deepseek-v4.1-flash", 1_048_576),
        ("groq", "llama-3.3-70b-versatile", 131_072),
        ("groq", "qwen/qwen3-32b", 131_072),
        ("xai", "grok-4.1-fast", 2_000_000),
        ("openrouter", "x-ai/grok-4", 256_000),
        ("ollama", "mistral-large-latest", None),
        ("gateway", "google/gemini-3-flash", 1_048_576),
        ("gateway", "unheard-of", None),
    ],
)
def test_the_window_of_what_people_use_is_known_also_where_the_table_of_prices_has_none(
    provider: str, model: str, window: int | None
) -> None:
    assert context_window(provider, model) == window
