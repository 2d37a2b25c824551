"""`enabled="auto"` is never dearer than offering all tools, by the prices of real models on the simulated providers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from benchmarks.cost import (
    AUTO,
    AUTO_LOADING,
    EVERYDAY_WAYS,
    PRICED,
    PROVIDERS,
    WAYS,
    Provider,
    Way,
    catalogue,
    everyday_job,
    job,
    run,
    searches,
    share_of_all,
)

from mcpagent import Agent, Tool, ToolOutput, ToolSearch
from mcpagent.models.base import search_cost
from mcpagent.tool_search.search_options import definition_tokens, paying_tokens
from tests.tables import each_row

BY_NAME = {provider.name: provider for provider in PRICED}


def break_even(provider: Provider, way: Way = AUTO) -> int:
    """How many made-up tools are just more than it takes."""
    cost = search_cost(provider.make("http://localhost", False))
    assert way.search is not None
    sizes = accumulate(definition_tokens(tool) for tool in catalogue(None, 4_000))
    counted = enumerate(sizes, 1)
    return next(n for n, size in counted if size > paying_tokens(cost, size / n, load=way.search.load))


FAST = [("gpt-4o", 1, AUTO)]
THOROUGH = [
    (model, questions, way)
    for model in ("gpt-4-turbo", "gpt-4o", "gpt-5.5", "claude-sonnet-4-6", "claude-sonnet-5-5", "gemini-2.5-flash")
    for questions in (1, 8)
    for way in (AUTO, AUTO_LOADING)
]


@pytest.mark.parametrize(
    ("model", "questions", "way"), [*FAST, *(pytest.param(*case, marks=pytest.mark.slow) for case in THOROUGH)]
)
async def test_where_auto_searches_it_costs_less(model: str, questions: int, way: Way) -> None:
    """Measured where it pays least: right above the line, with all definitions in the cache already."""
    provider = BY_NAME[model]
    tools = catalogue(None, break_even(provider, way))
    assert searches(provider, tools, way)
    assert not searches(provider, tools[:-1], way)
    assert await share_of_all(provider, tools, questions, way) < 1


@each_row("model", list(BY_NAME))
def test_below_the_line_all_tools_are_offered_at_the_same_price(model: str) -> None:
    for size in (5, 20, break_even(BY_NAME[model]) * 3 // 4):
        assert not searches(BY_NAME[model], catalogue(None, size))


@pytest.mark.slow
async def test_the_requests_until_a_found_tool_is_called() -> None:
    """A request each for searching, adding and calling, and one for the answer that ends each question."""
    work = job(catalogue(None, 60), 1, 4)
    expected = {"search, add_tool, call": 3, 'search with load="search", call': 2, "search, call at once": 2}
    expected |= {"the provider searches": 1, "all tools offered": 1}
    for way in WAYS:
        if way.name in expected:
            [cost] = await run(BY_NAME["claude-sonnet-4-6"], way, work)
            assert len(cost.requests) / 4 - 1 == expected[way.name], way.name


async def test_an_agent_decides_by_the_price_of_its_own_model() -> None:
    async def unused(_arguments: dict[str, Any]) -> ToolOutput:
        raise AssertionError

    tools = [Tool(tool, unused) for tool in catalogue(None, 35_000 // definition_tokens(catalogue(None, 1)[0]))]
    for name, hides in (("claude-sonnet-4-6", True), ("claude-sonnet-5-5", False)):
        model = BY_NAME[name].make("http://localhost", False)
        async with Agent(model, tools=tools, tool_search=ToolSearch(enabled="auto")) as agent:
            assert agent._runtime.tools.searching is hides


CATALOGS = Path(__file__).resolve().parents[3] / "shared" / "data" / "mcp-catalogs"
JUDGED = {
    "search, add_tool, call": 3,
    'search with load="search", call': 2,
    "search, call at once": 2,
    "the provider searches": 1,
}
"""The ways of ours, and the requests until a found tool is called."""


@pytest.mark.slow
@pytest.mark.parametrize("name", list(JUDGED))
@pytest.mark.parametrize("provider", PROVIDERS[:2], ids=lambda provider: provider.name)
async def test_eight_tasks_of_eight_questions_over_1220_tools(provider: Provider, name: str) -> None:
    """Real tools where they lie beside the repository, made-up ones elsewhere."""
    tools = catalogue(CATALOGS, 1_220)
    [way] = [way for way in WAYS if way.name == name]
    costs = await run(provider, way, job(tools, 8, 8))
    requests = [count for cost in costs for count in cost.requests]
    later = [count for cost in costs for count in cost.later]
    assert len(requests) / len(costs) / 8 - 1 == JUDGED[name]
    offering_all = 2 * 8 * sum(map(definition_tokens, tools))
    assert sum(count.definitions for count in requests) / len(costs) <= 0.05 * offering_all
    assert sum(count.read for count in later) >= 0.9 * sum(count.total for count in later)


@pytest.mark.slow
@pytest.mark.parametrize("provider", [PROVIDERS[0], PROVIDERS[2], PROVIDERS[4]], ids=lambda provider: provider.name)
@pytest.mark.parametrize("in_words", [False, True])
async def test_a_search_that_loads_saves_nearly_all_definitions(provider: Provider, in_words: bool) -> None:
    """By name 95 in a hundred at the least, of 551 tools; in a user's words, over fewer and smaller ones, 93."""
    everyday = await asyncio.to_thread(everyday_job, 8)
    work, most = (everyday, 0.07) if in_words else (job(catalogue(CATALOGS, 551), 3, 8), 0.05)
    [way] = [way for way in (*WAYS, *EVERYDAY_WAYS) if 'load="search"' in way.name and way.in_words == in_words]
    costs = await run(provider, replace(way, measured_tasks=3), work)
    requests = [count for cost in costs for count in cost.requests]
    later = [count for cost in costs for count in cost.later]
    offering_all = 2 * 8 * sum(map(definition_tokens, work.tools))
    assert sum(count.definitions for count in requests) / len(costs) <= most * offering_all
    assert sum(count.read for count in later) >= 0.9 * sum(count.total for count in later)
    assert len(requests) / len(costs) / 8 - 1 <= (2.5 if in_words else 2)
