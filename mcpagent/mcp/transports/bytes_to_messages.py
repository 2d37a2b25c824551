"""Parse the bytes from a server as JSON-RPC messages; accepts any bytes.

A line that is not a message is `InvalidOutput`. A broken answer with a readable ID becomes an error answer with that ID
and the code `INVALID_ANSWER`, so that its call ends at once with the reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from codecs import getincrementaldecoder
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from mcp_types import (
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import from_json

from mcpagent.history.intake.budget import (
    MAX_LISTED_BYTES,
    MAX_LISTED_VALUES,
    MAX_MESSAGE_VALUES,
)
from mcpagent.history.intake.json_steps import (
    MANY_BYTES,
    BudgetExceededError,
    Bytes,
    JsonBudget,
    end_of,
    parse_in_steps,
    read_array,
    read_object,
    value_at,
)
from mcpagent.mcp.sdk import SessionMessage
from mcpagent.utilities.python.garbage_collection import uncollected
from mcpagent.utilities.text.json_texts import with_texts
from mcpagent.utilities.text.safe_text import safe_line

Line: TypeAlias = tuple[
    AsyncIterator[SessionMessage | Exception],
    Callable[[SessionMessage], Awaitable[None]],
]
"""The two ends of a transport: an iterator over incoming messages or errors, and a function that sends a message."""
Transport: TypeAlias = AbstractAsyncContextManager[Line]


class ByteObserver(Protocol):
    """Callback for received bytes: whether they belong to an answer, and to which one, if known."""

    def __call__(
        self, *, is_answer: bool, request_id: RequestId | None = None
    ) -> None: ...


def unheard(*, is_answer: bool, request_id: RequestId | None = None) -> None:
    """Do nothing with received bytes: a `ByteObserver` for callers that need none."""


MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Default maximum size of a message: an answer of 50 MB passes, and parsing it blocks the interpreter for half a
second.
"""

_LARGE_BYTES = 128 * 1024

INVALID_ANSWER = -32019
"""The client's error code (implementation-defined range) for an invalid answer."""

_HUGE_BYTES = 1024 * 1024
_NO_CODE = 0
_LISTED = frozenset({"tools", "prompts", "resources", "resourceTemplates"})
"""Fields of results that are lists of a server's items."""

OVER_BUDGET_MARK = "mcpagent/over-budget"
"""A field in a listed item that was too large to be parsed."""

_HEAD_BYTES = 4096
_SAMPLE_BYTES = 400
_BEGINNINGS = b"{[\xef"
"""First bytes of an object, of a batch, and of a byte order mark."""

_SIGNS = (b"jsonrpc", b"result", b"error", b"method", b'"id"', b"\\u")
"""A line without any of these, or an escape that could spell them, is neither a message nor the rest of one."""


@dataclass(frozen=True, slots=True)
class InvalidOutput:
    """Output of a server that is not a message; `text` is a printable sample."""

    text: str


Decoded: TypeAlias = JSONRPCMessage | InvalidOutput


@dataclass(frozen=True, slots=True)
class OversizedLine:
    """A line over the size limit: its first bytes, its whole size, and the limit."""

    head: bytes
    size: int
    limit: int


FLOOD_BYTES = 16_384
"""If at least this number of bytes arrives at once, not every line is inspected. With fewer, the result does not depend
on the chunks.
"""


