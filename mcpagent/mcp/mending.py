"""Between transport and session: what one malformed tool, block or field would spoil is mended or cut out.

The SDK validates a whole result at once and raises on the first flaw; here each item stands for itself. Every change
is told to the observer as one printable line. Also bounds the era probe, whose time limit the SDK fixes at 10 s.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    METHOD_NOT_FOUND,
    PROTOCOL_VERSION_META_KEY,
    REQUEST_TIMEOUT,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    methods,
)
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from pydantic import ValidationError

from mcpagent.mcp.framing import encodable, invalid_answer
from mcpagent.safe_text import safe_line

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, TransportStreams, WriteStream

PROBE_SECONDS = 2.0
"""How long a server may take to answer `server/discover` before it counts as one of the earlier era."""

MAX_OPEN_ANSWERS = 100

MAX_BLOCKS = 1_000
MAX_ITEMS = 10_001
"""Validating takes about 20 µs an item, in the event loop; one more than a toolset uses, so that it can say so."""

Raw: TypeAlias = dict[str, Any]


class Observer(Protocol):
    """Who is told what happens on the wire."""

    def warn(self, text: str) -> None: ...

    def changed(self, what: str) -> None:
        """The server says one of its lists ("tools", "prompts", "resources") is no longer what it was."""

    def answers(self, method: str) -> bool:
        """Whether a request of the server with this method is for the SDK's session to answer."""

    def junk(self, text: str) -> None:
        """The server sent something that is no message."""

    def ended(self) -> None:
        """The server will send nothing more."""


@dataclass(frozen=True, slots=True)
class _Asked:
    method: str
    version: str
    target: str


class _Wire:
    """What was asked and not yet answered, by request id."""

    def __init__(self, observer: Observer, probe_seconds: float) -> None:
        self._observer = observer
        self._probe_seconds = probe_seconds
        self._asked: dict[str, _Asked] = {}
        self._version = LATEST_HANDSHAKE_VERSION
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def note_outgoing(self, item: SessionMessage, inject: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        message = item.message
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._asked.pop(str((message.params or {}).get("requestId")), None)
        if not isinstance(message, JSONRPCRequest):
            return
        params = message.params or {}
        version = (params.get("_meta") or {}).get(PROTOCOL_VERSION_META_KEY) or self._version
        target = params.get("name") or params.get("uri") or ""
        key = str(message.id)
        self._asked[key] = _Asked(message.method, version, str(target))
        if message.method == "server/discover":
            loop = asyncio.get_running_loop()
            self._timers[key] = loop.call_later(self._probe_seconds, self._end_probe, message.id, inject)

    def _end_probe(self, request_id: RequestId, inject: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        self._timers.pop(str(request_id), None)
        if self._asked.pop(str(request_id), None) is None:
            return
        error = ErrorData(code=REQUEST_TIMEOUT, message="server/discover was not answered")
        with contextlib.suppress(anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
            inject.send_nowait(SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=error)))

    def mend_incoming(self, item: SessionMessage) -> SessionMessage:
        message = item.message
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            return item
        if message.id is None:
            self._observer.junk(f"error without an id: {safe_line(message.error.message, 200)}")
            calls = [key for key, asked in self._asked.items() if asked.method != "subscriptions/listen"]
            if len(calls) != 1:
                return item
            # It could not read our request, and there is only one it can mean.
            message.id = int(calls[0]) if calls[0].isdigit() else calls[0]
        key = str(message.id)
        asked = self._asked.pop(key, None)
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        if asked is None or isinstance(message, JSONRPCError):
            return item
        result, changes = mend_result(asked.method, asked.version, message.result)
        for change in changes:
            self._observer.warn(f"{asked.method}{f' {safe_line(asked.target, 60)}' if asked.target else ''}: {change}")
        if isinstance(result, str):
            return SessionMessage(invalid_answer(message.id, result), item.metadata)
        if asked.method == "initialize":
            self._version = str(result.get("protocolVersion"))
        return SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=message.id, result=result), item.metadata)

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()


class _WatchedWrites:
    """The transport's write stream, noting each request that passes."""

    def __init__(
        self,
        inner: WriteStream[SessionMessage],
        wire: _Wire,
        inject: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        self._inner = inner
        self._wire = wire
        self._inject = inject

    async def send(self, item: SessionMessage, /) -> None:
        self._wire.note_outgoing(item, self._inject)
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
        wire = _Wire(observer, probe_seconds)
        inject, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](64)
        pump = asyncio.create_task(_pump(read, write, inject, wire, observer), name="mcp-mend")
        try:
            yield incoming, _WatchedWrites(write, wire, inject)
        finally:
            wire.close()
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
            inject.close()
            incoming.close()


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
                    if _is_for_session(item.message, observer):
                        await inject.send(item)
                elif isinstance(item.message, JSONRPCRequest) and not observer.answers(item.message.method):
                    answers.start(item.message)
                else:
                    await inject.send(wire.mend_incoming(item))
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass
    finally:
        answers.close()
        observer.ended()


