"""The time limits of requests: silence ends one early, progress starts it anew, the total holds whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from mcpagent.mcp.failures import Limits


class OutOfTimeError(Exception):
    """A request's time ran out; `was_total`: all of it, else by silence."""

    def __init__(self, *, was_total: bool) -> None:
        super().__init__("total" if was_total else "idle")
        self.was_total = was_total


class Clocks:
    """The limits of all open requests of one connection."""

    def __init__(self) -> None:
        self._open: set[Clock] = set()
        self._asking = 0

    def start(self, limits: Limits) -> Clock:
        """The limits of one request; counts from now."""
        clock = Clock(limits, is_paused=self._asking > 0)
        self._open.add(clock)
        return clock

    def stop(self, clock: Clock) -> None:
        self._open.discard(clock)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """While somebody here is asked by the server its silence is ours; the totals go on."""
        self._asking += 1
        for clock in self._open:
            clock.pause()
        try:
            yield
        finally:
            self._asking -= 1
            if not self._asking:
                for clock in self._open:
                    clock.resume()


class Clock:
    """One request's limits; `timeout` is to be entered around it."""

    def __init__(self, limits: Limits, *, is_paused: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle = limits.idle
        self._end = self._loop.time() + limits.total
        self._is_paused = is_paused
        self.timeout = asyncio.timeout_at(self._due())

    def _due(self) -> float:
        return self._end if self._is_paused else min(self._end, self._loop.time() + self._idle)

    def heard(self) -> None:
        """The server has told of its progress."""
        if not self.timeout.expired():
            self.timeout.reschedule(self._due())

    def pause(self) -> None:
        self._is_paused = True
        self.heard()

    def resume(self) -> None:
        self._is_paused = False
        self.heard()

    def error(self) -> OutOfTimeError:
        return OutOfTimeError(was_total=self._loop.time() >= self._end)
