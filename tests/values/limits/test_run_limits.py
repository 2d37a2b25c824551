"""Limits of a run and of a session: what ends, what comes back, and that the next question works; at every door."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from mcpagent import (
    Agent,
    ApprovalPolicy,
    Compaction,
    ConfigError,
    InputError,
    LimitError,
    Limits,
    Message,
    ModelError,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    OutputError,
    Recorder,
    Replay,
    RunOptions,
    ScriptedModel,
    ServerOptions,
    Sessions,
    Text,
    ToolCall,
    ToolSearch,
    Wrapper,
)
from mcpagent.agents.run_input import RunInput
from mcpagent.agents.session import session_of
from mcpagent.journal.sessions.loaded_session import LoadedSession
from mcpagent.run.agent_run import RunContext, active_run
from mcpagent.values.events import Event, LimitReached, RunFinished, SubagentEvent, TextDelta, ToolCallFinished
from mcpagent.values.limits import run_limits
from mcpagent.values.limits.run_limits import KINDS
from mcpagent.values.messages import Usage
from tests.scenes import results
from tests.tables import each_row
from tests.values.limits.endless import CASES, SECONDS, Case, Endless, Looking

WAIT = 30.0


def in_pairs(messages: Sequence[Message]) -> bool:
    """Whether each call has its result right behind it."""
    for place, message in enumerate(messages):
        if message.tool_calls:
            behind = messages[place + 1]
            if [result.call_id for result in behind.tool_results] != [call.id for call in message.tool_calls]:
                return False
    return True


def agent_with(
    case: Case, model: Endless, looking: Looking, *, wrappers: Sequence[Wrapper] = (), **others: Any
) -> Agent:
    return Agent(model, tools=[looking.tool()], options=RunOptions(limits=case.limits, wrappers=wrappers), **others)


Door = Callable[[Agent], Awaitable[tuple[str, str]]]
"""Asks in one way; gives the answer and why it ended, "" if this door does not say."""


async def by_ask(agent: Agent) -> tuple[str, str]:
    return await agent.ask("go"), ""


async def by_ask_of_a_session(agent: Agent) -> tuple[str, str]:
    session = agent.session()
    answer = await session.ask("go")
    assert in_pairs(session.messages)
    return answer, ""


async def by_run(agent: Agent) -> tuple[str, str]:
    result = await agent.run("go")
    assert result.limit is not None
    assert result.output == result.answer
    return result.answer, result.stop


async def by_stream(agent: Agent) -> tuple[str, str]:
    kinds: list[type] = []
    async with agent.stream("go") as stream:
        async for event in stream:
            kinds.append(type(event))
            if isinstance(event, RunFinished):
                finished = event
    assert kinds.count(LimitReached) == kinds.count(RunFinished) == 1
    assert kinds[-1] is RunFinished
    assert stream.output == finished.answer
    return finished.answer, finished.stop


async def by_history(agent: Agent) -> tuple[str, str]:
    answer, messages = await agent.ask_with_history([Message("user", (Text("go"),))])
    assert in_pairs(messages)
    return answer, ""


DOORS: dict[str, Door] = {
    "ask": by_ask,
    "session": by_ask_of_a_session,
    "run": by_run,
    "stream": by_stream,
    "history": by_history,
}


@each_row(
    "kind, door",
    [
        *((kind, "run") for kind in CASES),
        *((kind, door) for kind in ("turns", "tokens") for door in DOORS),
        ("seconds", "stream"),
    ],
)
async def test_a_limit_ends_a_run_with_what_there_is(kind: str, door: str) -> None:
    case, looking, events = CASES[kind], Looking(), list[Event]()
    model = case.model()
    async with asyncio.timeout(WAIT), agent_with(case, model, looking, on_event=events.append) as agent:
        answer, stop = await DOORS[door](agent)
        assert answer == case.answer
        assert stop in ("", case.stop)
        assert (len(model.requests), len(looking.seen)) == (case.requests, case.calls)
        [reached] = [event for event in events if isinstance(event, LimitReached)]
        assert (reached.limit, reached.most, reached.scope) == (case.kind, case.limits.most(reached.limit), "run")
        assert (reached.used is None) == (case.dollars is None)
        assert reached.used is None or reached.used >= reached.most
        assert "\n" not in reached.text
        # Each run has its limits anew, and the history is one that a provider takes.
        model.answers = True
        again = await agent.run("and again")
        assert in_pairs(agent.messages)
        assert (again.stop, again.limit) == ("answered", None)


@each_row("kind", CASES)
def test_the_same_without_an_event_loop(kind: str) -> None:
    case, looking = CASES[kind], Looking()
    with agent_with(case, case.model(), looking) as agent:
        assert agent.ask_sync("go") == case.answer
        assert in_pairs(agent.messages)


@each_row("kind", CASES)
async def test_the_limits_of_a_caller_hold_for_the_agents_that_it_calls(kind: str) -> None:
    case, looking, events = CASES[kind], Looking(), list[Event]()
    model = case.model()
    helper = Agent(model, tools=[looking.tool()])
    boss = ScriptedModel([ToolCall("1", "helper", {"prompt": "go"}), "the boss answers", "the boss answers again"])
    options = RunOptions(limits=case.limits)
    tools = [helper.as_tool("helper", "Helps.")]
    async with asyncio.timeout(WAIT), Agent(boss, tools=tools, options=options, on_event=events.append) as agent:
        result = await agent.run("go")
        is_asked = kind == "tool_calls"  # the caller makes no further call, so it is not ended by that
        assert result.stop == ("answered" if is_asked else case.stop)
        nested = [event.event for event in events if isinstance(event, SubagentEvent)]
        if kind == "seconds":  # the whole call is cut off
            assert [item.error for item in results(agent.messages)] == ["cancelled"]
        else:
            ended = next(event for event in nested if isinstance(event, RunFinished))
            assert (ended.stop, ended.limit.scope if ended.limit else "") == (case.stop, "caller")
            assert len(looking.seen) <= case.calls
        assert [event.scope for event in events if isinstance(event, LimitReached)] == ([] if is_asked else ["run"])
        assert in_pairs(agent.messages)
        assert (await agent.run("hello")).answer == (
            "the boss answers" if len(boss.requests) == 2 else "the boss answers again"
        )


async def test_agents_that_are_called_at_the_same_time_share_what_there_is() -> None:
    looking = Looking()
    helper = Agent(Endless(), tools=[looking.tool()])
    calls = [ToolCall(str(n), "helper", {"prompt": f"go {n}"}) for n in range(4)]
    boss = ScriptedModel([calls, "all of it"])
    options = RunOptions(limits=Limits(tool_calls=10))  # four of them are those of the helpers
    async with asyncio.timeout(WAIT), Agent(boss, tools=[helper.as_tool("helper", "Helps.")], options=options) as agent:
        result = await agent.run("go")
        assert (result.stop, result.answer) == ("answered", "all of it")  # it called nothing more itself
        assert len(looking.seen) == 10 - len(calls)
        assert all(item.text.startswith("made to answer at ") for item in results(agent.messages))
        assert result.spent.tool_calls == 10
        assert in_pairs(agent.messages)


async def test_what_an_agent_said_before_its_own_limit_is_told_to_its_caller() -> None:
    helper = Agent(Endless(), tools=[Looking().tool()], options=RunOptions(limits=Limits(tokens=150)))
    boss = ScriptedModel([ToolCall("1", "helper", {"prompt": "go"}), "done"])
    async with Agent(boss, tools=[helper.as_tool("helper", "Helps.")]) as agent:
        assert (await agent.run("go")).stop == "answered"
        [result] = results(agent.messages)
        assert (
            result.text
            == "step 2\n\n[helper was stopped after 200 tokens (Limits(tokens=150) of a run), before it was done.]"
        )


# -- sessions ---------------------------------------------------------------------------------------------------------


def answering() -> ScriptedModel:
    """Calls once for each question, and answers."""

    def reply(request: ModelRequest) -> ModelResponse:
        usage = Usage(90, 10, requests=1)
        if request.messages[-1].role == "tool" or request.tool_choice == "none":
            return ModelResponse(Message("assistant", (Text("an answer"),)), usage, "end", 0.5)
        call = ToolCall(f"c{len(request.messages)}", "look", {"place": str(len(request.messages))})
        return ModelResponse(Message("assistant", (call,)), usage, "tool_calls", 0.5)

    return ScriptedModel([reply] * 20)


SESSION_LIMITS = {
    "turns": (Limits(turns=5), ["answered", "answered", "max_turns", "max_turns"], 6),
    "tool_calls": (Limits(tool_calls=2), ["answered", "answered", "max_tool_calls", "max_tool_calls"], 8),
    "tokens": (Limits(tokens=450), ["answered", "answered", "max_tokens", "max_tokens"], 5),
    "dollars": (Limits(dollars=2.5), ["answered", "answered", "max_dollars", "max_dollars"], 5),
}


@each_row("reopened", [False, True])
@each_row("kind", SESSION_LIMITS)
async def test_a_session_has_its_limits_over_all_its_runs(kind: str, reopened: bool, tmp_path: Path) -> None:
    limits, stops, requests = SESSION_LIMITS[kind]
    looking, model, found = Looking(), answering(), list[Any]()
    if not reopened:
        async with Agent(model, tools=[looking.tool()]) as agent:
            session = agent.session(limits=limits)
            found = [await session.run(f"question {n}") for n in range(4)]
            assert in_pairs(session.messages)
            other = agent.session()
            assert (await other.run("hello")).stop == "answered"
    else:
        for number in range(4):  # each as in a process of its own
            store = Sessions(tmp_path / "s.db")
            async with Agent(model, tools=[looking.tool()], sessions=store) as agent:
                session = agent.session("ann", limits=limits)
                found.append(await session.run(f"question {number}"))
                assert in_pairs(session.messages)
            store.close()
    assert [result.stop for result in found] == stops
    assert len(model.requests) - (0 if reopened else 2) == requests
    assert {result.limit.scope for result in found if result.limit} == {"session"}


async def test_the_agents_own_session_and_kept_ones_have_the_limits_of_its_options() -> None:
    options = RunOptions(session_limits=Limits(tokens=150))
    async with Agent(answering(), tools=[Looking().tool()], options=options) as agent:
        assert await agent.ask("one") == "an answer"
        with pytest.raises(
            LimitError, match=r"stopped after 200 tokens without an answer \(Limits\(tokens=150\) of the"
        ):
            await agent.ask("two")
        session = agent.session(limits=Limits(tokens=10_000))
        assert [await session.ask("three"), await session.ask("four")] == ["an answer", "an answer"]
        session._runtime.limits = Limits()
        assert await session.ask("five") == "an answer"


async def test_seconds_of_a_session_add_up(tmp_path: Path) -> None:
    limits, looking = Limits(seconds=SECONDS), Looking()
    model = Endless(hangs_at=2)
    store = Sessions(tmp_path / "s.db")
    async with asyncio.timeout(WAIT), Agent(model, tools=[looking.tool()], sessions=store) as agent:
        session = agent.session("ann", limits=limits)
        first = await session.run("go")
        assert (first.stop, first.answer) == ("max_seconds", "step 2")
    async with Agent(model, tools=[looking.tool()], sessions=store) as agent:
        session = agent.session("ann", limits=limits)
        assert session.spent.seconds >= SECONDS
        again = await session.run("go on")
        assert (again.stop, again.answer, len(model.requests)) == ("max_seconds", "", 2)
        session._runtime.limits = Limits(turns=4)
        assert (await session.run("go on")).stop == "max_turns"
        assert in_pairs(session.messages)
    store.close()


async def test_a_run_without_limits_of_its_own_makes_ten_thousand_calls_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bound is that of every run, whatever other limits it has; the model answers once more."""
    assert [Limits(**given).of_run().tool_calls for given in ({}, {"turns": 3}, {"tokens": 9})] == [10_000] * 3
    assert Limits(tool_calls=20_000).of_run().tool_calls == 20_000
    monkeypatch.setattr(run_limits, "MOST_CALLS", 5)
    looking, model = Looking(), Endless(calls_at_once=7)
    async with Agent(model, tools=[looking.tool()]) as agent:
        result = await agent.run("go")
    assert (result.stop, len(looking.seen), result.spent.tool_calls) == ("max_tool_calls", 5, 5)


