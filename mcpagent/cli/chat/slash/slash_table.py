"""The table of the chat's slash commands, and their dispatch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from rich.text import Text

from mcpagent.cli.chat.slash import slash_session as session
from mcpagent.cli.chat.slash import slash_stored as kept
from mcpagent.cli.chat.slash import slash_window as window
from mcpagent.cli.chat.slash.chat_state import ChatState
from mcpagent.cli.chat.slash.slash_servers import VERBS, import_, mcp
from mcpagent.cli.chat.slash.slash_tools import allow, deny, find, tool, tools, why
from mcpagent.cli.common.error_lines import did_you_mean
from mcpagent.cli.screen.lines import column
from mcpagent.utilities.text.safe_text import safe_line


async def show_help(desk: ChatState, argument: str) -> None:
    """the commands by group; all: what each one does; COMMAND: what it does"""
    if argument == "all":
        desk.say(*everything())
    elif not argument:
        desk.say(*overview(desk.width))
    elif (name := command_name(f"/{argument.removeprefix('/')}")) in COMMANDS:
        desk.say(_line_of(name))
    else:
        _say_unknown(desk, name)


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command; its help text is the docstring of its function.

    `waits`: the command needs the known tools. `asks` is printed if its argument is missing.
    """

    group: str
    run: Callable[[ChatState, str], Awaitable[None]]
    parameter: str = ""
    waits: bool = False
    asks: str = ""

    @property
    def about(self) -> str:
        """The command's description, in one line."""
        return (self.run.__doc__ or "").strip()


COMMANDS: Mapping[str, Command] = {
    "/new": Command("chat", session.new, waits=True),
    "/retry": Command("chat", session.retry),
    "/undo": Command("chat", session.undo, "[N]"),
    "/edit": Command("chat", session.edit),
    "/copy": Command("chat", session.copy),
    "/exit": Command("chat", session.leave),
    "/tools": Command("tools", tools, "[FILTER]", waits=True),
    "/tool": Command("tools", tool, "NAME", waits=True, asks="which one? /tool NAME"),
    "/find": Command("tools", find, "QUERY", waits=True, asks="what for? /find WORDS"),
    "/why": Command("tools", why, "[not] NAME"),
    "/allow": Command("tools", allow, "[GLOB]", waits=True),
    "/deny": Command("tools", deny, "[GLOB]", waits=True),
    "/import": Command("servers", import_, "[yes]"),
    "/mcp": Command("servers", mcp, "[on|off|restart|logs|add] [NAME]"),
    "/context": Command("context", session.context, waits=True),
    "/cost": Command("context", session.cost),
    "/compact": Command("context", window.compact, "[WORDS]", waits=True),
    "/pin": Command("context", window.pin, "[N]", waits=True),
    "/history": Command("context", window.history, "[N]", waits=True),
    "/save": Command("session", session.save, "[NAME]"),
    "/export": Command("session", session.export, "[md|json|html]"),
    "/sessions": Command("session", kept.sessions, "[WORDS]", waits=True),
    "/resume": Command("session", kept.resume, "[ID|WORDS]", waits=True),
    "/continue": Command("session", kept.go_on, waits=True),
    "/fork": Command("session", kept.fork, "[TITLE]", waits=True),
    "/rename": Command(
        "session",
        kept.rename,
        "TITLE",
        waits=True,
        asks="what is its title? /rename TITLE",
    ),
    "/model": Command("setup", session.model, "[NAME]"),
    "/help": Command("setup", show_help, "[all|COMMAND]"),
}

GROUPS: Mapping[str, tuple[str, ...]] = {
    group: tuple(name for name, command in COMMANDS.items() if command.group == group)
    for group in dict.fromkeys(command.group for command in COMMANDS.values())
}

PREFIXES = (
    "  @path and @server:uri add a file or a resource to the question",
    "  /server:prompt name=value asks a server's prompt; !command runs it, asks first",
)

KEYS = (
    "  Enter send, Alt+Enter or Ctrl+J new line, Up and Ctrl+R history, Tab complete",
    "  Ctrl+E editor, Ctrl+T unfold the last call (again: the one before)",
    "  Esc or Ctrl+C stop the answer or clear the line, Ctrl+C twice or Ctrl+D quit",
)

VALUES: Mapping[str, Sequence[str]] = {
    "/mcp": VERBS,
    "/export": ("md", "json", "html"),
    "/help": ("all", *(name.removeprefix("/") for name in COMMANDS)),
}
"""Possible arguments of the commands that accept one of a few words."""

ALIASES = {
    "/quit": "/exit",
    "/q": "/exit",
    "/?": "/help",
    "/servers": "/mcp",
    "/permissions": "/allow",
    "/search": "/find",
    "/clear": "/new",
    "/rewind": "/undo",
}


async def run_command(desk: ChatState, line: str) -> None:
    """Run one slash command; for an unknown one, print similar names. Raises `Leave`."""
    word, _, argument = (part.strip() for part in line.strip().partition(" "))
    command = COMMANDS.get(command_name(word))
    if command is None:
        _say_unknown(desk, word)
    elif command.asks and not argument:
        desk.say(command.asks)
    elif argument and not command.parameter:
        desk.warn(
            f"{word} takes nothing after it, so it was not run; write {word} alone"
        )
    else:
        if command.waits:
            await desk.ready()
        await command.run(desk, argument)


def command_name(word: str) -> str:
    """Return the command for an alias; other words are returned unchanged."""
    return ALIASES.get(word, word)


def _say_unknown(desk: ChatState, word: str) -> None:
    near = get_close_matches(word, [*COMMANDS, *ALIASES], n=1, cutoff=0.6)
    hint = did_you_mean((command_name(name) for name in near), "/help lists them")
    if ":" in word:
        hint = "/mcp NAME shows the prompts of a server"
    desk.warn(f"unknown command {safe_line(word, 40)} - {hint}")


def overview(width: int = 80) -> list[Text]:
    """Return the commands by group, in at most 24 rows of 80 columns."""
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
    """Return every command with its description."""
    lines: list[Text] = []
    for title, names in GROUPS.items():
        lines.append(Text(title, "user"))
        lines += map(_line_of, names)
    return [
        *lines,
        Text("prefixes", "user"),
        *map(Text, PREFIXES),
        Text("keys", "user"),
        *map(Text, KEYS),
    ]


def _line_of(name: str) -> Text:
    """Return `  /undo [N]   what it does`."""
    command = COMMANDS[name]
    shown = f"{name} {command.parameter}".strip()
    return Text.assemble(
        "  ", (column(shown, max(24, len(shown) + 1)), "tool"), command.about
    )
