"""`python -m tests.cli.reference > docs/cli.md`: the page about the command, `reference.md` filled in."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from mcpagent.cli.app import command_line
from mcpagent.cli.chat.slash.slash_table import COMMANDS, KEYS, PREFIXES
from mcpagent.cli.frame.exit_codes import ExitCode
from mcpagent.cli.frame.options import leaves
from mcpagent.cli.help import TOP_LEVEL_HELP
from mcpagent.cli.help_pages import command_page, every_option
from mcpagent.cli.oneshot.json_report import SCHEMA
from mcpagent.permissions import rules
from tests.cli.event_schema import DOCUMENTS


def page() -> str:
    """The whole page."""
    fields = {name: ", ".join(f"`{field}`" for field in kind.names) for name, kind in DOCUMENTS.items()}
    documents = [(f"`{name}`", kind.when, fields[name]) for name, kind in DOCUMENTS.items()]
    chat = [(f"`{f'{name} {command.parameter}'.strip()}`", command.about) for name, command in COMMANDS.items()]
    commands = [(" ".join(words), leaf) for words, leaf in leaves(command_line(), "mcpagent")]
    parts = {
        "help": TOP_LEVEL_HELP,
        "approvals": f"{(rules.__doc__ or '').strip()}\n",
        "documents": _rows(documents),
        "codes": _rows((str(code.value), code.meaning) for code in ExitCode),
        "chat": _rows(chat),
        "prefixes": "".join(f"- {line.strip()}\n" for line in PREFIXES),
        "keys": "".join(f"- {line.strip()}\n" for line in KEYS),
        "options": every_option(command_line()),
        "commands": "".join(
            f"\n### {path}\n\n```text\n{command_page(leaf, path, 100, whole=False)}```\n" for path, leaf in commands
        ),
    }
    text = Path(__file__).with_suffix(".md").read_text("utf-8").replace("<!-- schema -->", SCHEMA)
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->\n", part)
    return text


def _rows(rows: Iterable[tuple[str, ...]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    sys.stdout.write(page())
