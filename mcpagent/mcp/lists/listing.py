"""Read a server's lists, page by page. A malformed or endless list does not affect the others."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import mcp_types as types

from mcpagent.config import ServerConfig
from mcpagent.errors import ServerError
from mcpagent.mcp.connection import McpConnection
from mcpagent.mcp.lists.list_cache import CachedServer
from mcpagent.mcp.lists.server_lists import (
    PromptArgument,
    PromptInfo,
    ResourceInfo,
    ServerLists,
)
from mcpagent.mcp.request_failures import (
    REQUEST_FAILURES,
    CallTimeoutError,
    InvalidAnswerError,
    RefusedError,
    RequestLimits,
)
from mcpagent.mcp.transports.api_server import groups_of
from mcpagent.utilities.python.worker_threads import (
    created_beside_loop,
    is_large,
    json_in_steps,
)
from mcpagent.utilities.text.for_model import (
    MAX_DESCRIPTION,
    cut_for_model,
    line_for_model,
)
from mcpagent.utilities.text.safe_text import hides_something, safe_line
from mcpagent.utilities.text.secrets import without_random_secrets
from mcpagent.values.messages import ToolDefinition

Item = TypeVar("Item")

MAX_PAGES = 100
MAX_TOOLS = 10_000
MAX_LISTED = 1_000
"""Maximum number of prompts and resources that are listed; others can be requested by name."""
MAX_KEPT = 20_000
"""Maximum number of characters of a description that are stored, for pins and comparison; a model gets fewer."""
OTHERS_SECONDS = 5.0
"""Timeout for a page of prompts or resources, because the server's tools wait for them."""
_MANY = 50
"""Maximum number of tools whose texts are cleaned in the event loop; more tools could block it."""


async def list_server(
    connection: McpConnection, config: ServerConfig, warn: Callable[[str], None]
) -> CachedServer:
    """Return the data of a server: its protocol version, its own description, and its lists, which are read
    concurrently.

    Only the list of tools is required; without the others, the server is still usable. Raises `ServerError` if the
    tools cannot be listed within `connect_timeout_seconds`.
    """
    session = connection.session
    info = session.server_info
    return CachedServer(
        await _ListReader(connection, config, warn).read(),
        is_modern=connection.is_modern,
        protocol_version=safe_line(session.protocol_version or "", 40),
        title=line_for_model(
            without_random_secrets((info.title or info.name) if info else ""), 100
        ),
        instructions=without_random_secrets(cut_for_model(session.instructions or "")),
    )


