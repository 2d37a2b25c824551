"""Secrets of a server's configuration taken out of what is shown of it, wherever it is shown.

By their value: in results, which go to the model, to files and to the terminal, only whole values are replaced, so that
nothing else is spoiled. In errors, logs and warnings so is the beginning of one, and what looks like a key.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from mcpagent.config import ServerConfig
from mcpagent.config.literals import literal_secrets
from mcpagent.messages import Text
from mcpagent.text.known_secrets import REDACTED, SHORTEST, known_values
from mcpagent.text.secret_shapes import names_a_secret, without_shapes
from mcpagent.tools import ToolOutput

_LEAST_PREFIX = 8
_DEEPEST = 100
_PLAIN_HEADERS = frozenset({"accept", "accept-encoding", "accept-language", "content-type", "user-agent"})
_CERTAIN = re.compile(r"secret|pass|pwd", re.IGNORECASE)
_HARMLESS = re.compile(r"[a-z]{1,15}|[A-Z]{1,15}|\d{1,7}|true|false|~?/.*|[a-z]{1,10}://.*", re.DOTALL)
"""A word, a number, a path or an address, which a variable like AUTH_MODE or KEY_FILE may hold."""


_AUTHOR = re.compile(r"author(?!i[sz])", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{[^{}]*\}")
_SCHEME = re.compile(r"(?:Bearer|Basic|Token) +(?=\S)", re.IGNORECASE)


class Redactor:
    """Replaces each secret value of one configuration wherever it appears, also as JSON, in a URL or in base64.

    Secrets are all header values, the values of the environment, of queries and of arguments whose name or look says
    so, and what stands for a `${NAME}` that names a secret; shorter ones than six characters are left, since replacing
    them would spoil the text and hide nothing. So are keys from the keyring and tokens of sign-ins, wherever they are
    used, also those that come later.
    """

    def __init__(self, config: ServerConfig) -> None:
        self._own = frozenset(value for value in secrets_of(config) if len(value) >= SHORTEST)
        self._known: frozenset[str] | None = None
        self._values: list[str] = []
        self._long: list[str] = []

    def __call__(self, text: str) -> str:
        """For what is shown of a server: errors, warnings, its last words."""
        text = self.result(text)
        for value in self._long:
            text = _without_beginnings(text, value)
        return without_shapes(text)

    def result(self, text: str) -> str:
        """For what a server returns; a text of 50 MB takes a tenth of a second."""
        if (known := known_values()) is not self._known:
            self._take(known)
        for value in self._values:
            text = text.replace(value, REDACTED)
        return text

    def output(self, output: ToolOutput) -> ToolOutput:
        """For what a model gets of a result: each text in it, and the same as data."""
        if output.structured is not None and (data := self.json(output.structured)) != output.structured:
            output = replace(output, structured=data)
        clean = {part.text: self.result(part.text) for part in output.content if isinstance(part, Text)}
        if all(text == shown for text, shown in clean.items()):
            return output
        parts = (replace(part, text=clean[part.text]) if isinstance(part, Text) else part for part in output.content)
        return replace(output, content=tuple(parts))

    def json(self, value: Any) -> Any:
        """For a JSON value of what a server lists or asks: each text in it, keys too."""
        return self._json(value, 0) if self._own or known_values() else value

    def _json(self, value: Any, depth: int) -> Any:
        if isinstance(value, str) or depth > _DEEPEST:
            return self.result(value) if isinstance(value, str) else REDACTED
        if isinstance(value, dict):
            return {self.result(str(key)): self._json(item, depth + 1) for key, item in value.items()}
        return [self._json(item, depth + 1) for item in value] if isinstance(value, list) else value

    def _take(self, known: frozenset[str]) -> None:
        spellings = {spelling for value in self._own | known for spelling in _spellings(value)}
        self._known = known
        self._values = sorted(spellings, key=lambda value: (-len(value), value))
        self._long = [value for value in self._values if len(value) > _LEAST_PREFIX]


def _without_beginnings(text: str, value: str) -> str:
    """The text without the first eight or more characters of a value."""
    start = text.find(value[:_LEAST_PREFIX])
    while start >= 0:
        end = start + _LEAST_PREFIX
        while end - start < len(value) and text[end : end + 1] == value[end - start]:
            end += 1
        text = text[:start] + REDACTED + text[end:]
        start = text.find(value[:_LEAST_PREFIX], start + len(REDACTED))
    return text


def _spellings(value: str) -> Iterator[str]:
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    with_bytes = value.encode("utf-8", "surrogatepass")
    for in_address in (quote(with_bytes, safe=""), quote_plus(with_bytes)):
        yield in_address
        yield re.sub("%..", lambda found: found.group().lower(), in_address)
    yield base64.b64encode(with_bytes).decode().rstrip("=")
    for line in value.splitlines():  # a key of several lines, in a log of single lines
        if len(line) >= SHORTEST * 2:
            yield line


def secrets_of(config: ServerConfig) -> Iterator[str]:
    """The values of a server's configuration that must not be shown."""
    for name, value in config.headers.items():
        if name.lower() not in _PLAIN_HEADERS:
            yield value
            scheme, _, rest = value.partition(" ")
            if rest:
                yield rest
            if scheme.lower() == "basic":
                yield _password(rest)
        if name.lower() == "cookie":
            yield from (pair.partition("=")[2].strip() for pair in value.split(";"))
    yield from _secrets_in(config.env.items())
    sign_in = config.sign_in
    yield from (sign_in.client_secret, sign_in.private_key, sign_in.token, sign_in.idp_client_secret)
    yield from secrets_of_address(config.url)
    yield from _password_in(config.url)
    yield from _secrets_in_words(config.args)
    for whole, shown in config.told.items():
        yield from _behind_references(whole, shown)


