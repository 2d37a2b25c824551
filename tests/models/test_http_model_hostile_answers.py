"""Answers no provider should give, over real HTTP: each becomes one clear line, or is repaired."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from mcpagent.errors import CredentialsError, McpAgentError, ModelError
from mcpagent.models import AnthropicModel, ModelRequest, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.base import ModelResponse
from mcpagent.models.http_model import HttpModel
from mcpagent.values.events import Event, TextDelta, ignore
from mcpagent.values.messages import Usage, user_message
from tests.servers.loopback import LoopbackServer, request_body
from tests.tables import each_row
from tests.wire.provider import (
    Waits,
    anthropic_stream,
    call_item,
    chat_stream,
    message_item,
    responses_stream,
    text_block,
    tool_block,
)
from tests.wire.scene import SEARCH

REQUEST = ModelRequest("", (user_message("hello"),), (SEARCH,))
PROTOCOLS = ("messages", "responses", "chat")
EACH = each_row("protocol", PROTOCOLS)


class RawServer(LoopbackServer):
    """Answers request after request with the given bytes, the last one again and again, and closes."""

    def __init__(self, *answers: Sequence[bytes], stays_open: bool = False) -> None:
        super().__init__()
        self._answers = answers
        self._stays_open = stays_open
        self.requests = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await request_body(reader)
            self.requests += 1
            for piece in self._answers[min(self.requests, len(self._answers)) - 1]:
                writer.write(piece)
                await writer.drain()
            if self._stays_open:
                await asyncio.wait_for(self.closing.wait(), 60)
        except ConnectionError:
            pass  # the client has read enough
        finally:
            writer.close()


def answer(body: bytes, kind: str = "application/json", status: int = 200, headers: str = "") -> list[bytes]:
    """An answer without a length, which ends where the connection does."""
    return [f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\nconnection: close\r\n{headers}\r\n".encode(), body]


def stream(*pieces: bytes) -> list[bytes]:
    return [*answer(b"", "text/event-stream"), *pieces]


def made(protocol: str, url: str, **more: Any) -> HttpModel:
    kinds: dict[str, Any] = {"messages": AnthropicModel, "responses": OpenAIResponsesModel, "chat": OpenAIChatModel}
    base = url if protocol == "messages" else f"{url}/v1"
    model: HttpModel = kinds[protocol]("m", api_key="k", base_url=base, **{"max_retries": 0, "sleep": Waits(), **more})
    return model


async def respond(protocol: str, *answers: Sequence[bytes], **more: Any) -> ModelResponse:
    async with RawServer(*answers) as server:
        model = made(protocol, server.url, **more)
        try:
            async with asyncio.timeout(60):
                return await model.respond(REQUEST, ignore)
        finally:
            await model.aclose()


async def failure(protocol: str, *answers: Sequence[bytes], **more: Any) -> McpAgentError:
    with pytest.raises(McpAgentError) as caught:
        await respond(protocol, *answers, **more)
    line = str(caught.value)
    assert line.isprintable(), line
    assert len(line) < 700, len(line)
    return caught.value


def whole(protocol: str, text: str = "Grüße 🙂 fine") -> bytes:
    """A good stream."""
    streams = {
        "messages": lambda: anthropic_stream(text_block(text)),
        "responses": lambda: responses_stream(message_item(text)),
        "chat": lambda: chat_stream({"content": text}),
    }
    return streams[protocol]().content


def calling(protocol: str, *calls: tuple[str, str]) -> bytes:
    """A good stream with calls of search_tools: id and arguments."""
    streams = {
        "messages": lambda: anthropic_stream(*(tool_block(i, "search_tools", a) for i, a in calls), stop="tool_use"),
        "responses": lambda: responses_stream(*(call_item(i, "search_tools", a) for i, a in calls)),
        "chat": lambda: chat_stream(
            *(
                {"tool_calls": [{"index": n, "id": i, "function": {"name": "search_tools", "arguments": a}}]}
                for n, (i, a) in enumerate(calls)
            ),
            finish="tool_calls",
        ),
    }
    return streams[protocol]().content


@EACH
@each_row("kind", ["application/json", "text/html"])
async def test_a_huge_error_body_is_one_line(protocol: str, kind: str) -> None:
    body = b'{"error": {"message": "' + b"x" * 4_000_000 + b'"}}' if kind.endswith("json") else b"x" * 4_000_000
    error = await failure(protocol, answer(body, kind, 500))
    assert isinstance(error, ModelError)
    assert (error.status, error.retryable) == (500, True)


@EACH
async def test_an_error_page_of_a_proxy_is_told_without_its_markup(protocol: str) -> None:
    page = (
        b"<!DOCTYPE html><html><head><style>p{color:red}</style><title>502 Bad Gateway</title></head><body>...</body>"
    )
    error = await failure(protocol, answer(page, "text/html", 502))
    assert "502 Bad Gateway" in str(error)
    assert "<" not in str(error)


@EACH
async def test_a_web_page_instead_of_an_answer_names_the_address(protocol: str) -> None:
    error = await failure(protocol, answer(b"<html>Log in</html>", "text/html"))
    assert "a web page" in str(error)
    assert "check the address" in str(error)


@EACH
async def test_control_characters_in_an_error_reach_no_terminal(protocol: str) -> None:
    body = json.dumps({"error": {"message": "\x1b[31mred\x1b[0m\r\nsecond\u202eline", "type": "\x1b]0;t\x07"}})
    error = await failure(protocol, answer(body.encode(), status=400))
    assert "second" in str(error)


@EACH
@each_row("kind", ["application/json", "text/event-stream", "text/plain", ""])
async def test_an_empty_200(protocol: str, kind: str) -> None:
    error = await failure(protocol, answer(b"", kind))
    assert isinstance(error, ModelError)


@EACH
@each_row("body", [b"null", b"[]", b"7", b'"x"', b"{}", b"\xff\xfe", b"{", b"[" * 100_000])
async def test_a_200_that_is_no_answer(protocol: str, body: bytes) -> None:
    error = await failure(protocol, answer(body))
    assert "answered what is not its protocol" in str(error)


@EACH
@each_row("streamed", [False, True])
async def test_an_error_inside_a_200(protocol: str, streamed: bool) -> None:
    inner = {"type": "overloaded_error", "message": "Too busy.", "code": "server_error"}
    body = json.dumps({"type": "error", "error": inner}).encode()
    event = b"event: error\n" if protocol != "chat" else b""
    error = await failure(protocol, stream(event + b"data: " + body + b"\n\n") if streamed else answer(body))
    assert "Too busy." in str(error)


@EACH
async def test_a_stream_that_stops_in_the_middle_of_a_call_is_no_answer(protocol: str) -> None:
    good = calling(protocol, ("call_1", '{"query": "delete"}'))
    cut = good[: good.index(b"que") + 2]
    error = await failure(protocol, stream(cut))
    assert isinstance(error, ModelError)
    assert error.retryable
    again = await respond(protocol, stream(cut), stream(good), max_retries=1)
    assert [call.arguments for call in again.message.tool_calls] == [{"query": "delete"}]


@EACH
async def test_a_character_cut_between_two_packets_is_whole_and_one_cut_at_the_end_is_no_answer(protocol: str) -> None:
    good = whole(protocol).replace(b"\\ud83d\\ude42", "🙂".encode()).replace(b"\\u00fc", "ü".encode())
    place = good.index("🙂".encode()) + 2
    assert (await respond(protocol, stream(good[:place], good[place:]))).message.text == "Grüße 🙂 fine"
    await failure(protocol, stream(good[:place]))


@EACH
async def test_a_stream_byte_by_byte_with_other_line_ends(protocol: str) -> None:
    good = whole(protocol).replace(b"\n", b"\r\n")
    pieces = [good[place : place + 1] for place in range(len(good))]
    assert (await respond(protocol, stream(*pieces))).message.text == "Grüße 🙂 fine"


@EACH
async def test_a_flood_of_comments_is_no_answer_and_hides_none(protocol: str) -> None:
    flood = b": still here\n\n" * 20_000
    assert (await respond(protocol, stream(flood, whole(protocol)))).message.text == "Grüße 🙂 fine"
    await failure(protocol, stream(flood))


@EACH
async def test_a_stream_of_comments_without_end_is_left_when_its_time_is_up(protocol: str) -> None:
    async with RawServer(stream(*[b": still here\n\n"] * 10), stays_open=True) as server:
        model = made(protocol, server.url)
        model.target = replace(model.target, total_seconds=0.5)
        with pytest.raises(ModelError, match=r"was not done after 0\.5 s"):
            async with asyncio.timeout(60):
                await model.respond(REQUEST, ignore)
        await model.aclose()


@EACH
async def test_the_answer_counts_although_the_connection_stays_open(protocol: str) -> None:
    """Some servers say that they are done and do not close."""
    async with RawServer(stream(whole(protocol)), stays_open=True) as server:
        model = made(protocol, server.url, silent_seconds=0.5)
        async with asyncio.timeout(60):
            assert (await model.respond(REQUEST, ignore)).message.text == "Grüße 🙂 fine"
        await model.aclose()


@EACH
async def test_calls_with_the_same_id_are_told_apart(protocol: str) -> None:
    body = calling(protocol, ("call_1", '{"query": "a"}'), ("call_1", '{"query": "b"}'))
    calls = (await respond(protocol, stream(body))).message.tool_calls
    assert [call.arguments for call in calls] == [{"query": "a"}, {"query": "b"}]
    assert len({call.id for call in calls}) == 2


@EACH
@each_row("arguments", ['{"query": "a"', "[1]", "null", '{"query": NaN}', '{"a": 1} {"b": 2}', "<x>"])
async def test_a_call_with_broken_arguments_is_kept_and_never_run(protocol: str, arguments: str) -> None:
    response = await respond(protocol, stream(calling(protocol, ("call_1", arguments))))
    [call] = response.message.tool_calls
    assert (call.arguments, call.malformed) == ({}, arguments)


@EACH
@each_row("wrong", ["many", None, -5, 1.5, [], {}, True])
async def test_counters_that_are_no_numbers_count_nothing(protocol: str, wrong: Any) -> None:
    names = ("input_tokens", "output_tokens", "prompt_tokens", "completion_tokens", "cache_read_input_tokens")
    usage = {**dict.fromkeys(names, wrong), "input_tokens_details": wrong, "prompt_tokens_details": wrong}
    streams = {
        "messages": lambda: anthropic_stream(text_block("Hello."), usage=usage),
        "responses": lambda: responses_stream(message_item("Hello."), usage=usage),
        "chat": lambda: chat_stream({"content": "Hello."}, usage=usage),
    }
    response = await respond(protocol, stream(streams[protocol]().content))
    counted = replace(response.usage, output_tokens=0)  # Anthropic's first event has a number of its own
    assert (response.message.text, counted) == ("Hello.", Usage(requests=1))


@EACH
async def test_a_stream_that_breaks_after_words_were_shown_is_not_begun_again(protocol: str) -> None:
    good = whole(protocol, "One two three four")
    end = {"messages": b"message_stop", "responses": b"response.completed", "chat": b'"stop"'}[protocol]
    events: list[Event] = []
    async with RawServer(stream(good[: good.index(end)])) as server:
        model = made(protocol, server.url, max_retries=3)
        with pytest.raises(ModelError):
            await model.respond(REQUEST, events.append)
        await model.aclose()
    assert any(isinstance(event, TextDelta) for event in events)
    assert server.requests == 1


@EACH
async def test_the_key_follows_no_redirect(protocol: str) -> None:
    async with RawServer(stream(whole(protocol))) as other:
        error = await failure(protocol, answer(b"", status=307, headers=f"location: {other.url}/v1\r\n"))
    assert isinstance(error, ModelError)
    assert "HTTP 307" in str(error)
    assert other.requests == 0


@EACH
async def test_a_refused_key_is_one_line(protocol: str) -> None:
    error = await failure(protocol, answer(b"<html>no</html>", "text/html", 401))
    assert isinstance(error, CredentialsError)
