"""No deferred tool is ever callable whose schema the model has not been shown: a lint over requests.

The recording in which a model, shown a tool's name alone, sent `ticker` where the schema says `symbol` is the case to
catch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpagent import Agent, ToolSearch
from mcpagent.models import AnthropicModel, ModelRequest, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.capabilities import Capabilities
from mcpagent.models.local.prompted_calls import prompted
from mcpagent.values.messages import Origin
from tests.models.test_http_model_recordings import RECORDINGS, recorded
from tests.models.test_tool_changes_in_history_agents import MODELS, TOPICS, Worker, catalogue
from tests.simulator.server import Simulator
from tests.wire.bounded import bounded
from tests.wire.life import KINDS, Life, Step
from tests.wire.lint import callable_unseen, unread

NAMED = {
    "type": "tool_result",
    "tool_use_id": "toolu_1",
    "content": [{"type": "text", "text": '{"discovered_tools":[{"name":"stock_lookup"}]}'}],
}
STOCK: dict[str, Any] = {
    "name": "stock_lookup",
    "description": "Look up stock price by ticker symbol.",
    "input_schema": {"type": "object", "properties": {"symbol": {"type": "string"}}, "required": ["symbol"]},
    "defer_loading": True,
}


def request_with(*blocks: Any, tools: tuple[Any, ...] = (STOCK,)) -> dict[str, Any]:
    return {"tools": [*tools], "messages": [{"role": "user", "content": [*blocks]}]}


def test_a_name_in_a_text_shows_no_schema() -> None:
    reference = {"type": "tool_reference", "tool_name": "stock_lookup"}
    assert callable_unseen(request_with(NAMED)) == ["stock_lookup"]
    assert callable_unseen(request_with({**NAMED, "content": [reference]})) == []
    added = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "stock_lookup"}}
    assert callable_unseen(request_with(NAMED, added)) == []
    search = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
    assert callable_unseen(request_with(NAMED, tools=(search, STOCK))) == []


@pytest.mark.skipif(not RECORDINGS.is_dir(), reason="no recordings beside the repository (../shared/data/cassettes)")
def test_the_recording_of_the_wrong_parameter_is_caught() -> None:
    caught: dict[str, set[str]] = {}
    for name, _, exchanges in recorded():
        for exchange in exchanges:
            for tool in callable_unseen(exchange["request"]["parsed_body"]):
                caught.setdefault(name, set()).add(tool)
    assert "stock_lookup" in caught["test_tool_search_eval[anthropic]"]


CAN = {
    "references": Capabilities("references"),
    "by_reference": Capabilities("references", "by_reference"),
    "by_value": Capabilities("references", "by_value"),
    "searching": Capabilities("references", "by_value", searches=True),
}


LIVES = st.lists(st.tuples(st.sampled_from(KINDS), st.lists(st.integers(0, 4)).map(tuple)), max_size=10)
DEFERRING = {
    **{name: AnthropicModel("claude-x", capabilities=can) for name, can in CAN.items()},
    "openai": OpenAIResponsesModel("m", capabilities=Capabilities("additional_tools", allowed_tools=True)),
}


@pytest.mark.slow
@given(life=LIVES)
@bounded
def test_none_is_in_any_request_of_ours(life: list[Step]) -> None:
    lived = Life(Origin("anthropic"))
    for step in life:
        lived.live(step)
        request = lived.request()
        for name, model in DEFERRING.items():
            assert callable_unseen(model.request_body(request)) == [], name


MODES: dict[str, Callable[[ModelRequest], dict[str, Any]]] = {
    **{name: AnthropicModel("claude-x", capabilities=can).request_body for name, can in CAN.items()},
    "anthropic, at the end": AnthropicModel("claude-x").request_body,
    "inline": OpenAIResponsesModel("gpt-5").request_body,
    "inline, can search": OpenAIResponsesModel("gpt-5.4").request_body,
    "openai, at the end": OpenAIResponsesModel("o3").request_body,
    "chat": OpenAIChatModel("m").request_body,
    "call_tool": OpenAIChatModel("m", capabilities=Capabilities("call_tool")).request_body,
    "prompted": lambda request: OpenAIChatModel("m").request_body(prompted(request, constrained=False)),
}


@pytest.mark.slow
@given(life=LIVES)
@example([("found_elsewhere", (1,)), ("change", (1,)), ("remove", (1,)), ("add", (1,)), ("change_eager", (0,))])
@bounded
def test_what_can_be_called_was_read_as_it_is_now(life: list[Step]) -> None:
    """In every mode, after any change, and after what another provider's search found."""
    lived = Life(Origin("anthropic"))
    for step in life:
        lived.live(step)
        request = lived.request()
        for mode, body in MODES.items():
            assert unread(body(request), request.tools) == [], mode


@pytest.mark.parametrize("model", ["anthropic", "openai"])
@pytest.mark.parametrize("load", ["add_tool", pytest.param("search", marks=pytest.mark.slow)])
async def test_none_is_in_any_request_of_an_agent(model: str, load: Any) -> None:
    async with Simulator(Worker(load)) as simulator:
        made = MODELS[model](simulator.url)
        async with Agent(made, tools=catalogue(60), tool_search=ToolSearch(load=load)) as agent:
            for topic in TOPICS[:3]:
                await agent.ask(f"Look up {topic}.")
        await made.aclose()
    assert [callable_unseen(body) for body in simulator.log.bodies] == [[]] * len(simulator.log.bodies)
    assert simulator.log.blind_calls == []