@pytest.mark.slow
async def test_ten_thousand_calls_and_ten_end_at_ten_thousand() -> None:
    looking, model = Looking(), Endless(calls_at_once=10_010)
    async with Agent(model, tools=[looking.tool()]) as agent:
        result = await agent.run("go")
    assert (result.stop, len(looking.seen)) == ("max_tool_calls", 10_000)


# -- several calls in one message -------------------------------------------------------------------------------------


async def test_of_several_calls_those_over_the_limit_are_told_as_not_run() -> None:
    looking, model = Looking(), Endless(calls_at_once=3)
    async with Agent(model, tools=[looking.tool()], options=RunOptions(limits=Limits(tool_calls=4))) as agent:
        result = await agent.run("go")
        assert (result.stop, result.answer) == ("max_tool_calls", "made to answer at 3")
        assert sorted(looking.seen) == ["1-0", "1-1", "1-2", "2-0"]
        assert [item.error for item in results(agent.messages)] == [None] * 4 + ["cancelled"] * 2
        assert results(agent.messages)[-1].text == "This call was not run: the limit of 4 tool calls is used up."
        assert "You have used all 4 tool calls." in model.requests[-1].messages[-1].text
        assert in_pairs(agent.messages)
        assert agent.spent.tool_calls == 4


async def test_search_tools_and_the_like_are_no_calls_of_yours() -> None:
    looking = Looking()
    script: list[Any] = [
        ToolCall("1", "search_tools", {"query": "look at a place"}),
        ToolCall("2", "add_tool", {"tool_names": ["look"]}),
        ToolCall("3", "look", {"place": "here"}),
        "done",
    ]
    options = RunOptions(limits=Limits(tool_calls=1))
    search = ToolSearch(prefetch=0)
    async with Agent(ScriptedModel(script), tools=[looking.tool()], tool_search=search, options=options) as agent:
        result = await agent.run("go")
    assert (result.stop, looking.seen, result.spent.tool_calls) == ("answered", ["here"], 1)


