"""The agent from outside: asking, streaming, limits, failures, cancellation, its life."""

import asyncio
import json
import logging
import threading
from typing import Any

import pytest

from mcpagent import (
    Agent,
    AgentStateError,
    ApprovalPolicy,
    ConfigError,
    InputError,
    Limits,
    Message,
    ModelError,
    ModelRequest,
    ModelResponse,
    Text,
    Tool,
    ToolDefinition,
    ToolOutput,
    Usage,
)
from mcpagent.errors import ContextOverflowError
from mcpagent.history.conversation import closed
from mcpagent.models.scripted import ScriptedModel
from mcpagent.models.wire_values import read_call
from mcpagent.toolsets.definition import RunOptions
from mcpagent.values.events import (
    ConversationCompacted,
    CustomEvent,
    Emit,
    Event,
    Notice,
    RequestSent,
    ResponseReceived,
    RunFinished,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    guarded,
)
from mcpagent.values.messages import ToolCall
from tests.scenes import CountedTools, call, offered, results
from tests.tables import each_row

WAIT_SECONDS = 20


class Gate:
    """A tool that waits until it is let through, and says when a call has come in."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.open = asyncio.Event()
        self.cancelled = False

    async def pass_gate(self) -> str:
        """Wait at the gate."""
        self.entered.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return "through"


def test_an_agent_that_never_started_has_no_conversation() -> None:
    agent = Agent(ScriptedModel(["hello"]))
    assert (agent.messages, agent.pending) == ((), ())


async def test_asks_continue_one_conversation() -> None:
    model = ScriptedModel(["one", "two"])
    async with Agent(model, instructions="Be brief.") as agent:
        assert await agent.ask("first") == "one"
        assert await agent.ask("second") == "two"
        assert [message.text for message in model.requests[1].messages] == ["first", "one", "second"]
        assert model.requests[0].system == "Be brief."
        agent.new_conversation()
        assert agent.messages == ()
        assert agent.spent.usage.requests == 2


async def test_the_model_object_passed_is_the_one_called_and_it_stays_open() -> None:
    model = ScriptedModel(["hi"])
    async with Agent(model) as agent:
        await agent.ask("hello")
        assert agent._runtime.model is model
    assert len(model.requests) == 1
    assert not model.closed


async def test_stream_gives_the_events_of_one_ask() -> None:
    model = ScriptedModel([call("read_file", path="a"), "done"])
    heard: list[Event] = []
    async with Agent(model, on_event=heard.append, tools=[CountedTools("read_file")]) as agent:
        events = [event async for event in agent.stream("go")]
    kinds = [type(event) for event in events]
    assert kinds == [
        RequestSent,
        ResponseReceived,
        ToolCallStarted,
        ToolCallFinished,
        RequestSent,
        TextDelta,
        ResponseReceived,
        RunFinished,
    ]
    assert heard == events
    finished = events[-1]
    assert isinstance(finished, RunFinished)
    assert (finished.answer, finished.stop, finished.turns, finished.usage.requests) == ("done", "answered", 2, 2)


async def test_calls_of_one_message_run_at_once_and_are_answered_in_call_order() -> None:
    first_waits = asyncio.Event()

    async def slow() -> str:
        """Ends after quick has run."""
        await asyncio.wait_for(first_waits.wait(), WAIT_SECONDS)
        return "slow"

    async def quick() -> str:
        """Lets slow end."""
        first_waits.set()
        return "quick"

    model = ScriptedModel([[call("slow"), call("quick")], "ok"])
    async with Agent(model, tools=[slow, quick]) as agent:
        await agent.ask("go")
    assert [result.text for result in results(model.requests[1].messages)] == ["slow", "quick"]


async def test_every_failure_goes_back_to_the_model_in_words() -> None:
    def broken() -> str:
        """Fails."""
        raise ValueError("disk is on fire")

    async def cancels() -> str:
        """Cancels itself."""
        raise asyncio.CancelledError

    async def stuck() -> str:
        """Never ends."""
        await asyncio.Event().wait()
        return ""

    def empty() -> None:
        """Gives nothing."""

    def strict(count: int) -> int:
        """Needs a number."""
        return count

    calls = [
        call("broken"),
        call("cancels"),
        call("stuck"),
        call("empty"),
        call("strict", count="many"),
        call("no_such_tool"),
        ToolCall("bad", "strict", {}, malformed='{"count": 1'),
    ]
    model = ScriptedModel([calls, "ok"])
    async with Agent(model, tools=[broken, cancels, empty, strict]) as agent:
        agent.tool(timeout_seconds=0.05)(stuck)
        assert await agent.ask("go") == "ok"
    answers = {result.call_id: result for result in results(model.requests[1].messages)}
    assert answers["call_broken"].text == "ValueError: disk is on fire"
    assert [answers[item.id].error for item in calls] == [
        "failed",
        "cancelled",
        "timeout",
        None,
        "invalid_arguments",
        "unknown_tool",
        "invalid_arguments",
    ]
    assert "0.05 seconds" in answers["call_stuck"].text
    assert answers["call_empty"].text == "(the tool returned nothing)"
    assert "count: 'many' is not of type 'integer'" in answers["call_strict"].text
    assert "strict(count" in answers["call_strict"].text
    assert "JSON" in answers["bad"].text


async def test_max_turns_ends_with_one_forced_answer() -> None:
    model = ScriptedModel([call("read_file", path="1"), call("read_file", path="2"), "this is what I have"])
    async with Agent(model, tools=[CountedTools("read_file")], options=RunOptions(limits=Limits(turns=2))) as agent:
        events = [event async for event in agent.stream("go")]
    finished = events[-1]
    assert isinstance(finished, RunFinished)
    assert (finished.answer, finished.stop) == ("this is what I have", "max_turns")
    assert [request.tool_choice for request in model.requests] == ["auto", "auto", "none"]
    assert offered(model.requests[2]) == offered(model.requests[0])
    assert "all 2 turns" in model.requests[2].messages[-1].text


async def test_a_call_in_the_forced_answer_is_not_run() -> None:
    tools = CountedTools("read_file")
    last = Message("assistant", (Text("partly"), call("read_file", "late", path="2")))
    model = ScriptedModel([call("read_file", path="1"), last, "fine"])
    async with Agent(model, tools=[tools], options=RunOptions(limits=Limits(turns=1))) as agent:
        assert await agent.ask("go") == "partly"
        assert await agent.ask("next") == "fine"
    assert len(tools.ran) == 1
    assert closed(model.requests[2].messages) == list(model.requests[2].messages)


async def test_identical_calls_are_spoken_of_once_and_then_stopped() -> None:
    model = ScriptedModel([call("read_file", path="same")] * 6 + ["I give up"])
    tools = CountedTools("read_file")
    async with Agent(model, tools=[tools]) as agent:
        events = [event async for event in agent.stream("go")]
    finished = events[-1]
    assert isinstance(finished, RunFinished)
    assert (finished.stop, finished.answer) == ("repeated_calls", "I give up")
    assert len(tools.ran) == 5
    told = [message for message in model.requests[-1].messages if message.text.startswith('The call to "read_file"')]
    assert len(told) == 1
    assert "5 times" in told[0].text


async def test_calls_that_differ_or_give_something_new_are_not_repeats() -> None:
    count = 0

    def poll() -> int:
        """Give a new number."""
        nonlocal count
        count += 1
        return count

    model = ScriptedModel([call("poll")] * 8 + ["done"])
    async with Agent(model, tools=[poll]) as agent:
        assert await agent.ask("go") == "done"
    assert count == 8


async def test_two_asks_at_once_are_refused_clearly_and_the_first_goes_on() -> None:
    gate = Gate()
    model = ScriptedModel([call("pass_gate"), "ok"])
    async with Agent(model, tools=[gate.pass_gate]) as agent:
        first = asyncio.create_task(agent.ask("go"))
        await asyncio.wait_for(gate.entered.wait(), WAIT_SECONDS)
        with pytest.raises(AgentStateError, match="answering already"):
            await agent.ask("me too")
        with pytest.raises(AgentStateError, match="answering already"):
            agent.new_conversation()
        gate.open.set()
        assert await asyncio.wait_for(first, WAIT_SECONDS) == "ok"


async def test_cancelling_keeps_what_was_done_and_a_valid_history() -> None:
    gate = Gate()
    model = ScriptedModel([[call("read_file", path="a"), call("pass_gate")], "later"])
    tools = CountedTools("read_file")
    async with Agent(model, tools=[gate.pass_gate, tools]) as agent:
        run = asyncio.create_task(agent.ask("go"))
        await asyncio.wait_for(gate.entered.wait(), WAIT_SECONDS)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert gate.cancelled
        assert closed(agent.messages) == list(agent.messages)
        assert [(result.name, result.error) for result in agent.messages[-1].tool_results] == [
            ("read_file", None),
            ("pass_gate", "cancelled"),
        ]
        assert await agent.ask("go on") == "later"


async def test_closing_the_stream_cancels_the_run() -> None:
    gate = Gate()
    model = ScriptedModel([call("pass_gate"), "later"])
    async with Agent(model, tools=[gate.pass_gate]) as agent:
        events = agent.stream("go")
        while not isinstance(await anext(events), ToolCallStarted):
            pass
        await asyncio.wait_for(gate.entered.wait(), WAIT_SECONDS)
        await events.aclose()
        assert gate.cancelled
        assert await agent.ask("again") == "later"


async def test_a_model_that_fails_raises_its_error_and_the_conversation_goes_on() -> None:
    failure = ModelError(
        "anthropic: overloaded (529); try again later", provider="anthropic", status=529, retryable=True
    )
    model = ScriptedModel([failure, "back"])
    async with Agent(model) as agent:
        with pytest.raises(ModelError) as caught:
            await agent.ask("go")
        assert caught.value is failure
        assert await agent.ask("again") == "back"
    assert [message.role for message in model.requests[1].messages] == ["user", "user"]


@each_row("prompt, words", [("", "empty"), (" \n", "empty"), ("x" * 10_000_001, "10,000,001")])
async def test_an_unusable_prompt_is_named_and_changes_nothing(prompt: str, words: str) -> None:
    model = ScriptedModel([])
    async with Agent(model) as agent:
        with pytest.raises(InputError, match=words):
            await agent.ask(prompt)
        assert agent.messages == ()


async def test_characters_that_no_provider_takes_are_replaced() -> None:
    model = ScriptedModel(["ok"])
    async with Agent(model) as agent:
        await agent.ask("a\0b\ud800c")
    assert model.requests[0].messages[0].text == "a\N{REPLACEMENT CHARACTER}b?c"
    json.dumps(model.requests[0].messages[0].text).encode()


async def test_an_empty_answer_is_noticed() -> None:
    model = ScriptedModel([Message("assistant", ())])
    events: list[Event] = []
    async with Agent(model, on_event=events.append) as agent:
        assert await agent.ask("go") == ""
    assert any(isinstance(event, Notice) and "empty answer" in event.text for event in events)


async def test_an_answer_that_was_cut_says_so() -> None:
    model = ScriptedModel([ModelResponse(Message("assistant", (Text("to be conti"),)), Usage(requests=1), "length")])
    async with Agent(model) as agent:
        events = [event async for event in agent.stream("go")]
    assert isinstance(events[-1], RunFinished)
    assert events[-1].stop == "truncated"


@each_row("error", [RuntimeError("listener is broken"), asyncio.CancelledError("of a future that it reads")])
async def test_a_listener_that_raises_is_logged_and_breaks_nothing(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def listener(event: Event) -> None:
        raise error

    caplog.clear()
    model = ScriptedModel([call("read_file", path="a"), "ok"])
    with caplog.at_level(logging.ERROR, "mcpagent"):
        async with Agent(model, on_event=listener, tools=[CountedTools("read_file")]) as agent:
            assert await agent.ask("go") == "ok"
    assert any("listener" in record.getMessage() for record in caplog.records)


def test_a_listener_that_holds_the_run_up_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0

    def listener(event: Event) -> None:
        nonlocal now
        now += 10.0 if isinstance(event, Notice) else 0.9

    emit = guarded(listener, clock=lambda: now)
    with caplog.at_level(logging.WARNING, "mcpagent"):
        for event in (CustomEvent("quick", {}), Notice("slow"), Notice("slow again")):
            emit(event)
    (told,) = [record.getMessage() for record in caplog.records]
    assert "listener took 10.0 s on Notice: the run waits for it; give its work to a thread or a task" in told


async def test_a_listener_that_is_async_is_told_once_and_the_run_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def listener(event: Event) -> None:
        """Is never awaited."""

    async with Agent(ScriptedModel(["done"]), on_event=listener) as agent:  # type: ignore[arg-type]
        assert await agent.ask("go") == "done"
    (told,) = [record.getMessage() for record in caplog.records]
    assert "listener gave a coroutine on " in told
    assert told.endswith(": nothing awaits it; write def, and start a task in it")


async def test_a_failure_of_the_model_leaves_an_agent_that_answers_and_closes_twice() -> None:
    agent = Agent(ScriptedModel([RuntimeError("boom"), "fine"]))
    async with agent:
        with pytest.raises(RuntimeError, match="boom"):
            await agent.ask("one")
        assert await agent.ask("two") == "fine"
    await agent.aclose()
    await agent.aclose()


async def test_history_as_plain_dicts() -> None:
    model = ScriptedModel(["Paris"])
    async with Agent(model) as agent:
        answer, messages = await agent.ask_with_history(
            [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "hello"},
                {"role": "user", "content": "capital?"},
            ]
        )
        assert answer == "Paris"
        assert [message.text for message in messages] == ["hi", "hello", "capital?", "Paris"]
        assert tuple(messages) == agent.messages


@each_row(
    "messages, words",
    [
        ([], "history is empty"),
        ([{"role": "system", "content": "x"}], "history is empty"),
        ([{"role": "user", "content": None}], "messages\\[0\\]"),
        ([{"role": "assistant", "content": "x"}], "last one must be the user's"),
        (
            [{"role": "user", "parts": [{"type": "nonsense"}]}],
            r"messages\[0\]\.parts\[0\]\.type: expected one of text, ",
        ),
    ],
)
async def test_a_history_that_cannot_be_used_is_named(messages: list[Any], words: str) -> None:
    async with Agent(ScriptedModel([])) as agent:
        with pytest.raises(InputError, match=words):
            await agent.ask_with_history(messages)


async def test_using_it_outside_its_life_is_a_clear_error() -> None:
    agent = Agent(ScriptedModel([]))
    with pytest.raises(AgentStateError, match="async with"):
        await agent.ask("hi")
    async with agent:
        with pytest.raises(AgentStateError, match="already started"):
            await agent.__aenter__()
        with pytest.raises(AgentStateError, match="would block the running event loop"):
            agent.ask_sync("hi")
    await agent.aclose()
    with pytest.raises(AgentStateError, match="not started"):
        await agent.ask("hi")


async def test_another_event_loop_is_refused() -> None:
    async with Agent(ScriptedModel([])) as agent:

        def elsewhere() -> None:
            with pytest.raises(AgentStateError, match="another event loop"):
                asyncio.run(agent.ask("hi"))

        await asyncio.to_thread(elsewhere)


def test_ask_sync_starts_the_agent_and_continues_one_conversation() -> None:
    model = ScriptedModel(["one", "two"])
    agent = Agent(model)
    assert agent.ask_sync("first") == "one"
    assert agent.ask_sync("second") == "two"
    assert len(model.requests[1].messages) == 3
    agent.close()
    agent.close()
    assert not any(thread.name == "mcpagent" for thread in threading.enumerate())


def test_the_sync_context_manager_closes_toolsets() -> None:
    left: list[str] = []

    class Leaving(CountedTools):
        async def __aexit__(self, *error: object) -> None:
            left.append("closed")

    with Agent(ScriptedModel(["hi"]), tools=[Leaving("x")]) as agent:
        assert agent.ask_sync("hello") == "hi"
        assert list(agent.known_tools) == ["x"]
    assert left == ["closed"]


async def test_ask_sync_works_from_a_thread_of_a_running_agent() -> None:
    async with Agent(ScriptedModel(["hi"])) as agent:
        assert await asyncio.wait_for(asyncio.to_thread(agent.ask_sync, "hello"), WAIT_SECONDS) == "hi"


async def test_a_toolset_that_cannot_start_is_closed_again_with_those_before_it() -> None:
    left: list[str] = []

    class Fine(CountedTools):
        async def __aexit__(self, *error: object) -> None:
            left.append("fine")

    class Failing(CountedTools):
        async def __aenter__(self) -> CountedTools:
            raise ConfigError("toolset: no such folder")

    agent = Agent(ScriptedModel([]), tools=[Fine("a"), Failing("b")])
    with pytest.raises(ConfigError, match="no such folder"):
        await agent.__aenter__()
    assert left == ["fine"]
    with pytest.raises(AgentStateError):
        await agent.ask("hi")


async def test_an_unknown_pin_is_noticed_with_near_names() -> None:
    events: list[Event] = []
    async with Agent(
        ScriptedModel([]),
        with_tool_search_mode=True,
        pre_discovered_tools=["read_fiel"],
        on_event=events.append,
        tools=[CountedTools("read_file")],
    ):
        pass
    assert [event.text for event in events if isinstance(event, Notice)] == [
        'pre_discovered_tools: no tool "read_fiel"; did you mean read_file?'
    ]


async def test_any_model_object_will_do() -> None:
    class Echo:
        name = "echo:echo"

        async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
            text = request.messages[-1].text
            emit(TextDelta(text))
            return ModelResponse(Message("assistant", (Text(text),)), Usage(3, 4, requests=1), "end")

        async def aclose(self) -> None: ...

    async with Agent(Echo()) as agent:
        assert await agent.ask("hello") == "hello"
        assert agent.spent.usage == Usage(3, 4, requests=1)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ConfigError, match="pre_discovered_tools"):
        Agent(pre_discovered_tools="get_weather")
    with pytest.raises(ConfigError, match="turns"):
        Agent(options=RunOptions(limits=Limits(turns=0)))


async def test_twice_defined_tools_are_named() -> None:
    def same() -> None: ...

    with pytest.raises(ConfigError, match='tool "same": defined twice'):
        async with Agent(ScriptedModel([]), tools=[same, same]):
            pass


async def test_a_tool_of_ones_own_with_its_own_definition() -> None:
    async def run(arguments: dict[str, Any]) -> ToolOutput:
        return ToolOutput.of_text(str(arguments["n"] + 1))

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "x-mine": True}
    model = ScriptedModel([call("next_number", n=1), "2"])
    async with Agent(model, tools=[Tool(ToolDefinition("next_number", "Adds one.", schema), run)]) as agent:
        await agent.ask("go")
    assert model.requests[0].tools[0].parameters == schema
    assert results(model.requests[1].messages)[0].text == "2"


async def test_a_system_message_alone_begins_a_session() -> None:
    model = ScriptedModel(["fine"])
    async with Agent(model, instructions="Answer in Danish.") as agent:
        session = agent.session(messages=[{"role": "system", "content": "Be brief."}], trusted=True)
        assert session.messages == ()
        assert await session.ask("hi") == "fine"
    assert model.requests[0].system.startswith("Answer in Danish.\n\nBe brief.")
    assert [message.text for message in model.requests[0].messages] == ["hi"]


@each_row("levels", [70, 300, 600, 950, 20_000])
async def test_arguments_of_any_depth_are_an_error_for_the_model(levels: int) -> None:
    arguments: dict[str, Any] = {}
    for _ in range(levels):
        arguments = {"a": arguments}
    model = ScriptedModel([ToolCall("1", "work", arguments), "done"])
    async with Agent(model, approval=ApprovalPolicy(required=True)) as agent:

        @agent.tool
        def work(a: Any) -> str:
            """Never runs."""
            raise AssertionError

        assert await agent.ask("go") == "done"
        (result,) = agent.messages[2].tool_results
    assert (result.error, "deeper than 64 levels" in result.text) == ("invalid_arguments", True)


@each_row("text", ['{"a":' * 400 + "1" + "}" * 400, '{"a": "' + "x" * 4_000_001 + '"}'])
def test_arguments_that_no_tool_takes_are_kept_as_text(text: str) -> None:
    called = read_call("1", "work", text, cut_off=False)
    assert (called.arguments, called.malformed) == ({}, text)


TOO_LONG = ContextOverflowError("test: the conversation is too long", provider="test", status=400)


async def test_a_question_that_does_not_fit_is_not_in_the_way_of_the_next() -> None:
    events: list[Event] = []
    model = ScriptedModel(["Hello.", TOO_LONG, "Fine."])
    async with Agent(model, on_event=events.append) as agent:
        await agent.ask("Hi.")
        with pytest.raises(ContextOverflowError):
            await agent.ask("x" * 100_000)
        assert [message.text for message in agent.messages] == ["Hi.", "Hello."]
        assert await agent.ask("And now?") == "Fine."
    assert [message.text for message in model.requests[-1].messages] == ["Hi.", "Hello.", "And now?"]
    told = [event.text for event in events if isinstance(event, Notice)]
    assert told == ["what was asked is too long, and is taken back: ask for less"]


async def test_results_that_do_not_fit_are_shown_in_part() -> None:
    """The call was made, and the model knows it; the history keeps all that it gave."""
    events: list[Event] = []

    def read_all() -> str:
        """Reads all."""
        return "line\n" * 7_000

    model = ScriptedModel([[ToolCall("c1", "read_all", {})], TOO_LONG, "It is long."])
    options = RunOptions(large_result_tokens=0)
    async with Agent(model, tools=[read_all], on_event=events.append, options=options) as agent:
        assert await agent.ask("Read all.") == "It is long."
        [result] = agent.messages[2].tool_results
    assert result.text == "line\n" * 7_000
    sent = [message.tool_results[0].text for message in model.requests[2].messages if message.role == "tool"]
    assert "line\nline" in sent[0]
    assert len(sent[0]) < 8_200
    [told] = [event for event in events if isinstance(event, ConversationCompacted)]
    assert (told.shortened, told.summarised) == (1, 0)


async def test_what_never_fits_is_an_error_and_the_conversation_goes_on() -> None:
    def read_all() -> str:
        """Reads all."""
        return "line\n" * 7_000

    def answer(request: ModelRequest) -> str | ContextOverflowError:
        return "Fine." if request.messages[-1].text == "And now?" else TOO_LONG

    model = ScriptedModel([[ToolCall("c1", "read_all", {})], *[answer] * 20])
    async with Agent(model, tools=[read_all], options=RunOptions(large_result_tokens=0)) as agent:
        with pytest.raises(ContextOverflowError):
            await agent.ask("Read all.")
        assert await agent.ask("And now?") == "Fine."
    assert len(model.requests) < 12  # each was shorter than the one before
