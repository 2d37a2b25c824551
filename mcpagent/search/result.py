"""The result values of a search."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, zip_longest
from typing import Literal, TypeAlias, get_args

from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import ToolDefinition

RankingName: TypeAlias = Literal[
    "auto", "regex", "bm25", "hybrid", "sentences", "multilingual"
]
"""The ranking strategy (`ToolIndex`)."""

How: TypeAlias = Literal["exact", "regex", "ranked", "fuzzy", "closest", "none"]
"""The kind of match. "closest": no tool matches the pattern, and these tools contain its words."""

Confidence: TypeAlias = Literal["high", "low"]

Odds: TypeAlias = Literal["likely", "possible", "weak"]
"""The probability that a tool is right, in three classes. `SearchResult.found` counts likely and possible matches."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A component of a score: `word` of the query (or the pattern, or the name) was found in this field."""

    field: str
    word: str
    score: float


@dataclass(frozen=True)
class Match:
    """A found tool with its score; scores are comparable only within one result."""

    tool: ToolDefinition
    score: float
    why: Callable[[], tuple[Reason, ...]] = field(
        default=tuple, repr=False, compare=False
    )
    """Callback that computes `reasons` on first access."""
    query: str = ""
    """The query that found this match, if there were several."""
    odds: Odds = "likely"
    """The class of its odds. A weak match is a fallback and does not count as found."""

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        """The reasons for the match, the largest part first."""
        return self.why()


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer to one query.

    `matches` are the best `limit`; `found` counts the tools that are likely or possible, those beyond the limit too. So
    of the matches the first `found` are not weak, and all others are. `how` is the kind of match; "fuzzy" ones were
    found only by correcting or completing the query's words. `error` is the problem of the query; there can be matches
    all the same. `notes` report other events (query cut, pattern too slow). `nearest` are names like the query, only if
    nothing matched. `unmatched_words` are in no tool. `strength` are the odds of the best tool, if it was found by
    words; below `least` the `confidence` is low.
    """

    query: str
    matches: tuple[Match, ...] = ()
    found: int = 0
    how: How = "none"
    error: str = ""
    notes: tuple[str, ...] = ()
    nearest: tuple[str, ...] = ()
    unmatched_words: tuple[str, ...] = ()
    strength: float = math.inf
    least: float = 0.0
    searched: str = ""
    """The part of a long query that was searched; "" for the whole query. The other parts seem to be pasted."""

    @property
    def confidence(self) -> Confidence:
        """ "low": as good as the best match is, a request that nothing serves often gets one like it."""
        if self.strength < self.least or self.how == "closest":
            return "low"
        return "high"

    @property
    def is_likely(self) -> bool:
        """True if the best match is more likely right than wrong, which justifies loading it unasked."""
        return self.confidence == "high" or self.strength >= 1.0

    @property
    def names(self) -> tuple[str, ...]:
        """The offered names of the matches, in order."""
        return tuple(match.tool.name for match in self.matches)


def taking_turns(results: Sequence[SearchResult], limit: int) -> SearchResult:
    """Merge several results: the first match of each, then the second of each, and so on; each tool once.

    Weak matches follow all others.
    """
    notes = _of_all(result.notes for result in results)
    chosen = _in_turn(results)
    weak = [result for result in results if result.matches and not result.found]
    if 0 < len(weak) < len(results):
        shown = ", ".join(safe_line(result.query, 64) for result in weak)
        notes = (*notes, f"only weak matches for: {shown}")
    room = max(limit, sum(result.how == "exact" for result in results))
    how: How = next((result.how for result in results if result.how != "none"), "none")
    strongest = max(
        results,
        key=lambda result: (bool(result.matches), result.strength - result.least),
    )
    good = sum(match.odds != "weak" for match in chosen)
    return SearchResult(
        "\n".join(result.query for result in results),
        tuple(chosen)[:room],
        max(good, max(result.found for result in results)),
        how,
        error="; ".join(
            dict.fromkeys(result.error for result in results if result.error)
        ),
        notes=notes,
        nearest=() if chosen else _of_all(result.nearest for result in results),
        unmatched_words=_of_all(result.unmatched_words for result in results),
        strength=strongest.strength,
        least=strongest.least,
    )


def _in_turn(results: Sequence[SearchResult]) -> list[Match]:
    """The matches of all results in turn, each tool once with the best odds that any query gives it."""
    turns = chain.from_iterable(
        zip_longest(*(_with_query(result) for result in results))
    )
    matches = [match for match in turns if match is not None]
    chosen: dict[str, Match] = {}
    for odds in get_args(Odds)[:2], get_args(Odds)[2:]:
        for match in matches:
            if match.odds in odds:
                chosen.setdefault(match.tool.name, match)
    return list(chosen.values())


def _with_query(result: SearchResult) -> list[Match]:
    return [replace(match, query=result.query) for match in result.matches]


def _of_all(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Return each text once, in order of first occurrence."""
    return tuple(dict.fromkeys(chain.from_iterable(groups)))