def words_without_secrets(config: ServerConfig) -> list[str]:
    """The arguments with what is secret in them left out: they say which server this is, whatever its key is today."""
    hidden = sorted({*_secrets_in_words(config.args)}, key=lambda value: (-len(value), value))
    hidden += [value for whole, shown in config.told.items() for value in _behind_references(whole, shown)]
    words = list(config.args)
    for value in hidden:
        if len(value) >= SHORTEST:
            words = [word.replace(value, REDACTED) for word in words]
    return words


def address_without_secrets(config: ServerConfig) -> str:
    """The address likewise."""
    url = config.told.get(config.url, config.url)
    for value in sorted({*secrets_of_address(url)}, key=lambda value: (-len(value), value)):
        for spelling in sorted({*_spellings(value)}, key=len, reverse=True) if len(value) >= SHORTEST else ():
            url = url.replace(spelling, REDACTED)
    return url


def _secrets_in_words(words: Sequence[str], *, is_piece: bool = False) -> Iterator[str]:
    """Of `--token=x`, `--token x`, `-e TOKEN=x`, `Authorization: Bearer x`, an address, and what looks like a key."""
    for found in literal_secrets({"args": list(words)}):
        index = found.path[1]
        assert isinstance(index, int)
        value = words[index].removeprefix(found.before)
        option = found.before + (words[index - 1] if index and words[index - 1].startswith("-") else "")
        is_named = names_a_secret(option) and not _AUTHOR.search(option)
        is_certain = bool(_CERTAIN.search(option)) and not value.startswith(("/", "~", "./"))
        looks_so = without_shapes(value) != value or _looks_random(value)
        if looks_so or is_certain or (is_named and not _HARMLESS.fullmatch(value)):
            yield value
    for before, word in zip(("", *words), words, strict=False):
        if word.startswith("-----BEGIN") and before.startswith("-"):
            yield word
        yield from _password_in(word)
        if not is_piece:
            yield from _secrets_within(word)
        with contextlib.suppress(ValueError):
            yield from secrets_of_address(word if "://" in word else "")


def _behind_references(whole: str, shown: str) -> Iterator[str]:
    """The values that stand in a text where `${NAME}` stands in what may be shown of it."""
    pieces = _REFERENCE.split(shown)
    if found := re.fullmatch("(.*?)".join(map(re.escape, pieces)), whole, re.DOTALL):
        yield from found.groups()


def secrets_of_address(url: str) -> Iterator[str]:
    """The values of a query that must not be shown: libraries log addresses whole."""
    yield from _secrets_in(parse_qsl(urlsplit(url).query))


def _secrets_in(named: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, value in named:
        yield from _password_in(value)
        yield from _secrets_within(value)
        if _CERTAIN.search(name) or (names_a_secret(name) and not _HARMLESS.fullmatch(value)) or _looks_random(value):
            yield value
            yield _SCHEME.sub("", value, count=1)


def _secrets_within(value: str) -> Iterator[str]:
    """Of a value that holds several: JSON, a command for a shell, settings with semicolons between them."""
    if value.lstrip().startswith(("{", "[")):
        with contextlib.suppress(ValueError, RecursionError):
            yield from _secrets_in(_named_texts("", json.loads(value)))
    elif re.search(r"[\s;]", value):
        pieces = value.replace(";", " ")
        yield from _secrets_in_words(pieces.split(), is_piece=True)
        with contextlib.suppress(ValueError):  # a quotation mark that stands alone
            yield from _secrets_in_words(shlex.split(pieces), is_piece=True)


def _named_texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """The texts of a JSON value, each with its key."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else ((name, item) for item in value):
            yield from _named_texts(key, item)


def _password_in(address: str) -> Iterator[str]:
    """The password of `scheme://user:password@host`, as it stands there and decoded, and the whole address."""
    try:
        password = urlsplit(address).password
    except ValueError:
        return
    if password:
        yield from (password, unquote(password), address)


def _password(basic: str) -> str:
    try:
        return base64.b64decode(basic, validate=True).decode("utf-8", "replace").partition(":")[2]
    except ValueError:
        return ""


def _looks_random(value: str) -> bool:
    """Long, with letters and digits and nothing that a path, address or sentence has."""
    return bool(re.fullmatch(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9_\-+=.]{20,}", value))
