"""Send requests to the authorization server that a remote server names: checked, bounded, authenticated.

Its addresses come from the remote server, which is untrusted. So they must be https, or at most as local as the server
itself, judged by the addresses that their names resolve to, and never link-local. Responses are limited in size and
time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import httpx2

from mcpagent.config import ServerConfig
from mcpagent.mcp.auth.addresses import (
    SCOPES,
    Address,
    NetworkScope,
    Resolve,
    farthest,
    is_localhost,
    literal,
    resolved,
    scope_of,
)
from mcpagent.mcp.auth.bound_sign_in import BoundSignIn
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import without_credentials

if TYPE_CHECKING:
    from mcpagent.mcp.auth.api_authority import ApiAuthority
    from mcpagent.mcp.auth.sign_ins import SignIn, TokenStorage

MAX_ANSWER_BYTES = 1024 * 1024
_MOST_ADDRESSES = 4
"""Maximum number of addresses of one name that are tried."""


_TOO_NEAR = {
    "nowhere": "is a link-local address",
    "machine": "is on this machine, and the server is not",
    "network": "is in a private network, and the server is not",
}


def refusal_of(page: str, server: str) -> str | None:
    """Return why a sign-in to `server` must not use the address `page`, as the end of a sentence; None if it may.

    This checks the address itself. When the request is sent, `CheckedTransport` checks the addresses that its name
    resolves to.
    """
    try:
        url, own = httpx2.URL(page), httpx2.URL(server)
    except (httpx2.InvalidURL, ValueError):
        return "is no address"
    if url.userinfo and url.userinfo != own.userinfo:
        return "has a user or a password in it"
    if _origin(url) == _origin(own):
        return None
    place, own_place = _scope_by_name(url.host), _scope_by_name(own.host)
    if place == "network" and literal(own.host) is None:
        own_place = "network"  # its name may also resolve to an address in this network
    if not _may_send_to(own_place, place):
        return _TOO_NEAR[place]
    if url.scheme == "https" or (url.scheme == "http" and place == "machine"):
        return None
    return "is not https"


def shown_address(address: str) -> str:
    """Return an address for display, without user, password and query."""
    return safe_line(without_credentials(address.partition("?")[0]), 120)


def _may_send_to(own: NetworkScope, place: NetworkScope) -> bool:
    return (
        own in SCOPES and place in SCOPES and SCOPES.index(place) <= SCOPES.index(own)
    )


def _scope_by_name(host: str) -> NetworkScope:
    if (address := literal(host)) is not None:
        return scope_of(address)
    if is_localhost(host):
        return "machine"
    return "everywhere"


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


class CheckedNetwork(httpx2.AsyncBaseTransport):
    """The HTTP transport for one server. During a sign-in, requests to other addresses, which the server named, are
    checked.
    """

    def __init__(
        self, config: ServerConfig, network: httpx2.AsyncBaseTransport
    ) -> None:
        self._own = _origin(httpx2.URL(config.address))
        self._network = network
        self._checked = CheckedTransport(config, network)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send the request. Raises the errors of `CheckedTransport`."""
        is_own = _origin(request.url) == self._own
        return await (self._network if is_own else self._checked).handle_async_request(
            request
        )

    async def aclose(self) -> None:
        """Close the inner transports."""
        await self._network.aclose()


