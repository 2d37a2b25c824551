"""`mcpagent permissions list|forget`: what runs without a question since the user answered "always"."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.text import Text

from mcpagent.cli.frame.exit_codes import ExitCode
from mcpagent.cli.screen.lines import table
from mcpagent.cli.screen.terminal import open_terminal
from mcpagent.errors import InputError
from mcpagent.permissions.stored_approvals import (
    MEANINGS,
    StoredApproval,
    StoredApprovals,
)
from mcpagent.utilities.text.safe_text import safe_line

if TYPE_CHECKING:
    from mcpagent.cli.frame.options import Options


def approval_lines(stored: Iterable[StoredApproval]) -> list[Text]:
    """Return one line per approval: its scope in the form of `--allow`, and its meaning."""
    return table(
        ((safe_line(one.label, 140), "tool"), MEANINGS[one.what]) for one in stored
    )


def list_approvals(options: Options) -> ExitCode:
    """Run `mcpagent permissions list`."""
    stored = StoredApprovals.of_user(options.environ).all()
    lines = approval_lines(stored) or [Text("nothing is allowed for good")]
    open_terminal(options.color).report(
        options, [{"approval": one.label, "what": one.what} for one in stored], *lines
    )
    return ExitCode.OK


def forget_approvals(pattern: str, options: Options) -> ExitCode:
    """Run `mcpagent permissions forget`. Raises `InputError` for a pattern that matches nothing."""
    stored = StoredApprovals.of_user(options.environ)
    gone = stored.forget(pattern)
    if not gone:
        known = (
            ", ".join(safe_line(one.label, 80) for one in stored.all()[:5]) or "nothing"
        )
        raise InputError(
            f'"{safe_line(pattern, 80)}" covers nothing that is allowed for good; allowed: {known}'
        )
    for one in gone:
        open_terminal(options.color).done(
            f"{safe_line(one.label, 140)} is asked about again"
        )
    return ExitCode.OK
