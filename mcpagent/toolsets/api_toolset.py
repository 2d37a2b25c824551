"""An HTTP API as a source of tools, from its OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mcpagent.config import ServerConfig
from mcpagent.config.server_config import SignInConfig
from mcpagent.errors import ConfigError
from mcpagent.utilities.python.argument_checks import checked
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import Secret


@checked()
def openapi_toolset(
    source: str | Path | Mapping[str, Any],
    *,
    base_url: str = "",
    auth: str
    | Secret
    | tuple[str, str]
    | Mapping[str, str | Secret]
    | SignInConfig
    | None = None,
    only: Sequence[str] = (),
    name: str = "",
    **options: Any,
) -> ServerConfig:
    """Return an HTTP API as a server whose tools are its operations, for `Agent(tools=[...])`.

    Args:
        source: The path or URL of an OpenAPI 3.x or Swagger 2.0 document, in JSON or YAML, or the document itself.
        base_url: The address of the API; by default the one in the document. Requests go only to its origin.
        auth: A key or token; a pair of user and password; a mapping from security schemes of the document, or from
            further origins that requests may go to, to these; or a sign-in.
        only: Globs of the operations to use, by name; by default all.
        name: The name of the server; by default made from the title, the host or the file name.
        options: Further fields of `McpServer`, such as `approval` or `defer_loading`.

    Raises `ConfigError` for arguments that no server can have. A document that cannot be used is reported when the
    agent starts, like a server that cannot.
    """
    credentials: dict[str, str | Secret] = {}
    sign_in = SignInConfig()
    if isinstance(auth, SignInConfig):
        sign_in = auth
    elif isinstance(auth, tuple):
        credentials = {"*": ":".join(auth)}
    elif isinstance(auth, Mapping):
        credentials = dict(auth)
    elif auth is not None:
        credentials = {"*": auth}
    if sign_in != SignInConfig() and not base_url:
        raise ConfigError(
            "openapi_toolset: a sign-in needs base_url, the address of the API"
        )
    document = source if isinstance(source, Mapping) else str(source)
    return ServerConfig(
        name or _name_of(document, base_url),
        openapi=document,
        url=base_url,
        credentials=credentials,
        sign_in=sign_in,
        enabled_tools=tuple(only),
        **options,
    )


def _name_of(source: str | Mapping[str, Any], base_url: str) -> str:
    if isinstance(source, Mapping):
        info = source.get("info")
        found = str(info.get("title") or "") if isinstance(info, Mapping) else ""
    else:
        found = urlsplit(source).hostname or Path(source).stem
    name = (
        re.sub(r"[^A-Za-z0-9]+", "-", found or urlsplit(base_url).hostname or "")
        .strip("-")
        .lower()[:40]
    )
    if not name:
        raise ConfigError(
            f"openapi_toolset: no name can be made of {safe_line(str(found), 40)!r}; give name="
        )
    return name
