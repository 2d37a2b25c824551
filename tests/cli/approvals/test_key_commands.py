"""`mcpagent keys`, `mcpagent permissions`, `mcpagent mcp login` and `logout`, as they are typed."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import secrets
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcpagent.cli.app import run as run_command_line
from mcpagent.cli.approvals.approval_commands import forget_approvals, list_approvals
from mcpagent.cli.approvals.key_commands import keep_secret, key_name, list_keys, remove_key, set_key
from mcpagent.cli.common.options import Options
from mcpagent.cli.screen.terminal import open_terminal
from mcpagent.cli.servers.login_commands import Login, has_display, log_in
from mcpagent.config.secret_store import NO_KEYRING, SecretStore
from mcpagent.errors import InputError
from mcpagent.permissions.stored_approvals import StoredApprovals
from mcpagent.values.messages import ToolDefinition
from tests.servers.guarded import Authority, guarded
from tests.servers.own_authority import OwnAuthority, behind
from tests.tables import each_row
from tests.terminal.process import environment
from tests.terminal.warm import on_a_terminal, run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX terminals")

NO_RING = {"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}
"""The keyring library's own switch: these tests leave the keyring of whoever runs them alone."""


@pytest.fixture
def store(tmp_path: Path) -> SecretStore:
    return SecretStore(tmp_path / "keys", keyring=NO_KEYRING)


@pytest.fixture
def value() -> str:
    return secrets.token_hex(16)


def options(**changes: Any) -> Options:
    return Options(environ={}, **changes)


# --- keys -------------------------------------------------------------------------------------------------------------


