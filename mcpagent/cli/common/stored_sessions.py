"""Find stored conversations for the command line: the store, the session that the user means, and how to resume it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mcpagent.cli.common.configuration import short_path
from mcpagent.cli.common.number_formats import age, counted
from mcpagent.cli.common.options import Options
from mcpagent.errors import InputError
from mcpagent.journal.sessions.locations import file_meant, is_address
from mcpagent.utilities.text.safe_text import safe_line

if TYPE_CHECKING:
    from mcpagent.journal.sessions import SessionInfo, Sessions

SHORT = 8
_OURS = re.compile(r"[0-9a-f]{32}")
_OURS_BEGUN = re.compile(rf"[0-9a-f]{{{SHORT},31}}")


def store_place(options: Options) -> str | Path:
    """Return the address of a database, or the path of a file, which need not exist."""
    named = options.session_db or None
    if is_address(named):
        return named
    return file_meant(named, "sessions.db", options.environ)


def store_of(options: Options) -> Sessions:
    """Return the store; it opens its database on first use."""
    from mcpagent.journal.sessions import Sessions

    return Sessions(store_place(options))


def with_sessions_in(options: Options, database: str | None) -> Options:
    """Return the options of a command for durable runs: if their database is PostgreSQL, sessions are stored there,
    too.
    """
    if options.session_db is None and is_address(database):
        return replace(options, session_db=database)
    return options


def is_begun(options: Options) -> bool:
    """Return whether the store exists: commands that only read must not create a file."""
    place = store_place(options)
    return isinstance(place, str) or place.exists()


# -- Selection ---------------------------------------------------------------------------------------------------------


class UnclearError(InputError):
    """Raised for words that match several conversations, which are in `found`."""

    def __init__(self, text: str, found: Sequence[SessionInfo]) -> None:
        super().__init__(text)
        self.found = found


def meant_sessions(options: Options, store: Sessions, wanted: str) -> list[SessionInfo]:
    """Return the sessions that match an ID, its prefix, or words; for "", all. Raises `InputError` if no session
    matches.
    """
    if is_begun(options):
        if wanted.strip():
            found = store.match(wanted)
        else:
            found = store.sessions()
    else:
        found = []
    if not found:
        if wanted.strip() and is_begun(options):
            raise InputError(
                f'no conversation is meant by "{safe_line(wanted, 60)}"; see mcpagent sessions list'
            )
        raise InputError(
            f"no conversation is kept in {safe_line(where_shown(options), 200)} yet"
        )
    return found


def meant_session(options: Options, store: Sessions, wanted: str) -> SessionInfo:
    """Return the only matching session. Raises `UnclearError` if several match."""
    found = meant_sessions(options, store, wanted)
    if len(found) > 1:
        what = "there are"
        if wanted.strip():
            what = f'"{safe_line(wanted, 60)}" means'
        raise UnclearError(
            f"{what} {counted(len(found), 'conversation')}; name one by its id", found
        )
    return found[0]


def session_to_ask(
    options: Options, store: Sessions, tell: Callable[[str], None]
) -> str | None:
    """Return the ID of the session for a single prompt: that of `--session`, or the last one of this folder.

    If the folder has no conversation, calls `tell` with a line and returns None. A generated ID may be abbreviated.
    """
    if options.session is not None and options.continue_last:
        raise InputError(
            "--session and --continue name two conversations; write one of them"
        )
    if options.session is None:
        return last_here(options, store, tell)
    wanted = options.session
    if _OURS_BEGUN.fullmatch(wanted) and is_begun(options):
        begun = [
            info
            for info in store.match(wanted)
            if _OURS.fullmatch(info.id) and info.id.startswith(wanted)
        ]
        if len(begun) > 1:
            raise UnclearError(
                f"--session {wanted} means {counted(len(begun), 'conversation')}; write more of it",
                begun,
            )
        if begun:
            return begun[0].id
        return wanted
    return wanted


def last_here(
    options: Options, store: Sessions, tell: Callable[[str], None]
) -> str | None:
    """Return the ID of the last conversation in this folder; if there is no conversation, call `tell` and return
    None.
    """
    found = []
    if is_begun(options):
        found = store.sessions(1, folder=options.folder)
    if not found:
        tell("no conversation of this folder is kept; a new one begins")
    if found:
        return found[0].id
    return None


# -- Display -----------------------------------------------------------------------------------------------------------


def short_id(session: str) -> str:
    """Return the beginning of a generated ID, and other IDs in full; printable."""
    if _OURS.fullmatch(session):
        return session[:SHORT]
    return safe_line(session, 60)


def begun_elsewhere(info: SessionInfo, folder: Path) -> str:
    """Return a line about a conversation of another folder; "" for one of this folder."""
    if info.folder in ("", str(folder)):
        return ""
    place = short_path(info.folder, Path("/nowhere"))
    return f"begun in {place}, where -c finds it; files, servers and approvals here are those of this folder"


def where_shown(options: Options) -> str:
    """Return the file, or the kind of database, for messages."""
    place = store_place(options)
    if isinstance(place, str):
        return "the database"
    return short_path(str(place), options.folder)


def ago(seconds: float) -> str:
    """Return `just now`, `12 min ago`."""
    if seconds >= 60:
        return f"{age(seconds)} ago"
    return "just now"


def resume_words(options: Options, session: str) -> str:
    """Return the shell command that resumes the session."""
    if _OURS.fullmatch(session):
        named_by = session[:SHORT]
    else:
        named_by = session
    words = [
        "mcpagent",
        *(
            (f"--resume={named_by}",)
            if named_by.startswith("-")
            else ("--resume", named_by)
        ),
    ]
    place = store_place(options)
    named = (
        options.session_db is not None
        and options.session_db != options.environ.get("MCPAGENT_SESSION_DB")
    )
    if named and isinstance(place, Path):  # an address may contain a password
        words += ["--set", f"session_db={options.session_db}"]
    if options.card is not None:
        words += ["--card", str(options.card)]
    return safe_line(shlex.join(words), 400)
