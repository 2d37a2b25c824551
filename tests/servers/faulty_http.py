"""A remote server that goes wrong on purpose, written on bare sockets so that it can break HTTP itself."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import cache
from typing import Any

from tests.servers.hostile_http import response

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = [{"name": "echo", "inputSchema": SCHEMA}, {"name": "trouble", "inputSchema": SCHEMA}]


RESUMED = {
    "resumed": "events-ids",
    "resumed-large": "large-events-text",
    "resumed-other-id": "events-other-id",
    "resumed-other-id-first": "events-other-id-first",
    "resumed-error-null-id": "events-error-null-id",
    "resumed-bad-utf-8": "events-bad-utf-8",
}
"""By mode the response to the GET that resumes the stream of a call; the stream ended before its answer."""

UNANSWERED = {
    ("notifications/cancelled", "cancel-hang"),
    ("notifications/initialized", "initialized-hangs"),
}
"""The notifications, each with its mode, that never get an answer."""


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    message: Any

    @property
    def asked(self) -> str:
        return self.message.get("method", "") if isinstance(self.message, dict) else ""

    @property
    def is_trouble(self) -> bool:
        return self.asked == "tools/call" and self.message["params"]["name"] == "trouble"


Handler = Callable[["FaultyHttp", Seen, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class FaultyHttp:
    """Speaks streamable HTTP (2025-11-25) and does what `mode` says on a call of `trouble`."""

    mode: str
    seen: list[Seen] = field(default_factory=list)
    session: int = 0
    url: str = ""
    _arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until this is so, which only a request that arrives can change.

        Raises:
            TimeoutError: After 30 s.
        """
        async with asyncio.timeout(30), self._arrived:
            await self._arrived.wait_for(is_so)

    def count(self, asked: str) -> int:
        return sum(seen.asked == asked for seen in self.seen)

    @property
    def troubles(self) -> int:
        return sum(seen.is_trouble for seen in self.seen)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while (seen := await read_request(reader)) is not None:
                self.seen.append(seen)
                async with self._arrived:
                    self._arrived.notify_all()
                await self.answer(seen, writer)
                await writer.drain()
                if writer.is_closing():
                    break
        writer.close()

    async def answer(self, seen: Seen, writer: asyncio.StreamWriter) -> None:
        if seen.method == "GET":
            await self.stream(seen, writer)
        elif seen.method == "DELETE":
            respond(writer, 200, b"")
        elif seen.is_trouble and self.mode.startswith("cancel-"):
            await asyncio.sleep(3600)
        elif seen.is_trouble and self.mode in TROUBLES:
            await TROUBLES[self.mode](self, seen, writer)
        elif seen.is_trouble and self.mode in RESUMED:
            writer.write(response("events-primed", seen.message["id"]))
            writer.close()
        elif seen.is_trouble and self.mode == "any":
            writer.write(response(seen.message["params"]["arguments"]["text"], seen.message["id"]))
            await writer.drain()
            writer.close()
        elif seen.asked == "notifications/cancelled" and self.mode == "cancel-reset":
            writer.transport.abort()
        elif (seen.asked, self.mode) in UNANSWERED:
            await asyncio.sleep(3600)
        elif "id" not in seen.message or "method" not in seen.message:
            respond(writer, 202, b"")
        else:
            self.result(seen, writer)

    async def stream(self, seen: Seen, writer: asyncio.StreamWriter) -> None:
        if self.mode == "get-storm":
            # Closed at once, asking to come back at once.
            respond(writer, 200, b"retry: 0\n\n", kind="text/event-stream")
        elif "last-event-id" in seen.headers and self.mode in RESUMED:
            asked = [one.message["id"] for one in self.seen if one.is_trouble]
            writer.write(response(RESUMED[self.mode], asked[-1]))
            writer.close()
        else:
            respond(writer, 405, b"")

    def result(self, seen: Seen, writer: asyncio.StreamWriter) -> None:
        method = seen.asked
        if method == "initialize":
            self.session += 1
            session = "bad\x01id" if self.mode == "session-evil" else f"session-{self.session}"
            result = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "f", "version": "1"},
            }
            respond_json(writer, seen, result, {"Mcp-Session-Id": session})
        elif method == "tools/list":
            respond_json(writer, seen, {"tools": TOOLS})
        elif method == "tools/call":
            respond_json(writer, seen, text(str(seen.message["params"]["arguments"].get("text"))))
        elif method == "ping":
            respond_json(writer, seen, {})
        else:
            body = {
                "jsonrpc": "2.0",
                "id": seen.message["id"],
                "error": {"code": -32601, "message": "Method not found"},
            }
            respond(writer, 200, json.dumps(body).encode())


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


async def read_request(reader: asyncio.StreamReader) -> Seen | None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:]) if name}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Seen(method, path, headers, json.loads(body) if body else {})


def respond(
    writer: asyncio.StreamWriter,
    status: int,
    body: bytes,
    headers: dict[str, str] | None = None,
    *,
    kind: str = "application/json",
    length: int | None = None,
) -> None:
    lines = [f"HTTP/1.1 {status} Reason", f"Content-Length: {len(body) if length is None else length}"]
    lines += [f"Content-Type: {kind}"] if kind else []
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)


def respond_json(writer: asyncio.StreamWriter, seen: Seen, result: Any, headers: dict[str, str] | None = None) -> None:
    respond(writer, 200, envelope(seen, result), headers)


