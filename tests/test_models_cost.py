"""`enabled="auto"` is never dearer than offering all tools, by the prices of real models on the simulated providers."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest

from benchmarks.cost import PRICED, WAYS, Provider, catalogue, job, run, searches, share_of_all
from mcpagent import Agent, Tool, ToolOutput, ToolSearch
from mcpagent.catalog import definition_tokens, paying_tokens
from mcpagent.models.base import cached_share

BY_NAME = {provider.name: provider for provider in PRICED}
EACH_TOOL = definition_tokens(catalogue(None, 200)[0])


def break_even(provider: Provider) -> int:
    """How many made-up tools are just more than it takes."""
    limit = paying_tokens(cached_share(provider.make("http://localhost", False)), EACH_TOOL)
    sizes = accumulate(map(definition_tokens, catalogue(None, 1 + limit // EACH_TOOL)))
    return next(count for count, tokens in enumerate(sizes, 1) if tokens > limit)


@pytest.mark.parametrize(
    ("model", "questions"),
    [("gpt-4o", 1), ("gpt-5.5", 1), ("claude-sonnet-4-6", 1), ("claude-sonnet-5-5", 1), ("claude-sonnet-4-6", 4)],
)
async def test_where_auto_searches_it_costs_less(model: str, questions: int) -> None:
    """Measured where it pays least: right above the line, with all definitions in the cache already."""
    provider = BY_NAME[model]
    tools = catalogue(None, break_even(provider))
    assert searches(provider, tools)
    assert await share_of_all(provider, tools, questions) < 1


@pytest.mark.parametrize("model", list(BY_NAME))
def test_below_the_line_all_tools_are_offered_at_the_same_price(model: str) -> None:
    for size in (5, 20, break_even(BY_NAME[model]) * 3 // 4):
        assert not searches(BY_NAME[model], catalogue(None, size))


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

    tools = [Tool(tool, unused) for tool in catalogue(None, 30_000 // EACH_TOOL)]
    for name, hides in (("claude-sonnet-4-6", True), ("claude-sonnet-5-5", False)):
        model = BY_NAME[name].make("http://localhost", False)
        async with Agent(model, tools=tools, tool_search=ToolSearch(enabled="auto")) as agent:
            assert agent.catalog.searching is hides
