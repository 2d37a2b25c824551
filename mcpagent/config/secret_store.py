"""Store secrets by name: in the system keyring if there is one, else in files that only their user can read.

A keyring cannot be listed and takes time to load. Therefore each secret also has a small file, which has the value
itself or refers to the keyring. A secret without a file costs one file lookup, and no keyring is loaded.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from mcpagent.errors import ConfigError, CredentialsError
from mcpagent.utilities.filesystem.bounded_files import read_own
from mcpagent.utilities.filesystem.file_changes import write_whole
from mcpagent.utilities.filesystem.user_folders import user_data_folder
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import hide

Found = TypeVar("Found")

SERVICE = "mcpagent"
"""The service name of mcpagent's keys in the system keyring, so that `keyring get mcpagent NAME` can read them."""

KEYRING_SECONDS = 20.0
"""Timeout of the system keyring, which may ask for a password in a window that the user does not see."""

_NAME = re.compile(r"[A-Za-z0-9_.@:/-]{1,100}")


class Backend(Protocol):
    """A system keyring, with the interface of the `keyring` library."""

    def get_password(self, service: str, username: str) -> str | None:
        """Return the secret, or None."""

    def set_password(self, service: str, username: str, password: str) -> None:
        """Store the secret, replacing an earlier one."""

    def delete_password(self, service: str, username: str) -> None:
        """Delete the secret; it must exist."""


class KeyringError(Exception):
    """Raised if the keyring cannot be used; the message is the reason, worded as the end of a sentence."""


class BoundedKeyring:
    """A keyring that is loaded on first use, with a timeout of `seconds`; after a timeout it is not used again.

    `load` returns None if there is no keyring.
    """

    def __init__(
        self, load: Callable[[], Backend | None], seconds: float = KEYRING_SECONDS
    ) -> None:
        self._load = load
        self._seconds = seconds
        self._trouble = ""
        self._backend: Backend | None = None

    def use(self, act: Callable[[Backend], Found]) -> Found:
        """Call `act` with the keyring, and return its result. Raises `KeyringError`."""
        if self._trouble:
            raise KeyringError(self._trouble)
        answer: Future[Found] = Future()

        def work() -> None:
            try:
                answer.set_result(act(self._opened()))
            except Exception as error:  # noqa: BLE001 - each system's keyring has its own errors
                answer.set_exception(error)

        threading.Thread(target=work, name="keyring", daemon=True).start()
        if not wait([answer], self._seconds).done:
            waiting = "it may be asking for its password"
            self._trouble = f"the system keyring did not answer within {self._seconds:g} s ({waiting})"
            raise KeyringError(self._trouble)
        try:
            return answer.result()
        except KeyringError:
            raise
        except Exception as error:  # noqa: BLE001 - see above
            what = f"{type(error).__name__}: {safe_line(str(error), 120)}"
            raise KeyringError(f"the system keyring failed: {what}") from None

    def _opened(self) -> Backend:
        if self._backend is None:
            self._backend = self._load()
        if self._backend is None:
            self._trouble = "there is no system keyring here"
            raise KeyringError(self._trouble)
        return self._backend


NO_KEYRING = BoundedKeyring(lambda: None)
"""A missing keyring, for stores that put all secrets into files."""


def _load_backend() -> Backend | None:
    try:
        import keyring
    except ImportError:
        return None
    backend = keyring.get_keyring()
    # The library's backends for "no keyring" and "disabled" have a priority of 0 or less.
    if backend.priority > 0:
        return backend
    return None


@cache
def system_keyring() -> BoundedKeyring:
    """Return the keyring of this process. All code shares it, so after a timeout none uses it again."""
    return BoundedKeyring(_load_backend)


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """The location of a secret. `reason` explains why it is in a file; None if it is in the keyring or comes from
    `list`.
    """

    name: str
    place: Literal["keyring", "file"]
    path: Path
    saved: float
    reason: str | None = None


