"""Event streams cut into events however their bytes come, and large answers put back where they were."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse

from mcpagent.mcp.transports.bypassed_answers import BypassedAnswers, EventSplitter, StreamAnswers
from mcpagent.mcp.transports.bytes_to_messages import decode
from tests.tables import each_row

ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
LINES = st.sampled_from([b"data: x", b"data", b":", b"id: 7", b"event: message", b"retry: 1"])
STREAMS = st.lists(st.tuples(LINES | st.just(b""), ENDS)).map(lambda lines: b"".join(map(b"".join, lines)))


@given(STREAMS, st.lists(st.integers(1, 7)))
def test_no_byte_is_lost_and_events_are_the_same_in_any_pieces(stream: bytes, sizes: list[int]) -> None:
    splitter, rest = EventSplitter(10_000), stream
    found: list[bytes | bytearray] = []
    for size in sizes:
        found += splitter.feed(rest[:size])
        rest = rest[size:]
    found += splitter.feed(rest)
    end = splitter.rest()
    assert b"".join(found) + end == stream
    for event in found:
        assert re.search(rb"(\n|\r)(\r\n|\n|\r)$", event)
    whole = EventSplitter(10_000)
    fields = [line for event in whole.feed(stream) for line in event.splitlines() if line]
    assert [line for event in found for line in event.splitlines() if line] == fields


def test_no_more_is_held_than_the_limit() -> None:
    splitter = EventSplitter(100)
    assert list(splitter.feed(b"data: " + b"x" * 200)) == [b"data: " + b"x" * 200]
    assert list(splitter.feed(b"x\n\n")) == [b"x\n\n"]


@each_row("end", ["\n", "\r\n", "\r"])
def test_a_large_answer_in_an_event_comes_back(end: str) -> None:
    aside = BypassedAnswers()
    content = ["x" * 1_000] * 200
    text = json.dumps({"jsonrpc": "2.0", "id": 5, "result": {"content": content}}, indent=1)
    event = "".join(f"data: {line}{end}" for line in text.splitlines())
    whole = f"id: 9{end}{event}{end}".encode()
    slim = aside.readable(whole, 5, StreamAnswers())
    assert slim.startswith(b"id: 9\ndata: {")
    assert len(slim) < 200
    again = BypassedAnswers().readable(bytearray(whole), 5, StreamAnswers())
    assert again == slim, "a buffer"
    one_line = f"id: 9{end}data: {json.dumps(json.loads(text))}{end}{end}"
    assert BypassedAnswers().readable(bytearray(one_line.encode()), 5, StreamAnswers()) == slim, (
        "a buffer with one line"
    )
    (passed_on,) = decode(slim.split(b"data: ")[1])
    assert isinstance(passed_on, JSONRPCResponse)
    restored = aside.restored(SessionMessage(passed_on))
    assert isinstance(restored, SessionMessage)
    assert restored.message == JSONRPCResponse(jsonrpc="2.0", id=5, result={"content": content})
    later = SessionMessage(passed_on)
    assert aside.restored(later) is later


@each_row("data", ["", "hello", "[]", "7"])
def test_an_event_without_a_message_stays_as_it_is(data: str) -> None:
    event = f"data: {data}\n\n".encode()
    assert BypassedAnswers().readable(event, 1, StreamAnswers()) == event
    buffer = BypassedAnswers().readable(bytearray(event), 1, StreamAnswers())
    assert [line.split(b":", 1)[1].strip() for line in buffer.split(b"\n") if line] == [data.encode()]


def test_messages_of_a_batch_are_events_of_their_own() -> None:
    event = b'event: message\ndata: [{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":3}]\n\n'
    first, second, end = BypassedAnswers().readable(event, 3, StreamAnswers()).split(b"\n\n")
    assert first == b'event: message\ndata: {"jsonrpc":"2.0","method":"x"}'
    assert b'it has no \\"result\\"' in second
    assert end == b""


def test_an_answer_without_an_id_is_that_of_the_only_request() -> None:
    error = b'data: {"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no"}}\n\n'
    event = BypassedAnswers().readable(error, 3, StreamAnswers())
    assert event == b'data: {"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"no"}}\n\n'


def test_what_was_not_set_aside_stays_as_it_is() -> None:
    aside = BypassedAnswers()
    (plain,) = decode(b'{"jsonrpc":"2.0","id":1,"result":{}}')
    assert isinstance(plain, JSONRPCResponse)
    items: list[SessionMessage | Exception] = [ValueError("x"), SessionMessage(plain)]
    assert [aside.restored(item) for item in items] == items
