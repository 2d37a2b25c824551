"""Between transport and session: what is asked and answered is seen as it passes, mended, and a flood is kept away.

Also bounds the era probe, whose time limit the SDK fixes at 10 s.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    PROTOCOL_VERSION_META_KEY,
    REQUEST_TIMEOUT,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from mcp_types.version import LATEST_HANDSHAKE_VERSION

from mcpagent.mcp.beside_loop import beside_loop, is_large
from mcpagent.mcp.framing import invalid_answer
from mcpagent.mcp.mending import mend_result
from mcpagent.mcp.tasks import NEWS, marked
from mcpagent.safe_text import safe_line

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, TransportStreams, WriteStream

PROBE_SECONDS = 2.0
"""How long a server may take to answer `server/discover` before it counts as one of the earlier era."""

ANONYMOUS_SECONDS = 0.5
"""How long the answer to the only open request is waited for after one that does not say what it answers."""

_CANNOT_READ = frozenset({PARSE_ERROR, INVALID_REQUEST})
"""What JSON-RPC has a server say of a request whose id it could not read."""

_MOST_ANONYMOUS = 16
_AGAIN_SECONDS = 0.05

MAX_OPEN_ANSWERS = 100

TOOLS_AT_ONCE = 500
_LOG_CHARACTERS = 500
_MOST_RESTS = 4


class Observer(Protocol):
    """Who is told what happens on the wire."""

    def warn(self, text: str) -> None: ...

    def list_changed(self, what: str) -> None:
        """The server says one of its lists ("tools", "prompts", "resources") is no longer what it was."""

    def resource_updated(self, uri: str) -> None:
        """The server says that a resource is no longer what it was."""

    def logged(self, level: str, text: str) -> None:
        """The server tells of its own work."""

    def answers(self, method: str) -> bool:
        """Whether a request of the server with this method is for the SDK's session to answer."""

    async def heard_of_task(self, method: str, params: Mapping[str, Any]) -> bool:
        """Whether a notification (`tasks.NEWS`) was about a call that runs as a task."""

    def junk(self, text: str) -> None:
        """The server sent something that is no message."""

    def sent(self, request_id: RequestId) -> None:
        """A request is on its way, by the task that calls this."""

    def takes(self, request_id: RequestId, result: dict[str, Any]) -> bool:
        """Whether whoever sent a request takes its large result as it is."""

    def ended(self) -> None:
        """The server will send nothing more."""


@dataclass(frozen=True, slots=True)
class _Asked:
    method: str
    version: str
    target: str


