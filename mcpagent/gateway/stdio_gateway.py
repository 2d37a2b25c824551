"""The gateway over standard input and output, for one client that starts it."""

from __future__ import annotations

from mcp.server.stdio import stdio_server

from mcpagent.config import ServersConfig
from mcpagent.gateway.client_requests import Gateway
from mcpagent.gateway.gateway_options import GatewayOptions
from mcpagent.gateway.gateway_server import GatewayServer
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.values.events import Emit


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
    async with stdio_server() as (read, write), served.gateway:
        greeting = served.server.create_initialization_options()
        await served.server.run(read, write, greeting)
