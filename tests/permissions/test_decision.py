"""What a configuration may say about who may do what, and what only its user can say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagent.cli.common.options import ApproveMode
from mcpagent.config import ServerConfig, load_found_servers, load_servers
from mcpagent.config.server_config import APPROVALS
from mcpagent.config.server_files import vouches_for_itself
from mcpagent.errors import ConfigError
from mcpagent.permissions.decision import (
    CallFacts,
    Decision,
    Mode,
    Rules,
    decide,
    decisions,
    entry_rules,
    most_specific,
)
from mcpagent.permissions.rule_matching import forbids
from mcpagent.permissions.stored_approvals import StoredApprovals
from mcpagent.values.approval import Approval, Rule
from mcpagent.values.messages import ToolDefinition
from tests.permissions.judging import PRINTS, rules_of, verdict
from tests.tables import each_row


def approval_of(value: Any) -> tuple[tuple[str, Approval], ...]:
    [server] = load_servers({"mcpServers": {"git": {"command": "x", "approval": value}}}).servers
    return server.approval


def approval_for(rules: Sequence[tuple[str, Approval]], tool: ToolDefinition) -> Approval | None:
    """What the entry of a server says of its tool."""
    found = most_specific(entry_rules(ServerConfig("git", command="x", approval=tuple(rules))), tool)
    return found.approval if found is not None else None


def tool_of(name: str) -> ToolDefinition:
    return ToolDefinition("offered", "", {}, server="git", original_name=name)


@each_row(
    "written, meant",
    [
        ("allow", "allow"),
        ("always", "allow"),
        ("ask", "ask"),
        ("deny", "deny"),
        ("never", "deny"),
    ],
)
def test_both_spellings_are_read(written: str, meant: str) -> None:
    assert approval_of(written) == (("*", meant),)
    assert approval_of({"push_*": written}) == (("push_*", meant),)


@each_row(
    "written, error",
    [
        ("yes", 'mcp_config: mcpServers.git.approval: expected allow, ask or deny, got "yes"'),
        (True, "mcp_config: mcpServers.git.approval: expected allow, ask or deny, got true"),
        ({"a": 3}, "mcp_config: mcpServers.git.approval.a: expected allow, ask or deny, got 3"),
        ([], "mcp_config: mcpServers.git.approval: expected allow, ask or deny, got a list"),
    ],
)
def test_another_word_is_an_error_with_its_place(written: Any, error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        approval_of(written)
    assert str(caught.value) == error


@each_row(
    "tool, expected",
    [("delete_all", "ask"), ("delete_disk", "deny"), ("get_log", "allow"), ("push", "ask"), ("pull", None)],
)
def test_the_most_telling_pattern_counts(tool: str, expected: str | None) -> None:
    rules: list[tuple[str, Approval]] = [
        ("delete_disk", "deny"),
        ("get_*", "allow"),
        ("delete_*", "ask"),
        ("pus?", "allow"),
        ("[p]us?", "ask"),
        ("[abcdefghijklmno]*", "allow"),
    ]
    for order in (rules, rules[::-1]):
        assert approval_for(order, tool_of(tool)) == expected


@given(
    st.lists(st.tuples(st.text("ab*?", max_size=4), st.sampled_from(sorted(set(APPROVALS.values())))), max_size=6),
    st.text("ab", max_size=4),
    st.randoms(),
)
def test_the_order_of_patterns_says_nothing(rules: list[tuple[str, Approval]], tool: str, chance: Any) -> None:
    mixed = list(rules)
    chance.shuffle(mixed)
    assert approval_for(mixed, tool_of(tool)) == approval_for(rules, tool_of(tool))


def test_a_project_may_be_strict_but_not_vouch_for_itself(tmp_path: Path) -> None:
    def write(path: Path, name: str) -> None:
        approval = {"*": "allow", "push": "ask", "wipe": "never"}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"mcpServers": {name: {"command": "x", "approval": approval, "trust": True}}}))

    write(tmp_path / "project" / ".mcp.json", "theirs")
    write(tmp_path / "home" / "config" / "mcp.json", "mine")
    found = load_found_servers(tmp_path / "project", {"MCPAGENT_HOME": str(tmp_path / "home")})
    servers = {server.name: server for server in found.servers}
    assert servers["mine"].approval == (("*", "allow"), ("push", "ask"), ("wipe", "deny"))
    assert servers["mine"].trust_hints
    assert servers["theirs"].approval == (("push", "ask"), ("wipe", "deny"))
    assert not servers["theirs"].trust_hints
    assert vouches_for_itself(servers["theirs"].written)


@each_row(
    "entry, expected",
    [
        ({}, False),
        ({"approval": "ask"}, False),
        ({"approval": {"a": "deny"}}, False),
        ({"approval": "always"}, True),
        ({"approval": {"a": "deny", "b": "allow"}}, True),
        ({"trust": True}, True),
        ({"trustHints": True}, True),
        ({"trust": False, "approval": []}, False),
    ],
)
def test_what_only_the_user_can_give(entry: dict[str, Any], expected: bool) -> None:
    assert vouches_for_itself(entry) is expected


# --- the order of the rules -------------------------------------------------------------------------------------------

READS = ToolDefinition("log", "", {}, server="git", original_name="git_log", read_only=True)
PUSHES = ToolDefinition("git__push", "", {}, server="git", original_name="git_push", read_only=False)
SILENT = ToolDefinition("status", "", {}, server="git", original_name="status")
GIT = ServerConfig("git", command="git-server")
TRUSTED = replace(GIT, trust_hints=True, source="mcp.json:3")
MODES = get_args(ApproveMode)


def verdicts(rules: Rules, server: ServerConfig = GIT) -> list[Approval]:
    return [verdict(rules, tool, server) for tool in (READS, PUSHES, SILENT)]


def approved(tool: ToolDefinition) -> dict[str, Any]:
    """Rules with an answer for all of the tool's server."""
    stored = StoredApprovals(None, PRINTS)
    stored.add(tool, "server", {}, always=True)
    return {"answers": stored.held, "fingerprints": stored.servers}


