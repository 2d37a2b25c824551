"""The spans of runs: each in its place, with what the conventions ask for, whatever happens in the run."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest
from opentelemetry import trace

from mcpagent import Agent, Limits, RunOptions, ScriptedModel, ToolSearch
from mcpagent.errors import LimitError, ModelError
from mcpagent.journal.tracing import Tracing
from mcpagent.models.base import ModelRequest, ModelResponse, ModelSettings
from mcpagent.permissions.approval_policy import ApprovalPolicy
from mcpagent.toolsets.functions import function_tool
from mcpagent.values.approval import CallsPendingError, PendingCall
from mcpagent.values.events import (
    AnswerRestarted,
    Emit,
    Notice,
    ProviderCall,
    ProviderCallFinished,
    ProviderCallStarted,
    TextDelta,
)
from mcpagent.values.messages import Message, Origin, Text, ToolCall, Usage
from mcpagent.values.tools import Tool
from tests.journal.tracing.conventions import METRICS, OPT_IN, misfits
from tests.journal.tracing.traced import Traced, attribute
from tests.scenes import call
from tests.tables import each_row

pytestmark = pytest.mark.anyio


@pytest.fixture
def traced() -> Traced:
    return Traced()


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def fail() -> str:
    """Fails."""
    raise ValueError("the secret reason")


def said(text: str, **usage: int) -> ModelResponse:
    message = Message("assistant", (Text(text),), Origin("anthropic", "messages", "api.test", "claude-9"))
    return ModelResponse(message, Usage(requests=1, **usage), "end", 0.25)


async def test_a_search_a_call_and_an_answer_stand_below_their_run_and_fit_the_conventions(traced: Traced) -> None:
    usage = {"input_tokens": 900, "output_tokens": 7, "cache_read_tokens": 600, "cache_write_tokens": 20}
    model = ScriptedModel(
        [
            call("search_tools", query="add two numbers"),
            call("add_tool", tool_names=["add"]),
            call("add", a=1, b=2),
            said("3", **usage),
        ]
    )
    options = RunOptions(settings=ModelSettings(temperature=0, max_output_tokens=100, stop=("END",)))
    agent = Agent(
        model,
        tools=[add, fail],
        with_tool_search_mode=True,
        options=replace(options, wrappers=[traced.tracing(name="adder")]),
    )
    async with agent:
        session = agent.session("s-1")
        assert await session.ask("1 + 2?") == "3"
    assert traced.lines == [
        "invoke_agent adder",
        "  chat test",
        "  execute_tool search_tools",
        "    retrieval tools",
        "  chat test",
        "  execute_tool add_tool",
        "  chat test",
        "  execute_tool add",
        "  chat test",
    ]
    assert [problem for span in traced.spans for problem in misfits(span)] == []
    assert not OPT_IN & {name for span in traced.spans for name in span.attributes or {}}
    run, last, called = traced.one("invoke_agent adder"), traced.named("chat test")[-1], traced.one("execute_tool add")
    assert attribute(run, "gen_ai.conversation.id") == "s-1"
    assert attribute(run, "mcpagent.stop") == "answered"
    assert attribute(run, "gen_ai.usage.input_tokens") == 900
    assert attribute(last, "gen_ai.usage.cache_read.input_tokens") == 600
    assert attribute(last, "gen_ai.usage.cache_write.input_tokens") == 20
    assert attribute(last, "gen_ai.response.model") == "claude-9"
    assert attribute(last, "gen_ai.provider.name") == "anthropic"
    assert attribute(last, "gen_ai.request.temperature") == 0.0
    assert attribute(last, "mcpagent.cost.usd") == 0.25
    assert attribute(last, "mcpagent.tools.offered") == ("search_tools", "add_tool", "add")
    assert attribute(last, "gen_ai.response.time_to_first_chunk") >= 0
    # The tool that was called stood first in the search, which it is linked to.
    assert attribute(called, "mcpagent.search.rank") == 1
    found = traced.one("retrieval tools").get_span_context()
    assert found is not None
    assert [link.context.span_id for link in called.links] == [found.span_id]
    for span in traced.spans:
        assert span.start_time is not None
        assert span.end_time is not None
        assert run.start_time is not None
        assert run.end_time is not None
        assert run.start_time <= span.start_time <= span.end_time <= run.end_time


async def test_metrics_have_the_units_and_attributes_of_the_conventions(traced: Traced) -> None:
    model = ScriptedModel([call("add", a=1, b=2), said("3", input_tokens=50, output_tokens=2)])
    async with Agent(model, tools=[add], options=RunOptions(wrappers=[traced.tracing()])) as agent:
        await agent.ask("1 + 2?")
    found = traced.metrics()
    assert set(found) == set(METRICS) - {"mcp.client.operation.duration"}
    for name, points in found.items():
        unit, required = METRICS[name]
        assert traced.units[name] == unit
        for attributes, _ in points:
            assert set(required) <= set(attributes), name
    tokens = {attributes["gen_ai.token.type"]: point.sum for attributes, point in found["gen_ai.client.token.usage"]}
    assert tokens == {"input": 50, "output": 2}
    (_, durations) = found["gen_ai.execute_tool.duration"][0]
    assert durations.count == 1


@each_row(
    "calls, errors",
    [
        ([call("fail", "c1")], {"execute_tool fail": "failed"}),
        ([call("nope", "c1")], {"execute_tool nope": "unknown_tool"}),
        ([call("add", "c1", a="x")], {"execute_tool add": "invalid_arguments"}),
        ([call("slow", "c1")], {"execute_tool slow": "timeout"}),
        ([call("add", "c1", a=1, b=1), call("fail", "c2")], {"execute_tool add": None, "execute_tool fail": "failed"}),
    ],
)
async def test_a_call_that_fails_says_which_kind_of_error_it_was(
    calls: list[ToolCall], errors: dict[str, str | None]
) -> None:
    traced = Traced()

    async def slow() -> str:
        """Never ends."""
        await asyncio.Event().wait()
        return ""

    tools: list[Tool] = [function_tool(add), function_tool(fail), function_tool(slow, timeout_seconds=0.01)]
    async with Agent(
        ScriptedModel([calls, "done"]), tools=tools, options=RunOptions(wrappers=[traced.tracing()])
    ) as agent:
        await agent.ask("go")
    assert [problem for span in traced.spans for problem in misfits(span)] == []
    assert {span.name: attribute(span, "error.type") for span in traced.spans if "tool" in span.name} == errors
    assert attribute(traced.one("invoke_agent"), "error.type") is None
    assert "secret reason" not in str([(span.attributes, span.events, span.status) for span in traced.spans])


async def test_calls_of_one_message_run_beside_each_other_each_with_what_it_does_below_it(traced: Traced) -> None:
    tracer = traced.provider.get_tracer("the tool's own")
    both = asyncio.Barrier(2)

    async def look(place: str) -> str:
        """Looks somewhere."""
        with tracer.start_as_current_span(f"read {place}"):
            await both.wait()
        return place

    calls = [call("look", "same id", place="here"), call("look", "c2", place="there")]
    async with Agent(
        ScriptedModel([calls, "ok"]), tools=[look], options=RunOptions(wrappers=[traced.tracing()])
    ) as agent:
        await agent.ask("go")
    assert sorted(traced.lines) == sorted(
        [
            "invoke_agent",
            "  chat test",
            "  execute_tool look",
            "    read here",
            "  execute_tool look",
            "    read there",
            "  chat test",
        ]
    )
    ids = {attribute(span, "gen_ai.tool.call.id") for span in traced.named("execute_tool look")}
    assert ids == {"same id", "c2"}


async def test_a_run_stands_below_the_span_of_the_program_and_many_users_do_not_mix(traced: Traced) -> None:
    tracer = traced.provider.get_tracer("the program's own")
    arrived = asyncio.Barrier(8)

    async def meet(user: int) -> int:
        """Waits for the others."""
        await arrived.wait()
        return user

    def reply(request: object) -> ToolCall:
        text = request.messages[-1].text  # type: ignore[attr-defined]
        return call("meet", "c", user=int(text))

    async def one(agent: Agent, user: int) -> None:
        with tracer.start_as_current_span(f"request {user}"):
            await agent.session(f"s-{user}").ask(str(user))

    class Answering(ScriptedModel):
        async def respond(self, request, emit):  # type: ignore[no-untyped-def]
            last = request.messages[-1]
            one = ScriptedModel([reply if last.role == "user" else "ok"])
            return await one.respond(request, emit)

    async with Agent(Answering([]), tools=[meet], options=RunOptions(wrappers=[traced.tracing()])) as agent:
        await asyncio.gather(*(one(agent, user) for user in range(8)))
    for user in range(8):
        above = traced.one(f"request {user}").get_span_context()
        assert above is not None
        inside = [span for span in traced.spans if span.context and span.context.trace_id == above.trace_id]
        assert len(inside) == 5
        about = {attribute(span, "gen_ai.conversation.id") for span in inside} - {None}
        assert about == {f"s-{user}"}
        (run,) = [span for span in inside if span.name == "invoke_agent"]
        assert run.parent is not None
        assert run.parent.span_id == above.span_id
    assert not trace.get_current_span().get_span_context().is_valid  # nothing is left behind


async def test_a_stream_stands_below_the_span_in_which_it_is_begun(traced: Traced) -> None:
    tracer = traced.provider.get_tracer("the program's own")
    async with Agent(ScriptedModel(["ok"]), options=RunOptions(wrappers=[traced.tracing()])) as agent:
        with tracer.start_as_current_span("request"):
            async with agent.stream("go") as events:
                async for _ in events:
                    pass
    assert traced.lines == ["request", "  invoke_agent", "    chat test"]


def test_code_without_a_loop_has_its_runs_below_its_spans_too(traced: Traced) -> None:
    tracer = traced.provider.get_tracer("the program's own")
    with (
        Agent(ScriptedModel(["ok"]), options=RunOptions(wrappers=[traced.tracing()])) as agent,
        tracer.start_as_current_span("request"),
    ):
        agent.ask_sync("go")
    assert traced.lines == ["request", "  invoke_agent", "    chat test"]


async def test_what_a_question_finds_before_the_first_request_is_a_search_of_the_run(traced: Traced) -> None:
    model = ScriptedModel([call("add", a=1, b=2), "3"])
    search = ToolSearch(prefetch=2)
    async with Agent(
        model, tools=[add, fail], tool_search=search, options=RunOptions(wrappers=[traced.tracing()])
    ) as agent:
        await agent.ask("add two numbers")
    assert traced.lines == [
        "invoke_agent",
        "  retrieval tools",
        "  chat test",
        "  execute_tool add",
        "  chat test",
    ]
    assert attribute(traced.one("execute_tool add"), "mcpagent.search.rank") == 1


async def test_what_a_provider_runs_and_what_is_tried_again_stands_in_the_request(traced: Traced) -> None:
    class Trying(ScriptedModel):
        async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
            emit(TextDelta("Once"))
            emit(AnswerRestarted("the stream broke off: you said xyzzy", "Once"))
            emit(Notice("p: overloaded; trying again in 1.0 s", "warning"))
            emit(ProviderCallStarted(ProviderCall("w1", "web_search", {})))
            emit(ProviderCallFinished(ProviderCall("w1", "web_search", {"query": "xyzzy"}), "3 results"))
            emit(ProviderCallFinished(ProviderCall("w2", "web_fetch", {}), "not found", failed=True))
            return await super().respond(request, emit)

    async with Agent(Trying(["ok"]), options=RunOptions(wrappers=[traced.tracing()])) as agent:
        await agent.ask("xyzzy")
    assert traced.lines == [
        "invoke_agent",
        "  chat test",
        "    execute_tool web_search",
        "    execute_tool web_fetch",
    ]
    asked = traced.one("chat test")
    assert [event.name for event in asked.events] == ["mcpagent.answer.restarted", "mcpagent.warning"]
    assert attribute(traced.one("execute_tool web_fetch"), "error.type") == "tool_error"
    assert [problem for span in traced.spans for problem in misfits(span)] == []
    assert "xyzzy" not in str([(span.attributes, span.events) for span in traced.spans])


@each_row("inner_is_traced", [False, True])
async def test_an_agent_that_is_called_stands_below_its_call(inner_is_traced: bool) -> None:
    traced = Traced()
    inner = Agent(
        ScriptedModel([call("add", a=2, b=2), "4"]),
        tools=[add],
        options=RunOptions(wrappers=[traced.tracing()] if inner_is_traced else []),
    )
    outer = Agent(
        ScriptedModel([call("helper", prompt="2 + 2"), "four"]),
        tools=[inner.as_tool("helper", "Helps.")],
        options=RunOptions(wrappers=[traced.tracing()]),
    )
    async with outer:
        assert await outer.ask("2 + 2?") == "four"
    assert traced.lines == [
        "invoke_agent",
        "  chat test",
        "  execute_tool helper",
        "    invoke_agent helper",
        "      chat test",
        "      execute_tool add",
        "      chat test",
        "  chat test",
    ]
    assert [problem for span in traced.spans for problem in misfits(span)] == []


async def test_a_model_that_fails_ends_the_request_and_the_run_with_its_status(traced: Traced) -> None:
    model = ScriptedModel([ModelError("overloaded: you said xyzzy", provider="p", status=529)])
    async with Agent(model, options=RunOptions(wrappers=[traced.tracing()])) as agent:
        with pytest.raises(ModelError):
            await agent.ask("xyzzy")
    assert {span.name: attribute(span, "error.type") for span in traced.spans} == {
        "invoke_agent": "529",
        "chat test": "529",
    }
    assert [problem for span in traced.spans for problem in misfits(span)] == []
    assert "xyzzy" not in str([(span.attributes, span.events, span.status.description) for span in traced.spans])


async def test_a_limit_that_is_reached_is_the_end_of_the_run_and_no_error(traced: Traced) -> None:
    model = ScriptedModel([ModelResponse(Message("assistant", (call("add", a=1, b=1),)), Usage(99, 1), "tool_calls")])
    options = RunOptions(limits=Limits(tokens=10))
    async with Agent(model, tools=[add], options=replace(options, wrappers=[traced.tracing()])) as agent:
        with pytest.raises(LimitError):
            await agent.ask("go")
    assert attribute(traced.one("invoke_agent"), "mcpagent.stop") == "max_tokens"
    assert attribute(traced.one("invoke_agent"), "error.type") is None
    assert attribute(traced.one("invoke_agent"), "gen_ai.usage.input_tokens") == 99


async def test_a_run_that_is_cancelled_hands_on_all_its_spans(traced: Traced) -> None:
    begun = asyncio.Event()

    async def wait() -> str:
        """Waits for ever."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    async with Agent(
        ScriptedModel([call("wait")]), tools=[wait], options=RunOptions(wrappers=[traced.tracing()])
    ) as agent:
        task = asyncio.create_task(agent.ask("go"))
        await asyncio.wait_for(begun.wait(), 10)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert {span.name: attribute(span, "error.type") for span in traced.spans} == {
        "invoke_agent": "cancelled",
        "chat test": None,
        "execute_tool wait": "cancelled",
    }


