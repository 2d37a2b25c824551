"""What conversations that last cost: many at once in one process, many processes at one file, many that are idle.

    python -m benchmarks.sessions [--small] [--postgres ADDRESS]

- `turns`: 200 sessions at once, 20 turns each with 3 tools, in one process and one store. Nothing may fail, no word of
  one session may come to another, and all files that were opened are closed at the end.
- `writers`: 8 processes that append to one store, each to a session of its own, 1,000 times.
- `first`: 8 processes that open a store at the same moment which nobody has opened before, 50 times.
- `idle`: 1,000 sessions that have been asked once, with and without a store; the ratio of the memory they take.

Ends with 1 if one of the limits beside each figure is not held. `--small` is a small part of it, as a test
runs it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
import os
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcpagent import Agent, Message, ScriptedModel, Sessions, Text, ToolCall
from mcpagent.journal.sessions.entries import MessageAppended
from mcpagent.journal.sessions.loaded_session import SessionInfo
from mcpagent.models.base import ModelRequest


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of what is printed; `limit` is the most it may be, None where there is none."""

    name: str
    value: float
    unit: str
    limit: float | None = None

    @property
    def is_held(self) -> bool:
        """Whether it is within its limit."""
        return self.limit is None or self.value <= self.limit

    def __str__(self) -> str:
        limit = (
            ""
            if self.limit is None
            else f"  (at most {self.limit:g}{'' if self.is_held else ': NOT HELD'})"
        )
        return f"{self.name:<58} {self.value:>10.2f} {self.unit}{limit}"


def share(values: Sequence[float], part: float) -> float:
    """The value that this part of all is not above."""
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


# -- many sessions in one process --------------------------------------------------------------------------------------


def _reply(request: ModelRequest) -> list[ToolCall] | str:
    """Three calls, then what they gave: the session's own canary, three times."""
    since: list[Any] = []
    for message in reversed(request.messages):
        if message.role == "user":
            canary = message.text.split()[-1]
            break
        since += message.tool_results
    if not since:
        place = len(request.messages)
        return [
            ToolCall(f"{place}-{name}", name, {"word": canary})
            for name in ("one", "two", "three")
        ]
    return " ".join(result.text for result in since)


def one(word: str) -> str:
    """Says it."""
    return word


def two(word: str) -> str:
    """Says it too."""
    return word


async def three(word: str) -> str:
    """Says it a little later."""
    await asyncio.sleep(0.001)
    return word


def open_files() -> int:
    """Of this process; 0 where the system does not say."""
    listed = Path("/proc/self/fd")
    return len(list(listed.iterdir())) if listed.is_dir() else 0


async def turns(where: str, sessions: int, each: int) -> list[Figure]:
    """Many sessions that are asked at the same time."""
    took: list[float] = []
    wrong = 0
    gc.collect()
    files = open_files()
    store = Sessions(where)
    model = ScriptedModel([_reply] * (sessions * each * 2))
    started = time.monotonic()
    async with Agent(model, tools=[one, two, three], sessions=store) as agent:

        async def talk(number: int) -> None:
            nonlocal wrong
            canary = f"canary{number:05}"
            session = await asyncio.to_thread(agent.session, f"s{number}")
            for turn in range(each):
                begun = time.monotonic()
                answer = await session.ask(f"turn {turn} {canary}")
                took.append(time.monotonic() - begun)
                wrong += answer != " ".join([canary] * 3)

        await asyncio.gather(*map(talk, range(sessions)))
    seconds = time.monotonic() - started
    for info in store.sessions():
        kept = store.read(info.id)
        canary = f"canary{int(info.id[1:]):05}"
        text = repr(kept.messages)
        wrong += kept.info.turns != each or text.count("canary") != text.count(canary)
    store.close()
    gc.collect()
    return [
        Figure(
            f"{sessions} sessions x {each} turns x 3 tools: a turn, p99",
            share(took, 0.99),
            "s",
            2.0,
        ),
        Figure("  a turn, half of them", share(took, 0.5), "s"),
        Figure("  turns in a second", len(took) / seconds, "/s"),
        Figure("  answers or histories with something of another", wrong, "", 0),
        Figure("  files still open", open_files() - files, "", 0),
    ]


# -- many processes at one store ---------------------------------------------------------------------------------------


def _entries(place: int, text: str) -> list[MessageAppended | SessionInfo]:
    now = time.time()
    return [
        MessageAppended(place, Message("user", (Text(text),))),
        SessionInfo("", "", now, now, messages=place + 1),
    ]


def _append(where: str, number: int, appends: int, told: Any) -> None:
    store = Sessions(where)
    took: list[float] = []
    failed = ""
    try:
        for place in range(appends + 1):
            begun = time.monotonic()
            store.write(f"w{number}", _entries(place, f"word {place} " * 20)).result()
            took.append(time.monotonic() - begun)
    except Exception as error:  # noqa: BLE001 - counted
        failed = f"{type(error).__name__}: {error}"
    store.close()
    told.put((took[1:], failed))  # the first one makes the program ready for the others


