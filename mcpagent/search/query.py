"""Interpret the form of a query (names, `select:`, `server:`, arithmetic), without the catalogue."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator

from mcpagent.search.words import name_key, written_words

MAX_QUERY = 500
"""Maximum number of characters of a query that are searched for names, displayed and recorded."""

MAX_QUERIES = 20
"""Maximum number of queries in one list."""

MAX_SELECTION = 5_000
"""Maximum length of a `select:` list in characters."""

MAX_SELECTED = 50
"""Maximum number of names in a `select:` list."""

FEW_WORDS = 3
"""Maximum number of further words in a query that only names tools, such as "use get_weather"."""

_LONGEST_PREFIX = 80
_SEPARATORS = re.compile(r"[\s,;|]+")
_LISTED = re.compile(
    r"[,;|\n+]+(?:\s*(?:and|or)\b)?|\s(?:and|or|plus)\s", re.IGNORECASE
)
_IDENTIFIER = re.compile(r"\w*(?:[_.\-]\w+)+|[A-Za-z]?[a-z0-9]+(?:[A-Z][a-z0-9]*)+")
_ONE_WORD = re.compile(r"\w[\w.\-]*")
_JOINERS = frozenset("_.-")
_SELECT = re.compile(r"\s*select\s*:(.*)", re.IGNORECASE | re.DOTALL)
_PREFIX = re.compile(
    r"\s*([\w.\- ]{1,64}?)\s*:\s+(\S.*)|\s*([\w.\-]{1,64}):(\S.*)", re.DOTALL
)

_PERCENT = re.compile(r"(?<=\d)\s?%")
_ARITHMETIC = re.compile(
    r"\d[)\s]*(?:\*\*|[*×÷^+]|(?<=[)\s])[-/](?=[(\s]))[(\s]*√?\d|√\s?\d"
)
_ONLY_ARITHMETIC = re.compile(
    r"[\s(√-]*\d[\d.,]*[)\s]*(?:(?:\*\*|//|[-+*/×÷^x])[\s(√-]*\d[\d.,]*[)\s]*)+=?[\s?]*"
)
_DATE = re.compile(r"\s*(?:\d{4}-\d\d?(?:-\d\d?)?|\d{1,4}([-/])\d{1,2}\1\d{1,4})\s*")


def is_arithmetic(query: str) -> bool:
    """Return whether the query is arithmetic: `what is 3*4?`, or `10/2` without other words."""
    if _ARITHMETIC.search(query):
        return True
    return bool(_ONLY_ARITHMETIC.fullmatch(query)) and not _DATE.fullmatch(query)


def signs_said(query: str) -> str:
    """Return words for signs in the query, such as "percent" for `17%`, since tool descriptions use words."""
    said = (
        "percent" if _PERCENT.search(query) else "",
        "calculate arithmetic" if is_arithmetic(query) else "",
    )
    return " ".join(filter(None, said))


def selected_names(query: str) -> list[str] | None:
    """Return the names in `select:a,b`; None if the query has another form."""
    chosen = _SELECT.fullmatch(query[:MAX_SELECTION])
    if chosen:
        return [name for name in _SEPARATORS.split(chosen[1]) if name]
    return None


def server_prefix(query: str, servers: Collection[str]) -> tuple[str, str] | None:
    """Return server and words of a query `server: words`, if there is such a server in any spelling; else None."""
    prefixed = None
    if ":" in query[:_LONGEST_PREFIX]:
        prefixed = _PREFIX.fullmatch(query)
    if not prefixed:
        return None
    if prefixed[1]:
        name, words = prefixed[1], prefixed[2]
    else:
        name, words = prefixed[3], prefixed[4]
    key = name_key(name)
    match = next((server for server in servers if name_key(server) == key), None)
    if match and key:
        return match, words
    return None


def mentioned_names(query: str, is_name: Container[str]) -> dict[str, str]:
    """Return the tools that the query names, in order: their written form, by key (see `name_key`).

    The whole query, each item of a list, and each word that is written as an identifier can be a name. A plain word
    within a sentence is not a name, even if a tool has that name.
    """
    whole = name_key(query)
    if whole in is_name:
        return {whole: query.strip()}
    for separators in (_LISTED, _SEPARATORS):
        listed = _all_names(_parts(separators, query), is_name)
        if len(listed) > 1:
            return listed
    # A quick check of each word avoids the slow pattern for most texts: words in lower case or with one capital are not
    # identifiers.
    odd = " ".join(
        word
        for word in query.split()
        if not word[1:].islower() or not _JOINERS.isdisjoint(word)
    )
    written = {name_key(found): found for found in _IDENTIFIER.findall(odd)}
    return {key: found for key, found in written.items() if key in is_name}


def is_identifier(text: str) -> bool:
    """Return whether the text is one word that may be a tool's name: letters, digits, `_`, `.` and `-`."""
    return bool(_ONE_WORD.fullmatch(text))


def _parts(separators: re.Pattern[str], query: str) -> Iterator[str]:
    """Yield the parts between the separators one by one: usually the first part already is not a name."""
    at = 0
    for found in separators.finditer(query):
        yield query[at : found.start()]
        at = found.end()
    yield query[at:]


def words_beside(query: str, names: Iterable[str]) -> int:
    """Return the number of words in the query besides these names, as spelled in the query."""
    rest = query
    for name in names:
        rest = rest.replace(name, " ", 1)
    return len(written_words(rest))


def _all_names(parts: Iterable[str], is_name: Container[str]) -> dict[str, str]:
    """Return the parts by their keys; {} if any part is not a name."""
    names: dict[str, str] = {}
    for part in parts:
        if key := name_key(part):
            if key not in is_name:
                return {}
            names[key] = part.strip()
    return names
