"""Work that does not end when it is cancelled: waited for a moment, and then left to itself."""

from __future__ import annotations

import asyncio
from typing import Any

LEFT_AFTER_SECONDS = 2.0
"""So long work may take to end that was cancelled."""

_LEFT: set[asyncio.Future[Any]] = set()
"""An event loop does not keep its tasks by itself."""


async def has_ended(task: asyncio.Future[Any], seconds: float | None = LEFT_AFTER_SECONDS) -> bool:
    """Cancels the task and waits for its end, no longer than `seconds`; gives whether it came. None: however long.

    One that does not heed that goes on by itself, and nobody is told what comes of it.
    """
    if not task.done():
        _LEFT.add(task)
        task.add_done_callback(_forget)
        task.cancel()
        await asyncio.wait({task}, timeout=seconds)
    return task.done()


def _forget(task: asyncio.Future[Any]) -> None:
    _LEFT.discard(task)
    _ = task.cancelled() or task.exception()
