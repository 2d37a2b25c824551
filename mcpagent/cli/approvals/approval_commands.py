"""`mcpagent permissions list|forget`: the calls that run without a question since the user answered "always"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.screen.lines import table
from mcpagent.cli.screen.terminal import open_terminal
from mcpagent.errors import InputError
from mcpagent.permissions.stored_approvals import (
    MEANINGS,
    StoredApproval,
    StoredApprovals,
    What,
)
from mcpagent.utilities.text.safe_text import safe_line

if TYPE_CHECKING:
    from mcpagent.cli.common.options import Options


def approval_lines(stored: Iterable[StoredApproval]) -> list[Text]:
    """Return one line per scope and kind: the scope in the form of `--allow`, and its meaning."""
    groups: dict[tuple[str, What], list[StoredApproval]] = {}
    for one in stored:
        groups.setdefault((one.label, one.what), []).append(one)
    return table(
        ((safe_line(label, 140), "tool"), MEANINGS[what] + _several(group))
        for (label, what), group in groups.items()
    )


def _several(group: Sequence[StoredApproval]) -> str:
    """Return the difference between equal-looking approvals, such as " (2 servers of that name)"; "" for a single
    approval.
    """
    if len(group) == 1:
        return ""
    servers = len({one.server for one in group})
    if servers > 1:
        return f" ({servers} servers of that name)"
    if group[0].what == "call":
        return f" ({len(group)} such calls)"
    return f" ({len(group)} versions of it)"


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
