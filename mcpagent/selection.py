"""Which servers and tools an agent takes of all that are configured."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from mcpagent.errors import ConfigError
from mcpagent.tools import Tool


class Selection:
    """`servers` by name; `tools` as `server:tool` or `server:*` (fnmatch patterns on the server's own tool names).

    Both None: everything. With `tools`, only what it names is taken, and only servers that it names are needed.
    """

    def __init__(self, servers: Sequence[str] | None, tools: Sequence[str] | None) -> None:
        for name, value in (("selected_servers", servers), ("selected_tools", tools)):
            if isinstance(value, str):
                raise ConfigError(f'{name}: expected a list of names, got a string; write ["{value}"]')
        self._servers = None if servers is None else frozenset(servers)
        self._patterns: tuple[tuple[str, str], ...] | None = None
        if tools is not None:
            self._patterns = tuple(_parse(item) for item in tools)

    def check(self, configured: Iterable[str]) -> None:
        """Raises `ConfigError` for a selected server that is not configured."""
        known = sorted(configured)
        named = set(self._servers or ()) | {server for server, _ in self._patterns or ()}
        for server in sorted(named - set(known)):
            near = difflib.get_close_matches(server, known, n=1)
            hint = f'did you mean "{near[0]}"?' if near else f"configured: {', '.join(known) or 'none'}"
            raise ConfigError(f'selected server "{server}" is not configured; {hint}')

    def has_server(self, server: str) -> bool:
        if self._servers is not None and server not in self._servers:
            return False
        return self._patterns is None or any(name == server for name, _ in self._patterns)

    def of(self, tools: Iterable[Tool]) -> list[Tool]:
        """The selected ones; local functions are always taken."""
        return [tool for tool in tools if self._has(tool)]

    def _has(self, tool: Tool) -> bool:
        server = tool.definition.server
        if server is None or self._patterns is None:
            return True
        name = tool.definition.original_name
        return any(wanted == server and fnmatchcase(name, pattern) for wanted, pattern in self._patterns)


def _parse(item: str) -> tuple[str, str]:
    server, colon, tool = item.partition(":")
    if not (server and colon and tool):
        raise ConfigError(f'selected_tools: "{item}" is not "server:tool" or "server:*"')
    return server, tool
