"""Writers that are killed: `python -m tests.attack.killed_writers KIND FOLDER KILLS`, which prints what became of it.

All that we write to disk is written as we write it, in a process forked for each kill, so that nothing has to be
imported again. A writer acknowledges each write once it is done; SIGKILL comes at a moment after the first of them that
a generator of random numbers chose, the same in each run, but for what the machine makes of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from mcpagent import Agent, Recorder, Replay, RunOptions, ScriptedModel
from mcpagent.cli.servers.server_editing import open_file
from mcpagent.config.secret_store import NO_KEYRING, SecretStore
from mcpagent.permissions.trust.descriptions import Description
from mcpagent.permissions.trust.trust_store import TrustStore
from tests.utilities.filesystem.test_file_changes_attacked import found, write

KILLS_OF_A_FOLDER = 10
MANY = 1_000_000
Acknowledge = Callable[[int], None]


def one(kind: str, folder: Path, number: int) -> None:
    """One write; it is acknowledged when this returns."""
    name = f"k{number}"
    match kind:
        case "trust":
            TrustStore(folder / "trust.json").add([Description(name, str(folder), name, ())])
        case "servers":
            open_file(folder / "mcp.json", is_project=False).saved(
                lambda file: file.with_entry(name, {"command": name, "args": ["x" * 500]})
            )
        case "secrets":
            SecretStore(folder / "keys", keyring=NO_KEYRING).set(f"KEY_{number % 7}", name)
        case _:
            write(kind, "k", number, folder)


def there(kind: str, folder: Path, acknowledged: list[int]) -> set[str]:
    """What of these, the last of which may be one that was not acknowledged, is read back."""
    names = [f"k{number}" for number in range(acknowledged[-1] + 2)]
    match kind:
        case "trust":
            known = TrustStore(folder / "trust.json").digests()
            return {name for name in names if Description(name, str(folder), name, ()).digest() in known}
        case "servers":
            return set(open_file(folder / "mcp.json", is_project=False).entries)
        case "secrets":
            store = SecretStore(folder / "keys", keyring=NO_KEYRING)
            return {value for number in range(7) if (value := store.get(f"KEY_{number}")) is not None}
        case _:
            return found(kind, folder, ("k",), len(names))


def missing(kind: str, folder: Path, acknowledged: list[int]) -> set[str]:
    """What was acknowledged and is lost. In a cache, and under one name, a later write counts, which may have come."""
    known, last = there(kind, folder, acknowledged), acknowledged[-1]
    if kind == "lists":
        return set() if known <= {f"k{last}", f"k{last + 1}"} else {f"k{last}"}
    if kind == "secrets":
        latest = {number % 7: number for number in acknowledged}
        kept = {int(value[1:]) % 7: int(value[1:]) for value in known}
        return {f"k{number}" for key, number in latest.items() if kept.get(key, -1) < number}
    return {f"k{number}" for number in acknowledged} - known


async def record(path: Path, acknowledge: Acknowledge) -> None:
    async with Agent(ScriptedModel(["18"] * 10_000), options=RunOptions(wrappers=[Recorder(path)])) as agent:
        for number in range(10_000):
            await agent.ask(f"how warm {number}?")
            acknowledge(number)


async def replayed(path: Path, acknowledged: list[int]) -> set[str]:
    """The acknowledged answers that a killed recording does not give."""
    async with Agent(options=RunOptions(wrappers=[Replay(path)])) as agent:
        answers = [await agent.ask(f"how warm {number}?") for number in acknowledged]
    return {f"answer {number}" for number, answer in zip(acknowledged, answers, strict=True) if answer != "18"}


def killed(work: Callable[[Acknowledge], None], wanted: int, delay: float) -> list[int]:
    """The numbers that a forked writer acknowledged before it was killed, `delay` seconds after `wanted` of them."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            work(lambda number: (os.write(writing, b"%d\n" % number), None)[1])
        finally:
            os._exit(70)  # a writer that ends by itself failed
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        done = [int(line) for line in (told.readline() for _ in range(wanted)) if line]
        until = time.monotonic() + delay
        while time.monotonic() < until:
            pass  # a sleep is not as exact
        os.kill(child, signal.SIGKILL)
        done += map(int, told.read().split())
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status), f"the writer ended by itself, {status}"
    return done


def left_behind(folder: Path) -> list[Path]:
    return sorted(folder.rglob(".mcpagent-new-*"))


def kills(kind: str, folder: Path, count: int) -> Iterator[tuple[int, int, set[str]]]:
    """For each kill: how many writes were acknowledged, how many files were half written, and what is lost.

    After the last one in a folder the next writer has to remove what is older than an hour, which it is made to be.
    """
    chance = random.Random(kind)
    acknowledged: list[int] = []
    for kill in range(count):
        here = folder / str(kill // KILLS_OF_A_FOLDER)
        here.mkdir(exist_ok=True)
        wanted, delay = chance.randint(1, 4), chance.uniform(0, 0.006)
        if kind == "recording":
            path = here / f"{kill}.jsonl"
            done = killed(lambda told, path=path: asyncio.run(record(path, told)), wanted, delay)  # type: ignore[misc]
            yield len(done), 0, asyncio.run(replayed(path, done))
            continue
        acknowledged = [] if kill % KILLS_OF_A_FOLDER == 0 else acknowledged
        first = acknowledged[-1] + 2 if acknowledged else 0

        def write_on(told: Acknowledge, here: Path = here, first: int = first) -> None:
            for number in range(first, MANY):
                one(kind, here, number)
                told(number)

        done = killed(write_on, wanted, delay)
        acknowledged += done
        yield len(done), len(left_behind(here)), missing(kind, here, acknowledged)
        if kill % KILLS_OF_A_FOLDER == KILLS_OF_A_FOLDER - 1:
            long_ago = time.time() - 7_200
            for temporary in left_behind(here):
                os.utime(temporary, (long_ago, long_ago))
            one(kind, here, acknowledged[-1] + 2)
            assert left_behind(here) == []


if __name__ == "__main__":
    told = list(kills(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
    print(
        json.dumps(
            {
                "kills": len(told),
                "least": min(done for done, _, _ in told),
                "acknowledged": sum(done for done, _, _ in told),
                "half": sum(half for _, half, _ in told),
                "lost": sorted({name for _, _, lost in told for name in lost}),
            }
        )
    )
