"""A server that runs what it is asked, counts it, and then ends the request as the call itself says.

`booking(kind)` serves on a port of 127.0.0.1: "http" (2025-11-25), "modern" (2026-07-28) or "sse"; as a program it
speaks stdio, in the era that it is told, and appends a line to a file for each call that it runs, or serves if it is
told to.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

Kind: TypeAlias = Literal["http", "modern", "sse"]

PAUSE_SECONDS = 0.1
"""Between the pieces of an answer."""

PROMISED = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOLS = {"tools": [{"name": "book", "inputSchema": {"type": "object"}, "outputSchema": PROMISED}]}
MODERN_FIELDS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def usual_answer(message: dict[str, Any], *, is_modern: bool) -> dict[str, Any]:
    """The answer to all but a call."""
    method, more = message["method"], MODERN_FIELDS if is_modern else {}
    capabilities: dict[str, Any] = {"capabilities": {"tools": {}}}
    results: dict[str, Any] = {"ping": {}, "tools/list": TOOLS | more}
    if is_modern:
        results["server/discover"] = capabilities | more | {"supportedVersions": ["2026-07-28"]}
    else:
        info = {"name": "b", "version": "1"}
        results["initialize"] = capabilities | {"protocolVersion": "2025-11-25", "serverInfo": info}
    if method in results:
        return {"jsonrpc": "2.0", "id": message["id"], "result": results[method]}
    return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "Method not found"}}


def body_of(message: dict[str, Any]) -> str:
    """What a call wants to be answered with: `THIS` stands for its id, `FILL` for so many characters."""
    wanted = message["params"]["arguments"]
    return str(wanted["body"]).replace("THIS", json.dumps(message["id"])).replace("FILL", "x" * wanted.get("fill", 0))


@dataclass
class Booking:
    """What was run, by the key that each call has."""

    kind: Kind
    url: str = ""
    runs: dict[str, int] = field(default_factory=dict)
    streams: dict[str, asyncio.StreamWriter] = field(default_factory=dict)

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
        if "hang" in wanted:
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


async def drip(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    for piece in pieces_of(message):
        writer.write(piece.encode())
        await writer.drain()
        await asyncio.sleep(PAUSE_SECONDS)


def pieces_of(message: dict[str, Any]) -> Iterator[str]:
    """The body in so many pieces; of a negative number of them without an end."""
    body, count = body_of(message), message["params"]["arguments"]["pieces"]
    if count < 0:
        yield from itertools.repeat(body)
    size = -(-len(body) // count)
    yield from (body[start : start + size] for start in range(0, len(body), size))


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


def main(era: str, log: Path) -> None:
    """`endings.py ERA LOG`: a call's body is written as it is; without one the process ends."""
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "tools/call":
            with log.open("a") as file:
                file.write(message["params"]["arguments"]["key"] + "\n")
            if "hang" in message["params"]["arguments"]:
                continue
            if "line" in message["params"]["arguments"]:
                line, left = message["params"]["arguments"]["line"], message["params"]["arguments"]["lines"]
                at_once = max(1, 1_000_000 // len(line))
                while left > 0:
                    sys.stdout.write(line * min(at_once, left))
                    left -= at_once
            if "pieces" in message["params"]["arguments"]:
                for piece in pieces_of(message):
                    sys.stdout.write(piece)
                    sys.stdout.flush()
                    time.sleep(message["params"]["arguments"].get("pause", PAUSE_SECONDS))
                continue
            body = body_of(message)
            sys.stdout.write(body + "\n" if body else "")
            sys.stdout.flush()
            if not body:
                return
        elif "id" in message and "method" in message:
            print(json.dumps(usual_answer(message, is_modern=era == "modern")), flush=True)


async def serve(kind: Kind) -> None:
    """In a process of its own: writes its address and serves until it is ended."""
    async with booking(kind) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        asyncio.run(serve(cast("Kind", sys.argv[2])))
    main(sys.argv[1], Path(sys.argv[2]))