class _ListReader:
    def __init__(
        self,
        connection: McpConnection,
        config: ServerConfig,
        warn: Callable[[str], None],
    ) -> None:
        self._connection = connection
        self._config = config
        self._warn = warn
        self._limits = RequestLimits(
            config.connect_timeout_seconds, config.connect_timeout_seconds
        )
        others_seconds = min(OTHERS_SECONDS, config.connect_timeout_seconds * 0.5)
        self._others_limits = RequestLimits(others_seconds, others_seconds)
        self._unused: dict[str, dict[str, dict[str, Any]]] = {}

    async def read(self) -> ServerLists:
        can = self._connection.session.server_capabilities
        try:
            async with asyncio.timeout(self._limits.total):
                tools, prompts, resources = await asyncio.gather(
                    self._tools()
                    if can and can.tools
                    else asyncio.sleep(0, ServerLists()),
                    self._prompts() if can and can.prompts else asyncio.sleep(0, ()),
                    self._resources()
                    if can and can.resources
                    else asyncio.sleep(0, ()),
                )
        except TimeoutError:
            raise self._error(
                f"did not list its tools within {self._limits.total:g} s"
            ) from None
        except (RefusedError, CallTimeoutError) as error:
            raise self._error(
                f"failed tools/list: {safe_line(str(error)) or 'it gave no reason'}"
            ) from None
        unused = {"tools": tools.unused.get("tools", {}), **self._unused}
        return replace(tools, prompts=prompts, resources=resources, unused=unused)

    def _error(self, what: str) -> ServerError:
        name = self._config.name
        return ServerError(f'server "{name}" {what}', server=name, phase="tools/list")

    async def _tools(self) -> ServerLists:
        ttl_seconds = 0.0

        async def page_at(cursor: str | None) -> tuple[list[types.Tool], str | None]:
            nonlocal ttl_seconds
            limits = self._limits
            if cursor is not None:  # if a later page fails, the earlier ones are used
                limits = self._others_limits
            page = await self._connection.list_tools_page(cursor, limits)
            ttl_seconds = (page.ttl_ms or 0) / 1000
            return page.tools, page.next_cursor

        listed, what = await _all_pages(page_at, MAX_TOOLS)
        much = len(listed) > _MANY or is_large(
            [[tool.description, tool.input_schema] for tool in listed]
        )
        warnings: list[str] = []
        read = partial(self._lists, listed, what, warnings.append)
        lists = await created_beside_loop(read, is_much=much)
        for warning in warnings:
            self._warn(warning)
        return replace(lists, ttl_seconds=ttl_seconds)

    def _lists(
        self, listed: list[types.Tool], what: str, warn: Callable[[str], None]
    ) -> ServerLists:
        """Return the tools as values, each name once; `what` is the reason if the list is incomplete.

        `listed` is emptied, because freeing it in the event loop would take tens of milliseconds.
        """
        by_name: dict[str, types.Tool] = {}
        for tool in listed:
            if by_name.setdefault(tool.name, tool) is not tool:
                warn(
                    f'lists the tool "{safe_line(tool.name, 60)}" twice; the first counts'
                )
        listed.clear()
        tools = list(by_name.values())
        if what:
            warn(f"its tool list {what}; the first {len(tools)} tools are used")
        return ServerLists(
            tuple([self._definition(tool, warn) for tool in tools]),
            safe_by_hint=tuple(
                tool.name for tool in tools if _is_said_to_be_repeatable(tool)
            ),
            output_schemas={
                tool.name: schema
                for tool in tools
                if (schema := tool.output_schema) is not None
            },
            task_only=tuple(
                tool.name for tool in tools if _task_support(tool) == "required"
            ),
            task_able=tuple(
                tool.name for tool in tools if _task_support(tool) == "optional"
            ),
            unused={
                "tools": {tool.name: rest for tool in tools if (rest := _rest(tool))}
            },
        )

    def _definition(
        self, tool: types.Tool, warn: Callable[[str], None]
    ) -> ToolDefinition:
        annotations = tool.annotations
        name, said, schema = (
            safe_line(tool.name, 60),
            tool.description or "",
            tool.input_schema,
        )
        if hides_something(said) or hides_something(json_in_steps(schema)):
            warn(
                f'the text of the tool "{name}" has invisible characters; they are taken out'
            )
        if len(said) > MAX_DESCRIPTION:
            warn(
                f'the description of "{name}" has {len(said):,} characters; {MAX_DESCRIPTION:,} are used'
            )
        return ToolDefinition(
            name=tool.name,
            description=without_random_secrets(_kept(tool.description or "")),
            parameters=schema,
            server=self._config.name,
            original_name=tool.name,
            title=line_for_model(
                without_random_secrets(
                    tool.title or (annotations.title if annotations else None) or ""
                ),
                100,
            ),
            read_only=annotations.read_only_hint if annotations else None,
            **(groups_of(tool.meta or {}) if self._config.openapi else {}),
        )

    async def _prompts(self) -> tuple[PromptInfo, ...]:
        return tuple(
            _prompt_info(item)
            for item in await self._items(types.ListPromptsRequest, "prompts")
        )

    async def _resources(self) -> tuple[ResourceInfo, ...]:
        resources, templates = await asyncio.gather(
            self._items(types.ListResourcesRequest, "resources"),
            self._items(types.ListResourceTemplatesRequest, "resourceTemplates"),
        )
        return (
            *(_resource_info(item, is_template=False) for item in resources),
            *(_resource_info(item, is_template=True) for item in templates),
        )

    async def _items(self, request_type: Any, key: str) -> list[dict[str, Any]]:
        """Return all items of a list that not every server has; a failure is only a warning."""

        async def page_at(
            cursor: str | None,
        ) -> tuple[list[dict[str, Any]], str | None]:
            params = None
            if cursor is not None:
                params = types.PaginatedRequestParams(cursor=cursor)
            request = request_type(params=params)
            try:
                page = await self._connection.request(
                    request, limits=self._others_limits, is_vital=False
                )
            except REQUEST_FAILURES as error:
                # Many servers with resources have no templates, and respond with this error.
                is_absent = getattr(error, "code", None) == types.METHOD_NOT_FOUND
                if not (is_absent and key == "resourceTemplates"):
                    self._warn(f"cannot list its {key}: {error}")
                return [], None
            return page.get(key) or [], page.get("nextCursor")

        items, _ = await _all_pages(page_at, MAX_LISTED)
        identity = _IDENTITIES[key]
        self._unused[key] = {str(item.get(identity)): item for item in items}
        return items