@each_row(
    "mode, of_nobody, of_trusted",
    [
        ("ask", ["ask", "ask", "ask"], ["allow", "ask", "ask"]),
        ("safe", ["deny", "deny", "deny"], ["allow", "deny", "deny"]),
        ("all", ["allow", "allow", "allow"], ["allow", "allow", "allow"]),
        ("none", ["deny", "deny", "deny"], ["deny", "deny", "deny"]),
        ("unasked", ["allow", "allow", "allow"], ["allow", "allow", "allow"]),
    ],
)
def test_the_mode_decides_where_no_rule_does(mode: Mode, of_nobody: list[str], of_trusted: list[str]) -> None:
    """That a tool only reads is believed of a server that its user trusts."""
    assert verdicts(Rules(mode)) == of_nobody
    assert verdicts(Rules(mode), TRUSTED) == of_trusted


ENTRY = replace(TRUSTED, approval=(("*", "allow"), ("git_push", "deny"), ("git_log", "ask")), source=".mcp.json:3")
"""Push never, log asked about, the rest unasked."""


def test_the_entry_decides_before_the_mode() -> None:
    assert verdicts(Rules("none"), ENTRY) == ["deny", "deny", "allow"]
    assert verdicts(Rules("ask"), ENTRY) == ["ask", "deny", "allow"]
    assert verdicts(Rules("unasked"), ENTRY) == ["ask", "deny", "allow"]
    assert verdict(Rules("safe"), READS, ENTRY) == "deny"


def test_each_rule_goes_before_the_next() -> None:
    """--deny, then deny in the entry, --allow, allow there, an answer, the mode."""
    answer = approved(SILENT)
    assert verdict(rules_of("all", ["git.*"], ["git.*"], **answer), SILENT, ENTRY) == "deny"
    assert verdict(rules_of("all", ["git.*"], **answer), PUSHES, ENTRY) == "deny"
    assert verdict(rules_of("none", ["git.git_log"]), READS, ENTRY) == "allow"
    assert verdict(rules_of("none"), SILENT, ENTRY) == "allow"
    assert verdict(rules_of("none", **answer), READS, ENTRY) == "allow"
    assert verdict(rules_of("all"), READS, ENTRY) == "allow"


