"""How long an event loop is held, by a ticker, against a control in the same run."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
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


async def blocking_hold(megabytes: int) -> float:
    """Return the same of a parser in C over so much JSON in a thread: what the steps avoid."""
    data = json.dumps([{"id": number, "name": "row"} for number in range(megabytes * 35_000)])
    held, _ = await longest_hold(lambda: asyncio.to_thread(json.loads, data))
    return held
