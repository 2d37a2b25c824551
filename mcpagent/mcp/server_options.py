"""The options that all MCP servers of one agent share, and the set of options that `mcpagent chat` uses."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeAlias

from mcpagent.config import ServerConfig, cache_folder, state_folder
from mcpagent.config.secret_store import token_store
from mcpagent.mcp.handlers import Handlers
from mcpagent.mcp.lists.list_cache import ListCache
from mcpagent.mcp.lists.pins import AllowChange, PinStore
from mcpagent.utilities.python.argument_checks import (
    expect,
    expect_fields,
    expect_names,
)
from mcpagent.utilities.python.unknown_arguments import answers_unknown_arguments

if TYPE_CHECKING:
    import httpx2

Authenticate: TypeAlias = Callable[[ServerConfig], "httpx2.Auth | None"]
"""Callback that returns a remote server's authentication, None for none. It is called when connecting, because it may
load packages.
"""

QUESTION_SECONDS = 30.0
"""Default of `question_seconds`: how long a prompt waits for connecting servers."""

STALE_SECONDS = 30 * 24 * 3600.0
"""How long expired lists are still used, while they are read again in the background."""


@answers_unknown_arguments
@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The options that all servers of one agent share; by default, nothing is stored or allowed. See also `stored`.

    - `selected_servers`, `selected_tools` (`server:tool`, `server:*`): restrict the servers and tools; None: all.
    - `startup_seconds`: how long the start of the agent waits for slow servers (None: until each is ready or has
      failed, 0: not at all). Slower ones join when they are ready.
    - `question_seconds`: how long a prompt waits in total for servers that are still connecting, including in searches
      without a good result (None and 0 as above). Then the model is informed about these servers, and the next prompt
      does not wait for the same attempt again.
    - `cache`: a known server's lists are read from disk, and it is started by its first call, or in the background if
      `eager` or its own configuration requires it.
    - `pins`: a tool that its server changed since its first use is called only if `allow_change` permits it.
    - `handlers`: define which requests servers may send (none by default), for all servers or for each one.
    - `auth`: returns the authentication for a remote server (`stored_sign_ins`).
    - `log_folder`: the folder for the standard error of servers (`mcpagent.mcp.transports.server_log.log_path`).
    """

    selected_servers: Sequence[str] | None = None
    selected_tools: Sequence[str] | None = None
    startup_seconds: float | None = 10.0
    question_seconds: float | None = QUESTION_SECONDS
    cache: ListCache | None = None
    eager: bool = False
    pins: PinStore | None = None
    allow_change: AllowChange | None = None
    handlers: Handlers | Callable[[ServerConfig], Handlers | None] | None = None
    auth: Authenticate | None = None
    log_folder: Path | None = None

    def __post_init__(self) -> None:
        for name in ("selected_servers", "selected_tools"):
            if getattr(self, name) is not None:
                expect_names(name, getattr(self, name))
        expect_fields(self)
        for name in ("startup_seconds", "question_seconds"):
            expect(
                name,
                getattr(self, name),
                (int, float, NoneType),
                "a number of seconds, 0 or more, or None",
                holds=lambda seconds: seconds is None or seconds >= 0,
            )

    @classmethod
    def stored(
        cls, environ: Mapping[str, str] | None = None, **others: Any
    ) -> ServerOptions:
        """Return the options of `mcpagent chat`, which store data in the same folders of the user, so that both share
        it.

        Lists are read from the cache, and old ones again in the background. Tools are pinned, sign-ins of `mcpagent mcp
        login` are used, and the output of servers is written to log files. `environ` determines the folders
        (`mcpagent.utilities.filesystem.user_folders`), None: this process's environment. Any option can be overridden:
        `ServerOptions.stored(pins=None)`. This function itself reads and writes nothing.
        """
        expect("environ", environ, (Mapping, NoneType), "a dict or None")
        if environ is None:
            environ = os.environ
        kept = cls(
            cache=stored_lists(environ),
            pins=PinStore(state_folder(environ) / "pins"),
            auth=stored_sign_ins(environ),
            log_folder=server_log_folder(environ),
        )
        return replace(kept, **others)


def stored_lists(
    environ: Mapping[str, str], *, stale_seconds: float = STALE_SECONDS
) -> ListCache:
    """Return the user's cache of servers' lists."""
    return ListCache(cache_folder(environ) / "catalog", stale_seconds=stale_seconds)


def server_log_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the user's log files of servers (`server_log.log_path`)."""
    return state_folder(environ) / "logs"


def stored_sign_ins(environ: Mapping[str, str] | None = None) -> Authenticate:
    """Return a function for `ServerOptions(auth=...)` that uses and refreshes stored sign-ins; it never opens a page.

    If a server's configuration has an `Authorization` header, it returns None for it.
    """
    store = token_store(os.environ if environ is None else environ)

    def authenticate(config: ServerConfig) -> httpx2.Auth | None:
        if any(name.lower() == "authorization" for name in config.headers):
            return None
        from mcpagent.mcp.auth.stored_auth import StoredSignIn

        return StoredSignIn(config, store)

    return authenticate


def unattended_sign_in(config: ServerConfig) -> httpx2.Auth | None:
    """Return the authentication for an agent without `auth`, if the server's sign-in needs no user; else None."""
    if not config.sign_in.is_unattended:
        return None
    from mcpagent.mcp.auth.stored_auth import StoredSignIn

    return StoredSignIn(config)
