"""Files that somebody else put where we keep ours: none is believed, none hangs us, none fills the memory.

A folder may have been open to others once (`cli/test_app_private.py` has it closed), or stand where everybody may
write.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from mcpagent.cli.screen.input import history_file
from mcpagent.config import ServerConfig
from mcpagent.config.secret_store import BoundedKeyring, key_store, token_store
from mcpagent.mcp.auth.sign_ins import SignIn, TokenStorage
from mcpagent.mcp.lists.list_cache import CachedServer, ListCache
from mcpagent.mcp.lists.pins import PinStore
from mcpagent.mcp.transports.server_log import append_bounded
from mcpagent.models.endpoints.learned import LearnedStore, learned_of
from mcpagent.permissions.stored_approvals import StoredApprovals
from mcpagent.permissions.trust.descriptions import Description, Fact
from mcpagent.permissions.trust.trust_store import TrustStore
from mcpagent.search.learning import SearchHistory
from mcpagent.utilities.filesystem.user_folders import cache_folder, state_folder
from mcpagent.values.messages import ToolDefinition
from tests.permissions.judging import PRINTS, is_stored
from tests.permissions.trust.canary import PYTHON, Canary
from tests.search.test_index_cache import answers, index_in

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX permissions")

SOMEBODY = 54_321
"""A user who is neither us nor the administrator."""

SERVER = ServerConfig("git", command="x")
PUSH = ToolDefinition("push", "Push.", {"type": "object"}, "git", "push")
CHANGED = ToolDefinition("push", "Push it all.", {"type": "object"}, "git", "push")
NO_RING = BoundedKeyring(lambda: None)


@dataclass(frozen=True)
class Store:
    """`write` keeps something and gives its file; `read` says what is believed of it: `believed`, else something else.

    Each call of either stands for a process of its own.
    """

    write: Callable[[Mapping[str, str]], Path]
    read: Callable[[Mapping[str, str]], Any]
    believed: Any


def write_trust(environ: Mapping[str, str]) -> Path:
    store = TrustStore.of_user(environ)
    store.add([Description("git", "/p/.mcp.json", "/p/.mcp.json", (Fact("runs", "x"),))])
    return store.path


def approves_the_changed_tool(environ: Mapping[str, str]) -> bool:
    return is_stored(StoredApprovals.of_user(environ, PRINTS), CHANGED)


def write_approval(environ: Mapping[str, str]) -> Path:
    StoredApprovals.of_user(environ, PRINTS).add(PUSH, "server", {}, always=True)
    return state_folder(environ) / "approvals.json"


def write_pin(environ: Mapping[str, str]) -> Path:
    store = PinStore(state_folder(environ) / "pins")
    assert store.check(SERVER, PUSH) is None
    return store.path(SERVER)


def write_list(environ: Mapping[str, str]) -> Path:
    cache = ListCache(cache_folder(environ) / "lists")
    cache.save(SERVER, CachedServer(title="kept"))
    return cache.path(SERVER)


def read_list(environ: Mapping[str, str]) -> str:
    found = ListCache(cache_folder(environ) / "lists").load(SERVER)
    return found.title if found is not None else ""


def write_traits(environ: Mapping[str, str]) -> Path:
    folder = cache_folder(environ) / "models"
    LearnedStore(folder).save("http://m", "small", learned_of(window_tokens=7))
    return next(folder.iterdir())


def read_traits(environ: Mapping[str, str]) -> int | None:
    found = LearnedStore(cache_folder(environ) / "models").load("http://m", "small")
    return found.window_tokens if found is not None else None


def write_key(environ: Mapping[str, str]) -> Path:
    kept = key_store(environ, keyring=NO_RING).set("GIT_TOKEN", "theirs")
    return kept.path


def write_sign_in(environ: Mapping[str, str]) -> Path:
    store = token_store(environ, keyring=NO_RING)
    return store.set(TokenStorage(store, "https://a.example/mcp").name, SignIn(refusal="kept").to_text()).path


def read_sign_in(environ: Mapping[str, str]) -> str | None:
    store = token_store(environ, keyring=NO_RING)
    return store.get(TokenStorage(store, "https://a.example/mcp").name)


def learned(environ: Mapping[str, str]) -> SearchHistory:
    return SearchHistory(state_folder(environ) / "searches.sqlite3")


def write_learned(environ: Mapping[str, str]) -> Path:
    learned(environ).record("push the branch", [PUSH.key], [PUSH.key])
    return learned(environ).path


def read_learned(environ: Mapping[str, str]) -> int:
    try:
        return len(learned(environ).uses())
    except OSError:
        return 0


def write_history(environ: Mapping[str, str]) -> Path:
    path = history_file(environ)
    assert path is not None
    return path


def write_log(environ: Mapping[str, str]) -> Path:
    path = state_folder(environ) / "logs" / "git.log"
    append_bounded(path, b"one\n")
    return path


def read_log(environ: Mapping[str, str]) -> bool:
    """Whether something more is written into it."""
    try:
        append_bounded(state_folder(environ) / "logs" / "git.log", b"two\n")
    except OSError:
        return False
    return True


STORES = {
    "trust": Store(write_trust, lambda environ: len(TrustStore.of_user(environ).digests()), 1),
    "approvals": Store(write_approval, approves_the_changed_tool, True),
    "pins": Store(
        write_pin, lambda environ: PinStore(state_folder(environ) / "pins").check(SERVER, CHANGED) is not None, True
    ),
    "lists": Store(write_list, read_list, "kept"),
    "traits of models": Store(write_traits, read_traits, 7),
    "keys": Store(write_key, lambda environ: key_store(environ, keyring=NO_RING).find("GIT_TOKEN"), "theirs"),
    "sign-ins": Store(write_sign_in, read_sign_in, SignIn(refusal="kept").to_text()),
    "learned searches": Store(write_learned, read_learned, 1),
    "typed lines": Store(write_history, lambda environ: history_file(environ) is not None, True),
    "logs": Store(write_log, read_log, True),
}


def give_away(path: Path) -> None:
    os.chown(path, SOMEBODY, SOMEBODY)


def open_to_all(path: Path) -> None:
    path.chmod(0o666)


def as_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def as_a_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def as_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


ONLY_ROOT = pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() != 0, reason="only root may give a file to another user"
)
WAYS = [pytest.param(give_away, marks=ONLY_ROOT), open_to_all, as_a_pipe, as_a_device, as_a_folder]


def bounded(run: Callable[[], Any]) -> Any:
    """What it gives; an error if it hangs."""
    given: list[Any] = []
    thread = Thread(target=lambda: given.append(run()), daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive(), "it hangs"
    [value] = given
    return value


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"MCPAGENT_HOME": str(tmp_path / "home")}


@pytest.mark.parametrize("plant", WAYS)
@pytest.mark.parametrize("name", STORES)
def test_what_somebody_else_can_have_written_is_not_believed(
    name: str, plant: Callable[[Path], None], environ: dict[str, str]
) -> None:
    store = STORES[name]
    path = store.write(environ)
    assert store.read(environ) == store.believed
    plant(path)
    assert bounded(lambda: store.read(environ)) != store.believed


@pytest.mark.parametrize("plant", [open_to_all, as_a_pipe, as_a_device])
@pytest.mark.parametrize("name", ["trust", "approvals", "lists", "traits of models", "keys"])
def test_the_next_yes_takes_the_place_of_what_was_planted(
    name: str, plant: Callable[[Path], None], environ: dict[str, str]
) -> None:
    store = STORES[name]
    path = store.write(environ)
    plant(path)
    assert bounded(lambda: store.write(environ)) == path
    assert store.read(environ) == store.believed
    assert path.stat().st_mode & 0o777 == 0o600
    assert not path.is_symlink()


@pytest.mark.parametrize("plant", WAYS)
def test_an_index_of_somebody_else_is_built_again(plant: Callable[[Path], None], tmp_path: Path) -> None:
    expected = answers(index_in(tmp_path))
    [path] = tmp_path.glob("index-*.bin")
    # Damaged, so that it shows whether it is read: with the right sizes, and weights that turn the ranking over.
    content = bytearray(path.read_bytes())
    half = (len(content) - 8) // 2
    content[half:] = bytes(len(content) - half)
    path.write_bytes(content)
    plant(path)
    assert bounded(lambda: answers(index_in(tmp_path))) == expected


@pytest.mark.slow
@pytest.mark.parametrize("plant", [WAYS[0], open_to_all])
def test_a_configuration_that_somebody_left_in_the_users_folder_starts_nothing_unasked(
    plant: Callable[[Path], None], tmp_path: Path
) -> None:
    canary = Canary(tmp_path)
    script = canary.server(tmp_path / "server.py", "started")
    config = canary.home / "config" / "mcp.json"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps({"mcpServers": {"git": {"command": PYTHON, "args": [str(script)], "trust": True}}}))
    (tmp_path / "here").mkdir()
    assert canary.run(tmp_path / "here")[0] == 0  # the user's own needs no yes
    assert canary.words == {"started"}
    canary.forget()
    for cached in (canary.home / "cache").rglob("*.json"):
        cached.unlink()
    plant(config)
    canary.refused(tmp_path / "here")


@pytest.mark.slow
@pytest.mark.parametrize("plant", [WAYS[0], open_to_all])
def test_settings_that_somebody_left_in_the_users_folder_run_no_program(
    plant: Callable[[Path], None], tmp_path: Path
) -> None:
    canary = Canary(tmp_path)
    config = canary.home / "config" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('model = "offline"\napprove = "all"\n')
    assert str(config) not in canary.run(tmp_path, "tools", "list")[1]
    plant(config)
    code, said = canary.run(tmp_path, "tools", "list")
    assert code == 0
    assert "another user's, or everybody may write into it" in said
    assert f"{config}:2: approve counts only in your own config.toml" in said
