"""Remote servers: the SDK's streamable HTTP and our SSE stream, over an HTTP transport whose failures are answers.

Under the SDK's client a connection reset cancels whoever waits and kills the session. Here every failure of a request
becomes a JSON-RPC error answer to that request, with what HTTP said in `data`, and the session lives on.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import ssl
import time
import zlib
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import JSONRPCError, JSONRPCResponse, RequestId

from mcpagent.config import ServerConfig
from mcpagent.mcp.redaction import secrets_of_address
from mcpagent.mcp.request_failures import Outcome, failed_request
from mcpagent.mcp.transports.bytes_to_messages import Line, decode, decoded, dumped
from mcpagent.mcp.transports.set_aside import LARGE_BYTES, EventSplitter, SetAside
from mcpagent.text.known_secrets import hide
from mcpagent.text.retry_after import retry_after_seconds
from mcpagent.text.safe_text import safe_line

_BODY_SAMPLE_BYTES = 4096
MAX_ERROR_BYTES = 1024 * 1024
_MAX_UNPACKED_BYTES = 32 * 1024 * 1024
"""No compression is asked for, so what comes compressed may be a bomb."""

_LONGEST_RETRY_WAIT_SECONDS = 30.0
_RETRIES = 2
_STREAM_OPENINGS = 4
_STREAM_WINDOW_SECONDS = 30.0
_STREAM_PLACES = 100
_GREETING = re.compile(rb'"method":"(?:initialize|server/discover)"')
_SESSION_ID = re.compile(r"[\x21-\x7e]{1,256}")


@asynccontextmanager
async def http_streams(config: ServerConfig, *, auth: httpx2.Auth | None = None) -> AsyncIterator[Line]:
    """The messages of one server, by the SDK's streamable HTTP client."""
    aside = SetAside()
    await asyncio.to_thread(certificates)
    transport = AnsweringTransport(network(auth, config), config.max_message_bytes, aside)
    async with (
        client_for(config, transport) as client,
        streamable_http_client(config.url, http_client=client, max_sse_event_size=config.max_message_bytes) as streams,
    ):
        yield aside.all_restored(streams[0]), streams[1].send


def client_for(config: ServerConfig, transport: httpx2.AsyncBaseTransport) -> httpx2.AsyncClient:
    """A client for the requests to one server. What is secret in its address is hidden from every log from now on."""
    hide(*secrets_of_address(config.url))
    return httpx2.AsyncClient(
        transport=transport,
        headers={"Accept-Encoding": "identity", "User-Agent": "mcpagent"} | dict(config.headers),
        timeout=_timeout(config),
    )


def _timeout(config: ServerConfig) -> httpx2.Timeout:
    # Reads have no limit of their own: each call has one, and a stream for notifications may rest for hours.
    return httpx2.Timeout(config.connect_timeout_seconds, read=None, pool=None)


def network(auth: httpx2.Auth | None, config: ServerConfig) -> httpx2.AsyncBaseTransport:
    """The connections to one server, with the requests on them signed in by `auth`."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
    network = httpx2.AsyncHTTPTransport(verify=certificates(), limits=limits)
    if auth is None:
        return network
    return _SignedIn(httpx2.AsyncClient(transport=network, auth=auth, timeout=_timeout(config)))


def certificates() -> ssl.SSLContext:
    """What every connection checks certificates with, read once: it takes 60 ms, so on a loop read it beside it."""
    return _certificates(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _certificates(_file: str | None, _folder: str | None) -> ssl.SSLContext:
    return httpx2.create_ssl_context()  # which reads these two variables


class _SignedIn(httpx2.AsyncBaseTransport):
    """Signs in below the answers, so that a refusal that stays one still becomes an answer."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return await self._client.send(request, stream=True, follow_redirects=False)

    async def aclose(self) -> None:
        await self._client.aclose()


