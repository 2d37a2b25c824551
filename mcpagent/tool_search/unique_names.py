"""Compute the offered names of tools: legal, unique, and independent of the order in which servers connect.

A key identifies a tool, and its toolset lists it under a name. It is offered under that name if no other tool has it,
else as `source__tool`, else with a hash. Calls are resolved through a map, never by splitting a name.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Mapping
from functools import cached_property

from mcpagent.errors import ConfigError
from mcpagent.search.name_index import LONGEST_KEYED
from mcpagent.search.words import name_key
from mcpagent.values.messages import ToolKey

MAX_NAME_LENGTH = 64
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_HASH_DIGITS = 8

_SHOWN_MEMBERS = 10


def legal_name(text: str) -> str:
    """Return the text with every character outside `[a-zA-Z0-9_-]` replaced by `_`; it may be empty or too long.

    A text that is too long is cut, but still too long.
    """
    return _ILLEGAL.sub("_", text[: MAX_NAME_LENGTH + 1])


def expect_legal_name(name: str) -> None:
    """Raise `ConfigError` unless this is a legal name for an offered tool."""
    if legal_name(name) != name or not 0 < len(name) <= MAX_NAME_LENGTH:
        raise ConfigError(
            f'tool "{name}": a name has 1 to {MAX_NAME_LENGTH} letters, digits, _ or -; pass name='
        )


def _are_legal(names: Collection[str]) -> bool:
    return all(
        0 < length <= MAX_NAME_LENGTH for length in map(len, names)
    ) and not _ILLEGAL.search("-".join(names))


def _prefixed(key: ToolKey, listed: str) -> str:
    return legal_name(f"{key.source}__{listed}" if key.source is not None else listed)


def _hashed(key: ToolKey, listed: str, digits: int) -> str:
    told = "\0".join((key.source or "", key.name, key.listed))
    digest = hashlib.sha256(told.encode(errors="surrogatepass")).hexdigest()[:digits]
    base = _prefixed(key, listed) or "tool"
    return f"{base[: MAX_NAME_LENGTH - digits - 1]}_{digest}"


def offered_names(
    listed: Mapping[ToolKey, str],
    *,
    sticky: Mapping[ToolKey, str] | None = None,
    reserved: Collection[str] = frozenset(),
) -> Mapping[ToolKey, str]:
    """Return a unique name for every key, which matches `^[a-zA-Z0-9_-]{1,64}$` and does not depend on the order of the
    keys.

    `listed` has the name under which each tool is listed. `sticky` has names of earlier turns: they stay, and new tools
    with the same plain name get the longer form. No tool gets a name in `reserved`. If every tool keeps its listed
    name, the result is `listed` itself: a catalogue serves many sessions, and a copy takes 37 kB for 1,200 tools.
    """
    sticky = sticky or {}
    plain = set(listed.values())
    if (
        not sticky
        and len(plain) == len(listed)
        and plain.isdisjoint(reserved)
        and _are_legal(plain)
    ):
        return listed
    names = {key: name for key, name in sticky.items() if key in listed}
    used = set(reserved) | set(sticky.values())
    legal = {key: legal_name(name) for key, name in listed.items()}
    gone = [legal_name(key.listed or key.name) for key in sticky if key not in listed]
    plain_holders = Counter([*legal.values(), *gone])
    left = sorted(
        listed.keys() - names.keys(),
        key=lambda key: (
            key.source is not None,
            key.source or "",
            listed[key],
            key[1:],
        ),
    )
    forms = {key: _prefixed(key, listed[key]) for key in left}

    def give(key: ToolKey, name: str, alone: bool) -> bool:
        if alone and 0 < len(name) <= MAX_NAME_LENGTH and name not in used:
            names[key] = name
            used.add(name)
        return key in names

    def is_alone(key: ToolKey) -> bool:
        return plain_holders[legal[key]] == 1 or key.source is None

    left = [key for key in left if not give(key, legal[key], is_alone(key))]
    holders = Counter(forms[key] for key in left)
    left = [key for key in left if not give(key, forms[key], holders[forms[key]] == 1)]
    for key in left:
        digits = _HASH_DIGITS
        while not give(key, _hashed(key, listed[key], digits), alone=True):
            digits += 1
    return names


def collision_warnings(
    names: Mapping[ToolKey, str], listed: Mapping[ToolKey, str]
) -> list[str]:
    """Return a warning for each group of tools with the same `source__tool` form, whose names therefore have a hash."""
    groups: dict[str, list[ToolKey]] = defaultdict(list)
    for key, plain in listed.items():
        form = _prefixed(key, plain)
        if names[key] not in (legal_name(plain), form):
            groups[form].append(key)
    lines: list[str] = []
    for form in sorted(groups):
        members = sorted(groups[form], key=lambda key: (key.source or "", listed[key]))
        if len(members) > 1:
            shown = members[:_SHOWN_MEMBERS]
            keys = ", ".join(
                f"{(key.source or '', listed[key][: 2 * MAX_NAME_LENGTH])}"
                for key in shown
            )
            offered = ", ".join(names[key] for key in shown)
            more = ""
            if len(members) > len(shown):
                more = f", and {len(members) - len(shown)} more"
            lines.append(
                f"Tool names collide after namespacing: {form} <- {keys}; exposed as {offered}{more}"
            )
    return lines


class NameMap:
    """Resolves a name from a model or a user to the offered name.

    It uses the offered and the `listed` name of each tool. `offered` is the set of offered names, for callers that
    already have it. An exact offered name always wins; then the forms `tool`, `source__tool` and `source.tool`, in any
    case and with any separators, if they match exactly one tool.
    """

    def __init__(
        self,
        names: Mapping[ToolKey, str],
        listed: Mapping[ToolKey, str],
        offered: Container[str] | None = None,
    ) -> None:
        self._names = names
        self._listed = listed
        self._offered = (
            frozenset(map(names.__getitem__, listed)) if offered is None else offered
        )

    @cached_property
    def _forms(self) -> Mapping[str, set[str]]:
        forms: dict[str, set[str]] = defaultdict(set)
        for key, plain in self._listed.items():
            own = (
                (plain, f"{key.source or ''}{plain}")
                if len(plain) <= LONGEST_KEYED
                else ()
            )
            for form in (self._names[key], *own):
                forms[name_key(form)].add(self._names[key])
        return forms

    def resolve(self, name: str) -> str | None:
        """Return the only offered name that matches; None without a match or with several."""
        if name in self._offered:
            return name
        meant = self.candidates(name)
        if len(meant) == 1:
            return meant[0]
        return None

    def candidates(self, name: str) -> tuple[str, ...]:
        """Return all offered names that match in any form, sorted."""
        form = name_key(name)
        if form:
            return tuple(sorted(self._forms.get(form, ())))
        return ()
