"""Between transport and session: messages are seen as they pass, answers repaired, and a flood is kept away."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    METHOD_NOT_FOUND,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from mcpagent.mcp.attempts import Attempts
from mcpagent.mcp.server_news import ServerNews
from mcpagent.mcp.tasks import NEWS, FollowedTasks, marked
from mcpagent.mcp.transports.beside_loop import beside_loop, is_large
from mcpagent.mcp.transports.bytes_to_messages import Transport, invalid_answer
from mcpagent.mcp.transports.open_requests import OpenRequest, OpenRequests
from mcpagent.mcp.transports.result_repairs import repair_result
from mcpagent.text.safe_text import safe_line

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

MAX_OPEN_MESSAGES = 100
"""Answers to a server's requests that may wait to be written."""

TOOLS_AT_ONCE = 500
_LOG_CHARACTERS = 500
_MOST_RESTS = 4
_MOST_CHANGES = 20
"""Repairs of one answer that are told one by one."""

_NOTHING_TO_KEEP = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_STAND_INS: Mapping[str, dict[str, Any]] = {
    "tools/call": {"content": [], "resultType": "complete"},
    "prompts/get": {"messages": [], "resultType": "complete"},
    "resources/read": {"contents": []} | _NOTHING_TO_KEEP,
    "prompts/list": {"prompts": []} | _NOTHING_TO_KEEP,
    "resources/list": {"resources": []} | _NOTHING_TO_KEEP,
    "resources/templates/list": {"resourceTemplates": []} | _NOTHING_TO_KEEP,
}
"""Results that the SDK need not parse, each with the smallest that it accepts."""

_CHANGES = {f"notifications/{what}/list_changed": what for what in ("tools", "prompts", "resources")}


class Observer(Protocol):
    """What takes notice of what happens on the wire."""

    def report(self, news: ServerNews) -> None:
        """The server says something unasked, or something about it is odd."""

    def junk(self, text: str) -> None:
        """The server sent something that is no message."""

    def ended(self) -> None:
        """The server will send nothing more."""


@asynccontextmanager
async def relayed(
    transport: Transport,
    observer: Observer,
    attempts: Attempts,
    tasks: FollowedTasks,
    allowed: Collection[str],
) -> AsyncIterator[TransportStreams]:
    """The transport with its answers repaired and its end observed.

    `attempts` note what is sent for them, and take their large results; `tasks` hear what is about them. What the
    server asks by a method that is `allowed` is for the session to answer, anything else is refused here.
    """
    async with transport as (messages, send):
        inject, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](64)
        relay = _Relay(send, inject, observer, attempts, tasks)
        pump = asyncio.create_task(relay.pump(messages, allowed), name="mcp-relay")
        try:
            yield incoming, relay
        finally:
            relay.close()
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
            inject.close()
            incoming.close()


