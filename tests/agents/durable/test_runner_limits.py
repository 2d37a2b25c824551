"""Limits of durable runs: what they come to, and that what a dead worker took counts."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, Limits, RunOptions, ScriptedModel, Sessions, ToolCall
from mcpagent.agents.durable import DurableRuns
from mcpagent.errors import InputError
from mcpagent.models.base import ModelRequest
from tests.agents.durable.killed_workers import exit_code_of
from tests.values.limits.endless import CASES, Looking
from tests.values.limits.test_run_limits import in_pairs

SECONDS = 60.0


@asynccontextmanager
async def served(agent: Agent[Any], durable: DurableRuns) -> AsyncIterator[None]:
    async with asyncio.timeout(SECONDS), agent, durable.serving(agent):
        yield


def places_of(folder: Path) -> tuple[DurableRuns, Sessions]:
    return DurableRuns(folder / "runs.db"), Sessions(folder / "sessions.db")


KINDS = [kind if kind == "tokens" else pytest.param(kind, marks=pytest.mark.slow) for kind in CASES]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_limit_ends_a_durable_run_with_what_there_is(kind: str, tmp_path: Path) -> None:
    case, looking = CASES[kind], Looking()
    durable, store = places_of(tmp_path)
    model = case.model()
    options = RunOptions(limits=case.limits)
    agent = Agent(model, tools=[looking.tool()], options=replace(options, wrappers=[durable]), sessions=store)
    async with served(agent, durable):
        run = await durable.start("go", session="ann")
        result = await run.result()
        assert (result.stop, result.answer) == (case.stop, case.answer)
        assert (len(model.requests), len(looking.seen)) == (case.requests, case.calls)
        assert await run.state() == "done"
        model.answers = True
        again = await (await durable.start("and again", session="ann")).result()
        assert again.stop == "answered"
    assert in_pairs(store.read("ann").messages)
    store.close()


@pytest.mark.slow
async def test_a_session_keeps_its_limits_over_durable_runs(tmp_path: Path) -> None:
    durable, store = places_of(tmp_path)
    options = RunOptions(session_limits=Limits(turns=2))
    agent = Agent(ScriptedModel(["one", "two"]), options=replace(options, wrappers=[durable]), sessions=store)
    async with served(agent, durable):
        answers = [await (await durable.start("go", session="ann")).result() for _ in range(3)]
    assert [(answer.answer, answer.stop) for answer in answers] == [
        ("one", "answered"),
        ("two", "answered"),
        ("", "max_turns"),
    ]
    store.close()


@pytest.mark.slow
async def test_a_durable_run_for_a_type_that_a_limit_ends_has_none(tmp_path: Path) -> None:
    durable, store = places_of(tmp_path)
    case, looking = CASES["tokens"], Looking()
    options = RunOptions(limits=case.limits)
    agent = Agent(case.model(), tools=[looking.tool()], options=replace(options, wrappers=[durable]), sessions=store)
    async with served(agent, durable):
        result = await (await durable.start("go", session="ann", output_type=list[int])).result()
        assert (result.stop, result.output, result.answer) == ("max_tokens", None, "step 3")
    store.close()


@pytest.mark.slow
async def test_limits_of_one_run_hold_besides_those_of_the_worker(tmp_path: Path) -> None:
    durable, store = places_of(tmp_path)
    options = RunOptions(limits=Limits(tool_calls=3))
    calls = [ToolCall(f"c{at}", "look", {"place": f"place {at}"}) for at in range(9)]
    model, looking = ScriptedModel([*calls[:2], "one", *calls[2:6], "two"]), Looking()
    agent = Agent(model, tools=[looking.tool()], options=replace(options, wrappers=[durable]), sessions=store)
    async with served(agent, durable):
        with pytest.raises(InputError, match="limits"):
            await durable.start("go", limits=5)  # type: ignore[arg-type]
        first = await (await durable.start("go", limits=Limits(tool_calls=1))).result()
        second = await (await durable.start("go", limits=Limits(tool_calls=500, turns=500))).result()
    assert (first.stop, second.stop) == ("max_tool_calls", "max_tool_calls")
    assert len(looking.seen) == 4
    store.close()


def dying_agent(folder: Path, *, dies: bool) -> tuple[Agent[Any], DurableRuns, Sessions]:
    """It may call three times; one that `dies` does so in its third request, when two were made."""

    def look(place: str) -> str:
        """Looks at a place."""
        with (folder / "ledger").open("a") as file:
            file.write(f"{place}\n")
        return f"seen {place}"

    def reply(request: ModelRequest) -> Any:
        turn = sum(message.role == "assistant" for message in request.messages)
        if request.tool_choice == "none":
            return "made to answer"
        if dies and turn == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return ToolCall(f"c{turn}", "look", {"place": f"place {turn}"})

    durable, store = places_of(folder)
    options = RunOptions(limits=Limits(tool_calls=3))
    agent = Agent(
        ScriptedModel([reply] * 9), tools=[look], options=replace(options, wrappers=[durable]), sessions=store
    )
    return agent, durable, store


async def _first(folder: Path) -> None:
    agent, durable, _ = dying_agent(folder, dies=True)
    async with served(agent, durable):
        await (await durable.start("Go.", session="ann", run="the-run")).result()


def _in_a_process(folder: Path) -> None:
    asyncio.run(_first(folder))


@pytest.mark.slow
async def test_the_calls_of_a_worker_that_died_count(tmp_path: Path) -> None:
    assert await exit_code_of(_in_a_process, tmp_path, seconds=SECONDS) == -signal.SIGKILL
    assert (tmp_path / "ledger").read_text().split("\n")[:-1] == ["place 0", "place 1"]
    agent, durable, store = dying_agent(tmp_path, dies=False)
    async with served(agent, durable):
        result = await (await durable.run("the-run")).result()
    assert (result.stop, result.answer) == ("max_tool_calls", "made to answer")
    assert (tmp_path / "ledger").read_text().split("\n")[:-1] == ["place 0", "place 1", "place 2"]
    assert result.spent.tool_calls == 3
    assert result.spent.turns == 5
    assert in_pairs(store.read("ann").messages)
    store.close()
