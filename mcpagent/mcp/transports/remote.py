"""Remote servers: the SDK's streamable HTTP and mcpagent's SSE stream, over an HTTP transport that turns failures into
answers.

With the SDK's own client, a connection reset would cancel the waiting callers and end the session. Here, every failure
of a request becomes a JSON-RPC error answer to that request, with the HTTP error in `data`, and the session continues.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import re
import ssl
import time
import zlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any

import httpx2
from mcp.client.auth import OAuthFlowError
from mcp_types import JSONRPCError, JSONRPCResponse, RequestId
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpagent.config import ServerConfig
from mcpagent.history.intake.json_steps import Bytes
from mcpagent.mcp.auth.authority import CheckedNetwork
from mcpagent.mcp.outcomes import MAY_BE_SENT_AGAIN, End, outcome_of, whose_answer
from mcpagent.mcp.request_failures import failed_request
from mcpagent.mcp.sdk import SessionMessage, streamable_http_client
from mcpagent.mcp.transports.background_posts import BackgroundPosts
from mcpagent.mcp.transports.bypassed_answers import (
    LARGE_BYTES,
    BypassedAnswers,
    EventSplitter,
    StreamAnswers,
)
from mcpagent.mcp.transports.bytes_to_messages import (
    ByteObserver,
    Line,
    decode,
    decoded,
    dumped,
    unheard,
)
from mcpagent.mcp.transports.redirects import (
    KEEPING_METHOD,
    MOST_REDIRECTS,
    is_within_origin,
    redirect_target,
    sent_within_origin,
)
from mcpagent.utilities.text.retry_after import retry_after_seconds
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import revealed

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BODY_SAMPLE_BYTES = 4096
MAX_ERROR_BYTES = 1024 * 1024
_MAX_UNPACKED_BYTES = 32 * 1024 * 1024
"""Maximum size of a compressed response after decompression. The client requests no compression, so one may be a
decompression bomb.
"""

_LONGEST_RETRY_WAIT_SECONDS = 30.0
_WAITING_STEP_SECONDS = 0.2
_RETRIES = 2
_STREAM_OPENINGS = 4
_STREAM_WINDOW_SECONDS = 30.0
_STREAM_PLACES = 100
_GREETINGS = frozenset({"initialize", "server/discover"})
_GREETED = b'"notifications/initialized"'
_LONGEST_NAMED_WAIT_SECONDS = 24 * 3600.0
_SESSION_ID = re.compile(r"[\x21-\x7e]{1,256}")


@asynccontextmanager
async def http_streams(
    config: ServerConfig,
    warn: Callable[[str], None],
    *,
    auth: httpx2.Auth | None = None,
    heard: ByteObserver = unheard,
) -> AsyncIterator[Line]:
    """Open the messages of one server with the SDK's streamable HTTP client.

    For `heard` and `warn`, see `AnsweringTransport`.
    """
    aside = BypassedAnswers()
    await asyncio.to_thread(certificates)
    transport = AnsweringTransport(
        network(auth, config),
        config.max_message_bytes,
        aside,
        heard,
        warn,
        patience=config.connect_timeout_seconds / 2,
    )
    async with (
        client_for(config, transport) as client,
        streamable_http_client(
            config.address,
            http_client=client,
            max_sse_event_size=config.max_message_bytes,
        ) as streams,
    ):

        async def send(item: SessionMessage) -> None:
            dumped(
                item.message
            )  # otherwise the SDK would end the session if a message cannot be sent
            await streams[1].send(item)

        yield aside.all_restored(streams[0]), send


def client_for(
    config: ServerConfig, transport: httpx2.AsyncBaseTransport
) -> httpx2.AsyncClient:
    """Return a client for the requests to one server."""
    return httpx2.AsyncClient(
        transport=transport,
        headers={"Accept-Encoding": "identity", "User-Agent": "mcpagent"}
        | {name: revealed(text) for name, text in config.headers.items()},
        timeout=_timeout(config),
        max_redirects=MOST_REDIRECTS,
    )


def _timeout(config: ServerConfig) -> httpx2.Timeout:
    # Reads have no timeout here: each call has one, and a stream for notifications may be idle for hours.
    return httpx2.Timeout(config.connect_timeout_seconds, read=None, pool=None)


def network(
    auth: httpx2.Auth | None, config: ServerConfig
) -> httpx2.AsyncBaseTransport:
    """Return the HTTP transport to one server, with requests signed in by `auth`."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
    network = httpx2.AsyncHTTPTransport(verify=certificates(), limits=limits)
    if auth is None:
        return network
    checked = CheckedNetwork(config, network)
    return _SignedIn(
        httpx2.AsyncClient(transport=checked, auth=auth, timeout=_timeout(config))
    )


