"""What a configuration says about who may do what: approval by pattern, and whether a server's hints are believed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from mcpagent.config.values import Approval, ServerConfig

APPROVALS: Mapping[str, Approval] = {
    "allow": "allow",
    "always": "allow",
    "ask": "ask",
    "deny": "deny",
    "never": "deny",
}
"""What may be written -> what it means: run without asking, ask about each call, never run."""

_STRICTNESS: Mapping[Approval, int] = {"allow": 0, "ask": 1, "deny": 2}


def approval_for(rules: Iterable[tuple[str, Approval]], tool: str) -> Approval | None:
    """What the most telling pattern that covers this tool says: the one with most letters, of equal ones the strictest.

    So `{"*": "allow", "delete_*": "ask"}` asks about `delete_all`, in whatever order it is written.
    """
    covering = [(glob, approval) for glob, approval in rules if fnmatchcase(tool, glob)]
    telling = max(covering, key=lambda rule: (_letters(rule[0]), _STRICTNESS[rule[1]]), default=None)
    return telling[1] if telling is not None else None


def _letters(glob: str) -> int:
    return sum(char not in "*?[]!" for char in glob)


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
