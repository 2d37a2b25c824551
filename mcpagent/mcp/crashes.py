"""Decide when a server that crashes repeatedly may start again."""

from __future__ import annotations

from collections import deque

WINDOW_SECONDS = 60.0
MOST_CRASHES = 5
OPEN_SECONDS = 30.0
_FIRST_DELAY_SECONDS = 0.5
_LONGEST_DELAY_SECONDS = 4.0


class CrashLog:
    """The crashes of one server within the last minute; times are seconds of a monotonic clock.

    The first crash causes no delay, each further one doubles it; a failed start always causes one. After
    `MOST_CRASHES`, no start is allowed for `OPEN_SECONDS`. Then one start is tried; if that crashes, starts are blocked
    again.
    """

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=MOST_CRASHES)
        self._failed_starts = 0
        self.last_reason = ""

    def add_failed_start(self, now: float, reason: str) -> None:
        """Count a start that failed before the server was usable; `reason` completes a sentence."""
        self._failed_starts += 1
        self.add(now, reason)

    def has_started(self) -> None:
        """Record a successful start, so that the next failed start counts as the first again."""
        self._failed_starts = 0

    def add(self, now: float, reason: str) -> None:
        """Count a crash of a server that was in use; `reason` completes a sentence."""
        self._times.append(now)
        self.last_reason = reason

    def count(self, now: float) -> int:
        """Return the number of crashes within the last `WINDOW_SECONDS`, at most `MOST_CRASHES`."""
        return sum(now - time < WINDOW_SECONDS for time in self._times)

    def blocked_seconds(self, now: float) -> float:
        """Return the seconds until a start is allowed; 0 if it is allowed now."""
        if self.count(now) < MOST_CRASHES:
            return 0.0
        return max(0.0, self._times[-1] + OPEN_SECONDS - now)

    def refusal(self, now: float) -> str:
        """Return why no start is allowed now, as the end of a sentence; "" if it is allowed."""
        blocked = self.blocked_seconds(now)
        what = f"died {self.count(now)} times within a minute ({self.last_reason})"
        if blocked:
            return f"{what}; tried again in {blocked:.0f} s"
        return ""

    def delay_seconds(self, now: float) -> float:
        """Return the delay in seconds before the next start."""
        doublings = max(
            self.count(now) - 2, min(self._failed_starts, self.count(now)) - 1
        )
        return (
            0.0
            if doublings < 0
            else min(_LONGEST_DELAY_SECONDS, _FIRST_DELAY_SECONDS * 2**doublings)
        )
