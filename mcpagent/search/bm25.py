"""Rank tools for the terms of a query by BM25F.

Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), section 3.6: the
frequency of a term is summed over the fields, weighted and divided by each field's length, before it saturates.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeAlias

from mcpagent.search.constants import FITTED
from mcpagent.search.postings import GAIN, Postings

_CHECKED_FROM = 300
"""Minimum number of postings of a term for which checking whether it can still change the result saves time."""

NAME_COVERAGE = FITTED["words"]["name coverage"]
"""Factor on a tool's score if the query contains its whole name."""


@dataclass(frozen=True, slots=True)
class Hits:
    """Scores of the best tools by tool number: all candidates that score at least half of the best."""

    scores: dict[int, float]


class Work(NamedTuple):
    """Limits on the work for one text.

    After `postings` entries were read, only the tools found so far get further scores, which limits the time of a long
    query. `candidates` is the number of these tools.
    """

    postings: int = 12_000
    candidates: int = 100


FOR_A_QUERY = Work()

_Bound: TypeAlias = tuple[float, str, int]
"""A query term: its negated score per unit of weight, its spelling and its number. When sorted, the rarest term comes
first.
"""


def best(
    postings: Postings,
    wanted: Mapping[int, float],
    limit: int,
    only: Collection[int] | None = None,
    work: Work = FOR_A_QUERY,
) -> Hits:
    """Return the best tools for the terms, at least `limit`; `only` restricts them to these tools.

    `wanted` maps terms to factors.
    """
    candidates = max(limit, work.candidates)
    worths = postings.worths(wanted)
    unread: Sequence[_Bound] = ()
    if only is not None:
        scores = _scores_of(postings, only, worths)
    else:
        scores, unread, left = _scores(postings, worths, limit, work.postings)
    kept, highest = _best_of(scores, candidates)
    if not highest:
        return Hits({})
    if unread:
        floor = 0.0
        if len(highest) >= limit:
            floor = highest[limit - 1] - left
        _score_on(
            postings,
            kept,
            unread,
            [number for number, score in kept.items() if score >= floor],
        )
        scores |= kept
        highest = sorted(kept.values(), reverse=True)[:candidates]
    # The later increase for matching names must not decide which tools are candidates.
    lowest = 0.0
    if len(highest) >= limit:
        lowest = highest[limit - 1]
    if (
        limit < candidates // 2
    ):  # if the limit is smaller, count all tools that score half of the best
        lowest = min(lowest, highest[0] / 2)
    floor = lowest / (1 + NAME_COVERAGE)
    if len(highest) >= candidates:
        floor = max(floor, highest[-1])
    top = {number: score for number, score in kept.items() if score >= floor}
    said = {
        term: worth if wanted[term] <= 1.0 else postings.rarity(term)
        for term, worth in worths.items()
    }
    _lift_named(postings, top, said)
    return Hits(top)


def _lift_named(
    postings: Postings, scores: dict[int, float], said: Mapping[int, float]
) -> None:
    """Raise each tool's score by the share of its name that the query contains. `said` maps query terms to their
    rarities.
    """
    names, wholes = postings.names, postings.name_rarities
    for number in scores:
        part = 0.0
        for term in names[number]:
            if term in said:
                part += said[term]
        if part:
            scores[number] *= 1 + NAME_COVERAGE * (part / wholes[number]) ** 2


def _scores(
    postings: Postings, worths: Mapping[int, float], limit: int, most_postings: int
) -> tuple[dict[int, float], list[_Bound], float]:
    """Return scores by tool number, the terms not read yet, and the maximum that these terms could add.

    If no terms remain, the scores are complete. Otherwise only tools that already have a score can be among the best
    `limit`. Terms are read rarest first, until the rest cannot lift another tool into the best `limit`, or
    `most_postings` entries were read.
    """
    spelled, gone, terms = postings.spelled, postings.gone, postings.terms
    bounds = sorted(
        [
            (-worth, spelled[term], term)
            for term, worth in worths.items()
            if terms[term].held
        ]
    )
    scores: dict[int, float] = {}
    best, read, most = 0.0, 0, 0.0
    left = -sum([bound for bound, _, _ in bounds]) * GAIN
    for place, (bound, _, term) in enumerate(bounds):
        _, length, lists = terms[term]
        if place:
            few = length <= _CHECKED_FROM or left >= most
            if not few:
                _leave_out(scores, gone)
                best = _nth_highest(scores, limit, best)
            if read + length > most_postings or not (few or left >= best):
                _leave_out(scores, gone)
                return scores, bounds[place:], left
        for tools, weights in lists:
            if scores:
                for number, weight in zip(tools, weights, strict=True):
                    if number in scores:
                        scores[number] -= weight * bound
                    else:
                        scores[number] = -(weight * bound)
            else:
                scores = {
                    number: weight * -bound
                    for number, weight in zip(tools, weights, strict=True)
                }
        read += length
        most -= bound * GAIN
        left += bound * GAIN
    _leave_out(scores, gone)
    return scores, [], 0.0


def _score_on(
    postings: Postings,
    scores: dict[int, float],
    unread: Sequence[_Bound],
    numbers: Collection[int],
) -> None:
    """Add the scores of the unread terms to these tools."""
    candidates = sorted(numbers)
    for bound, _, term in unread:
        for tools, weights in postings.terms[term].lists:
            at, end = 0, len(tools)
            for number in candidates:
                at = bisect_left(tools, number, at)
                if at == end:
                    break
                if tools[at] == number:
                    scores[number] -= weights[at] * bound


def _scores_of(
    postings: Postings, numbers: Iterable[int], worths: Mapping[int, float]
) -> dict[int, float]:
    factors = [(term, worth) for term, worth in worths.items() if postings.count(term)]
    scores = {
        number: sum([postings.weight(term, number) * worth for term, worth in factors])
        for number in numbers
    }
    return {number: score for number, score in scores.items() if score > 0}


def _leave_out(scores: dict[int, float], gone: AbstractSet[int]) -> None:
    for number in scores.keys() & gone:
        del scores[number]


def _best_of(
    scores: dict[int, float], count: int
) -> tuple[dict[int, float], list[float]]:
    """Return all tools that reach the `count`th highest score, and the highest `count` scores in descending order."""
    kept = scores
    if len(kept) > 4 * count:
        floor = _reached(scores, count)
        kept = {number: score for number, score in scores.items() if score >= floor}
    highest = sorted(kept.values(), reverse=True)[:count]
    if len(kept) > count:
        lowest = highest[-1]
        kept = {number: score for number, score in kept.items() if score >= lowest}
    return kept, highest


def _nth_highest(scores: Mapping[int, float], rank: int, floor: float = 0.0) -> float:
    """Return the `rank`th highest score, 0 if there are fewer. `floor` is a score that at least `rank` tools reach."""
    values: Collection[float] = scores.values()
    if not floor and len(values) > 4 * rank:
        floor = _reached(scores, rank)
    if floor:
        values = [score for score in values if score >= floor]
    if len(values) >= rank:
        return sorted(values)[-rank]
    return 0.0


def _reached(scores: Mapping[int, float], count: int) -> float:
    """Return a score that at least `count` tools reach, estimated from a sample."""
    step = math.isqrt(len(scores) // count)
    return sorted(islice(scores.values(), 0, None, step))[-count]
