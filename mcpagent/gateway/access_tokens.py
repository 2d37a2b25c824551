"""Check the tokens of HTTP clients: the gateway's own token, or those of an external authorization server (RFC
9728).
"""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from typing import Any

import httpx2
import jwt
from mcp.server.auth.provider import AccessToken

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "ES512", "EdDSA")
"""Signature algorithms with a public key. With a shared secret, the holder of a token could issue others."""

KEYS_SECONDS = 300.0
REFETCH_SECONDS = 10.0
"""Minimum time between two requests for the keys because of an unknown key ID."""
_TIMEOUT = 10.0
_MOST_BYTES = 1_000_000
_METADATA = ("oauth-authorization-server", "openid-configuration")


class SharedToken:
    """Verifies the one token of all clients, which the user sets."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the holder of the token; None for any other token."""
        if not hmac.compare_digest(token.encode(), self._token):
            return None
        return AccessToken(token=token, client_id="token", scopes=[])


class SignedTokens:
    """Verifies tokens that an authorization server signed for `resource` (RFC 9068), with the keys that it
    publishes.
    """

    def __init__(
        self,
        issuer: str,
        resource: str,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._issuer = issuer
        self._resource = resource
        self._transport = transport
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched = -KEYS_SECONDS
        self._fetching = asyncio.Lock()

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the holder of a valid token; None for other tokens, and while the keys cannot be fetched."""
        try:
            head = jwt.get_unverified_header(token)
            key = await self._key(str(head.get("kid")))
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                audience=self._resource,
                issuer=self._issuer,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWTError, httpx2.HTTPError, ValueError, KeyError):
            return None
        client = str(claims.get("client_id") or claims.get("azp") or claims["sub"])
        scopes = str(claims.get("scope") or "").split()
        return AccessToken(
            token=token,
            client_id=client,
            scopes=scopes,
            expires_at=int(claims["exp"]),
            resource=self._resource,
            subject=str(claims["sub"]),
            claims={"iss": self._issuer},
        )

    async def _key(self, identity: str) -> jwt.PyJWK:
        """Return a key of the authorization server by its ID. Raises `KeyError` for an unknown ID, and HTTP errors."""
        async with self._fetching:
            age = time.monotonic() - self._fetched
            is_unknown = identity not in self._keys and age >= REFETCH_SECONDS
            if age >= KEYS_SECONDS or is_unknown:
                self._keys = await self._fetch()
                self._fetched = time.monotonic()
        return self._keys[identity]

    async def _fetch(self) -> dict[str, jwt.PyJWK]:
        async with httpx2.AsyncClient(
            transport=self._transport, timeout=_TIMEOUT
        ) as client:
            metadata = await self._metadata(client)
            found = await _json(client, str(metadata["jwks_uri"]))
        keys = jwt.PyJWKSet.from_dict(found).keys
        return {str(key.key_id): key for key in keys}

    async def _metadata(self, client: httpx2.AsyncClient) -> dict[str, Any]:
        """Return the metadata of the authorization server (RFC 8414, or OpenID Connect Discovery)."""
        url = httpx2.URL(self._issuer)
        path = url.path.rstrip("/")
        last: Exception = ValueError("no metadata")
        for name in _METADATA:
            for place in (f"/.well-known/{name}{path}", f"{path}/.well-known/{name}"):
                try:
                    found = await _json(client, str(url.copy_with(path=place)))
                except (httpx2.HTTPError, ValueError) as error:
                    last = error
                    continue
                if found.get("issuer") == self._issuer:
                    return found
        raise last


async def _json(client: httpx2.AsyncClient, url: str) -> dict[str, Any]:
    """Return a JSON object of limited size from a URL. Raises HTTP errors and `ValueError`."""
    content = b""
    async with client.stream("GET", url) as response:
        response.raise_for_status()
        async for piece in response.aiter_bytes():
            content += piece
            if len(content) > _MOST_BYTES:
                raise ValueError(f"{url}: too large")
    found = json.loads(content)
    if not isinstance(found, dict):
        raise ValueError(f"{url}: no object")
    return found
