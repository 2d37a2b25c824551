"""Agents as tools of agents: what they share, what they keep apart."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpagent import Agent, Limits
from mcpagent.models.base import ModelRequest
from mcpagent.models.scripted import ScriptedModel
from mcpagent.permissions.approval_policy import ApprovalPolicy
from mcpagent.run.agent_run import RunContext
from mcpagent.toolsets.definition import RunOptions
from mcpagent.values.approval import PendingCall
from mcpagent.values.events import Event, RunFinished, SubagentEvent, ToolCallStarted
from mcpagent.values.messages import Text
from tests.scenes import CountedTools, call, offered, results


async def test_an_agent_as_a_tool_answers_in_a_conversation_of_its_own() -> None:
    tools = CountedTools("read")
    inner = ScriptedModel([call("read", path="a"), "found it", "second"])
    helper = Agent(inner, instructions="You research.", tools=[tools])
    outer = ScriptedModel([call("research", prompt="look"), call("research", prompt="again"), "done"])
    events: list[Event] = []
    boss = Agent(outer, tools=[helper.as_tool("research", "Looks things up.")], on_event=events.append)
    async with boss:
        assert await boss.ask("go") == "done"
        assert [result.text for result in results(boss.messages)] == ["found it", "second"]
        assert boss.spent.usage.requests == 6
        assert helper.spent.usage.requests == 3
    assert offered(outer.requests[0]) == ["research"]
    assert inner.requests[0].system.startswith("You research.")
    assert [message.text for message in inner.requests[2].messages] == ["again"]
    nested = [event for event in events if isinstance(event, SubagentEvent)]
    assert {event.path for event in nested} == {("research",)}
    assert any(isinstance(event.event, ToolCallStarted) and event.event.call.name == "read" for event in nested)
    assert isinstance(events[-1], RunFinished)
    assert events[-1].usage.requests == 6


async def test_the_helper_is_started_and_closed_with_the_caller_unless_it_runs_already() -> None:
    helper = Agent(ScriptedModel(["a", "b"]))
    async with Agent(ScriptedModel([call("h", prompt="x"), "ok"]), tools=[helper.as_tool("h", "Helps.")]) as boss:
        await boss.ask("go")
        assert helper.known_tools == {}
    with pytest.raises(Exception, match="not started"):
        await helper.ask("closed?")
    async with helper:
        async with Agent(ScriptedModel([call("h", prompt="x"), "ok"]), tools=[helper.as_tool("h", "Helps.")]):
            pass
        assert await helper.ask("still open?") == "b"


async def test_calls_at_the_same_time_do_not_mix() -> None:
    both = asyncio.Barrier(2)

    async def meet(context: RunContext[Any], who: str) -> str:
        await both.wait()
        return f"{who} of {len(context.messages)} messages"

    def answer(request: ModelRequest) -> Any:
        if len(request.messages) == 1:
            return call("meet", who=request.messages[0].text)
        return results(request.messages)[0].text

    helper = Agent(ScriptedModel([answer] * 4), tools=[meet])
    model = ScriptedModel([[call("h", "1", prompt="one"), call("h", "2", prompt="two")], "ok"])
    async with Agent(model, tools=[helper.as_tool("h", "Helps.")]) as boss:
        await asyncio.wait_for(boss.ask("go"), 20)
        assert [result.text for result in results(boss.messages)] == ["one of 2 messages", "two of 2 messages"]


async def test_turns_of_all_are_bounded_by_the_outermost() -> None:
    def ask_again(request: ModelRequest) -> Any:
        return call("h", f"c{len(request.messages)}", prompt=f"{len(request.messages)}")

    def work(request: ModelRequest) -> Any:
        return call("read", f"c{len(request.messages)}", path=f"{len(request.messages)}")

    helper_model, boss_model = ScriptedModel([work] * 50), ScriptedModel([ask_again] * 50)
    helper = Agent(helper_model, tools=[CountedTools("read")], options=RunOptions(limits=Limits(turns=4)))
    events: list[Event] = []
    boss = Agent(
        boss_model,
        tools=[helper.as_tool("h", "Helps.")],
        on_event=events.append,
        options=RunOptions(limits=Limits(turns=10)),
    )
    async with boss:
        assert (await boss.run("go")).answer == ""
    finished = events[-1]
    assert isinstance(finished, RunFinished)
    assert finished.stop == "max_turns"
    # Ten turns, and one forced answer for each of the runs that were cut: boss, and two calls of the helper.
    assert len(helper_model.requests) + len(boss_model.requests) <= 10 + 3
    nested = [event.event for event in events if isinstance(event, SubagentEvent)]
    assert next(event.stop for event in nested if isinstance(event, RunFinished)) == "max_turns"


async def test_cancelling_the_caller_cancels_the_helper() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    helper = Agent(ScriptedModel([call("wait")]), tools=[wait])
    async with Agent(ScriptedModel([call("h", prompt="x")]), tools=[helper.as_tool("h", "Helps.")]) as boss:
        running = asyncio.create_task(boss.ask("go"))
        await asyncio.wait_for(started.wait(), 20)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, 20)
        assert ended.is_set()
        assert results(boss.messages)[0].error == "cancelled"


async def test_deps_and_approvals_come_from_the_caller() -> None:
    def wipe(context: RunContext[str]) -> str:
        return f"wiped for {context.deps}"

    def helper() -> Agent:
        return Agent(ScriptedModel([call("wipe"), "helped"]), tools=[wipe], approval=True)

    asked: list[str] = []

    def allow(request: Any) -> bool:
        asked.append(request.tool)
        return True

    model = ScriptedModel([call("h", prompt="x"), "ok"])
    seen: list[Event] = []
    async with Agent(
        model,
        tools=[helper().as_tool("h", "Helps.")],
        on_event=seen.append,
        approval=ApprovalPolicy(decide=allow),
    ) as boss:
        await boss.ask("go", deps="ann")
    assert asked == ["wipe"]
    assert any("wiped for ann" in str(event) for event in seen if isinstance(event, SubagentEvent))

    model = ScriptedModel([call("h", prompt="x"), "ok"])
    async with Agent(model, tools=[helper().as_tool("h", "Helps.")]) as boss:
        await boss.ask("go")
        [result] = results(boss.messages)
    assert result.error == "denied"
    assert 'h needed an approval or an outside answer for "wipe"' in result.text


async def test_agents_that_call_each_other_are_bounded_and_started_once() -> None:
    def pass_on(to: str) -> Any:
        return lambda request: (
            call(to, f"c{len(request.messages)}", prompt="you do it") if len(request.messages) == 1 else "enough"
        )

    events: list[Event] = []
    left = Agent(ScriptedModel([pass_on("right")] * 40), on_event=events.append)
    right = Agent(ScriptedModel([pass_on("left")] * 40))
    left.tool(right.as_tool("right", "The other."))
    right.tool(left.as_tool("left", "The other."))
    async with left:
        assert await asyncio.wait_for(left.ask("go"), 20) == "enough"
    depth = max(len(event.path) for event in events if isinstance(event, SubagentEvent))
    assert depth == 7


async def test_agents_at_the_same_time_ask_one_question_at_a_time() -> None:
    asked_now, most = 0, 0

    async def decide(_: PendingCall) -> bool:
        nonlocal asked_now, most
        asked_now += 1
        most = max(most, asked_now)
        for _turn in range(5):
            await asyncio.sleep(0)
        asked_now -= 1
        return True

    def pay() -> str:
        """Pays."""
        return "paid"

    helpers = [Agent(ScriptedModel([call("pay"), "paid"]), tools=[pay], approval=True) for _ in range(2)]
    tools = [helper.as_tool(f"helper_{number}", "Helps.") for number, helper in enumerate(helpers)]
    calls = [call(tool.name, prompt="go") for tool in tools]
    async with Agent(ScriptedModel([calls, "done"]), tools=tools, approval=ApprovalPolicy(decide=decide)) as agent:
        assert await agent.ask("go") == "done"
    assert most == 1


async def test_whoever_decides_may_call_an_agent_whose_calls_are_decided_meanwhile() -> None:
    def look(place: str) -> str:
        """Looks."""
        return place

    helper = Agent(ScriptedModel([call("look", "h", place="there"), "fine"]), tools=[look], approval=True)
    check = helper.as_tool("check", "Checks.")
    asked: list[str] = []

    async def decide(request: PendingCall) -> bool:
        asked.append(request.arguments["place"])
        if asked == ["here"]:
            told = await check.run({"prompt": "May it?"})
            assert told.content == (Text("fine"),)
        return True

    policy = ApprovalPolicy(required=True, decide=decide)
    async with (
        helper,
        Agent(ScriptedModel([call("look", "b", place="here"), "done"]), tools=[look], approval=policy) as boss,
        asyncio.timeout(30),
    ):
        assert await boss.ask("go") == "done"
        assert [result.text for result in results(boss.messages)] == ["here"]
    assert asked == ["here", "there"]
