"""What is said of a server that failed: its last words made harmless, where it stands, and what fixes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mcpagent.cli.common.suggested_fixes import fix_for, missing_variable
from mcpagent.cli.screen.lines import server_failed_lines
from mcpagent.cli.screen.terminal import ASCII_GLYPHS
from mcpagent.config import ServerConfig
from mcpagent.values.events import ServerFailed
from tests.tables import each_row

LOCAL = ServerConfig("crm", command="npx", args=("-y", "crm-server"), source="/home/me/shop/.mcp.json:9")
REMOTE = ServerConfig("docs", url="https://docs.example/mcp?key=hidden", source="/home/me/shop/.mcp.json:3")


@each_row(
    "config, reason, environ, do",
    [
        (
            LOCAL,
            "exited with code 1: KeyError: CRM_TOKEN is required",
            {},
            'export CRM_TOKEN=...  and  "env": {"CRM_TOKEN"',
        ),
        (
            LOCAL,
            "exited with code 1: set the CRM_TOKEN",
            {"CRM_TOKEN": "x"},
            '"env": {"CRM_TOKEN": "${CRM_TOKEN}"} in its',
        ),
        (
            ServerConfig("crm", command="npx", env={"CRM_TOKEN": "x"}),
            "exited: CRM_TOKEN is not set",
            {},
            "give CRM_TOKEN another value: mcpagent keys set CRM_TOKEN",
        ),
        (LOCAL, 'could not start: "npx" is not on PATH', {}, "install Node.js, which brings npx"),
        (LOCAL, '"npxx" is not on PATH; did you mean "npx"?', {}, 'write "command": "npx" in its entry'),
        (ServerConfig("x", command="/opt/my tool"), '"/opt/my tool" is not on PATH', {}, "install '/opt/my tool', or"),
        (LOCAL, "gave no answer to initialize within 30 s", {}, '"connect_timeout_seconds": 60 in its entry'),
        (
            ServerConfig("x", command="npx", written={"command": "npx", "startupTimeout": 30}),
            "did not answer within 30 s",
            {},
            '"startupTimeout": 60 in its entry',
        ),
        (
            ServerConfig("x", command="npx"),
            "exited with code 1 during initialize: 404 'no-such@*' is not in this registry.",
            {},
            'look whether the name and the version of the package in "args" are right',
        ),
        (REMOTE, "answered 401 Unauthorized during initialize", {}, "mcpagent mcp login docs"),
        (REMOTE, "could not connect: connection refused", {}, "look whether the address is right"),
        (REMOTE, "answered HTTP 404 Not Found: <html>", {}, "look whether the path of the address is right"),
        (REMOTE, "answered with text/html instead of JSON-RPC: <html>", {}, "many end in /mcp or /sse"),
        (REMOTE, "ConnectError: [SSL: WRONG_VERSION_NUMBER] wrong version", {}, "write http:// in its address"),
        (
            LOCAL,
            "python has neither answered nor written for 30 s; is it a server? command: python",
            {},
            '"connect_timeout_seconds": 60 in its entry',
        ),
        (replace(LOCAL, scope="user"), "exited with code 3 during initialize", {}, "mcpagent mcp test crm"),
        (replace(LOCAL, source="a b.json:3"), "exited with code 3", {}, "mcpagent mcp test crm --config 'a b.json'"),
        (replace(LOCAL, source=""), "exited with code 3 during initialize", {}, "mcpagent mcp logs crm"),
        (
            LOCAL,
            'could not start: "python -m x" is a whole command line; write "command": "python", "args": ["-m", "x"]',
            {},
            'write "command": "python", "args": ["-m", "x"]',
        ),
    ],
)
def test_each_kind_of_failure_has_something_to_do(
    config: ServerConfig, reason: str, environ: dict[str, str], do: str
) -> None:
    assert do in fix_for(ServerFailed(config.name, reason), config, environ)


@each_row(
    "line, name",
    [
        ("Error: missing GITHUB_TOKEN", "GITHUB_TOKEN"),
        ("KeyError: 'AWS_SECRET_ACCESS_KEY'", "AWS_SECRET_ACCESS_KEY"),
        ("LOG_LEVEL=debug", ""),
        ("HTTP_PROXY is used", ""),
        ("$(rm -rf /) IS_REQUIRED; echo required", "IS_REQUIRED"),
        ("A" * 100_000 + "_B is required", ""),
    ],
)
def test_of_a_servers_words_only_a_variables_name_is_repeated(line: str, name: str) -> None:
    assert missing_variable((line,)) == name


def shown(event: ServerFailed, config: ServerConfig | None, *, short: bool, in_chat: bool = False) -> list[str]:
    folder = Path("/home/me/shop")
    lines = server_failed_lines(event, config, ASCII_GLYPHS, short=short, in_chat=in_chat, environ={}, folder=folder)
    return [line.plain for line in lines]


def test_the_whole_block_tells_why_where_and_what_to_do() -> None:
    said = ("starting", "\x1b[2Jreading /etc/crm", "KeyError: CRM_TOKEN is required")
    event = ServerFailed("crm", 'server "crm" exited with code 1: KeyError: CRM_TOKEN is required', said)
    lines = shown(event, LOCAL, short=False, in_chat=True)
    assert lines[0] == "x crm: exited with code 1: KeyError: CRM_TOKEN is required"
    assert lines[1:3] == ["    | starting", "    | [2Jreading /etc/crm"]
    assert lines[3] == "  config  .mcp.json:9   command  npx -y crm-server"
    assert lines[4].startswith("  do      export CRM_TOKEN=...")
    assert lines[5] == "  then    /mcp restart crm   full log: mcpagent mcp logs crm"
    assert len(lines) == 6


def test_elsewhere_it_is_two_lines_and_a_secret_in_an_address_is_not_shown() -> None:
    event = ServerFailed("docs", "answered 401 during initialize")
    assert shown(event, REMOTE, short=True) == [
        "x docs: answered 401 during initialize",
        "  do      mcpagent mcp login docs",
    ]
    assert not any("hidden" in line for line in shown(event, REMOTE, short=False))
    assert len(shown(ServerFailed("odd", "file.json:3: what is wrong and how to fix it"), None, short=False)) == 1
