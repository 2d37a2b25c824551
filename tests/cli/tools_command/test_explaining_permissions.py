"""`mcpagent permissions explain`: the rule that decides, and the file and key, variable or option that has it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from mcpagent.cli.app import run
from mcpagent.permissions.stored_approvals import StoredApprovals
from tests.cli.servers.test_server_editing import Command
from tests.servers import door_server


@pytest.fixture
def explain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Commands in a folder whose user has one server, `web`, with rules in its entry."""
    folder, home = tmp_path / "work", tmp_path / "home"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("APPROVE", "ALLOW", "DENY", "YES"):
        monkeypatch.delenv(f"MCPAGENT_{name}", raising=False)
    monkeypatch.setenv("MCPAGENT_HOME", str(home))
    entry = {
        "command": sys.executable,
        "args": [door_server.__file__, str(tmp_path / "log"), "read", "push", "wipe"],
        "trust": True,
        "approval": {"w*": "deny", "/review": "ask"},
    }
    (home / "config").mkdir(parents=True)
    (home / "config" / "mcp.json").write_text(json.dumps({"mcpServers": {"web": entry}}, indent=1), "utf-8")
    return Command(folder, home, capsys)


def test_each_rule_is_named_with_where_it_is_written(explain: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def first(name: str, *more: str) -> list[str]:
        document = json.loads(explain("permissions", "explain", name, "--json", *more))
        place = document["place"].replace(str(explain.user_file.parent), "HOME").replace(str(explain.folder), "HERE")
        return [document["verdict"], document["rule"], place, document["key"]]

    trusted = "its server says that it only reads, and is trusted"
    assert first("web.push") == ["ask", "--approve ask", "the default", ""]
    assert first("web.read") == ["allow", trusted, "HOME/mcp.json:3", "web.trust"]
    assert first("web.wipe") == ["deny", "approval is deny", "HOME/mcp.json:3", "web.approval.w*"]
    assert first("/web:review") == ["ask", "approval is ask", "HOME/mcp.json:3", "web.approval./review"]
    assert first("@web:notes://today")[0] == "allow"
    assert first("web.push", "--allow", "web.*") == ["allow", "--allow web.*", "the command line", ""]
    assert first("web.push", "--yes") == ["allow", "--approve all", "the command line", ""]
    monkeypatch.setenv("MCPAGENT_DENY", "web.push")
    assert first("web.push", "--allow", "web.*") == ["deny", "--deny web.push", "env MCPAGENT_DENY", ""]
    monkeypatch.delenv("MCPAGENT_DENY")
    (explain.user_file.parent / "config.toml").write_text(
        'max_turns = 5\ndeny = ["web.r*"]\napprove = "safe"\n', "utf-8"
    )
    (explain.folder / ".mcpagent.toml").write_text('# of the project\n\ndeny = ["web.p*"]\n', "utf-8")
    assert first("web.read") == ["deny", "--deny web.r*", "HOME/config.toml:2", "deny"]
    assert first("web.push") == ["deny", "--deny web.p*", "HERE/.mcpagent.toml:3", "deny"]
    (explain.folder / ".mcpagent.toml").unlink()
    assert first("web.push") == ["deny", "--approve safe", "HOME/config.toml:3", "approve"]


def test_an_answer_is_named_with_its_file_and_the_rules_behind_it_follow(explain: Command, tmp_path: Path) -> None:
    from mcpagent.cli.common.configuration import load_configuration
    from mcpagent.cli.common.options import Options
    from mcpagent.mcp.lists.list_cache import config_fingerprint
    from mcpagent.values.messages import ToolDefinition

    environ = {"MCPAGENT_HOME": str(tmp_path / "home")}
    [server] = load_configuration(Options(environ=environ, folder=explain.folder)).enabled
    stored = StoredApprovals.of_user(environ, {"web": config_fingerprint(server)})
    stored.add(ToolDefinition("push", "", {}, "web"), "server", {}, always=True)
    said = " ".join(explain("permissions", "explain", "web.push").split())
    assert said.startswith("web.push runs unasked decides runs unasked you answered always: every tool, prompt and")
    assert "approvals.json, web.*" in said
    assert "else is asked about --approve ask the default" in said


def test_an_answer_for_ones_own_code_is_named_after_the_tool_changed(explain: Command, tmp_path: Path) -> None:
    from mcpagent.cli.common.configuration import load_configuration
    from mcpagent.cli.common.options import Options
    from mcpagent.mcp.lists.list_cache import config_fingerprint
    from mcpagent.permissions.trust.consent import described
    from mcpagent.permissions.trust.trust_store import TrustStore
    from mcpagent.values.messages import ToolDefinition

    environ = {"MCPAGENT_HOME": str(tmp_path / "home")}
    script = f"import runpy\nrunpy.run_path({door_server.__file__!r}, run_name='__main__')\n"
    (explain.folder / "server.py").write_text(script, "utf-8")
    entries = {
        name: {"command": sys.executable, "args": [program, str(tmp_path / "log"), "push"]}
        for name, program in {"own": "server.py", "other": door_server.__file__}.items()
    }
    (explain.folder / ".mcp.json").write_text(json.dumps({"mcpServers": entries}), "utf-8")
    servers = load_configuration(Options(environ=environ, folder=explain.folder)).enabled
    TrustStore.of_user(environ).add(described(servers))
    stored = StoredApprovals.of_user(environ, {server.name: config_fingerprint(server) for server in servers})
    for name in entries:
        stored.add(ToolDefinition("push", "as it was", {}, name), "tool", {}, always=True)
    said = {name: json.loads(explain("permissions", "explain", f"{name}.push", "--json")) for name in entries}
    assert said["own"]["verdict"] == "allow"
    assert said["own"]["rule"].startswith("you answered always")
    assert said["other"]["verdict"] == "ask", "another's tool is not the one that was shown"


@pytest.mark.slow
def test_a_tool_that_its_server_changed_is_asked_about_as_its_call_is(explain: Command, tmp_path: Path) -> None:
    from mcpagent.cli.common.configuration import load_configuration
    from mcpagent.cli.common.options import Options
    from mcpagent.mcp.lists.pins import PinStore
    from mcpagent.utilities.filesystem.user_folders import state_folder
    from mcpagent.values.messages import ToolDefinition

    environ = {"MCPAGENT_HOME": str(tmp_path / "home")}
    [server] = load_configuration(Options(environ=environ, folder=explain.folder)).enabled
    pins = PinStore(state_folder(environ) / "pins")
    for name in ("push", "wipe"):
        pins.accept(server, ToolDefinition(name, "As it was.", {}, "web", name))

    def explained(name: str, *flags: str) -> dict[str, object]:
        return dict(json.loads(explain("permissions", "explain", name, "--json", *flags)))

    pushed = explained("web.push", "--allow", "web.push")
    assert pushed["verdict"] == "ask"
    assert str(pushed["rule"]).startswith('its server changed it since its first use: description: "As it was." -> ')
    assert [(one["verdict"], one["rule"]) for one in pushed["else"]][:1] == [("allow", "--allow web.push")]  # type: ignore[attr-defined]
    said = " ".join(explain("permissions", "explain", "web.push", "--allow", "web.push").split())
    assert "web.push is asked about" in said
    assert "a chat asks about it at its next call; with -p, --trust-changes accepts it" in said
    assert explained("web.wipe")["rule"] == "approval is deny", "a denied call does not come as far"
    assert explained("web.read")["verdict"] == "allow", "it was never used: no consent is void"
    # The call itself: refused, and after the consent both call it allowed.
    refused = explain("tools", "call", "web.push", code=1)
    assert "--trust-changes" in refused
    assert not (tmp_path / "log").exists() or "push" not in (tmp_path / "log").read_text()
    explain("tools", "call", "web.push", "--trust-changes")
    assert explained("web.push", "--allow", "web.push")["verdict"] == "allow"


def test_a_name_that_nothing_has_is_one_line_with_the_nearest(explain: Command) -> None:
    said = explain("permissions", "explain", "web.psuh", code=2)
    assert 'nothing is named "web.psuh"; did you mean web.push?' in said
    said = explain("permissions", "explain", "web", code=2)
    assert "web is a server; name one of its tools, such as web." in said
    assert run(["permissions", "explain", "web.push"]) == 0


def test_a_tool_that_a_list_of_its_server_hides_is_told_with_list_and_place(explain: Command) -> None:
    file = explain.user_file
    document = json.loads(file.read_text("utf-8"))
    for key, listed in (("disabledTools", ["pu*"]), ("enabledTools", ["read"])):
        entry = {**document["mcpServers"]["web"], key: listed}
        file.write_text(json.dumps({"mcpServers": {"web": entry}}, indent=1), "utf-8")
        said = explain("permissions", "explain", "web.push", code=2)
        assert f'no agent has "web.push": {key} of the server "web" hides it' in said
        assert "mcp.json" in said
