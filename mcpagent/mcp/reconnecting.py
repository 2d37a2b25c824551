"""The connection to one server: opened when it is needed, replaced when it has ended, and never two at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from mcpagent.errors import ServerError
from mcpagent.mcp.crashes import CrashLog

if TYPE_CHECKING:
    from mcpagent.mcp.connection import McpConnection


class Reconnecting:
    """Gives the connection that `open_connection` opened last, or a new one. `close` is for good."""

    def __init__(self, server: str, open_connection: Callable[[], Awaitable[McpConnection]]) -> None:
        self._server = server
        self._open = open_connection
        self._connection: McpConnection | None = None
        self._lock = asyncio.Lock()
        self._crashes = CrashLog()
        self.is_closed = False

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and self._connection.usable

    async def get(self) -> McpConnection:
        """One caller connects, the others wait for it. Raises `ServerError`."""
        async with self._lock:
            if self.is_closed:
                raise self._error("is closed", "connect")
            connection = self._connection
            if connection is not None and connection.usable:
                return connection
            if connection is not None:
                self._crashes.add(time.monotonic(), connection.end_reason)
                await self.drop()
            await self._wait_for_turn()
            try:
                self._connection = await self._open()
            except ServerError as error:
                self._crashes.add_failed_start(time.monotonic(), str(error))
                raise
            self._crashes.has_started()
            return self._connection

    async def restart(self) -> McpConnection:
        """A new connection, whatever there was; crashes before are forgotten, so nothing holds the start back."""
        async with self._lock:
            await self.drop()
            self._crashes = CrashLog()
        return await self.get()

    async def drop(self, only: McpConnection | None = None) -> None:
        """Closes the connection; where `only` is given, not one that has taken its place since."""
        if only is not None and only is not self._connection:
            return
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def close(self) -> None:
        self.is_closed = True
        await self.drop()

    async def _wait_for_turn(self) -> None:
        """Holds back starts of a server that keeps dying. Raises `ServerError` where none may be tried now."""
        now = time.monotonic()
        if blocked := self._crashes.blocked_seconds(now):
            times, reason = self._crashes.count(now), self._crashes.last_reason
            raise self._error(f"died {times} times within a minute ({reason}); tried again in {blocked:.0f} s", "start")
        await asyncio.sleep(self._crashes.delay_seconds(now))

    def _error(self, what: str, phase: str) -> ServerError:
        return ServerError(f'server "{self._server}" {what}', server=self._server, phase=phase)
