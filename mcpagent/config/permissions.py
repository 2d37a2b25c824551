"""Read permissions from a configuration: approval by pattern, and trust in a server's hints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from mcpagent.config.rule_names import forbids_of_server, permits_of_server
from mcpagent.config.server_config import ServerConfig
from mcpagent.values.approval import Approval
from mcpagent.values.messages import ToolDefinition

APPROVALS: Mapping[str, Approval] = {
    "allow": "allow",
    "always": "allow",
    "ask": "ask",
    "deny": "deny",
    "never": "deny",
}
"""What may be written -> what it means: run without asking, ask about each call, never run."""

_CHOICE = re.compile(r"\[[^\]]{2,}\]")

_STRICTNESS: Mapping[Approval, int] = {"allow": 0, "ask": 1, "deny": 2}


def approval_for(
    rules: Iterable[tuple[str, Approval]], tool: ToolDefinition
) -> Approval | None:
    """Return the approval of the most specific matching pattern: the one with most letters, the strictest if equal.

    So `{"*": "allow", "delete_*": "ask"}` asks about `delete_all`, in any order. For the syntax of patterns, see
    `rule_names`.
    """
    covering = [
        (glob, approval) for glob, approval in rules if is_about(glob, approval, tool)
    ]
    specific = max(
        covering,
        key=lambda rule: (_letters(rule[0]), _STRICTNESS[rule[1]]),
        default=None,
    )
    if specific is not None:
        return specific[1]
    return None


def _letters(glob: str) -> int:
    """Count the letters that a pattern requires; `[...]` counts as one."""
    return sum(char not in "*?[]!" for char in _CHOICE.sub("", glob))


def is_about(glob: str, approval: Approval, tool: ToolDefinition) -> bool:
    """Return whether a pattern of a server's `approval` matches a tool, prompt or resource of that server."""
    if approval == "allow":
        return permits_of_server(glob, tool)
    return forbids_of_server(glob, tool)


def strictest(server: ServerConfig, other: ServerConfig) -> ServerConfig:
    """Return the server with permissions that both have and denials of either: a tool only knows its server's name."""
    if server == other:
        return server
    both = {*server.approval} & {*other.approval}
    rules = dict.fromkeys((*server.approval, *other.approval))
    kept = tuple(rule for rule in rules if rule[1] != "allow" or rule in both)
    return replace(
        server, approval=kept, trust_hints=server.trust_hints and other.trust_hints
    )


def without_own_permissions(server: ServerConfig) -> ServerConfig:
    """Return the server as a project's file may describe it: it may be stricter, but not grant itself trust."""
    kept = tuple(rule for rule in server.approval if rule[1] != "allow")
    return replace(server, approval=kept, trust_hints=False)


def vouches_for_itself(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry as written grants itself unasked calls or trust, which only its user may grant."""
    approval = entry.get("approval")
    said = approval.values() if isinstance(approval, Mapping) else [approval]
    allows = any(
        isinstance(word, str) and APPROVALS.get(word) == "allow" for word in said
    )
    return allows or any(
        entry.get(key) is True for key in ("trust", "trust_hints", "trustHints")
    )
