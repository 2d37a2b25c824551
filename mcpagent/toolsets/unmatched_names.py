"""Report configured tool names that no tool has, as soon as the tools are known."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from enum import IntEnum

from mcpagent.errors import ConfigError
from mcpagent.run.agent_run import run_context
from mcpagent.utilities.text.safe_text import listed, safe_line
from mcpagent.values.tools import Tool

logger = logging.getLogger("mcpagent")


class Completeness(IntEnum):
    """How complete a source's list of tools is: nothing yet, the tools of this run, or all tools that it will ever
    have.
    """

    NOTHING = 0
    NOW = 1
    ALL = 2


def unknown_names(tools: Iterable[Tool], names: Iterable[str]) -> list[str]:
    """Return those of `names` that no tool has."""
    known = {tool.name for tool in tools}
    return [name for name in names if name not in known]


def unknown_name_line(tools: Iterable[Tool], name: str) -> str:
    """Return a line about a name that no tool has, with the most similar or all known names."""
    known = [tool.name for tool in tools]
    near = get_close_matches(name, known, n=1)
    hint = ""
    if near:
        hint = f' (did you mean "{near[0]}"?)'
    return f'no tool "{safe_line(name, 60)}"{hint}; known: {listed(known)}'


class NamedTools:
    """Configured tool names at `place`: names without a tool are reported.

    If the list of tools is complete before the first run, that is an error (`is_error`) or a warning; later it is a
    warning, once for each name. If a source lists nothing, its tools are not known yet.
    """

    def __init__(self, names: Collection[str], place: str, *, is_error: bool) -> None:
        self._names = names
        self._place = place
        self._is_error = is_error
        self._reported: set[str] = set()

    def check(self, tools: Sequence[Tool], known: Completeness) -> None:
        """Raise `ConfigError`, or warn, about names that no tool has."""
        unknown = [
            name
            for name in unknown_names(tools, self._names)
            if name not in self._reported
        ]
        if not unknown or not tools or known is Completeness.NOTHING:
            return
        is_starting = not run_context().run_id
        if is_starting and known is not Completeness.ALL:
            return
        lines = [f"{self._place}: {unknown_name_line(tools, name)}" for name in unknown]
        if is_starting and self._is_error:
            raise ConfigError(lines[0])
        self._reported.update(unknown)
        for line in lines:
            logger.warning("%s", line)
