"""Keys in the system keyring or in files of the user's own: found by name, bounded, never shown."""

from __future__ import annotations

import json
import os
import secrets
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from mcpagent.config import load_servers
from mcpagent.config.secret_store import BoundedKeyring, SecretStore, is_key_name, key_store, with_stored_keys
from mcpagent.errors import ConfigError, CredentialsError
from mcpagent.models.resolve import default_spec, resolve_model
from mcpagent.utilities.text.secrets import without_secrets
from tests.tables import each_row


class Ring:
    """A keyring in memory that counts what it is asked."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}
        self.asked = 0

    def get_password(self, service: str, username: str) -> str | None:
        self.asked += 1
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.asked += 1
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[service, username]


NO_RING = BoundedKeyring(lambda: None)


def ring_of(backend: Ring) -> BoundedKeyring:
    return BoundedKeyring(lambda: backend)


@pytest.fixture
def value() -> str:
    return secrets.token_hex(16)


@pytest.fixture
def home(tmp_path: Path) -> Mapping[str, str]:
    return {"MCPAGENT_HOME": str(tmp_path)}


def test_a_keyring_holds_the_value_and_the_file_only_says_so(tmp_path: Path, value: str) -> None:
    ring = Ring()
    store = SecretStore(tmp_path / "keys", keyring=ring_of(ring))
    kept = store.set("GITHUB_TOKEN", value)
    assert (kept.place, kept.reason) == ("keyring", None)
    assert value not in kept.path.read_text("utf-8")
    assert ring.kept == {("mcpagent", "GITHUB_TOKEN"): value}
    assert store.get("GITHUB_TOKEN") == value
    asked = ring.asked
    assert [(item.name, item.place) for item in store.list()] == [("GITHUB_TOKEN", "keyring")]
    assert ring.asked == asked
    assert store.remove("GITHUB_TOKEN") is not None
    assert ring.kept == {}
    assert store.get("GITHUB_TOKEN") is None
    assert store.remove("GITHUB_TOKEN") is None


def test_without_a_keyring_the_value_is_in_a_file_of_the_users_own(tmp_path: Path, value: str) -> None:
    store = SecretStore(tmp_path / "keys", keyring=NO_RING)
    kept = store.set("a/b", value)
    assert (kept.place, kept.reason) == ("file", "there is no system keyring here")
    assert stat.S_IMODE(kept.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.path.parent.stat().st_mode) == 0o700
    assert [item.name for item in kept.path.parent.iterdir()] == [kept.path.name]
    assert SecretStore(tmp_path / "keys", keyring=NO_RING).get("a/b") == value
    assert [(item.name, item.place, item.saved) for item in store.list()] == [("a/b", "file", kept.saved)]
    removed = store.remove("a/b")
    assert removed is not None
    assert not kept.path.exists()


def test_what_was_never_set_is_not_asked_of_the_keyring(tmp_path: Path) -> None:
    ring = Ring()
    assert SecretStore(tmp_path, keyring=ring_of(ring)).get("NOPE") is None
    assert ring.asked == 0


def test_a_keyring_that_refuses_to_write_leaves_the_file(tmp_path: Path, value: str) -> None:
    class Locked(Ring):
        def set_password(self, service: str, username: str, password: str) -> None:
            raise OSError("the collection is locked")

    kept = SecretStore(tmp_path, keyring=ring_of(Locked())).set("K", value)
    assert kept.place == "file"
    assert kept.reason == "the system keyring failed: OSError: the collection is locked"


@pytest.fixture
def hanging() -> Iterator[Callable[[], BoundedKeyring]]:
    """A keyring that waits for a password nobody types; let go when the test ends."""
    let_go = threading.Event()
    threads: list[threading.Thread] = []

    class Waiting(Ring):
        def get_password(self, service: str, username: str) -> str | None:
            threads.append(threading.current_thread())
            let_go.wait(60)
            return None

    yield lambda: BoundedKeyring(Waiting, 0.05)
    let_go.set()
    for thread in threads:
        thread.join(60)


def test_a_keyring_that_hangs_is_waited_for_once(
    tmp_path: Path, value: str, hanging: Callable[[], BoundedKeyring]
) -> None:
    SecretStore(tmp_path, keyring=ring_of(Ring())).set("K", value)
    store = SecretStore(tmp_path, keyring=hanging())
    for _ in range(2):
        with pytest.raises(CredentialsError) as caught:
            store.get("K")
        assert str(caught.value) == (
            "K is in the system keyring: the system keyring did not answer within 0.05 s (it may be asking for its "
            "password); unlock it, or set it again: mcpagent keys set K"
        )
    assert [thread.name for thread in threading.enumerate()].count("keyring") == 1
    assert store.find("another") is None


@each_row("content", ["", "{", "[]", "3", '{"name": 3}', '{"name": "K"}', '{"name": "K", "saved": "x"}'])
def test_a_broken_file_counts_as_none(tmp_path: Path, content: str, value: str) -> None:
    store = SecretStore(tmp_path, keyring=NO_RING)
    kept = store.set("K", value)
    kept.path.write_text(content, "utf-8")
    assert store.get("K") is None
    assert store.list() == []
    store.set("K", value)
    assert store.get("K") == value


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, value: str) -> None:
    (tmp_path / "keys").write_text("in the way")
    with pytest.raises(ConfigError, match=r"cannot be written.*nothing was kept"):
        SecretStore(tmp_path / "keys", keyring=NO_RING).set("K", value)


def test_names_that_look_alike_are_kept_apart(tmp_path: Path) -> None:
    store = SecretStore(tmp_path, keyring=NO_RING)
    names = ["a/b", "a_b", "a:b", "A_B", "..", "..b"]
    for number, name in enumerate(names):
        store.set(name, f"value {number}")
    assert [store.get(name) for name in names] == [f"value {number}" for number in range(len(names))]
    assert all(path.parent == tmp_path for path in tmp_path.rglob("*"))


def test_which_names_a_key_can_have() -> None:
    assert all(map(is_key_name, ["ANTHROPIC_API_KEY", "github.token", "a/b:c@d-e"]))
    assert not any(map(is_key_name, ["", "a b", "a}", "a\n", "ä", "x" * 101]))


def test_the_environment_goes_first(home: Mapping[str, str], value: str) -> None:
    ring = Ring()
    key_store(home, keyring=ring_of(ring)).set("A_KEY", value)
    asked = ring.asked
    environ = with_stored_keys({**home, "A_KEY": "from outside", "BLANK": " "}, keyring=ring_of(ring))
    assert environ["A_KEY"] == "from outside"
    assert environ["BLANK"] == " "
    assert environ.get("OTHER") is None
    assert "OTHER" not in environ
    assert ring.asked == asked
    assert with_stored_keys({**home, "A_KEY": ""}, keyring=ring_of(ring))["A_KEY"] == value
    assert dict(environ) == {**home, "A_KEY": "from outside", "BLANK": " "}


def test_a_key_is_read_once_and_hidden_from_then_on(home: Mapping[str, str], value: str) -> None:
    ring = Ring()
    key_store(home, keyring=ring_of(ring)).set("A_KEY", value)
    environ = with_stored_keys(home, keyring=ring_of(ring))
    assert without_secrets(f"it is {value}!") == f"it is {value}!"
    before = ring.asked
    assert [environ["A_KEY"], environ.get("A_KEY"), "A_KEY" in environ] == [value, value, True]
    assert ring.asked == before + 1
    assert without_secrets(f"it is {value}!") == "it is [redacted]!"


def test_what_a_server_says_of_a_key_it_was_given_is_not_shown(home: Mapping[str, str], value: str) -> None:
    """Also where the configuration has it as an argument, and where it came after the server was started."""
    ring = Ring()
    assert without_secrets(f"bad key {value}") == f"bad key {value}"
    key_store(home, keyring=ring_of(ring)).set("K", value)
    servers = {"mcpServers": {"a": {"command": "x", "args": ["--key", "${keyring:K}"]}}}
    load_servers(servers, environ=with_stored_keys(home, keyring=ring_of(ring)))
    assert without_secrets(f"bad key {value}") == "bad key [redacted]"


# --- in a configuration -----------------------------------------------------------------------------------------------


def test_a_configuration_takes_keys_in_what_is_not_shown(tmp_path: Path, home: Mapping[str, str], value: str) -> None:
    ring = Ring()
    key_store(home, keyring=ring_of(ring)).set("shop.token", value)
    entry = {
        "command": "${keyring:shop.token}",
        "args": ["--token=${keyring:shop.token}"],
        "env": {"TOKEN": "${keyring:shop.token}"},
    }
    remote = {"url": "https://h/${keyring:shop.token}", "headers": {"Authorization": "Bearer ${keyring:shop.token}"}}
    loaded = load_servers(
        {"mcpServers": {"shop": entry, "far": remote}}, environ=with_stored_keys(home, keyring=ring_of(ring))
    )
    shop, far = loaded.servers
    assert (shop.command, shop.args, shop.env) == (value, (f"--token={value}",), {"TOKEN": value})
    assert (far.url, far.headers) == (f"https://h/{value}", {"Authorization": f"Bearer {value}"})


def test_a_key_of_another_program_can_be_named(home: Mapping[str, str], value: str) -> None:
    ring = Ring()
    ring.kept["mcpagent", "theirs"] = value
    servers = {"mcpServers": {"a": {"command": "x", "args": ["${keyring:theirs}"]}}}
    [server] = load_servers(servers, environ=with_stored_keys(home, keyring=ring_of(ring))).servers
    assert server.args == (value,)


def test_a_variable_that_is_not_set_is_taken_from_the_keys(home: Mapping[str, str], value: str) -> None:
    ring = Ring()
    key_store(home, keyring=ring_of(ring)).set("SHOP_TOKEN", value)
    servers = {"mcpServers": {"a": {"command": "x", "args": ["${SHOP_TOKEN}", "${OTHER:-y}"]}}}
    [server] = load_servers(servers, environ=with_stored_keys(home, keyring=ring_of(ring))).servers
    assert server.args == (value, "y")


def test_no_keyring_is_asked_where_no_configuration_uses_it(home: Mapping[str, str]) -> None:
    ring = Ring()
    servers = {"mcpServers": {"a": {"command": "x"}, "b": {"command": "${keyring:k}", "disabled": True}}}
    load_servers(servers, environ=with_stored_keys(home, keyring=ring_of(ring)))
    assert ring.asked == 0


def test_a_key_that_is_missing_costs_its_server_only(
    home: Mapping[str, str], value: str, hanging: Callable[[], BoundedKeyring]
) -> None:
    servers = {"mcpServers": {"a": {"command": "x", "args": ["${keyring:nope}"]}, "b": {"command": "y"}}}
    loaded = load_servers(servers, environ=with_stored_keys(home, keyring=NO_RING))
    assert [server.name for server in loaded.servers] == ["b"]
    assert loaded.problems[0].reason == (
        "mcp_config: mcpServers.a.args.0: ${keyring:nope} is not stored; store it: mcpagent keys set nope"
    )
    key_store(home, keyring=ring_of(Ring())).set("nope", value)
    [problem] = load_servers(servers, environ=with_stored_keys(home, keyring=hanging())).problems
    assert "did not answer within 0.05 s" in problem.reason


# --- the library ------------------------------------------------------------------------------------------------------

BACKEND = """
import json, pathlib
from keyring.backend import KeyringBackend

