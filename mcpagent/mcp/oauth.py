"""Signing in to remote servers: the SDK's OAuth client with tokens kept on disk and a sign-in through the browser.

Tokens belong to one server's origin and are never read for another.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl, BaseModel, ValidationError

from mcpagent.config import ServerConfig

Model = TypeVar("Model", bound=BaseModel)

SIGN_IN_SECONDS = 300.0
_PAGE = b"<!doctype html><title>mcpagent</title><p>Signed in. You can close this page."


class SignIn(Protocol):
    """Takes a person through the authorization page."""

    @property
    def redirect_uri(self) -> str: ...

    async def show(self, url: str) -> None:
        """Brings the authorization page before the person."""

    async def result(self) -> AuthorizationCodeResult:
        """What came back to the redirect URI."""


def oauth_for(
    config: ServerConfig, folder: Path, sign_in: SignIn | None = None, *, client_metadata_url: str | None = None
) -> OAuthClientProvider:
    """Authentication for one remote server with the tokens in `folder`.

    `client_metadata_url` is an https address of a client metadata document: servers that know such documents take it
    for our client id, with others we register.

    Without `sign_in` stored tokens are used and refreshed; where that is not enough, the server's call fails with a
    line that names the command to sign in.
    """
    metadata = OAuthClientMetadata(
        client_name="mcpagent",
        redirect_uris=[AnyUrl(sign_in.redirect_uri if sign_in else "http://127.0.0.1/callback")],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method=None,
    )
    storage = TokenFile(folder, config.url)
    if sign_in is not None:
        return OAuthClientProvider(config.url, metadata, storage, sign_in.show, sign_in.result, client_metadata_url)

    async def refuse(_: str) -> None:
        raise OAuthFlowError(f"run: mcpagent mcp login {config.name}")

    async def never() -> AuthorizationCodeResult:
        raise OAuthFlowError(f"run: mcpagent mcp login {config.name}")

    return OAuthClientProvider(config.url, metadata, storage, refuse, never)


@dataclass(frozen=True, slots=True)
class Machine:
    """Credentials of a program instead of a person: a secret, or a PEM key that signs (`algorithm`, as in RFC 7518)."""

    client_id: str
    secret: str = field(default="", repr=False)
    private_key: str = field(default="", repr=False)
    algorithm: str = "ES256"


def oauth_for_machine(
    config: ServerConfig, folder: Path, machine: Machine, *, issuer: str | None = None
) -> OAuthClientProvider:
    """Authentication by the client credentials grant; `issuer` names the only authorization server to trust with it."""
    from mcp.client.auth.extensions.client_credentials import (
        ClientCredentialsOAuthProvider,
        PrivateKeyJWTOAuthProvider,
        SignedJWTParameters,
    )

    storage = TokenFile(folder, config.url)
    if not machine.private_key:
        return ClientCredentialsOAuthProvider(config.url, storage, machine.client_id, machine.secret, issuer=issuer)
    signer = SignedJWTParameters(
        issuer=machine.client_id,
        subject=machine.client_id,
        signing_key=machine.private_key,
        signing_algorithm=machine.algorithm,
    )
    provider = signer.create_assertion_provider()
    return PrivateKeyJWTOAuthProvider(config.url, storage, machine.client_id, provider, issuer=issuer)


class TokenFile:
    """The SDK's token storage in one file of the user's own (mode 0600), one for each server URL."""

    def __init__(self, folder: Path, url: str) -> None:
        host = urlsplit(url).hostname or "server"
        name = "".join(char if char.isalnum() or char in ".-" else "_" for char in host)[:60]
        self.path = folder / f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:16]}.json"

    async def get_tokens(self) -> OAuthToken | None:
        return self._get("tokens", OAuthToken)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._set("tokens", tokens)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._get("client", OAuthClientInformationFull)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._set("client", client_info)

    def forget(self) -> bool:
        """Signs out here: the tokens and the registration go. False where there were none."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        return True

    def _read(self) -> dict[str, Any]:
        try:
            data = json.loads(self.path.read_bytes())
        except (OSError, ValueError):
            return {}
        return data if isinstance(data, dict) else {}

    def _get(self, key: str, kind: type[Model]) -> Model | None:
        try:
            return kind.model_validate(self._read()[key])
        except (KeyError, ValidationError):
            return None

    def _set(self, key: str, value: BaseModel) -> None:
        data = self._read() | {key: value.model_dump(mode="json", exclude_none=True)}
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=".new-")
        with os.fdopen(handle, "w") as file:
            json.dump(data, file)
        Path(temporary).replace(self.path)


class LoopbackSignIn:
    """A sign-in whose answer comes to a port of 127.0.0.1 (RFC 8252 7.3); an async context manager.

    `show` is given the address of the authorization page: it opens a browser, prints it, or both.
    """

    def __init__(self, show: Callable[[str], Awaitable[None]], *, seconds: float = SIGN_IN_SECONDS) -> None:
        self._show = show
        self._seconds = seconds
        self._answer: asyncio.Future[AuthorizationCodeResult] | None = None
        self._server: asyncio.Server | None = None

    @property
    def redirect_uri(self) -> str:
        if self._server is None:
            raise RuntimeError("LoopbackSignIn is not entered")
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/callback"

    async def __aenter__(self) -> LoopbackSignIn:
        self._server = await asyncio.start_server(self._handle, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def show(self, url: str) -> None:
        self._answer = asyncio.get_running_loop().create_future()
        await self._show(url)

    async def result(self) -> AuthorizationCodeResult:
        assert self._answer is not None
        try:
            return await asyncio.wait_for(self._answer, self._seconds)
        except TimeoutError:
            raise OAuthFlowError(f"nobody signed in within {self._seconds:g} s") from None

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, TimeoutError):
            async with asyncio.timeout(10):
                line = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0].decode("latin-1").split(" ")
            found = line[0] == "GET" and len(line) > 1 and self._take(line[1])
            status = b"200 OK" if found else b"404 Not Found"
            head = b"HTTP/1.1 %b\r\nContent-Type: text/html\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
            writer.write(head % (status, len(_PAGE) if found else 0) + (_PAGE if found else b""))
            await writer.drain()
        writer.close()

    def _take(self, target: str) -> bool:
        parts = urlsplit(target)
        if parts.path != "/callback" or self._answer is None or self._answer.done():
            return False
        try:
            self._answer.set_result(callback_result(parts.query))
        except OAuthFlowError as error:
            self._answer.set_exception(error)
        return True


def callback_result(query: str) -> AuthorizationCodeResult:
    """The code, state and issuer of a redirect's query. Raises `OAuthFlowError` where it carries a refusal."""
    values = {name: found[0] for name, found in parse_qs(query).items()}
    if "code" not in values:
        reason = values.get("error_description") or values.get("error") or "no code came back"
        raise OAuthFlowError(reason)
    return AuthorizationCodeResult(code=values["code"], state=values.get("state"), iss=values.get("iss"))
