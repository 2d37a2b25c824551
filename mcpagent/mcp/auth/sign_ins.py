"""What signing in to a remote server brought, kept as one secret for each server's address.

It is read for that address only: another origin, port or path has none of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit, urlunsplit

from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken, ProtectedResourceMetadata
from pydantic import BaseModel, ValidationError, ValidationInfo, ValidatorFunctionWrapHandler, field_validator

from mcpagent.config.secret_store import Kept
from mcpagent.mcp.auth.dpop import ProofKey
from mcpagent.text.secrets import hide

if TYPE_CHECKING:
    from mcp.client.auth.oauth2 import OAuthContext


def address_name(url: str) -> str:
    """The server's address as a name: without what a query may hold of secrets."""
    parts = urlsplit(url)
    query = f"#{hashlib.sha256(parts.query.encode()).hexdigest()[:12]}" if parts.query else ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")) + query


class SignIn(BaseModel):
    """The tokens, when the access token ends (`time.time()`), who we are to the authorization server, and that server's
    own description (RFC 8414) with the one of the protected resource (RFC 9728).

    `refusal` is the `WWW-Authenticate` header with which the server last said that the tokens do not allow enough.
    `proof_key` is what the tokens are bound to, if they are.
    """

    tokens: OAuthToken | None = None
    ends: float | None = None
    client: OAuthClientInformationFull | None = None
    authority: OAuthMetadata | None = None
    resource: ProtectedResourceMetadata | None = None
    refusal: str = ""
    proof_key: ProofKey | None = None

    @field_validator("*", mode="wrap")
    @classmethod
    def _or_nothing(cls, value: Any, read: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        """A broken part counts as none."""
        try:
            return read(value)
        except ValidationError:
            return cls.model_fields[info.field_name or ""].default

    def has_ended(self, now: float) -> bool:
        """Whether the access token is of no use any more."""
        return self.ends is not None and now >= self.ends

    def hide(self) -> None:
        """Keeps its secrets out of all that is shown from now on."""
        if self.tokens is not None:
            hide(self.tokens.access_token, self.tokens.refresh_token)
        if self.client is not None:
            hide(self.client.client_secret)
        if self.proof_key is not None:
            hide(self.proof_key.pem)

    def to_text(self) -> str:
        """As JSON, without what there is nothing of."""
        return self.model_dump_json(exclude_none=True, exclude=None if self.refusal else {"refusal"})

    @classmethod
    def from_text(cls, text: str) -> SignIn:
        """What of `to_text` can be read."""
        try:
            return cls.model_validate_json(text)
        except ValidationError:
            return cls()


class Secrets(Protocol):
    """Where a sign-in is kept, as text under the server's address."""

    def get(self, name: str) -> str | None:
        """What is kept; None if nothing is."""

    def set(self, name: str, value: str) -> Kept | None:
        """Keeps it; says where, if that is anywhere."""

    def remove(self, name: str) -> Kept | None:
        """Says where it was; None if there was nothing."""


@dataclass
class TokenStorage:
    """The sign-in to one server, as the SDK's clients store theirs.

    `context` is the SDK client that uses it: what that found out about the server is kept with the tokens and given
    back to it, so that a later process can refresh them. `proof_key` is what new tokens are bound to.
    """

    store: Secrets
    url: str
    context: OAuthContext | None = field(default=None, repr=False)
    kept: Kept | None = None
    proof_key: ProofKey | None = field(default=None, repr=False)
    saved: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def name(self) -> str:
        """Under which it is kept in the store."""
        return address_name(self.url)

    async def load(self) -> SignIn:
        """Raises `CredentialsError` if the keyring does not give it."""
        text = await asyncio.to_thread(self.store.get, self.name)
        sign_in = SignIn.from_text(text) if text is not None else SignIn()
        sign_in.hide()
        return sign_in

    async def save(self, sign_in: SignIn) -> None:
        """Raises `CredentialsError` if it cannot be kept."""
        sign_in.hide()
        self.kept = await asyncio.to_thread(self.store.set, self.name, sign_in.to_text())

    async def forget(self) -> bool:
        """False if there was nothing."""
        return await asyncio.to_thread(self.store.remove, self.name) is not None

    async def get_tokens(self) -> OAuthToken | None:
        """For the SDK, which also gets what else an earlier process found out."""
        sign_in = await self.load()
        if self.context is not None and sign_in.tokens is not None:
            self.context.token_expiry_time = sign_in.ends
            self.context.oauth_metadata = self.context.oauth_metadata or sign_in.authority
            self.context.protected_resource_metadata = self.context.protected_resource_metadata or sign_in.resource
        return sign_in.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """From the SDK: new tokens, with when they end and what it found out."""
        sign_in = await self.load()
        sign_in.tokens = tokens
        sign_in.refusal = ""
        sign_in.proof_key = self.proof_key
        sign_in.ends = time.time() + tokens.expires_in if tokens.expires_in is not None else None
        if self.context is not None:
            sign_in.authority = self.context.oauth_metadata or sign_in.authority
            sign_in.resource = self.context.protected_resource_metadata or sign_in.resource
        await self.save(sign_in)
        self.saved.set()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """For the SDK: who we are to the authorization server."""
        return (await self.load()).client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """From the SDK: a registration that it made."""
        sign_in = await self.load()
        sign_in.client = client_info
        await self.save(sign_in)
