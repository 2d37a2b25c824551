"""`mcpagent gateway install|uninstall CLIENT`: put the gateway in place of a client's servers, or restore these."""

from __future__ import annotations

import base64
import difflib
import hashlib
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mcpagent.cli.approvals.key_commands import place_of_secret
from mcpagent.cli.common.configuration import short_path
from mcpagent.cli.common.error_lines import did_you_mean
from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.number_formats import counted
from mcpagent.cli.common.options import Client, Options
from mcpagent.cli.gateway_command.client_texts import ClientText
from mcpagent.cli.screen.terminal import Terminal, agreed, put, write_out
from mcpagent.cli.servers.importing.client_entries import taken_by_user, taken_over
from mcpagent.cli.servers.importing.clients import (
    ClientFile,
    read_client_file,
    section_of,
    usual_file,
)
from mcpagent.cli.servers.importing.import_command import (
    Imported,
    ImportMode,
    diff_without_secrets,
    with_imported,
)
from mcpagent.cli.servers.server_editing import ServerFile, file_to_write
from mcpagent.config.config_documents import read_bytes
from mcpagent.config.secret_store import SecretStore, key_store
from mcpagent.errors import ConfigError, InputError
from mcpagent.utilities.filesystem.file_changes import alone_with, write_text
from mcpagent.utilities.filesystem.user_folders import state_folder
from mcpagent.utilities.text.safe_text import safe_line, safe_text
from mcpagent.utilities.text.secrets import REDACTED, without_secrets

ENTRY = "mcpagent"
"""The name of the gateway's entry in a client's file."""

INSTALLABLE: tuple[Client, ...] = (
    "claude-desktop",
    "claude-code",
    "cursor",
    "vscode",
    "codex",
    "windsurf",
    "zed",
)
_MOST_BYTES = 5_000_000


@dataclass(frozen=True, slots=True)
class Installation:
    """The stored record of an installation: the client's file before it (None: no file), a digest of the file after it,
    and the moved servers.
    """

    path: str
    before: bytes | None
    after_digest: str
    moved: dict[str, Any]

    def to_text(self) -> str:
        """Return the record as JSON."""
        before = None
        if self.before is not None:
            before = base64.b64encode(self.before).decode()
        return json.dumps([self.path, before, self.after_digest, self.moved])

    @classmethod
    def of_text(cls, text: str) -> Installation:
        """Return a record from its JSON."""
        path, before, digest, moved = json.loads(text)
        kept = None
        if before is not None:
            kept = base64.b64decode(before)
        return cls(path, kept, digest, moved)


def installations(options: Options) -> SecretStore:
    """Return the store of installation records: a client's file may contain secrets, so its former content is stored as
    a secret.
    """
    folder = state_folder(options.environ) / "gateway" / "installed"
    return SecretStore(folder, "mcpagent-gateway")


def client_named(name: str) -> Client:
    """Return the client of this name. Raises `InputError`."""
    for client in INSTALLABLE:
        if client == name.strip().lower():
            return client
    raise InputError(
        f'no client "{safe_line(name, 40)}"; {did_you_mean(list(INSTALLABLE))}'
    )


def entry_of_gateway(client: Client) -> dict[str, Any]:
    """Return the entry that starts the gateway, in the client's format."""
    program = shutil.which("mcpagent")
    command, args = sys.executable, ["-m", "mcpagent", "gateway"]
    if program is not None:
        command, args = program, ["gateway"]
    entry: dict[str, Any] = {"command": command, "args": args}
    if client == "vscode":
        return {"type": "stdio", **entry}
    if client == "zed":
        return {"source": "custom", **entry, "env": {}}
    return entry


@dataclass(frozen=True, slots=True)
class _Plan:
    """The changes of an installation: mcpagent's own file and the client's, each before and after."""

    own: tuple[ServerFile, ServerFile]
    client: tuple[ClientText, ClientText]
    imported: Imported
    moved: dict[str, Any]

    @property
    def secrets(self) -> list[str]:
        """The secrets that move to the keyring."""
        return [secret.value for secret in self.imported.secrets]


def install(
    options: Options, client: Client, terminal: Terminal, *, yes: bool, dry_run: bool
) -> ExitCode:
    """Show both changes as a diff, ask, and then move the servers to mcpagent's file and write the gateway's entry."""
    file = usual_file(client, options.environ)
    store = key_store(options.environ)
    plan = _plan(options, file, store)
    _show(options, terminal, plan)
    names = safe_line(", ".join(plan.moved), 300) or "no server"
    put(terminal.err, f"{names} to be moved behind the gateway")
    if dry_run:
        return ExitCode.OK
    if not yes and not agreed(terminal, "write this?", "writes it"):
        put(terminal.err, "nothing was written", style="dim")
        return ExitCode.OK
    _write(options, terminal, plan, store)
    terminal.done(
        f"{client} uses the gateway with {counted(len(plan.moved), 'server')}; restart it"
    )
    return ExitCode.OK


def _write(
    options: Options, terminal: Terminal, plan: _Plan, store: SecretStore
) -> None:
    """Write both files, after the secrets: a file must not refer to a secret that is not stored."""
    for secret in plan.imported.secrets:
        kept = store.set(secret.name, secret.value)
        put(terminal.err, f"{kept.name} is kept in {place_of_secret(kept)}")
    file, (own, after_own) = plan.imported.file, plan.own
    if after_own.text != own.text:
        own.saved(lambda fresh: _merge(options, fresh, file, store)[0])
    file.path.parent.mkdir(parents=True, exist_ok=True)
    with alone_with(file.path):
        _write_client(options, file, plan)


