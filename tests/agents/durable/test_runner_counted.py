"""What a run comes to counts once it is written: what its agents took, calls out of time or amid a cancellation."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, AgentStateError, Message, RunOptions, ScriptedModel, Sessions, Text, ToolCall, Usage
from mcpagent.agents.durable import DurableRuns
from mcpagent.models.base import ModelRequest, ModelResponse
from mcpagent.toolsets.functions import function_tool
from tests.agents.durable.killed_workers import exit_code_of

SECONDS = 60.0


@asynccontextmanager
async def served(agent: Agent[Any], durable: DurableRuns, **options: Any) -> AsyncIterator[None]:
    async with asyncio.timeout(SECONDS), agent, durable.serving(agent, **options):
        yield


def costing(text: str) -> ModelResponse:
    return ModelResponse(Message("assistant", (Text(text),)), Usage(100, 10, requests=1), "end", 0.25)


def agent_in(folder: Path, *, dies: bool) -> tuple[Agent[Any], DurableRuns, Sessions]:
    """It asks another agent, and calls what gives nothing in time; one that `dies` does so before its answer."""

    def reply(request: ModelRequest) -> Any:
        results = [result for message in request.messages for result in message.tool_results]
        if not results:
            return [ToolCall("1", "research", {"prompt": "Look."}), ToolCall("2", "late", {})]
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return " | ".join(result.text for result in results)

    async def late() -> str:
        """Never gives anything."""
        with (folder / "ledger").open("a") as file:
            file.write("late\n")
        await asyncio.Event().wait()
        return "never"

    helper = Agent(ScriptedModel([costing("It is found.")]))
    tools = [
        helper.as_tool("research", "Looks it up."),
        function_tool(late, read_only=True, timeout_seconds=0.2),
    ]
    durable, store = DurableRuns(folder / "runs.db"), Sessions(folder / "chats.db")
    agent = Agent(ScriptedModel([reply] * 2), tools=tools, sessions=store, options=RunOptions(wrappers=[durable]))
    return agent, durable, store


async def _first(folder: Path) -> None:
    agent, durable, _ = agent_in(folder, dies=True)
    async with served(agent, durable):
        await (await durable.start("Go.", session="ann", run="the-run")).result()


def _in_a_process(folder: Path) -> None:
    asyncio.run(_first(folder))


@pytest.mark.slow
async def test_what_agents_took_and_calls_out_of_time_count_in_the_next_process(tmp_path: Path) -> None:
    assert await exit_code_of(_in_a_process, tmp_path, seconds=SECONDS) == -signal.SIGKILL
    agent, durable, store = agent_in(tmp_path, dies=False)
    async with served(agent, durable):
        result = await (await durable.run("the-run")).result()
    assert result.answer.startswith("It is found. | ")
    assert "gave no answer within 0.2 seconds" in result.answer
    assert (tmp_path / "ledger").read_text() == "late\n"
    assert (result.usage.input_tokens, result.usage.output_tokens) == (100, 10)
    assert result.spent.dollars == 0.25
    assert store.read("ann").info.tokens == 110 + store.read("ann").values["spent"]["estimated_tokens"]
    assert store.read("ann").values["spent"]["seconds"] >= 0.2  # what was late, was it in the process before
    store.close()


@pytest.mark.slow
async def test_a_run_that_is_cancelled_amid_calls_keeps_what_was_finished(tmp_path: Path) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()

    def quick() -> str:
        """Is done at once."""
        return "quick is done"

    async def slow() -> str:
        """Takes its time."""
        begun.set()
        await goes_on.wait()
        return "slow is done"

    def reply(request: ModelRequest) -> Any:
        if request.messages[-1].text == "What came of it?":
            return " | ".join(result.text for message in request.messages for result in message.tool_results)
        return [ToolCall("1", "quick", {}), ToolCall("2", "slow", {})]

    durable, store = DurableRuns(tmp_path / "runs.db"), Sessions(tmp_path / "chats.db")
    agent = Agent(
        ScriptedModel([reply] * 3), tools=[quick, slow], sessions=store, options=RunOptions(wrappers=[durable])
    )
    async with served(agent, durable):
        run = await durable.start("Go.", session="ann")
        await begun.wait()
        await durable.cancel(run.id)
        goes_on.set()
        with pytest.raises(AgentStateError, match="was cancelled"):
            await run.result()
        next_run = await durable.start("What came of it?", session="ann")
        assert (await next_run.result()).answer == "quick is done | slow is done"
    kept = store.read("ann")
    assert not kept.values.get("durable")
    assert kept.info.holder is None
    store.close()
