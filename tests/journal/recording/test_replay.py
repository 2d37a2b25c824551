"""A run written down and given again: the same answers without a model, a server or a key, and no secret kept."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcpagent import (
    Agent,
    Definition,
    Limits,
    ModelError,
    Recorder,
    RecordingError,
    Replay,
    RunContext,
    RunOptions,
    ToolSearch,
    dynamic,
    filtered,
    function_tool,
    prepared,
)
from mcpagent.errors import ConfigError, ContextOverflowError, McpAgentError
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.models import ScriptedModel
from mcpagent.models.base import Model, ModelRequest, ModelResponse
from mcpagent.models.scripted import Reply
from mcpagent.toolsets.definition import Wrapper
from mcpagent.values.approval import CallsPendingError
from mcpagent.values.events import (
    Event,
    LimitReached,
    Notice,
    RunFinished,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolProgress,
    ToolsSearched,
)
from mcpagent.values.messages import Message, Text, Thinking, ToolCall, Usage
from mcpagent.values.tools import Tool
from tests.tables import each_row
from tests.terminal.process import SMALL_SERVER, run, server_option

SECRET = "correct-horse-battery"
SHAPED = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz"


def servers(**env: str) -> dict[str, Any]:
    return {"mcpServers": {"small": {"command": sys.executable, "args": [str(SMALL_SERVER), "good"], "env": env}}}


async def events_of(agent: Agent, questions: Sequence[str]) -> list[Event]:
    async with agent:
        return [event for question in questions async for event in agent.stream(question)]


def told(events: Sequence[Event]) -> list[str]:
    """The events without their times; calls at once may end in any order."""
    return [event.text for event in events if isinstance(event, TextDelta | ThinkingDelta)] + sorted(
        f"{event.call.name}: {event.result.error} {event.result.text}"
        for event in events
        if isinstance(event, ToolCallFinished)
    )


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def untimed(value: Any) -> Any:
    """The data without when things happened, and how long they took."""
    if isinstance(value, dict):
        return {name: untimed(item) for name, item in value.items() if name not in ("time", "seconds")}
    return [untimed(item) for item in value] if isinstance(value, list) else value


class Talker:
    """A model that streams its words in pieces."""

    name = "talker:test"

    def __init__(self, *pieces: str, thinks: str = "") -> None:
        self.pieces, self.thinks = pieces, thinks

    async def respond(self, request: ModelRequest, emit: Any) -> ModelResponse:
        if self.thinks:
            emit(ThinkingDelta(self.thinks))
        for piece in self.pieces:
            emit(TextDelta(piece))
        parts = (Thinking(self.thinks), Text("".join(self.pieces)))
        return ModelResponse(Message("assistant", parts), Usage(10, 2, requests=1), "end", 0.25)

    async def aclose(self) -> None:
        pass


SCRIPT: list[Reply] = [
    ToolCall("", "search_tools", {"query": "weather"}),
    ToolCall("", "add_tool", {"tool_names": ["get_weather", "fail_always"]}),
    [ToolCall("", "get_weather", {"city": "Rome"}), ToolCall("", "fail_always", {})],
    "18 degrees",
    "And again.",
]


async def test_a_replay_is_the_run_again_without_a_model_or_a_server(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    script = ScriptedModel(SCRIPT)
    questions = ["how warm is it in Rome?", "sure?"]
    recorded = Agent(
        script, mcp_config=servers(), with_tool_search_mode=True, options=RunOptions(wrappers=[Recorder(path)])
    )
    then = await events_of(recorded, questions)
    # The configuration would start nothing that exists, and the provider has no key.
    nowhere = {"mcpServers": {"small": {"command": str(tmp_path / "missing")}}}
    replayed = Agent("anthropic:claude-sonnet-5-5", mcp_config=nowhere, options=RunOptions(wrappers=[Replay(path)]))
    now = await events_of(replayed, questions)
    assert told(now) == told(then)
    assert [type(event) for event in now if not isinstance(event, ToolCallFinished)] != []
    assert replayed._runtime.model.name == "scripted:test"
    assert replayed.servers["small"].state == "ready"
    assert [message.text for message in replayed.messages] == [message.text for message in recorded.messages]
    assert Replay(path).questions == tuple(questions)


async def test_a_search_finds_what_it_found_whatever_ranks_today(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    odd = ToolSearch(strategy=lambda _query, _tools: ["fail_always"])
    script: list[Reply] = [ToolCall("", "search_tools", {"query": "weather"}), "found"]
    recorded = Agent(
        ScriptedModel(script), mcp_config=servers(), tool_search=odd, options=RunOptions(wrappers=[Recorder(path)])
    )
    then = await events_of(recorded, ["weather?"])
    now = await events_of(Agent(options=RunOptions(wrappers=[Replay(path)])), ["weather?"])
    searched = [event.matches for event in (*then, *now) if isinstance(event, ToolsSearched)]
    assert searched == [("fail_always",)] * 2
    assert told(now) == told(then)


async def test_pieces_thoughts_tokens_and_money_come_again(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    then = await events_of(
        Agent(Talker("1", "8 deg", "rees", thinks="hm"), options=RunOptions(wrappers=[Recorder(path)])), ["how warm?"]
    )
    agent = Agent(options=RunOptions(wrappers=[Replay(path)]))
    now = await events_of(agent, ["how warm?"])
    assert told(now) == told(then) == ["hm", "1", "8 deg", "rees"]
    assert (agent.spent.usage.input_tokens, agent.spent.dollars) == (10, 0.25)


@each_row(
    "question, changes, said",
    [
        ("what else?", {}, 'at request 1: another question: then "how warm?", now "what else?"'),
        ("how warm?", {"pre_discovered_tools": ["wait_seconds"]}, "at request 1: other tools are offered: but wait_"),
        ("how warm?", {"instructions": "Be brief."}, "at request 1: another system prompt"),
    ],
)
async def test_a_run_that_differs_says_where_they_part(
    question: str, changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    recorded = Agent(
        ScriptedModel(["18"]),
        mcp_config=servers(),
        with_tool_search_mode=True,
        options=RunOptions(wrappers=[Recorder(path)]),
    )
    await events_of(recorded, ["how warm?"])
    with pytest.raises(RecordingError) as caught:
        await events_of(Agent(options=RunOptions(wrappers=[Replay(path)]), **changes), [question])
    assert said in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_one_question_more_than_was_recorded_is_told(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    await events_of(Agent(ScriptedModel(["18"]), options=RunOptions(wrappers=[Recorder(path)])), ["how warm?"])
    with pytest.raises(RecordingError, match="the recording ends here"):
        await events_of(Agent(options=RunOptions(wrappers=[Replay(path)])), ["how warm?", "and now?"])


async def test_no_secret_is_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.jsonl"
    monkeypatch.setenv("SOME_API_KEY", "values-of-variables-too")
    script = ScriptedModel(
        [
            ToolCall("", "get_weather", {"city": f"{SECRET} {SHAPED}"}),
            "values-of-variables-too, and given, and postgres://me:opensesame@db/x",
        ]
    )
    agent = Agent(
        script, mcp_config=servers(TOKEN=SECRET), options=RunOptions(wrappers=[Recorder(path, secrets=["and given"])])
    )
    await events_of(agent, [f"use {SHAPED}"])
    text = path.read_text("utf-8")
    for secret in (SECRET, SHAPED, "values-of-variables-too", "and given", "opensesame"):
        assert secret not in text
    assert text.count("[redacted]") > 5
    # It can still be replayed, with the secrets in the question or without.
    await events_of(Agent(options=RunOptions(wrappers=[Replay(path)])), [f"use {SHAPED}"])
    await events_of(Agent(options=RunOptions(wrappers=[Replay(path)])), ["use [redacted]"])


async def test_a_secret_that_came_in_pieces_is_no_less_one(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    await events_of(
        Agent(Talker("the key is sk-ant-api", SHAPED[10:], "."), options=RunOptions(wrappers=[Recorder(path)])), ["?"]
    )
    assert SHAPED[12:] not in path.read_text("utf-8")
    assert told(await events_of(Agent(options=RunOptions(wrappers=[Replay(path)])), ["?"])) == [
        "the key is [redacted]."
    ]


async def test_the_file_is_its_users_own_and_written_as_it_happens(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("old", "utf-8")
    path.chmod(0o644)
    seen: list[list[str]] = []

    def look(_: ModelRequest) -> str:
        seen.append([line["type"] for line in lines(path)])
        return "done"

    await events_of(Agent(ScriptedModel([look]), options=RunOptions(wrappers=[Recorder(path)])), ["go"])
    assert seen == [["start", "tools_listed", "run_started", "model_asked"]]
    assert lines(path)[0]["schema"] == "mcpagent.recording/3"
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_run_that_was_killed_can_be_read_as_far_as_it_came(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    agent = Agent(
        ScriptedModel(SCRIPT),
        mcp_config=servers(),
        with_tool_search_mode=True,
        options=RunOptions(wrappers=[Recorder(path)]),
    )
    await events_of(agent, ["how warm?"])
    kinds = [line["type"] for line in lines(path)]
    last_response = len(kinds) - 1 - kinds[::-1].index("model_responded")
    whole = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(whole[:last_response]) + whole[last_response][:40], "utf-8")
    seen: list[Event] = []
    async with Agent(on_event=seen.append, options=RunOptions(wrappers=[Replay(path)])) as again:
        with pytest.raises(RecordingError, match="ends at request 4, which was never answered"):
            await again.ask("how warm?")
    assert "get_weather: None Rome: 18 degrees" in told(seen)


@each_row(
    "content, said",
    [
        ("", "no start of a recording"),
        ("hello\n", "no start of a recording"),
        ('{"type": "start", "schema": "mcpagent.recording/9"}\n', 'written as "mcpagent.recording/9"; this version'),
        ('{"type": "start", "schema": "mcpagent.recording/1"}\n', 'reads "mcpagent.recording/3"; record it again'),
        ("START\n[1]\n", ":2: not a line of a recording"),
        ('START\n{"type": "model_responded", "number": "one"}\n', ":2: not a line of a recording"),
        ('START\n{"type": "call_ended", "result": {"call_id": "1", "content": 3}}\n', ":2: not a line of a recording"),
        ('START\n{"type": "tools_listed", "number": 1, "tools": [1]}\n', ":2: not a line of a recording"),
    ],
)
async def test_what_is_no_recording_is_told_in_one_line(content: str, said: str, tmp_path: Path) -> None:
    good = tmp_path / "good.jsonl"
    await events_of(Agent(ScriptedModel(["x"]), options=RunOptions(wrappers=[Recorder(good)])), ["y"])
    path = tmp_path / "run.jsonl"
    path.write_text(content.replace("START", good.read_text("utf-8").splitlines()[0]), "utf-8")
    with pytest.raises(ConfigError) as caught:
        Replay(path)
    assert said in str(caught.value)
    with pytest.raises(ConfigError, match="cannot be read"):
        Replay(tmp_path / "missing.jsonl")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something can be changed in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in inner:
        yield (*path, step)
        yield from places(item, (*path, step))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a search, an added tool, calls and a failure."""
    path = tmp_path_factory.mktemp("recorded") / "run.jsonl"
    agent = Agent(
        ScriptedModel(SCRIPT),
        mcp_config=servers(),
        tool_search=ToolSearch(),
        options=RunOptions(wrappers=[Recorder(path)]),
    )
    asyncio.run(events_of(agent, ["how warm?"]))
    return path


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_is_edited_the_replay_runs_or_says_in_one_line_why_not(
    data: st.DataObject, recorded: Path, tmp_path: Path
) -> None:
    known = lines(recorded)
    at = data.draw(st.integers(0, len(known) - 1))
    how = data.draw(st.sampled_from(["change", "remove", "drop", "double", "cut"]))
    text = [json.dumps(line) for line in known]
    if how in ("change", "remove"):
        *way, last = data.draw(st.sampled_from(list(places(known[at]))))
        holder: Any = known[at]
        for step in way:
            holder = holder[step]
        if how == "remove":
            del holder[last]
        else:
            holder[last] = data.draw(
                st.sampled_from([None, -1, 3, "x", [], {}, True, 1e308, [[1]], {"a": 1}, "\ud800"])
            )
        text[at] = json.dumps(known[at])
    elif how == "drop":
        del text[at]
    elif how == "double":
        text.insert(at, text[at])
    else:
        text[at:] = [text[at][: data.draw(st.integers(0, len(text[at])))]]
    path = tmp_path / "edited.jsonl"
    path.write_text("\n".join(text) + "\n" * (how != "cut"), "utf-8")
    said = ""
    try:
        asyncio.run(events_of(Agent(options=RunOptions(wrappers=[Replay(path)])), ["how warm?"]))
    except McpAgentError as error:
        said = str(error)
    assert "\n" not in said


