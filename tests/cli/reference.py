"""`python -m tests.cli.reference > docs/cli.md`: the page about the command, `reference.md` filled in."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mcpagent.cli.app import command_line
from mcpagent.cli.chat.slash.slash_table import COMMANDS, KEYS, PREFIXES
from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.options import flags_of, is_listed, leaves, options_in
from mcpagent.cli.help import TOP_LEVEL_HELP
from mcpagent.cli.help_pages import every_option
from mcpagent.cli.oneshot.json_report import SCHEMA
from mcpagent.permissions import decision
from tests.cli.event_schema import DOCUMENTS


def page() -> str:
    """The whole page."""
    fields = {name: ", ".join(f"`{field}`" for field in kind.names) for name, kind in DOCUMENTS.items()}
    documents = [(f"`{name}`", kind.when, fields[name]) for name, kind in DOCUMENTS.items()]
    chat = [(f"`{f'{name} {command.parameter}'.strip()}`", command.about) for name, command in COMMANDS.items()]
    parts = {
        "help": TOP_LEVEL_HELP,
        "approvals": f"{(decision.__doc__ or '').strip()}\n",
        "documents": _rows(documents),
        "codes": _rows((str(code.value), code.meaning) for code in ExitCode),
        "chat": _rows(chat),
        "prefixes": "".join(f"- {line.strip()}\n" for line in PREFIXES),
        "keys": "".join(f"- {line.strip()}\n" for line in KEYS),
        "options": every_option(command_line()),
        "commands": _rows(_command_row(words, leaf) for words, leaf in leaves(command_line(), "mcpagent")),
    }
    text = Path(__file__).with_suffix(".md").read_text("utf-8").replace("<!-- schema -->", SCHEMA)
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->\n", part)
    return text


def _command_row(words: tuple[str, ...], leaf: Any) -> tuple[str, str, str]:
    """A command with its arguments, what it does, and the flags of its own or in common use."""
    own = [item for item in leaf.params if item.param_type_name == "argument" and not getattr(item, "hidden", False)]
    arguments = [item.metavar or item.name for item in own]
    flags = [f"`{max(flags_of(item), key=len)}`" for item in options_in(leaf) if is_listed(item)]
    usage = " ".join((*words, *(name for name in arguments if name)))
    about = " ".join((leaf.help or "").split())
    return f"`{usage}`".replace("|", "\\|"), about, " ".join(flags)


def _rows(rows: Iterable[tuple[str, ...]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    sys.stdout.write(page())
