"""Estimate the odds that the catalogue serves the request, so that a best match can be trusted or not.

Logistic regressions over the ranking's data about a match, one for words alone and one for each kind of vectors. Their
weights and `MIN_STRENGTH` come from `benchmarks/search_threshold.py`, on requests with and without a right tool.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping
from operator import mul
from typing import NamedTuple

from mcpagent.search.constants import FITTED
from mcpagent.search.postings import Postings
from mcpagent.search.query_terms import QueryTerms
from mcpagent.search.result import Odds
from mcpagent.search.words import plain, written_words

MIN_STRENGTH = FITTED["odds"]["sure"]
"""Minimum odds of a match that is not weak, if served and unserved requests are equally frequent. A weak match is shown
too, so a strict threshold loses none."""

_FITS = FITTED["odds"]["fits"]
"""Minimum share of the best score of a match that is not weak."""

_LIKELY, _POSSIBLE = FITTED["odds"]["likely"], FITTED["odds"]["possible"]
"""Minimum probabilities of a likely and of a possible match."""

_NO_ODDS = 1e-9
_SURE = 4.0
"""Upper bound of the logarithm of the best match's odds."""

_MOST_COVERED = 1.2

_MANY_TOOLS = 500
"""Catalogue size from which scores need no correction: in smaller ones no word is rare, so scores are lower."""


class Evidence(NamedTuple):
    """The features of the best match for the regression; also used for their weights."""

    intercept: float
    """The constant term; the feature is always 1."""

    score: float
    """Logarithm of the best BM25 score, in units of the rarity of the rarest possible word."""

    covered: float
    """Share of the query that the best tool contains, at most `_MOST_COVERED`."""

    few_tools: float
    """0 for 500 tools and more, larger for smaller catalogues."""

    missing: float
    """Share of the content words that no tool contains, without capitalised words such as names."""

    guessed: float
    """Share of corrected words in the query, divided by their number: a single unknown word may be correct, several are
    typos."""

    words: float
    """Logarithm of one plus the number of content words."""

    silent: float
    """Share of stop words, which is higher in questions and small talk than in commands."""

    meaning: float = 0.0
    """The highest cosine."""


class Cosines(NamedTuple):
    """The calibration of a model's cosines; models differ in the cosines of similar and of unrelated texts.

    `like`: from here on a tool without a common word is a candidate. Over 1,220 tools, nine of ten requests that no
    tool serves stay below it for words, half for sentences. `weight`: the weight of the closest tool by cosine,
    relative to 1 for the best by words.
    """

    like: float
    weight: float
    weights: Evidence


def _of(group: str, odds: str) -> Cosines:
    return Cosines(
        FITTED["least cosine"][group], FITTED["fusion"][group], Evidence(**FITTED[odds])
    )


_BY_WORDS = Evidence(**FITTED["odds by words"])
"""Weights for a ranking without vectors."""

OF_WORDS = _of("words", "odds with word vectors")
"""Weights for mean word vectors, and for encoders without measurements."""

OF_SENTENCES = _of("sentences", "odds with sentences")
"""Weights for the English sentence encoder."""

OF_LANGUAGES = _of("sentences of 16 languages", "odds with sentences of 16 languages")
"""Weights for the multilingual sentence encoder."""


class MatchOdds(NamedTuple):
    """The odds that the best match is right.

    Without `evidence` they are infinite for a tool that served the same request, and 0 if no word scored. `fits`:
    whether any tool fits at all.
    """

    strength: float
    evidence: Evidence | None = None
    fits: bool = True


class OddsFeatures(NamedTuple):
    """The features of a tool's chance, as weights of a logistic regression."""

    intercept: float
    strength: float
    """Weight of the logarithm of the odds that any match is right."""

    lead: float
    """Weight of the logarithm of the score, divided by the best other score."""

    first: float
    """Weight of being the best match."""


CHANCE = OddsFeatures(**FITTED["chance"])
"""The weights that `benchmarks/search_odds.py` fitted."""


class Cutoffs(NamedTuple):
    """The minimum scores of likely and possible tools; the best one has separate odds."""

    best: float
    first: Odds
    likely: float
    possible: float

    def odds_of(self, score: float) -> Odds:
        """Return the odds that the user means a tool with this score."""
        if score >= self.best:
            return self.first
        if score < self.possible:
            return "weak"
        if score >= self.likely:
            return "likely"
        return "possible"

    def count(self, scores: Iterable[float]) -> int:
        """Return how many of the scores are not weak."""
        least = min(self.possible, math.inf if self.first == "weak" else self.best)
        return sum([score >= least for score in scores])


