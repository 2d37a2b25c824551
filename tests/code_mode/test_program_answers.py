"""A call that waits for an answer beyond its run: the program is left there, and goes on with the answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mcpagent import (
    Agent,
    ApprovalPolicy,
    CallAnswer,
    CallsPendingError,
    InputError,
    Recorder,
    Replay,
    RunOptions,
    ScriptedModel,
    Sessions,
    ToolCall,
    external,
)
from mcpagent.journal.sessions import exported
from mcpagent.values.events import Event, ToolCallFinished, ToolCallStarted
from mcpagent.values.messages import ToolDefinition, ToolResult
from tests.code_mode.programs_scene import SEARCH, Tools

pytestmark = pytest.mark.anyio

PROGRAM = """import asyncio
from tools.functions import forbidden, shout
kept = await shout(text="first")
print("before")
async def one(path):
    try:
        return await forbidden(path=path)
    except CallError as error:
        return str(error)
found = await asyncio.gather(one("a"), shout(text="beside"), one("b"))
print(kept, await shout(text="last"))
found"""

ENDED = (
    "before\nFIRST LAST\n['deleted a', 'BESIDE', 'The user declined this call of \"forbidden\": no.']\n"
    "(calls without a usable result: denied: functions.forbidden)"
)


def run_code(code: str) -> ToolCall:
    return ToolCall("", "run_code", {"code": code})


def agent_of(tools: Tools, *replies: Any, **options: Any) -> Agent[Any]:
    policy = ApprovalPolicy(lambda _, tool, __: tool.name == "forbidden")
    return Agent(ScriptedModel([*replies]), tools=tools.all, code_mode=True, approval=policy, **options)


def last_result(messages: Any) -> str:
    results: list[ToolResult] = [result for message in messages for result in message.tool_results]
    return results[-1].text


async def test_the_run_ends_and_resume_goes_on_in_the_program() -> None:
    tools, events = Tools(), list[Event]()
    async with agent_of(tools, SEARCH, run_code(PROGRAM), "done", on_event=events.append) as agent:
        with pytest.raises(CallsPendingError) as raised:
            await agent.ask("go")
        asked = raised.value.requests
        assert [(call.tool, call.arguments, call.kind) for call in asked] == [
            ("forbidden", {"path": "a"}, "approval"),
            ("forbidden", {"path": "b"}, "approval"),
        ]
        assert agent.pending == asked
        assert tools.ran == [("shout", "first"), ("shout", "beside")]
        with pytest.raises(InputError, match="missing"):
            await agent.resume([asked[0].approve()])
        assert await agent.resume([asked[0].approve(), asked[1].deny("no.")]) == "done"
        assert last_result(agent.messages) == ENDED
        assert agent.pending == ()
    assert tools.ran == [("shout", "first"), ("shout", "beside"), ("forbidden", "a"), ("shout", "last")]
    started = [event.call.id for event in events if isinstance(event, ToolCallStarted)]
    finished = [event.call.id for event in events if isinstance(event, ToolCallFinished)]
    assert sorted(started) == sorted(set(started)) == sorted(finished)


async def test_a_result_from_outside_is_a_value_of_the_program() -> None:
    schema = {"type": "object", "properties": {"what": {"type": "string"}}}
    ask = external([ToolDefinition("ask_person", "Ask the person.", schema)])
    program = "from tools.functions import ask_person\n(await ask_person(what='age'))['years'] + 1"
    search = ToolCall("", "search_tools", {"query": "select:ask_person"})
    model = ScriptedModel([search, run_code(program), "done"])
    async with Agent(model, tools=[ask], code_mode=True) as agent:
        with pytest.raises(CallsPendingError) as raised:
            await agent.ask("go")
        assert await agent.resume([call.result({"years": 41}) for call in raised.value.requests]) == "done"
        assert last_result(agent.messages) == "42"


async def test_it_waits_more_than_once_and_keeps_its_variables() -> None:
    tools = Tools()
    program = "from tools.functions import forbidden\nfor path in 'ab':\n    got = await forbidden(path=path)\ngot"
    async with agent_of(tools, SEARCH, run_code("n = 2"), run_code(program), run_code("got, n"), "done") as agent:
        for prompt in ("go", None):
            with pytest.raises(CallsPendingError):
                await (agent.ask(prompt) if prompt else agent.resume([call.approve() for call in agent.pending]))
        assert await agent.resume([call.approve() for call in agent.pending]) == "done"
        assert last_result(agent.messages) == "('deleted b', 2)"
    assert tools.ran == [("forbidden", "a"), ("forbidden", "b")]


async def test_another_question_ends_it() -> None:
    tools = Tools()
    again = [run_code("from tools.functions import shout\nawait shout(text='x')"), "done"]
    async with agent_of(tools, SEARCH, run_code(PROGRAM), *again) as agent:
        with pytest.raises(CallsPendingError):
            await agent.ask("go")
        assert await agent.ask("something else") == "done"
        assert last_result(agent.messages) == "X"
        assert agent.pending == ()
    assert ("forbidden", "a") not in tools.ran


async def test_programs_of_the_same_answer_do_not_run_before_it() -> None:
    tools = Tools()
    both = [run_code("from tools.functions import forbidden\nx = await forbidden(path='a')"), run_code("print(1)")]
    async with agent_of(tools, SEARCH, both, run_code("x"), "done") as agent:
        with pytest.raises(CallsPendingError):
            await agent.ask("go")
        assert [call.arguments for call in agent.pending] == [{"path": "a"}]
        assert await agent.resume([call.approve() for call in agent.pending]) == "done"
        results = [result for message in agent.messages for result in message.tool_results]
    assert "waits for an answer" in results[2].text
    assert results[3].text == "deleted a"


async def test_another_process_goes_on_with_a_session_that_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "home"))
    tools, store = Tools(), tmp_path / "sessions.db"
    async with agent_of(tools, SEARCH, run_code(PROGRAM), sessions=Sessions(store)) as agent:
        with pytest.raises(CallsPendingError) as raised:
            await agent.session("it").ask("go")
        assert "waits for an approval" in exported(agent.session("it").snapshot(), "md")
    asked = raised.value.requests
    async with agent_of(tools, "done", sessions=Sessions(store)) as agent:
        session = agent.session("it")
        assert session.pending == asked
        assert await session.resume([asked[0].approve(), asked[1].deny("no.")]) == "done"
        assert last_result(session.messages) == ENDED
    assert tools.ran == [("shout", "first"), ("shout", "beside"), ("forbidden", "a"), ("shout", "last")]


@pytest.mark.slow
async def test_one_that_fails_in_another_process_leaves_there_what_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines are those of the program, and the type checker knows what it left and what it did not."""
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "home"))
    waits = "import tools\nif True:\n    x = 'a'\ny = await tools.functions.forbidden(path=x); z = 1 / 0"
    after = ["print(x, y)\nx = 3\nawait tools.functions.shout(text='b')", "z", "tools.functions.shout(txt=y)"]
    tools, store = Tools(), tmp_path / "sessions.db"
    before = [SEARCH, run_code("x: int = 1"), run_code(waits)]
    async with agent_of(tools, *before, sessions=Sessions(store)) as agent:
        with pytest.raises(CallsPendingError):
            await agent.session("it").ask("go")
    calls = [ToolCall(f"later {number}", "run_code", {"code": code}) for number, code in enumerate(after)]
    async with agent_of(tools, *calls, "done", sessions=Sessions(store)) as agent:
        session = agent.session("it")
        assert await session.resume([call.approve() for call in session.pending]) == "done"
        failed, used, unknown, wrong = [one.text for m in session.messages for one in m.tool_results][-4:]
    assert failed.startswith("line 4: y = await tools.functions.forbidden(path=x); z = 1 / 0\nZeroDivisionError")
    assert used == "a deleted a\nB"
    assert "unresolved-reference" in unknown
    assert "unknown-argument" in wrong


