"""Calls that wait for a person or for the caller: what runs, what does not, and going on elsewhere."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, InputError, Message, Tool, ToolDefinition, ToolSearch, dump_messages
from mcpagent.models.scripted import ScriptedModel
from mcpagent.permissions.approval_policy import ApprovalPolicy
from mcpagent.run.agent_run import RunContext
from mcpagent.toolsets.composition import approval_required, external, prefixed
from mcpagent.toolsets.functions import FunctionToolset, function_tool
from mcpagent.toolsets.listed_tools import with_approval
from mcpagent.values.approval import CallAnswer, CallsPendingError, PendingCall
from mcpagent.values.events import Event, RunFinished, ToolCallFinished, ToolCallStarted
from tests.scenes import CountedTools, call, offered, results
from tests.tables import each_row

PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
COLOUR = ToolDefinition("pick_colour", "Lets the user pick.", {"type": "object", "properties": {}})


def only_deletes(context: RunContext[Any], definition: ToolDefinition, arguments: dict[str, Any]) -> bool:
    return definition.name == "delete"


def scene(*replies: Any, **options: Any) -> tuple[Agent, CountedTools, ScriptedModel, list[Event]]:
    """An agent whose `delete` needs approval and whose `read` does not."""
    tools = CountedTools("read", "delete")
    model = ScriptedModel([*replies, "ok"])
    events: list[Event] = []
    toolset = prefixed(approval_required(tools, only_deletes), "fs")
    return Agent(model, on_event=events.append, tools=[toolset], **options), tools, model, events


BOTH = [call("fs_delete", "d", path="a"), call("fs_read", "r", path="b")]


async def pending_of(agent: Agent) -> tuple[PendingCall, ...]:
    with pytest.raises(CallsPendingError) as caught:
        await agent.ask("go")
    return caught.value.requests


async def test_the_time_of_a_call_is_without_the_wait_for_its_approval() -> None:
    moments: list[float] = []

    async def think(request: PendingCall) -> bool:
        for _ in range(2_000):
            await asyncio.sleep(0)
        moments.append(time.monotonic())
        return True

    def hear(event: Event) -> None:
        if isinstance(event, ToolCallFinished):
            moments.append(time.monotonic())

    tools = approval_required(CountedTools("delete"), only_deletes)
    model = ScriptedModel([[call("delete", "d", path="a")], "ok"])
    async with Agent(model, on_event=hear, tools=[tools], approval=ApprovalPolicy(decide=think)) as agent:
        assert await agent.ask("go") == "ok"
        [result] = results(agent.messages)
    answered, finished = moments
    assert result.error is None
    assert 0 < result.seconds <= finished - answered


async def test_a_call_that_needs_approval_ends_the_run_and_the_others_have_run() -> None:
    agent, tools, model, events = scene(BOTH)
    async with agent:
        [request] = await pending_of(agent)
        assert (request.kind, request.tool, request.arguments, request.server) == (
            "approval",
            "fs_delete",
            {"path": "a"},
            "files",
        )
        assert list(agent.pending) == [request]
        assert tools.ran == [("files.read", {"path": "b"})]
        finished = events[-1]
        assert isinstance(finished, RunFinished)
        assert (finished.stop, finished.pending) == ("calls_pending", (request,))
        assert await agent.resume([request.approve()]) == "ok"
        assert len(agent.pending) == 0
        assert tools.ran[1:] == [("files.delete", {"path": "a"})]
        assert {result.call_id: result.error for result in results(agent.messages)} == {"r": None, "d": None}
    assert [event.call.id for event in events if isinstance(event, ToolCallStarted)] == ["d", "r"]
    assert [event.call.id for event in events if isinstance(event, ToolCallFinished)] == ["r", "d"]
    assert len(model.requests) == 2


async def test_the_error_says_what_waits_and_how_to_go_on() -> None:
    agent, *_ = scene(BOTH)
    async with agent:
        with pytest.raises(CallsPendingError) as caught:
            await agent.ask("go")
    assert str(caught.value) == (
        '1 tool call(s) wait for an answer: "fs_delete" (approval); pass answers to '
        "session.resume() (after agent.ask: agent.resume()), or set Agent(approval=ApprovalPolicy(decide=...))"
    )


async def test_a_denial_and_other_arguments() -> None:
    agent, tools, _, _ = scene(call("fs_delete", "d", path="a"))
    async with agent:
        [request] = await pending_of(agent)
        await agent.resume([request.deny("not that one")])
        [result] = results(agent.messages)
        assert result.error == "denied"
        assert result.text == 'The user declined this call of "fs_delete": not that one'
    assert tools.ran == []

    agent, tools, _, _ = scene(call("fs_delete", "d", path="a"))
    async with agent:
        [request] = await pending_of(agent)
        await agent.resume([request.approve({"path": "b"})])
    assert tools.ran == [("files.delete", {"path": "b"})]

    agent, tools, _, _ = scene(call("fs_delete", "d", path="a"))
    async with agent:
        [request] = await pending_of(agent)
        await agent.resume([request.approve({"folder": "b"})])
        assert results(agent.messages)[0].error == "invalid_arguments"
    assert tools.ran == []


async def test_arguments_that_do_not_fit_never_reach_a_person() -> None:
    agent, tools, _, _ = scene(call("fs_delete", "d", folder="a"))
    async with agent:
        assert await agent.ask("go") == "ok"
        assert results(agent.messages)[0].error == "invalid_arguments"
    assert tools.ran == []


async def test_every_waiting_call_needs_one_answer_and_only_those() -> None:
    two = [call("fs_delete", "d", path="a"), call("fs_delete", "e", path="b"), call("fs_read", "r", path="c")]
    agent, tools, _, _ = scene(two)
    async with agent:
        first, second = await pending_of(agent)
        with pytest.raises(InputError, match=r'answer every call that waits; missing: "fs_delete" \(e\)'):
            await agent.resume([first.approve()])
        with pytest.raises(InputError, match='no call "r" waits for an answer'):
            await agent.resume([first.approve(), second.approve(), replace(second.approve(), call_id="r")])
        assert len(tools.ran) == 1
        await agent.resume([second.deny(), first.approve()])
        with pytest.raises(InputError, match='no call "d" waits'):
            await agent.resume([first.approve()])
    assert tools.ran == [("files.read", {"path": "c"}), ("files.delete", {"path": "a"})]


async def test_t21_an_answer_to_another_definition_or_other_arguments_runs_nothing() -> None:
    agent, tools, _, _ = scene(call("fs_delete", "d", path="a"))
    async with agent:
        [request] = await pending_of(agent)
        history = agent.messages
        forged = [replace(made, arguments={"path": "/"}) for made in history[-1].tool_calls]
        messages = [*history[:-1], Message("assistant", tuple(forged))]
        session = agent.session(request.session, messages=messages)
        await session.resume([request.approve()])
        [result] = results(session.messages)
    assert result.error == "denied"
    assert "changed after the answer was asked for" in result.text
    assert tools.ran == []


@each_row(
    "change", [{"description": "New."}, {"title": "New"}, {"read_only": True}, {"parameters": {"type": "object"}}]
)
async def test_an_answer_given_to_another_description_of_the_tool_runs_nothing(change: dict[str, Any]) -> None:
    agent, _, _, _ = scene(call("fs_delete", "d", path="a"))
    async with agent:
        [request] = await pending_of(agent)
        history = agent.messages
    other = CountedTools("read", "delete", server="files")
    words = [replace(tool, definition=replace(tool.definition, **change)) for tool in await other.tools()]
    changed = Agent(ScriptedModel(["ok"]), tools=[prefixed(approval_required(words, only_deletes), "fs")])
    async with changed:
        session = changed.session(request.session, messages=history)
        await session.resume([request.approve()])
        assert results(session.messages)[0].error == "denied"
    assert other.ran == []


async def test_asking_something_else_abandons_what_waits() -> None:
    agent, tools, _, _ = scene(call("fs_delete", "d", path="a"))
    async with agent:
        [request] = await pending_of(agent)
        assert await agent.ask("never mind") == "ok"
        [result] = results(agent.messages)
        assert "so it was not run" in result.text
        with pytest.raises(InputError, match="no call"):
            await agent.resume([request.approve()])
    assert tools.ran == []


@each_row(
    "answer, ran, words",
    [
        (True, 1, "files.delete"),
        (False, 0, "The user declined"),
        ("yes", 0, '"fs_delete" was not run: ApprovalPolicy(decide=...) returned str, not True, False, an answer'),
        (RuntimeError("no terminal"), 0, '"fs_delete" was not run: nobody could be asked (RuntimeError: no terminal)'),
    ],
)
async def test_a_callback_decides_at_once_and_fails_closed(answer: Any, ran: int, words: str) -> None:
    def decide(request: PendingCall) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    agent, tools, _, _ = scene(call("fs_delete", "d", path="a"), approval=ApprovalPolicy(decide=decide))
    async with agent:
        assert await agent.ask("go") == "ok"
        assert words in results(agent.messages)[0].text
    assert len(tools.ran) == ran


async def test_an_async_callback_is_asked_one_question_at_a_time() -> None:
    asking: list[str] = []

    async def decide(request: PendingCall) -> CallAnswer:
        assert not asking
        asking.append(request.call_id)
        await asyncio.sleep(0)
        asking.clear()
        return request.approve({"path": "chosen"})

    two = [call("fs_delete", "d", path="a"), call("fs_delete", "e", path="b")]
    agent, tools, _, _ = scene(two, approval=ApprovalPolicy(decide=decide))
    async with agent:
        await agent.ask("go")
    assert tools.ran == [("files.delete", {"path": "chosen"})] * 2


async def test_a_check_that_raises_denies() -> None:
    def broken(context: RunContext[Any], definition: ToolDefinition, arguments: dict[str, Any]) -> bool:
        raise KeyError("role")

    tools = CountedTools("read")
    model = ScriptedModel([call("read", path="a"), "ok"])
    async with Agent(
        model, tools=[approval_required(tools, broken)], approval=ApprovalPolicy(decide=lambda request: True)
    ) as agent:
        await agent.ask("go")
        [result] = results(agent.messages)
    assert result.error == "denied"
    assert "permission check" in result.text
    assert tools.ran == []


@each_row("answer", [None, 0, 0.0, "", "no", [], {}, 1, "yes", [False]])
async def test_a_check_that_answers_neither_true_nor_false_denies(answer: Any) -> None:
    ran = list[str]()

    def wipe() -> str:
        """Wipe all."""
        ran.append("wipe")
        return "wiped"

    async def later(*_: object) -> Any:
        return answer

    needed: Any = lambda *_: answer  # noqa: E731 - as people write it
    never: Any = lambda *_: False  # noqa: E731
    for name, tool, approval in (
        ("of a function", function_tool(wipe, approval=needed), False),
        ("of an agent", function_tool(wipe), needed),
        ("of an agent, async", function_tool(wipe), later),
        ("of a function, before the agent's", function_tool(wipe, approval=needed), never),
        ("of a toolset", approval_required(FunctionToolset([wipe]), needed), False),
    ):
        async with Agent(ScriptedModel([call("wipe"), "ok"]), tools=[tool], approval=approval) as agent:
            await agent.ask("go")
            [result] = results(agent.messages)
        assert (result.error, ran) == ("denied", []), name
        assert f"it returned {type(answer).__name__}; return True or False" in result.text, name
        assert "\n" not in result.text


async def test_the_decorator_and_the_agents_own_rule() -> None:
    ran: list[bool] = []
    agent = Agent(ScriptedModel([call("wipe"), "ok"]))

    @agent.tool(approval=True)
    def wipe(context: RunContext[None]) -> str:
        ran.append(context.approved)
        return "wiped"

    async with agent:
        [request] = await pending_of(agent)
        assert ran == []
        assert await agent.resume([request.approve()]) == "ok"
    assert ran == [True]

    asked: list[str] = []
    tools = CountedTools("read", "delete")
    model = ScriptedModel([[call("read", path="a"), call("delete", path="b")], "ok"])

    def refuse(request: PendingCall) -> bool:
        asked.append(request.tool)
        return False

    async with Agent(model, tools=[tools], approval=ApprovalPolicy(only_deletes, refuse)) as agent:
        await agent.ask("go")
    assert asked == ["delete"]
    assert tools.ran == [("files.read", {"path": "a"})]


async def test_permission_is_the_same_with_tool_search_and_finding_a_tool_asks_and_grants_nothing() -> None:
    asked: list[tuple[str, dict[str, Any]]] = []

    def refuse(request: PendingCall) -> bool:
        asked.append((request.tool, request.arguments))
        return False

    found = [call("search_tools", query="delete"), call("add_tool", tool_names=["delete"])]
    for first, options in (([], {}), ([found], {"tool_search": ToolSearch()})):
        tools = CountedTools("read", "delete")
        model = ScriptedModel([*first, call("delete", path="a"), "ok"])
        async with Agent(model, tools=[tools], approval=ApprovalPolicy(True, refuse), **options) as agent:  # type: ignore[arg-type]
            await agent.ask("go")
            assert results(agent.messages)[-1].error == "denied"
        assert tools.ran == []
    assert asked == [("delete", {"path": "a"})] * 2


# -- external tools


async def test_an_external_call_ends_the_run_and_takes_its_result() -> None:
    model = ScriptedModel([[call("pick_colour", "p"), call("read", "r", path="a")], call("pick_colour", "q"), "ok"])
    async with Agent(model, tools=[external([COLOUR]), CountedTools("read")]) as agent:
        [request] = await pending_of(agent)
        assert (request.kind, request.tool) == ("external", "pick_colour")
        with pytest.raises(CallsPendingError) as caught:
            await agent.resume([request.result({"colour": "red"})])
        [again] = caught.value.requests
        assert await agent.resume([again.result("out of ink", failed=True)]) == "ok"
        by_call = {result.call_id: result for result in results(agent.messages)}
    assert by_call["p"].text == '{"colour": "red"}'
    assert (by_call["q"].error, by_call["q"].text) == ("failed", "out of ink")
    assert offered(model.requests[0]) == ["pick_colour", "read"]


async def test_a_callback_for_approvals_is_not_asked_to_run_external_tools() -> None:
    model = ScriptedModel([call("pick_colour", "p")])
    async with Agent(model, tools=[external([COLOUR])], approval=ApprovalPolicy(decide=lambda request: True)) as agent:
        [request] = await pending_of(agent)
    assert request.kind == "external"


async def test_streams_end_with_what_waits_and_take_answers() -> None:
    agent, tools, _, _ = scene(call("fs_delete", "d", path="a"))
    async with agent:
        finished = [event async for event in agent.stream("go")][-1]
        assert isinstance(finished, RunFinished)
        [request] = finished.pending
        events = [event async for event in agent.stream([request.approve()])]
    assert isinstance(events[-1], RunFinished)
    assert events[-1].answer == "ok"
    assert tools.ran == [("files.delete", {"path": "a"})]


# -- elsewhere

RESUMER = """
import asyncio, json, sys
from mcpagent import Agent
from mcpagent.models.scripted import ScriptedModel
from mcpagent.values.approval import CallAnswer

