"""A server as one would write it with the SDK: `everyday.py stdio`, or in this process over HTTP or SSE."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import sys
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Literal

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import CallToolResult, ResourceLink, TextContent, ToolAnnotations

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def build() -> MCPServer:
    server = MCPServer(
        "everyday",
        title="Everyday Things",
        instructions="Ask for the weather first.",
        version="1.0",
        log_level="CRITICAL",
    )
    add_tools(server)
    add_slow_tools(server)

    @server.prompt(description="Ask for a review")
    def review(code: str, style: str = "kind") -> str:
        return f"Review this in a {style} way: {code}"

    @server.resource("notes://today", name="today", description="Today's notes", mime_type="text/plain")
    def today() -> str:
        return "buy milk"

    @server.resource("notes://{day}", name="of a day", mime_type="text/plain")
    def of_day(day: str) -> str:
        return f"notes of {day}"

    return server


def add_tools(server: MCPServer) -> None:
    @server.tool(title="Add numbers", annotations=ToolAnnotations(read_only_hint=True))
    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    @server.tool(structured_output=False)
    def picture() -> Image:
        """A picture of one pixel."""
        return Image(data=PNG, format="png")

    @server.tool(structured_output=False)
    def fail(reason: str) -> str:
        """Fails with a reason."""
        raise ValueError(reason)

    @server.tool()
    def weather(city: str) -> dict[str, Any]:
        """The weather of a city."""
        return {"city": city, "degrees": 21}

    @server.tool(structured_output=False)
    def link() -> CallToolResult:
        """A link to a file."""
        block = ResourceLink(type="resource_link", uri="file:///notes.txt", name="notes")
        return CallToolResult(content=[block, TextContent(type="text", text="see it")])


def add_slow_tools(server: MCPServer) -> None:
    @server.tool(structured_output=False)
    async def steps(count: int, context: Context) -> str:
        """Works in steps and reports each."""
        for step in range(count):
            await asyncio.sleep(0.05)
            await context.report_progress(step + 1, count, f"step {step + 1}")
        return f"{count} steps"

    @server.tool(structured_output=False)
    async def wait(seconds: float) -> str:
        """Waits."""
        await asyncio.sleep(seconds)
        return "waited"


def prompt_server(config: uvicorn.Config) -> tuple[uvicorn.Server, asyncio.Event]:
    """A server that ends at once when the event is set; uvicorn looks ten times a second whether it is to end."""
    import uvicorn

    stopping = asyncio.Event()

    class PromptServer(uvicorn.Server):
        async def main_loop(self) -> None:
            await self.on_tick(0)
            await stopping.wait()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            for listening in self.servers:
                listening.close()
            for bound in sockets or []:
                bound.close()
            for connection in list(self.server_state.connections):
                connection.shutdown()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    while self.server_state.connections or self.server_state.tasks:  # noqa: ASYNC110
                        await asyncio.sleep(0.005)
            for unfinished in self.server_state.tasks:
                unfinished.cancel()
            await self.lifespan.shutdown()

    return PromptServer(config), stopping


@contextlib.asynccontextmanager
async def serving(build_app: Callable[[str], Starlette]) -> AsyncIterator[str]:
    """An application on a free port of 127.0.0.1, built for its address (without a path), which it gives."""
    import uvicorn

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        app = build_app(address)
        config = uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=1, ws="none")
        server, stopping = prompt_server(config)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            if task.done():
                task.result()
            await asyncio.sleep(0.005)
        try:
            yield address
        finally:
            stopping.set()
            await task


@contextlib.asynccontextmanager
async def everyday(kind: Literal["http", "sse"], **options: Any) -> AsyncIterator[str]:
    """The everyday server over HTTP or SSE; gives the URL for a client."""
    server = build()
    app = server.streamable_http_app(**options) if kind == "http" else server.sse_app(**options)
    async with serving(lambda _: app) as address:
        yield f"{address}/{'mcp' if kind == 'http' else 'sse'}"


if __name__ == "__main__":
    build().run(sys.argv[1])  # type: ignore[call-overload]
