"""Sessions that are killed: `python -m tests.journal.sessions.killed_sessions WHERE FOLDER KILLS TIMES SEED`.

`WHERE` is "sqlite" or the address of a PostgreSQL database. Each session is in a process forked from this one, so that
nothing has to be imported again. With KILLS 0 each is killed at one of the borders between two steps, `TIMES` at each
of them; else at a moment that a generator of random numbers chose.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcpagent import Sessions
from mcpagent.history.conversation import UNKNOWN
from mcpagent.journal.sessions.protocol import Entry
from mcpagent.models.base import ModelRequest
from tests.journal.sessions.provider_rules import require_valid
from tests.journal.sessions.scripted_turns import LAST, TURNS, Outside, agent, go_on, prompt

STORES_FOR_ALL = 25
"""So many killed sessions are in one store."""


@dataclass
class Told:
    """What became of all."""

    kills: int = 0
    at_border: Counter[str] = field(default_factory=Counter[str])
    acknowledged: int = 0
    unknown: int = 0
    wrong: list[str] = field(default_factory=list[str])


def watched(store: Sessions, at: Callable[[str], None]) -> None:
    """`at` hears before and after each write, in the midst of it, and before the session is taken."""
    inside: Any = store._store
    append, lease, execute = inside.append, inside.lease, inside.execute
    statements = 0

    def appending(session: str, entries: Sequence[Entry], owner: Any) -> bool:
        nonlocal statements
        statements = 0
        at("before a write")
        is_written = append(session, entries, owner)
        at("after a write")
        return bool(is_written)

    def leasing(session: str, owner: Any) -> Any:
        at("before it is held")
        other = lease(session, owner)
        at("after it is held")
        return other

    def executing(sql: str, values: Any = ()) -> Any:
        nonlocal statements
        statements += 1
        if statements == 4:
            at("in a transaction")
        return execute(sql, values)

    inside.append, inside.lease, inside.execute = appending, leasing, executing


def forked(work: Callable[[Callable[[str], None]], None], kill: Callable[[int], None] | None) -> tuple[list[str], bool]:
    """What the child acknowledged before it was killed, and whether it was; `kill` does so when it likes to."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.close(reading)
            work(lambda text: (os.write(writing, f"{text}\n".encode()), None)[1])
            code = 0
        except BaseException as error:  # noqa: BLE001 - told to whoever reads
            os.write(writing, f"!{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        if kill is not None:
            kill(child)
        said = told.read().decode().splitlines()
    status = os.waitpid(child, 0)[1]
    if failed := [line for line in said if line.startswith("!")]:
        raise AssertionError(failed[0])
    return said, os.WIFSIGNALED(status)


async def _run(where: str, name: str, log: Path, acknowledge: Callable[[str], None], at: Callable[[str], None]) -> None:
    store, outside = Sessions(where), Outside(log, at)
    watched(store, at)
    async with agent(store, outside, at) as made:
        session = made.session(name)
        acknowledge("ready")
        await go_on(session, acknowledge)
    store.close()


def killed_at_random(where: str, name: str, log: Path, delay: float) -> list[str]:
    def kill(child: int) -> None:
        until = time.monotonic() + delay
        while time.monotonic() < until:
            pass  # a sleep is not as exact
        os.kill(child, signal.SIGKILL)

    said, _ = forked(lambda told: asyncio.run(_run(where, name, log, told, lambda _: None)), kill)
    return said


def killed_at(where: str, name: str, log: Path, border: str, number: int) -> tuple[list[str], bool]:
    """Kills itself when it comes to this border for the so-manieth time."""

    def work(told: Callable[[str], None]) -> None:
        passed: Counter[str] = Counter()

        def at(passing: str) -> None:
            passed[passing] += 1
            if passing == border and passed[passing] == number:
                os.kill(os.getpid(), signal.SIGKILL)

        asyncio.run(_run(where, name, log, told, at))

    return forked(work, None)


async def check(where: str, name: str, log: Path, said: list[str], told: Told) -> None:
    """Goes on with it to the end, and looks at what is there, before and after."""

    def wrong(what: str) -> None:
        told.wrong.append(f"{name}: {what}")

    answers = [line for line in said if line != "ready"]
    told.acknowledged += len(answers)
    outside = Outside(log)
    sent_twice = {what for what, times in Counter(outside.done()).items() if times > 1}
    store = Sessions(where)
    async with agent(store, outside, checks=True) as made:
        session = made.session(name)
        texts = [message.text for message in session.messages if message.role == "assistant" and not message.tool_calls]
        if texts[: len(answers)] != answers:
            wrong(f"acknowledged {answers}, kept {texts}")
        if session.pending:
            wrong("calls wait that nobody was asked about")
        await go_on(session)
        messages = session.messages
        if messages[-1].text != LAST or [m.text for m in messages if m.role == "user"] != [
            prompt(turn) for turn in range(1, TURNS + 1)
        ]:
            wrong(f"ended as {[m.text for m in messages]}")
        require_valid(ModelRequest(session.system, messages, tuple(session.discovered_tools.values())))
        told.unknown += sum(result.text == UNKNOWN for m in messages for result in m.tool_results)
    store.close()
    for what, times in Counter(outside.done()).items():
        if times > 1 and (not what.startswith("look") or what in sent_twice):
            wrong(f"{what} ran {times} times")
    outside.close()
    again = Sessions(where)
    kept = again.read(name)
    if kept.messages != messages:
        wrong("another session is read than was left")
    async with agent(again, Outside(log)) as made:
        session = made.session(name)
        if session.messages != messages or session.is_unfinished:
            wrong("opening it once more changed it")
    again.close()


def new_place(where: str, folder: Path, number: int) -> str:
    return str(folder / f"{number}" / "sessions.db") if where == "sqlite" else where


def integrity(where: str, told: Told) -> None:
    store = Sessions(where)
    told.wrong += [line for line in store.check() if "ended without a word" not in line]
    store.close()
    if not where.startswith("postgres"):
        with closing(sqlite3.connect(where)) as connection:
            found = connection.execute("PRAGMA integrity_check").fetchall()
        told.wrong += [] if found == [("ok",)] else [str(found)]


BORDERS = {
    "before it is held": 1,
    "after it is held": 1,
    "before a write": 40,
    "in a transaction": 40,
    "after a write": 40,
    "asked": 15,
    "answered": 15,
    "sent": 15,
    "done": 15,
}
"""The borders, and how often a session comes to each."""


def main(where: str, folder: Path, kills: int, times: int, seed: int) -> Told:
    told, chance = Told(), random.Random(seed)
    # The whole of a session takes so long; nothing of it is of use after it.
    started = time.monotonic()
    log = folder / "whole"
    said, _ = forked(lambda ack: asyncio.run(_run(new_place(where, folder, -1), "w", log, ack, lambda _: None)), None)
    longest = time.monotonic() - started
    assert said[-1] == LAST, said
    asyncio.run(check(new_place(where, folder, -1), "w", log, said, Told()))
    gc.collect()
    gc.freeze()
    wanted: list[tuple[str, int] | None] = [None] * kills
    wanted += [(border, chance.randint(1, most)) for border, most in BORDERS.items() for _ in range(times)]
    for number, border in enumerate(wanted):
        place, name = new_place(where, folder, number // STORES_FOR_ALL), f"s{number}"
        log = folder / f"log{number}"
        if border is None:
            said = killed_at_random(place, name, log, chance.uniform(0, longest))
        else:
            said, was_killed = killed_at(place, name, log, *border)
            told.at_border[border[0]] += was_killed
        told.kills += 1
        if log.exists() or said:
            asyncio.run(check(place, name, log, said, told))
        if number % STORES_FOR_ALL == STORES_FOR_ALL - 1 or number == len(wanted) - 1:
            integrity(place, told)
    return told


if __name__ == "__main__":
    found = main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:6]))
    print(json.dumps({**found.__dict__, "wrong": found.wrong[:20]}))
