"""Secrets: a type that never shows its value, and the replacement of known secrets in text for people and files.

Requests to servers and models are never altered. Text for the terminal, logs, errors, exports, recordings and traces
passes through `without_secrets`. Results for a model pass through `without_random_secrets`, which does not replace
words and numbers.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from heapq import merge
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote, unquote_plus, urlsplit

from mcpagent.utilities.python.plain_data import MALFORMED
from mcpagent.utilities.text.safe_text import safe_text
from mcpagent.utilities.text.secret_shapes import (
    LONGEST_BEFORE,
    MARKS,
    SHAPES,
    Shape,
    any_mark,
    mark_begun,
    shape_pattern,
)
from mcpagent.utilities.text.word_detection import is_word, unread

if TYPE_CHECKING:
    import regex

REDACTED = "[redacted]"
SHORTEST = 8
"""Minimum length of a value to replace: replacing shorter ones would damage the text and protect nothing."""

_SHORTEST_RANDOM = 16
_FEWEST_UNREAD = 11
"""Minimum number of characters outside words and numbers in a random value of 16 characters. Some random characters
happen to form a number, a word, or a part too short to judge.
"""

_JUDGED = 200
"""Number of characters of a value that decide whether it is random."""

Redact: TypeAlias = Callable[[str], str]


class Secret:
    """A text that is passed to a process or in a request, and never shown.

    `origin` is the text in the file, for example `Bearer ${GITHUB_TOKEN}`; "" if the file has the secret itself.
    `repr`, `str` and pickle contain the origin alone, and JSON refuses the type. `revealed()` returns the text.
    """

    __slots__ = ("_text", "origin")

    def __init__(self, text: str, origin: str = "") -> None:
        self._text: str | None = text
        self.origin = origin

    def __str__(self) -> str:
        return self.origin or REDACTED

    def __repr__(self) -> str:
        return f"Secret({str(self)!r})"

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return self._text == (other._text if isinstance(other, Secret) else other)

    def __hash__(self) -> int:
        return hash(self._text)

    def __deepcopy__(self, _: Any = None) -> Secret:
        return self

    __copy__ = __deepcopy__

    def __reduce__(self) -> tuple[Any, ...]:
        return _pickled, (self.origin,)

    def revealed(self) -> str:
        """Return the text. Raises `TypeError` if the secret was pickled, because pickling omits the text."""
        if self._text is None:
            raise TypeError(
                f"{self}: pickling left the secret out; read the configuration again"
            )
        return self._text


def _pickled(origin: str) -> Secret:
    secret = Secret("", origin)
    secret._text = None
    return secret


class SecretMapping(Mapping[str, Any]):
    """A mapping whose values may be secret: `repr` shows only its keys, pickle omits the values, JSON refuses it."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self)})"

    def __deepcopy__(self, _: Any = None) -> SecretMapping:
        return self

    __copy__ = __deepcopy__

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict.fromkeys(self, Secret("")),)


def revealed(text: str | Secret) -> str:
    """Return the text of a secret, for the process or request that needs it; a plain text unchanged."""
    if isinstance(text, Secret):
        return text.revealed()
    return text


def as_written(text: str | Secret) -> str:
    """Return the text as written in its file: literals in full, and references such as `${NAME}` instead of values."""
    if isinstance(text, str):
        return text
    return text.origin or text.revealed()