async def test_nobody_is_asked_about_a_call_that_is_not_run() -> None:
    asked: list[str] = []

    def decide(request: Any) -> bool:
        asked.append(request.call_id)
        return bool(request.call_id != "c1-0")

    looking, model = Looking(), Endless(calls_at_once=3)
    policy = ApprovalPolicy(required=True, decide=decide)
    options = RunOptions(limits=Limits(tool_calls=1))
    async with Agent(model, tools=[looking.tool()], approval=policy, options=options) as agent:
        result = await agent.run("go")
        # One was denied, and so not run; then one was run, and the third not even asked about.
        assert [item.error for item in results(agent.messages)] == ["denied", None, "cancelled"]
        assert (asked, looking.seen, result.stop) == (["c1-0", "c1-1"], ["1-1"], "max_tool_calls")


async def test_calls_that_wait_go_before_a_limit() -> None:
    looking = Looking()
    calls = [ToolCall("p", "pay", {}), ToolCall("a", "look", {"place": "a"}), ToolCall("b", "look", {"place": "b"})]

    def pay() -> str:
        """Pays."""
        looking.seen.append("paid")
        return "paid"

    def required(context: RunContext[Any], definition: Any, arguments: Any) -> bool:
        return bool(definition.name == "pay")

    options = RunOptions(limits=Limits(tool_calls=1))
    model = ScriptedModel([calls, '{"name": "done"}'])
    events: list[Event] = []
    tools = [looking.tool(), pay]
    async with Agent(model, tools=tools, approval=required, options=options, on_event=events.append) as agent:
        session = agent.session()
        waiting = await session.run("go", output_type=Place)
        assert (waiting.stop, len(waiting.pending)) == ("calls_pending", 1)
        assert [waiting.limit] == [event for event in events if isinstance(event, LimitReached)]
        assert waiting.limit is not None
        assert (waiting.limit.limit, waiting.limit.used) == ("tool_calls", 1)
        with pytest.raises(OutputError, match="calls wait"):
            waiting.output  # noqa: B018
        answers = [call.approve() for call in session.pending]
        assert await session.resume(answers, output_type=Place) == Place(name="done")
        assert [item.error for item in results(session.messages)] == [None, None, "cancelled"]
        assert looking.seen == ["a", "paid"]


