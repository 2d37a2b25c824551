"""The authorization server of an HTTP API, whose addresses are in the API's document; an MCP server publishes them as
metadata.

Requests for metadata are answered from the document, so that the sign-in to MCP servers also works for APIs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

import httpx2
from mcp.client.auth import OAuthFlowError

from mcpagent.config import ServerConfig
from mcpagent.openapi.api_documents import DocumentError, load_document
from mcpagent.openapi.operations import Api, read_api

_FLOWS: Mapping[str, tuple[str, ...]] = {
    "authorization_code": ("authorizationCode", "accessCode"),
    "client_credentials": ("clientCredentials", "application"),
}
"""The grants, with the names of their flows in OpenAPI 3.x and in Swagger 2.0."""


@dataclass(frozen=True, slots=True)
class ApiAuthority:
    """The endpoints of an API's authorization server."""

    api: str
    token_endpoint: str
    authorization_endpoint: str

    def answer(self, request: httpx2.Request) -> httpx2.Response | None:
        """Return the response to a request for metadata, or to the one that tries the API; None for other requests."""
        path = request.url.path
        if path.startswith("/.well-known/oauth-protected-resource"):
            return httpx2.Response(
                200,
                json={"resource": self.api, "authorization_servers": [self._issuer]},
            )
        if path.startswith(
            (
                "/.well-known/oauth-authorization-server",
                "/.well-known/openid-configuration",
            )
        ):
            return httpx2.Response(200, json=self._metadata)
        if str(request.url) == self.api:
            return httpx2.Response(200 if "authorization" in request.headers else 401)
        return None

    @property
    def _issuer(self) -> str:
        return urljoin(self.token_endpoint, "/")

    @property
    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self._issuer,
            "token_endpoint": self.token_endpoint,
            "authorization_endpoint": self.authorization_endpoint
            or self.token_endpoint,
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
        }


def api_authority(config: ServerConfig) -> ApiAuthority:
    """Return the authorization server that the document of an API names. Raises `OAuthFlowError` if no server is named.

    It reads the document, so call it in a thread.
    """
    try:
        api = read_api(load_document(config.openapi), config.address)
    except DocumentError as error:
        raise OAuthFlowError(f"its OpenAPI document {error}") from None
    for flow in _flows(api, _FLOWS.get(config.sign_in.grant, ())):
        token = flow.get("tokenUrl")
        if isinstance(token, str) and token:
            base, page = f"{api.base_url}/", flow.get("authorizationUrl")
            return ApiAuthority(
                config.address,
                urljoin(base, token),
                urljoin(base, str(page)) if page else "",
            )
    raise OAuthFlowError(
        "its OpenAPI document names no authorization server for this grant"
    )


def _flows(api: Api, names: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    for scheme in api.schemes.values():
        given = scheme.get("flows")
        found = (
            [given.get(name) for name in names] if isinstance(given, Mapping) else []
        )
        if scheme.get("flow") in names:
            found.append(scheme)
        yield from (flow for flow in found if isinstance(flow, Mapping))
