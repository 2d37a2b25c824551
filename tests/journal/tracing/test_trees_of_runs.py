"""`mcpagent trace show`: the tree of a kept session and of a recording."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, Limits, ModelError, Recorder, RunOptions, ScriptedModel, Sessions, ToolSearch
from mcpagent.cli.app import run as run_command
from mcpagent.journal.sessions.export import transcript_of
from mcpagent.journal.tracing.tree import TraceStep
from mcpagent.journal.tracing.trees_of_runs import recorded_runs, session_runs
from mcpagent.models.base import ModelRequest, ModelResponse
from mcpagent.permissions.approval_policy import ApprovalPolicy
from mcpagent.values.approval import PendingCall
from mcpagent.values.messages import Message, Text, Usage
from tests.run.compaction.windowed import WindowedModel, asks_then_tells
from tests.scenes import call

PERSON_SECONDS = 1.0

pytestmark = pytest.mark.anyio


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def fail() -> str:
    """Fails."""
    raise ValueError("no")


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def answer(text: str) -> ModelResponse:
    return ModelResponse(Message("assistant", (Text(text),)), Usage(900, 7, 600, requests=1), "end", 0.25)


async def run(folder: Path) -> None:
    """Two questions, kept in a session and recorded."""
    script: list[Any] = [
        call("search_tools", query="add"),
        [call("add", "c1", a=1, b=2), call("fail", "c2")],
        answer("3"),
        "Hello.",
    ]
    store = Sessions(folder / "s.db")
    async with Agent(
        ScriptedModel(script),
        tools=[add, fail],
        tool_search=ToolSearch(on_direct_call="run"),
        sessions=store,
        options=RunOptions(wrappers=[Recorder(folder / "run.jsonl")]),
    ) as agent:
        session = agent.session("sums")
        await session.ask("1 + 2?")
        await session.ask("hello")
    store.close()


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert run_command(["trace", "show", *words]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("is_recording", [True, False])
async def test_the_tree_has_times_tokens_cost_errors_and_what_was_offered(
    is_recording: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await run(tmp_path)
    what = [str(tmp_path / "run.jsonl")] if is_recording else ["sums", "--set", f"session_db={tmp_path / 's.db'}"]
    lines = shown(capsys, *what).splitlines()
    assert lines[0].startswith("run 1: 1 + 2?  20")
    assert lines[0].endswith("s, 8 steps, 1 failed")
    assert [line.split("  ")[0] for line in lines[1:9]] == [
        "invoke_agent",
        "├─ chat test",
        "├─ execute_tool search_tools",
        "│",
        "├─ chat test",
        "├─ execute_tool add",
        "├─ execute_tool fail",
        "└─ chat test",
    ]
    assert "900 in (600 cached), 7 out · $0.2500 · 3 turns" in lines[1]
    assert "offered 2: search_tools, add_tool; 2 known" in lines[2]
    assert " ms " in lines[2]
    assert " ms " in lines[3]
    assert "retrieval tools" in lines[4]
    assert ": add" in lines[4]
    assert 'rank 1 of its search · {"a": 1, "b": 2}' in lines[6]
    assert "failed: failed" in lines[7]
    assert lines[9] == ""
    assert lines[10].startswith("run 2: hello  20")
    [first, second] = json.loads(shown(capsys, *what, "--json"))
    assert first["prompt"] == "1 + 2?"
    assert first["spent"]["dollars"] == 0.25
    assert [step["name"] for step in second["steps"]] == ["chat test"]
    assert 0 < second["begun"] - first["begun"] < 60


async def recorded(path: Path, script: list[Any], **options: Any) -> TraceStep:
    async with Agent(
        ScriptedModel(script), tools=[add, fail], options=RunOptions(wrappers=[Recorder(path)]), **options
    ) as agent:
        with pytest.raises(ModelError):
            await agent.ask("go")
    [run] = recorded_runs(path)
    return run


BUSY = ModelError("busy", provider="p", status=529)


async def test_a_recording_shows_calls_that_were_denied_and_requests_that_failed(tmp_path: Path) -> None:
    approval = ApprovalPolicy(required=True, decide=lambda request: request.tool != "fail")
    script = [[call("fail", "c1"), call("add", "c2", a=1, b=2)], BUSY]
    run = await recorded(tmp_path / "run.jsonl", script, approval=approval)
    assert (run.error, run.turns) == ("529", 1)
    steps = {(step.name, step.error): step for step in run.steps}
    assert set(steps) == {
        ("chat test", ""),
        ("execute_tool add", ""),
        ("execute_tool fail", "denied"),
        ("chat test", "529"),
    }
    assert steps["chat test", "529"].note == "busy"


async def test_a_session_shows_a_call_that_waits_as_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Sessions(tmp_path / "s.db")
    script: list[Any] = [call("add", "c1", a=1, b=2)]
    async with Agent(ScriptedModel(script), tools=[add], approval=True, sessions=store) as agent:
        assert (await agent.session("asks").run("1 + 2?")).stop == "calls_pending"
    store.close()
    out = shown(capsys, "asks", "--set", f"session_db={tmp_path / 's.db'}")
    assert "waits for an approval" in out
    assert "failed" not in out


async def test_a_cancelled_run_and_its_call_have_no_time_instead_of_a_wrong_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = asyncio.Event()

    async def wait() -> str:
        """Wait."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    store = Sessions(tmp_path / "s.db")
    async with Agent(ScriptedModel([call("wait", "c1")]), tools=[wait], sessions=store) as agent:
        task = asyncio.ensure_future(agent.session("stopped").ask("wait"))
        await asyncio.wait_for(begun.wait(), 30)
        task.cancel()
        await asyncio.wait({task}, timeout=30)
    [run] = session_runs(transcript_of(store.read("stopped")))
    store.close()
    assert run.seconds is None
    assert [step.seconds for step in run.steps if step.name == "execute_tool wait"] == [None]