def envelope(seen: Seen, result: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": seen.message["id"], "result": result}).encode()


def event(data: bytes) -> bytes:
    return b"event: message\ndata: " + data + b"\n\n"


async def reset(_: FaultyHttp, __: Seen, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def length_lie(_: FaultyHttp, seen: Seen, writer: asyncio.StreamWriter) -> None:
    respond(writer, 200, envelope(seen, text("short"))[:20], length=5000)
    await writer.drain()
    writer.close()


async def sse_drop(_: FaultyHttp, __: Seen, writer: asyncio.StreamWriter) -> None:
    respond(writer, 200, b": hello\n\n", kind="text/event-stream", length=5000)
    await writer.drain()
    writer.transport.abort()


async def hang(_: FaultyHttp, __: Seen, ___: asyncio.StreamWriter) -> None:
    await asyncio.sleep(600)


async def sse_huge(_: FaultyHttp, seen: Seen, writer: asyncio.StreamWriter) -> None:
    respond(writer, 200, event(envelope(seen, text("x" * 1_500_000))), kind="text/event-stream")


@cache
def bomb() -> bytes:
    return gzip.compress(b" " * 200_000_000, 1)


async def gzip_bomb(_: FaultyHttp, __: Seen, writer: asyncio.StreamWriter) -> None:
    respond(writer, 200, bomb(), {"Content-Encoding": "gzip"})


async def gzip_answer(_: FaultyHttp, seen: Seen, writer: asyncio.StreamWriter) -> None:
    respond(writer, 200, gzip.compress(envelope(seen, text("zipped"))), {"Content-Encoding": "gzip"})


async def sse_bad_json(_: FaultyHttp, __: Seen, writer: asyncio.StreamWriter) -> None:
    respond(writer, 200, event(b'{"jsonrpc": "2.0", "id'), kind="text/event-stream")


async def echo_header(_: FaultyHttp, seen: Seen, writer: asyncio.StreamWriter) -> None:
    respond(writer, 500, f"bad header: {seen.headers.get('authorization')}".encode(), kind="text/plain")


def status(code: int, body: bytes = b"", headers: dict[str, str] | None = None, kind: str = "text/plain") -> Handler:
    async def handle(_: FaultyHttp, __: Seen, writer: asyncio.StreamWriter) -> None:
        respond(writer, code, body, headers, kind=kind)

    return handle


def body(content: bytes, kind: str) -> Handler:
    async def handle(_: FaultyHttp, seen: Seen, writer: asyncio.StreamWriter) -> None:
        respond(writer, 200, content.replace(b"ID", json.dumps(seen.message["id"]).encode()), kind=kind)

    return handle


def once(handler: Handler) -> Handler:
    """Goes wrong the first time only."""

    async def handle(server: FaultyHttp, seen: Seen, writer: asyncio.StreamWriter) -> None:
        if server.troubles == 1:
            await handler(server, seen, writer)
        else:
            respond_json(writer, seen, text("the second time"))

    return handle


async def forget_session(server: FaultyHttp, seen: Seen, writer: asyncio.StreamWriter) -> None:
    if seen.headers.get("mcp-session-id") == "session-1" or server.mode == "session-always-lost":
        respond(writer, 404, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Session not found"}}')
    else:
        respond_json(writer, seen, text("in a new session"))


async def no_valid_session(_: FaultyHttp, seen: Seen, writer: asyncio.StreamWriter) -> None:
    if seen.headers.get("mcp-session-id") == "session-1":
        respond(writer, 400, b"Bad Request: No valid session ID provided")
    else:
        respond_json(writer, seen, text("in a new session"))


TROUBLES: dict[str, Handler] = {
    "reset": reset,
    "reset-once": once(reset),
    "length-lie": length_lie,
    "sse-drop": sse_drop,
    "hang": hang,
    "500": status(500, b"the database\x1b[31m is on fire"),
    "echo-header": echo_header,
    "401": status(401, b"who are you"),
    "403": status(403, b"not you"),
    "429-long": status(429, b"slow down", {"Retry-After": "3600"}),
    "429-once": once(status(429, b"slow down", {"Retry-After": "0"})),
    "503-date": once(status(503, b"later", {"Retry-After": formatdate(usegmt=True)})),
    "503-2098": status(503, b"later", {"Retry-After": "Fri, 24 Jan 2098 00:00:00 GMT"}),
    "503-aeons": status(503, b"later", {"Retry-After": "400000000000"}),
    "session-lost": forget_session,
    "session-always-lost": forget_session,
    "session-invalid": no_valid_session,
    "html": body(b"<html>Please log in</html>", "text/html"),
    "empty": body(b"", "application/json"),
    "bad-json": body(b'{"jsonrpc": "2.0", "id": ID, "result"', "application/json"),
    "no-content-type": body(b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"untyped"}]}}', ""),
    "202": status(202),
    "sse-huge": sse_huge,
    "sse-bad-json": sse_bad_json,
    "gzip-bomb": gzip_bomb,
    "gzip": gzip_answer,
    "redirect-cross": status(307, b"", {"Location": "http://127.0.0.2:9/elsewhere"}),
    "redirect-loop": status(307, b"", {"Location": "/mcp"}),
}


@contextlib.asynccontextmanager
async def faulty_http(mode: str) -> AsyncIterator[FaultyHttp]:
    """The server on a free port of 127.0.0.1."""
    faulty = FaultyHttp(mode)
    open_tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_tasks.add(task)
        try:
            await faulty.handle(reader, writer)
        except asyncio.CancelledError:
            pass  # asyncio's own callback reports a cancelled handler as an error
        finally:
            open_tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    faulty.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    try:
        yield faulty
    finally:
        server.close()
        for task in open_tasks:
            task.cancel()
        await asyncio.gather(*open_tasks, return_exceptions=True)
        await server.wait_closed()


async def main() -> None:
    """In a process of its own, where its work is nobody else's: writes its address and serves until it is ended."""
    async with faulty_http("any") as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