def test_a_key_is_kept_listed_and_forgotten(
    store: SecretStore, value: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert set_key("GITHUB_TOKEN", options(), stdin=io.StringIO(f"{value}\n"), store=store) == 0
    assert store.get("GITHUB_TOKEN") == value
    out = capsys.readouterr().out
    assert re.search(r"GITHUB_TOKEN is kept in a file that only you can read, \S+: there is no system keyring", out)
    assert "/keys/GITHUB_TOKEN-" in out
    list_keys(options(), store=store)
    shown = capsys.readouterr().out
    assert re.fullmatch(r"GITHUB_TOKEN  file  \d{4}-\d\d-\d\d\n", shown)
    list_keys(options(output="json"), store=store)
    [entry] = json.loads(capsys.readouterr().out)
    assert entry.keys() == {"name", "place", "saved"}
    assert remove_key("GITHUB_TOKEN", options(), store=store) == 0
    assert store.list() == []
    with pytest.raises(InputError, match="no key GITHUB_TOKEN is set; set are: none"):
        remove_key("GITHUB_TOKEN", options(), store=store)
    list_keys(options(), store=store)
    assert value not in out + shown + capsys.readouterr().out


@each_row(
    "typed, name",
    [
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("OpenAI", "OPENAI_API_KEY"),
        ("gemini", "GEMINI_API_KEY"),
        ("shop.token", "shop.token"),
        ("lmstudio", "lmstudio"),
    ],
)
def test_a_provider_stands_for_its_variable(typed: str, name: str) -> None:
    assert key_name(typed) == name


@each_row(
    "name, given, error",
    [
        ("K", "", "no value for K"),
        ("K", " \n", "no value for K"),
        ("K", "a\0b", "cannot be the value of K"),
        ("K", "x" * 70_000, "too long"),
        ("a b", "x", 'a key cannot be named "a b"'),
        ("a}", "x", "a key cannot be named"),
    ],
)
def test_what_cannot_be_kept_is_said(name: str, given: str, error: str, tmp_path: Path) -> None:
    store = SecretStore(tmp_path / "keys", keyring=NO_KEYRING)
    with pytest.raises(InputError, match=error):
        set_key(name, options(), stdin=io.StringIO(given), store=store)
    assert store.list() == []


@each_row("given", [["FOO", "hunter2hunter2"], ["FOO=hunter2hunter2"]])
def test_a_key_on_the_command_line_is_refused_and_not_repeated(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["keys", "set", *given]) == 2
    said = capsys.readouterr().err
    assert "mcpagent keys set FOO < FILE" in said
    assert "hunter2" not in said


def test_a_key_of_several_lines_stays_as_it_is(store: SecretStore) -> None:
    pem = "-----BEGIN X-----\nabc \n-----END X-----"
    set_key("PEM", options(), stdin=io.StringIO(f"{pem}\n"), store=store)
    assert store.get("PEM") == pem


def test_what_stands_for_a_key_is_given_back(store: SecretStore, value: str) -> None:
    terminal = open_terminal(options().color, {})
    assert keep_secret("anthropic", {}, terminal, stdin=io.StringIO(value), store=store) == (
        "${keyring:ANTHROPIC_API_KEY}"
    )


def test_a_typed_key_is_not_shown(tmp_path: Path, value: str) -> None:
    with on_a_terminal(["keys", "set", "SHOP_TOKEN"], tmp_path, env=NO_RING) as screen:
        screen.wait_for(r"SHOP_TOKEN \(not shown\): ")
        screen.type(f"{value}\r")
        screen.wait_for("SHOP_TOKEN is kept in a file that only you can read")
        assert screen.exit_code() == 0
        assert value not in screen.raw
    assert value in next((tmp_path / "home" / "data" / "keys").iterdir()).read_text("utf-8")


def test_ctrl_c_keeps_nothing(tmp_path: Path) -> None:
    with on_a_terminal(["keys", "set", "SHOP_TOKEN"], tmp_path, env=NO_RING) as screen:
        screen.wait_for(r"not shown")
        # A signal that arrives just before the read begins is noticed by Python after it: a person presses it again.
        for _ in range(5):
            screen.type("\x03")
            with suppress(AssertionError):
                assert screen.exit_code(10.0) == 130
                break
        assert screen.exit_code() == 130
        assert "Traceback" not in screen.text
    assert not (tmp_path / "home" / "data").exists()


@pytest.mark.slow
def test_a_key_that_was_set_is_the_models(tmp_path: Path, value: str) -> None:
    piped = run(["keys", "set", "openai"], tmp_path, stdin=value, env=NO_RING)
    assert (piped.returncode, piped.stderr) == (0, "")
    assert "OPENAI_API_KEY is kept in" in piped.stdout
    nowhere = {**NO_RING, "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    called = run(["-p", "hi", "-q", "-m", "openai:gpt-5?max_retries=0"], tmp_path, env=nowhere)
    assert called.returncode == 1, called.stderr
    assert "127.0.0.1:9" in called.stderr
    assert value not in called.stderr + called.stdout
    assert run(["keys"], tmp_path, env=NO_RING).stdout.startswith("OPENAI_API_KEY  file")


@pytest.mark.slow
def test_a_key_reaches_its_server_and_no_screen(tmp_path: Path, value: str) -> None:
    run(["keys", "set", "SHOP_TOKEN"], tmp_path, stdin=value, env=NO_RING)
    program = "import os, sys; sys.exit('bad token ' + os.environ['TOKEN'] + ' ' + str('HIDDEN' in os.environ))"
    entry = {"command": sys.executable, "args": ["-c", program], "env": {"TOKEN": "${keyring:SHOP_TOKEN}"}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"shop": entry}}))
    done = run(["mcp", "test", "--config", "mcp.json", "--trust-project"], tmp_path, env={**NO_RING, "HIDDEN": "x"})
    assert done.returncode == 5
    assert "bad token [redacted] False" in done.stdout + done.stderr
    assert value not in done.stdout + done.stderr
    for path in tmp_path.rglob("*"):
        if path.is_file() and "keys" not in path.parts:
            assert value.encode() not in path.read_bytes(), path


# --- what was allowed for good ----------------------------------------------------------------------------------------


