"""One configured MCP server as a toolset: its tools bound to calls, over a connection that is replaced when it dies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from mcpagent.config import ServerConfig
from mcpagent.errors import ServerError
from mcpagent.events import Emit, Notice, ServerConnected, ServerConnecting, ServerFailed, ToolProgress, ignore
from mcpagent.mcp.cache import CachedServer, ListCache
from mcpagent.mcp.crashes import CrashLog
from mcpagent.mcp.failures import CallTimeoutError, InvalidAnswerError, LostError, RefusedError
from mcpagent.mcp.handlers import Handlers
from mcpagent.mcp.lists import PromptArgument, PromptInfo, ResourceInfo, ServerLists, ToolsDifference, difference
from mcpagent.mcp.pins import PinStore, ToolChange
from mcpagent.mcp.status import ServerStatus
from mcpagent.messages import ToolDefinition
from mcpagent.safe_text import safe_line, safe_text
from mcpagent.tools import Run, Tool, ToolOutput

if TYPE_CHECKING:
    import httpx2
    import mcp_types as types

    from mcpagent.mcp.connection import Limits, McpConnection, Progress

MAX_PAGES = 100
MAX_TOOLS = 10_000
MAX_LISTED = 1_000
"""Prompts and resources kept for description; more can still be asked for by name."""
MAX_DESCRIPTION = 20_000
_MAX_WARNINGS = 50
_HEADER_MISMATCH = -32020

DEBOUNCE_SECONDS = 0.25
PROGRESS_SECONDS = 0.1
SETTLE_SECONDS = 2.0


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
        auth: httpx2.Auth | None = None,
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
        self._status = ServerStatus(config.name, "closed")
        self._connection: McpConnection | None = None
        self._is_modern: bool | None = None
        self._reconnecting = asyncio.Lock()
        self._crashes = CrashLog()
        self._closed = False
        self._lists = ServerLists()
        self._bound: tuple[ServerLists, list[Tool]] | None = None
        self._was_listed = False
        self._stale = False
        self._refreshing: asyncio.Task[None] | None = None
        self._warnings: dict[str, None] = {}

    @property
    def status(self) -> ServerStatus:
        return replace(self._status, warnings=tuple(self._warnings))

    @property
    def prompts(self) -> tuple[PromptInfo, ...]:
        return self._lists.prompts

    @property
    def resources(self) -> tuple[ResourceInfo, ...]:
        return self._lists.resources

    async def __aenter__(self) -> McpToolset:
        if self._cache is not None and (cached := self._cache.load(self.config)) is not None:
            self._take_cached(cached)
            if self._eager or cached.is_stale:
                self._refresh_soon()
            return self
        try:
            await self._connect()
        except BaseException:
            await self._drop_connection()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
        await self._drop_connection()
        self._status = replace(self._status, state="closed")

    async def restart(self) -> None:
        """Ends the connection, where there is one, and opens a new one; what the server lists is read again.

        Raises `ServerError`. Crashes before are forgotten, so nothing holds the start back.
        """
        async with self._reconnecting:
            await self._drop_connection()
            self._crashes = CrashLog()
            await self._connect()

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
                deferred=False if self._is_always_loaded(definition) else None,
            )
            for definition in self._lists.tools
            if self._is_enabled(definition)
        ]

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> ToolOutput:
        """One prompt, filled with `arguments`."""
        import mcp_types as types

        from mcpagent.mcp.content import output_of_prompt

        params = types.GetPromptRequestParams(name=name, arguments=dict(arguments))
        result = await self._outcome(types.GetPromptRequest(params=params), name, is_repeatable=True)
        return output_of_prompt(result) if isinstance(result, dict) else result

    async def get_resource(self, uri: str) -> ToolOutput:
        """The content of one resource."""
        import mcp_types as types

        from mcpagent.mcp.content import output_of_resource

        params = types.ReadResourceRequestParams(uri=uri)
        result = await self._outcome(types.ReadResourceRequest(params=params), uri, is_repeatable=True)
        return output_of_resource(result) if isinstance(result, dict) else result

    # --- calls ---

    def _runner(self, definition: ToolDefinition) -> Run:
        async def run(arguments: dict[str, Any]) -> ToolOutput:
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
                self._emit(ToolProgress(self.config.name, tool, progress, total, safe_line(message)))

        return tell

    async def _call(self, tool: str, arguments: dict[str, Any]) -> ToolOutput:
        import mcp_types as types

        from mcpagent.mcp.content import output_of_call

        params = types.CallToolRequestParams(name=tool, arguments=arguments)
        result = await self._outcome(types.CallToolRequest(params=params), tool, is_repeatable=False)
        return output_of_call(result) if isinstance(result, dict) else result

    async def _outcome(
        self, request: types.Request[Any, Any], target: str, *, is_repeatable: bool
    ) -> dict[str, Any] | ToolOutput:
        """The raw result, or an output that says what went wrong.

        A request is sent a second time only where it is known not to have run, or is one that changes nothing.
        """
        for attempt in (1, 2):
            try:
                connection = await self._live_connection()
                result = await connection.request(
                    request, target=target, limits=self._call_limits(), on_progress=self._teller(target)
                )
                await self._settled()
                return result
            except RefusedError as error:
                if error.code == _HEADER_MISMATCH and attempt == 1:
                    # Refused unseen: a parameter's header is not what the server has come to want (2026-07-28).
                    await self._reread()
                    continue
                return ToolOutput.of_text(safe_text(error.message) or f"error {error.code}", error="failed")
            except CallTimeoutError as error:
                return ToolOutput.of_text(str(error), error="timeout")
            except LostError as error:
                if error.session_lost:
                    await self._drop_connection()
                may_repeat = error.outcome == "not_sent" or error.session_lost or is_repeatable
                if attempt == 2 or not may_repeat:
                    return ToolOutput.of_text(f"{error}{_may_have_run(error)}", error="server_down")
            except InvalidAnswerError as error:
                return ToolOutput.of_text(str(error), error="failed")
            except ServerError as error:
                return ToolOutput.of_text(str(error), error="server_down")
        raise AssertionError("unreachable")

    def _outer_seconds(self) -> float | None:
        """Where a call may take longer here than anywhere else, the agent's own limit must let it."""
        longer = self.config.total_timeout_seconds > ServerConfig("").total_timeout_seconds
        return self.config.total_timeout_seconds + self.config.shutdown_seconds if longer else None

    def _call_limits(self) -> Limits:
        from mcpagent.mcp.connection import Limits

        return Limits(self.config.timeout_seconds, self.config.total_timeout_seconds)

    # --- connection ---

    async def _live_connection(self) -> McpConnection:
        """The connection, or a new one where there is none. One caller connects, the others wait for it."""
        async with self._reconnecting:
            if self._closed:
                raise self._error("is closed", "connect")
            connection = self._connection
            if connection is not None and connection.usable:
                return connection
            if connection is not None:
                self._crashes.add(time.monotonic(), connection.end_reason)
                await self._drop_connection()
            await self._wait_for_turn()
            return await self._connect_again()

    async def _wait_for_turn(self) -> None:
        """Holds back starts of a server that keeps dying. Raises `ServerError` where none may be tried now."""
        now = time.monotonic()
        if blocked := self._crashes.blocked_seconds(now):
            times, reason = self._crashes.count(now), self._crashes.last_reason
            raise self._error(f"died {times} times within a minute ({reason}); tried again in {blocked:.0f} s", "start")
        await asyncio.sleep(self._crashes.delay_seconds(now))

    async def _connect_again(self) -> McpConnection:
        try:
            if self._status.state == "ready":
                self._connection = await self._open()
            else:
                await self._connect()
        except ServerError as error:
            self._crashes.add(time.monotonic(), str(error))
            if self._cache is not None:
                self._cache.drop(self.config)
            raise
        assert self._connection is not None
        return self._connection

    async def _connect(self) -> None:
        """Opens the connection, reads the lists and tells. Raises `ServerError`."""
        started = time.monotonic()
        name = self.config.name
        before, self._status = self._status, ServerStatus(name, "connecting")
        self._emit(ServerConnecting(name))
        try:
            self._connection = await self._open()
            opened = time.monotonic()
            lists = await self._read_lists()
        except asyncio.CancelledError:
            await self._drop_connection()
            self._status = before
            raise
        except ServerError as error:
            await self._drop_connection()
            self._status = ServerStatus(name, "failed", reason=str(error), seconds=time.monotonic() - started)
            self._emit(ServerFailed(name, str(error), error.stderr_tail))
            raise
        ended = time.monotonic()
        seconds = ended - started
        self._status = replace(self._ready_status(), seconds=seconds, list_seconds=ended - opened)
        self._take(lists)
        self._emit(ServerConnected(name, self._status.tool_count, seconds))

    async def _open(self) -> McpConnection:
        from mcpagent.mcp.connection import McpConnection

        connection = McpConnection(
            self.config,
            era="legacy" if self._is_modern is False else "auto",
            on_warning=self._warn,
            on_change=self._changed,
            environ=self._environ,
            handlers=self._handlers,
            auth=self._auth,
            log_folder=self._log_folder,
        )
        await connection.open()
        self._is_modern = connection.is_modern
        return connection

    async def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    # --- changes ---

    def _changed(self, what: str) -> None:
        """The server says a list changed: all are read again, at most once in `DEBOUNCE_SECONDS`."""
        self._stale = True
        if what == "tools" and self._cache is not None:
            self._cache.drop(self.config)
        self._refresh_soon()

    def _refresh_soon(self) -> None:
        if (self._refreshing is None or self._refreshing.done()) and not self._closed:
            self._refreshing = asyncio.create_task(self._refresh(), name=f"mcp-refresh-{self.config.name}")

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(DEBOUNCE_SECONDS)
            self._stale = False
            is_known = self._status.state == "ready"
            try:
                await self._live_connection()
            except ServerError as error:
                self._warn(f"its lists could not be read again: {error}")
            else:
                if is_known:
                    await self._reread()
            if not self._stale:
                return

    async def _reread(self) -> None:
        try:
            self._take(await self._read_lists())
        except ServerError as error:
            self._warn(f"its lists could not be read again: {error}")

    async def _settled(self) -> None:
        """Waits a little for lists that are being read again, so that what a call changed is known when it returns."""
        if self._refreshing is not None and not self._refreshing.done():
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
        )

    def _warn(self, text: str) -> None:
        line = f'server "{self.config.name}": {safe_line(text, 300)}'
        if line in self._warnings or len(self._warnings) >= _MAX_WARNINGS:
            return
        self._warnings[line] = None
        self._emit(Notice(line, "warning"))

    # --- lists ---

    async def _read_lists(self) -> ServerLists:
        """Reads the lists at once; only the tool list is needed, without the others the server is still of use."""
        assert self._connection is not None
        capabilities = self._connection.session.server_capabilities
        limit = self.config.connect_timeout_seconds
        try:
            async with asyncio.timeout(limit):
                lists: tuple[Any, Any, Any] = await asyncio.gather(
                    self._list_tools() if capabilities and capabilities.tools else _no_tools(),
                    self._list_prompts() if capabilities and capabilities.prompts else _nothing(),
                    self._list_resources() if capabilities and capabilities.resources else _nothing(),
                )
        except TimeoutError:
            raise self._error(f"did not list its tools within {limit:g} s", "tools/list") from None
        except (RefusedError, CallTimeoutError) as error:
            raise self._error(f"failed tools/list: {safe_line(str(error))}", "tools/list") from None
        (tools, ttl_seconds), prompts, resources = lists
        return ServerLists(tools, prompts, resources, ttl_seconds)

    def _error(self, what: str, phase: str) -> ServerError:
        return ServerError(f'server "{self.config.name}" {what}', server=self.config.name, phase=phase)

    async def _list_tools(self) -> tuple[tuple[ToolDefinition, ...], float]:
        """The tools and how many seconds the server says they stay as they are."""
        assert self._connection is not None
        found: dict[str, ToolDefinition] = {}
        cursor: str | None = None
        seen: set[str] = set()
        ttl_seconds = 0.0
        for _ in range(MAX_PAGES):
            page = await self._connection.list_tools_page(cursor, self._list_limits())
            ttl_seconds = (page.ttl_ms or 0) / 1000
            for tool in page.tools:
                if tool.name in found:
                    self._warn(f'lists the tool "{safe_line(tool.name, 60)}" twice; the first counts')
                else:
                    found[tool.name] = _definition(tool, self.config.name)
            cursor = page.next_cursor
            if cursor is None and len(found) <= MAX_TOOLS:
                return tuple(found.values()), ttl_seconds
            if cursor is None or cursor in seen or len(found) >= MAX_TOOLS:
                break
            seen.add(cursor)
        kept = tuple(found.values())[:MAX_TOOLS]
        self._warn(f"its tool list does not end; the first {len(kept)} tools are used")
        return kept, ttl_seconds

    async def _list_prompts(self) -> tuple[PromptInfo, ...]:
        import mcp_types as types

        items = await self._list_items(types.ListPromptsRequest, "prompts")
        return tuple(_prompt_info(item) for item in items)

    async def _list_resources(self) -> tuple[ResourceInfo, ...]:
        import mcp_types as types

        resources = await self._list_items(types.ListResourcesRequest, "resources")
        templates = await self._list_items(types.ListResourceTemplatesRequest, "resourceTemplates")
        return (
            *(_resource_info(item, is_template=False) for item in resources),
            *(_resource_info(item, is_template=True) for item in templates),
        )

    async def _list_items(self, request_type: Any, key: str) -> list[dict[str, Any]]:
        """All items of a list that the server may also not have; what fails here is a warning."""
        import mcp_types as types

        assert self._connection is not None
        items: list[dict[str, Any]] = []
        seen: set[str | None] = {None}
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor) if cursor is not None else None
            try:
                page = await self._connection.request(request_type(params=params), limits=self._list_limits())
            except (RefusedError, CallTimeoutError, ServerError) as error:
                self._warn(f"cannot list its {key}: {error}")
                break
            items.extend(page.get(key) or ())
            cursor = page.get("nextCursor")
            if cursor in seen or len(items) >= MAX_LISTED:
                break
            seen.add(cursor)
        return items[:MAX_LISTED]

    def _list_limits(self) -> Limits:
        from mcpagent.mcp.connection import Limits

        return Limits(self.config.connect_timeout_seconds, self.config.connect_timeout_seconds)

    def _is_enabled(self, definition: ToolDefinition) -> bool:
        name = definition.original_name
        if self.config.enabled_tools and not _matches(name, self.config.enabled_tools):
            return False
        return not _matches(name, self.config.disabled_tools)

    def _is_always_loaded(self, definition: ToolDefinition) -> bool:
        return _matches(definition.original_name, self.config.always_load)

    def _ready_status(self) -> ServerStatus:
        assert self._connection is not None
        session = self._connection.session
        info = session.server_info
        can = session.server_capabilities
        return ServerStatus(
            self.config.name,
            "ready",
            protocol_version=session.protocol_version or "",
            title=safe_line((info.title or info.name) if info else "", 100),
            instructions=safe_text(session.instructions or ""),
            capabilities=tuple(name for name in type(can).model_fields if getattr(can, name)) if can else (),
        )


