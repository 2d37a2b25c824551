"""From what was typed to a command: `mcpagent`, `mcpagent -p "..."` and `mcpagent "a question"` name none."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from mcpagent.safe_text import safe_line

ALSO_TYPED: Mapping[str, str] = {
    "prompt": 'ask "..."',
    "print": 'ask "..."',
    "run": 'ask "..."',
    "exec": 'ask "..."',
    "query": 'ask "..."',
    "repl": "chat",
    "go": "chat",
    "start": "chat",
    "interactive": "chat",
    "server": "mcp list",
    "servers": "mcp list",
    "test": "mcp test",
    "check": "doctor",
    "status": "doctor",
    "health": "doctor",
    "add": "mcp add NAME -- COMMAND",
    "remove": "mcp remove NAME",
    "import": "mcp import",
    "logs": "mcp logs NAME",
    "log": "mcp logs NAME",
    "login": "mcp login NAME",
    "list": "tools list",
    "tool": "tools list",
    "show": "tools show NAME",
    "search": 'tools search "..."',
    "find": 'tools search "..."',
    "version": "--version",
}
"""Words people try, and what does it here."""


class UnknownCommandError(Exception):
    """A single word that is no command; the text is one line with what may have been meant."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """The commands, those of them with subcommands, all options, and those that take the next word as their value."""

    commands: Collection[str]
    groups: Collection[str]
    options: Collection[str]
    value_options: Collection[str]


@dataclass(frozen=True, slots=True)
class _Words:
    """The place of the first word that is no option, and whether -p or help came before it."""

    first: int | None
    prints: bool
    asks_for_help: bool


def route(arguments: Sequence[str], grammar: Grammar) -> list[str]:
    """The arguments with the command in front: options may stand before it.

    A text with white space, or any with -p, is a question. Raises `UnknownCommandError` for another word that is no
    command, so that a typo is never sent to a model.
    """
    words = _read(arguments, grammar.value_options)
    given = list(arguments)
    if words.prints:
        return ["ask", *given]
    if words.first is None:
        return given if words.asks_for_help else ["chat", *given]
    word = given[words.first]
    before, after = given[: words.first], given[words.first + 1 :]
    if word == "help":
        return [*[item for item in after if not item.startswith("-")], "--help"]
    if word in grammar.groups:
        return _in_group(word, before, after)
    if word in grammar.commands:
        return [word, *before, *after]
    if any(char.isspace() for char in word.strip()) or "--" in before:
        return ["ask", *given]
    if any(item.startswith("--") and item.partition("=")[0] not in grammar.options for item in before):
        return ["chat", *given]  # a mistyped option, whose value this word may be: the parser says so
    raise UnknownCommandError(_unknown(word, grammar.commands))


def _in_group(group: str, before: list[str], after: list[str]) -> list[str]:
    """`mcpagent tools` alone lists; options that stood before belong to the subcommand."""
    if after and (not after[0].startswith("-") or after[0] in ("-h", "--help")):
        return [group, after[0], *before, *after[1:]]
    return [group, "list", *before, *after]


def _read(arguments: Sequence[str], value_options: Collection[str]) -> _Words:
    first: int | None = None
    prints = asks_for_help = False
    place = 0
    while place < len(arguments) and first is None:
        word = arguments[place]
        if word == "--":
            first = place + 1 if place + 1 < len(arguments) else None
            break
        if word == "-" or not word.startswith("-"):
            first = place
            break
        prints = prints or _has_flag(word, "--print", "p", value_options)
        asks_for_help = asks_for_help or _has_flag(word, "--help", "h", value_options)
        place += 2 if _takes_next(word, value_options) else 1
    # `mcpagent "a question" -p` is a question too, where the first word is no command.
    later = arguments[first + 1 :] if first is not None else ()
    command_first = first is not None and not any(char.isspace() for char in arguments[first])
    prints = prints or (not command_first and any(word in ("-p", "--print") for word in later))
    return _Words(first, prints, asks_for_help)


def _takes_next(word: str, value_options: Collection[str]) -> bool:
    """Whether the next word is this option's value: `--model x`, `-m x`, `-qm x`."""
    if word.startswith("--"):
        return word in value_options
    for place, letter in enumerate(word[1:], start=1):
        if f"-{letter}" in value_options:
            return place == len(word) - 1
    return False


def _has_flag(word: str, long: str, letter: str, value_options: Collection[str]) -> bool:
    if word.startswith("--"):
        return word == long
    for found in word[1:]:
        if f"-{found}" in value_options:
            return False
        if found == letter:
            return True
    return False


def _unknown(word: str, commands: Collection[str]) -> str:
    shown = safe_line(word, 40)
    near = get_close_matches(word.lower(), [*commands, *ALSO_TYPED], n=3, cutoff=0.6)
    meant = list(dict.fromkeys(ALSO_TYPED.get(name, name) for name in near))
    hint = " or ".join(f"mcpagent {name}" for name in meant) + "?" if meant else ""
    hint = f"did you mean: {hint}" if hint else "see mcpagent --help"
    return f'unknown command "{shown}"; {hint} (a question of one word: mcpagent -p {shown})'