async def test_where_its_state_is_not_kept_it_is_not_begun_again() -> None:
    """A history alone has no program in it: its calls may have been made."""
    tools = Tools()
    async with agent_of(tools, SEARCH, run_code(PROGRAM)) as agent:
        with pytest.raises(CallsPendingError):
            await agent.ask("go")
        history = agent.messages
    before = list(tools.ran)
    async with agent_of(tools, "done") as agent:
        session = agent.session(messages=history)
        assert [call.tool for call in session.pending] == ["run_code"]
        assert await session.resume([call.approve() for call in session.pending]) == "done"
        assert "cannot continue" in last_result(session.messages)
    assert tools.ran == before


async def test_a_recording_waits_where_the_run_did(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"

    async def both(agent: Agent[Any]) -> list[str]:
        with pytest.raises(CallsPendingError):
            await agent.ask("go")
        answers = [call.approve() if call.arguments["path"] == "a" else call.deny("no.") for call in agent.pending]
        assert await agent.resume(answers) == "done"
        return [last_result(agent.messages), *[call.tool for call in agent.pending]]

    async with agent_of(
        Tools(), SEARCH, run_code(PROGRAM), "done", options=RunOptions(wrappers=[Recorder(file)])
    ) as agent:
        first = await both(agent)
    tools = Tools()
    async with Agent("offline", tools=tools.all, code_mode=True, options=RunOptions(wrappers=[Replay(file)])) as agent:
        assert await both(agent) == first == [ENDED]
    assert tools.ran == []


@pytest.mark.slow
async def test_a_durable_run_waits_and_another_worker_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mcpagent.agents.durable import DurableRuns

    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "home"))
    tools, ended = Tools(), ""
    answers: list[CallAnswer] = []
    for replies in ([SEARCH, run_code(PROGRAM)], ["done"]):
        durable, store = DurableRuns(tmp_path / "runs.db"), Sessions(tmp_path / "sessions.db")
        agent = agent_of(tools, *replies, sessions=store, options=RunOptions(wrappers=[durable]))
        async with asyncio.timeout(60), agent, durable.serving(agent):
            if not answers:
                waiting = await (await durable.start("go", session="it")).result()
                assert waiting.stop == "calls_pending"
                answers = [waiting.pending[0].approve(), waiting.pending[1].deny("no.")]
            else:
                run = await durable.answer(answers, session="it")
                ended = (await run.result()).answer
            messages = store.read("it").messages
        store.close()
    assert ended == "done"
    assert last_result(messages) == ENDED
    assert tools.ran == [("shout", "first"), ("shout", "beside"), ("forbidden", "a"), ("shout", "last")]
