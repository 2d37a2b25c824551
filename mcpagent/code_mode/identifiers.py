"""Convert names of servers, tools and arguments to Python identifiers: valid, unique, and constant in a
conversation.
"""

from __future__ import annotations

import hashlib
import keyword
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mcpagent.values.messages import ToolDefinition, ToolKey
from mcpagent.values.tools import Tool

MAX_IDENTIFIER = 60

OWN_FUNCTIONS = "functions"
"""The module for tools without a source ID."""

TYPE_WORDS = frozenset(
    {
        "Any",
        "Literal",
        "NotRequired",
        "TypedDict",
        "bool",
        "dict",
        "float",
        "int",
        "list",
        "str",
    }
)
"""Names that stubs use; no function and no field may have these names."""

BUILTINS = TYPE_WORDS | frozenset(
    "abs all any ascii asyncio bin bytes call callable chr dir divmod enumerate eval exec filter format getattr "  # noqa: SIM905
    "globals hasattr hash help hex id input isinstance iter json len locals map max min next object open ord pow "
    "print range repr reversed round set setattr show slice sorted sum super tools tuple type vars zip".split()
)
"""Built-in names that a program needs; an imported function of this name is renamed."""

MODULES = sys.stdlib_module_names | frozenset(
    "_typeshed aifc annotationlib asynchat asyncore audioop cgi cgitb chunk compression crypt distutils imghdr imp "  # noqa: SIM905
    "lib2to3 mailcap mcpagent_calls mypy_extensions nis nntplib ossaudiodev pipes smtpd sndhdr spwd sunau telnetlib "
    "tools ty_extensions typing_extensions uu xdrlib".split()
)
"""Module names that a type checker knows in some Python version: the standard library's, past and present."""

_ILLEGAL = re.compile(r"[^0-9A-Za-z_]+")


def identifier(name: str) -> str:
    """Return an identifier similar to the name: ASCII, no keyword, not private, at most 60 characters.

    A name without usable characters becomes `tool`. Two names may have the same identifier; `identifiers` makes them
    unique.
    """
    legal = _ILLEGAL.sub("_", name[: 8 * MAX_IDENTIFIER]).strip("_")[:MAX_IDENTIFIER]
    if name.endswith("_") and name == f"{legal}_":
        legal = name  # names such as `class_` end in an underscore on purpose
    if not legal:
        legal = "tool"
    if legal[0].isdigit():
        legal = f"n{legal}"
    if keyword.iskeyword(legal):
        return f"{legal}_"
    return legal


def identifiers(
    names: Iterable[str],
    given: Mapping[str, str] | None = None,
    reserved: frozenset[str] = frozenset(),
    taken: Iterable[str] = (),
) -> dict[str, str]:
    """Return a unique identifier for each name, independent of the order of the names.

    If names clash, all but an exactly matching one get a hash. `given` identifiers stay, and new ones are never in
    `taken`; a `reserved` word gets a final `_`.
    """
    given = given or {}
    wanted = dict.fromkeys(names)
    found = {name: given[name] for name in wanted if name in given}
    left = [name for name in wanted if name not in found]
    plain_names = {name: _free(identifier(name), reserved) for name in left}
    holders = Counter(plain_names.values())
    used = {*given.values(), *taken}
    exact = [name for name in left if plain_names[name] == name and name not in used]
    found.update((name, name) for name in exact)
    used.update(exact)
    for name in sorted(set(left) - set(exact)):
        plain, digits = plain_names[name], 4
        chosen = ""
        if holders[plain] == 1 and plain not in used:
            chosen = plain
        while not chosen or chosen in used:
            digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[
                :digits
            ]
            chosen, digits = (
                f"{plain[: MAX_IDENTIFIER - digits - 1]}_{digest}",
                digits + 1,
            )
        found[name] = chosen
        used.add(chosen)
    return {name: found[name] for name in wanted}


def _free(name: str, reserved: frozenset[str]) -> str:
    if name in reserved:
        return f"{name}_"
    return name


@dataclass(frozen=True, slots=True)
class ImportPlace:
    """The import path of a tool in programs: `from tools.<module> import <function>`."""

    module: str
    function: str

    @property
    def path(self) -> str:
        """The dotted path, such as `github.list_issues`."""
        return f"{self.module}.{self.function}"


def _of(source: str | None) -> str:
    """Return a key for the source; tools without a source get a marker, so that no source of that name has the same
    key.
    """
    if source is None:
        return f"\0{OWN_FUNCTIONS}"
    return source


@dataclass(slots=True)
class Places:
    """The import paths of the tools of a conversation: the offered name, in the module of the source. A path never
    changes.
    """

    by_key: dict[ToolKey, ImportPlace] = field(
        default_factory=dict[ToolKey, ImportPlace]
    )
    _modules: dict[str, str] = field(default_factory=lambda: {_of(None): OWN_FUNCTIONS})
    _functions: dict[str, frozenset[str]] = field(
        default_factory=dict[str, frozenset[str]]
    )
    _added: object = None

    def functions_in(self, module: str) -> frozenset[str]:
        """Return the names of all functions in a module."""
        return self._functions.get(module, frozenset())

    def give(self, key: ToolKey, place: ImportPlace) -> None:
        """Set the import path that this tool had in another process, before it gets one in this process."""
        self.by_key[key] = place
        self._modules[_of(key.source)] = place.module
        self._functions[place.module] = self.functions_in(place.module) | {
            place.function
        }

    def add_known(self, known: Mapping[str, Tool]) -> None:
        """Call `add` for all tools of a conversation, unless they are the same object as in the last call."""
        if known is not self._added:
            self.add(tool.definition for tool in known.values())
            self._added = known

    def add(self, tools: Iterable[ToolDefinition]) -> None:
        """Assign an import path to each tool without one."""
        new: dict[str, dict[ToolKey, str]] = {}
        for tool in tools:
            key = tool.key
            if key not in self.by_key:
                new.setdefault(_of(key.source), {})[key] = tool.name
        if not new:
            return
        self._modules |= identifiers(new, self._modules, MODULES)
        for source, names in new.items():
            module = self._modules[source]
            taken = self.functions_in(module)
            functions = identifiers(names.values(), reserved=BUILTINS, taken=taken)
            self._functions[module] = taken.union(functions.values())
            for key, name in names.items():
                self.by_key[key] = ImportPlace(module, functions[name])
