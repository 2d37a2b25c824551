"""`mcpagent permissions list`: each line once, also for several servers of one name and several calls."""

from __future__ import annotations

from mcpagent.cli.approvals.approval_commands import approval_lines
from mcpagent.permissions.stored_approvals import StoredApproval


def test_approvals_that_look_the_same_are_one_line_with_what_differs() -> None:
    stored = [
        StoredApproval("git", "call", "server", "push", "shown", "one"),
        StoredApproval("git", "call", "server", "push", "shown", "two"),
        StoredApproval("git", "tool", "server", "push", "shown"),
        StoredApproval("git", "tool", "server", "push", "shown later"),
        StoredApproval("git", "server", "server"),
        StoredApproval("git", "server", "another folder's"),
        StoredApproval("git", "reads", "server"),
    ]
    assert [" ".join(line.plain.split()) for line in approval_lines(stored)] == [
        "git.push this tool as it was shown, with exactly the arguments that you saw (2 such calls)",
        "git.push this tool as it was shown (2 versions of it)",
        "git.* every tool, prompt and resource of the server (2 servers of that name)",
        "git.* tools of which the server says that they only read, and resources that it lists",
    ]
