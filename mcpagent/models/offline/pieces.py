"""One piece of a prompt as a candidate for one property, and what candidates are drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mcpagent.models.offline.evidence import Evidence, Found
from mcpagent.models.offline.leftover import Span
from mcpagent.models.offline.roles import Property
from mcpagent.models.offline.words import word_set


@dataclass(frozen=True, slots=True)
class Candidate:
    """A value for one property. `sure` pieces may also fill optional properties; guesses only required ones."""

    value: Any
    spans: tuple[Span, ...] = ()
    score: float = 1.0
    sure: bool = True


@dataclass(frozen=True)
class Context:
    """What candidates are drawn from: the prompt, and the spans that other properties already took."""

    evidence: Evidence
    used: tuple[Span, ...] = ()

    def is_free(self, start: int, end: int) -> bool:
        return not any(low < end and start < high for low, high in self.used)


def candidate_of(found: Found, score: float = 1.0, *, value: Any = None, sure: bool = True) -> Candidate:
    return Candidate(found.value if value is None else value, ((found.start, found.end),), score, sure)


_FROM_WORDS = frozenset(("from", "between", "since", "by"))
_TO_WORDS = word_set("to into until till and as with than against")


def direction_score(wanted: Property, preposition: str) -> float:
    """How well "from" and "to" before a piece agree with the property's own direction."""
    if not wanted.direction or not preposition:
        return 0.0
    expected, opposite = (_FROM_WORDS, _TO_WORDS) if wanted.direction < 0 else (_TO_WORDS, _FROM_WORDS)
    return 2.0 if preposition in expected else -2.0 if preposition in opposite else 0.0
