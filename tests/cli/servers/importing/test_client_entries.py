"""The files of other MCP clients as their documentation shows them, with everything that may stand in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpagent.cli.app import run
from mcpagent.config import ServerConfig, load_found_servers
from mcpagent.config.secret_store import key_store, with_stored_keys
from tests.cli.servers.importing.test_import_command import TOKEN, home, imported, write

__all__ = ["home"]

CLAUDE_DESKTOP = """{
  "mcpServers": {
    "filesystem": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/ada/Desktop"]
    },
    "github": {
      "command": "docker",
      "args": ["run", "-i", "--rm", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN", "ghcr.io/github/github-mcp-server"],
      "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": "%(token)s"}
    },
    "weather": {
      "command": "/usr/bin/uv",
      "args": ["--directory", "/home/ada/weather", "run", "weather.py"]
    }
  },
  "globalShortcut": "Ctrl+Space",
  "preferences": {"menuBarEnabled": false}
}
"""

CLAUDE_CODE = """{
  "numStartups": 214,
  "mcpServers": {
    "notion": {"type": "http", "url": "https://mcp.notion.com/mcp", "timeout": 60000},
    "asana": {"type": "sse", "url": "https://mcp.asana.com/sse", "headers": {"X-API-Key": "${ASANA_KEY:-none}"}},
    "events": {"type": "ws", "url": "wss://mcp.example.com/socket"},
    "internal": {"type": "http", "url": "https://mcp.internal.example.com", "headersHelper": "/opt/get-headers.sh",
                 "oauth": {"clientId": "abc", "callbackPort": 8080}, "alwaysLoad": true}
  },
  "projects": {
    "%(project)s": {
      "allowedTools": [],
      "mcpServers": {
        "db": {"type": "stdio", "command": "npx", "args": ["-y", "@bytebase/dbhub"],
               "env": {"DB_URL": "postgresql://ada:correct-horse-1@db.example.com/shop"}},
        "off": {"type": "stdio", "command": "npx", "args": ["-y", "x"], "env": {}}
      },
      "disabledMcpServers": ["off"],
      "hasTrustDialogAccepted": true
    }
  }
}
"""

CURSOR = """{
  // Cursor reads comments too
  "mcpServers": {
    "local": {
      "type": "stdio",
      "command": "${workspaceFolder}/tools/run${/}server",
      "args": ["--home", "${userHome}/x", "${workspaceFolderBasename}"],
      "env": {"API_KEY": "${env:CURSOR_KEY}"},
      "envFile": ".env",
    },
    "remote": {
      "url": "https://api.example.com/mcp",
      "headers": {"Authorization": "Bearer ${env:CURSOR_KEY}"},
      "auth": {"CLIENT_ID": "${env:ID}", "CLIENT_SECRET": "${env:SECRET}", "scopes": ["mcp"]},
    },
  },
}
"""

VSCODE = """{
  "inputs": [
    {"type": "promptString", "id": "perplexity-key", "description": "Perplexity API Key", "password": true},
    {"type": "pickString", "id": "region", "description": "Region", "options": ["eu", "us"], "default": "eu"}
  ],
  // used by every workspace
  "servers": {
    "perplexity": {
      "type": "stdio",
      "command": "docker",
      "args": ["run", "-i", "--rm", "-e", "PERPLEXITY_API_KEY", "-e", "REGION=${input:region}", "mcp/perplexity-ask"],
      "env": {"PERPLEXITY_API_KEY": "${input:perplexity-key}", "RETRIES": 3, "PROXY": null},
      "envFile": "${workspaceFolder}/.env",
      "cwd": "${workspaceFolder}/server",
      "sandboxEnabled": true,
      "dev": {"watch": "src/**/*.ts", "debug": {"type": "node"}}
    },
    "fetch": {"type": "http", "url": "https://mcp.example.com/mcp", "headers": {"API-VERSION": "1.2"}},
    "socket": {"type": "http", "url": "unix:///tmp/server.sock"}
  }
}
"""

CODEX = """
model = "gpt-5.5"          # not ours
[features]
rmcp_client = true

[mcp_servers.context7]
command = "npx"
args = ["-y", "@upstash/context7-mcp"]
env_vars = ["LOCAL_TOKEN", { name = "REMOTE_TOKEN", source = "remote" }]
cwd = "servers"
startup_timeout_ms = 20_000
tool_timeout_sec = 45.5
supports_parallel_tool_calls = true

[mcp_servers.context7.env]
MY_ENV_VAR = "MY_ENV_VALUE"

