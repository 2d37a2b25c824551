"""How remote servers are signed in to without a person: with what `mcpagent mcp login` kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mcpagent.config import ServerConfig
from mcpagent.secret_store import token_store

if TYPE_CHECKING:
    import httpx2

    from mcpagent.mcp.opening import Authenticate


def stored_sign_ins(environ: Mapping[str, str] | None = None) -> Authenticate:
    """For `ServerOptions(auth=...)`: what was signed in to is used and refreshed, no page is ever opened.

    A server whose configuration has an `Authorization` header is left alone.
    """
    store = token_store(os.environ if environ is None else environ)

    def authenticate(config: ServerConfig) -> httpx2.Auth | None:
        if any(name.lower() == "authorization" for name in config.headers):
            return None
        from mcpagent.mcp.stored_auth import StoredSignIn

        return StoredSignIn(config, store)

    return authenticate
