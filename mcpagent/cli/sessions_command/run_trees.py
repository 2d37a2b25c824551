"""`mcpagent trace show`: the runs of a stored session or of a recording, as trees."""

from __future__ import annotations

import os
from pathlib import Path

from rich.text import Text

from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.options import Options
from mcpagent.cli.common.stored_sessions import store_of
from mcpagent.cli.screen.lines import table
from mcpagent.cli.screen.terminal import ASCII_GLYPHS, open_terminal
from mcpagent.cli.sessions_command.sessions_shown import the_one
from mcpagent.errors import InputError
from mcpagent.journal.sessions.export import transcript_of
from mcpagent.journal.tracing.tree import (
    ASCII_BRANCHES,
    Branches,
    trace_document,
    trace_rows,
)
from mcpagent.journal.tracing.trees_of_runs import recorded_runs, session_runs
from mcpagent.utilities.text.safe_text import safe_line


def show_trace(options: Options, what: str) -> ExitCode:
    """Print the runs. Raises `InputError` or `ConfigError` for an unusable name or file."""
    terminal, path = open_terminal(options.color), Path(what)
    if path.exists() and not path.is_dir():
        runs = recorded_runs(path)
    elif path.suffix == ".jsonl" or os.sep in what:
        raise InputError(
            f"{safe_line(what, 200)}: not found; name a file that --record wrote, or a kept session"
        )
    else:
        store = store_of(options)
        runs = session_runs(
            transcript_of(store.read(the_one(options, store, what, terminal).id))
        )
    lines: list[Text | str] = []
    for heading, rows in trace_rows(
        runs, ASCII_BRANCHES if terminal.glyphs is ASCII_GLYPHS else Branches()
    ):
        cells = [
            (
                (row.name, "error" if row.failed else ""),
                (row.took, ""),
                (row.about, "dim"),
            )
            for row in rows
        ]
        lines += [Text(heading, "bold"), *table(cells), ""]
    nothing = f"{safe_line(what, 200)}: no runs in it"
    terminal.report(
        options, [trace_document(run) for run in runs], *(lines[:-1] or [nothing])
    )
    return ExitCode.OK