# -- seconds ----------------------------------------------------------------------------------------------------------


async def test_a_slow_tool_is_cancelled_and_told() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        """Takes for ever."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    looking = Looking()
    calls = [ToolCall("1", "look", {"place": "x"}), ToolCall("2", "slow", {})]
    message = Message("assistant", (Text("I look."), *calls))
    model = ScriptedModel([message, "hello yourself"])
    options = RunOptions(limits=Limits(seconds=SECONDS))
    async with asyncio.timeout(WAIT), Agent(model, tools=[looking.tool(), slow], options=options) as agent:
        result = await agent.run("go")
        assert (result.stop, result.answer) == ("max_seconds", "I look.")
        assert begun.is_set()
        assert ended.is_set()
        fine, cut = results(agent.messages)
        assert (fine.text, cut.error) == ("seen x", "cancelled")
        assert "it may have run" in cut.text
        assert await agent.ask("hello") == "hello yourself"


async def test_the_time_of_a_person_is_not_counted() -> None:
    """Who decides takes twice as long as the run may; an agent that is called asks through its caller."""

    async def decide(request: Any) -> bool:
        await asyncio.sleep(2 * SECONDS)
        return True

    def helper_of(looking: Looking) -> Agent:
        call = ToolCall("1", "look", {"place": "far"})
        return Agent(ScriptedModel([call, "found"]), tools=[looking.tool()], approval=True)

    looking = Looking()
    boss = ScriptedModel([ToolCall("1", "helper", {"prompt": "go"}), "done"])
    options = RunOptions(limits=Limits(seconds=SECONDS))
    policy = ApprovalPolicy(decide=decide)
    tools = [helper_of(looking).as_tool("helper", "Helps.")]
    async with asyncio.timeout(WAIT), Agent(boss, tools=tools, approval=policy, options=options) as agent:
        result = await agent.run("go")
    assert (result.stop, result.answer, looking.seen) == ("answered", "done", ["far"])
    assert result.spent.seconds < SECONDS


async def test_a_question_to_a_person_inside_of_a_call_is_not_its_time() -> None:
    """As for a tool that its server changed: the call waits, and its own limit of time does not go on."""

    async def ask() -> str:
        """Ask a person."""
        with active_run().asking_a_person():
            await asyncio.sleep(2 * SECONDS)
        return "asked"

    seconds: dict[str, float] = {}

    def hear(event: Event) -> None:
        if isinstance(event, ToolCallFinished):
            seconds[event.call.name] = event.result.seconds
        elif isinstance(event, RunFinished):
            seconds["run"] = event.seconds

    options = RunOptions(tool_timeout_seconds=SECONDS)
    model = ScriptedModel([ToolCall("1", "ask", {}), "done"])
    async with asyncio.timeout(WAIT), Agent(model, tools=[ask], options=options, on_event=hear) as agent:
        result = await agent.run("go")
    assert (result.answer, [one.text for one in agent.messages[2].tool_results]) == ("done", ["asked"])
    assert all(each < SECONDS for each in seconds.values()), seconds
    assert seconds.keys() == {"ask", "run"}


async def test_a_cancellation_is_no_limit() -> None:
    model = Endless(hangs_at=1)
    options = RunOptions(limits=Limits(seconds=WAIT))
    async with asyncio.timeout(WAIT), Agent(model, tools=[Looking().tool()], options=options) as agent:
        running = asyncio.create_task(agent.run("go"))
        await model.hanging.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_an_error_that_is_a_time_out_of_its_own_is_raised() -> None:
    class Late(Endless):
        async def respond(self, request: ModelRequest, emit: Any) -> ModelResponse:
            raise TimeoutError("mine")

    async with Agent(Late(), options=RunOptions(limits=Limits(seconds=WAIT))) as agent:
        with pytest.raises(TimeoutError, match="mine"):
            await agent.ask("go")


# -- answers of a type ------------------------------------------------------------------------------------------------


class Place(BaseModel):
    name: str


TYPED = {
    "tokens": (Limits(tokens=100), "max_tokens"),
    "dollars": (Limits(dollars=0.1), "max_dollars"),
    "seconds": (Limits(seconds=SECONDS), "max_seconds"),
    "turns": (Limits(turns=1), "max_turns"),
    "tool_calls": (Limits(tool_calls=1), "max_tool_calls"),
}


@each_row("kind", TYPED)
async def test_whoever_wants_a_type_gets_it_or_the_limit(kind: str) -> None:
    limits, stop = TYPED[kind]
    looking = Looking()
    model = Endless(hangs_at=1 if kind == "seconds" else 0)
    async with asyncio.timeout(WAIT), Agent(model, tools=[looking.tool()], options=RunOptions(limits=limits)) as agent:
        with pytest.raises(LimitError, match="without an answer of output_type") as caught:
            await agent.ask("where?", output_type=Place)
        assert (caught.value.stop, "\n" in str(caught.value)) == (stop, False)
        assert caught.value.answer
        assert not isinstance(caught.value, OutputError)


async def test_a_run_for_a_type_says_what_is_wrong_when_its_repair_is_not_paid_for() -> None:
    usage = Usage(90, 10, requests=1)
    wrong = ModelResponse(Message("assistant", (Text('{"name": 5}'),)), usage, "end")
    async with Agent(ScriptedModel([wrong]), options=RunOptions(limits=Limits(tokens=100))) as agent:
        result = await agent.run("where?", output_type=Place)
        assert (result.stop, result.answer, [problem.path for problem in result.problems]) == (
            "max_tokens",
            '{"name": 5}',
            ["name"],
        )
        with pytest.raises(LimitError, match="output_type"):
            result.output  # noqa: B018


async def test_a_forced_answer_of_the_type_is_the_answer() -> None:
    model = ScriptedModel(
        [ToolCall("1", "look", {"place": "x"}), ToolCall("2", "look", {"place": "y"}), '{"name": "x"}']
    )
    options = RunOptions(limits=Limits(tool_calls=1))
    async with Agent(model, tools=[Looking().tool()], options=options) as agent:
        assert await agent.ask("where?", output_type=Place) == Place(name="x")


# -- the value --------------------------------------------------------------------------------------------------------

WRONG: list[Any] = [
    0,
    -1,
    math.nan,
    math.inf,
    True,
    "5",
    [5],
    Decimal(5),
    Decimal("NaN"),
    10**400,
    -(10**400),
    10**5_000,
]


@each_row("wrong", WRONG)
@each_row("kind", KINDS)
def test_what_is_no_limit_is_told_in_one_line(kind: Any, wrong: Any) -> None:
    with pytest.raises(ConfigError, match=rf"^Limits\.{kind}: expected a [^\n]*, got [^\n]*$"):
        Limits(**{kind: wrong})


@each_row("wrong", [10**400, 10**5_000, math.nan])
def test_other_numbers_of_seconds_and_shares_are_told_so_too(wrong: Any) -> None:
    makes: list[Any] = [
        lambda: RunOptions(tool_timeout_seconds=wrong),
        lambda: ModelSettings(timeout_seconds=wrong),
        lambda: ModelSettings(temperature=wrong),
        lambda: ServerOptions(startup_seconds=wrong),
        lambda: Compaction(at=wrong),
    ]
    for make in makes:
        with pytest.raises(ConfigError, match=r"^[^\n]{1,200}$"):
            make()


@each_row("kind", ["turns", "tool_calls", "tokens"])
def test_a_part_of_a_call_or_a_token_is_no_limit(kind: Any) -> None:
    wrong: Any = 1.5
    with pytest.raises(ConfigError, match=rf"Limits\.{kind}: expected a whole number"):
        Limits(**{kind: wrong})


async def test_a_wrong_limit_of_a_session_is_told_before_it_is_opened(tmp_path: Path) -> None:
    store = Sessions(tmp_path / "s.db")
    wrong: Any = {"turns": 5}
    async with Agent(ScriptedModel(["fine"]), sessions=store) as agent:
        with pytest.raises(ConfigError, match=r"limits: expected Limits\(\.\.\.\), got dict"):
            agent.session("ann", limits=wrong)
        assert await agent.session("ann").ask("hello") == "fine"
    store.close()


async def test_a_run_without_limits_has_a_hundred_turns() -> None:
    model = Endless()
    async with Agent(model, tools=[Looking().tool()], options=RunOptions(limits=Limits(tokens=10**6))) as agent:
        assert (await agent.run("go")).stop == "max_turns"
    assert len(model.requests) == 101


async def test_whoever_has_no_listener_finds_it_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    case = CASES["tokens"]
    async with agent_with(case, case.model(), Looking()) as agent:
        await agent.ask("go")
    assert [record.message for record in caplog.records] == ["stopped after 300 tokens (Limits(tokens=250) of a run)"]


def test_an_error_keeps_what_it_holds_on_its_way_to_another_process() -> None:
    import pickle

    error = pickle.loads(pickle.dumps(LimitError("stopped", stop="max_tokens", answer="so far")))
    assert (str(error), error.stop, error.answer) == ("stopped", "max_tokens", "so far")


async def test_what_was_streamed_before_a_restart_is_no_part_of_the_answer() -> None:
    from mcpagent.values.events import AnswerRestarted

    class Restarting(Endless):
        async def respond(self, request: ModelRequest, emit: Any) -> ModelResponse:
            emit(TextDelta("dropped"))
            emit(AnswerRestarted("broke off", "dropped"))
            return await super().respond(request, emit)

    model = Restarting(hangs_at=1)
    options = RunOptions(limits=Limits(seconds=SECONDS))
    async with asyncio.timeout(WAIT), Agent(model, tools=[Looking().tool()], options=options) as agent:
        assert await agent.ask("go") == "step 1"
        assert [message.text for message in agent.messages] == ["go", "step 1"]
        assert re.search("stopped after .* seconds", str(agent._runtime.own_session.messages)) is None


# -- what holds whatever the limits are -------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    limits=st.builds(
        Limits,
        turns=st.none() | st.integers(1, 6),
        tool_calls=st.none() | st.integers(1, 9),
        tokens=st.none() | st.integers(1, 700),
        dollars=st.none() | st.floats(0.01, 4.0),
    ),
    of_session=st.builds(Limits, turns=st.integers(1, 12), tool_calls=st.none() | st.integers(1, 12)),
    calls=st.integers(1, 4),
    dollars=st.none() | st.floats(0.0, 1.0),
)
async def test_no_run_takes_more_than_it_may(
    limits: Limits, of_session: Limits, calls: int, dollars: float | None
) -> None:
    looking, model = Looking(), Endless(dollars, calls_at_once=calls)
    options = RunOptions(limits=limits, session_limits=of_session)
    async with Agent(model, tools=[looking.tool()], options=options, on_event=lambda _: None) as agent:
        for question in range(2):
            before = agent._runtime.own_session.spent
            result = await agent.run(f"question {question}")
            spent, run = agent._runtime.own_session.spent, result.spent
            assert result.stop.startswith("max_")
            assert result.limit is not None
            assert in_pairs(agent.messages)
            assert (spent.turns, spent.tool_calls) == (before.turns + run.turns, before.tool_calls + run.tool_calls)
            assert run.turns <= min(limits.turns or math.inf, of_session.turns or math.inf) + 1
            assert run.tool_calls <= (limits.tool_calls or math.inf)
            assert spent.tool_calls <= (of_session.tool_calls or math.inf)
            assert spent.turns <= (of_session.turns or math.inf) + 1
            # Without the last request there was something left.
            assert 100 * (run.turns - 1) < (limits.tokens or math.inf)
            if dollars is not None:
                assert run.turns < 2 or dollars * (run.turns - 1) < (limits.dollars or math.inf)
        assert len(looking.seen) == agent._runtime.own_session.spent.tool_calls
        assert len(model.requests) == agent._runtime.own_session.spent.turns


async def test_a_summary_counts_and_is_not_asked_for_when_nothing_is_left() -> None:
    usage = Usage(90, 10, requests=1)
    model = ScriptedModel(
        [ModelResponse(Message("assistant", (Text(text),)), usage, "end") for text in ("one", "two", "sum")]
    )
    async with Agent(model) as agent:
        session = agent.session(limits=Limits(tokens=300))
        assert [await session.ask("first"), await session.ask("second")] == ["one", "two"]
        assert await session.compact() is not None
        assert session.spent.usage.input_tokens + session.spent.usage.output_tokens == 300
        with pytest.raises(LimitError, match="stopped after 300 tokens"):
            await session.ask("third")
        session.rewind(4)
        with pytest.raises(LimitError, match="of the session") as caught:
            await session.compact()
        assert caught.value.stop == "max_tokens"
    assert model.remaining == 0


async def test_what_a_process_took_that_ended_counts_once_when_it_is_compacted() -> None:
    kept: list[LoadedSession] = []

    def answer(_: ModelRequest) -> ModelResponse:
        kept.append(session.snapshot())  # as a process leaves it that is killed in this request
        return ModelResponse(Message("assistant", (Text("done"),)), Usage(100, 0, requests=1), "end")

    usage = Usage(100, 0, requests=1)
    calls = ModelResponse(Message("assistant", (ToolCall("1", "look", {"place": "x"}),)), usage, "tool_calls")
    tools = [Looking().tool()]
    async with Agent(ScriptedModel(["one", "two", calls, answer]), tools=tools) as agent:
        session = agent.session("ann")
        for question in ("first", "second", "go"):
            await session.ask(question)
    async with Agent(ScriptedModel(["a summary", "done"]), tools=tools) as agent:
        session = session_of(agent._runtime.session_as_of("ann", kept[0]))
        assert await session.compact()
        assert await session.resume() == "done"
        assert session.spent.usage.input_tokens == 100
        assert session.spent.tool_calls == 1


async def test_a_run_that_was_ended_goes_on_with_resume() -> None:
    model = Endless()
    async with Agent(model, tools=[Looking().tool()], options=RunOptions(limits=Limits(tokens=250))) as agent:
        assert (await agent.run("go")).stop == "max_tokens"
        assert agent._runtime.own_session.is_unfinished
        model.answers = True
        assert await agent.resume() == "made to answer at 4"
        assert in_pairs(agent.messages)


@each_row("kind", ["tokens", "tool_calls", "dollars"])
async def test_a_replay_ends_as_the_run_did(kind: str, tmp_path: Path) -> None:
    case, path = CASES[kind], tmp_path / "run.jsonl"
    async with agent_with(case, case.model(), Looking(), wrappers=[Recorder(path)]) as agent:
        recorded = await agent.run("go")
    async with Agent("offline", options=RunOptions(wrappers=[Replay(path)])) as agent:
        again = await agent.run("go")
    assert (again.stop, again.answer, again.limit) == (recorded.stop, recorded.answer, recorded.limit)


@each_row("of_session", [False, True])
async def test_a_replay_counts_what_agents_took_that_were_called(of_session: bool, tmp_path: Path) -> None:
    path, limits = tmp_path / "run.jsonl", Limits(turns=3)
    look = ToolCall("1", "look", {"place": "x"})
    helper = Agent(ScriptedModel([look, "found"]), tools=[Looking().tool()])
    boss = ScriptedModel([ToolCall("1", "helper", {"prompt": "go"}), "done"])
    options = RunOptions(session_limits=limits) if of_session else RunOptions(limits=limits)
    tools = [helper.as_tool("helper", "Helps.")]
    async with Agent(boss, tools=tools, options=replace(options, wrappers=[Recorder(path)])) as agent:
        recorded = await agent.run("go")
    assert (recorded.stop, recorded.answer) == ("max_turns", "done")
    async with Agent("offline", options=RunOptions(wrappers=[Replay(path)])) as agent:
        again = await agent.run("go")
    assert (again.stop, again.answer, again.limit) == (recorded.stop, recorded.answer, recorded.limit)
    assert again.spent == recorded.spent


async def test_limits_of_one_run_take_the_place_of_the_agents() -> None:
    def count(number: int) -> int:
        """Counts."""
        return number

    script: list[Any] = [[ToolCall(f"c{at}", "count", {"number": at})] for at in range(3)]
    model = ScriptedModel([*script, "three", *script, "cut", *script, "three"])
    options = RunOptions(limits=Limits(tool_calls=3))
    async with Agent(model, tools=[count], options=options) as agent:
        stops = [(await agent.run("go")).stop, (await agent.run("go", limits=Limits(tool_calls=2))).stop]
        with pytest.raises(InputError, match="limits"):
            await agent.ask("go", limits=5)  # type: ignore[call-overload]
        stops.append((await agent.session().run("go")).stop)
    assert stops == ["answered", "max_tool_calls", "answered"]


async def test_a_run_that_failed_goes_on_within_the_limits_that_it_had() -> None:
    used = Usage(10, 0, requests=1)

    def looks(place: str) -> ModelResponse:
        parts = (ToolCall(place, "look", {"place": place}),)
        return ModelResponse(Message("assistant", parts), used, "tool_calls")

    model = ScriptedModel(
        [looks("a"), looks("b"), ModelError("gone", provider="scripted"), looks("c"), looks("d"), "made to answer"]
    )
    options = RunOptions(limits=Limits(tool_calls=3))
    async with Agent(model, tools=[Looking().tool()], options=options) as agent:
        session = agent.session()
        with pytest.raises(ModelError):
            await session.ask("go")
        assert session.spent.tool_calls == 2
        assert await session.resume() == "made to answer"
        assert [result.error for result in results(session.messages)] == [None, None, None, "cancelled"]
        assert session.spent.tool_calls == 3
        assert session.spent.usage == agent.spent.usage


@each_row("of_session", [False, True])
async def test_seconds_of_a_process_that_ended_count_when_its_run_is_resumed(of_session: bool) -> None:
    model = Endless(hangs_at=2)
    tools = [Looking().tool()]
    async with asyncio.timeout(WAIT), Agent(model, tools=tools) as agent:
        session = agent.session("ann")
        running = asyncio.create_task(session.run("go", limits=Limits(seconds=WAIT)))
        await model.hanging.wait()
        left = session.snapshot()
        running.cancel()
        await asyncio.wait({running})
    run = dict(left.values["run"])
    left.values["run"] = {**run, "spent": {**run["spent"], "seconds": 50.0}}  # type: ignore[index]
    model = Endless(answers=True)
    async with asyncio.timeout(WAIT), Agent(model, tools=tools) as agent:
        session = session_of(agent._runtime.session_as_of("ann", left))
        limits = Limits(seconds=49)
        session._runtime.limits = limits if of_session else Limits()
        result = await session._runtime.result_of(lambda: RunInput({}, limits=None if of_session else limits))
        assert (result.stop, model.requests) == ("max_seconds", [])
        assert session.spent.seconds >= 50
        session._runtime.limits = Limits()
        assert (await session.run("again", limits=limits)).stop == "answered"  # they are of that run alone