@pytest.mark.parametrize("is_recording", [True, False])
async def test_a_run_shows_how_it_ended(is_recording: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Sessions(tmp_path / "s.db")
    script: list[Any] = ["yes", call("add", "c1", a=1, b=2), "late", BUSY]
    options = RunOptions(wrappers=[Recorder(tmp_path / "run.jsonl")])
    async with Agent(ScriptedModel(script), tools=[add], sessions=store, options=options) as agent:
        session = agent.session("ends")
        assert await session.ask("one") == "yes"
        await session.run("two", limits=Limits(turns=1))
        with pytest.raises(ModelError):
            await agent.session("fails").ask("three")
    store.close()
    if is_recording:
        [one, two, three] = recorded_runs(tmp_path / "run.jsonl")
    else:
        kept = ["ends", "fails"]
        read = [Sessions(tmp_path / "s.db").read(name) for name in kept]
        [[one, two], [three]] = [session_runs(transcript_of(it)) for it in read]
    assert (one.error, one.note) == ("", "")
    assert (two.error, two.note) == ("", "ended: max_turns")
    assert (three.error, three.note) == ("529", "busy")


async def test_calls_of_a_program_are_below_its_call(tmp_path: Path) -> None:
    program = call("run_code", "p", code="from tools.functions import add\nawait add(a=1, b=2)")
    script = [call("search_tools", query="add"), program, BUSY]
    run = await recorded(tmp_path / "run.jsonl", script, code_mode=True)
    step = next(step for step in run.steps if step.name == "execute_tool run_code")
    assert [step.name for step in step.steps] == ["execute_tool add"]


async def test_sessions_at_once_and_a_cut_recording_are_shown_run_by_run(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"

    def reply(request: ModelRequest) -> Any:
        last = request.messages[-1]
        return "done" if last.role == "tool" else call("add", f"c{last.text}", a=int(last.text), b=1)

    async with Agent(ScriptedModel([reply] * 6), tools=[add], options=RunOptions(wrappers=[Recorder(path)])) as agent:
        for number in range(3):
            await agent.session().ask(str(number))
    lines = path.read_text().splitlines()
    assert [run.prompt for run in recorded_runs(path)] == ["0", "1", "2"]
    at = max(place for place, line in enumerate(lines) if '"model_responded"' in line)
    path.write_text("\n".join(lines[:at]) + "\n" + lines[at][:20])
    *_, last = recorded_runs(path)
    assert [(step.name, step.error) for step in last.steps][-1] == ("chat test", "no answer")


async def test_summaries_and_compactions_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def read_all(name: str) -> str:
        """Reads all."""
        return f"About {name}: {'word after word and number 7 ' * 60}"

    model = WindowedModel(asks_then_tells, 4_000, summary=lambda _request: "They read. " * 9)
    store = Sessions(tmp_path / "s.db")
    wrappers = [Recorder(tmp_path / "run.jsonl")]
    async with Agent(model, tools=[read_all], sessions=store, options=RunOptions(wrappers=wrappers)) as agent:
        for number in range(30):
            await agent.session("long").ask(f"? {number}")
    store.close()
    assert "a summary, to save room" in shown(capsys, "run.jsonl")
    assert "compacted" in shown(capsys, "long", "--set", "session_db=s.db")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}\n", "no start of a recording"),
        ("not json\n", "no start of a recording"),
        ('{"type": "start", "schema": "mcpagent.recording/1"}\n', "record it again"),
        pytest.param("[" * 100_000, "no start of a recording", id="deep"),
        ('{"resourceSpans":[]}\n', "no start of a recording"),
        (None, "not found; name a file that --record wrote, or a kept session"),
    ],
)
def test_a_file_that_is_no_recording_is_told_in_one_line(
    text: str | None, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "t.jsonl").write_text(text)
    assert run_command(["trace", "show", str(tmp_path / "t.jsonl")]) != 0
    err = capsys.readouterr().err
    assert problem in err
    assert err.count("\n") == 1


