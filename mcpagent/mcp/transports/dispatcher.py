"""The dispatcher between transport and session: it observes messages, repairs answers, and limits floods."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Mapping,
)
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from types import TracebackType
from typing import Any, Protocol

import anyio
import anyio.lowlevel
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from opentelemetry.context import get_current
from opentelemetry.propagate import inject

from mcpagent.mcp.pending_requests import Attempts
from mcpagent.mcp.sdk import (
    CallOptions,
    ClientMessageMetadata,
    JSONRPCDispatcher,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
    SessionMessage,
    TransportContext,
    run_notify_intercept,
)
from mcpagent.mcp.server_notifications import ServerNews
from mcpagent.mcp.tasks import NEWS, FollowedTasks, marked
from mcpagent.mcp.transports.bytes_to_messages import INVALID_ANSWER, Transport
from mcpagent.mcp.transports.open_requests import OpenRequest, OpenRequests
from mcpagent.mcp.transports.result_repairs import repair_result
from mcpagent.utilities.python.worker_threads import (
    created_beside_loop,
    is_large,
    json_beginning,
)
from mcpagent.utilities.text.safe_text import safe_line

with contextlib.suppress(
    ImportError
):  # otherwise anyio would import it at its first use, in the event loop
    import_module("anyio._backends._asyncio")

_logger = logging.getLogger(__name__)

MAX_OPEN_MESSAGES = 100
"""Maximum number of answers to a server's requests that wait to be sent."""

AT_ONCE = 50
"""Number of messages that are processed before other tasks run: some milliseconds."""

_LOG_CHARACTERS = 500
_MOST_CHANGES = 20
"""Maximum number of repairs of one answer that are reported individually."""

_NOTHING_TO_KEEP = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_STAND_INS: Mapping[str, dict[str, Any]] = {
    "tools/call": {"content": [], "resultType": "complete"},
    "tools/list": {"tools": []} | _NOTHING_TO_KEEP,
    "prompts/get": {"messages": [], "resultType": "complete"},
    "resources/read": {"contents": []} | _NOTHING_TO_KEEP,
    "prompts/list": {"prompts": []} | _NOTHING_TO_KEEP,
    "resources/list": {"resources": []} | _NOTHING_TO_KEEP,
    "resources/templates/list": {"resourceTemplates": []} | _NOTHING_TO_KEEP,
}
"""Methods whose results the SDK need not parse -> the smallest valid result, which it gets instead."""

_PROGRESS = "notifications/progress"
_CHANGES = {
    f"notifications/{what}/list_changed": what
    for what in ("tools", "prompts", "resources")
}


class Observer(Protocol):
    """Observes the messages of a connection."""

    def report(self, news: ServerNews) -> None:
        """Receive a notification of the server, or an observation about it."""

    def junk(self, text: str) -> None:
        """Receive output of the server that is not a message."""

    def ended(self) -> None:
        """Called at the end of the server's output."""


@asynccontextmanager
async def relayed(
    transport: Transport,
    observer: Observer,
    attempts: Attempts,
    tasks: FollowedTasks,
    allowed: Collection[str],
) -> AsyncIterator[MessageDispatcher]:
    """Yield a dispatcher for a session over this transport, which repairs answers and observes the end.

    `attempts` record their messages and store large results; `tasks` receive notifications about tasks. The session
    answers the server's requests with `allowed` methods; others are refused here.
    """
    async with transport as (messages, send):
        passed_on, incoming = anyio.create_memory_object_stream[
            SessionMessage | Exception
        ](64)
        relay = MessageDispatcher(send, passed_on, incoming, observer, attempts, tasks)
        pump = asyncio.create_task(relay.pump(messages, allowed), name="mcp-relay")
        try:
            yield relay
        finally:
            relay.close()
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
            passed_on.close()
            incoming.close()


