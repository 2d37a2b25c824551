"""`mcpagent trace`: what was traced, for people; what it does is loaded when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mcpagent.cli.frame import options as opt

trace_app = typer.Typer(help="What runs did, from files that --trace wrote.", **opt.PLAIN)


@opt.command(trace_app, "show", opt.REPORT)
def trace_show(
    options: opt.Options,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What --trace wrote, or a collector's file exporter.")],
) -> int:
    """Each run as a tree: what took how long, tokens, what was offered, what was searched for and found."""
    from mcpagent.cli.oneshot.traces import show_trace

    return show_trace(options, file)
