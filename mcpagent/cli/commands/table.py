"""The chat's slash commands: which there are, and running one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from rich.text import Text

from mcpagent.cli.commands.context import context, cost
from mcpagent.cli.commands.desk import Desk
from mcpagent.cli.commands.files import export, save
from mcpagent.cli.commands.servers import VERBS, mcp
from mcpagent.cli.commands.setup import model
from mcpagent.cli.commands.tools import allow, deny, find, tool, tools, why
from mcpagent.cli.commands.turns import copy, edit, leave, new, retry, undo
from mcpagent.cli.lines import column
from mcpagent.safe_text import safe_line


async def show_help(desk: Desk, argument: str) -> None:
    """the commands by group; all: what each one does"""
    lines = everything() if argument == "all" else overview(desk.width)
    desk.say(*lines)


@dataclass(frozen=True, slots=True)
class Command:
    run: Callable[[Desk, str], Awaitable[None]]
    parameter: str = ""

    @property
    def about(self) -> str:
        return (self.run.__doc__ or "").strip()


COMMANDS: Mapping[str, Command] = {
    "/new": Command(new),
    "/retry": Command(retry),
    "/undo": Command(undo),
    "/edit": Command(edit),
    "/copy": Command(copy),
    "/exit": Command(leave),
    "/tools": Command(tools, "[FILTER]"),
    "/tool": Command(tool, "NAME"),
    "/find": Command(find, "QUERY"),
    "/why": Command(why, "[not] NAME"),
    "/allow": Command(allow, "[GLOB]"),
    "/deny": Command(deny, "[GLOB]"),
    "/mcp": Command(mcp, "[on|off|restart|logs] [NAME]"),
    "/context": Command(context),
    "/cost": Command(cost),
    "/save": Command(save, "[NAME]"),
    "/export": Command(export, "[md|json|html]"),
    "/model": Command(model, "[NAME]"),
    "/help": Command(show_help, "[all]"),
}

GROUPS: Mapping[str, tuple[str, ...]] = {
    "chat": ("/new", "/retry", "/undo", "/edit", "/copy", "/exit"),
    "tools": ("/tools", "/tool", "/find", "/why", "/allow", "/deny"),
    "servers": ("/mcp",),
    "context": ("/context", "/cost"),
    "session": ("/save", "/export"),
    "setup": ("/model", "/help"),
}

PREFIXES = (
    "  @path and @server:uri add a file or a resource to the question",
    "  /server:prompt name=value asks a server's prompt; !command runs it, asks first",
)

KEYS = (
    "  Enter send, Alt+Enter or Ctrl+J new line, Up and Ctrl+R history, Tab complete",
    "  Ctrl+E editor, Ctrl+T unfold the last call (again: the one before), Esc clear",
    "  Ctrl+C stop the answer or clear the line, twice quit; Ctrl+D quit",
)

VALUES: Mapping[str, Sequence[str]] = {"/mcp": VERBS, "/export": ("md", "json", "html"), "/help": ("all",)}
"""What may follow a command, for those that take one of a few words."""

ALIASES = {"/quit": "/exit", "/q": "/exit", "/?": "/help", "/servers": "/mcp", "/search": "/find", "/clear": "/new"}


async def run_command(desk: Desk, line: str) -> None:
    """Runs one slash command; an unknown one is answered with near names. Raises `Leave`."""
    word, _, argument = line.strip().partition(" ")
    command = COMMANDS.get(ALIASES.get(word, word))
    if command is not None:
        await command.run(desk, argument.strip())
        return
    near = get_close_matches(word, [*COMMANDS, *ALIASES], n=1, cutoff=0.5)
    hint = f"did you mean {ALIASES.get(near[0], near[0])}?" if near else "/help lists them"
    if ":" in word:
        hint = "/mcp NAME shows the prompts of a server"
    desk.warn(f"unknown command {safe_line(word, 40)} - {hint}")


def overview(width: int = 80) -> list[Text]:
    """The commands by group: 80 columns and 24 rows hold them."""
    lines: list[Text] = []
    for title, names in GROUPS.items():
        row = Text(column(title, 10), "user")
        for name in names:
            shown = f"{name} {COMMANDS[name].parameter}".strip()
            if row.cell_len + len(shown) > min(width, 80):
                lines.append(row)
                row = Text(" " * 10)
            row.append(shown, "tool").append("  ")
        lines.append(row)
    for row in lines:
        row.rstrip()
    return [
        *lines,
        Text("prefixes", "user"),
        *map(Text, PREFIXES),
        Text("keys", "user"),
        *map(Text, KEYS),
        Text("/help all says what each command does", "dim"),
    ]


def everything() -> list[Text]:
    """Every command with what it does."""
    lines: list[Text] = []
    for title, names in GROUPS.items():
        lines.append(Text(title, "user"))
        for name in names:
            command = COMMANDS[name]
            shown = f"{name} {command.parameter}".strip()
            lines.append(Text.assemble("  ", (column(shown, max(24, len(shown) + 1)), "tool"), command.about))
    return [*lines, Text("prefixes", "user"), *map(Text, PREFIXES), Text("keys", "user"), *map(Text, KEYS)]