[mcp_servers.figma]
url = "https://mcp.figma.com/mcp"
bearer_token_env_var = "FIGMA_OAUTH_TOKEN"
http_headers = { "X-Figma-Region" = "us-east-1" }
env_http_headers = { "X-Api-Key" = "FIGMA_KEY" }
scopes = ["read"]
required = true

[mcp_servers.chrome]
url = "http://localhost:3000/mcp"
enabled_tools = ["open", "screenshot"]
disabled_tools = ["screenshot"]
startup_timeout_sec = 20
default_tools_approval_mode = "approve"
enabled = false

[mcp_servers.chrome.tools.open]
approval_mode = "approve"
"""

GEMINI = """{
  "mcp": {"allowed": ["py", "stream", "events", "unsafe"], "excluded": ["unsafe"]},
  "mcpServers": {
    "py": {"command": "python", "args": ["-m", "my_mcp_server", "--port", "8080"], "cwd": "./mcp-servers/python",
           "env": {"DATABASE_URL": "$DB_CONNECTION_STRING", "API_KEY": "${EXTERNAL_API_KEY}"},
           "timeout": 500, "trust": true, "includeTools": ["safe_tool"], "excludeTools": ["file_deleter"]},
    "stream": {"httpUrl": "http://localhost:3000/mcp", "url": "http://localhost:3000/sse", "timeout": 5000,
               "headers": {"Authorization": "Bearer $GEMINI_TOKEN"}, "authProviderType": "google_credentials"},
    "events": {"url": "https://api.example.com/sse"},
    "typed": {"url": "https://api.example.com/mcp", "type": "http"},
    "unsafe": {"command": "x"},
    "phone": {"tcp": "ws://localhost:1"}
  }
}
"""

GOOSE = """
GOOSE_MODEL: gpt-5.5
extensions:
  developer: {enabled: true, type: builtin, name: developer, bundled: true, timeout: 300}
  github:                       # from the catalogue
    enabled: true
    type: stdio
    name: GitHub
    description: issues and pull requests
    cmd: npx
    args: [-y, "@modelcontextprotocol/server-github"]
    envs: {LOG: debug}
    env_keys: [GITHUB_PERSONAL_ACCESS_TOKEN]
    timeout: 1800
    bundled: null
    available_tools: [get_issue]
  docs:
    enabled: false
    type: streamable_http
    uri: https://docs.example.com/mcp
    headers: {Authorization: "Bearer ${DOCS_TOKEN}", X-Tenant: $TENANT, X-Price: "$5"}
    envs: {TENANT: acme}
    env_keys: [DOCS_TOKEN]
    timeout: 300
  old: {enabled: true, type: sse, uri: "https://old.example.com/sse", name: old}
