"""What a model says that it took: numbers that cannot be, none at all, and requests that were cut off."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from mcpagent import (
    Agent,
    ConfigError,
    LimitError,
    Limits,
    Message,
    ModelError,
    ModelRequest,
    ModelResponse,
    Recorder,
    Replay,
    RunOptions,
    ScriptedModel,
    Sessions,
    Text,
)
from mcpagent.history.token_estimates import text_tokens
from mcpagent.models import FallbackModel, OpenAIChatModel
from mcpagent.models.base import WrappedModel
from mcpagent.values.events import Emit, LimitReached, TextDelta, ignore
from mcpagent.values.messages import MOST_COUNTED_TOKENS, Spent, Usage, user_message
from tests.tables import each_row
from tests.values.limits.endless import SECONDS, Endless, Looking
from tests.wire.provider import PlayedProvider, chat_stream

WAIT = 30.0
LONG = "word " * 400


class Claiming(Endless):
    """Endless, and says of each request that it took this."""

    def __init__(self, usage: Any, dollars: Any = 0.0, **options: Any) -> None:
        super().__init__(dollars, **options)
        self.usage = usage

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        made = await super().respond(request, emit)
        return ModelResponse(made.message, self.usage, made.stop, self.dollars)


Wrap = Callable[[Any], Any]
WRAPS: dict[str, Wrap] = {
    "plain": lambda model: model,
    "wrapped": WrappedModel,
    "chain": lambda model: FallbackModel([model]),
    "second": lambda model: FallbackModel([ScriptedModel([ModelError("gone", provider="x", status=503)] * 99), model]),
}

UNTOLD: dict[str, Callable[[], Usage]] = {
    "nothing": Usage,
    "requests alone": lambda: Usage(requests=1),
    "below zero": lambda: Usage(-1_000, -50),
    "sides that make up for each other": lambda: Usage(1_000, -1_000),
    "no number": lambda: Usage(math.nan, math.inf),  # type: ignore[arg-type]
    "words": lambda: Usage("90", None),  # type: ignore[arg-type]
    "flags": lambda: Usage(True, True),
}


@each_row("wrap", WRAPS)
@each_row("kind", UNTOLD)
async def test_a_limit_of_tokens_is_reached_whatever_is_told(kind: str, wrap: str) -> None:
    model = WRAPS[wrap](Claiming(UNTOLD[kind](), calls_at_once=2))
    options = RunOptions(limits=Limits(tokens=2_000, turns=60))
    async with Agent(model, tools=[Looking().tool()], options=options) as agent:
        result = await agent.run("go")
        assert result.stop == "max_tokens"
        assert result.limit is not None
        assert result.limit.used == result.spent.tokens >= 2_000
        assert result.spent.usage.input_tokens >= 0 <= result.spent.usage.output_tokens
        assert agent.spent.tokens == result.spent.tokens


@each_row("told", [-0.5, math.nan, -math.inf, math.inf, 10**400, None, "0.5", True, [], Decimal("NaN")])
async def test_a_price_that_cannot_be_is_not_known(told: Any) -> None:
    model = Claiming(Usage(90, 10), told)
    async with Agent(model, tools=[Looking().tool()], options=RunOptions(limits=Limits(dollars=5))) as agent:
        result = await agent.run("go")
        assert (result.stop, result.spent.dollars, result.spent.cost_known) == ("max_dollars", 0.0, False)
        assert result.limit is not None
        assert result.limit.used is None


@each_row("told, dollars", [(0, 0.0), (Decimal("0.25"), 0.25), (1, 1.0), (0.0, 0.0)])
def test_a_price_of_another_kind_of_number_is_one(told: Any, dollars: float) -> None:
    made = ModelResponse(Message("assistant", ()), Usage(), "end", told)
    assert (made.dollars, type(made.dollars)) == (dollars, float)


def test_counters_are_whole_numbers_from_zero_on() -> None:
    wrong: Any = 2.5
    assert Usage(wrong, -3, 10**400) == Usage(3, 0, MOST_COUNTED_TOKENS)
    assert Usage(MOST_COUNTED_TOKENS) + Usage(5) == Usage(MOST_COUNTED_TOKENS)


@each_row("usage", [None, {"input_tokens": 5}])
async def test_a_usage_that_is_none_is_told_in_one_line(usage: Any) -> None:
    async with Agent(Claiming(usage)) as agent:
        with pytest.raises(
            ConfigError, match=r"^model endless:test: respond\(\): usage: expected Usage\(\.\.\.\), got"
        ):
            await agent.ask("go")


async def test_an_empty_answer_of_a_chain_takes_nothing_back() -> None:
    empty = ModelResponse(Message("assistant", ()), Usage(-80, -9), "end", -0.4)
    chain = FallbackModel([ScriptedModel([empty]), Endless()])
    answer = await chain.respond(ModelRequest("", (user_message("x"),)), ignore)
    assert (answer.usage, answer.dollars) == (Usage(90, 10, requests=1), None)


async def test_a_summary_counts_as_any_request() -> None:
    def said(text: str) -> ModelResponse:
        return ModelResponse(Message("assistant", (Text(text),)), Usage(-500, -500, requests=1), "end", 0.0)

    async with Agent(ScriptedModel([said(LONG), said("two"), said("a summary")])) as agent:
        session = agent.session()
        await session.ask("first")
        await session.ask("second")
        before = session.spent
        assert await session.compact() is not None
        assert session.spent.tokens > before.tokens + text_tokens(LONG) > before.tokens > text_tokens(LONG)


async def test_a_request_outside_of_a_conversation_is_counted_too() -> None:
    async with Agent(Claiming(Usage(-5, 0, requests=1), -1.0)) as agent:
        await agent._runtime.complete(ModelRequest(LONG, (user_message("x"),)))
        assert agent.spent.estimated_tokens > text_tokens(LONG)
        assert (agent.spent.usage, agent.spent.cost_known) == (Usage(requests=1), False)


async def test_what_was_told_is_not_estimated() -> None:
    async with Agent(Claiming(Usage(90, 10, requests=1), 0.5, answers=True)) as agent:
        result = await agent.run("go")
        assert (result.spent.tokens, result.spent.estimated_tokens, result.spent.dollars) == (100, 0, 0.5)


async def test_a_side_that_was_not_told_is_estimated() -> None:
    told = ModelResponse(Message("assistant", (Text(LONG),)), Usage(90, 0, requests=1), "end", 0.0)
    async with Agent(ScriptedModel([told])) as agent:
        spent = (await agent.run("go")).spent
        assert spent.usage == Usage(90, 0, requests=1)
        assert text_tokens(LONG) <= spent.estimated_tokens <= text_tokens(LONG) + 5


async def test_a_gateway_that_counts_nothing_costs_what_the_estimate_does() -> None:
    played = PlayedProvider(chat_stream({"content": LONG}, usage={"prompt_tokens": 0}))
    model = OpenAIChatModel("gpt-4o", provider="openai", api_key="k", http_client=played.http_client)
    async with Agent(model, instructions=LONG) as agent:
        spent = (await agent.run("go")).spent
    assert spent.usage == Usage(requests=1)
    assert spent.estimated_tokens > 2 * text_tokens(LONG)
    assert spent.cost_known
    assert spent.dollars > spent.estimated_tokens / 2 * 10e-6  # its answer, at 10 dollars a million


async def test_a_replay_estimates_the_same(tmp_path: Path) -> None:
    path, limits = tmp_path / "run.jsonl", RunOptions(limits=Limits(tokens=1_500))
    model = Claiming(Usage(-5, -5, requests=1), math.nan)
    async with Agent(model, tools=[Looking().tool()], options=replace(limits, wrappers=[Recorder(path)])) as agent:
        recorded = await agent.run("go")
    async with Agent("offline", options=RunOptions(wrappers=[Replay(path)])) as agent:
        again = await agent.run("go")
    assert recorded.stop == again.stop == "max_tokens"
    assert (again.spent, again.limit) == (recorded.spent, recorded.limit)
    assert not again.spent.cost_known


# -- cut off ----------------------------------------------------------------------------------------------------------


async def test_runs_that_are_cut_off_are_in_what_a_session_may_take(tmp_path: Path) -> None:
    store, stops = Sessions(tmp_path / "s.db"), list[str]()
    model = Endless(hangs_at=1)
    limits = Limits(tokens=2 * text_tokens(LONG))
    options = RunOptions(limits=Limits(seconds=SECONDS / 4))
    async with asyncio.timeout(WAIT), Agent(model, options=options, sessions=store) as agent:
        session = agent.session("ann", limits=limits)
        while len(stops) < 50 and "max_tokens" not in stops:
            model.hangs_at = len(model.requests) + 1
            stops.append((await session.run(LONG)).stop)
        # On a busy machine a run's time may be over before its request is sent.
        assert stops == ["max_seconds"] * (len(stops) - 1) + ["max_tokens"]
        assert (session.spent.usage, session.spent.cost_known) == (Usage(requests=2), False)
        assert agent.spent.tokens == session.spent.tokens
    async with Agent(ScriptedModel(["fine"]), sessions=store) as agent:
        with pytest.raises(LimitError, match="tokens"):
            await agent.session("ann", limits=limits).ask("go on")
        assert {info.tokens for info in store.sessions()} == {session.spent.tokens}
    store.close()


async def test_a_request_that_was_cancelled_is_counted_with_what_was_heard_of_it() -> None:
    class Slow(Endless):
        def price_of(self, usage: Usage) -> float:
            return usage.input_tokens * 1e-3 + usage.output_tokens * 1e-2

        async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
            emit(TextDelta(LONG))
            return await super().respond(request, emit)

    model = Slow(hangs_at=1)
    async with asyncio.timeout(WAIT), Agent(model) as agent:
        session = agent.session()
        running = asyncio.create_task(session.run("go"))
        await model.hanging.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        spent = session.spent
    assert spent.estimated_tokens > text_tokens(LONG)
    assert spent.cost_known
    assert spent.dollars > text_tokens(LONG) * 1e-2
    assert agent.spent == spent


@each_row("words", ["", LONG])
async def test_an_answer_that_broke_off_is_counted_and_a_refusal_is_not(words: str) -> None:
    class Breaking(Endless):
        async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
            if words:
                emit(TextDelta(words))
            raise ModelError("gone", provider="x")

    async with Agent(Breaking()) as agent:
        with pytest.raises(ModelError):
            await agent.ask("go")
        assert agent.spent.estimated_tokens >= text_tokens(words)
        assert (agent.spent == Spent(turns=1)) == (not words)


async def test_an_agent_that_is_called_is_counted_for_its_caller_when_it_is_cut_off() -> None:
    from mcpagent import ToolCall

    helper = Agent(Endless(hangs_at=1), instructions=LONG)
    boss = ScriptedModel([ToolCall("1", "helper", {"prompt": "go"})])
    options = RunOptions(limits=Limits(seconds=SECONDS))
    tools = [helper.as_tool("helper", "Helps.")]
    async with asyncio.timeout(WAIT), Agent(boss, tools=tools, options=options) as agent:
        result = await agent.run("go")
    assert (result.stop, result.spent.cost_known) == ("max_seconds", False)
    assert result.spent.estimated_tokens > text_tokens(LONG)


# -- summaries that are asked for -------------------------------------------------------------------------------------


@each_row("of_session", [False, True])
async def test_a_summary_that_does_not_come_is_not_waited_for(of_session: bool) -> None:
    limits = Limits(seconds=SECONDS)
    model = Endless(answers=True)
    options = RunOptions(session_limits=limits) if of_session else RunOptions(limits=limits)
    events: list[Any] = []
    async with asyncio.timeout(WAIT), Agent(model, options=options, on_event=events.append) as agent:
        session = agent.session()
        for question in (LONG, "second"):
            await session.ask(question)
        said, model.hangs_at = session.messages, 3
        with pytest.raises(LimitError, match=r"^stopped after [^\n]* seconds") as caught:
            await session.compact()
        assert caught.value.stop == "max_seconds"
        assert [event.scope for event in events if isinstance(event, LimitReached)] == [
            "session" if of_session else "run"
        ]
        assert session.spent.estimated_tokens > text_tokens(LONG)
        assert session.messages == said
        session._runtime.limits = Limits()
        assert await session.compact() is not None
        assert await session.ask("third") == "made to answer at " + str(len(model.requests))
