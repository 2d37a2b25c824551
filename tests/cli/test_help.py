"""The help pages name every command and explain every option."""

from __future__ import annotations

import re

from mcpagent.cli.app import command_line
from mcpagent.cli.help import TOP_LEVEL_HELP
from tests.cli.reference import help_page
from tests.tables import each_row


def test_the_help_page_names_every_command_and_fits_on_a_screen() -> None:
    commands = command_line().commands
    for name, command in commands.items():
        subcommands = "|".join(getattr(command, "commands", ()))
        assert re.search(rf"^  {name}\b.*{re.escape(subcommands)}", TOP_LEVEL_HELP, re.MULTILINE), name
    assert len(TOP_LEVEL_HELP.splitlines()) <= 25
    assert max(map(len, TOP_LEVEL_HELP.splitlines())) <= 100


def leaves() -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for name, command in command_line().commands.items():
        inner = getattr(command, "commands", None)
        found += [(f"{name} {sub}", item) for sub, item in inner.items()] if inner else [(name, command)]
    return found


@each_row("name, command", leaves())
def test_every_option_is_explained(name: str, command: object) -> None:
    page = help_page(command, f"mcpagent {name}", 80)
    for param in command.params:  # type: ignore[attr-defined]
        if not getattr(param, "hidden", False):
            assert param.help, param.name
            assert param.opts[0] in page or param.metavar in page
    assert max(map(len, page.splitlines())) <= 80
