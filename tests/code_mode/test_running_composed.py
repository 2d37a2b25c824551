"""Code mode beside what else there is: servers, agents as functions, shared state, recordings, sessions."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from mcpagent import (
    Agent,
    ApprovalPolicy,
    CodeMode,
    Limits,
    Message,
    ModelRequest,
    ModelResponse,
    Recorder,
    Replay,
    RunContext,
    RunOptions,
    ScriptedModel,
    Sessions,
    Text,
    ToolCall,
    ToolContext,
    Usage,
)
from mcpagent.demo import demo_server_config
from mcpagent.values.events import Event, SubagentEvent, ToolCallStarted
from mcpagent.values.messages import ToolDefinition
from mcpagent.values.tools import Tool, ToolOutput
from tests.code_mode.programs_scene import SEARCH, Tools
from tests.journal.tracing.traced import Traced
from tests.run.compaction.windowed import WindowedModel

pytestmark = pytest.mark.anyio

F = "from tools.functions import add, fails, forbidden, shout\n"


def run_code(code: str) -> ToolCall:
    return ToolCall("", "run_code", {"code": code})


def texts(agent: Agent[Any], name: str = "run_code") -> list[str]:
    return [one.text for message in agent.messages for one in message.tool_results if one.name == name]


async def test_an_agent_is_a_function_and_its_events_are_told() -> None:
    events: list[Event] = []
    helper = Agent(ScriptedModel(["four", "five"]))
    program = (
        "from tools.functions import research\nimport asyncio\n"
        "await asyncio.gather(research(prompt='2+2'), research(prompt='2+3'))"
    )
    model = ScriptedModel([ToolCall("", "search_tools", {"query": "research"}), run_code(program), "done"])
    tools = [helper.as_tool("research", "Research a question.")]
    async with Agent(model, tools=tools, code_mode=True, on_event=events.append) as agent:
        await agent.ask("go")
        assert sorted(eval(texts(agent)[0])) == ["five", "four"]
    assert any(isinstance(event, SubagentEvent) for event in events)


class Seen(BaseModel):
    words: list[str] = []


async def test_functions_share_the_state_of_the_run() -> None:
    def note(context: RunContext, word: str) -> int:
        """Note a word."""
        seen = context.tool_context.get_or_create("seen", Seen)
        seen.words.append(word)
        return len(seen.words)

    shared = ToolContext()
    program = "from tools.functions import note\nfor word in ['a', 'b']:\n    n = await note(word=word)\nn"
    model = ScriptedModel([ToolCall("", "search_tools", {"query": "note"}), run_code(program), "done"])
    async with Agent(model, tools=[note], code_mode=True) as agent:
        await agent.ask("go", tool_context=shared)
        assert texts(agent) == ["2"]
    seen = shared.get("seen", Seen)
    assert seen is not None
    assert seen.words == ["a", "b"]


async def test_a_recording_is_replayed(tmp_path: Path) -> None:
    program = "from tools.functions import shout\nprint(await shout(text='a'))"
    tools, file = Tools(), tmp_path / "run.jsonl"
    model = ScriptedModel([SEARCH, run_code(program), "done"])
    async with Agent(model, tools=tools.all, code_mode=True, options=RunOptions(wrappers=[Recorder(file)])) as agent:
        await agent.ask("go")
        first = texts(agent)
    async with Agent(
        "offline", tools=Tools().all, code_mode=True, options=RunOptions(wrappers=[Replay(file)])
    ) as agent:
        assert await agent.ask("go") == "done"
        assert texts(agent) == first == ["A"]
    assert tools.ran == [("shout", "a")]


async def test_a_replay_needs_no_mode_and_counts_what_agents_took_that_a_program_called(tmp_path: Path) -> None:
    file, answer = tmp_path / "run.jsonl", ModelResponse(Message("assistant", (Text("four"),)), Usage(9, 1), "end")
    program = "from tools.functions import research\nawait research(prompt='2+2')"
    calls = [ToolCall("", "search_tools", {"query": "research"}), run_code(program)]
    tools, options = (
        [Agent(ScriptedModel([answer])).as_tool("research", "Research.")],
        RunOptions(limits=Limits(tokens=10)),
    )
    model = ScriptedModel(
        [ModelResponse(Message("assistant", (call,)), Usage(1, 1), "tool_calls", 0.0) for call in calls]
    )
    async with Agent(model, tools=tools, code_mode=True, options=replace(options, wrappers=[Recorder(file)])) as agent:
        recorded = await agent.run("go")
    async with Agent(options=RunOptions(wrappers=[Replay(file)])) as agent:
        again = await agent.run("go")
        assert texts(agent) == ["four"]
    assert (again.stop, again.limit, again.spent) == ("max_tokens", recorded.limit, recorded.spent)


async def test_variables_are_there_in_the_next_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a session that is kept: the agent is closed, and another one opens it."""
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "home"))
    last: list[list[str]] = []
    for program in ("from tools.functions import shout\nx = await shout(text='a')", "print(x)\nawait shout(text='b')"):
        model = ScriptedModel([*([SEARCH] if not last else []), run_code(program), "done"])
        store = Sessions(tmp_path / "sessions.db")
        async with Agent(model, tools=Tools().all, code_mode=True, sessions=store) as agent:
            session = agent.session("it")
            await session.ask("go")
            last.append([one.text for message in session.messages for one in message.tool_results])
    assert last[-1][-1] == "A\nB"


