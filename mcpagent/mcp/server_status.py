"""The state of one server's life cycle: for its link, and as a value for display."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from mcpagent.mcp.lists.list_cache import CachedServer
from mcpagent.values.messages import ToolDefinition
from mcpagent.values.tools import Tool

if TYPE_CHECKING:
    from mcpagent.mcp.connection import McpConnection

ServerState: TypeAlias = Literal["cached", "connecting", "ready", "failed", "closed"]
"""The states of a server. "cached": its lists are in the cache, and the first call of one of its tools starts it."""


def still_connecting(failure: str = "") -> str:
    """Return the text about a connecting server; `failure` is the reason why the last attempt failed, "" for the
    first.
    """
    if failure:
        return f"it is still connecting again, since {failure}"
    return "it is still connecting"


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The status of a server.

    `reason` is the cause of its last failure, "" after it became ready. `seconds` is the duration of connecting, so far
    or in total. `warnings` are printable lines. `age_seconds` is the age of the lists of a "cached" server. `title` and
    `instructions` are third-party text from the server.
    """

    name: str
    state: ServerState
    reason: str = ""
    seconds: float = 0.0
    tool_count: int = 0
    protocol_version: str = ""
    title: str = ""
    instructions: str = ""
    warnings: tuple[str, ...] = ()
    age_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class LifeCycleState:
    """The state of a server's life cycle, with its data.

    `known` are the server's latest lists, read at `taken` (monotonic seconds; 0.0: never), and `tools` the enabled ones
    among its tools, bound. `reason` is the cause of a failure, also while connecting is retried. `seconds` is the
    duration of connecting, and `since` (monotonic) its start. `connection` is the current one or the one being opened,
    or None; it may have ended.
    """

    state: ServerState = "closed"
    known: CachedServer = field(default_factory=CachedServer)
    taken: float = 0.0
    tools: tuple[Tool, ...] = ()
    reason: str = ""
    seconds: float = 0.0
    since: float = 0.0
    connection: McpConnection | None = None

    @property
    def definitions(self) -> list[ToolDefinition]:
        """The definitions of the enabled tools, in the server's order."""
        return [tool.definition for tool in self.tools]

    def is_old(self, now: float) -> bool:
        """Return whether the lists are older than the server's own time to live allows."""
        return 0 < self.known.lists.ttl_seconds < now - self.taken

    def status(self, name: str, warnings: tuple[str, ...]) -> ServerStatus:
        """Return the status for display. If the server cannot be used now, its earlier lists are not shown."""
        is_usable = self.state in ("ready", "cached", "closed")
        if is_usable:
            known = self.known
        else:
            known = CachedServer()
        return ServerStatus(
            name,
            self.state,
            reason=self.reason,
            seconds=time.monotonic() - self.since
            if self.state == "connecting"
            else self.seconds,
            tool_count=len(self.tools) if is_usable else 0,
            protocol_version=known.protocol_version,
            title=known.title,
            instructions=known.instructions,
            warnings=warnings,
            age_seconds=known.age_seconds,
        )
