"""An MCP server behind a real OAuth authorization server, both in one application and all in memory."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from tests.servers.everyday import serving

Documents: TypeAlias = Callable[[str], dict[str, dict[str, Any]]]


@dataclass
class Authority:
    """Grants every request at once. `token_seconds` is the life of an access token; `revokes`: tokens on request;
    `scopes`: what a client may ask for; `consent`: what of it the person allows, all where it is None."""

    token_seconds: int = 3600
    revokes: bool = True
    scopes: list[str] | None = None
    consent: set[str] | None = None
    clients: dict[str, OAuthClientInformationFull] = field(default_factory=dict)
    codes: dict[str, AuthorizationCode] = field(default_factory=dict)
    access: dict[str, AccessToken] = field(default_factory=dict)
    refresh: dict[str, RefreshToken] = field(default_factory=dict)
    granted: list[str] = field(default_factory=list)
    revoked: list[str] = field(default_factory=list)
    headers: list[str] = field(default_factory=list)
    """The `Authorization` header of each request to the server itself."""
    documents: Documents | None = None
    """Of the server's address: what is at each path below which an authority or a resource describes itself. Then the
    refusals of the server say where only for a path that cannot be guessed."""
    needs: set[str] = field(default_factory=set)
    """Scopes without which the tool is refused."""
    redirects: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By path, the status and the address that a request is sent on to."""
    answers: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    """By path, an answer in place of the true one: status, media type and text."""

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        assert client.client_id is not None
        code = AuthorizationCode(
            code=secrets.token_hex(16),
            scopes=[scope for scope in params.scopes or [] if self.consent is None or scope in self.consent],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client: Any, authorization_code: AuthorizationCode) -> OAuthToken:
        del self.codes[authorization_code.code]
        self.granted.append("code")
        return self._token(client.client_id, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client: Any, refresh_token: RefreshToken, scopes: list[str]) -> OAuthToken:
        del self.refresh[refresh_token.token]
        self.granted.append("refresh")
        return self._token(client.client_id, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        found = self.access.get(token)
        return found if found is not None and (found.expires_at or 0) > time.time() else None

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.revoked.append(token.token)
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)

    def _token(self, client_id: str, scopes: list[str], resource: str | None) -> OAuthToken:
        ends = int(time.time()) + self.token_seconds
        access = AccessToken(
            token=secrets.token_hex(16), client_id=client_id, scopes=scopes, expires_at=ends, resource=resource
        )
        refresh = RefreshToken(token=secrets.token_hex(16), client_id=client_id, scopes=scopes, resource=resource)
        self.access[access.token] = access
        self.refresh[refresh.token] = refresh
        return OAuthToken(
            access_token=access.token,
            expires_in=self.token_seconds,
            refresh_token=refresh.token,
            scope=" ".join(scopes),
        )


def refusal(missing: set[str]) -> Response:
    header = f'Bearer error="insufficient_scope", scope="{" ".join(sorted(missing))}"'
    return Response(status_code=403, headers={"WWW-Authenticate": header})


def with_hint(send: Any, hint: str | None) -> Any:
    """Says in the refusals that the resource is described at `hint`, or not where it is."""

    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            kept = [(name, value) for name, value in message["headers"] if name.lower() != b"www-authenticate"]
            if hint is not None and message["status"] == 401:
                kept.append((b"www-authenticate", f'Bearer resource_metadata="{hint}"'.encode()))
            message = message | {"headers": kept}
        await send(message)

    return sending


@contextlib.asynccontextmanager
async def guarded(authority: Authority) -> AsyncIterator[str]:
    """The URL of a server with one tool, `secret`, that wants a token of `authority`."""

    def build(address: str) -> Starlette:
        server: MCPServer = MCPServer(
            "guarded",
            log_level="CRITICAL",
            auth_server_provider=authority,  # type: ignore[arg-type]
            auth=AuthSettings(
                issuer_url=AnyHttpUrl(address),
                resource_server_url=AnyHttpUrl(f"{address}/mcp"),
                client_registration_options=ClientRegistrationOptions(
                    enabled=True,
                    valid_scopes=authority.scopes,
                    default_scopes=authority.scopes,
                ),
                revocation_options=RevocationOptions(enabled=authority.revokes),
                validate_token_resource=True,
            ),
        )

        @server.tool(structured_output=False)
        def secret() -> str:
            """Tells it."""
            return "42"

        app = server.streamable_http_app()

        documents = authority.documents(address) if authority.documents is not None else None
        hint = next((f"{address}{path}" for path in documents or () if ".well-known" not in path), None)

        async def noting(scope: Any, receive: Any, send: Any) -> None:
            path = scope.get("path", "")
            if path in authority.redirects:
                status, location = authority.redirects[path]
                await Response(status_code=status, headers={"Location": location})(scope, receive, send)
                return
            if path in authority.answers:
                status, media, text = authority.answers[path]
                await Response(text, status_code=status, media_type=media)(scope, receive, send)
                return
            if path == "/mcp":
                header = dict(scope["headers"]).get(b"authorization", b"").decode()
                authority.headers.append(header)
                granted = authority.access.get(header.removeprefix("Bearer "))
                if granted is not None and (missing := authority.needs - set(granted.scopes)):
                    await refusal(missing)(scope, receive, send)
                    return
            elif documents is not None and (".well-known" in path or path in documents):
                found = documents.get(path)
                answer = JSONResponse(found) if found is not None else Response(status_code=404)
                await answer(scope, receive, send)
                return
            await app(scope, receive, send if documents is None else with_hint(send, hint))

        return noting  # type: ignore[return-value]

    async with serving(build) as address:
        yield f"{address}/mcp"
