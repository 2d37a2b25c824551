"""`mcpagent mcp add|remove|enable|disable|logs`: one server changes, everything else in the file stays."""

from __future__ import annotations

import io
import json
import os
import shlex
import stat
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from mcpagent.cli.app import run
from mcpagent.cli.common.configuration import target_of
from mcpagent.cli.servers.server_commands import followed, last_lines
from mcpagent.cli.servers.server_editing import ServerFile, open_file
from mcpagent.config import load_servers
from mcpagent.config.literals import literal_secrets
from mcpagent.config.secret_store import key_store, with_stored_keys
from mcpagent.mcp.transports.server_log import log_path
from mcpagent.utilities.filesystem.user_folders import state_folder
from mcpagent.utilities.text.secrets import revealed
from tests.tables import each_row
from tests.terminal.process import SMALL_SERVER

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX files")

PROJECT = """\
{
  // shared by all of us
  "mcpServers": {
    "git": {"command": "uvx", "args": ["mcp-server-git"], "ourOwnKey": 1}, // leave this
  },
  "someOtherTool": {"a": [1, 2]}
}
"""


class Command:
    """Runs command lines in a folder of their own, and says what they wrote."""

    def __init__(self, folder: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.user_file = home / "config" / "mcp.json"
        self.project_file = folder / ".mcp.json"
        self._capsys = capsys

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """What it wrote to both streams; the exit code has to be this."""
        found = run(arguments)
        out, err = self._capsys.readouterr()
        assert found == code, f"{found}: {out}{err}"
        assert "Traceback" not in err
        return out + err

    def entry(self, name: str, file: Path | None = None) -> object:
        return json.loads((file or self.user_file).read_text("utf-8"))["mcpServers"][name]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (tmp_path / "bin").mkdir()
    uvx = tmp_path / "bin" / "uvx"  # a server that is added is started once
    uvx.write_text("#!/bin/sh\necho no package >&2\nexit 3\n", "utf-8")
    uvx.chmod(0o755)
    monkeypatch.setenv("PATH", f"{uvx.parent}{os.pathsep}{os.environ['PATH']}")
    for name in [name for name in os.environ if name.startswith("MCPAGENT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return Command(folder, tmp_path / "home", capsys)


# --- add ---


def test_a_command_is_added_for_the_user(command: Command) -> None:
    said = command("mcp", "add", "time", "-e", "ZONE=UTC", "-e", "TOKEN", "--", sys.executable, "-m", "x", "--flag")
    assert command.entry("time") == {
        "command": sys.executable,
        "args": ["-m", "x", "--flag"],
        "env": {"ZONE": "UTC", "TOKEN": "${TOKEN}"},
    }
    assert f"added time to {command.user_file}:3" in said
    assert "TOKEN is not set" in said
    assert stat.S_IMODE(command.user_file.stat().st_mode) == 0o600


def test_a_server_that_is_added_is_started_once_and_what_comes_of_it_is_said(command: Command) -> None:
    small = (sys.executable, str(SMALL_SERVER), "good")
    said = command("mcp", "add", "good", "--", *small)
    assert "\ngood answers: 4 tools\n" in said
    assert "mcp test" not in said
    said = command("mcp", "add", "gone", "--", sys.executable, "-m", "no_such_module")
    assert "! gone exited with code 1 during initialize: " in said
    assert "\ntry it: mcpagent mcp test gone\n" in said
    said = command("mcp", "add", "typo", "--", "uvxx", "pack")
    assert said.count("is not") == 1, "one line of one cause"
    assert '! typo could not start: "uvxx" is not on PATH; did you mean "uvx"?\n' in said
    assert '  do      write "command": "uvx" in its entry\n' in said
    command("mcp", "remove", "typo")
    assert set(json.loads(command.user_file.read_text("utf-8"))["mcpServers"]) == {"good", "gone"}


@pytest.mark.slow
def test_a_command_that_is_no_server_is_named_when_it_is_added_and_tested(command: Command) -> None:
    said = command("mcp", "add", "x", "--", sys.executable)
    cause = f"{sys.executable} has neither answered nor written for {{}} s; is it a server? command: {sys.executable}"
    assert f'! server "x": {cause.format(2)}\n' in said
    entry = {"command": sys.executable, "connect_timeout_seconds": 4}
    command.user_file.write_text(json.dumps({"mcpServers": {"x": entry}}), "utf-8")
    said = command("mcp", "test", "x", code=5)
    assert f'! server "x": {cause.format(2)}\n' in said
    assert cause.format(4) in said
    said = command("tools", "list", code=5)
    assert f'! server "x": {cause.format(2)}\n' in said
    said = command("-p", "What is 12 * 12?", code=5)
    assert f'! server "x": {cause.format(2)}\n' in said


def test_trust_is_written_into_the_users_file_and_not_into_a_projects(command: Command) -> None:
    command("mcp", "add", "time", "--trust", "--", sys.executable, "-m", "x")
    command("mcp", "add", "docs", "https://example.com/mcp", "--trust")
    assert command.entry("time") == {"command": sys.executable, "args": ["-m", "x"], "trust": True}
    assert command.entry("docs") == {"type": "http", "url": "https://example.com/mcp", "trust": True}
    said = command("mcp", "add", "more", "--trust", "--scope", "project", "--", sys.executable, code=2)
    assert "a project's file cannot trust its own servers" in said
    assert not command.project_file.exists()


def test_a_command_in_one_word_is_divided_as_a_shell_would(command: Command) -> None:
    command("mcp", "add", "files", f"'{sys.executable}' 'a b' c")
    assert command.entry("files") == {"command": sys.executable, "args": ["a b", "c"]}


def test_an_address_without_scheme_and_a_package_are_answered_with_the_line_to_write(command: Command) -> None:
    for typed, meant in (
        (["localhost:8000/mcp"], "mcpagent mcp add docs http://localhost:8000/mcp"),
        (["mcp.example.com:443"], "mcpagent mcp add docs http://mcp.example.com:443"),
        (["@scope/server-files", "/tmp"], "mcpagent mcp add docs -- npx -y @scope/server-files /tmp"),
    ):
        said = command("mcp", "add", "docs", *typed, code=2)
        assert f"{typed[0]} is no command; write {meant}\n" in said
    assert not command.user_file.exists()
    said = command("tools", "list", "--server", "docs=localhost:8000/mcp", code=2)
    assert "--server docs: write docs=http://localhost:8000/mcp\n" in said


def test_a_removed_server_is_no_consent_any_more_and_a_sign_in_needs_a_server(command: Command) -> None:
    for name in ("kept", "gone"):
        command("mcp", "add", name, "--", sys.executable, "-m", name)
    assert command("trust", "list").rstrip().endswith("kept, gone")
    command("mcp", "remove", "gone")
    assert command("trust", "list").rstrip().endswith("kept")
    said = command("mcp", "login", "https://example.com/mcp", code=2)
    assert "add it first: mcpagent mcp add NAME https://example.com/mcp\n" in said


def test_the_removal_of_a_server_names_the_secret_that_only_it_used(command: Command) -> None:
    store = key_store({"MCPAGENT_HOME": str(command.user_file.parent.parent)})
    for name in ("shared", "mine", "absent"):
        if name != "absent":
            store.set(name, f"{name}-value-0123456789")
    for name, keys in (("one", ("shared", "mine", "absent")), ("two", ("shared",))):
        env = [word for key in keys for word in ("--env", f"{key.upper()}=${{keyring:{key}}}")]
        command("mcp", "add", name, *env, "--", sys.executable, "-m", name)
    said = command("mcp", "remove", "one")
    assert "its secret mine stays stored: mcpagent keys remove mine" in said
    assert "shared" not in said
    assert "absent" not in said


def test_a_program_that_is_not_there_is_reported_and_started_from_this_folder_later(command: Command) -> None:
    for name, words in (("clock", (sys.executable, "clock.py")), ("run", ("./run",))):
        said = command("mcp", "add", name, "--", *words)
        assert f"! {words[-1]} is not in {command.folder}; the server cannot start without it" in said
        assert "is not found on PATH" not in said
        assert command.entry(name) == {
            "command": words[0],
            **({"args": list(words[1:])} if words[1:] else {}),
            "cwd": str(command.folder),
        }
    (command.folder / "clock.py").touch()
    assert "cannot start" not in command("mcp", "add", "there", "--", sys.executable, "clock.py")
    said = command("mcp", "add", "own", "--scope", "project", "--", sys.executable, "other.py")
    assert f"! other.py is not in {command.folder}" in said
    assert command.entry("own", command.project_file) == {"command": sys.executable, "args": ["other.py"]}


def test_the_first_server_replaces_the_bundled_one_and_the_line_brings_it_back(command: Command) -> None:
    assert "demo" in command("mcp", "list")
    said = command("mcp", "add", "time", "--", sys.executable, "-m", "x")
    (line,) = [line for line in said.splitlines() if line.startswith("the bundled demo server steps back")]
    assert "demo" not in command("mcp", "list")
    assert "bundled" not in command("mcp", "add", "more", "--", sys.executable, "-m", "x")
    words = shlex.split(line.partition(": ")[2])
    assert words[:4] == ["mcpagent", "mcp", "add", "demo"]
    command(*words[1:])
    assert "mcpagent.demo.server" in command("mcp", "list")
    for name in ("demo", "more"):
        assert "bundled" not in command("mcp", "remove", name)
    assert "the bundled demo server is used again" in command("mcp", "remove", "time")
    command.project_file.write_text(PROJECT, "utf-8")
    assert "bundled" not in command("mcp", "add", "x", "--scope", "project", "--", sys.executable)
    assert "bundled demo server steps back" in command("mcp", "add", "time", "--", sys.executable), "elsewhere"


def test_an_address_is_added_with_its_headers(command: Command) -> None:
    command("mcp", "add", "docs", "https://example.com/mcp", "--header", "Authorization: Bearer ${DOCS}")
    command("mcp", "add", "old", "https://example.com/sse", "--transport", "sse")
    assert command.entry("docs") == {
        "type": "http",
        "url": "https://example.com/mcp",
        "headers": {"Authorization": "Bearer ${DOCS}"},
    }
    assert command.entry("old") == {"type": "sse", "url": "https://example.com/sse"}


def test_the_projects_file_keeps_its_comments_and_foreign_keys(command: Command) -> None:
    command.project_file.write_text(PROJECT, "utf-8")
    command("mcp", "add", "time", "--scope", "project", "--", "uvx", "mcp-server-time")
    assert command.project_file.read_text("utf-8") == PROJECT.replace(
        "// leave this\n", '// leave this\n    "time": {"command": "uvx", "args": ["mcp-server-time"]},\n'
    )
    command("mcp", "remove", "time")
    assert command.project_file.read_text("utf-8") == PROJECT


def test_a_link_stays_a_link_and_a_mode_a_mode(command: Command, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "mcp.json"
    real.parent.mkdir()
    real.write_bytes(b"\xef\xbb\xbf" + PROJECT.replace("\n", "\r\n").encode())
    real.chmod(0o640)
    command.project_file.symlink_to(real)
    command("mcp", "disable", "git")
    assert command.project_file.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    after = real.read_bytes()
    assert after.startswith(b"\xef\xbb\xbf")
    assert after.count(b"\r\n") == after.count(b"\n")
    assert [path.name for path in real.parent.iterdir()] == ["mcp.json"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["-e", "GITHUB_TOKEN=ghp_abcdefghij0123456789abcd", "--", "uvx", "x"],
        ["-e", "PASSWORD=correct-horse", "--", "uvx", "x"],
        ["--", "uvx", "x", "--api-key", "0123456789abcdefghij"],
        ["--", "uvx", "x", "--token=0123456789abcdefghij"],
        ["https://example.com/mcp", "--header", "Authorization: Bearer abcdefghijklmnop0123"],
        ["https://example.com/mcp?api_key=0123456789abc"],
        ["https://me:secret99@example.com/mcp"],
    ],
)
def test_a_secret_that_is_written_out_is_one_warning_with_the_command_that_moves_it(
    arguments: list[str], command: Command
) -> None:
    said = command("mcp", "add", "hub", "--scope", "project", *arguments)
    assert said.count("keep it in the keyring: mcpagent keys move hub") == 1
    assert all(word not in said for word in ("ghp_", "correct-horse", "0123456789", "secret99@"))
    assert command.entry("hub", command.project_file)


def test_a_secret_is_moved_from_the_file_to_the_keyring_and_the_rest_stays(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    command.project_file.write_text(
        """{
  // ours
  "mcpServers": {
    "db": {
      "command": "x", // the program
      "args": ["--token", "canary-abcd-1", "--user=me"],
      "env": {"DB_PASSWORD": "canary-efgh-2", "POSTGRES_PASSWORD": "postgres"}
    }
  }
}
""",
        "utf-8",
    )
    before = load_servers(command.project_file).servers
    said = command("keys", "move", "db")
    assert "canary" not in said
    assert "db.TOKEN" in said
    written = command.project_file.read_text("utf-8")
    assert "canary" not in written
    assert '"args": ["--token", "${keyring:db.TOKEN}", "--user=me"]' in written
    assert "// ours" in written
    assert "// the program" in written
    assert '"POSTGRES_PASSWORD": "postgres"' in written
    (after,) = load_servers(command.project_file).servers
    assert [revealed(word) for word in after.args] == list(before[0].args)
    assert {name: revealed(text) for name, text in after.env.items()} == dict(before[0].env)
    assert "nothing was changed" in command("keys", "move", "db", code=3)


@pytest.mark.parametrize(
    ("address", "written"),
    [
        ("https://h/s/NzE2ZjQ4YmEtOWQyZi00MGQ1/mcp", "https://h/s/${keyring:it.TOKEN}/mcp"),
        ("https://u:correct-horse-9@h/mcp?a=1", "https://u:${keyring:it.TOKEN}@h/mcp?a=1"),
        ("https://h/mcp?api_key=canary%2Fabcd-1&x=2", "https://h/mcp?api_key=${keyring:it.TOKEN}&x=2"),
        (
            "https://h/s/NzE2ZjQ4YmEtOWQyZi00MGQ1/mcp?token=canary-abcd-1",
            "https://h/s/${keyring:it.TOKEN_2}/mcp?token=${keyring:it.TOKEN}",
        ),
    ],
)
def test_a_secret_in_an_address_is_moved_out_of_it(
    address: str, written: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    command.project_file.write_text(json.dumps({"mcpServers": {"it": {"url": address}}}), "utf-8")
    (before,) = load_servers(command.project_file).servers
    command("keys", "move", "it")
    assert json.loads(command.project_file.read_text("utf-8")) == {"mcpServers": {"it": {"url": written}}}
    environ = with_stored_keys({"MCPAGENT_HOME": str(command.user_file.parent.parent)})
    (after,) = load_servers(command.project_file, environ=environ).servers
    assert after.address == before.address
    assert {name: revealed(text) for name, text in after.headers.items()} == {
        name: revealed(text) for name, text in before.headers.items()
    }
    assert "nothing was changed" in command("keys", "move", "it", code=3)


@each_row(
    "entry",
    [
        {"args": ["-y", "@scope/server-filesystem@2026.1.14", "mcp-server-git==2026.1.14", "/srv/a_long_name_of_2026"]},
        {
            "env": {
                "MODEL": "gpt-4.1-mini-2025-04-14",
                "TOKEN": "${TOKEN}",
                "KEY_FILE": "/etc/key",
                "MAX_TOKENS": "4096",
            }
        },
        {"headers": {"Authorization": "Bearer ${TOKEN:-x}", "Content-Type": "application/json"}},
        {"url": "https://example.com/mcp?version=2026-07-28"},
    ],
)
def test_what_is_no_secret_is_not_taken_for_one(entry: dict[str, object]) -> None:
    assert literal_secrets(entry) == []


@each_row(
    "arguments, shown",
    [
        (["--token", "sesame-open"], "x --token [redacted]"),
        (["--token=sesame-open", "-v"], "x --token=[redacted] -v"),
        (["--password", "postgres"], "x --password postgres"),
        (["--token", "${A_TOKEN}"], "x --token ${A_TOKEN}"),
    ],
)
def test_a_secret_among_the_arguments_is_not_shown(arguments: list[str], shown: str) -> None:
    entry = {"command": "x", "args": arguments}
    (server,) = load_servers({"mcpServers": {"a": entry}}, environ={"A_TOKEN": "sesame-open"}).servers
    assert target_of(server) == shown


def test_a_secret_goes_into_the_store_and_its_name_into_the_file(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    monkeypatch.setattr(sys, "stdin", io.StringIO("s3cret-value\n"))
    said = command("mcp", "add", "hub", "--scope", "project", "--secret", "HUB_TOKEN", "--", sys.executable)
    assert command.entry("hub", command.project_file) == {
        "command": sys.executable,
        "env": {"HUB_TOKEN": "${keyring:HUB_TOKEN}"},
    }
    assert "s3cret-value" not in said + command.project_file.read_text("utf-8")
    (server,) = load_servers(command.project_file).servers
    assert server.env == {"HUB_TOKEN": "s3cret-value"}
    command("mcp", "add", "web", "https://example.com/mcp", "--secret", "HUB_TOKEN")
    assert command.entry("web") == {
        "type": "http",
        "url": "https://example.com/mcp",
        "headers": {"Authorization": "Bearer ${keyring:HUB_TOKEN}"},
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["add", "git", "--scope", "project", "--", "x"], "--replace"),
        (["add", "a..b", "--", "x"], "server name"),
        (["add", "time", "npx", "-y", "x"], "stands after --"),
        (["add", "time", "npx", "--scpe", "user"], "did you mean --scope"),
        (["add", "time"], "missing argument"),
        (["add", "time", "https://example.com", "x"], "no arguments"),
        (["add", "time", "https://example.com", "-e", "A=b"], "--header"),
        (["add", "time", "--header", "A: b", "--", "x"], "--env"),
        (["add", "time", "-e", "1=b", "--", "x"], "NAME=VALUE"),
        (["add", "time", "--secret", "no name", "--", "x"], "GITHUB_TOKEN"),
        (["remove", "gti"], "did you mean git?"),
        (["enable", "zzz"], "configured: git"),
        (["remove", "git", "--scope", "user"], "no server"),
        (["logs", "gti"], "did you mean git?"),
        (["tset"], "test"),
    ],
)
def test_each_mistake_is_one_line_with_its_fix(arguments: list[str], words: str, command: Command) -> None:
    command.project_file.write_text(PROJECT, "utf-8")
    said = command("mcp", *arguments, code=3 if "a..b" in arguments else 2)
    assert words in said
    assert said.count("\n") == 1
    assert command.project_file.read_text("utf-8") == PROJECT
    assert not command.user_file.exists()


def test_a_file_that_cannot_be_read_is_not_written(command: Command) -> None:
    command.project_file.write_text('{"mcpServers": {', "utf-8")
    assert ".mcp.json:1" in command("mcp", "add", "x", "--scope", "project", "--", "y", code=3)
    assert command.project_file.read_text("utf-8") == '{"mcpServers": {'


# --- remove, enable, disable ---


def test_the_file_that_counts_is_changed_and_what_then_counts_is_said(command: Command) -> None:
    command.project_file.write_text(PROJECT, "utf-8")
    command("mcp", "add", "git", "--", "uvx", "mine")
    said = command("mcp", "remove", "git")
    assert "removed git from .mcp.json" in said
    assert f"git is now the one of {command.user_file}:3" in said
    command("mcp", "remove", "git", "--scope", "user")
    assert load_servers(command.user_file).servers == ()


def test_a_server_is_switched_by_the_key_that_its_file_has(command: Command) -> None:
    file = command.project_file
    file.write_text('{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y", "enabled": true}}}', "utf-8")
    before = file.read_text("utf-8")
    assert "no server is enabled" not in command("mcp", "disable", "a")
    assert "no server is enabled here; mcpagent mcp enable b" in command("mcp", "disable", "b")
    assert command.entry("a", file) == {"command": "x", "disabled": True}
    assert command.entry("b", file) == {"command": "y", "enabled": False}
    assert "is disabled already" in command("mcp", "disable", "a")
    command("mcp", "enable", "a")
    command("mcp", "enable", "b")
    assert file.read_text("utf-8") == before


def test_a_file_that_is_named_is_the_one_changed(command: Command, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"servers": {"a": {"command": "x"}}}', "utf-8")
    command("mcp", "add", "b", "--config", str(other), "--", "y")
    command("mcp", "disable", "a", "--config", str(other))
    assert json.loads(other.read_text("utf-8")) == {
        "servers": {"a": {"command": "x", "disabled": True}, "b": {"command": "y"}}
    }
    assert not command.user_file.exists()


# --- logs ---


def test_the_last_lines_of_a_log(command: Command) -> None:
    command.project_file.write_text(PROJECT, "utf-8")
    assert "has written nothing yet" in command("mcp", "logs", "git")
    path = log_path(state_folder(os.environ) / "logs", "git")
    path.parent.mkdir(parents=True)
    path.with_name(f"{path.name}.1").write_text("older\n", "utf-8")
    path.write_text("one\ntwo \x1b[31mred\nthree\n", "utf-8")
    assert command("mcp", "logs", "git", "-n", "2") == "two [31mred\nthree\n"
    assert command("mcp", "logs", "git") == "older\none\ntwo [31mred\nthree\n"


def test_a_log_is_followed_into_the_next_file(tmp_path: Path) -> None:
    path = tmp_path / "git.log"
    path.write_text("before\n", "utf-8")
    start = (path.stat().st_size, path.stat().st_ino)
    assert last_lines(path, 5, start[0]) == ["before"]
    steps = iter(["half", " line\nnext\n", "new", ""])

    def write() -> None:
        step = next(steps)
        if step == "new":
            path.rename(tmp_path / "git.log.1")
            path.write_text("in the new file\n", "utf-8")
        else:
            with path.open("a", encoding="utf-8") as file:
                file.write(step)

    lines = followed(path, start, write)
    assert [next(lines) for _ in range(3)] == ["half line", "next", "in the new file"]


def test_what_several_change_at_once_is_all_there(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "mcp.json"

    def add(names: Sequence[str]) -> None:
        before = open_file(path, is_project=False)
        for name in names:
            before.saved(partial(ServerFile.with_entry, name=name, entry={"command": name}))

    names = [[f"s{thread}-{number}" for number in range(8)] for thread in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(add, names))
    assert sorted(open_file(path, is_project=False).entries) == sorted(name for some in names for name in some)
    assert [item.name for item in path.parent.iterdir()] == ["mcp.json"]


def test_a_change_elsewhere_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": {"a": {"command": "a"}}}', "utf-8")
    opened = open_file(path, is_project=False)
    path.write_text('{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}} // theirs', "utf-8")
    opened.saved(lambda file: file.without_entry("a"))
    assert path.read_text("utf-8") == '{"mcpServers": {"b": {"command": "b"}}} // theirs'
