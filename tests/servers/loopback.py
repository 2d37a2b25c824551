"""An HTTP server on loopback whose answers a test writes byte by byte."""

from __future__ import annotations

import asyncio
from typing import Self


class LoopbackServer:
    """Listens while it is entered; `serve` gets each connection."""

    url = ""

    def __init__(self) -> None:
        self.closing = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._listening = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._listening.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.closing.set()
        self._listening.close()
        await self._listening.wait_closed()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers what is asked over one connection."""
        raise NotImplementedError


async def request_body(reader: asyncio.StreamReader) -> bytes:
    """What the next request carries."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = next(line for line in head.split("\r\n") if line.startswith("content-length:"))
    return await reader.readexactly(int(length.partition(":")[2]))