def _write_client(options: Options, file: ClientFile, plan: _Plan) -> None:
    """Write the client's file, after the record that restores it."""
    before, after = plan.client
    raw = _same_bytes(before)
    record = Installation(str(file.path), raw, _digest(after), plan.moved)
    installations(options).set(file.client, record.to_text())
    write_text(file.path, after.text)


def _same_bytes(shown: ClientText) -> bytes | None:
    """Return the bytes of the file. Raises `ConfigError` if its text has changed since the user saw it."""
    raw = _raw(shown.path)
    if ClientText.of_bytes(shown.path, shown.section, raw) != shown:
        raise ConfigError(f"{shown.path}: changed meanwhile; start again")
    return raw


def _digest(text: ClientText) -> str:
    return hashlib.sha256(text.text.encode()).hexdigest()


def uninstall(
    options: Options, client: Client, terminal: Terminal, *, yes: bool, dry_run: bool
) -> ExitCode:
    """Restore the client's file byte for byte.

    If the file was changed since the installation, only remove the gateway's entry and add the servers again.
    """
    store = installations(options)
    text = store.get(client)
    if text is None:
        raise InputError(f"the gateway is not installed for {client}")
    record = Installation.of_text(text)
    now = _client_text(client, Path(record.path))
    restored = _restored(record, now)
    put(terminal.err, f"restores {short_path(record.path, options.folder)}")
    hidden = _secrets_in(client, record.moved) + _secrets_in(client, now.entries())
    write_out(_client_diff(options, now, restored or "", hidden))
    if dry_run:
        return ExitCode.OK
    if not yes and not agreed(terminal, "write this?", "writes it"):
        put(terminal.err, "nothing was written", style="dim")
        return ExitCode.OK
    with alone_with(now.path):
        _same_bytes(now)
        if restored is None:
            now.path.unlink(missing_ok=True)
        else:
            write_text(now.path, restored)
    store.remove(client)
    terminal.done(
        f"{client} has its own servers again; they also stay in mcpagent's file"
    )
    return ExitCode.OK


def _restored(record: Installation, now: ClientText) -> str | None:
    """Return the former text, or None if there was no file.

    If others changed the file since, returns its present text with the former servers.
    """
    if _digest(now) != record.after_digest:
        return now.changed([ENTRY], record.moved).text
    if record.before is None:
        return None
    return ClientText.of_bytes(now.path, now.section, record.before).text


def _client_text(client: Client, path: Path) -> ClientText:
    return ClientText.of_bytes(path, section_of(client), _raw(path))


def _raw(path: Path) -> bytes | None:
    if not path.exists():
        return None
    return read_bytes(path, _MOST_BYTES)


def _plan(options: Options, file: ClientFile, store: SecretStore) -> _Plan:
    own = file_to_write(options, "user")
    before = _client_text(file.client, file.path)
    before.data()
    if ENTRY in before.entries():
        where = short_path(str(file.path), options.folder)
        raise InputError(
            f"the gateway is installed in {where}; mcpagent gateway uninstall {file.client}"
        )
    after_own, imported, moved = _merge(options, own, file, store)
    entry = entry_of_gateway(file.client)
    after = before.changed(list(moved), {ENTRY: entry})
    return _Plan((own, after_own), (before, after), imported, moved)


def _merge(
    options: Options, own: ServerFile, file: ClientFile, store: SecretStore
) -> tuple[ServerFile, Imported, dict[str, Any]]:
    """Return mcpagent's file with the client's servers, the import, and the entries that can move."""
    if not file.path.exists():
        return own, Imported(file), {}
    convert = partial(taken_by_user, plain=False)
    manner = ImportMode(frozenset(), convert, store.get)
    after, [imported] = with_imported(options, own, [file], manner)
    entries, inputs = read_client_file(file, options.folder)
    in_file = _client_text(file.client, file.path).entries()
    moved = {}
    for name, given in entries.items():
        taken = taken_over(file.client, given, inputs)
        if taken.entry is None or name not in in_file or in_file[name] != given:
            continue
        planned = convert(name, taken.entry).entry
        if planned is not None and after.entries.get(name) == planned:
            moved[name] = _plain(given)
    return after, imported, moved


def _plain(entry: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(entry))


def _show(options: Options, terminal: Terminal, plan: _Plan) -> None:
    own, after_own = plan.own
    label = short_path(str(own.path), options.folder)
    if after_own.text != own.text:
        write_out(diff_without_secrets(own, after_own, label, plan.secrets))
    before, after = plan.client
    client = plan.imported.file.client
    hidden = plan.secrets + _secrets_in(client, before.entries())
    write_out(_client_diff(options, before, after.text, hidden))
    for note in plan.imported.notes:
        put(terminal.err, f"  {terminal.glyphs.warning} {safe_line(note, 300)}")


def _secrets_in(client: Client, entries: Mapping[str, Any]) -> list[str]:
    """Return the values in a client's entries that are secrets."""
    found = []
    for name, given in entries.items():
        entry = taken_over(client, given).entry
        if entry is not None:
            planned = taken_by_user(name, entry, plain=False)
            found += [secret.value for secret in planned.secrets]
    return found


def _client_diff(
    options: Options, before: ClientText, after: str, secrets: list[str]
) -> str:
    label = short_path(str(before.path), options.folder)

    def redact(text: str) -> list[str]:
        for value in sorted(secrets, key=len, reverse=True):
            text = text.replace(json.dumps(value)[1:-1], REDACTED).replace(
                value, REDACTED
            )
        return without_secrets(safe_text(text)).splitlines()

    lines = difflib.unified_diff(
        redact(before.text), redact(after), label, label, lineterm=""
    )
    return "".join(f"{line}\n" for line in lines)
