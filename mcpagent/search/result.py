"""The result values of a search."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Literal, TypeAlias

from mcpagent.messages import ToolDefinition
from mcpagent.text.safe_text import safe_line

RankingName: TypeAlias = Literal["auto", "regex", "bm25", "hybrid", "multilingual"]
"""How tools are ranked (`ToolIndex`)."""

How: TypeAlias = Literal["exact", "regex", "ranked", "fuzzy", "none"]
Confidence: TypeAlias = Literal["high", "low"]


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
    why: Callable[[], tuple[Reason, ...]] = field(default=tuple, repr=False, compare=False)
    """Works out `reasons`; asked for only when somebody reads them."""
    query: str = ""
    """Which of several queries found it."""
    fits: bool = True
    """Whether it is as good as the best are: it is named, or scores half of the best, where more than names is asked
    for. The rest is near: worth to be shown, not to be loaded."""

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        """The reasons for the match, the largest part first."""
        return self.why()


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer to one query.

    `matches` are the best `limit`. `found` counts the tools that fit, which may be fewer: the other matches are only
    near, and so are all of them if the `confidence` is low. `how` is the kind of match; "fuzzy" matches were found only
    by correcting or completing the query's words. `error` is the mistake in the query; there can be matches
    nevertheless. `notes` report other events (query cut, pattern too slow). `nearest` are names similar to the query,
    only if nothing matched. `unmatched_words` are in no tool. `strength` are the odds that the best tool is right, if
    it was found by words; below `least`, the `confidence` is low.
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

    @property
    def confidence(self) -> Confidence:
        """The confidence; "low": requests that no tool serves often get an equally good best match."""
        return "low" if self.strength < self.least else "high"

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

    Matches that are only near one of the queries are included, and not counted as found.
    """
    notes = _of_all(result.notes for result in results)
    chosen: dict[str, Match] = {}
    for rank in range(max(len(result.matches) for result in results)):
        for result in results:
            if rank < len(result.matches):
                match = result.matches[rank]
                chosen.setdefault(match.tool.name, replace(match, query=result.query))
    fitting = {match.tool.name for result in results for match in result.matches[: result.found]}
    weak = [result for result in results if result.matches and result.confidence == "low"]
    if 0 < len(weak) < len(results):
        shown = ", ".join(safe_line(result.query, 64) for result in weak)
        notes = (*notes, f"only weak matches for: {shown}")
    room = max(limit, sum(result.how == "exact" for result in results))
    how: How = next((result.how for result in results if result.how != "none"), "none")
    strongest = max(results, key=lambda result: (bool(result.matches), result.strength - result.least))
    return SearchResult(
        "\n".join(result.query for result in results),
        tuple(chosen.values())[:room],
        max(len(fitting), max(result.found for result in results)),
        how,
        error="; ".join(dict.fromkeys(result.error for result in results if result.error)),
        notes=notes,
        nearest=() if chosen else _of_all(result.nearest for result in results),
        unmatched_words=_of_all(result.unmatched_words for result in results),
        strength=strongest.strength,
        least=strongest.least,
    )


def _of_all(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Return each text once, in order of first occurrence."""
    return tuple(dict.fromkeys(chain.from_iterable(groups)))
