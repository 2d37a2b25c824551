"""Any bytes, cut anywhere, give the same messages; nothing raises and memory is bounded."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCResponse

from mcpagent.mcp.transports.bytes_to_messages import (
    INVALID_ANSWER,
    InvalidOutput,
    LineSplitter,
    MessageReader,
    OversizedLine,
    decode,
)
from tests.tables import each_row

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)
ANSWERS = st.builds(
    lambda number, result: {"jsonrpc": "2.0", "id": number, "result": {"value": result}}, st.integers(0, 10**9), JSON
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(ends)]


def read(pieces: list[bytes], limit: int = 10_000) -> list[Any]:
    reader = MessageReader(limit)
    lines = (line for piece in pieces for line in reader.lines(piece))
    return [message for line in lines for message in decode(line)] + list(reader.end())


@given(st.binary(max_size=300), st.lists(st.integers(0, 1000), max_size=8))
def test_any_bytes_read_the_same_however_they_are_cut(data: bytes, places: list[int]) -> None:
    assert read(cut(data, places)) == read([data])


@pytest.mark.slow
@settings(max_examples=50)
@given(st.lists(ANSWERS, max_size=4), st.lists(st.integers(0, 1000), max_size=8), st.booleans())
def test_messages_survive_any_cut(answers: list[dict[str, Any]], places: list[int], crlf: bool) -> None:
    data = b"".join(json.dumps(answer).encode() + (b"\r\n" if crlf else b"\n") for answer in answers)
    messages = read(cut(data, places))
    assert [message.model_dump(exclude_unset=True) for message in messages] == answers


@settings(max_examples=50)
@given(ANSWERS)
def test_an_object_over_several_lines_is_one_message(answer: dict[str, Any]) -> None:
    (message,) = read([json.dumps(answer, indent=2).encode() + b"\n"])
    assert message.model_dump(exclude_unset=True) == answer


@given(st.binary(max_size=400))
def test_decoding_never_raises(line: bytes) -> None:
    for message in decode(line):
        assert not isinstance(message, InvalidOutput) or message.text.isprintable()


@settings(max_examples=50)
@given(ANSWERS, st.integers(1, 1000))
def test_a_cut_answer_ends_the_call_it_belongs_to(answer: dict[str, Any], place: int) -> None:
    line = json.dumps(answer).encode()
    head = len(b'{"jsonrpc": "2.0", "id": ') + len(str(answer["id"])) + 2
    (message,) = decode(line[: head + place % (len(line) - head)])
    assert isinstance(message, JSONRPCError)
    assert message.id == answer["id"]
    assert message.error.code == INVALID_ANSWER


@given(st.lists(st.binary(max_size=30), max_size=20), st.integers(1, 60))
def test_the_splitter_holds_one_line_at_most(pieces: list[bytes], limit: int) -> None:
    splitter = LineSplitter(limit)
    found = [line for piece in pieces for line in splitter.feed(piece)]
    whole = b"".join(pieces).split(b"\n")[:-1]
    assert [line.size if isinstance(line, OversizedLine) else len(line) for line in found] == [
        len(line) for line in whole
    ]
    assert all(
        isinstance(line, OversizedLine) == (len(expected) > limit) for line, expected in zip(found, whole, strict=True)
    )
    assert all(line == expected for line, expected in zip(found, whole, strict=True) if isinstance(line, bytes))


@each_row(
    "line, expected",
    [
        (b"", []),
        (b"   \r", []),
        (b"hello", [InvalidOutput("hello")]),
        (b"[]", [InvalidOutput("[]")]),
        (b"17", [InvalidOutput("17")]),
        (b'{"a": 1}', [InvalidOutput('{"a": 1}')]),
        (b"\x1b[31mred", [InvalidOutput("[31mred")]),
    ],
)
def test_what_is_no_message_is_junk(line: bytes, expected: list[Any]) -> None:
    assert decode(line) == expected


def test_a_half_line_answers_its_call_and_frees_the_next() -> None:
    line = b'{"jsonrpc":"2.0","id":3,"result":{"con{"jsonrpc":"2.0","id":4,"result":{}}'
    broken, whole = decode(line)
    assert isinstance(broken, JSONRPCError)
    assert (broken.id, broken.error.code) == (3, INVALID_ANSWER)
    assert isinstance(whole, JSONRPCResponse)
    assert whole.id == 4


def test_an_overlong_answer_is_refused_by_its_id() -> None:
    reader = MessageReader(1000)
    line = b'{"jsonrpc":"2.0","id":7,"result":{"text":"' + b"x" * 5000 + b'"}}\n{"jsonrpc":"2.0","method":"a"}\n'
    refused, next_one = [
        message
        for start in range(0, len(line), 100)
        for whole in reader.lines(line[start : start + 100])
        for message in decode(whole)
    ]
    assert isinstance(refused, JSONRPCError)
    assert refused.id == 7
    assert "the limit is" in refused.error.message
    assert isinstance(next_one, JSONRPCNotification)


def test_a_float_id_is_read_as_the_number_it_is() -> None:
    (message,) = decode(b'{"jsonrpc":"2.0","id":5.0,"result":null}')
    assert isinstance(message, JSONRPCError)
    assert message.id == 5


def test_reading_is_linear() -> None:
    def seconds(size: int) -> float:
        reader, piece = MessageReader(), b"x" * 65_536
        started = time.process_time()
        for _ in range(size // len(piece)):
            assert list(reader.lines(piece)) == []
        return time.process_time() - started

    # The least of three: the machine may be busy with something else.
    small, large = (min(seconds(size) for _ in range(3)) for size in (4 << 20, 16 << 20))
    small = max(small, 0.001)
    assert large < small * 20
