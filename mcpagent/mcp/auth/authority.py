"""Requests to the authorization server that a remote server names: checked, bounded, as the client that we are there.

Its addresses come from the remote server, which may be anybody's: so they are https, or as local as the server itself
is, never link-local, and their answers are small and end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import httpx2

from mcpagent.config import ServerConfig
from mcpagent.text.safe_text import safe_line

if TYPE_CHECKING:
    from mcpagent.mcp.auth.sign_ins import SignIn, TokenStorage

MAX_ANSWER_BYTES = 1024 * 1024


def refusal_of(page: str, server: str) -> str | None:
    """Why a request for the sign-in to `server` is not sent to this address, as the end of a sentence."""
    url, own = httpx2.URL(page), httpx2.URL(server)
    if (url.scheme, url.host, url.port) == (own.scheme, own.host, own.port):
        return None
    if (address := _address(url.host)) is not None and address.is_link_local:
        return "is a link-local address"
    if _is_here(url.host):
        return None if _is_here(own.host) else "is on this machine, and the server is not"
    return None if url.scheme == "https" else "is not https"


def _is_here(host: str) -> bool:
    address = _address(host)
    is_local = address is not None and (address.is_loopback or address.is_unspecified)
    return is_local or host == "localhost" or host.endswith(".localhost")


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


class CheckedTransport(httpx2.AsyncBaseTransport):
    """HTTP for a sign-in: each address is checked, each answer read within bounds, what the server itself answers with
    success not read at all, since it may be an endless stream.

    `refused` is a `WWW-Authenticate` header with which the server refused an earlier request: the first one is answered
    with that again, so that the sign-in asks for what was missing.
    """

    def __init__(
        self, config: ServerConfig, inner: httpx2.AsyncBaseTransport | None = None, *, refused: str = ""
    ) -> None:
        self._config = config
        self._inner = inner or httpx2.AsyncHTTPTransport()
        self._refused = refused

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Raises `httpx2.UnsupportedProtocol` for a refused address, `httpx2.ReadTimeout` for an endless answer."""
        if self._refused:
            header, self._refused = self._refused, ""
            return httpx2.Response(403, headers={"WWW-Authenticate": header})
        refusal = refusal_of(str(request.url), self._config.url)
        if refusal is not None:
            raise httpx2.UnsupportedProtocol(f"{safe_line(str(request.url), 120)} {refusal}")
        seconds = self._config.connect_timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                response = await self._inner.handle_async_request(request)
                try:
                    body = b"" if self._is_let_in(request, response) else await _small_body(response)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise httpx2.ReadTimeout(f"no whole answer within {seconds:g} s") from None
        headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() != "content-length"]
        return httpx2.Response(response.status_code, headers=headers, content=body)

    def _is_let_in(self, request: httpx2.Request, response: httpx2.Response) -> bool:
        return response.status_code < 400 and str(request.url) == self._config.url

    async def aclose(self) -> None:
        """Closes the connections below."""
        await self._inner.aclose()


async def _small_body(response: httpx2.Response) -> bytes:
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise httpx2.DecodingError("the answer is encoded, which was not asked for")
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    body = bytearray()
    async for chunk in response.stream:
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise httpx2.DecodingError(f"the answer is larger than {MAX_ANSWER_BYTES // 2**20} MiB")
    return bytes(body)


def authority_client(config: ServerConfig, auth: httpx2.Auth | None = None, *, refused: str = "") -> httpx2.AsyncClient:
    """A client for the requests of a sign-in; it follows no redirect by itself. `refused` as in `CheckedTransport`."""
    return httpx2.AsyncClient(
        transport=CheckedTransport(config, refused=refused),
        auth=auth,
        headers={"Accept-Encoding": "identity", "User-Agent": "mcpagent"},
        timeout=config.connect_timeout_seconds,
    )


def token_endpoint(url: str, sign_in: SignIn) -> str:
    """Where the authorization server gives tokens; for one that does not describe itself, `/token` of the server."""
    return str(sign_in.authority.token_endpoint) if sign_in.authority is not None else urljoin(url, "/token")


async def ask_authority(
    config: ServerConfig, storage: TokenStorage, sign_in: SignIn, endpoint: str, form: Mapping[str, str]
) -> httpx2.Response:
    """Posts a form as the client that we are there. Raises `OAuthFlowError` if it cannot be reached or trusted."""
    from mcp.client.auth import OAuthFlowError
    from mcp.client.auth.oauth2 import OAuthContext
    from mcp.shared.auth import OAuthClientMetadata

    context = OAuthContext(config.url, OAuthClientMetadata(redirect_uris=None), storage, None, None)
    context.client_info = sign_in.client
    context.protected_resource_metadata = sign_in.resource
    data = dict(form)
    if sign_in.client is not None and sign_in.client.client_id:
        data["client_id"] = sign_in.client.client_id
    if sign_in.resource is not None and form.get("grant_type"):
        data["resource"] = context.get_resource_url()
    data, headers = context.prepare_token_auth(data, {})
    try:
        async with authority_client(config) as client:
            return await client.post(endpoint, data=data, headers=headers)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        what = safe_line(f"{type(error).__name__}: {error}", 160)
        raise OAuthFlowError(f"its authorization server cannot be used: {what}") from None