def _is_for_session(message: JSONRPCNotification, observer: Observer) -> bool:
    """False for what is dealt with here: the session spends a task on each notification, and a flood of them starves
    the answers behind it. A change with a subscription's mark goes on, to the subscription."""
    what = _CHANGES.get(message.method)
    if what is not None:
        observer.changed(what)
    return (what is None or "_meta" in (message.params or {})) and message.method != "notifications/message"


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


# --- Mending one result ----------------------------------------------------------------------------------------------

_LISTS: Mapping[str, tuple[str, frozenset[str]]] = {
    "tools/list": ("tools", frozenset({"name", "inputSchema"})),
    "prompts/list": ("prompts", frozenset({"name"})),
    "resources/list": ("resources", frozenset({"name", "uri"})),
    "resources/templates/list": ("resourceTemplates", frozenset({"name", "uriTemplate"})),
}
"""Where a list result has its items, and which of an item's fields it cannot do without."""

_ITEMS_OF = {"prompts/get": "messages", "resources/read": "contents"}
_CACHE_HINTS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def mend_result(method: str, version: str, result: Raw) -> tuple[Raw | str, tuple[str, ...]]:
    """The result in a form the SDK accepts and what was changed; or, as text, why it cannot be used."""
    result, cut = _bounded(method, result)
    if _flaw(method, version, result) is None:
        return result, cut
    result = encodable(result)
    if method in _LISTS:
        mended_result, changes = _mend_list(method, version, result)
    elif method == "tools/call":
        mended_result, changes = _mend_call(version, result)
    elif method == "prompts/get":
        mended_result, changes = _mend_prompt(version, result)
    elif method == "resources/read":
        mended_result, changes = _mend_contents(version, result)
    elif method == "initialize":
        mended_result, changes = _mend_initialize(result)
    else:
        mended_result, changes = result, []
    flaw = _flaw(method, version, mended_result)
    return (mended_result if flaw is None else f"its result is malformed: {flaw}"), (*cut, *changes)


def _bounded(method: str, result: Raw) -> tuple[Raw, tuple[str, ...]]:
    """The result with no more items than can be validated in a moment."""
    if method == "tools/call":
        content = result.get("content")
        if not isinstance(content, list) or len(content) <= MAX_BLOCKS:
            return result, ()
        rest = {"type": "text", "text": "\n".join(_as_text(block)["text"] for block in content[MAX_BLOCKS:])}
        change = f"has {len(content)} content blocks; those after the first {MAX_BLOCKS} are put together as text"
        return result | {"content": [*content[:MAX_BLOCKS], rest]}, (change,)
    key = _LISTS[method][0] if method in _LISTS else _ITEMS_OF.get(method, "")
    items = result.get(key)
    if not isinstance(items, list) or len(items) <= MAX_ITEMS:
        return result, ()
    return result | {key: items[:MAX_ITEMS]}, (f"has {len(items)} {key}; the first {MAX_ITEMS} are used",)


def _flaw(method: str, version: str, result: Raw) -> str | None:
    """What the SDK would raise on, or None."""
    try:
        methods.parse_server_result(method, version, result)
    except KeyError:
        return None
    except ValidationError as error:
        return _described(error)
    except (ValueError, RuntimeError) as error:
        return safe_line(str(error), 120)
    return None


def _described(error: ValidationError) -> str:
    """The error that got furthest into the value: of a union's branches that is the one meant."""
    first = max(error.errors(include_url=False, include_input=False), key=lambda item: len(item["loc"]))
    steps = [str(step) for step in first["loc"] if not str(step)[:1].isupper()]
    return safe_line(f"{'.'.join(steps)}: {first['msg']}", 160)