def _first(where: str, number: int, ready: Any, told: Any) -> None:
    ready.wait(60)
    failed = ""
    try:
        store = Sessions(where)
        store.write(f"f{number}", _entries(0, "x")).result()
        store.close()
    except Exception as error:  # noqa: BLE001 - counted
        failed = f"{type(error).__name__}: {error}"
    told.put(([], failed))


def _together(
    work: Callable[..., None], count: int, arguments: Callable[[int], tuple[Any, ...]]
) -> list[Any]:
    forking = multiprocessing.get_context("fork")
    told = forking.Queue()
    processes = [
        forking.Process(target=work, args=(*arguments(number), told))
        for number in range(count)
    ]
    for process in processes:
        process.start()
    results = [told.get(timeout=600) for _ in processes]
    for process in processes:
        process.join(60)
    return results


def writers(where: str, processes: int, appends: int) -> list[Figure]:
    """Processes that write into one store at the same time."""
    results = _together(_append, processes, lambda number: (where, number, appends))
    took = [seconds for times, _ in results for seconds in times]
    for failed in {failed for _, failed in results if failed}:
        print(failed, file=sys.stderr)
    store = Sessions(where)
    lost = processes * appends - sum(
        info.messages for info in store.sessions() if info.id.startswith("w")
    )
    store.close()
    lost += processes
    return [
        Figure(
            f"{processes} processes x {appends} appends: one, p99",
            share(took, 0.99) * 1000,
            "ms",
            50.0,
        ),
        Figure("  one, half of them", share(took, 0.5) * 1000, "ms"),
        Figure(
            "  processes that failed", sum(bool(failed) for _, failed in results), "", 0
        ),
        Figure("  appends that are not there", lost, "", 0),
    ]


def first(places: Sequence[str], processes: int) -> list[Figure]:
    """Processes that are the first in a store at the same moment."""
    failures = []
    for where in places:
        ready = multiprocessing.get_context("fork").Barrier(processes)
        results = _together(_first, processes, lambda number: (where, number, ready))  # noqa: B023 - used in this round
        failures += [failed for _, failed in results if failed]
    for failed in set(failures):
        print(failed, file=sys.stderr)
    return [
        Figure(
            f"{processes} processes at {len(places)} new stores: failed",
            len(failures),
            "",
            0,
        )
    ]


# -- many that are idle ------------------------------------------------------------------------------------------------


async def _idle(store: Sessions | None, sessions: int) -> int:
    async with Agent(
        ScriptedModel(["fine"] * (sessions + 1)),
        tools=[one, two, three],
        sessions=store,
    ) as agent:
        await agent.session("warm").ask("hello")
        gc.collect()
        tracemalloc.start()
        held = [agent.session(f"i{number}") for number in range(sessions)]
        for session in held:
            await session.ask("hello")
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(held) == sessions
    return taken


async def idle(where: str, sessions: int) -> list[Figure]:
    """What sessions take that wait for somebody to come back."""
    await _idle(None, 20)  # what is made once is nobody's
    without = await _idle(None, sessions)
    store = Sessions(where)
    kept = await _idle(store, sessions)
    store.close()
    return [
        Figure(
            f"{sessions} idle sessions in a store: each", kept / sessions / 1000, "kB"
        ),
        Figure("  beside those that are in memory alone", kept / without, "x", 1.5),
    ]


def measured(places: Callable[[str], str], *, small: bool) -> list[Figure]:
    """All of it; `places` gives a store that nobody has used by a name."""
    few = 20 if small else 1
    figures = first(
        [places(f"first{number}") for number in range(50 // min(few, 10))], 8
    )
    figures += writers(places("writers"), 8, 1_000 // min(few, 5))
    figures += asyncio.run(turns(places("turns"), 200 // few, 20 // min(few, 4)))
    figures += asyncio.run(idle(places("idle"), 1_000 // few))
    return figures


def main() -> int:
    """Prints a line for each figure; gives 1 if a limit is not held."""
    parser = argparse.ArgumentParser(description="What conversations that last cost.")
    parser.add_argument("--small", action="store_true", help="a small part of it")
    parser.add_argument(
        "--postgres",
        metavar="ADDRESS",
        help="of a server; databases are made in it, and dropped",
    )
    parser.add_argument("--json", action="store_true", help="as one line of JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made: list[str] = []

        def place(name: str) -> str:
            if options.postgres is None:
                return str(Path(folder) / name / "sessions.db")
            import psycopg

            database = f"mcpagent_bench_{name}_{os.getpid()}"
            with psycopg.connect(options.postgres, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {database}")
            made.append(database)
            base, _, query = options.postgres.partition("?")
            return f"{base.rpartition('/')[0]}/{database}{'?' if query else ''}{query}"

        try:
            figures = measured(place, small=options.small)
        finally:
            if made:
                import psycopg

                with psycopg.connect(options.postgres, autocommit=True) as connection:
                    for database in made:
                        connection.execute(f"DROP DATABASE {database} WITH (FORCE)")
    if options.json:
        print(json.dumps({figure.name.strip(): figure.value for figure in figures}))
    else:
        print(*figures, sep="\n")
    return 0 if all(figure.is_held for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
