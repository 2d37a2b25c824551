"""Let large HTTP answers bypass the SDK's transport, which parses its input in the event loop.

The SDK receives a small answer with a token instead, which is replaced by the real answer when the SDK passes it on.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse, RequestId

from mcpagent.mcp.outcomes import whose_answer
from mcpagent.mcp.transports.bytes_to_messages import Junk, decode, dumped

Answer: TypeAlias = JSONRPCResponse | JSONRPCError

LARGE_BYTES = 128 * 1024

_TOKEN = secrets.token_hex(8)
"""A random token that no server can know."""

_MOST_KEPT = 1_000
_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")
_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(slots=True)
class StreamAnswers:
    """The answers in one stream: whether its request has one, and the ID of an answer to another request."""

    is_answered: bool = False
    foreign: str = ""


class SetAside:
    """The answers of one connection that bypass the SDK."""

    def __init__(self) -> None:
        self._kept: dict[str, Answer] = {}
        self._count = 0

    def put(self, answer: Answer) -> JSONRPCResponse:
        """Store an answer and return its placeholder."""
        self._count += 1
        key = str(self._count)
        self._kept[key] = answer
        if len(self._kept) > _MOST_KEPT:  # the waiter of the first is gone
            del self._kept[next(iter(self._kept))]
        assert answer.id is not None
        return JSONRPCResponse(jsonrpc="2.0", id=answer.id, result={_TOKEN: key})

    async def all_restored(
        self, items: AsyncIterable[SessionMessage | Exception]
    ) -> AsyncIterator[SessionMessage | Exception]:
        """Yield the items of the SDK's transport, with the real answers restored."""
        async for item in items:
            yield self.restored(item)

    def restored(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        """Return the real answer, if this is its placeholder."""
        if not isinstance(item, SessionMessage) or not isinstance(
            item.message, JSONRPCResponse
        ):
            return item
        answer = self._kept.pop(str(item.message.result.get(_TOKEN)), None)
        if answer is None:
            return item
        return SessionMessage(answer, item.metadata)

    def readable(
        self, event: bytes, request_id: RequestId, answers: StreamAnswers
    ) -> bytes:
        """Return an event of the stream that answers a request as events that the SDK can read.

        Messages are repaired as those of a local server are, and a large answer becomes a placeholder. An event without
        a message stays unchanged. An answer to another request is removed, and noted in `answers`: the SDK would give
        it the ID of this one.
        """
        data, rest = _parts_of(event)
        is_much = len(data) > LARGE_BYTES
        messages = [
            message for message in decode(data) if not isinstance(message, Junk)
        ]
        del data
        if not messages:
            return event
        events: list[bytes] = []
        for message in messages:
            lines = self._data(message, request_id, answers, is_much=is_much)
            events.append(b"\n".join([*rest, *lines, b"", b""]))
        return b"".join(events)

    def _data(
        self,
        message: JSONRPCMessage,
        request_id: RequestId,
        answers: StreamAnswers,
        *,
        is_much: bool,
    ) -> list[bytes]:
        if not isinstance(message, Answer):
            return [b"data: " + dumped(message)]
        whose = whose_answer(message.id, request_id)
        if whose == "another's" or (
            whose == "nobody's" and isinstance(message, JSONRPCResponse)
        ):
            answers.foreign = str(message.id)
            return []
        answers.is_answered, message.id = True, request_id
        return [b"data: " + dumped(self.put(message) if is_much else message)]


def _parts_of(event: bytes) -> tuple[bytes, list[bytes]]:
    """Return an event's data, and its other lines; a large event is copied once."""
    whole, pieces, rest = memoryview(event), list[memoryview](), list[bytes]()
    start = 0
    for end, following in (
        (found.start(), found.end()) for found in _LINE_END.finditer(event)
    ):
        if event.startswith(b"data:", start):
            pieces.append(whole[start + 5 : end])
        elif end > start and not event.startswith(b"data", start):
            rest.append(event[start:end])
        start = following
    if event.startswith(b"data:", start):
        pieces.append(whole[start + 5 :])
    elif start < len(event) and not event.startswith(b"data", start):
        rest.append(event[start:])
    return b" ".join(pieces), rest


class EventSplitter:
    """Splits an event stream into its events, in linear time; holds at most `limit` bytes of an event."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._searched = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the events that `chunk` completes, each with its blank line."""
        self._buffer += chunk
        start = 0
        while found := _BLANK_LINE.search(self._buffer, max(start, self._searched - 3)):
            end = found.end()
            del found  # or it would lock the buffer
            with memoryview(self._buffer) as view:
                event = [bytes(view[start:end])]
            if end > LARGE_BYTES:  # the reader needs the room now
                del self._buffer[:end]
                end = 0
            start = self._searched = end
            yield event.pop()
        del self._buffer[:start]
        self._searched = len(self._buffer)
        if len(self._buffer) > self._limit:
            yield self.rest()

    def rest(self) -> bytes:
        """Return the bytes after the last blank line."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        self._searched = 0
        return rest
