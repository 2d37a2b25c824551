"""The older HTTP+SSE transport (protocol 2024-11-05): answers arrive on one long GET, requests are sent by POST."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urljoin, urlsplit

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectSendStream
from mcp.client.auth import OAuthFlowError
from mcp_types import JSONRPCMessage, JSONRPCRequest

from mcpagent.config import ServerConfig
from mcpagent.errors import ServerError
from mcpagent.mcp.outcomes import End, outcome_of
from mcpagent.mcp.request_failures import failed_request
from mcpagent.mcp.sdk import SessionMessage
from mcpagent.mcp.transports.bytes_to_messages import (
    ByteObserver,
    Decoded,
    InvalidOutput,
    Line,
    decoded,
    dumped,
    unheard,
)
from mcpagent.mcp.transports.redirects import MOST_REDIRECTS, sent_within_origin
from mcpagent.mcp.transports.remote import (
    cause,
    certificates,
    client_for,
    error_body,
    http_error_text,
    is_comment,
    lost_text,
    network,
    no_answer,
    sample,
)
from mcpagent.utilities.text.safe_text import safe_line


@asynccontextmanager
async def sse_streams(
    config: ServerConfig,
    *,
    auth: httpx2.Auth | None = None,
    heard: ByteObserver = unheard,
) -> AsyncIterator[Line]:
    """Open the messages of one HTTP+SSE server.

    They arrive on one long GET; the client sends by POST to the endpoint that the server names. Raises `ServerError`
    (phase "connect") if the stream cannot be opened.
    """
    incoming_send, incoming = anyio.create_memory_object_stream[
        SessionMessage | Exception
    ](64)
    tasks: set[asyncio.Task[None]] = set()

    def start(work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=f"mcp-sse-{config.name}")
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def post(body: bytes) -> httpx2.Response:
        request = client.build_request(
            "POST", endpoint, content=body, headers={"Content-Type": "application/json"}
        )
        return await sent_within_origin(wire, request)

    async def send(item: SessionMessage) -> None:
        posting = _post_sse(
            partial(post, dumped(item.message)), item.message, incoming_send, heard
        )
        if (
            isinstance(item.message, JSONRPCRequest)
            and item.message.method != "initialize"
        ):
            start(posting)
        else:
            await posting

    await asyncio.to_thread(certificates)
    wire = network(auth, config)
    async with incoming, incoming_send, client_for(config, wire) as client:
        response = await _open_sse(client, config)
        try:
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _Listened(response.stream, heard)
            events = httpx2.EventSource(
                response, max_event_size=config.max_message_bytes
            ).__aiter__()
            endpoint = await _endpoint(events, str(response.url), config)
            start(_read_sse(events, incoming_send))
            yield incoming, send
        finally:
            for task in list(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await response.aclose()


def _sse_error(config: ServerConfig, what: str) -> ServerError:
    return ServerError(
        f'server "{config.name}" {what}', server=config.name, phase="connect"
    )


async def _open_sse(
    client: httpx2.AsyncClient, config: ServerConfig
) -> httpx2.Response:
    request = client.build_request(
        "GET", config.address, headers={"Accept": "text/event-stream"}
    )
    try:
        for followed in range(MOST_REDIRECTS + 1):
            response = await client.send(request, stream=True)
            next_request = response.next_request
            is_near = next_request is not None and _origin(
                str(next_request.url)
            ) == _origin(config.address)
            if next_request is None or not is_near or followed == MOST_REDIRECTS:
                break
            await response.aclose()
            request = next_request
        if response.status_code != 200:
            body = await error_body(response)
            if response.next_request is not None:
                raise _sse_error(config, no_answer(response, request.url))
            raise _sse_error(
                config,
                f"answered HTTP {response.status_code}{f': {sample(body)}' if body else ''}",
            )
    except OAuthFlowError as error:
        raise _sse_error(config, f"needs a sign-in ({safe_line(str(error))})") from None
    except (httpx2.TransportError, httpx2.InvalidURL) as error:
        raise _sse_error(config, f"cannot be reached: {cause(error)}") from None
    kind = response.headers.get("content-type", "")
    if not kind.lower().startswith("text/event-stream"):
        await response.aclose()
        raise _sse_error(
            config,
            f"answered with {safe_line(kind, 60) or 'no content type'} instead of an event stream",
        )
    return response


async def _endpoint(
    events: AsyncIterator[httpx2.ServerSentEvent], url: str, config: ServerConfig
) -> str:
    try:
        async for event in events:
            if event.event == "endpoint":
                endpoint = urljoin(url, event.data)
                if _origin(endpoint) != _origin(url):
                    what = f"names an endpoint on another origin: {safe_line(endpoint, 80)}"
                    raise _sse_error(config, what)
                return endpoint
    except (httpx2.TransportError, httpx2.SSEError) as error:
        raise _sse_error(config, f"closed its event stream: {cause(error)}") from None
    raise _sse_error(config, "closed its event stream before it named an endpoint")


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return (
        parts.scheme,
        parts.hostname,
        parts.port or {"http": 80, "https": 443}.get(parts.scheme),
    )


class _Listened(httpx2.AsyncByteStream):
    """The long stream, which reports each received part.

    The request that an event answers is unknown before the event is complete.
    """

    def __init__(self, stream: httpx2.AsyncByteStream, heard: ByteObserver) -> None:
        self._stream = stream
        self._heard = heard

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._heard(is_answer=not is_comment(chunk))
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _read_sse(
    events: AsyncIterator[httpx2.ServerSentEvent],
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    async with incoming:
        with contextlib.suppress(
            httpx2.TransportError,
            httpx2.SSEError,
            anyio.BrokenResourceError,
            anyio.ClosedResourceError,
        ):
            async for event in events:
                if event.event != "message" or not event.data:
                    continue
                found = deque(await decoded(event.data.encode("utf-8", "replace")))
                del event  # otherwise a large event or message would stay in memory until the next one arrives
                while found:
                    await incoming.send(_item(found.popleft()))


def _item(message: Decoded) -> SessionMessage | Exception:
    if isinstance(message, InvalidOutput):
        return ValueError(message.text)
    return SessionMessage(message)


async def _post_sse(
    post: Callable[[], Awaitable[httpx2.Response]],
    message: JSONRPCMessage,
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    heard: ByteObserver,
) -> None:
    request_id = None
    if isinstance(message, JSONRPCRequest):
        request_id = message.id
    told = partial(heard, is_answer=request_id is not None, request_id=request_id)
    is_sent, status, headers, body = True, None, httpx2.Headers(), b""
    try:
        response = await post()
        status, headers = response.status_code, response.headers
        if status < 300:
            await response.aclose()
            return
        body, what = await error_body(response, told), ""
    except (
        httpx2.ConnectError,
        httpx2.ConnectTimeout,
        httpx2.UnsupportedProtocol,
    ) as error:
        what, is_sent = f"cannot be reached: {cause(error)}", False
    except httpx2.TransportError as error:
        what = lost_text(error)
    except OAuthFlowError as error:
        what, status = f"needs a sign-in ({safe_line(str(error))})", 401
    if isinstance(message, JSONRPCRequest):
        end = End(
            "sse",
            is_sent,
            status=status,
            headers=headers,
            body=body,
            request_id=message.id,
        )
        outcome, remedy = outcome_of(end)
        what = what or http_error_text(f"HTTP {status}", end)
        failed = failed_request(
            message.id, what, outcome=outcome, status=status, remedy=remedy
        )
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await incoming.send(SessionMessage(failed))
