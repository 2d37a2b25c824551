"""Measure the duration of a run, without the time that a person needs to decide, and end a run that takes too long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class RunClock:
    """A clock that starts when it is created, and pauses during questions to a person."""

    __slots__ = ("_before", "_left", "_limit", "_since", "_waits")

    def __init__(self) -> None:
        self._since, self._before, self._waits = time.monotonic(), 0.0, 0
        self._limit: asyncio.Timeout | None = None
        self._left = 0.0

    @property
    def seconds(self) -> float:
        """Return how long the clock has run."""
        return self._before + (0.0 if self._waits else time.monotonic() - self._since)

    @property
    def is_limited(self) -> bool:
        """Return whether a time limit applies at the moment (`limited`)."""
        return self._limit is not None

    @property
    def is_up(self) -> bool:
        """Return whether the time limit has expired, so that the work under it is being cancelled."""
        return self._limit is not None and self._limit.expired()

    def stop(self) -> None:
        """Stop the clock permanently."""
        self._before = self.seconds
        self._waits += 1

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Pause the clock and the time limit while a question is open; several questions may be open at once."""
        if not self._waits:
            self._before = self.seconds
        self._waits += 1
        self._set()
        try:
            yield
        finally:
            self._waits -= 1
            if not self._waits:
                self._since = time.monotonic()
            self._set()

    @asynccontextmanager
    async def limited(self, seconds: float | None) -> AsyncIterator[None]:
        """Cancel the work in this context and raise `TimeoutError` when the clock exceeds `seconds`; None: no limit."""
        if seconds is None:
            yield
            return
        self._left = seconds
        limit = asyncio.timeout(None)
        try:
            async with limit:
                self._limit = limit
                self._set()
                yield
        finally:
            if not limit.expired():
                self._limit = None

    def end(self) -> None:
        """Cancel the work under the time limit now."""
        self._left = 0.0
        self._set()

    def _set(self) -> None:
        """Set the deadline from the remaining time; there is no deadline while the clock is paused."""
        if self._limit is None or self._limit.expired():
            return
        now = asyncio.get_running_loop().time()
        self._limit.reschedule(
            None if self._waits else now + max(self._left - self.seconds, 0.0)
        )
