"""Calls that are stopped, that fail outside of their tool, or that nothing has permitted: the history stays valid."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcpagent import (
    Agent,
    ApprovalPolicy,
    Definition,
    Limits,
    Message,
    Recorder,
    Replay,
    RunOptions,
    ScriptedModel,
    ToolCall,
)
from mcpagent.models.scripted import Reply
from mcpagent.run.agent_run import AgentRun, Middleware, Pipeline, RunContext
from mcpagent.run.execution import run_call
from mcpagent.run.run_parts import CallState, CallTally, Stop
from mcpagent.toolsets.functions import function_tool
from mcpagent.values.approval import CallAnswer, PendingCall
from mcpagent.values.events import Event, RunFinished, ToolCallFinished, ToolCallStarted
from mcpagent.values.messages import ToolDefinition

Around = Callable[[AgentRun, Any], AsyncIterator[None]]


def around(hook: str, work: Around) -> RunOptions:
    """Return options with a middleware that has this one context manager."""
    item = type("Item", (Middleware,), {hook: staticmethod(asynccontextmanager(work))})()

    def wrapper(definition: Definition) -> Definition:
        return replace(definition, middleware=(*definition.middleware, item))

    return RunOptions(wrappers=[wrapper])


class Payments:
    """Tools that note what they did."""

    def __init__(self) -> None:
        self.paid: list[str] = []

    async def pay(self, to: str) -> str:
        """Pay somebody."""
        self.paid.append(to)
        return f"receipt of {to}"


def call(to: str) -> ToolCall:
    return ToolCall(f"call-{to}", "pay", {"to": to})


def results(messages: tuple[Message, ...]) -> dict[str, str]:
    """Return the text of each result by the receiver. Each call must have one, in call order."""
    calls = [one for message in messages for one in message.tool_calls]
    found = [result for message in messages for result in message.tool_results]
    assert [result.call_id for result in found] == [one.id for one in calls]
    return {result.call_id.removeprefix("call-"): result.text for result in found}


async def cancelled_future(_request: PendingCall) -> bool:
    waiting = asyncio.get_running_loop().create_future()
    waiting.cancel()
    return bool(await waiting)


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise ValueError


async def unspeakable(_request: PendingCall) -> bool:
    raise UnspeakableError


@pytest.mark.parametrize("decide", [cancelled_future, unspeakable])
async def test_an_approval_that_cannot_be_had_is_a_denial(decide: Any) -> None:
    payments = Payments()
    model = ScriptedModel([[call("ann"), call("bob")], "done", "more"])
    async with Agent(model, tools=[payments.pay], approval=ApprovalPolicy(required=True, decide=decide)) as agent:
        assert await agent.ask("Pay both!") == "done"
        assert all("nobody could be asked" in text for text in results(agent.messages).values())
        assert await agent.ask("And now?") == "more"
    assert payments.paid == []


async def test_so_is_a_check_that_is_cancelled_from_inside() -> None:
    payments = Payments()

    async def required(*_: object) -> bool:
        raise asyncio.CancelledError

    model = ScriptedModel([call("ann"), "done"])
    async with Agent(model, tools=[payments.pay], approval=required) as agent:
        assert await agent.ask("Pay!") == "done"
        assert "permission check" in results(agent.messages)["ann"]
    assert payments.paid == []


async def test_a_stop_behind_a_tool_keeps_its_result() -> None:
    async def work(_run: AgentRun, _call: CallState) -> AsyncIterator[None]:
        yield
        raise Stop("refused", "enough")

    payments, events = Payments(), list[Event]()
    model = ScriptedModel([call("ann"), "never"])
    async with Agent(
        model, tools=[payments.pay], options=around("around_execution", work), on_event=events.append
    ) as agent:
        assert (await agent.run("Pay!")).answer == "enough"
        assert results(agent.messages) == {"ann": "receipt of ann"}
    kinds = [type(event) for event in events if isinstance(event, ToolCallStarted | ToolCallFinished)]
    assert kinds == [ToolCallStarted, ToolCallFinished]


async def test_calls_that_had_not_begun_are_not_run_after_a_stop() -> None:
    async def work(_run: AgentRun, call: CallState) -> AsyncIterator[None]:
        if call.call.id == "call-ann":
            raise Stop("refused", "enough", final_note="Stop here.")
        await asyncio.sleep(0)
        yield

    payments, asked = Payments(), list[str]()

    async def decide(request: PendingCall) -> CallAnswer:
        asked.append(request.call_id)
        return request.approve()

    model = ScriptedModel([[call("ann"), call("bob")], "I stop."])
    async with Agent(
        model,
        tools=[payments.pay],
        options=around("around_call", work),
        approval=ApprovalPolicy(required=lambda *_: True, decide=decide),
    ) as agent:
        result = await agent.run("Pay both!")
        assert (result.stop, result.answer) == ("refused", "I stop.")
        assert set(results(agent.messages)) == {"ann", "bob"}
    assert "bob" not in payments.paid or "call-bob" in asked


async def test_a_stop_with_a_note_closes_calls_that_wait() -> None:
    async def work(_run: AgentRun, call: CallState) -> AsyncIterator[None]:
        if call.call.id == "call-ann":
            raise Stop("refused", final_note="Stop here.")
        yield

    payments = Payments()
    model = ScriptedModel([[call("ann"), call("bob")], "I stop.", "next"])

    def is_for_bob(_context: RunContext[Any], _definition: ToolDefinition, arguments: dict[str, Any]) -> bool:
        return bool(arguments["to"] == "bob")

    tools = [function_tool(payments.pay, approval=is_for_bob)]
    async with Agent(model, tools=tools, options=around("around_execution", work)) as agent:
        assert (await agent.run("Pay both!")).answer == "I stop."
        assert set(results(agent.messages)) == {"ann", "bob"}
        assert agent.pending == ()
        assert await agent.ask("And now?") == "next"
    assert payments.paid == []


@pytest.mark.parametrize("hook", ["around_execution", "around_call"])
async def test_a_middleware_that_fails_costs_no_other_result(hook: str) -> None:
    async def work(_run: AgentRun, call: CallState) -> AsyncIterator[None]:
        if call.call.id == "call-bob":
            await asyncio.sleep(0.01)
            raise LookupError("broken")
        yield

    payments = Payments()
    model = ScriptedModel([[call("ann"), call("bob")], "done", "next"])
    async with Agent(model, tools=[payments.pay], options=around(hook, work)) as agent:
        if hook == "around_call":
            with pytest.raises(LookupError, match="broken"):
                await agent.ask("Pay both!")
        else:
            assert await agent.ask("Pay both!") == "done"
            assert results(agent.messages)["bob"] == "LookupError: broken"
        assert results(agent.messages)["ann"] == "receipt of ann"
        assert await agent.ask("And now?") in ("done", "next")
    assert payments.paid == ["ann"]


@pytest.mark.parametrize("pipeline", [Pipeline(()), Pipeline((Middleware(),))])
async def test_without_a_permission_nothing_runs(pipeline: Pipeline) -> None:
    payments = Payments()
    state = CallState(call("ann"), function_tool(payments.pay))
    await run_call(state, AgentRun(RunContext(None), pipeline=pipeline))
    assert state.result is not None
    assert (state.result.error, payments.paid) == ("denied", [])


async def test_nobody_is_asked_about_a_call_that_others_left_no_room_for() -> None:
    payments, asked = Payments(), list[str]()

    async def decide(request: PendingCall) -> bool:
        asked.append(request.call_id)
        await asyncio.sleep(0.01)
        return True

    model = ScriptedModel([[call("ann"), call("bob"), call("cid")], "done"])
    policy = ApprovalPolicy(required=True, decide=decide)
    async with Agent(model, tools=[payments.pay], approval=policy) as agent:
        await agent.run("Pay all!", limits=Limits(tool_calls=1))
    assert (asked, payments.paid) == (["call-ann"], ["ann"])


async def test_a_run_that_is_resumed_answers_once_more_at_the_limit_of_calls() -> None:
    payments, events = Payments(), list[Event]()
    replies: list[Reply] = [[call("ann"), call("bob")], "One was paid."]
    tool, options = function_tool(payments.pay, approval=True), RunOptions(Limits(tool_calls=1))
    async with Agent(ScriptedModel(replies), tools=[tool], options=options, on_event=events.append) as agent:
        first = await agent.run("Pay both!")
        assert await agent.resume([request.approve() for request in first.pending]) == "One was paid."
    assert [event.stop for event in events if isinstance(event, RunFinished)] == ["calls_pending", "max_tool_calls"]
    assert len(payments.paid) == 1


async def test_a_stop_of_a_call_in_a_program_ends_the_run() -> None:
    async def work(_run: AgentRun, call: CallState) -> AsyncIterator[None]:
        if call.parent:
            raise Stop("refused", "enough")
        yield

    payments = Payments()
    code = 'from tools.functions import pay\nawait pay(to="ann")\nawait pay(to="bob")\nprint("paid")'
    shown_by_the_first = [ToolCall(number, "run_code", {"code": code}) for number in ("1", "2")]
    model = ScriptedModel([*shown_by_the_first, "never"])
    async with Agent(model, tools=[payments.pay], options=around("around_call", work), code_mode=True) as agent:
        result = await agent.run("Pay both!")
        assert (result.stop, result.answer) == ("refused", "enough")
        assert [len(message.tool_results) for message in agent.messages if message.role == "tool"] == [1, 1]
    assert payments.paid == []


async def test_a_denied_call_neither_runs_nor_counts_in_a_replay(tmp_path: Path) -> None:
    payments = Payments()

    async def decide(request: PendingCall) -> bool:
        return request.call_id == "call-bob"

    model = ScriptedModel([[call("ann"), call("bob")], "done"])
    options = RunOptions(Limits(tool_calls=1), wrappers=[Recorder(tmp_path / "run.jsonl")])
    policy = ApprovalPolicy(required=True, decide=decide)
    async with Agent(model, tools=[payments.pay], options=options, approval=policy) as agent:
        recorded = await agent.run("Pay both!")
    async with Agent(options=RunOptions(wrappers=[Replay(tmp_path / "run.jsonl")])) as agent:
        replayed = await agent.run("Pay both!")
    assert (replayed.answer, replayed.stop) == (recorded.answer, recorded.stop)
    assert replayed.spent.tool_calls == recorded.spent.tool_calls == 1
    assert payments.paid == ["bob"]


async def test_two_questions_at_a_time_stop_the_limit_of_a_call_until_both_are_answered() -> None:
    tally = CallTally()
    async with asyncio.timeout(30) as tally.timeout:
        before = tally.timeout.when()
        first, second = tally.standing(), tally.standing()
        with first:
            second.__enter__()
            await asyncio.sleep(0.01)
        assert (tally.timeout.when(), tally.asked_seconds) == (None, 0.0)
        await asyncio.sleep(0.01)
        second.__exit__(None, None, None)
        assert tally.asked_seconds >= 0.02
        assert before is not None
        assert tally.timeout.when() == before + tally.asked_seconds