class CheckedTransport(httpx2.AsyncBaseTransport):
    """The HTTP transport of a sign-in: each address is checked, and each response is read within limits.

    A successful response of the server itself is not read, because it may be an endless stream. `refused` is the
    `WWW-Authenticate` header of an earlier refusal: the first request gets it again as its response, so that the
    sign-in requests the missing permissions. `known` answers requests for the metadata of an HTTP API.
    """

    def __init__(
        self,
        config: ServerConfig,
        inner: httpx2.AsyncBaseTransport | None = None,
        *,
        refused: str = "",
        known: ApiAuthority | None = None,
        resolve: Resolve = resolved,
    ) -> None:
        self._config = config
        self._known = known
        self._inner = inner or httpx2.AsyncHTTPTransport()
        self._refused = refused
        self._resolve = resolve
        self._peer: Address | None = None
        """The IP address of the server, after its first response."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a checked request.

        Raises `httpx2.UnsupportedProtocol` for a refused address, `httpx2.ReadTimeout` for an endless response.
        """
        if self._refused:
            header, self._refused = self._refused, ""
            return httpx2.Response(403, headers={"WWW-Authenticate": header})
        if self._known is not None and (answer := self._known.answer(request)):
            return answer
        refusal = refusal_of(str(request.url), self._config.address)
        if refusal is not None:
            raise httpx2.UnsupportedProtocol(
                f"{shown_address(str(request.url))} {refusal}"
            )
        seconds = self._config.connect_timeout_seconds
        is_own = _origin(request.url) == _origin(httpx2.URL(self._config.address))
        try:
            async with asyncio.timeout(seconds):
                response = await self._sent(
                    [request] if is_own else await self._at_checked_addresses(request)
                )
                if is_own:
                    self._peer = _peer_of(response) or self._peer
                try:
                    if self._is_let_in(request, response):
                        body = b""
                    else:
                        body = await _small_body(response)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise httpx2.ReadTimeout(f"no whole answer within {seconds:g} s") from None
        headers = [
            (name, value)
            for name, value in response.headers.multi_items()
            if name.lower() != "content-length"
        ]
        return httpx2.Response(response.status_code, headers=headers, content=body)

    async def _sent(self, requests: Sequence[httpx2.Request]) -> httpx2.Response:
        """Send the first request that can be sent, and return its response. All are the same request, to different IP
        addresses.
        """
        for request in requests[:-1]:
            with contextlib.suppress(httpx2.ConnectError, httpx2.ConnectTimeout):
                return await self._inner.handle_async_request(request)
        return await self._inner.handle_async_request(requests[-1])

    async def _at_checked_addresses(
        self, request: httpx2.Request
    ) -> list[httpx2.Request]:
        """Return a copy of the request for each checked IP address, because a name may resolve differently the next
        time.

        Raises `httpx2.UnsupportedProtocol` for an address that is nearer than the server, and `httpx2.ConnectError`.
        """
        url = request.url
        try:
            addresses = await self._resolve(url.host, url.port or 443)
        except OSError as error:
            raise httpx2.ConnectError(
                f"{safe_line(url.host, 100)} leads nowhere: {error}"
            ) from None
        own = await self._own_scope()
        for address in addresses:
            if not _may_send_to(own, place := scope_of(address)):
                raise httpx2.UnsupportedProtocol(
                    f"{safe_line(str(url), 120)} ({address}) {_TOO_NEAR[place]}"
                )
        if not addresses:
            raise httpx2.ConnectError(f"{safe_line(url.host, 100)} leads nowhere")
        content = await request.aread()
        return [
            httpx2.Request(
                request.method,
                url.copy_with(host=str(address)),
                headers=[
                    ("host", url.netloc.decode("ascii")),
                    *_without_host(request.headers),
                ],
                content=content,
                extensions={**request.extensions, "sni_hostname": url.host},
            )
            for address in addresses[:_MOST_ADDRESSES]
        ]

    async def _own_scope(self) -> NetworkScope:
        """Return the scope of the MCP server's address: this machine, this network, or the internet.

        If the address of the open connection is known, it decides, because the name may resolve differently now.
        """
        if self._peer is not None:
            return scope_of(self._peer)
        own = httpx2.URL(self._config.address)
        try:
            return farthest(await self._resolve(own.host, own.port or 443))
        except OSError:
            return "everywhere"

    def _is_let_in(self, request: httpx2.Request, response: httpx2.Response) -> bool:
        return response.status_code < 400 and str(request.url) == self._config.address

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self._inner.aclose()


def _without_host(headers: httpx2.Headers) -> list[tuple[str, str]]:
    return [
        (name, value) for name, value in headers.multi_items() if name.lower() != "host"
    ]