def test_an_always_can_be_seen_and_taken_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """How one is given is in test_approver.py."""
    chosen = Options(environ={"MCPAGENT_HOME": str(tmp_path / "home")}, output="json")
    push = ToolDefinition("push_branch", "Push.", {}, server="w", original_name="push_branch")
    StoredApprovals.of_user(chosen.environ, {"w": "its fingerprint"}).add(push, "tool", {}, always=True)
    assert run(["permissions"], tmp_path).stdout == "w.push_branch  this tool as it was shown\n"
    list_approvals(chosen)
    assert json.loads(capsys.readouterr().out) == [{"approval": "w.push_branch", "what": "tool"}]
    with pytest.raises(InputError, match=r"allowed: w\.push_branch"):
        forget_approvals("nope.*", chosen)
    assert forget_approvals("w.push*", chosen) == 0
    list_approvals(replace(chosen, output="text"))
    assert capsys.readouterr().out.splitlines() == [
        "✓ w.push_branch is asked about again",
        "nothing is allowed for good",
    ]


# --- login and logout -------------------------------------------------------------------------------------------------


class Command:
    """One command line in a process of its own, with pipes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.err = ""

    @classmethod
    async def start(cls, arguments: Sequence[str], folder: Path, **env: str) -> Command:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "mcpagent", *arguments),
            cwd=folder,
            env=environment(folder / "home", {**NO_RING, **env}),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        return cls(process)

    async def line(self, pattern: str) -> str:
        """The next line of stderr that has this in it."""
        assert self._process.stderr is not None
        async with asyncio.timeout(60):
            while line := (await self._process.stderr.readline()).decode():
                self.err += line
                if re.search(pattern, line):
                    return line.strip()
        raise AssertionError(f"{pattern!r} did not come; stderr was:\n{self.err}")

    def type(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    async def end(self) -> tuple[int, str, str]:
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(60):
            out, err = await self._process.communicate()
        assert self._process.returncode is not None
        return self._process.returncode, out.decode(), self.err + err.decode()


async def ended(arguments: Sequence[str], folder: Path, **env: str) -> tuple[int, str, str]:
    return await (await Command.start(arguments, folder, **env)).end()


@pytest.mark.slow
async def test_login_by_a_pasted_address_and_logout(tmp_path: Path) -> None:
    authority = Authority()
    async with guarded(authority) as url:
        (tmp_path / "home" / "config").mkdir(parents=True)
        (tmp_path / "home" / "config" / "mcp.json").write_text(json.dumps({"mcpServers": {"far": {"url": url}}}))
        code, out, err = await ended(["mcp", "test", "far"], tmp_path)
        assert code == 5
        assert "mcpagent mcp login far" in out + err
        login = await Command.start(["mcp", "login", "far", "--no-browser"], tmp_path)
        page = await login.line(r"^http://.*/authorize\?")
        assert "sign in to far at 127.0.0.1:" in login.err
        async with httpx2.AsyncClient() as browser:
            ended_at = (await browser.get(page)).headers["location"]
        login.type("https://example.com/")
        assert "this is not the address that the browser ends at" in await login.line("not the address")
        login.type(ended_at)
        code, out, err = await login.end()
        assert (code, out.splitlines()[0]) == (0, "✓ signed in to far: 1 tool")
        assert re.search(r"the sign-in is kept in a file that only you can read, .*/data/tokens/", out)

        [access], [refresh] = authority.access, authority.refresh
        assert access not in out + err
        assert await ended(["mcp", "login", "far"], tmp_path) == (0, "✓ already signed in to far: 1 tool\n", "")
        code, out, err = await ended(["mcp", "test", "far"], tmp_path)
        assert code == 0, out + err

        out_again = await ended(["mcp", "logout", "far"], tmp_path)
        assert out_again == (0, "✓ signed out of far; the sign-in is revoked there too\n", "")
        assert set(authority.revoked) == {access, refresh}
        assert list((tmp_path / "home" / "data" / "tokens").iterdir()) == []


async def test_login_by_the_browser(tmp_path: Path) -> None:
    """BROWSER names a program that follows the page, as a browser does."""
    follow = tmp_path / "browser.py"
    follow.write_text("import sys, urllib.request\nurllib.request.urlopen(sys.argv[1], timeout=30)\n")
    async with guarded(Authority()) as url:
        login = ["mcp", "login", "far", "--server", f"far={url}"]
        env = {**NO_RING, "BROWSER": f"{sys.executable} -I -S {follow} %s"}
        done = await asyncio.to_thread(run, login, tmp_path, env=env)
        again = await asyncio.to_thread(run, login, tmp_path, env=env)
        left = await asyncio.to_thread(run, ["mcp", "logout", url], tmp_path, env=env)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "✓ signed in to far: 1 tool"), done.stderr
    assert "the browser is being opened" in done.stderr
    assert (again.returncode, again.stdout) == (0, "✓ already signed in to far: 1 tool\n"), again.stderr
    assert left.stdout.startswith("✓ signed out of "), left.stderr


async def test_login_by_a_code_on_another_device(tmp_path: Path) -> None:
    device = {
        "device_code": "device-7f3a91c2e8",
        "user_code": "WDJB-MJHT",
        "verification_uri": "HERE/activate",
        "expires_in": 60,
        "interval": 0,
    }
    async with behind(OwnAuthority(device=device)) as url:
        login = ["mcp", "login", "far", "--set", "device_code=true", "--server", f"far={url}"]
        done = await asyncio.to_thread(run, login, tmp_path, env=NO_RING)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "✓ signed in to far: 1 tool"), done.stderr
    assert done.stderr.splitlines()[:3] == [
        "sign in to far at 127.0.0.1:",
        url.replace("/mcp", "/activate"),
        "and enter the code WDJB-MJHT",
    ]
    assert "device-7f3a91c2e8" not in done.stdout + done.stderr


@pytest.mark.slow
async def test_what_cannot_be_signed_in_to_is_one_line(tmp_path: Path) -> None:
    private = {"far": {"url": "https://h/mcp", "headers": {"Authorization": "Bearer x"}}, "here": {"command": "x"}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": private}))
    chosen = options(config=(tmp_path / "mcp.json",))
    for name, words in (
        ("far", "has an Authorization header in its configuration"),
        ("here", "is a program on this machine"),
        ("fra", "servers with an address: far"),
    ):
        with pytest.raises(InputError, match=words):
            log_in(Login(name), chosen)
    found, out, err = await ended(["mcp", "login", "down", "--server", "down=http://127.0.0.1:9/mcp"], tmp_path)
    assert (found, out, len(err.splitlines())) == (5, "", 1)
    assert 'error: server "down": signing in failed: ConnectError' in err


async def test_a_project_does_not_get_its_servers_signed_in_to_unasked(tmp_path: Path) -> None:
    async with guarded(Authority()) as url:
        (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"far": {"url": url}}}))
        code, _, err = await ended(["mcp", "login", "far"], tmp_path)
    assert code == 5
    assert "--trust-project" in err


@each_row(
    "environ, expected",
    [
        ({}, False),
        ({"DISPLAY": ":0"}, True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, True),
        ({"BROWSER": "firefox"}, True),
        ({"BROWSER": "firefox", "SSH_CONNECTION": "1 2 3 4"}, False),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="other systems always have a display")
def test_where_a_browser_can_be_seen(environ: dict[str, str], expected: bool) -> None:
    assert has_display(environ) is expected


def test_nothing_heavy_is_loaded_where_a_key_is_in_the_environment(tmp_path: Path) -> None:
    """The keyring library costs a tenth of a second of CPU time."""
    code = (
        "import contextlib, os, sys\n"
        "from mcpagent import CredentialsError\n"
        "from mcpagent.models import resolve_model\n"
        "resolve_model(None)\n"
        "os.environ.pop('OPENAI_API_KEY')\n"
        "with contextlib.suppress(CredentialsError):\n"
        "    resolve_model(None)\n"
        "print('keyring' in sys.modules)\n"
    )
    env = environment(tmp_path / "home", {"OPENAI_API_KEY": "sk-x"})
    import subprocess

    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"
    assert not os.path.exists(tmp_path / "home")


def test_a_projects_server_is_signed_out_of_after_consent(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"far": {"url": "http://127.0.0.1:9/mcp"}}}))
    refused = run(["mcp", "logout", "far"], tmp_path, env=NO_RING)
    assert refused.returncode == 5, refused.stderr
    assert "--trust-project" in refused.stderr
    done = run(["mcp", "logout", "far", "--trust-project"], tmp_path, env=NO_RING)
    assert (done.returncode, done.stdout) == (0, "far was not signed in to\n"), done.stderr
