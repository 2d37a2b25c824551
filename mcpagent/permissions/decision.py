"""Decide which calls run, which need the user's approval, and which are denied.

Rules for tools also apply to prompts and resources: `Tool.asked` returns the definition that the rules are matched
with. The library, the command line, programs of code mode and agents that other agents call all follow these rules.

The rules, first match wins:

1. `--deny` denies, then `"approval": "deny"` (or `"never"`) of the server's entry.
2. A tool that needs approval, or `Agent(approval=...)`, asks.
3. `--allow` runs, then `"approval": "allow"` (or `"always"`), then what the user answered with "always" or "this
   session", then `--approve all`.
4. `--approve none` denies.
5. `"approval": "ask"` asks.
6. Calls that only read run if the server is marked with `"trust": true`: tools that it declares read-only, and
   resources that it lists. All tools of the bundled server run, since it changes nothing outside its own memory.
7. `--approve ask`, the default of the command line, asks about the rest, `safe` denies it. If nobody can be asked,
   asking is a denial. In the library the rest runs.

A project's `.mcp.json` can deny and ask, but neither allow nor trust. `mcpagent permissions explain` prints the rule
that decides, and where it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from mcpagent.config.server_config import ServerConfig
from mcpagent.permissions.rule_matching import (
    forbids,
    forbids_of_server,
    permits,
    permits_of_server,
    rule_of,
)
from mcpagent.permissions.stored_approvals import StoredApproval
from mcpagent.utilities.text.globs import fits
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.approval import Approval, Rule
from mcpagent.values.messages import ToolDefinition

Mode: TypeAlias = Literal["ask", "safe", "all", "none", "unasked"]
"""The default decision on calls that no rule matches (see this module). "unasked", the default of the library, runs
them.
"""

_CHOICE = re.compile(r"\[[^\]]{2,}\]")
_BY_MODE: Mapping[Mode, Approval] = {
    "ask": "ask",
    "safe": "deny",
    "all": "allow",
    "none": "deny",
    "unasked": "allow",
}
_STRICTNESS: Mapping[Approval, int] = {"allow": 0, "ask": 1, "deny": 2}


@dataclass(frozen=True, slots=True)
class CallFacts:
    """The facts about a call that rules judge: the tool, the arguments, and the rules of the server's entry.

    `is_required`: the tool itself or its agent requires approval.
    """

    tool: ToolDefinition
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    rules: tuple[Rule, ...] = ()
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of an agent, in addition to those in the entries of servers.

    `options` are the rules of `--allow` and `--deny`. `named` are those of `ApprovalPolicy`: an exact tool name
    replaces the rule of the entry, a pattern counts if it is stricter. `answers` are the user's answers for more than
    one call; they apply to servers with these `fingerprints`. `servers` has the names of all servers, to find the
    server that a pattern means. `trusted` are bundled servers. `own_code` are servers whose code the user writes: an
    answer for one of their tools stays valid when the tool changes. `mode_place` and `mode_key` are the location of the
    mode.
    """

    mode: Mode = "unasked"
    options: tuple[Rule, ...] = ()
    named: Mapping[str, Approval] = field(default_factory=dict[str, Approval])
    answers: frozenset[StoredApproval] = frozenset()
    fingerprints: Mapping[str, str] = field(default_factory=dict[str, str])
    servers: frozenset[str] = frozenset()
    trusted: frozenset[str] = frozenset()
    own_code: frozenset[str] = frozenset()
    mode_place: str = ""
    mode_key: str = ""

    def patterns(self, approval: Approval) -> list[str]:
        """Return the patterns of the options with this approval."""
        return [rule.pattern for rule in self.options if rule.approval == approval]

    def names(self, rule: Rule, tool: ToolDefinition) -> bool:
        """Return whether an option, or a rule of the agent, matches this tool, prompt or resource."""
        if rule.approval == "allow":
            return permits(rule.pattern, tool, self.servers)
        return forbids(rule.pattern, tool)


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of one rule on a call. `place` is the file and line, or the variable, of the rule, or ""."""

    verdict: Approval
    rule: str
    place: str = ""
    key: str = ""

    def __str__(self) -> str:
        """Return the rule and its location, such as `approval is deny in .mcp.json:3`."""
        if not self.place:
            return self.rule
        return f"{self.rule} in {safe_line(self.place, 120)}"


def strictness(decision: Decision) -> int:
    """Return a number for sorting: the stricter the decision, the larger."""
    return _STRICTNESS[decision.verdict]


def decide(call: CallFacts, rules: Rules) -> Decision:
    """Return the decision of the strongest rule that matches the call."""
    return next(decisions(call, rules))


def decisions(call: CallFacts, rules: Rules) -> Iterator[Decision]:
    """Yield the decision of each rule that matches the call, the strongest first; the last one matches every call."""
    entry = _of_entry(call, rules)
    yield from _of_options(call, rules, "deny")
    if entry is not None and entry.verdict == "deny":
        yield entry
    if call.is_required:
        yield Decision("ask", "the tool or its agent requires approval")
    yield from _of_options(call, rules, "allow")
    if entry is not None and entry.verdict == "allow":
        yield entry
    yield from _of_answers(call, rules)
    is_asked_about = entry is not None and entry.verdict == "ask"
    if entry is not None and is_asked_about and rules.mode in ("ask", "unasked"):
        yield entry
    if rules.mode == "ask" or (rules.mode == "safe" and not is_asked_about):
        yield from _of_trust(call, rules)
    yield _of_mode(rules)


def entry_rules(config: ServerConfig) -> tuple[Rule, ...]:
    """Return the rules in a server's entry for its tools, prompts and resources."""
    name, place = config.name, config.source or "its configuration"
    is_one_word = len(config.approval) == 1 and config.approval[0][0] == "*"
    rules: list[Rule] = []
    for glob, approval in config.approval:
        key = f"{name}.approval"
        if not is_one_word:
            key += f".{glob}"
        rules.append(Rule(glob, approval, place, key, name))
    if config.trust_hints:
        key = f"{name}.trust"
        rules.append(Rule("*", "allow", place, key, name, only_reads=True))
    return tuple(rules)


