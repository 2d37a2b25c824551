"""`mcpagent approvals list|forget`: what was answered with "always", and how to take it back."""

from __future__ import annotations

import os

from rich.text import Text

from mcpagent.cli.exit_codes import ExitCode
from mcpagent.cli.kept_approvals import KeptApprovals, Yes
from mcpagent.cli.lines import column
from mcpagent.cli.options import Options, OutputFormat
from mcpagent.cli.stdout import write_json
from mcpagent.cli.terminal import open_terminal, put
from mcpagent.errors import InputError
from mcpagent.safe_text import safe_line

MEANINGS = {
    "tool": "this tool as it was shown",
    "reads": "tools of which the server says that they only read",
    "server": "every tool of the server",
}


def list_approvals(options: Options) -> ExitCode:
    terminal = open_terminal(options.color, os.environ)
    kept = KeptApprovals.of_user(options.environ).all()
    if options.output is OutputFormat.json:
        write_json([{"approval": yes.label, "what": yes.what} for yes in kept], None)
        return ExitCode.OK
    if not kept:
        put(terminal.out, "nothing is allowed for good")
    put(terminal.out, *approval_lines(kept))
    return ExitCode.OK


def approval_lines(kept: list[Yes]) -> list[Text]:
    """One line each: what it covers, as `--allow` would be given it, and how far it goes."""
    labels = [safe_line(yes.label, 140) for yes in kept]
    width = max(map(len, labels), default=0)
    return [
        Text.assemble((column(label, width), "tool"), f"  {MEANINGS[yes.what]}")
        for label, yes in zip(labels, kept, strict=True)
    ]


def forget_approvals(pattern: str, options: Options) -> ExitCode:
    terminal = open_terminal(options.color, os.environ)
    kept = KeptApprovals.of_user(options.environ)
    gone = kept.forget(pattern)
    if not gone:
        known = ", ".join(safe_line(yes.label, 80) for yes in kept.all()[:5]) or "nothing"
        raise InputError(f'"{safe_line(pattern, 80)}" covers nothing that is allowed for good; allowed: {known}')
    for yes in gone:
        put(
            terminal.out,
            Text.assemble((terminal.glyphs.ok, "ok"), f" {safe_line(yes.label, 140)} is asked about again"),
        )
    return ExitCode.OK
