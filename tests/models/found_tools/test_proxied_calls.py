"""Found tools at endpoints that only append: the first two searches write tools, later ones are called by a proxy."""

from __future__ import annotations

import json
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from mcpagent.models import AnthropicModel, ModelRequest, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.base import discovery_note
from mcpagent.models.capabilities import Capabilities
from mcpagent.models.found_tools.discovery_notes import words_for_discovery
from mcpagent.models.http_model import HttpModel
from mcpagent.models.scripted import ScriptedModel
from mcpagent.values.events import ignore
from mcpagent.values.messages import Message, ToolResult, user_message
from tests.tables import each_row
from tests.wire.life import Life
from tests.wire.provider import (
    PlayedProvider,
    anthropic_stream,
    call_item,
    chat_stream,
    responses_stream,
    tool_block,
)

CALL = {"tool_name": "tool_3", "arguments": {"v0": "x"}}


def models() -> dict[str, HttpModel]:
    batches = Capabilities("batches")
    arguments = json.dumps(CALL)
    function = {"name": "call_tool", "arguments": arguments}
    called = {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}
    answers: dict[str, Any] = {
        "messages": anthropic_stream(tool_block("toolu_1", "call_tool", arguments), stop="tool_use"),
        "responses": responses_stream(call_item("call_1", "call_tool", arguments)),
        "chat": chat_stream(called, finish="tool_calls"),
    }
    kinds: dict[str, Any] = {"messages": AnthropicModel, "responses": OpenAIResponsesModel, "chat": OpenAIChatModel}
    return {
        name: kind("m", api_key="k", capabilities=batches, http_client=PlayedProvider(answers[name]).http_client)
        for name, kind in kinds.items()
    }


def tool_names(body: dict[str, Any]) -> list[str]:
    return [tool.get("name") or tool["function"]["name"] for tool in body["tools"]]


def searched(model: HttpModel, *numbers: int) -> Life:
    """A conversation in which each of these tools was found by a search of its own."""
    life = Life(model.origin)
    for number in numbers:
        life.live(("add", (number,)))
        life.live(("call", (number,)))
    return life


@each_row("protocol", list(models()))
def test_the_tools_of_two_searches_are_tools_and_later_ones_are_told_in_words(protocol: str) -> None:
    model = models()[protocol]
    eager = tool_names(model.request_body(searched(model).request()))
    one = model.request_body(searched(model, 1).request())
    two = model.request_body(searched(model, 1, 2).request())
    four = model.request_body(searched(model, 1, 2, 3, 4).request())
    assert tool_names(one) == [*eager, "tool_1"]
    assert tool_names(two) == tool_names(four) == [*eager, "tool_1", "tool_2", "call_tool"]
    for name in ("tool_3", "tool_4"):
        written = json.dumps(four).replace("\\", "")
        assert f'Call it as call_tool(tool_name, arguments): {{"name":"{name}"' in written
        assert f'"tool_name":"{name}"' in written.replace(": ", ":")
    assert "Call it as call_tool" not in json.dumps(two)


@each_row("protocol", list(models()))
async def test_a_call_through_the_proxy_is_a_call_of_the_tool_and_goes_back_as_it_came(protocol: str) -> None:
    model = models()[protocol]
    life = searched(model, 1, 2, 3)
    before = life.request()
    answer = (await model.respond(before, ignore)).message
    [call] = answer.tool_calls
    assert (call.name, call.arguments) == ("tool_3", {"v0": "x"})
    result = Message("tool", (ToolResult(call.id, call.name, ()),))
    after = model.request_body(ModelRequest(before.system, (*before.messages, answer, result), before.tools))
    written = json.dumps(after).replace("\\", "").replace(" ", "")
    assert '"tool_name":"tool_3","arguments":{"v0":"x"}' in written
    history = "input" if protocol == "responses" else "messages"
    sent = model.request_body(before)[history]
    assert after[history][: len(sent)] == sent


@pytest.mark.slow
@each_row("protocol", list(models()))
def test_no_life_rewrites_the_beginning_more_than_twice(protocol: str) -> None:
    model = models()[protocol]
    for seed in range(20):
        chance = Random(seed)
        life = Life(model.origin)
        bodies = [model.request_body(life.request())]
        for _ in range(12):
            kind = chance.choice(["search", "add", "search_loads", "call", "remove", "talk", "add_and_call"])
            life.live((kind, (chance.randrange(8),)))
            bodies.append(model.request_body(life.request()))
        rewritten = [before for before, after in pairwise(bodies) if before["tools"] != after["tools"]]
        assert len(rewritten) <= 2, seed
        history = "input" if protocol == "responses" else "messages"
        for before, after in pairwise(bodies):
            assert unmarked(after[history])[: len(before[history])] == unmarked(before[history]), seed


def unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [unmarked(one) for one in value]
    if isinstance(value, dict):
        return {key: unmarked(one) for key, one in value.items() if key != "cache_control"}
    return value


async def test_a_conversation_of_a_model_that_knew_references_goes_on_in_batches() -> None:
    """A cloud refused references: the same history is written with tools and words."""
    model = models()["messages"]
    other = AnthropicModel("claude-opus-4-8")
    life = searched(other, 1, 2, 3)
    life.messages.append(user_message("Go on."))
    assert tool_names(model.request_body(life.request()))[-3:] == ["tool_1", "tool_2", "call_tool"]


def test_the_way_and_its_cost_are_told_in_one_line() -> None:
    assert "stays whole" in words_for_discovery("references", 10_000, 0.1)
    assert words_for_discovery("call_tool", 10_000, 0.1).endswith("each search would cost as much as 9,000 tokens more")
    assert words_for_discovery("batches", 10_000, None).endswith("each search would have 10,000 tokens read again")
    groq = OpenAIChatModel("m", provider="groq", base_url="https://api.groq.com/openai/v1", api_key="k")
    assert discovery_note(groq, 10_000).startswith("after two searches, found tools are called through call_tool")
    assert discovery_note(ScriptedModel([]), 10_000) == ""
