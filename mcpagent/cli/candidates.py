"""What may stand next on a command line: a pure function of the words before, the commands, and the known names.

Names of tools are the servers' words, so only plain ones are offered, and what is said about them is made safe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from mcpagent.safe_text import safe_line

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@+-]*")
HELP_WIDTH = 60


@dataclass(frozen=True, slots=True)
class Candidate:
    """A word that may stand there, and what it is, printable."""

    word: str
    about: str = ""


class Names(Protocol):
    """The names that only the configuration and the cache know."""

    def servers(self) -> Iterable[Candidate]: ...

    def tools(self) -> Iterable[Candidate]: ...

    def parameters(self, tool: str) -> Iterable[Candidate]: ...


def candidates(words: Sequence[str], open_word: str, command: Any, names: Names) -> list[Candidate]:
    """What `open_word` may become after these words; empty where files are meant, or anything."""
    place = _place(words, command)
    found = _candidates(place, open_word, command, names)
    return [item for item in found if item.word.startswith(open_word)]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the open word stands: in which command, after which arguments, as the value of which option."""

    path: tuple[str, ...]
    leaf: Any
    arguments: tuple[str, ...]
    option: Any = None
    is_asking: bool = False
    is_closed: bool = False


def _candidates(place: _Place, open_word: str, command: Any, names: Names) -> Iterator[Candidate]:
    if place.option is not None:
        yield from _values(place.option, names)
        return
    if open_word.startswith("--") and "=" in open_word and not place.is_closed:
        yield from _values_after_equals(place, open_word, command, names)
        return
    if open_word.startswith("-") and not place.is_closed:
        yield from _options(place, command)
        return
    if place.is_asking or place.is_closed:
        return  # a question, or another program's own words
    if not place.path:
        yield from (Candidate(name, _about(item)) for name, item in command.commands.items())
        yield Candidate("help", "the page of a command")
    elif hasattr(place.leaf, "commands"):
        yield from (Candidate(name, _about(item)) for name, item in place.leaf.commands.items())
    else:
        yield from _argument_values(place, names)


def _place(words: Sequence[str], command: Any) -> _Place:
    options = _all_options(command)
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
            waiting = _takes_value(word, leaf, options)
        elif word == "help" and not path and not arguments:
            continue
        elif not arguments and word in getattr(leaf, "commands", ()):
            leaf = leaf.commands[word]
            path.append(word)
        else:
            arguments.append(word)
            is_asking = is_asking or not path
    return _Place(tuple(path), leaf, tuple(arguments), waiting, is_asking and not path)


def _takes_value(word: str, leaf: Any, options: Mapping[str, Any]) -> Any:
    own = {name: param for param in getattr(leaf, "params", ()) for name in param.opts}
    option = own.get(word) or options.get(word)
    return option if option is not None and not option.is_flag else None


def _all_options(command: Any) -> dict[str, Any]:
    """Every option by each of its names; where several commands have it, the first declaration."""
    found: dict[str, Any] = {}
    for item in command.commands.values():
        leaves = item.commands.values() if hasattr(item, "commands") else (item,)
        for leaf in leaves:
            for param in leaf.params:
                if param.param_type_name == "option":
                    for name in param.opts:
                        found.setdefault(name, param)
    return found


def _options(place: _Place, command: Any) -> Iterator[Candidate]:
    leaf = place.leaf if place.path else command.commands["ask" if place.is_asking else "chat"]
    for param in getattr(leaf, "params", ()):
        if param.param_type_name == "option" and not param.hidden:
            yield from (Candidate(name, _short(param.help or "")) for name in param.opts if name.startswith("--"))
    yield Candidate("--help", "the page of this command")


def _values_after_equals(place: _Place, open_word: str, command: Any, names: Names) -> Iterator[Candidate]:
    name = open_word.partition("=")[0]
    option = _takes_value(name, place.leaf, _all_options(command))
    if option is not None:
        yield from (Candidate(f"{name}={item.word}", item.about) for item in _values(option, names))


def _values(option: Any, names: Names) -> Iterator[Candidate]:
    kind = type(option.default)
    if isinstance(option.default, Enum):
        yield from (Candidate(str(item.value)) for item in kind)
    elif option.name in ("always_load", "allow", "deny"):
        yield from names.tools()
        yield from (Candidate(f"{server.word}.*", "all of its tools") for server in names.servers())
    elif option.name == "model":
        yield from _models()
    elif option.name == "source":
        from mcpagent.cli.options import CLIENTS

        yield from (Candidate(client) for client in CLIENTS)
    elif option.name == "scope":
        yield from (Candidate(scope) for scope in ("user", "project"))
    elif option.name == "transport":
        yield from (Candidate(transport) for transport in ("http", "sse"))


def _models() -> Iterator[Candidate]:
    from mcpagent.models.resolve import PROVIDERS

    yield Candidate("offline", "rules, no language model")
    for prefix, provider in PROVIDERS.items():
        yield Candidate(f"{prefix}:{provider.default_model}")


def _argument_values(place: _Place, names: Names) -> Iterator[Candidate]:
    declared = [param for param in place.leaf.params if param.param_type_name == "argument"]
    if not declared:
        return
    index = min(len(place.arguments), len(declared) - 1)
    if len(place.arguments) > index and declared[index].nargs != -1:
        return
    yield from _ARGUMENTS.get((place.path[0], declared[index].name), _nothing)(place, names)


def _servers(_place: _Place, names: Names) -> Iterable[Candidate]:
    return names.servers()


def _tools(_place: _Place, names: Names) -> Iterable[Candidate]:
    return names.tools()


def _parameters(place: _Place, names: Names) -> Iterable[Candidate]:
    return names.parameters(place.arguments[0]) if place.arguments else ()


def _shells(_place: _Place, _names: Names) -> Iterable[Candidate]:
    return [Candidate(shell) for shell in ("bash", "zsh", "fish", "pwsh")]


def _files(place: _Place, _names: Names) -> Iterable[Candidate]:
    known = ("config", "servers", "project", "project-config")
    more = () if place.path[-1] == "edit" else ("logs", "state", "data", "cache")
    return [Candidate(name) for name in (*known, *more)]


def _nothing(_place: _Place, _names: Names) -> Iterable[Candidate]:
    return ()


_ARGUMENTS: Mapping[tuple[str, str], Callable[[_Place, Names], Iterable[Candidate]]] = {
    ("mcp", "name"): _servers,
    ("tools", "name"): _tools,
    ("tools", "arguments"): _parameters,
    ("completion", "shell"): _shells,
    ("config", "what"): _files,
}
"""By the first word and the argument's name in the declaration."""


def plain_names(items: Iterable[tuple[str, str]]) -> Iterator[Candidate]:
    """Names with a text from elsewhere; a name that a shell could take for something else is left out."""
    for name, about in items:
        if _PLAIN.fullmatch(name):
            yield Candidate(name, _short(about))


def _about(item: Any) -> str:
    return _short(item.help or "")


def _short(text: str) -> str:
    return safe_line(text.partition(". ")[0].strip().rstrip("."), HELP_WIDTH)