async def _all_pages(
    page_at: Callable[[str | None], Awaitable[tuple[list[Item], str | None]]], most: int
) -> tuple[list[Item], str]:
    """Return at most `most` items of a list, and the reason if the list is incomplete, else ""."""
    items: list[Item] = []
    seen: set[str] = set()
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        try:
            page, cursor = await page_at(cursor)
        except (RefusedError, CallTimeoutError, InvalidAnswerError) as error:
            if not items:
                raise
            return items, f"could not be read to its end ({safe_line(str(error), 200)})"
        await asyncio.sleep(
            0
        )  # let other tasks run: the pages of one large response are all here, and each takes some milliseconds
        items.extend(page)
        if len(items) > most or (len(items) == most and cursor is not None):
            return items[:most], f"has more than {most}"
        if cursor is None:
            return items, ""
        if cursor in seen:
            break
        seen.add(cursor)
    return items, "does not end"


_IDENTITIES = {
    "prompts": "name",
    "resources": "uri",
    "resourceTemplates": "uriTemplate",
}
_USED = {"name", "description", "input_schema", "output_schema"}


def _rest(tool: types.Tool) -> dict[str, Any]:
    """Return the fields of a tool's definition that `ToolDefinition` lacks, as JSON."""
    return tool.model_dump(by_alias=True, mode="json", exclude=_USED, exclude_none=True)


def _kept(description: str) -> str:
    """Return a tool's description unchanged; if it is too long, its beginning and a hash of the whole."""
    if len(description) <= MAX_KEPT:
        return description
    digest = hashlib.sha256(description.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{description[:MAX_KEPT]} [SHA-256 of all of it: {digest}]"


def _is_said_to_be_repeatable(tool: types.Tool) -> bool:
    hints = tool.annotations
    return hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)


def _task_support(tool: types.Tool) -> str | None:
    if tool.execution is None:
        return None
    return tool.execution.task_support


def _prompt_info(item: dict[str, Any]) -> PromptInfo:
    arguments = tuple(
        PromptArgument(
            str(part.get("name")),
            line_for_model(str(part.get("description") or ""), 120),
            bool(part.get("required")),
        )
        for part in item.get("arguments") or ()
    )
    return PromptInfo(
        str(item.get("name")),
        line_for_model(str(item.get("description") or ""), 200),
        arguments,
    )


def _resource_info(item: dict[str, Any], *, is_template: bool) -> ResourceInfo:
    return ResourceInfo(
        uri=str(item.get("uriTemplate" if is_template else "uri")),
        name=line_for_model(str(item.get("title") or item.get("name") or ""), 80),
        description=line_for_model(str(item.get("description") or ""), 200),
        media_type=line_for_model(str(item.get("mimeType") or ""), 60),
        is_template=is_template,
    )
