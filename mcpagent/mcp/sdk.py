"""The names that mcpagent needs from the MCP SDK, but that the SDK does not document as public.

No other module imports them, so a new version of the SDK is checked in one place. docs/architecture.md has the reasons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp.client import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    extract_scope_from_www_auth,
    issuers_match,
)
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.dispatcher import (
    CallOptions,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
    ProgressFnT,
    as_request_id,
    run_notify_intercept,
)
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import (
    ClientMessageMetadata,
    ServerMessageMetadata,
    SessionMessage,
)
from mcp.shared.transport_context import TransportContext
from mcp.shared.uri_template import UriTemplate

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import httpx2
    from mcp.server.session import ServerSession
    from mcp_types import ListToolsResult

__all__ = [
    "CallOptions",
    "ClientMessageMetadata",
    "JSONRPCDispatcher",
    "OAuthClientInformationFull",
    "OAuthClientMetadata",
    "OAuthContext",
    "OAuthMetadata",
    "OAuthToken",
    "OnNotify",
    "OnNotifyIntercept",
    "OnRequest",
    "ProgressFnT",
    "ProtectedResourceMetadata",
    "SdkSession",
    "SdkSignIn",
    "ServerMessageMetadata",
    "ServerSession",
    "SessionMessage",
    "SubscriptionLost",
    "TransportContext",
    "UriTemplate",
    "as_request_id",
    "build_oauth_authorization_server_metadata_discovery_urls",
    "build_protected_resource_metadata_discovery_urls",
    "extract_scope_from_www_auth",
    "issuers_match",
    "listen",
    "run_notify_intercept",
    "streamable_http_client",
]


class SdkSession(ClientSession):
    """The SDK's session, with a public name for the part of `list_tools` that processes a page."""

    def learn_tools(self, page: ListToolsResult, *, is_all: bool) -> None:
        """Store the data about these tools that later calls need; remove unusable tools from the page.

        If `is_all`, the session forgets all other tools.
        """
        self._absorb_tool_listing(page, complete=is_all)


class SdkSignIn(OAuthClientProvider):
    """The SDK's OAuth client, with public names for its private steps, so that subclasses can override or call them."""

    def flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Yield the requests of a sign-in and finally the signed request; receive the response to each."""
        return super()._auth_flow(request)

    async def load(self) -> None:
        """Load the stored tokens and the stored registration of the client."""
        await super()._initialize()

    def select_authority(self, advertised: list[str]) -> str:
        """Return one of the authorization servers that the server advertises."""
        return super()._select_authorization_server(advertised)

    async def grant_request(self) -> httpx2.Request:
        """Return the request for tokens, after the user has signed in."""
        return await super()._perform_authorization()

    def tokens_url(self) -> str:
        """Return the address of the token endpoint."""
        return self._get_token_endpoint()

    def _auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        return self.flow(request)

    async def _initialize(self) -> None:
        await self.load()

    def _select_authorization_server(self, advertised: list[str]) -> str:
        return self.select_authority(advertised)

    async def _perform_authorization(self) -> httpx2.Request:
        return await self.grant_request()