class MessageDispatcher:
    """The messages of one connection in both directions; for the SDK's session, it is the `Dispatcher`.

    Requests and answers are matched here, so that an answer wakes only the task that waits for it. The server's own
    requests go to the SDK's dispatcher, for which this object is the `WriteStream`.
    """

    def __init__(
        self,
        write: Callable[[SessionMessage], Awaitable[None]],
        passed_on: MemoryObjectSendStream[SessionMessage | Exception],
        incoming: MemoryObjectReceiveStream[SessionMessage | Exception],
        observer: Observer,
        attempts: Attempts,
        tasks: FollowedTasks,
    ) -> None:
        self._write = write
        self._passed_on = passed_on
        self._asked: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(
            incoming, self
        )
        self._intercept: OnNotifyIntercept | None = None
        self._observer = observer
        self._attempts = attempts
        self._tasks = tasks
        self._ids = itertools.count(1)
        self._requests = OpenRequests()
        self._background: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """Stop sending; waiting callers get an error."""
        self._requests.close()
        for task in self._background:
            task.cancel()

    # --- to the server (`mcp.shared.dispatcher.Dispatcher`)

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Let the session answer the server's requests until the connection ends."""
        self._intercept = on_notify_intercept
        await self._asked.run(on_request, on_notify, task_status=task_status)

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
    ) -> dict[str, Any]:
        """Send a request and return its repaired result. Raises `MCPError`; cancelling it notifies the server.

        It has no timeout itself: callers have one, and `OpenRequests` has the one of the discovery probe.
        """
        options: CallOptions = opts or {}
        sent = dict(params or {})
        if "request_id" in options:
            request_id = options["request_id"]
        else:
            request_id = next(self._ids)
        heard, headers = options.get("on_progress"), options.get("headers")
        meta = dict(sent.pop("_meta", None) or {})
        if heard is not None:
            meta["progressToken"] = request_id
        # A server may receive the trace ID of a request, but not the baggage, which may contain data of the user's
        # program.
        if get_current():
            inject(meta)
            meta.pop("baggage", None)
        message = _request(request_id, method, sent | {"_meta": meta} if meta else sent)
        await (
            anyio.lowlevel.checkpoint_if_cancelled()
        )  # the server may run the request even if it is cancelled
        request = self._requests.add(message, heard)
        self._attempts.sent(request_id)
        try:
            await self._write(
                SessionMessage(
                    message, ClientMessageMetadata(headers=headers) if headers else None
                )
            )
            answer = await request.answer
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise MCPError(
                code=CONNECTION_CLOSED, message="Connection closed"
            ) from None
        except ValueError as error:
            text = f"was not sent, since it is not valid Unicode text: {error}"
            raise MCPError(code=INVALID_PARAMS, message=text) from None
        except asyncio.CancelledError:
            is_answered = request.answer.done() and not request.answer.cancelled()
            if options.get("cancel_on_abandon", True) and not is_answered:
                # A cancelled caller must not wait for a server that reads nothing.
                words = {"requestId": request_id, "reason": "caller cancelled"}
                self._send_beside(_notification("notifications/cancelled", words))
            raise
        finally:
            self._requests.give_up(request_id)
        if isinstance(answer, JSONRPCError):
            raise MCPError.from_error_data(answer.error)
        return self._handed_on(request, await self._repaired(request, answer))

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
    ) -> None:
        """Send a notification, if the connection is still open."""
        headers = (opts or {}).get("headers")
        message = _notification(method, None if params is None else dict(params))
        if headers:
            message.metadata = ClientMessageMetadata(headers=headers)
        else:
            message.metadata = None
        await self._send_quietly(message)

    def _send_beside(self, item: SessionMessage) -> None:
        task = asyncio.create_task(self._send_quietly(item), name="mcp-send")
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _send_quietly(self, item: SessionMessage) -> None:
        with contextlib.suppress(
            anyio.BrokenResourceError, anyio.ClosedResourceError, ValueError
        ):
            await self._write(item)

    # --- the session's answers (`mcp.shared._stream_protocols.WriteStream`)

    async def __aenter__(self) -> MessageDispatcher:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Do nothing: the opener of the transport closes it."""

    async def send(self, item: SessionMessage, /) -> None:
        """Send the answer to one of the server's requests."""
        await self._write(item)

    # --- from the server

    async def pump(
        self,
        messages: AsyncIterator[SessionMessage | Exception],
        allowed: Collection[str],
    ) -> None:
        """Process incoming messages until the transport ends."""
        try:
            async with self._passed_on:
                passed = 0
                async for item in messages:
                    passed += 1
                    if passed % AT_ONCE == 0:
                        await asyncio.sleep(
                            0
                        )  # thousands of messages of a batch may arrive at once
                    if isinstance(item, Exception):
                        self._observer.junk(safe_line(str(item), 80))
                    elif isinstance(item.message, JSONRPCNotification):
                        method, params = item.message.method, item.message.params or {}
                        await self._heard(method, params)
                        # The session starts a task for each notification, and a flood of tasks would delay later
                        # answers. So only cancellations are passed on; `_heard` has processed the others.
                        if (
                            not self._intercepted(method, params)
                            and method == "notifications/cancelled"
                        ):
                            await self._passed_on.send(item)
                    elif not isinstance(item.message, JSONRPCRequest):
                        self._answered(item.message)
                    elif item.message.method in allowed:
                        await self._passed_on.send(item)
                    else:
                        self._answer(item.message)
                    del item  # otherwise a large item would stay in memory until the next one arrives
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        finally:
            self.close()
            self._observer.ended()

    async def _heard(self, method: str, params: Mapping[str, Any]) -> None:
        """Pass a notification to its listeners; their exceptions do not end the connection."""
        try:
            if method == "notifications/message":
                level = safe_line(str(params.get("level", "info")), 20)
                self._observer.report(
                    ServerNews("log", _log_text(params), level, params)
                )
            elif method == "notifications/resources/updated":
                uri = safe_line(str(params.get("uri", "")), 500)
                self._observer.report(ServerNews("resource", uri, params=params))
            elif (what := _CHANGES.get(method)) is not None:
                self._observer.report(ServerNews("list", what))
            elif method in NEWS and not (
                method == _PROGRESS and await self._requests.hear_progress(params)
            ):
                await self._tasks.hear(method, params)
        except Exception:
            _logger.exception("whoever hears of %s raised", safe_line(method, 80))

    def _intercepted(self, method: str, params: Mapping[str, Any]) -> bool:
        """Return whether the session consumes a notification; it needs those of subscriptions in order with answers."""
        return run_notify_intercept(self._intercept, method, params)

    def _answer(self, request: JSONRPCRequest) -> None:
        """Answer a ping, or refuse an unsupported request.

        This happens in the background, because a server that sends a flood of requests may not read anything meanwhile.
        Beyond `MAX_OPEN_MESSAGES`, requests stay unanswered.
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

    def _answered(self, message: JSONRPCResponse | JSONRPCError) -> None:
        """Wake the caller that waits for this answer, if there is one."""
        if message.id is None:
            assert isinstance(message, JSONRPCError)
            self._observer.junk(
                f"an answer without an id: {safe_line(message.error.message, 200)}"
            )
            message.id = self._requests.id_for(message.error)
        self._requests.end(message)

    async def _repaired(
        self, request: OpenRequest, answer: JSONRPCResponse
    ) -> dict[str, Any]:
        """Return the result in a form that the session can use. Raises `MCPError` if the result is missing."""
        much = is_large(answer.result)
        try:
            result, changes = await created_beside_loop(
                partial(_usable, request, answer), is_much=much
            )
        except RecursionError:
            result, changes = "its JSON nests too deeply", ()
        about = f"{request.method}{f' {safe_line(request.target, 60)}' if request.target else ''}"
        more = len(changes) - _MOST_CHANGES
        for change in (
            *changes[:_MOST_CHANGES],
            *([f"{more:,} more repairs like these"] if more > 0 else ()),
        ):
            self._observer.report(ServerNews("warning", f"{about}: {change}"))
        if isinstance(result, str):
            raise MCPError(code=INVALID_ANSWER, message=result)
        if request.method == "initialize":
            self._requests.version = str(result.get("protocolVersion"))
        return result

    def _handed_on(
        self, request: OpenRequest, result: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the result to pass to the SDK, which processes all of it in the event loop.

        It is already validated. If it can bypass the SDK, the SDK gets a placeholder.
        """
        stand_in = _STAND_INS.get(request.method)
        if stand_in is not None and self._attempts.takes(result):
            return stand_in
        return result


