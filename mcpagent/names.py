"""The names tools are offered under: legal, unique, and the same whatever order servers connect in.

A tool is known by its key (server, original name). It is offered under its plain name where no other tool has that
name, else as `server__tool`, else with a hash. Calls are resolved through the map, never by splitting a name.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

MAX_NAME_LENGTH = 64
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_HASH_DIGITS = 8
_SPACED = "".join(char if char.isalnum() else " " for char in map(chr, range(128)))


class ToolKey(NamedTuple):
    """What identifies a tool: the configured server (None: a local function) and the name that server gave it."""

    server: str | None
    name: str


def legal_name(text: str) -> str:
    """The text with every character outside `[a-zA-Z0-9_-]` as `_`; may still be empty or too long."""
    return _ILLEGAL.sub("_", text)


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
    names = {key: name for key, name in sticky.items() if key in wanted}
    used = set(reserved) | set(sticky.values())
    newcomers = sorted(wanted - names.keys(), key=lambda key: (key.server is not None, key.server or "", key.name))
    plain_holders = Counter(legal_name(key.name) for key in wanted | sticky.keys())

    undecided: list[ToolKey] = []
    for key in newcomers:
        plain = legal_name(key.name)
        alone = plain_holders[plain] == 1 or key.server is None
        if alone and 0 < len(plain) <= MAX_NAME_LENGTH and plain not in used:
            names[key] = plain
            used.add(plain)
        else:
            undecided.append(key)

    groups: dict[str, list[ToolKey]] = defaultdict(list)
    for key in undecided:
        groups[_prefixed(key)].append(key)
    collided: list[ToolKey] = []
    for name, members in groups.items():
        if len(members) == 1 and 0 < len(name) <= MAX_NAME_LENGTH and name not in used:
            names[members[0]] = name
            used.add(name)
        else:
            collided.extend(members)

    for key in collided:
        digits = _HASH_DIGITS
        while (name := _hashed(key, digits)) in used:
            digits += 1
        names[key] = name
        used.add(name)
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
            keys = ", ".join(f"{(key.server or '', key.name)}" for key in members)
            offered = ", ".join(names[key] for key in members)
            lines.append(f"Tool names collide after namespacing: {form} <- {keys}; exposed as {offered}")
    return lines


def plain(text: str) -> str:
    """The text in lower case without accents, so that `Café` and `cafe` are one."""
    if text.isascii():
        return text.lower()
    # Twice: compatibility forms such as ℡ hold capitals, and folding these gives letters with accents anew.
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return unicodedata.normalize("NFC", "".join(char for char in decomposed if not unicodedata.combining(char)))


def name_key(name: str) -> str:
    """What all styles of one name share: `GetWeather`, `get-weather` and `get weather` give `getweather`."""
    if name.isascii():
        return name.lower().translate(_SPACED).replace(" ", "")
    return "".join(char for char in plain(name) if char.isalnum())


class NameMap:
    """Finds the offered name that a model or a person meant.

    Built from offered name by key; an exact offered name always wins, then the forms `tool`, `server__tool`,
    `server.tool` in any case and separator style, where they mean exactly one tool.
    """

    def __init__(self, offered: Mapping[ToolKey, str]) -> None:
        self._offered = frozenset(offered.values())
        self._forms: dict[str, set[str]] = defaultdict(set)
        for key, name in offered.items():
            for form in (name, key.name, f"{key.server or ''}{key.name}"):
                self._forms[name_key(form)].add(name)

    def resolve(self, name: str) -> str | None:
        """The one offered name that is meant, None where there is none or more than one."""
        if name in self._offered:
            return name
        meant = self.candidates(name)
        return meant[0] if len(meant) == 1 else None

    def candidates(self, name: str) -> tuple[str, ...]:
        """All offered names the form may mean, sorted."""
        form = name_key(name)
        return tuple(sorted(self._forms.get(form, ()))) if form else ()