def test_a_session_that_is_not_kept_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["trace", "show", "nobody"]) != 0
    assert "no conversation is kept in" in capsys.readouterr().err
    assert not list(Path().rglob("*.db"))


async def test_hostile_names_do_nothing_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await run(tmp_path)
    path, evil = tmp_path / "run.jsonl", "\x1b]0;owned\x07\x1b[2J\r\nfake line\u202e"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        match line["type"]:
            case "start":
                line["model"] = evil
            case "run_started":
                line["prompt"] = evil
            case "model_asked":
                line["tools"] = [evil]
            case "call_ended":
                line |= {"server": evil, "arguments": {evil: evil}}
                line["result"]["name"] = evil
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    out = shown(capsys, "run.jsonl", "--color", "never")
    assert not any(char in out for char in "\x1b\x07\r\u202e")
    assert len(out.splitlines()) == 13


@pytest.mark.parametrize("is_recording", [True, False])
async def test_the_time_in_which_a_person_was_asked_is_no_time_of_the_run(is_recording: bool, tmp_path: Path) -> None:
    async def decide(_request: PendingCall) -> bool:
        await asyncio.sleep(PERSON_SECONDS)
        return True

    store = Sessions(tmp_path / "s.db")
    async with Agent(
        ScriptedModel([call("add", "c1", a=1, b=2), "3"]),
        tools=[add],
        approval=ApprovalPolicy(required=True, decide=decide),
        sessions=store,
        options=RunOptions(wrappers=[Recorder(tmp_path / "run.jsonl")]),
    ) as agent:
        await agent.session("sums").ask("1 + 2?")
    kept = session_runs(transcript_of(store.read("sums")))
    store.close()
    [run] = recorded_runs(tmp_path / "run.jsonl") if is_recording else kept
    assert run.seconds is not None
    assert 0 < run.seconds < PERSON_SECONDS
