"""Route arguments to a command: `mcpagent`, `mcpagent -p "..."` and `mcpagent "a question"` name no command."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from mcpagent.utilities.text.safe_text import safe_line

_TRIED: Mapping[str, str] = {
    'ask "..."': "prompt print run exec query",
    "chat": "repl go start interactive",
    "--continue": "continue last",
    "--resume": "resume restore",
    "sessions list": "session history conversations",
    "mcp list": "server servers",
    "mcp test": "test",
    "doctor": "check status health",
    "mcp add NAME -- COMMAND": "add",
    "mcp remove NAME": "remove",
    "mcp import": "import",
    "mcp logs NAME": "logs log",
    "mcp login NAME": "login",
    "tools list": "list tool",
    "tools show NAME": "show",
    'tools search "..."': "search find",
    "--version": "version",
    "-m PROVIDER:MODEL": "model models",
    "keys set anthropic": "key auth",
    "sessions export ID": "export",
    "permissions list": "permission approvals",
    "config show": "settings setting",
}
ALSO_TYPED: Mapping[str, str] = {
    word: meant for meant, words in _TRIED.items() for word in words.split()
}
"""Words that users try, and the commands of the same meaning."""


ALIKE, MISSPELT = 0.73, 0.85
"""Minimum similarity (`difflib`) of a word to a command: for a single word, and for the first word of a sentence."""

SENTENCE = 3
"""Minimum number of further words that make the arguments a prompt, not a command."""


class UnknownCommandError(Exception):
    """Raised for a single word that is no command; the message is one line with suggestions."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """The commands, all options, and the options that take the next word as their value.

    `groups` are the commands with subcommands, each with its default: a subcommand, or `--help`. `may_be_bare` are the
    options whose value is optional, each with its long name.
    """

    commands: Collection[str]
    groups: Mapping[str, str]
    options: Collection[str]
    value_options: Collection[str]
    may_be_bare: Mapping[str, str] = field(default_factory=dict[str, str])


def route(arguments: Sequence[str], grammar: Grammar) -> list[str]:
    """Return the arguments with the command first: options may precede it.

    A text with white space, or any text with -p, is a prompt. Raises `UnknownCommandError` for another word that is no
    command, so that a typo is never sent to a model, and for a prompt that may be the rest of a server's command.
    """
    cut = cut_server(arguments, grammar)
    try:
        routed = _routed(arguments, grammar)
    except UnknownCommandError as error:
        raise UnknownCommandError(cut or str(error)) from None
    if cut and routed[0] in ("ask", "chat"):
        raise UnknownCommandError(cut)
    return routed


def cut_server(arguments: Sequence[str], grammar: Grammar) -> str:
    """Return an error for `--server NAME=python server.py`; "" if each word after a server belongs to an option.

    The words up to mcpagent's next long option may be the rest of the server's command. A command that contains white
    space was quoted, so it is complete.
    """
    for at, word in enumerate(arguments):
        flag, equals, given = word.partition("=")
        if word == "--":
            break
        if flag != "--server":
            continue
        rest = list(arguments[at + 1 :])
        if not equals:
            given = rest.pop(0) if rest else ""
        name, named, command = given.partition("=")
        if not named:
            name, command = "NAME", given
        words = _words_of_command(rest, grammar.options)
        is_cut = _read(words, grammar.value_options)[0] is not None
        if is_cut and not any(map(str.isspace, command)) and "://" not in command:
            return _cut_line(name, command, words)
    return ""


def _cut_line(name: str, command: str, words: Sequence[str]) -> str:
    whole = shlex.quote(" ".join([command, *map(shlex.quote, words)]))
    return (
        f"--server {safe_line(name, 40)}: words follow {safe_line(command, 60)}; put its whole command in quotes: "
        f"--server {safe_line(f'{name}={whole}', 200)}; a question goes before --server"
    )


def _routed(arguments: Sequence[str], grammar: Grammar) -> list[str]:
    arguments = _with_values(arguments, grammar.may_be_bare)
    first, flags = _read(arguments, grammar.value_options)
    given = list(arguments)
    # `mcpagent "a question" -p` is a prompt too, unless the first word is a command.
    is_word = first is not None and not any(char.isspace() for char in given[first])
    if flags & _PRINT or (
        first is not None and not is_word and _PRINT & set(given[first + 1 :])
    ):
        return ["ask", *given]
    if first is None:
        if flags & {"-h", "--help"}:
            return given
        return ["chat", *given]
    word, before, after = given[first], given[:first], given[first + 1 :]
    if word == "help":
        return [*[item for item in after if not item.startswith("-")], "--help"]
    if word in grammar.groups:
        return _in_group(word, grammar.groups[word], before, after)
    if word in grammar.commands:
        return [word, *before, *after]
    if any(char.isspace() for char in word.strip()) or "--" in before:
        return ["ask", *given]
    if any(
        item.startswith("--") and item.partition("=")[0] not in grammar.options
        for item in before
    ):
        return [
            "chat",
            *given,
        ]  # the word may be the value of a mistyped option, which the parser reports
    raise UnknownCommandError(_unknown(word, after, grammar.commands))


def _words_of_command(words: Sequence[str], options: Collection[str]) -> list[str]:
    """Return the first words that can belong to a server's command: up to a long option of mcpagent, or a prompt."""
    taken: list[str] = []
    for word in words:
        is_ours = word.startswith("--") and word.partition("=")[0] in options
        if is_ours or word in ("-p", "--") or any(map(str.isspace, word)):
            break
        taken.append(word)
    return taken