class AnsweringTransport(httpx2.AsyncBaseTransport):
    """Sends through `inner`; a POST with a JSON-RPC request always gets a JSON-RPC answer, of at most `max_bytes`.

    A large one is set `aside`.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, max_bytes: int, aside: SetAside) -> None:
        self._inner = inner
        self._max_bytes = max_bytes
        self._aside = aside
        self._openings: dict[str, deque[float]] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Raises only for what is no request of JSON-RPC."""
        if request.method == "GET":
            return await self._open_stream(request)
        request_id = _request_id(await request.aread()) if request.method == "POST" else None
        if request_id is None:
            return await self._inner.handle_async_request(request)
        return await self._answer(request, request_id)

    async def aclose(self) -> None:
        """Closes the connections below."""
        await self._inner.aclose()

    async def _open_stream(self, request: httpx2.Request) -> httpx2.Response:
        """A GET stream. The SDK re-opens one at the pace the server names, which may be none at all."""
        await self._turn(request.headers.get("last-event-id", ""))
        return await self._inner.handle_async_request(request)

    async def _turn(self, place: str) -> None:
        """Waits until a stream may be opened at this place: so often in a time, unless events moved the place on."""
        opened = self._openings.setdefault(place, deque(maxlen=_STREAM_OPENINGS))
        if len(opened) == _STREAM_OPENINGS:
            await asyncio.sleep(max(0.0, opened[0] + _STREAM_WINDOW_SECONDS - time.monotonic()))
        opened.append(time.monotonic())
        while len(self._openings) > _STREAM_PLACES:
            del self._openings[next(iter(self._openings))]

    async def _answer(self, request: httpx2.Request, request_id: RequestId) -> httpx2.Response:
        for attempt in range(_RETRIES + 1):
            try:
                response = await self._inner.handle_async_request(request)
            except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.UnsupportedProtocol) as error:
                return _failure(request_id, f"cannot be reached: {cause(error)}", outcome="not_sent")
            except httpx2.TransportError as error:
                return _failure(request_id, f"connection lost: {cause(error)}", outcome="unknown")
            except OAuthFlowError as error:
                what = f"needs a sign-in ({safe_line(str(error))})"
                return _failure(request_id, what, outcome="rejected", status=401)
            if response.status_code not in (429, 503):
                break
            wait = retry_after_seconds(response.headers)
            if wait is None or wait > _LONGEST_RETRY_WAIT_SECONDS or attempt == _RETRIES:
                break
            await response.aclose()
            await asyncio.sleep(wait)
        # What answers the greeting is the SDK's own to read.
        aside = None if _GREETING.search(request.content) else self._aside
        return await _as_answer(request, response, request_id, self._max_bytes, aside)


async def _as_answer(
    request: httpx2.Request, response: httpx2.Response, request_id: RequestId, max_bytes: int, aside: SetAside | None
) -> httpx2.Response:
    if response.status_code >= 400:
        return await _http_error(request, response, request_id)
    if not 200 <= response.status_code < 300:
        return response if _says_where_to(response) else await _no_answer(response, request_id)
    if response.status_code in (202, 204, 205):
        return await _no_answer(response, request_id)
    session = response.headers.get("mcp-session-id")
    if session is not None and not _SESSION_ID.fullmatch(session):
        await response.aclose()
        return _failure(request_id, "sent an illegal Mcp-Session-Id header", outcome="unknown")
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "text/event-stream":
        return _replaced(response, _Stream(response, request_id, max_bytes, aside))
    try:
        body = await read_capped(response, max_bytes)
    except httpx2.TransportError as error:
        return _failure(request_id, f"answer cut off: {cause(error)}", outcome="unknown")
    except ValueError as error:
        return _failure(request_id, str(error), outcome="unknown")
    found = await decoded(body.replace(b"\n", b" "))
    answers = [item for item in found if isinstance(item, JSONRPCResponse | JSONRPCError)]
    answer = next((item for item in answers if item.id == request_id), answers[0] if answers else None)
    if answer is None:
        kind = "what is no answer" if kind == "application/json" else kind or "no content type"
        what = f"answered with {kind} instead of JSON-RPC: {sample(body) or 'nothing'}"
        return _failure(request_id, what, outcome="unknown", status=200)
    answer.id = request_id  # whatever it says: there is no other request here
    if aside is not None and len(body) > LARGE_BYTES:
        answer = aside.put(answer)
    return _answered(answer, **({"mcp-session-id": session} if session else {}))


def _says_where_to(response: httpx2.Response) -> bool:
    """Whether it is a redirect that can be judged: the SDK follows one to the same origin and names any other."""
    location = response.headers.get("location", "")
    try:
        return bool(location) and httpx2.URL(location).scheme in ("", "http", "https")
    except (httpx2.InvalidURL, ValueError):
        return False


async def _no_answer(response: httpx2.Response, request_id: RequestId) -> httpx2.Response:
    await response.aclose()
    what = f"answered {_status(response)}, which is no answer"
    return _failure(request_id, what, outcome="unknown", status=response.status_code)


def _status(response: httpx2.Response) -> str:
    return f"HTTP {response.status_code} {response.reason_phrase}".rstrip()


