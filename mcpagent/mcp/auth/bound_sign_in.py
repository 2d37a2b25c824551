"""Request tokens bound to the client's key (DPoP), with any grant."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING

import httpx2

from mcpagent.mcp.auth.dpop import ALGORITHMS, ProofKey, Proofs
from mcpagent.mcp.auth.grants import is_token_request, json_object

if TYPE_CHECKING:
    from mcpagent.mcp.auth.sign_ins import TokenStorage


class BoundSignIn(httpx2.Auth):
    """A sign-in that requests bound tokens if the authorization server issues them, with any grant.

    If the tokens require the key, it is stored with them in `storage`. `wanted`: True requests bound tokens even if the
    server does not announce them, False never does, None if it announces them.
    """

    def __init__(
        self, inner: httpx2.Auth, storage: TokenStorage, *, wanted: bool | None = None
    ) -> None:
        self._inner = inner
        self._storage = storage
        self._wanted = wanted
        self._proofs: Proofs | None = None

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Implement `httpx2.Auth`."""
        known = (await self._storage.load()).proof_key
        if known is not None and self._wanted is not False:
            self._proofs, self._storage.proof_key = self._proofs or Proofs(known), known
        if self._wanted:
            self._begin(ALGORITHMS)
        flow = self._inner.async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                self._prove(outgoing)
                response = yield outgoing
                if self._proofs is not None and self._proofs.wants_nonce(response):
                    self._prove(outgoing)
                    response = yield outgoing
                outgoing = await flow.asend(await self._seen(outgoing, response))
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    def _begin(self, offered: Sequence[str]) -> None:
        algorithm = next((known for known in ALGORITHMS if known in offered), None)
        if algorithm is not None and self._proofs is None and self._wanted is not False:
            self._proofs = Proofs(ProofKey.new(algorithm))

    def _prove(self, request: httpx2.Request) -> None:
        if self._proofs is None:
            return
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if is_token_request(request):
            self._proofs.add(request)
        elif self._storage.proof_key is not None and kind.lower() in ("bearer", "dpop"):
            self._proofs.add(request, token)

    async def _seen(
        self, request: httpx2.Request, response: httpx2.Response
    ) -> httpx2.Response:
        """Learn from the response, and rewrite bound tokens in it for the SDK's code, which knows only unbound ones."""
        if "/.well-known/" in request.url.path and response.status_code == 200:
            offered = json_object(await response.aread()).get(
                "dpop_signing_alg_values_supported"
            )
            if (
                isinstance(offered, list)
                and "oauth-protected-resource" not in request.url.path
            ):
                self._begin([str(name) for name in offered])
        elif (
            self._proofs is not None
            and is_token_request(request)
            and response.status_code in (200, 201)
        ):
            given = json_object(await response.aread())
            is_bound = str(given.get("token_type", "")).lower() == "dpop"
            if is_bound:
                self._storage.proof_key = self._proofs.key
            else:
                self._storage.proof_key = None
            if is_bound:
                body = json.dumps({**given, "token_type": "Bearer"}).encode()
                return httpx2.Response(
                    response.status_code, content=body, request=response.request
                )
        return response
