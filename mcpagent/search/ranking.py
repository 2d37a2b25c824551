"""Rank tools for one text: BM25 over its words, combined with vectors if available, for each of its needs."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, takewhile
from types import MappingProxyType
from typing import NamedTuple

from mcpagent.search.bm25 import FOR_A_QUERY, Hits, Work, best
from mcpagent.search.constants import FITTED
from mcpagent.search.odds import (
    MIN_STRENGTH,
    MatchOdds,
    assess,
    covered_share,
    cutoffs,
    telling_words,
)
from mcpagent.search.postings import Postings
from mcpagent.search.query_terms import QueryAnalyzer, QueryTerms
from mcpagent.search.request_detection import RequestForm
from mcpagent.search.result import Reason
from mcpagent.search.semantic.embedding import EmbeddingError
from mcpagent.search.semantic.vectors import Stages, Vector
from mcpagent.utilities.text.safe_text import safe_line

_FOR_SEVERAL_NEEDS, _FOR_A_NEED = Work(1200, 30), Work(300, 15)
"""Work limits for a text with several needs, and for one of them. As many candidates are found by meaning as by
words.
"""

_STRONG = FITTED["fusion"]["strong"]
"""Number of rare query words that a tool must contain to count as found by words; otherwise vectors have more weight.
For a short query, one word less is enough.
"""

_ASKED_BEFORE, _LIKE_ASKED = FITTED["learned"]["sure"], FITTED["learned"]["like"]
"""Minimum similarity to an earlier query: for its tool to be a certain match, and to be a match at all."""

_SAME_ASKED, _SOMEWHAT = FITTED["learned"]["same"], FITTED["learned"]["lift"]
"""Minimum similarity to an earlier query for its tool to rank above all others; and the factor for less similar
queries, so small that other tools keep their positions (`benchmarks/search_learning.py`).
"""

_NEED_WEIGHT = FITTED["needs"]["weight"]
_TELLING_PART = 0.0005
"""Minimum share of a score that is listed as a reason; a smaller one would be rounded to zero."""

_NEED_RARITY = FITTED["needs"]["rarity"]
"""Minimum sum of the rarities of a clause's words for the clause to count as a separate need."""

_ANSWERED = FITTED["needs"]["answered"]
"""Minimum score of a need's best tool, divided by the rarity of the need's words: a tool that contains a word scores
about the word's rarity.
"""

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
"""`CLAUSE_END` matches the ends of clauses, `JOINT` also conjunctions inside them. Both begin with one character class,
so that they skip most text fast, and then look behind. The tests contain a readable form of the patterns.
"""


class Ranked(NamedTuple):
    """The components of a tool's score.

    `words` (BM25), `meaning` (vectors), `need` (best for one of several needs), `learned` (earlier use after such a
    query). `word_share` is the factor from the BM25 score to `words`.
    """

    words: float
    meaning: float
    need: float
    learned: float
    word_share: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """The `scores` of the candidates by tool number, unsorted.

    `assessed` has the odds that the best tool is right. The other fields are the components of the scores: BM25 scores
    (`hits`) and cosines (`likeness`), each with its factor, the increase for one of several needs, and earlier use.
    """

    query: QueryTerms
    scores: Mapping[int, float]
    assessed: MatchOdds
    hits: Mapping[int, float]
    word_share: float = 1.0
    likeness: Mapping[int, float] = field(default_factory=dict[int, float])
    meaning_share: float = 0.0
    needs: Mapping[int, float] = field(default_factory=dict[int, float])
    learned: Mapping[int, float] = field(default_factory=dict[int, float])
    notes: tuple[str, ...] = ()

    @property
    def is_weak(self) -> bool:
        """Return whether the best match is weak or missing."""
        strength = self.assessed.strength
        return cutoffs(self.scores.values(), strength, MIN_STRENGTH).first == "weak"

    def ranked(self, number: int) -> Ranked:
        """Return the components of a candidate's score."""
        is_known = number in self.hits or number in self.likeness
        return Ranked(
            self.hits.get(number, 0.0) * self.word_share,
            max(self.likeness.get(number, 0.0), 0.0) * self.meaning_share,
            self.needs.get(number, 0.0),
            self.learned.get(number, 0.0),
            self.word_share if is_known else 1.0,
        )


