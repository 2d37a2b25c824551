"""An MCP server of one tool behind an authorization server of its own, which checks what a client proves itself by."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import jwt
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from tests.servers.everyday import serving


@dataclass
class OwnAuthority:
    """`methods` are the ways of a client with a secret that it lists; `is_bound`: its tokens are bound to a key, with
    `nonce` in each proof. `public_key` is that of a client's own word, or of a workload's issuer."""

    methods: tuple[str, ...] = ("client_secret_basic",)
    is_bound: bool = False
    nonce: str = ""
    public_key: str = ""
    token_seconds: int = 3600
    issuer: str = ""
    named: str = ""
    """The authorization server that the MCP server names, if it is not itself."""
    forms: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """What was asked for a token, with `client` and `secret` as they came by the header."""
    exchanges: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    tokens: dict[str, str] = field(default_factory=dict[str, str])
    """Each that was given -> the thumbprint of the key that it is bound to, or ""."""
    proofs: list[str] = field(default_factory=list[str])
    device: dict[str, Any] | None = None
    """What its endpoint for codes answers, `HERE` in it for its own address; without it there is no such endpoint."""
    waits: list[str] = field(default_factory=list[str])
    """The errors with which it answers requests for the tokens of a code, one each, before it gives them."""
    packed: bytes = b""
    """Its answer as an identity provider, compressed by gzip."""
    registered: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def routes(self, address: str) -> list[Route]:
        """Its pages, below the server's own address."""
        self.issuer = address
        about = {
            "issuer": address,
            "authorization_endpoint": f"{address}/authorize",
            "token_endpoint": f"{address}/token",
            "token_endpoint_auth_methods_supported": [*self.methods],
            "grant_types_supported": ["client_credentials"],
        }
        if self.is_bound:
            about["dpop_signing_alg_values_supported"] = ["ES256"]

        if self.device is not None:
            about["registration_endpoint"] = f"{address}/register"
            about["device_authorization_endpoint"] = f"{address}/device"

        async def describe(_: Request) -> Response:
            return JSONResponse(about)

        async def protects(_: Request) -> Response:
            return JSONResponse({"resource": f"{address}/mcp", "authorization_servers": [self.named or address]})

        return [
            Route("/.well-known/oauth-authorization-server", describe),
            Route("/.well-known/oauth-protected-resource/mcp", protects),
            Route("/token", self.give, methods=["POST"]),
            Route("/exchange", self.exchange, methods=["POST"]),
            Route("/register", self.register, methods=["POST"]),
            Route("/device", self.give_code, methods=["POST"]),
        ]

    async def register(self, request: Request) -> Response:
        """Registers any client (RFC 7591)."""
        client = await request.json()
        self.registered.append(client)
        return JSONResponse({**client, "client_id": f"client-{len(self.registered)}"}, status_code=201)

    async def give_code(self, request: Request) -> Response:
        """Answers a request for a code (RFC 8628 3.1)."""
        self.forms.append({name: str(value) for name, value in (await request.form()).items()})
        text = json.dumps(self.device).replace("HERE", self.issuer)
        return Response(text, status_code=400 if "error" in text else 200, media_type="application/json")

    async def give(self, request: Request) -> Response:
        """Answers a request for a token."""
        form = {name: str(value) for name, value in (await request.form()).items()}
        kind, _, encoded = request.headers.get("authorization", "").partition(" ")
        if kind == "Basic":
            client, _, secret = base64.b64decode(encoded).decode().partition(":")
            form |= {"client": unquote(client), "secret": unquote(secret)}
        self.forms.append(form)
        if "device_code" in form and self.waits:
            return JSONResponse({"error": self.waits.pop(0)}, status_code=400)
        if form.get("client_secret", form.get("secret", "s3cret/value")) != "s3cret/value":
            return JSONResponse({"error": "invalid_client"}, status_code=401)
        for name in ("client_assertion", "assertion"):
            if self.public_key and name in form:
                try:
                    jwt.decode(form[name], self.public_key, algorithms=["ES256"], audience=self.issuer)
                except jwt.PyJWTError as error:
                    what = f"{error}: {form[name]}"
                    return JSONResponse({"error": "invalid_grant", "error_description": what}, status_code=400)
        thumb = ""
        if self.is_bound:
            thumb, refusal = self.proven(request, f"{self.issuer}/token")
            if refusal is not None:
                return refusal
        token = f"token-{secrets.token_hex(12)}"
        self.tokens[token] = thumb
        kind = "DPoP" if self.is_bound else "Bearer"
        return JSONResponse({"access_token": token, "token_type": kind, "expires_in": self.token_seconds})

    async def exchange(self, request: Request) -> Response:
        """As an identity provider: an assertion for a person's token."""
        form = {name: str(value) for name, value in (await request.form()).items()}
        self.exchanges.append(form)
        if self.packed:
            return Response(self.packed, media_type="application/json", headers={"Content-Encoding": "gzip"})
        if form.get("subject_token") != "id-token-of-ann":
            return JSONResponse({"error": "invalid_grant", "error_description": "who is that?"}, status_code=400)
        return JSONResponse({"access_token": "idp-said-so-51c2", "token_type": "N_A"})

    def proven(self, request: Request, url: str, token: str = "") -> tuple[str, Response | None]:
        """The thumbprint of the key of a proof, checked as RFC 9449 4.3 says; else the refusal."""
        proof = request.headers.get("dpop", "")
        key = jwt.PyJWK(jwt.get_unverified_header(proof)["jwk"])
        claims = jwt.decode(proof, key, algorithms=["ES256"])
        assert (claims["htm"], claims["htu"]) == (request.method, url)
        assert claims["jti"] not in self.proofs
        self.proofs.append(claims["jti"])
        if token:
            digest = base64.urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()
            assert claims["ath"] == digest
        if self.nonce and claims.get("nonce") != self.nonce:
            headers = {"DPoP-Nonce": self.nonce, "WWW-Authenticate": 'DPoP error="use_dpop_nonce"'}
            status = 401 if token else 400
            return "", JSONResponse({"error": "use_dpop_nonce"}, status_code=status, headers=headers)
        jwk: dict[str, Any] = jwt.get_unverified_header(proof)["jwk"]
        return json.dumps({name: jwk[name] for name in ("crv", "kty", "x", "y")}), None

    def lets_in(self, request: Request) -> Response | None:
        """None for a request with a good token, else the refusal."""
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if token not in self.tokens or kind != ("DPoP" if self.is_bound else "Bearer"):
            metadata = f'resource_metadata="{self.issuer}/.well-known/oauth-protected-resource/mcp"'
            return Response(status_code=401, headers={"WWW-Authenticate": f"Bearer {metadata}"})
        if not self.is_bound:
            return None
        thumb, refusal = self.proven(request, f"{self.issuer}/mcp", token)
        if refusal is None:
            assert thumb == self.tokens[token]
        return refusal


@asynccontextmanager
async def behind(authority: OwnAuthority) -> AsyncIterator[str]:
    """The URL of a server with one tool, `secret`."""

    def build(address: str) -> Starlette:
        server: MCPServer = MCPServer("own", log_level="CRITICAL")

        @server.tool(structured_output=False)
        def secret() -> str:
            """Tells it."""
            return "42"

        app = server.streamable_http_app()

        async def guarded(scope: Any, receive: Any, send: Any) -> None:
            refusal = authority.lets_in(Request(scope)) if scope.get("path") == "/mcp" else None
            await (refusal or app)(scope, receive, send)

        outer = Starlette(routes=[*authority.routes(address), Mount("/", guarded)])
        outer.router.lifespan_context = app.router.lifespan_context
        return outer

    async with serving(build) as address:
        yield f"{address}/mcp"