async def _http_error(request: httpx2.Request, response: httpx2.Response, request_id: RequestId) -> httpx2.Response:
    status = response.status_code
    body = b""
    with contextlib.suppress(httpx2.TransportError, ValueError):
        body = await read_capped(response, MAX_ERROR_BYTES)
    has_session = "mcp-session-id" in request.headers
    if has_session and (status == 404 or (status == 400 and b"session" in body.lower())):
        return _failure(request_id, "forgot the session", outcome="rejected", status=status, session_lost=True)
    answer = next((item for item in decode(body.replace(b"\n", b" ")) if isinstance(item, JSONRPCError)), None)
    if answer is not None and answer.error.message:
        # The server's own error: negotiation reads its code and data.
        answer.id = request_id
        return _answered(answer)
    wait = retry_after_seconds(response.headers)
    text = f"answered {_status(response)}{f': {sample(body)}' if body else ''}"
    if wait is not None:
        text += f" (retry after {wait:.0f} s)"
    outcome: Outcome = "rejected" if status in (400, 401, 403, 404, 405, 406, 415, 421, 429, 503) else "unknown"
    return _failure(request_id, text, outcome=outcome, status=status, retry_after=wait)


def _failure(request_id: RequestId, text: str, *, outcome: Outcome, **details: Any) -> httpx2.Response:
    return _answered(failed_request(request_id, text, outcome=outcome, **details))


def _answered(answer: JSONRPCResponse | JSONRPCError, **headers: str) -> httpx2.Response:
    return httpx2.Response(200, headers={"content-type": "application/json"} | headers, content=dumped(answer))


def _request_id(body: bytes) -> RequestId | None:
    try:
        data = json.loads(body)
    except ValueError:
        return None
    if not isinstance(data, dict) or "method" not in data:
        return None
    request_id = data.get("id")
    return request_id if isinstance(request_id, int | str) else None


def cause(error: Exception) -> str:
    """An exception of HTTP as the end of a sentence."""
    text = safe_line(str(error), 200)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def sample(body: bytes) -> str:
    """The beginning of a body, printable."""
    return safe_line(body[:_BODY_SAMPLE_BYTES].decode("utf-8", "replace"), 200)


class _Stream(httpx2.AsyncByteStream):
    """The event stream that answers a request, decompressed within bounds, its messages repaired and large answers set
    `aside`; if the connection breaks it just ends."""

    def __init__(
        self, response: httpx2.Response, request_id: RequestId, max_bytes: int, aside: SetAside | None
    ) -> None:
        self._response = response
        self._request_id = request_id
        self._max_bytes = max_bytes
        self._aside = aside

    async def __aiter__(self) -> AsyncIterator[bytes]:
        events = EventSplitter(self._max_bytes)
        is_first = True
        with contextlib.suppress(httpx2.TransportError, ValueError):
            async for chunk in _plain_chunks(self._response):
                for event in events.feed(chunk):
                    whole = event.removeprefix(b"\xef\xbb\xbf") if is_first else event
                    is_first = False
                    yield await self._readable(whole)
        yield events.rest()

    async def _readable(self, event: bytes) -> bytes:
        if self._aside is None:
            return event
        if len(event) > LARGE_BYTES:
            return await asyncio.to_thread(self._aside.readable, event, self._request_id)
        return self._aside.readable(event, self._request_id)

    async def aclose(self) -> None:
        await self._response.aclose()


def _replaced(response: httpx2.Response, stream: _Stream) -> httpx2.Response:
    """The response with another body; headers about the old body's bytes go."""
    dropped = ("content-encoding", "content-length", "transfer-encoding")
    headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in dropped]
    return httpx2.Response(response.status_code, headers=headers, stream=stream, extensions=response.extensions)


async def read_capped(response: httpx2.Response, limit: int) -> bytes:
    """The whole body. Raises `ValueError` if it is larger than `limit` bytes or not decodable."""
    body = bytearray()
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        limit = min(limit, _MAX_UNPACKED_BYTES)
    try:
        async for chunk in _plain_chunks(response):
            body += chunk
            if len(body) > limit:
                raise ValueError(f"answer is larger than {limit // 2**20} MiB")
    finally:
        await response.aclose()
    return bytes(body)


async def _plain_chunks(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The body's bytes; gzip and deflate are undone a bounded piece at a time, so a bomb never unfolds in memory."""
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
        raise ValueError(f"answer is encoded as {safe_line(encoding, 20)}, which was not asked for")
    decompressor = zlib.decompressobj(zlib.MAX_WBITS | (16 if "gzip" in encoding else 0))
    async for chunk in stream:
        data = chunk
        while data:
            await asyncio.sleep(0)  # a piece of 1 MiB at a time: a bomb must not hold the event loop
            try:
                yield decompressor.decompress(data, 1 << 20)
            except zlib.error:
                raise ValueError(f"answer is not valid {encoding}") from None
            data = decompressor.unconsumed_tail
