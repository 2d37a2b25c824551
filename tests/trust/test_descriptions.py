"""The one value of what an entry makes happen: what changes it, what does not, and what of it is shown."""

from __future__ import annotations

import itertools
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mcpagent.config import load_found_servers, load_named_servers, load_servers
from mcpagent.config.bounded_files import LargerError, open_regular, read_bounded
from mcpagent.config.spellings import KEYS
from mcpagent.config.user_folders import is_users_own
from mcpagent.errors import ConfigError
from mcpagent.trust.consent import consent_to, described
from mcpagent.trust.descriptions import Description, describe, fact_of
from mcpagent.trust.named_files import MOST_NAMES
from mcpagent.trust.trust_store import TrustStore
from tests.tables import each_row
from tests.trust.canary import fifo, project

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX")

PYTHON = sys.executable


def environ(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"MCPAGENT_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **more}


def of(folder: Path, entry: Mapping[str, Any] | None = None, **variables: str) -> Description:
    """What the folder's only server is."""
    if entry is not None:
        project(folder, tool=dict(entry))
    [found] = described(load_found_servers(folder, environ(folder, **variables)).servers, environ(folder, **variables))
    return found


def files_of(found: Description) -> list[str]:
    return [fact.text for fact in found.facts if fact.what == "file"]


def script(path: Path, text: str = "print(1)\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


# --- which files a command names ---

SUB = ("sub/__init__.py", "sub/sitecustomize.py")


@each_row(
    "entry, named",
    [
        ({"command": "python3", "args": ["server.py"]}, ["server.py"]),
        ({"command": "python3", "args": ["./server.py"]}, ["server.py"]),
        ({"command": "python3", "args": ["sub/../server.py"]}, ["server.py"]),
        ({"command": "python3", "args": ["link.py"]}, ["server.py"]),
        ({"command": "python3", "args": ["linked/tool.py"]}, ["sub/tool.py"]),
        ({"command": "python3", "args": ["${workspaceFolder}/server.py"]}, ["server.py"]),
        ({"command": "node", "args": ["--config=./app.json", "index.js"]}, ["app.json", "index.js"]),
        ({"command": "node", "args": ["-r./index.js", "x"]}, ["index.js"]),
        ({"command": "node", "args": ["."]}, ["index.js", "package.json", "pyproject.toml", "server.py", SUB[0]]),
        ({"command": "curl", "args": ["-d", "@app.json"]}, ["app.json"]),
        ({"command": "sh", "args": ["-c", "cd sub && exec ./tool.py"]}, [*SUB, "sub/tool.py"]),
        ({"command": "sh", "args": ["-c", "A=1 'server.py';sub/tool.py|cat"]}, ["server.py", "sub/tool.py"]),
        ({"command": "sh", "args": ["-c", "source ~/server.py"]}, ["server.py"]),
        ({"command": "python3", "args": ["-m", "sub.tool"]}, ["sub/__init__.py", "sub/tool.py"]),
        ({"command": "python3", "args": ["-c", "import server; server.main()"]}, ["server.py"]),
        ({"command": "python3", "args": ["-c", "from sub import tool"]}, [*SUB, "sub/tool.py"]),
        ({"command": "./server.py"}, ["server.py"]),
        ({"command": "sub/tool.py"}, ["sub/tool.py"]),
        ({"command": "python3", "args": ["tool.py"], "cwd": "sub"}, ["sub/tool.py"]),
        (
            {"command": "uv", "args": ["--directory", "sub", "run", "tool.py"]},
            ["pyproject.toml", *SUB, "sub/tool.py"],
        ),
        ({"command": "uvx", "args": ["some-server"]}, []),
        ({"command": "npx", "args": ["-y", "notes"]}, ["node_modules/.bin/notes", "package.json"]),
        ({"command": "env", "args": ["npx", "notes@1.2"]}, ["node_modules/.bin/notes", "package.json"]),
        ({"command": "docker", "args": ["run", "-i", "image"]}, []),
        ({"command": "docker", "args": ["compose", "run", "tool"]}, ["compose.yaml"]),
        ({"command": "make", "args": ["serve"]}, ["Makefile"]),
        ({"command": "python3", "args": ["x"], "env": {"PYTHONPATH": "sub"}}, [*SUB, "sub/tool.py"]),
        ({"command": "node", "args": ["x"], "env": {"NODE_OPTIONS": "--require ./index.js"}}, ["index.js"]),
        ({"command": "python3", "args": ["empty.py", "pipe", "sub/none.py", "a" * 5_000]}, []),
    ],
)
def test_the_files_that_a_command_names(entry: dict[str, Any], named: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "work"
    for name in ("server.py", "sub/tool.py", "sub/__init__.py", "sub/sitecustomize.py", "index.js", "app.json"):
        script(folder / name)
    for name in ("package.json", "pyproject.toml", "Makefile", "compose.yaml", "node_modules/.bin/notes"):
        script(folder / name, "{}")
    (folder / "empty.py").touch()
    fifo(folder / "pipe")
    (folder / "link.py").symlink_to("server.py")
    (folder / "linked").symlink_to("sub")
    for program in ("node", "uv", "uvx", "npx", "docker", "make", "curl", "env"):
        script(tmp_path / "bin" / program)
    variables = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin:{os.path.dirname(PYTHON)}", "HOME": str(folder)}
    found = of(folder, entry, **variables)
    inside = sorted(os.path.relpath(name, os.path.realpath(folder)) for name in files_of(found))
    assert inside == sorted(named)


def test_a_manifest_above_counts_up_to_the_top_of_the_project(tmp_path: Path) -> None:
    top, inner = tmp_path / "top", tmp_path / "top" / "a" / "b"
    for folder in (tmp_path, top, top / "a"):
        script(folder / "package.json", "{}")
    (top / ".git").mkdir()
    npx = script(tmp_path / "bin" / "npx")
    found = of(inner, {"command": "npx", "args": ["notes"]}, PATH=str(npx.parent))
    assert files_of(found) == [f"{tmp_path}/top/a/package.json", f"{tmp_path}/top/package.json"]


WAYS: list[tuple[list[str], dict[str, str], str]] = [
    (["python3", "-um", "server"], {}, "server.py"),
    (["python3", "-Bm", "pkg.server"], {}, "pkg/server.py"),
    (["python3", "-c", "import os, server"], {}, "server.py"),
    (["python3", "-c", "__import__('server')"], {}, "server.py"),
    (["python3", "-c", "import runpy; runpy.run_module('server')"], {}, "server.py"),
    (["python3", "-W", "error::server.X", "-c", "1"], {}, "server.py"),
    (["python3", "-m", "uvicorn", "server:app"], {}, "server.py"),
    (["python3", "-c", "1"], {"PYTHONPATH": "lib"}, "lib/sitecustomize/__init__.py"),
    (["python3", "-c", "1"], {"PYTHONPATH": "lib"}, "lib/sitecustomize.pyc"),
    (["python3", "-c", "1"], {"PYTHONPATH": "lib"}, "lib/sitecustomize.abi3.so"),
    (["python3", "-c", "1"], {"PYTHONPATH": ":/x"}, "sitecustomize.py"),
    (["python3", "-c", "1"], {"PYTHONBREAKPOINT": "hook.f"}, "hook.py"),
    (["node", "server"], {}, "server.js"),
    (["node", "dist/index"], {}, "dist/index.js"),
    (["node", "./src"], {}, "src/main.js"),
    (["node", "-r", "./hook", "-e", "1"], {}, "hook.cjs"),
    (["node", "x.js"], {"NODE_OPTIONS": "--require=./hook"}, "hook.js"),
    (["node", "x.js"], {"NODE_PATH": "lib"}, "lib/notes.js"),
    (["npx", "tsx", "src/index"], {}, "src/index.ts"),
    (["uv", "run", "server"], {}, ".venv/bin/server"),
    (["make", "-C", "sub", "serve"], {}, "sub/Makefile"),
    (["make", "-Csub"], {}, "sub/Makefile"),
    (["sh", "-c", "cd sub && make"], {}, "sub/Makefile"),
    (["just", "-d", "sub", "serve"], {}, "sub/justfile"),
    (["docker", "compose", "run", "x"], {}, "compose.override.yaml"),
    (["docker", "compose", "--project-directory", "sub", "up"], {}, "sub/compose.yaml"),
    (["docker", "build", "."], {}, "Dockerfile"),
    (["go", "run", "./cmd/server"], {}, "cmd/server/main.go"),
    (["go", "run", "."], {}, "other.go"),
    (["java", "-cp", "classes", "Main"], {}, "classes/Main.class"),
    (["ruby", "-I", "lib", "-rsrv", "-e", "1"], {}, "lib/srv.rb"),
    (["perl", "-Ilib", "-MSrv", "-e", "1"], {}, "lib/Srv.pm"),
    (["python3", "-c", "1"], {"LD_LIBRARY_PATH": "lib"}, "lib/libz.so.1"),
    (["sh", "-c", '. "$PWD/run.sh"'], {}, "run.sh"),
    (["sh", "-c", 'D=sub; "$D/run.sh"'], {}, "sub/run.sh"),
    (["sh", "-c", "exec ./ru*.sh"], {}, "run.sh"),
    (["sh", "-c", 'exec ./run""ner.sh'], {}, "runner.sh"),
    (["sh", "-c", "exec ./run\\.sh"], {}, "run.sh"),
]


@each_row("words, variables, file", WAYS)
def test_in_whatever_way_a_file_is_named_it_is_bound(
    words: list[str], variables: dict[str, str], file: str, tmp_path: Path
) -> None:
    for program in {word for words, _, _ in WAYS for word in words[:1]}:
        script(tmp_path / "bin" / program)
    paths = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    folder = tmp_path / "work"
    (folder / ".git").mkdir(parents=True)
    if file == "src/main.js":
        script(folder / "src" / "package.json", '{"main": "main.js"}')
    script(folder / file, "before")
    entry = {"command": words[0], "args": words[1:], "env": variables}
    before = of(folder, entry, **paths)
    assert str(folder / file) in files_of(before)
    script(folder / file, "after")
    assert of(folder, entry, **paths).digest() != before.digest()


@each_row("words", [[f"x{number}" for number in range(MOST_NAMES + 1)]])
def test_a_command_that_names_too_much_is_asked_about_each_time(words: list[str], tmp_path: Path) -> None:
    found = of(tmp_path, {"command": "sh", "args": words})
    assert "names more than" in found.why_not_kept
    store = TrustStore(tmp_path / "trust.json")
    for _ in range(2):
        asked: list[Description] = []
        decided = consent_to([found], store, lambda items, asked=asked: asked.extend(items) or "always")  # type: ignore[misc]
        assert asked == [found]
        assert decided.allowed == (found,)
        assert "the answer holds for this time" in decided.problems[0]


# --- what changes it ---


def retarget(path: Path, target: str) -> None:
    """Puts a link in the place of what is there."""
    path.rename(path.with_name("was"))
    path.symlink_to(target)


ENV_FILE = "LEVEL=1\nAPI_KEY=abcdef0123456789\n"
CHANGES: dict[str, Callable[[Path], object]] = {
    "the script": lambda work: script(work / "server.py", "print(2)\n"),
    "the script is gone": lambda work: os.unlink(work / "server.py"),
    "the script is another one by a link": lambda work: retarget(work / "server.py", "same.py"),
    "the program": lambda work: script(work / "bin" / "tool", "#!/bin/sh\nevil\n"),
    "the program, found earlier": lambda work: script(work / "first" / "tool", "#!/bin/sh\n"),
    "a variable of the file": lambda work: script(work / ".env", ENV_FILE.replace("LEVEL=1", "LEVEL=2")),
    "a secret of the file": lambda work: script(work / ".env", ENV_FILE.replace("abcdef", "fedcba")),
    "one more variable": lambda work: script(work / ".env", f"{ENV_FILE}LD_PRELOAD=x\n"),
    "the folder": lambda work: retarget(work / "run", "other"),
}
STANDS: dict[str, Callable[[Path], object]] = {
    "a comment in the file of variables": lambda work: script(work / ".env", f"# a comment\n{ENV_FILE}"),
    "a file that is not named": lambda work: script(work / "other.py", "print(3)\n"),
    "the time of the script": lambda work: os.utime(work / "server.py", (1, 1)),
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
        ({"command": "sh", "description": "a"}, {"command": "sh"}, True),
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


def test_another_program_of_the_same_name_is_another_question(tmp_path: Path) -> None:
    """Both are installed on the machine, so their content does not count."""
    one, two = (script(tmp_path / name / "tool", "#!/bin/sh\n").parent for name in ("one", "two"))
    (tmp_path / "work").mkdir()
    found = [of(tmp_path / "work", {"command": "tool"}, PATH=str(folder)) for folder in (one, two)]
    assert [files_of(item) for item in found] == [[], []]
    assert found[0].digest() != found[1].digest()


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


def test_a_yes_to_a_found_file_is_none_to_the_same_file_named(tmp_path: Path) -> None:
    """Then it may say that its own calls run unasked."""
    found = of(tmp_path, {"command": "sh", "approval": "allow"})
    [server] = load_named_servers(tmp_path / ".mcp.json", environ(tmp_path)).servers
    assert describe(server, environ(tmp_path)).facts == found.facts
    assert describe(server, environ(tmp_path)).digest() != found.digest()


def test_a_secret_counts_by_its_name_and_a_default_by_its_text(tmp_path: Path) -> None:
    entry = {"url": "https://a.example/", "headers": {"Authorization": "Bearer ${API_TOKEN:-none}"}}
    one = of(tmp_path, entry, API_TOKEN="first-token-0123")
    assert one.digest() == of(tmp_path, entry, API_TOKEN="second-token-012").digest()
    assert one.digest() != of(tmp_path, entry).digest()
    assert "first-token" not in repr(one)
    assert [fact.text for fact in one.facts if fact.what == "header"] == ["Authorization=Bearer ${API_TOKEN:-none}"]


def test_nothing_of_the_users_is_shown(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("API_KEY=abcdef0123456789\nLEVEL=1\n")
    secrets = {"DB_PASSWORD": "hunter2-hunter2", "API_TOKEN": "0123456789-token"}
    found = of(
        tmp_path,
        {
            "command": "sh",
            "args": ["--token", "${API_TOKEN}", "postgres://u:${DB_PASSWORD}@db/x"],
            "env": {"KEY": "ghp_0123456789abcdefghijABCDEFGHIJ012345"},
            "envFile": ".env",
        },
        **secrets,
    )
    shown = "\n".join(f"{fact.what} {fact.text}" for fact in found.facts)
    for secret in (*secrets.values(), "abcdef0123456789", "ghp_0123456789"):
        assert secret not in shown
        assert secret not in repr(found)
    assert "variable LEVEL=1" in shown
    assert "reads .env" in shown
    assert found.launch is not None
    assert found.launch.arguments[1] == secrets["API_TOKEN"]


def test_an_address_with_a_password_of_the_user(tmp_path: Path) -> None:
    found = of(tmp_path, {"url": "https://u:${MY_PASSWORD}@a.example/mcp?k=1"}, MY_PASSWORD="hunter2-hunter2")
    shown = [f"{fact.what} {fact.text}" for fact in found.facts]
    assert shown[0] == "sends to https://a.example/mcp?k=1"
    assert "hunter2" not in repr(found)
    assert "${MY_PASSWORD}" in shown[1]


def test_what_cannot_be_started_is_described_too(tmp_path: Path) -> None:
    """And what appears in its place later is another thing."""
    found = of(tmp_path, {"command": "./server"})
    assert [fact.what for fact in found.facts] == ["runs", "in", "cannot start"]
    script(tmp_path / "server", "#!/bin/sh\n")
    assert of(tmp_path).digest() != found.digest()


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


def test_a_named_file_is_given_and_one_of_the_users_is_theirs(tmp_path: Path) -> None:
    given = environ(tmp_path)
    own = project(tmp_path / "home" / "config", tool={"command": "sh"})
    theirs = project(tmp_path / "repo", tool={"command": "sh"})
    assert [server.scope for server in load_named_servers(own, given).servers] == ["user"]
    assert [server.scope for server in load_named_servers(theirs, given).servers] == ["given"]
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
    with pytest.raises(LargerError):
        read_bounded(tmp_path / "file", 999)
    fifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for path in ("/dev/zero", "/dev/null", tmp_path / "pipe", tmp_path / "link"):
        with pytest.raises(OSError, match="no regular file"):
            open_regular(path)
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)


def test_a_fact_without_a_secret_is_shown_as_it_is_digested() -> None:
    assert fact_of("runs", shlex.join(["a b", "c"])).digest == ""
    hidden = fact_of("runs", "curl -H 'x: ghp_0123456789abcdefghijABCDEFGHIJ012345'")
    assert "ghp_" not in hidden.text
    assert len(hidden.digest) == 64


def test_the_digest_is_the_same_in_whatever_order_it_was_found(tmp_path: Path) -> None:
    for name in "abc":
        script(tmp_path / f"{name}.py", name)
    entry = {"command": "sh", "args": ["c.py", "a.py", "b.py"], "env": {"B": "1", "A": "2"}}
    one = of(tmp_path, entry)
    assert files_of(one) == sorted(files_of(one))
    assert one.digest() == of(tmp_path, {**entry, "env": {"A": "2", "B": "1"}}).digest()
    [server] = load_found_servers(tmp_path, environ(tmp_path)).servers
    assert describe(server, environ(tmp_path)).digest() == one.digest()