def certificates() -> ssl.SSLContext:
    """Return the TLS context, which is created once. That takes 60 ms, so call it in a thread."""
    return _certificates(
        os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    )


@cache
def _certificates(_file: str | None, _folder: str | None) -> ssl.SSLContext:
    return httpx2.create_ssl_context()  # the default context reads these two variables


class SignInFailedError(httpx2.TransportError):
    """Raised if a sign-in raised an unexpected exception, before or after the request was sent."""


class _SignedIn(httpx2.AsyncBaseTransport):
    """Signs requests in below the answering transport, so that a final refusal still becomes an answer."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return await self._client.send(request, stream=True, follow_redirects=False)
        except (httpx2.TransportError, OAuthFlowError):
            raise
        except (
            Exception
        ) as error:  # in the SDK, an exception of a sign-in would end all calls
            raise SignInFailedError(
                f"cannot be signed in to: {cause(error)}"
            ) from error

    async def aclose(self) -> None:
        await self._client.aclose()


class AnsweringTransport(httpx2.AsyncBaseTransport):
    """Sends through `inner`; a POST with a JSON-RPC request always gets a JSON-RPC answer of at most `max_bytes`.

    `aside` stores large answers. `heard` is called for each part of an answer. `warn` receives a text if the server
    does not respond to `notifications/initialized` within `patience` seconds; the session continues.
    """

    def __init__(
        self,
        inner: httpx2.AsyncBaseTransport,
        max_bytes: int,
        aside: BypassedAnswers,
        heard: ByteObserver,
        warn: Callable[[str], None],
        patience: float,
    ) -> None:
        self._inner = inner
        self._heard = heard
        self._warn = warn
        self._patience = patience
        self._max_bytes = max_bytes
        self._aside = aside
        self._wants_sign_in = ""
        self._openings: dict[str, deque[float]] = {}
        self._one_way = BackgroundPosts(partial(sent_within_origin, inner))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request. Raises errors only for requests that are not JSON-RPC."""
        if request.method == "GET":
            return await self._open_stream(request)
        if request.method != "POST":
            return await self._inner.handle_async_request(request)
        body = await request.aread()
        asked = _Asked.of(request, body)
        if asked is not None:
            return await self._answer(request, asked)
        if _GREETED in body:
            await self._end_greeting(request)
        else:
            await self._one_way.post(request)
        return httpx2.Response(202, content=b"")

    async def _end_greeting(self, request: httpx2.Request) -> None:
        """Post `notifications/initialized`, and wait a limited time: a server may require it before anything else."""
        if not await self._one_way.post(request, self._patience):
            self._warn(
                f"did not answer notifications/initialized within {self._patience:g} s"
            )

    async def aclose(self) -> None:
        """Close the inner transports."""
        await self._one_way.aclose()
        await self._inner.aclose()

    async def _open_stream(self, request: httpx2.Request) -> httpx2.Response:
        """Open a GET stream, at a limited rate.

        The SDK opens a stream again after the delay that the server sets, which may be zero. A stream that resumes the
        answer to a request is checked like the answer itself.
        """
        await self._turn(request.headers.get("last-event-id", ""))
        response = await self._inner.handle_async_request(request)
        asked = _ASKED.get()
        if asked is None or response.status_code != 200 or not _is_events(response):
            return response
        return self._streamed(response, asked)

    def _streamed(self, response: httpx2.Response, asked: _Asked) -> httpx2.Response:
        stream = _Stream(
            response, asked.id, self._max_bytes, self._aside_for(asked), self._heard
        )
        return _replaced(response, stream)

    def _aside_for(self, asked: _Asked) -> BypassedAnswers | None:
        """Return the store for large answers; None if the SDK itself must read the answer, as for `initialize`."""
        if asked.method in _GREETINGS:
            return None
        return self._aside

    async def _turn(self, place: str) -> None:
        """Wait until another stream may be opened at this position: the rate is limited unless events arrived."""
        opened = self._openings.setdefault(place, deque(maxlen=_STREAM_OPENINGS))
        if len(opened) == _STREAM_OPENINGS:
            await asyncio.sleep(
                max(0.0, opened[0] + _STREAM_WINDOW_SECONDS - time.monotonic())
            )
        opened.append(time.monotonic())
        while len(self._openings) > _STREAM_PLACES:
            del self._openings[next(iter(self._openings))]

    async def _answer(self, request: httpx2.Request, asked: _Asked) -> httpx2.Response:
        _ASKED.set(asked)
        if (
            asked.method == "initialize" and self._wants_sign_in
        ):  # another way to begin the session does not make it a different server
            return _failure(asked.end(status=401), self._wants_sign_in)
        for turn in itertools.count(1):
            try:
                response = await sent_within_origin(self._inner, request)
            except (
                httpx2.ConnectError,
                httpx2.ConnectTimeout,
                httpx2.UnsupportedProtocol,
            ) as error:
                return _failure(
                    asked.end(is_sent=False), f"cannot be reached: {cause(error)}"
                )
            except httpx2.TransportError as error:
                return _failure(asked.end(), lost_text(error))
            except OAuthFlowError as error:
                why = f"needs a sign-in ({safe_line(str(error))})"
                if asked.method == "server/discover":
                    self._wants_sign_in = why
                else:
                    self._wants_sign_in = ""
                return _failure(asked.end(status=401), why)
            self._heard(is_answer=True, request_id=asked.id)
            if response.status_code < 400:
                return await self._as_answer(response, asked)
            heard = partial(self._heard, is_answer=True, request_id=asked.id)
            end = await _ended(response, asked, heard)
            if turn > _RETRIES or not await _waited(end, asked, heard):
                return _http_error(response, end)
        raise AssertionError

    async def _as_answer(
        self, response: httpx2.Response, asked: _Asked
    ) -> httpx2.Response:
        status = response.status_code
        if not 200 <= status < 300 or status in (202, 204, 205):
            await response.aclose()
            return _failure(asked.end(status=status), no_answer(response, asked.url))
        session = response.headers.get("mcp-session-id")
        if session is not None and not _SESSION_ID.fullmatch(session):
            await response.aclose()
            return _failure(asked.end(), "sent an illegal Mcp-Session-Id header")
        if _is_events(response):
            return self._streamed(response, asked)
        kind = _kind_of(response)
        try:
            body = await read_capped(
                response,
                self._max_bytes,
                partial(self._heard, is_answer=True, request_id=asked.id),
            )
        except httpx2.TransportError as error:
            return _failure(asked.end(), f"answer cut off: {cause(error)}")
        except ValueError as error:
            return _failure(asked.end(), str(error))
        size, head = len(body), sample(body)
        found = await decoded(body if size > LARGE_BYTES else body.replace(b"\n", b" "))
        del body
        answers = [
            item for item in found if isinstance(item, JSONRPCResponse | JSONRPCError)
        ]
        answer = _answer_to(asked, answers)
        if answer is None and answers:
            foreign = safe_line(str(answers[0].id), 60)
            return _failure(
                asked.end(status=200),
                f"sent no answer: its body answers request {foreign}, not {asked.id}",
            )
        if answer is None:
            if kind == "application/json":
                kind = "what is no answer"
            else:
                kind = kind or "no content type"
            what = f"answered with {kind} instead of JSON-RPC: {head or 'nothing'}"
            return _failure(asked.end(status=200), what)
        answer.id = asked.id
        aside = self._aside_for(asked)
        if aside is not None and size > LARGE_BYTES:
            answer = aside.put(answer)
        return _answered(answer, **({"mcp-session-id": session} if session else {}))


