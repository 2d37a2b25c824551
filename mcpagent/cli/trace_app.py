"""The command `mcpagent trace`, which shows the steps of runs; the implementation is loaded on demand."""

from __future__ import annotations

from typing import Annotated

import typer

from mcpagent.cli.common import options as opt

trace_app = typer.Typer(
    help="What runs did, from a kept session or a recording.", **opt.PLAIN
)


@opt.command(trace_app, "show", ("session_db", *opt.REPORT))
def trace_show(
    options: opt.Options,
    what: Annotated[
        str,
        typer.Argument(
            metavar="SESSION|FILE",
            help="A kept session (its id, the beginning of it, or words of it), or a file that --record wrote.",
        ),
    ],
) -> int:
    """Print each run as a tree: times, tokens, cost, offered tools and searches."""
    from mcpagent.cli.sessions_command.run_trees import show_trace

    return show_trace(options, what)
