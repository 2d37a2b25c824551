"""Describe the purpose of a server in a few words: its own, or the most characteristic words of its tools.

A word is characteristic if many of the server's tools have it, but few tools in general. How common a word is comes
from the tools for which this package has example requests, so the words of one server do not depend on another server.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TypeAlias

from mcpagent.search.fields import local_name
from mcpagent.search.words import STOP_WORDS, name_words, stem, written_words
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import ToolDefinition

_WELL_KNOWN = Path(__file__).with_name("well_known_tools.txt")

_MOST_TOOLS = 400
"""Maximum number of tools of one server that are examined."""

_MOST_KEPT = 4_096
"""Maximum number of tools whose words are cached."""

_MOST_WORDS = 12
"""Maximum number of words and word pairs that describe a server."""

_FEW_TOOLS = 8
"""Maximum number of tools of a server for which words of descriptions count too, because its names are not enough."""

_DESCRIPTION_CHARACTERS = 150
_IN_A_DESCRIPTION = 0.3
"""Weight of a word in a description, relative to a word in a name."""

_OF_A_SERVER = 1
"""Maximum number of well-known names with the same prefix that count; with more, a server's words would seem common."""

_COVERED = 0.5
"""Weight of a tool for a word if an earlier word already describes that tool."""

_FIXED = 0.6
"""Minimum share of occurrences in which two words are together, for them to count as one term such as "pull
request".
"""

_TITLE_WORDS = 5
"""Minimum number of words of a title that counts as a sentence, not as a name."""

_OWN_SHARE = 0.5
_SHOWN_CHARACTERS = 90
"""Maximum number of characters of a server's own sentence that are examined and shown."""

_MOST_OWN_CHARACTERS, _MOST_SENTENCES = 1_000, 4

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_Term: TypeAlias = tuple[tuple[str, ...], str, float]
"""A word or word pair: its stems, its spelling and its weight."""

_SAYS_NOTHING = frozenset(
    map(
        stem,
        (
            "mcp",
            "server",
            "tool",
            "api",
            "fastmcp",
            "integration",
            "official",
            "service",
        ),
    )
)
"""Common words in names of servers that do not describe their purpose."""


def own_words(
    server: str, tools: Sequence[ToolDefinition], title: str, instructions: str
) -> str:
    """Return a server's own description: its title if that is more than a name, else a sentence of its instructions; ""
    if none is useful.

    The first words of such a sentence must be at least half as characteristic as the best words of the tools.
    """
    line = safe_line(title, _SHOWN_CHARACTERS)
    if len(line.split()) >= _TITLE_WORDS and len(_telling(line) - _telling(server)) > 1:
        return line
    worths = _worths_of_words(server, tools)
    best, most = "", _OWN_SHARE * _said(characteristic_words(server, tools), worths)
    for sentence in _SENTENCE.split(instructions[:_MOST_OWN_CHARACTERS])[
        :_MOST_SENTENCES
    ]:
        line = safe_line(sentence.strip(" #*-\t"), _SHOWN_CHARACTERS)
        said = _said(line, worths)
        if said > most:
            best, most = line, said
    return best


def _worths_of_words(
    server: str, tools: Sequence[ToolDefinition]
) -> Mapping[str, float]:
    """Return how characteristic each word of the tools is, by stem."""
    names = _telling(server)
    read = tools[:_MOST_TOOLS]
    held = Counter(word for tool in read for word in _telling(_texts_of(tool)) - names)
    usual = _usual_elsewhere([local_name(tool) for tool in read])
    return {word: _worth(count, (word,), usual) for word, count in held.items()}


def _said(line: str, worths: Mapping[str, float]) -> float:
    return sum(
        worths.get(word, 0.0) for word in sorted(_telling(line[:_SHOWN_CHARACTERS]))
    )


def _worth(tools: float, term: tuple[str, ...], usual: _Usual) -> float:
    """Return how characteristic a term is that `tools` tools of a server have."""
    rarities = [
        math.log((usual.names + 1) / (usual.counts.get(word, 0) + 1)) for word in term
    ]
    return math.sqrt(tools) * (sum(rarities) / len(rarities)) ** 2


def characteristic_words(server: str, tools: Sequence[ToolDefinition]) -> str:
    """Return the most characteristic words of the tools as text, the best first: "issues, pull requests"."""
    names, with_description = frozenset(_telling(server)), len(tools) <= _FEW_TOOLS
    local_names = [local_name(tool) for tool in tools[:_MOST_TOOLS]]
    read: list[tuple[_Term, ...]] = []
    for tool, name in zip(tools, local_names, strict=False):
        if with_description:
            description = tool.description[: _DESCRIPTION_CHARACTERS + 1]
        else:
            description = ""
        read.append(_terms_of(name, description, names))
    holding: defaultdict[tuple[str, ...], dict[int, float]] = defaultdict(dict)
    spelled: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for number, terms in enumerate(read):
        for term, shown, weight in terms:
            held = holding[term]
            held[number] = max(held.get(number, 0.0), weight)
            spelled[term][shown] += 1
    fixed, usual = _only_fixed_pairs(holding), _usual_elsewhere(local_names)
    chosen: list[tuple[str, ...]] = []
    said: set[int] = set()
    while len(chosen) < _MOST_WORDS:
        worths = {
            term: _worth(
                sum(
                    weight * (_COVERED if at in said else 1.0)
                    for at, weight in held.items()
                ),
                term,
                usual,
            )
            for term, held in fixed.items()
            if not any(set(term) & set(other) for other in chosen)
        }
        if not worths:
            break
        best = min(worths, key=lambda term: (-worths[term], term))
        chosen.append(best)
        said |= fixed[best].keys()
    return ", ".join(_usual_spelling(spelled[term]) for term in chosen)