ALL_POSSIBLE = Cutoffs(math.inf, "possible", math.inf, 0.0)
"""Cutoffs by which every score is a possible match."""


def cutoffs(scores: Iterable[float], strength: float, least: float) -> Cutoffs:
    """Return the minimum scores of likely and possible tools, by the odds of the best one.

    With a `least` of 0 nothing is known of the odds: all that score half of the best are likely.
    """
    best, second = [*heapq.nlargest(2, scores), 0.0, 0.0][:2]
    if best <= 0:
        return Cutoffs(math.inf, "weak", math.inf, math.inf)
    half = _FITS * best
    if least <= 0 and strength >= 0:
        return Cutoffs(best, "likely", half, half)
    shift = 0.0
    if least > 0:
        shift = math.log(least / MIN_STRENGTH)
    told = CHANCE.intercept + CHANCE.strength * min(
        math.log(max(strength, _NO_ODDS)) - shift, _SURE
    )
    chance = _chance(
        told + CHANCE.first + CHANCE.lead * math.log(best / max(second, half))
    )
    first: Odds = "weak"
    if chance >= _POSSIBLE:
        first = "possible"
        if chance >= _LIKELY:
            first = "likely"

    def reaching(chance: float) -> float:
        ratio = (math.log(chance / (1 - chance)) - told) / CHANCE.lead
        if ratio <= 0:
            return max(half, best * math.exp(ratio))
        return math.inf

    return Cutoffs(best, first, reaching(_LIKELY), reaching(_POSSIBLE))


def _chance(told: float) -> float:
    return 1 / (1 + math.exp(-told))


def assess(
    text: str,
    query: QueryTerms,
    scores: Mapping[int, float],
    postings: Postings,
    cosine: float | None = None,
    cosines: Cosines = OF_WORDS,
) -> MatchOdds:
    """Assess the best match of the text by its `scores`; `cosine` is the highest one, None without vectors."""
    if not scores:
        return MatchOdds(0.0, fits=cosine is not None and cosine >= cosines.like)
    found = _evidence(text, query, scores, postings, cosine or 0.0)
    if cosine is None:
        weights = _BY_WORDS
    else:
        weights = cosines.weights
    return MatchOdds(math.exp(sum(map(mul, weights, found))), found)


def _evidence(
    text: str,
    query: QueryTerms,
    scores: Mapping[int, float],
    postings: Postings,
    cosine: float = 0.0,
) -> Evidence:
    """Return the features of the best match; `scores` has at least one score above 0."""
    words = written_words(text)
    names = {plain(word) for word in words[1:] if not word.islower()}
    guessed = {term: query.factors[term] for term in query.guessed}
    corrected = {query.words[term] for term in query.guessed}
    return Evidence(
        intercept=1.0,
        score=math.log(max(scores.values()) / postings.highest_rarity),
        covered=min(covered_share(query, scores, postings)[0], _MOST_COVERED),
        few_tools=max(
            0.0, math.log(math.log(_MANY_TOOLS) / math.log(1 + postings.size))
        ),
        missing=sum(word not in names for word in query.missing)
        / max(telling_words(query), 1),
        guessed=postings.rarities(guessed)
        / _whole(query, postings)
        / max(len(corrected), 1),
        words=math.log(1 + telling_words(query)),
        silent=1 - min(telling_words(query) / max(len(words), 1), 1.0),
        meaning=cosine,
    )


def covered_share(
    query: QueryTerms, scores: Mapping[int, float], postings: Postings
) -> tuple[float, float]:
    """Return the share of the query that the best tool covers, and that of its significant words that no tool has."""
    whole = _whole(query, postings)
    covered = 0.0
    if whole:
        covered = max(scores.values(), default=0.0) / whole
    return covered, len(query.missing) / max(telling_words(query), 1)


def telling_words(query: QueryTerms) -> int:
    """Count the words of the query that carry meaning."""
    return len(set(query.words.values())) + len(query.missing)


def _whole(query: QueryTerms, postings: Postings) -> float:
    return postings.rarities(query.factors) + postings.highest_rarity * len(
        query.missing
    )
