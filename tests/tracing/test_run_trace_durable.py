"""A durable run that a worker died in: what goes on with it is linked to what the dead one did."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from pathlib import Path

import pytest

from mcpagent import Agent, RunOptions, Wrapper
from mcpagent.tracing import TraceSpan, Tracing
from mcpagent.tracing.otlp_lines import spans_in
from tests.durable.test_runner_gone_on_with import QUESTION, durable_in, model, paying, served
from tests.tracing.traced import Traced

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def _first(folder: Path) -> None:
    durable, store = durable_in(folder)
    wrappers: list[Wrapper] = [durable, Tracing(file=folder / "dead.jsonl")]
    agent = Agent(
        model(dies=True), tools=[paying(folder / "ledger")], sessions=store, options=RunOptions(wrappers=wrappers)
    )
    async with served(agent, durable):
        await (await durable.start(QUESTION, session="ann", run="the-run")).result()


def _in_a_process(folder: Path) -> None:
    asyncio.run(_first(folder))


def spans_of(file: Path) -> list[TraceSpan]:
    return [span for line in file.read_text().splitlines() for span in spans_in(line, str(file))]


async def test_what_goes_on_with_a_dead_workers_run_is_linked_to_it_and_counts_nothing_twice(tmp_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_in_a_process, args=(tmp_path,))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    dead = {span.name: span for span in spans_of(tmp_path / "dead.jsonl")}
    assert set(dead) == {"chat test", "execute_tool pay"}  # the run itself did not come to its end
    traced = Traced()
    durable, store = durable_in(tmp_path)
    wrappers: list[Wrapper] = [durable, traced.tracing(file=tmp_path / "next.jsonl")]
    agent = Agent(model(), tools=[paying(tmp_path / "ledger")], sessions=store, options=RunOptions(wrappers=wrappers))
    async with served(agent, durable):
        assert (await (await durable.run("the-run")).result()).answer == "paid 5"
        await (await durable.start("And now?", session="ann", run="another")).result()
    store.close()
    found = spans_of(tmp_path / "next.jsonl")
    first, other = sorted((span for span in found if span.name == "invoke_agent"), key=lambda span: span.begun)
    assert first.links == ((dead["chat test"].trace_id, dead["chat test"].parent_id),)
    assert other.links == ()
    asked = [span for span in found if span.name == "chat test"]
    assert len(asked) == 2  # what the dead one asked is not asked again
    assert not [span for span in found if span.name == "execute_tool pay"]
    (_, durations) = traced.metrics()["gen_ai.client.operation.duration"][0]
    assert durations.count == 2
