"""What a compacted conversation is in a trace: the requests for its summaries, and what came of them."""

from __future__ import annotations

import logging

import pytest

from mcpagent import Agent, RunOptions
from tests.journal.tracing.conventions import misfits
from tests.journal.tracing.traced import Traced, attribute
from tests.run.compaction.windowed import WindowedModel, asks_then_tells

pytestmark = pytest.mark.anyio

SECRET = "Swordfish"


def read_all(name: str) -> str:
    """Reads all."""
    return f"About {name}, {SECRET}: {'word after word and number 7 ' * 60}"


async def test_requests_for_summaries_are_spans_and_what_was_said_is_in_none() -> None:
    traced = Traced()
    model = WindowedModel(asks_then_tells, 4_000, summary=lambda _request: f"They read of {SECRET}. " * 9)
    async with Agent(model, tools=[read_all], options=RunOptions(wrappers=[traced.tracing()])) as agent:
        for number in range(30):
            await agent.ask(f"{SECRET}? {number}")
    chats = traced.named("chat test")
    assert len(chats) == len(model.requests)
    summaries = [span for span in chats if (span.attributes or {}).get("mcpagent.purpose") == "summary"]
    assert summaries
    turns = [(span.attributes or {})["mcpagent.turn"] for span in chats if span not in summaries]
    assert turns[:3] == [1, 2, 1], "each question takes two turns"
    told = [event for span in traced.spans for event in span.events if event.name == "mcpagent.compacted"]
    assert len(told) >= len(summaries)
    sizes = [dict(event.attributes or {}) for event in told]
    assert all(int(str(size["mcpagent.tokens.after"])) < int(str(size["mcpagent.tokens.before"])) for size in sizes)
    assert [problem for span in traced.spans for problem in misfits(span)] == []
    assert SECRET not in str([(span.name, span.attributes, span.status.description) for span in traced.spans])
    assert SECRET not in str([(event.name, event.attributes) for span in traced.spans for event in span.events])


async def test_a_conversation_that_is_compacted_by_hand_has_a_trace_of_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    traced = Traced()
    model = WindowedModel(asks_then_tells, 100_000)
    async with Agent(model, tools=[read_all], options=RunOptions(wrappers=[traced.tracing()])) as agent:
        session = agent.session()
        for number in range(3):
            await session.ask(f"Question {number}")
        with caplog.at_level(logging.ERROR, "mcpagent"):
            assert await session.compact()
    assert not caplog.records
    last = traced.lines[-2:]
    assert last == ["invoke_agent", "  chat test"]
    assert attribute(traced.spans[-1], "mcpagent.purpose") == "summary"
