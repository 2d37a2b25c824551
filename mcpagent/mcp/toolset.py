"""One configured MCP server as a toolset: its tools bound to calls, over a connection that is replaced when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from mcpagent.config import ServerConfig
from mcpagent.errors import ServerError
from mcpagent.events import (
    Emit,
    Notice,
    ServerConnected,
    ServerConnecting,
    ServerFailed,
    ServerLogged,
    ToolProgress,
    ignore,
)
from mcpagent.mcp.cache import CachedServer, ListCache
from mcpagent.mcp.failures import CallTimeoutError, InvalidAnswerError, Limits, LostError, RefusedError, TaskError
from mcpagent.mcp.handlers import Handlers
from mcpagent.mcp.lists import PromptInfo, ResourceInfo, ServerLists, ToolsDifference, difference
from mcpagent.mcp.pins import PinStore, ToolChange
from mcpagent.mcp.reconnecting import Reconnecting
from mcpagent.mcp.redaction import Redactor
from mcpagent.mcp.server_log import ServerLog, log_path
from mcpagent.mcp.status import ServerStatus
from mcpagent.mcp.telling import Telling
from mcpagent.messages import Text, ToolDefinition
from mcpagent.safe_text import safe_line, safe_text
from mcpagent.tools import Run, Tool, ToolOutput

if TYPE_CHECKING:
    import httpx2
    import mcp_types as types

    from mcpagent.mcp.connection import McpConnection, Progress

_HEADER_MISMATCH = -32020

DEBOUNCE_SECONDS = 0.25
PROGRESS_SECONDS = 0.1
SETTLE_SECONDS = 2.0
LONG_CALL_SECONDS = 10.0
"""A tool whose calls take longer is called as a task from then on, where its server lets us choose."""


Authenticate: TypeAlias = "Callable[[ServerConfig], httpx2.Auth | None]"
"""Gives a remote server's authentication when it is connected, and not before: it may have to load something."""

AllowChange: TypeAlias = Callable[[ToolChange], Awaitable[bool]]
"""Asks whether a changed tool may be used as it is now."""


def _ignore_change(change: ToolsDifference) -> None:
    """For whoever does not want to know."""