def _usable(
    request: OpenRequest, answer: JSONRPCResponse
) -> tuple[dict[str, Any] | str, tuple[str, ...]]:
    """Repair the result of an answer; the answer may also be the handle of a task."""
    if (
        request.method == "tools/call"
        and (handle := marked(answer.result, answer.id)) is not None
    ):
        return handle, ()
    return repair_result(request.method, request.version, answer.result)


def _request(
    request_id: RequestId, method: str, params: dict[str, Any]
) -> JSONRPCRequest:
    # Omit empty params, because JSON-RPC forbids `"params": null`.
    if not params:
        return JSONRPCRequest(jsonrpc="2.0", id=request_id, method=method)
    return JSONRPCRequest(jsonrpc="2.0", id=request_id, method=method, params=params)


def _notification(method: str, params: dict[str, Any] | None) -> SessionMessage:
    if params is None:
        return SessionMessage(JSONRPCNotification(jsonrpc="2.0", method=method))
    return SessionMessage(
        JSONRPCNotification(jsonrpc="2.0", method=method, params=params)
    )


def _log_text(params: Mapping[str, Any]) -> str:
    data, logger = params.get("data"), params.get("logger")
    if isinstance(data, str):
        text = data[:_LOG_CHARACTERS]
    else:
        text = json_beginning(data, _LOG_CHARACTERS)
    return safe_line(
        f"{safe_line(logger, 80)}: {text}" if isinstance(logger, str) else text,
        _LOG_CHARACTERS,
    )
