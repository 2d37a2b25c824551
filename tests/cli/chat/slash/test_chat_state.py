"""The overview of the commands, and which typed lines are commands."""

from __future__ import annotations

from mcpagent.cli.chat.slash.chat_state import is_command
from mcpagent.cli.chat.slash.slash_table import COMMANDS, GROUPS, overview
from tests.tables import each_row


def test_help_lists_every_command_on_one_screen() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS)
    assert all(command.about for command in COMMANDS.values())
    assert len(overview()) <= 20
    assert all(line.cell_len <= 80 for line in overview())
    shown = "\n".join(line.plain for line in overview())
    assert all(name in shown for name in COMMANDS)


@each_row("line, expected", [("/tools", True), ("/x y", True), ("/etc/hosts", False), ("a /b", False)])
def test_a_path_is_no_command(line: str, expected: bool) -> None:
    assert is_command(line) is expected