# -- Which values are secret -------------------------------------------------------------------------------------------

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_CREDENTIAL = (
    r"[a-z]*(?:token|secret|password|passwd|passphrase|passcode|pwd|cookie"
    r"|(?:api|access|secret|private|auth|signing|encryption|master)_?key)s?|creds?|credentials?"
)
_IS_ONE = re.compile(
    rf"(?:.*_)?(?:{_CREDENTIAL}|pass|pat|jwt|auth|bearer|authorization)"
)
_HAS_ONE = re.compile(
    rf"(?:.*_)?(?:{_CREDENTIAL}|keys?)(?:_.*)?(?<!_id)(?<!_ids)|.*sess(?:ion)?_?id"
)
_IS_KEY = re.compile(r"(?:.*_)?keys?")
_IS_PUBLIC = re.compile(r"(?:.*_)?pub(?:lic|lishable)?_?keys?")
_WHICH_ONE = re.compile(
    r"_(?:prod|production|live|stage|staging|dev|development|test|testing|qa|uat|ci|local|sandbox|demo"
    r"|primary|secondary|current|previous|next|old|new|backup|default|main)\Z"
)
"""Suffixes that distinguish several credentials of one kind: `DB_PASSWORD_PROD` is a password like `DB_PASSWORD`."""

_DIGIT = re.compile(r"\d")
_FOLDERS = frozenset({"PWD", "OLDPWD"})
_PLACE = re.compile(r"(?:~|\.{1,2})?/|[A-Za-z]:[\\/]|https?://")
_PAIR = (
    r"""(?<![\w.-])(-{0,2}[A-Za-z][\w.-]{0,60}) ?= ?("[^"]{0,500}"|'[^']{0,500}'|%s)"""
)
_PAIR_BEFORE_SEMICOLON = re.compile(_PAIR % "[^;]+")
_PAIR_BEFORE_SPACE = re.compile(_PAIR % r"\S+")

_OPTION = re.compile(r"--?[A-Za-z][\w-]+")
_NAMED = re.compile(
    r"(?:--(?:env|header)=)?(-{0,2}[A-Za-z][\w-]*)(?:=|:(?!//) *)([^=].*)", re.DOTALL
)
_USER_AND_PASSWORD = re.compile(r"[A-Za-z][\w.-]{0,40}[/:]([^/:]+)")
_SCHEME = re.compile(r"(?:Bearer|Basic|Token) +(?=\S)", re.IGNORECASE)


def _joined(name: str) -> str:
    """Return the words of a name without a suffix such as `_PROD` (`_WHICH_ONE`); "" if the name is of something
    public.
    """
    if name in _FOLDERS:
        return ""
    joined = _WHICH_ONE.sub("", "_".join(_WORDS.findall(name[:200])).lower())
    if _IS_PUBLIC.fullmatch(joined):
        return ""
    return joined


def names_a_credential(name: str) -> bool:
    """Return whether a variable, header or option of this name contains a credential, such as `apiKey` or
    `SORT_KEY`.
    """
    joined = _joined(name)
    return bool(_IS_ONE.fullmatch(joined) or _IS_KEY.fullmatch(joined))


def is_random(value: str) -> bool:
    """Return whether the value is random: at least 16 characters, most of them outside words and numbers."""
    return len(value) >= _SHORTEST_RANDOM and unread(value[:_JUDGED]) >= _FEWEST_UNREAD


def is_secret(value: str) -> bool:
    """Return whether the value is worth replacing in text: at least eight characters, not a word and not a number."""
    return (
        len(value) >= SHORTEST
        and bool(value.strip("0123456789.,:+- "))
        and not is_word(value)
    )


def is_secret_under(name: str, value: str) -> bool:
    """Return whether a literal value under this name is a secret.

    If the name is a credential's (`DB_PASSWORD`), the value is a secret unless it is a word, a number or a location. If
    the name is that of some key (`SORT_KEY`), it is a secret unless it consists of words. If the name only contains a
    credential's (`TOKEN_LIMIT`), it is a secret if it is random.
    """
    if not is_secret(value):
        return False
    joined, is_place = _joined(name), _PLACE.match(value) is not None
    is_own = _IS_ONE.fullmatch(joined) is not None
    if is_own and not is_place:
        return True
    if (is_own or _HAS_ONE.fullmatch(joined)) and is_random(value):
        return True
    return not is_place and bool(_IS_KEY.fullmatch(joined)) and not _is_words(value)


def _is_words(value: str) -> bool:
    """Return whether the value consists of words alone, without a digit."""
    return unread(value[:_JUDGED]) == 0 and _DIGIT.search(value) is None


