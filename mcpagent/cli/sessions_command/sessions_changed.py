"""`mcpagent sessions export|fork|rename|delete|prune`."""

from __future__ import annotations

import os
import re
import time
from functools import partial
from pathlib import Path

from mcpagent.cli.chat.resumed_state import finished_length
from mcpagent.cli.chat.session_rows import shown_title
from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.number_formats import counted
from mcpagent.cli.common.options import Options
from mcpagent.cli.common.stored_sessions import (
    is_begun,
    resume_words,
    short_id,
    store_of,
    where_shown,
)
from mcpagent.cli.screen.terminal import (
    Terminal,
    agreed,
    open_terminal,
    put,
    write_out,
)
from mcpagent.cli.sessions_command.sessions_shown import listed_lines, the_one
from mcpagent.errors import InputError, SessionBusyError
from mcpagent.journal.sessions import exported
from mcpagent.utilities.text.safe_text import safe_line

_AGE = re.compile(r"(\d{1,6})\s*([hdwmy])")
_SECONDS = {
    "h": 3_600,
    "d": 86_400,
    "w": 7 * 86_400,
    "m": 30 * 86_400,
    "y": 365 * 86_400,
}


def export_session(
    options: Options, wanted: str, form: str, to: Path | None
) -> ExitCode:
    """Run `mcpagent sessions export`. Raises `InputError` for a file that exists or cannot be created."""
    terminal, store = open_terminal(options.color), store_of(options)
    kept = store.read(the_one(options, store, wanted, terminal).id)
    text = exported(kept, form)
    if to is None:
        write_out(text)
        return ExitCode.OK
    shown = safe_line(str(to), 200)
    try:
        with open(
            to.expanduser(), "x", encoding="utf-8", opener=partial(os.open, mode=0o600)
        ) as file:
            file.write(text)
    except FileExistsError:
        raise InputError(
            f"{shown}: there is such a file already; name a new one"
        ) from None
    except OSError as error:
        raise InputError(f"{shown} cannot be written: {error.strerror}") from None
    terminal.done(f"written to {shown}")
    return ExitCode.OK


def fork_session(options: Options, wanted: str, title: str) -> ExitCode:
    """Run `mcpagent sessions fork`; a session that is open elsewhere is copied without its unfinished part."""
    terminal, store = open_terminal(options.color), store_of(options)
    info = the_one(options, store, wanted, terminal)
    length = None
    if info.holder is not None:
        length = finished_length(store.read(info.id).messages)
    copy = store.fork(info.id, length=length)
    if title:
        store.rename(copy, title)
    left_out = ""
    if length is not None:
        left_out = ", without the question that is being answered there"
    terminal.done(
        f'a copy of "{shown_title(info)}"{left_out}: {resume_words(options, copy)}'
    )
    return ExitCode.OK


def rename_session(options: Options, wanted: str, title: str) -> ExitCode:
    """Run `mcpagent sessions rename`."""
    terminal, store = open_terminal(options.color), store_of(options)
    info = the_one(options, store, wanted, terminal)
    store.rename(info.id, title)
    terminal.done(f'{short_id(info.id)} is "{safe_line(title, 80)}"')
    return ExitCode.OK


def delete_session(options: Options, wanted: str, *, yes: bool) -> ExitCode:
    """Run `mcpagent sessions delete`. Raises `SessionBusyError` for an open session."""
    terminal, store = open_terminal(options.color), store_of(options)
    info = the_one(options, store, wanted, terminal)
    if info.holder is not None:
        raise SessionBusyError(info.id, info.holder)
    put(terminal.err, *listed_lines([info], options, terminal))
    if not (yes or agreed(terminal, "delete it for good?", "deletes")):
        return left_alone(terminal)
    store.delete(info.id)
    terminal.done(f'deleted "{shown_title(info)}"')
    return ExitCode.OK


def prune_sessions(options: Options, older_than: str, *, yes: bool) -> ExitCode:
    """Run `mcpagent sessions prune`. Raises `InputError` for an invalid age."""
    terminal, store = open_terminal(options.color), store_of(options)
    before = time.time() - seconds_of(older_than)
    infos = []
    if is_begun(options):
        infos = store.sessions()
    old = [info for info in infos if info.updated < before and info.holder is None]
    if not old:
        terminal.done(
            f"nothing in {safe_line(where_shown(options), 200)} is older than {safe_line(older_than, 20)}"
        )
        return ExitCode.OK
    put(terminal.err, *listed_lines(old[:20], options, terminal))
    if len(old) > 20:
        put(terminal.err, f"{len(old) - 20:,} more", style="dim")
    if not (
        yes
        or agreed(
            terminal,
            f"delete {counted(len(old), 'conversation')} for good?",
            "deletes",
        )
    ):
        return left_alone(terminal)
    deleted = sum(info.messages > 0 for info in store.prune(before))
    terminal.done(f"deleted {counted(deleted, 'conversation')}")
    return ExitCode.OK


def seconds_of(age: str) -> float:
    """Return the seconds of `30d`, `12h`, `8w`, `6m` or `1y`. Raises `InputError` for other texts."""
    found = _AGE.fullmatch(age.strip().lower())
    if found is None:
        raise InputError(f'"{safe_line(age, 20)}" is no age; write 30d, 12h, 8w or 1y')
    return float(int(found[1]) * _SECONDS[found[2]])


def left_alone(terminal: Terminal) -> ExitCode:
    """Report that nothing was deleted."""
    put(terminal.err, "nothing was deleted", style="dim")
    return ExitCode.OK
