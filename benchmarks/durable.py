"""What a step of a durable run costs, and how long it takes until another worker goes on.

    python benchmarks/durable.py [--steps 100] [--postgres postgresql://...]

One run of so many calls of a tool that does nothing, so each call is three steps: the request, that it is sent, what it
gave. CPU is the process's own, user and system, less what the same run takes without the engine. Then a run whose
worker kills itself in its third step, five times: the time from the start of another worker to the answer, start-up
included.
Without `--postgres` it is measured on SQLite alone; needs `pip install -e '.[durable]'`.
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
from pathlib import Path
from typing import Any
from uuid import uuid4

from mcpagent import Agent, Limits, RunOptions, ScriptedModel, SessionStore, ToolCall
from mcpagent.durable import DurableRuns
from mcpagent.models.base import ModelRequest

TAKEOVERS = 5


def nothing(number: int) -> str:
    """Does nothing."""
    return f"nothing {number}"


def agent_for(calls: int, store: SessionStore, durable: DurableRuns | None, dies_at: int = -1) -> Agent[Any]:
    def reply(request: ModelRequest) -> ToolCall | str:
        done = sum(len(message.tool_results) for message in request.messages)
        if done == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return ToolCall(f"call{done}", "nothing", {"number": done}) if done < calls else "done"

    options = RunOptions(limits=Limits(turns=calls + 2))
    wrappers = [durable] if durable is not None else []
    return Agent(
        ScriptedModel([reply] * (calls + 2)), tools=[nothing], options=options, sessions=store, wrappers=wrappers
    )


async def without_engine(calls: int, where: str) -> float:
    store = SessionStore(where)
    async with agent_for(calls, store, None) as agent:
        await agent.session("warm").ask("go")
    async with agent_for(calls, store, None) as agent:
        started = time.process_time()
        await agent.session(uuid4().hex).ask("go")
        seconds = time.process_time() - started
    store.close()
    return seconds


async def with_engine(calls: int, runs: str, where: str) -> float:
    store, durable = SessionStore(where), DurableRuns(runs)
    agent = agent_for(calls, store, durable)
    async with agent, durable.serving(agent):
        started = time.process_time()
        await (await durable.start("go")).result(300)
        seconds = time.process_time() - started
    store.close()
    return seconds


async def die(runs: str, where: str, run: str) -> None:
    durable = DurableRuns(runs)
    agent = agent_for(4, SessionStore(where), durable, dies_at=2)
    async with agent, durable.serving(agent):
        await (await durable.start("go", run=run)).result(60)


async def takeover(runs: str, where: str) -> float:
    run = uuid4().hex
    process = await asyncio.create_subprocess_exec(sys.executable, __file__, "--die", runs, where, run)
    await asyncio.wait_for(process.wait(), 120)
    started = time.monotonic()
    store, durable = SessionStore(where), DurableRuns(runs)
    agent = agent_for(4, store, durable)
    async with agent, durable.serving(agent):
        await (await durable.run(run)).result(60)
        seconds = time.monotonic() - started
    store.close()
    return seconds


async def measure(name: str, calls: int, runs: str, where: str) -> None:
    less = await without_engine(calls, where)
    cpu = await with_engine(calls, runs, where) - less
    steps = 3 * calls + 2
    times = [await takeover(runs, where) for _ in range(TAKEOVERS)]
    print(f"{name}: {cpu / steps * 1000:.1f} ms of CPU a step over {steps} steps, ", end="")
    print(f"gone on with by another worker in {statistics.median(times):.1f} s (median of {TAKEOVERS})")


def main() -> None:
    if sys.argv[1:2] == ["--die"]:
        asyncio.run(die(*sys.argv[2:]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100, help="calls of the run that is measured (default: 100)")
    parser.add_argument("--postgres", help="a database of its own, which is filled")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure("SQLite", options.steps, str(Path(folder, "runs.db")), str(Path(folder, "sessions.db"))))
    if options.postgres:
        asyncio.run(measure("PostgreSQL", options.steps, options.postgres, options.postgres))


if __name__ == "__main__":
    main()
