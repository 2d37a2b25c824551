"""Find secrets that a server's entry contains literally instead of by reference."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mcpagent.config.spellings import KEYS
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secret_shapes import SHAPES, shape_pattern
from mcpagent.utilities.text.secrets import (
    named_words,
    secrets_in_server_address,
    secrets_under,
    without_shapes,
)

_REFERENCE = re.compile(r"\$\{[^{}]*\}|\$[A-Za-z_][A-Za-z0-9_]*")
_SCHEME = re.compile(r"(?:Bearer |Basic |Token )?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LiteralSecret:
    """A secret at a `path` of keys in the entry, and `variable`, a suitable name for an environment variable.

    `before` is the beginning of the value that is not secret: `Bearer `, `--token=`. `length` is the length of the
    secret if other text follows, as in an address; None: up to the end.
    """

    path: tuple[str | int, ...]
    variable: str
    before: str = ""
    length: int | None = None

    def __str__(self) -> str:
        return ".".join(str(step) for step in self.path)


def literal_secrets(entry: Mapping[str, Any]) -> list[LiteralSecret]:
    """Return the secrets that an entry contains in plain text; a reference such as `${TOKEN}` is not one."""
    return [
        *_of_objects(entry),
        *_of_arguments(entry.get("args")),
        *_of_addresses(entry),
    ]


def literal_values(entry: Mapping[str, Any]) -> list[str]:
    """Return the values of the secrets that an entry contains in plain text."""
    values: list[str] = []
    for found in literal_secrets(entry):
        text: Any = entry
        for step in found.path:
            text = text[step]
        start = len(found.before)
        end = None if found.length is None else start + found.length
        values.append(str(text)[start:end])
    return values


def literal_warnings(server: str, entry: Mapping[str, Any]) -> list[str]:
    """Return a warning that names the literal secrets of an entry and the command that moves them; [] without
    secrets.
    """
    places = ", ".join(dict.fromkeys(map(str, literal_secrets(entry))))
    moving = f"mcpagent keys move {shlex.quote(server)}"
    if places:
        return [
            f"{server}: a secret is written out in {safe_line(places, 200)}; keep it in the keyring: {moving}"
        ]
    return []


def _of_objects(entry: Mapping[str, Any]) -> Iterator[LiteralSecret]:
    for key in (*KEYS["env"], *KEYS["headers"], *KEYS["sign_in"]):
        given = entry.get(key)
        for name, value in given.items() if isinstance(given, Mapping) else ():
            if isinstance(value, str) and _is_secret(str(name), value):
                if key in KEYS["env"]:
                    variable = str(name)
                else:
                    variable = variable_name(str(name))
                yield LiteralSecret((key, str(name)), variable, _scheme(value))


def _of_arguments(args: Any) -> Iterator[LiteralSecret]:
    if not isinstance(args, list):
        return
    words = [word if isinstance(word, str) else "" for word in args]
    named = {place: (name, value) for place, name, value in named_words(words)}
    for place, word in enumerate(words):
        name, value = named.get(place, ("", word))
        if _is_secret(name, value):
            before = word.removesuffix(value) + _scheme(value)
            yield LiteralSecret(
                ("args", place), variable_name(name) if name else "TOKEN", before
            )


def _of_addresses(entry: Mapping[str, Any]) -> Iterator[LiteralSecret]:
    """Yield the secrets in addresses, the last one first, so that replacing one does not move the others."""
    for key in KEYS["url"]:
        address = entry.get(key)
        if not isinstance(address, str) or holds_a_reference(address):
            continue
        for start, length in sorted(_places_in(address), reverse=True):
            yield LiteralSecret((key,), "TOKEN", address[:start], length)


def _places_in(address: str) -> list[tuple[int, int]]:
    """Return start and length of each secret in an address."""
    values = sorted(set(secrets_in_server_address(address)), key=len, reverse=True)
    spans = [(address.find(value), len(value)) for value in values]
    for shape in SHAPES:
        matches = shape_pattern(shape).finditer(address)
        found = [(match.end(1), match.end()) for match in matches]
        spans += [(start, end - start) for start, end in found]
    places: list[tuple[int, int]] = []
    for start, length in spans:
        is_apart = all(
            start + length <= at or at + size <= start for at, size in places
        )
        if start >= 0 and is_apart:
            places.append((start, length))
    return places


def _is_secret(name: str, value: str) -> bool:
    if holds_a_reference(value):
        return False
    return without_shapes(value) != value or any(secrets_under(name, value))


def _scheme(value: str) -> str:
    found = _SCHEME.match(value)
    if found:
        return found.group()
    return ""


def holds_a_reference(text: str) -> bool:
    """Return whether the text refers to a variable, such as `${TOKEN}`."""
    return _REFERENCE.search(text) is not None


def variable_name(text: str) -> str:
    """Return a name for an environment variable made from the text."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").upper()
    if name and not name[0].isdigit():
        return name
    return f"KEY_{name}".rstrip("_")