class LineSplitter:
    """Splits a byte stream into lines in linear time; it holds at most one line of `limit` bytes."""

    def __init__(self, limit: int = MAX_MESSAGE_BYTES) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._searched = 0
        self._dropped = 0

    def feed(self, data: bytes) -> Iterator[Bytes | OversizedLine]:
        """Yield the lines that are complete after `data`, without their line feeds."""
        self._buffer += data
        start = 0
        while (end := self._buffer.find(b"\n", max(self._searched, start))) >= 0:
            if (
                not start and end > _HUGE_BYTES
            ):  # pass on the buffer itself, because a copy would block the event loop
                large, self._buffer = self._buffer, self._buffer[end + 1 :]
                del large[end:]
                self._searched = 0
                given = [self._line(large)]
                del large
                yield given.pop()
                continue
            with memoryview(self._buffer) as view:
                line = bytes(view[start:end])
            start = end + 1
            if start > _LARGE_BYTES:  # free the memory of a large line
                del self._buffer[:start]
                start = 0
            self._searched = start
            whole = [self._line(line)]
            del line  # the receiver should hold the only reference
            yield whole.pop()
        del self._buffer[:start]
        self._searched = len(self._buffer)
        if self._dropped or len(self._buffer) > self._limit:
            self._drop()

    @property
    def has_rest(self) -> bool:
        """Return whether bytes arrived after the last line feed."""
        return bool(self._buffer)

    def rest(self) -> bytes:
        """Return the bytes after the last line feed: a server may end without writing one."""
        if self._dropped:
            return b""
        return bytes(self._buffer)

    def pass_over(self, data: bytes) -> list[bytes]:
        """Return only the first and last complete lines; called instead of `feed` for lines that cannot be messages."""
        end = data.rfind(b"\n")
        if end < 0:
            self._buffer += data[: max(0, _HEAD_BYTES - len(self._buffer))]
            self._searched = len(self._buffer)
            return []
        first, start = data.find(b"\n"), data.rfind(b"\n", 0, end) + 1
        lines = [bytes(self._buffer) + data[: min(first, _HEAD_BYTES)]]
        if first < end:
            lines += [data[start : min(end, start + _HEAD_BYTES)]]
        self.forget()
        self._dropped = 0
        self._buffer += data[end + 1 :]
        self._searched = len(self._buffer)
        return lines

    def forget(self) -> None:
        """Discard the rest of the line, which was processed."""
        self._buffer.clear()
        self._searched = 0

    def _line(self, line: Bytes) -> Bytes | OversizedLine:
        size, self._dropped = len(line) + self._dropped, 0
        if size <= self._limit:
            return line
        return OversizedLine(bytes(line[:_HEAD_BYTES]), size, self._limit)

    def _drop(self) -> None:
        """Discard an overlong line except its head."""
        excess = len(self._buffer) - _HEAD_BYTES
        if excess > 0:
            self._dropped += excess
            del self._buffer[_HEAD_BYTES:]
        self._searched = len(self._buffer)


class MessageReader:
    """Decodes a byte stream in any chunks; an object that spans several lines counts as one message."""

    def __init__(self, limit: int = MAX_MESSAGE_BYTES) -> None:
        self._splitter = LineSplitter(limit)
        self._limit = limit
        self._spread = bytearray()
        """The lines so far of an object that spans several, joined by spaces."""
        self._spread_head: Bytes = b""
        """The first of these lines."""
        self._is_prose = True
        """True if the text after the last line feed cannot be the start of a message."""

    def lines(self, data: bytes) -> Iterator[Bytes | OversizedLine]:
        """Yield the complete lines, for `decode`; of a flood of lines that cannot be messages, only two."""
        is_flood = len(data) >= FLOOD_BYTES and self._is_prose and not self._spread
        if is_flood and b"{" not in data and b"jsonrpc" not in data:
            yield from self._splitter.pass_over(data)
            return
        for line in self._splitter.feed(data):
            joined = self._joined(line)
            del line
            while joined:
                yield joined.pop(0)
        self._is_prose = not self._splitter.has_rest

    @property
    def is_in_message(self) -> bool:
        """Return whether the last bytes may be part of an incomplete message."""
        return bool(self._spread) or not self._is_prose

    @property
    def is_in_line(self) -> bool:
        """Return whether bytes arrived after the last line feed."""
        return self._splitter.has_rest

    def unfinished(self) -> list[Decoded]:
        """Return the messages in a line without a line feed, which a server may have forgotten while a caller waits for
        it.
        """
        rest = self._splitter.rest()
        if self._spread or not rest.rstrip(b" \t\r\0\x0c\x1e").endswith(b"}"):
            return []
        found = decode(rest)
        if not found or not all(map(_is_whole, found)):
            return []
        self._splitter.forget()
        return found

    def end(self) -> Iterator[Decoded]:
        """Yield the messages after the last line feed, if they are complete: a server may end without writing one."""
        yield from filter(_is_whole, decode(self._splitter.rest()))

    def _joined(self, line: Bytes | OversizedLine) -> list[Bytes | OversizedLine]:
        if not self._spread:
            if (
                not isinstance(line, OversizedLine)
                and line[:100].rstrip() == b"{"
                and len(line) <= 100
            ):
                self._spread, self._spread_head = bytearray(line), line
                return []
            return [line]
        if (
            isinstance(line, OversizedLine)
            or line.startswith(b"{")
            or len(self._spread) > self._limit
        ):
            self._spread = bytearray()
            return [self._spread_head, line]
        self._spread += b" "
        self._spread += line
        if line[:100].rstrip() != b"}" or len(line) > 100:
            return []
        whole, self._spread = self._spread, bytearray()
        return [whole]


