"""The options of a gateway, for all its clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from mcpagent.permissions.decision import Rules
from mcpagent.tool_search.search_options import ToolSearch

GatewayMode: TypeAlias = Literal["auto", "search", "add", "code", "all"]
"""The tools that a client is offered.

| mode | tools |
|---|---|
| search | `search_tools`, and `call_read_tool`, `call_write_tool` and `call_destructive_tool` |
| add | the same, and `add_tool`, which adds tools to the client's list |
| code | `search_tools` and `run_code` |
| all | every tool |
| auto | add for a client that subscribed to changes of its tool list, else search |
"""

Asking: TypeAlias = Literal["client", "elicit", "deny"]
"""Who answers when the rules ask about a call: the client, which asked its user before sending the call ("client"); the
user, by elicitation ("elicit"); or no one, so that the call is denied ("deny").
"""

IDLE_SECONDS = 15 * 60.0
GONE_SECONDS = 30 * 60.0


def no_rules() -> Rules:
    """Return rules with which only the entries of servers deny or ask."""
    return Rules()


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """The options of a gateway.

    - `mode`: the mode of clients that `modes` does not name, by the name that a client sends with its first request.
    - `idle_seconds`: time without open requests after which a server is stopped.
    - `gone_seconds`: time without a request after which an HTTP client without subscriptions is forgotten.
    - `rules`: returns the current permission rules.
    - `pinned`: tools that every mode lists, as `server.pattern`.
    - `is_prefixed`: tools and prompts are named `server__name`; if False, a unique own name stays.
    - `log`: the folder for the log of calls, or None.
    """

    mode: GatewayMode = "auto"
    modes: Mapping[str, GatewayMode] = field(default_factory=dict[str, GatewayMode])
    asking: Asking = "client"
    idle_seconds: float = IDLE_SECONDS
    gone_seconds: float = GONE_SECONDS
    rules: Callable[[], Rules] = no_rules
    pinned: tuple[str, ...] = ()
    is_prefixed: bool = True
    search: ToolSearch = field(default_factory=ToolSearch)
    log: Path | None = None
