"""A call that kills its worker: after three deaths it has an error as its result, and its neighbours have theirs."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, ScriptedModel, Sessions, ToolCall
from mcpagent.agents.durable import DurableRuns
from mcpagent.history.conversation import UNKNOWN
from mcpagent.models.base import ModelRequest
from mcpagent.toolsets.functions import function_tool

SECONDS = 60.0
DEATHS = 3
RUNS = ("poisoned", "innocent")


def reply(request: ModelRequest) -> Any:
    results = [result for message in request.messages for result in message.tool_results]
    if results:
        return " | ".join(result.text for result in results)
    if request.messages[-1].text == "innocent":
        return ToolCall("1", "slow", {})
    return [ToolCall("1", "poison", {}), ToolCall("2", "quick", {}), ToolCall("3", "pay", {})]


def agent_in(folder: Path) -> Agent[Any]:
    """Two sessions: "poisoned" calls what kills the process beside two others, "innocent" waits meanwhile."""

    def note(line: str) -> None:
        with (folder / "ledger").open("a") as file:
            file.write(f"{line}\n")

    async def poison() -> str:
        """Kills the process, when all others are under way."""
        note("poison")
        while not (folder / "slow").exists():  # noqa: ASYNC110 - another session says so
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
        return "never"

    async def slow() -> str:
        """Takes as long as it takes the other one to kill the process, the first time."""
        note("slow")
        is_first = not (folder / "slow").exists()
        (folder / "slow").touch()
        if is_first:
            await asyncio.Event().wait()
        return "slow is done"

    def quick() -> str:
        """Is done at once."""
        note("quick")
        return "quick is done"

    def pay() -> str:
        """Must not be done twice."""
        note("pay")
        return "paid"

    tools = [*(function_tool(tool, read_only=True) for tool in (poison, slow, quick)), function_tool(pay)]
    return Agent(ScriptedModel([reply] * 9), tools=tools, sessions=Sessions(folder / "chats.db"))


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[DurableRuns]:
    agent, durable = agent_in(folder), DurableRuns(folder / "runs.db")
    async with asyncio.timeout(SECONDS), agent, durable.serving(agent):
        yield durable


async def _both(folder: Path) -> list[str]:
    async with served(folder) as durable:
        runs = [await durable.start(name, session=name, run=name) for name in RUNS]
        return [(await run.result()).answer for run in runs]


def _in_a_process(folder: Path) -> None:
    asyncio.run(_both(folder))


@pytest.mark.slow
async def test_a_call_that_kills_its_worker_ends_with_an_error(tmp_path: Path) -> None:
    for _ in range(DEATHS):
        process = multiprocessing.get_context("spawn").Process(target=_in_a_process, args=(tmp_path,))
        process.start()
        await asyncio.to_thread(process.join, SECONDS)
        assert process.exitcode == -signal.SIGKILL
    poisoned, innocent = await _both(tmp_path)
    error = '"poison" was not run again: the process that ran it died 3 times. Go on without its result.'
    # A call that must not be made twice is one of unknown outcome, if the first death came before its result.
    assert poisoned in [f"{error} | quick is done | {paid}" for paid in ("paid", UNKNOWN)]
    assert innocent == "slow is done"
    done = Counter((tmp_path / "ledger").read_text().splitlines())
    assert done["poison"] == DEATHS
    assert done["pay"] == 1 or (done["pay"] == 0 and UNKNOWN in poisoned)
    assert done["quick"] <= 2
    assert done["slow"] <= 3
