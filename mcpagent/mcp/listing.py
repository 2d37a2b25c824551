"""Reading what a server lists, page by page; what is malformed or does not end costs only itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import mcp_types as types

from mcpagent.config import ServerConfig
from mcpagent.errors import ServerError
from mcpagent.mcp.connection import McpConnection
from mcpagent.mcp.failures import CallTimeoutError, Limits, RefusedError
from mcpagent.mcp.lists import PromptArgument, PromptInfo, ResourceInfo, ServerLists
from mcpagent.mcp.redaction import Redactor
from mcpagent.messages import ToolDefinition
from mcpagent.safe_text import hides_something, safe_line, safe_text

MAX_PAGES = 100
MAX_TOOLS = 10_000
MAX_LISTED = 1_000
"""Prompts and resources kept for description; more can still be asked for by name."""
MAX_DESCRIPTION = 20_000
OTHERS_SECONDS = 5.0
"""How long a server may take for a page of prompts or resources: its tools wait for them."""
_MANY = 50
"""With descriptions as long as they may be, cleaning the text of more holds the event loop."""


async def read_lists(connection: McpConnection, config: ServerConfig, warn: Callable[[str], None]) -> ServerLists:
    """All lists at once. Only that of the tools is needed; without the others the server is still of use.

    Raises `ServerError` where the tools cannot be listed within `connect_timeout_seconds`.
    """
    return await _ListReader(connection, config, warn).read()


class _ListReader:
    def __init__(self, connection: McpConnection, config: ServerConfig, warn: Callable[[str], None]) -> None:
        self._connection = connection
        self._config = config
        self._warn = warn
        self._redactor = Redactor(config)
        self._redact = self._redactor.result
        self._limits = Limits(config.connect_timeout_seconds, config.connect_timeout_seconds)
        others_seconds = min(OTHERS_SECONDS, config.connect_timeout_seconds * 0.5)
        self._others_limits = Limits(others_seconds, others_seconds)

    async def read(self) -> ServerLists:
        can = self._connection.session.server_capabilities
        try:
            async with asyncio.timeout(self._limits.total):
                tools, prompts, resources = await asyncio.gather(
                    self._tools(has_tools=bool(can and can.tools)),
                    self._prompts() if can and can.prompts else _nothing(),
                    self._resources() if can and can.resources else _nothing(),
                )
        except TimeoutError:
            raise self._error(f"did not list its tools within {self._limits.total:g} s") from None
        except (RefusedError, CallTimeoutError) as error:
            raise self._error(f"failed tools/list: {safe_line(str(error)) or 'it gave no reason'}") from None
        lists: ServerLists = replace(tools, prompts=prompts, resources=resources)
        return lists

    def _error(self, what: str) -> ServerError:
        name = self._config.name
        return ServerError(f'server "{name}" {what}', server=name, phase="tools/list")

    async def _tools(self, *, has_tools: bool) -> ServerLists:
        found: dict[str, types.Tool] = {}
        cursor: str | None = None
        seen: set[str] = set()
        ttl_seconds = 0.0
        for _ in range(MAX_PAGES if has_tools else 0):
            page = await self._connection.list_tools_page(cursor, self._limits)
            ttl_seconds = (page.ttl_ms or 0) / 1000
            for tool in page.tools:
                if tool.name in found:
                    self._warn(f'lists the tool "{safe_line(tool.name, 60)}" twice; the first counts')
                else:
                    found[tool.name] = tool
            cursor = page.next_cursor
            if cursor is None and len(found) <= MAX_TOOLS:
                break
            if cursor is None or cursor in seen or len(found) >= MAX_TOOLS:
                self._warn_of_no_end(len(found))
                break
            seen.add(cursor)
        else:
            if has_tools:
                self._warn_of_no_end(len(found))
        tools = list(found.values())[:MAX_TOOLS]
        many = len(tools) > _MANY
        return ServerLists(
            await asyncio.to_thread(self._definitions, tools) if many else self._definitions(tools),
            ttl_seconds=ttl_seconds,
            safe_by_hint=tuple(tool.name for tool in tools if _is_said_to_be_repeatable(tool)),
            task_only=tuple(tool.name for tool in tools if _task_support(tool) == "required"),
            task_able=tuple(tool.name for tool in tools if _task_support(tool) == "optional"),
        )

    def _warn_of_no_end(self, count: int) -> None:
        self._warn(f"its tool list does not end; the first {min(count, MAX_TOOLS)} tools are used")

    def _definitions(self, tools: list[types.Tool]) -> tuple[ToolDefinition, ...]:
        return tuple(self._definition(tool) for tool in tools)

    def _definition(self, tool: types.Tool) -> ToolDefinition:
        annotations = tool.annotations
        if hides_something(tool.description or ""):
            self._warn(
                f'the text of the tool "{safe_line(tool.name, 60)}" has invisible characters; they are taken out'
            )
        return ToolDefinition(
            name=tool.name,
            description=self._redact(safe_text(tool.description or "")[:MAX_DESCRIPTION]),
            parameters=self._redactor.json(tool.input_schema),
            server=self._config.name,
            original_name=tool.name,
            title=safe_line(self._redact(tool.title or (annotations.title if annotations else None) or ""), 100),
            read_only=annotations.read_only_hint if annotations else None,
        )

    async def _prompts(self) -> tuple[PromptInfo, ...]:
        return tuple(_prompt_info(item) for item in await self._shown(types.ListPromptsRequest, "prompts"))

    async def _shown(self, request_type: Any, key: str) -> list[dict[str, Any]]:
        """All items, without secrets; one whose own name holds a secret can be listed and not be asked for."""
        return [self._redactor.json(item) for item in await self._items(request_type, key)]

    async def _resources(self) -> tuple[ResourceInfo, ...]:
        resources, templates = await asyncio.gather(
            self._shown(types.ListResourcesRequest, "resources"),
            self._shown(types.ListResourceTemplatesRequest, "resourceTemplates"),
        )
        return (
            *(_resource_info(item, is_template=False) for item in resources),
            *(_resource_info(item, is_template=True) for item in templates),
        )

    async def _items(self, request_type: Any, key: str) -> list[dict[str, Any]]:
        """All items of a list that the server may also not have; what fails here is a warning."""
        items: list[dict[str, Any]] = []
        seen: set[str | None] = {None}
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor) if cursor is not None else None
            try:
                page = await self._connection.request(
                    request_type(params=params), limits=self._others_limits, is_vital=False
                )
            except (RefusedError, CallTimeoutError, ServerError) as error:
                self._warn(f"cannot list its {key}: {error}")
                break
            items.extend(page.get(key) or ())
            cursor = page.get("nextCursor")
            if cursor in seen or len(items) >= MAX_LISTED:
                break
            seen.add(cursor)
        return items[:MAX_LISTED]


def _nothing() -> Awaitable[tuple[Any, ...]]:
    return asyncio.sleep(0, ())


def _is_said_to_be_repeatable(tool: types.Tool) -> bool:
    hints = tool.annotations
    return hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)


def _task_support(tool: types.Tool) -> str | None:
    return None if tool.execution is None else tool.execution.task_support


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