class _Wire:
    """What was asked and not yet answered, by request id."""

    def __init__(
        self,
        observer: Observer,
        probe_seconds: float,
        inject: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        self._observer = observer
        self._inject = inject
        self._probe_seconds = probe_seconds
        self._asked: dict[str, _Asked] = {}
        self._version = LATEST_HANDSHAKE_VERSION
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._anonymous: deque[tuple[set[str], ErrorData]] = deque(maxlen=_MOST_ANONYMOUS)
        """Answers without an id, each with the requests that were open then and still are."""
        self._rests: dict[str, dict[str, Any]] = {}
        self._cursors = itertools.count()

    def note_outgoing(self, item: SessionMessage) -> None:
        message = item.message
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._forget(str((message.params or {}).get("requestId")))
        if not isinstance(message, JSONRPCRequest):
            return
        params = message.params or {}
        version = (params.get("_meta") or {}).get(PROTOCOL_VERSION_META_KEY) or self._version
        target = params.get("name") or params.get("uri") or ""
        key = str(message.id)
        self._asked[key] = _Asked(message.method, version, str(target))
        if message.method == "server/discover":
            error = ErrorData(code=REQUEST_TIMEOUT, message="server/discover was not answered")
            self._end_after(self._probe_seconds, message.id, error)

    def _end_after(self, seconds: float, request_id: RequestId, error: ErrorData) -> None:
        """Has a request end with an error, unless it is answered before that."""
        key = str(request_id)
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        self._timers[key] = asyncio.get_running_loop().call_later(seconds, self._end, request_id, error)

    def _end(self, request_id: RequestId, error: ErrorData) -> None:
        if str(request_id) not in self._asked:
            del self._timers[str(request_id)]
            return
        try:
            self._inject.send_nowait(SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=error)))
        except anyio.WouldBlock:
            self._end_after(_AGAIN_SECONDS, request_id, error)
            return
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        self._take_asked(request_id)

    async def mend_incoming(self, item: SessionMessage) -> SessionMessage:
        message = item.message
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            return item
        if message.id is None:
            message.id = self._id_for(message.error)
        asked = self._take_asked(message.id)
        if asked is None or isinstance(message, JSONRPCError):
            return item
        much = is_large(message.result)
        try:
            result, changes = await beside_loop(partial(_usable, asked, message), is_much=much)
        except RecursionError:
            return SessionMessage(invalid_answer(message.id, "its JSON nests too deeply"), item.metadata)
        for change in changes:
            self._observer.warn(f"{asked.method}{f' {safe_line(asked.target, 60)}' if asked.target else ''}: {change}")
        if isinstance(result, str):
            return SessionMessage(invalid_answer(message.id, result), item.metadata)
        if asked.method == "initialize":
            self._version = str(result.get("protocolVersion"))
        if much:
            result = self._handed_on(asked, message.id, result)
        if result is message.result:
            return item
        return SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=message.id, result=result), item.metadata)

    def _handed_on(self, asked: _Asked, request_id: RequestId, result: dict[str, Any]) -> dict[str, Any]:
        """What the SDK gets of a result: it walks through all of it, in the event loop, so of a large one it gets a
        part, or nothing where the real one can go past it."""
        if asked.method == "tools/list":
            return self._page_of(result)
        stand_in = _STAND_INS.get(asked.method)
        if stand_in is not None and self._observer.takes(request_id, result):
            return stand_in
        return result

    def _id_for(self, error: ErrorData) -> RequestId | None:
        """The request that an answer without an id ends; none at once where it may as well answer a notification, so
        that the answer which is waited for may follow. Of several it is the one that gets no other answer."""
        self._observer.junk(f"an answer without an id: {safe_line(error.message, 200)}")
        meant = {key for key, asked in self._asked.items() if asked.method != "subscriptions/listen"}
        if len(meant) == 1 and error.code in _CANNOT_READ:
            return _as_id(meant.pop())
        self._anonymous.append((meant, error))
        self._attribute()
        return None

    def _attribute(self) -> None:
        """Has those requests end soon that are the last ones an answer without an id can have been meant for."""
        for meant, error in [item for item in self._anonymous if len(item[0]) <= 1]:
            self._anonymous.remove((meant, error))
            for key in meant:
                self._end_after(ANONYMOUS_SECONDS, _as_id(key), error)

    def _take_asked(self, request_id: RequestId | None) -> _Asked | None:
        if (timer := self._timers.pop(str(request_id), None)) is not None:
            timer.cancel()
        return self._forget(str(request_id))

    def _forget(self, key: str) -> _Asked | None:
        asked = self._asked.pop(key, None)
        if asked is not None and self._anonymous:
            for meant, _ in self._anonymous:
                meant.discard(key)
            self._attribute()
        return asked

    def _page_of(self, result: dict[str, Any]) -> dict[str, Any]:
        tools = result["tools"]
        if len(tools) <= TOOLS_AT_ONCE:
            return result
        cursor = f"mcpagent-{next(self._cursors)}"
        self._rests[cursor] = result | {"tools": tools[TOOLS_AT_ONCE:]}
        if len(self._rests) > _MOST_RESTS:
            del self._rests[next(iter(self._rests))]
        return result | {"tools": tools[:TOOLS_AT_ONCE], "nextCursor": cursor}

    def next_page(self, request: JSONRPCRequest) -> JSONRPCResponse | None:
        """The answer to a request for the rest of a list that we have already."""
        if request.method != "tools/list" or not self._rests:
            return None
        rest = self._rests.pop(str((request.params or {}).get("cursor")), None)
        return None if rest is None else JSONRPCResponse(jsonrpc="2.0", id=request.id, result=self._page_of(rest))

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()


class _WatchedWrites:
    """The transport's write stream, noting each request that passes."""

    def __init__(
        self,
        inner: WriteStream[SessionMessage],
        wire: _Wire,
        observer: Observer,
        inject: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        self._inner = inner
        self._wire = wire
        self._observer = observer
        self._inject = inject

    async def send(self, item: SessionMessage, /) -> None:
        if isinstance(item.message, JSONRPCRequest):
            if (page := self._wire.next_page(item.message)) is not None:
                await self._inject.send(SessionMessage(page))
                return
            self._observer.sent(item.message.id)
        self._wire.note_outgoing(item)
        await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> _WatchedWrites:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)


