"""`mcpagent mcp import`: what other clients know, into our file; `--dry-run` shows it as a diff."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from mcpagent.cli.configuration import short_path
from mcpagent.cli.exit_codes import ExitCode
from mcpagent.cli.figures import counted
from mcpagent.cli.headless import write_out
from mcpagent.cli.importing.clients import Client, ClientFile, client_files, read_client_file
from mcpagent.cli.importing.entries import taken_over, without_literal_secrets
from mcpagent.cli.options import CLIENTS, Options, WriteScope
from mcpagent.cli.server_files import ServerFile, file_to_write
from mcpagent.cli.terminal import Terminal, open_terminal, put
from mcpagent.config.literals import literal_secrets
from mcpagent.errors import ConfigError, InputError
from mcpagent.safe_text import safe_line, safe_text
from mcpagent.secret_shapes import redactor


@dataclass(slots=True)
class Outcome:
    """What came of one file: names by what happened to them, and remarks."""

    file: ClientFile
    added: list[str] = field(default_factory=list[str])
    there: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])


def import_servers(
    options: Options, clients: Sequence[Client], scope: WriteScope, *, dry_run: bool, replace: bool
) -> ExitCode:
    """Writes, or with `dry_run` shows, what the clients know and our file does not. Exit code 1: nothing was found."""
    terminal = open_terminal(options.color, os.environ)
    before = file_to_write(options, scope)
    files = [file for file in files_to_read(options, scope) if not clients or file.client in clients]
    file, outcomes = _merged(options, before, files, replace=replace)
    if not any(outcome.added or outcome.there for outcome in outcomes):
        _tell(terminal, options, outcomes)
        whose = ", ".join(client.value for client in clients or Client)
        put(terminal.err, f"no servers found to take over (looked for {whose})")
        return ExitCode.ERROR
    if dry_run:
        write_out(diff_of(before, file, short_path(str(file.path), options.folder)))
    elif file.text != before.text:
        file.save()
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
        usable = sum(1 for entry in entries.values() if taken_over(file.client, entry).entry is not None)
        if usable:
            counts[file.client] = counts.get(file.client, 0) + usable
    return counts


def _merged(
    options: Options, file: ServerFile, files: Sequence[ClientFile], *, replace: bool
) -> tuple[ServerFile, list[Outcome]]:
    outcomes: list[Outcome] = []
    mine = dict(file.entries)
    for source in files:
        outcome = Outcome(source)
        outcomes.append(outcome)
        try:
            entries = read_client_file(source, options.folder)
        except ConfigError as error:
            outcome.notes.append(str(error))
            continue
        for name, given in entries.items():
            file = _with_one(file, name, given, outcome, replaceable=replace and name in mine)
    return file, outcomes


def _with_one(file: ServerFile, name: str, given: Any, outcome: Outcome, *, replaceable: bool) -> ServerFile:
    """The file with this server too, where it is a new one."""
    shown = safe_line(name, 64)
    taken = taken_over(outcome.file.client, given)
    notes = list(taken.notes)
    entry = taken.entry
    if entry is not None and file.is_project:
        kept = without_literal_secrets(name, entry)
        entry, notes = kept.entry, [*notes, *kept.notes]
    if entry is None:
        outcome.notes.append(f"{shown} {'; '.join(notes)}")
        return file
    if name in file.entries and (file.entries[name] == entry or not replaceable):
        outcome.there.append(shown)
        if file.entries[name] != entry:
            outcome.notes.append(f"{shown} is there already and not the same; --replace takes this one")
        return file
    try:
        changed = file.with_entry(name, entry)
    except ConfigError as error:
        outcome.notes.append(f"{shown} left out: {error}")
        return file
    outcome.added.append(shown)
    outcome.notes += [f"{shown}: {note}" for note in notes]
    return changed


def diff_of(before: ServerFile, after: ServerFile, label: str) -> str:
    """A unified diff without secrets; empty where nothing changes."""
    redact = redactor([*_secret_values(before), *_secret_values(after)])
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
