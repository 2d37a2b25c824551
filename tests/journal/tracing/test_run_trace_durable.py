"""A durable run that a worker died in: what goes on with it is linked to what the dead one did."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import signal
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from mcpagent import Agent, RunOptions, Wrapper
from mcpagent.journal.tracing import Tracing
from tests.agents.durable.test_runner_gone_on_with import QUESTION, durable_in, model, paying, served
from tests.journal.tracing.traced import Traced

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def _first(folder: Path) -> None:
    durable, store = durable_in(folder)
    provider = TracerProvider(shutdown_on_exit=False)
    out = (folder / "dead.jsonl").open("w")
    exporter = ConsoleSpanExporter(out=out, formatter=lambda span: span.to_json(indent=None) + "\n")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    wrappers: list[Wrapper] = [durable, Tracing(tracer_provider=provider)]
    agent = Agent(
        model(dies=True), tools=[paying(folder / "ledger")], sessions=store, options=RunOptions(wrappers=wrappers)
    )
    async with served(agent, durable):
        await (await durable.start(QUESTION, session="ann", run="the-run")).result()


def _in_a_process(folder: Path) -> None:
    asyncio.run(_first(folder))


async def test_what_goes_on_with_a_dead_workers_run_is_linked_to_it_and_counts_nothing_twice(tmp_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_in_a_process, args=(tmp_path,))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    dead = {span["name"]: span for span in map(json.loads, (tmp_path / "dead.jsonl").read_text().splitlines())}
    assert set(dead) == {"chat test", "execute_tool pay"}  # the run itself did not come to its end
    traced = Traced()
    durable, store = durable_in(tmp_path)
    wrappers: list[Wrapper] = [durable, traced.tracing()]
    agent = Agent(model(), tools=[paying(tmp_path / "ledger")], sessions=store, options=RunOptions(wrappers=wrappers))
    async with served(agent, durable):
        assert (await (await durable.run("the-run")).result()).answer == "paid 5"
        await (await durable.start("And now?", session="ann", run="another")).result()
    store.close()
    first, other = traced.named("invoke_agent")
    links = [(hex(link.context.trace_id), hex(link.context.span_id)) for link in first.links]
    asked_by = dead["chat test"]
    assert links == [(hex(int(asked_by["context"]["trace_id"], 16)), hex(int(asked_by["parent_id"], 16)))]
    assert not other.links
    assert len(traced.named("chat test")) == 2  # what the dead one asked is not asked again
    assert not traced.named("execute_tool pay")
    (_, durations) = traced.metrics()["gen_ai.client.operation.duration"][0]
    assert durations.count == 2
