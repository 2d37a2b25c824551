"""One configured MCP server as a toolset: its tools bound to calls, over a connection that is replaced when it dies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from mcpagent.config import ServerConfig
from mcpagent.errors import ServerError
from mcpagent.events import Emit, Notice, ServerConnected, ServerConnecting, ServerFailed, ignore
from mcpagent.mcp.failures import CallTimeoutError, InvalidAnswerError, LostError, RefusedError
from mcpagent.mcp.status import ServerStatus
from mcpagent.messages import ToolDefinition
from mcpagent.safe_text import safe_line, safe_text
from mcpagent.tools import Tool, ToolOutput

if TYPE_CHECKING:
    import mcp_types as types

    from mcpagent.mcp.connection import Limits, McpConnection

MAX_PAGES = 100
MAX_TOOLS = 10_000
MAX_LISTED = 1_000
"""Prompts and resources kept for description; more can still be asked for by name."""
MAX_DESCRIPTION = 20_000
_MAX_WARNINGS = 50

ContentKind: TypeAlias = Literal["prompts", "resources", "templates"]


@dataclass(frozen=True, slots=True)
class PromptArgument:
    name: str
    description: str
    required: bool


@dataclass(frozen=True, slots=True)
class PromptInfo:
    """One prompt of a server."""

    name: str
    description: str
    arguments: tuple[PromptArgument, ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceInfo:
    """One resource or, where `is_template`, a URI template (RFC 6570) for many."""

    uri: str
    name: str
    description: str
    media_type: str = ""
    is_template: bool = False


class McpToolset:
    """The tools, prompts and resources of one server; entered once, from any task, and left from any task.

    Entering raises `ServerError` where the server cannot be used. Later failures never raise: a call that fails gives
    an output that says so, and the next call finds a new connection. `environ` is what the child may inherit from.
    """

    def __init__(self, config: ServerConfig, *, emit: Emit = ignore, environ: Mapping[str, str] | None = None) -> None:
        self.config = config
        self._emit = emit
        self._environ = environ
        self._status = ServerStatus(config.name, "closed")
        self._connection: McpConnection | None = None
        self._reconnecting = asyncio.Lock()
        self._closed = False
        self._definitions: tuple[ToolDefinition, ...] = ()
        self._warnings: dict[str, None] = {}
        self.prompts: tuple[PromptInfo, ...] = ()
        self.resources: tuple[ResourceInfo, ...] = ()

    @property
    def status(self) -> ServerStatus:
        return replace(self._status, warnings=tuple(self._warnings))

    async def __aenter__(self) -> McpToolset:
        started = time.monotonic()
        name = self.config.name
        self._status = ServerStatus(name, "connecting")
        self._emit(ServerConnecting(name))
        try:
            await self._connect()
            await self._list_all()
        except ServerError as error:
            seconds = time.monotonic() - started
            self._status = ServerStatus(name, "failed", reason=str(error), seconds=seconds)
            self._emit(ServerFailed(name, str(error)))
            await self._drop_connection()
            raise
        except BaseException:
            await self._drop_connection()
            raise
        seconds = time.monotonic() - started
        self._status = replace(self._ready_status(), seconds=seconds)
        self._emit(ServerConnected(name, len(self._definitions), seconds))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        await self._drop_connection()
        self._status = replace(self._status, state="closed")

    async def tools(self) -> list[Tool]:
        """The server's tools by their own names, in its order."""
        return [
            Tool(definition, self._runner(definition.original_name), deferred=not self._is_always_loaded(definition))
            for definition in self._definitions
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

    def _runner(self, tool: str) -> Any:
        async def run(arguments: dict[str, Any]) -> ToolOutput:
            return await self._call(tool, arguments)

        return run

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
                return await connection.request(request, target=target, limits=self._call_limits())
            except RefusedError as error:
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

    def _call_limits(self) -> Limits:
        from mcpagent.mcp.connection import Limits

        return Limits(self.config.timeout_seconds, self.config.total_timeout_seconds)

    # --- connection ---

    async def _live_connection(self) -> McpConnection:
        """The connection, or a new one where it died. One caller reconnects, the others wait for it."""
        if self._connection is not None and self._connection.usable:
            return self._connection
        async with self._reconnecting:
            if self._closed:
                raise ServerError(f'server "{self.config.name}" is closed', server=self.config.name, phase="connect")
            if self._connection is None or not self._connection.usable:
                await self._drop_connection()
                await self._connect()
            assert self._connection is not None
            return self._connection

    async def _connect(self) -> None:
        from mcpagent.mcp.connection import McpConnection

        connection = McpConnection(self.config, on_warning=self._warn, on_change=self._changed, environ=self._environ)
        await connection.open()
        self._connection = connection

    async def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def _changed(self, what: str) -> None:
        self._emit(Notice(f'server "{self.config.name}" changed its {what}'))

    def _warn(self, text: str) -> None:
        line = f'server "{self.config.name}": {safe_line(text, 300)}'
        if line in self._warnings or len(self._warnings) >= _MAX_WARNINGS:
            return
        self._warnings[line] = None
        self._emit(Notice(line, "warning"))

    # --- lists ---

    async def _list_all(self) -> None:
        """Reads the lists at once; only the tool list is needed, without the others the server is still of use."""
        assert self._connection is not None
        capabilities = self._connection.session.server_capabilities
        limit = self.config.connect_timeout_seconds
        try:
            async with asyncio.timeout(limit):
                lists: tuple[Any, Any, Any] = await asyncio.gather(
                    self._list_tools() if capabilities and capabilities.tools else _nothing(),
                    self._list_prompts() if capabilities and capabilities.prompts else _nothing(),
                    self._list_resources() if capabilities and capabilities.resources else _nothing(),
                )
        except TimeoutError:
            raise self._list_error(f"did not list its tools within {limit:g} s") from None
        except (RefusedError, CallTimeoutError) as error:
            raise self._list_error(f"failed tools/list: {safe_line(str(error))}") from None
        tools, self.prompts, self.resources = lists
        self._definitions = tuple(definition for definition in tools if self._is_enabled(definition))

    def _list_error(self, what: str) -> ServerError:
        return ServerError(f'server "{self.config.name}" {what}', server=self.config.name, phase="tools/list")

    async def _list_tools(self) -> tuple[ToolDefinition, ...]:
        assert self._connection is not None
        found: dict[str, ToolDefinition] = {}
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(MAX_PAGES):
            page = await self._connection.list_tools_page(cursor, self._list_limits())
            for tool in page.tools:
                if tool.name in found:
                    self._warn(f'lists the tool "{safe_line(tool.name, 60)}" twice; the first counts')
                else:
                    found[tool.name] = _definition(tool, self.config.name)
            cursor = page.next_cursor
            if cursor is None and len(found) <= MAX_TOOLS:
                return tuple(found.values())
            if cursor is None or cursor in seen or len(found) >= MAX_TOOLS:
                break
            seen.add(cursor)
        kept = tuple(found.values())[:MAX_TOOLS]
        self._warn(f"its tool list does not end; the first {len(kept)} tools are used")
        return kept

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
        return ServerStatus(
            self.config.name,
            "ready",
            tool_count=len(self._definitions),
            protocol_version=session.protocol_version or "",
            title=safe_line((info.title or info.name) if info else "", 100),
            instructions=safe_text(session.instructions or ""),
        )


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
