"""BM25F over postings that can be added and removed one tool at a time.

Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), section 3.6: the
frequency of a term is summed over the fields, weighted and divided by each field's length, before it saturates.
What a term adds to a tool's score does not depend on other tools except through its rarity, so it is computed once,
when the tool is added.
"""

from __future__ import annotations

import heapq
import math
from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, islice
from typing import Any, NamedTuple, TypeVar

from mcpagent.search.fields import OF_THE_SERVER, WEIGHTS
from mcpagent.search.words import spoken, terms, written_words

Key = TypeVar("Key")
Value = TypeVar("Value")

K1 = 1.2
"""How soon more occurrences of a term stop counting."""

_CHECKED_FROM = 300
"""Postings of a term from which it is worth checking whether they can still matter."""

_FEW_TERMS = 12
_MINOR = 0.5
"""Factor up to which a wanted term is only another reading of a word."""

_NEARLY = 0.999
"""For sums of the same numbers in another order."""

NAME_COVERAGE = 0.2
"""How much higher a tool scores whose whole name is in the query."""


@dataclass(frozen=True, slots=True)
class Hits:
    """Scores of the best tools by number, and how many tools scored at least half of the best."""

    scores: dict[int, float]
    found: int


class WorkedOut(dict[Key, Value]):
    """What `work` gives for each key, asked for when the key is first met."""

    def __init__(self, work: Callable[[Key], Value]) -> None:
        self._work = work

    def __missing__(self, key: Key) -> Value:
        value = self[key] = self._work(key)
        return value


class Work(NamedTuple):
    """How much is looked at for one text: `postings` read before only the tools found so far are scored on, which
    bounds the time of a long query, and `candidates`, tools that are scored on."""

    postings: int = 12_000
    candidates: int = 100


FOR_A_QUERY = Work()


