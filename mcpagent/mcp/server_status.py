"""Where the life of one server is: as the link has it, and as a value to show."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from mcpagent.mcp.lists.list_cache import CachedServer
from mcpagent.messages import ToolDefinition
from mcpagent.tools import Tool

if TYPE_CHECKING:
    from mcpagent.mcp.connection import McpConnection

ServerState: TypeAlias = Literal["cached", "connecting", "ready", "failed", "closed"]
""""cached": its lists are known from an earlier time, it is started when one of its tools is called."""


def still_connecting(failure: str = "") -> str:
    """What is said of a server that is "connecting", to whoever asks; `failure` is what came of the last attempt."""
    return f"it is still connecting again, since {failure}" if failure else "it is still connecting"


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """`reason` says why it failed, if it is not ready since; `seconds` is what connecting took, or takes so far;
    `warnings` are printable lines; `age_seconds` is how old the lists of a "cached" one are.

    `title` and `instructions` are the server's own words, so third-party text.
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
class Life:
    """The state, and what is known in it.

    `known` is what the server listed last, at `taken` (monotonic seconds; 0.0: never), and `tools` those of it that the
    configuration enables, bound. `reason` says why it failed, also while it is tried again, `seconds` is what
    connecting took, and `since` (monotonic) when it began. `connection` is the one that is used or being opened; it may
    have ended.
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
        """Of the enabled tools, in the server's order."""
        return [tool.definition for tool in self.tools]

    def is_old(self, now: float) -> bool:
        """Whether the server said that its lists are good for less time than they are known."""
        return 0 < self.known.lists.ttl_seconds < now - self.taken

    def status(self, name: str, warnings: tuple[str, ...]) -> ServerStatus:
        """The value to show. Of a server that cannot be used now, what it listed before is not shown."""
        is_usable = self.state in ("ready", "cached", "closed")
        known = self.known if is_usable else CachedServer()
        return ServerStatus(
            name,
            self.state,
            reason=self.reason,
            seconds=time.monotonic() - self.since if self.state == "connecting" else self.seconds,
            tool_count=len(self.tools) if is_usable else 0,
            protocol_version=known.protocol_version,
            title=known.title,
            instructions=known.instructions,
            warnings=warnings,
            age_seconds=known.age_seconds,
        )
