"""The gateway over standard input and output, for one client that starts it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

import anyio
from mcp.server.stdio import stdio_server
from mcp_types import jsonrpc_message_adapter

from mcpagent.config import ServersConfig
from mcpagent.gateway.client_requests import Gateway
from mcpagent.gateway.gateway_options import GatewayOptions
from mcpagent.gateway.gateway_server import GatewayServer
from mcpagent.mcp.sdk import SessionMessage
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.values.events import Emit

if TYPE_CHECKING:
    from types import TracebackType

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""A longer message of the client is answered as invalid."""


async def serve_stdio(
    config: ServersConfig,
    servers: ServerOptions,
    options: GatewayOptions,
    *,
    emit: Emit,
) -> None:
    """Serve the client on standard input until it closes that; then stop all servers."""

    def gateway_of(server: GatewayServer) -> Gateway:
        return Gateway(
            config,
            servers,
            options,
            emit=emit,
            on_list_change=server.list_changed,
            on_update=server.updated,
        )

    served = GatewayServer(gateway_of)
    async with _streams() as (read, write), served.gateway:
        greeting = served.server.create_initialization_options()
        await served.server.run(read, write, greeting)


def _streams() -> Any:
    """Return the streams of the client's messages: without threads if standard input and output are pipes.

    The SDK's streams read and write in a thread, which takes a third of the time of a call.
    """
    # One socket for both directions, or output together with errors, needs the threads.
    is_shared = os.path.sameopenfile(0, 1) or os.path.sameopenfile(1, 2)
    if sys.platform == "win32" or is_shared or not (_is_pipe(0) and _is_pipe(1)):
        return stdio_server()
    return _piped()


def _is_pipe(handle: int) -> bool:
    try:
        mode = os.fstat(handle).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


@asynccontextmanager
async def _piped() -> AsyncIterator[tuple[_ClientInput, _ClientOutput]]:
    """Read and write the pipes; meanwhile, stray output of this process goes to standard error."""
    loop = asyncio.get_running_loop()
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(_moved(0, os.open(os.devnull, os.O_RDONLY), "rb"))
        target = stack.enter_context(_moved(1, os.dup(2), "wb"))
        reader = asyncio.StreamReader(MAX_MESSAGE_BYTES)
        reading, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), source
        )
        writing, flow = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), target
        )
        writing.set_write_buffer_limits(0)
        writer = asyncio.StreamWriter(writing, flow, None, loop)
        try:
            yield _ClientInput(reader), _ClientOutput(writer)
        finally:
            reading.close()
            if not writing.is_closing():
                writing.abort()
            await asyncio.sleep(0)  # lets the pipes' own callbacks of close() run


@contextlib.contextmanager
def _moved(handle: int, substitute: int, mode: str) -> Iterator[Any]:
    """Return a file for what `handle` was; inside the block, `handle` is the substitute."""
    file, kept = os.fdopen(os.dup(handle), mode, buffering=0), os.dup(handle)
    os.dup2(substitute, handle)
    os.close(substitute)
    try:
        with file:
            yield file
    finally:
        os.set_blocking(kept, True)
        os.dup2(kept, handle)
        os.close(kept)


class _ClientStream:
    """The parts of the SDK's stream protocols that need no pipe."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Do nothing: `_piped` closes the pipes."""


class _ClientInput(_ClientStream):
    """The client's messages (mcp.shared._stream_protocols.ReadStream)."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message, or the error of a line that is none. Raises `anyio.EndOfStream`."""
        try:
            line = await self._reader.readline()
            text = line.decode("utf-8", "replace")
            message = jsonrpc_message_adapter.validate_json(text, by_name=False)
        except OSError:
            raise anyio.EndOfStream from None
        except (ValueError, RecursionError) as error:
            if self._reader.at_eof():
                raise anyio.EndOfStream from None
            return error
        return SessionMessage(message)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class _ClientOutput(_ClientStream):
    """The messages for the client (mcp.shared._stream_protocols.WriteStream)."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message. Raises `anyio.BrokenResourceError` if the client is gone."""
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        self._writer.write(f"{text}\n".encode())
        try:
            await self._writer.drain()
        except OSError:
            raise anyio.BrokenResourceError from None