async def _waited(end: End, asked: _Asked, heard: Callable[[], None]) -> bool:
    """Wait as long as the server demands, which does not count as silence; return whether it did and a repetition may
    follow.
    """
    seconds = None
    if end.status in (429, 503):
        seconds = retry_after_seconds(end.headers)
    may_be_sent = (
        outcome_of(end)[0] in MAY_BE_SENT_AGAIN or asked.method != "tools/call"
    )
    if seconds is None or seconds > _LONGEST_RETRY_WAIT_SECONDS or not may_be_sent:
        return False
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        await asyncio.sleep(min(left, _WAITING_STEP_SECONDS))
        heard()
    return True


def _is_events(response: httpx2.Response) -> bool:
    return _kind_of(response) == "text/event-stream"


def _kind_of(response: httpx2.Response) -> str:
    kind = response.headers.get("content-type", "")
    return str(kind.partition(";")[0].strip().lower())


@dataclass(frozen=True, slots=True)
class _Asked:
    """The JSON-RPC request in a POST: its ID and method, its URL, its session ID, and whether it uses the protocol of
    2026-07-28.
    """

    id: RequestId
    method: str
    url: httpx2.URL
    session: str
    is_modern: bool

    @classmethod
    def of(cls, request: httpx2.Request, body: bytes) -> _Asked | None:
        """Return the JSON-RPC request in a POST; None for a notification or an answer."""
        try:
            data = json.loads(body)
        except ValueError:
            return None
        request_id = None
        if isinstance(data, dict) and "method" in data:
            request_id = data.get("id")
        if not isinstance(request_id, int | str):
            return None
        version = request.headers.get("mcp-protocol-version", "")
        session = request.headers.get("mcp-session-id", "")
        return cls(
            request_id,
            str(data["method"]),
            request.url,
            session,
            version in MODERN_PROTOCOL_VERSIONS,
        )

    def end(self, **how: Any) -> End:
        """Return the end of this request, for `outcome_of`."""
        return End(
            "http",
            request_id=self.id,
            session=self.session,
            is_modern=self.is_modern,
            **how,
        )


