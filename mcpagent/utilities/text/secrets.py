"""Secrets: a type that shows nothing of itself, and the replacement of known secrets in text for people and files.

Requests to servers and models are never altered. Terminal, logs, errors, exports, recordings and traces pass through
`without_secrets`. Results for a model pass through `without_random_secrets`, which leaves every word and number.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote, unquote_plus, urlsplit

from mcpagent.utilities.text.safe_text import safe_text
from mcpagent.utilities.text.secret_shapes import ANY_MARK, COMPILED, MARK_BEGUN, MARKS

if TYPE_CHECKING:
    import regex

REDACTED = "[redacted]"
SHORTEST = 8
"""Shorter values are not replaced: that would spoil the text and hide nothing."""

_SHORTEST_RANDOM = 16
_STEP = 200_000

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

    def __deepcopy__(self, _: Any) -> Secret:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _pickled, (self.origin,)

    def revealed(self) -> str:
        """Return the text. Raises `TypeError` for a secret that was pickled, which leaves the text out."""
        if self._text is None:
            raise TypeError(
                f"{self}: pickling left the secret out; read the configuration again"
            )
        return self._text


def _pickled(origin: str) -> Secret:
    secret = Secret("", origin)
    secret._text = None
    return secret


def revealed(text: str | Secret) -> str:
    """Return the text itself, for the process or request that needs it."""
    if isinstance(text, Secret):
        return text.revealed()
    return text


def as_written(text: str | Secret) -> str:
    """Return the text as its file has it: literals in full, references instead of values."""
    if isinstance(text, str):
        return text
    return text.origin or text.revealed()


# -- which values are secret -------------------------------------------------------------------------------------------

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_CREDENTIAL = re.compile(
    r".*(?:token|secret|password|passwd|passphrase|passcode|pwd|apikey|accesskey)s?|keys?|pass|pat|jwt|auth|bearer"
    r"|authorization|cookies?|creds?|credentials?"
)
_FOLDERS = frozenset({"PWD", "OLDPWD"})
_PLACE = re.compile(r"(?:~|\.{1,2})?/|[A-Za-z]:[\\/]|https?://")
_CHUNKS = re.compile(r"\d+|[A-Z]?[a-z]+|[A-Z]+|[^A-Za-z0-9]+")
_CONSONANTS = "[b-df-hj-np-tv-xz]"
_READABLE = re.compile(
    rf"(?:19|20)\d\d|[A-Za-z]?(?:{_CONSONANTS}{{0,2}}+[aeiouy]{{1,2}}+){{2,}}+{_CONSONANTS}{{0,2}}"
    rf"|[A-Za-z]?[aeiou]{{1,2}}{_CONSONANTS}{{2}}"
)
"""A year, or a word by its vowels and consonants; nothing is tried twice, however long it is."""

_WORDS_JOINED = re.compile(
    r"(?:[A-Z]+|[A-Z]?[a-z]+)(?:[-.:/_](?:[A-Z]+|[A-Z]?[a-z]+))*"
)
_SECRET_KEYS = frozenset(
    {"api", "access", "secret", "private", "auth", "signing", "encryption", "master"}
)
"""Words before "key" in the name of a credential; other keys, as of a table or a cache, may be words."""

_OPTION = re.compile(r"--?[A-Za-z][\w-]+")
_NAMED = re.compile(
    r"(?:--(?:env|header)=)?(-{0,2}[A-Za-z][\w-]*)(?:=|:(?!//) *)([^=].*)", re.DOTALL
)
_USER_AND_PASSWORD = re.compile(r"[A-Za-z][\w.-]{0,40}[/:]([^/:]+)")
_SCHEME = re.compile(r"(?:Bearer|Basic|Token) +(?=\S)", re.IGNORECASE)


def names_a_credential(name: str) -> bool:
    """Return whether the last word of a variable's, header's or option's name is one for credentials."""
    words = _WORDS.findall(name[:200])
    return (
        bool(words)
        and name not in _FOLDERS
        and _CREDENTIAL.fullmatch(words[-1].lower()) is not None
    )


def is_random(value: str) -> bool:
    """Return whether letters and digits alternate as in generated keys, over at least 16 characters.

    A text of which a third is words and years, such as `2024Q1toQ4r2final3b`, is the name of something.
    """
    chunks = _CHUNKS.findall(value)
    changes = sum(
        min(len(one), len(other)) <= 2
        for one, other in pairwise(chunks)
        if one[0].isalnum() and other[0].isalnum()
    )
    readable = sum(len(chunk) for chunk in chunks if _READABLE.fullmatch(chunk))
    return (
        len(value) >= _SHORTEST_RANDOM
        and changes >= 4
        and readable * 3 < len(value)
        and not any(map(str.isspace, value))
    )


