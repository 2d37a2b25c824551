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
"""Who answers for a call that the rules ask about: the client, which asked its user before it sent the call; the user,
by elicitation; or nobody, so that the call is denied."""

IDLE_SECONDS = 15 * 60.0
GONE_SECONDS = 30 * 60.0


def no_rules() -> Rules:
    """Return rules by which only the entries of servers deny or ask."""
    return Rules()


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """The options of a gateway.

    `mode` is that of every client that `modes` does not name, by the name that it sends with its first request. A
    server without open requests is stopped after `idle_seconds`. A client over HTTP is forgotten after `gone_seconds`
    without a request, unless it has subscriptions. `rules` returns the current rules. `pinned` tools, as
    `server.pattern`, are listed in every mode. Tools and prompts are named `server__name`; without `is_prefixed`, those
    with a unique name keep it. `log` is the folder for the log of calls.
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
