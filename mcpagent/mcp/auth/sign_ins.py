"""Store the result of a sign-in to a remote server, as one secret for each server's address.

It is used for that address only, not for another origin, port or path.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

from pydantic import (
    BaseModel,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from mcpagent.config.secret_store import StoredSecret
from mcpagent.mcp.auth.dpop import ProofKey
from mcpagent.mcp.sdk import (
    OAuthClientInformationFull,
    OAuthContext,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcpagent.utilities.text.secrets import hide


def address_name(url: str) -> str:
    """Return a name for the server's address in which secret parts of the query are replaced by a hash."""
    parts = urlsplit(url)
    if parts.query:
        query = f"#{hashlib.sha256(parts.query.encode()).hexdigest()[:12]}"
    else:
        query = ""
    return (
        urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        + query
    )


class SignIn(BaseModel):
    """The stored result of a sign-in.

    - `tokens`, and `ends`: the expiry of the access token (`time.time()`), None if unknown.
    - `client`: the client's registration.
    - `authority`, `resource`: the metadata of the authorization server (RFC 8414) and of the protected resource (RFC
      9728).
    - `refusal`: the last `WWW-Authenticate` header that reported insufficient permissions.
    - `proof_key`: the key that the tokens require, if any.
    """

    tokens: OAuthToken | None = Field(default=None, repr=False)
    ends: float | None = None
    client: OAuthClientInformationFull | None = Field(default=None, repr=False)
    authority: OAuthMetadata | None = None
    resource: ProtectedResourceMetadata | None = None
    refusal: str = ""
    proof_key: ProofKey | None = Field(default=None, repr=False)

    @field_validator("*", mode="wrap")
    @classmethod
    def _or_nothing(
        cls, value: Any, read: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        """Replace an invalid part by its default."""
        try:
            return read(value)
        except ValidationError:
            return cls.model_fields[info.field_name or ""].default

    def has_ended(self, now: float) -> bool:
        """Return whether the access token has expired."""
        return self.ends is not None and now >= self.ends

    def hide(self) -> None:
        """Register the tokens, the client secret and the private key for redaction in all output."""
        if self.tokens is not None:
            hide(self.tokens.access_token, self.tokens.refresh_token)
        if self.client is not None:
            hide(self.client.client_secret)
        if self.proof_key is not None:
            hide(self.proof_key.pem)

    def to_text(self) -> str:
        """Return the sign-in as JSON, without empty parts."""
        return self.model_dump_json(
            exclude_none=True, exclude=None if self.refusal else {"refusal"}
        )

    @classmethod
    def from_text(cls, text: str) -> SignIn:
        """Create a sign-in from the result of `to_text`; invalid parts are ignored."""
        try:
            return cls.model_validate_json(text)
        except ValidationError:
            return cls()


class Secrets(Protocol):
    """A store for the texts of sign-ins, by the server's address."""

    def get(self, name: str) -> str | None:
        """Return the stored text, or None."""

    def set(self, name: str, value: str) -> StoredSecret | None:
        """Store the text; return its location, if there is one."""

    def remove(self, name: str) -> StoredSecret | None:
        """Remove the text; return its location, None if there was none."""


@dataclass
class TokenStorage:
    """The sign-in to one server, with the storage interface of the SDK's clients.

    `context` is the SDK client that uses it. The data about the server that it discovers is stored with the tokens and
    restored, so that a later process can refresh them. `proof_key` is the key that new tokens require.
    """

    store: Secrets
    url: str
    context: OAuthContext | None = field(default=None, repr=False)
    kept: StoredSecret | None = None
    proof_key: ProofKey | None = field(default=None, repr=False)
    saved: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def name(self) -> str:
        """The name of the sign-in in the store."""
        return address_name(self.url)

    async def load(self) -> SignIn:
        """Return the stored sign-in; an empty one if there is none. Raises `CredentialsError` if the keyring fails."""
        text = await asyncio.to_thread(self.store.get, self.name)
        if text is not None:
            sign_in = SignIn.from_text(text)
        else:
            sign_in = SignIn()
        sign_in.hide()
        return sign_in

    async def save(self, sign_in: SignIn) -> None:
        """Store the sign-in. Raises `CredentialsError` if that fails."""
        sign_in.hide()
        self.kept = await asyncio.to_thread(
            self.store.set, self.name, sign_in.to_text()
        )

    async def forget(self) -> bool:
        """Delete the stored sign-in. Return False if there was none to delete."""
        return await asyncio.to_thread(self.store.remove, self.name) is not None

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens to the SDK, and restore the data that an earlier process discovered."""
        sign_in = await self.load()
        if self.context is not None and sign_in.tokens is not None:
            self.context.token_expiry_time = sign_in.ends
            self.context.oauth_metadata = (
                self.context.oauth_metadata or sign_in.authority
            )
            self.context.protected_resource_metadata = (
                self.context.protected_resource_metadata or sign_in.resource
            )
        return sign_in.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store new tokens from the SDK, with their expiry and the discovered data."""
        sign_in = await self.load()
        sign_in.tokens = tokens
        sign_in.refusal = ""
        sign_in.proof_key = self.proof_key
        if tokens.expires_in is not None:
            sign_in.ends = time.time() + tokens.expires_in
        else:
            sign_in.ends = None
        if self.context is not None:
            sign_in.authority = self.context.oauth_metadata or sign_in.authority
            sign_in.resource = (
                self.context.protected_resource_metadata or sign_in.resource
            )
        await self.save(sign_in)
        self.saved.set()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the client's registration to the SDK."""
        return (await self.load()).client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store a registration that the SDK made."""
        sign_in = await self.load()
        sign_in.client = client_info
        await self.save(sign_in)