async def _no_tools() -> tuple[tuple[ToolDefinition, ...], float]:
    return (), 0.0


async def _nothing() -> tuple[Any, ...]:
    return ()


def _matches(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _may_have_run(error: LostError) -> str:
    return "" if error.outcome != "unknown" else "; the call may have run: check before you repeat it"


def _definition(tool: types.Tool, server: str) -> ToolDefinition:
    annotations = tool.annotations
    return ToolDefinition(
        name=tool.name,
        description=safe_text(tool.description or "")[:MAX_DESCRIPTION],
        parameters=tool.input_schema,
        server=server,
        original_name=tool.name,
        title=safe_line(tool.title or (annotations.title if annotations else None) or "", 100),
        read_only=annotations.read_only_hint if annotations else None,
    )


def _prompt_info(item: dict[str, Any]) -> PromptInfo:
    arguments = tuple(
        PromptArgument(
            str(part.get("name")), safe_line(str(part.get("description") or ""), 120), bool(part.get("required"))
        )
        for part in item.get("arguments") or ()
    )
    return PromptInfo(str(item.get("name")), safe_line(str(item.get("description") or ""), 200), arguments)


def _resource_info(item: dict[str, Any], *, is_template: bool) -> ResourceInfo:
    return ResourceInfo(
        uri=str(item.get("uriTemplate" if is_template else "uri")),
        name=safe_line(str(item.get("title") or item.get("name") or ""), 80),
        description=safe_line(str(item.get("description") or ""), 200),
        media_type=safe_line(str(item.get("mimeType") or ""), 60),
        is_template=is_template,
    )
