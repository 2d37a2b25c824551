"""A worker that takes a run over is another one: its window, its tools and its servers may differ."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, RunOptions, ServerOptions, Sessions, ToolCall
from mcpagent.agents.durable import DurableRuns
from mcpagent.models import ModelRequest
from mcpagent.models.scripted import Answer
from tests.run.compaction.windowed import WindowedModel, is_for_summary
from tests.tables import each_row

SECONDS = 60.0
PLACES = 30
DIES_AT = 20
SMALL, LARGE = 3_000, 100_000
SERVER = {"mcpServers": {"weather": {"command": sys.executable, "args": ["-m", "tests.servers.weather_server"]}}}


def brain(tool: str, dies: bool = False) -> Callable[[ModelRequest], Answer]:
    """Calls the tool for one place after the other, by the call before: so it says the same in each process."""

    def answer(request: ModelRequest) -> Answer:
        calls = [call for message in request.messages for call in message.tool_calls]
        number = int(calls[-1].arguments["location"].split()[1]) + 1 if calls else 0
        if dies and number == DIES_AT:
            os.kill(os.getpid(), signal.SIGKILL)
        return "All is done." if number == PLACES else [ToolCall("", tool, {"location": f"place {number}"})]

    return answer


def worker(
    folder: Path, tool: str, *, window: int, has_tools: bool = True, dies: bool = False
) -> tuple[Agent[Any], Any]:
    def book(location: str) -> str:
        """Books a place."""
        with (folder / "ledger").open("a") as file:
            file.write(f"{location}\n")
        return f"booked {location}: " + "word after word and number 7 " * 60

    model, store = WindowedModel(brain(tool, dies), window), Sessions(folder / "chats.db")
    config = SERVER if has_tools and tool == "get_weather" else None
    waits = ServerOptions(startup_seconds=SECONDS)
    tools = [book] if has_tools else []
    return Agent(model, tools=tools, mcp_config=config, options=RunOptions(servers=waits), sessions=store), model


@asynccontextmanager
async def served(agent: Agent[Any], folder: Path) -> AsyncIterator[DurableRuns]:
    durable = DurableRuns(folder / "runs.db")
    async with asyncio.timeout(SECONDS), agent, durable.serving(agent):
        yield durable


async def _first(folder: Path, tool: str, window: int) -> None:
    agent, _ = worker(folder, tool, window=window, dies=True)
    async with served(agent, folder) as durable:
        await (await durable.start("Do it all.", session="ann", run="the-run")).result()


def _in_a_process(folder: Path, tool: str, window: int) -> None:
    asyncio.run(_first(folder, tool, window))


async def taken_over(
    folder: Path, tool: str = "book", *, before: int = LARGE, now: int = LARGE, has_tools: bool = True
) -> tuple[list[str], WindowedModel]:
    """The results in the history after another worker has finished the run, and the model of that worker."""
    process = multiprocessing.get_context("spawn").Process(target=_in_a_process, args=(folder, tool, before))
    process.start()
    await asyncio.to_thread(process.join, SECONDS)
    assert process.exitcode == -signal.SIGKILL
    agent, model = worker(folder, tool, window=now, has_tools=has_tools)
    async with served(agent, folder) as durable:
        run = await durable.run("the-run")
        result = await run.result()
        assert (result.answer, result.stop, await run.state()) == ("All is done.", "answered", "done")
    assert agent._runtime.store is not None
    kept = agent._runtime.store.read("ann")
    agent._runtime.store.close()
    locations = [call.arguments["location"] for message in kept.messages for call in message.tool_calls]
    assert locations == [f"place {number}" for number in range(PLACES)]
    assert kept.messages[-1].text == "All is done."
    return [result.text for message in kept.messages for result in message.tool_results], model


@pytest.mark.slow
@each_row("before, now", [(SMALL, LARGE), (LARGE, SMALL), (SMALL, SMALL)])
async def test_another_window_changes_neither_the_answer_nor_what_is_done(
    before: int, now: int, tmp_path: Path
) -> None:
    results, model = await taken_over(tmp_path, before=before, now=now)
    assert (tmp_path / "ledger").read_text().splitlines() == [f"place {number}" for number in range(PLACES)]
    assert all(text.startswith(f"booked place {number}: ") for number, text in enumerate(results))
    assert any(map(is_for_summary, model.requests)) is (now == SMALL)


@pytest.mark.slow
async def test_a_tool_that_is_gone_is_an_error_of_the_calls_that_were_not_made(tmp_path: Path) -> None:
    results, _ = await taken_over(tmp_path, has_tools=False)
    assert (tmp_path / "ledger").read_text().splitlines() == [f"place {number}" for number in range(DIES_AT)]
    assert all(text.startswith("booked") for text in results[:DIES_AT])
    assert all('There is no tool "book"' in text for text in results[DIES_AT:])


@pytest.mark.slow
async def test_a_server_that_is_missing_is_an_error_of_the_calls_that_were_not_made(tmp_path: Path) -> None:
    results, _ = await taken_over(tmp_path, "get_weather", has_tools=False)
    assert all("18 degrees" in text for text in results[:DIES_AT])
    assert all('There is no tool "get_weather"' in text for text in results[DIES_AT:])
