"""Tokens that are of use only with our key (DPoP, RFC 9449): each request brings a proof that we have it."""

from __future__ import annotations

import hashlib
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx2
from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcpagent.mcp.auth.sign_ins import TokenStorage

ALGORITHMS = ("ES256", "EdDSA", "PS256", "RS256")
"""What we sign with, the first that the authorization server takes."""

_FORM = "application/x-www-form-urlencoded"


class ProofKey(BaseModel):
    """A private key (PEM) and the algorithm that it signs with. It stays with the tokens that are bound to it."""

    algorithm: str
    pem: str

    @classmethod
    def new(cls, algorithm: str) -> ProofKey:
        """One that nobody had before; `algorithm` is one of `ALGORITHMS`."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

        private: Any
        if algorithm == "ES256":
            private = ec.generate_private_key(ec.SECP256R1())
        elif algorithm == "EdDSA":
            private = ed25519.Ed25519PrivateKey.generate()
        else:
            private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        encoded = private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return cls(algorithm=algorithm, pem=encoded.decode())


@dataclass
class Proofs:
    """Proofs with one key. Servers may want a number of theirs in each: `nonces`, by origin."""

    key: ProofKey
    nonces: dict[str, str] = field(default_factory=dict[str, str])
    _jwk: dict[str, Any] | None = field(default=None, repr=False)

    def add(self, request: httpx2.Request, token: str = "") -> None:
        """A new proof for this request; with a token it says that it belongs to that one, and the token is sent."""
        if token:
            request.headers["Authorization"] = f"DPoP {token}"
        request.headers["DPoP"] = self._proof(request, token)

    def wants_nonce(self, response: httpx2.Response) -> bool:
        """Whether the request should be sent again, with the number that this answer brings (RFC 9449 8 and 9)."""
        origin = _origin(response.request.url)
        given = response.headers.get("dpop-nonce", "")
        if not given or len(given) > 1_024 or self.nonces.get(origin) == given:
            return False
        self.nonces[origin] = given
        return response.status_code in (400, 401)

    def _proof(self, request: httpx2.Request, token: str) -> str:
        import jwt
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        private: Any = load_pem_private_key(self.key.pem.encode(), None)
        if self._jwk is None:
            to_jwk: Any = jwt.get_algorithm_by_name(self.key.algorithm)
            self._jwk = {
                name: value
                for name, value in to_jwk.to_jwk(private.public_key(), as_dict=True).items()
                if name not in ("key_ops", "use")
            }
        url = request.url.copy_with(query=None, fragment=None)
        claims = {"jti": uuid4().hex, "htm": request.method, "htu": str(url), "iat": int(time.time())}
        if nonce := self.nonces.get(_origin(request.url)):
            claims["nonce"] = nonce
        if token:
            claims["ath"] = urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()
        headers = {"typ": "dpop+jwt", "jwk": self._jwk}
        return jwt.encode(claims, private, algorithm=self.key.algorithm, headers=headers)


def _origin(url: httpx2.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


class BoundSignIn(httpx2.Auth):
    """A sign-in that asks for bound tokens where the authorization server gives such ones, whatever its own way is.

    The key goes to `storage` with the tokens, if these are bound. `wanted` True: also where the server does not say
    that it gives them; False: never.
    """

    def __init__(self, inner: httpx2.Auth, storage: TokenStorage, *, wanted: bool | None = None) -> None:
        self._inner = inner
        self._storage = storage
        self._wanted = wanted
        self._proofs: Proofs | None = None

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """As `httpx2.Auth` has it."""
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
        if _is_for_token(request):
            self._proofs.add(request)
        elif self._storage.proof_key is not None and kind.lower() in ("bearer", "dpop"):
            self._proofs.add(request, token)

    async def _seen(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """Learns from the answer; the tokens in it are read by code that knows only the usual kind."""
        if "/.well-known/" in request.url.path and response.status_code == 200:
            offered = _json_object(await response.aread()).get("dpop_signing_alg_values_supported")
            if isinstance(offered, list) and "oauth-protected-resource" not in request.url.path:
                self._begin([str(name) for name in offered])
        elif self._proofs is not None and _is_for_token(request) and response.status_code in (200, 201):
            given = _json_object(await response.aread())
            is_bound = str(given.get("token_type", "")).lower() == "dpop"
            self._storage.proof_key = self._proofs.key if is_bound else None
            if is_bound:
                body = json.dumps({**given, "token_type": "Bearer"}).encode()
                return httpx2.Response(response.status_code, content=body, request=response.request)
        return response


def _is_for_token(request: httpx2.Request) -> bool:
    is_form = request.headers.get("content-type", "").startswith(_FORM)
    return request.method == "POST" and is_form and b"grant_type=" in request.content


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
