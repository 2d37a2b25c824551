"""The whole agent against simulated providers: tools are searched, added and called, and no earlier byte changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from mcpagent import Agent, ToolSearch
from mcpagent.models import AnthropicModel, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.capabilities import Capabilities
from mcpagent.models.http_model import HttpModel
from mcpagent.values.messages import ToolDefinition
from mcpagent.values.tools import Tool, ToolOutput
from tests.simulator.server import PROTOCOLS, Simulator
from tests.simulator.values import PROVIDER_SEARCH, Said, View
from tests.tables import each_row

TOPICS = ("weather", "stocks", "trains", "recipes", "films", "books")


def catalogue(count: int) -> list[Tool]:
    """`count` tools with a text of some length each, as real ones have."""

    async def run(arguments: dict[str, Any]) -> ToolOutput:
        return ToolOutput.of_text(f"result for {json.dumps(arguments)}")

    return [Tool(_definition(number), run) for number in range(count)]


def _definition(number: int) -> ToolDefinition:
    topic = TOPICS[number % len(TOPICS)]
    properties = {
        "query": {"type": "string", "description": f"What to look up about {topic}. " * 3},
        "limit": {"type": "integer", "description": "How many entries to give back at most."},
    }
    schema = {"type": "object", "properties": properties, "required": ["query"]}
    return ToolDefinition(f"{topic}_{number}", f"Looks up {topic}, variant {number}. " * 3, schema)


MODELS: dict[str, Callable[[str], HttpModel]] = {
    "anthropic": lambda url: AnthropicModel("claude-sonnet-5-5", api_key="k", base_url=url, max_retries=0),
    "openai": lambda url: OpenAIResponsesModel(
        "m",
        api_key="k",
        base_url=f"{url}/v1",
        capabilities=Capabilities("additional_tools", allowed_tools=True),
        max_retries=0,
    ),
    "chat": lambda url: OpenAIChatModel("m", base_url=f"{url}/v1", provider="vllm", max_retries=0),
    "chat-proxy": lambda url: OpenAIChatModel(
        "m", base_url=f"{url}/v1", provider="vllm", capabilities=Capabilities("call_tool"), max_retries=0
    ),
}


class Worker:
    """A model that searches for a tool, adds it where it must, calls it and answers; a new topic for every question."""

    def __init__(self, way: str) -> None:
        self.way = way

    def __call__(self, view: View) -> Sequence[Said]:
        asked = [text for text in view.texts if text.startswith("Look up ")]
        name = f"{asked[-1].removeprefix('Look up ').rstrip('.')}_{len(asked) - 1}"
        since = view.texts[len(view.texts) - view.texts[::-1].index(asked[-1]) :]
        if any(text.startswith(("result for", f"{name}: result for")) for text in since):
            return [f"Found it with {name}."]
        if not since:
            return [("search_tools", {"query": name})]
        if self.way == "add_tool" and not any("Added tools" in text for text in since):
            return [("add_tool", {"tool_names": [name]})]
        arguments = {"query": "x"}
        if "call_tool" in view.shown:
            return [("call_tool", {"tool_name": name, "arguments": arguments})]
        return [(name, arguments)]


@pytest.mark.slow
@each_row("model", list(MODELS))
@each_row("way, requests_per_task", [("add_tool", 4), ("search", 3), ("direct", 3)])
async def test_several_questions_in_one_conversation(model: str, way: str, requests_per_task: int) -> None:
    """Counting the answer itself: a search, an addition, a call, an answer; one less when the search loads."""
    search, asked = ToolSearch(load="search" if way == "search" else "add_tool"), TOPICS[:4]
    async with Simulator(Worker(way)) as simulator:
        made = MODELS[model](simulator.url)
        async with Agent(made, tools=catalogue(60), tool_search=search, instructions="You help. " * 400) as agent:
            for place, topic in enumerate(asked):
                assert await agent.ask(f"Look up {topic}.") == f"Found it with {topic}_{place}."
            discovered = list(agent.discovered_tools)
        await made.aclose()
    log = simulator.log
    assert log.refused == []
    # A tool that a search showed is called before it is in `tools`: its signature stood in the search's answer.
    early = {"chat": 2, "chat-proxy": 0}.get(model, len(asked)) if way == "direct" else 0
    assert log.blind_calls == [f"{topic}_{place}" for place, topic in enumerate(asked)][:early]
    assert len(log.bodies) == requests_per_task * len(asked)
    assert set(discovered) >= {f"{topic}_{place}" for place, topic in enumerate(asked)}
    late = log.counted[2 * requests_per_task :]
    share = sum(count.read for count in late) / sum(count.total for count in late)
    assert share > 0.9, share
    for before, after in pairwise(log.bodies):
        history = "input" if model == "openai" else "messages"
        assert after[history][: len(before[history])] == before[history]
        assert after["tools"][: len(before["tools"])] == before["tools"]
        assert after.get("system", after.get("instructions")) == before.get("system", before.get("instructions"))


class Shrinking:
    """A toolset whose tools can go away between two questions."""

    def __init__(self, tools: list[Tool]) -> None:
        self.left = tools

    async def __aenter__(self) -> Shrinking:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def tools(self) -> list[Tool]:
        return list(self.left)


@each_row("execution", ["local", "provider"])
@each_row("model", ["anthropic", "openai"])
async def test_a_lost_tool_is_recorded_and_no_earlier_byte_changes(model: str, execution: Any) -> None:
    """The newest Claude models refuse a history whose beginning changed; here a found tool's server goes away."""

    def brain(view: View) -> Sequence[Said]:
        if view.texts[-1] == "Find.":
            if execution == "provider":
                return [(PROVIDER_SEARCH, {"query": "weather_0"}), "Found."]
            return [("add_tool", {"tool_names": ["weather_0"]})]
        return ["Done."]

    toolset = Shrinking(catalogue(40))
    async with Simulator(brain) as simulator:
        made = MODELS[model](simulator.url)
        if execution == "provider" and isinstance(made, OpenAIResponsesModel):
            made.capabilities = replace(made.capabilities, searches=True)
        async with Agent(made, tool_search=ToolSearch(execution=execution), tools=[toolset]) as agent:
            await agent.ask("Find.")
            assert "weather_0" in agent.discovered_tools
            toolset.left = toolset.left[1:]
            await agent.ask("And now?")
            assert "weather_0" not in agent.discovered_tools
            await agent.ask("Still?")
        await made.aclose()
    assert simulator.log.refused == []
    for before, after in pairwise(simulator.log.bodies):
        history = "input" if model == "openai" else "messages"
        assert after[history][: len(before[history])] == before[history]
    if (model, execution) == ("openai", "provider"):
        return  # there is no way to withdraw what OpenAI's own search loaded: a call of it is refused here
    protocol = PROTOCOLS["/v1/messages" if model == "anthropic" else "/v1/responses"]
    assert "weather_0" not in protocol.view(simulator.log.bodies[-1]).shown


