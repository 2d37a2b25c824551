"""The ranking of one text: BM25 over its words, fused with vectors if there are any, over each of its needs."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from mcpagent.search.asked import Asked, Asker
from mcpagent.search.bm25 import FOR_A_QUERY, Hits, Work, best
from mcpagent.search.meaning.embedding import EmbeddingError
from mcpagent.search.meaning.vectors import Vectors
from mcpagent.search.postings import Postings
from mcpagent.search.result import Reason
from mcpagent.search.strength import Assessed, assess, telling_words
from mcpagent.text.safe_text import safe_line

_FOR_SEVERAL_NEEDS, _FOR_A_NEED = Work(1200, 30), Work(300, 15)
"""Half of the candidates are fused with as many that are close in meaning."""

_STRONG = 3.0
"""Rarest words that a tool must hold to count as found by its words alone; below that, vectors weigh more. Of a query
of few words one less is enough: who asks with one word wants the tools that hold it."""

FITS = 0.5
"""Share of the best score from which a tool counts as found, as by words alone."""

_ASKED_BEFORE, _LIKE_ASKED = 0.8, 0.25
"""How like an earlier query one must be for the tool that served it to be sure, and to be worth a look."""

_NEED_WEIGHT = 0.5
_TELLING_PART = 0.0005
"""Least part of a score that is given as a reason: it rounds to something."""

_NEED_RARITY = 8.0
"""Rarity that the words of a clause must add up to before it counts as a need of its own."""

_ANSWERED = 0.8
"""Best score of a need, for each unit of its words' rarity: a tool that holds a word scores about once its rarity."""

_MAX_NEEDS = 6
_MOST_PARTS = 24
_SENTENCE_END = r"(?<=[\w\"')][.!?;])[.!?;]*\s+|(?<=\n)\n*"
CLAUSE_END = re.compile(
    rf"[.!?;,\s](?:{_SENTENCE_END}|(?:(?<=,)\s+|(?<=\s)\s*)(?:and then|then|and also|also)\s+|(?<=,)\s+and\s+)",
    re.IGNORECASE,
)
JOINT = re.compile(
    rf"[.!?;,\s](?:{_SENTENCE_END}|(?:(?<=,)\s+|(?<=\s)\s*)(?:and then|then|and also|also|and|or|plus)\s+"
    r"|(?<=,)\s+|(?<=\s)\s*[+&/]\s+)",
    re.IGNORECASE,
)
"""Where clauses end, and where parts of them may. Each begins with one class of characters, by which most of a text is
passed over, and looks back at which of them it was; the tests have them as one would write them."""


class Ranked(NamedTuple):
    """A candidate and what its score is made of: `words` (BM25), `meaning` (vectors), `need` (best for one need),
    `learned` (earlier use after such a query).

    `word_share` is what a BM25 score was multiplied with to give `words`.
    """

    number: int
    words: float
    meaning: float = 0.0
    need: float = 0.0
    word_share: float = 1.0
    learned: float = 0.0

    @property
    def score(self) -> float:
        """What it ranks by: the sum of its parts."""
        return self.words + self.meaning + self.need + self.learned


@dataclass(frozen=True, slots=True)
class Ranking:
    """The candidates, in no order; `found` counts the tools that score at least half of the best.

    `assessed` says how sure it is that the best tool is meant at all.
    """

    asked: Asked
    candidates: list[Ranked]
    found: int
    assessed: Assessed
    notes: tuple[str, ...] = ()