def is_secret(value: str) -> bool:
    """Return whether replacing this value in text is useful: at least eight characters, no word, no number.

    Letters with underscores between them, such as `customer_id`, are words: columns and fields are named so.
    """
    is_word = value.replace("_", "").isalpha() and (
        value.islower() or value.isupper() or value.istitle()
    )
    is_number = not value.strip("0123456789.,:+- ")
    return len(value) >= SHORTEST and not is_word and not is_number


def secrets_under(name: str, value: str) -> Iterator[str]:
    """Yield the secrets in a literal value of this name, and the password of an address.

    Joined words under the key of something, such as `SORT_KEY=customer-id`, are none. `user/password` and
    `user:password` yield the password too.
    """
    if names_a_credential(name):
        *before, last = [word.lower() for word in _WORDS.findall(name[:200])]
        may_be_words = last in ("key", "keys") and _SECRET_KEYS.isdisjoint(before)
        whole = _SCHEME.sub("", value)
        if whole != value:
            values = [whole, *_basic_password(whole)]
        else:
            values = [whole]
        if name.lower().endswith("cookie"):
            values = [pair.partition("=")[2].strip() for pair in value.split(";")]
        if user_and_password := _USER_AND_PASSWORD.fullmatch(whole):
            values.append(user_and_password[1])
        yield from (
            text
            for text in values
            if is_secret(text)
            and (is_random(text) or not _PLACE.match(text))
            and not (may_be_words and _WORDS_JOINED.fullmatch(text))
        )
    yield from secrets_in_address(value)


def secrets_in_address(address: str) -> Iterator[str]:
    """Yield the password in `scheme://user:password@host`, as written and decoded, and credentials of the query."""
    try:
        parts = None
        if "://" in address:
            parts = urlsplit(address)
    except ValueError:
        parts = None
    if parts is None:
        return
    if parts.password:
        yield from (parts.password, unquote(parts.password))
    for pair in parts.query.split("&"):
        name, _, value = pair.partition("=")
        if names_a_credential(unquote_plus(name)) and is_secret(value):
            yield from (value, unquote_plus(value))


def secrets_in_server_address(address: str) -> Iterator[str]:
    """Yield `secrets_in_address`, and each random part of the path or query, which may be the key to a server.

    A UUID or a hash there may name a page or a workspace, so only capital and small letters with digits count.
    """
    yield from secrets_in_address(address)
    _, *parts = re.split(r"[/?&=#]", address.partition("://")[2])
    for part in parts:
        text = unquote(part)
        is_mixed = text.lower() != text != text.upper()
        if is_mixed and is_random(text):
            yield from (part, text)


def named_words(words: Sequence[str | Secret]) -> Iterator[tuple[int, str, str]]:
    """Yield the place, name and literal value of arguments: `--token=x`, `--token x`, `TOKEN=x`, `X-Api-Key: x`."""
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


# -- known values ------------------------------------------------------------------------------------------------------


_lock = threading.Lock()
_values: frozenset[str] = frozenset()
_spelled: tuple[frozenset[str], tuple[str, ...]] = (frozenset(), ())
_random: tuple[frozenset[str], tuple[str, ...]] = (frozenset(), ())
_UNRESERVED = re.compile("[A-Za-z0-9._~-]+")  # RFC 3986 2.3
_ESCAPE = re.compile(r"[%+\\]")
_LONGEST_ESCAPED = 5_000


def hide(*values: str | None) -> None:
    """Replace these values in text for people and files from now on, unless they are short, a word or a number."""
    global _values
    with _lock:
        fresh = {value for value in values if value and is_secret(value)} - _values
        if fresh:
            _values |= fresh


def hide_environment(environ: Mapping[str, str]) -> None:
    """Hide the values of an environment that have a credential's name."""
    hide(
        *(
            secret
            for name, value in environ.items()
            for secret in secrets_under(name, value)
        )
    )


def known_values() -> frozenset[str]:
    """Return all hidden values; the same object until there are more."""
    return _values


def _spellings() -> tuple[str, ...]:
    """Return each known value, as it is, as it is shown and in base64, the longest first."""
    global _spelled
    if _spelled[0] is not (known := _values):
        found = {text for value in known for text in _texts_of(value)} - {""}
        longest_first = sorted(found, key=lambda text: (-len(text), text))
        _spelled = known, tuple(longest_first)
    return _spelled[1]


def _texts_of(value: str) -> Iterator[str]:
    data = value.encode("utf-8", "surrogatepass")
    yield from (value, safe_text(value), base64.b64encode(data).decode().rstrip("="))
    # of a key of several lines
    yield from (line for line in value.splitlines() if len(line) >= _SHORTEST_RANDOM)


@cache
def _part_of(spelling: str) -> str:
    """Return the longest part of a spelling that no address and no JSON escapes; all of one that they never do."""
    if len(spelling) > _LONGEST_ESCAPED:
        return spelling
    return max(_UNRESERVED.findall(spelling), key=len, default="")


