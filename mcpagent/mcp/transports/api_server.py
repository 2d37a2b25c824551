"""An HTTP API as an MCP server inside this process: it lists the operations of an OpenAPI document, and calls them.

So an API has everything that a server has: cached lists, pins, rules, consent, statuses and a sign-in.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import httpx2
from mcp_types import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from mcpagent.config import ServerConfig
from mcpagent.errors import ServerError
from mcpagent.mcp.sdk import SessionMessage
from mcpagent.mcp.transports.bytes_to_messages import Line
from mcpagent.mcp.transports.remote import certificates, client_for, network
from mcpagent.openapi.api_client import ApiClient, by_name
from mcpagent.openapi.api_documents import DocumentError, is_url, load_document, origin
from mcpagent.openapi.api_tools import ApiTool, all_api_tools
from mcpagent.openapi.operations import Api, read_api
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import revealed

_VERSION = "2025-11-25"
_PAGE = 200
"""Number of tools on one page of the list."""


def groups_of(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return category and tags of a tool of an API, from its metadata, as fields of `ToolDefinition`."""
    category, tags = meta.get("mcpagent/category"), meta.get("mcpagent/tags")
    return {
        "category": safe_line(str(category or ""), 60),
        "tags": tuple(map(str, tags or ())),
    }


@asynccontextmanager
async def api_streams(
    config: ServerConfig,
    warn: Callable[[str], None],
    *,
    auth: httpx2.Auth | None = None,
) -> AsyncIterator[Line]:
    """Open the messages of one API. Raises `ServerError` (phase "connect") if its document cannot be used."""
    try:
        api, tools = await asyncio.to_thread(_loaded, config)
    except DocumentError as error:
        raise ServerError(
            f'server "{config.name}": its OpenAPI document {error}',
            server=config.name,
            phase="connect",
        ) from None
    if api.left_out:
        more = f", and {len(api.left_out) - 1} more" if len(api.left_out) > 1 else ""
        warn(f"left out {safe_line(api.left_out[0], 200)}{more}")
    own = replace(config, url=api.base_url)
    values = {name: revealed(text) for name, text in config.credentials.items()}
    outgoing, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](
        64
    )
    bare = replace(own, headers={})
    async with (
        incoming,
        outgoing,
        client_for(own, network(auth, own)) as client,
        client_for(bare, network(None, bare)) as elsewhere,
    ):
        calls = ApiClient(
            api, by_name(tools), client, values, config.max_message_bytes, elsewhere
        )
        server = _ApiServer(api, tools, calls, outgoing.send)
        try:
            yield incoming, server.receive
        finally:
            await server.close()


def _loaded(config: ServerConfig) -> tuple[Api, list[ApiTool]]:
    """Read the document; call it in a thread. The headers of the entry are sent only to the API's own origin."""
    source, base = config.openapi, config.address
    headers = {"User-Agent": "mcpagent"}
    if (
        isinstance(source, str)
        and is_url(source)
        and (not base or origin(base) == origin(source))
    ):
        headers |= {name: revealed(text) for name, text in config.headers.items()}
    with httpx2.Client(
        verify=certificates(), headers=headers, timeout=config.connect_timeout_seconds
    ) as client:
        document = load_document(source, client)
        api = read_api(document, base, list(filter(is_url, config.credentials)))
        return api, all_api_tools(document, api)


class _UnknownMethodError(Exception):
    """Raised for a request that an API cannot answer."""


@dataclass(slots=True)
class _ApiServer:
    """Answers the requests of a session. Each call has a task, which a cancellation ends."""

    api: Api
    tools: list[ApiTool]
    client: ApiClient
    send: Callable[[SessionMessage], Awaitable[None]]
    calls: dict[Any, asyncio.Task[None]] = field(
        default_factory=dict[Any, asyncio.Task[None]]
    )

    async def receive(self, item: SessionMessage) -> None:
        """Process a message of the session."""
        message = item.message
        if (
            isinstance(message, JSONRPCNotification)
            and message.method == "notifications/cancelled"
        ):
            call = self.calls.get((message.params or {}).get("requestId"))
            if call is not None:
                call.cancel()
        if not isinstance(message, JSONRPCRequest):
            return
        task = asyncio.create_task(self._answer(message), name="mcp-api-call")
        self.calls[message.id] = task
        task.add_done_callback(lambda _, key=message.id: self.calls.pop(key, None))  # type: ignore[misc]

    async def close(self) -> None:
        """Cancel the calls in progress."""
        calls = list(self.calls.values())
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    async def _answer(self, request: JSONRPCRequest) -> None:
        answer: JSONRPCResponse | JSONRPCError
        try:
            result = await self._result(request.method, request.params or {})
            answer = JSONRPCResponse(jsonrpc="2.0", id=request.id, result=result)
        except _UnknownMethodError:
            answer = _refusal(request, METHOD_NOT_FOUND, "there is no such method")
        except Exception as error:  # noqa: BLE001 - the caller would wait for an answer until its timeout
            answer = _refusal(request, INTERNAL_ERROR, type(error).__name__)
        await self.send(SessionMessage(answer))

    async def _result(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of a request. Raises `_UnknownMethodError`."""
        if method == "tools/call":
            return await self.client.call(
                str(params.get("name")), params.get("arguments") or {}
            )
        if method == "tools/list":
            start = int(params.get("cursor") or 0)
            page = self.tools[start : start + _PAGE]
            listed: dict[str, Any] = {"tools": [tool.listed() for tool in page]}
            if start + _PAGE < len(self.tools):
                listed["nextCursor"] = str(start + _PAGE)
            return listed
        if method == "initialize":
            info = {"name": "openapi", "title": self.api.title, "version": "1"}
            return {
                "protocolVersion": _VERSION,
                "capabilities": {"tools": {}},
                "serverInfo": info,
            }
        if method == "ping":
            return {}
        raise _UnknownMethodError


def _refusal(request: JSONRPCRequest, code: int, message: str) -> JSONRPCError:
    return JSONRPCError(
        jsonrpc="2.0", id=request.id, error=ErrorData(code=code, message=message)
    )