_ASKED: ContextVar[_Asked | None] = ContextVar("mcp_asked", default=None)
"""The request whose answer this task receives; the SDK resumes its stream in the same task."""


def _answer_to(
    asked: _Asked, answers: Sequence[JSONRPCResponse | JSONRPCError]
) -> JSONRPCResponse | JSONRPCError | None:
    """Return the answer with the ID of the request, else an error whose ID is that of no request; None if there is
    neither.
    """
    for answer in answers:
        if whose_answer(answer.id, asked.id) == "own":
            return answer
    for answer in answers:
        if (
            isinstance(answer, JSONRPCError)
            and whose_answer(answer.id, asked.id) == "nobody's"
        ):
            return answer
    return None


def no_answer(response: httpx2.Response, url: httpx2.URL) -> str:
    """Return the text about a status that is neither an error nor an answer, as the end of a sentence."""
    target = redirect_target(response, url)
    if target is None or target.scheme not in ("http", "https"):
        return f"answered {_status(response)}, which is no answer"
    shown = safe_line(
        str(target.copy_with(userinfo=b"", query=None, fragment=None)), 200
    )
    if response.status_code in KEEPING_METHOD and is_within_origin(url, target):
        return f"redirects more than {MOST_REDIRECTS} times, last to {shown}; use the URL that it is to end at"
    if (url.scheme, target.scheme) == ("https", "http"):
        why = "that would leave https; a proxy in front of it may not pass on that it was asked by https"
    else:
        why = "use that URL if it is the server that is meant"
    return f"answered {_status(response)}: Redirect to {shown} not followed; {why}"


def _status(response: httpx2.Response) -> str:
    return f"HTTP {response.status_code} {response.reason_phrase}".rstrip()


