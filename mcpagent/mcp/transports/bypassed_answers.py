"""Let large HTTP answers bypass the SDK's transport, which would parse them in the event loop.

The SDK receives a small answer with a token instead. It is replaced by the real answer after it has passed through the
SDK.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse, RequestId

from mcpagent.history.intake.json_steps import Bytes
from mcpagent.mcp.outcomes import whose_answer
from mcpagent.mcp.sdk import SessionMessage
from mcpagent.mcp.transports.bytes_to_messages import InvalidOutput, decode, dumped

Answer: TypeAlias = JSONRPCResponse | JSONRPCError

LARGE_BYTES = 128 * 1024

_TOKEN = secrets.token_hex(8)
"""A random token that no server can know."""

_MOST_KEPT = 1_000
_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")


@dataclass(slots=True)
class StreamAnswers:
    """The state of one stream: whether its request has an answer, and the ID of an answer to another request ("":
    none).
    """

    is_answered: bool = False
    foreign: str = ""


class BypassedAnswers:
    """The answers on one connection that bypass the SDK."""

    def __init__(self) -> None:
        self._kept: dict[str, Answer] = {}
        self._count = 0

    def put(self, answer: Answer) -> JSONRPCResponse:
        """Store an answer and return its placeholder."""
        self._count += 1
        key = str(self._count)
        self._kept[key] = answer
        if len(self._kept) > _MOST_KEPT:  # the waiter of the oldest one is gone
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
        """Return the real answer if the item is its placeholder, else the item."""
        if not isinstance(item, SessionMessage) or not isinstance(
            item.message, JSONRPCResponse
        ):
            return item
        answer = self._kept.pop(str(item.message.result.get(_TOKEN)), None)
        if answer is None:
            return item
        return SessionMessage(answer, item.metadata)

    def readable(
        self, event: Bytes, request_id: RequestId, answers: StreamAnswers
    ) -> bytes:
        """Return an event of the stream that answers a request as events that the SDK can read.

        Messages are repaired like those of a local server, and a large answer becomes a placeholder. An event without a
        message stays unchanged. An answer to another request is removed and recorded in `answers`, because the SDK
        would give it the ID of this request.
        """
        size = len(event)
        data, rest = _parts_of(event)
        is_much = size > LARGE_BYTES
        messages = [
            message
            for message in decode(data)
            if not isinstance(message, InvalidOutput)
        ]
        if not messages and len(event) == size:
            return bytes(event)
        if not messages:
            return b"\n".join([*rest, b"data: " + data, b"", b""])
        del data
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


def _parts_of(event: Bytes) -> tuple[Bytes, list[bytes]]:
    """Return the data of a server-sent event, and its other lines.

    If the data is one line of a `bytearray`, that buffer is cut to the line, to avoid a copy.
    """
    pieces, rest = list[tuple[int, int]](), list[bytes]()
    start = 0
    for end, following in chain(_line_ends(event), [(len(event), len(event))]):
        if event.startswith(b"data:", start):
            pieces.append((start + 5, end))
        elif end > start and not event.startswith(b"data", start):
            rest.append(bytes(event[start:end]))
        start = following
    if len(pieces) == 1 and isinstance(event, bytearray):
        [(start, end)] = pieces
        del event[end:], event[:start]
        return event, rest
    with memoryview(event) as whole:
        return b" ".join([whole[start:end] for start, end in pieces]), rest


def _line_ends(event: Bytes) -> Iterator[tuple[int, int]]:
    """Yield the end of each line of the event, and the start of the next one.

    A pattern would block all threads for a line of megabytes, ten times longer than `find`.
    """
    feed, carriage = event.find(b"\n"), event.find(b"\r")
    while feed >= 0 or carriage >= 0:
        if feed >= 0 and (carriage < 0 or feed < carriage):
            end = following = feed
        else:
            end = following = carriage
            if feed == carriage + 1:
                following = feed
        following += 1
        yield end, following
        if 0 <= feed < following:
            feed = event.find(b"\n", following)
        if 0 <= carriage < following:
            carriage = event.find(b"\r", following)


class EventSplitter:
    """Splits an event stream into its events in linear time; it holds at most `limit` bytes of an event."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._searched = 0

    def feed(self, chunk: bytes) -> Iterator[Bytes]:
        """Yield the events that are complete after `chunk`, each with its blank line."""
        self._buffer += chunk
        start = 0
        while found := _BLANK_LINE.search(self._buffer, max(start, self._searched - 3)):
            end = found.end()
            del found  # a remaining reference would lock the buffer
            if (
                not start and end > LARGE_BYTES
            ):  # pass on the buffer itself, because a copy would block the event loop
                large, self._buffer = self._buffer, self._buffer[end:]
                del large[end:]
                self._searched = 0
                given = [large]
                del large
                yield given.pop()
                continue
            with memoryview(self._buffer) as view:
                event = [bytes(view[start:end])]
            if end > LARGE_BYTES:  # free the memory of a large event
                del self._buffer[:end]
                end = 0
            start = self._searched = end
            yield event.pop()
        del self._buffer[:start]
        self._searched = len(self._buffer)
        if len(self._buffer) > self._limit:
            yield self.rest()

    def rest(self) -> bytes:
        """Return and remove the bytes of the incomplete last event."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        self._searched = 0
        return rest