async def test_a_stream_that_is_left_ends_its_spans_and_leaves_nothing_current(traced: Traced) -> None:
    async def wait() -> str:
        """Waits for ever."""
        await asyncio.Event().wait()
        return ""

    async with Agent(
        ScriptedModel([call("wait")]), tools=[wait], options=RunOptions(wrappers=[traced.tracing()])
    ) as agent:
        async with agent.stream("go") as events:
            async for event in events:
                if type(event).__name__ == "ToolCallStarted":
                    break
        assert not trace.get_current_span().get_span_context().is_valid
    assert attribute(traced.one("invoke_agent"), "error.type") == "cancelled"


async def test_the_wait_for_an_approval_is_not_in_the_time_of_the_call(traced: Traced) -> None:
    async def decide(request: PendingCall) -> bool:
        for _ in range(50):
            await asyncio.sleep(0)
        return True

    approval = ApprovalPolicy(required=True, decide=decide)
    model = ScriptedModel([call("add", a=1, b=1), "2"])
    async with Agent(model, tools=[add], approval=approval, options=RunOptions(wrappers=[traced.tracing()])) as agent:
        await agent.ask("go")
    waited, called = traced.one("approval add"), traced.one("execute_tool add")
    assert traced.lines == ["invoke_agent", "  chat test", "  approval add", "  execute_tool add", "  chat test"]
    assert waited.end_time is not None
    assert called.start_time is not None
    assert waited.end_time <= called.start_time


