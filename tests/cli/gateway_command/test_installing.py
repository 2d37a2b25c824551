"""`mcpagent gateway install` and `uninstall`: a client's file with the gateway in it, and restored byte for byte."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from mcpagent.cli.app import run
from mcpagent.cli.gateway_command.client_texts import ClientText
from mcpagent.config.jsonc import blank_extras

TOKEN = "ghp_abcdefghijklmnopqrst0123"
DESKTOP = """{
  // mine
  "mcpServers": {
    "git": {"command": "uvx", "args": ["mcp-server-git"]},\r
    "hub": {"command": "hub", "env": {"GITHUB_TOKEN": "%s"}},
    "odd": {"neither": 1},
  },
  "theme": "dark"
}"""
CODEX = """# mine
model = "x"

[mcp_servers.git]
command = "uvx"
args = ["mcp-server-git"]

[mcp_servers.hub]
command = "hub"

[mcp_servers.hub.env]
GITHUB_TOKEN = "%s"

[other]
a = 1
"""
FILES = {
    "claude-desktop": (".config/Claude/claude_desktop_config.json", "mcpServers", DESKTOP),
    "claude-code": (".claude.json", "mcpServers", DESKTOP),
    "cursor": (".cursor/mcp.json", "mcpServers", DESKTOP),
    "vscode": (".config/Code/User/mcp.json", "servers", DESKTOP.replace("mcpServers", "servers")),
    "codex": (".codex/config.toml", "mcp_servers", CODEX),
    "windsurf": (".codeium/windsurf/mcp_config.json", "mcpServers", DESKTOP),
    "zed": (".config/zed/settings.json", "context_servers", DESKTOP.replace("mcpServers", "context_servers")),
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's folder, with `work` in it as the current one."""
    for name in [name for name in os.environ if name.startswith(("MCPAGENT_", "XDG_")) or name == "CODEX_HOME"]:
        monkeypatch.delenv(name)
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "ours"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    monkeypatch.setattr(sys, "platform", "linux")
    return tmp_path


def written(home: Path, client: str) -> tuple[Path, bytes]:
    name, _, text = FILES[client]
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((text % TOKEN).encode())
    return path, path.read_bytes()


def own_servers(home: Path) -> dict[str, object]:
    [path] = (home / "ours").rglob("mcp.json")
    servers: dict[str, object] = json.loads(path.read_text())["mcpServers"]
    return servers


@pytest.mark.parametrize("client", FILES)
def test_a_client_gets_the_gateway_and_its_own_file_back(
    client: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, before = written(home, client)
    assert run(["gateway", "install", client, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert path.read_bytes() == before
    assert not list((home / "ours").rglob("mcp.json"))
    assert "mcp-server-git" in shown
    assert "mcpagent" in shown
    assert TOKEN not in shown
    assert run(["gateway", "install", client, "--yes"]) == 0
    text = path.read_text()
    assert TOKEN not in text
    assert "gateway" in text
    assert "mine" in text
    assert own_servers(home).keys() == {"git", "hub"}
    assert TOKEN not in json.dumps(own_servers(home))
    if path.suffix == ".json":
        data = json.loads(blank_extras(text))
        assert data[FILES[client][1]].keys() == {"odd", "mcpagent"}
        assert data["theme"] == "dark"
    assert run(["gateway", "install", client, "--yes"]) == 2
    capsys.readouterr()
    assert run(["gateway", "uninstall", client, "--yes"]) == 0
    assert TOKEN not in capsys.readouterr().out
    assert path.read_bytes() == before
    assert run(["gateway", "uninstall", client, "--yes"]) == 2


def test_a_file_that_changed_since_keeps_its_changes(home: Path) -> None:
    path, before = written(home, "cursor")
    assert run(["gateway", "install", "cursor", "--yes"]) == 0
    path.write_text(path.read_text().replace('"dark"', '"light"'))
    assert run(["gateway", "uninstall", "cursor", "--yes"]) == 0
    restored, original = (json.loads(blank_extras(text)) for text in (path.read_text(), before.decode()))
    assert restored == {**original, "theme": "light"}


def test_a_client_without_a_file_gets_one_and_loses_it(home: Path) -> None:
    assert run(["gateway", "install", "cursor", "--yes"]) == 0
    path = home / ".cursor" / "mcp.json"
    assert json.loads(path.read_text())["mcpServers"].keys() == {"mcpagent"}
    assert run(["gateway", "uninstall", "cursor", "--yes"]) == 0
    assert not path.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("cursor", b'\xef\xbb\xbf{"mcpServers": {"git": {"command": "uvx"}}}'),
        ("cursor", b'{"mcpServers": {"git": {"command": "\xf0\x9f\x98\x80"}}}\r\n'),
        ("codex", b'\xef\xbb\xbf[mcp_servers.git]\r\ncommand = "uvx"\r\n'),
        ("codex", b"# no newline at the end"),
        ("zed", b""),
    ],
)
def test_unusual_bytes_are_kept(client: str, text: bytes, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = written(home, client)
    path.write_bytes(text)
    program = home / "bin \U0001f600" / "mcpagent"
    program.parent.mkdir(exist_ok=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    assert run(["gateway", "install", client, "--yes"]) == 0
    installed = path.read_bytes()
    assert installed.count(b"\xef\xbb\xbf") == text.count(b"\xef\xbb\xbf")
    assert str(program) in str(ClientText.of_bytes(path, FILES[client][1], installed).entries())
    assert run(["gateway", "uninstall", client, "--yes"]) == 0
    assert path.read_bytes() == text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"\xff\xfe", "not UTF-8"),
        (b"[1]", "expected an object"),
        (b'{"mcpServers": [1]}', "mcpServers: expected an object"),
        (b'{"a": ', "end"),
    ],
)
def test_a_file_that_cannot_be_read_is_left_alone(
    text: bytes, words: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, before = written(home, "cursor")
    path.write_bytes(text)
    assert run(["gateway", "install", "cursor", "--yes"]) == 3
    assert words in capsys.readouterr().err
    path.write_bytes(before)
    assert run(["gateway", "install", "cursor", "--yes"]) == 0
    path.write_bytes(text)
    assert run(["gateway", "uninstall", "cursor", "--yes"]) == 3
    assert words in capsys.readouterr().err
    assert path.read_bytes() == text
    path.unlink()
    assert run(["gateway", "uninstall", "cursor", "--yes"]) == 0
    assert json.loads(path.read_text())["mcpServers"].keys() == {"git", "hub"}


def test_nothing_is_written_without_an_answer(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, before = written(home, "cursor")
    assert run(["gateway", "install", "cursor"]) == 2
    assert "--yes writes it without a question" in capsys.readouterr().err
    assert path.read_bytes() == before
    assert run(["gateway", "install", "emacs"]) == 2
    assert "cursor" in capsys.readouterr().err


def test_an_entry_in_a_form_that_cannot_be_edited_is_left_alone(home: Path) -> None:
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text('mcp_servers = { git = { command = "uvx" } }\n')
    before = path.read_bytes()
    assert run(["gateway", "install", "codex", "--yes"]) == 3
    assert path.read_bytes() == before
