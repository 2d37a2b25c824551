"""Sign in to one remote server, and sign out again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthFlowError, OAuthRegistrationError
from pydantic import AnyUrl

from mcpagent.config import ServerConfig
from mcpagent.config.secret_store import SecretStore, StoredSecret
from mcpagent.errors import ServerError
from mcpagent.mcp.auth.api_authority import api_authority
from mcpagent.mcp.auth.authority import (
    ask_authority,
    authority_client,
    refusal_of,
    shown_address,
)
from mcpagent.mcp.auth.bound_sign_in import BoundSignIn
from mcpagent.mcp.auth.device import (
    DEVICE_CODE,
    SHORTEST_PAUSE,
    DeviceSignIn,
    ShowCode,
)
from mcpagent.mcp.auth.grants import ConfiguredSignIn
from mcpagent.mcp.auth.oauth import SIGN_IN_SECONDS, LoopbackPage
from mcpagent.mcp.auth.sign_ins import SignIn, TokenStorage
from mcpagent.mcp.sdk import (
    OAuthClientInformationFull,
    OAuthContext,
    OAuthMetadata,
    issuers_match,
)
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import revealed

Revoked: TypeAlias = Literal["revoked", "not offered", "failed"]

_PROBE = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_PROTOCOL = {
    "MCP-Protocol-Version": "2025-06-18",
    "Accept": "application/json, text/event-stream",
}


@dataclass(frozen=True, slots=True)
class Registration:
    """A client that was registered manually with the authorization server; `port` is that of its callback."""

    client_id: str
    secret: str | None = None
    port: int = 0


@dataclass(frozen=True, slots=True)
class SignedIn:
    """The outcome of a sign-in: the user signed in now, the stored tokens suffice, or the server needs none.

    `kept` is the location of the tokens if they were just stored. `moved` reports a changed authorization server, "" if
    it is the same.
    """

    how: Literal["now", "before", "not wanted"]
    kept: StoredSecret | None = None
    moved: str = ""


@dataclass(frozen=True, slots=True)
class SignedOut:
    """The outcome of a sign-out.

    `was_signed_in` is False if there was no sign-in. `revoked` is the result of the revocation at the server, `reason`
    why it failed.
    """

    was_signed_in: bool
    revoked: Revoked = "not offered"
    reason: str = ""


@asynccontextmanager
async def loopback_page(
    config: ServerConfig,
    store: SecretStore,
    show: Callable[[str], Awaitable[None]],
    registration: Registration | None = None,
    *,
    seconds: float = SIGN_IN_SECONDS,
) -> AsyncIterator[LoopbackPage]:
    """Open the page for a sign-in, on the registered port if that is free.

    The registration is not valid for another port, so on one the client registers again.
    """
    storage = TokenStorage(store, config.address)
    sign_in = await storage.load()
    if registration is not None:
        sign_in.client = None
    if registration is not None:
        port = registration.port
    else:
        port = _registered_port(sign_in.client)
    port = port or config.sign_in.callback_port
    async with LoopbackPage(show, port=port, seconds=seconds) as page:
        if registration is not None:
            if (
                registration.port
                and urlsplit(page.redirect_uri).port != registration.port
            ):
                what = f"port {registration.port} of this machine is taken; it is where the sign-in would come back to"
                raise ServerError(
                    f'server "{config.name}": {what}', server=config.name, phase="login"
                )
            sign_in.client = _registered_by_hand(registration, page.redirect_uri)
            await storage.save(sign_in)
        elif sign_in.client is not None and AnyUrl(page.redirect_uri) not in (
            sign_in.client.redirect_uris or ()
        ):
            sign_in.client = None
            await storage.save(sign_in)
        yield page


def _registered_port(client: OAuthClientInformationFull | None) -> int:
    if client is None or not client.redirect_uris:
        return 0
    return client.redirect_uris[0].port or 0


def _registered_by_hand(
    registration: Registration, redirect_uri: str | None
) -> OAuthClientInformationFull:
    """Return the OAuth client of a manual registration; without a redirect URI, one for the device grant (RFC 8628)."""
    redirect_uris = None
    grant_types = ["authorization_code", "refresh_token"]
    if redirect_uri is None:
        grant_types = [DEVICE_CODE, "refresh_token"]
    else:
        redirect_uris = [AnyUrl(redirect_uri)]
    return OAuthClientInformationFull(
        client_id=registration.client_id,
        client_secret=registration.secret,
        redirect_uris=redirect_uris,
        grant_types=grant_types,
        token_endpoint_auth_method=None
        if registration.secret
        else "none",  # replaced by a method that the authorization server accepts
    )


async def sign_in(
    config: ServerConfig, store: SecretStore, page: LoopbackPage
) -> SignedIn:
    """Sign in if the server requires it. Raises `ServerError` (phase "login") with the reason if that fails."""
    storage = TokenStorage(store, config.address)
    before = await storage.load()
    provider = ConfiguredSignIn(config, storage, page)
    provider.context.redirect_handler = partial(_show, page, config, provider.context)
    return await _outcome(config, provider, storage, before, page)


async def sign_in_by_device(
    config: ServerConfig,
    store: SecretStore,
    show: ShowCode,
    registration: Registration | None = None,
    *,
    shortest_pause: float = SHORTEST_PAUSE,
) -> SignedIn:
    """Sign in with a code that `show` shows to the user, who enters it on another device.

    Raises `ServerError` (phase "login") with the reason if that fails.
    """
    storage = TokenStorage(store, config.address)
    before = await storage.load()
    if registration is not None:
        before.client = _registered_by_hand(registration, None)
        await storage.save(before)
    elif before.client is not None and DEVICE_CODE not in before.client.grant_types:
        before.client = None
        await storage.save(before)
    provider = DeviceSignIn(config, storage, show, shortest_pause)
    return await _outcome(config, provider, storage, before, provider)


async def _outcome(
    config: ServerConfig,
    provider: ConfiguredSignIn,
    storage: TokenStorage,
    before: SignIn,
    shower: LoopbackPage | DeviceSignIn,
) -> SignedIn:
    """Run a sign-in that may show something to the user. Raises `ServerError` if it fails."""
    try:
        status = await _until_saved(config, provider, storage, before.refusal)
    except OAuthFlowError as error:
        raise _failed(config, f"signing in failed: {error}") from None
    if status is None:
        moved = authority_moved(before, provider.context.oauth_metadata)
        return SignedIn("now" if shower.was_shown else "before", storage.kept, moved)
    if status in (401, 403):
        raise _failed(
            config,
            f"refuses with HTTP {status} and offers no sign-in; give it a key in its headers",
        )
    return SignedIn("not wanted" if (await storage.load()).tokens is None else "before")


async def obtain(
    config: ServerConfig, storage: TokenStorage, *, refused: str = ""
) -> None:
    """Get tokens with a grant that needs no user, and store them.

    `refused` is a `WWW-Authenticate` header that names permissions that the stored tokens lack. Raises
    `OAuthFlowError`.
    """
    status = await _until_saved(
        config, ConfiguredSignIn(config, storage, None), storage, refused
    )
    if status is not None and status in (401, 403):
        raise OAuthFlowError(
            f"refuses with HTTP {status} and names no authorization server"
        )


async def _until_saved(
    config: ServerConfig,
    provider: ConfiguredSignIn,
    storage: TokenStorage,
    refused: str,
) -> int | None:
    """Send requests until tokens are stored (None), or the server responds without a sign-in (its status).

    Raises `OAuthFlowError`.
    """
    auth = BoundSignIn(provider, storage, wanted=config.sign_in.proof_of_possession)
    known = None
    if config.openapi:
        known = await asyncio.to_thread(api_authority, config)
    async with authority_client(config, auth, refused=refused, known=known) as client:
        asking = asyncio.create_task(_probe(client, config))
        saved = asyncio.create_task(storage.saved.wait())
        try:
            await asyncio.wait({asking, saved}, return_when=asyncio.FIRST_COMPLETED)
            if storage.saved.is_set():
                return None
            return await asking
        finally:
            for task in (asking, saved):
                task.cancel()
            await asyncio.gather(asking, saved, return_exceptions=True)


def authority_moved(before: SignIn, now: OAuthMetadata | None) -> str:
    """Return how the authorization server differs from that of the last sign-in; "" if it is the same."""
    if (
        before.authority is None
        or now is None
        or issuers_match(str(before.authority.issuer), str(now.issuer))
    ):
        return ""
    was, is_now = (
        safe_line(str(known.issuer), 120) for known in (before.authority, now)
    )
    return f"its authorization server is {is_now} now, no longer {was}"


async def _show(
    page: LoopbackPage, config: ServerConfig, context: OAuthContext, url: str
) -> None:
    """Show the page if the user may be sent there and the authorization server is safe to sign in with.

    The address that receives the code afterwards is checked first. Raises `OAuthFlowError`.
    """
    authority = context.oauth_metadata
    if authority is not None and "S256" not in (
        authority.code_challenge_methods_supported or ()
    ):
        # The specification requires it: a client must stop if it cannot know that its challenge is verified.
        raise OAuthFlowError(
            "its authorization server does not say that it supports PKCE with S256"
        )
    used = {"the page to sign in at": url}
    if authority is not None:
        used["its token endpoint"] = str(authority.token_endpoint)
    for name, address in used.items():
        refusal = refusal_of(address, config.address)
        if refusal is not None:
            raise OAuthFlowError(f"{name}, {shown_address(address)}, {refusal}")
    await page.show(url)


async def _probe(client: httpx2.AsyncClient, config: ServerConfig) -> int:
    """Return the status of the server's response; if the server refuses the request, the client signs in first."""
    headers = {
        **_PROTOCOL,
        **{name: revealed(text) for name, text in config.headers.items()},
    }
    try:
        if config.transport == "sse":
            response = await client.get(config.address, headers=headers)
        else:
            response = await client.post(config.address, json=_PROBE, headers=headers)
    except OAuthRegistrationError as error:
        hint = "a client registered there by hand can be given with --set client_id=ID"
        raise OAuthFlowError(f"{safe_line(str(error), 200)}; {hint}") from None
    except OAuthFlowError as error:
        raise OAuthFlowError(safe_line(str(error), 300)) from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise OAuthFlowError(
            safe_line(f"{type(error).__name__}: {error}", 200)
        ) from None
    except (
        Exception  # noqa: BLE001
    ) as error:  # the SDK raises any type of exception for an invalid response
        kind = type(error).__name__
        raise OAuthFlowError(f"an answer that cannot be used ({kind})") from None
    return response.status_code


