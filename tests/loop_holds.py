"""How long an event loop is held, by a ticker, against a control in the same run; or how much it does in one turn."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

MOST_SECONDS = 0.05
"""What the loop may be held beyond what the control is held on the same machine."""


async def longest_hold(work: Callable[[], Awaitable[Any]]) -> tuple[float, Any]:
    """Return the longest time between two ticks of the loop while the work runs, in seconds, and its result."""
    longest, is_over = 0.0, False

    async def tick() -> None:
        nonlocal longest
        before = time.perf_counter()
        while not is_over:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            longest, before = max(longest, now - before), now

    ticker = asyncio.create_task(tick())
    try:
        await asyncio.sleep(0)
        result = await work()
    finally:
        is_over = True
        await ticker
    return longest, result


async def control_hold() -> float:
    """Return the same of a worker thread that runs plain Python for a second: what any thread costs the loop here."""

    def busy() -> None:
        until = time.thread_time() + 1.0
        while time.thread_time() < until:
            sum(range(100))

    held, _ = await longest_hold(lambda: asyncio.to_thread(busy))
    return held


async def too_long_hold(work: Callable[[], Awaitable[Any]]) -> str:
    """Return how long the work holds the loop if that is too long, else ""; others use this machine too."""
    held: list[float] = []
    for _ in range(3):
        longest, _ = await longest_hold(work)
        held.append(longest)
        if longest <= MOST_SECONDS:
            return ""
    control = max([await control_hold() for _ in range(3)])
    if min(held) < control + MOST_SECONDS:
        return ""
    return f"held for {held}, control {control}"


async def blocking_hold(megabytes: int) -> float:
    """Return the same of a parser in C over so much JSON in a thread: what the steps avoid."""
    data = json.dumps([{"id": number, "name": "row"} for number in range(megabytes * 35_000)])
    held, _ = await longest_hold(lambda: asyncio.to_thread(json.loads, data))
    return held


@dataclass(slots=True)
class Turns:
    """Work of an event loop, counted by its turns: a count depends on no clock and no other program."""

    most: int = 0
    _now: int = 0

    def add(self, amount: int = 1) -> None:
        """Count work of the current turn."""
        self._now += amount

    def end(self) -> None:
        """End the turn."""
        self.most, self._now = max(self.most, self._now), 0


@asynccontextmanager
async def counted_turns(*turns: Turns) -> AsyncIterator[None]:
    """End each of these at every turn of the loop."""

    async def end() -> None:
        while True:
            for one in turns:
                one.end()
            await asyncio.sleep(0)

    ending = asyncio.create_task(end())
    try:
        yield
    finally:
        ending.cancel()
        await asyncio.wait({ending})
        for one in turns:
            one.end()


async def most_calls(work: Callable[[], Awaitable[Any]]) -> tuple[int, Any]:
    """Return the most functions that the thread of the loop calls in one turn while the work runs, and its result."""
    calls = Turns()
    async with counted_turns(calls):
        sys.setprofile(lambda _frame, event, _argument: calls.add("call" in event))
        try:
            result = await work()
        finally:
            sys.setprofile(None)
    return calls.most, result
