"""The ranking of one text: BM25 over its words, fused with vectors where there are any, over each of its needs."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from mcpagent.safe_text import safe_line
from mcpagent.search.asked import Asked, Asker
from mcpagent.search.bm25 import Postings
from mcpagent.search.embedding import EmbeddingError
from mcpagent.search.vectors import Vectors

POOL = 50
"""Candidates of each ranking that are fused."""

_VECTOR_WEIGHT = 0.8
_NEED_WEIGHT = 0.5
_NEED_RARITY = 8.0
"""Rarity that the words of a clause must add up to before it counts as a need of its own."""

_MAX_NEEDS = 6
_CLAUSE_END = re.compile(
    r"(?<=[\w\"')])[.!?;]+\s+|\n+|,?\s+(?:and then|then|and also|also)\s+|,\s+and\s+", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate and what its score is made of: `words` (BM25), `meaning` (vectors), `need` (best for one need).

    `word_share` is what a BM25 score was multiplied with to give `words`.
    """

    number: int
    words: float
    meaning: float = 0.0
    need: float = 0.0
    word_share: float = 1.0

    @property
    def score(self) -> float:
        return self.words + self.meaning + self.need


@dataclass(frozen=True, slots=True)
class Ranking:
    """The candidates, in no order; `found` counts the tools that hold any of the words."""

    asked: Asked
    candidates: list[Ranked]
    found: int
    notes: tuple[str, ...] = ()


class Ranker:
    """Ranks texts against one set of postings, and of vectors where the ranking is hybrid."""

    def __init__(self, postings: Postings, vectors: Vectors | None) -> None:
        self._postings = postings
        self._vectors = vectors
        self._asker = Asker(postings)

    def ask(self, text: str) -> Asked:
        return self._asker.ask(text)

    def rank(self, text: str, limit: int, only: Collection[int] | None = None) -> Ranking:
        """The best `limit` tools and more; `only` restricts the tools."""
        whole = self._rank_one(text, self.ask(text), limit, only)
        needs = self._needs(text)
        if len(needs) < 2:
            return whole
        lifts: dict[int, float] = {}
        for need, asked in needs:
            ranking = self._rank_one(need, asked, limit, only)
            top = max((one.score for one in ranking.candidates), default=0.0) or 1.0
            for one in ranking.candidates:
                lifts[one.number] = max(lifts.get(one.number, 0.0), one.score / top)
        top = max((one.score for one in whole.candidates), default=0.0) or 1.0
        known = {one.number: one for one in whole.candidates}
        candidates = [
            replace(known.get(number) or Ranked(number, 0.0), need=lift * _NEED_WEIGHT * top)
            for number, lift in lifts.items()
        ]
        candidates += [one for one in whole.candidates if one.number not in lifts]
        return replace(whole, candidates=candidates)

    def _needs(self, text: str) -> list[tuple[str, Asked]]:
        """The clauses of the text that say enough to be looked for on their own."""
        clauses = [clause for clause in _CLAUSE_END.split(text) if clause and not clause.isspace()]
        if len(clauses) < 2:
            return []
        asked = [(clause, self.ask(clause)) for clause in clauses]
        return [(clause, one) for clause, one in asked if self._rarity(one.factors) >= _NEED_RARITY][:_MAX_NEEDS]

    def _rarity(self, factors: Mapping[int, float]) -> float:
        return sum(self._postings.rarity(term) * factor for term, factor in factors.items())

    def _rank_one(self, text: str, asked: Asked, limit: int, only: Collection[int] | None) -> Ranking:
        hits = self._postings.best(asked.factors, max(limit, POOL), only)
        by_words = [Ranked(number, score) for number, score in hits.scores.items()]
        if self._vectors is None:
            return Ranking(asked, by_words, hits.found)
        try:
            likeness = self._vectors.closest(text, POOL, hits.scores if only is None else only)
        except EmbeddingError as error:
            return Ranking(asked, by_words, hits.found, (f"searched without embeddings: {safe_line(str(error))}",))
        if only is not None:
            likeness = {number: likeness[number] for number in only}
        return Ranking(asked, _fused(hits.scores, likeness), hits.found)


def _fused(scores: Mapping[int, float], likeness: Mapping[int, float]) -> list[Ranked]:
    """Both parts are divided by the best of their kind before they are added: their scales differ by query."""
    word_share = 1 / (max(scores.values(), default=0.0) or 1.0)
    closest = max(likeness.values(), default=0.0)
    share = _VECTOR_WEIGHT / closest if closest > 0 else 0.0
    return [
        Ranked(number, scores.get(number, 0.0) * word_share, max(close, 0.0) * share, word_share=word_share)
        for number, close in likeness.items()
    ]
