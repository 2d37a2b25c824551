"""Opening connections to one server: each opening ends with the server ready, or failed with a reason that is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from mcpagent.config import ServerConfig
from mcpagent.errors import ServerError
from mcpagent.events import Emit, ServerConnected, ServerConnecting, ServerFailed
from mcpagent.mcp.cache import CachedServer
from mcpagent.mcp.handlers import Handlers
from mcpagent.mcp.known_lists import KnownLists
from mcpagent.mcp.lists import ServerLists
from mcpagent.mcp.redaction import Redactor
from mcpagent.mcp.server_log import ServerLog, log_path
from mcpagent.mcp.status import ServerStatus
from mcpagent.mcp.telling import Telling
from mcpagent.safe_text import safe_line, safe_text

if TYPE_CHECKING:
    import httpx2

    from mcpagent.mcp.connection import McpConnection

Authenticate: TypeAlias = "Callable[[ServerConfig], httpx2.Auth | None]"
"""Gives a remote server's authentication when it is connected, and not before: it may have to load something."""


class Opening:
    """`status` is what became of the last opening, or what the cache says, without the count of tools and warnings.

    `handlers` gives what the server of a new connection may ask of us.
    """

    def __init__(
        self,
        config: ServerConfig,
        lists: KnownLists,
        telling: Telling,
        *,
        emit: Emit,
        environ: Mapping[str, str] | None,
        handlers: Callable[[], Handlers],
        auth: httpx2.Auth | Authenticate | None,
        log_folder: Path | None,
    ) -> None:
        self.status = ServerStatus(config.name, "closed")
        self._config = config
        self._lists = lists
        self._telling = telling
        self._emit = emit
        self._environ = environ
        self._handlers = handlers
        self._auth = auth
        self._log_folder = log_folder
        self._redact = Redactor(config)
        self._is_modern: bool | None = None
        self._last_failure = ""

    def load(self) -> CachedServer | None:
        """What the cache knows of the server becomes its lists and status."""
        cached = self._lists.load()
        if cached is not None:
            self._is_modern = cached.is_modern
            self.status = ServerStatus(
                self._config.name,
                "cached",
                protocol_version=cached.protocol_version,
                title=cached.title,
                instructions=cached.instructions,
                age_seconds=cached.age_seconds,
            )
        return cached

    def forget(self) -> None:
        """It counts as never opened: the next opening reads the lists, and a failure is told again."""
        self.status = replace(self.status, state="closed")
        self._last_failure = ""

    def close(self) -> None:
        self.status = replace(self.status, state="closed")

    async def open(self) -> McpConnection:
        """A new connection, and the lists where the server is not ready already. Raises `ServerError`.

        Whatever goes wrong, also by a mistake of ours, is one server's failure and is told as such.
        """
        before, started = self.status, time.monotonic()
        connection: McpConnection | None = None
        try:
            if before.state == "ready":
                return await self._connection()
            self.status = ServerStatus(self._config.name, "connecting")
            self._emit(ServerConnecting(self._config.name))
            connection = await self._connection()
            lists = await self._read_lists(connection)
            self.status = _status_of(connection, self._config, self._redact, time.monotonic() - started)
            self._take(lists)
        except BaseException as error:
            if connection is not None:
                await connection.close()
            if not isinstance(error, Exception):  # cancelled: nobody waits for it any more
                self.status = before
                raise
            failure = self._as_failure(error)
            self._has_failed(failure, time.monotonic() - started)
            raise failure from (None if failure is error else error)
        self._last_failure = ""
        self._emit(ServerConnected(self._config.name, len(self._lists.tools), self.status.seconds))
        return connection

    async def read_again(self, connection: McpConnection) -> None:
        """The lists as they are now, over a connection that was opened. Raises `ServerError`."""
        self._take(await self._read_lists(connection))

    async def _read_lists(self, connection: McpConnection) -> ServerLists:
        from mcpagent.mcp.listing import read_lists

        return await read_lists(connection, self._config, self._telling.warn)

    def _take(self, lists: ServerLists) -> None:
        about = self.status
        self._lists.take(CachedServer(lists, self._is_modern, about.protocol_version, about.title, about.instructions))

    async def _connection(self) -> McpConnection:
        from mcpagent.mcp.connection import McpConnection

        is_legacy = self._is_modern is False or self._config.era == "legacy"
        log = None
        if self._log_folder is not None:
            log = ServerLog(log_path(self._log_folder, self._config.name), self._redact)
        connection = McpConnection(
            self._config,
            self._telling,
            era="legacy" if is_legacy else "auto",
            environ=self._environ,
            handlers=self._handlers(),
            auth=self._auth(self._config) if callable(self._auth) else self._auth,
            log=log,
        )
        await connection.open()
        self._is_modern = connection.is_modern
        return connection

    def _as_failure(self, error: Exception) -> ServerError:
        if isinstance(error, ServerError):
            return error
        name = self._config.name
        what = safe_line(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__, 300)
        text = self._redact(f'server "{name}" could not be opened: {what}; this is a mistake of mcpagent or its setup')
        return ServerError(text, server=name, phase="connect")

    def _has_failed(self, error: ServerError, seconds: float) -> None:
        name = self._config.name
        was_told, self._last_failure = self._last_failure == str(error), str(error)
        self.status = ServerStatus(name, "failed", reason=str(error), seconds=seconds)
        self._lists.forget()
        if not was_told:
            self._emit(ServerFailed(name, str(error), error.stderr_tail))


def _status_of(connection: McpConnection, config: ServerConfig, redact: Redactor, seconds: float) -> ServerStatus:
    session = connection.session
    info = session.server_info
    return ServerStatus(
        config.name,
        "ready",
        seconds=seconds,
        protocol_version=safe_line(session.protocol_version or "", 40),
        title=safe_line(redact.result((info.title or info.name) if info else ""), 100),
        instructions=redact.result(safe_text(session.instructions or "")),
    )
