"""Send HTTP messages that need no answer in the background; a failure does not end the session.

The SDK would post such messages one by one, before all later ones, and end the session if one cannot be sent.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import httpx2
from mcp.client.auth import OAuthFlowError

MOST_AT_ONCE = 100
LONGEST_SECONDS = 30.0


class BackgroundPosts:
    """Sends HTTP messages through `send`, in the background."""

    def __init__(
        self, send: Callable[[httpx2.Request], Awaitable[httpx2.Response]]
    ) -> None:
        self._send = send
        self._tasks: set[asyncio.Task[None]] = set()

    async def post(self, request: httpx2.Request, patience: float = 0.0) -> bool:
        """Send a message in the background; return whether the server responds within `patience` seconds.

        If `MOST_AT_ONCE` are in progress, wait first until one has ended.
        """
        while len(self._tasks) >= MOST_AT_ONCE:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.create_task(self._sent(request), name="mcp-one-way")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if patience:
            await asyncio.wait({task}, timeout=patience)
        return task.done()

    async def aclose(self) -> None:
        """Cancel the messages in progress."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _sent(self, request: httpx2.Request) -> None:
        with contextlib.suppress(httpx2.TransportError, OAuthFlowError, TimeoutError):
            async with asyncio.timeout(LONGEST_SECONDS):
                response = await self._send(request)
                await response.aclose()
