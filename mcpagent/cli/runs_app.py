"""The commands of `mcpagent runs` and their options; the implementation is loaded on demand."""

from __future__ import annotations

from typing import Annotated

import typer

from mcpagent.cli.common import options as opt

runs_app = typer.Typer(help="Durable runs: list, show, cancel, delete.", **opt.PLAIN)

Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="FILE|postgresql://...",
        help="The database of durable runs. Default: runs.db in your data folder. PostgreSQL has the sessions too.",
    ),
]
Run = Annotated[str, typer.Argument(metavar="RUN", help="Its ID.")]
Yes = Annotated[bool, typer.Option("--yes", help="Without a question.")]

_OPTIONS = ("session_db", *opt.REPORT)


@opt.command(runs_app, "list", _OPTIONS)
def runs_list(
    options: opt.Options,
    database: Database = None,
    of: Annotated[
        str | None,
        typer.Argument(metavar="SESSION", help="Only those of this session."),
    ] = None,
    limit: Annotated[
        int, typer.Option("-k", "--limit", metavar="N", min=1, help="Runs shown.")
    ] = 50,
) -> int:
    """List the runs, the newest first: ID, state, session, time, answer."""
    from mcpagent.cli.runs_command.run_commands import list_runs

    return list_runs(options, database, of, limit)


@opt.command(runs_app, "show", _OPTIONS)
def runs_show(options: opt.Options, run: Run, database: Database = None) -> int:
    """Show a run: its prompt, state, answer or error, cost, and pending calls."""
    from mcpagent.cli.runs_command.run_commands import show_run

    return show_run(options, database, run)


@opt.command(runs_app, "cancel", _OPTIONS)
def runs_cancel(options: opt.Options, run: Run, database: Database = None) -> int:
    """End a run before its next step. Sent requests and calls are not withdrawn."""
    from mcpagent.cli.runs_command.run_commands import cancel_run

    return cancel_run(options, database, run)


@opt.command(runs_app, "delete", _OPTIONS)
def runs_delete(
    options: opt.Options, run: Run, database: Database = None, yes: Yes = False
) -> int:
    """Delete a run that has ended, after a question. Its conversation stays."""
    from mcpagent.cli.runs_command.run_commands import delete_run

    return delete_run(options, database, run, yes=yes)


@opt.command(runs_app, "prune", _OPTIONS)
def runs_prune(
    options: opt.Options,
    older_than: Annotated[
        str,
        typer.Argument(metavar="AGE", help="Ended so long ago: 30d, 12h, 8w, 1y."),
    ],
    database: Database = None,
    yes: Yes = False,
) -> int:
    """Delete runs that ended long ago, after a question. Their conversations stay."""
    from mcpagent.cli.runs_command.run_commands import prune_runs

    return prune_runs(options, database, older_than, yes=yes)