class _Need(NamedTuple):
    """One of several needs in a text, and the scores of tools for its words."""

    text: str
    query: QueryTerms
    scores: Mapping[int, float]


class Ranker:
    """Ranks texts with one set of postings, and with vectors unless the strategy uses words alone."""

    def __init__(
        self, postings: Postings, stages: Stages, analyzer: QueryAnalyzer | None = None
    ) -> None:
        self._postings = postings
        self._vectors, self._better = stages
        self.analyzer = analyzer or QueryAnalyzer(postings)

    def analyze(self, text: str) -> QueryTerms:
        """Return the text's words as terms of the postings."""
        return self.analyzer.analyze(text)

    def covering(self, text: str, form: RequestForm) -> RequestForm:
        """Return the features of a part of a prompt, completed by the share of its content words that a tool covers."""
        query = self.analyze(text)
        covered, missing = covered_share(
            query, self._hits(query, 1, None, _FOR_A_NEED).scores, self._postings
        )
        return form._replace(covered=covered, missing=missing)

    def rank(
        self,
        text: str,
        limit: int,
        only: Collection[int] | None = None,
        *,
        favours: Mapping[int, float] = MappingProxyType({}),
        is_quick: bool = False,
    ) -> Ranking:
        """Return the ranking with at least the best `limit` tools; `only` restricts it to these tools.

        If the best match is weak, the better vectors rank again, unless `is_quick` or the text has no content words.
        `favours` raises tools that served similar queries: 0 to 1, by tool number.
        """
        ranking = self._favour(self._rank(text, limit, only), favours)
        if is_quick or self._better is None or not self._better.are_few:
            return ranking
        if not ranking.is_weak or not telling_words(ranking.query):
            return ranking
        slow = Ranker(self._postings, Stages(self._better), self.analyzer)
        again = slow.rank(text, limit, only, favours=favours)
        if again.notes:  # the better model failed, so the first ranking stays
            return replace(ranking, notes=again.notes)
        return again

    def _rank(self, text: str, limit: int, only: Collection[int] | None) -> Ranking:
        needs, query = self._needs(text, limit, only), self.analyze(text)
        vectors, notes = self._embedded(
            [(text, query), *((need.text, need.query) for need in needs)]
        )
        meant = None
        if vectors:
            meant = vectors[0]
        if not needs:
            return replace(
                self._rank_one(text, query, meant, limit, only, FOR_A_QUERY),
                notes=notes,
            )
        whole = replace(
            self._rank_one(text, query, meant, limit, only, _FOR_SEVERAL_NEEDS),
            notes=notes,
        )
        lifts: dict[int, float] = {}
        for scores in self._need_scores(needs, vectors[1:], whole.scores):
            top = max(scores.values(), default=0.0) or 1.0
            for number, score in scores.items():
                lift = score / top
                if lift > lifts.get(number, -1.0):
                    lifts[number] = lift
        top = max(whole.scores.values(), default=0.0) or 1.0
        lifts = {number: lift * _NEED_WEIGHT * top for number, lift in lifts.items()}
        return replace(whole, scores=_raised(whole.scores, lifts), needs=lifts)

    def _embedded(
        self, texts: Sequence[tuple[str, QueryTerms]]
    ) -> tuple[Sequence[Vector], tuple[str, ...]]:
        """Return the texts' vectors after spelling correction; () without an embedder, or if it fails, with a note."""
        if self._vectors is None:
            return (), ()
        try:
            return self._vectors.of(
                [
                    self._vectors.corrected(text, query.corrected)
                    for text, query in texts
                ]
            ), ()
        except EmbeddingError as error:
            return (), (f"searched without embeddings: {safe_line(str(error))}",)

    def _need_scores(
        self, needs: Sequence[_Need], meant: Sequence[Vector], close: Iterable[int]
    ) -> list[Mapping[int, float]]:
        """Return scores for each need: of tools found by the need's words, and of tools `close` to the whole
        request.
        """
        scores = [need.scores for need in needs]
        if self._vectors is None or not meant:
            return scores
        likeness = self._vectors.likeness(
            meant, list(dict.fromkeys(chain(close, *scores)))
        )
        fused: list[Mapping[int, float]] = []
        for need, near in zip(needs, likeness, strict=True):
            words, meaning = _scales(
                need.scores,
                near,
                self._strong(need.query),
                self._vectors.cosines.weight,
            )
            fused.append(_fused(need.scores, near, words, meaning))
        return fused

    def _favour(self, ranking: Ranking, favours: Mapping[int, float]) -> Ranking:
        """Return the ranking with higher scores for tools that served similar queries."""
        if not favours:
            return ranking
        top = max(ranking.scores.values(), default=0.0) or 1.0
        learned = {
            number: top * (favour if favour >= _SAME_ASKED else favour * _SOMEWHAT)
            for number, favour in favours.items()
        }
        likest = max(favours.values())
        fits = ranking.assessed.fits or likest >= _LIKE_ASKED
        if likest >= _ASKED_BEFORE:
            assessed = MatchOdds(math.inf)
        else:
            assessed = ranking.assessed._replace(fits=fits)
        return replace(
            ranking,
            scores=_raised(ranking.scores, learned),
            learned=learned,
            assessed=assessed,
        )

    def _needs(
        self, text: str, limit: int, only: Collection[int] | None
    ) -> list[_Need]:
        """Return the clauses of the text that have enough content for a separate search, at most `_MAX_NEEDS`.

        Parts joined by "and", "or", "+" and commas are usually one need ("from Berlin to Paris, by train"). They are
        split only if some tool matches each part.
        """
        parts = _between(JOINT, text)
        if len(parts) < 2:
            return []
        ended = _between(CLAUSE_END, text)
        clauses = self._telling(ended)
        if (
            len(ended) < len(parts) <= _MAX_NEEDS
        ):  # with more parts, the text is probably a list
            joined = self._telling(parts)
            if len(joined) > max(len(clauses), 1):
                needs = list(
                    takewhile(self._is_answered, self._scored(joined, limit, only))
                )
                if len(needs) == len(joined):
                    return needs
        if len(clauses) > 1:
            return list(self._scored(clauses[:_MAX_NEEDS], limit, only))
        return []

    def _scored(
        self,
        parts: Iterable[tuple[str, QueryTerms]],
        limit: int,
        only: Collection[int] | None,
    ) -> Iterator[_Need]:
        return (
            _Need(part, query, self._hits(query, limit, only, _FOR_A_NEED).scores)
            for part, query in parts
        )

    def _telling(self, parts: Sequence[str]) -> list[tuple[str, QueryTerms]]:
        """Return the parts whose words are rare enough to be a need; [] if there is only one part."""
        if len(parts) < 2:
            return []
        analyzed = [(part, self.analyze(part)) for part in parts[:_MOST_PARTS]]
        return [
            (part, query)
            for part, query in analyzed
            if self._postings.rarities(query.factors) >= _NEED_RARITY
        ]

    def _is_answered(self, need: _Need) -> bool:
        """Return whether a tool has nearly all words of the need."""
        query = need.query
        return max(need.scores.values(), default=0.0) >= _ANSWERED * (
            self._postings.rarities(query.factors)
            + self._postings.highest_rarity * len(query.missing)
        )

    def _rank_one(
        self,
        text: str,
        query: QueryTerms,
        meant: Vector | None,
        limit: int,
        only: Collection[int] | None,
        work: Work,
    ) -> Ranking:
        if self._vectors is None:
            pool = limit
        else:
            pool = max(limit, work.candidates // 2)
        hits = self._hits(query, pool, only, work)
        if self._vectors is None or meant is None:
            sure = assess(text, query, hits.scores, self._postings)
            return Ranking(query, hits.scores, sure, hits.scores)
        likeness = self._vectors.closest(
            meant, pool, hits.scores if only is None else only
        )
        if only is not None:
            likeness = {number: likeness[number] for number in only}
        cosine = max(likeness.values(), default=0.0)
        cosines = self._vectors.cosines
        sure = assess(text, query, hits.scores, self._postings, cosine, cosines)
        words, meaning = _scales(
            hits.scores, likeness, self._strong(query), cosines.weight
        )
        fused = _fused(hits.scores, likeness, words, meaning)
        return Ranking(
            query,
            fused,
            sure,
            hits.scores,
            word_share=words,
            likeness=likeness,
            meaning_share=meaning,
        )

    def _strong(self, query: QueryTerms) -> float:
        return min(_STRONG, telling_words(query) - 1) * self._postings.highest_rarity

    def _hits(
        self, query: QueryTerms, limit: int, only: Collection[int] | None, work: Work
    ) -> Hits:
        return best(self._postings, query.factors, limit, only, work)


def _between(ends: re.Pattern[str], text: str) -> list[str]:
    return [part for part in ends.split(text) if part and not part.isspace()]


def _raised(
    scores: Mapping[int, float], lifts: Mapping[int, float]
) -> dict[int, float]:
    """Return the scores with `lifts` added, also for tools that had no score."""
    return {
        **scores,
        **{number: scores.get(number, 0.0) + lift for number, lift in lifts.items()},
    }


def _scales(
    scores: Mapping[int, float],
    likeness: Mapping[int, float],
    strong: float,
    weight: float,
) -> tuple[float, float]:
    """Return the factors of BM25 scores and of cosines in the sum.

    Their scales differ from query to query, so both are divided by the best of their kind. BM25 scores are divided by
    at least `strong`, the score of a tool with several rare words of the query. `weight` is the value of the best
    cosine.
    """
    closest = max(likeness.values(), default=0.0)
    words = 1 / (max(max(scores.values(), default=0.0), strong) or 1.0)
    return words, weight / closest if closest > 0 else 0.0


def _fused(
    scores: Mapping[int, float],
    likeness: Mapping[int, float],
    words: float,
    meaning: float,
) -> dict[int, float]:
    """Return, for each tool with a cosine, its BM25 score times `words` plus its cosine times `meaning`."""
    held = scores.get
    return {
        number: held(number, 0.0) * words + (close * meaning if close > 0 else 0.0)
        for number, close in likeness.items()
    }


def reasons_of(
    ranked: Ranked,
    query: QueryTerms,
    parts: Mapping[int, float],
    fields: Mapping[int, str],
) -> tuple[Reason, ...]:
    """Return the reasons for a tool's score, the largest first.

    `parts` are the scores of the terms that the tool has, `fields` the fields that contain them.
    """
    reasons = [
        Reason(fields[term], query.words[term], round(part * ranked.word_share, 3))
        for term, part in parts.items()
        if term in fields
    ]
    name_lift = ranked.words - sum(parts.values()) * ranked.word_share
    for place, word, part in (
        ("name", "words of the name", name_lift),
        ("meaning", "whole query", ranked.meaning),
        ("description", "one need of several", ranked.need),
        ("history", "served such a query", ranked.learned),
    ):
        if part > _TELLING_PART:
            reasons.append(Reason(place, word, round(part, 3)))
    return tuple(sorted(reasons, key=lambda reason: (-reason.score, reason.word)))
