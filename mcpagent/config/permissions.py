"""What a configuration says about who may do what: approval by pattern, and whether a server's hints are believed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from mcpagent.config.rule_names import forbids_of_server, permits_of_server
from mcpagent.config.values import Approval, ServerConfig
from mcpagent.messages import ToolDefinition

APPROVALS: Mapping[str, Approval] = {"allow": "allow", "always": "allow", "ask": "ask", "deny": "deny", "never": "deny"}
"""What may be written -> what it means: run without asking, ask about each call, never run."""

_CHOICE = re.compile(r"\[[^\]]{2,}\]")

_STRICTNESS: Mapping[Approval, int] = {"allow": 0, "ask": 1, "deny": 2}


def approval_for(rules: Iterable[tuple[str, Approval]], tool: ToolDefinition) -> Approval | None:
    """What the most specific pattern that fits this says: with most letters, of equal ones the strictest.

    So `{"*": "allow", "delete_*": "ask"}` asks about `delete_all`, in whatever order it is written. The patterns are
    those of `rule_names`.
    """
    covering = [(glob, approval) for glob, approval in rules if is_about(glob, approval, tool)]
    specific = max(covering, key=lambda rule: (_letters(rule[0]), _STRICTNESS[rule[1]]), default=None)
    return specific[1] if specific is not None else None


def _letters(glob: str) -> int:
    """How many letters a pattern names; `[...]` is one of several."""
    return sum(char not in "*?[]!" for char in _CHOICE.sub("", glob))


def is_about(glob: str, approval: Approval, tool: ToolDefinition) -> bool:
    """Whether a pattern of a server's `approval` fits a tool, prompt or resource of that server."""
    return permits_of_server(glob, tool) if approval == "allow" else forbids_of_server(glob, tool)


def strictest(server: ServerConfig, other: ServerConfig) -> ServerConfig:
    """The server with what is permitted to both and denied to either: a tool says the name of its server, no more."""
    if server == other:
        return server
    both = {*server.approval} & {*other.approval}
    rules = dict.fromkeys((*server.approval, *other.approval))
    kept = tuple(rule for rule in rules if rule[1] != "allow" or rule in both)
    return replace(server, approval=kept, trust_hints=server.trust_hints and other.trust_hints)


def without_own_permissions(server: ServerConfig) -> ServerConfig:
    """The server as a project's file may describe it: it may be stricter than the rest, but not vouch for itself."""
    kept = tuple(rule for rule in server.approval if rule[1] != "allow")
    return replace(server, approval=kept, trust_hints=False)


def vouches_for_itself(entry: Mapping[str, Any]) -> bool:
    """Whether an entry as written asks for what only its user can give: calls that run unasked, or belief."""
    approval = entry.get("approval")
    said = approval.values() if isinstance(approval, Mapping) else [approval]
    allows = any(isinstance(word, str) and APPROVALS.get(word) == "allow" for word in said)
    return allows or any(entry.get(key) is True for key in ("trust", "trust_hints", "trustHints"))