"""


def servers(home: Path, **environ: str) -> dict[str, ServerConfig]:
    """What is read back from our file in the folder `work`; none of it may be a problem."""
    given = with_stored_keys({"HOME": str(home), "MCPAGENT_HOME": str(home / "ours"), **environ})
    found = load_found_servers(home / "work", given)
    assert found.problems == ()
    return {server.name: server for server in found.servers}


def test_claude_desktop(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(home / ".config/Claude/claude_desktop_config.json", CLAUDE_DESKTOP % {"token": TOKEN})
    assert run(["mcp", "import", "--yes"]) == 0
    assert imported(home)["github"] == {
        "command": "docker",
        "args": ["run", "-i", "--rm", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN", "ghcr.io/github/github-mcp-server"],
        "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": "${keyring:github.GITHUB_PERSONAL_ACCESS_TOKEN}"},
    }
    assert servers(home)["github"].env == {"GITHUB_PERSONAL_ACCESS_TOKEN": TOKEN}
    assert TOKEN not in capsys.readouterr().err


def test_claude_code(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(home / ".claude.json", CLAUDE_CODE % {"project": home / "work"})
    assert run(["mcp", "import", "--yes"]) == 0
    assert imported(home) == {
        "notion": {"type": "http", "url": "https://mcp.notion.com/mcp", "toolTimeout": 60},
        "asana": {"type": "sse", "url": "https://mcp.asana.com/sse", "headers": {"X-API-Key": "${ASANA_KEY:-none}"}},
        "internal": {
            "type": "http",
            "url": "https://mcp.internal.example.com",
            "alwaysLoad": True,
            "sign_in": {"client_id": "abc", "callback_port": 8080},
        },
        "db": {
            "type": "stdio",
            "command": "npx",
            "args": ["-y", "@bytebase/dbhub"],
            "env": {"DB_URL": "${keyring:db.DB_URL}"},
        },
        "off": {"type": "stdio", "command": "npx", "args": ["-y", "x"], "disabled": True},
    }
    said = capsys.readouterr().err
    assert "events left out" in said
    assert "internal: not taken over: headersHelper" in said
    assert servers(home)["db"].env == {"DB_URL": "postgresql://ada:correct-horse-1@db.example.com/shop"}


def test_cursor(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(home / ".cursor/mcp.json", CURSOR)
    write(home / "work/.env", "# keys\nexport PORT=8080\nNAME='a b'  # said\nRAW=${PORT}\n")
    assert run(["mcp", "import", "--yes"]) == 0
    found = servers(home, CURSOR_KEY="k")
    assert found["local"].command == f"{home}/work/tools/run/server"
    assert found["local"].args == ("--home", f"{home}/x", "work")
    assert found["local"].env == {"PORT": "8080", "NAME": "a b", "RAW": "${PORT}", "API_KEY": "k"}
    assert found["remote"].headers == {"Authorization": "Bearer k"}
    assert "remote: not taken over: its sign-in, beside its header" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("auth", "written", "said"),
    [
        (
            {"CLIENT_ID": "${env:ID}", "CLIENT_SECRET": "${env:SECRET}", "scopes": ["mcp"], "pool": 1},
            {"sign_in": {"client_id": "${env:ID}", "client_secret": "${env:SECRET}", "scopes": ["mcp"]}},
            "remote: not taken over: pool of its sign-in",
        ),
        ("oauth", {}, ""),
        (True, {}, ""),
        ("${env:SECRET}", {"headers": {"Authorization": "Bearer ${env:SECRET}"}}, ""),
        ({"CLIENT_SECRET": "${env:SECRET}"}, {}, "remote: not taken over: its sign-in"),
        ({"CLIENT_ID": 5}, {}, "remote: not taken over: its sign-in"),
        (["x"], {}, "remote: not taken over: its sign-in"),
    ],
)
def test_a_sign_in_of_another_client_is_taken_as_far_as_it_can_be_used(
    auth: object, written: dict[str, object], said: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = {"mcpServers": {"remote": {"url": "https://api.example.com/mcp", "auth": auth}}}
    write(home / ".cursor/mcp.json", json.dumps(document))
    assert run(["mcp", "import", "--yes"]) == 0
    assert imported(home)["remote"] == {"url": "https://api.example.com/mcp", **written}
    assert "remote" in servers(home, ID="me", SECRET="s3cret-of-mine")
    heard = capsys.readouterr().err
    assert said in heard if said else "not taken over" not in heard


def test_a_literal_secret_of_a_sign_in_is_moved_to_the_keys(home: Path) -> None:
    auth = {"clientId": "me", "clientSecret": "correct-horse-battery-1"}
    document = {"mcpServers": {"remote": {"url": "https://api.example.com/mcp", "oauth": auth}}}
    write(home / ".claude.json", json.dumps(document))
    assert run(["mcp", "import", "--yes"]) == 0
    assert "correct-horse" not in (home / "ours/config/mcp.json").read_text("utf-8")
    assert servers(home)["remote"].sign_in.client_secret == "correct-horse-battery-1"


def test_vscode(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(home / ".config/Code/User/mcp.json", VSCODE)
    write(home / ".config/Code/User/profiles/1a2b/mcp.json", {"servers": {"other": {"command": "o"}}})
    write(home / "work/.env", "FROM_FILE=1\nPERPLEXITY_API_KEY=old\n")
    assert run(["mcp", "import", "--yes", "vscode"]) == 0
    said = capsys.readouterr().err
    assert "${input:perplexity-key} (Perplexity API Key) becomes ${PERPLEXITY_KEY}: set it" in said
    assert "${input:region} (Region) becomes ${REGION:-eu}" in said
    assert "perplexity: not taken over: sandboxEnabled" in said
    assert "socket left out" in said
    found = servers(home, PERPLEXITY_KEY="k")
    assert sorted(found) == ["fetch", "other", "perplexity"]
    assert found["perplexity"].args[5:7] == ("-e", "REGION=eu")
    assert found["perplexity"].env == {"FROM_FILE": "1", "PERPLEXITY_API_KEY": "k", "RETRIES": "3"}
    assert found["perplexity"].cwd == f"{home}/work/server"
    assert found["fetch"].headers == {"API-VERSION": "1.2"}


def test_codex(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(home / ".codex/config.toml", CODEX)
    assert run(["mcp", "import", "--yes"]) == 0
    assert imported(home) == {
        "context7": {
            "command": "npx",
            "args": ["-y", "@upstash/context7-mcp"],
            "env": {
                "LOCAL_TOKEN": "${LOCAL_TOKEN}",
                "REMOTE_TOKEN": "${REMOTE_TOKEN}",
                "MY_ENV_VAR": "MY_ENV_VALUE",
            },
            "cwd": "${workspaceFolder}/servers",
            "startupTimeout": 20,
            "toolTimeout": 45.5,
        },
        "figma": {
            "url": "https://mcp.figma.com/mcp",
            "headers": {
                "X-Figma-Region": "us-east-1",
                "X-Api-Key": "${FIGMA_KEY}",
                "Authorization": "Bearer ${FIGMA_OAUTH_TOKEN}",
            },
            "required": True,
        },
        "chrome": {
            "url": "http://localhost:3000/mcp",
            "startupTimeout": 20,
            "enabledTools": ["open", "screenshot"],
            "disabledTools": ["screenshot"],
            "disabled": True,
        },
    }
    said = capsys.readouterr().err
    assert "figma: not taken over: scopes" in said
    assert "REMOTE_TOKEN is a variable of another machine" in said
    assert servers(home, LOCAL_TOKEN="l", REMOTE_TOKEN="r", FIGMA_KEY="f", FIGMA_OAUTH_TOKEN="o")["figma"].required


def test_gemini(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(home / ".gemini/settings.json", GEMINI)
    assert run(["mcp", "import", "--yes"]) == 0
    assert imported(home) == {
        "py": {
            "command": "python",
            "args": ["-m", "my_mcp_server", "--port", "8080"],
            "env": {"DATABASE_URL": "${DB_CONNECTION_STRING}", "API_KEY": "${EXTERNAL_API_KEY}"},
            "cwd": "${workspaceFolder}/mcp-servers/python",
            "toolTimeout": 0.5,
            "enabledTools": ["safe_tool"],
            "disabledTools": ["file_deleter"],
        },
        "stream": {
            "type": "http",
            "url": "http://localhost:3000/mcp",
            "headers": {"Authorization": "Bearer ${GEMINI_TOKEN}"},
            "toolTimeout": 5,
        },
        "events": {"url": "https://api.example.com/sse"},
        "typed": {"type": "http", "url": "https://api.example.com/mcp", "disabled": True},
        "unsafe": {"command": "x", "disabled": True},
    }
    said = capsys.readouterr().err
    assert "stream: not taken over: authProviderType" in said
    assert "phone has neither a command nor a URL" in said
    assert servers(home, DB_CONNECTION_STRING="d", EXTERNAL_API_KEY="e", GEMINI_TOKEN="t")["py"].timeout_seconds == 0.5


def test_goose(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(home / ".config/goose/config.yaml", GOOSE)
    assert run(["mcp", "import", "--yes"]) == 0
    assert imported(home) == {
        "github": {
            "type": "stdio",
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-github"],
            "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": "${GITHUB_PERSONAL_ACCESS_TOKEN}", "LOG": "debug"},
            "description": "issues and pull requests",
            "toolTimeout": 1800,
            "enabledTools": ["get_issue"],
        },
        "docs": {
            "type": "streamable_http",
            "url": "https://docs.example.com/mcp",
            "headers": {"Authorization": "Bearer ${DOCS_TOKEN}", "X-Tenant": "acme", "X-Price": "$5"},
            "toolTimeout": 300,
            "disabled": True,
        },
        "old": {"type": "sse", "url": "https://old.example.com/sse"},
    }
    said = capsys.readouterr().err
    assert "GITHUB_PERSONAL_ACCESS_TOKEN is kept by goose" in said
    assert servers(home, GITHUB_PERSONAL_ACCESS_TOKEN="t")["docs"].disabled


# --- secrets ----------------------------------------------------------------------------------------------------------

SECRETS: dict[str, Any] = {
    "command": "docker",
    "args": [
        *("run", "-e", "API_KEY=correct-horse-2", "--token", "correct-horse-3", "--api-key=correct-horse-4"),
        *("--header", f"Authorization: Bearer {TOKEN}", "image"),
    ],
    "env": {"PASSWORD": "correct-horse-5", "MODE": "fast", "TOKEN_FILE": "/etc/token", "REF": "${HOME}"},
}
HEADERS = {"url": "https://h/mcp", "headers": {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json"}}


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_keys_go_from_the_file_into_the_store_and_come_back(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(home / ".cursor/mcp.json", {"mcpServers": {"my hub": SECRETS, "h": HEADERS}})
    assert run(["mcp", "import", "--yes"]) == 0
    mine = home / "ours/config/mcp.json"
    text = mine.read_text("utf-8")
    assert "correct-horse" not in text
    assert TOKEN not in text
    kept = {key.name for key in key_store({"MCPAGENT_HOME": str(home / "ours")}).list()}
    assert kept == {
        *("my_hub.API_KEY", "my_hub.TOKEN", "my_hub.API_KEY_2", "my_hub.AUTHORIZATION", "my_hub.PASSWORD"),
        "h.AUTHORIZATION",
    }
    found = servers(home)
    assert list(found["my hub"].args) == SECRETS["args"]
    assert found["my hub"].env == SECRETS["env"] | {"REF": str(home)}
    assert found["h"].headers == HEADERS["headers"]
    said = capsys.readouterr().err
    assert "my hub: env.PASSWORD becomes ${keyring:my_hub.PASSWORD}" in said
    assert "my_hub.PASSWORD is kept in a file that only you can read" in said
    assert "correct-horse" not in said
    for path in files_of(home / "ours"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_plain_secrets_leaves_them_where_they_are(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(home / ".cursor/mcp.json", {"mcpServers": {"h": HEADERS}})
    assert run(["mcp", "import", "--yes", "--plain-secrets"]) == 0
    assert imported(home)["h"] == HEADERS
    assert run(["mcp", "import", "--yes"]) == 0
    assert "h is there already with its secrets in the file; --replace moves them" in capsys.readouterr().err
    assert run(["mcp", "import", "--yes", "--replace"]) == 0
    assert imported(home)["h"]["headers"]["Authorization"] == "Bearer ${keyring:h.AUTHORIZATION}"


def test_a_dry_run_keeps_nothing_and_shows_no_secret(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(home / ".cursor/mcp.json", {"mcpServers": {"my hub": SECRETS, "h": HEADERS}})
    assert run(["mcp", "import", "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert '"Authorization": "Bearer ${keyring:h.AUTHORIZATION}"' in out
    assert run(["mcp", "import", "--dry-run", "--plain-secrets"]) == 0
    plain = capsys.readouterr()
    assert "[redacted]" in plain.out
    assert TOKEN not in out + err + plain.out + plain.err
    assert "correct-horse" not in out + err + plain.out + plain.err
    assert files_of(home / "ours") == []


def test_another_secret_of_the_same_server_is_noticed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = write(home / ".cursor/mcp.json", {"mcpServers": {"h": HEADERS}})
    assert run(["mcp", "import", "--yes"]) == 0
    assert run(["mcp", "import", "--yes"]) == 0
    assert "another secret" not in capsys.readouterr().err
    there.write_text(there.read_text("utf-8").replace(TOKEN, TOKEN[::-1]), "utf-8")
    assert run(["mcp", "import", "--yes"]) == 0
    assert "h is there already with another secret; --replace takes this one" in capsys.readouterr().err
    assert servers(home)["h"].headers["Authorization"] == f"Bearer {TOKEN}"
    assert run(["mcp", "import", "--yes", "--replace"]) == 0
    assert servers(home)["h"].headers["Authorization"] == f"Bearer {TOKEN[::-1]}"


def test_a_key_that_cannot_be_kept_leaves_the_file_as_it_is(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(home / ".cursor/mcp.json", {"mcpServers": {"h": HEADERS}})
    write(home / "ours/data", "no folder")
    assert run(["mcp", "import", "--yes"]) == 3
    assert "cannot be written" in capsys.readouterr().err
    assert not (home / "ours/config/mcp.json").exists()


def test_a_projects_servers_go_to_the_project_with_their_folder(home: Path) -> None:
    nested = home / "work/app"
    entry = {"command": "${workspaceFolder}/run", "cwd": "src", "args": ["${workspaceFolderBasename}"]}
    write(nested / ".vscode/mcp.json", {"servers": {"n": entry}})
    write(home / "work/.cursor/mcp.json", {"mcpServers": {"top": {"command": "${workspaceFolder}/run"}}})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(nested)
        assert run(["mcp", "import", "--yes", "--scope", "project"]) == 0
    written = json.loads((home / "work/.mcp.json").read_text("utf-8"))["mcpServers"]
    assert written["top"] == {"command": "${workspaceFolder}/run"}
    assert written["n"]["command"] == "${workspaceFolder}/app/run"
    assert written["n"]["cwd"] == "${workspaceFolder}/app/src"
    assert written["n"]["args"] == ["app"]
