"""Configuration files: the shapes of other clients are read, and each mistake is one line that names its place."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpagent.config import (
    ServerConfig,
    ServerProblem,
    find_config_files,
    load_found_servers,
    load_servers,
    user_config_folder,
)
from mcpagent.errors import ConfigError, CredentialsError
from mcpagent.utilities.filesystem.user_folders import own_folders
from tests.tables import each_row


def load(text: str, folder: Path, **environ: str) -> Any:
    file = folder / "mcp.json"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    return load_servers(file, environ=environ)


def one(server: dict[str, Any], folder: Path, **environ: str) -> ServerConfig:
    (found,) = load(json.dumps({"mcpServers": {"git": server}}), folder, **environ).servers
    assert isinstance(found, ServerConfig)
    return found


def error_of(text: str, folder: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load(text, folder)
    message = str(caught.value)
    assert "\n" not in message
    assert message.isprintable()
    return message.replace(str(folder / "mcp.json"), "mcp.json")


# --- what is read ---


def test_the_python_that_runs_this_has_a_variable() -> None:
    source = {"mcpServers": {"demo": {"command": "${MCPAGENT_PYTHON}", "args": ["${MCPAGENT_PYTHON:-python3}"]}}}
    [server] = load_servers(source, environ={}).servers
    assert [server.command, *server.args] == [sys.executable, sys.executable]
    [other] = load_servers(source, environ={"MCPAGENT_PYTHON": "/opt/python"}).servers
    assert [other.command, *other.args] == ["/opt/python", "/opt/python"]


def test_a_file_as_people_write_it(tmp_path: Path) -> None:
    text = """\ufeff{
      // my servers
      "mcpServers": {
        "git": {
          "command": "uvx", /* from PyPI */
          "args": ["mcp-server-git", "--repository", "${workspaceFolder}", "http://a//b",],
          "env": {"TOKEN": "${env:TOKEN}", "HOST": "${HOST:-localhost}", "RAW": "$HOME"},
        },
        "docs": {"type": "http", "url": "https://example.com/${TENANT}/mcp",
                 "headers": {"Authorization": "Bearer ${TOKEN}"}},
      },
    }"""
    config = load(text, tmp_path, TOKEN="t0", TENANT="acme")
    assert config.servers == (
        ServerConfig(
            name="git",
            command="uvx",
            args=("mcp-server-git", "--repository", str(tmp_path), "http://a//b"),
            env={"TOKEN": "t0", "HOST": "localhost", "RAW": "$HOME"},
            cwd=str(tmp_path),
            source=f"{tmp_path / 'mcp.json'}:4",
        ),
        ServerConfig(
            name="docs",
            url="https://example.com/acme/mcp",
            headers={"Authorization": "Bearer t0"},
            transport="http",
            source=f"{tmp_path / 'mcp.json'}:9",
        ),
    )
    assert config.problems == ()
    assert config.files == (str(tmp_path / "mcp.json"),)


@each_row("key", ["mcpServers", "servers"])
def test_both_top_keys(key: str, tmp_path: Path) -> None:
    assert load(json.dumps({key: {"a": {"command": "x"}}, "inputs": []}), tmp_path).servers[0].name == "a"


def test_parsed_content_and_values_are_accepted_too() -> None:
    config = load_servers({"mcpServers": {"a": {"command": "x", "args": ["${N}"]}}}, environ={"N": "1"})
    assert config.servers == (ServerConfig(name="a", command="x", args=("1",)),)
    assert load_servers({"a": {"command": "x"}}, environ={}).servers[0].command == "x"
    assert load_servers([ServerConfig(name="a", url="http://x")]).servers == (ServerConfig(name="a", url="http://x"),)


@each_row(
    "entry, expected",
    [
        ({"allowedTools": ["a*"]}, {"enabled_tools": ("a*",)}),
        ({"includeTools": ["a*"]}, {"enabled_tools": ("a*",)}),
        ({"enabled_tools": ["a*"]}, {"enabled_tools": ("a*",)}),
        ({"excludedTools": ["b"]}, {"disabled_tools": ("b",)}),
        ({"excludeTools": ["b"]}, {"disabled_tools": ("b",)}),
        ({"alwaysLoad": True}, {"always_load": ("*",)}),
        ({"alwaysLoad": ["x"]}, {"always_load": ("x",)}),
        ({"alwaysLoad": False}, {"always_load": ()}),
        ({"startup_timeout_sec": 9}, {"connect_timeout_seconds": 9.0}),
        ({"tool_timeout_sec": 9}, {"timeout_seconds": 9.0}),
        ({"timeout_seconds": 9}, {"timeout_seconds": 9.0, "total_timeout_seconds": 300.0}),
        ({"timeout_seconds": 900}, {"timeout_seconds": 900.0, "total_timeout_seconds": 900.0}),
        ({"timeout": 90}, {"timeout_seconds": 90.0}),
        ({"timeout": 90_000}, {"timeout_seconds": 90.0}),
        ({"required": True}, {"required": True}),
        ({"working_dir": "sub"}, {}),
        ({"description": "d", "trust": True, "autoApprove": [], "gallery": 1}, {"description": "d"}),
        ({"type": "stdio"}, {"transport": "stdio"}),
        ({}, {"eager": False, "safe_to_repeat": (), "trust_hints": False, "log_level": None, "era": "auto"}),
        ({"eager": True, "era": "legacy"}, {"eager": True, "era": "legacy"}),
        ({"safeToRepeat": ["get_*"], "trustHints": True}, {"safe_to_repeat": ("get_*",), "trust_hints": True}),
        ({"safe_to_repeat": True, "logLevel": "debug"}, {"safe_to_repeat": ("*",), "log_level": "debug"}),
        ({"maxMessageBytes": 100_000}, {"max_message_bytes": 100_000}),
        ({"elicitation": True, "roots": ["/a/../b"]}, {"elicitation": True, "sampling": False, "roots": ("/b",)}),
    ],
)
def test_spellings_of_other_clients(entry: dict[str, Any], expected: dict[str, Any], tmp_path: Path) -> None:
    found = one({"command": "x"} | entry, tmp_path)
    assert {key: getattr(found, key) for key in expected} == expected


def test_roots_are_folders_from_where_the_file_is(tmp_path: Path) -> None:
    assert one({"command": "x", "roots": [".", "sub", "~"]}, tmp_path).roots == (
        str(tmp_path),
        str(tmp_path / "sub"),
        str(Path.home()),
    )


@each_row(
    "entry, expected",
    [
        ({"logLevel": "loud"}, 'logLevel: "loud" is not one of debug, info, notice, '),
        ({"era": "stone"}, 'era: "stone" is not one of auto, legacy'),
        ({"maxMessageBytes": 1}, "maxMessageBytes: expected bytes between 4096 and 1073741824, got 1"),
        ({"maxMessageBytes": True}, "maxMessageBytes: expected bytes between"),
        ({"safeToRepeat": "x"}, "safeToRepeat: expected a list of strings"),
        ({"roots": True}, "roots: expected a list of strings, got true"),
    ],
)
def test_settings_that_are_none_are_refused(entry: dict[str, Any], expected: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        one({"command": "x"} | entry, tmp_path)
    assert expected in str(caught.value)


def test_a_relative_folder_is_relative_to_the_file(tmp_path: Path) -> None:
    assert one({"command": "x", "cwd": "sub"}, tmp_path).cwd == str(tmp_path / "sub")


@each_row("entry", [{"disabled": True}, {"enabled": False}])
def test_a_disabled_server_needs_no_variables(entry: dict[str, Any], tmp_path: Path) -> None:
    found = one({"command": "x", "env": {"A": "${MISSING}"}, "description": "d"} | entry, tmp_path)
    assert (found.disabled, found.description) == (True, "d")


def test_credentials_in_a_url_become_a_header(tmp_path: Path) -> None:
    found = one({"url": "https://me:p%40ss@example.com:8443/mcp?a=1"}, tmp_path)
    assert found.url == "https://example.com:8443/mcp?a=1"
    assert found.headers == {"Authorization": "Basic bWU6cEBzcw=="}


def test_values_are_not_in_the_repr(tmp_path: Path) -> None:
    found = one({"command": "x", "env": {"TOKEN": "hunter2"}}, tmp_path)
    assert "hunter2" not in repr(found)


def test_b21_many_servers(tmp_path: Path) -> None:
    servers = {f"s{number}": {"command": "x"} for number in range(500)}
    assert len(load(json.dumps({"mcpServers": servers}), tmp_path).servers) == 500


# --- one server that cannot be used ---


NOT_SET = (
    "environment variable MISSING is not set; export it, or keep it: mcpagent keys set MISSING, "
    "or write ${MISSING:-default}"
)


@each_row(
    "value, expected",
    [
        ("${MISSING}", NOT_SET),
        ("${env:MISSING}", NOT_SET),
        (
            "${input:token}",
            '"${input:token}" is not supported; import it: mcpagent mcp import, or write ${VAR}, ${VAR:-default} or '
            "${env:VAR}",
        ),
        ("${MISSING:-${A}}", '"${MISSING:-${": a default cannot hold braces; set the variable instead'),
        ('${A:-{"b": 1}}', '"${A:-{": a default cannot hold braces; set the variable instead'),
        ("${config:x}", '"${config:x}" is not supported; use ${VAR}, ${VAR:-default} or ${env:VAR}'),
    ],
)
def test_a_server_that_cannot_be_used_does_not_stop_the_others(value: str, expected: str, tmp_path: Path) -> None:
    text = (
        '{"mcpServers": {\n "bad": {"command": "x",\n  "env": {"TOKEN": ' + json.dumps(value) + "}},\n"
        ' "good": {"command": "y"}}}'
    )
    config = load(text, tmp_path)
    assert [server.name for server in config.servers] == ["good"]
    reason = f"{tmp_path / 'mcp.json'}:3:11: mcpServers.bad.env.TOKEN: {expected}"
    assert config.problems == (ServerProblem("bad", reason),)


def test_an_empty_variable_is_set_but_takes_the_default(tmp_path: Path) -> None:
    found = one({"command": "x", "args": ["${A}", "${A:-d}", "${B:-}"]}, tmp_path, A="")
    assert found.args == ("", "d", "")


def test_a_variable_may_be_in_any_string_and_is_expanded_once(tmp_path: Path) -> None:
    found = one({"url": "${BASE}/mcp", "headers": {"X": "${V}"}}, tmp_path, BASE="http://h", V="${BASE}")
    assert (found.url, dict(found.headers)) == ("http://h/mcp", {"X": "${BASE}"})


# --- mistakes ---


@each_row(
    "text, expected",
    [
        ("", 'mcp.json: is empty; write {"mcpServers": {}} and add servers to it'),
        (
            '{"mcpServers": {\n  "git": {"command" "x"}}}',
            "mcp.json:2:21: expecting ':' delimiter",
        ),
        ("{\n", "mcp.json:2:1: it ends in the middle of its JSON; write the rest, and close each { and ["),
        ("{ // {}", "mcp.json:1:8: it ends in the middle of its JSON; write the rest, and close each { and ["),
        ("{nosuch}", "mcp.json:1:2: expecting property name enclosed in double quotes"),
        (
            '{"mcpServers": {"a": {"command": "x", "env": {"API_KEY": "Zk4q9Wd7Lm2xTT0uVw" oops}}}}',
            "mcp.json:1:79: expecting ',' delimiter",
        ),
        (
            '{"mcpServers": {"a": {"command": "x",\n "shutdown_seconds": -' + "9" * 5000 + "}}}",
            "mcp.json:2:22: a number of 5000 digits; write at most 4300",
        ),
        ("[0." + "9" * 5000 + ", " + "8" * 5000 + "]", "mcp.json:1:5006: a number of 5000 digits; write at most 4300"),
        ("[1]", 'mcp.json: expected an object with "mcpServers", got a list'),
        ('{"mcpServers": []}', "mcp.json:1:2: mcpServers: expected an object of name -> server, got a list"),
        ('{"mcpserver": {}}', 'mcp.json:1:2: mcpserver: no "mcpServers" found; "mcpserver" should be "mcpServers"'),
        ('{"other": {}}', 'mcp.json: no "mcpServers" found; write {"mcpServers": {"name": {"command": "..."}}}'),
        ("[" * 100_000, "mcp.json: nests too deeply; this cannot be a server list"),
        (
            '{"mcpServers": {"a": {"command": "x"},\n "a": {"command": "y"}}}',
            'mcp.json:2:2: two servers are named "a"; rename one',
        ),
        (
            '{"mcpServers": {"a.b": {"command": "x"}, "a_b": {"command": "y"}}}',
            'mcp.json: servers "a.b" and "a_b" give the same tool prefix "a_b"; rename one',
        ),
        (
            '{"mcpServers": {"git": "npx"}}',
            'mcp.json:1:17: mcpServers.git: expected an object with "command" or "url", got a string',
        ),
    ],
)
def test_mistakes_of_the_file(text: str, expected: str, tmp_path: Path) -> None:
    assert error_of(text, tmp_path) == expected


@each_row(
    "entry, expected",
    [
        ({"commnad": "x"}, 'commnad: unknown key "commnad"; did you mean "command"?'),
        ({}, 'has neither "command" nor "url"; give exactly one of them'),
        ({"command": "x", "url": "http://x"}, 'has both "command" and "url"; give exactly one of them'),
        ({"command": "x", "args": "a b"}, 'args: expected a list of strings, got "a b"; write ["a", "b"]'),
        ({"command": "x", "args": ["a", 1]}, 'args.1: expected a string, got 1 (write "1")'),
        ({"command": "x", "env": {"PORT": 8080}}, 'env.PORT: expected a string, got 8080 (write "8080")'),
        ({"command": "x", "env": {"PORT": None}}, "env.PORT: expected a string, got null"),
        ({"command": "x", "env": {"A": True}}, 'env.A: expected a string, got true (write "true")'),
        ({"command": "x", "env": []}, "env: expected an object of strings, got a list"),
        ({"command": "x", "env": {"A=B": "c"}}, 'env: "A=B" cannot be a variable name'),
        ({"command": "x\0y"}, "command: contains a NUL character; remove it"),
        ({"command": "x", "args": ["a", "b\0"]}, "args.1: contains a NUL character; remove it"),
        ({"command": "x", "env": {"A": "b\0"}}, "env.A: contains a NUL character; remove it"),
        ({"command": "x", "cwd": "a\0b"}, "cwd: contains a NUL character; remove it"),
        ({"url": "ftp://x"}, 'url: only http and https URLs, got "ftp"'),
        ({"url": "8000"}, "url: write http://localhost:8000/mcp"),
        ({"url": "localhost:80"}, "url: write http://localhost:80"),
        ({"url": "http://"}, "url: has no host; write https://host/path"),
        ({"url": "http://h:99999"}, "url: not a URL: Port out of range 0-65535"),
        (
            {"url": "http://u:pass12345word@h", "headers": {"authorization": "Bearer x"}},
            "url: has a user or password beside an Authorization header; keep one of them",
        ),
        ({"url": "http://h/a b"}, "url: contains a space or control character; remove it"),
        ({"url": "http://h", "headers": {"X": "a\r\nb"}}, "headers.X: control character at position 1; remove it"),
        ({"url": "http://h", "headers": {"X": "é"}}, "headers.X: non-ASCII character at position 0; remove it"),
        (
            {"url": "http://h", "headers": {"X Y": "a"}},
            "headers.X Y: not a legal header name; use letters, digits and hyphens",
        ),
        (
            {"command": "x", "transport": "websocket"},
            'transport: transport "websocket" is not one of auto, stdio, http, sse',
        ),
        ({"command": "x", "type": "http"}, 'type: "http" does not fit a server with "command"; write stdio'),
        ({"url": "http://x", "type": "stdio"}, 'type: "stdio" does not fit a server with "url"; write http or sse'),
        ({"command": "x", "disabled": "yes"}, 'disabled: expected true or false, got "yes"'),
        *(
            (
                {"command": "x", "timeout_seconds": value},
                f"timeout_seconds: expected seconds between 0.1 and 86400, got {shown}",
            )
            for value, shown in [
                (-1, "-1"),
                (0, "0"),
                ("30s", '"30s"'),
                (float("nan"), "nan"),
                (float("inf"), "inf"),
                (1e9, "1000000000.0"),
                (True, "true"),
            ]
        ),
    ],
)
def test_mistakes_in_a_server(entry: dict[str, Any], expected: str, tmp_path: Path) -> None:
    message = error_of(json.dumps({"mcpServers": {"git": entry}}), tmp_path)
    place, _, rest = message.partition(": mcpServers.git")
    assert place.startswith("mcp.json:1:")
    assert rest.lstrip(":. ") == expected


@each_row("name", ["", "../x", "x" * 65, "🙂", "a\nb", "..", "-"])
def test_server_names_that_cannot_be(name: str, tmp_path: Path) -> None:
    message = error_of(json.dumps({"mcpServers": {name: {"command": "x"}}}), tmp_path)
    assert "server name" in message
    assert "rename it" in message


@each_row("name", ["git", "io.github.upstash/context7", "@scope/server", "My Server", "a_b-c.1"])
def test_server_names_that_people_use(name: str, tmp_path: Path) -> None:
    assert load(json.dumps({"mcpServers": {name: {"command": "x"}}}), tmp_path).servers[0].name == name


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "mcp_servers.json").write_text("{}")
    with pytest.raises(ConfigError, match=r'mcp_server\.json: not found \(did you mean "mcp_servers\.json"\?\)'):
        load_servers(tmp_path / "mcp_server.json")
    with pytest.raises(ConfigError, match=r"not found \(the folder .* does not exist\)"):
        load_servers(tmp_path / "nope" / "mcp.json")
    with pytest.raises(ConfigError, match="is a directory; give the JSON file inside it"):
        load_servers(str(tmp_path))
    (tmp_path / "large.json").write_bytes(b" " * 1_000_001)
    with pytest.raises(ConfigError, match="larger than 1 MB"):
        load_servers(tmp_path / "large.json")
    (tmp_path / "latin.json").write_bytes(b'{\n"a": "\xff"}')
    with pytest.raises(ConfigError, match=r"latin\.json:2: not UTF-8"):
        load_servers(tmp_path / "latin.json")
    with pytest.raises(ConfigError):
        load_servers("a\0b")


@pytest.mark.skipif(getattr(os, "geteuid", int)() == 0, reason="root reads every file")
def test_a_file_without_permission(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text("{}")
    file.chmod(0)
    with pytest.raises(ConfigError, match="permission denied"):
        load_servers(file)


@each_row("values", [["git"], [ServerConfig(name="a")], [ServerConfig(name="a", command="x")] * 2])
def test_values_that_are_no_servers(values: Any) -> None:
    with pytest.raises(ConfigError, match="mcp_config: "):
        load_servers(values)


# --- where files are looked for ---


def test_the_order_of_files_and_which_wins(tmp_path: Path) -> None:
    project, inner = tmp_path / "project", tmp_path / "project" / "src" / "deep"
    inner.mkdir(parents=True)
    (project / ".git").mkdir()
    user = tmp_path / "config" / "mcpagent" / "mcp.json"
    user.parent.mkdir(parents=True)
    files = {
        user: {"a": {"command": "user"}, "b": {"command": "user"}},
        tmp_path / ".mcp.json": {"outside": {"command": "x"}},
        project / ".mcp.json": {"b": {"command": "project"}, "c": {"command": "${MISSING}"}},
        project / "mcp_servers.json": {"ignored": {"command": "x"}},
        inner / "mcp_servers.json": {"c": {"command": "inner"}},
    }
    for path, servers in files.items():
        path.write_text(json.dumps({"mcpServers": servers}))
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    expected = [user, project / ".mcp.json", inner / "mcp_servers.json"]
    assert find_config_files(inner, environ) == expected
    found = load_found_servers(inner, environ)
    assert {server.name: server.command for server in found.servers} == {"a": "user", "b": "project", "c": "inner"}
    assert found.problems == ()
    assert found.files == tuple(map(str, expected))


def test_without_a_repository_only_the_folder_itself_is_looked_at(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {}}')
    assert find_config_files(inner, {"MCPAGENT_HOME": str(tmp_path / "home")}) == []
    (inner / ".mcp.json").write_text('{"mcpServers": {}}')
    assert find_config_files(inner, {"MCPAGENT_HOME": str(tmp_path / "home")}) == [inner / ".mcp.json"]


def test_the_users_folder(tmp_path: Path) -> None:
    assert user_config_folder({"MCPAGENT_HOME": str(tmp_path)}) == tmp_path / "config"
    assert user_config_folder({"XDG_CONFIG_HOME": "/x", "HOME": "/h"}) == Path("/x/mcpagent")
    assert user_config_folder({"XDG_CONFIG_HOME": "relative", "HOME": "/h"}) == Path("/h/.config/mcpagent")


# --- any input ---

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["mcpServers", "command", "args", "env", "url", "headers", "timeout", "a", "é\n"]), inner
        )
    ),
    max_leaves=12,
)


@given(st.binary(max_size=200) | st.builds(lambda value: json.dumps({"mcpServers": value}).encode(), JSON))
@settings(max_examples=60)
def test_any_file_loads_or_is_one_printable_line(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any.json"
    file.write_bytes(content)
    problem = ""
    try:
        load_servers(file, environ={})
    except ConfigError as error:
        problem = str(error)
    assert problem == "" or problem.isprintable()


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.lists(st.text(max_size=10), max_size=3), min_size=1, max_size=4
    )
)
@settings(max_examples=60)
def test_comments_and_trailing_commas_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, servers: dict[str, list[str]]
) -> None:
    plain = json.dumps(
        {"mcpServers": {name: {"command": "x", "args": args} for name, args in servers.items()}}, indent=1
    )
    noisy = "// a, b]\n" + plain.replace("\n", " // , }\n").replace("]\n", ",]\n")
    folder = tmp_path_factory.getbasetemp()
    found = []
    for name, text in (("plain.json", plain), ("noisy.json", noisy)):
        (folder / name).write_text(text, encoding="utf-8")
        try:
            loaded = load_servers(folder / name, environ={})
        except ConfigError as error:
            found.append(str(error).partition(": ")[2])
        else:
            found.append(str([(server.name, server.args) for server in loaded.servers]))
    assert found[0] == found[1]


@each_row(
    "content, reason",
    [
        (None, "missing.env: not found"),
        (b"A=1\nthis is no variable\n", "some.env:2: expected NAME=value"),
        (b"A=\xff\n", "some.env: not UTF-8"),
        (b"A=1\0\n", "some.env:1: expected NAME=value"),
    ],
)
def test_an_env_file_that_cannot_be_read_costs_only_its_server(
    content: bytes | None, reason: str, tmp_path: Path
) -> None:
    name = "some.env" if content is not None else "missing.env"
    if content is not None:
        (tmp_path / name).write_bytes(content)
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"a": {"command": "x", "envFile": name}, "b": {"command": "y"}}}))
    found = load_servers(path, environ={})
    assert [server.name for server in found.servers] == ["b"]
    assert reason in found.problems[0].reason
    assert "mcpServers.a.envFile" in found.problems[0].reason


def test_env_goes_before_the_env_file_and_nothing_in_the_file_is_expanded(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(
        "\ufeffA=file\nB='${HOME} $HOME'\nC\nD=\"two\\nlines\"\nexport E = e # said\n", "utf-8"
    )
    entry = {"command": "x", "envFile": "${workspaceFolder}/.env", "env": {"A": "own"}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"a": entry}}))
    (server,) = load_servers(tmp_path / "mcp.json", environ={"HOME": "/h"}).servers
    assert server.env == {"A": "own", "B": "${HOME} $HOME", "C": "", "D": "two\nlines", "E": "e"}


def test_places_that_editors_name(tmp_path: Path) -> None:
    text = "${workspaceFolder}|${workspaceFolderBasename}|${userHome}|${pathSeparator}|${/}"
    (tmp_path / "shop/.vscode").mkdir(parents=True)
    path = tmp_path / "shop/.vscode/mcp.json"
    path.write_text(json.dumps({"servers": {"a": {"command": text}}}))
    (server,) = load_servers(path, environ={"HOME": "/h"}).servers
    assert server.command == f"{tmp_path}/shop|shop|/h|{os.sep}|{os.sep}"


def test_in_the_users_file_the_workspace_is_the_project_one_is_in(tmp_path: Path) -> None:
    inner = tmp_path / "shop" / "src"
    inner.mkdir(parents=True)
    (tmp_path / "shop" / ".git").mkdir()
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "mcp.json").write_text('{"servers": {"a": {"command": "${workspaceFolder}"}}}')
    (server,) = load_found_servers(inner, {"MCPAGENT_HOME": str(tmp_path)}).servers
    assert server.command == str(tmp_path / "shop")


def test_documents_that_cannot_be_read(tmp_path: Path) -> None:
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 100_000)
    huge = tmp_path / "huge.json"
    huge.write_text('{"mcpServers": {"a": {"command": "x", "timeout": ' + "9" * 5_000 + "}}}")
    for path, words in [
        (deep, "deep.json: nests too deeply; this cannot be a server list"),
        (huge, "huge.json:1:50: a number of 5000 digits; write at most 4300"),
        (tmp_path / "a\0b.json", "cannot be read: "),
        (tmp_path / "none" / "mcp.json", f'not found (the folder "{tmp_path / "none"}" does not exist)'),
    ]:
        with pytest.raises(ConfigError) as caught:
            load_servers(path)
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)


def test_more_servers_than_anybody_has() -> None:
    source = {"mcpServers": {f"s{number}": {"command": "x"} for number in range(1_001)}}
    with pytest.raises(ConfigError, match="1001 servers; the limit is 1000"):
        load_servers(source)


def test_a_key_that_cannot_be_read_costs_its_server(tmp_path: Path) -> None:
    class Locked(dict[str, str]):
        def get(self, name: str, default: Any = None) -> Any:
            raise CredentialsError(f"{name} is in the system keyring: locked; unlock it")

    source = {"mcpServers": {"a": {"command": "x", "env": {"KEY": "${KEY}"}}, "b": {"command": "y"}}}
    loaded = load_servers(source, environ=Locked())
    assert [server.name for server in loaded.servers] == ["b"]
    assert "KEY is in the system keyring: locked; unlock it" in loaded.problems[0].reason


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="the platform says where the folders are")
@each_row("home", [".", "rel", "", "~"])
def test_no_folder_is_the_users_own_for_a_home_that_is_relative(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in own_folders({"HOME": home}):
        assert folder.is_absolute()
        assert not folder.is_relative_to(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="no such files there")
@each_row("kind", ["pipe", "loop", "nowhere"])
def test_what_stands_in_the_place_of_the_users_file_is_told(kind: str, tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "MCPAGENT_HOME": str(tmp_path / "home")}
    path = tmp_path / "home" / "config" / "mcp.json"
    path.parent.mkdir(parents=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path if kind == "loop" else tmp_path / "gone.json")
    with pytest.raises(ConfigError, match=r"mcp\.json"):
        load_found_servers(tmp_path, environ)
