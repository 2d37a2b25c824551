"""Find rules that match none of the known tools, prompts and resources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from mcpagent.config import ServerConfig
from mcpagent.permissions.decision import Rules, entry_rules, is_about
from mcpagent.permissions.rule_matching import resource_servers, rule_of
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.approval import Rule
from mcpagent.values.messages import ToolDefinition


def unused_rules(
    rules: Rules, servers: Sequence[ServerConfig], known: Sequence[ToolDefinition]
) -> list[tuple[str, str]]:
    """Return the location and the pattern of each rule, of an agent or of a server's entry, that matches nothing."""
    named = [Rule(pattern, approval) for pattern, approval in rules.named.items()]
    return [
        *_of_agent("--allow or --deny", rules.options, rules, known),
        *_of_agent("ApprovalPolicy.rules:", named, rules, known),
        *_of_entries(servers, known),
    ]


def _of_agent(
    place: str, written: Iterable[Rule], rules: Rules, known: Sequence[ToolDefinition]
) -> list[tuple[str, str]]:
    # A server need not list every resource, so a rule counts as used if its server has any resource.
    readable = {tool.server for tool in known if tool.kind == "resource"}
    return [
        (place, rule.pattern)
        for rule in written
        if not any(rules.names(rule, tool) for tool in known)
        and not resource_servers(rule.pattern) & readable
    ]


def _of_entries(
    servers: Sequence[ServerConfig], known: Sequence[ToolDefinition]
) -> list[tuple[str, str]]:
    readable = {tool.server for tool in known if tool.kind == "resource"}
    written = [rule for server in servers for rule in entry_rules(server)]
    unused: list[tuple[str, str]] = []
    for rule in dict.fromkeys(written):
        of_server = [tool for tool in known if tool.server == rule.server]
        is_readable = rule.pattern.startswith("@") and rule.server in readable
        is_used = is_readable or any(is_about(rule, tool) for tool in of_server)
        if of_server and not is_used and not rule.only_reads:
            place = f"{rule.place}: approval of {safe_line(rule.server, 64)}"
            unused.append((place, rule.pattern))
    return unused


def unused_rule_line(
    place: str, pattern: str, known: Iterable[ToolDefinition], where: str
) -> str:
    """Return the warning about a rule without effect. If no name is similar, `where` states where to find the names."""
    near = [safe_line(name, 80) for name in near_rules(pattern, known)]
    hint = where
    if near:
        hint = f"did you mean {' or '.join(near)}?"
    return f"{place} {safe_line(pattern, 80) or repr(pattern)}: nothing of that name is known; {hint}"


def near_rules(
    rule: str, known: Iterable[ToolDefinition], cutoff: float = 0.5
) -> list[str]:
    """Return suggestions for a rule that matches nothing: the same name on other servers, else similar names."""
    tools = list(known)
    same = [rule_of(tool) for tool in tools if rule in (tool.key.name, tool.name)]
    spelled = [
        name for tool in tools if len(name := rule_of(tool)) <= 2 * len(rule) + 80
    ]
    return same[:3] or get_close_matches(rule[:200], spelled, n=1, cutoff=cutoff)
