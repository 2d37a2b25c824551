"""Workers that die at a write: `python -m tests.agents.durable.killed_between_writes FOLDER`.

A run of five calls makes so many writes of its session. For each of them, and each moment around it, a worker begins
the run and dies there, and a second worker finishes it. Workers are forked from this process, so that nothing has to be
imported again. The output is one JSON document: the writes of a whole run, and everything that went wrong.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dbos

from mcpagent import Agent, ScriptedModel, Sessions
from mcpagent.agents.durable import DurableRuns
from mcpagent.history.conversation import UNKNOWN
from mcpagent.journal.sessions.entries import SUMMARY
from mcpagent.journal.sessions.protocol import Entry
from mcpagent.toolsets.functions import function_tool
from tests.agents.durable.worker_program import PLACES, Outside

MOMENTS = ("before", "in", "after")
SECONDS = 60.0


def agent_of(outside: Outside, store: Sessions) -> Agent[Any]:
    return Agent(ScriptedModel([outside.reply] * 30), tools=[function_tool(outside.book)], sessions=store)


def store_that_hears(where: Path, at: Callable[[str], None]) -> Sessions:
    """`at` hears before and after each write of a session, and in the midst of its transaction."""
    store = Sessions(where)
    inside: Any = store._store
    append, write = inside.append, inside._write

    def appending(session: str, entries: Sequence[Entry], owner: Any) -> bool:
        at("before")
        is_written = append(session, entries, owner)
        at("after")
        return bool(is_written)

    def writing(session: str, entry: Entry) -> None:
        write(session, entry)
        if entry.key == SUMMARY:  # the last one
            at("in")

    inside.append, inside._write = appending, writing
    return store


async def work(folder: Path, at: Callable[[str], None]) -> str:
    """The answer of the run, which this worker begins unless another one did."""
    store, durable = store_that_hears(folder / "sessions.db", at), DurableRuns(folder / "runs.db")
    agent = agent_of(Outside(folder / "ledger"), store)
    async with asyncio.timeout(SECONDS), agent, durable.serving(agent):
        run = await durable.start("Book all.", session="ann", run="the-run")
        result = await run.result()
        state = await run.state()
    store.close()
    return f"{result.answer}, {result.stop}, {state}, {result.spent.turns} turns, {result.spent.tool_calls} calls"


def forked(folder: Path, at: Callable[[str], None]) -> tuple[str, int]:
    """What a worker in a process of its own said, and the signal that ended it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            os.write(writing, asyncio.run(work(folder, at)).encode())
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 - told to the parent
            os.write(writing, f"{type(error).__name__}: {error}".encode())
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        said = told.read().decode()
    status = os.waitpid(child, 0)[1]
    return said, os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def killing(number: int, moment: str) -> Callable[[str], None]:
    passed = 0

    def at(now: str) -> None:
        nonlocal passed
        passed += now == "before"
        if (passed, now) == (number, moment):
            os.kill(os.getpid(), signal.SIGKILL)

    return at


def wrong_after(folder: Path, last: bool) -> list[str]:
    """What the dead worker and the next one did wrong together."""
    done = Outside(folder / "ledger").done()
    store = Sessions(folder / "sessions.db")
    kept = store.read("ann")
    store.close()
    results = [result.text for message in kept.messages for result in message.tool_results]
    wrong = [f"booked {place} twice" for place in PLACES if done.count(f"book {place}") > 1]
    for place in PLACES:
        is_known = f"booked {place}" in results
        if is_known != (f"book {place}" in done) and UNKNOWN not in results:
            wrong.append(f"the history does not say that {place} was booked")
    if len(results) != len(PLACES) or kept.messages[-1].text != "all done":
        wrong.append(f"the history has {results}, and ends with {kept.messages[-1].text!r}")
    if kept.values.get("durable") or kept.values.get("run"):
        wrong.append("the session says that the run is not over")
    paid_twice = len(done) - len(set(done))
    if paid_twice > (0 if last else 1):
        wrong.append(f"{paid_twice} requests were made twice")
    return wrong


def main(folder: Path) -> dict[str, Any]:
    writes: list[str] = []
    whole = folder / "whole"
    whole.mkdir()
    counting, said = folder / "counted", ""

    def count(now: str) -> None:
        with counting.open("a") as file:
            file.write(f"{now}\n")

    said, _ = forked(whole, count)
    writes = [line for line in counting.read_text().split() if line == "after"]
    told: dict[str, Any] = {"writes": len(writes), "whole": said, "kills": 0, "wrong": []}
    for number in range(1, len(writes) + 1):
        for moment in MOMENTS:
            place = folder / f"{number}-{moment}"
            place.mkdir()
            _, ended_by = forked(place, killing(number, moment))
            told["kills"] += ended_by == signal.SIGKILL
            again, _ = forked(place, lambda _: None)
            is_over = (number, moment) == (len(writes), "after")
            wrong = wrong_after(place, is_over)
            if again != said:
                wrong.append(f"the run came to: {again}")
            told["wrong"] += [f"write {number}, {moment}: {what}" for what in wrong]
    return told


if __name__ == "__main__":
    assert dbos.DBOS is not None  # loaded once, before the forks
    print(json.dumps(main(Path(sys.argv[1]))))
