"""Estimate the odds that the catalogue serves the request, so that a best match can be trusted or not.

Logistic regressions over the ranking's data about a match, one for words alone and one for each kind of vectors. Their
weights and `MIN_STRENGTH` come from `benchmarks/search_threshold.py`, on requests with and without a right tool.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mcpagent.search.asked import Asked
from mcpagent.search.postings import Postings
from mcpagent.search.result import Odds
from mcpagent.search.words import plain, written_words

MIN_STRENGTH = 4.0
"""Odds below which a match is weak: four in five, if both kinds of requests are as frequent. It is shown then all the
same, so being strict costs no match."""

_FITS = 0.5
"""Share of the best score below which a match is weak."""

_LIKELY, _POSSIBLE = 0.5, 0.08
"""Chance of a tool to be the one that is meant, from which it is likely, and from which it is possible."""

_NO_ODDS = 1e-9
_SURE = 4.0
"""Logarithm of the odds of the best match from which on they say no more."""

_COVERED = 0.75
_TELLING = 0.5
"""Share of a query's words that must say something before being wholly covered makes a match sure."""

_LIKELY_GUESS = 0.6
"""Factor of a guess from which it covers a word: one typo in four letters, or two in eight."""

_SEVERAL = 2
"""So many words that say something are enough, however long the sentence around them."""

_MANY_TOOLS = 500
"""In smaller catalogues no word is rare, so that scores stay lower."""

_QUESTION = re.compile(
    r"\W*(?:(?:in |at |to |for |with |from )?(?:what|which|whom)|who|whose|when|where|why|how|is|are|do|does|did"
    r"|tell|explain|name|say|respond|answer|act as|pretend|imagine|ignore|disregard|forget|reveal|from now on"
    r"|you are|i feel|let us|let's)\b",
    re.IGNORECASE,
)


class Evidence(NamedTuple):
    """The features of the best match for the regression; also used for their weights."""

    score: float
    """Logarithm of the best BM25 score in units of the rarest word there can be."""

    question: float
    """1 for a question or what else asks for words, which is mostly answered, not acted on."""

    few_tools: float
    """0 from 500 tools on, more the fewer there are."""

    missing: float
    """Share of the telling words that no tool holds, without names and the like, which are written with capitals."""

    guessed: float
    """Share of what was asked that a word like it stands for, divided by the number of such words: one among others
    may be no typo, many are."""

    words: float
    """Logarithm of how many words the text has, and one."""

    meaning: float = 0.0
    """The highest cosine."""


_BY_WORDS = (-3.65, Evidence(2.86, -2.72, 4.22, -4.31, -2.28, 1.90))
"""Intercept and weights."""


class Cosines(NamedTuple):
    """The calibration of a model's cosines; models differ in the cosines of similar and of unrelated texts.

    `same`: from here on a match is sure without a common word. `like`: from here on a tool without a common word is a
    candidate. Over 1,220 tools, nine of ten requests that no tool serves stay below it for words, half of them for
    sentences. `weight`: the weight of the closest tool by cosine, relative to 1 for the best by words.
    """

    same: float
    like: float
    weight: float
    intercept: float
    weights: Evidence


OF_WORDS = Cosines(
    0.6, 0.35, 0.6, -7.31, Evidence(2.68, -2.97, 4.79, -2.32, 0.67, 2.02, meaning=9.40)
)
"""Of means of word vectors, and of models that nobody has measured."""

OF_SENTENCES = Cosines(
    0.56,
    0.3,
    1.0,
    -11.84,
    Evidence(3.25, -2.95, 4.19, -1.03, 2.91, 3.20, meaning=12.54),
)
"""Of the multilingual sentence encoder."""


class Assessed(NamedTuple):
    """The odds that the best match is right.

    Without `evidence` they are infinite if the tool has nearly all words of the query or the same meaning, and 0 if no
    word scored. `fits`: whether any tool fits at all.
    """

    strength: float
    evidence: Evidence | None = None
    fits: bool = True


class Chance(NamedTuple):
    """What the chance of a tool is made of, as weights of a logistic regression."""

    intercept: float
    strength: float
    """Of the logarithm of the odds that the best match is meant at all."""

    lead: float
    """Of the logarithm of the score, divided by the best other one."""

    first: float
    """For the best match."""