@asynccontextmanager
async def mended(
    transport: AbstractAsyncContextManager[TransportStreams],
    observer: Observer,
    *,
    probe_seconds: float = PROBE_SECONDS,
) -> AsyncIterator[TransportStreams]:
    """The transport with its answers mended and its end observed."""
    async with transport as (read, write):
        inject, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](64)
        wire = _Wire(observer, probe_seconds, inject)
        pump = asyncio.create_task(_pump(read, write, inject, wire, observer), name="mcp-mend")
        try:
            yield incoming, _WatchedWrites(write, wire, observer, inject)
        finally:
            wire.close()
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
            inject.close()
            incoming.close()


def _as_id(key: str) -> RequestId:
    return int(key) if key.isdigit() else key


def _usable(asked: _Asked, answer: JSONRPCResponse) -> tuple[dict[str, Any] | str, tuple[str, ...]]:
    """`mend_result`, for an answer that may also be the handle of a task."""
    if asked.method == "tools/call" and (handle := marked(answer.result, answer.id)) is not None:
        return handle, ()
    return mend_result(asked.method, asked.version, answer.result)


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


async def _pump(
    read: ReadStream[SessionMessage | Exception],
    write: WriteStream[SessionMessage],
    inject: MemoryObjectSendStream[SessionMessage | Exception],
    wire: _Wire,
    observer: Observer,
) -> None:
    answers = _Answers(write, observer)
    try:
        async with inject, read:
            async for item in read:
                if isinstance(item, Exception):
                    observer.junk(safe_line(str(item), 80))
                elif isinstance(item.message, JSONRPCNotification):
                    if await _is_for_session(item.message, observer):
                        await inject.send(item)
                elif isinstance(item.message, JSONRPCRequest) and not observer.answers(item.message.method):
                    answers.start(item.message)
                else:
                    await inject.send(await wire.mend_incoming(item))
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass
    finally:
        answers.close()
        observer.ended()


async def _is_for_session(message: JSONRPCNotification, observer: Observer) -> bool:
    """False for what is dealt with here: the session spends a task on each notification, and a flood of them starves
    the answers behind it. A change with a subscription's mark goes on, to the subscription."""
    params = message.params or {}
    if message.method == "notifications/message":
        observer.logged(safe_line(str(params.get("level", "info")), 20), _log_text(params))
        return False
    if message.method == "notifications/resources/updated":
        observer.resource_updated(safe_line(str(params.get("uri", "")), 500))
        return "_meta" in params
    if (what := _CHANGES.get(message.method)) is not None:
        observer.list_changed(what)
        return "_meta" in params
    if message.method in NEWS:
        return not await observer.heard_of_task(message.method, params)
    return True


def _log_text(params: Mapping[str, Any]) -> str:
    data, logger = params.get("data"), params.get("logger")
    # In pieces, since what is not shown need not be written.
    pieces = json.JSONEncoder(ensure_ascii=False).iterencode(data)
    text = data[:_LOG_CHARACTERS] if isinstance(data, str) else "".join(itertools.islice(pieces, _LOG_CHARACTERS))
    return safe_line(f"{safe_line(logger, 80)}: {text}" if isinstance(logger, str) else text, _LOG_CHARACTERS)


class _Answers:
    """Answers to the server's requests: a ping is answered, what we do not support is refused.

    Written by tasks, since a server that floods us with requests may not read until it is done; past
    `MAX_OPEN_ANSWERS` the rest goes unanswered.
    """

    def __init__(self, write: WriteStream[SessionMessage], observer: Observer) -> None:
        self._write = write
        self._observer = observer
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, request: JSONRPCRequest) -> None:
        if len(self._tasks) >= MAX_OPEN_ANSWERS:
            self._observer.warn(f"floods the client with requests; {MAX_OPEN_ANSWERS} are answered at a time")
            return
        task = asyncio.create_task(self._answer(request), name="mcp-answer")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: JSONRPCRequest) -> None:
        answer: JSONRPCResponse | JSONRPCError
        if request.method == "ping":
            answer = JSONRPCResponse(jsonrpc="2.0", id=request.id, result={})
        else:
            text = f"{safe_line(request.method, 80)} is not supported by this client"
            error = ErrorData(code=METHOD_NOT_FOUND, message=text)
            answer = JSONRPCError(jsonrpc="2.0", id=request.id, error=error)
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._write.send(SessionMessage(answer))

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
