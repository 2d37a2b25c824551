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
"""The name of a ranking strategy (see `ToolIndex`)."""

How: TypeAlias = Literal["exact", "regex", "ranked", "fuzzy", "closest", "none"]
"""The kind of match. "closest": no tool matches the pattern; these tools contain its words."""

Confidence: TypeAlias = Literal["high", "low"]

Odds: TypeAlias = Literal["likely", "possible", "weak"]
"""The class of a tool's probability to be right. `SearchResult.found` counts likely and possible matches."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A component of a score: `field` of the tool contains `word` of the query (or the pattern, or the name)."""

    field: str
    word: str
    score: float


@dataclass(frozen=True)
class Match:
    """A found tool with its score. Scores are comparable only within one result."""

    tool: ToolDefinition
    score: float
    why: Callable[[], tuple[Reason, ...]] = field(
        default=tuple, repr=False, compare=False
    )
    """Callback that computes `reasons` on first access."""
    query: str = ""
    """The query that found this match, if there were several."""
    odds: Odds = "likely"
    """The class of its probability. A weak match is a fallback and does not count as found."""

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        """The reasons for the match, those with the largest scores first."""
        return self.why()


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer to one query.

    - `matches`: the best tools, at most `limit`. The first `found` are not weak, all others are.
    - `found`: the number of likely and possible tools, including those beyond the limit.
    - `how`: the kind of match; "fuzzy" if words of the query had to be corrected or completed.
    - `error`: a problem of the query; there may still be matches.
    - `notes`: other events (query cut, pattern too slow).
    - `nearest`: names similar to the query, only if nothing matched.
    - `unmatched_words`: words that no tool has.
    - `strength`: the odds of the best tool, if it was found by words; below `least`, the `confidence` is "low".
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
    """The part of a long query that was searched; "" if it was the whole query. The rest seems to be pasted text."""

    @property
    def confidence(self) -> Confidence:
        """ "low": requests without a right tool often get a best match that looks as good as this one."""
        if self.strength < self.least or self.how == "closest":
            return "low"
        return "high"

    @property
    def is_likely(self) -> bool:
        """Return whether the best match is more likely right than wrong, so that loading it unasked is worthwhile."""
        return self.confidence == "high" or self.strength >= 1.0

    @property
    def names(self) -> tuple[str, ...]:
        """The offered names of the matches, in order."""
        return tuple(match.tool.name for match in self.matches)


def taking_turns(results: Sequence[SearchResult], limit: int) -> SearchResult:
    """Merge several results: the first match of each, then the second of each, and so on; each tool once.

    Weak matches come after all others.
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
    """Return the matches of all results interleaved; each tool once, with its best odds."""
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
