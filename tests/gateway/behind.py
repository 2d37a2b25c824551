"""A gateway in this process, in front of servers over loopback HTTP, and clients of both protocol versions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp import Client
from mcpagent.config import ServerConfig, ServersConfig
from mcpagent.gateway.client_requests import Gateway
from mcpagent.gateway.gateway_options import GatewayOptions
from mcpagent.gateway.gateway_server import GatewayServer
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.values.events import Event
from mcpagent.values.tools import ALL_CALLERS, ToolCaller
from tests.servers.everyday import everyday

SECONDS = 20.0


@dataclass
class Scene:
    """A running gateway; `events` are what it reported to its user."""

    server: GatewayServer
    events: list[Event] = field(default_factory=list)

    @property
    def gateway(self) -> Gateway:
        return self.server.gateway

    @contextlib.asynccontextmanager
    async def client(self, mode: str = "auto", **options: Any) -> AsyncIterator[Client]:
        """A client of 2026 ("auto") or of before ("legacy")."""
        async with Client(self.server.server, mode=mode, **options) as client:
            yield client


@contextlib.asynccontextmanager
async def gateway(*servers: ServerConfig, stored: ServerOptions | None = None, **options: Any) -> AsyncIterator[Scene]:
    """A gateway in front of these servers."""
    events: list[Event] = []
    config, given = ServersConfig(tuple(servers)), GatewayOptions(**options)

    def made(server: GatewayServer) -> Gateway:
        changes: dict[str, Any] = {"on_list_change": server.list_changed, "on_update": server.updated}
        return Gateway(config, stored or ServerOptions(), given, emit=events.append, **changes)

    served = GatewayServer(made)
    async with served.gateway:
        yield Scene(served, events)


@contextlib.asynccontextmanager
async def everyday_gateway(
    tmp_path: Path, allowed_callers: tuple[ToolCaller, ...] = ALL_CALLERS, **options: Any
) -> AsyncIterator[Scene]:
    """A gateway in front of the everyday server, whose lists it knows from the start."""
    async with everyday("http") as url:
        stored = ServerOptions.stored(folders(tmp_path))
        config = ServerConfig("every", url=url, allowed_callers=allowed_callers)
        async with gateway(config, stored=stored, **options) as scene:
            await scene.gateway._common.settled()
            yield scene


def folders(path: Path) -> dict[str, str]:
    """An environment with the user's folders in `path`."""
    return {
        "HOME": str(path),
        "XDG_STATE_HOME": str(path / "state"),
        "XDG_CACHE_HOME": str(path / "cache"),
        "XDG_CONFIG_HOME": str(path / "config"),
        "XDG_DATA_HOME": str(path / "data"),
    }


async def until(holds: Callable[[], object]) -> None:
    """Return when this holds, which the event loop has to bring about."""
    async with asyncio.timeout(SECONDS):
        while not holds():  # noqa: ASYNC110 - what it waits for tells nobody
            await asyncio.sleep(0)


def text_of(result: Any) -> str:
    """The texts of a result."""
    return "\n".join(getattr(block, "text", "") for block in result.content)
