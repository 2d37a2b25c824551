"""Measure the duration of a run without the time in which a person decides, and end a run that takes too long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class RunClock:
    """A clock that runs from its creation, and pauses during questions to a person."""

    __slots__ = ("_before", "_left", "_limit", "_since", "_waits")

    def __init__(self) -> None:
        self._since, self._before, self._waits = time.monotonic(), 0.0, 0
        self._limit: asyncio.Timeout | None = None
        self._left = 0.0

    @property
    def seconds(self) -> float:
        """So long it ran."""
        return self._before + (0.0 if self._waits else time.monotonic() - self._since)

    @property
    def is_limited(self) -> bool:
        """True while something is `limited` by it."""
        return self._limit is not None

    @property
    def is_up(self) -> bool:
        """True if the work that is `limited` by it is being ended, or was."""
        return self._limit is not None and self._limit.expired()

    def stop(self) -> None:
        """Stop the clock for good."""
        self._before = self.seconds
        self._waits += 1

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Pause the clock during a question, also several at a time; no work is ended meanwhile."""
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
        """Cancel the work in this context once the clock shows more than `seconds`, and raise `TimeoutError`."""
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
        """End the code that is `limited` by this clock now."""
        self._left = 0.0
        self._set()

    def _set(self) -> None:
        """Set the deadline by the remaining seconds; no deadline while the clock is paused."""
        if self._limit is None or self._limit.expired():
            return
        now = asyncio.get_running_loop().time()
        self._limit.reschedule(
            None if self._waits else now + max(self._left - self.seconds, 0.0)
        )
