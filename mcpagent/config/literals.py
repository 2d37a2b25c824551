"""Find secrets that a server's entry contains literally instead of by reference."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from mcpagent.config.spellings import KEYS
from mcpagent.text.secret_shapes import sureness, without_shapes

_REFERENCE = re.compile(r"\$\{[^{}]*\}|\$[A-Za-z_][A-Za-z0-9_]*")
_RANDOM = re.compile(r"(?<![A-Za-z0-9])(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{20,}(?![A-Za-z0-9])")
"""Letters and digits without a word break, as keys have them and names of packages and models do not."""

_NAMED_WORD = re.compile(r"((?:--?[A-Za-z][\w-]*|[A-Za-z_]\w*)=|[A-Za-z][\w-]*: *)([^=].*)", re.DOTALL)
_OPTION = re.compile(r"--|-[A-Za-z]{2}")
_SCHEME = re.compile(r"(?:Bearer |Basic |Token )?", re.IGNORECASE)

_HARMLESS_HEADERS = frozenset({"accept", "content-type", "user-agent", "x-mcp-toolsets", "x-mcp-readonly"})


@dataclass(frozen=True, slots=True)
class LiteralSecret:
    """A value that looks like a secret: its `path` of keys in the entry, and a fitting name for a variable.

    `before` is the beginning of the value that is not secret: `Bearer `, `--token=`.
    """

    path: tuple[str | int, ...]
    variable: str
    before: str = ""

    def __str__(self) -> str:
        return ".".join(str(step) for step in self.path)


def literal_secrets(entry: Mapping[str, Any]) -> list[LiteralSecret]:
    """Return the literal secrets in an entry as written; a reference such as `${TOKEN}` is none."""
    return list(_secrets(entry))


def is_literal_secret(name: str, value: str) -> bool:
    """Return whether a value under this name looks like a secret."""
    rest = _REFERENCE.sub("", value).strip()
    if rest.lower() in ("", "bearer", "basic", "token"):
        return False
    if without_shapes(value) != value or _RANDOM.search(rest):
        return True
    return sureness(name) > 0 and len(rest) >= 6 and not _is_a_place(rest)


def _is_a_place(value: str) -> bool:
    """Return whether the value is a path, an address or a number, as of TOKEN_FILE and KEY_LIMIT."""
    return value.startswith(("/", "~", "./", "http://", "https://")) or (value.isdecimal() and len(value) < 8)


def _secrets(entry: Mapping[str, Any]) -> Iterator[LiteralSecret]:
    yield from _named_secrets(entry)
    args = entry.get("args")
    if isinstance(args, list):
        yield from _secrets_of_words([item if isinstance(item, str) else "" for item in args])
    for key in KEYS["sign_in"]:
        for name, value in _strings(entry.get(key)):
            if is_literal_secret(name, value):
                yield LiteralSecret((key, name), variable_name(name))
    for key in ("url", "serverUrl", "httpUrl", "endpoint"):
        if _is_secret_url(str(entry.get(key) or "")):
            yield LiteralSecret((key,), "TOKEN")


def _named_secrets(entry: Mapping[str, Any]) -> Iterator[LiteralSecret]:
    for key in ("env", "envs", "headers", "http_headers", "requestOptions"):
        is_variable = key.startswith("env")
        for name, value in _strings(entry.get(key)):
            if (is_variable or name.lower() not in _HARMLESS_HEADERS) and is_literal_secret(name, value):
                yield LiteralSecret((key, name), name if is_variable else variable_name(name), _scheme(value))


def _secrets_of_words(words: list[str]) -> Iterator[LiteralSecret]:
    for index, word in enumerate(words):
        option = words[index - 1] if index and _OPTION.match(words[index - 1]) else ""
        if (found := _in_word(word, "" if "=" in option else option)) is not None:
            name, before = found
            yield LiteralSecret(("args", index), variable_name(name) if sureness(name) > 0 else "TOKEN", before)


def _in_word(word: str, option: str) -> tuple[str, str] | None:
    """Name and beginning of the secret in an argument: in `--token=x`, `TOKEN=x`, or in `x` after `--token`."""
    named = _NAMED_WORD.fullmatch(word)
    if named and is_literal_secret(named[1], named[2]):
        return named[1], named[1] + _scheme(named[2])
    if named and named[1].startswith("--") and (inner := _in_word(named[2], "")) is not None:
        return inner[0], named[1] + inner[1]  # of `--header=Authorization: Bearer x`, `--env=TOKEN=x`
    if not word.startswith("-") and is_literal_secret(option, word):
        return option, _scheme(word)
    return None


def _scheme(value: str) -> str:
    found = _SCHEME.match(value)
    return found.group() if found else ""


def _is_secret_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    if parts.password or without_shapes(url) != url:
        return True
    return any(is_literal_secret(name, value) for name, value in parse_qsl(parts.query))


def holds_a_reference(text: str) -> bool:
    """Return whether the text contains a variable, such as `${TOKEN}`."""
    return _REFERENCE.search(text) is not None


def variable_name(text: str) -> str:
    """Return the text as the name of an environment variable."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").upper()
    return name if name and not name[0].isdigit() else f"KEY_{name}".rstrip("_")


def _strings(value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        yield from ((str(name), item) for name, item in value.items() if isinstance(item, str))
