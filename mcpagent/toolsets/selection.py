"""Select the servers and tools that an agent uses from all configured ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches

from mcpagent.errors import ConfigError
from mcpagent.utilities.python.argument_checks import expect_names
from mcpagent.utilities.text.globs import fits
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.tools import Tool


class Selection:
    """Selected `servers` by name; selected `tools` as `server:tool` or `server:*` (fnmatch patterns for the server's
    own names).

    If both are None, everything is selected. With `tools`, only these tools are selected, and only their servers are
    necessary.
    """

    def __init__(
        self, servers: Sequence[str] | None, tools: Sequence[str] | None
    ) -> None:
        for name, value in (("selected_servers", servers), ("selected_tools", tools)):
            if value is not None:
                expect_names(name, value)
        if servers is None:
            self._servers = None
        else:
            self._servers = frozenset(servers)
        self._patterns: tuple[tuple[str, str], ...] | None = None
        if tools is not None:
            self._patterns = tuple(_parse(item) for item in tools)

    def check(self, configured: Iterable[str]) -> None:
        """Raise `ConfigError` for a selected server that is not configured."""
        known = sorted(configured)
        named = set(self._servers or ()) | {
            server for server, _ in self._patterns or ()
        }
        for server in sorted(named - set(known)):
            near = get_close_matches(server, known, n=1)
            if near:
                hint = f'did you mean "{near[0]}"?'
            else:
                hint = f"configured: {', '.join(known) or 'none'}"
            raise ConfigError(f'selected server "{server}" is not configured; {hint}')

    def has_server(self, server: str) -> bool:
        """Return whether a tool of the server may be selected, so that the server must be connected."""
        if self._servers is not None and server not in self._servers:
            return False
        return self._patterns is None or any(
            name == server for name, _ in self._patterns
        )

    def of(self, tools: Iterable[Tool]) -> list[Tool]:
        """Return the selected tools; local functions are always selected."""
        if self._patterns is None:
            return list(tools)
        return [tool for tool in tools if self._has(tool)]

    def unmatched(self, server: str, names: Sequence[str]) -> list[str]:
        """Return a line for each pattern that matches none of `names`, the tools of `server`."""
        return [
            f'selected_tools: "{server}:{pattern}" matches no tool of "{server}"{_near(server, pattern, names)}'
            for named, pattern in self._patterns or ()
            if named == server and not any(fits(name, pattern) for name in names)
        ]

    def unused(self, connected: Collection[str]) -> list[str]:
        """Return a line for each pattern whose server is configured, but not in `connected`."""
        return [
            f'selected_tools: "{server}:{pattern}" selects nothing: server "{server}" is disabled or not selected'
            for server, pattern in self._patterns or ()
            if server not in connected
        ]

    def _has(self, tool: Tool) -> bool:
        server = tool.definition.server
        name = tool.definition.original_name
        patterns = self._patterns or ()
        return server is None or any(
            wanted == server and fits(name, pattern) for wanted, pattern in patterns
        )


def _parse(item: str) -> tuple[str, str]:
    server, colon, tool = item.partition(":")
    if not (server and colon and tool):
        raise ConfigError(
            f'selected_tools: "{item}" is not "server:tool" or "server:*"'
        )
    return server, tool


def _near(server: str, pattern: str, names: Sequence[str]) -> str:
    """Suggest a name: in other case, without the server's prefix, a similar one, or one with a common word; else list
    names.
    """
    plain = {name.lower(): name for name in names}
    wanted = re.sub(r"[*?\[\]!]", "", pattern).lower()
    own = re.sub(rf"^(?:mcp__)?{re.escape(server.lower())}(?:__|[_.:/-])", "", wanted)
    holding = [name for name in plain if len(own) > 2 and own in name]
    near = plain.get(own) or next(
        (plain[name] for name in get_close_matches(own, plain, n=1) or holding), None
    )
    if near is not None:
        return f'; did you mean "{server}:{safe_line(near, 64)}"?'
    shown = ", ".join(
        [
            *(safe_line(name, 64) for name in names[:3]),
            *(["..."] if len(names) > 3 else []),
        ]
    )
    return f"; it has {shown or 'no tools'}"
