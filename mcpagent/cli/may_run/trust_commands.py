"""`mcpagent trust list|show|revoke`: the consents that were given, and what of a project changed since."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from mcpagent.cli.frame.configuration import load_configuration, short_path
from mcpagent.cli.frame.exit_codes import ExitCode
from mcpagent.cli.may_run.project_trust import (
    changed_files,
    descriptions_here,
    trust_lines,
)
from mcpagent.cli.screen.terminal import open_terminal, put
from mcpagent.errors import InputError
from mcpagent.permissions.trust.consent import without_consent
from mcpagent.permissions.trust.descriptions import real_place
from mcpagent.permissions.trust.trust_store import TrustStore
from mcpagent.utilities.filesystem.user_folders import project_folders
from mcpagent.utilities.text.safe_text import safe_line, visible

if TYPE_CHECKING:
    from mcpagent.cli.frame.options import Options


def list_consents(options: Options) -> ExitCode:
    """`mcpagent trust list`: each file with the names that were agreed to."""
    names: dict[str, list[str]] = {}
    for entry in TrustStore.of_user(options.environ).entries():
        names.setdefault(entry.file, []).append(entry.name)
    lines = [
        Text(f"{short_path(file, options.folder)}  {safe_line(', '.join(of), 400)}")
        for file, of in names.items()
    ]
    lines = lines or [
        Text(
            "nothing was agreed to; a project's servers are asked about when they are used"
        )
    ]
    open_terminal(options.color).report(options, names, *lines)
    return ExitCode.OK


def show_consent(options: Options) -> ExitCode:
    """`mcpagent trust show`: what this project uses, whether it was agreed to, and what others changed since."""
    terminal, store = open_terminal(options.color), TrustStore.of_user(options.environ)
    found = descriptions_here(load_configuration(options), options)
    waiting = without_consent(found, store)
    changed = changed_files([item for item in found if item not in waiting], store)
    if options.output == "json":
        agreed = {item.name: item not in waiting for item in found}
        terminal.report(options, {"agreed": agreed, "changed_by_others": changed})
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
    put(
        terminal.out,
        *(
            f"changed by others since you agreed: {visible(file, kept='')}"
            for file in changed
        ),
    )
    return ExitCode.OK


def revoke_consent(options: Options, file: Path | None) -> ExitCode:
    """`mcpagent trust revoke [FILE]`: forget the consents to a file, or to all files in this project's folders.

    What is stored counts, not what the files say now: an entry may be disabled, or its file may be gone for a while.
    """
    store = TrustStore.of_user(options.environ)
    if file is not None:
        places = {real_place(str(file))}
    else:
        top = os.path.realpath(project_folders(options.folder)[0])
        stored = (entry.file for entry in store.entries())
        places = {place for place in stored if Path(place).is_relative_to(top)}
    removed = store.remove(places)
    if not removed:
        where = "this project"
        if file is not None:
            where = short_path(str(file), options.folder)
        raise InputError(
            f"trust revoke: nothing of {where} was agreed to; see mcpagent trust list"
        )
    names = safe_line(", ".join(entry.name for entry in removed), 400)
    open_terminal(options.color).done(f"revoked: {names}; the next use asks again")
    return ExitCode.OK