def dumped(message: JSONRPCMessage) -> bytes:
    """Return a message as bytes for sending. Raises `ValueError` if it has text that is not valid Unicode."""
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode()


async def decoded(line: Bytes | OversizedLine) -> list[Decoded]:
    """Run `decode`; for a large line in a thread, so that it blocks the event loop only for single steps of the
    parser.
    """
    if not isinstance(line, OversizedLine) and len(line) > _LARGE_BYTES:
        return await asyncio.to_thread(decode, line)
    return decode(line)


def decode(line: Bytes | OversizedLine) -> list[Decoded]:
    """Return the messages in one line: [] for an empty line, several for a batch. Never raises."""
    if isinstance(line, OversizedLine):
        what = f"it is {line.size / 2**20:.3g} MiB long, the limit is {line.limit / 2**20:.3g} MiB"
        return [
            _broken(
                line.head.decode("utf-8", "replace"),
                f'{what}; raise "max_message_bytes" if it needs more',
            )
        ]
    line = _narrow(_stripped(line))
    if not line:
        return []
    is_prose = (
        line[0] not in _BEGINNINGS
        and b'"jsonrpc"' not in line
        and b'"result"' not in line
    )
    if is_prose or not any(sign in line for sign in _SIGNS):
        return [_junk(line)]
    is_large = len(line) > MANY_BYTES
    try:
        value = _value_of(line)
        if isinstance(value, dict) and not _may_be_message(value):
            return [_junk(line)]
        try:
            return [jsonrpc_message_adapter.validate_python(value, by_name=False)]
        except ValidationError:
            if is_large:
                return _messages(value)
            raise
    except (ValidationError, ValueError) as error:
        if is_large and line.startswith(b"{"):
            # Repairing it would parse the whole line in one step, which blocks every thread.
            if isinstance(error, BudgetExceededError):
                why = str(error)
            else:
                why = f"it is not valid JSON ({error})"
            return [_broken(_shortened(line), why)]
        text = line.decode("utf-8", "replace").strip("\ufeff\0\x0c\x1e \t\r")
    try:
        return _decode_broken(text)
    except RecursionError:
        return [_broken(text, "its JSON nests too deeply")]


def _value_of(line: Bytes) -> Any:
    """Parse a line of JSON.

    A long line is parsed in steps, so that other threads can run. A part that nests too deeply is omitted.
    """
    if len(line) <= MANY_BYTES:
        try:
            return from_json(line)
        except ValueError as error:
            if "recursion limit" not in str(error):
                raise
    if not line.startswith(b"{"):
        return parse_in_steps(line, JsonBudget(MAX_MESSAGE_VALUES))
    with uncollected():
        return _message_in_steps(line)


def _message_in_steps(line: Bytes) -> dict[str, Any]:
    """Parse a message whose result may be over the budget; only the parts over it are lost."""
    message: dict[str, Any] = {}

    def read(name: str, place: int) -> int:
        if name == "result" and line[place : place + 1] == b"{":
            message[name], end = _result_in_steps(line, place)
        else:
            message[name], end = value_at(line, place, JsonBudget(MAX_MESSAGE_VALUES))
        return end

    end = read_object(line, 0, read)
    if line[end:].strip():
        raise ValueError(f"something follows the message at byte {end}")
    return message


def _result_in_steps(line: Bytes, start: int) -> tuple[dict[str, Any], int]:
    """Parse a result. Each item of a list in it has a budget of its own; values over the budget become text.

    Structured content over the budget becomes the text of the result if it has no other.
    """
    result: dict[str, Any] = {}
    left_over: list[str] = []

    def read(name: str, place: int) -> int:
        if line[place : place + 1] == b"[":
            items: list[Any] = []
            read_one = _listed_in_steps if name in _LISTED else _block_in_steps

            def read_item(place: int) -> int:
                value, end = read_one(line, place)
                items.append(value)
                return end

            result[name] = items
            return read_array(line, place, read_item)
        value, end = _part_in_steps(line, place)
        if isinstance(value, _Unparsed):
            left_over.append(value.text)
        else:
            result[name] = value
        return end

    end = read_object(line, start, read)
    if left_over and not result.get("content"):
        result["content"] = [{"type": "text", "text": text} for text in left_over]
    return result, end


