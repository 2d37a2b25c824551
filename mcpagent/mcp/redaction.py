"""Redact the secrets of a server's configuration in everything that shows them.

Redaction goes by value. In results, which go to the model, to files and to the terminal, only whole values are
replaced, so that nothing else is damaged. In errors, logs and warnings, the beginning of a value is replaced, too, and
text with the shape of a key.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from mcpagent.config import ServerConfig
from mcpagent.messages import Text
from mcpagent.text.known_secrets import REDACTED, SHORTEST, known_values
from mcpagent.text.secret_shapes import is_secret_value, looks_random, sureness, without_shapes
from mcpagent.tools import ToolOutput

_LEAST_PREFIX = 8
_DEEPEST = 100
_PLAIN_HEADERS = frozenset({"accept", "accept-encoding", "accept-language", "content-type", "user-agent"})
_IDENTIFIER = re.compile(r"[A-Za-z]+(?:_[A-Za-z]+)*")
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_SCHEME = re.compile(r"^(?:Bearer|Basic|Token) +(?=\S)", re.IGNORECASE)
_DEEPEST_TEXT = 5
_OPTION = re.compile(r"--?[A-Za-z][\w.-]{0,100}")
_OF_USERS = frozenset(("-u", "-U", "--user", "--proxy-user", "--userpwd", "--userpass", "--login", "-a"))
_OF_HEADERS = frozenset(("-H", "--header", "--headers"))
_OF_ENVIRONMENT = frozenset(("-e", "--env"))
_LETTERED = re.compile(r"-[pPkt]")
_TAKES_P = frozenset(("mysql", "mysqldump", "mysqladmin", "mysqlimport", "mariadb", "mariadb-dump", "sshpass"))
_NAMED = re.compile(r"([-/$]{0,2}[A-Za-z_][\w.-]{0,100})(:=|=|: *)([^=\s].*)", re.DOTALL)
_PAIR = re.compile(r"[\w.+\\-]{1,64}:(?!//)(\S{6,})")
_AT_HOST = re.compile(r"(?!npm:|jsr:)[\w.+-]{1,64}:([^@\s/]{6,})@(?!sha\d+:)[A-Za-z][\w.-]*(?:[:/(].*)?", re.DOTALL)
_LINE = re.compile(r"[ \t]*([A-Za-z_][\w.-]{0,100})[ \t]{0,20}(?:=|:[ \t])[ \t]{0,20}([^\s=\"'].*)")
_CALL = re.compile(r"= ?[A-Za-z_][\w.]{0,100}\(")
_CODE = re.compile(r"[A-Za-z_][\w.]*\[.*|(?=.*[a-z][._A-Z])[A-Za-z_.]+", re.DOTALL)
"""Where a program has its secret from: `os.environ[...]`, `settings.token`."""

_LINE_END = re.compile(r"[\r\n;]+")
_ASSIGNED = re.compile(r"""([A-Za-z_]\w{0,100})=(["'])(.*)\2""", re.DOTALL)
_VERSION = re.compile(r"v?\d+(?:\.\d+)+[\w.-]*|v\d+")
_QUOTED = re.compile(
    r"""(?<![\w-])([A-Za-z_][\w.-]{0,63})[\\"'\]]{0,6}\s{0,4}(?:=>|:=|[:=])\s{0,4}\\{0,3}"""
    r"""(?:"((?:Bearer |Basic |Token )?[^"\s\\]{6,4000})\\{0,3}\"|"""
    r"""'((?:Bearer |Basic |Token )?[^'\s\\]{6,4000})\\{0,3}')""",
)
"""A name and a quoted value, as programs and their data have them: `environ["TOKEN"] = "x"`, `{token: 'x'}`."""

_EXPANSION = re.compile(r"\$\{(\w{1,100})(?::?[-=]([^{}]*)|[^{}]*)\}")
_PIECE = re.compile(r"""(?:[^\s;&|(){}<>`"'\\]|\\.|"(?:[^"\\]|\\.)*+"|'[^']*+')++""", re.DOTALL)
_QUOTES = re.compile(r""""((?:[^"\\]|\\.)*+)"|'([^']*+)'|\\(["'\\\s$`])""", re.DOTALL)


class Redactor:
    """Replaces each secret value of one configuration wherever it appears, also as JSON, in a URL or in base64.

    Secrets are all header values, the values of the environment, of queries and of arguments with a secret name or
    shape, and the values of `${NAME}` references with secret names. Values shorter than six characters stay: replacing
    them would damage the text and hide nothing. Keys from the keyring and tokens of sign-ins are secrets everywhere,
    including those added later.
    """

    def __init__(self, config: ServerConfig) -> None:
        self._own = frozenset(value for value in secrets_of(config) if len(value) >= SHORTEST)
        self._known: frozenset[str] | None = None
        self._values: list[str] = []
        self._long: list[str] = []

    def __call__(self, text: str) -> str:
        """Redact text that is shown about a server: errors, warnings, its last output."""
        text = self.result(text)
        for value in self._long:
            text = _without_beginnings(text, value)
        return without_shapes(text)

    def result(self, text: str) -> str:
        """Redact a server's result; a text of 50 MB takes a tenth of a second."""
        if (known := known_values()) is not self._known:
            self._take(known)
        for value in self._values:
            text = text.replace(value, REDACTED)
        return text

    def output(self, output: ToolOutput) -> ToolOutput:
        """Redact a result for a model: each text in it, and its structured data."""
        if output.structured is not None and (data := self.json(output.structured)) != output.structured:
            output = replace(output, structured=data)
        clean = {part.text: self.result(part.text) for part in output.content if isinstance(part, Text)}
        if all(text == shown for text, shown in clean.items()):
            return output
        parts = (replace(part, text=clean[part.text]) if isinstance(part, Text) else part for part in output.content)
        return replace(output, content=tuple(parts))

    def json(self, value: Any) -> Any:
        """Redact a JSON value from a server's lists or questions: each text in it, keys too.

        Two keys never become one, and a parameter with a plain name keeps it, because it must be callable.
        """
        return self._json(value, 0) if self._own or known_values() else value

    def _json(self, value: Any, depth: int, names: Collection[str] = ()) -> Any:
        if isinstance(value, str) or depth > _DEEPEST:
            if isinstance(value, str):
                if value in names:
                    return value
                return self.result(value)
            return REDACTED
        if isinstance(value, dict):
            return self._of_object(value, depth, names)
        return [self._json(item, depth + 1, names) for item in value] if isinstance(value, list) else value

    def _of_object(self, value: dict[Any, Any], depth: int, names: Collection[str]) -> dict[str, Any]:
        properties, shown = value.get("properties"), dict[str, Any]()
        own = {name for name in properties if _IDENTIFIER.fullmatch(str(name))} if isinstance(properties, dict) else ()
        for key, item in value.items():
            text = str(key) if key in names else self.result(str(key))
            name, count = text, 1
            while name in shown or (name != key and name in value):
                count += 1
                name = f"{text} {count}"
            shown[name] = self._json(item, depth + 1, own if key in ("properties", "required") else ())
        return shown

    def _take(self, known: frozenset[str]) -> None:
        spellings = {spelling for value in self._own | known for spelling in _spellings(value)}
        self._known = known
        self._values = sorted(spellings, key=lambda value: (-len(value), value))
        self._long = [value for value in self._values if len(value) > _LEAST_PREFIX]


def _without_beginnings(text: str, value: str) -> str:
    """Return the text without the first eight or more characters of a value."""
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
    """Yield the values of a server's configuration that must not be shown."""
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
    yield from _in_words((config.command or "", *config.args))
    for whole, shown in config.told.items():
        yield from _behind_references(whole, shown)


def words_without_secrets(config: ServerConfig) -> list[str]:
    """Return the arguments without secrets; they identify the server, whatever its current key is."""
    hidden = sorted({*_in_words((config.command or "", *config.args))}, key=lambda value: (-len(value), value))
    hidden += [value for whole, shown in config.told.items() for value in _behind_references(whole, shown)]
    words = list(config.args)
    for value in hidden:
        if len(value) >= SHORTEST > len(next(_password_in(value), "")):  # of an address its password is enough
            words = [word.replace(value, REDACTED) for word in words]
    return words


def address_without_secrets(config: ServerConfig) -> str:
    """Return the server's address without its secrets."""
    url = config.told.get(config.url, config.url)
    for value in sorted({*secrets_of_address(url)}, key=lambda value: (-len(value), value)):
        for spelling in sorted({*_spellings(value)}, key=len, reverse=True) if len(value) >= SHORTEST else ():
            url = url.replace(spelling, REDACTED)
    return url


def _in_words(words: Sequence[str], level: int = 0, depth: int = 0) -> Iterator[str]:
    """Yield the secrets in arguments and commands: `--token=x`, `--token x`, `-e TOKEN=x`, an address, a lone key.

    `level` is the number of enclosing commands: in a text within a command, a plain word belongs to a sentence.
    """
    option, takes_p = "", False
    for word in words:
        takes_p = takes_p or word.rpartition("/")[2] in _TAKES_P
        attached = word[2:] if word.startswith("-p") and len(word) >= SHORTEST + 2 else ""
        if attached and (takes_p or looks_random(attached, 10)):
            yield attached
        if word.startswith("-----BEGIN") and option:
            yield word
        is_value = not word.startswith("-") or looks_random(word, 10)
        yield from _in_value(option if is_value else "", word, level, depth)
        option = word if _OPTION.fullmatch(word) else ""


def _in_value(name: str, text: str, level: int = 0, depth: int = 0) -> Iterator[str]:
    """Yield the secrets in a value with this name: the value itself, or those of its address, command or data."""
    named = _NAMED.fullmatch(text)
    if named and name not in _OF_ENVIRONMENT and _is_command(named[1], named[2], named[3]):
        named = None
    sure = sureness(name)
    is_plain = (level > 1 and text.isalpha()) or (level > 0 and _is_code(text))
    if (sure > 0 or named is None) and not is_plain and is_secret_value(name, text):
        yield from _with_and_without_scheme(text)
    elif _LETTERED.fullmatch(name) and looks_random(text, 10):
        yield text
    pair = _PAIR.fullmatch(text) if name in _OF_USERS or sure == 1 else None
    if pair and (is_secret_value("key", pair[1]) or (sure == 1 and "basic" in name.lower())):
        yield pair[1]
    if (rest := _SCHEME.sub("", text)) != text and is_secret_value("key", rest):
        yield from _with_and_without_scheme(text)
    if depth >= _DEEPEST_TEXT:
        return
    if (found := _AT_HOST.fullmatch(text)) and is_secret_value("key", found[1]):
        yield found[1]
    if named is not None:
        yield from _in_named(named[1], named[2], named[3], level, depth, is_header=name in _OF_HEADERS)
    elif "://" in text:
        yield from _in_address(text)
    yield from _within(text, level, depth)


def _is_command(name: str, sign: str, value: str) -> bool:
    """Return whether it is an address, or a command after `NAME=x`: of `TOKEN=x serve`, only `x` is secret."""
    if value.startswith("//") or sign != "=":
        return value.startswith("//")
    return _is_text(_SCHEME.sub("", value)) and (name[0] not in "-/" or re.search(r"\s-", value) is not None)


def _is_code(value: str) -> bool:
    return _CODE.fullmatch(value) is not None and ("[" in value or sureness(value) > 0)


def _is_text(value: str) -> bool:
    return re.search(r"\s", value) is not None


def _with_and_without_scheme(value: str) -> Iterator[str]:
    rest = _SCHEME.sub("", value)
    yield from (value, rest)
    if value[:6].lower() == "basic ":
        yield _password(rest)


def _in_named(name: str, sign: str, value: str, level: int, depth: int, *, is_header: bool) -> Iterator[str]:
    """Yield the secrets of `--name=value` and `Name: value`; after a colon, only a single word is a secret."""
    rest = _SCHEME.sub("", value)
    is_header = is_header or name[:2].lower() in ("x-", "-h")
    if sign.startswith(":") and sign != ":=" and not is_header:
        is_said = _is_text(rest) or (sign != ":" and rest.isalpha() and rest == value) or _VERSION.fullmatch(rest)
        if is_said:
            return
    is_named = sureness(name) > 0
    if (rest != value and (is_header or is_named) and len(rest) >= SHORTEST) or (
        is_header and is_named and not _is_text(rest) and is_secret_value("token", rest)
    ):
        yield from (value, rest)
    if is_header and name.lower().endswith("cookie"):
        yield from (pair.partition("=")[2].strip() for pair in value.split(";"))
    yield from _in_value(name, value, level, depth + 1)


def _within(text: str, level: int, depth: int) -> Iterator[str]:
    """Yield the secrets in data and programs, in settings separated by commas or semicolons, in shell commands."""
    for found in _QUOTED.finditer(text):
        value = found[2] or found[3]
        if sureness(found[1]) > 0 and is_secret_value(found[1], value):
            yield from _with_and_without_scheme(value)
        elif value != text:
            yield from _in_value(found[1], value, level, depth + 1)
    if text.lstrip().startswith(("{", "[")):
        with contextlib.suppress(ValueError, RecursionError):
            yield from _secrets_in(_named_texts("", json.loads(text)), depth + 1)
    for line in filter(None, map(_LINE.fullmatch, _LINE_END.split(text) if _LINE_END.search(text) else ())):
        yield from _in_named(line[1], ": ", line[2], level or 1, depth + 1, is_header=False)
    if re.search(r"[\s;&|(){}<>`]", text):
        yield from _in_command(text, level + 1, depth + 1)
    elif "," in text and "=" in text:
        for part in text.split(","):
            if "=" in part:
                yield from _in_value("", part, level or 1, depth + 1)


def _in_command(text: str, level: int, depth: int) -> Iterator[str]:
    text = _EXPANSION.sub(lambda found: f" {found[1]}={found[2]} " if found[2] else "$", text)
    raw = [piece[:-1] if piece[-2:] in ("',", '",') else piece for piece in _PIECE.findall(_CALL.sub("= (", text))]
    for found in filter(None, map(_ASSIGNED.fullmatch, raw)):
        yield from _in_value(found[1], found[3], level - 1, depth)
    pieces = [_QUOTES.sub(_unquoted, piece) for piece in raw]
    if pieces != [text]:
        yield from _in_words(pieces, level, depth)


def _behind_references(whole: str, shown: str) -> Iterator[str]:
    """Yield the values in a text at the positions where its redacted form has `${NAME}`."""
    pieces = _REFERENCE.split(shown)
    if found := re.fullmatch("(.*?)".join(map(re.escape, pieces[::2])), whole, re.DOTALL):
        for name, value in zip(pieces[1::2], found.groups(), strict=True):
            is_named = name.startswith("keyring:") or sureness(name.removeprefix("env:").partition(":-")[0]) >= 0
            if is_named or is_secret_value("key", value):
                yield value
            yield from _in_value("", value)


def secrets_of_address(url: str) -> Iterator[str]:
    """Yield the secret values of a query and a fragment, because libraries log whole addresses."""
    parts = urlsplit(url)
    yield from _secrets_in((*parse_qsl(parts.query), *parse_qsl(parts.fragment)))


def _in_address(address: str) -> Iterator[str]:
    """Yield the secrets of an address: in its query, its password, and a user name that is a key."""
    yield from _password_in(address)
    with contextlib.suppress(ValueError):
        yield from secrets_of_address(address)
        user = urlsplit(address).username
        if user and looks_random(user, 10):
            yield user


def _unquoted(found: re.Match[str]) -> str:
    return next(filter(None, found.groups()), "")


def _secrets_in(named: Iterable[tuple[str, str]], depth: int = 0) -> Iterator[str]:
    """Yield the secrets of variables, queries and data; a password counts whatever its shape."""
    for name, value in named:
        if sureness(name) == 3:
            yield from _with_and_without_scheme(value)
        yield from _in_value(name, value, 0, depth)


def _named_texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts of a JSON value, each with its key."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else ((name, item) for item in value):
            yield from _named_texts(key, item)


def _password_in(address: str) -> Iterator[str]:
    """Yield the password of `scheme://user:password@host`, as written and decoded, and the whole address."""
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