KEPT = pathlib.Path(__file__).with_name("ring.json")

class Ring(KeyringBackend):
    priority = 5

    def get_password(self, service, username):
        return json.loads(KEPT.read_text())[f"{service}/{username}"]

    def set_password(self, service, username, password):
        KEPT.write_text(json.dumps({f"{service}/{username}": password}))

    def delete_password(self, service, username):
        KEPT.unlink()
"""


def in_a_process(code: str, home: Path, backend: str) -> str:
    pytest.importorskip("keyring", reason="the keyring library is not installed")
    done = subprocess.run(
        [sys.executable, "-c", f"import os, sys\nfrom mcpagent.config.secret_store import key_store\n{code}"],
        env={
            "MCPAGENT_HOME": str(home),
            "PYTHON_KEYRING_BACKEND": backend,
            "PYTHONPATH": f"{Path(__file__).resolve().parents[2]}{os.pathsep}{home}",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip()


def test_the_keyring_library_is_what_is_used(tmp_path: Path, value: str) -> None:
    (tmp_path / "ring_backend.py").write_text(BACKEND)
    ring = "ring_backend.Ring"
    code = (
        "assert 'keyring' not in sys.modules\n"
        f"print(key_store(os.environ).set('K', {value!r}).place, key_store(os.environ).get('K'))\n"
    )
    assert in_a_process(code, tmp_path, ring) == f"keyring {value}"
    assert json.loads((tmp_path / "ring.json").read_text()) == {"mcpagent/K": value}
    assert in_a_process("print(key_store(os.environ).remove('K').place)", tmp_path, ring) == "keyring"
    assert not (tmp_path / "ring.json").exists()


@each_row(
    "backend, reason",
    [
        ("keyring.backends.null.Keyring", "there is no system keyring here"),
        ("keyring.backends.fail.Keyring", "there is no system keyring here"),
        ("not_there.Keyring", "the system keyring failed: ModuleNotFoundError: No module named 'not_there'"),
    ],
)
def test_without_a_keyring_that_works_a_key_goes_to_a_file(
    backend: str, reason: str, tmp_path: Path, value: str
) -> None:
    code = f"kept = key_store(os.environ).set('K', {value!r})\nprint(kept.place, kept.reason)"
    assert in_a_process(code, tmp_path, backend) == f"file {reason}"


# --- models -----------------------------------------------------------------------------------------------------------


def test_a_model_takes_the_key_that_was_set(home: Mapping[str, str], value: str) -> None:
    ring = Ring()
    key_store(home, keyring=ring_of(ring)).set("OPENAI_API_KEY", value)
    stored = with_stored_keys(home, keyring=ring_of(ring))
    assert resolve_model(None, environ=stored).name.startswith("openai:")
    with pytest.raises(CredentialsError, match="or keep it: mcpagent keys set ANTHROPIC_API_KEY"):
        resolve_model("anthropic:", environ=stored)


@each_row("spec", [None, "anthropic:"])
def test_no_keyring_is_asked_where_the_environment_has_a_key(spec: str | None, tmp_path: Path, value: str) -> None:
    home, ring = {"MCPAGENT_HOME": str(tmp_path)}, Ring()
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        key_store(home, keyring=ring_of(ring)).set(name, value)
    asked = ring.asked
    stored = with_stored_keys({**home, "ANTHROPIC_AUTH_TOKEN": "sk-other"}, keyring=ring_of(ring))
    assert resolve_model(spec, environ=stored).name.startswith("anthropic:")
    assert ring.asked == asked


def test_without_any_key_there_is_no_model_and_no_keyring_is_loaded(home: Mapping[str, str]) -> None:
    stored = with_stored_keys(home, keyring=BoundedKeyring(no_keyring_please))
    assert default_spec(stored) == ""
    with pytest.raises(CredentialsError, match="OPENAI_API_KEY"):
        resolve_model(None, environ=stored)


def no_keyring_please() -> None:
    raise AssertionError("the keyring was loaded")
