"""Results that are set aside, as a model meets them: in every mode, after a resume, in a replay and a durable run."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcpagent import (
    Agent,
    ApprovalPolicy,
    ConfigError,
    InputError,
    McpServer,
    Message,
    Recorder,
    Replay,
    RunContext,
    RunOptions,
    ScriptedModel,
    Sessions,
    Text,
    ToolCall,
    ToolSearch,
    dump_messages,
    external,
    load_messages,
)
from mcpagent.agents.durable import DurableRuns
from mcpagent.cli.chat.trace import Trace, context_lines
from mcpagent.cli.oneshot.json_report import event_document
from mcpagent.cli.screen.lines import tool_line
from mcpagent.cli.screen.terminal import Glyphs
from mcpagent.history.conversation import Conversation
from mcpagent.journal.sessions import exported
from mcpagent.models.base import ModelRequest, ModelResponse, ToolLimits
from mcpagent.models.scripted import Reply
from mcpagent.models.tool_changes_in_history import READER_NAMES
from mcpagent.run.agent_run import active_run, run_context
from mcpagent.run.large_results.large_output import LargeOutput
from mcpagent.run.large_results.offloaded_results import LargeResults
from mcpagent.run.large_results.output_stores import MemoryOutputStore, OpenOutputs, OutputKey
from mcpagent.toolsets.functions import function_tool
from mcpagent.values.approval import CallsPendingError
from mcpagent.values.events import Emit, Event, ToolCallFinished
from mcpagent.values.messages import Image, OffloadedResult, ToolResult, ToolsChanged
from tests.tables import each_row

LINES = [f"{number}: nothing happened" for number in range(5_000)]
LINES[3_210] = "3210: the pump of hall 7 failed"
LOG = "\n".join(LINES)
READERS = list(READER_NAMES)


def get_log() -> str:
    """Gives the log of the plant."""
    return LOG


def get_small() -> str:
    """Gives a word."""
    return "small"


def handle_in(request: ModelRequest) -> str:
    """The handle that the model sees in the last result that was set aside."""
    texts = [result.text for message in request.messages for result in message.tool_results]
    return next(text for text in reversed(texts) if text.startswith("[Set aside as ")).split()[3].rstrip(",")


def call(name: str, **arguments: Any) -> Callable[[ModelRequest], ToolCall]:
    return lambda request: ToolCall("", name, {"handle": handle_in(request), **arguments})


FINDS: list[Reply] = [ToolCall("", "get_log", {}), call("search_large_output", words="pump failed"), "hall 7"]


def names(request: ModelRequest) -> list[str]:
    return [tool.name for tool in request.tools]


def last_result(model: ScriptedModel) -> ToolResult:
    return [result for message in model.requests[-1].messages for result in message.tool_results][-1]


def said(message: Message) -> list[Any]:
    """The parts without the time that calls took."""
    return [replace(part, seconds=0.0) if isinstance(part, ToolResult) else part for part in message.parts]


MODES: dict[str, dict[str, Any]] = {
    "all tools": {},
    "search": {"with_tool_search_mode": True, "pre_discovered_tools": ["get_log"]},
    "a search loads": {"tool_search": ToolSearch(load="search"), "pre_discovered_tools": ["get_log"]},
    "provider": {"tool_search": ToolSearch(execution="provider"), "pre_discovered_tools": ["get_log"]},
}


@each_row("mode", MODES)
async def test_readers_come_at_the_end_once_there_is_something_to_read(mode: str) -> None:
    model = ScriptedModel([ToolCall("", "get_small", {}), *FINDS])
    async with Agent(model, tools=[get_log, get_small], **MODES[mode]) as agent:
        assert await agent.ask("What failed?") == "hall 7"
    before, _, after, last = model.requests[0], *model.requests[1:]
    assert not set(READERS) & set(names(before))
    begins = [name for name in names(after) if name not in READERS]
    assert names(after) == [*begins, *READERS]
    assert begins[: len(names(before))] == names(before)
    assert names(last) == names(after)
    assert list(after.messages[: len(before.messages)]) == list(before.messages)
    assert "3210: the pump of hall 7 failed" in last_result(model).text
    assert sum(len(message.text) + sum(len(r.text) for r in message.tool_results) for message in last.messages) < 4_000


async def test_a_result_that_is_not_large_is_left_alone() -> None:
    model = ScriptedModel([ToolCall("", "get_small", {}), "done"])
    async with Agent(model, tools=[get_small]) as agent:
        await agent.ask("x")
        [result] = agent.messages[-2].tool_results
    assert (result.text, result.set_aside) == ("small", None)
    assert names(model.requests[-1]) == ["get_small"]


async def test_a_reader_is_never_set_aside_again() -> None:
    model = ScriptedModel(
        [ToolCall("", "get_log", {}), call("read_large_output", start_line=2_000, end_line=2_400), "x"]
    )
    async with Agent(model, tools=[get_log], options=RunOptions(large_result_tokens=100)) as agent:
        await agent.ask("x")
    result = last_result(model)
    assert result.set_aside is None
    assert "1999: nothing happened" in result.text


@each_row(
    "agents, tools, is_aside",
    [
        (10_000, None, True),
        (0, None, False),
        (0, 500, True),
        (10_000, 0, False),
        (10**6, None, False),
        (10, 10**6, False),
    ],
)
async def test_the_line_is_the_tools_or_the_agents(agents: int, tools: int | None, is_aside: bool) -> None:
    model = ScriptedModel([ToolCall("", "get_log", {}), "done"])
    tool = function_tool(get_log, large_result_tokens=tools)
    async with Agent(model, tools=[tool], options=RunOptions(large_result_tokens=agents)) as agent:
        await agent.ask("x")
    assert (last_result(model).set_aside is not None) == is_aside


@each_row("wrong", [-1, True, "many"])
def test_lines_that_are_none(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="large_result_tokens"):
        RunOptions(large_result_tokens=wrong)
    with pytest.raises(ConfigError, match="large_result_tokens"):
        function_tool(get_log, large_result_tokens=wrong)
    with pytest.raises(ConfigError, match="large_result_tokens"):
        McpServer("logs", command="x", large_result_tokens={"*": wrong})


@each_row("name", READERS)
async def test_names_of_readers_are_reserved(name: str) -> None:
    with pytest.raises(ConfigError, match=f'tool "{name}": the name is reserved for readers'):
        async with Agent(ScriptedModel([]), tools=[function_tool(get_small, name=name)]):
            pass


async def test_handles_belong_to_one_session() -> None:
    handles: list[str] = []

    def elsewhere(_request: ModelRequest) -> ToolCall:
        return ToolCall("", "read_large_output", {"handle": handles[0]})

    def noted(request: ModelRequest) -> str:
        handles.append(handle_in(request))
        return "one"

    model = ScriptedModel([ToolCall("", "get_log", {}), noted])
    async with Agent(model, tools=[get_log]) as agent:
        await agent.session("one").ask("x")
    second = ScriptedModel([ToolCall("", "get_other", {}), elsewhere, "no"])
    async with Agent(second, tools=[function_tool(lambda: "other " * 20_000, name="get_other")]) as agent:
        await agent.session("two").ask("x")
    result = last_result(second)
    assert result.error == "invalid_arguments"
    assert result.text.startswith(f'There is no output "{handles[0]}" in this conversation, or it is not kept any more')
    for odd in ("../../etc/passwd", "out_000000000000", "", "\x1b[2J", "'; DROP TABLE outputs; --"):
        handles[0] = odd
        third = ScriptedModel([ToolCall("", "get_log", {}), elsewhere, "no"])
        async with Agent(third, tools=[get_log]) as agent:
            await agent.ask("x")
        assert last_result(third).text.startswith("There is no output ")
        assert "\x1b" not in last_result(third).text


async def test_the_same_calls_are_the_same_bytes_and_repeats_are_seen() -> None:
    sent: list[list[Any]] = []
    for _ in range(2):
        repeats: list[Reply] = [ToolCall("", "get_log", {})] * 7
        model = ScriptedModel([*repeats, "stopped"])
        async with Agent(model, tools=[get_log]) as agent:
            result = await agent.session("s").run("x")
        sent.append([[(r.text, r.set_aside) for r in m.tool_results] for m in model.requests[-1].messages])
        assert result.stop == "repeated_calls"
    assert sent[0] == sent[1]


async def test_calls_at_the_same_time_bring_readers_once_whichever_ends_first() -> None:
    sent: list[list[Any]] = []
    for order in (("a", "b"), ("b", "a")):
        ended = {name: asyncio.Event() for name in "ab"}

        async def get(name: str) -> str:
            """Gives a log."""
            if name != order[0]:  # noqa: B023 - used within this turn of the loop
                await ended[order[0]].wait()  # noqa: B023
            ended[name].set()  # noqa: B023
            return f"{name} {LOG}"

        model = ScriptedModel([[ToolCall("", "get", {"name": "a"}), ToolCall("", "get", {"name": "b"})], "x"])
        async with Agent(model, tools=[get]) as agent:
            await agent.ask("x")
            changes = [part for message in agent.messages for part in message.parts if isinstance(part, ToolsChanged)]
        assert [tool.name for [*added] in (changes[0].added,) for tool in added] == READERS
        assert len(changes) == 1
        sent.append([[getattr(p, "text", "") for p in m.parts] for m in model.requests[-1].messages])
    assert sent[0] == sent[1]


async def test_pictures_are_set_aside_and_looked_at_one_by_one() -> None:
    pictures = [Image("image/png", "iVBORw0KGgo="), *(Image("image/gif", f"R0lGODlh{n:04}") for n in range(9))]

    async def shots() -> list[Any]:
        """Gives pictures."""
        return [Text("ten shots"), *pictures]

    model = ScriptedModel([ToolCall("", "shots", {}), call("read_large_output", image=1), "x"])
    async with Agent(model, tools=[shots]) as agent:
        await agent.ask("x")
        first = agent.messages[2].tool_results[0]
    assert first.set_aside is not None
    assert "image 1: image/png" in first.text
    assert "ten shots" in first.text
    assert last_result(model).content == (pictures[0],)


# -- kept, and read again ----------------------------------------------------------------------------------------------


async def test_another_process_goes_on_with_the_readers(tmp_path: Path) -> None:
    model = ScriptedModel([ToolCall("", "get_log", {}), "kept"])
    store = Sessions(tmp_path / "s.db")
    async with Agent(model, tools=[get_log], sessions=store) as agent:
        await agent.session("a").ask("x")
    store.close()
    later, store = (
        ScriptedModel([call("search_large_output", words="pump failed"), "hall 7"]),
        Sessions(store.where),
    )
    async with Agent(later, tools=[get_log], sessions=store) as agent:
        session = agent.session("a")
        assert [tool.name for tool in session._runtime.tools.offer()] == ["get_log", *READERS]
        assert [*session.discovered_tools] == ["get_log"]
        assert await session.ask("What failed?") == "hall 7"
        document = json.loads(exported(session.snapshot(), "json"))
        page = exported(session.snapshot(), "html")
    assert "3210: the pump" in last_result(later).text
    assert names(later.requests[0]) == ["get_log", *READERS]
    begins = model.requests[-1]
    assert list(later.requests[0].messages[: len(begins.messages)]) == list(begins.messages)
    assert sum(isinstance(p, ToolsChanged) for m in later.requests[-1].messages for p in m.parts) == 1
    assert "set_aside" in json.dumps(document)
    assert "set aside as out_" in page
    assert "2500: nothing happened" not in page
    store.close()


async def test_a_history_alone_has_no_outputs_and_says_so() -> None:
    model = ScriptedModel([ToolCall("", "get_log", {}), "x"])
    async with Agent(model, tools=[get_log]) as agent:
        await agent.ask("x")
        data = json.loads(json.dumps(dump_messages(agent.messages)))
    assert load_messages(data)[2].tool_results[0].set_aside is not None
    later = ScriptedModel([call("read_large_output"), "gone"])
    async with Agent(later, tools=[get_log]) as agent:
        await agent.session(messages=load_messages(data)).ask("x")
    assert "make the call again that gave it" in last_result(later).text


async def test_secrets_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, shaped = "correct-horse-battery", "sk-ant-api03-abcdefghijklmnopqrstuvwxyz"
    monkeypatch.setenv("PLANT_TOKEN", key)

    def get_secrets() -> str:
        """Gives a log with keys."""
        return f"{LOG}\n{key}\n{shaped}\n"

    model = ScriptedModel([ToolCall("", "get_secrets", {}), call("read_large_output", start_line=5_001), "x"])
    store = Sessions(tmp_path / "s.db")
    async with Agent(model, tools=[get_secrets], sessions=store) as agent:
        await agent.session("a").ask("x")
    store.close()
    assert last_result(model).text.count("[redacted]") == 2
    kept = (tmp_path / "s.db").read_bytes()
    assert b"nothing happened" in kept
    assert key.encode() not in kept
    assert shaped.encode() not in kept


async def test_a_replay_sets_the_same_aside(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"

    def get_keys() -> str:
        """Gives a log with something that looks like a key."""
        return f"{LOG}\nsk-ant-api03-abcdefghijklmnopqrstuvwxyz\n"

    replies: list[Reply] = [ToolCall("", "get_keys", {}), call("search_large_output", words="pump failed"), "hall 7"]
    async with Agent(ScriptedModel(replies), tools=[get_keys], options=RunOptions(wrappers=[Recorder(path)])) as agent:
        answer = await agent.ask("What failed?")
    async with Agent(ScriptedModel([]), tools=[get_keys], options=RunOptions(wrappers=[Replay(path)])) as again:
        assert await again.ask("What failed?") == answer
        assert again.messages[2].tool_results[0].set_aside is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "reads", "read"),
    [
        (LOG, call("search_large_output", words="pump failed"), "the pump of hall 7"),
        ({"sound": b"RIFF\0\xff of a pump"}, call("read_large_output", block=1), "RIFF.. of a pump"),
    ],
)
async def test_what_a_durable_run_has_done_is_set_aside_again(
    given: Any, reads: Reply, read: str, tmp_path: Path
) -> None:
    """The engine has the whole of what the tool gave; the conversation has the same short form in both processes."""
    calls: list[str] = []
    requests: list[list[Message]] = []

    def log_once() -> Any:
        """Gives the log."""
        calls.append("log")
        return given

    class Stuck(ScriptedModel):
        """Its second answer never comes."""

        async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
            if self.requests:
                requests.append(list(request.messages))
                asked.set()
                await asyncio.Event().wait()
            return await super().respond(request, emit)

    asked = asyncio.Event()

    def parts(model: ScriptedModel) -> tuple[Agent[Any], DurableRuns, Sessions]:
        durable, store = DurableRuns(tmp_path / "runs.db"), Sessions(tmp_path / "s.db")
        return Agent(model, tools=[log_once], sessions=store, options=RunOptions(wrappers=[durable])), durable, store

    agent, durable, store = parts(Stuck([ToolCall("", "log_once", {})]))
    async with asyncio.timeout(60), agent, durable.serving(agent, stop_seconds=0.1):
        await durable.start("What failed?", session="ann", run="once")
        await asked.wait()
    store.close()
    model = ScriptedModel([reads, "hall 7"])
    agent, durable, store = parts(model)
    async with asyncio.timeout(60), agent, durable.serving(agent):
        assert (await (await durable.run("once")).result()).answer == "hall 7"
    store.close()
    assert calls == ["log"]
    assert [said(message) for message in model.requests[0].messages] == [said(message) for message in requests[0]]
    assert read in last_result(model).text


async def test_an_answer_from_outside_is_set_aside_and_read_when_the_run_goes_on() -> None:
    model = ScriptedModel([ToolCall("1", "get_log", {}), call("search_large_output", words="pump"), "hall 7"])
    async with Agent(model, tools=[external([function_tool(get_log).definition])]) as agent:
        session = agent.session()
        with pytest.raises(CallsPendingError):
            await session.ask("x")
        assert await session.resume([session.pending[0].result(LOG)]) == "hall 7"
    assert names(model.requests[1]) == ["get_log", *READERS]


async def test_an_agent_as_a_tool_keeps_its_own(tmp_path: Path) -> None:
    inner_model = ScriptedModel([ToolCall("", "get_log", {}), call("search_large_output", words="pump"), "hall 7"])
    outer_model = ScriptedModel([ToolCall("", "helper", {"prompt": "look"}), "done"])
    inner = Agent(inner_model, tools=[get_log])
    store = Sessions(tmp_path / "s.db")
    async with Agent(outer_model, tools=[inner.as_tool("helper", "Looks.")], sessions=store) as agent:
        assert await agent.ask("x") == "done"
    assert last_result(outer_model).text == "hall 7"
    assert names(outer_model.requests[-1]) == ["helper"]
    assert store.outputs() == (0, 0)
    store.close()


async def test_another_model_takes_over_with_the_readers() -> None:
    first, second = ScriptedModel([*FINDS[:2], "x"]), ScriptedModel([call("read_large_output", start_line=3_211), "y"])
    async with Agent(first, tools=[get_log]) as agent:
        await agent.ask("x")
        await agent.use_model(second)
        await agent.ask("y")
    assert names(second.requests[0]) == ["get_log", *READERS]
    assert "3210: the pump" in last_result(second).text


async def test_readers_cannot_be_taken_away() -> None:
    search = ToolSearch(extra_tools=("remove_tool",))
    model = ScriptedModel([FINDS[0], ToolCall("", "remove_tool", {"tool_names": READERS}), *FINDS[1:]])
    async with Agent(model, tools=[get_log], tool_search=search, pre_discovered_tools=["get_log"]) as agent:
        assert await agent.ask("x") == "hall 7"
    assert names(model.requests[-1])[-3:] == READERS


async def test_events_and_run_context_tell_of_it() -> None:
    seen: list[Event] = []

    async def make_room(run: RunContext[Any]) -> str:
        """Sets every older result aside, as compaction does."""
        results = [result for message in run.messages for result in message.tool_results]
        large = active_run().large
        short = [await large.set_aside(result, force=True) for result in results]
        again = [await large.set_aside(result, force=True) for result in short]
        assert all(one is other for one, other in zip(short, again, strict=True))
        return "\n".join(result.text for result in short)

    def get_medium() -> str:
        """Gives some lines."""
        return "\n".join(LINES[:60])

    calls: list[Reply] = [ToolCall("", name, {}) for name in ("get_small", "get_medium", "get_log", "make_room")]
    model = ScriptedModel([*calls, "done"])
    async with Agent(model, tools=[get_small, get_medium, get_log, make_room], on_event=seen.append) as agent:
        await agent.ask("x")
    small, medium, log = last_result(model).text.split("\n")
    assert small == "small"
    assert medium.startswith("[Set aside as out_")
    assert "] It begins: 0: nothing happened 1: nothing" in medium
    assert medium.endswith("…")
    assert log == log.partition("\n")[0]
    finished = [event for event in seen if isinstance(event, ToolCallFinished)]
    assert [event.result.set_aside is not None for event in finished] == [False, False, True, False]


async def test_setting_aside_by_force_keeps_what_pairs_calls_and_results() -> None:
    large = LargeResults()
    result = ToolResult("7", "get", (Text(LOG), Image("image/png", "aaaa")), "failed", 1.5)
    short = await large.set_aside(result, force=True)
    assert (short.call_id, short.name, short.error, short.seconds) == ("7", "get", "failed", 1.5)
    assert short.set_aside is not None
    opened = await large.open(short.set_aside.handle)
    assert opened is not None
    assert (opened.text, opened.images) == (LOG, (Image("image/png", "aaaa"),))
    assert await large.set_aside(short) is short
    assert await large.set_aside(short, force=True) is short


async def test_memory_is_bounded_and_the_oldest_are_forgotten() -> None:
    large = LargeResults(MemoryOutputStore(most=250_000))
    shorts = [await large.set_aside(ToolResult(str(n), "get", (Text(f"{n} {LOG}"),))) for n in range(4)]
    handles = [short.set_aside.handle for short in shorts if short.set_aside is not None]
    large._session = OutputKey()  # nothing is open any more
    assert [(await large.open(handle)) is not None for handle in handles] == [False, False, True, True]


def test_nothing_to_read_brings_nothing() -> None:
    conversation = Conversation(messages=[Message("user", (Text("x"),))])
    assert not any(isinstance(part, ToolsChanged) for part in conversation.parts)
    with pytest.raises(InputError):
        load_messages(
            [
                {
                    "role": "tool",
                    "parts": [
                        {"type": "tool_result", "call_id": "1", "name": "x", "content": [], "set_aside": {"handle": 3}}
                    ],
                }
            ]
        )
    assert run_context.__doc__


async def test_what_is_taken_back_takes_the_readers_with_it() -> None:
    model = ScriptedModel([*FINDS, "nothing", *FINDS])
    async with Agent(model, tools=[get_log]) as agent:
        session = agent.session()
        await session.ask("What failed?")
        session.rewind(0)
        assert await session.ask("Hello?") == "nothing"
        assert names(model.requests[3]) == ["get_log"]
        assert len(session.messages) == 2
        await session.ask("What failed?")
    assert names(model.requests[-1]) == ["get_log", *READERS]


def test_what_is_open_is_bounded_and_ends_with_its_session() -> None:
    opened, one, other = OpenOutputs(most=2_500), OutputKey(), OutputKey()
    outputs = [LargeOutput(f"{number}" * 1_000) for number in range(3)]
    for output in outputs:
        opened.put(one, output.handle, output)
    assert [opened.get(one, output.handle) is not None for output in outputs] == [False, True, True]
    assert opened.get(other, outputs[2].handle) is None
    opened.put(other, outputs[0].handle, outputs[0])
    del one
    gc.collect()
    assert len(opened._open) == 1
    assert opened.get(other, outputs[0].handle) is not None


class FourTools(ScriptedModel):
    """A model that takes four tools in one request."""

    def tool_limits(self) -> ToolLimits:
        return ToolLimits(max_tools=4)


async def test_a_model_that_takes_few_tools_gets_the_readers() -> None:
    tools = [function_tool(get_log), *(function_tool(get_small, name=f"z{number}") for number in range(3))]
    model = FourTools(FINDS)
    async with Agent(model, tools=tools) as agent:
        assert await agent.ask("What failed?") == "hall 7"
    assert names(model.requests[0]) == ["get_log", "z0", "z1", "z2"]
    assert names(model.requests[-1]) == ["get_log", *READERS]


async def test_readers_need_no_approval_and_come_after_one() -> None:
    model = ScriptedModel(FINDS)
    async with Agent(model, tools=[get_log], approval=ApprovalPolicy(required=True)) as agent:
        session = agent.session()
        with pytest.raises(CallsPendingError):
            await session.ask("What failed?")
        assert await session.resume([session.pending[0].approve()]) == "hall 7"
    assert names(model.requests[1]) == ["get_log", *READERS]


def test_a_person_sees_what_was_set_aside() -> None:
    aside = OffloadedResult("out_0123456789ab", 11_000_000, "JSON")
    finished = ToolCallFinished(
        ToolCall("1", "get_log", {}), ToolResult("1", "get_log", (Text("short"),), set_aside=aside), None
    )
    assert "set aside, 11.0M tokens" in tool_line(finished, Glyphs(), 100)[0].plain
    document = event_document(finished)
    assert document is not None
    assert document["set_aside"] == {"handle": "out_0123456789ab", "tokens": 11_000_000, "kind": "JSON"}


async def test_context_says_what_was_kept_out() -> None:
    async with Agent(ScriptedModel(FINDS), tools=[get_log]) as agent:
        await agent.ask("What failed?")
        lines = [line.plain for line in context_lines(agent, Trace(), 200_000, Glyphs(), 120)]
    assert any("tool results" in line and line.endswith("1 set aside, 28,475 kept out") for line in lines)