@lru_cache(maxsize=_MOST_KEPT)
def _terms_of(name: str, description: str, names: frozenset[str]) -> tuple[_Term, ...]:
    """Return the words and word pairs of a tool, except those in `names`, the words of its server's name.

    Cached, because different sessions have most tools in common.
    """
    found = _words_and_pairs(name_words(name), names, 1.0)
    text = _whole_words(description, _DESCRIPTION_CHARACTERS).lower()
    found += [
        one
        for one in _words_and_pairs(written_words(text), names, _IN_A_DESCRIPTION)
        if len(one[0]) == 1
    ]
    return tuple(found)


def _words_and_pairs(
    words: Sequence[str], names: Collection[str], weight: float
) -> list[_Term]:
    found: list[_Term] = []
    for word in words:
        if _says_something(word, names):
            found.append(((stem(word),), word, weight))
    for first, second in pairwise(words):
        if _says_something(first, names) and _says_something(second, names):
            found.append(((stem(first), stem(second)), f"{first} {second}", weight))
    return found


def _says_something(word: str, names: Collection[str]) -> bool:
    return (
        len(word) > 2
        and word.isalpha()
        and word not in STOP_WORDS
        and stem(word) not in names
    )


def _only_fixed_pairs(
    holding: Mapping[tuple[str, ...], Mapping[int, float]],
) -> dict[tuple[str, ...], Mapping[int, float]]:
    """Return the single words, and those pairs whose words hardly occur without each other."""
    fixed: dict[tuple[str, ...], Mapping[int, float]] = {}
    for term, held in holding.items():
        if len(term) == 1:
            fixed[term] = held
        elif len(held) > 1 and all(
            len(held) >= _FIXED * len(holding[word,]) for word in term
        ):
            fixed[term] = {
                number: weight * len(term) for number, weight in held.items()
            }
    return fixed


class _Usual(NamedTuple):
    """The number of well-known tool names, and the number of these names that contain each stem."""

    counts: Mapping[str, int]
    names: int


def _usual_elsewhere(local_names: Sequence[str]) -> _Usual:
    """Return how common words are in the names of well-known tools other than these."""
    usual = _usual_words()
    own = _well_known_names() & set(local_names)
    counts = Counter(usual.counts)
    for name in own:
        counts.subtract({stem(word) for word in name_words(name)})
    return _Usual(counts, usual.names - len(own))


@cache
def _well_known_names() -> frozenset[str]:
    """Return the names of well-known tools; of several names that begin with the same server's name, one.

    They are a sample from 31 servers of all kinds. All tools with example requests would not do: half of them belong to
    a few large APIs, whose words would seem common. With these names the right server was among three for 90 of 106
    requests, with all for 83. A word that only begins names, as in `jira_get_issue`, is a server's name.
    """
    names = _WELL_KNOWN.read_text("utf-8").split()
    words = {name: name_words(name) or [name] for name in names}
    inner = {word for parts in words.values() for word in parts[1:]}
    taken = Counter[str]()
    found: set[str] = set()
    for name, (first, *_) in words.items():
        taken[first] += 1
        if first in inner or taken[first] <= _OF_A_SERVER:
            found.add(name)
    return frozenset(found)


@cache
def _usual_words() -> _Usual:
    names = _well_known_names()
    usual = Counter[str]()
    for name in names:
        usual.update({stem(word) for word in name_words(name)})
    return _Usual(usual, len(names))


def _usual_spelling(spelled: Counter[str]) -> str:
    return min(spelled, key=lambda shown: (-spelled[shown], -len(shown), shown))


def _telling(text: str) -> set[str]:
    """Return the stems of the text's words, without words that any server's name may have."""
    words = (
        word.lower()
        for written in written_words(text)
        for word in name_words(written) or [written]
    )
    return {
        stem(word) for word in words if word not in STOP_WORDS and len(word) > 1
    } - _SAYS_NOTHING


def _texts_of(tool: ToolDefinition) -> str:
    return (
        f"{local_name(tool)} {_whole_words(tool.description, _DESCRIPTION_CHARACTERS)}"
    )


def _whole_words(text: str, most: int) -> str:
    """Return the first characters of the text, without a word that is cut."""
    if len(text) <= most:
        return text
    return text[:most].rpartition(" ")[0]
