"""Calls that Anthropic runs beside calls of ours: their results stand in the next answer, or nowhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcpagent import Agent, Message, WebSearch, load_messages
from mcpagent.models import AnthropicModel, ModelRequest, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.http_model import HttpModel
from mcpagent.models.provider_tools.provider_calls import calls_to_come
from mcpagent.values.events import Event, ProviderCallFinished, ProviderCallStarted
from mcpagent.values.messages import Origin, Part, ProviderBlock, Text, ToolCall, ToolResult, user_message
from tests.models.provider_tools.test_provider_tool_forms import MCP
from tests.simulator.anthropic_rules import check
from tests.tables import each_row
from tests.wire.provider import PlayedProvider, anthropic_stream, text_block, tool_block
from tests.wire.scene import WEATHER

SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "rain"}}
LISTED = {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "list", "server_name": "linear", "input": {}}
PAGE = {"type": "web_search_result", "url": "https://example.org", "title": "Rain today", "encrypted_content": "e"}
SEARCHED = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [PAGE]}
ISSUES = {
    "type": "mcp_tool_result",
    "tool_use_id": "mcptoolu_1",
    "is_error": False,
    "content": [{"type": "text", "text": "two issues"}],
}
MIXED = ([SEARCH], [LISTED], tool_block("toolu_1", "weather", '{"city":"Rome"}'))


def weather(city: str) -> str:
    """The weather."""
    return f"sun in {city}"


async def conversation(*answers: Any) -> tuple[Sequence[Message], list[Event], list[dict[str, Any]]]:
    """What a conversation of two questions leaves, if the first is answered so."""
    played = PlayedProvider(*answers, anthropic_stream(text_block("Bye.")))
    events: list[Event] = []
    model = AnthropicModel("claude-opus-5-5", api_key="k", http_client=played.http_client)
    async with Agent(model, tools=[WebSearch(), MCP, weather], on_event=events.append) as agent:
        await agent.ask("Rain?")
        await agent.ask("Thanks.")
        return agent.messages, events, played.bodies


def blocks(body: Mapping[str, Any]) -> list[str]:
    return [block["type"] for turn in body["messages"] if turn["role"] == "assistant" for block in turn["content"]]


async def test_a_result_in_the_next_answer_is_told_and_goes_back_as_it_came() -> None:
    first = anthropic_stream(*MIXED, stop="tool_use")
    _, events, bodies = await conversation(first, anthropic_stream([SEARCHED], [ISSUES], text_block("Sunny.")))
    assert blocks(bodies[1]) == ["server_tool_use", "mcp_tool_use", "tool_use"]
    assert blocks(bodies[2])[3:] == ["web_search_tool_result", "mcp_tool_result", "text"]
    for body in bodies:
        check(body, {"anthropic-beta": "mcp-client-2026-09-15"})
    assert [event.call.name for event in events if isinstance(event, ProviderCallStarted)] == ["web_search", "list"]
    ended = [(event.call.name, event.outcome) for event in events if isinstance(event, ProviderCallFinished)]
    assert ended == [("web_search", "1 result"), ("list", "two issues")]


async def test_a_call_that_never_got_a_result_is_not_sent_for_good() -> None:
    first = anthropic_stream(*MIXED, stop="tool_use")
    messages, _, bodies = await conversation(first, anthropic_stream(text_block("Sunny.")))
    assert set(calls_to_come(messages[1])) == {"srvtoolu_1", "mcptoolu_1"}
    assert blocks(bodies[2]) == ["tool_use", "text"]
    check(bodies[2], {"anthropic-beta": "mcp-client-2026-09-15"})


@each_row(
    "model",
    [OpenAIResponsesModel("gpt-5.5"), OpenAIChatModel("some", provider="other"), AnthropicModel("claude-opus-5-5")],
)
async def test_a_model_without_the_tools_is_told_what_came_of_them(model: HttpModel) -> None:
    first = anthropic_stream(*MIXED, stop="tool_use")
    second = anthropic_stream([SEARCHED], [ISSUES], text_block("Sunny."))
    messages, *_ = await conversation(first, second)
    messages = load_messages([json.loads(json.dumps(one)) for one in _dumped(messages)])
    body = model.request_body(ModelRequest("", (*messages, user_message("And?"))))
    written = json.dumps(body)
    assert "two issues" in written
    assert "Rain today" in written
    assert "mcp_tool" not in written
    if isinstance(model, AnthropicModel):
        check(body, {})


def _dumped(messages: Sequence[Message]) -> list[Any]:
    from mcpagent import dump_messages

    return dump_messages(messages)


HERE = Origin("anthropic", "messages", "api.anthropic.com", "claude-opus-5-5")
THERE = Origin("openai", "responses", "api.openai.com/v1", "gpt-5.5")

_numbers = st.lists(st.integers(0, 3), max_size=3, unique=True)
_answers = st.lists(st.tuples(st.booleans(), _numbers, _numbers, st.booleans(), st.booleans()), min_size=1, max_size=5)


@given(_answers, st.booleans())
def test_whatever_is_missing_of_a_history_what_is_written_is_in_pairs(
    answers: list[tuple[bool, list[int], list[int], bool, bool]], has_server: bool
) -> None:
    history: list[Message] = [user_message("Go.")]
    for number, (is_here, results, calls, has_call, has_text) in enumerate(answers):
        parts: list[Part] = [
            ProviderBlock({**(ISSUES if one % 2 else SEARCHED), "tool_use_id": f"srvtoolu_{one}"}) for one in results
        ]
        parts += [Text("Well.")] if has_text else []
        parts += [ProviderBlock({**(LISTED if one % 2 else SEARCH), "id": f"srvtoolu_{one}"}) for one in calls]
        parts += [ToolCall(f"toolu_{number}", WEATHER.name, {"city": "Rome"})] if has_call or not parts else []
        history.append(Message("assistant", tuple(parts), origin=HERE if is_here else THERE))
        if any(isinstance(part, ToolCall) for part in parts):
            history.append(Message("tool", (ToolResult(f"toolu_{number}", WEATHER.name, (Text("sun"),)),)))
        else:
            history.append(user_message("Go on."))
    tools = (WebSearch(), MCP) if has_server else ()
    request = ModelRequest("", tuple(history), (WEATHER,), provider_tools=tools)
    body = AnthropicModel("claude-opus-5-5").request_body(request)
    check(body, {"anthropic-beta": "mcp-client-2026-09-15"})