def secrets_under(name: str, value: str) -> Iterator[str]:
    """Yield the secrets in a literal value under this name, in its parts, and in an address.

    Parts are the password of `user/password` and `user:password`, each value of a connection string such as
    `Server=db;Password=...` or `host=db password=...`, and each text in JSON.
    """
    whole = _SCHEME.sub("", value)
    values = [whole]
    if name.lower().endswith("cookie"):
        values = [pair.partition("=")[2].strip() for pair in value.split(";")]
    if names_a_credential(name):
        if whole != value:
            values += _basic_password(whole)
        if user_and_password := _USER_AND_PASSWORD.fullmatch(whole):
            values.append(user_and_password[1])
    yield from (text for text in values if is_secret_under(name, text))
    pairs = _PAIR_BEFORE_SEMICOLON if ";" in value else _PAIR_BEFORE_SPACE
    for part, text in pairs.findall(value):
        text = text.strip("\"' ")
        if is_secret_under(part, text):
            yield text
    yield from secrets_in_address(value)
    if value.lstrip()[:1] in ("{", "["):
        yield from secrets_in_data(_json(value), name)


def _json(text: str) -> Any:
    """Parse a text as JSON; return None if it is not JSON."""
    try:
        return json.loads(text)
    except MALFORMED:
        return None


def secrets_in_data(data: Any, name: str = "") -> Iterator[str]:
    """Yield the secrets in the texts of JSON data. The nearest key above a text is its name."""
    waiting = [(name, data)]
    while waiting:
        name, item = waiting.pop()
        if isinstance(item, str):
            yield from secrets_under(name, item)
        elif isinstance(item, Mapping):
            waiting += [(str(key), value) for key, value in item.items()]
        elif isinstance(item, list | tuple):
            waiting += [(name, value) for value in item]


def secrets_in_address(address: str) -> Iterator[str]:
    """Yield the password in `scheme://user:password@host`, verbatim and decoded, and credentials in the query.

    A user name is a secret if it is random, or if it is alone in a web address (`https://TOKEN@host`) and does not
    consist of words.
    """
    if "://" not in address:
        return
    try:
        parts = urlsplit(address)
    except ValueError:
        return
    if parts.password:
        yield from (parts.password, unquote(parts.password))
    user = unquote(parts.username or "")
    is_alone = not parts.password and parts.scheme in ("http", "https")
    if is_random(user) or (is_alone and not _is_words(user)):
        yield from (parts.username or "", user)
    for pair in parts.query.split("&"):
        name, _, value = pair.partition("=")
        if is_secret_under(unquote_plus(name), value):
            yield from (value, unquote_plus(value))


def secrets_in_server_address(address: str) -> Iterator[str]:
    """Yield `secrets_in_address`, and each random part of the path or query, which may be the key to a server.

    A UUID or a hash may name a page or a workspace. So only parts with upper-case letters, lower-case letters and
    digits count.
    """
    yield from secrets_in_address(address)
    _, *parts = re.split(r"[/?&=#]", address.partition("://")[2])
    for part in parts:
        text = unquote(part)
        is_mixed = text.lower() != text != text.upper()
        if is_mixed and is_random(text):
            yield from (part, text)


def named_words(words: Sequence[str | Secret]) -> Iterator[tuple[int, str, str]]:
    """Yield the index, name and literal value of arguments: `--token=x`, `--token x`, `TOKEN=x`, `X-Api-Key: x`."""
    option = ""
    for place, word in enumerate(words):
        if isinstance(word, Secret):
            option = ""
            continue
        if named := _NAMED.fullmatch(word):
            yield place, named[1], named[2]
        elif option and (not word.startswith("-") or word.startswith("-----BEGIN")):
            yield place, option, word
        option = ""
        if _OPTION.fullmatch(word):
            option = word