def _failed(config: ServerConfig, what: str) -> ServerError:
    return ServerError(
        f'server "{config.name}": {what}', server=config.name, phase="login"
    )


async def sign_out(config: ServerConfig, store: SecretStore) -> SignedOut:
    """Revoke the tokens at the authorization server (RFC 7009), if it supports that, and delete the local copies."""
    storage = TokenStorage(store, config.address)
    kept = await storage.load()
    revoked, reason = await _revoke(config, storage, kept)
    if not await storage.forget():
        return SignedOut(False)
    return SignedOut(kept.tokens is not None, revoked, reason)


async def _revoke(
    config: ServerConfig, storage: TokenStorage, kept: SignIn
) -> tuple[Revoked, str]:
    endpoint = None
    if kept.authority is not None:
        endpoint = kept.authority.revocation_endpoint
    if kept.tokens is None or endpoint is None:
        return "not offered", ""
    # The refresh token first: revoking it ends the other tokens at most servers.
    for kind, token in (
        ("refresh_token", kept.tokens.refresh_token),
        ("access_token", kept.tokens.access_token),
    ):
        if token is None or (kind == "access_token" and kept.has_ended(time.time())):
            continue
        form = {"token": token, "token_type_hint": kind}
        try:
            response = await ask_authority(config, storage, kept, str(endpoint), form)
        except OAuthFlowError as error:
            return "failed", safe_line(str(error), 200)
        if response.status_code != 200:
            return "failed", f"HTTP {response.status_code}"
    return "revoked", ""
