"""The start of a session, in which the era of 2026-07-28 and later differs from the one before."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.client.session import ClientSession
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp_types import UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from mcpagent.config import Era


async def agree_on_era(session: ClientSession, era: Era) -> None:
    """Has a session agree with its server on a version of the protocol.

    It asks by `server/discover` unless the era is known to be the earlier one; what is no sign of the later one, an
    error included, leads to `initialize`. Raises `MCPError` if they have no version in common, and as that does.
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
            # Our question may have reached, in the end, a server that was slow to start: now it speaks the later era.
            if not (common := _common(_named(error))) or asked == 2:
                raise
            version = common
    await session.initialize()


async def ask_for_news(session: ClientSession, uris: Sequence[str]) -> None:
    """Asks a server of the later era to notify us of changes to its lists and to these resources, until it is
    cancelled; one of the earlier era does for its lists unasked. What changes is seen by the relay as it passes."""
    can = session.server_capabilities or types.ServerCapabilities()
    tools, prompts, resources = (bool(kind and kind.list_changed) for kind in (can.tools, can.prompts, can.resources))
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
    """What a server says of itself, if it names a version of the later era that we speak."""
    try:
        found = types.DiscoverResult.model_validate(raw)
    except ValidationError:
        return None
    return found if _common(found.supported_versions) else None


def _named(error: MCPError) -> list[str]:
    """The versions by which a server says that it does not speak ours."""
    if error.code != UNSUPPORTED_PROTOCOL_VERSION:
        return []
    try:
        return list(types.UnsupportedProtocolVersionErrorData.model_validate(error.error.data).supported)
    except ValidationError:
        return []


def _common(versions: list[str]) -> str:
    """The newest of the later era that we speak too; empty if there is none."""
    return next((version for version in reversed(MODERN_PROTOCOL_VERSIONS) if version in versions), "")
