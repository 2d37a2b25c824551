"""Requests in progress on one connection: their timeouts, IDs and results.

A timeout for silence ends a request early; progress and each part of the response restart it. The total timeout always
applies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

from mcp_types import RequestId
from pydantic import RootModel

from mcpagent.mcp.request_failures import RequestLimits
from mcpagent.run.agent_run import current_run

Progress: TypeAlias = Callable[[float, float | None, str], None]
"""Callback for the progress of a request: the progress so far, the total (None: unknown), and a message."""


class RawResult(RootModel[dict[str, Any]]):
    """A result for `ClientSession.send_request` that preserves all fields; the SDK's models would drop some."""


class Attempt:
    """An attempt to send a request, with all messages for it; enter `timeout` around it.

    `sent_id` is the ID of the last message sent for it, None before that. `has_begun`: the server already executes it,
    even if later messages fail. `silent_from` is the time of the last part of its response.
    """

    def __init__(
        self, limits: RequestLimits, on_progress: Progress | None, *, is_paused: bool
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle = limits.idle
        self._end = self._loop.time() + limits.total
        self._is_paused = is_paused
        self._on_progress = on_progress
        self._result: dict[str, Any] | None = None
        self.silent_from = self._loop.time()
        self.timeout = asyncio.timeout_at(self._due())
        self.run = current_run()
        self.sent_id: RequestId | None = None
        self.has_begun = False

    @property
    def is_total_over(self) -> bool:
        """Return whether the total time is used up; if not, a timeout was caused by the server's silence."""
        return self._loop.time() >= self._end

    async def heard(
        self, progress: float, total: float | None, message: str | None
    ) -> None:
        """Process the server's progress report (the SDK's `ProgressFnT`), which ends its silence."""
        self.restart_silence()
        if self._on_progress is not None:
            self._on_progress(progress, total, message or "")

    def pause(self, is_paused: bool) -> None:
        """Pause or resume the timeout for the server's silence."""
        self._is_paused = is_paused
        self.restart_silence()

    def take(self, result: dict[str, Any]) -> None:
        """Store a result; the SDK gets a placeholder."""
        self._result = result

    def whole(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return the result from the SDK; if that is a placeholder, the stored result."""
        kept, self._result = self._result, None
        if kept is None:
            return result
        return kept

    def _due(self) -> float:
        if self._is_paused:
            return self._end
        return min(self._end, self._loop.time() + self._idle)

    def restart_silence(self) -> None:
        """Restart the timeout for silence, because a part of the response has arrived."""
        self.silent_from = self._loop.time()
        if not self.timeout.expired():
            self.timeout.reschedule(self._due())


_current: ContextVar[Attempt | None] = ContextVar("mcp_attempt", default=None)


class Attempts:
    """All attempts in progress on one connection."""

    def __init__(self) -> None:
        self._open: set[Attempt] = set()
        self._asking = 0
        self._heard_at = 0.0

    def __bool__(self) -> bool:
        return bool(self._open)

    @contextmanager
    def opened(
        self, limits: RequestLimits, on_progress: Progress | None
    ) -> Iterator[Attempt]:
        """Begin an attempt; messages that this task sends inside the block belong to it."""
        attempt = Attempt(limits, on_progress, is_paused=self._asking > 0)
        before = _current.set(attempt)
        self._open.add(attempt)
        try:
            yield attempt
        finally:
            self._open.discard(attempt)
            _current.reset(before)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause timeouts for silence and run time while the user answers a server's question; total timeouts
        continue.
        """
        runs = {
            id(run): run for attempt in self._open if (run := attempt.run) is not None
        }
        self._asking += 1
        self._pause(True)
        try:
            with ExitStack() as clocks:
                for run in runs.values():
                    clocks.enter_context(run.asking_a_person())
                yield
        finally:
            self._asking -= 1
            self._pause(self._asking > 0)

    def heard(self, *, is_answer: bool, request_id: RequestId | None = None) -> None:
        """Record that bytes were received.

        Bytes of a response restart the timeout for silence of its request, or of all requests if its ID is unknown.
        Other bytes restart no timeout, but the server was not silent.
        """
        self._heard_at = asyncio.get_running_loop().time()
        for attempt in self._open if is_answer else ():
            if request_id is None or attempt.sent_id == request_id:
                attempt.restart_silence()

    def was_silent(self, attempt: Attempt) -> bool:
        """Return whether no bytes at all have arrived since the last part of this attempt's response."""
        return self._heard_at <= attempt.silent_from

    def _pause(self, is_paused: bool) -> None:
        for attempt in self._open:
            attempt.pause(is_paused)

    def sent(self, request_id: RequestId) -> None:
        """Record the ID of a message that the calling task sends."""
        if (attempt := self._mine()) is not None:
            attempt.sent_id = request_id

    def takes(self, result: dict[str, Any]) -> bool:
        """Return whether the calling task's attempt has stored the result, so that it bypasses the SDK."""
        attempt = self._mine()
        if attempt is not None:
            attempt.take(result)
        return attempt is not None

    def _mine(self) -> Attempt | None:
        attempt = _current.get()
        if attempt in self._open:
            return attempt
        return None
