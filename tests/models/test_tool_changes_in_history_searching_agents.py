"""Agents whose model's provider searches: one search tool or none, the same discovery, warnings instead of silence."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import httpx2
import pytest

from mcpagent import Agent, ToolSearch
from mcpagent.errors import ConfigError
from mcpagent.models import AnthropicModel, FallbackModel, Model, OpenAIChatModel, OpenAIResponsesModel, ScriptedModel
from mcpagent.models.capabilities import Capabilities
from mcpagent.models.http_model import HttpModel
from mcpagent.values.events import Event, Notice, ToolsLoaded, ToolsSearched
from tests.models.test_tool_changes_in_history_agents import catalogue
from tests.simulator.server import Simulator
from tests.simulator.values import PROVIDER_SEARCH, Said, View
from tests.tables import each_row
from tests.wire.provider import PlayedProvider, anthropic_stream

BOTH = each_row("name", ["anthropic", "openai"])
BY_PROVIDER = ToolSearch(execution="provider")


def made(name: str, url: str) -> HttpModel:
    more: dict[str, Any] = {"api_key": "k", "max_retries": 0}
    if name == "anthropic":
        return AnthropicModel("claude-sonnet-5-5", base_url=url, **more)
    can = Capabilities("additional_tools", allowed_tools=True, searches=True)
    return OpenAIResponsesModel("m", base_url=f"{url}/v1", capabilities=can, **more)


def finds_and_calls(view: View) -> Sequence[Said]:
    """Searches for what the last question names and calls it in the same answer, then answers."""
    questions = [text for text in view.texts if text.startswith("Use ")]
    name = questions[-1].removeprefix("Use ")
    if view.texts[-1] != questions[-1]:
        return [f"Used {name}."]
    search: list[Said] = [] if name in view.shown else [(PROVIDER_SEARCH, {"query": name})]
    return [*search, (name, {"query": "x"})]


@BOTH
async def test_what_the_provider_found_is_discovered_and_stays_so(name: str) -> None:
    events: list[Event] = []
    async with Simulator(finds_and_calls) as simulator:
        model = made(name, simulator.url)
        agent = Agent(model, tools=catalogue(60), tool_search=BY_PROVIDER, on_event=events.append)
        async with agent:
            assert agent.offered_tools() == []
            for tool in ("weather_0", "stocks_1", "weather_0"):
                assert await agent.ask(f"Use {tool}") == f"Used {tool}."
            assert set(agent.discovered_tools) >= {"weather_0", "stocks_1"}
            assert "search_tools" not in agent._runtime.own_session.system
            assert re.search(r"^- functions \(.+\), 60 tools$", agent._runtime.own_session.system, re.MULTILINE)
        await model.aclose()
    log = simulator.log
    assert log.refused == []
    assert log.blind_calls == []
    assert len(log.bodies) == 6  # a search and its call are one request, the answer is another
    assert [event.query for event in events if isinstance(event, ToolsSearched)] != []
    assert "weather_0" in next(event for event in events if isinstance(event, ToolsLoaded)).names
    assert not [event for event in events if isinstance(event, Notice)]
    for before, after in pairwise(log.bodies):
        history = "input" if name == "openai" else "messages"
        assert after[history][: len(before[history])] == before[history]
        assert after["tools"] == before["tools"]
    kinds = [tool.get("type", "") for tool in log.bodies[0]["tools"]]
    assert [kind for kind in kinds if "search" in kind] == [kinds[0]]
    assert "search_tools" not in json.dumps(log.bodies)


@BOTH
async def test_with_nothing_deferred_the_request_is_the_same_as_without_tool_search(name: str) -> None:
    """A pinned tool is all there is, or every tool is kept out of the search."""
    bodies: list[str] = []
    pinned = [tool.name for tool in catalogue(2)]
    choices: list[dict[str, Any]] = [{}, {"tool_search": BY_PROVIDER, "pre_discovered_tools": pinned}]
    for options in choices:
        async with Simulator(lambda _view: ["ok"]) as simulator:
            model = made(name, simulator.url)
            async with Agent(model, tools=catalogue(2), **options) as agent:
                await agent.ask("hello")
            await model.aclose()
        bodies.append(json.dumps(simulator.log.bodies))
    assert "tool_search" not in bodies[0]
    assert bodies[0] == bodies[1]


@each_row("strategy, kind", [("auto", "bm25"), ("bm25", "bm25"), ("regex", "regex")])
async def test_the_strategy_is_the_providers_where_it_has_one(strategy: Any, kind: str) -> None:
    async with Simulator(lambda _view: ["ok"]) as simulator:
        model = made("anthropic", simulator.url)
        search = ToolSearch(execution="provider", strategy=strategy)
        async with Agent(model, tools=catalogue(3), tool_search=search) as agent:
            await agent.ask("hello")
        await model.aclose()
    [body] = simulator.log.bodies
    assert [tool["name"] for tool in body["tools"] if "type" in tool] == [f"tool_search_tool_{kind}"]


UNABLE: dict[str, tuple[Model, Any, str]] = {
    "a model that cannot": (
        AnthropicModel("claude-opus-4-1", api_key="k"),
        "auto",
        "anthropic:claude-opus-4-1 has no tool search of its own",
    ),
    "a provider that cannot": (
        OpenAIChatModel("m", base_url="http://localhost:1/v1", provider="vllm"),
        "auto",
        "vllm:m has no tool search of its own",
    ),
    "a model of one's own": (ScriptedModel([]), "auto", "scripted:test has no tool search of its own"),
    "a strategy it has not": (
        OpenAIResponsesModel("gpt-5.4", api_key="k"),
        "regex",
        'OpenAI ranks in a way of its own, not by "regex"',
    ),
    "one of a chain": (
        FallbackModel([AnthropicModel("claude-opus-4-8", api_key="k"), OpenAIResponsesModel("gpt-4o", api_key="k")]),
        "auto",
        "openai:gpt-4o has no tool search of its own",
    ),
}


@each_row("case", list(UNABLE))
async def test_where_the_provider_cannot_search_there_is_one_warning_and_our_search(case: str) -> None:
    model, strategy, why = UNABLE[case]
    events: list[Event] = []
    search = ToolSearch(execution="provider", strategy=strategy)
    async with Agent(model, tools=catalogue(40), tool_search=search, on_event=events.append) as agent:
        agent.new_conversation()
        assert [tool.name for tool in agent.offered_tools()] == ["search_tools", "add_tool"]
        assert "search_tools" in agent._runtime.own_session.system
    assert [event for event in events if isinstance(event, Notice)] == [
        Notice(f'tool search: {why}; mcpagent searches instead (execution "local")', "warning")
    ]


@pytest.mark.slow
async def test_a_catalogue_over_the_providers_limit_is_searched_here() -> None:
    events: list[Event] = []
    model = AnthropicModel("claude-opus-4-8", api_key="k")
    async with Agent(model, tools=catalogue(10_001), tool_search=BY_PROVIDER, on_event=events.append) as agent:
        assert [tool.name for tool in agent.offered_tools()] == ["search_tools", "add_tool"]
    [told] = [event.text for event in events if isinstance(event, Notice)]
    assert "10,001 deferred tools are over its limit of 10,000; mcpagent searches instead" in told


@each_row("strategy", ["hybrid", lambda _query, _tools: []])
def test_a_ranking_that_no_provider_has_is_refused_at_once(strategy: Any) -> None:
    with pytest.raises(ConfigError, match=r'ToolSearch.strategy: providers rank by "auto", "bm25" or "regex"'):
        ToolSearch(execution="provider", strategy=strategy)
    with pytest.raises(ConfigError, match=r"ToolSearch\.execution: expected one of 'auto', 'local', 'provider'"):
        ToolSearch(execution="elsewhere")  # type: ignore[arg-type]


async def test_a_removed_tool_is_found_again_by_searching() -> None:
    """No word of tools that are not offered: `add_tool` is not there."""

    def brain(view: View) -> Sequence[Said]:
        match view.answered:
            case 0:
                return [(PROVIDER_SEARCH, {"query": "weather_0"}), ("weather_0", {"query": "x"})]
            case 1:
                return [("remove_tool", {"tool_names": ["weather_0"]})]
            case 2:
                return [("weather_0", {"query": "x"})]
            case _:
                return ["Done."]

    async with Simulator(brain) as simulator:
        model = made("anthropic", simulator.url)
        search = ToolSearch(execution="provider", extra_tools=("remove_tool",))
        async with Agent(model, tools=catalogue(40), tool_search=search) as agent:
            assert [tool.name for tool in agent.offered_tools()] == ["remove_tool"]
            await agent.ask("Use weather_0")
            results = [result for message in agent.messages for result in message.tool_results]
            assert "weather_0" not in agent.discovered_tools
        await model.aclose()
    assert simulator.log.refused == []
    assert results[2].text == '"weather_0" was removed in this conversation. Search for it to load it.'


async def test_auto_is_our_own_search() -> None:
    played = PlayedProvider(anthropic_stream([{"type": "text", "text": ""}, {"type": "text_delta", "text": "ok"}]))
    model = AnthropicModel("claude-opus-4-8", api_key="k", http_client=played.http_client)
    async with Agent(model, tools=catalogue(40), tool_search=ToolSearch()) as agent:
        await agent.ask("hello")
    body = json.loads(played.requests[0].content)
    assert [tool["name"] for tool in body["tools"]] == ["search_tools", "add_tool"]
    assert isinstance(played.requests[0], httpx2.Request)