@each_row("mode", MODES)
@each_row("glob", ["git.git_push", "git.*", "*.git_push", "git__push", "*"])
def test_a_denial_wins_over_a_yes_and_a_yes_over_the_mode(mode: Mode, glob: str) -> None:
    assert verdict(rules_of(mode, [glob]), PUSHES) == "allow"
    assert verdict(rules_of(mode, [glob], ["git.git_*"]), PUSHES) == "deny"
    assert verdict(rules_of(mode, deny=[glob], **approved(PUSHES)), PUSHES) == "deny"


@each_row("mode", [*MODES, "unasked"])
def test_what_requires_approval_is_asked_about_unless_a_rule_denies_it(mode: Mode) -> None:
    call = CallFacts(SILENT, rules=entry_rules(ENTRY), is_required=True)
    assert decide(call, rules_of(mode, ["git.*"])).verdict == "ask"
    assert decide(call, rules_of(mode, deny=["git.*"])).verdict == "deny"


@each_row(
    "named, expected",
    [
        ({"git.git_push": "allow"}, "allow"),
        ({"git.git_push": "ask"}, "ask"),
        ({"git.git_*": "allow"}, "deny"),
        ({"hub.git_push": "allow"}, "deny"),
    ],
)
def test_a_rule_of_the_agent_replaces_that_of_the_entry_by_its_exact_name(named: dict[str, Any], expected: str) -> None:
    assert verdict(Rules(named=named), PUSHES, ENTRY) == expected


def test_the_bundled_server_is_ours() -> None:
    assert verdict(Rules("ask", trusted=frozenset({"demo"})), replace(PUSHES, server="demo")) == "allow"
    assert verdict(Rules("none", trusted=frozenset({"demo"})), replace(READS, server="demo")) == "deny"


def test_the_entry_of_a_server_says_nothing_about_the_tools_of_another_one_of_its_name() -> None:
    """A call carries the rules of the entry that its tool comes from."""
    other = replace(GIT, command="another", approval=(("git_push", "deny"), ("status", "ask")))
    mine = replace(GIT, approval=(("*", "allow"),))
    assert verdicts(Rules("ask"), other) == ["ask", "deny", "ask"]
    assert verdicts(Rules("ask"), mine) == ["allow", "allow", "allow"]
    assert verdict(Rules("ask"), replace(PUSHES, server="hub"), mine) == "ask"


def test_every_decision_names_its_rule_and_where_it_is_written() -> None:
    rules = Rules("safe", (Rule("git.git_log", "allow", "config.toml:2", "allow"),), mode_place="env MCPAGENT_APPROVE")
    found = list(decisions(CallFacts(READS, rules=entry_rules(ENTRY)), rules))
    assert found == [
        Decision("allow", "--allow git.git_log", "config.toml:2", "allow"),
        Decision("deny", "--approve safe", "env MCPAGENT_APPROVE"),
    ]
    [push, rest] = list(decisions(CallFacts(PUSHES, rules=entry_rules(ENTRY)), rules))
    assert push == Decision("deny", "approval is deny", ".mcp.json:3", "git.approval.git_push")
    assert str(push) == "approval is deny in .mcp.json:3"
    assert rest.rule == "--approve safe"
    trust = decide(CallFacts(READS, rules=entry_rules(TRUSTED)), Rules("ask"))
    assert (trust.place, trust.key) == ("mcp.json:3", "git.trust")


@given(
    st.sampled_from([*MODES, "unasked"]),
    st.lists(st.tuples(st.text("git.*_lopush", max_size=8), st.sampled_from(["allow", "deny"])), max_size=4),
    st.lists(st.tuples(st.text("git*_logpush", max_size=6), st.sampled_from(["allow", "ask", "deny"])), max_size=4),
    st.sampled_from([READS, PUSHES, SILENT]),
    st.booleans(),
)
def test_a_decision_is_found_for_every_call_and_no_denial_is_outvoted(
    mode: Mode, written: list[Any], approval: list[Any], tool: ToolDefinition, is_required: bool
) -> None:
    server = replace(GIT, approval=tuple(approval))
    rules = Rules(mode, tuple(Rule(glob, said) for glob, said in written))
    call = CallFacts(tool, rules=entry_rules(server), is_required=is_required)
    assert decide(call, rules) == decide(call, rules)
    is_denied = any(forbids(glob, tool) for glob, said in written if said == "deny")
    is_denied |= approval_for(approval, tool) == "deny"
    if is_denied:
        assert decide(call, rules).verdict == "deny"
