"""The gateway over streamable HTTP, for many clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mcpagent.config import ServersConfig
from mcpagent.gateway.gateway_options import GatewayOptions
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.values.events import Emit


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """Where a gateway listens, and who may use it."""

    host: str = "127.0.0.1"
    port: int = 0
    token: str = ""
    origins: tuple[str, ...] = ()
    issuer: str = ""
    resource: str = ""


async def serve_http(
    config: ServersConfig,
    servers: ServerOptions,
    options: GatewayOptions,
    access: HttpAccess,
    *,
    emit: Emit,
    started: Callable[[str], None],
) -> None:
    """Serve until cancelled."""
    raise NotImplementedError
