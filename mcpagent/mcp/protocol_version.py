"""Start a session, which differs between protocol versions before and since 2026-07-28."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import mcp_types as types
from mcp import ClientSession, MCPError
from mcp_types import UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_MODERN_VERSION,
    MODERN_PROTOCOL_VERSIONS,
)
from pydantic import ValidationError

from mcpagent.config import Era
from mcpagent.mcp.sdk import SubscriptionLost, listen


async def agree_on_era(session: ClientSession, era: Era) -> None:
    """Agree with the server on a protocol version.

    It sends `server/discover`, unless the server is known to use the earlier protocol. Any response that does not
    indicate the later protocol, including errors, leads to `initialize`. Raises `MCPError` if that fails, or if there
    is no common version.
    """
    version, asked = LATEST_MODERN_VERSION, 0
    while era == "auto" and asked < 2:
        asked += 1
        try:
            found = _discovered(await session.send_discover(version))
            if found is not None:
                session.adopt(found)
                return
        except MCPError as error:
            named = _named(error)
            if (common := _common(named)) and asked == 1:
                version = common
                continue
            if named and not set(named) & set(HANDSHAKE_PROTOCOL_VERSIONS):
                raise
        try:
            await session.initialize()
            return
        except MCPError as error:
            # The first probe may have reached a server that was slow to start, which now uses the later protocol.
            if not (common := _common(_named(error))) or asked == 2:
                raise
            version = common
    await session.initialize()


async def ask_for_news(session: ClientSession, uris: Sequence[str]) -> None:
    """Subscribe to changes of the server's lists and of these resources, until cancelled.

    Only the later protocol needs this; in the earlier one, servers send changes of lists without a subscription. The
    dispatcher receives the notifications.
    """
    can = session.server_capabilities or types.ServerCapabilities()
    tools, prompts, resources = (
        bool(kind and kind.list_changed)
        for kind in (can.tools, can.prompts, can.resources)
    )
    if not (tools or prompts or resources or uris):
        return
    listening = listen(
        session,
        tools_list_changed=tools,
        prompts_list_changed=prompts,
        resources_list_changed=resources,
        resource_subscriptions=uris,
    )
    with contextlib.suppress(MCPError, SubscriptionLost, TimeoutError, RuntimeError):
        async with listening as subscription:
            async for _ in subscription:
                pass


def _discovered(raw: dict[str, Any]) -> types.DiscoverResult | None:
    """Return the server's discovery result if it names a supported version of the later protocol; else None."""
    try:
        found = types.DiscoverResult.model_validate(raw)
    except ValidationError:
        return None
    if _common(found.supported_versions):
        return found
    return None


def _named(error: MCPError) -> list[str]:
    """Return the versions that the server supports, from its error about an unsupported version; else []."""
    if error.code != UNSUPPORTED_PROTOCOL_VERSION:
        return []
    try:
        return list(
            types.UnsupportedProtocolVersionErrorData.model_validate(
                error.error.data
            ).supported
        )
    except ValidationError:
        return []


def _common(versions: list[str]) -> str:
    """Return the newest common version of the later protocol, or ""."""
    return next(
        (
            version
            for version in reversed(MODERN_PROTOCOL_VERSIONS)
            if version in versions
        ),
        "",
    )