class SecretStore:
    """Secrets of one kind, with one file each in `folder`; `service` is their service name in the keyring."""

    def __init__(
        self,
        folder: Path,
        service: str = SERVICE,
        *,
        keyring: BoundedKeyring | None = None,
    ) -> None:
        self._folder = folder
        self._service = service
        self._keyring = keyring

    def get(self, name: str) -> str | None:
        """Return the secret; None if this store never stored it. Raises `CredentialsError` if the keyring fails."""
        entry = self._read(self._path(name))
        if entry is None:
            return None
        if "value" in entry:
            return str(entry["value"])
        return self._from_keyring(name)

    def find(self, name: str) -> str | None:
        """Return the secret like `get`, including a secret that another program stored in the keyring."""
        if (found := self.get(name)) is not None:
            return found
        return self._from_keyring(name, quiet=True)

    def set(self, name: str, value: str) -> StoredSecret:
        """Store the secret in the keyring, or else in a file. Raises `ConfigError` if neither is writable."""
        path, saved = self._path(name), time.time()
        try:
            self._ring.use(
                lambda backend: backend.set_password(self._service, name, value)
            )
        except KeyringError as error:
            self._write(path, {"name": name, "saved": saved, "value": value})
            return StoredSecret(name, "file", path, saved, str(error))
        self._write(path, {"name": name, "saved": saved})
        return StoredSecret(name, "keyring", path, saved)

    def remove(self, name: str) -> StoredSecret | None:
        """Delete the secret, and return its location; None if it was missing. Raises `CredentialsError` like `get`."""
        path = self._path(name)
        entry = self._read(path)
        if entry is None:
            return None
        kept = _kept(path, entry)
        if kept.place == "keyring" and self._from_keyring(name) is not None:
            self._use(
                lambda backend: backend.delete_password(self._service, name), name
            )
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        return kept

    def list(self) -> list[StoredSecret]:
        """Return the stored secrets sorted by name, without reading their values."""
        found = [(path, self._read(path)) for path in self._folder.glob("*.json")]
        return sorted(
            (_kept(path, entry) for path, entry in found if entry is not None),
            key=lambda kept: kept.name,
        )

    @property
    def _ring(self) -> BoundedKeyring:
        return self._keyring or system_keyring()

    def _use(self, act: Callable[[Backend], Found], name: str) -> Found:
        try:
            return self._ring.use(act)
        except KeyringError as error:
            fix = f"unlock it, or set it again: mcpagent keys set {name}"
            raise CredentialsError(
                f"{safe_line(name, 100)} is in the system keyring: {error}; {fix}"
            ) from None

    def _from_keyring(self, name: str, *, quiet: bool = False) -> str | None:
        def read(backend: Backend) -> str | None:
            return backend.get_password(self._service, name)

        if not quiet:
            return self._use(read, name)
        try:
            return self._ring.use(read)
        except KeyringError:
            return None

    def _path(self, name: str) -> Path:
        import hashlib

        shown = re.sub(r"[^A-Za-z0-9_.-]", "_", name).lstrip(".")[:60]
        return (
            self._folder
            / f"{shown}-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:12]}.json"
        )

    def _read(self, path: Path) -> dict[str, Any] | None:
        """Return the content of a secret's file; None if it is missing or invalid."""
        try:
            entry = json.loads(read_own(path))
        except (OSError, ValueError, RecursionError):
            return None
        fits = isinstance(entry, dict) and isinstance(entry.get("name"), str)
        return entry if fits and isinstance(entry.get("saved"), int | float) else None

    def _write(self, path: Path, entry: Mapping[str, Any]) -> None:
        try:
            write_whole(path, json.dumps(entry))
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{path}: cannot be written: {error}; nothing was kept"
            ) from None


def _kept(path: Path, entry: Mapping[str, Any]) -> StoredSecret:
    return StoredSecret(
        str(entry["name"]),
        "file" if "value" in entry else "keyring",
        path,
        float(entry["saved"]),
    )


def key_store(
    environ: Mapping[str, str], *, keyring: BoundedKeyring | None = None
) -> SecretStore:
    """Return the store of the keys that the user sets with `mcpagent keys set NAME`."""
    return SecretStore(user_data_folder(environ) / "keys", keyring=keyring)


def token_store(
    environ: Mapping[str, str], *, keyring: BoundedKeyring | None = None
) -> SecretStore:
    """Return the store of the tokens from sign-ins to servers."""
    return SecretStore(
        user_data_folder(environ) / "tokens", f"{SERVICE} sign-in", keyring=keyring
    )


def is_key_name(name: str) -> bool:
    """Return whether a key may have this name, so that `${keyring:name}` can contain it."""
    return _NAME.fullmatch(name) is not None


class EnvironmentWithKeys(Mapping[str, str]):
    """Environment variables with stored keys as a fallback for names that are missing or blank."""

    def __init__(self, environ: Mapping[str, str], keys: SecretStore) -> None:
        self.environ = environ
        self._keys = keys
        self._read: dict[str, str | None] = {}

    def secret(self, name: str) -> str | None:
        """Return the value of `${keyring:name}`; None if there is no such key."""
        value = None
        if is_key_name(name):
            value = self._keys.find(name)
        if value is not None:
            hide(value)
        return value

    def __getitem__(self, name: str) -> str:
        value = self.environ.get(name)
        if value is not None and value.strip():
            return value
        if name not in self._read:
            if is_key_name(name):
                self._read[name] = self._keys.get(name)
            else:
                self._read[name] = None
        if (kept := self._read[name]) is not None:
            hide(kept)
            return kept
        if value is None:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self.environ)

    def __len__(self) -> int:
        return len(self.environ)


def with_stored_keys(
    environ: Mapping[str, str], *, keyring: BoundedKeyring | None = None
) -> EnvironmentWithKeys:
    """Return the environment with stored keys as a fallback. A key is read only when its name is requested."""
    if isinstance(environ, EnvironmentWithKeys):
        return environ
    return EnvironmentWithKeys(environ, key_store(environ, keyring=keyring))