HELD: list[tuple[str, str, str]] = [
    ("x = ''.join(['ghp', '_', 'A1b2' * 9])", "x[:3]", "a secret"),
    ("x = {'k': ['xoxb' + '-1234567890abc' * 8]}", "len(x)", "a secret"),
    ("x = 'eyJ' + 'A' * 100 + '.' + 'B' * 200 + '.' + 'C'", "x[:3]", "a secret"),
    ("x = 'ghp_' + 'a' * 30; y = 'ghp_A1b2A1b2A1b2A1b2A1b2A1b2A1b2'", "x[:3]", "a secret"),
    ("x = ('of the ' + 'environment 7')[:20]", "x[:3]", "a secret"),
    ("x = ['%012d' % n for n in range(700_000)]", "len(x)", "too much"),
    ("x = 'task-' + 'force-of-the-north'; s = 'max-' * 9", "x[:4]", ""),
]


@pytest.mark.slow
@pytest.mark.parametrize(("program", "use", "why"), HELD)
async def test_variables_with_a_secret_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, use: str, why: str
) -> None:
    """Nor what is too large; in this process they are there, and the next one is told why they are not."""
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "home"))
    given, runs = list[str](), [[program, f"print({use})"], ["1", f"print({use})"]]
    for programs in runs:
        model = ScriptedModel([*map(run_code, programs), "done"])
        store = Sessions(tmp_path / "sessions.db", secrets=["of the environment 7"])
        async with Agent(model, code_mode=CodeMode(memory_mb=256), sessions=store) as agent:
            session = agent.session("it")
            await session.ask("go")
            given += [one.text for message in session.messages for one in message.tool_results][-2:]
        store.close()
    _, here, told, there = given
    assert "not run" not in here
    if not why:
        assert (told, there) == ("1", here)
        return
    assert why in told
    assert told.endswith("\n1")
    assert "unresolved-reference" in there


async def test_after_a_rewind_a_call_with_the_same_id_is_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "home"))
    programs = [ToolCall("1", "run_code", {"code": f"print({word!r})"}) for word in ("one", "two")]
    model = ScriptedModel([programs[0], "done", programs[1], "done"])
    store = Sessions(tmp_path / "sessions.db")
    async with Agent(model, code_mode=True, sessions=store) as agent:
        session = agent.session("it")
        said: list[str] = []
        for _ in programs:
            session.rewind(0)
            await session.ask("go")
            said += [one.text for message in session.messages for one in message.tool_results]
    assert said == ["one", "two"]


async def test_spans_of_its_calls_stand_below_the_call_that_runs_it() -> None:
    traced = Traced()
    program = F + "import asyncio\nawait asyncio.gather(add(a=1), shout(text='x'))\nawait forbidden(path='p')"
    policy = ApprovalPolicy(lambda _, tool, __: tool.name == "forbidden", lambda _: False)
    model = ScriptedModel([SEARCH, run_code(program), "done"])
    wrappers = [traced.tracing(name="it")]
    async with Agent(
        model, tools=Tools().all, code_mode=True, options=RunOptions(wrappers=wrappers), approval=policy
    ) as agent:
        await agent.ask("go")
    place = traced.lines.index("  execute_tool run_code")
    assert traced.lines[:place] == [
        "invoke_agent it",
        "  chat test",
        "  execute_tool search_tools",
        "    retrieval tools",
        "  chat test",
    ]
    assert sorted(traced.lines[place + 1 : -1]) == [
        "    approval forbidden",
        "    execute_tool add",
        "    execute_tool forbidden",
        "    execute_tool shout",
    ]


async def test_an_answer_as_data_comes_after_programs() -> None:
    model = ScriptedModel([SEARCH, run_code(F + "[await add(a=n) for n in range(3)]"), "no", "[1, 2, 3]"])
    async with Agent(model, tools=Tools().all, code_mode=True) as agent:
        assert await agent.ask("go", output_type=list[int]) == [1, 2, 3]
        assert texts(agent) == ["[1, 2, 3]"]