CHANCE = Chance(intercept=-4.05, strength=0.78, lead=3.31, first=0.67)
"""What `benchmarks/search_odds.py` found."""


class Cutoffs(NamedTuple):
    """The scores from which on a tool is likely and possible; the best one has odds of its own."""

    best: float
    first: Odds
    likely: float
    possible: float

    def odds_of(self, score: float) -> Odds:
        """Return how likely a tool with this score is meant."""
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


def cutoffs(scores: Iterable[float], strength: float, least: float) -> Cutoffs:
    """Return from which score on a tool is likely and possible, by the odds that the best one is meant.

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
    asked: Asked,
    scores: Mapping[int, float],
    postings: Postings,
    cosine: float | None = None,
    cosines: Cosines = OF_WORDS,
) -> Assessed:
    """Assess the best match of the text by its `scores`; `cosine` is the highest one, None without vectors."""
    if cosine is not None and cosine >= cosines.same:
        return Assessed(math.inf)
    if not scores:
        return Assessed(0.0, fits=cosine is not None and cosine >= cosines.like)
    if _is_covered(text, asked, scores, postings):
        return Assessed(math.inf)
    if cosine is None:
        intercept, weights = _BY_WORDS
    else:
        intercept, weights = cosines.intercept, cosines.weights
    found = _evidence(text, asked, scores, postings, cosine or 0.0)
    told = sum(weight * value for weight, value in zip(weights, found, strict=True))
    return Assessed(math.exp(intercept + told), found)


def _is_covered(
    text: str, asked: Asked, scores: Mapping[int, float], postings: Postings
) -> bool:
    """Return whether a best tool has nearly all words of the query; one supposed typo may be no typo."""
    highest = max(scores.values())
    best = (number for number, score in scores.items() if score == highest)
    return any(_covers(number, text, asked, postings) for number in best)


def _covers(number: int, text: str, asked: Asked, postings: Postings) -> bool:
    unsure = {term for term in asked.guessed if asked.factors[term] < _LIKELY_GUESS}
    held = {
        term: factor
        for term, factor in asked.factors.items()
        if term not in unsure and postings.weight(term, number)
    }
    said = {asked.words[term] for term in held}
    if (
        len(said & {asked.words[term] for term in asked.guessed}) == 1
        and len(set(asked.words.values())) > 1
    ):
        return False
    enough = (
        telling_words(asked) >= _TELLING * len(written_words(text))
        or len(said) >= _SEVERAL
    )
    return enough and postings.rarities(held) >= _COVERED * _whole(asked, postings)


def _evidence(
    text: str,
    asked: Asked,
    scores: Mapping[int, float],
    postings: Postings,
    cosine: float = 0.0,
) -> Evidence:
    """Return the features of the best match; `scores` has at least one score above 0."""
    words = written_words(text)
    names = {plain(word) for word in words[1:] if not word.islower()}
    guessed = {term: asked.factors[term] for term in asked.guessed}
    corrected = {asked.words[term] for term in asked.guessed}
    return Evidence(
        score=math.log(max(scores.values()) / postings.highest_rarity),
        question=1.0 if _QUESTION.match(text) else 0.0,
        few_tools=max(
            0.0, math.log(math.log(_MANY_TOOLS) / math.log(1 + postings.size))
        ),
        missing=sum(word not in names for word in asked.missing)
        / max(telling_words(asked), 1),
        guessed=postings.rarities(guessed)
        / _whole(asked, postings)
        / max(len(corrected), 1),
        words=math.log(1 + len(words)),
        meaning=cosine,
    )


def covered_share(
    asked: Asked, scores: Mapping[int, float], postings: Postings
) -> tuple[float, float]:
    """Return how much of what is asked the best tool has, and the share of the telling words that no tool has."""
    whole = _whole(asked, postings)
    covered = 0.0
    if whole:
        covered = max(scores.values(), default=0.0) / whole
    return covered, len(asked.missing) / max(telling_words(asked), 1)


def telling_words(asked: Asked) -> int:
    """Count the words of the query that carry meaning."""
    return len(set(asked.words.values())) + len(asked.missing)


def _whole(asked: Asked, postings: Postings) -> float:
    return postings.rarities(asked.factors) + postings.highest_rarity * len(
        asked.missing
    )
