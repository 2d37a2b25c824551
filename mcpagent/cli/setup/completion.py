"""`mcpagent completion`: the completion script of a shell, and the candidates that it requests at each key press.

Each script passes the words unchanged and receives lines; no text of a server is ever evaluated. Tool names come from
servers, so only harmless names are offered, and descriptions are escaped.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.options import (
    Client,
    Options,
    Shell,
    TokensBy,
    flags_of,
    leaves,
    options_in,
)
from mcpagent.errors import McpAgentError
from mcpagent.utilities.json_schema.parts import properties_of
from mcpagent.utilities.text.safe_text import safe_line

if TYPE_CHECKING:
    from mcpagent.config import ServerConfig
    from mcpagent.values.messages import ToolDefinition


def script_of(shell: Shell) -> str:
    """Return the script that the shell evaluates; its file is next to this module."""
    return Path(__file__).with_name(f"mcpagent.{shell}").read_text("utf-8")


def print_script(shell: Shell) -> ExitCode:
    """Print the script, to be evaluated or stored by the shell."""
    sys.stdout.write(script_of(shell))
    return ExitCode.OK


def print_candidates(request: Sequence[str], command: Any) -> ExitCode:
    """Print candidates for `SHELL --complete -- WORDS`. The last word is incomplete (`--blank`: an empty word is).

    Each line has a candidate and, after a tab, its description. bash passes the line and its word breaks instead of
    words, and receives the rest of the word.
    """
    shell, *flags = request[: request.index("--")]
    words = list(request[request.index("--") + 1 :])
    breaks = ""
    if shell == "bash":
        line, breaks = (*words, "", "")[:2]
        words = split_line(line)
    if "--blank" in flags or not words:
        words.append("")
    found = candidates(words[:-1], words[-1], command, known_names(Options()))
    if shell == "bash":
        # bash splits words at `:` and `=`.
        done = max(
            (words[-1].rfind(mark) + 1 for mark in ":=" if mark in breaks), default=0
        )
        lines = [shlex.quote(item.word)[done:] for item in found]
    else:
        lines = [
            f"{item.word}\t{item.about}" if item.about else item.word for item in found
        ]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return ExitCode.OK


def split_line(line: str) -> list[str]:
    """Return the words after the command; the last one is incomplete: empty after a space, perhaps with an open
    quote.
    """
    for closing in ("", "'", '"'):
        try:
            words = shlex.split(line + closing)
        except ValueError:
            continue
        if not closing and line[-1:].isspace():
            return [*words[1:], ""]
        return words[1:]
    return []


# -- Candidates --------------------------------------------------------------------------------------------------------

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@+-]*")
HELP_WIDTH = 60
MOST_SESSIONS = 50


@dataclass(frozen=True, slots=True)
class Completed:
    """A candidate word and its description, printable."""

    word: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Names:
    """Callbacks that return names from the configuration, the cache and the stored sessions; `parameters` returns those
    of a tool.
    """

    servers: Callable[[], Iterable[Completed]]
    tools: Callable[[], Iterable[Completed]]
    parameters: Callable[[str], Iterable[Completed]]
    sessions: Callable[[], Iterable[Completed]]


@dataclass(frozen=True, slots=True)
class _Place:
    """The position of the incomplete word: its command, the arguments before it, and the option whose value it is."""

    path: tuple[str, ...]
    leaf: Any
    arguments: tuple[str, ...]
    option: Any = None
    is_asking: bool = False
    is_closed: bool = False


def candidates(
    words: Sequence[str], open_word: str, command: Any, names: Names
) -> list[Completed]:
    """Return the completions of `open_word` after these words; [] if files or any text can follow."""
    found = _candidates(_place(words, command), open_word, command, names)
    return [item for item in found if item.word.startswith(open_word)]


def _candidates(
    place: _Place, open_word: str, command: Any, names: Names
) -> Iterator[Completed]:
    if place.path:
        leaf = place.leaf
    elif place.is_asking:
        leaf = command.commands["ask"]
    else:
        leaf = command.commands["chat"]
    if place.option is not None and place.option.name == "set":
        yield from _settings(open_word, leaf, names)
    elif place.option is not None:
        yield from _values(place.option, names)
    elif open_word.startswith("--") and "=" in open_word and not place.is_closed:
        name = open_word.partition("=")[0]
        option = _taking_a_value(name, place.leaf, command)
        values = _values(option, names) if option is not None else ()
        yield from (Completed(f"{name}={item.word}", item.about) for item in values)
    elif open_word.startswith("-") and not place.is_closed:
        for param in options_in(leaf):
            shown = [
                name
                for name in flags_of(param)
                if name.startswith("--") and not param.hidden
            ]
            yield from (Completed(name, _short(param.help or "")) for name in shown)
        yield Completed("--help", "the page of this command")
    elif place.is_asking or place.is_closed:
        return  # a prompt, or another program's own words
    elif hasattr(place.leaf, "commands"):
        yield from (
            Completed(name, _short(item.help or ""))
            for name, item in place.leaf.commands.items()
        )
        if not place.path:
            yield Completed("help", "the page of a command")
    else:
        yield from _argument_values(place, names)


def _place(words: Sequence[str], command: Any) -> _Place:
    path: list[str] = []
    arguments: list[str] = []
    leaf: Any = command
    waiting: Any = None
    is_asking = False
    for index, word in enumerate(words):
        if waiting is not None:
            waiting = None
        elif word == "--":
            rest = tuple(arguments) + tuple(words[index + 1 :])
            return _Place(tuple(path), leaf, rest, is_asking=not path, is_closed=True)
        elif word.startswith("-") and word != "-":
            is_asking = is_asking or word in ("-p", "--print")
            waiting = _taking_a_value(word, leaf, command)
        elif word == "help" and not path and not arguments:
            continue
        elif not arguments and word in getattr(leaf, "commands", ()):
            leaf = leaf.commands[word]
            path.append(word)
        else:
            arguments.append(word)
            is_asking = is_asking or not path
    return _Place(tuple(path), leaf, tuple(arguments), waiting, is_asking and not path)


def _taking_a_value(word: str, leaf: Any, command: Any) -> Any:
    """Return the option of this name if a value follows it: the command's own option, else the first of any command; or
    None.
    """
    every = (param for _, other in leaves(command) for param in options_in(other))
    option = next(
        (param for param in (*options_in(leaf), *every) if word in param.opts), None
    )
    if option is not None and not option.is_flag:
        return option
    return None


def _settings(open_word: str, leaf: Any, names: Names) -> Iterator[Completed]:
    """Yield `NAME=` for each setting of a command, and `NAME=VALUE` once the name is complete."""
    for option in options_in(leaf):
        if flags_of(option):
            continue
        name = f"{option.name}="
        if open_word.startswith(name):
            for value in _values(option, names):
                yield Completed(f"{name}{value.word}", value.about)
        else:
            yield Completed(name, _short(option.help or ""))


def _values(option: Any, names: Names) -> Iterator[Completed]:
    if option.name in ("always_load", "allow", "deny"):
        yield from names.tools()
        yield from (
            Completed(f"{server.word}.*", "all of its tools")
            for server in names.servers()
        )
    elif option.name in ("resume", "session"):
        yield from names.sessions()
    elif option.name == "model":
        from mcpagent.models.resolve import PROVIDERS

        yield Completed("offline", "rules, no language model")
        yield from (
            Completed(f"{prefix}:{provider.default_model}")
            for prefix, provider in PROVIDERS.items()
        )
    elif option.name == "provider_tool":
        from mcpagent.models.provider_tools.provider_tool_values import KINDS

        yield from map(Completed, KINDS)
    elif (
        option.metavar == option.metavar.lower() and "|" in option.metavar
    ):  # FILE|FOLDER names no values
        yield from map(Completed, option.metavar.split("|"))


def _argument_values(place: _Place, names: Names) -> Iterable[Completed]:
    declared = [
        param for param in place.leaf.params if param.param_type_name == "argument"
    ]
    index = min(len(place.arguments), len(declared) - 1)
    if not declared or (len(place.arguments) > index and declared[index].nargs != -1):
        return ()
    match place.path[0], declared[index].name:
        case "mcp", "name":
            return names.servers()
        case "tools" | "permissions", "name":
            return names.tools()
        case "tools", "arguments":
            if place.arguments:
                return names.parameters(place.arguments[0])
            return ()
        case "sessions", "session":
            return names.sessions()
        case "mcp", "source":
            return map(Completed, get_args(Client))
        case "tools", "by":
            return map(Completed, get_args(TokensBy))
        case "completion", "shell":
            return map(Completed, get_args(Shell))
        case "config", "what":
            more = (
                () if place.path[-1] == "edit" else ("logs", "state", "data", "cache")
            )
            return [
                Completed(name)
                for name in ("config", "servers", "project", "project-config", *more)
            ]
        case _:
            return ()


def plain_names(items: Iterable[tuple[str, str]]) -> Iterator[Completed]:
    """Yield a candidate for each (name, description) from a third party; skip names that a shell could interpret."""
    for name, about in items:
        if _PLAIN.fullmatch(name):
            yield Completed(name, _short(about))


def _short(text: str) -> str:
    return safe_line(text.partition(". ")[0].strip().rstrip("."), HELP_WIDTH)


def known_names(options: Options) -> Names:
    """Return callbacks for servers from the configuration and tools from the cache, without starting any server;
    unreadable files are skipped.
    """

    @cache
    def configured() -> tuple[ServerConfig, ...]:
        from mcpagent.cli.common.configuration import load_configuration
        from mcpagent.config import ServerConfig

        try:
            found = load_configuration(options).servers
        except (McpAgentError, OSError):
            return ()
        return (
            *found.servers,
            *(ServerConfig(problem.name) for problem in found.problems),
        )

    @cache
    def listed() -> list[ToolDefinition]:
        from mcpagent.mcp.server_options import stored_lists

        cached = stored_lists(options.environ, stale_seconds=0.0)
        lists = [cached.load(server) for server in configured() if not server.disabled]
        return [
            tool for known in lists if known is not None for tool in known.lists.tools
        ]

    def servers() -> Iterable[Completed]:
        from mcpagent.cli.common.configuration import target_of

        known = configured()
        return plain_names(
            (server.name, server.description or target_of(server)) for server in known
        )

    def tools() -> Iterable[Completed]:
        return plain_names(
            (f"{tool.server}.{tool.original_name}", tool.description)
            for tool in listed()
        )

    def parameters(tool: str) -> Iterable[Completed]:
        named = (
            item
            for item in listed()
            if tool in (f"{item.server}.{item.original_name}", item.original_name)
        )
        properties = next((properties_of(item.parameters) for item in named), {})
        texts = [
            (
                str(name),
                str(schema.get("description") or "")
                if isinstance(schema, dict)
                else "",
            )
            for name, schema in properties.items()
        ]
        return [Completed(f"{item.word}=", item.about) for item in plain_names(texts)]

    def sessions() -> Iterable[Completed]:
        from mcpagent.cli.common.stored_sessions import (
            is_begun,
            short_id,
            store_of,
            store_place,
        )

        named = replace(
            options, session_db=options.environ.get("MCPAGENT_SESSION_DB") or None
        )
        if not isinstance(store_place(named), Path) or not is_begun(
            named
        ):  # a database answers too slowly for a key press
            return []
        try:
            found = store_of(named).sessions(MOST_SESSIONS)
        except McpAgentError:
            return []
        return plain_names((short_id(info.id), info.title) for info in found)

    return Names(servers, tools, parameters, sessions)
