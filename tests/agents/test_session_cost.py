"""A new conversation starts its cost at zero; the total of the process is shown separately."""

from __future__ import annotations

import asyncio

from mcpagent import Agent, Message, ScriptedModel, Spent, Text, Usage
from mcpagent.cli.chat.status_line import Status, status_document, status_line
from mcpagent.cli.screen.terminal import open_terminal
from mcpagent.models.base import ModelRequest, ModelResponse
from mcpagent.values.events import Emit


def costing(text: str) -> ModelResponse:
    return ModelResponse(Message("assistant", (Text(text),)), Usage(100, 10, requests=1), "end", 0.25)


async def test_a_new_conversation_starts_at_zero() -> None:
    async with Agent(ScriptedModel([costing("one"), costing("two")])) as agent:
        await agent.ask("first")
        agent.new_conversation()
        assert agent._runtime.own_session.spent == Spent()
        await agent.ask("second")
        assert (agent._runtime.own_session.spent.dollars, agent.spent.dollars) == (0.25, 0.5)
        status = Status.of(agent, "ask", 0, is_started=True)
    line = status_line(status, open_terminal("never").glyphs, 200)
    assert "$0.250" in line
    assert "all $0.500" in line
    cost = status_document(status, "/here")["cost"]
    assert (cost["total_cost_usd"], cost["process_cost_usd"]) == (0.25, 0.5)


class SlowToEnd(ScriptedModel):
    """Takes its time to end when it is cancelled, and has cost something then."""

    asked, may_end = asyncio.Event(), asyncio.Event()

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        """Answers after `may_end`, whatever is cancelled."""
        self.asked.set()
        while not self.may_end.is_set():
            try:
                await self.may_end.wait()
            except asyncio.CancelledError:
                continue
        return costing("late")


async def test_a_run_that_was_left_costs_the_new_conversation_nothing() -> None:
    model = SlowToEnd([])
    async with asyncio.timeout(30), Agent(model) as agent:
        session = agent.session()
        async with session.stream("go"):
            await model.asked.wait()
        session._runtime.begin_anew()
        model.may_end.set()
        while session.is_answering:  # noqa: ASYNC110 - a session has no event for it
            await asyncio.sleep(0)
        assert session.spent == Spent()
        assert agent.spent.turns == 1
