"""`mcpagent mcp import`: what other clients know, into our file; `--dry-run` shows it as a diff."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from pathlib import PurePath
from typing import Any

from mcpagent.cli.configuration import short_path
from mcpagent.cli.exit_codes import ExitCode
from mcpagent.cli.figures import counted
from mcpagent.cli.importing.clients import Client, ClientFile, client_files, read_client_file
from mcpagent.cli.importing.entries import moved_workspace, taken_over
from mcpagent.cli.importing.secrets import NewSecret, SecretPlan, plan_for_project, plan_for_user
from mcpagent.cli.options import CLIENTS, Options, WriteScope
from mcpagent.cli.server_files import ServerFile, file_to_write
from mcpagent.cli.stdout import write_out
from mcpagent.cli.terminal import Terminal, open_terminal, put
from mcpagent.config.literals import literal_secrets
from mcpagent.errors import ConfigError, InputError
from mcpagent.safe_text import safe_line, safe_text
from mcpagent.secret_shapes import redactor
from mcpagent.secret_store import SecretStore, key_store


@dataclass(slots=True)
class Outcome:
    """What came of one file: names by what happened to them, and remarks."""

    file: ClientFile
    added: list[str] = field(default_factory=list[str])
    there: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    secrets: list[NewSecret] = field(default_factory=list[NewSecret])


@dataclass(frozen=True, slots=True)
class Manner:
    """How servers are taken over: `replaceable` are the names that may be replaced, `secrets` what becomes of these."""

    replaceable: frozenset[str]
    secrets: Callable[[str, dict[str, Any]], SecretPlan]
    kept: Callable[[str], str | None]


def import_servers(
    options: Options,
    clients: Sequence[Client],
    scope: WriteScope,
    *,
    dry_run: bool,
    replace: bool,
    plain_secrets: bool = False,
    store: SecretStore | None = None,
) -> ExitCode:
    """Writes, or with `dry_run` shows, what the clients know and our file does not. Exit code 1: nothing was found.

    Secrets go to the store of keys, with `plain_secrets` into the user's file as they are, and never into a project's.
    """
    terminal = open_terminal(options.color, os.environ)
    store = store or key_store(options.environ)
    before = file_to_write(options, scope)
    files = [file for file in files_to_read(options, scope) if not clients or file.client in clients]
    manner = Manner(
        frozenset(before.entries) if replace else frozenset(),
        plan_for_project if before.is_project else partial(plan_for_user, plain=plain_secrets),
        store.get,
    )
    file, outcomes = _merged(options, before, files, manner)
    if not any(outcome.added or outcome.there for outcome in outcomes):
        _tell(terminal, options, outcomes)
        whose = ", ".join(client.value for client in clients or Client)
        put(terminal.err, f"no servers found to take over (looked for {whose})")
        return ExitCode.ERROR
    if dry_run:
        secrets = [secret.value for outcome in outcomes for secret in outcome.secrets]
        write_out(diff_of(before, file, short_path(str(file.path), options.folder), secrets))
    else:
        _keep(store, outcomes)
        if file.text != before.text:
            before.saved(lambda fresh: _merged(options, fresh, files, manner)[0])
    _tell(terminal, options, outcomes)
    added = [name for outcome in outcomes for name in outcome.added]
    verb = "would be added" if dry_run else "added"
    put(terminal.err, f"{counted(len(added), 'server')} {verb} to {short_path(str(file.path), options.folder)}")
    return ExitCode.OK


def clients_named(text: str) -> list[Client]:
    """The clients of `--from a,b`. Raises `InputError`."""
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in CLIENTS:
            near = get_close_matches(name, CLIENTS, n=2) or CLIENTS
            raise InputError(f'--from: no client "{safe_line(name, 40)}"; did you mean {" or ".join(near)}?')
    return [Client(name) for name in names]


def files_to_read(options: Options, scope: WriteScope) -> list[ClientFile]:
    """For the user's file the user's, so that no project's server gets there unseen; for a project's file all."""
    found = client_files(options.environ, options.folder)
    return [file for file in found if scope is WriteScope.project or not file.is_project]


def servers_elsewhere(options: Options) -> dict[Client, int]:
    """How many servers each other client of this user knows; what cannot be read counts as none."""
    counts: dict[Client, int] = {}
    for file in files_to_read(options, WriteScope.user):
        try:
            entries = read_client_file(file, options.folder)
        except ConfigError:
            continue
        usable = sum(1 for entry in entries.entries.values() if taken_over(file.client, entry).entry is not None)
        if usable:
            counts[file.client] = counts.get(file.client, 0) + usable
    return counts


def _merged(
    options: Options, file: ServerFile, files: Sequence[ClientFile], manner: Manner
) -> tuple[ServerFile, list[Outcome]]:
    outcomes: list[Outcome] = []
    for source in files:
        outcome = Outcome(source)
        outcomes.append(outcome)
        try:
            found = read_client_file(source, options.folder)
        except ConfigError as error:
            outcome.notes.append(str(error))
            continue
        for name, given in found.entries.items():
            taken = taken_over(source.client, given, found.inputs)
            if taken.entry is None:
                outcome.notes.append(f"{safe_line(name, 64)} {'; '.join(taken.notes)}")
                continue
            entry = moved_workspace(taken.entry, _way_in(file, source))
            file = _with_one(file, name, entry, taken.notes, outcome, manner)
    return file, outcomes


def _way_in(file: ServerFile, source: ClientFile) -> PurePath:
    """From the project of the file that is written to that of the one that is read, where both are of one project."""
    above, below = file.path.absolute().parent, source.path.absolute().parent.parent
    is_one = file.is_project and source.is_project and below.is_relative_to(above)
    return below.relative_to(above) if is_one else PurePath()


def _with_one(
    file: ServerFile, name: str, given: dict[str, Any], notes: Sequence[str], outcome: Outcome, manner: Manner
) -> ServerFile:
    """The file with this server too, where it is a new one."""
    shown = safe_line(name, 64)
    plan = manner.secrets(name, given)
    if plan.entry is None:
        outcome.notes.append(f"{shown} {'; '.join([*notes, *plan.notes])}")
        return file
    difference = _difference(file, name, given, plan, manner) if name in file.entries else "is new"
    if not difference or (name in file.entries and name not in manner.replaceable):
        outcome.there.append(shown)
        if difference:
            outcome.notes.append(f"{shown} is there already {difference}")
        return file
    try:
        changed = file.with_entry(name, plan.entry)
    except ConfigError as error:
        outcome.notes.append(f"{shown} left out: {error}")
        return file
    outcome.added.append(shown)
    outcome.notes += [f"{shown}: {note}" for note in (*notes, *plan.notes)]
    outcome.secrets += plan.secrets
    return changed


def _difference(file: ServerFile, name: str, given: dict[str, Any], plan: SecretPlan, manner: Manner) -> str:
    """How the server that is there differs from the one that would be written; "" where it does not."""
    there = file.entries[name]
    if there == plan.entry:
        changed = any(manner.kept(secret.name) != secret.value for secret in plan.secrets)
        return "with another secret; --replace takes this one" if changed else ""
    if there == given:
        return "with its secrets in the file; --replace moves them"
    return "and not the same; --replace takes this one"


def _keep(store: SecretStore, outcomes: Sequence[Outcome]) -> None:
    """Secrets first: a file must not refer to what was not kept."""
    for outcome in outcomes:
        for secret in outcome.secrets:
            kept = store.set(secret.name, secret.value)
            where = "the system keyring" if kept.place == "keyring" else f"a file of your own: {kept.reason}"
            outcome.notes.append(f"{secret.name} is kept in {where}")


def diff_of(before: ServerFile, after: ServerFile, label: str, secrets: Sequence[str] = ()) -> str:
    """A unified diff without secrets; empty where nothing changes."""
    redact = redactor([*secrets, *_secret_values(before), *_secret_values(after)])
    old = before.text if before.path.exists() else ""
    lines = difflib.unified_diff(
        redact(safe_text(old)).splitlines(), redact(safe_text(after.text)).splitlines(), label, label, lineterm=""
    )
    return "".join(f"{line}\n" for line in lines) if old != after.text else ""


def _secret_values(file: ServerFile) -> Iterator[str]:
    for entry in file.entries.values():
        for found in literal_secrets(entry) if isinstance(entry, dict) else ():
            value: Any = entry
            for step in found.path:
                value = value[step]
            yield str(value)


def _tell(terminal: Terminal, options: Options, outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        parts = [f"{len(outcome.added)} new ({', '.join(outcome.added)})"] if outcome.added else []
        parts += [f"{len(outcome.there)} there already ({', '.join(outcome.there)})"] if outcome.there else []
        if parts or outcome.notes:
            path = short_path(str(outcome.file.path), options.folder)
            put(terminal.err, f"{outcome.file.client.value}  {path}  {', '.join(parts) or 'nothing taken'}")
        put(terminal.err, *(f"  {terminal.glyphs.warning} {safe_line(note, 300)}" for note in outcome.notes))
