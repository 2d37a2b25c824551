"""Simulated providers with a hard window, over real HTTP: long conversations with large results reach their end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mcpagent import Agent, ToolSearch
from mcpagent.models import AnthropicModel, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.base import ToolLimits
from mcpagent.models.capabilities import Capabilities, anthropic_capabilities, openai_capabilities
from mcpagent.models.http_model import HttpModel
from mcpagent.values.events import ConversationCompacted, Event
from tests.run.compaction.windowed import SUMMARISE
from tests.simulator.server import Simulator
from tests.simulator.values import Said, View
from tests.wire.provider import Waits

WINDOW = 8_000


def with_window(can: Capabilities, window: int | None) -> Capabilities:
    return Capabilities(
        can.discovery, can.tool_changes, can.allowed_tools, can.searches, ToolLimits(window_tokens=window)
    )


MODELS: dict[str, Callable[..., HttpModel]] = {
    "anthropic": lambda url, window, **more: AnthropicModel(
        "claude-opus-5-5",
        base_url=url,
        capabilities=with_window(anthropic_capabilities("claude-opus-5-5"), window),
        **more,
    ),
    "responses": lambda url, window, **more: OpenAIResponsesModel(
        "gpt-5.4",
        base_url=f"{url}/v1",
        capabilities=with_window(openai_capabilities("gpt-5.4"), window),
        **more,
    ),
    "chat": lambda url, window, **more: OpenAIChatModel(
        "m",
        base_url=f"{url}/v1",
        provider="vllm",
        capabilities=with_window(Capabilities("call_tool"), window),
        **more,
    ),
}


def read_page(page: str) -> str:
    """Reads a page of a book."""
    number = int(page)
    return f"Page {number}. " + "It goes on and on. " * (3_000 if number % 50 == 7 else 60 + number % 40)


def brain(view: View) -> Sequence[Said]:
    """Finds the tool, then reads a page for each question."""
    if any(SUMMARISE in text for text in view.texts[-2:]):
        return ["The user has pages of a book read. " * 4]
    if view.must_answer:
        return ["That is all."]
    asked = max(place for place, text in enumerate(view.texts) if text.startswith("Read page"))
    if any("Page " in text[:400] for text in view.texts[asked + 1 :]):
        return ["It goes on."]
    page = {"page": view.texts[asked].split()[2]}
    if "read_page" in view.shown:
        return [("read_page", page)]
    if "call_tool" in view.shown and "read_page" in str(view.texts):
        return [("call_tool", {"tool_name": "read_page", "arguments": page})]
    return [("add_tool", {"tool_names": ["read_page"]})]


async def read(name: str, pages: int, window: int | None) -> tuple[Simulator, list[Event], Agent]:
    events: list[Event] = []
    async with Simulator(brain, window_tokens=WINDOW) as simulator:
        model = MODELS[name](simulator.url, window, api_key="k", sleep=Waits())
        search = ToolSearch(enabled=True, scope="all")
        async with Agent(model, tools=[read_page, *others()], tool_search=search, on_event=events.append) as agent:
            for page in range(pages):
                assert await agent.ask(f"Read page {page} to me.") == "It goes on."
        await model.aclose()
    return simulator, events, agent


def others() -> list[Any]:
    def made(number: int) -> Callable[[str], str]:
        def other(name: str) -> str:
            return name

        other.__name__, other.__doc__ = f"other_{number}", f"Does the other thing number {number}."
        return other

    return [made(number) for number in range(10)]


def of(events: Sequence[Event]) -> list[ConversationCompacted]:
    return [event for event in events if isinstance(event, ConversationCompacted)]


@pytest.mark.parametrize(
    "name", ["anthropic", *(pytest.param(name, marks=pytest.mark.slow) for name in ("responses", "chat"))]
)
async def test_a_long_conversation_is_compacted_and_its_rules_are_kept(name: str) -> None:
    simulator, events, _ = await read(name, 30, WINDOW)
    assert simulator.log.refused == []
    assert simulator.log.blind_calls == []
    assert any(event.summarised for event in of(events))
    assert max(count.total for count in simulator.log.counted) <= WINDOW


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False], ids=["known", "told by refusals"])
@pytest.mark.parametrize("name", list(MODELS))
async def test_hundreds_of_turns_reach_their_end(name: str, known: bool) -> None:
    turns = (500 if name == "anthropic" else 200) if known else 100
    simulator, events, agent = await read(name, turns, WINDOW if known else None)
    refused = [str(refusal) for refusal in simulator.log.refused]
    assert all("too long" in text or "maximum context length" in text for text in refused), refused
    assert len(refused) <= (0 if known else 15)
    assert of(events)
    assert sum(message.text.startswith("Read page") for message in agent.messages) == turns
