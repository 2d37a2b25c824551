"""Reading a server's lists again in the background, however often it says that they changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

DEBOUNCE_SECONDS = 0.25
SETTLE_SECONDS = 2.0


class Refreshing:
    """Runs `read` at most once in `DEBOUNCE_SECONDS`; what it raises is a warning. `close` is for good."""

    def __init__(self, server: str, read: Callable[[], Awaitable[None]], warn: Callable[[str], None]) -> None:
        self._server = server
        self._read = read
        self._warn = warn
        self._task: asyncio.Task[None] | None = None
        self._is_stale = False
        self._is_announced = False
        self._is_closed = False

    def soon(self) -> None:
        """Reads once more, in a moment."""
        if (self._task is None or self._task.done()) and not self._is_closed:
            self._task = asyncio.create_task(self._run(), name=f"mcp-refresh-{self._server}")

    def announced(self) -> None:
        """The server says that something changed: read soon, and again where that is under way already."""
        self._is_stale = True
        self._is_announced = True
        self.soon()

    async def settled(self) -> None:
        """Waits a little for lists that were said to have changed, so that what a call did is known when it returns."""
        if self._is_announced and self._task is not None and not self._task.done():
            await asyncio.wait({self._task}, timeout=SETTLE_SECONDS)

    async def close(self) -> None:
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(DEBOUNCE_SECONDS)
            self._is_stale = False
            try:
                await self._read()
            except Exception as error:  # noqa: BLE001  nobody waits for it, so it must be told
                self._warn(f"its lists could not be read again: {error}")
            if not self._is_stale:
                self._is_announced = False
                return