def _basic_password(basic: str) -> Iterator[str]:
    try:
        yield (
            base64.b64decode(basic, validate=True)
            .decode("utf-8", "replace")
            .partition(":")[2]
        )
    except ValueError:
        return


# -- Known secret values -----------------------------------------------------------------------------------------------


_lock = threading.Lock()
_values: frozenset[str] = frozenset()
_spelled: tuple[frozenset[str], tuple[str, ...]] = (frozenset(), ())
_random: tuple[frozenset[str], tuple[str, ...]] = (frozenset(), ())
_UNRESERVED = re.compile("[A-Za-z0-9._~-]+")  # RFC 3986, section 2.3
_ESCAPE = re.compile(r"[%+\\]")
_LONGEST_ESCAPED = 5_000


def hide(*values: str | None) -> None:
    """From now on, replace these values in text for people and files, except short values, words and numbers."""
    global _values
    with _lock:
        fresh = {value for value in values if value and is_secret(value)} - _values
        if fresh:
            _values |= fresh


def hide_environment(environ: Mapping[str, str]) -> None:
    """Hide the values of environment variables with a credential's name."""
    hide(
        *(
            secret
            for name, value in environ.items()
            for secret in secrets_under(name, value)
        )
    )


def known_values() -> frozenset[str]:
    """Return all hidden values; the same object until more are added."""
    return _values


def _spellings() -> tuple[str, ...]:
    """Return the spellings of each known value (verbatim, as displayed, base64), the longest first."""
    global _spelled
    if _spelled[0] is not (known := _values):
        found = {text for value in known for text in _texts_of(value)} - {""}
        longest_first = sorted(found, key=lambda text: (-len(text), text))
        _spelled = known, tuple(longest_first)
    return _spelled[1]


def _texts_of(value: str) -> Iterator[str]:
    data = value.encode("utf-8", "surrogatepass")
    yield from (value, safe_text(value), base64.b64encode(data).decode().rstrip("="))
    # each line of a multi-line key
    yield from (line for line in value.splitlines() if len(line) >= _SHORTEST_RANDOM)


@cache
def _part_of(spelling: str) -> str:
    """Return the longest part of a spelling that neither URLs nor JSON escape; a very long spelling is returned
    whole.
    """
    if len(spelling) > _LONGEST_ESCAPED:
        return spelling
    return max(_UNRESERVED.findall(spelling), key=len, default="")


@cache
def _escaped(spelling: str) -> re.Pattern[str]:
    """Return a pattern that matches the spelling with each character verbatim, as `%2F` or `%2f`, or as JSON may escape
    it.

    Its groups are atomic: a search takes linear time, also for a secret of many backslashes.
    """
    pattern = ""
    for char in spelling:
        if _UNRESERVED.fullmatch(char):
            pattern += re.escape(char)
            continue
        octets = char.encode("utf-8", "surrogatepass")
        ways = [
            "".join(f"%{octet:02x}" for octet in octets),
            re.escape(json.dumps(char)[1:-1]),
            f"\\\\u{ord(char):04x}",
            re.escape(f"\\{char}"),
            re.escape(char),
        ]
        if char == " ":
            ways.append("[+]")
        pattern += f"(?>(?i:{'|'.join(ways)}))"
    return re.compile(pattern)


@cache
def _growing(spelling: str) -> regex.Pattern[str]:
    """Return `_escaped` as a pattern of `regex`, which can also match an incomplete end of a text."""
    import regex

    return regex.compile(_escaped(spelling).pattern)


def _random_values() -> tuple[str, ...]:
    """Return the known random values, the longest first: the ones to redact in results for a model."""
    global _random
    if _random[0] is not (known := _values):
        _random = known, tuple(sorted(filter(is_random, known), key=len, reverse=True))
    return _random[1]


# -- Replacement -------------------------------------------------------------------------------------------------------


def without_secrets(text: str) -> str:
    """Return the text for people and files, with known secrets and issuers' keys replaced.

    If a secret appears only when invisible characters are removed, they are removed from the returned text.
    """
    text = _replaced(text)
    visible = safe_text(text)
    if visible == text:
        return text
    clean = _replaced(visible)
    if clean == visible:
        return text
    return clean