async def test_what_a_later_version_adds_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    await events_of(
        Agent(ScriptedModel(["18"]), mcp_config=servers(), options=RunOptions(wrappers=[Recorder(path)])), ["how warm?"]
    )
    known = lines(path)
    for line in known:
        line["new_field"] = 1
        for tool in line["tools"] if line["type"] == "tools_listed" else ():
            tool["new_field"] = tool["definition"]["new_field"] = 1
    known.insert(2, {"type": "new_kind"})
    path.write_text("".join(json.dumps(line) + "\n" for line in known), "utf-8")
    assert told(await events_of(Agent(options=RunOptions(wrappers=[Replay(path)])), ["how warm?"])) == ["18"]


async def test_a_failure_of_the_model_comes_again(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    failures = [
        ModelError("too busy", provider="x", status=529, retryable=True),
        ContextOverflowError("too long", provider="x"),
    ]
    async with Agent(ScriptedModel(failures), options=RunOptions(wrappers=[Recorder(path)])) as agent:
        for _ in failures:
            with pytest.raises(ModelError):
                await agent.ask("go")
    async with Agent(options=RunOptions(wrappers=[Replay(path)])) as agent:
        with pytest.raises(ModelError, match="too busy") as caught:
            await agent.ask("go")
        assert (caught.value.status, caught.value.retryable) == (529, True)
        with pytest.raises(ContextOverflowError):
            await agent.ask("go")


async def test_functions_are_not_run_again_and_tools_that_join_join_again(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    ran: list[str] = []

    def count(word: str) -> int:
        """Count the letters of a word."""
        ran.append(word)
        return len(word)

    def late(word: str) -> str:
        """Turn a word around."""
        return word[::-1]

    script: list[Reply] = [ToolCall("", "count", {"word": "tree"}), "4", ToolCall("", "late", {"word": "ab"}), "ba"]
    questions = ["count tree", "and around?"]

    async def hold(agent: Agent) -> list[Message]:
        async with agent:
            await agent.ask(questions[0])
            agent.tool(late)
            await agent.ask(questions[1])
            return list(agent.messages)

    then = await hold(Agent(ScriptedModel(script), tools=[count], options=RunOptions(wrappers=[Recorder(path)])))
    now = await hold(Agent(tools=[count], options=RunOptions(wrappers=[Replay(path)])))
    assert ran == ["tree"]
    assert [message.text for message in now] == [message.text for message in then]
    assert any("late" in message.text for message in now if message.role == "user")


async def test_a_new_conversation_begins_anew_in_the_replay(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"

    async def hold(agent: Agent) -> list[str]:
        async with agent:
            first = await agent.ask("one")
            agent.new_conversation()
            return [first, await agent.ask("two")]

    assert await hold(Agent(ScriptedModel(["1", "2"]), options=RunOptions(wrappers=[Recorder(path)]))) == ["1", "2"]
    assert await hold(Agent(options=RunOptions(wrappers=[Replay(path)]))) == ["1", "2"]


async def test_runs_that_come_in_another_order_get_the_answers_that_were_recorded_for_them(tmp_path: Path) -> None:
    """A response belongs to a request, and a result to a call: to its ID, its tool and its arguments."""
    path = tmp_path / "run.jsonl"

    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    def reply(request: ModelRequest) -> Any:
        last = request.messages[-1]
        if last.role == "tool":
            return last.tool_results[-1].text
        return ToolCall("same", "double", {"number": int(last.text)})

    async with Agent(
        ScriptedModel([reply] * 6), tools=[double], options=RunOptions(wrappers=[Recorder(path)])
    ) as agent:
        assert [await agent.session().ask(str(number)) for number in (1, 2, 3)] == ["2", "4", "6"]
    async with Agent(options=RunOptions(wrappers=[Replay(path)])) as agent:
        assert [await agent.session().ask(str(number)) for number in (3, 1, 2)] == ["6", "2", "4"]


async def test_a_call_that_was_recorded_with_other_arguments_has_an_unknown_outcome(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    script: list[Reply] = [ToolCall("c1", "count", {"word": "tree"}), "4"]

    def count(word: str) -> int:
        """Count the letters of a word."""
        return len(word)

    await events_of(
        Agent(ScriptedModel(script), tools=[count], options=RunOptions(wrappers=[Recorder(path)])), ["count"]
    )
    edited = [line | {"digest": "of others"} if line["type"] == "call_ended" else line for line in lines(path)]
    path.write_text("".join(json.dumps(line) + "\n" for line in edited), "utf-8")
    seen: list[Event] = []
    async with Agent(options=RunOptions(wrappers=[Replay(path)]), on_event=seen.append) as agent:
        with pytest.raises(RecordingError, match="at request 2: another message 3"):
            await agent.ask("count")
    assert "its outcome is unknown" in told(seen)[0]


class Stuck(Talker):
    """A model that says its pieces, and then nothing, until it is cancelled."""

    async def respond(self, request: ModelRequest, emit: Any) -> ModelResponse:
        await super().respond(request, emit)
        await asyncio.Event().wait()
        raise AssertionError


async def stuck() -> str:
    """Never returns."""
    await asyncio.Event().wait()
    return ""


def ended(event: Event) -> Any:
    """An event without its times, and without what was estimated of a request that was cut off."""
    if isinstance(event, RunFinished):
        return (event.answer, event.stop, event.turns, event.limit)
    return untimed(asdict(event)) if isinstance(event, ToolCallFinished | LimitReached | TextDelta) else type(event)


@each_row("where", ["a request", "a request without words", "a call", "a call beside others"])
async def test_a_run_that_a_limit_of_seconds_cut_off_ends_so_again(where: str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    calls = [ToolCall("c0", "one", {}), ToolCall("c1", "stuck", {})] if "beside" in where else ToolCall("", "stuck", {})
    talker = Stuck("half", " of it") if where == "a request" else Stuck()
    model = talker if "request" in where else ScriptedModel([calls])
    limits = Limits(seconds=0.3)
    options = RunOptions(limits=limits, wrappers=[Recorder(path)])
    then = await events_of(Agent(model, tools=[one, stuck], options=options), ["go"])
    now = await events_of(Agent(options=RunOptions(wrappers=[Replay(path)])), ["go"])
    assert [*map(ended, now)] == [*map(ended, then)]
    [over] = [event for event in now if isinstance(event, RunFinished)]
    assert over.stop == "max_seconds"
    async with Agent(options=RunOptions(wrappers=[Replay(path)])) as again:
        limited = await again.run("go", limits=Limits(seconds=300.0))
        assert (limited.stop, limited.answer) == (over.stop, over.answer)


async def test_a_run_that_was_cancelled_is_told_where_it_was(tmp_path: Path) -> None:
    path, begun = tmp_path / "run.jsonl", asyncio.Event()

    async def waiting() -> str:
        """Waits."""
        begun.set()
        return await stuck()

    script = ScriptedModel([ToolCall("", "waiting", {})])
    async with Agent(script, tools=[waiting], options=RunOptions(wrappers=[Recorder(path)])) as agent:
        asked = asyncio.ensure_future(agent.ask("go"))
        await asyncio.wait_for(begun.wait(), 30)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
    with pytest.raises(RecordingError, match=r"run\.jsonl: the recorded run was cancelled here"):
        await events_of(Agent(options=RunOptions(wrappers=[Replay(path)])), ["go"])


async def test_the_calls_of_a_program_are_reported_again(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    program = "from tools.functions import one, two\nawait one() + await two()"
    script: list[Reply] = [
        ToolCall("s", "search_tools", {"query": "gives"}),
        ToolCall("p", "run_code", {"code": program}),
        "12",
    ]
    options = RunOptions(wrappers=[Recorder(path)])
    then = await events_of(Agent(ScriptedModel(script), tools=[one, two], code_mode=True, options=options), ["go"])
    agent = Agent(options=RunOptions(wrappers=[Replay(path)]))
    now = await events_of(agent, ["go"])
    reported = [
        [untimed(asdict(event)) for event in events if isinstance(event, ToolCallStarted | ToolCallFinished)]
        for events in (then, now)
    ]
    assert reported[1] == reported[0]
    assert [event["parent"] for event in reported[1]].count("p") == 4
    spent = [event.spent.tool_calls for event in (*then, *now) if isinstance(event, RunFinished)]
    assert spent == [2, 2]


async def test_calls_that_waited_wait_again(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    outside = Tool(
        function_tool(lambda place: place, name="look", description="Look.").definition, _never, external=True
    )
    script: list[Reply] = [ToolCall("c1", "look", {"place": "here"}), "seen"]

    async def hold(agent: Agent) -> str:
        async with agent:
            with pytest.raises(CallsPendingError) as caught:
                await agent.ask("look!")
            return await agent.resume([caught.value.requests[0].result("a tree")])

    assert (
        await hold(Agent(ScriptedModel(script), tools=[outside], options=RunOptions(wrappers=[Recorder(path)])))
        == "seen"
    )
    assert await hold(Agent(options=RunOptions(wrappers=[Replay(path)]))) == "seen"


async def _never(_arguments: dict[str, Any]) -> Any:
    raise AssertionError("an external tool is run by the caller")


PROGRESS_SERVER = """
import anyio, mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

SCHEMA = {"type": "object", "properties": {}}

async def list_tools(context, params):
    return types.ListToolsResult(tools=[types.Tool(name="index", description="Index.", input_schema=SCHEMA)])

async def call_tool(context, params):
    await context.session.report_progress(1, 2, "half")
    return types.CallToolResult(content=[types.TextContent(type="text", text="done")])

async def main():
    server = Server("progress", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())

anyio.run(main)
"""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full here")
async def test_a_full_disk_ends_the_recording_and_not_the_run(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "mcpagent"):
        events = await events_of(
            Agent(ScriptedModel(["18"]), options=RunOptions(wrappers=[Recorder("/dev/full")])), ["how warm?"]
        )
    assert told(events) == ["18"]
    assert "recording /dev/full ends here" in caplog.text
    [notice] = [event for event in events if isinstance(event, Notice)]
    assert (notice.level, notice.text) == ("warning", "recording /dev/full ends here: No space left on device")


async def test_a_file_that_cannot_be_written_is_told_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"recording .*missing/run\.jsonl: cannot be written: No such file"):
        await events_of(
            Agent(ScriptedModel(["x"]), options=RunOptions(wrappers=[Recorder(tmp_path / "missing" / "run.jsonl")])),
            ["y"],
        )


async def test_an_agent_that_does_not_start_begins_no_recording(tmp_path: Path) -> None:
    """It would stay open, and locked, for as long as something remembers the agent."""
    path = tmp_path / "run.jsonl"
    agent = Agent(ScriptedModel(["x"]), options=RunOptions(wrappers=[Recorder(path), Recorder(tmp_path)]))
    with pytest.raises(ConfigError, match="cannot be written: Is a directory"):
        await agent.__aenter__()
    assert not path.exists()


def test_a_model_that_is_recorded_is_a_model(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run.jsonl")
    model = recorder.recorded(ScriptedModel(["x"]))
    assert isinstance(model, Model)
    assert model.name == "scripted:test"
    recorder.close()


# --- the command ------------------------------------------------------------------------------------------------------

on_posix = pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX pipes")


@on_posix
@pytest.mark.slow
def test_the_command_records_and_replays(tmp_path: Path) -> None:
    question = ["-p", "what is the weather in Oslo?", "-m", "offline", "-q", "--yes"]
    then = run([*question, *server_option("good"), "--record", "run.jsonl"], tmp_path)
    assert then.returncode == 0, then.stderr
    # Without a question, the recorded one; without a server, since none is configured there; the whole in pipes.
    now = run(["ask", "--replay", "run.jsonl", "-v"], tmp_path)
    assert (now.returncode, now.stdout) == (0, then.stdout), now.stderr
    assert "a replay of run.jsonl" in now.stderr
    assert "good.get_weather" in now.stderr
    kept = (tmp_path / "run.jsonl").read_bytes()
    over = run(["ask", "-q", "--replay", "run.jsonl", "--record", "again.jsonl"], tmp_path)
    assert (over.returncode, over.stdout) == (0, then.stdout), over.stderr
    again = run(["ask", "-q", "--replay", "again.jsonl"], tmp_path)
    assert (again.returncode, again.stdout) == (0, then.stdout), again.stderr
    lost = run(["ask", "-q", "--replay", "run.jsonl", "--record", "./run.jsonl"], tmp_path)
    assert (lost.returncode, lost.stdout) == (2, "")
    assert lost.stderr.startswith("error: --record and --replay name the same file")
    assert (tmp_path / "run.jsonl").read_bytes() == kept
    other = run(["-p", "what else is there?", "-q"], tmp_path, env={"MCPAGENT_REPLAY": "run.jsonl"})
    assert other.returncode == 2
    assert other.stdout == ""
    [line] = other.stderr.splitlines()
    assert "parts from the recording" in line
    broken = run(["-p", "x", "--replay", "missing.jsonl"], tmp_path)
    assert (broken.returncode, len(broken.stderr.splitlines())) == (3, 1)


@pytest.mark.slow
@on_posix
def test_what_was_denied_or_stopped_ends_with_the_same_code(tmp_path: Path, changing_model: str) -> None:
    push = ["-p", "push branch main to remote origin", "-m", changing_model, "-q", *server_option("writes")]
    then = run([*push, "--record", "denied.jsonl"], tmp_path)
    now = run(["ask", "-q", "--replay", "denied.jsonl"], tmp_path)
    assert (then.returncode, now.returncode) == (6, 6), then.stderr + now.stderr
    assert now.stdout == then.stdout
    assert "denied: writes.push_branch (as it was recorded)" in now.stderr
    short = ["-p", "what is the weather in Oslo?", "-m", "offline", "-q", *server_option("good"), "--max-turns", "1"]
    then = run([*short, "--record", "short.jsonl"], tmp_path)
    now = run(["ask", "-q", "--replay", "short.jsonl"], tmp_path)
    assert (then.returncode, now.returncode, now.stdout) == (7, 7, then.stdout)


@pytest.mark.slow
async def test_progress_comes_again(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    server = tmp_path / "progress.py"
    server.write_text(PROGRESS_SERVER, "utf-8")
    config = {"mcpServers": {"p": {"command": sys.executable, "args": [str(server)]}}}
    seen: list[Event] = []
    agent = Agent(
        ScriptedModel([ToolCall("", "index", {}), "ok"]),
        mcp_config=config,
        on_event=seen.append,
        options=RunOptions(servers=ServerOptions(startup_seconds=None), wrappers=[Recorder(path)]),
    )
    await events_of(agent, ["index it"])
    again: list[Event] = []
    await events_of(Agent(on_event=again.append, options=RunOptions(wrappers=[Replay(path)])), ["index it"])
    progress = [event for event in seen if isinstance(event, ToolProgress)]
    assert progress == [ToolProgress("p", "index", 1.0, 2.0, "half")]
    assert [event for event in again if isinstance(event, ToolProgress)] == progress


@pytest.mark.slow
def test_a_run_with_a_member_a_failed_server_and_a_denial_replays_to_the_same_bytes(
    tmp_path: Path, changing_model: str
) -> None:
    team = tmp_path / "team"
    team.mkdir()
    (team / "lead.md").write_text(
        "---\nmodel: offline\ndefault: true\nagents: [writer]\nmcp_config: servers.json\n---\nYou lead.\n", "utf-8"
    )
    (team / "writer.md").write_text(
        "---\nmodel: offline\ntool_only: true\ndescription: Writes a poem.\n---\nYou write.\n", "utf-8"
    )
    known = {
        name: {"command": sys.executable, "args": [str(SMALL_SERVER), mode], "env": {"HUB_TOKEN": SECRET}}
        for name, mode in (("git", "writes"), ("bad", "dies"))
    }
    (team / "servers.json").write_text(json.dumps({"mcpServers": known}), "utf-8")
    path = tmp_path / "run.jsonl"
    push = ("push branch main to remote origin", changing_model, 6, 6)
    # Code 9 tells of a server that was not there; a replay asks none.
    for question, model, code, replayed in (("write a poem", "offline", 9, 0), push):
        asked = [*("--card", str(team), "--trust-project", "-p", question, "-m", model, "--deny", "git.*")]
        live = run([*asked, "--record", str(path)], tmp_path)
        assert live.returncode == code, live.stderr
        assert live.stdout
        again = run(["ask", "--replay", str(path)], tmp_path, env={"PATH": str(tmp_path)})
        assert (again.returncode, again.stdout) == (replayed, live.stdout), again.stderr
        assert SECRET not in path.read_text("utf-8")


async def test_a_tool_offered_from_the_start_and_removed_is_so_again(tmp_path: Path) -> None:
    """The history keeps what it was, so that what was sent can be sent again."""

    async def run(recording: Recorder | Replay, model: Model | None) -> list[Message]:
        tools = [function_tool(make_tool(name)) for name in ("first", "second", "third")]
        search = ToolSearch(extra_tools=("remove_tool",))
        options: dict[str, Any] = {"tools": tools, "tool_search": search, "pre_discovered_tools": ["first"]}
        async with Agent(model, options=RunOptions(wrappers=[recording]), **options) as agent:
            assert [await agent.ask(question) for question in ("x", "y")] == ["done", "again"]
            return [replace(message, parts=()) for message in agent.messages]

    path = tmp_path / "run.jsonl"
    model = ScriptedModel([ToolCall("c", "remove_tool", {"tool_names": ["first"]}), "done", "again"])
    assert await run(Recorder(path), model) == await run(Replay(path), None)


def make_tool(name: str) -> Any:
    def tool() -> str:
        """Does something."""
        return name

    tool.__name__ = name
    return tool


@each_row("first", ["recorder", "replay"])
async def test_a_replay_is_recorded_whichever_comes_first(first: str, tmp_path: Path) -> None:
    then, now = tmp_path / "then.jsonl", tmp_path / "now.jsonl"
    script = ScriptedModel(SCRIPT)
    await events_of(
        Agent(script, mcp_config=servers(), with_tool_search_mode=True, options=RunOptions(wrappers=[Recorder(then)])),
        ["?"],
    )
    wrappers: list[Wrapper] = [Recorder(now), Replay(then)]
    await events_of(Agent(options=RunOptions(wrappers=wrappers if first == "recorder" else wrappers[::-1])), ["?"])
    assert untimed(lines(now)) == untimed(lines(then))


async def test_several_recorders_write_the_same(tmp_path: Path) -> None:
    paths = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    await events_of(
        Agent(ScriptedModel(["18"]), options=RunOptions(wrappers=[Recorder(path) for path in paths])), ["how warm?"]
    )
    one, two = (untimed(lines(path)) for path in paths)
    assert one == two
    assert len(one) > 4


def test_what_would_be_written_or_replayed_twice_is_told(recorded: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    same = Recorder(path)
    twice: list[list[Wrapper]] = [[same, same], [same, Recorder(str(path))], [Replay(recorded), same, same]]
    for wrappers in twice:
        with pytest.raises(ConfigError, match=r"recording .*run\.jsonl would be written twice; keep one"):
            Agent(ScriptedModel([]), options=RunOptions(wrappers=wrappers))
    with pytest.raises(ConfigError, match="two recordings to replay"):
        Agent(options=RunOptions(wrappers=[Replay(recorded), Replay(recorded)]))


async def test_an_agent_that_is_entered_again_goes_on_with_its_recording(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recorder = Recorder(path)
    agent = Agent(ScriptedModel(["one", "two"]), options=RunOptions(wrappers=[recorder]))
    for question in ("first question", "second question"):
        async with agent:
            await agent.ask(question)
    async with Agent(options=RunOptions(wrappers=[Replay(path)])) as again:
        assert [await again.ask("first question"), await again.session().ask("second question")] == ["one", "two"]
    other = Agent(ScriptedModel([]), options=RunOptions(wrappers=[recorder]))
    with pytest.raises(ConfigError, match=r"run\.jsonl: it is another agent's already; make a Recorder for each agent"):
        await other.__aenter__()


async def test_a_wrapper_of_ones_own_stands_around_a_replay_too(tmp_path: Path) -> None:
    path, heard = tmp_path / "run.jsonl", list[Event]()
    await events_of(Agent(ScriptedModel(["18"]), options=RunOptions(wrappers=[Recorder(path)])), ["how warm?"])
    asked: list[ModelRequest] = []

    class Watched:
        def __init__(self, model: Any) -> None:
            self._model, self.name = model, model.name

        async def respond(self, request: ModelRequest, emit: Any) -> ModelResponse:
            asked.append(request)
            response: ModelResponse = await self._model.respond(request, emit)
            return response

        async def aclose(self) -> None:
            await self._model.aclose()

    def watched(definition: Definition) -> Definition:
        resolve = definition.resolve
        return replace(
            definition, resolve=lambda choice: Watched(resolve(choice)), hears=(*definition.hears, heard.append)
        )

    events = await events_of(Agent(options=RunOptions(wrappers=[watched, Replay(path)])), ["how warm?"])
    assert (len(asked), told(events)) == (1, ["18"])
    assert [type(event) for event in heard] == [type(event) for event in events]


def one() -> str:
    """Gives one."""
    return "1"


def two() -> str:
    """Gives two."""
    return "2"


def own(context: RunContext[Any]) -> list[Tool]:
    return [function_tool(one, name=f"own_{context.deps}"), function_tool(two, name="shared")]


PER_SESSION: dict[str, list[Any]] = {
    "dynamic": [dynamic(own)],
    "dynamic beside functions": [one, dynamic(own)],
    "filtered": [filtered([one, two], lambda run, tool: tool.name == "one" or run.deps == "bob")],
    "prepared": [prepared([one, two], lambda run, tools: tools if run.deps == "ann" else tools[:1])],
}


@each_row("case, searches", [*((case, False) for case in PER_SESSION), ("dynamic", True)])
async def test_what_each_session_has_comes_again(case: str, searches: bool, tmp_path: Path) -> None:
    """Sessions of two users in turns, with tools of their own; each call of each tool is made."""

    def reply(request: ModelRequest) -> Any:
        if request.messages[-1].role == "tool":
            return f"done: {request.messages[-1].tool_results[-1].text}"
        calls = [ToolCall("", tool.name, {}) for tool in request.tools if tool.name not in ("search_tools", "add_tool")]
        return calls or "nothing"

    async def talk(agent: Agent[Any]) -> list[str]:
        async with agent:
            ann, bob = agent.session(deps="ann"), agent.session(deps="bob")
            asked = [await session.ask(f"go {turn}") for turn in range(2) for session in (ann, bob)]
            ann.rewind(1)
            return [*asked, await ann.ask("and again"), await agent.session(deps="cleo").ask("go")]

    path, again, search = tmp_path / "run.jsonl", tmp_path / "again.jsonl", ToolSearch() if searches else None
    recorded = await talk(
        Agent(
            ScriptedModel([reply for _ in range(40)]),
            tools=PER_SESSION[case],
            tool_search=search,
            options=RunOptions(wrappers=[Recorder(path)]),
        )
    )
    assert await talk(Agent(options=RunOptions(wrappers=[Replay(path)]))) == recorded
    assert (
        await talk(Agent(tools=PER_SESSION[case], options=RunOptions(wrappers=[Replay(path), Recorder(again)])))
        == recorded
    )
    assert await talk(Agent(options=RunOptions(wrappers=[Replay(again)]))) == recorded
    for file in (path, again):
        assert sum(line["type"] == "tools_listed" for line in lines(file)) <= 3


async def test_instructions_that_were_computed_need_not_be_given_again(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    async with Agent(
        ScriptedModel(["yes"]),
        instructions=lambda run: f"Serve {run.deps}.",
        options=RunOptions(wrappers=[Recorder(path)]),
    ) as agent:
        assert await agent.ask("hello", deps="ann") == "yes"
    async with Agent(options=RunOptions(wrappers=[Replay(path)])) as agent:
        assert await agent.ask("hello") == "yes"
    async with Agent(instructions="Serve nobody.", options=RunOptions(wrappers=[Replay(path)])) as agent:
        with pytest.raises(RecordingError, match="another system prompt"):
            await agent.ask("hello")


@each_row(
    "command, flag",
    [
        ("ask", ["--session", "mine"]),
        ("ask", ["--continue"]),
        ("chat", ["--continue"]),
        ("chat", ["--resume", "mine"]),
    ],
)
def test_a_replay_is_kept_in_no_conversation(
    command: str, flag: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from mcpagent.cli.app import run as run_command_line

    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "home"))
    recording = tmp_path / "run.jsonl"
    recording.write_text("", "utf-8")
    question = ["hi"] if command == "ask" else []
    assert run_command_line([command, *question, "--replay", str(recording), *flag]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"error: --replay gives a recorded run, of which nothing is kept; leave out {flag[0]}, or --replay\n"
    assert not list((tmp_path / "home").rglob("*.db"))