@dataclass(frozen=True, slots=True)
class _Unparsed:
    """The text of a JSON value over the budget, which is not parsed."""

    text: str


def _part_in_steps(line: Bytes, place: int) -> tuple[Any, int]:
    try:
        return value_at(line, place, JsonBudget())
    except BudgetExceededError:
        end = end_of(line, place)
        steps = [
            line[start : min(start + _STEP, end)] for start in range(place, end, _STEP)
        ]
        decoder = getincrementaldecoder("utf-8")("replace")
        return _Unparsed(
            "".join(
                [decoder.decode(step) for step in steps]
                + [decoder.decode(b"", final=True)]
            )
        ), end


_STEP = 1 << 20


def _block_in_steps(line: Bytes, place: int) -> tuple[Any, int]:
    """Return a content block and its end; a block over the budget becomes a text block."""
    value, end = _part_in_steps(line, place)
    if isinstance(value, _Unparsed):
        value = {"type": "text", "text": value.text}
    return value, end


def _listed_in_steps(line: Bytes, place: int) -> tuple[Any, int]:
    """Parse one item of a list, such as a tool; return it and the position after it.

    An item over the budget becomes an object with its name and `OVER_BUDGET_MARK`.
    """
    end = end_of(line, place)
    if end - place <= MAX_LISTED_BYTES:
        with contextlib.suppress(BudgetExceededError):
            return value_at(line, place, JsonBudget(MAX_LISTED_VALUES))
    kept: dict[str, Any] = {OVER_BUDGET_MARK: True}

    def read(name: str, place: int) -> int:
        end = end_of(line, place)
        if name == "name" and end - place < _HEAD_BYTES:
            kept[name] = from_json(line[place:end])
        return end

    if line[place : place + 1] == b"{":
        read_object(line, place, read)
    return kept, end


def _shortened(line: Bytes) -> str:
    """Return the head and the tail of a line; one of them may contain its ID."""
    return (line[:_HEAD_BYTES] + line[-_HEAD_BYTES:]).decode("utf-8", "replace")


def _may_be_message(value: dict[str, Any]) -> bool:
    """Return False for an object that is not a message, such as a log record with some of the same keys."""
    if "jsonrpc" in value or "id" in value:
        return True
    return str(value.get("method")).startswith("notifications/")


def _junk(line: Bytes) -> InvalidOutput:
    return InvalidOutput(safe_line(line[:_SAMPLE_BYTES].decode("utf-8", "replace"), 80))


def _stripped(line: Bytes) -> Bytes:
    """Return the line without white space at its ends; a buffer is changed in place."""
    if isinstance(line, bytes):
        return line.strip()
    while line[-1:].isspace():
        del line[-1:]
    while line[:1].isspace():
        del line[:1]
    return line


