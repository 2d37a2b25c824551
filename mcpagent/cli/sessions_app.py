"""The commands of `mcpagent sessions` and their options; the implementation is loaded on demand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from mcpagent.cli.common import options as opt
from mcpagent.errors import InputError
from mcpagent.utilities.text.safe_text import safe_line

sessions_app = typer.Typer(
    help="Stored conversations: list, search, export, delete.", **opt.PLAIN
)

Which = Annotated[
    str,
    typer.Argument(
        metavar="SESSION",
        help="Its ID, the beginning of the ID, or words of its title or messages.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Without a question.")]
Form: TypeAlias = Literal["md", "json", "html"]
_FORM_OF_SUFFIX: Mapping[str, Form] = {
    "": "md",
    ".md": "md",
    ".markdown": "md",
    ".txt": "md",
    ".json": "json",
    ".html": "html",
    ".htm": "html",
}


def _form_of(file: Path | None) -> Form:
    """Return the export format for the suffix of a file; "md" without a file.

    Raises `InputError` for a suffix of no export format.
    """
    if file is None:
        return "md"
    form = _FORM_OF_SUFFIX.get(file.suffix.lower())
    if form is None:
        raise InputError(
            f"{safe_line(str(file), 200)}: no format {safe_line(file.suffix, 20)}; name a .md, .txt, .json or .html "
            "file, or the format with -o"
        )
    return form


_LOOKS = ("session_db", *opt.REPORT)
_CHANGES = ("session_db", *opt.QUIET)


@opt.command(sessions_app, "list", _LOOKS)
def sessions_list(
    options: opt.Options,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORDS", help="Only conversations with these words."),
    ] = None,
    here: Annotated[
        bool, typer.Option("--here", help="Only conversations of this folder.")
    ] = False,
    limit: Annotated[
        int,
        typer.Option("-k", "--limit", metavar="N", min=1, help="Conversations shown."),
    ] = 50,
) -> int:
    """List the stored conversations, the last used first: title, time, folder, model, turns, cost."""
    from mcpagent.cli.sessions_command.sessions_shown import list_sessions

    return list_sessions(options, " ".join(words or ()), limit, here=here)


@opt.command(sessions_app, "show", _LOOKS)
def sessions_show(options: opt.Options, session: Which) -> int:
    """Show the questions, answers and calls of a conversation, and how to continue it."""
    from mcpagent.cli.sessions_command.sessions_shown import show_session

    return show_session(options, session)


@opt.command(sessions_app, "search", _LOOKS)
def sessions_search(
    options: opt.Options,
    words: Annotated[
        list[str], typer.Argument(metavar="WORDS", help="All of them, in any order.")
    ],
    limit: Annotated[
        int,
        typer.Option(
            "-k", "--limit", metavar="N", min=1, max=100, help="Messages shown."
        ),
    ] = 20,
) -> int:
    """Search your messages and those of models. Exit code 1: no match."""
    from mcpagent.cli.sessions_command.sessions_shown import search_sessions

    return search_sessions(options, " ".join(words), limit)


@opt.command(sessions_app, "export", _CHANGES)
def sessions_export(
    options: opt.Options,
    session: Which,
    to: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="A new file, readable by you only: .md or .txt (Markdown), .json, .html. Default: stdout.",
        ),
    ] = None,
    form: Annotated[
        Form | None,
        typer.Option(
            "--output",
            "-o",
            metavar=opt.one_of(Form),
            help="The format. Default: that of FILE, else md.",
        ),
    ] = None,
) -> int:
    """Write a conversation as Markdown, JSON or HTML."""
    from mcpagent.cli.sessions_command.sessions_changed import export_session

    return export_session(options, session, form or _form_of(to), to)


@opt.command(sessions_app, "fork", _CHANGES)
def sessions_fork(
    options: opt.Options,
    session: Which,
    title: Annotated[
        list[str] | None,
        typer.Argument(metavar="TITLE", help="The title of the copy."),
    ] = None,
) -> int:
    """Copy a conversation, even if it is open elsewhere; both continue separately."""
    from mcpagent.cli.sessions_command.sessions_changed import fork_session

    return fork_session(options, session, " ".join(title or ()))


@opt.command(sessions_app, "rename", _CHANGES)
def sessions_rename(
    options: opt.Options,
    session: Which,
    title: Annotated[
        list[str],
        typer.Argument(metavar="TITLE", help="The new title."),
    ],
) -> int:
    """Change the title of a conversation."""
    from mcpagent.cli.sessions_command.sessions_changed import rename_session

    return rename_session(options, session, " ".join(title))


@opt.command(sessions_app, "delete", _CHANGES)
def sessions_delete(options: opt.Options, session: Which, yes: Yes = False) -> int:
    """Delete a conversation, after a question."""
    from mcpagent.cli.sessions_command.sessions_changed import delete_session

    return delete_session(options, session, yes=yes)


@opt.command(sessions_app, "prune", _CHANGES)
def sessions_prune(
    options: opt.Options,
    older_than: Annotated[
        str,
        typer.Argument(metavar="AGE", help="Time without use: 30d, 12h, 8w, 1y."),
    ],
    yes: Yes = False,
) -> int:
    """Delete conversations that were not used for long, after a question."""
    from mcpagent.cli.sessions_command.sessions_changed import prune_sessions

    return prune_sessions(options, older_than, yes=yes)


@opt.command(sessions_app, "doctor", _LOOKS)
def sessions_doctor(options: opt.Options) -> int:
    """Check whether the store is intact and writable. Exit code 8: it is not."""
    from mcpagent.cli.sessions_command.sessions_shown import check_store

    return check_store(options)