async def test_a_run_that_goes_on_with_an_earlier_one_is_linked_to_it(traced: Traced) -> None:
    model = ScriptedModel([call("add", a=1, b=1), "2", "another"])
    async with Agent(model, tools=[add], approval=True, options=RunOptions(wrappers=[traced.tracing()])) as agent:
        with pytest.raises(CallsPendingError):
            await agent.ask("go")
        assert await agent.resume([request.approve() for request in agent.pending]) == "2"
        assert await agent.ask("something else") == "another"
    first, second, third = traced.named("invoke_agent")
    assert attribute(first, "mcpagent.stop") == "calls_pending"
    assert attribute(first, "mcpagent.pending") == ("add",)
    assert first.context is not None
    assert [(link.context.trace_id, link.context.span_id) for link in second.links] == [
        (first.context.trace_id, first.context.span_id)
    ]
    assert not third.links


async def test_what_is_resumed_in_another_process_is_linked_too(traced: Traced, tmp_path) -> None:  # type: ignore[no-untyped-def]
    from mcpagent import Sessions

    for attempt in range(2):
        store = Sessions(tmp_path / "sessions.db")
        model = ScriptedModel([call("add", a=1, b=1)] if attempt == 0 else ["2"])
        wrappers = [traced.tracing()]
        async with Agent(
            model, tools=[add], approval=True, sessions=store, options=RunOptions(wrappers=wrappers)
        ) as agent:
            session = agent.session("kept")
            if attempt == 0:
                with pytest.raises(CallsPendingError):
                    await session.ask("go")
            else:
                assert await session.resume([request.approve() for request in session.pending]) == "2"
        store.close()
    first, second = traced.named("invoke_agent")
    assert first.context is not None
    assert [link.context.span_id for link in second.links] == [first.context.span_id]


