"""BM25F over postings that can be added and removed one tool at a time.

Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), section 3.6: the
frequency of a term is summed over the fields, weighted and divided by each field's length, before it saturates.
What a term adds to a tool's score does not depend on other tools except through its rarity, so it is computed once,
when the tool is added.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain, compress, islice
from typing import NamedTuple, TypeAlias, TypeVar

from mcpagent.search.fields import OF_THE_SERVER, WEIGHTS
from mcpagent.search.words import name_words, terms, words_of_all, written_words

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

_GAIN = K1 + 1
"""What no weight reaches."""

_UNITS = {field: (rule.weight, 1 - rule.b, rule.b / rule.usual_words) for field, rule in WEIGHTS.items()}
"""Of each field: its weight, and what that is divided by, at first and for each word of the text."""

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


Lists: TypeAlias = "tuple[Sequence[int], Sequence[float]]"
"""Of one term: the tools that hold it, in order, and what it is worth in each before its rarity."""


class _Term(NamedTuple):
    """What a search asks of a term: its rarity, and how many tools hold it, gone ones too, in which lists."""

    rarity: float
    count: int
    lists: tuple[Lists, ...]


_NONE: Lists = (array("I"), array("f"))
_FEWEST_PURGED = 256


class Work(NamedTuple):
    """How much is looked at for one text: `postings` read before only the tools found so far are scored on, which
    bounds the time of a long query, and `candidates`, tools that are scored on."""

    postings: int = 12_000
    candidates: int = 100


FOR_A_QUERY = Work()


class Postings:
    """Which tool (by number) holds which term, and with what weight.

    Lists that come from elsewhere, from a file or from other postings, are read in place and never changed: tools that
    are added have lists of their own beside them, and tools that were removed are only left out, until they are many.
    """

    def __init__(self) -> None:
        self.ids: dict[str, int] = WorkedOut(self._new_term)
        """The number of each term."""
        self.words: dict[str, tuple[int, ...]] = WorkedOut(lambda word: tuple(map(self.ids.__getitem__, terms(word))))
        """The terms of each written word."""
        self.spelled: list[str] = []
        """The terms by their numbers. These depend on what came first; what is found must not."""
        self.names: dict[int, Sequence[int]] = {}
        self.size = 0
        self.changes = 0
        self.placed: dict[int, Lists] = WorkedOut(lambda _term: _NONE)
        """The lists that are read in place."""
        self.placed_from_server: dict[int, Sequence[int]] = {}
        """The tools, in order, that hold a term only in what describes their server."""
        self._tools: dict[int, array[int]] = WorkedOut(lambda _term: array("I"))
        self._weights: dict[int, array[float]] = WorkedOut(lambda _term: array("f"))
        self._from_server: dict[int, array[int]] = WorkedOut(lambda _term: array("I"))
        self._gone: set[int] = set()
        self._gone_of: dict[int, int] = {}
        self._terms: dict[int, _Term] = WorkedOut(self._look_up)
        self._name_rarities: dict[int, float] = WorkedOut(lambda number: sum(map(self.rarity, self.names[number])))

    def add(self, number: int, texts: Sequence[tuple[str, str]]) -> None:
        """Indexes the (field, text) pairs of one tool; `number` must be higher than all before."""
        tools, weights = self._tools, self._weights
        frequencies, own = self._frequencies(texts)
        for term, frequency in frequencies.items():
            tools[term].append(number)
            weights[term].append(frequency * _GAIN / (frequency + K1))
        for term in islice(frequencies, own, None):
            self._from_server[term].append(number)
        # A name counts as said when its words are, so the run of them in one (`getweather`) is no part of it.
        said = [word for field, text in texts if field == "name" for word in name_words(text)]
        self.names[number] = tuple(sorted({term for word in said for term in self.words[word]}))
        self.size += 1
        self._changed()

    def remove(self, number: int, texts: Sequence[tuple[str, str]]) -> None:
        """Takes out a tool that was added with these texts."""
        gone = self._gone_of
        for term in self._frequencies(texts)[0]:
            gone[term] = gone.get(term, 0) + 1
        self._gone.add(number)
        self.names.pop(number, None)  # those of a file come when asked for
        self.size -= 1
        self._changed()
        if len(self._gone) > max(self.size, _FEWEST_PURGED):
            self._purge()

    def _changed(self) -> None:
        self.changes += 1
        self._terms.clear()
        self._name_rarities.clear()

    def _purge(self) -> None:
        """Makes lists of their own for the tools that are left."""
        gone = self._gone
        for term in range(len(self.spelled)):
            held = [
                (number, weight)
                for numbers, weights in self.lists(term)
                for number, weight in zip(numbers, weights, strict=True)
                if number not in gone
            ]
            served = [number for numbers in self.from_server(term) for number in numbers if number not in gone]
            self._tools[term] = array("I", (number for number, _ in held))
            self._weights[term] = array("f", (weight for _, weight in held))
            self._from_server[term] = array("I", served)
        self.placed, self.placed_from_server = WorkedOut(lambda _term: _NONE), {}
        self._gone, self._gone_of = set(), {}

    def lists(self, term: int) -> tuple[Lists, Lists]:
        """Those that are read in place, and those of tools added since, which have higher numbers; see `holding`."""
        return self.placed[term], (self._tools[term], self._weights[term])

    def from_server(self, term: int) -> tuple[Sequence[int], Sequence[int]]:
        """The tools, in order, that hold the term only in what describes their server: as in `lists`."""
        return self.placed_from_server.get(term, ()), self._from_server[term]

    def holding(self, term: int) -> list[int]:
        """The tools that hold the term, in order."""
        return [number for numbers, _ in self.lists(term) for number in numbers if number not in self._gone]

    def count(self, term: int) -> int:
        """How many tools hold the term."""
        return len(self.placed[term][0]) + len(self._tools[term]) - self._gone_of.get(term, 0)

    def _look_up(self, term: int) -> _Term:
        lists = self.lists(term)
        count = len(lists[0][0]) + len(lists[1][0])
        rarity = self.rarity_of(count - self._gone_of.get(term, 0))
        return _Term(rarity, count, tuple(one for one in lists if one[0]))

    def rarity(self, term: int) -> float:
        """The term's inverse document frequency."""
        return self._terms[term].rarity

    def rarities(self, factors: Mapping[int, float]) -> float:
        """Of all these terms together, each times its factor."""
        terms = self._terms
        return sum([terms[term].rarity * factor for term, factor in factors.items()])

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
        tools, weights = self.placed[term]
        if not tools or number > tools[-1]:
            tools, weights = self._tools[term], self._weights[term]
        at = bisect_left(tools, number)  # as in `_place`, which called from here would cost a fifth of a search
        return weights[at] if at < len(tools) and tools[at] == number else 0.0

    def weights_of(self, texts: Sequence[tuple[str, str]]) -> dict[int, float]:
        """What each term of such a tool is worth in it, before its rarity."""
        found = self._frequencies(texts)[0]
        weights = array("f", [frequency * _GAIN / (frequency + K1) for frequency in found.values()])
        return dict(zip(found, weights, strict=True))

    def fields_of(self, texts: Sequence[tuple[str, str]], wanted: Container[int]) -> dict[int, str]:
        """The fields of such a tool that hold each of the wanted terms."""
        fields: dict[int, list[str]] = {}
        for field, text in texts:
            for term in set(chain.from_iterable(map(self.words.__getitem__, written_words(text)))):
                if term in wanted:
                    fields.setdefault(term, []).append(field)
        return {term: ", ".join(names) for term, names in fields.items()}

    def worths(self, factors: Mapping[int, float]) -> dict[int, float]:
        """What each of the terms adds to the score of a tool for each unit of its weight there."""
        terms = self._terms
        return {term: terms[term].rarity * factor for term, factor in factors.items()}

    def best(
        self, wanted: Mapping[int, float], limit: int, only: Collection[int] | None = None, work: Work = FOR_A_QUERY
    ) -> Hits:
        """The best `limit` tools or somewhat more for the terms, each times its factor; `only` restricts the tools."""
        candidates = max(limit, work.candidates)
        worths = self.worths(wanted)
        floor = 0.0
        if only is not None:
            scores = self._scores_of(only, worths)
        else:
            scores, floor = self._scores(worths, limit, work.postings, candidates)
        highest = _highest(scores, candidates, floor)
        if not highest:
            return Hits({}, 0)
        low = min(highest[0] / 2, highest[limit - 1] if len(highest) >= limit else 0.0)
        others = self._other_tools_of_a_server(scores, low, wanted, worths)
        if others and len(others) < len(scores):
            scores = {number: score for number, score in scores.items() if number not in others}
            highest = _highest(scores, candidates)
        # What the name can still add must not decide who is looked at.
        floor = highest[limit - 1] / (1 + NAME_COVERAGE) if len(highest) >= limit else 0.0
        if len(highest) >= candidates:
            floor = max(floor, highest[-1])
        half = highest[0] / 2
        top = {number: score for number, score in scores.items() if score >= floor}
        found = sum([score >= half for score in (highest if half > highest[-1] else scores.values())])
        said = {term: worth if wanted[term] <= 1.0 else self.rarity(term) for term, worth in worths.items()}
        self._lift_named(top, said)
        return Hits(top, found)

    def _other_tools_of_a_server(
        self, scores: Mapping[int, float], low: float, wanted: Mapping[int, float], worths: Mapping[int, float]
    ) -> set[int]:
        """The tools that hold wanted words only in what describes their server, as all its tools do; none if that
        holds all that is wanted, if no such tool scores `low`, or if so much is wanted that none stands high."""
        if len(wanted) > _FEW_TERMS:
            return set()
        shared = {term: served for term in wanted if any(served := self.from_server(term))}
        if not shared:
            return set()
        main = {term for term, factor in wanted.items() if factor > _MINOR and self.count(term)}
        most = sum(worths[term] for term in shared) * _GAIN

        def is_other(number: int) -> bool:
            score = scores[number]
            if score > most:
                return False
            held = {term for term, served in shared.items() if any(_place(numbers, number) >= 0 for numbers in served)}
            return not main <= held and score * _NEARLY <= sum(
                self.weight(term, number) * worths[term] for term in held
            )

        if not any(is_other(number) for number, score in scores.items() if most >= score >= low):
            return set()
        served = set(chain.from_iterable(chain.from_iterable(shared.values())))
        return set(filter(is_other, scores.keys() & served))

    def _lift_named(self, scores: dict[int, float], said: Mapping[int, float]) -> None:
        """Raises each tool's score by how much of its name the query says; `said` are the rarities of its terms."""
        names, wholes = self.names, self._name_rarities
        for number in scores:
            part = 0.0
            for term in names[number]:
                if term in said:
                    part += said[term]
            if part:
                scores[number] *= 1 + NAME_COVERAGE * (part / wholes[number]) ** 2

    def _scores(
        self, worths: Mapping[int, float], limit: int, most_postings: int, most_candidates: int
    ) -> tuple[dict[int, float], float]:
        """Score by tool number; those of the best `limit` are complete, others may not be. With it a score that the
        `most_candidates` best reach, 0 if none is known.

        Terms are read rarest first. Once what is left cannot lift an unseen tool into the best `limit`, or enough was
        read, only the best candidates so far are scored on.
        """
        spelled, gone, terms = self.spelled, self._gone, self._terms
        bounds = sorted([(-worth, spelled[term], term) for term, worth in worths.items() if terms[term].count])
        scores: dict[int, float] = {}
        get = scores.get
        best, read, most = 0.0, 0, 0.0
        left = -sum([bound for bound, _, _ in bounds]) * _GAIN
        for place, (bound, _, term) in enumerate(bounds):
            _, length, lists = terms[term]
            if place:
                few = length <= _CHECKED_FROM or left >= most
                if not few:
                    _leave_out(scores, gone)
                    best = _nth_highest(scores, limit, best)
                if read + length > most_postings or not (few or left >= best):
                    _leave_out(scores, gone)
                    return scores, self._score_on(scores, bounds[place:], left, limit, most_candidates)
            for tools, weights in lists:
                if scores:
                    for number, weight in zip(tools, weights, strict=True):
                        scores[number] = get(number, 0.0) - weight * bound
                else:
                    scores = {number: weight * -bound for number, weight in zip(tools, weights, strict=True)}
                    get = scores.get
            read += length
            most -= bound * _GAIN
            left += bound * _GAIN
        _leave_out(scores, gone)
        return scores, 0.0

    def _score_on(
        self,
        scores: dict[int, float],
        bounds: Sequence[tuple[float, str, int]],
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
        candidates = sorted([number for number, score in scores.items() if score >= floor])
        for bound, _, term in bounds:
            for tools, weights in self._terms[term].lists:
                at, end = 0, len(tools)
                for number in candidates:
                    at = bisect_left(tools, number, at)
                    if at == end:
                        break
                    if tools[at] == number:
                        scores[number] -= weights[at] * bound
        return lowest

    def _scores_of(self, numbers: Iterable[int], worths: Mapping[int, float]) -> dict[int, float]:
        factors = [(term, worth) for term, worth in worths.items() if self.count(term)]
        scores = {number: sum([self.weight(term, number) * worth for term, worth in factors]) for number in numbers}
        return {number: score for number, score in scores.items() if score > 0}

    def _frequencies(self, texts: Sequence[tuple[str, str]]) -> tuple[dict[int, float], int]:
        """The terms' weighted frequencies, and how many of them, the first ones, are the tool's own."""
        found: dict[int, float] = {}
        own = 0
        known, get = self.words.__getitem__, found.get
        for (field, _), words in zip(texts, words_of_all([text for _, text in texts]), strict=True):
            weight, base, each = _UNITS[field]
            unit = weight / (base + each * len(words))
            for term in chain.from_iterable(map(known, words)):
                found[term] = get(term, 0.0) + unit
            if field not in OF_THE_SERVER:
                own = len(found)
        return found, own

    def _new_term(self, term: str) -> int:
        number = len(self.spelled)
        self.spelled.append(term)
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

        def lists(term: int) -> Lists:
            tools, weights = array("I"), array("f")
            for numbers, values in whole.lists(term):
                tools.extend(compress(numbers, are_held(numbers)))
                weights.extend(compress(values, are_held(numbers)))
            return tools, weights

        def from_server(term: int) -> array[int]:
            return array("I", chain(*(compress(numbers, are_held(numbers)) for numbers in whole.from_server(term))))

        self.placed, self._served = WorkedOut(lists), WorkedOut(from_server)

    def from_server(self, term: int) -> tuple[Sequence[int], Sequence[int]]:
        """As with these tools alone."""
        return self._served[term], ()


def _leave_out(scores: dict[int, float], gone: AbstractSet[int]) -> None:
    for number in scores.keys() & gone:
        del scores[number]


def _place(numbers: Sequence[int], number: int) -> int:
    """Where the number stands among the sorted ones; -1 if it is none of them."""
    at = bisect_left(numbers, number)
    return at if at < len(numbers) and numbers[at] == number else -1


def _highest(scores: Mapping[int, float], count: int, floor: float = 0.0) -> list[float]:
    """The `count` highest scores, highest first; `floor` is one that so many are known to reach."""
    values: Collection[float] = scores.values()
    if not floor and len(values) > 4 * count:
        step = math.isqrt(len(values) // count)
        floor = sorted(islice(values, 0, None, step))[-count]  # what so many of some reach, so many of all do
    if floor:
        values = [score for score in values if score >= floor]
    return sorted(values, reverse=True)[:count]


def _nth_highest(scores: Mapping[int, float], rank: int, floor: float = 0.0) -> float:
    highest = _highest(scores, rank, floor)
    return highest[-1] if len(highest) == rank else 0.0
