"""What one server lists, as last seen: from the cache at first, then from the server; what changed is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from mcpagent.config import ServerConfig
from mcpagent.events import Emit, Notice
from mcpagent.mcp.cache import CachedServer, ListCache
from mcpagent.mcp.lists import ServerLists, ToolsDifference, difference
from mcpagent.messages import ToolDefinition
from mcpagent.safe_text import safe_line


class KnownLists:
    """`current` is all that is listed, `tools` what of it the configuration enables; both are replaced, not changed.

    `on_changed` is told of each difference but the first.
    """

    def __init__(
        self,
        config: ServerConfig,
        cache: ListCache | None,
        emit: Emit,
        on_changed: Callable[[ToolsDifference], None],
    ) -> None:
        self._config = config
        self._cache = cache
        self._emit = emit
        self._on_changed = on_changed
        self._was_listed = False
        self._taken = 0.0
        self.current = ServerLists()
        self.tools: tuple[ToolDefinition, ...] = ()

    def load(self) -> CachedServer | None:
        """Takes the lists from the cache, and gives what else it knows of the server."""
        cached = None if self._cache is None else self._cache.load(self._config)
        if cached is not None:
            self._replace(cached.lists)
        return cached

    def take(self, server: CachedServer) -> None:
        """The lists as the server has them now: kept for the next start, and told where they are not as they were."""
        before, was_listed = self.tools, self._was_listed
        self._replace(server.lists)
        if self._cache is not None:
            self._cache.save(self._config, server)
        if was_listed and (change := difference(self._config.name, before, self.tools)):
            self._emit(Notice(safe_line(str(change), 300)))
            self._on_changed(change)

    @property
    def is_old(self) -> bool:
        """Whether the server said that its list is good for less time than it is known."""
        return 0 < self.current.ttl_seconds < time.monotonic() - self._taken

    def forget(self) -> None:
        """The next start asks the server."""
        if self._cache is not None:
            self._cache.drop(self._config)

    def _replace(self, lists: ServerLists) -> None:
        self.current = lists
        self._taken = time.monotonic()
        self._was_listed = True
        config = self._config
        if config.enabled_tools or config.disabled_tools:
            self.tools = tuple(tool for tool in lists.tools if _is_enabled(tool.original_name, config))
        else:
            self.tools = lists.tools


def matches(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _is_enabled(name: str, config: ServerConfig) -> bool:
    is_named = not config.enabled_tools or matches(name, config.enabled_tools)
    return is_named and not matches(name, config.disabled_tools)
