"""Closing an agent ends what still runs, for whoever waits in words, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mcpagent import Agent, AgentStateError, ModelRequest, events
from mcpagent.agents.session import Session
from mcpagent.models.scripted import Reply, ScriptedModel
from tests.scenes import call
from tests.tables import each_row

SECONDS = 30
CLOSED = "the agent was closed while it answered"


async def streamed(session: Session[Any]) -> str:
    said = ""
    async with session.stream("go") as stream:
        async for event in stream:
            said += event.text if isinstance(event, events.TextDelta) else ""
    return said


WAYS: dict[str, Callable[[Session[Any]], Awaitable[Any]]] = {
    "ask": lambda session: session.ask("go"),
    "run": lambda session: session.run("go"),
    "stream": streamed,
}


class Place:
    """A tool that waits until it is cancelled, and counts the requests to the model."""

    def __init__(self, *, heeds: bool = True) -> None:
        self.inside = asyncio.Event()
        self.heeds, self.left = heeds, asyncio.Event()
        replies: list[Reply] = [call("wait"), "done", "done"]
        self.model = ScriptedModel([self._first, *replies[1:]] * 4)

    def _first(self, _request: ModelRequest) -> Any:
        return call("wait")

    async def wait(self) -> str:
        """Waits."""
        self.inside.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()
        return "never"


@each_row("way", WAYS)
async def test_a_run_ends_with_its_agent_and_asks_no_more(way: str) -> None:
    place = Place()
    async with asyncio.timeout(SECONDS):
        async with Agent(place.model, tools=[place.wait]) as agent:
            session = agent.session()
            running = asyncio.ensure_future(WAYS[way](session))
            await place.inside.wait()
        assert place.left.is_set()
        assert not session.is_answering
        with pytest.raises(AgentStateError, match=CLOSED):
            await running
        assert len(place.model.requests) == 1
        assert [result.error for result in session.messages[-1].tool_results] == ["cancelled"]


async def test_runs_of_agents_that_call_each_other_end_too() -> None:
    place = Place()
    inner = Agent(place.model, tools=[place.wait])
    outer_model = ScriptedModel([call("helper", prompt="go"), "done"])
    async with asyncio.timeout(SECONDS), inner:
        async with Agent(outer_model, tools=[inner.as_tool("helper", "Helps.")]) as outer:
            running = asyncio.create_task(outer.ask("go"))
            await place.inside.wait()
        with pytest.raises(AgentStateError, match=CLOSED):
            await running
        assert place.left.is_set()
    assert (len(outer_model.requests), len(place.model.requests)) == (1, 1)


async def test_an_agent_whose_helper_is_closed_goes_on() -> None:
    place = Place()
    inner = Agent(place.model, tools=[place.wait])
    async with asyncio.timeout(SECONDS):
        await inner.__aenter__()
        outer_model = ScriptedModel([call("helper", prompt="go"), "done without"])
        async with Agent(outer_model, tools=[inner.as_tool("helper", "Helps.")]) as outer:
            running = asyncio.create_task(outer.ask("go"))
            await place.inside.wait()
            await inner.aclose()
            assert await running == "done without"
            [result] = [result for message in outer.messages for result in message.tool_results]
            assert (result.error, CLOSED in result.text) == ("failed", True)


async def test_a_tool_may_close_the_agent_that_runs_it() -> None:
    async def leave() -> str:
        """Leaves."""
        await agent.aclose()
        return "closed"

    agent = Agent(ScriptedModel([call("leave"), "bye"]), tools=[leave])
    async with asyncio.timeout(SECONDS), agent:
        assert await agent.ask("go") == "bye"


async def test_a_cancellation_of_ones_own_stays_one() -> None:
    place = Place()
    async with asyncio.timeout(SECONDS), Agent(place.model, tools=[place.wait]) as agent:
        running = asyncio.create_task(agent.ask("go"))
        await place.inside.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not agent.session().is_answering


def test_closing_from_another_thread_ends_a_waiting_question_in_words() -> None:
    import threading

    entered = threading.Event()

    async def wait() -> str:
        """Waits."""
        entered.set()
        await asyncio.Event().wait()
        return "never"

    agent = Agent(ScriptedModel([call("wait"), "done"]), tools=[wait])
    caught: list[BaseException] = []

    def ask() -> None:
        try:
            agent.ask_sync("go")
        except BaseException as error:  # noqa: BLE001 - looked at below
            caught.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert entered.wait(SECONDS)
    agent.close()
    thread.join(SECONDS)
    assert [(type(error), str(error)) for error in caught] == [(AgentStateError, CLOSED)]


@each_row("again", ["entered", "entered while it is read", "read after it was entered elsewhere"])
async def test_a_stream_is_one_run(again: str) -> None:
    model = ScriptedModel(["hello", "hello again"])
    async with asyncio.timeout(SECONDS), Agent(model) as agent:
        stream = agent.stream("hi")
        async with stream:
            if again == "entered while it is read":
                with pytest.raises(AgentStateError, match=r"this stream was begun already; make another one"):
                    await stream.__aenter__()
            async for _ in stream:
                pass
        if again == "entered":
            with pytest.raises(AgentStateError, match=r"this stream was begun already; make another one"):
                await stream.__aenter__()
        assert [event async for event in stream] == []
        assert (len(model.requests), len(agent.messages)) == (1, 2)


async def test_two_readers_of_one_stream_both_come_to_its_end() -> None:
    async def read(stream: Any) -> list[Any]:
        return [event async for event in stream]

    async with asyncio.timeout(SECONDS), Agent(ScriptedModel(["hello"])) as agent, agent.stream("hi") as stream:
        heard = await asyncio.gather(read(stream), read(stream))
    kinds = [type(event) for events_of in heard for event in events_of]
    assert kinds.count(events.RunFinished) == 1