@cache
def _escaped(spelling: str) -> re.Pattern[str]:
    """Return a pattern in which each character is written as it is, as `%2F`, `%2f`, or as JSON may escape it.

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
    """Return `_escaped` for texts whose end may not have arrived."""
    import regex

    return regex.compile(_escaped(spelling).pattern)


def _random_values() -> tuple[str, ...]:
    """Return the known values to redact in results for a model, the longest first."""
    global _random
    if _random[0] is not (known := _values):
        _random = known, tuple(sorted(filter(is_random, known), key=len, reverse=True))
    return _random[1]


# -- replacement -------------------------------------------------------------------------------------------------------


def without_secrets(text: str) -> str:
    """Return text for people and files: known secrets and the shapes of issuers' keys are replaced.

    If a secret appears only when invisible characters are removed, the text is returned without these.
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
    """Replace secrets that emphasis or entities divide: such a paragraph of markdown-it becomes plain text."""
    for token in tokens:
        plain = safe_text("".join(inner.content for inner in token.children or ()))
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
    """Return text that may have been cut, without the first eight or more characters of a known value at its end."""
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
    """Return the text without the shapes that issuers give their keys.

    A long text is searched in pieces, so that other threads run in between. It is cut at positions that no key spans:
    before a quotation mark, or at the end of a line if it holds no private key.
    """
    found = _found_in(text, MARKS)
    if not found:
        return text
    shapes = [shape for marks, shape in COMPILED if not {*marks}.isdisjoint(found)]
    pieces, start, has_blocks = list[str](), 0, KEY_BEGINS in found
    while len(text) - start > 2 * _STEP:
        end = text.rfind('"', start + _STEP, start + 2 * _STEP)
        if not (end > 0 or has_blocks):
            end = text.rfind("\n", start + _STEP, start + 2 * _STEP)
        if end <= 0:
            break
        pieces.append(_shapes_replaced(text[start:end], shapes))
        start = end
    return "".join([*pieces, _shapes_replaced(text[start:], shapes)])


def _found_in(text: str, words: Sequence[str]) -> list[str]:
    """Return the words that are in the text, in order; a long text is searched in steps, as the thread's others run."""
    if len(text) <= _LOOKED_AT:
        return [word for word in words if word in text]
    found: set[str] = set()
    longest = max(map(len, words), default=0)
    for start in range(0, len(text), _LOOKED_AT):
        piece = text[start : start + _LOOKED_AT + longest]
        found.update([word for word in words if word not in found and word in piece])
    return [word for word in words if word in found]


_LOOKED_AT = 1_000_000
"""Characters that are searched for words at once."""


def _shapes_replaced(text: str, shapes: Iterable[re.Pattern[str]]) -> str:
    for shape in shapes:
        text = shape.sub(rf"\1{REDACTED}", text)
    return text


_LAST_WORD = re.compile(r"[!-~]*\Z")
_BOT_ID = re.compile(r"(?<!\d)\d{1,10}(?::A?)?\Z")
KEY_BEGINS, _KEY_ENDS = (
    "-----BEGIN",
    re.compile(r"-----END [A-Z ]{0,20}PRIVATE KEY-----"),
)
LONGEST_KEY = 20_100


def settled_length(text: str) -> int:
    """Return the length of the beginning of a growing text that no further text can make part of a secret.

    The rest may begin a known value or the shape of an issuer's key. An ordinary word is settled at once, or with the
    next piece of text if its end could begin a key.
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
    """Return the end, or the start of the first of the known values that it would cut; `spans` are escaped ones."""
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
    """Return the end, or the start of an occurrence of the value that the end would cut."""
    start = text.rfind(value, 0, end + len(value) - 1)
    if 0 <= start < end < start + len(value):
        return start
    return end


def _begun_at(text: str, spelling: str) -> int:
    """Return where the text ends with a proper beginning of the value; its length if it does not."""
    start = text.find(spelling[0], max(len(text) - len(spelling) + 1, 0))
    while start >= 0:
        if spelling.startswith(text[start:]):
            return start
        start = text.find(spelling[0], start + 1)
    return len(text)


def _may_become_key(word: str) -> bool:
    """Return whether a word, followed by more text, may have the shape of a key."""
    return any(shape.search(word) for shape in (_BOT_ID, ANY_MARK, MARK_BEGUN))


def may_hold_secrets(text: str) -> bool:
    """Return whether text, or data as JSON, may hold a secret; fast, also for long texts."""
    return any(mark in text for mark in MARKS) or any(
        _part_of(spelling) in text for spelling in _spellings()
    )


def without_random_secrets(text: str) -> str:
    """Return text for a model: known random values of at least 16 characters are replaced, as whole tokens."""
    for value in _found_in(text, _random_values()):
        text = re.sub(rf"(?<![\w-]){re.escape(value)}(?![\w-])", REDACTED, text)
    return text


def data_without_random_secrets(data: Any) -> Any:
    """Return JSON data likewise, in keys too; two keys never become one."""
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
    """Return the address without the user and password that it may contain."""
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    if separator:
        return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"
    return url
