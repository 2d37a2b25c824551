"""A remote server that runs what it is asked, counts it, and then ends the request as the call itself says.

`booking(kind)` serves on a port of 127.0.0.1: "http" (2025-11-25), "modern" (2026-07-28) or "sse". As a program,
`booking.py KIND` serves until it is ended. `endings.py` is the same over stdio.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from tests.servers.endings import PAUSE_SECONDS, body_of, pieces_of, usual_answer

Kind: TypeAlias = Literal["http", "modern", "sse"]


@dataclass
class Booking:
    """What was run, by the key that each call has."""

    kind: Kind
    url: str = ""
    runs: dict[str, int] = field(default_factory=dict)
    streams: dict[str, asyncio.StreamWriter] = field(default_factory=dict)
    crossing: list[tuple[dict[str, Any], asyncio.StreamWriter]] = field(default_factory=list)
    crossed: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, path, _ = head[0].split(" ", 2)
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
            if method == "POST":
                message = json.loads(await reader.readexactly(int(headers["content-length"])))
                await self.post(message, path, writer)
            elif method == "GET" and self.kind == "sse":
                await self.stream(reader, writer)
            else:
                respond(writer, 405, "")
            await writer.drain()
        writer.close()

    async def stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = f"/post/{len(self.streams)}"
        self.streams[path] = writer
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: endpoint\n")
        writer.write(f"data: {path}\n\n".encode())
        await reader.read()

    async def post(self, message: dict[str, Any], path: str, writer: asyncio.StreamWriter) -> None:
        wanted = message["params"].get("arguments", {}) if message.get("method") == "tools/call" else {}
        if "key" in wanted:
            self.runs[wanted["key"]] = self.runs.get(wanted["key"], 0) + 1
        if "cross" in wanted:
            await self.cross(message, writer)
        elif "hang" in wanted:
            await asyncio.sleep(60)
        elif "pieces" in wanted and self.kind == "sse" and "status" not in wanted:
            respond(writer, 202, "")
            writer.close()
            await drip(self.streams[path], message)
        elif "pieces" in wanted:
            head = f"HTTP/1.1 {wanted.get('status', 200)} Reason\r\nContent-Type: {wanted['type']}"
            writer.write(f"{head}\r\nConnection: close\r\n\r\n".encode())
            await drip(writer, message)
        elif wanted:
            respond(writer, wanted["status"], body_of(message), wanted["headers"])
        elif "id" not in message or "method" not in message:
            respond(writer, 202, "")
        elif self.kind == "sse":
            respond(writer, 202, "")
            data = json.dumps(usual_answer(message, is_modern=False))
            self.streams[path].write(f"event: message\ndata: {data}\n\n".encode())
        else:
            answer = usual_answer(message, is_modern=self.kind == "modern")
            session = {"Mcp-Session-Id": "s-1"} if message["method"] == "initialize" else {}
            respond(writer, 200, json.dumps(answer), {"Content-Type": "application/json"} | session)

    async def cross(self, message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        """Answer so many calls at once, each in the response to another one; `type` is that of the responses."""
        wanted = message["params"]["arguments"]
        self.crossing.append((message, writer))
        if len(self.crossing) == wanted["cross"]:
            others = [other for other, _ in self.crossing]
            for other, (_, answered) in zip([*others[1:], others[0]], self.crossing, strict=True):
                text = {"type": "text", "text": f"of {other['params']['arguments']['key']}"}
                body = json.dumps({"jsonrpc": "2.0", "id": other["id"], "result": {"content": [text]}})
                if wanted["type"] == "text/event-stream":
                    body = f"event: message\ndata: {body}\n\n"
                respond(answered, 200, body, {"Content-Type": wanted["type"]})
            self.crossed.set()
        await self.crossed.wait()


async def drip(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    for piece in pieces_of(message):
        writer.write(piece.encode())
        await writer.drain()
        await asyncio.sleep(PAUSE_SECONDS)


def respond(writer: asyncio.StreamWriter, status: int, body: str, headers: dict[str, str] | None = None) -> None:
    data = body.encode()
    named = {"Content-Length": str(len(data)), "Connection": "close"} | (headers or {})
    lines = [f"HTTP/1.1 {status} Reason", *(f"{name}: {value}" for name, value in named.items())]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data)


@contextlib.asynccontextmanager
async def booking(kind: Kind) -> AsyncIterator[Booking]:
    served = Booking(kind)
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.suppress(asyncio.CancelledError):
            await served.handle(reader, writer)
        tasks.discard(task)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    try:
        yield served
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


async def serve(kind: Kind) -> None:
    """In a process of its own: writes its address and serves until it is ended."""
    async with booking(kind) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(cast("Kind", sys.argv[1])))