@each_row("searching", [False, True])
@each_row("model", list(MODELS))
async def test_tools_offered_from_the_start_change_go_and_come_back(model: str, searching: bool) -> None:
    """What was sent is sent again, whatever becomes of the tools; the newest Claude models refuse anything else."""
    first, second, third = catalogue(3)
    names = [tool.name for tool in (first, second, third)]
    changed = replace(second, definition=replace(second.definition, description="Now it does something else."))
    toolset = Shrinking([first, second, third])
    async with Simulator(lambda _view: ["ok"]) as simulator:
        made = MODELS[model](simulator.url)
        search = ToolSearch(enabled=searching)
        async with Agent(made, tool_search=search, pre_discovered_tools=names, tools=[toolset]) as agent:
            for left in ([first, third], [third], [third, changed], [third, changed, first], [changed], [second]):
                await agent.ask("Hello.")
                toolset.left = left
            await agent.ask("Bye.")
            offered = {tool.name for tool in agent.offered_tools()} & set(names)
        await made.aclose()
    assert offered == {second.name}
    assert simulator.log.refused == []
    for before, after in pairwise(simulator.log.bodies):
        history = "input" if model == "openai" else "messages"
        assert after[history][: len(before[history])] == before[history]
        assert after["tools"] == before["tools"]
    if model in ("anthropic", "openai"):
        protocol = PROTOCOLS["/v1/messages" if model == "anthropic" else "/v1/responses"]
        shown = protocol.view(simulator.log.bodies[-1]).shown
        assert set(shown) & set(names) == {second.name}


@each_row("model", list(MODELS))
async def test_the_last_tool_may_go_too(model: str) -> None:
    toolset = Shrinking(catalogue(1))
    async with Simulator(lambda _view: ["ok"]) as simulator:
        made = MODELS[model](simulator.url)
        async with Agent(made, tools=[toolset]) as agent:
            await agent.ask("Hello.")
            toolset.left = []
            await agent.ask("And now?")
            assert agent.offered_tools() == []
        await made.aclose()
    assert simulator.log.refused == []
    assert simulator.log.bodies[1]["tools"] == simulator.log.bodies[0]["tools"]
    if model == "openai":
        assert simulator.log.bodies[1]["tool_choice"] == "none"