async def test_functions_and_variables_outlive_a_summary() -> None:
    """Of the conversation that found and made them: the model is told of both, and can use them."""
    words = "word after word and number 7 " * 60

    def brain(request: ModelRequest) -> ToolCall | str:
        asked = next(message.text for message in reversed(request.messages) if message.text.startswith("Question"))
        if request.messages[-1].tool_results:
            return words
        match asked:
            case "Question 0":
                return SEARCH
            case "Question 1":
                return run_code(F + "kept = await add(a=40)\n[n for n in range(2)]")
            case "Question 9":
                return run_code("print(kept)\nfrom tools.functions import add\nawait add(a=kept)")
            case _:
                return words

    model = WindowedModel(brain, 4_000)
    async with Agent(model, tools=Tools().all, code_mode=True) as agent:
        for number in range(10):
            await agent.ask(f"Question {number}")
        assert texts(agent)[-1] == "41\n42"
    told = [message.text for message in model.requests[-1].messages if "can still be imported" in message.text]
    assert len(told) == 1
    assert "from tools.functions import add, fails" in told[0]
    assert "earlier programs are still there: kept." in told[0]
    assert not any("async def add" in one.text for m in model.requests[-1].messages for one in m.tool_results)


async def test_a_function_means_the_same_tool_in_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if by then there is another tool to which the name would be given."""
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "home"))
    called: list[str] = []

    def tool(name: str) -> Tool:
        async def run(_arguments: dict[str, Any]) -> ToolOutput:
            called.append(name)
            return ToolOutput.of_text(name)

        return Tool(ToolDefinition(name, "Do it.", {"type": "object"}, original_name=name), run)

    first = [ToolCall("", "search_tools", {"query": "select:do-it"}), run_code("from tools.functions import do_it")]
    runs: list[tuple[list[Tool], list[Any]]] = [
        ([tool("do-it")], [*first, "done"]),
        ([tool("do_it"), tool("do-it")], [run_code("await do_it()"), "done"]),
    ]
    for tools, replies in runs:
        store = Sessions(tmp_path / "sessions.db")
        async with Agent(ScriptedModel(replies), tools=tools, code_mode=True, sessions=store) as agent:
            await agent.session("it").ask("go")
    assert called == ["do-it"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="starts a server")
async def test_the_bundled_server() -> None:
    events: list[Event] = []
    search = ToolCall("", "search_tools", {"query": "select:convert_units,add_note,list_notes"})
    program = (
        "import asyncio\nfrom tools.demo import add_note, convert_units, list_notes\n"
        "await asyncio.gather(*[add_note(title=f't{n}', text='x') for n in range(3)])\n"
        "print(await convert_units(value=3, from_unit='km', to_unit='mi'))\nawait list_notes()"
    )
    model = ScriptedModel([search, run_code(program), "done"])
    config = demo_server_config()
    async with Agent(model, mcp_config=config, code_mode=True, on_event=events.append) as agent:
        await agent.ask("go")
        (text,) = texts(agent)
        assert sorted(text.splitlines()) == ["3 kilometre = 1.86411 mile", "t0", "t1", "t2"]  # it adds them at once
    started = [event for event in events if isinstance(event, ToolCallStarted) and event.parent]
    assert [event.server for event in started] == ["demo"] * 5


async def test_files_that_calls_of_a_program_give_are_kept_beside_the_conversation() -> None:
    def report(number: int) -> bytes:
        """The report as a PDF."""
        return b"%PDF-1.7\0\xff" + bytes([number]) * 5_000

    program = "from tools.functions import report\n[await report(number=1), await report(number=2)]"

    def reads(request: ModelRequest) -> ToolCall:
        told = [result.text for message in request.messages for result in message.tool_results]
        handle = told[-1].split()[3].rstrip(":")
        return ToolCall("", "read_large_output", {"handle": handle, "block": 2, "start_char": 1})

    model = ScriptedModel([ToolCall("", "search_tools", {"query": "report"}), run_code(program), reads, "done"])
    async with Agent(model, tools=[report], code_mode=True) as agent:
        assert await agent.ask("go") == "done"
        [told], [read] = texts(agent), texts(agent, "read_large_output")
    assert told.startswith("[Set aside as out_")
    assert "block 2: application/pdf, 5,010 bytes" in told
    assert "[document: application/pdf, 5,010 bytes; not shown" in told
    assert "%PDF-1.7" in read
    assert "02 02 02" in read
