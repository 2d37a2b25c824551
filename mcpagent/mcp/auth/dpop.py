"""Tokens bound to the client's key (DPoP, RFC 9449): each request contains a proof of possession."""

from __future__ import annotations

import hashlib
import time
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx2
from pydantic import BaseModel, Field

ALGORITHMS = ("ES256", "EdDSA", "PS256", "RS256")
"""Signature algorithms in order of preference; the first one that the authorization server accepts is used."""


class ProofKey(BaseModel):
    """A private key (PEM) and its signature algorithm. It is stored with the tokens that require it."""

    algorithm: str
    pem: str = Field(repr=False)

    @classmethod
    def new(cls, algorithm: str) -> ProofKey:
        """Create a new key; `algorithm` is one of `ALGORITHMS`."""
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
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return cls(algorithm=algorithm, pem=encoded.decode())


@dataclass
class Proofs:
    """Creates DPoP proofs (RFC 9449) signed with one key. `nonces` maps each origin to the nonce that its server
    requires.
    """

    key: ProofKey
    nonces: dict[str, str] = field(default_factory=dict[str, str])
    _jwk: dict[str, Any] | None = field(default=None, repr=False)

    def add(self, request: httpx2.Request, token: str = "") -> None:
        """Add a new proof to this request. With a token, bind the proof to it and send the token."""
        if token:
            request.headers["Authorization"] = f"DPoP {token}"
        request.headers["DPoP"] = self._proof(request, token)

    def wants_nonce(self, response: httpx2.Response) -> bool:
        """Return whether to repeat the request with the nonce in this response (RFC 9449 8 and 9)."""
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
                for name, value in to_jwk.to_jwk(
                    private.public_key(), as_dict=True
                ).items()
                if name not in ("key_ops", "use")
            }
        url = request.url.copy_with(query=None, fragment=None)
        claims = {
            "jti": uuid4().hex,
            "htm": request.method,
            "htu": str(url),
            "iat": int(time.time()),
        }
        if nonce := self.nonces.get(_origin(request.url)):
            claims["nonce"] = nonce
        if token:
            claims["ath"] = (
                urlsafe_b64encode(hashlib.sha256(token.encode()).digest())
                .rstrip(b"=")
                .decode()
            )
        headers = {"typ": "dpop+jwt", "jwk": self._jwk}
        return jwt.encode(
            claims, private, algorithm=self.key.algorithm, headers=headers
        )


def _origin(url: httpx2.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii')}"
