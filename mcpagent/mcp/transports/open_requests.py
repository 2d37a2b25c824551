"""The requests of one connection that wait for an answer, and the matching of answers to them.

It also limits the discovery probe, for which the SDK has a fixed timeout of 10 s.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    PARSE_ERROR,
    PROTOCOL_VERSION_META_KEY,
    REQUEST_TIMEOUT,
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from mcp_types.version import LATEST_HANDSHAKE_VERSION

from mcpagent.mcp.outcomes import request_key
from mcpagent.mcp.sdk import ProgressFnT, as_request_id
from mcpagent.mcp.transports.bytes_to_messages import INVALID_ANSWER

PROBE_SECONDS = 2.0
"""Timeout of `server/discover`; after it, the server is assumed to use the earlier protocol."""

ANONYMOUS_SECONDS = 0.5
"""After an answer without a usable ID: how long to wait for the real answer to the only open request."""

_CANNOT_READ = frozenset({PARSE_ERROR, INVALID_REQUEST})
"""JSON-RPC error codes for a request whose ID the server could not read."""

_CLOSED = ErrorData(code=CONNECTION_CLOSED, message="Connection closed")
_MOST_ANONYMOUS = 16


@dataclass(eq=False, frozen=True, slots=True)
class OpenRequest:
    """An open request: its method, its protocol version, and the name or URI in it (`target`).

    `answer` is the future of the response; `heard` receives the server's progress reports, None if no caller wants
    them.
    """

    method: str
    version: str
    target: str
    heard: ProgressFnT | None
    answer: asyncio.Future[JSONRPCResponse | JSONRPCError]


class OpenRequests:
    """All open requests of one connection by ID; 7 and "7" are the same.

    `version` is the protocol version of requests that do not state one.
    """

    def __init__(self) -> None:
        self.version = LATEST_HANDSHAKE_VERSION
        self._is_closed = False
        self._open: dict[RequestId, OpenRequest] = {}
        self._timers: dict[RequestId, asyncio.TimerHandle] = {}
        self._anonymous: deque[tuple[set[RequestId], ErrorData]] = deque(
            maxlen=_MOST_ANONYMOUS
        )
        """Answers without an ID, each with those requests that were open at that time and still are."""

    def add(self, request: JSONRPCRequest, heard: ProgressFnT | None) -> OpenRequest:
        """Register a request before it is sent. Raises `MCPError` if the connection is closed."""
        if self._is_closed:
            raise MCPError.from_error_data(_CLOSED)
        params = request.params or {}
        version = (params.get("_meta") or {}).get(
            PROTOCOL_VERSION_META_KEY
        ) or self.version
        target = params.get("name") or params.get("uri") or ""
        answer: asyncio.Future[JSONRPCResponse | JSONRPCError] = (
            asyncio.get_running_loop().create_future()
        )
        added = self._open[request_key(request.id)] = OpenRequest(
            request.method, version, str(target), heard, answer
        )
        if request.method == "server/discover":
            error = ErrorData(
                code=REQUEST_TIMEOUT, message="server/discover was not answered"
            )
            self._end_after(PROBE_SECONDS, request.id, error)
        return added

    def end(self, answer: JSONRPCResponse | JSONRPCError) -> None:
        """Resolve a request with its answer; an answer without an open request is dropped."""
        if answer.id is None:
            key = None
        else:
            key = request_key(answer.id)
        if key is None or (request := self._taken(key)) is None:
            return
        for meant, _ in self._anonymous:
            meant.discard(key)
        self._attribute()
        if not request.answer.done():
            request.answer.set_result(answer)

    async def hear_progress(self, params: Mapping[str, Any]) -> bool:
        """Return whether the notification is progress of an open request with a listener."""
        token = as_request_id(params.get("progressToken"))
        if token is None:
            request = None
        else:
            request = self._open.get(request_key(token))
        if request is None or request.heard is None:
            return False
        if (done := number(params.get("progress"))) is not None:
            message = params.get("message")
            await request.heard(
                done,
                number(params.get("total")),
                message if isinstance(message, str) else None,
            )
        return True

    def give_up(self, request_id: RequestId) -> None:
        """Abandon a request.

        An earlier answer without an ID may have belonged to it, so that answer is no longer matched to other requests.
        """
        key = request_key(request_id)
        if self._taken(key) is not None:
            for item in [item for item in self._anonymous if key in item[0]]:
                self._anonymous.remove(item)

    def _taken(self, key: RequestId) -> OpenRequest | None:
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        return self._open.pop(key, None)

    def id_for(self, error: ErrorData) -> RequestId | None:
        """Return the ID of the request that an answer without an ID belongs to.

        Returns None at first if the answer may belong to a notification, because the real answer may still arrive. Of
        several requests, it belongs to the one that gets no other answer.
        """
        meant = {
            key
            for key, request in self._open.items()
            if request.method != "subscriptions/listen"
        }
        if len(meant) == 1 and error.code in _CANNOT_READ:
            return meant.pop()
        self._anonymous.append((meant, error))
        self._attribute()
        return None

    def close(self) -> None:
        """End all open requests with an error."""
        self._is_closed = True
        for key in tuple(self._open):
            self.end(JSONRPCError(jsonrpc="2.0", id=key, error=_CLOSED))

    def _attribute(self) -> None:
        """Schedule the end of requests that are the only remaining candidates for an answer without an ID."""
        for meant, error in [item for item in self._anonymous if len(item[0]) <= 1]:
            self._anonymous.remove((meant, error))
            for key in meant:
                self._end_after(ANONYMOUS_SECONDS, key, self._unattributed(error, key))

    def _unattributed(self, error: ErrorData, key: RequestId) -> ErrorData:
        """Return the error for a request that an answer without an ID ends; it states that the match is not certain."""
        request = self._open.get(key)
        is_named = error.code == INVALID_ANSWER
        if is_named or request is None or request.method == "server/discover":
            return error
        text = (
            f"an error without an ID, which may answer another request: {error.message}"
        )
        return ErrorData(code=INVALID_ANSWER, message=text, data=error.data)

    def _end_after(
        self, seconds: float, request_id: RequestId, error: ErrorData
    ) -> None:
        """End a request with an error after a delay, unless it is answered before."""
        key = request_key(request_id)
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        late = JSONRPCError(jsonrpc="2.0", id=request_id, error=error)
        self._timers[key] = asyncio.get_running_loop().call_later(
            seconds, self.end, late
        )


def number(value: Any) -> float | None:
    """Return a JSON value as a float; None if it is not a number, or implausibly large."""
    is_number = (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) < 1e15
    )
    if is_number:
        return float(value)
    return None
