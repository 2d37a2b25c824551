"""Verdicts of rules on tools, as the tests of several rooms need them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcpagent.config import ServerConfig
from mcpagent.permissions.decision import CallFacts, Mode, Rules, decide, entry_rules
from mcpagent.permissions.stored_approvals import StoredApprovals
from mcpagent.values.approval import Approval, Rule
from mcpagent.values.messages import ToolDefinition

PRINTS = {"git": "fingerprint of git"}


def options(allow: list[str] | None = None, deny: list[str] | None = None) -> tuple[Rule, ...]:
    """The rules of `--allow` and `--deny`."""
    return (*(Rule(glob, "allow") for glob in allow or ()), *(Rule(glob, "deny") for glob in deny or ()))


def rules_of(mode: Mode = "ask", allow: list[str] | None = None, deny: list[str] | None = None, **more: Any) -> Rules:
    """Rules with these options."""
    return Rules(mode, options(allow, deny), **more)


def verdict(rules: Rules, tool: ToolDefinition, *servers: ServerConfig, **arguments: Any) -> Approval:
    """The verdict on a call of a tool that comes from one of these servers."""
    entries = tuple(rule for server in servers for rule in entry_rules(server))
    return decide(CallFacts(tool, arguments, entries), rules).verdict


def is_stored(stored: StoredApprovals, tool: ToolDefinition, arguments: Mapping[str, Any] | None = None) -> bool:
    """Whether an answer allows a call of this tool."""
    rules = Rules("none", answers=stored.held, fingerprints=stored.servers)
    return decide(CallFacts(tool, arguments or {}), rules).verdict == "allow"
