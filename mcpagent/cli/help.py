"""Help pages: the top level as one composed screen, each command from its declaration.

Written here because typer's own formatter loads a validation library first, and help has to be there at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

TOP_LEVEL_HELP = """\
mcpagent - an agent with any number of MCP tools: it searches, adds what it needs, and calls it
  mcpagent                                 chat (works without a key or configuration)
  mcpagent -p "what time is it in Tokyo"   one answer on stdout

Commands
  chat                     talk to the agent in the terminal
  ask PROMPT [FILES]       one answer and exit; the same as -p; reads stdin
  tools list|show|search|describe|learned|call|tokens|lint|eval   the tools: what is found, costs
  mcp list|test|add|remove|enable|disable|import|logs|login|logout   your servers; do they work
  cards check|show         agent cards; mcpagent chat --card FILE talks to one
  doctor                   is everything there: model, keys, files, servers
  config show|path|edit    your settings and where each comes from
  keys list|set|remove     API keys and other secrets, in the system keyring
  approvals list|forget    what runs without a question since you answered "always"
  sessions list|show|search|export|fork|rename|delete|prune|doctor   kept chats
  trace show SESSION|FILE  runs as trees: times, tokens, what was offered; FILE is from --record
  completion SHELL         for bash, zsh, fish or pwsh
  demo                     see how tool search works, offline, in under a minute
  worker                   does durable runs, also those of workers that died
  runs list|show|cancel|delete|prune   the durable runs

Common options (also as variables, MCPAGENT_MODEL for --model; mcpagent COMMAND --help tells more)
  -m, --model NAME         provider:model, e.g. anthropic:claude-sonnet-5-5, ollama:qwen3, offline
  -c, --continue           the last chat of this folder goes on; -r, --resume: one that you choose
  --server NAME='command'  one more server, also NAME=https://...; --config FILE: only its
"""

MAX_WIDTH = 100
NAMES_WIDTH = 26


def command_help(command: Any, path: str, width: int = MAX_WIDTH) -> str:
    """The page of one command or group; `path` is what was typed, `mcpagent tools list`."""
    if hasattr(command, "commands"):
        rows = [(name, (item.help or "")) for name, item in command.commands.items()]
        sections = [("Commands", rows)]
        usage = f"Usage: {path} COMMAND"
    else:
        arguments = [param for param in command.params if param.param_type_name == "argument" and not param.hidden]
        options = [param for param in command.params if param.param_type_name == "option" and not param.hidden]
        sections = [
            ("Arguments", [(param.metavar, param.help or "") for param in arguments]),
            ("Options", [*((option_names(param), option_text(param)) for param in options), _HELP_ROW]),
        ]
        needed = (param.metavar if param.required else f"[{param.metavar}]" for param in arguments)
        usage = " ".join(["Usage:", path, *needed, "[OPTIONS]"])
    lines = [usage, "", *_wrapped(command.help or "", "  ", width)]
    for title, rows in sections:
        if rows:
            lines += ["", title, *(line for row in rows for line in _row_lines(*row, width))]
    return "\n".join(lines) + "\n"


_HELP_ROW = ("-h, --help", "Show this page.")


def option_names(param: Any) -> str:
    """`-m, --model NAME`."""
    opposite = param.secondary_opts if param.default is True else ()  # what is so anyway nobody needs to write
    names = ", ".join(sorted(opposite or param.opts, key=len))
    return names if param.is_flag else f"{names} {param.metavar}"


def option_text(param: Any) -> str:
    """What the option does, its default and its variable."""
    default = getattr(param.default, "value", param.default)
    shown = (
        f" Default: {default}."
        if default not in (None, False, True, "") and "Default" not in (param.help or "")
        else ""
    )
    variable = f" [{param.envvar}]" if param.envvar else ""
    return f"{param.help or ''}{shown}{variable}"


def _row_lines(names: str, text: str, width: int) -> Iterator[str]:
    """Names on the left, text on the right; long names stand on a line of their own."""
    wrapped = _wrapped(text, " " * (NAMES_WIDTH + 4), width)
    if len(names) <= NAMES_WIDTH and wrapped:
        yield f"  {names:<{NAMES_WIDTH}}  {wrapped[0].strip()}"
        yield from wrapped[1:]
    else:
        yield f"  {names}"
        yield from wrapped


def _wrapped(text: str, indent: str, width: int) -> list[str]:
    import textwrap

    width = max(min(width, MAX_WIDTH), len(indent) + 20)
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