def _peer_of(response: httpx2.Response) -> Address | None:
    stream = response.extensions.get("network_stream")
    if stream is None:
        peer = None
    else:
        peer = stream.get_extra_info("server_addr")
    if isinstance(peer, tuple) and peer:
        return literal(str(peer[0]))
    return None


async def _small_body(response: httpx2.Response) -> bytes:
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise httpx2.DecodingError("the answer is encoded, which was not asked for")
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    body = bytearray()
    async for chunk in response.stream:
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise httpx2.DecodingError(
                f"the answer is larger than {MAX_ANSWER_BYTES // 2**20} MiB"
            )
    return bytes(body)


_MOST_STEPS = 2_000
"""Maximum number of requests of one sign-in: polling once a second for half an hour, and a few more."""


def authority_client(
    config: ServerConfig,
    auth: httpx2.Auth | None = None,
    *,
    refused: str = "",
    known: ApiAuthority | None = None,
) -> httpx2.AsyncClient:
    """Return a client for the requests of a sign-in, which follows no redirects.

    `refused`, `known`: see `CheckedTransport`. httpx counts each step of a sign-in as a redirect: a sign-in with a code
    on another device needs one for each poll.
    """
    return httpx2.AsyncClient(
        transport=CheckedTransport(config, refused=refused, known=known),
        max_redirects=_MOST_STEPS,
        auth=auth,
        headers={"Accept-Encoding": "identity", "User-Agent": "mcpagent"},
        timeout=config.connect_timeout_seconds,
    )


async def named_authorities(config: ServerConfig) -> list[str]:
    """Return the authorization servers that the server names at present (RFC 9728); [] if none can be read."""
    from pydantic import ValidationError

    from mcpagent.mcp.sdk import (
        ProtectedResourceMetadata,
        build_protected_resource_metadata_discovery_urls,
    )

    for address in build_protected_resource_metadata_discovery_urls(
        None, config.address
    ):
        with contextlib.suppress(httpx2.HTTPError, httpx2.InvalidURL, ValidationError):
            async with authority_client(config) as client:
                answer = await client.get(address)
            if answer.status_code == 200:
                known = ProtectedResourceMetadata.model_validate_json(answer.content)
                return [str(found) for found in known.authorization_servers]
    return []


def token_endpoint(url: str, sign_in: SignIn) -> str:
    """Return the token endpoint; if the authorization server has no metadata, `/token` of the server."""
    if sign_in.authority is not None:
        return str(sign_in.authority.token_endpoint)
    return urljoin(url, "/token")


async def ask_authority(
    config: ServerConfig,
    storage: TokenStorage,
    sign_in: SignIn,
    endpoint: str,
    form: Mapping[str, str],
) -> httpx2.Response:
    """Post a form to `endpoint`, authenticated as the client. Raises `OAuthFlowError` if it cannot be reached or
    trusted.
    """
    from mcp.client.auth import OAuthFlowError

    from mcpagent.mcp.sdk import OAuthClientMetadata, OAuthContext

    context = OAuthContext(
        config.address, OAuthClientMetadata(redirect_uris=None), storage, None, None
    )
    context.client_info = sign_in.client
    proving = None
    if sign_in.proof_key is not None:
        proving = BoundSignIn(httpx2.Auth(), storage)
    context.protected_resource_metadata = sign_in.resource
    data = dict(form)
    if sign_in.client is not None and sign_in.client.client_id:
        data["client_id"] = sign_in.client.client_id
    if sign_in.resource is not None and form.get("grant_type"):
        data["resource"] = context.get_resource_url()
    data, headers = context.prepare_token_auth(data, {})
    try:
        async with authority_client(config, proving) as client:
            return await client.post(endpoint, data=data, headers=headers)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        what = safe_line(f"{type(error).__name__}: {error}", 160)
        raise OAuthFlowError(
            f"its authorization server cannot be used: {what}"
        ) from None
