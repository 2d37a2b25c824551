"""The life cycle of one MCP server, and its tools: a state machine with one lock; one task owns the connection.

    closed ----enter, the cache has its lists------> cached
    closed, cached, failed -------needed-----------> connecting
    connecting ----session open, lists read--------> ready
    connecting ----any failure---------------------> failed
    connecting ----no caller waits any more--------> the previous state
    ready ---------its connection ended------------> ready: the next call opens another, or it is failed
    any -----------close---------------------------> closed

The state is a value (`LifeCycleState`) that is replaced, never changed, and only by the methods under "life". Methods
that open a connection hold the lock. Only `close` does not wait for it: it ends a connection that is being opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from mcpagent.config import ServerConfig
from mcpagent.errors import ServerError
from mcpagent.mcp.crashes import CrashLog
from mcpagent.mcp.handlers import Handlers, folder_uris
from mcpagent.mcp.lists.list_cache import CachedServer, ListCache
from mcpagent.mcp.lists.pins import (
    AllowChange,
    ChangedToolError,
    PinStore,
    ToolChange,
    refusal_of_change,
    standing_change,
)
from mcpagent.mcp.lists.server_lists import ServerLists, ToolsDifference, difference
from mcpagent.mcp.outcomes import MAY_BE_SENT_AGAIN
from mcpagent.mcp.request_failures import (
    REQUEST_FAILURES,
    CallTimeoutError,
    RefusedError,
    RequestFailure,
    RequestLimits,
    RequestLostError,
    failed_output,
    mistake_in,
)
from mcpagent.mcp.server_notifications import (
    NotificationLimiter,
    ReportNews,
    ServerNews,
)
from mcpagent.mcp.server_options import Authenticate
from mcpagent.mcp.server_status import LifeCycleState, ServerStatus
from mcpagent.mcp.tool_rules import enabled_tools, may_be_task, may_repeat
from mcpagent.utilities.python.worker_threads import (
    beside_loop,
    created_beside_loop,
    imported,
    is_large,
)
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import (
    data_without_random_secrets,
    without_random_secrets,
    without_secrets,
)
from mcpagent.values.events import (
    Emit,
    Notice,
    ServerConnected,
    ServerConnecting,
    ServerFailed,
    ServerLogged,
    ignore,
)
from mcpagent.values.messages import Text, ToolDefinition
from mcpagent.values.tools import Tool, ToolOutput

if TYPE_CHECKING:
    import httpx2
    import mcp_types as types

    from mcpagent.mcp.connection import McpConnection
    from mcpagent.mcp.pending_requests import Progress

DEBOUNCE_SECONDS = 0.25
"""Delay before changed lists are read again, also after several notifications."""
SETTLE_SECONDS = 2.0
"""Maximum time that a call waits for changed lists, so that its effect on them is known when it returns."""
_STEPS_BESIDE = 10
"""Over HTTP, notifications that precede a response arrive on a separate stream. Number of event loop steps in which
that stream, if open, is still read.
"""
LONG_CALL_SECONDS = 10.0
"""After a call that took longer, the tool is called as a task from then on, if the server allows a choice."""

OnToolsChanged: TypeAlias = Callable[[ToolsDifference], None]
OutputOf: TypeAlias = Callable[[dict[str, Any]], ToolOutput]


_MANY = 50
"""Minimum number of tools for which binding, comparing and writing happen in a worker thread."""


@dataclass(frozen=True, slots=True)
class _Read:
    """The lists that were just read from a server, its enabled tools, and the difference from the earlier tools."""

    known: CachedServer
    tools: tuple[Tool, ...]
    change: ToolsDifference


def _is_long(lists: ServerLists) -> bool:
    return len(lists.tools) > _MANY or is_large(
        [tool.parameters for tool in lists.tools]
    )


class ServerLink:
    """An MCP server as a toolset: its tools, prompts and resources. Enter it once; any task may enter and exit it.

    Entering raises `ServerError` if the server cannot be used. Later failures never raise: a failed call returns an
    output with the error, and the next call opens a new connection. `environ` is the environment from which the process
    inherits variables.

    If the `cache` has the server, entering reads the lists from there, and the first call starts the server, or a
    background task if `eager`. `on_tools_changed` is called when its tools have changed; `tools()` then returns the new
    ones. `on_news` receives its other notifications, also when its lists were read again. `handlers` define which
    requests the server may send; `auth` authenticates with a remote server. With `pins`, a tool that changed since its
    first use is called only if `allow_change` permits it. `log_folder` is the folder for its standard error
    (`server_log.log_path`).
    """

    def __init__(
        self,
        config: ServerConfig,
        *,
        emit: Emit = ignore,
        environ: Mapping[str, str] | None = None,
        cache: ListCache | None = None,
        eager: bool = False,
        handlers: Handlers | None = None,
        auth: httpx2.Auth | Authenticate | None = None,
        pins: PinStore | None = None,
        allow_change: AllowChange | None = None,
        log_folder: Path | None = None,
        on_tools_changed: OnToolsChanged | None = None,
        on_news: ReportNews | None = None,
    ) -> None:
        self.config = config
        self.limits = RequestLimits(
            config.timeout_seconds, config.total_timeout_seconds
        )
        self._emit = emit
        self._environ = environ
        self._cache = cache
        self._eager = eager
        self._handlers = (handlers or Handlers()).within(config)
        self._roots = (*self._handlers.root_uris(), *folder_uris(config.roots))
        self._auth = auth
        self._pins = pins
        self._allow_change = allow_change
        self._log_folder = log_folder
        self._on_tools_changed = on_tools_changed
        self._on_news = on_news
        self._news = NotificationLimiter(config.name, emit)
        self._life = LifeCycleState()
        self._lock = asyncio.Lock()
        self._crashes = CrashLog()
        self._last_failure = ""
        self._refreshing: asyncio.Task[None] | None = None
        self._announced = self._refreshed = 0
        """The number of list changes that the server announced, and the number that the current lists include."""
        self._subscribed: dict[str, None] = {}
        self._long: set[str] = set()

    @property
    def status(self) -> ServerStatus:
        """The status of the server for display."""
        return self._life.status(self.config.name, self._news.warnings)

    @property
    def life(self) -> LifeCycleState:
        """The state of the life cycle with its data; the same object until a value changes."""
        return self._life

    @property
    def is_known(self) -> bool:
        """Return whether its tools can be used: it is not closed, and its lists are known, perhaps from an earlier
        process.
        """
        return self._life.state != "closed" and self._life.taken > 0

    @property
    def since(self) -> float:
        """The monotonic time at which it last began to connect, which identifies the attempt."""
        return self._life.since

    @property
    def is_reading(self) -> bool:
        """Return whether lists that were announced as changed are being read again."""
        return (
            self._refreshing is not None
            and not self._refreshing.done()
            and self._refreshed != self._announced
        )

    async def rest(self) -> None:
        """Close the connection as if it had ended; the next request opens a new one."""
        async with self._lock:
            await self._drop(self._life.connection)

    async def fit_handlers(self) -> None:
        """Close the connection if its server was told of different handlers than the current ones; the next request
        opens a new one.
        """
        connection = self._life.connection
        if connection is not None and connection.allowed != self._handlers.methods():
            await self.rest()

    async def settled(self) -> None:
        """Wait until no connection is being opened; `life` then has the outcome."""
        async with self._lock:
            return

    @property
    def lists(self) -> ServerLists:
        """The latest lists from the server."""
        return self._life.known.lists

    @property
    def log(self) -> tuple[ServerLogged, ...]:
        """The latest log messages of the server (`notifications/message`)."""
        return self._news.log

    async def tools(self) -> list[Tool]:
        """Return `bound_tools`; part of the interface of toolsets."""
        return self.bound_tools()

    def bound_tools(self) -> list[Tool]:
        """Return the server's tools under their own names, in its order; the same objects until its list changes."""
        return list(self._life.tools)

    # --- life: only these methods replace `_life`

    async def __aenter__(self) -> ServerLink:
        cached = None
        if self._cache is not None:
            load = partial(self._cache.load, self.config)
            is_long = self._cache.is_long(self.config)
            cached = await created_beside_loop(load, is_much=is_long)
        if cached is None:
            await self.connected(is_entering=True)
            return self
        async with self._lock:
            self._life = replace(self._life, state="connecting", since=time.monotonic())
            bind = partial(enabled_tools, cached.lists, self.config, self.call)
            tools = await created_beside_loop(bind, is_much=_is_long(cached.lists))
            self._life = LifeCycleState("cached", cached, time.monotonic(), tools)
        if self._eager or cached.is_stale:
            self._refresh_soon()
        return self

    async def __aexit__(self, *_: object) -> None:
        connection = self._life.connection
        self._life = replace(self._life, state="closed", reason="", connection=None)
        if self._refreshing is not None:
            self._refreshing.cancel()
        if connection is not None:
            await connection.close()
        if self._refreshing is not None:
            await asyncio.gather(self._refreshing, return_exceptions=True)
        self._news.close()

    async def daemons(self) -> tuple[str, ...]:
        """Return the commands of the background processes that closing the server would end; () if it is not
        running.
        """
        connection = self._life.connection
        if connection is None:
            return ()
        return await connection.daemons()

    def keep_daemons(self) -> None:
        """Let the background processes of the running server outlive its close, as with `keeps_running`."""
        if (connection := self._life.connection) is not None:
            connection.keep_daemons()

    async def restart(self) -> None:
        """Close the connection if there is one, open a new one, and read the server's lists again.

        Raises `ServerError`. Earlier crashes are forgotten, so they do not delay the start.
        """
        async with self._lock:
            await self._drop(self._life.connection)
            if (
                self._life.state == "closed"
            ):  # its earlier lists are not compared with the new ones
                self._life = replace(self._life, taken=0.0, tools=())
            elif self._life.state == "ready":
                self._life = replace(self._life, state="cached")
            self._crashes, self._last_failure = CrashLog(), ""
            await self._open()

    async def connected(self, *, is_entering: bool = False) -> McpConnection:
        """Return the current connection, or a new one: one caller opens it, others wait for it. Raises
        `ServerError`.
        """
        async with self._lock:
            if (connection := self._life.connection) is not None:
                if connection.usable:
                    return connection
                self._crashes.add(time.monotonic(), connection.end_reason)
                await self._drop(connection)
            now = time.monotonic()
            refusal = self._crashes.refusal(now)
            if not refusal and (delay := self._crashes.delay_seconds(now)):
                await asyncio.sleep(delay)
            if self._life.state == "closed" and not is_entering:
                refusal = "is closed"
            if refusal:
                raise self._error(refusal, "start")
            return await self._open()

    async def _drop(self, connection: McpConnection | None) -> None:
        """Close a connection, unless another one has replaced it."""
        if connection is not None and connection is self._life.connection:
            self._life = replace(self._life, connection=None)
            await connection.close()

    async def _open(self) -> McpConnection:
        """Open a new connection. Read the lists, or schedule that if the server was ready before.

        Raises `ServerError`. Any failure, even a bug of mcpagent, affects only this server.
        """
        before, started = self._life, time.monotonic()
        is_ready = before.state == "ready"
        if not is_ready:
            self._life = replace(before, state="connecting", since=started)
            self._emit(ServerConnecting(self.config.name))
        try:
            await imported("mcpagent.mcp.lists.listing")
            if self._life.state == "closed":
                raise self._error("was closed while it connected", "connect")
            connection = self._new_connection()
            self._life = replace(self._life, connection=connection)
            await connection.open()
            self._life = replace(
                self._life,
                known=replace(self._life.known, is_modern=connection.is_modern),
            )
            if not is_ready:
                lists = await self._read(connection)
                if self._life.state != "connecting":
                    raise self._error("was closed while it connected", "connect")
                self._take(
                    lists,
                    state="ready",
                    reason="",
                    seconds=time.monotonic() - started,
                )
        except BaseException as error:
            await self._drop(self._life.connection)
            if not isinstance(
                error, Exception
            ):  # cancelled, because no caller waits any more
                if self._life.state != "closed":
                    self._life = replace(
                        self._life, state=before.state, reason=before.reason
                    )
                raise
            if isinstance(error, ServerError):
                failure = error
            else:
                failure = self._error(mistake_in(error), "connect")
            self._fail(failure, time.monotonic() - started)
            raise failure from (None if failure is error else error)
        self._crashes.has_started()
        self._last_failure = ""
        if is_ready:
            self._refresh_soon()
        else:
            self._emit(
                ServerConnected(
                    self.config.name, len(self._life.tools), self._life.seconds
                )
            )
        await self._subscribe_again(connection)
        if not is_ready:
            await self._save()
        return connection

    def _fail(self, failure: ServerError, seconds: float) -> None:
        if self._life.state == "closed":  # the failure is a consequence of closing
            return
        self._life = replace(
            self._life, state="failed", reason=str(failure), seconds=seconds
        )
        self._crashes.add_failed_start(time.monotonic(), str(failure))
        self._forget_cached()
        was_reported, self._last_failure = (
            self._last_failure == str(failure),
            str(failure),
        )
        if not was_reported:
            self._emit(
                ServerFailed(self.config.name, str(failure), failure.stderr_tail)
            )

    def _take(self, read: _Read, **changes: Any) -> None:
        """Adopt the lists that were just read, and report changes."""
        before = self._life
        self._life = replace(
            before,
            known=read.known,
            taken=time.monotonic(),
            tools=read.tools,
            **changes,
        )
        if before.taken and read.change:
            self._emit(Notice(safe_line(str(read.change), 300)))
            if self._on_tools_changed is not None:
                self._on_tools_changed(read.change)

    async def _save(self) -> None:
        """Store the server's current lists in the cache for the next start."""
        known = self._life.known
        if self._cache is not None:
            save = partial(self._cache.save, self.config, known)
            await created_beside_loop(save, is_much=_is_long(known.lists))

    # --- opening

    def _new_connection(self) -> McpConnection:
        from mcpagent.mcp.connection import McpConnection

        config = self.config
        is_legacy = self._life.known.is_modern is False or config.era == "legacy"
        return McpConnection(
            config,
            self._report,
            era="legacy" if is_legacy else "auto",
            environ=self._environ,
            handlers=replace(
                self._handlers, roots=(lambda: self._roots) if self._roots else ()
            ),
            auth=self._auth(config) if callable(self._auth) else self._auth,
            log_folder=self._log_folder,
        )

    async def _read(self, connection: McpConnection) -> _Read:
        from mcpagent.mcp.lists.listing import list_server

        known = await list_server(connection, self.config, self._news.warn)
        compare = partial(self._compared, known, self._life)
        return await created_beside_loop(compare, is_much=_is_long(known.lists))

    def _compared(self, known: CachedServer, before: LifeCycleState) -> _Read:
        """Return the lists with their tools bound; unchanged tools stay the same objects."""
        tools = enabled_tools(known.lists, self.config, self.call)
        listed = [tool.definition for tool in tools]
        change = difference(self.config.name, before.definitions, listed)
        if (
            listed == before.definitions
            and known.lists.output_schemas == before.known.lists.output_schemas
        ):
            tools = before.tools
        return _Read(known, tools, change)

    def _error(self, what: str, phase: str) -> ServerError:
        text = without_secrets(f'server "{self.config.name}" {what}')
        return ServerError(text, server=self.config.name, phase=phase)

    # --- notifications of the server

    def _report(self, news: ServerNews) -> None:
        if news.kind == "list":
            self._forget_cached()
            self._announced += 1
            self._refresh_soon()
        else:
            self._pass_on(news)
        if news.kind == "silence" and self._last_failure:
            return  # the failure was already reported
        self._news.report(news)

    def _pass_on(self, news: ServerNews) -> None:
        if self._on_news is not None:
            self._on_news(news)

    def _refresh_soon(self) -> None:
        """Read the lists again in the background."""
        if self._life.state != "closed" and (
            self._refreshing is None or self._refreshing.done()
        ):
            self._refreshing = asyncio.create_task(
                self._refresh(), name=f"mcp-refresh-{self.config.name}"
            )

    async def _refresh(self) -> None:
        is_over = False
        while not is_over:
            await asyncio.sleep(DEBOUNCE_SECONDS)
            announced = self._announced
            try:
                is_ready = self._life.state == "ready"
                connection = await self.connected()
                if is_ready:  # otherwise opening the connection has read them
                    self._take(await self._read(connection))
                    await self._save()
                    self._pass_on(ServerNews("list", "all"))
            except Exception as error:  # noqa: BLE001  nothing waits for it, so it must be reported
                self._news.warn(f"its lists could not be read again: {error}")
            self._refreshed = announced
            is_over = announced == self._announced

    async def lists_settled(self) -> None:
        """Wait a short time for lists that were announced as changed."""
        for _ in range(_STEPS_BESIDE if self.config.url else 0):
            await asyncio.sleep(0)
        if self._refreshing is not None and self.is_reading:
            await asyncio.wait({self._refreshing}, timeout=SETTLE_SECONDS)

    def _forget_cached(self) -> None:
        """Delete the cached lists, so that the next start reads them from the server."""
        if self._cache is not None:
            self._cache.drop(self.config)

    # --- calls

    async def call(
        self, definition: ToolDefinition, arguments: dict[str, Any]
    ) -> ToolOutput:
        """Call one of the server's tools. Every bound tool runs this."""
        await imported("mcp_types")
        import mcp_types as types

        from mcpagent.mcp.result_content import output_of_call

        if (refusal := await self._refused_change(definition)) is not None:
            return refusal
        tool, lists, started = (
            definition.original_name,
            self._life.known.lists,
            time.monotonic(),
        )
        is_repeatable = may_repeat(tool, lists, self.config)
        is_long = tool in self._long
        params = types.CallToolRequestParams(name=tool, arguments=arguments)
        try:
            result = await self.ask(
                types.CallToolRequest(params=params),
                tool,
                on_progress=self._news.progress_of(tool),
                is_repeatable=is_repeatable,
                may_be_task=may_be_task(tool, lists, self.config, is_long=is_long),
            )
        except REQUEST_FAILURES as error:
            output = _for_model(failed_output(error, is_repeatable=is_repeatable))
        else:
            output = await _shown(result, output_of_call)
        self._has_called(tool, started)
        return output

    def _has_called(self, tool: str, started: float) -> None:
        if time.monotonic() - started > LONG_CALL_SECONDS:
            self._long.add(tool)
        if self._life.is_old(time.monotonic()):
            self._refresh_soon()

    async def call_for_client(
        self,
        request: types.CallToolRequest,
        definition: ToolDefinition,
        on_progress: Progress | None = None,
    ) -> dict[str, Any]:
        """Send a client's call for `mcpagent gateway`; return the raw result, redacted.

        Raises `REQUEST_FAILURES`, among them `ChangedToolError` for a tool that changed since its first use.
        """
        if await self._refused_change(definition) is not None:
            if (change := self.known_change(definition)) is not None:
                raise ChangedToolError(change)
            raise self._error("changed the tool after it was listed", "tools/call")
        tool, lists, started = (
            definition.original_name,
            self._life.known.lists,
            time.monotonic(),
        )
        result = await self.ask(
            request,
            tool,
            on_progress=on_progress,
            is_repeatable=may_repeat(tool, lists, self.config),
            may_be_task=may_be_task(
                tool, lists, self.config, is_long=tool in self._long
            ),
        )
        self._has_called(tool, started)
        return await redacted(result)

    async def output(
        self, request: types.Request[Any, Any], target: str, output_of: OutputOf
    ) -> ToolOutput:
        """Send one request that may run twice; return its redacted result as an output, on failure an output with the
        error.
        """
        progress = self._news.progress_of(target)
        try:
            result = await self.ask(request, target, on_progress=progress)
        except REQUEST_FAILURES as error:
            return _for_model(failed_output(error, is_repeatable=True))
        return await _shown(result, output_of)

    async def ask(
        self,
        request: types.Request[Any, Any],
        target: str,
        *,
        on_progress: Progress | None = None,
        is_repeatable: bool = True,
        may_be_task: bool = False,
    ) -> dict[str, Any]:
        """Send one request; repeat it if it certainly did not run, or may run twice. Return the raw result.

        Raises `REQUEST_FAILURES`.
        """
        is_last = False
        while True:
            connection: McpConnection | None = None
            try:
                connection = await self.connected()
                result = await connection.request(
                    request,
                    limits=self.limits,
                    target=target,
                    on_progress=on_progress,
                    may_be_task=may_be_task,
                )
                break
            except REQUEST_FAILURES as error:
                may_retry = await self._fixed_after(error, connection)
                is_harmless = is_repeatable and isinstance(error, RequestLostError)
                if is_last or not (may_retry or is_harmless):
                    raise
                is_last = True
        await self.lists_settled()
        return result

    async def _fixed_after(
        self, error: RequestFailure, connection: McpConnection | None
    ) -> bool:
        """Repair the connection after a failure; return whether the request certainly did not run."""
        if isinstance(error, RefusedError | RequestLostError):
            self._forget_cached()
        if isinstance(error, RefusedError):
            self._refresh_soon()
        if not isinstance(error, RequestLostError):
            return False
        if error.remedy == "session":
            await self._drop(connection)
        elif error.remedy == "lists" and connection is not None:
            with contextlib.suppress(*REQUEST_FAILURES):
                self._take(await self._read(connection))
                await self._save()
        return error.outcome in MAY_BE_SENT_AGAIN and error.remedy != "time"

    def known_change(self, definition: ToolDefinition) -> ToolChange | None:
        """Return the change of a tool since its first use, by the known lists, without pinning, or None."""
        return standing_change(
            self._pins, self.config, definition, self._life.known.lists
        )

    async def change_of(self, definition: ToolDefinition) -> ToolChange | None:
        """Return the change of a tool since its first use that the next call would find, without pinning, or None."""
        await self._read_own_list()
        return self.known_change(definition)

    async def _read_own_list(self) -> None:
        """Connect if only cached lists are known, because an old list cannot show that a tool has changed."""
        if self._pins is not None and self._life.state == "cached":
            with contextlib.suppress(
                ServerError
            ):  # the call itself will fail and report the error
                await self.connected()

    async def _refused_change(self, definition: ToolDefinition) -> ToolOutput | None:
        await self._read_own_list()
        lists = self._life.known.lists
        refusal = await refusal_of_change(
            self._pins,
            self.config,
            definition,
            lists,
            emit=self._emit,
            allow_change=self._allow_change,
        )
        if refusal:
            return ToolOutput.of_text(refusal, error="denied")
        return None

    async def subscription(self, uri: str, *, wanted: bool) -> None:
        """Start or stop emitting an event when this resource changes; this lasts across restarts of the server.

        Raises `ServerError` if the server does not support it.
        """
        connection = await self.connected()
        try:
            await connection.subscription(uri, wanted=wanted)
        except (RefusedError, CallTimeoutError) as error:
            what = f"takes no subscription to {safe_line(uri, 200)}: {safe_line(str(error))}"
            raise self._error(what, "resources/subscribe") from None
        if wanted:
            self._subscribed[uri] = None
        else:
            self._subscribed.pop(uri, None)

    async def _subscribe_again(self, connection: McpConnection) -> None:
        """Renew the subscriptions on a new connection; a refusal only causes a warning."""
        for uri in self._subscribed:
            try:
                await connection.subscription(uri, wanted=True)
            except REQUEST_FAILURES as error:
                self._news.warn(
                    f"took no new subscription to {safe_line(uri, 200)}: {error}"
                )

    async def set_log_level(self, level: types.LoggingLevel) -> None:
        """Set the server's level of log messages, now if it is running, and at each later start."""
        self.config = replace(self.config, log_level=level)
        if (connection := self._life.connection) is not None and connection.usable:
            await connection.set_log_level(level)

    async def notify_roots_changed(self) -> None:
        """Notify the server, if it is running, that the folders of the client behind the gateway have changed."""
        connection = self._life.connection
        is_told = connection is not None and connection.usable
        if connection is not None and is_told and not connection.is_modern:
            await connection.notify_roots_changed()

    async def set_roots(self, folders: Sequence[str | Path]) -> None:
        """Set the folders that the server may know, and notify it if it is running.

        A server that started without folders is stopped, and started again by the next call, because capabilities are
        declared only at the start.
        """
        had, self._roots = self._roots, folder_uris(folders)
        connection = self._life.connection
        if connection is None or not connection.usable or had == self._roots:
            return
        if not had:
            await self._drop(connection)
        elif (
            not connection.is_modern
        ):  # since 2026-07-28, a server requests the folders when it needs them
            await connection.notify_roots_changed()


async def redacted(result: dict[str, Any]) -> dict[str, Any]:
    """Return a raw result with known random secrets redacted."""
    shown: dict[str, Any] = await beside_loop(
        lambda: data_without_random_secrets(result), is_much=is_large(result)
    )
    return shown


async def _shown(result: dict[str, Any], output_of: OutputOf) -> ToolOutput:
    return await beside_loop(
        lambda: _for_model(output_of(result)), is_much=is_large(result)
    )


def _for_model(output: ToolOutput) -> ToolOutput:
    """Return the output cleaned for a model, with known random secrets redacted."""
    shown = output.for_model()
    content = tuple(
        replace(part, text=without_random_secrets(part.text))
        if isinstance(part, Text)
        else part
        for part in shown.content
    )
    return replace(
        shown, content=content, structured=data_without_random_secrets(shown.structured)
    )