class _Relay:
    """The messages of one connection, both ways; to the SDK it is the `WriteStream`."""

    def __init__(
        self,
        write: Callable[[SessionMessage], Awaitable[None]],
        inject: MemoryObjectSendStream[SessionMessage | Exception],
        observer: Observer,
        attempts: Attempts,
        tasks: FollowedTasks,
    ) -> None:
        self._write = write
        self._inject = inject
        self._observer = observer
        self._attempts = attempts
        self._tasks = tasks
        self._requests = OpenRequests(inject)
        self._pages = _Pages()
        self._background: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """Writes nothing more, and ends no request."""
        self._requests.close()
        for task in self._background:
            task.cancel()

    # --- to the server ---

    async def __aenter__(self) -> _Relay:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """The transport is closed by whoever opened it."""

    async def send(self, item: SessionMessage, /) -> None:
        """Hands a message of the session on. Who cancels a request does not wait for a server that reads nothing."""
        message = item.message
        if isinstance(message, JSONRPCRequest):
            if (page := self._pages.rest_for(message)) is not None:
                await self._inject.send(SessionMessage(page))
                return
            _keep_to_ourselves(message)
            self._attempts.sent(message.id)
            self._requests.add(message)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._requests.give_up((message.params or {}).get("requestId"))
            self._send_beside(item)
            return
        await self._write(item)

    def _send_beside(self, item: SessionMessage) -> None:
        task = asyncio.create_task(self._send_quietly(item), name="mcp-send")
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _send_quietly(self, item: SessionMessage) -> None:
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._write(item)

    # --- from the server ---

    async def pump(self, messages: AsyncIterator[SessionMessage | Exception], allowed: Collection[str]) -> None:
        """Passes on what comes, until nothing more does."""
        try:
            async with self._inject:
                async for item in messages:
                    if isinstance(item, Exception):
                        self._observer.junk(safe_line(str(item), 80))
                    elif isinstance(item.message, JSONRPCNotification):
                        if await self._is_for_session(item.message):
                            await self._inject.send(item)
                    elif isinstance(item.message, JSONRPCRequest) and item.message.method not in allowed:
                        self._answer(item.message)
                    else:
                        await self._inject.send(await self._repaired(item))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        finally:
            self.close()
            self._observer.ended()

    async def _is_for_session(self, message: JSONRPCNotification) -> bool:
        """False for what is dealt with here: the session spends a task on each notification, and a flood of them
        starves the answers behind it. A change with a subscription's mark goes on, to the subscription."""
        params = message.params or {}
        if message.method == "notifications/message":
            level = safe_line(str(params.get("level", "info")), 20)
            self._observer.report(ServerNews("log", _log_text(params), level))
            return False
        if message.method == "notifications/resources/updated":
            self._observer.report(ServerNews("resource", safe_line(str(params.get("uri", "")), 500)))
            return "_meta" in params
        if (what := _CHANGES.get(message.method)) is not None:
            self._observer.report(ServerNews("list", what))
            return "_meta" in params
        if message.method in NEWS:
            return not await self._tasks.hear(message.method, params)
        return True

    def _answer(self, request: JSONRPCRequest) -> None:
        """Answers a ping, refuses what we do not support.

        In the background, since a server that floods us with requests may not read until it is done; past
        `MAX_OPEN_MESSAGES` the rest goes unanswered.
        """
        answer: JSONRPCResponse | JSONRPCError
        if len(self._background) >= MAX_OPEN_MESSAGES:
            text = f"floods the client with requests; {MAX_OPEN_MESSAGES} are answered at a time"
            self._observer.report(ServerNews("warning", text))
            return
        if request.method == "ping":
            answer = JSONRPCResponse(jsonrpc="2.0", id=request.id, result={})
        else:
            text = f"{safe_line(request.method, 80)} is not supported by this client"
            error = ErrorData(code=METHOD_NOT_FOUND, message=text)
            answer = JSONRPCError(jsonrpc="2.0", id=request.id, error=error)
        self._send_beside(SessionMessage(answer))

    async def _repaired(self, item: SessionMessage) -> SessionMessage:
        """A message in a form that the session can use; an answer that cannot be used ends its request."""
        message = item.message
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            return item
        if message.id is None:
            self._observer.junk(f"an answer without an id: {safe_line(message.error.message, 200)}")
            message.id = self._requests.id_for(message.error)
        request = self._requests.take(message.id)
        if request is None or isinstance(message, JSONRPCError):
            return item
        much = is_large(message.result)
        try:
            result, changes = await beside_loop(partial(_usable, request, message), is_much=much)
        except RecursionError:
            return SessionMessage(invalid_answer(message.id, "its JSON nests too deeply"), item.metadata)
        about = f"{request.method}{f' {safe_line(request.target, 60)}' if request.target else ''}"
        more = len(changes) - _MOST_CHANGES
        for change in (*changes[:_MOST_CHANGES], *([f"{more:,} more repairs like these"] if more > 0 else ())):
            self._observer.report(ServerNews("warning", f"{about}: {change}"))
        if isinstance(result, str):
            return SessionMessage(invalid_answer(message.id, result), item.metadata)
        if request.method == "initialize":
            self._requests.version = str(result.get("protocolVersion"))
        result = self._handed_on(request, message.id, result)
        if result is message.result:
            return item
        return SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=message.id, result=result), item.metadata)

    def _handed_on(self, request: OpenRequest, request_id: RequestId, result: dict[str, Any]) -> dict[str, Any]:
        """What the SDK gets of a result, which is checked already and all of which it walks through in the event loop:
        of a long list a part, of others nothing if the real one can go past it."""
        if request.method == "tools/list":
            return self._pages.first_of(result)
        stand_in = _STAND_INS.get(request.method)
        if stand_in is not None and self._attempts.takes(request_id, result):
            return stand_in
        return result


class _Pages:
    """Long lists of tools, given to the SDK in pages of our own."""

    def __init__(self) -> None:
        self._rests: dict[str, dict[str, Any]] = {}
        self._cursors = itertools.count()

    def first_of(self, result: dict[str, Any]) -> dict[str, Any]:
        """The first page of a `tools/list` result; the rest is kept for the request that asks for it."""
        tools = result["tools"]
        if len(tools) <= TOOLS_AT_ONCE:
            return result
        cursor = f"mcpagent-{next(self._cursors)}"
        self._rests[cursor] = result | {"tools": tools[TOOLS_AT_ONCE:]}
        if len(self._rests) > _MOST_RESTS:
            del self._rests[next(iter(self._rests))]
        return result | {"tools": tools[:TOOLS_AT_ONCE], "nextCursor": cursor}

    def rest_for(self, request: JSONRPCRequest) -> JSONRPCResponse | None:
        """The answer to a request for the rest of a list that we have already."""
        if request.method != "tools/list" or not self._rests:
            return None
        rest = self._rests.pop(str((request.params or {}).get("cursor")), None)
        return None if rest is None else JSONRPCResponse(jsonrpc="2.0", id=request.id, result=self.first_of(rest))


def _usable(request: OpenRequest, answer: JSONRPCResponse) -> tuple[dict[str, Any] | str, tuple[str, ...]]:
    """`repair_result`, for an answer that may also be the handle of a task."""
    if request.method == "tools/call" and (handle := marked(answer.result, answer.id)) is not None:
        return handle, ()
    return repair_result(request.method, request.version, answer.result)


def _keep_to_ourselves(message: JSONRPCRequest) -> None:
    """The SDK puts all that OpenTelemetry carries into a request: where it stands in a trace a server may know, but
    not its baggage, in which a program has what it knows of its user."""
    meta = (message.params or {}).get("_meta")
    if isinstance(meta, dict):
        meta.pop("baggage", None)


def _log_text(params: Mapping[str, Any]) -> str:
    data, logger = params.get("data"), params.get("logger")
    # In pieces, since what is not shown need not be written.
    pieces = json.JSONEncoder(ensure_ascii=False).iterencode(data)
    text = data[:_LOG_CHARACTERS] if isinstance(data, str) else "".join(itertools.islice(pieces, _LOG_CHARACTERS))
    return safe_line(f"{safe_line(logger, 80)}: {text}" if isinstance(logger, str) else text, _LOG_CHARACTERS)