def hide_in_markdown(tokens: Sequence[Any]) -> None:
    """Replace secrets that Markdown emphasis or entities divide: a paragraph with such a secret becomes plain text.

    `tokens` are those of markdown-it.
    """
    for token in tokens:
        if not token.children:
            continue
        plain = safe_text("".join(inner.content for inner in token.children))
        clean = _replaced(plain)
        if clean != plain:
            token.children = [type(token)("text", "", 0, content=clean)]


def _replaced(text: str) -> str:
    spellings = _spellings()
    found = set(_found_in(text, list(map(_part_of, spellings))))
    for spelling in spellings:
        part = _part_of(spelling)
        if part not in found:
            continue
        if part != spelling and _ESCAPE.search(text):
            text = _escaped(spelling).sub(REDACTED, text)
        text = text.replace(spelling, REDACTED)
    return without_shapes("…".join(map(_without_beginning, text.split("…"))))


def _without_beginning(text: str) -> str:
    """Return the text without the first eight or more characters of a known value at its end, where the text may have
    been cut.
    """
    for value in _values:
        start = text.rfind(value[:SHORTEST], max(len(text) - len(value), 0))
        if (
            start >= 0
            and len(value) >= _SHORTEST_RANDOM
            and value.startswith(text[start:])
        ):
            text = text[:start] + REDACTED
    return text


def without_shapes(text: str) -> str:
    """Return the text with everything replaced that has the format of an issuer's key.

    A pattern is tried only where its mark occurs, in one call each, so that other threads run in between.
    """
    found = {*_found_in(text, MARKS)}
    if not found:
        return text
    for shape in SHAPES:
        marks = [mark for mark in shape.marks.split() if mark in found]
        if marks:
            text = _without_shape(text, shape, marks)
    return text


def _without_shape(text: str, shape: Shape, marks: Sequence[str]) -> str:
    pieces, done = list[str](), 0
    for place in merge(*(_places_of(text, mark) for mark in marks)):
        match = _match_at(text, shape, place, done)
        if match is not None:
            pieces += [text[done : match.end(1)], REDACTED]
            done = match.end()
    if not pieces:
        return text
    return "".join([*pieces, text[done:]])


def _match_at(text: str, shape: Shape, place: int, done: int) -> re.Match[str] | None:
    """Return the match of a key whose mark is at `place`. Some keys begin before their mark, but none before `done`."""
    first = place
    if shape.before:
        first = max(done, place - LONGEST_BEFORE)
    pattern = shape_pattern(shape)
    for start in range(max(first, done), place + 1):
        match = pattern.match(text, start)
        if match is not None:
            return match
    return None


def _places_of(text: str, mark: str) -> Iterator[int]:
    """Yield each position of the mark; a long text is searched in steps."""
    start = 0
    while start < len(text):
        place = text.find(mark, start, start + _LOOKED_AT + len(mark) - 1)
        if place < 0:
            start += _LOOKED_AT
        else:
            yield place
            start = place + 1


def _found_in(text: str, words: Sequence[str]) -> list[str]:
    """Return those of `words` that the text contains, in order; a long text is searched in steps, so that other threads
    run.
    """
    if len(text) <= _LOOKED_AT:
        return [word for word in words if word in text]
    found: set[str] = set()
    longest = max(map(len, words), default=0)
    for start in range(0, len(text), _LOOKED_AT):
        piece = text[start : start + _LOOKED_AT + longest]
        found.update([word for word in words if word not in found and word in piece])
    return [word for word in words if word in found]


_LOOKED_AT = 1_000_000
"""Number of characters searched in one step."""


_LAST_WORD = re.compile(r"[!-~]*\Z")
_BOT_ID = re.compile(r"(?<!\d)\d{1,10}(?::A?)?\Z")
KEY_BEGINS, _KEY_ENDS = (
    "-----BEGIN",
    re.compile(r"-----END [A-Z ]{0,20}PRIVATE KEY-----"),
)
LONGEST_KEY = 20_100