class Ranker:
    """Ranks texts against one set of postings, and of vectors if the ranking is hybrid."""

    def __init__(self, postings: Postings, vectors: Vectors | None, asker: Asker | None = None) -> None:
        self._postings = postings
        self._vectors = vectors
        self.asker = asker or Asker(postings)

    def ask(self, text: str) -> Asked:
        """The text's words as terms of the postings."""
        return self.asker.ask(text)

    def rank(self, text: str, limit: int, only: Collection[int] | None = None) -> Ranking:
        """The best `limit` tools and more; `only` restricts the tools."""
        needs = self._needs(text, only)
        if len(needs) < 2:
            return self._rank_one(text, self.ask(text), limit, only, FOR_A_QUERY)
        whole = self._rank_one(text, self.ask(text), limit, only, _FOR_SEVERAL_NEEDS)
        lifts: dict[int, float] = {}
        for scores in self._need_scores(needs, limit, only, [one.number for one in whole.candidates]):
            top = max(scores.values(), default=0.0) or 1.0
            for number, score in scores.items():
                lift = score / top
                if lift > lifts.get(number, -1.0):
                    lifts[number] = lift
        top = max((one.score for one in whole.candidates), default=0.0) or 1.0
        known = {one.number: one for one in whole.candidates}
        unknown = Ranked(0, 0.0)
        candidates = [one for one in whole.candidates if one.number not in lifts]
        for number, lift in lifts.items():
            _, words, meaning, _, share, _ = known.get(number, unknown)
            candidates.append(Ranked(number, words, meaning, lift * _NEED_WEIGHT * top, share))
        return replace(whole, candidates=candidates)

    def _need_scores(
        self, needs: Sequence[tuple[str, Asked]], limit: int, only: Collection[int] | None, close: Sequence[int]
    ) -> list[dict[int, float]]:
        """The candidates' scores for each need: those by its words, and those `close` in meaning to the whole request.
        To look at all vectors for each need would take as long again for each."""
        scores = [self._hits(asked, limit, only, _FOR_A_NEED).scores for _, asked in needs]
        if self._vectors is not None:
            numbers, weight = list(dict.fromkeys(chain(close, *scores))), self._vectors.cosines.weight
            with contextlib.suppress(EmbeddingError):  # already noted for the whole request
                texts = [self._vectors.corrected(need, asked.corrected) for need, asked in needs]
                likeness = self._vectors.likeness(texts, numbers)
                fused: list[dict[int, float]] = []
                for (_, need), hits, near in zip(needs, scores, likeness, strict=True):
                    words, meaning = _scales(hits, near, self._strong(need), weight)
                    held = hits.get
                    fused.append(
                        {
                            number: held(number, 0.0) * words + (close * meaning if close > 0 else 0.0)
                            for number, close in near.items()
                        }
                    )
                return fused
        return scores

    def favour(self, ranking: Ranking, favours: Mapping[int, float]) -> Ranking:
        """The ranking with tools raised that served queries like this one before; `favours` are 0 to 1, by number."""
        if not favours:
            return ranking
        top = max((one.score for one in ranking.candidates), default=0.0) or 1.0
        known = {one.number: one for one in ranking.candidates}
        raised = {
            number: (known.get(number) or Ranked(number, 0.0))._replace(learned=favour * top)
            for number, favour in favours.items()
        }
        likest = max(favours.values())
        fits = ranking.assessed.fits or likest >= _LIKE_ASKED
        assessed = Assessed(math.inf) if likest >= _ASKED_BEFORE else ranking.assessed._replace(fits=fits)
        return replace(ranking, candidates=list((known | raised).values()), assessed=assessed)

    def _needs(self, text: str, only: Collection[int] | None) -> list[tuple[str, Asked]]:
        """The clauses of the text that say enough to be looked for on their own, at most `_MAX_NEEDS`.

        What "and", "or", "+" and commas join is mostly one need ("from Berlin to Paris, by train"), so these part
        clauses only where each of them is what some tool is about.
        """
        parts = _between(JOINT, text)
        if len(parts) < 2:
            return []
        ended = _between(CLAUSE_END, text)
        clauses = self._telling(ended)
        if len(ended) < len(parts) <= _MAX_NEEDS:  # more of them are a list
            joined = self._telling(parts)
            if len(joined) > max(len(clauses), 1) and all(self._is_answered(asked, only) for _, asked in joined):
                return joined
        return clauses[:_MAX_NEEDS]

    def _telling(self, parts: Sequence[str]) -> list[tuple[str, Asked]]:
        """Those of several parts that have words rare enough."""
        if len(parts) < 2:
            return []
        asked = ((part, self.ask(part)) for part in parts[:_MOST_PARTS])
        return [one for one in asked if self._postings.rarities(one[1].factors) >= _NEED_RARITY]

    def _is_answered(self, asked: Asked, only: Collection[int] | None) -> bool:
        """Whether a tool has nearly all that is asked, by its words."""
        highest = max(self._hits(asked, 1, only, _FOR_A_NEED).scores.values(), default=0.0)
        return highest >= _ANSWERED * (
            self._postings.rarities(asked.factors) + self._postings.highest_rarity * len(asked.missing)
        )

    def _rank_one(self, text: str, asked: Asked, limit: int, only: Collection[int] | None, work: Work) -> Ranking:
        pool = limit if self._vectors is None else max(limit, work.candidates // 2)
        hits = self._hits(asked, pool, only, work)
        by_words = [Ranked(number, score) for number, score in hits.scores.items()]
        if self._vectors is None:
            return Ranking(asked, by_words, hits.found, assess(text, asked, hits.scores, self._postings))
        try:
            likeness = self._vectors.closest(
                self._vectors.corrected(text, asked.corrected), pool, hits.scores if only is None else only
            )
        except EmbeddingError as error:
            note = f"searched without embeddings: {safe_line(str(error))}"
            return Ranking(asked, by_words, hits.found, assess(text, asked, hits.scores, self._postings), (note,))
        if only is not None:
            likeness = {number: likeness[number] for number in only}
        cosine = max(likeness.values(), default=0.0)
        cosines = self._vectors.cosines
        sure = assess(text, asked, hits.scores, self._postings, cosine, cosines)
        words, meaning = _scales(hits.scores, likeness, self._strong(asked), cosines.weight)
        held = hits.scores.get
        fused = [
            Ranked(number, held(number, 0.0) * words, close * meaning if close > 0 else 0.0, 0.0, words)
            for number, close in likeness.items()
        ]
        totals = [one.score for one in fused]
        half = max(totals, default=0.0) * FITS
        return Ranking(asked, fused, sum([total >= half for total in totals]) if half > 0 else 0, sure)

    def _strong(self, asked: Asked) -> float:
        return min(_STRONG, telling_words(asked) - 1) * self._postings.highest_rarity

    def _hits(self, asked: Asked, limit: int, only: Collection[int] | None, work: Work) -> Hits:
        return best(self._postings, asked.factors, limit, only, work)


def _between(ends: re.Pattern[str], text: str) -> list[str]:
    return [part for part in ends.split(text) if part and not part.isspace()]


def _scales(
    scores: Mapping[int, float], likeness: Mapping[int, float], strong: float, weight: float
) -> tuple[float, float]:
    """What BM25 scores and cosines are multiplied with before they are added. Their scales differ from query to query,
    so both are divided by the best of their kind, words at least by `strong`: what few words would have to reach; the
    best cosine counts `weight`."""
    closest = max(likeness.values(), default=0.0)
    words = 1 / (max(max(scores.values(), default=0.0), strong) or 1.0)
    return words, weight / closest if closest > 0 else 0.0


def reasons_of(
    ranked: Ranked, asked: Asked, parts: Mapping[int, float], fields: Mapping[int, str]
) -> tuple[Reason, ...]:
    """What made the score, the largest first: `parts` by the terms that the tool holds, in which `fields`."""
    reasons = [
        Reason(fields[term], asked.words[term], round(part * ranked.word_share, 3))
        for term, part in parts.items()
        if term in fields
    ]
    name_lift = ranked.words - sum(parts.values()) * ranked.word_share
    for field, word, part in (
        ("name", "words of the name", name_lift),
        ("meaning", "whole query", ranked.meaning),
        ("description", "one need of several", ranked.need),
        ("history", "served such a query", ranked.learned),
    ):
        if part > _TELLING_PART:
            reasons.append(Reason(field, word, round(part, 3)))
    return tuple(sorted(reasons, key=lambda reason: (-reason.score, reason.word)))