async def _ended(
    response: httpx2.Response, asked: _Asked, heard: Callable[[], None]
) -> End:
    """Return the end of a request with an HTTP error; its body is read within limits."""
    body = await error_body(response, heard)
    found = []
    if b'"jsonrpc"' in body:
        found = decode(body.replace(b"\n", b" "))
    answers = [
        item for item in found if isinstance(item, JSONRPCResponse | JSONRPCError)
    ]
    own = [item for item in answers if whose_answer(item.id, asked.id) == "own"]
    results = [item for item in own if isinstance(item, JSONRPCResponse)]
    errors = [
        item
        for item in answers
        if isinstance(item, JSONRPCError) and item.error.message
    ]
    answer = next(iter([*results, *errors, *answers]), None)
    return asked.end(
        status=response.status_code, headers=response.headers, body=body, answer=answer
    )


async def error_body(
    response: httpx2.Response, heard: Callable[[], None] | None = None
) -> bytes:
    """Return the body of an error. If it cannot be read, return the reason, because the body may have said anything."""
    try:
        return bytes(await read_capped(response, MAX_ERROR_BYTES, heard))
    except httpx2.TransportError as error:
        return f"(answer cut off: {cause(error)})".encode()
    except ValueError as error:
        return f"({error})".encode()


def _http_error(response: httpx2.Response, end: End) -> httpx2.Response:
    outcome, remedy = outcome_of(end)
    if isinstance(end.answer, JSONRPCError) and outcome == "refused" and not remedy:
        # The server's own error, because version negotiation needs its code and data.
        return _answered(
            JSONRPCError(jsonrpc="2.0", id=end.request_id, error=end.answer.error)
        )
    if outcome == "unread" and remedy == "session":
        return _failure(end, "forgot the session")
    return _failure(end, http_error_text(_status(response), end))


def http_error_text(status: str, end: End) -> str:
    """Return the text about an HTTP error, as the end of a sentence."""
    text = f"answered {status}{f': {sample(end.body)}' if end.body else ''}"
    wait = retry_after_seconds(end.headers)
    if wait is None:
        return text
    if wait <= _LONGEST_NAMED_WAIT_SECONDS:
        return f"{text} (retry after {wait:.0f} s)"
    try:
        until = (datetime.now(UTC) + timedelta(seconds=wait)).strftime("%Y-%m-%d")
    except OverflowError:
        until = "the year 10000"
    return f"{text} (it wants no request before {until}, which nobody waits for)"


def _failure(end: End, text: str) -> httpx2.Response:
    outcome, remedy = outcome_of(end)
    details = {"status": end.status, "remedy": remedy}
    assert end.request_id is not None
    return _answered(failed_request(end.request_id, text, outcome=outcome, **details))


def _answered(
    answer: JSONRPCResponse | JSONRPCError, **headers: str
) -> httpx2.Response:
    return httpx2.Response(
        200,
        headers={"content-type": "application/json"} | headers,
        content=dumped(answer),
    )


def lost_text(error: httpx2.TransportError) -> str:
    """Return the text about a request that may have been sent, as the end of a sentence."""
    if isinstance(error, SignInFailedError):
        return str(error)
    return f"connection lost: {cause(error)}"


def cause(error: Exception) -> str:
    """Return the text about an HTTP exception, as the end of a sentence."""
    text = safe_line(str(error), 200)
    if text:
        return f"{type(error).__name__}: {text}"
    return type(error).__name__


def sample(body: Bytes) -> str:
    """Return the beginning of a body as printable text."""
    return safe_line(body[:_BODY_SAMPLE_BYTES].decode("utf-8", "replace"), 200)


