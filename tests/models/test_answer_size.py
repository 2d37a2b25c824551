"""What a hostile or broken gateway sends without an end, over real HTTP: read up to a limit, and said in a line."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagent.errors import ModelError
from mcpagent.models import ModelSettings
from mcpagent.models.answer_size import MOST_AT_ONCE, MOST_OF_AN_ERROR, MOST_STREAMED, AnswerSize
from mcpagent.values.events import ignore
from tests.models.test_http_model_hostile_answers import (
    EACH,
    PROTOCOLS,
    REQUEST,
    RawServer,
    answer,
    made,
    stream,
    whole,
)
from tests.servers.loopback import LoopbackServer, request_body
from tests.tables import each_row

MIB = 2**20
HEAD = {"text/event-stream": answer(b"", "text/event-stream")[0], "application/json": answer(b"")[0]}


class Flood(LoopbackServer):
    """A server that sends a head and then pieces as long as somebody reads; counts the bytes that it got rid of."""

    def __init__(self, head: bytes, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._head, self._pieces = head, pieces
        self.sent = self.requests = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests += 1
        try:
            await request_body(reader)
            writer.write(self._head)
            for piece in self._pieces:
                writer.write(piece)
                await writer.drain()
                self.sent += len(piece)
        except ConnectionError:
            pass  # the client has read enough
        finally:
            writer.close()


def forever(piece: bytes, *first: bytes, most: int = 300 * MIB) -> Iterator[bytes]:
    yield from first
    for _ in range(most // len(piece)):
        yield piece


def delta(protocol: str, text: str) -> tuple[bytes, bytes]:
    """How a stream begins, and an event that brings text."""
    start: list[dict[str, Any]]
    match protocol:
        case "messages":
            start = [
                {"type": "message_start", "message": {"id": "m", "content": [], "usage": {}}},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            ]
            event = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
        case "responses":
            start, event = [], {"type": "response.output_text.delta", "delta": text}
        case _:
            start, event = [], {"choices": [{"index": 0, "delta": {"content": text}}]}

    def sse(one: dict[str, Any]) -> bytes:
        kind = f"event: {one['type']}\n" if "type" in one else ""
        return f"{kind}data: {json.dumps(one)}\n\n".encode()

    return b"".join(map(sse, start)), sse(event)


async def flooded(protocol: str, flood: Flood, *, measured: bool = True) -> tuple[ModelError, int]:
    """The error, and the most memory in use meanwhile beyond what there was, if it is `measured`."""
    async with flood:
        model = made(protocol, flood.url, max_retries=2)
        if measured:
            tracemalloc.start()
        try:
            with pytest.raises(ModelError) as caught:
                async with asyncio.timeout(120):
                    await model.respond(REQUEST, ignore)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            await model.aclose()
    line = str(caught.value)
    assert line.isprintable()
    assert len(line) < 400
    return caught.value, most


@pytest.mark.slow
@EACH
async def test_an_endless_stream_of_text_is_left(protocol: str) -> None:
    first, piece = delta(protocol, "x" * MIB)
    flood = Flood(HEAD["text/event-stream"], forever(piece, first))
    error, memory = await flooded(protocol, flood)
    assert f"{flood.url}" in str(error)
    assert "sent more than 128 MiB; ask m for less, or check the address" in str(error)
    assert not error.retryable
    assert flood.requests == 1
    assert flood.sent < MOST_STREAMED + 16 * MIB
    assert memory < 1.6 * MOST_STREAMED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "protocol"),
    [
        *((what, protocol) for what in ("a line", "json", "packed") for protocol in PROTOCOLS),
        ("comments", "messages"),
        ("comments", "chat"),  # the same SDK reads comments of Responses
    ],
)
async def test_what_brings_no_event_is_left_sooner(protocol: str, what: str) -> None:
    kind = "application/json" if what == "json" else "text/event-stream"
    comments = what == "comments"
    pieces = forever(b": still here\n\n" * 8_000) if comments else forever(b"x" * 100_000, b'data: {"a": "')
    head = HEAD[kind]
    if what == "packed":
        head = head.replace(b"connection:", b"content-encoding: gzip\r\nconnection:")
        pieces = iter([gzip.compress(b"data: " + b"x" * 64 * MIB, 1)])
    error, memory = await flooded(protocol, flood := Flood(head, pieces), measured=not comments)
    assert "sent more than 16 MiB without a whole answer or event" in str(error)
    assert flood.requests == 1
    assert flood.sent < MOST_AT_ONCE + 16 * MIB
    assert memory < 3 * MOST_AT_ONCE


@EACH
@each_row("line", [b": still here\n", b"id: 1\r", b"data: 1\r\n"])
async def test_lines_without_an_empty_one_among_them_are_left(protocol: str, line: bytes) -> None:
    error, _ = await flooded(protocol, Flood(HEAD["text/event-stream"], forever(line * 4_000)), measured=False)
    assert "sent more than 20,000 lines as one event" in str(error)


@given(
    st.lists(st.sampled_from([b"data: {}", b": c", b"", b"x" * 9, b"event: data:"]), max_size=30),
    st.sampled_from([b"\n", b"\r", b"\r\n"]),
    st.lists(st.integers(1, 7), min_size=1),
)
def test_what_is_counted_is_the_same_however_the_stream_is_cut(lines: list[bytes], end: bytes, cuts: list[int]) -> None:
    stream = b"".join(line + end for line in lines)
    whole, pieces = AnswerSize(is_stream=True), AnswerSize(is_stream=True)
    whole.add(stream)
    place = 0
    for cut in itertools.cycle(cuts):
        pieces.add(stream[place : place + cut])
        place += cut
        if place >= len(stream):
            break
    assert vars(whole) == vars(pieces)


@EACH
@each_row("kind", ["application/json", "text/html"])
async def test_of_an_error_without_an_end_the_status_and_the_first_words_are_told(protocol: str, kind: str) -> None:
    head = answer(b"", kind, status=400)[0]
    error, memory = await flooded(protocol, flood := Flood(head, forever(b"x" * 100_000, b'{"error": "Too much')))
    assert 'HTTP 400: {"error": "Too muchxxx' in str(error)
    assert error.status == 400
    assert flood.sent < 20 * MIB
    assert memory < 12 * MOST_OF_AN_ERROR


@EACH
async def test_clients_of_ones_own_are_bounded_and_their_other_requests_are_not(protocol: str) -> None:
    http = httpx2.AsyncClient()
    sdk = anthropic.AsyncAnthropic if protocol == "messages" else openai.AsyncOpenAI
    for is_client in (False, True):
        async with Flood(answer(b"", status=400)[0], forever(b"x" * 100_000, most=20 * MIB)) as flood:
            url = flood.url if protocol == "messages" else f"{flood.url}/v1"
            own = {"client": sdk(api_key="k", base_url=url, http_client=http)} if is_client else {"http_client": http}
            with pytest.raises(ModelError, match="HTTP 400: xxx"):
                await made(protocol, flood.url, **own).respond(REQUEST, ignore)
            assert flood.sent < 19 * MIB
    assert len(http.event_hooks["response"]) == 1
    async with Flood(answer(b"", status=400)[0], forever(b"x" * MIB, most=3 * MIB)) as flood:
        assert len((await http.post(flood.url, content=b"{}")).content) == 3 * MIB
    await http.aclose()


@EACH
async def test_a_large_event_within_the_limits_is_read(protocol: str) -> None:
    text = "word " * 400_000
    async with Flood(HEAD["text/event-stream"], iter([whole(protocol, text)])) as flood:
        model = made(protocol, flood.url)
        assert (await model.respond(REQUEST, ignore)).message.text == text
        await model.aclose()


@EACH
@each_row("asked", [True, False])
async def test_a_stream_that_falls_silent_is_left(protocol: str, asked: bool) -> None:
    """After as long as the model says, or the request's own settings."""
    first, piece = delta(protocol, "Hello.")
    async with RawServer(stream(first + piece), stays_open=True) as server:
        model = made(protocol, server.url, **({} if asked else {"silent_seconds": 0.2}))
        request = replace(REQUEST, settings=ModelSettings(timeout_seconds=0.2)) if asked else REQUEST
        with pytest.raises(ModelError, match=r"sent nothing for 0\.2 s"):
            async with asyncio.timeout(60):
                await model.respond(request, ignore)
        await model.aclose()