def is_about(rule: Rule, tool: ToolDefinition) -> bool:
    """Return whether a rule in a server's entry matches this tool, prompt or resource of the server."""
    if rule.server != (tool.server or "") or (
        rule.only_reads and tool.read_only is not True
    ):
        return False
    if rule.approval == "allow":
        return permits_of_server(rule.pattern, tool)
    return forbids_of_server(rule.pattern, tool)


def most_specific(rules: Iterable[Rule], tool: ToolDefinition) -> Rule | None:
    """Return the rule of an entry that applies to a tool: the one with the most letters, or the strictest of equally
    long ones.

    So `{"*": "allow", "delete_*": "ask"}` asks about `delete_all`, in any order. For the syntax of patterns, see
    `rule_matching`. Returns None if no rule matches.
    """
    return _longest(
        rule for rule in rules if not rule.only_reads and is_about(rule, tool)
    )


def _longest(rules: Iterable[Rule]) -> Rule | None:
    return max(
        rules,
        key=lambda rule: (_letters(rule.pattern), _STRICTNESS[rule.approval]),
        default=None,
    )


def is_enabled(tool: ToolDefinition, config: ServerConfig) -> bool:
    """Return whether the entry's `enabled_tools` and `disabled_tools` leave the tool available."""
    name = tool.original_name
    is_named = not config.enabled_tools or any(
        fits(name, glob) for glob in config.enabled_tools
    )
    return is_named and not any(
        forbids_of_server(glob, tool) for glob in config.disabled_tools
    )


def _letters(glob: str) -> int:
    """Return the number of letters that a pattern requires; `[...]` counts as one."""
    return sum(char not in "*?[]!" for char in _CHOICE.sub("", glob))


def _of_options(
    call: CallFacts, rules: Rules, approval: Approval
) -> Iterator[Decision]:
    for rule in rules.options:
        if rule.approval == approval and rules.names(rule, call.tool):
            words = f"--{rule.approval} {safe_line(rule.pattern, 80)}"
            yield Decision(rule.approval, words, rule.place, rule.key)


def _of_answers(call: CallFacts, rules: Rules) -> Iterator[Decision]:
    server = call.tool.server or ""
    fingerprint, own_code = rules.fingerprints.get(server), server in rules.own_code
    of_server = [answer for answer in rules.answers if answer.server == fingerprint]
    for answer in sorted(of_server, key=lambda answer: answer.label):
        if answer.covers(call.tool, call.arguments, own_code=own_code):
            words, key = f"you answered {answer.meaning}", safe_line(answer.label, 140)
            yield Decision("allow", words, answer.place, key)


def _of_mode(rules: Rules) -> Decision:
    words = f"--approve {rules.mode}"
    if rules.mode == "unasked":
        words = "no rule is about it"
    return Decision(_BY_MODE[rules.mode], words, rules.mode_place, rules.mode_key)


def _of_entry(call: CallFacts, rules: Rules) -> Decision | None:
    """Return the decision by the entry of the call's server, or by the agent's rule that replaces it; None without a
    rule.
    """
    entry, own = most_specific(call.rules, call.tool), _of_agent(call, rules)
    if own is not None:
        is_exact = own.pattern == rule_of(call.tool)
        if (
            is_exact
            or entry is None
            or _STRICTNESS[own.approval] > _STRICTNESS[entry.approval]
        ):
            words = f"the agent's rule is {own.approval}"
            return Decision(
                own.approval, words, "ApprovalPolicy.rules", safe_line(own.pattern, 140)
            )
    if entry is None:
        return None
    words = f"approval is {entry.approval}"
    return Decision(entry.approval, words, entry.place, entry.key)


def _of_agent(call: CallFacts, rules: Rules) -> Rule | None:
    """Return the agent's rule for exactly this name, else the matching one with the most letters; None without a
    match.
    """
    key = rule_of(call.tool)
    if key in rules.named:
        return Rule(key, rules.named[key])
    written = [Rule(pattern, approval) for pattern, approval in rules.named.items()]
    return _longest(rule for rule in written if rules.names(rule, call.tool))


def _of_trust(call: CallFacts, rules: Rules) -> Iterator[Decision]:
    tool = call.tool
    if tool.server in rules.trusted:
        words = "the bundled server changes nothing outside its own memory"
        yield Decision("allow", words)
    if tool.server is None and tool.read_only is True:
        yield Decision("allow", "a function of yours only reads")
    said = "its server says that it only reads"
    if tool.kind == "resource":
        said = "its server lists it"
    for rule in call.rules:
        if rule.only_reads and is_about(rule, tool):
            yield Decision("allow", f"{said}, and is trusted", rule.place, rule.key)
