"""Wait for cancelled work for a moment, then abandon it if it does not end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

LEFT_AFTER_SECONDS = 2.0
"""Maximum wait for the end of cancelled work."""

_LEFT: set[asyncio.Future[Any]] = set()
"""Strong references to abandoned tasks, since an event loop has only weak ones."""


async def end_or_leave(
    working: asyncio.Future[Any], seconds: float | None, tell: Callable[[], None]
) -> None:
    """Wait for the end of a task whose waiter was cancelled.

    Raises `CancelledError`, unless the task still returned or raised something: then the waiter's cancellation is
    withdrawn. A task that does not end within `seconds` is abandoned, and `tell` is called to report it.
    `seconds=None`: no limit.
    """
    _LEFT.add(working)
    working.add_done_callback(_forget)
    if not working.done():
        working.cancel()
        await asyncio.wait({working}, timeout=seconds)
    if not working.done():
        tell()
        raise asyncio.CancelledError
    if working.cancelled():
        raise asyncio.CancelledError


def times_cancelled() -> int:
    """Return the number of requests to cancel this task so far."""
    task = asyncio.current_task()
    if task is not None:
        return task.cancelling()
    return 0


def _forget(working: asyncio.Future[Any]) -> None:
    _LEFT.discard(working)
    _ = working.cancelled() or working.exception()