class _Stream(httpx2.AsyncByteStream):
    """The event stream that answers a request, decompressed within limits, with repaired messages.

    Large answers go to `aside`. If the connection breaks, the stream ends without an error.
    """

    def __init__(
        self,
        response: httpx2.Response,
        request_id: RequestId,
        max_bytes: int,
        aside: BypassedAnswers | None,
        heard: ByteObserver,
    ) -> None:
        self._heard = heard
        self._response = response
        self._request_id = request_id
        self._max_bytes = max_bytes
        self._aside = aside
        self._answers = StreamAnswers()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        events = EventSplitter(self._max_bytes)
        is_first = True
        with contextlib.suppress(httpx2.TransportError, ValueError):
            async for chunk in _plain_chunks(self._response):
                self._heard(
                    is_answer=not is_comment(chunk), request_id=self._request_id
                )
                for event in events.feed(chunk):
                    if is_first and event.startswith(_BYTE_ORDER_MARK):
                        event = event[len(_BYTE_ORDER_MARK) :]
                    is_first = False
                    yield await self._readable(event)
        yield events.rest()
        if self._answers.foreign and not self._answers.is_answered:
            yield b"\n\ndata: " + dumped(self._no_answer()) + b"\n\n"

    def _no_answer(self) -> JSONRPCError:
        text = f"sent no answer: its stream answers request {safe_line(self._answers.foreign, 60)}"
        return failed_request(
            self._request_id, f"{text}, not {self._request_id}", outcome="unknown"
        )

    async def _readable(self, event: Bytes) -> bytes:
        if self._aside is None:
            return bytes(event)
        if len(event) > LARGE_BYTES:
            return await asyncio.to_thread(
                self._aside.readable, event, self._request_id, self._answers
            )
        return self._aside.readable(event, self._request_id, self._answers)

    async def aclose(self) -> None:
        await self._response.aclose()


def is_comment(chunk: bytes) -> bool:
    """Return whether a part of an event stream has only comments, which some servers send as keep-alives."""
    return all(line[:1] in (b":", b"") for line in chunk.splitlines())


def _replaced(response: httpx2.Response, stream: _Stream) -> httpx2.Response:
    """Return the response with another body, without headers that describe the bytes of the old one."""
    dropped = ("content-encoding", "content-length", "transfer-encoding")
    headers = [
        (name, value)
        for name, value in response.headers.multi_items()
        if name.lower() not in dropped
    ]
    return httpx2.Response(
        response.status_code,
        headers=headers,
        stream=stream,
        extensions=response.extensions,
    )


async def read_capped(
    response: httpx2.Response, limit: int, heard: Callable[[], None] | None = None
) -> bytearray:
    """Return the whole body. Raises `ValueError` if it is larger than `limit` bytes, or cannot be decoded."""
    body = bytearray()
    if response.headers.get("content-encoding", "identity").strip().lower() not in (
        "",
        "identity",
    ):
        limit = min(limit, _MAX_UNPACKED_BYTES)
    try:
        async for chunk in _plain_chunks(response):
            body += chunk
            if heard is not None:
                heard()
            if len(body) > limit:
                raise ValueError(f"answer is larger than {limit // 2**20} MiB")
    finally:
        await response.aclose()
    return (
        body  # not converted to bytes: copying a large body would block the event loop
    )


async def _plain_chunks(response: httpx2.Response) -> AsyncIterator[bytes]:
    """Yield the bytes of the body; gzip and deflate are decoded in pieces, so that a decompression bomb cannot fill
    memory.
    """
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if response.is_stream_consumed:
        yield response.content
        return
    stream = response.stream
    assert isinstance(stream, httpx2.AsyncByteStream)
    if encoding in ("", "identity"):
        async for chunk in stream:
            yield chunk
        return
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise ValueError(
            f"answer is encoded as {safe_line(encoding, 20)}, which was not asked for"
        )
    decompressor = zlib.decompressobj(
        zlib.MAX_WBITS | (16 if "gzip" in encoding else 0)
    )
    async for chunk in stream:
        data = chunk
        while data:
            await asyncio.sleep(
                0
            )  # in pieces of 1 MiB, so that a decompression bomb does not block the event loop
            try:
                yield decompressor.decompress(data, 1 << 20)
            except zlib.error:
                raise ValueError(f"answer is not valid {encoding}") from None
            data = decompressor.unconsumed_tail
    if not decompressor.eof:
        raise ValueError(f"answer is cut off: its {encoding} data has no end")
