"""`mcpagent mcp import`: the servers of other clients, in our spelling, without their secrets in a shared file."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagent.cli.app import command_line, run
from mcpagent.cli.common.options import Client, Options
from mcpagent.cli.help_pages import command_page
from mcpagent.cli.servers.importing.client_entries import taken_by_project, taken_over
from mcpagent.cli.servers.importing.clients import client_files
from mcpagent.cli.servers.importing.import_command import servers_elsewhere
from mcpagent.config import load_found_servers
from mcpagent.config.literals import literal_secrets
from mcpagent.config.secret_store import with_stored_keys
from tests.tables import each_row

TOKEN = "ghp_abcdefghijklmnopqrst0123"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's folder, with `work` in it as the current one."""
    for name in [name for name in os.environ if name.startswith(("MCPAGENT_", "XDG_")) or name == "CODEX_HOME"]:
        monkeypatch.delenv(name)
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("APPDATA", str(tmp_path / ".config"))
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "ours"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")  # never the keyring of who runs this
    monkeypatch.setattr(sys, "platform", "linux")
    return tmp_path


def write(path: Path, content: str | dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
"""Aliases that stand for a hundred million texts."""


def test_the_gateway_itself_is_no_server_to_take_over(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gateways = {
        "mcpagent": {"command": sys.executable, "args": ["-m", "mcpagent", "gateway"]},
        "hub": {"command": "/usr/bin/mcpagent", "args": ["gateway", "--set", "mode=all"]},
        "agent": {"command": "/usr/bin/mcpagent", "args": ["serve"]},
    }
    write(home / ".cursor/mcp.json", {"mcpServers": gateways})
    assert servers_elsewhere(Options()) == {"cursor": 1}
    assert run(["mcp", "import", "cursor", "--dry-run"]) == 0
    written = capsys.readouterr()
    assert "hub is the gateway to mcpagent's servers" in written.out + written.err
    assert "1 server would be added" in written.err


def fill(home: Path) -> None:
    """Every client has servers."""
    desktop = {"git": {"command": "uvx", "args": ["mcp-server-git"]}, "hub": {"command": "x", "env": {"TOKEN": TOKEN}}}
    write(home / ".config/Claude/claude_desktop_config.json", {"mcpServers": desktop})
    local = {str(home / "work"): {"mcpServers": {"local": {"type": "stdio", "command": "l"}}}, "/x": {"mcpServers": {}}}
    write(home / ".claude.json", {"mcpServers": {"all": {"type": "sse", "url": "https://a/sse"}}, "projects": local})
    cursor = (
        '{"mcpServers": {"git": {"command": "other"}, "c": {"url": "https://c/mcp", "headers": {"A": "${env:C}"}},},}'
    )
    write(home / ".cursor/mcp.json", cursor)
    vscode = {"command": "npx", "args": ["${input:api-key}"], "envFile": ".env", "gallery": True}
    write(home / ".config/Code/User/mcp.json", {"inputs": [], "servers": {"vs": vscode}})
    write(
        home / ".codex/config.toml",
        'model = "x"\n[mcp_servers.ctx]\nurl = "https://ctx/mcp"\nbearer_token_env_var = "CTX"\nenabled_tools = ["a"]\n'
        '[mcp_servers.off]\ncommand = "o"\nenabled = false\nenv_vars = ["LOCAL"]\nstartup_timeout_sec = 20\n',
    )
    gemini = {"httpUrl": "https://g/mcp", "headers": {"K": "$GKEY"}, "timeout": 30000, "trust": True}
    write(home / ".gemini/settings.json", {"theme": "x", "mcpServers": {"gem": gemini}})
    write(
        home / ".config/goose/config.yaml",
        "extensions:\n  dev: {type: builtin, name: developer}\n  fetch:\n    type: stdio\n    cmd: uvx\n"
        "    args: [mcp-server-fetch]\n    env_keys: [FETCH_KEY]\n    timeout: 300\n    enabled: true\n",
    )


def imported(home: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((home / "ours/config/mcp.json").read_text("utf-8"))["mcpServers"]
    return found


def test_every_client_is_read_and_its_spelling_mapped(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(home)
    assert run(["mcp", "import", "--yes"]) == 0
    said = capsys.readouterr().err
    assert imported(home) == {
        "git": {"command": "uvx", "args": ["mcp-server-git"]},
        "hub": {"command": "x", "env": {"TOKEN": "${keyring:hub.TOKEN}"}},
        "all": {"type": "sse", "url": "https://a/sse"},
        "local": {"type": "stdio", "command": "l"},
        "c": {"url": "https://c/mcp", "headers": {"A": "${env:C}"}},
        "vs": {"command": "npx", "args": ["${API_KEY}"], "envFile": "${workspaceFolder}/.env"},
        "ctx": {"url": "https://ctx/mcp", "headers": {"Authorization": "Bearer ${CTX}"}, "enabledTools": ["a"]},
        "off": {"command": "o", "env": {"LOCAL": "${LOCAL}"}, "startupTimeout": 20, "disabled": True},
        "gem": {"type": "http", "url": "https://g/mcp", "headers": {"K": "${GKEY}"}, "toolTimeout": 30},
        "fetch": {
            "type": "stdio",
            "command": "uvx",
            "args": ["mcp-server-fetch"],
            "env": {"FETCH_KEY": "${FETCH_KEY}"},
            "toolTimeout": 300,
        },
    }
    assert "git is there already and not the same; --replace takes this one" in said
    assert "keys set API_KEY" in said
    assert "dev is a builtin extension" in said
    assert "10 servers added to" in said
    write(home / "work/.env", "A=1\n")
    environ = dict.fromkeys(["C", "API_KEY", "CTX", "LOCAL", "GKEY", "FETCH_KEY"], "value") | {"HOME": str(home)}
    found = load_found_servers(home / "work", with_stored_keys(environ | {"MCPAGENT_HOME": str(home / "ours")}))
    assert found.problems == ()
    by_name = {server.name: server for server in found.servers}
    assert by_name["hub"].env == {"TOKEN": TOKEN}
    assert by_name["vs"].env == {"A": "1"}


def test_a_dry_run_is_a_diff_without_secrets_and_changes_nothing(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(home)
    mine = write(
        home / "ours/config/mcp.json", '{\n  // mine\n  "mcpServers": {\n    "own": {"command": "o"}\n  }\n}\n'
    )
    before = mine.read_text("utf-8")
    assert run(["mcp", "import", "claude-desktop,codex", "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert mine.read_text("utf-8") == before
    lines = out.splitlines()
    assert lines[0].startswith("--- ")
    assert '-    "own": {"command": "o"}' in lines
    assert '+    "git": {"command": "uvx", "args": ["mcp-server-git"]},' in lines
    assert TOKEN not in out + err
    assert '"env": {"TOKEN": "${keyring:hub.TOKEN}"}' in out
    assert "4 servers would be added" in err


def test_a_second_import_changes_nothing_and_replace_replaces(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(home)
    assert run(["mcp", "import", "--yes"]) == 0
    before = (home / "ours/config/mcp.json").read_bytes()
    assert run(["mcp", "import", "--yes"]) == 0
    assert (home / "ours/config/mcp.json").read_bytes() == before
    assert "0 servers added" in capsys.readouterr().err
    assert run(["mcp", "import", "--yes", "cursor", "--replace"]) == 0
    assert imported(home)["git"] == {"command": "other"}


def test_nothing_secret_goes_into_the_projects_file(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(home)
    query = {
        "q": {"url": "https://q/mcp?api_key=0123456789abc"},
        "h": {"url": "https://h", "headers": {"X-Key": TOKEN}},
    }
    write(home / "work/.cursor/mcp.json", {"mcpServers": query})
    assert run(["mcp", "import", "--yes", "--scope", "project"]) == 0
    text = (home / "work/.mcp.json").read_text("utf-8")
    assert TOKEN not in text
    assert "0123456789abc" not in text
    written = json.loads(text)["mcpServers"]
    assert written["hub"]["env"] == {"TOKEN": "${TOKEN}"}
    assert written["h"]["headers"] == {"X-Key": "${H_X_KEY}"}
    assert written["q"] == {"url": "https://q/mcp?api_key=${Q_TOKEN}"}
    assert "url becomes ${Q_TOKEN}: set it, or mcpagent keys set Q_TOKEN" in capsys.readouterr().err


def test_a_projects_servers_never_become_the_users_unseen(home: Path) -> None:
    write(home / "work/.vscode/mcp.json", {"servers": {"evil": {"command": "x"}}})
    assert run(["mcp", "import", "--yes"]) == 1
    assert run(["mcp", "import", "--dry-run"]) == 0, "a look"
    assert not (home / "ours/config/mcp.json").exists()
    assert run(["mcp", "import", "--yes", "--scope", "project"]) == 0
    assert '"evil"' in (home / "work/.mcp.json").read_text("utf-8")
    assert run(["tools", "list"]) == 5  # it still has to be trusted


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".claude.json", "{broken"),
        (".claude.json", "[]"),
        (".codex/config.toml", "= 1"),
        (".config/goose/config.yaml", "a: [\n"),
        (".config/goose/config.yaml", "!!python/object/apply:os.system ['true']"),
        (".config/goose/config.yaml", BOMB),
        (".gemini/settings.json", '{"mcpServers": {"a": 1, "b": {}, "c": {"command": []}, "..": {"command": "x"}}}'),
    ],
)
def test_a_file_that_cannot_be_used_is_named_and_the_others_go_on(
    name: str, content: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(home / name, content)
    write(home / ".cursor/mcp.json", {"mcpServers": {"good": {"command": "x"}}})
    assert run(["mcp", "import", "--yes"]) == 0
    assert list(imported(home)) == ["good"]
    said = capsys.readouterr().err
    assert content == "[]" or Path(name).name in said


def test_a_mistake_in_a_file_has_its_place_and_no_line_of_it(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    goose, secret = ".config/goose/config.yaml", "Zk4q9Wd7Lm"
    for name, content, said in (
        (goose, f'extensions:\n  e:\n    envs: {{GH_TOKEN: "{secret}", X: *Zk4q9}}\n', ":3:39: an alias (*) is"),
        (goose, f"a: {{GH_TOKEN: {secret}, b: ]}}\n", ":1:30: expected the node content, but found ']'"),
        (goose, "a: !Zk4q9Wd7 x\n", ":1:4: could not determine a constructor"),
        (".codex/config.toml", f'a = {{ API_KEY = "{secret}" oops }}', "line 1, column 30"),
        (
            ".cursor/mcp.json",
            f'{{"mcpServers": {{"c": {{"env": {{"API_KEY": "{secret}" oops}}}}}}}}',
            ":1:55: expecting",
        ),
    ):
        write(home / name, content)
        assert run(["mcp", "import", "--yes"]) != 0
        err = "".join(capsys.readouterr().err.split())
        assert "".join(said.split()) in err, (name, content)
        assert "Zk4q9" not in err, (name, content)
        (home / name).unlink()


def test_nothing_to_import_says_where_it_looked(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mcp", "import", "--yes"]) == 1
    assert "looked for claude-desktop, claude-code" in capsys.readouterr().err
    assert run(["mcp", "import", "--yes", "cursr"]) == 2
    assert "did you mean cursor?" in capsys.readouterr().err


def test_what_is_elsewhere_is_counted(home: Path) -> None:
    fill(home)
    found = servers_elsewhere(Options(environ={"HOME": str(home)}, folder=home / "work"))
    assert found == {
        "claude-desktop": 2,
        "claude-code": 2,
        "cursor": 2,
        "vscode": 1,
        "codex": 2,
        "gemini": 1,
        "goose": 1,
    }


@each_row(
    "platform, place",
    [
        ("darwin", "Library/Application Support/Claude/claude_desktop_config.json"),
        ("win32", "roaming/Claude/claude_desktop_config.json"),
        ("win32", "roaming/Block/goose/config/config.yaml"),
        ("linux", "config/Code/User/mcp.json"),
        ("linux", ".codex/config.toml"),
    ],
)
def test_where_the_files_are(platform: str, place: str, tmp_path: Path) -> None:
    write(tmp_path / place, "{}")
    environ = {
        "HOME": str(tmp_path),
        "APPDATA": str(tmp_path / "roaming"),
        "XDG_CONFIG_HOME": str(tmp_path / "config") if platform == "linux" else "",
    }
    assert [file.path for file in client_files(environ, tmp_path / "work", platform)] == [tmp_path / place]


def test_the_option_names_every_client() -> None:
    page = command_page(command_line().commands["mcp"].commands["import"], "mcpagent mcp import", 80, whole=False)
    assert ", ".join(get_args(Client)) in " ".join(page.split())


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(
    [
        "command",
        "cmd",
        "args",
        "env",
        "envs",
        "env_keys",
        "env_vars",
        "url",
        "uri",
        "headers",
        "type",
        "timeout",
        "enabled",
    ]
)


@given(client=st.sampled_from(get_args(Client)), entry=JSON | st.dictionaries(KEYS, JSON))
def test_any_entry_is_taken_or_told_why_not(client: Client, entry: Any) -> None:
    taken = taken_over(client, entry)
    assert (taken.entry is None) <= bool(taken.notes)


SECRET = st.sampled_from([TOKEN, "Bearer abcdefghijklmnop0123", "sk-abcdefghijklmnop0123", "0123456789abcdefghijkl"])


@given(
    env=st.dictionaries(st.sampled_from(["A", "TOKEN", "API_KEY"]), SECRET),
    headers=st.dictionaries(st.sampled_from(["Authorization", "X-Api-Key"]), SECRET),
    args=st.lists(st.sampled_from(["--token", "-v", "plain"]) | SECRET | SECRET.map("--api-key={}".format)),
)
def test_no_secret_is_left_in_an_entry_for_others(env: Any, headers: Any, args: Any) -> None:
    entry = {"command": "x", "env": env, "headers": headers, "args": args}
    kept = taken_by_project("hub", entry)
    assert kept.entry is not None
    assert literal_secrets(kept.entry) == []