async def test_without_any_opentelemetry_nothing_is_done() -> None:
    tracing = Tracing()
    async with Agent(ScriptedModel(["ok"]), options=RunOptions(wrappers=[tracing])) as agent:
        session = agent.session()
        assert await session.ask("hi") == "ok"
        assert session._runtime._trace == ""


async def test_an_answer_that_cannot_be_traced_is_an_answer_all_the_same(traced: Traced) -> None:
    odd = ModelResponse(Message("assistant", (Text("ok"),)), Usage(), "because")  # type: ignore[arg-type]
    async with Agent(ScriptedModel([odd]), options=RunOptions(wrappers=[traced.tracing()])) as agent:
        assert await agent.ask("go") == "ok"
    assert traced.lines == ["invoke_agent", "  chat test"]


async def test_what_goes_wrong_in_tracing_is_no_error_of_the_run(
    traced: Traced, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def get_tracer(self, *_: object, **__: object) -> object:
            raise RuntimeError("broken provider")

    tracing = Tracing(tracer_provider=Broken())  # type: ignore[arg-type]
    async with Agent(
        ScriptedModel([call("add", a=1, b=1), "2"]), tools=[add], options=RunOptions(wrappers=[tracing])
    ) as agent:
        assert await agent.ask("go") == "2"
    assert "broken provider" in caplog.text
