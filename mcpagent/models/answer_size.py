"""Limit the size of an answer: a server could send without end, and both SDKs store everything.

The limits count bytes after decompression. They apply to every read of the SDK, also when it reads an error.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

from mcpagent.models.failures_and_retries import AnswerError

MOST_STREAMED = 128 * 2**20
"""Maximum size of a whole stream: 128,000 tokens with one event each take about 60 MB in the most verbose format."""

MOST_AT_ONCE = 16 * 2**20
"""Maximum size between two events of a stream, including comments; also the maximum of an answer without a stream."""

MOST_OF_AN_ERROR = 2**20
"""Maximum size of an error body that is read."""

MOST_LINES = 20_000
"""Maximum number of lines in one event: the Anthropic SDK's work for each line grows with the number of earlier lines.
A CRLF counts twice.
"""

_BLANK_LINES = (b"\n\n", b"\r\r", b"\n\r\n")
_LONGEST_MARK = 4

_asking: ContextVar[bool] = ContextVar("asking", default=False)


@contextmanager
def of_bounded_size() -> Iterator[None]:
    """Limit the answers of requests inside the block, for clients prepared by `bound`.

    Other requests of a shared client stay unlimited.
    """
    token = _asking.set(True)
    try:
        yield
    finally:
        _asking.reset(token)


def bound(sdk_client: Any) -> None:
    """Prepare the HTTP client inside an SDK's client for `of_bounded_size`; a second call has no effect."""
    http_client = getattr(
        sdk_client, "_client", None
    )  # the SDKs have no public name for their HTTP client
    hooks = getattr(http_client, "event_hooks", None)
    if (
        http_client is not None
        and hooks is not None
        and _bound_answer not in hooks.get("response", ())
    ):
        http_client.event_hooks = {
            **hooks,
            "response": [*hooks.get("response", ()), _bound_answer],
        }


async def _bound_answer(response: Any) -> None:
    if _asking.get():
        response.aiter_bytes = partial(_bounded, response, response.aiter_bytes)


async def _bounded(
    response: Any, read: Any, chunk_size: int | None = None
) -> AsyncIterator[bytes]:
    """Yield the response's body from `read`, within the limits.

    Raises `AnswerError` if it is too large; the body of an error is cut instead.
    """
    if response.status_code >= 300:
        left = MOST_OF_AN_ERROR
        async with aclosing(read(chunk_size)) as parts:
            async for part in parts:
                yield part[:left]
                left -= len(part)
                if left < 0:
                    break
        await response.aclose()
        return
    size = AnswerSize(
        is_stream=not response.headers.get("content-type", "")
        .lower()
        .startswith("application/json")
    )
    async with aclosing(read(chunk_size)) as parts:
        async for part in parts:
            if too_much := size.add(part):
                raise AnswerError(too_much, "too_much")
            yield part


class AnswerSize:
    """Counts the bytes and lines of an answer."""

    def __init__(self, *, is_stream: bool) -> None:
        self._is_stream = is_stream
        self._bytes = self._waiting = self._lines = 0
        self._end = b""

    def add(self, part: bytes) -> str:
        """Add bytes; return the exceeded limit in a few words, or "" if none is exceeded."""
        self._bytes += len(part)
        self._waiting += len(part)
        if self._is_stream:
            seen = self._end + part
            self._end = seen[-_LONGEST_MARK:]
            if (begun := seen.rfind(b"data:")) >= 0:
                self._waiting = len(seen) - begun
            ended = max(map(seen.rfind, _BLANK_LINES))
            if ended >= 0:
                new = seen[ended:]
            else:
                new = part
            self._lines = (
                (0 if ended >= 0 else self._lines) + new.count(b"\n") + new.count(b"\r")
            )
        if self._lines > MOST_LINES:
            return f"{MOST_LINES:,} lines as one event"
        if self._waiting > MOST_AT_ONCE:
            return f"{MOST_AT_ONCE >> 20} MiB without a whole answer or event"
        if self._bytes > MOST_STREAMED:
            return f"{MOST_STREAMED >> 20} MiB"
        return ""