def _narrow(line: Bytes) -> Bytes:
    """Convert a line of UTF-16 to UTF-8. Splitting at line feed bytes may have left half a character at an end."""
    if b"\0" not in line[:4] or line.count(0) * 3 < len(line):
        return line
    is_big = line.startswith((b"\xfe\xff", b"\0"))
    even = line[: len(line) // 2 * 2]
    return (
        even.decode("utf-16-be" if is_big else "utf-16-le", "replace")
        .strip("\ufeff\0 \t\r")
        .encode()
    )


def _decode_broken(text: str) -> list[Decoded]:
    try:
        data, end = _JSON.raw_decode(text)
    except ValueError as error:
        return _resynchronised(text, str(error))
    after = text[end:].strip()
    return [*_messages(data), *(_after(after) if after else [])]


def _messages(data: Any) -> list[Decoded]:
    """Return the messages of one JSON value: an object, or a batch of objects."""
    if not isinstance(data, list):
        return [_message(data)]
    return [message for item in data for message in _messages(item)] or [
        InvalidOutput("[]")
    ]


def _after(text: str) -> list[Decoded]:
    """Return the messages after a complete one on the same line; invalid output if nothing follows."""
    start = text.find('{"jsonrpc"')
    if start >= 0:
        return decode(text[start:].encode("utf-8", "replace"))
    return [InvalidOutput(safe_line(text, 80))]


def _resynchronised(text: str, why: str) -> list[Decoded]:
    """Return the message after half a message on the same line; the half one becomes an error answer to its own
    call.
    """
    start = text.rfind('{"jsonrpc"', 1)
    if start > 0:
        rest = decode(text[start:].encode("utf-8", "replace"))
        if rest and not isinstance(rest[0], InvalidOutput):
            return [_broken(text[:start], "its JSON is cut off"), *rest]
    return [_broken(text, f"it is not valid JSON ({why})")]


def _int_or_text(digits: str) -> int | str:
    # `int` refuses more than 4300 digits, and no model reads that many as a number.
    if len(digits) <= 4000:
        return int(digits)
    return digits


_JSON = json.JSONDecoder(strict=False, parse_int=_int_or_text)


def _message(data: Any) -> Decoded:
    """Return a parsed value as a message, repaired if it is the answer to a known call."""
    if not isinstance(data, dict):
        return InvalidOutput(safe_line(json.dumps(data), 80))
    data = {"jsonrpc": "2.0"} | encodable(data)
    try:
        return jsonrpc_message_adapter.validate_python(data, by_name=False)
    except (ValidationError, ValueError):
        pass
    request_id = _as_id(data.get("id"))
    if "method" in data or not data.keys() & {"id", "result", "error"}:
        return InvalidOutput(safe_line(json.dumps(data), 80))
    if "error" in data:
        return JSONRPCError(jsonrpc="2.0", id=request_id, error=_error(data["error"]))
    if request_id is None:
        return invalid_answer(None, "it has no usable id")
    if isinstance(data.get("result"), dict):
        return JSONRPCResponse(jsonrpc="2.0", id=request_id, result=data["result"])
    what = 'it has no "result"'
    if "result" in data:
        what = f'its "result" is {_kind(data["result"])}, not an object'
    return invalid_answer(request_id, what)


def _error(error: Any) -> ErrorData:
    """Return an error object from a value of any shape, with the server's own text."""
    if error is None:
        return ErrorData(code=INVALID_ANSWER, message='its "error" is null')
    if not isinstance(error, dict):
        if isinstance(error, str):
            text = error
        else:
            text = json.dumps(error)
        return ErrorData(code=_NO_CODE, message=safe_line(text, 500))
    code = error.get("code")
    message = error.get("message")
    if isinstance(message, str):
        text = message
    else:
        text = json.dumps(error)
    if isinstance(code, int) and not isinstance(code, bool):
        known = code
    else:
        known = _NO_CODE
    return ErrorData(code=known, message=text, data=error.get("data"))


def _is_whole(message: Decoded) -> bool:
    """Return whether a message was complete, not assembled from a broken line."""
    if isinstance(message, JSONRPCError):
        return message.error.code != INVALID_ANSWER
    return not isinstance(message, InvalidOutput)


def encodable(value: Any) -> Any:
    """Return the value with lone surrogates in its texts replaced, because UTF-8 cannot encode them."""
    return with_texts(value, _encodable)


def _encodable(text: str) -> str:
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def invalid_answer(request_id: RequestId | None, what: str) -> JSONRPCError:
    """Return an error answer for a call whose answer is unusable; without an ID, it is for the only open call."""
    return JSONRPCError(
        jsonrpc="2.0", id=request_id, error=ErrorData(code=INVALID_ANSWER, message=what)
    )


_ID = re.compile(
    r"""\bid["']?\s{0,8}:\s{0,8}(?:(\d{1,18})|["']([^"'\\]{1,100})["'])\s{0,8}[,}]?"""
)


def _broken(text: str, why: str) -> Decoded:
    """Return a broken line as the error answer to its call, if its head or tail has an ID; the first ID is that of the
    message.

    Anything else, such as a request that a server prints for its own purposes, is invalid output.
    """
    head, tail = text[:_HEAD_BYTES], text[-_HEAD_BYTES:]
    if "method" in head or not ("jsonrpc" in head or '"result"' in head):
        return InvalidOutput(safe_line(text, 80))
    match = _ID.search(head) or _ID.search(tail)
    if match:
        return invalid_answer(int(match[1]) if match[1] else match[2], why)
    if text.startswith("{"):
        return invalid_answer(None, why)
    return InvalidOutput(safe_line(text, 80))


def _as_id(value: Any) -> RequestId | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int | str):
        return value
    return None


def _kind(value: Any) -> str:
    kinds = {
        type(None): "null",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "a list",
    }
    return kinds.get(type(value), "something else")
