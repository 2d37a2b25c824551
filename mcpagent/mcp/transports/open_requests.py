"""The requests that wait for an answer on one connection, and which of them an answer is for.

Also bounds the era probe, whose time limit the SDK fixes at 10 s.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    PROTOCOL_VERSION_META_KEY,
    REQUEST_TIMEOUT,
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    RequestId,
)
from mcp_types.version import LATEST_HANDSHAKE_VERSION

PROBE_SECONDS = 2.0
"""How long a server may take to answer `server/discover` before it counts as one of the earlier era."""

ANONYMOUS_SECONDS = 0.5
"""How long the answer to the only open request is waited for after one that does not say what it answers."""

_CANNOT_READ = frozenset({PARSE_ERROR, INVALID_REQUEST})
"""What JSON-RPC has a server say of a request whose id it could not read."""

_MOST_ANONYMOUS = 16
_AGAIN_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """One of them: its method, the protocol version it was made in, and the name or URI that it is about."""

    method: str
    version: str
    target: str


class OpenRequests:
    """All of one connection, by id; `inject` is the stream by which one is answered that its server does not answer.

    `version` is the protocol version of requests that do not name one.
    """

    def __init__(self, inject: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        self.version = LATEST_HANDSHAKE_VERSION
        self._inject = inject
        self._open: dict[str, OpenRequest] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._anonymous: deque[tuple[set[str], ErrorData]] = deque(maxlen=_MOST_ANONYMOUS)
        """Answers without an id, each with the requests that were open then and still are."""

    def add(self, request: JSONRPCRequest) -> None:
        """A request is on its way."""
        params = request.params or {}
        version = (params.get("_meta") or {}).get(PROTOCOL_VERSION_META_KEY) or self.version
        target = params.get("name") or params.get("uri") or ""
        self._open[str(request.id)] = OpenRequest(request.method, version, str(target))
        if request.method == "server/discover":
            error = ErrorData(code=REQUEST_TIMEOUT, message="server/discover was not answered")
            self._end_after(PROBE_SECONDS, request.id, error)

    def take(self, request_id: RequestId | None) -> OpenRequest | None:
        """The request that is answered; it is not open any more."""
        if (timer := self._timers.pop(str(request_id), None)) is not None:
            timer.cancel()
        return self.give_up(request_id)

    def give_up(self, request_id: RequestId | None) -> OpenRequest | None:
        """Nobody waits for an answer to it any more."""
        request = self._open.pop(str(request_id), None)
        if request is not None and self._anonymous:
            for meant, _ in self._anonymous:
                meant.discard(str(request_id))
            self._attribute()
        return request

    def id_for(self, error: ErrorData) -> RequestId | None:
        """The request that an answer without an id ends; none at once if it may as well answer a notification, so that
        the answer which is waited for may follow. Of several it is the one that gets no other answer."""
        meant = {key for key, request in self._open.items() if request.method != "subscriptions/listen"}
        if len(meant) == 1 and error.code in _CANNOT_READ:
            return _as_id(meant.pop())
        self._anonymous.append((meant, error))
        self._attribute()
        return None

    def close(self) -> None:
        """Ends none of them any more."""
        for timer in self._timers.values():
            timer.cancel()

    def _attribute(self) -> None:
        """Has those requests end soon that are the last ones an answer without an id can have been meant for."""
        for meant, error in [item for item in self._anonymous if len(item[0]) <= 1]:
            self._anonymous.remove((meant, error))
            for key in meant:
                self._end_after(ANONYMOUS_SECONDS, _as_id(key), error)

    def _end_after(self, seconds: float, request_id: RequestId, error: ErrorData) -> None:
        """Has a request end with an error, unless it is answered before that."""
        key = str(request_id)
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        self._timers[key] = asyncio.get_running_loop().call_later(seconds, self._end, request_id, error)

    def _end(self, request_id: RequestId, error: ErrorData) -> None:
        if str(request_id) not in self._open:
            del self._timers[str(request_id)]
            return
        try:
            self._inject.send_nowait(SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=error)))
        except anyio.WouldBlock:
            self._end_after(_AGAIN_SECONDS, request_id, error)
            return
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        self.take(request_id)


def _as_id(key: str) -> RequestId:
    return int(key) if key.isdigit() else key
