"""The gateway over streamable HTTP, for many clients."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import uvicorn
from mcp.server.auth.middleware.bearer_auth import (
    BearerAuthBackend,
    RequireAuthMiddleware,
)
from mcp.server.auth.provider import TokenVerifier
from mcp.server.auth.routes import (
    build_resource_metadata_url,
    create_protected_resource_routes,
)
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from mcpagent.config import ServersConfig
from mcpagent.errors import ConfigError
from mcpagent.gateway.access_tokens import SharedToken, SignedTokens
from mcpagent.gateway.client_requests import Gateway
from mcpagent.gateway.gateway_options import GatewayOptions
from mcpagent.gateway.gateway_server import GatewayServer
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.values.events import Emit

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

PATH = "/mcp"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_END_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """The address of a gateway, and its access rules.

    With an `issuer`, clients need a token of that authorization server for `resource`, the gateway's own address; else
    they need `token`. Requests of web pages are refused unless their origin is in `origins`. `names` are further names
    of the gateway, for `Host` headers.
    """

    host: str = "127.0.0.1"
    port: int = 0
    token: str = ""
    names: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    issuer: str = ""
    resource: str = ""

    def __post_init__(self) -> None:
        if bool(self.issuer) != bool(self.resource):
            raise ConfigError(
                "the gateway: issuer and resource belong together; write --set issuer=URL --set resource=URL"
            )
        if not self.issuer and not self.token:
            raise ConfigError(
                "the gateway: clients over HTTP need a token; set MCPAGENT_GATEWAY_TOKEN"
            )

    def verifier(self) -> TokenVerifier:
        """Return the verifier of clients' tokens."""
        if self.issuer:
            return SignedTokens(self.issuer, self.resource)
        return SharedToken(self.token)

    def own_names(self) -> frozenset[str]:
        """Return the host names and addresses of the gateway, in lower case."""
        own = {self.host, *self.names}
        if self.host in LOOPBACK or self.is_everywhere:
            own |= {*LOOPBACK}
        if self.is_everywhere:
            machine = socket.gethostname()
            own |= {machine, f"{machine}.local"}  # the second by multicast DNS
        if self.resource:
            own.add(str(AnyHttpUrl(self.resource).host))
        return frozenset(name.strip("[]").lower() for name in own)

    @property
    def is_everywhere(self) -> bool:
        """True if the gateway listens on all addresses of its machine."""
        address = _address(self.host)
        return address is not None and address.is_unspecified

    def is_own(self, host: str) -> bool:
        """Return whether a `Host` header names the gateway.

        One that listens everywhere is also meant by an address, which need not be its machine's: clients may come
        through a container's port. In a DNS rebinding, a browser sends the name of the hostile page, never an address.
        """
        try:
            parts = urlsplit(f"//{host}")
            name = parts.hostname or ""
            is_whole = parts.netloc == host and "@" not in host
            parts.port  # noqa: B018 - raises for one that is no number
        except ValueError:
            return False
        if not is_whole or not name:
            return False
        return name in self.own_names() or (
            self.is_everywhere and _address(name) is not None
        )

    def shown_host(self) -> str:
        """Return the host for the gateway's own address; if it listens everywhere, that of its machine."""
        shown = self.host
        if self.is_everywhere:
            shown = "127.0.0.1" if "." in self.host else "::1"
        if ":" in shown:
            return f"[{shown}]"
        return shown


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


class OwnRequests:
    """Refuses requests with another `Host` than the gateway's, and those of unknown web pages, at every path."""

    def __init__(self, app: ASGIApp, access: HttpAccess) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            origin = headers.get("origin")
            if not self._access.is_own(headers.get("host", "")):
                app = PlainTextResponse("Invalid Host header", 421)
            elif origin is not None and origin not in self._access.origins:
                app = PlainTextResponse("Invalid Origin header", 403)
        await app(scope, receive, send)


def http_app(served: GatewayServer, access: HttpAccess) -> Starlette:
    """Return the application: `/mcp`, `/metrics`, and the metadata of the protected resource."""
    checked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    manager = StreamableHTTPSessionManager(served.server, security_settings=checked)
    metadata_url, routes = _metadata(access)

    async def metrics(_: Request) -> Response:
        return PlainTextResponse(served.gateway.log.counts.metrics())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with served.gateway, manager.run():
            yield

    metrics_app = Starlette(routes=[Route("/metrics", metrics)])
    for path, app in ((PATH, manager.asgi_app), ("/metrics", metrics_app)):
        guarded = RequireAuthMiddleware(app, [], metadata_url)
        routes.append(Route(path, endpoint=guarded))
    backend = BearerAuthBackend(access.verifier())
    layers = [
        Middleware(OwnRequests, access=access),
        Middleware(AuthenticationMiddleware, backend=backend),
    ]
    return Starlette(routes=routes, middleware=layers, lifespan=lifespan)


def _metadata(access: HttpAccess) -> tuple[AnyHttpUrl | None, list[Any]]:
    """Return the address of the metadata of the protected resource (RFC 9728), and its route."""
    if not access.issuer:
        return None, []
    resource = AnyHttpUrl(access.resource)
    routes = create_protected_resource_routes(
        resource_url=resource,
        authorization_servers=[AnyHttpUrl(access.issuer)],
        scopes_supported=None,
    )
    return build_resource_metadata_url(resource), list(routes)


def principal_of(context: Any) -> str:
    """Return the holder of a request's token, with the issuer."""
    token = context.request.user.access_token
    issuer = (token.claims or {}).get("iss", "")
    return f"{issuer} {token.subject or ''} {token.client_id}"


def http_server(
    config: ServersConfig,
    servers: ServerOptions,
    options: GatewayOptions,
    *,
    emit: Emit,
) -> GatewayServer:
    """Return the handlers of a gateway for many clients."""

    def gateway_of(server: GatewayServer) -> Gateway:
        return Gateway(
            config,
            servers,
            options,
            is_shared=True,
            emit=emit,
            on_list_change=server.list_changed,
            on_update=server.updated,
        )

    return GatewayServer(gateway_of, principal_of)


class _QuietServer(uvicorn.Server):
    """A web server that leaves signals to the command line."""

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield


async def serve_http(
    config: ServersConfig,
    servers: ServerOptions,
    options: GatewayOptions,
    access: HttpAccess,
    *,
    emit: Emit,
    started: Callable[[str], None],
) -> None:
    """Serve until cancelled; `started` receives the address. Raises `ConfigError` if the port is unusable."""
    served = http_server(config, servers, options, emit=emit)
    app = http_app(served, access)
    family = socket.AF_INET6 if ":" in access.host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((access.host, access.port))
        except OSError as error:
            raise ConfigError(
                f"the gateway cannot listen on {access.host}:{access.port}: {error.strerror}"
            ) from None
        port = listener.getsockname()[1]
        settings = uvicorn.Config(
            app,
            log_level="critical",
            lifespan="on",
            timeout_graceful_shutdown=1,
            ws="none",
        )
        server = _QuietServer(settings)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        started(f"http://{access.shown_host()}:{port}{PATH}")
        try:
            await asyncio.shield(serving)
        finally:
            server.should_exit = True
            await asyncio.wait({serving}, timeout=_END_SECONDS)
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