class Postings:
    """Which tool (by number) holds which term, and with what weight."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = WorkedOut(self._new_term)
        """The number of each term."""
        self.words: dict[str, tuple[int, ...]] = WorkedOut(lambda word: tuple(map(self.ids.__getitem__, terms(word))))
        """The terms of each written word."""
        self.spelled: list[str] = []
        """The terms by their numbers. These depend on what came first; what is found must not."""
        self.tools: dict[int, Any] = {}
        """The tools that hold each term, in order; arrays, or read from a file in place: see `_changeable`."""
        self.weights: dict[int, Any] = {}
        self.names: dict[int, Sequence[int]] = {}
        self.from_server: dict[int, Sequence[int]] = WorkedOut(lambda _term: array("I"))
        """The tools, in order, that hold a term only in what describes their server."""
        self.size = 0
        self.changes = 0
        self._rarities: dict[int, float] = WorkedOut(lambda term: self.rarity_of(len(self.tools[term])))
        self.rarity: Callable[[int], float] = self._rarities.__getitem__
        """The term's inverse document frequency."""
        self._name_rarities: dict[int, float] = {}

    def add(self, number: int, texts: Sequence[tuple[str, str]]) -> None:
        """Indexes the (field, text) pairs of one tool; `number` must be higher than all before."""
        tools, weights = self.tools, self.weights
        frequencies, own = self._frequencies(texts)
        for term, frequency in frequencies.items():
            held = tools[term]
            if type(held) is not array:
                held = _changeable(tools, term, "I")
                _changeable(weights, term, "f")
            held.append(number)
            weights[term].append(frequency * (K1 + 1) / (frequency + K1))
        for term in islice(frequencies, own, None):
            _changeable(self.from_server, term, "I").append(number)
        # A name counts as said when its words are, so the run of them in one (`getweather`) is no part of it.
        said = [word for field, text in texts if field == "name" for word in written_words(spoken(text))]
        self.names[number] = tuple(sorted({term for word in said for term in self.words[word]}))
        self.size += 1
        self._changed()

    def remove(self, number: int, texts: Sequence[tuple[str, str]]) -> None:
        """Takes out a tool that was added with these texts."""
        frequencies, own = self._frequencies(texts)
        for term in frequencies:
            at = _place(self.tools[term], number)
            del _changeable(self.tools, term, "I")[at]
            del _changeable(self.weights, term, "f")[at]
        for term in islice(frequencies, own, None):
            del _changeable(self.from_server, term, "I")[_place(self.from_server[term], number)]
        self.names.pop(number, None)  # those of a file come when asked for
        self.size -= 1
        self._changed()

    def _changed(self) -> None:
        self.changes += 1
        self._rarities.clear()
        self._name_rarities.clear()

    def count(self, term: int) -> int:
        """How many tools hold the term."""
        return len(self.tools[term])

    def rarities(self, factors: Mapping[int, float]) -> float:
        """Of all these terms together, each times its factor."""
        return sum(self.rarity(term) * factor for term, factor in factors.items())

    def rarity_of_word(self, term: str) -> float:
        """That of a term by its spelling, also of one that no tool ever held."""
        number = self.ids.get(term)
        return self.highest_rarity if number is None else self.rarity(number)

    @property
    def highest_rarity(self) -> float:
        """What a term that no tool holds would have."""
        return self.rarity_of(0)

    def rarity_of(self, held: int) -> float:
        """The inverse document frequency of a term that so many tools hold."""
        return math.log(1 + (self.size - held + 0.5) / (held + 0.5))

    def weight(self, term: int, number: int) -> float:
        """What the term is worth in that tool, before its rarity; 0 if the tool does not hold it."""
        tools = self.tools[term]  # as in `_place`, which called from here would cost a fifth of a search in one server
        at = bisect_left(tools, number)
        return self.weights[term][at] if at < len(tools) and tools[at] == number else 0.0

    def parts(self, number: int, factors: Mapping[int, float]) -> dict[int, float]:
        """What each of the terms that the tool holds adds to its score, times its factor."""
        held = ((term, self.weight(term, number), factor) for term, factor in factors.items())
        return {term: weight * self.rarity(term) * factor for term, weight, factor in held if weight}

    def best(
        self, wanted: Mapping[int, float], limit: int, only: Collection[int] | None = None, work: Work = FOR_A_QUERY
    ) -> Hits:
        """The best `limit` tools or somewhat more for the terms, each times its factor; `only` restricts the tools."""
        candidates = max(limit, work.candidates)
        floor = 0.0
        if only is not None:
            scores = self._scores_of(only, wanted)
        else:
            scores, floor = self._scores(wanted, limit, work.postings, candidates)
        highest = _highest(scores, candidates, floor)
        if not highest:
            return Hits({}, 0)
        low = min(highest[0] / 2, highest[limit - 1] if len(highest) >= limit else 0.0)
        others = self._other_tools_of_a_server(scores, low, wanted)
        if others and len(others) < len(scores):
            scores = {number: score for number, score in scores.items() if number not in others}
            highest = _highest(scores, candidates)
        # What the name can still add must not decide who is looked at.
        floor = highest[limit - 1] / (1 + NAME_COVERAGE) if len(highest) >= limit else 0.0
        if len(highest) >= candidates:
            floor = max(floor, highest[-1])
        half = highest[0] / 2
        top = {number: score for number, score in scores.items() if score >= floor}
        found = sum(score >= half for score in (highest if half > highest[-1] else scores.values()))
        return Hits({number: score * self._name_lift(number, wanted) for number, score in top.items()}, found)

    def _other_tools_of_a_server(
        self, scores: Mapping[int, float], low: float, wanted: Mapping[int, float]
    ) -> set[int]:
        """The tools that hold wanted words only in what describes their server, as all its tools do; none if that
        holds all that is wanted, if no such tool scores `low`, or if so much is wanted that none stands high."""
        shared = {term: self.rarity(term) * wanted[term] for term in wanted if self.from_server[term]}
        if not shared or len(wanted) > _FEW_TERMS:
            return set()
        main = {term for term, factor in wanted.items() if factor > _MINOR and self.tools[term]}
        most = sum(shared.values()) * (K1 + 1)

        def is_other(number: int) -> bool:
            score = scores[number]
            if score > most:
                return False
            held = {term for term in shared if _place(self.from_server[term], number) >= 0}
            return not main <= held and score * _NEARLY <= sum(
                self.weight(term, number) * shared[term] for term in held
            )

        if not any(is_other(number) for number, score in scores.items() if score >= low):
            return set()
        return set(filter(is_other, scores))

    def _name_lift(self, number: int, wanted: Mapping[int, float]) -> float:
        """A factor of 1 and more: how much of the tool's name the query says."""
        said = 0.0
        for term in self.names[number]:
            if term in wanted:
                said += self.rarity(term) * min(wanted[term], 1.0)
        if not said:
            return 1.0
        whole = self._name_rarities.get(number)
        if whole is None:
            whole = self._name_rarities[number] = sum(map(self.rarity, self.names[number]))
        return 1 + NAME_COVERAGE * (said / whole) ** 2

    def _scores(
        self, wanted: Mapping[int, float], limit: int, most_postings: int, most_candidates: int
    ) -> tuple[dict[int, float], float]:
        """Score by tool number; those of the best `limit` are complete, others may not be. With it a score that the
        `most_candidates` best reach, 0 if none is known.

        Terms are read rarest first. Once what is left cannot lift an unseen tool into the best `limit`, or enough was
        read, only the best candidates so far are scored on.
        """
        bounds = sorted(
            ((self.rarity(term) * factor, term) for term, factor in wanted.items() if self.tools[term]),
            key=lambda bound: (-bound[0], self.spelled[bound[1]]),
        )
        if not bounds:
            return {}, 0.0
        (rarest, term), *others = bounds
        scores = {number: weight * rarest for number, weight in zip(self.tools[term], self.weights[term], strict=True)}
        get = scores.get
        best = 0.0
        read = len(scores)
        most = rarest * (K1 + 1)
        left = sum(bound for bound, _ in others) * (K1 + 1)
        for place, (factor, term) in enumerate(others):
            tools = self.tools[term]
            few = len(tools) <= _CHECKED_FROM or left >= most
            if not few:
                best = _nth_highest(scores, limit, best)
            if read + len(tools) > most_postings or not (few or left >= best):
                return scores, self._score_on(scores, others[place:], left, limit, most_candidates)
            for number, weight in zip(tools, self.weights[term], strict=True):
                scores[number] = get(number, 0.0) + weight * factor
            read += len(tools)
            most += factor * (K1 + 1)
            left -= factor * (K1 + 1)
        return scores, 0.0

    def _score_on(
        self,
        scores: dict[int, float],
        bounds: Sequence[tuple[float, int]],
        left: float,
        limit: int,
        most_candidates: int,
    ) -> float:
        """Completes the scores of at most `most_candidates` tools (and ties) that can be among the best `limit`; gives
        the score that so many had before, 0 if fewer had any."""
        highest = _highest(scores, most_candidates)
        lowest = floor = highest[-1] if len(highest) >= most_candidates else 0.0
        if len(highest) >= limit:
            floor = max(floor, highest[limit - 1] - left)
        candidates = sorted(number for number, score in scores.items() if score >= floor)
        for factor, term in bounds:
            tools, weights = self.tools[term], self.weights[term]
            at, end = 0, len(tools)
            for number in candidates:
                at = bisect_left(tools, number, at)
                if at == end:
                    break
                if tools[at] == number:
                    scores[number] += weights[at] * factor
        return lowest

    def _scores_of(self, numbers: Iterable[int], wanted: Mapping[int, float]) -> dict[int, float]:
        factors = [(term, self.rarity(term) * factor) for term, factor in wanted.items() if self.tools[term]]
        scores = {number: sum(self.weight(term, number) * factor for term, factor in factors) for number in numbers}
        return {number: score for number, score in scores.items() if score > 0}

    def _frequencies(self, texts: Sequence[tuple[str, str]]) -> tuple[dict[int, float], int]:
        """The terms' weighted frequencies, and how many of them, the first ones, are the tool's own."""
        found: dict[int, float] = {}
        own = 0
        known, get = self.words.__getitem__, found.get
        for field, text in texts:
            words = written_words(text)
            rule = WEIGHTS[field]
            unit = rule.weight / (1 - rule.b + rule.b * len(words) / rule.usual_words)
            for term in chain.from_iterable(map(known, words)):
                found[term] = get(term, 0.0) + unit
            if field not in OF_THE_SERVER:
                own = len(found)
        return found, own

    def _new_term(self, term: str) -> int:
        number = len(self.spelled)
        self.spelled.append(term)
        self.tools[number], self.weights[number] = array("I"), array("f")
        return number