def _with_values(arguments: Sequence[str], may_be_bare: Mapping[str, str]) -> list[str]:
    """Return the arguments with `--resume=` in place of `--resume` without a value."""
    if "--" in arguments:
        end = arguments.index("--")
    else:
        end = len(arguments)
    following = [*arguments[1:end], "-"]
    bare = {
        place for place, after in enumerate(following[:end]) if after.startswith("-")
    }
    return [
        f"{may_be_bare[word]}=" if at in bare and word in may_be_bare else word
        for at, word in enumerate(arguments)
    ]


_PRINT = {"-p", "--print"}


def _in_group(group: str, alone: str, before: list[str], after: list[str]) -> list[str]:
    """Return the arguments of a group's command: `mcpagent tools` alone lists; options follow the subcommand."""
    if after and (not after[0].startswith("-") or after[0] in ("-h", "--help")):
        return [group, after[0], *before, *after[1:]]
    return [group, alone, *before, *after]


def _read(
    arguments: Sequence[str], value_options: Collection[str]
) -> tuple[int | None, set[str]]:
    """Return the position of the first word that is no option (or None), and the options before it."""
    found: set[str] = set()
    place = 0
    while place < len(arguments):
        word = arguments[place]
        if word == "--":
            return (place + 1 if place + 1 < len(arguments) else None), found
        if word == "-" or not word.startswith("-"):
            return place, found
        names, takes_next = _options_in(word, value_options)
        found |= names
        if takes_next:
            place += 2
        else:
            place += 1
    return None, found


def _options_in(word: str, value_options: Collection[str]) -> tuple[set[str], bool]:
    """Return the option names in one word, and whether the next word is the value of the last one.

    `--model` and `-qm` take the next word as a value, `--model=x` does not.
    """
    if word.startswith("--"):
        return {word.partition("=")[0]}, word in value_options
    names: set[str] = set()
    for place, letter in enumerate(word[1:], start=1):
        names.add(f"-{letter}")
        if f"-{letter}" in value_options:
            return names, place == len(word) - 1
    return names, False


def _unknown(word: str, after: Sequence[str], commands: Collection[str]) -> str:
    shown = safe_line(word, 40)
    question = f"a question of one word: mcpagent -p {shown}"
    if after and not any(other.startswith("-") for other in after):
        whole = safe_line(" ".join([word, *after]), 80)
        question = f"a question: mcpagent -p {shlex.quote(whole)}"
    cutoff = ALIKE if len(after) < SENTENCE else MISSPELT
    near = get_close_matches(word.lower(), [*commands, *ALSO_TYPED], cutoff=cutoff)
    meant = [
        f"mcpagent {name}"
        for name in dict.fromkeys(ALSO_TYPED.get(name, name) for name in near)
    ]
    hint = "see mcpagent --help"
    if len(after) >= SENTENCE and not meant:
        return f'unknown command "{shown}"; {question}'
    if meant:
        hint = f"did you mean: {' or '.join(meant)}?"
    return f'unknown command "{shown}"; {hint} ({question})'
