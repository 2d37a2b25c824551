"""`mcpagent mcp import`: copy other clients' servers to mcpagent's file; `--dry-run` shows a diff."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from pathlib import PurePath
from typing import Any, get_args

from mcpagent.cli.approvals.key_commands import place_of_secret
from mcpagent.cli.common.configuration import short_path
from mcpagent.cli.common.error_lines import did_you_mean
from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.number_formats import counted
from mcpagent.cli.common.options import Client, Options, WriteScope
from mcpagent.cli.screen.terminal import Terminal, open_terminal, put, write_out
from mcpagent.cli.servers.importing.client_entries import (
    ConvertedEntry,
    NewSecret,
    moved_workspace,
    taken_by_project,
    taken_by_user,
    taken_over,
)
from mcpagent.cli.servers.importing.clients import (
    ClientFile,
    client_files,
    read_client_file,
)
from mcpagent.cli.servers.server_editing import (
    ServerFile,
    demo_gone_line,
    file_to_write,
    is_first_server,
)
from mcpagent.config.literals import literal_secrets
from mcpagent.config.secret_store import SecretStore, key_store
from mcpagent.errors import ConfigError, InputError
from mcpagent.utilities.text.safe_text import safe_line, safe_text
from mcpagent.utilities.text.secrets import REDACTED, without_secrets


@dataclass(slots=True)
class Imported:
    """The outcome of an import from one file: `added` servers, servers already `there`, notes, and secrets."""

    file: ClientFile
    added: list[str] = field(default_factory=list[str])
    there: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    secrets: list[NewSecret] = field(default_factory=list[NewSecret])


@dataclass(frozen=True, slots=True)
class ImportMode:
    """The rules of an import.

    `replaceable` are the names of servers that may be replaced; `plan` converts an entry and its secrets; `kept`
    returns the stored secret of a name, or None.
    """

    replaceable: frozenset[str]
    plan: Callable[[str, dict[str, Any]], ConvertedEntry]
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
    agreed: Callable[[str], bool] = lambda _: True,
) -> ExitCode:
    """Write the clients' servers that mcpagent's file does not have; with `dry_run`, only show them. Exit code 1:
    nothing was found.

    Nothing is written unless `agreed` returns True for the question. Secrets go to the key store; with `plain_secrets`
    they go into the user's file, but never into a project's.
    """
    terminal = open_terminal(options.color)
    store = store or key_store(options.environ)
    before = file_to_write(options, scope)
    replaces_demo = is_first_server(before, options)
    files = [
        file
        for file in files_to_read(options, scope)
        if not clients or file.client in clients
    ]
    if before.is_project:
        plan = taken_by_project
    else:
        plan = partial(taken_by_user, plain=plain_secrets)
    manner = ImportMode(frozenset(before.entries if replace else ()), plan, store.get)
    file, outcomes = with_imported(options, before, files, manner)
    path = short_path(str(file.path), options.folder)
    added = [name for outcome in outcomes for name in outcome.added]
    if not added and not any(outcome.there for outcome in outcomes):
        _report(terminal, options, outcomes)
        whose = ", ".join(clients or get_args(Client))
        put(terminal.err, f"no servers found to take over (looked for {whose})")
        return ExitCode.ERROR
    _report(terminal, options, outcomes)
    has_secrets = any(outcome.secrets for outcome in outcomes)
    is_new = file.text != before.text or has_secrets
    if dry_run:
        secrets = [secret.value for outcome in outcomes for secret in outcome.secrets]
        write_out(diff_without_secrets(before, file, path, secrets))
    elif is_new:
        if not agreed(f"import {counted(len(added), 'server')} into {path}?"):
            put(terminal.err, "nothing was imported")
            return ExitCode.OK
        # Secrets first: a file must not refer to a secret that is not stored.
        for secret in (secret for outcome in outcomes for secret in outcome.secrets):
            kept = store.set(secret.name, secret.value)
            put(terminal.err, f"{kept.name} is kept in {place_of_secret(kept)}")
        if file.text != before.text:
            before.saved(lambda fresh: with_imported(options, fresh, files, manner)[0])
    put(
        terminal.err,
        f"{counted(len(added), 'server')} {'would be added' if dry_run else 'added'} to {path}",
    )
    if replaces_demo and added and not dry_run:
        put(terminal.err, demo_gone_line(), style="dim")
    return ExitCode.OK


def clients_named(words: Sequence[str]) -> list[Client]:
    """Return the clients that `mcp import` names. Raises `InputError`."""
    names = [name.strip().lower() for name in ",".join(words).split(",")]
    names = [name for name in names if name]
    known = get_args(Client)
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=2) or known
            raise InputError(f'no client "{safe_line(name, 40)}"; {did_you_mean(near)}')
    return [client for name in names for client in known if client == name]


def files_to_read(options: Options, scope: WriteScope) -> list[ClientFile]:
    """Return the files to import from: for the user's file only the user's, so that no project's server enters it
    unnoticed; otherwise all.
    """
    found = client_files(options.environ, options.folder)
    return [file for file in found if scope == "project" or not file.is_project]


def servers_elsewhere(options: Options) -> dict[Client, int]:
    """Return the number of servers of each other client of this user; unreadable files count as empty."""
    counts: dict[Client, int] = {}
    for file in files_to_read(options, "user"):
        try:
            entries, _ = read_client_file(file, options.folder)
        except ConfigError:
            continue
        usable = sum(
            1
            for entry in entries.values()
            if taken_over(file.client, entry).entry is not None
        )
        if usable:
            counts[file.client] = counts.get(file.client, 0) + usable
    return counts


def with_imported(
    options: Options, file: ServerFile, files: Sequence[ClientFile], manner: ImportMode
) -> tuple[ServerFile, list[Imported]]:
    """Return the file with the servers of all `files`, and the outcome of each file."""
    outcomes: list[Imported] = []
    for source in files:
        outcome = Imported(source)
        outcomes.append(outcome)
        # The path from the project of the written file to that of the read file, if one contains the other.
        above, below = file.path.absolute().parent, source.path.absolute().parent.parent
        is_one = file.is_project and source.is_project and below.is_relative_to(above)
        inner = below.relative_to(above) if is_one else PurePath()
        try:
            entries, inputs = read_client_file(source, options.folder)
        except ConfigError as error:
            outcome.notes.append(str(error))
            continue
        for name, given in entries.items():
            taken = taken_over(source.client, given, inputs)
            if taken.entry is None:
                outcome.notes.append(f"{safe_line(name, 64)} {'; '.join(taken.notes)}")
            else:
                entry = moved_workspace(taken.entry, inner)
                file = _with_one(
                    file, name, ConvertedEntry(entry, taken.notes), outcome, manner
                )
    return file, outcomes


def _with_one(
    file: ServerFile,
    name: str,
    taken: ConvertedEntry,
    outcome: Imported,
    manner: ImportMode,
) -> ServerFile:
    """Return the file with this server added, if its name is new or replaceable."""
    assert taken.entry is not None
    shown, there = safe_line(name, 64), file.entries.get(name)
    plan = manner.plan(name, taken.entry)
    if plan.entry is None:
        outcome.notes.append(f"{shown} {'; '.join([*taken.notes, *plan.notes])}")
        return file
    if there == plan.entry:
        is_same = all(
            manner.kept(secret.name) == secret.value for secret in plan.secrets
        )
        difference = "with another secret; --replace takes this one"
        if is_same:
            difference = ""
    elif there == taken.entry:
        difference = "with its secrets in the file; --replace moves them"
    else:
        difference = "and not the same; --replace takes this one"
    if there is not None and not (difference and name in manner.replaceable):
        outcome.there.append(shown)
        if difference:
            outcome.notes += [f"{shown} is there already {difference}"]
        return file
    try:
        changed = file.with_entry(name, plan.entry)
    except ConfigError as error:
        outcome.notes.append(f"{shown} left out: {error}")
        return file
    outcome.added.append(shown)
    outcome.notes += [f"{shown}: {note}" for note in (*taken.notes, *plan.notes)]
    outcome.secrets += plan.secrets
    return changed


def diff_without_secrets(
    before: ServerFile, after: ServerFile, label: str, secrets: Sequence[str]
) -> str:
    """Return a unified diff without secrets; "" if nothing changes."""
    values = sorted(
        {*secrets, *_secret_values(before), *_secret_values(after)},
        key=len,
        reverse=True,
    )

    def redact(text: str) -> str:
        for value in values:
            text = text.replace(json.dumps(value)[1:-1], REDACTED).replace(
                value, REDACTED
            )
        return without_secrets(text)

    old = ""
    if before.path.exists():
        old = before.text
    if old == after.text:
        return ""
    shown, changed = (
        redact(safe_text(text)).splitlines() for text in (old, after.text)
    )
    return "".join(
        f"{line}\n"
        for line in difflib.unified_diff(shown, changed, label, label, lineterm="")
    )


def _secret_values(file: ServerFile) -> Iterator[str]:
    for entry in file.entries.values():
        for found in literal_secrets(entry) if isinstance(entry, dict) else ():
            value: Any = entry
            for step in found.path:
                value = value[step]
            yield str(value)


def _report(terminal: Terminal, options: Options, outcomes: Sequence[Imported]) -> None:
    for outcome in outcomes:
        parts = []
        if outcome.added:
            parts = [f"{len(outcome.added)} new ({', '.join(outcome.added)})"]
        if outcome.there:
            parts += [
                f"{len(outcome.there)} there already ({', '.join(outcome.there)})"
            ]
        if parts or outcome.notes:
            path = short_path(str(outcome.file.path), options.folder)
            put(
                terminal.err,
                f"{outcome.file.client}  {path}  {', '.join(parts) or 'nothing taken'}",
            )
        put(
            terminal.err,
            *(
                f"  {terminal.glyphs.warning} {safe_line(note, 300)}"
                for note in outcome.notes
            ),
        )
