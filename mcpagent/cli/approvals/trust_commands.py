"""`mcpagent trust list|show|revoke`: the stored consents, and the changes of a project since then."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from mcpagent.cli.approvals.project_trust import (
    UNKNOWN_CHANGES,
    changed_files,
    changes_by_others,
    descriptions_here,
    may_agree,
    trust_lines,
)
from mcpagent.cli.common.configuration import load_configuration, short_path
from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.screen.terminal import agreed, open_terminal, put
from mcpagent.errors import InputError
from mcpagent.permissions.trust.consent import without_consent
from mcpagent.permissions.trust.descriptions import real_place
from mcpagent.permissions.trust.trust_store import TrustStore
from mcpagent.utilities.filesystem.user_folders import project_folders
from mcpagent.utilities.text.safe_text import safe_line, visible

if TYPE_CHECKING:
    from mcpagent.cli.common.options import Options
    from mcpagent.permissions.trust.trust_store import StoredConsent

MOST_FILES = 100
"""Maximum number of changed files that `trust show` names."""


def list_consents(options: Options) -> ExitCode:
    """Run `mcpagent trust list`: print each file with the names to which the user agreed."""
    entries = TrustStore.of_user(options.environ).entries()
    lines = _consent_lines(entries, options.folder) or [
        Text(
            "nothing was agreed to; a project's servers are asked about when they are used"
        )
    ]
    open_terminal(options.color).report(options, _names_by_file(entries), *lines)
    return ExitCode.OK


def _names_by_file(entries: Iterable[StoredConsent]) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for entry in entries:
        names.setdefault(entry.file, []).append(entry.name)
    return names


def _consent_lines(entries: Iterable[StoredConsent], folder: Path) -> list[Text]:
    """Return one line per file with the names to which the user agreed."""
    return [
        Text(f"{short_path(file, folder)}  {safe_line(', '.join(of), 400)}")
        for file, of in _names_by_file(entries).items()
    ]


def show_consent(options: Options) -> ExitCode:
    """Run `mcpagent trust show`: print the parts of this project that need consent, whether the user agreed, and the
    changes by others since.
    """
    terminal, store = open_terminal(options.color), TrustStore.of_user(options.environ)
    found = descriptions_here(load_configuration(options), options)
    waiting = without_consent(found, store)
    agreed = [item for item in found if item not in waiting]
    changes = changes_by_others(agreed, store)
    changed = changed_files(changes)
    if options.output == "json":
        answers = {item.name: item in agreed for item in found}
        terminal.report(options, {"agreed": answers, "changed_by_others": changed})
        return ExitCode.OK
    if not found:
        put(terminal.out, "nothing here needs your consent")
        return ExitCode.OK
    put(
        terminal.out,
        *trust_lines(found, options.folder, terminal.out.width),
        exact=True,
    )
    put(
        terminal.out,
        f"not agreed to: {', '.join(item.name for item in waiting)}"
        if waiting
        else "you agreed to this",
    )
    lines = [
        f"changed by others since you agreed: {visible(file, kept='')}"
        for file in changed[:MOST_FILES]
    ]
    if len(changed) > MOST_FILES:
        lines.append(f"and {len(changed) - MOST_FILES} more files")
    digests = {item.digest() for item, files in changes.items() if files}
    since = dict.fromkeys(
        entry.commit for entry in store.entries() if entry.digest in digests
    )
    lines += [f"see the changes: git diff {commit[:12]}" for commit in since]
    if None in changes.values():
        lines.append(UNKNOWN_CHANGES)
    put(terminal.out, *lines)
    if lines and may_agree(terminal):
        store.add(agreed)
        terminal.done("agreed; later changes by others are reported again")
    return ExitCode.OK


def revoke_consent(options: Options, file: Path | None, *, yes: bool) -> ExitCode:
    """Run `mcpagent trust revoke [FILE]`: delete the consents to a file, or to all files in this project's folders.

    Without a file the command lists the consents and asks, unless `yes`. It uses the stored consents, not the present
    files: an entry may be disabled, or its file may be missing for a while.
    """
    store = TrustStore.of_user(options.environ)
    if file is not None:
        places = {real_place(str(file))}
    else:
        top = os.path.realpath(project_folders(options.folder)[0])
        stored = (entry.file for entry in store.entries())
        places = {place for place in stored if Path(place).is_relative_to(top)}
    found = [entry for entry in store.entries() if entry.file in places]
    if not found:
        where = "this project"
        if file is not None:
            where = short_path(str(file), options.folder)
        raise InputError(
            f"trust revoke: nothing of {where} was agreed to; see mcpagent trust list"
        )
    terminal = open_terminal(options.color)
    if file is None and not yes:
        put(terminal.err, *_consent_lines(found, options.folder))
        if not agreed(terminal, "revoke these consents?", "revokes"):
            put(terminal.err, "nothing was revoked", style="dim")
            return ExitCode.OK
    removed = store.remove(places)
    names = safe_line(", ".join(entry.name for entry in removed), 400)
    terminal.done(f"revoked: {names}; the next use asks again")
    return ExitCode.OK