class McpToolset:
    """The tools, prompts and resources of one server; entered once, from any task, and left from any task.

    Entering raises `ServerError` where the server cannot be used. Later failures never raise: a call that fails gives
    an output that says so, and the next call finds a new connection. `environ` is what the child may inherit from.

    With a `cache` that knows the server, entering reads the lists from there and the server is started by its first
    call, or in the background where `eager`. `on_tools_changed` is told when its tools are no longer what they were:
    `tools()` then gives the new ones. `handlers` say what the server may ask of us; `auth` signs in to a remote one.
    With `pins` a tool that changed since it was first used is called only where `allow_change` says so.
    `log_folder` is where its standard error goes (`server_log.log_path`).
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
        on_tools_changed: Callable[[ToolsDifference], None] = _ignore_change,
    ) -> None:
        self.config = config
        self.on_tools_changed = on_tools_changed
        self._emit = emit
        self._environ = environ
        self._cache = cache
        self._eager = eager
        self._handlers = handlers or Handlers()
        self._auth = auth
        self._pins = pins
        self._allow_change = allow_change
        self._log_folder = log_folder
        self._redact = Redactor(config)
        self._telling = Telling(config.name, emit, self._list_changed)
        self._line = Reconnecting(config.name, self._open)
        self._status = ServerStatus(config.name, "closed")
        self._is_modern: bool | None = None
        self._lists = ServerLists()
        self._bound: tuple[ServerLists, list[Tool]] | None = None
        self._was_listed = False
        self._last_failure = ""
        self._stale = False
        self._is_announced = False
        self._refreshing: asyncio.Task[None] | None = None
        self._subscribed: dict[str, None] = {}
        self._long: set[str] = set()

    @property
    def status(self) -> ServerStatus:
        return replace(self._status, warnings=self._telling.warnings)

    @property
    def prompts(self) -> tuple[PromptInfo, ...]:
        return self._lists.prompts

    @property
    def resources(self) -> tuple[ResourceInfo, ...]:
        return self._lists.resources

    @property
    def log(self) -> tuple[ServerLogged, ...]:
        """The last messages that the server sent about its own work."""
        return self._telling.log

    async def __aenter__(self) -> McpToolset:
        if self._cache is not None and (cached := self._cache.load(self.config)) is not None:
            self._take_cached(cached)
            if self._eager or cached.is_stale:
                self._refresh_soon()
            return self
        await self._line.get()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line.is_closed = True
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
        await self._line.close()
        self._telling.close()
        self._status = replace(self._status, state="closed")

    async def restart(self) -> None:
        """Ends the connection, where there is one, and opens a new one; what the server lists is read again.

        Raises `ServerError`. Crashes before are forgotten, so nothing holds the start back.
        """
        self._status = replace(self._status, state="closed")
        self._last_failure = ""
        await self._line.restart()

    async def tools(self) -> list[Tool]:
        """`bound_tools`, as every toolset has it."""
        return self.bound_tools()

    def bound_tools(self) -> list[Tool]:
        """The server's tools by their own names, in its order; the same values until the server's list changes."""
        if self._bound is None or self._bound[0] is not self._lists:
            self._bound = (self._lists, self._bind())
        return list(self._bound[1])

    def _bind(self) -> list[Tool]:
        return [
            Tool(
                definition,
                self._runner(definition),
                timeout_seconds=self._outer_seconds(),
                deferred=False if _matches(definition.original_name, self.config.always_load) else None,
            )
            for definition in self._lists.tools
            if self._is_enabled(definition)
        ]

    # --- what it offers besides tools ---

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> ToolOutput:
        """One prompt, filled with `arguments`."""
        import mcp_types as types

        from mcpagent.mcp.content import output_of_prompt

        params = types.GetPromptRequestParams(name=name, arguments=dict(arguments))
        result = await self._outcome(types.GetPromptRequest(params=params), name, is_repeatable=True)
        return self._shown(output_of_prompt(result)) if isinstance(result, dict) else result

    async def get_resource(self, uri: str) -> ToolOutput:
        """The content of one resource."""
        import mcp_types as types

        from mcpagent.mcp.content import output_of_resource

        params = types.ReadResourceRequestParams(uri=uri)
        result = await self._outcome(types.ReadResourceRequest(params=params), uri, is_repeatable=True)
        return self._shown(output_of_resource(result)) if isinstance(result, dict) else result

    async def complete(
        self, of: PromptInfo | ResourceInfo, argument: str, value: str, known: Mapping[str, str] | None = None
    ) -> tuple[str, ...]:
        """The values that the server proposes for an argument of a prompt or template which begins so.

        `known` are the arguments given already. Nothing where the server has no proposals, or fails.
        """
        from mcpagent.mcp.completing import completion_request, values_of

        try:
            connection = await self._line.get()
            if (capabilities := connection.session.server_capabilities) is None or capabilities.completions is None:
                return ()
            request = completion_request(of, argument, value, known or {})
            return values_of(await connection.request(request, limits=self._call_limits()))
        except (RefusedError, CallTimeoutError, ServerError):
            return ()

    async def subscribe(self, uri: str) -> None:
        """From now on an event tells when this resource changes, also over restarts of the server.

        Raises `ServerError` where the server does not do that.
        """
        await self._subscription(uri, wanted=True)

    async def unsubscribe(self, uri: str) -> None:
        """Takes a subscription back. Raises `ServerError` where the server refuses."""
        await self._subscription(uri, wanted=False)

    async def _subscription(self, uri: str, *, wanted: bool) -> None:
        connection = await self._line.get()
        try:
            await (connection.subscribe(uri) if wanted else connection.unsubscribe(uri))
        except (RefusedError, CallTimeoutError) as error:
            what = (
                f'server "{self.config.name}" takes no subscription to {safe_line(uri, 200)}: {safe_line(str(error))}'
            )
            raise ServerError(what, server=self.config.name, phase="resources/subscribe") from None
        if wanted:
            self._subscribed[uri] = None
        else:
            self._subscribed.pop(uri, None)

    # --- calls ---

    def _runner(self, definition: ToolDefinition) -> Run:
        async def run(arguments: dict[str, Any]) -> ToolOutput:
            if self._pins is not None and self._status.state == "cached":
                # What was listed long ago cannot show a change: the server's own list is read first.
                with contextlib.suppress(ServerError):  # the call meets it too, and tells
                    await self._line.get()
            if (refusal := await self._refused_change(definition)) is not None:
                return refusal
            return await self._call(definition.original_name, arguments)

        return run

    async def _refused_change(self, definition: ToolDefinition) -> ToolOutput | None:
        """What to answer where the tool is not what it was when first used, and nobody says that this is right."""
        current = next(
            (tool for tool in self._lists.tools if tool.original_name == definition.original_name), definition
        )
        change = None if self._pins is None else self._pins.check(self.config, current)
        if change is None or self._pins is None:
            return None
        self._emit(Notice(safe_line(str(change), 500), "warning"))
        if self._allow_change is not None and await self._allow_change(change):
            self._pins.accept(self.config, current)
            return None
        text = (
            f'tool "{safe_line(change.tool, 60)}" was changed by its server since it was first used; it was not called'
        )
        return ToolOutput.of_text(f"{text}, since nobody has allowed the change", error="denied")

    def _teller(self, tool: str) -> Progress:
        """Tells the progress of one call, not faster than a person reads."""
        told = 0.0

        def tell(progress: float, total: float | None, message: str) -> None:
            nonlocal told
            if (now := time.monotonic()) - told >= PROGRESS_SECONDS:
                told = now
                text = self._redact(safe_line(message))
                self._emit(ToolProgress(self.config.name, tool, progress, total, text))

        return tell

    async def _call(self, tool: str, arguments: dict[str, Any]) -> ToolOutput:
        import mcp_types as types

        from mcpagent.mcp.content import output_of_call

        params = types.CallToolRequestParams(name=tool, arguments=arguments)
        is_repeatable = self._is_safe_to_repeat(tool)
        started = time.monotonic()
        result = await self._outcome(
            types.CallToolRequest(params=params), tool, is_repeatable=is_repeatable, may_be_task=self._may_be_task(tool)
        )
        if time.monotonic() - started > LONG_CALL_SECONDS:
            self._long.add(tool)
        return self._shown(output_of_call(result)) if isinstance(result, dict) else result

    def _may_be_task(self, tool: str) -> bool:
        """A tool that may run as a task or not does so where its calls take long."""
        if tool in self._lists.task_only:
            return True
        is_long = tool in self._long or self.config.total_timeout_seconds > ServerConfig("").total_timeout_seconds
        return is_long and tool in self._lists.task_able

    def _is_safe_to_repeat(self, tool: str) -> bool:
        """By the user's own mark; by the server's word only where the user trusts it."""
        by_hint = self.config.trust_hints and tool in self._lists.safe_by_hint
        return by_hint or _matches(tool, self.config.safe_to_repeat)

    async def _outcome(
        self, request: types.Request[Any, Any], target: str, *, is_repeatable: bool, may_be_task: bool = False
    ) -> dict[str, Any] | ToolOutput:
        """The raw result, or an output that says what went wrong.

        A request is sent a second time only where it is known not to have run, or does no harm when it runs twice.
        """
        for attempt in (1, 2):
            try:
                connection = await self._line.get()
                result = await connection.request(
                    request,
                    target=target,
                    limits=self._call_limits(),
                    on_progress=self._teller(target),
                    may_be_task=may_be_task,
                )
                await self._settled()
                return result
            except RefusedError as error:
                self._forget_cached()
                if error.code == _HEADER_MISMATCH and attempt == 1:
                    # Refused unseen: a parameter's header is not what the server has come to want (2026-07-28).
                    await self._reread(connection)
                    continue
                self._refresh_soon()
                return ToolOutput.of_text(safe_text(error.message) or f"error {error.code}", error="failed")
            except CallTimeoutError as error:
                return ToolOutput.of_text(str(error), error="timeout")
            except LostError as error:
                self._forget_cached()
                if error.session_lost:
                    await self._line.drop(connection)
                may_repeat = error.outcome == "not_sent" or error.session_lost or is_repeatable
                if attempt == 2 or not may_repeat:
                    return ToolOutput.of_text(f"{error}{_may_have_run(error)}", error="server_down")
            except (InvalidAnswerError, TaskError) as error:
                return ToolOutput.of_text(str(error), error="failed")
            except ServerError as error:
                return ToolOutput.of_text(str(error), error="server_down")
        raise AssertionError("unreachable")

    def _shown(self, output: ToolOutput) -> ToolOutput:
        """The output without the secrets of this server's configuration, which it may give back."""
        parts = tuple(
            replace(part, text=self._redact.result(part.text)) if isinstance(part, Text) else part
            for part in output.content
        )
        return replace(output, content=parts)

    def _outer_seconds(self) -> float | None:
        """Where a call may take longer here than anywhere else, the agent's own limit must let it."""
        longer = self.config.total_timeout_seconds > ServerConfig("").total_timeout_seconds
        return self.config.total_timeout_seconds + self.config.shutdown_seconds if longer else None

    def _call_limits(self) -> Limits:
        return Limits(self.config.timeout_seconds, self.config.total_timeout_seconds)

    # --- connection ---

    async def _open(self) -> McpConnection:
        """A new connection. The lists are read the first time, and later while the call that needs it goes on."""
        if self._status.state != "ready":
            return await self._connect()
        connection = await self._new_connection()
        self._refresh_soon()
        return connection

    async def _connect(self) -> McpConnection:
        """Opens a connection, reads the lists and tells. Raises `ServerError`."""
        from mcpagent.mcp.listing import read_lists

        started = time.monotonic()
        name = self.config.name
        before, self._status = self._status, ServerStatus(name, "connecting")
        self._emit(ServerConnecting(name))
        connection: McpConnection | None = None
        try:
            connection = await self._new_connection()
            lists = await read_lists(connection, self.config, self._telling.warn)
        except BaseException as error:
            if connection is not None:
                await connection.close()
            if isinstance(error, ServerError):
                self._has_failed(error, time.monotonic() - started)
            else:
                self._status = before
            raise
        self._last_failure = ""
        seconds = time.monotonic() - started
        self._status = replace(_status_of(connection, self.config, self._redact), seconds=seconds)
        self._take(lists)
        self._emit(ServerConnected(name, self._status.tool_count, seconds))
        return connection

    def _has_failed(self, error: ServerError, seconds: float) -> None:
        name = self.config.name
        was_told, self._last_failure = self._last_failure == str(error), str(error)
        self._status = ServerStatus(name, "failed", reason=str(error), seconds=seconds)
        self._forget_cached()
        if not was_told:
            self._emit(ServerFailed(name, str(error), error.stderr_tail))

    async def _new_connection(self) -> McpConnection:
        from mcpagent.mcp.connection import McpConnection

        is_legacy = self._is_modern is False or self.config.era == "legacy"
        connection = McpConnection(
            self.config,
            self._telling,
            era="legacy" if is_legacy else "auto",
            environ=self._environ,
            handlers=self._handlers,
            auth=self._auth(self.config) if callable(self._auth) else self._auth,
            log=self._new_log(),
        )
        await connection.open()
        self._is_modern = connection.is_modern
        for uri in self._subscribed:
            try:
                await connection.subscribe(uri)
            except (RefusedError, CallTimeoutError, LostError) as error:
                self._telling.warn(f"took no new subscription to {safe_line(uri, 200)}: {error}")
        return connection

    def _new_log(self) -> ServerLog | None:
        if self._log_folder is None:
            return None
        return ServerLog(log_path(self._log_folder, self.config.name), self._redact)

    # --- changes ---

    def _list_changed(self, _what: str) -> None:
        """The server says a list changed: all are read again, at most once in `DEBOUNCE_SECONDS`."""
        self._stale = True
        self._is_announced = True
        self._forget_cached()
        self._refresh_soon()

    def _forget_cached(self) -> None:
        if self._cache is not None:
            self._cache.drop(self.config)

    def _refresh_soon(self) -> None:
        if (self._refreshing is None or self._refreshing.done()) and not self._line.is_closed:
            self._refreshing = asyncio.create_task(self._refresh(), name=f"mcp-refresh-{self.config.name}")

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(DEBOUNCE_SECONDS)
            self._stale = False
            is_known = self._status.state == "ready"
            try:
                connection = await self._line.get()
                if is_known:
                    await self._reread(connection)
            except ServerError as error:
                self._telling.warn(f"its lists could not be read again: {error}")
            if not self._stale:
                self._is_announced = False
                return

    async def _reread(self, connection: McpConnection) -> None:
        from mcpagent.mcp.listing import read_lists

        self._take(await read_lists(connection, self.config, self._telling.warn))

    async def _settled(self) -> None:
        """Waits a little for lists that were said to have changed, so that what a call did is known when it returns."""
        if self._is_announced and self._refreshing is not None and not self._refreshing.done():
            await asyncio.wait({self._refreshing}, timeout=SETTLE_SECONDS)

    def _take(self, lists: ServerLists) -> None:
        """The lists as the server has them now; tells what changed and keeps them for the next start."""
        before, self._lists = self._lists, lists
        tools = [tool for tool in lists.tools if self._is_enabled(tool)]
        self._status = replace(self._status, tool_count=len(tools))
        if self._cache is not None:
            status = self._status
            cached = CachedServer(lists, self._is_modern, status.protocol_version, status.title, status.instructions)
            self._cache.save(self.config, cached)
        if not self._was_listed:
            self._was_listed = True
            return
        change = difference(self.config.name, [tool for tool in before.tools if self._is_enabled(tool)], tools)
        if change:
            self._emit(Notice(safe_line(str(change), 300)))
            self.on_tools_changed(change)

    def _take_cached(self, cached: CachedServer) -> None:
        self._lists = cached.lists
        self._was_listed = True
        self._is_modern = cached.is_modern
        self._status = ServerStatus(
            self.config.name,
            "cached",
            tool_count=sum(self._is_enabled(tool) for tool in cached.lists.tools),
            protocol_version=cached.protocol_version,
            title=cached.title,
            instructions=cached.instructions,
            age_seconds=cached.age_seconds,
        )

    def _is_enabled(self, definition: ToolDefinition) -> bool:
        name = definition.original_name
        if self.config.enabled_tools and not _matches(name, self.config.enabled_tools):
            return False
        return not _matches(name, self.config.disabled_tools)

    def _is_always_loaded(self, definition: ToolDefinition) -> bool:
        return _matches(definition.original_name, self.config.always_load)


def _status_of(connection: McpConnection, config: ServerConfig, redact: Redactor) -> ServerStatus:
    session = connection.session
    info = session.server_info
    return ServerStatus(
        config.name,
        "ready",
        protocol_version=safe_line(session.protocol_version or "", 40),
        title=safe_line((info.title or info.name) if info else "", 100),
        instructions=redact.result(safe_text(session.instructions or "")),
    )


def _matches(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _may_have_run(error: LostError) -> str:
    return "" if error.outcome != "unknown" else "; the call may have run: check before you repeat it"
