"""What a configuration may say about who may do what, and what only its user can say."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagent.config import ServerConfig, load_found_servers, load_servers
from mcpagent.config.permissions import APPROVALS, approval_for, vouches_for_itself
from mcpagent.errors import ConfigError, ServerError
from mcpagent.mcp.link import ServerLink
from mcpagent.values.approval import Approval
from mcpagent.values.messages import ToolDefinition
from tests.tables import each_row


def approval_of(value: Any) -> tuple[tuple[str, Approval], ...]:
    [server] = load_servers({"mcpServers": {"git": {"command": "x", "approval": value}}}).servers
    return server.approval


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


PLANTED = (
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GH_TOKEN"),
    *("GITHUB_TOKEN", "GITLAB_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "NPM_TOKEN"),
    *("AZURE_CLIENT_SECRET", "DATABASE_URL", "PGPASSWORD", "MYSQL_PWD", "REDIS_URL", "SLACK_TOKEN", "STRIPE_API_KEY"),
    *("HF_TOKEN", "PYPI_TOKEN", "TWINE_PASSWORD", "DOCKER_AUTH_CONFIG", "KUBECONFIG", "SSH_AUTH_SOCK", "VAULT_TOKEN"),
    *(
        "SENTRY_DSN",
        "MCPAGENT_CLIENT_SECRET",
        "OPENROUTER_API_KEY",
        "COHERE_API_KEY",
        "MISTRAL_API_KEY",
        "CI_JOB_TOKEN",
    ),
    *("JIRA_API_TOKEN", "LINEAR_API_KEY", "NOTION_TOKEN", "SENDGRID_API_KEY", "TWILIO_AUTH_TOKEN", "GPG_PASSPHRASE"),
    *("HTTP_PROXY_PASSWORD", "PRIVATE_KEY"),
)


async def test_a_server_sees_of_our_environment_what_it_needs_to_run_and_what_is_declared(tmp_path: Path) -> None:
    seen = tmp_path / "seen.json"
    program = f"import json, os; json.dump(dict(os.environ), open({str(seen)!r}, 'w'))"
    declared = {"DECLARED_TOKEN": "given", "GITHUB_TOKEN": "its own"}
    config = ServerConfig("curious", command=sys.executable, args=("-c", program), env=declared)
    ours = {"PATH": "/usr/bin:/bin", "HOME": "/home/me", "LANG": "C.UTF-8", "() { :; }": "x", "TZ": "() { :; }; id"}
    planted = {name: f"planted in {name}" for name in PLANTED}
    assert len(planted) == 40
    with pytest.raises(ServerError):
        await ServerLink(config, environ={**ours, **planted}).__aenter__()
    found = json.loads(seen.read_text("utf-8"))
    assert not [name for name, value in found.items() if value.startswith("planted in")]
    assert {name: found[name] for name in declared} == declared
    assert (found["PATH"], found["HOME"]) == (ours["PATH"], ours["HOME"])
    assert "TZ" not in found
