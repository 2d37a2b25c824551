"""Estimate the odds that the catalogue has a tool for the request, to decide whether the best match can be trusted.

Logistic regressions over the ranking's data about a match: one for words alone, and one for each kind of vectors. Their
weights and `MIN_STRENGTH` come from `benchmarks/search_threshold.py`, which uses requests with and without a right
tool.
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
"""Minimum odds of a match that is not weak, if requests with and without a right tool are equally frequent. Weak
matches are also shown, so a strict threshold hides none.
"""

_FITS = FITTED["odds"]["fits"]
"""Minimum score of a match that is not weak, as a share of the best score."""

_LIKELY, _POSSIBLE = FITTED["odds"]["likely"], FITTED["odds"]["possible"]
"""Minimum probabilities of a likely match and of a possible match."""

_NO_ODDS = 1e-9
_SURE = 4.0
"""Upper bound of the logarithm of the best match's odds."""

_MOST_COVERED = 1.2

_MANY_TOOLS = 500
"""Catalogue size from which scores need no correction: in smaller catalogues no word is rare, so scores are lower."""


class Evidence(NamedTuple):
    """The features of the best match for the regression. The same type also holds their weights."""

    intercept: float
    """The constant feature, always 1."""

    score: float
    """Logarithm of the best BM25 score, divided by the highest possible rarity of a word."""

    covered: float
    """Share of the query's words that the best tool contains, at most `_MOST_COVERED`."""

    few_tools: float
    """0 for catalogues of 500 tools and more, larger for smaller catalogues."""

    missing: float
    """Share of the query's content words that no tool contains, without capitalised words such as names."""

    guessed: float
    """Share of corrected words in the query, divided by their number: a single unknown word may be correct, several are
    usually typos.
    """

    words: float
    """Logarithm of one plus the number of content words."""

    silent: float
    """Share of stop words in the query, which is higher in questions and small talk than in commands."""

    meaning: float = 0.0
    """The highest cosine between the query and a tool."""


class Cosines(NamedTuple):
    """The calibration of a model's cosines; models differ in the cosines of similar and of unrelated texts.

    `like`: minimum cosine of a candidate without a common word. Over 1,220 tools, nine of ten requests without a right
    tool stay below it with word vectors, half with sentences. `weight`: the weight of the closest tool by cosine,
    relative to 1 for the best by words. `weights`: the weights of the regression.
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
"""Calibration of mean word vectors; also used for encoders without measurements."""

OF_SENTENCES = _of("sentences", "odds with sentences")
"""Calibration of the English sentence encoder."""

OF_LANGUAGES = _of("sentences of 16 languages", "odds with sentences of 16 languages")
"""Calibration of the multilingual sentence encoder."""


class MatchOdds(NamedTuple):
    """The odds that the best match is right, as `strength`.

    Without `evidence`, the odds are infinite for a tool that served the same request before, and 0 if no word matched.
    `fits`: whether any tool matches at all.
    """

    strength: float
    evidence: Evidence | None = None
    fits: bool = True


class OddsFeatures(NamedTuple):
    """The weights of the features from which a tool's probability is computed by logistic regression."""

    intercept: float
    strength: float
    """Weight of the logarithm of the odds that any match is right."""

    lead: float
    """Weight of the logarithm of the tool's score divided by the best score of another tool."""

    first: float
    """Weight of the fact that the tool is the best match."""


CHANCE = OddsFeatures(**FITTED["chance"])
"""The weights that `benchmarks/search_odds.py` fitted."""


class Cutoffs(NamedTuple):
    """The minimum scores of likely and possible tools. The best tool, with the score `best`, has its own class
    `first`.
    """

    best: float
    first: Odds
    likely: float
    possible: float

    def odds_of(self, score: float) -> Odds:
        """Return the class of odds ("likely", "possible", "weak") of a tool with this score."""
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
    """Return the minimum scores of likely and possible tools, from the odds that the best one is right (`strength`).

    If `least` is 0, the odds are unknown: all tools that score half of the best count as likely.
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
    """Return the odds that the best match is right. `cosine` is the highest cosine; None without vectors."""
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
    """Return the share of the query that the best tool covers, and the share of its content words that no tool has."""
    whole = _whole(query, postings)
    covered = 0.0
    if whole:
        covered = max(scores.values(), default=0.0) / whole
    return covered, len(query.missing) / max(telling_words(query), 1)


def telling_words(query: QueryTerms) -> int:
    """Return the number of content words in the query."""
    return len(set(query.words.values())) + len(query.missing)


def _whole(query: QueryTerms, postings: Postings) -> float:
    return postings.rarities(query.factors) + postings.highest_rarity * len(
        query.missing
    )
