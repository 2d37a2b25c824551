"""The one value of what an entry makes happen: what changes it, what does not, and what of it is shown."""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mcpagent.cli.approvals.project_trust import trust_lines
from mcpagent.config import load_found_servers, load_named_servers, load_servers
from mcpagent.config.spellings import KEYS
from mcpagent.errors import ConfigError
from mcpagent.permissions.trust.consent import described
from mcpagent.permissions.trust.descriptions import Description, names_project_file
from mcpagent.permissions.trust.launches import launch_of
from mcpagent.utilities.filesystem.bounded_files import FileTooLargeError, open_regular, read_bounded
from mcpagent.utilities.filesystem.user_folders import is_users_own
from mcpagent.utilities.text.json_texts import texts_in
from tests.permissions.trust.canary import fifo, project
from tests.tables import each_row

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX")

PYTHON = sys.executable


def environ(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"MCPAGENT_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **more}


def of(folder: Path, entry: Mapping[str, Any] | None = None, **variables: str) -> Description:
    """What the folder's only server is."""
    if entry is not None:
        project(folder, tool=dict(entry))
    [found] = described(load_found_servers(folder, environ(folder, **variables)).servers)
    return found


def script(path: Path, text: str = "print(1)\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


# --- what changes it ---


def retarget(path: Path, target: str) -> None:
    """Puts a link in the place of what is there."""
    path.rename(path.with_name("was"))
    path.symlink_to(target)


ENV_FILE = "LEVEL=1\nAPI_KEY=abcdef0123456789\n"
CHANGES: dict[str, Callable[[Path], object]] = {
    "the folder": lambda work: retarget(work / "run", "other"),
}
STANDS: dict[str, Callable[[Path], object]] = {
    "the script": lambda work: script(work / "server.py", "print(2)\n"),
    "the script is gone": lambda work: os.unlink(work / "server.py"),
    "a module that shadows another": lambda work: script(work / "json.py", "print(2)\n"),
    "the program": lambda work: script(work / "bin" / "tool", "#!/bin/sh\nother\n"),
    "a variable of the file": lambda work: script(work / ".env", ENV_FILE.replace("LEVEL=1", "LEVEL=2")),
    "a secret of the file": lambda work: script(work / ".env", ENV_FILE.replace("abcdef", "fedcba")),
    "one more variable": lambda work: script(work / ".env", f"{ENV_FILE}LD_PRELOAD=x\n"),
    "a comment in the file of variables": lambda work: script(work / ".env", f"# a comment\n{ENV_FILE}"),
}
ENTRY: dict[str, Any] = {"command": "tool", "args": ["server.py"], "envFile": ".env"}


def work_folder(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    work = tmp_path / "work"
    for name in ("server.py", "same.py", "other.py"):
        script(work / name)
    script(work / "bin" / "tool", "#!/bin/sh\n")
    script(work / ".env", ENV_FILE)
    (work / "run").mkdir()
    script(work / "run" / "server.py", "run")
    script(work / "other" / "server.py", "other")
    return work, {"PATH": f"{work / 'first'}:{work / 'bin'}:/usr/bin:/bin"}


@each_row("change", CHANGES)
def test_what_changes_the_digest(change: str, tmp_path: Path) -> None:
    work, variables = work_folder(tmp_path)
    entry = {**ENTRY, "cwd": "run"} if change == "the folder" else ENTRY
    before = of(work, entry, **variables).digest()
    assert of(work, None, **variables).digest() == before
    CHANGES[change](work)
    assert of(work, None, **variables).digest() != before


@each_row("change", STANDS)
def test_what_does_not(change: str, tmp_path: Path) -> None:
    work, variables = work_folder(tmp_path)
    before = of(work, ENTRY, **variables).digest()
    STANDS[change](work)
    assert of(work, None, **variables).digest() == before


@each_row(
    "one, two, same",
    [
        ({"command": "sh"}, {"cmd": "sh"}, True),
        ({"command": "sh", "timeout": 5}, {"command": "sh", "timeout": 50}, True),
        ({"command": "sh", "description": "a"}, {"command": "sh"}, False),  # the model reads it
        ({"command": "sh", "args": ["a b"]}, {"command": "sh", "args": ["a", "b"]}, False),
        ({"command": "sh", "args": []}, {"command": "sh", "args": [""]}, False),
        ({"command": "sh", "env": {"A": "B"}}, {"command": "sh", "env": {"a": "B"}}, False),
        ({"command": "sh", "env": {"A": "B=C"}}, {"command": "sh", "env": {"A=B": "C"}}, None),
        ({"command": "sh"}, {"command": "sh", "approval": "deny"}, False),
        ({"command": "sh"}, {"command": "sh", "trust": True}, False),
        ({"command": "sh"}, {"command": "sh", "sampling": True}, False),
        ({"command": "sh"}, {"command": "sh", "roots": ["."]}, False),
        ({"command": "sh"}, {"command": "sh", "cwd": "/"}, False),
        ({"command": "sh"}, {"command": "/bin/sh"}, False),
        ({"url": "https://a.example/"}, {"serverUrl": "https://a.example/"}, True),
        ({"url": "https://a.example/"}, {"url": "https://A.example/"}, False),
        ({"url": "https://a.example/"}, {"url": "https://a.example/", "type": "sse"}, False),
        ({"url": "https://a.example/"}, {"url": "https://a.example/", "headers": {"X": "1"}}, False),
        ({"url": "https://a.example/${X:-1}"}, {"url": "https://a.example/${X:-2}"}, False),
        ({"url": "https://u:one@a.example/"}, {"url": "https://u:two@a.example/"}, False),
        ({"command": "sh", "args": ["${A_KEY}"]}, {"command": "sh", "args": ["${B_KEY}"]}, False),
        ({"command": "${A_KEY}"}, {"command": "${B_KEY}"}, False),
        ({"command": "sh", "env": {"X": "${A_KEY}"}}, {"command": "sh", "env": {"X": "${B_KEY}"}}, False),
    ],
)
def test_entries_that_mean_the_same_and_that_do_not(
    one: dict[str, Any], two: dict[str, Any], same: bool | None, tmp_path: Path
) -> None:
    if same is None:
        project(tmp_path, tool=two)
        with pytest.raises(Exception, match="cannot be a variable name"):
            load_found_servers(tmp_path, environ(tmp_path))
        return
    keys = {"A_KEY": "same-value-01234", "B_KEY": "same-value-01234"}
    assert (of(tmp_path, one, **keys).digest() == of(tmp_path, two, **keys).digest()) is same


def test_an_address_in_another_file_is_another_question(tmp_path: Path) -> None:
    entry = {"url": "https://a.example/mcp"}
    one, two = of(tmp_path / "one", entry), of(tmp_path / "two", entry)
    assert one.facts == two.facts
    assert one.digest() != two.digest()


@each_row(
    "spellings", [*(names for names in KEYS.values() if len(names) > 1), ("timeout", "timeout_seconds", "toolTimeout")]
)
def test_no_two_spellings_of_one_key(spellings: tuple[str, ...], tmp_path: Path) -> None:
    """In either order, whatever the values are."""
    for one, two in itertools.permutations(spellings, 2):
        project(tmp_path, tool={one: "a", two: "b"})
        with pytest.raises(ConfigError, match=f'"{one}" and "{two}" are two names of one thing; keep one of them'):
            load_found_servers(tmp_path, environ(tmp_path))


def test_a_nearer_file_of_the_same_name_is_another_question(tmp_path: Path) -> None:
    """The inner one is what runs, so a yes to the outer one is not one to it."""
    outer, inner = tmp_path, tmp_path / "inner"
    (outer / ".git").mkdir()
    before = of(outer, {"command": "sh", "args": ["-c", "true"]})
    after = of(inner, {"command": "sh", "args": ["-c", "true"]})
    assert after.place != before.place
    assert after.digest() != before.digest()


def test_a_value_of_the_person_counts_by_its_name_and_a_default_by_its_text(tmp_path: Path) -> None:
    entry = {"url": "https://a.example/", "headers": {"Authorization": "Bearer ${API_TOKEN:-none}"}}
    one = of(tmp_path, entry, API_TOKEN="first-token-0123")
    assert one.digest() == of(tmp_path, entry, API_TOKEN="second-token-012").digest() == of(tmp_path, entry).digest()
    other = {**entry, "headers": {"Authorization": "Bearer ${API_TOKEN:-other}"}}
    assert one.digest() != of(tmp_path, other, API_TOKEN="first-token-0123").digest()
    assert "first-token" not in repr(one)
    assert [fact.text for fact in one.facts if fact.what == "header"] == ["Authorization=Bearer ${API_TOKEN:-none}"]


def rows(found: Description) -> list[str]:
    return [f"{fact.what} {fact.text}" for fact in (*found.facts, *found.notes)]


PEM = "-----BEGIN RSA PRIVATE KEY-----\ntouch PWNED\n-----END RSA PRIVATE KEY-----"
HIDING: list[dict[str, Any]] = [
    {"command": "sh", "args": ["-c", f": '{PEM}'"]},
    {"command": "sh", "env": {"BASH_ENV": "$(touch PWNED)abcdefghij0123456789x"}},
    {"command": "sh", "env": {"API_KEY": "$(touch PWNED) ghp_0123456789abcdefghijABCDEFGHIJ012345"}},
    {"command": "sh", "args": ["-c", "touch PWNED ; : eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc"]},
    {"command": "sh", "args": ["--token", "touch PWNED 0123456789abcdef"]},
    {"url": "https://evil.example/sk-ant-api03-0123456789abcdefghij?api_key=PWNED0123456789"},
    {"url": "https://evil.example/", "headers": {"Authorization": "Bearer PWNED-0123456789abcdef"}},
    {"url": "https://evil.example/", "sign_in": {"client_id": "x", "client_secret": "PWNED-0123456789"}},
    {"command": "${NOWHERE:-touch PWNED}"},
]


@each_row("entry", HIDING)
def test_t26_every_literal_that_runs_is_shown_in_full(entry: dict[str, Any], tmp_path: Path) -> None:
    found = of(tmp_path, entry)
    shown = "\n".join(trust_lines([found], tmp_path))
    assert "PWNED" in shown
    assert "redacted" not in shown
    assert "not shown" not in shown
    for text in texts_in([entry.get("args", []), entry.get("env", {}), entry.get("headers", {}), entry.get("url", "")]):
        assert text.replace("\n", "\\n").replace("'", "'\"'\"'" if "args" in entry else "'") in shown, text


def test_what_is_of_the_person_is_shown_by_its_name(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("API_KEY=abcdef0123456789\nLEVEL=1\n")
    secrets = {"DB_PASSWORD": "hunter2-hunter2", "API_TOKEN": "0123456789-token", "PLACE": "/private/place"}
    entry = {
        "command": "sh",
        "args": ["--token", "${API_TOKEN}", "postgres://u:${DB_PASSWORD}@db/x", "${PLACE}"],
        "env": {"KEY": "ghp_0123456789abcdefghijABCDEFGHIJ012345"},
        "envFile": ".env",
    }
    found = of(tmp_path, entry, **secrets)
    shown = rows(found)
    assert not any(secret in repr(found) for secret in secrets.values())
    assert shown[0] == "runs sh --token '${API_TOKEN}' 'postgres://u:${DB_PASSWORD}@db/x' '${PLACE}'"
    assert {"variable LEVEL=1", "variable API_KEY=abcdef0123456789", "reads .env"} <= {*shown}
    assert "variable KEY=ghp_0123456789abcdefghijABCDEFGHIJ012345" in shown
    [server] = load_found_servers(tmp_path, environ(tmp_path, **secrets)).servers
    assert launch_of(server, environ(tmp_path)).arguments[1] == secrets["API_TOKEN"]
    assert not any(secret in f"{server!r} {server.args} {server.env}" for secret in secrets.values())


@each_row(
    "entry, expected",
    [
        ({"url": "https://u:PWNED@a.example/mcp?k=1"}, ["sends to https://u:PWNED@a.example/mcp?k=1"]),
        ({"url": "https://u:${MY_PASSWORD}@a.example/x"}, ["sends to https://u:${MY_PASSWORD}@a.example/x"]),
        ({"url": "https://user@a.example/"}, ["sends to https://user@a.example/"]),
        ({"serverUrl": "http://u:p%40w@[::1]:80/"}, ["sends to http://u:p%40w@[::1]:80/"]),
        ({"url": "${MY_ADDRESS}"}, ["sends to ${MY_ADDRESS}"]),
        (
            {"url": "https://u:${MY_PASSWORD}@a.example/", "headers": {"X-A": "1"}},
            ["sends to https://u:${MY_PASSWORD}@a.example/", "header X-A=1"],
        ),
        ({"url": "https://a.example/", "auth": "tok-1234"}, ["sends to https://a.example/", "signs in with tok-1234"]),
        (
            {"url": "https://a.example/", "headers": {"authorization": "Basic dTpw"}},
            ["sends to https://a.example/", "header authorization=Basic dTpw"],
        ),
        (
            {"url": "https://a.example/u:p@b", "headers": {"Authorization": "Bearer x"}},
            ["sends to https://a.example/u:p@b", "header Authorization=Bearer x"],
        ),
    ],
)
def test_an_address_is_shown_as_written_and_no_header_that_nobody_wrote(
    entry: dict[str, Any], expected: list[str], tmp_path: Path
) -> None:
    variables = {"MY_PASSWORD": "hunter2-hunter2", "MY_ADDRESS": "https://u:hunter2-hunter2@b.example/"}
    found = of(tmp_path, entry, **variables)
    assert rows(found) == expected
    assert "hunter2" not in repr(found)
    [server] = load_found_servers(tmp_path, environ(tmp_path, **variables)).servers
    assert "hunter2" not in f"{server!r} {server.url} {server.headers}"
    assert any(name.lower() == "authorization" for name in server.headers)  # and is sent all the same
    assert "@" not in server.address.partition("/u:p@b")[0]


@each_row(
    "code",
    [
        "\u3164",
        "\u115f",
        "\u1160",
        "\u17b4",
        "\u034f",
        "\ufe0f",
        "\U000e0100",
        "\u200b",
        "\u202e",
        "\u2800",
        "\x1b",
        "\r",
    ],
)
def test_invisible_characters_are_shown_as_codes(code: str, tmp_path: Path) -> None:
    shown = "\n".join(trust_lines([of(tmp_path, {"command": "sh", "args": [f"a{code}b"]})], tmp_path))
    assert code not in shown
    assert f"a{json.dumps(code)[1:-1]}b" in shown


@each_row(
    "entry, names_one",
    [
        ({"command": "python3", "args": ["server.py"]}, True),
        ({"command": "./server.py"}, True),
        ({"command": "python3", "args": ["--config=server.py"]}, True),
        ({"command": "python3", "args": ["tool"], "env": {"SETTINGS": "sub/tool.ts"}}, True),
        ({"command": "uv", "args": ["--directory", "sub", "run", "tool.ts"]}, True),
        ({"command": "deno", "args": ["run", "-A", "tool.ts"], "cwd": "sub"}, True),
        ({"command": "python3", "args": ["-m", "package.server"]}, True),
        ({"command": "python3", "args": ["-m", "server"]}, True),
        ({"command": "python3", "args": ["inner.py"]}, True),
        ({"command": "python3", "args": ["${SERVER:-server.py}"]}, True),
        ({"command": "python3", "args": ["${PROJ:-.}/server.py"]}, True),
        ({"command": "python3", "args": ["link.py"]}, False),
        ({"command": "npx", "args": ["some-files"], "envFile": ".env"}, False),
        ({"command": "npx", "args": ["some-files", "."]}, False),
        ({"command": "npx", "args": ["some-files", "..", "/", "x" * 5_000]}, False),
        ({"command": "uvx", "args": ["some-server"]}, False),
        ({"url": "http://127.0.0.1:9/server.py"}, False),
    ],
)
def test_whether_an_entry_names_a_file_of_its_project(entry: dict[str, Any], names_one: bool, tmp_path: Path) -> None:
    work = tmp_path / "work"
    for name in ("server.py", "sub/tool.ts", "package/__init__.py", "package/server.py", ".env"):
        script(work / name, "")
    (work / "link.py").symlink_to(script(tmp_path / "outside.py"))
    (work / "inner.py").symlink_to("server.py")
    assert names_project_file(of(work, entry)) is names_one


@each_row("width", [30, 60, 80, 200])
def test_a_wrapped_argument_looks_like_no_row_of_its_own(width: int, tmp_path: Path) -> None:
    forged = "x" + " " * 300 + "variable  SAFE=1" + " " * 300 + "\n      in        /safe"
    found = of(tmp_path, {"command": "sh", "args": [forged], "env": {"REAL": "1"}})
    _, _, *lines = trust_lines([found], tmp_path, width)  # what the question is about, and the entry's name
    labels = [line for line in lines if re.match(r" {6}\S", line)]
    assert [line.split()[0] for line in labels] == ["runs", "in", "variable"]
    others = [line for line in lines if line not in labels]
    assert others
    assert all(re.match(r" {7,}\| ", line) for line in others)
    assert max(map(len, lines)) <= max(width, 40)
    joined = "".join(line.partition("| ")[2] if line in others else line for line in lines)
    assert forged.replace("\n", "\\n") in joined


def test_what_cannot_be_started_is_described_too(tmp_path: Path) -> None:
    assert [fact.what for fact in of(tmp_path, {"command": "./server"}).facts] == ["runs", "in"]


# --- whose file it is ---


def test_the_users_own_folders(tmp_path: Path) -> None:
    given = environ(tmp_path)
    own = tmp_path / "home" / "config"
    (own / "cards").mkdir(parents=True)
    (tmp_path / "repo").mkdir()
    (own / "linked").symlink_to(tmp_path / "repo")
    (tmp_path / "to-own").symlink_to(own)
    for path, expected in {
        own / "mcp.json": True,
        own / "cards" / "x.md": True,
        tmp_path / "to-own" / "x.json": True,
        own / ".." / ".." / "repo" / "x.json": False,
        own / "linked" / "x.json": False,
        tmp_path / "home" / "configuration" / "x.json": False,
        tmp_path / "repo" / "x.json": False,
    }.items():
        assert is_users_own(path, given) is expected, path


def test_a_named_file_needs_no_consent_and_one_of_the_users_is_theirs(tmp_path: Path) -> None:
    given = environ(tmp_path)
    own = project(tmp_path / "home" / "config", tool={"command": "sh"})
    theirs = project(tmp_path / "repo", tool={"command": "sh"})
    assert [server.scope for server in load_named_servers(own, given).servers] == ["user"]
    assert [server.scope for server in load_named_servers(theirs, given).servers] == [""]
    assert [server.scope for server in load_servers(theirs, environ=given).servers] == [""]


def test_a_server_runs_in_the_folder_of_its_file(tmp_path: Path) -> None:
    given = environ(tmp_path)
    for folder, expected in {
        tmp_path / "repo": tmp_path / "repo",
        tmp_path / "repo" / ".vscode": tmp_path / "repo",
        tmp_path / "home" / "config": tmp_path / "home" / "config",
    }.items():
        file = project(folder, tool={"command": "sh"}, there={"command": "sh", "cwd": "sub"})
        one, two = load_named_servers(file, given).servers
        assert one.cwd == str(expected)
        assert two.cwd == str(folder / "sub")
    [typed] = load_servers({"tool": {"command": "sh"}}, environ=given).servers
    assert typed.cwd == ""


# --- reading ---


def test_only_regular_files_are_opened_and_only_so_much_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1_000)
    assert read_bounded(tmp_path / "file", 1_000) == b"x" * 1_000
    with pytest.raises(FileTooLargeError):
        read_bounded(tmp_path / "file", 999)
    fifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for path in ("/dev/zero", "/dev/null", tmp_path / "pipe", tmp_path / "link"):
        with pytest.raises(OSError, match="no regular file"):
            open_regular(path)
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)


def test_the_digest_is_the_same_in_whatever_order_it_was_found(tmp_path: Path) -> None:
    entry = {"command": "sh", "env": {"B": "1", "A": "2"}}
    assert of(tmp_path, entry).digest() == of(tmp_path, {**entry, "env": {"A": "2", "B": "1"}}).digest()
