"""A durable run whose conversation is compacted: the request for a summary is a step as any other."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, RunOptions, Sessions, ToolCall
from mcpagent.agents.durable import DurableRuns
from mcpagent.models import ModelRequest, ModelResponse
from mcpagent.models.scripted import Answer
from mcpagent.values.events import Emit
from mcpagent.values.messages import Compacted
from tests.run.compaction.windowed import WindowedModel, is_for_summary

FILES = 30


def brain(request: ModelRequest) -> Answer:
    """By what the call before was for, so that it says the same in each process."""
    calls = [call for message in request.messages for call in message.tool_calls]
    number = int(calls[-1].arguments["name"].split()[1]) + 1 if calls else 0
    return "Read." if number == FILES else [ToolCall("", "read_all", {"name": f"file {number}"})]


class Hanging(WindowedModel):
    """Never gives its second summary."""

    stuck = asyncio.Event()

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        """Sets `stuck` when it hangs."""
        if is_for_summary(request) and any(map(is_for_summary, self.requests)):
            self.stuck.set()
            await asyncio.Event().wait()
        return await super().respond(request, emit)


@pytest.mark.slow
async def test_a_run_that_ended_in_a_summary_is_finished_by_another_process(tmp_path: Path) -> None:
    read: list[str] = []

    def read_all(name: str) -> str:
        """Reads all."""
        read.append(name)
        return f"About {name}: " + "word after word and number 7 " * 60

    def served(model: WindowedModel) -> tuple[Agent[Any], DurableRuns, Sessions]:
        durable, store = DurableRuns(tmp_path / "runs.db"), Sessions(tmp_path / "sessions.db")
        return Agent(model, tools=[read_all], sessions=store, options=RunOptions(wrappers=[durable])), durable, store

    first, second = Hanging(brain, 3_000), WindowedModel(brain, 3_000)
    agent, durable, store = served(first)
    async with asyncio.timeout(60), agent, durable.serving(agent, stop_seconds=0.1):
        run = (await durable.start("Read thirty files.", session="ann")).id
        await first.stuck.wait()
    store.close()
    before = len(read)
    agent, durable, store = served(second)
    async with asyncio.timeout(60), agent, durable.serving(agent):
        result = await (await durable.run(run)).result()
    assert result.answer == "Read."
    assert read == [f"file {number}" for number in range(FILES)]  # none twice
    assert is_for_summary(second.requests[0])
    assert len([one for one in second.requests if not is_for_summary(one)]) == FILES - before + 1
    messages = store.read("ann").messages
    assert sum(isinstance(part, Compacted) for message in messages for part in message.parts) >= 2
    store.close()