def _mend_list(method: str, version: str, result: Raw) -> tuple[Raw, list[str]]:
    key, needed = _LISTS[method]
    items = result.get(key)
    if not isinstance(items, list):
        return {key: "missing"}, []
    kept: list[Any] = []
    changes: list[str] = []
    for position, item in enumerate(items):
        mended_item, change = _mend_item(method, version, key, needed, item)
        label = item.get("name") if isinstance(item, dict) else None
        shown = f'"{safe_line(label, 60)}"' if isinstance(label, str) else f"number {position + 1}"
        if mended_item is not None:
            kept.append(mended_item)
        if change:
            changes.append(f"{key.rstrip('s')} {shown} {change}")
    rest = {name: result[name] for name in ("nextCursor", *_CACHE_HINTS) if name in result}
    whole = rest | {key: kept}
    if _flaw(method, version, whole) is not None:
        cursor = {"nextCursor": rest["nextCursor"]} if isinstance(rest.get("nextCursor"), str) else {}
        whole = {key: kept} | cursor | _CACHE_HINTS
    return whole, changes


def _mend_item(method: str, version: str, key: str, needed: frozenset[str], item: Any) -> tuple[Any, str]:
    """The item with its broken optional fields left out, or None where a needed one is broken; and what changed."""
    if not isinstance(item, dict):
        return None, "dropped: it is not an object"
    flaw = _flaw(method, version, {key: [item]} | _CACHE_HINTS)
    if flaw is None:
        return item, ""
    core = {name: value for name, value in item.items() if name in needed}
    core_flaw = _flaw(method, version, {key: [core]} | _CACHE_HINTS)
    if core_flaw is not None:
        return None, f"dropped: {core_flaw}"
    lost: list[str] = []
    for name, value in item.items():
        if name in needed:
            continue
        if _flaw(method, version, {key: [core | {name: value}]} | _CACHE_HINTS) is None:
            core[name] = value
        else:
            lost.append(name)
    return core, f"used without its malformed {', '.join(safe_line(name, 40) for name in lost)}"


def _mend_call(version: str, result: Raw) -> tuple[Raw, list[str]]:
    changes: list[str] = []
    content = result.get("content", [])
    if not isinstance(content, list):
        changes.append("content is not a list")
        content = [] if content is None else [content]
    blocks: list[Raw] = []
    for block in content:
        if (
            isinstance(block, dict)
            and _flaw("tools/call", version, {"content": [block], "resultType": "complete"}) is None
        ):
            blocks.append(block)
        else:
            changes.append("a malformed content block is passed on as text")
            blocks.append(_as_text(block))
    whole: Raw = {"content": blocks}
    if result.get("isError"):
        whole["isError"] = True
    structured = {"structuredContent": result.get("structuredContent")}
    if structured["structuredContent"] is not None:
        if _flaw("tools/call", version, whole | structured | {"resultType": "complete"}) is None:
            whole |= structured
        elif not blocks:
            whole["content"] = [_as_text(structured["structuredContent"])]
    return whole | {"resultType": "complete"}, changes


def _mend_prompt(version: str, result: Raw) -> tuple[Raw, list[str]]:
    changes: list[str] = []
    messages: list[Raw] = []
    found = result.get("messages")
    for message in found if isinstance(found, list) else []:
        if _flaw("prompts/get", version, {"messages": [message], "resultType": "complete"}) is None:
            messages.append(message)
            continue
        changes.append("a malformed message is passed on as text")
        content = message.get("content") if isinstance(message, dict) else message
        messages.append({"role": "user", "content": _as_text(content)})
    return {"messages": messages, "resultType": "complete"}, changes


def _mend_contents(version: str, result: Raw) -> tuple[Raw, list[str]]:
    changes: list[str] = []
    contents: list[Raw] = []
    found = result.get("contents")
    for item in found if isinstance(found, list) else []:
        if _flaw("resources/read", version, {"contents": [item]} | _CACHE_HINTS) is None:
            contents.append(item)
            continue
        changes.append("a malformed content is passed on as text")
        contents.append({"uri": "unknown:", "text": _as_text(item)["text"]})
    return {"contents": contents} | _CACHE_HINTS, changes


def _mend_initialize(result: Raw) -> tuple[Raw, list[str]]:
    """Only the protocol version is needed to talk to a server."""
    whole: Raw = {"protocolVersion": result.get("protocolVersion"), "capabilities": {}}
    whole["serverInfo"] = {"name": "", "version": ""}
    changes: list[str] = []
    for name in ("capabilities", "serverInfo", "instructions"):
        if name in result and _flaw("initialize", LATEST_HANDSHAKE_VERSION, whole | {name: result[name]}) is None:
            whole[name] = result[name]
        elif name != "instructions" or name in result:
            changes.append(f"{name} is missing or malformed")
    return whole, changes


def _as_text(value: Any) -> Raw:
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        return {"type": "text", "text": value["text"]}
    return {"type": "text", "text": value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}
