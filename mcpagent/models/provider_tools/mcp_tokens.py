"""Read the tokens that a provider sends to remote MCP servers, for each request; the tools themselves do not store
them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from mcpagent.config.secret_store import with_stored_keys
from mcpagent.config.variables import UnusableError, Variables, expand
from mcpagent.errors import CredentialsError
from mcpagent.models.provider_tools.provider_tool_values import (
    ProviderMcp,
    ProviderTool,
)
from mcpagent.utilities.text.secrets import hide, revealed


def names_tokens(tools: Iterable[ProviderTool]) -> bool:
    """Return whether any of the tools has a token."""
    return any(isinstance(tool, ProviderMcp) and tool.authorization for tool in tools)


def read_tokens(tools: Iterable[ProviderTool]) -> dict[ProviderTool, str]:
    """Return the tokens by tool. A name would not be enough: agents that share a model may have different servers of
    one name.

    From now on, the tokens are redacted in all output and stores. May wait for a keyring. Raises `CredentialsError` for
    a reference that cannot be resolved, or an invalid token.
    """
    environ = with_stored_keys(os.environ)
    tokens: dict[ProviderTool, str] = {}
    for tool in tools:
        if isinstance(tool, ProviderMcp) and tool.authorization:
            where = f'ProviderMcp "{tool.name}": authorization'
            try:
                token = revealed(
                    expand(
                        revealed(tool.authorization),
                        (),
                        Variables(environ, Path(), environ.secret),
                    )
                ).strip()
            except UnusableError as error:
                raise CredentialsError(f"{where}: {error.what}") from None
            if not token or not token.isascii() or not token.isprintable():
                raise CredentialsError(
                    f"{where}: what it stands for is no token; set it again"
                )
            hide(token)
            tokens[tool] = token
    return tokens
