"""The providers' own tool search: one search tool, everything deferred, results that enter the same history."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from mcpagent.errors import ConfigError
from mcpagent.history.conversation import fold_discovery
from mcpagent.models import AnthropicModel, ModelRequest, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.capabilities import Capabilities
from mcpagent.models.http_model import HttpModel
from mcpagent.models.openai.openai_responses_history import without_lost
from mcpagent.values.events import Event, Notice, ToolsSearched, ignore
from mcpagent.values.messages import Message, Text, ToolDefinition, ToolResult, user_message
from tests.simulator.server import Simulator
from tests.simulator.values import PROVIDER_SEARCH, Said, View
from tests.tables import each_row
from tests.wire.life import numbered
from tests.wire.scene import WEATHER

SEARCHING = Capabilities("additional_tools", allowed_tools=True, searches=True)
RATE = ToolDefinition("get_rate", "An exchange rate.", {"type": "object", "properties": {"pair": {}}}, server="bank")
LOCAL = ToolDefinition("local_note", "Notes.", {"type": "object", "properties": {}})
EAGER = numbered(99)


def models(url: str) -> dict[str, HttpModel]:
    more: dict[str, Any] = {"api_key": "k", "max_retries": 0}
    return {
        "anthropic": AnthropicModel("claude-sonnet-4-6", base_url=url, **more),
        "openai": OpenAIResponsesModel("m", base_url=f"{url}/v1", capabilities=SEARCHING, **more),
    }


def request(messages: Sequence[Message], *known: ToolDefinition, **more: Any) -> ModelRequest:
    """As an agent makes it: found tools are offered, and the provider goes on searching all."""
    found = fold_discovery(messages).discovered
    offered = [tool for name in found for tool in known if tool.name == name]
    deferred = tuple(sorted(known, key=lambda tool: tool.name))
    return ModelRequest("", tuple(messages), (EAGER, *offered), deferred, **more)


def searches_and_calls(view: View) -> Sequence[Said]:
    if view.answered == 0:
        return ["Searching.", (PROVIDER_SEARCH, {"query": "exchange"}), ("get_rate", {"pair": "USD/EUR"})]
    return ["0.92"]


@each_row("name", ["anthropic", "openai"])
async def test_one_request_searches_and_calls_and_the_next_answers(name: str) -> None:
    known = (RATE, WEATHER, LOCAL)
    async with Simulator(searches_and_calls) as simulator:
        model = models(simulator.url)[name]
        assert model.search_problem("auto", known) == ""
        events: list[Event] = []
        messages = [user_message("Rate?")]
        first = await model.respond(request(messages, *known), events.append)
        assert [call.name for call in first.message.tool_calls] == ["get_rate"]
        assert fold_discovery([first.message]).discovered == ("get_rate",)
        [searched] = [event for event in events if isinstance(event, ToolsSearched)]
        assert (searched.found, searched.matches, searched.known) == (1, ("get_rate",), 4)

        messages.append(first.message)
        call = first.message.tool_calls[0]
        messages.append(Message("tool", (ToolResult(call.id, call.name, (Text("0.92"),)),)))
        second = await model.respond(request(messages, *known), ignore)
        await model.aclose()
    assert second.message.text == "0.92"
    assert simulator.log.refused == []
    before, after = simulator.log.bodies
    assert json.dumps(after["tools"]) == json.dumps(before["tools"])
    history = "messages" if name == "anthropic" else "input"
    assert after[history][: len(before[history])] == before[history]


def test_what_anthropic_is_sent() -> None:
    model = AnthropicModel("claude-sonnet-4-6")
    for strategy, kind in (("auto", "bm25"), ("bm25", "bm25"), ("regex", "regex")):
        body = model.request_body(request([user_message("x")], WEATHER, RATE, search_strategy=strategy))
        eager, search, *deferred = body["tools"]
        assert eager["name"] == EAGER.name
        kind = f"tool_search_tool_{kind}"
        assert search == {"type": f"{kind}_20251119", "name": kind, "cache_control": {"type": "ephemeral"}}
        assert [tool["name"] for tool in deferred] == ["get_rate", "get_weather"]
        assert all(tool["defer_loading"] for tool in deferred)


def test_what_openai_is_sent() -> None:
    body = OpenAIResponsesModel("gpt-5.4").request_body(request([user_message("x")], WEATHER, RATE, LOCAL))
    eager, search, local, bank, weather = body["tools"]
    assert eager["name"] == EAGER.name
    assert search == {"type": "tool_search"}
    assert (local["name"], local["description"]) == ("own_functions", "1 functions: local_note")
    assert [(tool["name"], tool["defer_loading"]) for tool in local["tools"]] == [("local_note", True)]
    assert (bank["type"], bank["name"], weather["name"]) == ("namespace", "bank", "weather")
    assert bank["description"] == "1 tools of the server bank: get_rate"
    assert [(tool["name"], tool["defer_loading"]) for tool in bank["tools"]] == [("get_rate", True)]


@each_row("model", [AnthropicModel("claude-sonnet-4-6"), OpenAIResponsesModel("gpt-5.4")])
def test_with_nothing_deferred_there_is_no_trace_of_search(model: HttpModel) -> None:
    plain = ModelRequest("", (user_message("x"),), (EAGER,))
    body = json.dumps(model.request_body(plain))
    assert body == json.dumps(model.request_body(request([user_message("x")])))
    assert "search" not in body
    assert "defer" not in body


def test_models_that_cannot_search_are_sent_no_deferred_tools() -> None:
    for model in (
        AnthropicModel("claude-opus-4-1"),
        OpenAIResponsesModel("gpt-5.4-nano"),
        OpenAIResponsesModel("gpt-4o"),
        OpenAIChatModel("gpt-5.4"),
    ):
        assert model.search_problem("auto", [WEATHER]) == f"{model.name} has no tool search of its own"
        assert "get_weather" not in json.dumps(model.request_body(request([user_message("x")], WEATHER)))


def test_anthropics_limit_is_kept_here() -> None:
    many = tuple(numbered(number) for number in range(10_001))
    with pytest.raises(ConfigError, match="10,001 deferred tools are over its limit of 10,000"):
        AnthropicModel("claude-sonnet-4-6").request_body(ModelRequest("", (user_message("x"),), (EAGER,), many))


async def test_a_search_error_inside_a_good_answer_is_told() -> None:
    async with Simulator(lambda _view: [(PROVIDER_SEARCH, {"query": "#broken"}), "I could not."]) as simulator:
        model = models(simulator.url)["anthropic"]
        events: list[Event] = []
        answer = await model.respond(request([user_message("x")], WEATHER), events.append)
        await model.aclose()
    assert answer.message.text == "I could not."
    told = [event.text for event in events if isinstance(event, Notice)]
    assert told == ["anthropic: its tool search failed (unavailable: try later)"]


async def test_what_one_provider_found_the_other_can_call() -> None:
    """Anthropic searches, OpenAI goes on, Anthropic comes back: no rule is broken and nothing is searched again."""
    known = (RATE, WEATHER)
    async with Simulator(searches_and_calls) as simulator:
        both = models(simulator.url)
        messages = [user_message("Rate?")]
        for name in ("anthropic", "openai", "anthropic", "openai"):
            answer = await both[name].respond(request(messages, *known), ignore)
            messages.append(answer.message)
            results = tuple(ToolResult(call.id, call.name, (Text("0.92"),)) for call in answer.message.tool_calls)
            messages.append(Message("tool", results) if results else user_message("Sure?"))
        for model in both.values():
            await model.aclose()
    assert simulator.log.refused == []
    assert fold_discovery(messages).discovered == ("get_rate",)


@each_row("name", ["anthropic", "openai"])
async def test_a_found_tool_that_no_longer_exists_is_dropped_quietly(name: str) -> None:
    async with Simulator(searches_and_calls) as simulator:
        model = models(simulator.url)[name]
        messages = [user_message("Rate?")]
        first = await model.respond(request(messages, RATE, WEATHER), ignore)
        call = first.message.tool_calls[0]
        messages += [first.message, Message("tool", (ToolResult(call.id, call.name, (Text("0.92"),)),))]
        body = model.request_body(request(messages, WEATHER))
        assert "An exchange rate." not in json.dumps(body)
        assert "Weather of a place." in json.dumps(body)
        await model.respond(request(messages, WEATHER), ignore)
        await model.aclose()
    assert simulator.log.refused == []


def test_one_request_leaves_no_trace_in_the_next() -> None:
    """Without a system prompt and eager tools the search tool carries the cache's mark: in that request alone."""
    model = AnthropicModel("claude-sonnet-4-6")
    alone = model.request_body(ModelRequest("", (user_message("x"),), (), (WEATHER,)))
    assert alone["tools"][0]["cache_control"] == {"type": "ephemeral"}
    later = model.request_body(ModelRequest("sys", (user_message("x"),), (EAGER,), (WEATHER,)))
    assert "cache_control" not in later["tools"][0]


def test_of_a_namespace_that_was_found_what_still_exists_stays_as_it_was() -> None:
    function = {"type": "function", "name": "get_rate", "parameters": {"type": "object"}, "defer_loading": True}
    gone = {**function, "name": "gone"}
    space = {"type": "namespace", "name": "bank", "description": "d", "tools": [function, gone]}
    item = {"type": "tool_search_output", "call_id": None, "tools": [gone, space, {**space, "tools": [gone]}]}
    assert without_lost(item, {"get_rate"}) == {**item, "tools": [{**space, "tools": [function]}]}
    assert without_lost(item, {"get_rate", "gone"}) == item
    assert without_lost(function, set()) == function
