"""What stands between an agent and the world: nothing, something that writes it down, or something that plays it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from mcpagent.catalog import ToolSearch
from mcpagent.events import Event
from mcpagent.messages import ToolCall
from mcpagent.models.base import Model
from mcpagent.pending import PendingCall
from mcpagent.tools import Tool, ToolOutput

if TYPE_CHECKING:
    from mcpagent.mcp.status import ServerStatus

SCHEMA = "mcpagent.recording/1"

Outcome: TypeAlias = ToolOutput | PendingCall


@dataclass(frozen=True, slots=True)
class Setting:
    """How an agent was made, as far as its requests depend on it."""

    instructions: str = ""
    search: ToolSearch | None = None
    pinned: tuple[str, ...] = ()
    max_turns: int = 100


@dataclass(frozen=True, slots=True)
class Opening:
    """What a conversation begins with: the tools as their sources name them, and what is known of the servers."""

    tools: Sequence[Tool] = ()
    servers: Mapping[str, ServerStatus] = field(default_factory=dict[str, "ServerStatus"])
    descriptions: Mapping[str, str] = field(default_factory=dict[str, str])
    unavailable: Mapping[str, str] = field(default_factory=dict[str, str])
    expects_deferred: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """Other tools within a conversation, and what it was told; `tools` None: only the servers are others."""

    tools: Sequence[Tool] | None
    said: str = ""
    descriptions: Mapping[str, str] = field(default_factory=dict[str, str])
    unavailable: Mapping[str, str] = field(default_factory=dict[str, str])


class Tape:
    """Lets everything through. `plays`: servers, toolsets and functions are not used."""

    plays = False

    def setting(self, live: Setting) -> Setting:
        """How the agent is made."""
        return live

    def close(self) -> None:
        """Ends it, with the agent."""

    def hide(self, values: Iterable[str]) -> None:
        """Takes secrets that must not be written."""

    def model(self, live: Callable[[], Model]) -> Model:
        """The model that is asked."""
        return live()

    def opening(self, live: Opening) -> Opening:
        """What the next conversation begins with."""
        return live

    def servers(self, live: dict[str, ServerStatus]) -> dict[str, ServerStatus]:
        """The servers as they are to be shown."""
        return live

    def asked(self, question: str) -> None:
        """Hears what a user says."""

    def heard(self, event: Event) -> None:
        """Hears what happens."""

    def changed(self, change: Change) -> None:
        """Hears of other tools."""

    def changes(self) -> Sequence[Change]:
        """The changes to be made before the next request."""
        return ()

    async def outcome(self, call: ToolCall, tool: Tool, live: Callable[[], Awaitable[Outcome]]) -> Outcome:  # noqa: ARG002 - for those that write or play
        """What one call comes to; `live` makes it."""
        return await live()
