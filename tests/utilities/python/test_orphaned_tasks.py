"""Tools and models that do not end when they are cancelled: no limit waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcpagent import (
    Agent,
    LimitError,
    Limits,
    ModelRequest,
    ModelResponse,
    RunOptions,
    ScriptedModel,
    Tool,
    ToolCall,
    ToolDefinition,
    ToolOutput,
)
from mcpagent.values.events import Emit, Event, Notice, TextDelta
from tests.scenes import results
from tests.tables import each_row
from tests.values.limits.endless import SECONDS, Endless

WAIT = 30.0


class Stubborn:
    """A tool that goes on whatever is asked of it, until it is `freed`."""

    def __init__(self) -> None:
        self.begun, self.freed, self.over = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def __call__(self) -> str:
        """Holds on."""
        self.begun.set()
        while not self.freed.is_set():
            try:
                await self.freed.wait()
            except asyncio.CancelledError:
                continue
        self.over.set()
        return "at last"

    @asynccontextmanager
    async def ended(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            self.freed.set()
            if self.begun.is_set():
                await self.over.wait()


def tool_of(stubborn: Stubborn, *, seconds: float | None = None) -> Tool:
    async def run(_: Any) -> ToolOutput:
        return ToolOutput.of_text(await stubborn())

    definition = ToolDefinition("hold", "Holds on.", {"type": "object", "properties": {}})
    return Tool(definition, run, timeout_seconds=seconds)


CALL = ToolCall("1", "hold", {})


def notices(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


LEFT = 'tool "hold" does not end when it is cancelled; it is left running'


async def test_the_seconds_of_a_session_end_it_all_the_same() -> None:
    stubborn, events = Stubborn(), list[Event]()
    options = RunOptions(session_limits=Limits(seconds=SECONDS))
    model = ScriptedModel([CALL, "still here"])
    async with (
        stubborn.ended(),
        asyncio.timeout(WAIT),
        Agent(model, tools=[tool_of(stubborn)], options=options, on_event=events.append) as agent,
    ):
        session = agent.session()
        result = await session.run("go")
        assert result.stop == "max_seconds"
        assert [item.error for item in results(session.messages)] == ["cancelled"]
        assert notices(events) == [LEFT]
        assert not stubborn.over.is_set()
        session._runtime.limits = Limits()
        assert await session.ask("and now?") == "still here"


async def test_its_own_limit_of_time_is_told_to_the_model() -> None:
    stubborn, events = Stubborn(), list[Event]()
    model = ScriptedModel([CALL, "done"])
    tools = [tool_of(stubborn, seconds=0.05)]
    async with stubborn.ended(), asyncio.timeout(WAIT), Agent(model, tools=tools, on_event=events.append) as agent:
        assert (await agent.run("go")).answer == "done"
        [result] = results(agent.messages)
        assert (result.error, "may have run, or still be running" in result.text) == ("timeout", True)
        assert notices(events) == [LEFT]


@pytest.mark.slow
async def test_a_person_who_cancels_is_not_held() -> None:
    stubborn = Stubborn()
    async with (
        stubborn.ended(),
        asyncio.timeout(WAIT),
        Agent(ScriptedModel([CALL]), tools=[tool_of(stubborn)]) as agent,
    ):
        running = asyncio.create_task(agent.run("go"))
        await stubborn.begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert [item.error for item in results(agent.messages)] == ["cancelled"]


@pytest.mark.slow
async def test_an_agent_that_is_called_ends_before_its_caller_leaves_it() -> None:
    stubborn, events = Stubborn(), list[Event]()
    helper = Agent(ScriptedModel([CALL]), tools=[tool_of(stubborn)])
    boss = ScriptedModel([ToolCall("1", "helper", {"prompt": "go"})])
    options = RunOptions(limits=Limits(seconds=SECONDS))
    tools = [helper.as_tool("helper", "Helps.")]
    async with (
        stubborn.ended(),
        asyncio.timeout(WAIT),
        Agent(boss, tools=tools, options=options, on_event=events.append) as agent,
    ):
        assert (await agent.run("go")).stop == "max_seconds"
        assert 'tool "helper"' not in " ".join(notices(events))


async def test_what_a_tool_gives_when_it_is_cancelled_counts() -> None:
    async def look() -> str:
        """Looks, and gives what it has."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "half of it"
        return ""

    options = RunOptions(tool_timeout_seconds=0.05)
    async with Agent(ScriptedModel([ToolCall("1", "look", {}), "done"]), tools=[look], options=options) as agent:
        assert await agent.ask("go") == "done"
        assert [(item.error, item.text) for item in results(agent.messages)] == [(None, "half of it")]


class StubbornModel(Endless):
    """Holds on in request number `hangs_at`, and says something when it is freed."""

    def __init__(self, hangs_at: int) -> None:
        super().__init__(answers=True)
        self.stubborn, self.holds_at = Stubborn(), hangs_at

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        response = await super().respond(request, emit)
        if len(self.requests) == self.holds_at:
            await self.stubborn()
            emit(TextDelta("too late"))
        return response


@pytest.mark.parametrize("is_summary", [False, pytest.param(True, marks=pytest.mark.slow)])
async def test_a_model_that_does_not_end_holds_nobody_either(is_summary: bool) -> None:
    model, events = StubbornModel(hangs_at=3), list[Event]()
    options = RunOptions(limits=Limits(seconds=SECONDS))
    async with (
        model.stubborn.ended(),
        asyncio.timeout(WAIT),
        Agent(model, options=options, on_event=events.append) as agent,
    ):
        session = agent.session()
        for question in ("first", "second"):
            assert await session.ask(question)
        if is_summary:
            with pytest.raises(LimitError, match="seconds"):
                await session.compact()
        else:
            result = await session.run("third")
            assert (result.stop, result.answer) == ("max_seconds", "step 3")
        assert notices(events) == ["endless:test does not end when it is cancelled; its request is left"]
        assert session.spent.estimated_tokens > 0
        heard = len(events)
        model.stubborn.freed.set()
        await model.stubborn.over.wait()
        assert await session.ask("fourth") == "made to answer at 4"
        assert TextDelta("too late") not in events[heard:]


@each_row("ordered", [False, True])
async def test_a_run_that_is_cancelled_ends_also_if_its_tool_gives_something_all_the_same(ordered: bool) -> None:
    begun, went_on = asyncio.Event(), list[int]()

    async def run(_: Any) -> ToolOutput:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return ToolOutput.of_text("half of it")
        return ToolOutput.of_text("all")

    def go_on(_: ModelRequest) -> str:
        went_on.append(1)
        return "done"

    tool = Tool(ToolDefinition("look", "Looks.", {"type": "object", "properties": {}}), run, ordered=ordered)
    async with asyncio.timeout(WAIT), Agent(ScriptedModel([ToolCall("1", "look", {}), go_on]), tools=[tool]) as agent:
        running = asyncio.create_task(agent.run("go"))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert [item.text for item in results(agent.messages)] == ["half of it"]
        assert not went_on


async def test_a_run_that_is_cancelled_as_its_answer_arrives_ends() -> None:
    class Cancelling(ScriptedModel):
        running: asyncio.Task[Any] | None = None

        async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
            response = await super().respond(request, emit)
            assert self.running is not None
            self.running.cancel()
            return response

    model = Cancelling([CALL, "done"])
    async with asyncio.timeout(WAIT), Agent(model, tools=[tool_of(Stubborn())]) as agent:
        model.running = asyncio.create_task(agent.run("go"))
        with pytest.raises(asyncio.CancelledError):
            await model.running
        assert len(model.requests) == 1
        assert agent.spent.estimated_tokens > 0