class PostingsOfSome(Postings):
    """Those of some of the tools: what postings of these alone would hold, filtered term by term when first read.

    `held` are their numbers, in order, in `whole`, to which others may be added meanwhile. Nothing is added here.
    """

    def __init__(self, whole: Postings, held: Sequence[int]) -> None:
        super().__init__()
        mask = bytearray(held[-1] + 1 if held else 0)
        for number in held:
            mask[number] = 1
        self.ids, self.words, self.spelled, self.names = whole.ids, whole.words, whole.spelled, whole.names
        self.size = len(held)

        def are_held(numbers: Sequence[int]) -> Iterable[int]:
            return map(mask.__getitem__, islice(numbers, bisect_left(numbers, len(mask))))

        def tools(term: int) -> array[int]:
            return array("I", compress(whole.tools[term], are_held(whole.tools[term])))

        def weights(term: int) -> array[float]:
            return array("f", compress(whole.weights[term], are_held(whole.tools[term])))

        def from_server(term: int) -> array[int]:
            numbers = whole.from_server.get(term, array("I"))
            return array("I", compress(numbers, are_held(numbers)))

        self.tools, self.weights = WorkedOut(tools), WorkedOut(weights)
        self.from_server = WorkedOut(from_server)


def _changeable(lists: dict[int, Any], term: int, kind: str) -> array[Any]:
    """The term's list; one that is read in place, from memory shared with other processes, becomes an array."""
    held = lists[term]
    if type(held) is not array:
        held = lists[term] = array(kind, held.tobytes())
    return held


def _place(numbers: Sequence[int], number: int) -> int:
    """Where the number stands among the sorted ones; -1 if it is none of them."""
    at = bisect_left(numbers, number)
    return at if at < len(numbers) and numbers[at] == number else -1


def _highest(scores: Mapping[int, float], count: int, floor: float = 0.0) -> list[float]:
    """The `count` highest scores, highest first; `floor` is one that so many are known to reach."""
    values: Iterable[float] = scores.values()
    if floor:
        values = [score for score in values if score >= floor]
    elif len(scores) > 4 * count:
        return heapq.nlargest(count, values)
    return sorted(values, reverse=True)[:count]


def _nth_highest(scores: Mapping[int, float], rank: int, floor: float = 0.0) -> float:
    highest = _highest(scores, rank, floor)
    return highest[-1] if len(highest) == rank else 0.0
