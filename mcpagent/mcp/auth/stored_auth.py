"""Authenticate requests to a remote server with the stored sign-in: send tokens, refresh them, report refusals.

No page is opened here. Only `mcpagent mcp login` (`sign_in_flow.py`) opens one.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import time
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING

import httpx2

from mcpagent.config import ServerConfig
from mcpagent.config.secret_store import SecretStore
from mcpagent.errors import CredentialsError
from mcpagent.mcp.auth.authority import ask_authority, token_endpoint
from mcpagent.mcp.auth.dpop import Proofs
from mcpagent.utilities.text.safe_text import safe_line

if TYPE_CHECKING:
    from mcpagent.config.secret_store import StoredSecret
    from mcpagent.mcp.auth.sign_ins import Secrets, SignIn, TokenStorage

_MAX_REFUSAL = 4_096
EARLY_SECONDS = 30.0
"""How long before its expiry a token is refreshed, since clocks differ and a request takes time."""


class StoredSignIn(httpx2.Auth):
    """Uses and refreshes the stored sign-in of one server, or gets tokens with a grant that needs no user.

    If the sign-in is missing or insufficient, the server's refusal becomes an `OAuthFlowError` that names the command
    to sign in.
    """

    def __init__(
        self,
        config: ServerConfig,
        store: SecretStore | None = None,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._config = config
        # Tokens that can be requested again without a user are not stored on disk.
        self._store: Secrets = (
            _Memory() if store is None or config.sign_in.is_unattended else store
        )
        self._now = now
        self._storage: TokenStorage | None = None
        self._sign_in: SignIn | None = None
        self._proofs: Proofs | None = None
        self._turn = asyncio.Lock()

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Implement `httpx2.Auth`: send a token; after a refusal, refresh it and send once more. Raises
        `OAuthFlowError`.
        """
        sign_in = await self._current()
        if self._is_due(sign_in):
            sign_in = await self._refreshed(sign_in)
        response = yield self._with_token(request, sign_in)
        if self._proofs is not None and self._proofs.wants_nonce(response):
            response = yield self._with_token(request, sign_in)
        if self._can_be_better(response, sign_in):
            sign_in = await self._refreshed(
                sign_in, response.headers.get("www-authenticate", "")
            )
            response = yield self._with_token(request, sign_in)
            if self._proofs is not None and self._proofs.wants_nonce(response):
                response = yield self._with_token(request, sign_in)
        await self._raise_refused(response, sign_in)

    def _is_due(self, sign_in: SignIn) -> bool:
        if sign_in.tokens is None:
            return self._config.sign_in.is_unattended
        return sign_in.has_ended(self._now() + EARLY_SECONDS)

    def _can_be_better(self, response: httpx2.Response, sign_in: SignIn) -> bool:
        """Return whether a request with new tokens may succeed after this refusal."""
        if self._config.sign_in.is_unattended:
            return response.status_code == 401 or _lacks_scope(response)
        return (
            response.status_code == 401
            and sign_in.tokens is not None
            and bool(sign_in.tokens.refresh_token)
        )

    async def _raise_refused(self, response: httpx2.Response, sign_in: SignIn) -> None:
        from mcp.client.auth import OAuthFlowError

        refusal = response.headers.get("www-authenticate", "")
        missing = _missing_scope(response)
        if self._config.sign_in.is_unattended:
            if response.status_code == 401:
                raise OAuthFlowError(
                    "the tokens that its authorization server gives are refused"
                )
            if _lacks_scope(response):
                raise OAuthFlowError(
                    f"its authorization server gives no tokens that allow this{missing}"
                )
            return
        if response.status_code == 401:
            raise OAuthFlowError(f"{await self._moved(sign_in)}{self._command()}")
        if _lacks_scope(response):
            await self._remember(refusal)
            raise OAuthFlowError(
                f"the sign-in does not allow this{missing}; {self._command()} asks for it"
            )

    async def _moved(self, sign_in: SignIn) -> str:
        """Return the beginning of a sentence if the authorization server has changed, else ""."""
        from mcpagent.mcp.auth.authority import named_authorities

        if sign_in.authority is None or sign_in.resource is None:
            return ""
        named = await named_authorities(self._config)
        was = str(sign_in.authority.issuer)
        if not named or any(found.rstrip("/") == was.rstrip("/") for found in named):
            return ""
        is_now = safe_line(named[0], 120)
        return f"its authorization server is {is_now} now, no longer {safe_line(was, 120)}: sign in there with "

    def _command(self) -> str:
        return f"mcpagent mcp login {shlex.quote(self._config.name)}"

    def _with_token(self, request: httpx2.Request, sign_in: SignIn) -> httpx2.Request:
        if sign_in.tokens is None:
            return request
        request.headers["Authorization"] = f"Bearer {sign_in.tokens.access_token}"
        if sign_in.proof_key is not None:
            if self._proofs is None or self._proofs.key != sign_in.proof_key:
                self._proofs = Proofs(sign_in.proof_key)
            self._proofs.add(request, sign_in.tokens.access_token)
        return request

    async def _remember(self, refusal: str) -> None:
        """Store the refusal, so that the next sign-in requests the missing permissions."""
        sign_in = await self._loaded()
        if self._storage is not None and sign_in.refusal != refusal[:_MAX_REFUSAL]:
            sign_in.refusal = refusal[:_MAX_REFUSAL]
            with contextlib.suppress(CredentialsError):
                await self._storage.save(sign_in)

    async def _current(self) -> SignIn:
        if self._sign_in is None:
            self._sign_in = await self._loaded()
        return self._sign_in

    async def _loaded(self) -> SignIn:
        from mcp.client.auth import OAuthFlowError

        from mcpagent.mcp.auth.sign_ins import TokenStorage

        self._storage = self._storage or TokenStorage(self._store, self._config.address)
        try:
            return await self._storage.load()
        except CredentialsError as error:
            raise OAuthFlowError(str(error)) from None

    async def _refreshed(self, used: SignIn, refusal: str = "") -> SignIn:
        """Return newer tokens than the `used` ones; `used` if they cannot be refreshed. Only one refresh runs at a
        time.
        """
        async with self._turn:
            if self._sign_in is not used and self._sign_in is not None:
                return self._sign_in
            stored = await self._loaded()
            if (
                stored.tokens is not None and stored.tokens != used.tokens
            ):  # another process has already refreshed them
                self._sign_in = stored
                return stored
            renew = (
                self._obtained(refusal)
                if self._config.sign_in.is_unattended
                else self._refresh(stored)
            )
            self._sign_in = await renew or stored
            return self._sign_in

    async def _obtained(self, refusal: str) -> SignIn:
        """Return new tokens from the configured grant; `refusal` is the server's header. Raises `OAuthFlowError`."""
        from mcpagent.mcp.auth.sign_in_flow import obtain

        assert self._storage is not None
        self._storage.saved.clear()
        missing = ""
        if "insufficient_scope" in refusal:
            missing = refusal
        if not missing:  # otherwise request the earlier scopes and the missing ones
            await self._storage.forget()
        await obtain(self._config, self._storage, refused=missing)
        return await self._loaded()

    async def _refresh(self, sign_in: SignIn) -> SignIn | None:
        """Return refreshed tokens; None if the server refuses. Raises `OAuthFlowError` if it cannot be reached."""
        from mcp.client.auth import OAuthFlowError
        from pydantic import ValidationError

        from mcpagent.mcp.sdk import OAuthToken

        tokens = sign_in.tokens
        if (
            tokens is None
            or tokens.refresh_token is None
            or sign_in.client is None
            or self._storage is None
        ):
            return None
        form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token}
        endpoint = token_endpoint(self._config.address, sign_in)
        response = await ask_authority(
            self._config, self._storage, sign_in, endpoint, form
        )
        if response.status_code in (400, 401, 403):
            return None
        try:
            if response.status_code != 200:
                raise ValueError(f"HTTP {response.status_code}")
            fresh = OAuthToken.model_validate_json(response.content)
        except (ValidationError, ValueError) as error:
            what = safe_line(str(error).splitlines()[0], 120)
            raise OAuthFlowError(
                f"the sign-in has ended and could not be renewed: {what}; try again later"
            ) from None
        # RFC 6749 6: fields that the response omits keep their values.
        fresh.refresh_token = fresh.refresh_token or tokens.refresh_token
        fresh.scope = fresh.scope or tokens.scope
        ends = None
        if fresh.expires_in is not None:
            ends = self._now() + fresh.expires_in
        known = {"tokens": fresh, "ends": ends, "proof_key": self._storage.proof_key}
        renewed = sign_in.model_copy(update=known)
        with contextlib.suppress(
            CredentialsError
        ):  # if it cannot be stored, this process still uses it
            await self._storage.save(renewed)
        return renewed


def _lacks_scope(response: httpx2.Response) -> bool:
    return response.status_code == 403 and "insufficient_scope" in response.headers.get(
        "www-authenticate", ""
    )


def _missing_scope(response: httpx2.Response) -> str:
    from mcpagent.mcp.sdk import extract_scope_from_www_auth

    scope = extract_scope_from_www_auth(response)
    if scope:
        return f": it lacks the scope {safe_line(scope, 120)}"
    return ""


class _Memory:
    """An in-memory store for sign-ins that need no user, since these can be repeated."""

    def __init__(self) -> None:
        self._text: str | None = None

    def get(self, name: str) -> str | None:  # noqa: ARG002
        return self._text

    def set(self, name: str, value: str) -> StoredSecret | None:  # noqa: ARG002
        self._text = value
        return None

    def remove(self, name: str) -> StoredSecret | None:  # noqa: ARG002
        self._text = None
        return None
