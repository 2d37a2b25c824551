"""A worker that kills itself: `work(RUNS, SESSIONS, LEDGER, POINT, RUN)` in a process of its own.

A point is "3 before" or "3 after": at the third step of the run, before what it does outside, or after it. The ledger
is a file with a line for each thing that was done. With RUN it begins that run in the session "ann".
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcpagent import Agent, RunOptions, ScriptedModel, Sessions, ToolCall
from mcpagent.agents.durable import DurableRuns
from mcpagent.models.base import ModelRequest
from mcpagent.toolsets.functions import function_tool

PLACES = ("a", "b", "c", "d", "e")
"""Each is booked by a call of its own, so a run has five calls, and six requests."""


class Outside:
    """What is done outside of the agent; `at` is told each step that begins and ends."""

    def __init__(self, ledger: Path, at: Callable[[int, str], None] = lambda step, when: None) -> None:
        self._ledger, self._at, self._steps = ledger, at, 0

    def done(self) -> list[str]:
        return self._ledger.read_text().split("\n")[:-1] if self._ledger.exists() else []

    def do(self, what: str) -> None:
        self._steps += 1
        self._at(self._steps, "before")
        with self._ledger.open("a") as file:
            file.write(f"{what}\n")
            file.flush()
            os.fsync(file.fileno())
        self._at(self._steps, "after")

    def reply(self, request: ModelRequest) -> ToolCall | str:
        number = sum(len(message.tool_results) for message in request.messages)
        self.do(f"request {number}")
        if number < len(PLACES):
            return ToolCall(f"call{number}", "book", {"place": PLACES[number]})
        return "all done"

    def book(self, place: str) -> str:
        """Books a place."""
        self.do(f"book {place}")
        return f"booked {place}"


def agent_of(outside: Outside, runs: DurableRuns, sessions: Sessions) -> Agent[Any]:
    model = ScriptedModel([outside.reply] * 30)
    return Agent(model, tools=[function_tool(outside.book)], sessions=sessions, options=RunOptions(wrappers=[runs]))


async def main(runs: str, sessions: str, ledger: str, point: str, run: str = "") -> None:
    step, _, when = point.partition(" ")

    def at(number: int, now: str) -> None:
        if (str(number), now) == (step, when):
            os.kill(os.getpid(), signal.SIGKILL)

    durable = DurableRuns(runs)
    agent = agent_of(Outside(Path(ledger), at), durable, Sessions(sessions))
    async with agent, durable.serving(agent):
        started = await durable.start("Book all.", session="ann", run=run)
        result = await started.result(30)
        print(result.answer)


def work(*arguments: str) -> None:
    asyncio.run(main(*arguments))
