"""What signing in to a remote server brought, kept as one secret for each server's address.

It is read for that address only: another origin, port or path has none of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import BaseModel, ValidationError

from mcpagent.known_secrets import hide
from mcpagent.secret_store import Kept, SecretStore

if TYPE_CHECKING:
    from mcp.client.auth.oauth2 import OAuthContext

Model = TypeVar("Model", bound=BaseModel)


def address_name(url: str) -> str:
    """The server's address as a name: without what a query may hold of secrets."""
    parts = urlsplit(url)
    query = f"#{hashlib.sha256(parts.query.encode()).hexdigest()[:12]}" if parts.query else ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")) + query


@dataclass(slots=True)
class SignIn:
    """The tokens, when the access token ends (`time.time()`), who we are to the authorization server, and that server's
    own description (RFC 8414) with the one of the protected resource (RFC 9728).

    `refusal` is the `WWW-Authenticate` header with which the server last said that the tokens do not allow enough.
    """

    tokens: OAuthToken | None = None
    ends: float | None = None
    client: OAuthClientInformationFull | None = None
    authority: OAuthMetadata | None = None
    resource: ProtectedResourceMetadata | None = None
    refusal: str = ""

    def has_ended(self, now: float) -> bool:
        return self.ends is not None and now >= self.ends

    def hide(self) -> None:
        """Keeps its secrets out of all that is shown from now on."""
        if self.tokens is not None:
            hide(self.tokens.access_token, self.tokens.refresh_token)
        if self.client is not None:
            hide(self.client.client_secret)

    def to_text(self) -> str:
        parts = {
            "tokens": self.tokens,
            "client": self.client,
            "authority": self.authority,
            "resource": self.resource,
        }
        data: dict[str, Any] = {
            key: value.model_dump(mode="json", exclude_none=True) for key, value in parts.items() if value is not None
        }
        data |= {"ends": self.ends} if self.ends is not None else {}
        return json.dumps(data | ({"refusal": self.refusal} if self.refusal else {}))

    @classmethod
    def from_text(cls, text: str) -> SignIn:
        """What of it can be read; a broken part counts as none."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            return cls()
        if not isinstance(data, dict):
            return cls()
        ends, refusal = data.get("ends"), data.get("refusal")
        return cls(
            tokens=_part(data, "tokens", OAuthToken),
            ends=float(ends) if isinstance(ends, int | float) else None,
            client=_part(data, "client", OAuthClientInformationFull),
            authority=_part(data, "authority", OAuthMetadata),
            resource=_part(data, "resource", ProtectedResourceMetadata),
            refusal=refusal if isinstance(refusal, str) else "",
        )


def _part(data: dict[str, Any], key: str, kind: type[Model]) -> Model | None:
    try:
        return kind.model_validate(data[key])
    except (KeyError, ValidationError):
        return None


@dataclass
class TokenStorage:
    """The sign-in to one server, as the SDK's clients store theirs.

    `context` is the SDK client that uses it: what that found out about the server is kept with the tokens and given
    back to it, so that a later process can refresh them.
    """

    store: SecretStore
    url: str
    context: OAuthContext | None = field(default=None, repr=False)
    kept: Kept | None = None
    saved: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def name(self) -> str:
        return address_name(self.url)

    async def load(self) -> SignIn:
        """Raises `CredentialsError` where the keyring does not give it."""
        text = await asyncio.to_thread(self.store.get, self.name)
        sign_in = SignIn.from_text(text) if text is not None else SignIn()
        sign_in.hide()
        return sign_in

    async def save(self, sign_in: SignIn) -> None:
        sign_in.hide()
        self.kept = await asyncio.to_thread(self.store.set, self.name, sign_in.to_text())

    async def forget(self) -> bool:
        """False where there was nothing."""
        return await asyncio.to_thread(self.store.remove, self.name) is not None

    async def get_tokens(self) -> OAuthToken | None:
        sign_in = await self.load()
        if self.context is not None and sign_in.tokens is not None:
            self.context.token_expiry_time = sign_in.ends
            self.context.oauth_metadata = self.context.oauth_metadata or sign_in.authority
            self.context.protected_resource_metadata = self.context.protected_resource_metadata or sign_in.resource
        return sign_in.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        sign_in = await self.load()
        sign_in.tokens = tokens
        sign_in.refusal = ""
        sign_in.ends = time.time() + tokens.expires_in if tokens.expires_in is not None else None
        if self.context is not None:
            sign_in.authority = self.context.oauth_metadata or sign_in.authority
            sign_in.resource = self.context.protected_resource_metadata or sign_in.resource
        await self.save(sign_in)
        self.saved.set()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return (await self.load()).client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        sign_in = await self.load()
        sign_in.client = client_info
        await self.save(sign_in)