def delete(path: str) -> str:
    "Deletes a file."
    print("deleting", path)
    return "gone"

async def main():
    given = json.load(sys.stdin)
    answers = [CallAnswer.from_json(item) for item in given["answers"]]
    agent = Agent(ScriptedModel(["all done"]))
    agent.tool(approval=True)(delete)
    async with agent:
        session = agent.session(answers[0].session, messages=given["messages"])
        print(await session.resume(answers))
        print([result.text for message in session.messages for result in message.tool_results])

asyncio.run(main())
"""


def in_another_process(given: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RESUMER],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).resolve().parents[2],
        check=False,
    )


async def test_another_process_goes_on_from_json() -> None:
    def delete(path: str) -> str:
        """Deletes a file."""
        raise AssertionError("not here")

    agent = Agent(ScriptedModel([call("delete", "d", path="a.txt")]))
    agent.tool(approval=True)(delete)
    async with agent:
        [request] = await pending_of(agent)
        assert json.loads(json.dumps(request.to_json()))["tool"] == "delete"
        given = {"messages": dump_messages(agent.messages), "answers": [request.approve().to_json()]}
    done = in_another_process(given)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "deleting a.txt\nall done\n['gone']\n"


@each_row("data", [{}, {"call_id": 1, "fingerprint": "", "approved": True}, {"x": 1}, {"approved": "no"}])
def test_what_is_no_answer_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="answer: wrong or missing"):
        CallAnswer.from_json(data)


async def test_results_that_came_later_are_in_one_turn_in_call_order() -> None:
    from mcpagent.models.anthropic.messages_model import request_body as anthropic_body

    agent, _, model, _ = scene(BOTH)
    async with agent:
        [request] = await pending_of(agent)
        await agent.resume([request.approve()])
    turns = anthropic_body(model.requests[1], "claude-x")["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert [block["tool_use_id"] for block in turns[-1]["content"]] == ["d", "r"]


def test_tools_that_need_approval_still_do_when_approval_is_asked_for_again() -> None:
    tool = Tool(COLOUR, run=None)  # type: ignore[arg-type]
    [twice] = with_approval(with_approval([tool]), lambda context, definition, arguments: False)
    assert twice.approval is not None
    assert asyncio.run(twice.approval({})) is True  # type: ignore[arg-type]