def settled_length(text: str) -> int:
    """Return the length of the part of a growing text that no later text can turn into a secret.

    The rest may be the beginning of a known value or of an issuer's key. An ordinary word is settled at once, or with
    the next piece of text if its end could begin a key.
    """
    spellings, spans = _spellings(), list[tuple[int, int]]()
    settled = min((_begun_at(text, value) for value in spellings), default=len(text))
    if _ESCAPE.search(text):
        odd = [value for value in spellings if _part_of(value) != value]
        found = [_growing(value).finditer(text, partial=True) for value in odd]
        matches = list(chain.from_iterable(found))
        spans = [match.span() for match in matches]
        begun = [match.start() for match in matches if match.partial]
        settled = min([settled, *begun])
    match = _LAST_WORD.search(text)
    word = match[0] if match is not None else ""
    if _may_become_key(word):
        settled = min(settled, len(text) - len(word))
    block = text.rfind(KEY_BEGINS)
    if block >= 0 and len(text) - block < LONGEST_KEY:
        ending = _KEY_ENDS.search(text, block)
        if ending is None or ending.end() > settled:
            settled = min(settled, block)
    return _before_secrets(text, spans, settled)


def _before_secrets(text: str, spans: Sequence[tuple[int, int]], end: int) -> int:
    """Return `end`, or the start of the first secret that a cut there would divide. `spans`: positions of escaped
    values.
    """
    before = -1
    while end != before:
        before = end
        for value in _spellings():
            end = _before(text, value, end)
        for start, stop in spans:
            if start < end < stop:
                end = start
    return end


def _before(text: str, value: str, end: int) -> int:
    """Return `end`, or the start of an occurrence of `value` that a cut at `end` would divide."""
    start = text.rfind(value, 0, end + len(value) - 1)
    if 0 <= start < end < start + len(value):
        return start
    return end


def _begun_at(text: str, spelling: str) -> int:
    """Return the position where the end of the text is an incomplete spelling of the secret; the text's length if the
    end is no such spelling.
    """
    start = text.find(spelling[0], max(len(text) - len(spelling) + 1, 0))
    while start >= 0:
        if spelling.startswith(text[start:]):
            return start
        start = text.find(spelling[0], start + 1)
    return len(text)


def _may_become_key(word: str) -> bool:
    """Return whether a word, with more text after it, could become an issuer's key."""
    return any(shape.search(word) for shape in (_BOT_ID, any_mark(), mark_begun()))


def may_hold_secrets(text: str) -> bool:
    """Return whether a text, or data as JSON, may contain a secret. This quick test can say True without one."""
    return any(mark in text for mark in MARKS) or any(
        _part_of(spelling) in text for spelling in _spellings()
    )


def without_random_secrets(text: str) -> str:
    """Return the text for a model: known random values of at least 16 characters are replaced if they are whole
    tokens.
    """
    for value in _found_in(text, _random_values()):
        text = re.sub(rf"(?<![\w-]){re.escape(value)}(?![\w-])", REDACTED, text)
    return text


def data_without_random_secrets(data: Any) -> Any:
    """Return JSON data for a model with known random values replaced, also in keys; two different keys stay
    different.
    """
    if not _random_values():
        return data
    if isinstance(data, str):
        return without_random_secrets(data)
    if isinstance(data, list):
        return [data_without_random_secrets(item) for item in data]
    if not isinstance(data, Mapping):
        return data
    shown: dict[str, Any] = {}
    for key, item in data.items():
        text = name = without_random_secrets(key)
        while name != key and (name in shown or name in data):
            name = f"{text} {len(shown) + 1}"
        shown[name] = data_without_random_secrets(item)
    return shown


def without_credentials(url: str) -> str:
    """Return the address without its user name and password."""
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    if separator:
        return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"
    return url
