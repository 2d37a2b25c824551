"""The names tools are offered under: legal, unique, and the same whatever order servers connect in.

A tool is known by its key (server, original name). It is offered under its plain name if no other tool has that
name, else as `server__tool`, else with a hash. Calls are resolved through the map, never by splitting a name.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property

from mcpagent.errors import ConfigError
from mcpagent.messages import ToolKey
from mcpagent.search.named import LONGEST_KEYED
from mcpagent.search.words import name_key

MAX_NAME_LENGTH = 64
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_HASH_DIGITS = 8

_SHOWN_MEMBERS = 10


def legal_name(text: str) -> str:
    """The text with every character outside `[a-zA-Z0-9_-]` as `_`; may still be empty or too long.

    Of one that is too long the beginning, and it stays too long.
    """
    return _ILLEGAL.sub("_", text[: MAX_NAME_LENGTH + 1])


def expect_legal_name(name: str) -> None:
    """Raises `ConfigError` unless a tool can be offered under this very name."""
    if legal_name(name) != name or not 0 < len(name) <= MAX_NAME_LENGTH:
        raise ConfigError(f'tool "{name}": a name has 1 to {MAX_NAME_LENGTH} letters, digits, _ or -; pass name=')


def _are_legal(names: Collection[str]) -> bool:
    return all(0 < length <= MAX_NAME_LENGTH for length in map(len, names)) and not _ILLEGAL.search("-".join(names))


def _prefixed(key: ToolKey) -> str:
    return legal_name(f"{key.server}__{key.name}" if key.server is not None else key.name)


def _hashed(key: ToolKey, digits: int) -> str:
    digest = hashlib.sha256(f"{key.server or ''}\0{key.name}".encode(errors="surrogatepass")).hexdigest()[:digits]
    base = _prefixed(key) or "tool"
    return f"{base[: MAX_NAME_LENGTH - digits - 1]}_{digest}"


def offered_names(
    keys: Iterable[ToolKey],
    *,
    sticky: Mapping[ToolKey, str] | None = None,
    reserved: Collection[str] = frozenset(),
) -> dict[ToolKey, str]:
    """Maps every key to a name matching `^[a-zA-Z0-9_-]{1,64}$`; injective and independent of the order of `keys`.

    `sticky` holds names given earlier in the conversation: they stay, and newcomers that would share a plain name
    take the longer form. `reserved` names are never given to a tool.
    """
    sticky = sticky or {}
    wanted = set(keys)
    plain = {key[1]: key for key in wanted}  # an index is quicker than a name, and these are many
    if not sticky and len(plain) == len(wanted) and plain.keys().isdisjoint(reserved) and _are_legal(plain):
        return {key: name for name, key in plain.items()}
    names = {key: name for key, name in sticky.items() if key in wanted}
    used = set(reserved) | set(sticky.values())
    legal = {key: legal_name(key.name) for key in wanted | sticky.keys()}
    plain_holders = Counter(legal.values())
    left = sorted(wanted - names.keys(), key=lambda key: (key.server is not None, key.server or "", key.name))

    def give(key: ToolKey, name: str, alone: bool) -> bool:
        if alone and 0 < len(name) <= MAX_NAME_LENGTH and name not in used:
            names[key] = name
            used.add(name)
        return key in names

    def is_alone(key: ToolKey) -> bool:
        return plain_holders[legal[key]] == 1 or key.server is None

    left = [key for key in left if not give(key, legal[key], is_alone(key))]
    holders = Counter(map(_prefixed, left))
    left = [key for key in left if not give(key, _prefixed(key), holders[_prefixed(key)] == 1)]
    for key in left:
        digits = _HASH_DIGITS
        while not give(key, _hashed(key, digits), alone=True):
            digits += 1
    return names


def collision_warnings(names: Mapping[ToolKey, str]) -> list[str]:
    """One line for each group of tools whose `server__tool` forms are the same, so that they got a hash."""
    groups: dict[str, list[ToolKey]] = defaultdict(list)
    for key, name in names.items():
        if name not in (legal_name(key.name), _prefixed(key)):
            groups[_prefixed(key)].append(key)
    lines: list[str] = []
    for form in sorted(groups):
        members = sorted(groups[form], key=lambda key: (key.server or "", key.name))
        if len(members) > 1:
            shown = members[:_SHOWN_MEMBERS]
            keys = ", ".join(f"{(key.server or '', key.name[: 2 * MAX_NAME_LENGTH])}" for key in shown)
            offered = ", ".join(names[key] for key in shown)
            more = f", and {len(members) - len(shown)} more" if len(members) > len(shown) else ""
            lines.append(f"Tool names collide after namespacing: {form} <- {keys}; exposed as {offered}{more}")
    return lines


class NameMap:
    """Finds the offered name that a model or a person meant.

    Built from offered name by key; an exact offered name always wins, then the forms `tool`, `server__tool`,
    `server.tool` in any case and separator style, if they mean exactly one tool.
    """

    def __init__(self, offered: Mapping[ToolKey, str], names: Collection[str] | None = None) -> None:
        """`names` are the offered ones, if there is a collection of them already."""
        self._by_key = offered
        self._offered = names if names is not None else frozenset(offered.values())

    @cached_property
    def _forms(self) -> Mapping[str, set[str]]:
        forms: dict[str, set[str]] = defaultdict(set)
        for key, name in self._by_key.items():
            own = (key.name, f"{key.server or ''}{key.name}") if len(key.name) <= LONGEST_KEYED else ()
            for form in (name, *own):
                forms[name_key(form)].add(name)
        return forms

    def resolve(self, name: str) -> str | None:
        """The one offered name that is meant, None if there is none or more than one."""
        if name in self._offered:
            return name
        meant = self.candidates(name)
        return meant[0] if len(meant) == 1 else None

    def candidates(self, name: str) -> tuple[str, ...]:
        """All offered names the form may mean, sorted."""
        form = name_key(name)
        return tuple(sorted(self._forms.get(form, ()))) if form else ()
