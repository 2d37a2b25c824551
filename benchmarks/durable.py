"""What a durable run costs in CPU, and how long it takes until another worker resumes one.

    python benchmarks/durable.py [--runs 15] [--sizes 0 1000 5000] [--postgres postgresql://...]

A worker answers prompts, each a run of its own, in eight sessions at once that have so many messages; then in one of
them alone. In a session one run follows the other. CPU is the worker's own, user and system, from `start` to `result`;
the model is scripted and answers at once. A worker also looks for new runs all the time: its CPU while it has none is
printed too, and is a part of the CPU of the runs. Then a worker kills itself in the third request of a run, five times:
the time from the start of another worker to the answer, with its start-up. Without `--postgres` it is measured on
SQLite alone; needs `pip install -e '.[durable]'`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from mcpagent import Agent, Message, ScriptedModel, Sessions, Text, ToolCall
from mcpagent.agents.durable import DurableRuns
from mcpagent.models.base import ModelRequest

SESSIONS = 8
TAKEOVERS = 5
IDLE_SECONDS = 5.0


def nothing(number: int) -> str:
    """Does nothing."""
    return f"nothing {number}"


def agent_for(store: Sessions, *, dies_at: int = -1) -> Agent[Any]:
    """Its run makes four calls; one that `dies_at` a request kills its process there."""

    def reply(request: ModelRequest) -> ToolCall | str:
        done = sum(len(message.tool_results) for message in request.messages)
        if done == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return (
            ToolCall(f"call{done}", "nothing", {"number": done}) if done < 4 else "done"
        )

    return Agent(ScriptedModel([reply] * 9), tools=[nothing], sessions=store)


def messages(count: int) -> list[Message]:
    words = "What was said here is a sentence of some length, as people write it. "
    return [
        Message("user" if place % 2 == 0 else "assistant", (Text(f"{place} {words}"),))
        for place in range(count)
    ]


async def cpu_of_runs(
    durable: DurableRuns, sessions: Sequence[str], runs: int
) -> float:
    """Seconds of CPU for each of so many runs in each session."""

    async def in_turn(session: str) -> None:
        for _ in range(runs):
            await (await durable.start("go", session=session)).result(60)

    started = time.process_time()
    await asyncio.gather(*(in_turn(session) for session in sessions))
    return (time.process_time() - started) / runs / len(sessions)


async def measured(size: int, runs: int, engine: str, where: str) -> None:
    store, durable = Sessions(where), DurableRuns(engine)
    sessions = [uuid4().hex for _ in range(SESSIONS)]
    agent = Agent(
        ScriptedModel(["It is done."] * (runs + 9) * (SESSIONS + 1)), sessions=store
    )
    async with agent, durable.serving(agent):
        for session in sessions:
            begun = agent.session(session, messages=messages(size))
            await begun.ask("go")
            begun._runtime.give_back()
        await cpu_of_runs(durable, sessions, 1)  # reads the sessions
        started = time.process_time()
        await asyncio.sleep(IDLE_SECONDS)
        idle = (time.process_time() - started) / IDLE_SECONDS
        busy = await cpu_of_runs(durable, sessions, runs)
        alone = await cpu_of_runs(durable, sessions[:1], runs)
    store.close()
    took = (
        f"{busy * 1000:.1f} ms of CPU a run, {alone * 1000:.1f} ms in one session alone"
    )
    print(
        f"{size:,} messages: {took}; {idle * 1000:.0f} ms a second without runs",
        flush=True,
    )


async def die(engine: str, where: str, run: str) -> None:
    durable, agent = DurableRuns(engine), agent_for(Sessions(where), dies_at=2)
    async with agent, durable.serving(agent):
        await (await durable.start("go", run=run)).result(60)


async def takeover(engine: str, where: str) -> float:
    run = uuid4().hex
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--die", engine, where, run
    )
    await asyncio.wait_for(process.wait(), 120)
    started = time.monotonic()
    store, durable = Sessions(where), DurableRuns(engine)
    agent = agent_for(store)
    async with agent, durable.serving(agent):
        await (await durable.run(run)).result(60)
        seconds = time.monotonic() - started
    store.close()
    return seconds


async def measure(
    name: str, sizes: Sequence[int], runs: int, engine: str, where: str
) -> None:
    print(name)
    for size in sizes:
        await measured(size, runs, engine, where)
    times = [await takeover(engine, where) for _ in range(TAKEOVERS)]
    print(
        f"resumed by another worker in {statistics.median(times):.1f} s (median of {TAKEOVERS})"
    )


def main() -> None:
    if sys.argv[1:2] == ["--die"]:
        asyncio.run(die(*sys.argv[2:]))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs", type=int, default=15, help="runs in each session (default: 15)"
    )
    parser.add_argument(
        "--sizes",
        type=int,
        nargs="+",
        default=[0, 1_000, 5_000],
        help="messages before the runs",
    )
    parser.add_argument("--postgres", help="a database of its own, which is filled")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = str(Path(folder, "runs.db")), str(Path(folder, "sessions.db"))
        asyncio.run(measure("SQLite", options.sizes, options.runs, *files))
    if options.postgres:
        asyncio.run(
            measure(
                "PostgreSQL",
                options.sizes,
                options.runs,
                options.postgres,
                options.postgres,
            )
        )


if __name__ == "__main__":
    main()
