"""Postings: for each term, the tools that have it and the term's weight there. Tools are added and removed one by one.

The weight is that of BM25F (see `mcpagent.search.bm25`). It does not depend on other tools, so it is computed once,
when the tool is added; only a term's rarity changes later.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import chain, compress, islice
from typing import NamedTuple, TypeAlias, TypeVar

from mcpagent.search.constants import FITTED
from mcpagent.search.fields import WEIGHTS
from mcpagent.search.words import name_words, terms, words_of_all, written_words

Key = TypeVar("Key")
Value = TypeVar("Value")

K1 = FITTED["words"]["k1"]
"""BM25's k1, which controls the saturation of repeated occurrences of a term."""

GAIN = K1 + 1
"""Upper bound of a term's weight in a tool."""

_LONG = FITTED["words"]["long"]
"""Text length, as a multiple of the field's usual length, beyond which further words are fully counted against it."""

_MOST_REPEATED = int(FITTED["words"]["repeated"])
"""Maximum number of occurrences of a term that count in one field."""

_MOST_TERMS = FITTED["words"]["terms"]
"""Usual maximum number of different terms in a tool. In a tool with more terms, each term counts less."""

_UNITS = {
    field: (
        rule.weight,
        1 - rule.b,
        rule.b / rule.usual_words,
        _LONG * rule.usual_words,
    )
    for field, rule in WEIGHTS.items()
}
"""For each field: its weight; the constant and the per-word part of the divisor (BM25's length normalisation); and the
number of words beyond which a text is too long.
"""


class ComputedCache(dict[Key, Value]):
    """A dict that computes a missing key's value with `work`, and stores it."""

    def __init__(self, work: Callable[[Key], Value]) -> None:
        self._work = work

    def __missing__(self, key: Key) -> Value:
        value = self[key] = self._work(key)
        return value


Lists: TypeAlias = "tuple[Sequence[int], Sequence[float]]"
"""The postings of one term: the ascending numbers of the tools that have it, and its weight in each, without its
rarity.
"""


class Term(NamedTuple):
    """The data of a term that a search needs.

    `rarity` is its inverse document frequency, `held` the number of tools with the term, including removed ones.
    """

    rarity: float
    held: int
    lists: tuple[Lists, ...]


_NONE: Lists = (array("I"), array("f"))
_FEWEST_PURGED = 256


class Postings:
    """For each term, the tools (by number) that have it, with its weight.

    Lists from a file or from other postings are read in place and never changed. Added tools have separate lists.
    Removed tools are only skipped, until there are many.
    """

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        """The number of each term, by its spelling."""
        self.words: dict[str, tuple[int, ...]] = ComputedCache(self._terms_of)
        """The terms of each written word."""
        self.spelled: list[str] = []
        """The spelling of each term, by its number. Numbers depend on the order of adding; search results must not."""
        self.names: dict[int, Sequence[int]] = {}
        self.size = 0
        self.changes = 0
        self.placed: dict[int, Lists] = ComputedCache(lambda _term: _NONE)
        """For each term, its lists that are read in place."""
        self._added: dict[int, tuple[array[int], array[float]]] = ComputedCache(
            lambda _term: (array("I"), array("f"))
        )
        """For each term, the lists of tools that were added later."""
        self.gone: set[int] = set()
        """Removed tools that are still in the lists."""
        self._gone_of: dict[int, int] = {}
        self.terms: dict[int, Term] = ComputedCache(self._look_up)
        """The data that a search needs, by term."""
        self.name_rarities: dict[int, float] = ComputedCache(
            lambda number: sum(map(self.rarity, self.names[number]))
        )
        """The sum of the rarities of the terms in a tool's name, by tool."""

    def add(self, number: int, texts: Sequence[tuple[str, str]]) -> None:
        """Index one tool from its (field, text) pairs; `number` must be higher than all earlier ones."""
        added = self._added
        frequencies = self._frequencies(texts)
        gain = _gain(len(frequencies))
        for term, frequency in frequencies.items():
            tools, weights = added[term]
            tools.append(number)
            weights.append(frequency * gain / (frequency + K1))
        # A query names a tool if it has all words of the name, so the joined spelling (`getweather`) is not a word of
        # it.
        said = [
            word
            for field, text in texts
            if field == "name"
            for word in name_words(text)
        ]
        self.names[number] = tuple(
            sorted({term for word in said for term in self.words[word]})
        )
        self.size += 1
        self._changed()

    def remove(self, number: int, texts: Sequence[tuple[str, str]]) -> None:
        """Remove a tool that was added with these texts."""
        gone = self._gone_of
        for term in self._frequencies(texts):
            gone[term] = gone.get(term, 0) + 1
        self.gone.add(number)
        self.names.pop(
            number, None
        )  # names from a file are loaded on demand, and may not be there
        self.size -= 1
        self._changed()
        if len(self.gone) > max(self.size, _FEWEST_PURGED):
            self._purge()

    def _changed(self) -> None:
        self.changes += 1
        self.terms.clear()
        self.name_rarities.clear()

    def _purge(self) -> None:
        """Rebuild the lists without the removed tools."""
        gone = self.gone
        for term in range(len(self.spelled)):
            held = [
                (number, weight)
                for numbers, weights in self.lists(term)
                for number, weight in zip(numbers, weights, strict=True)
                if number not in gone
            ]
            self._added[term] = (
                array("I", (number for number, _ in held)),
                array("f", (weight for _, weight in held)),
            )
        self.placed = ComputedCache(lambda _term: _NONE)
        self.gone, self._gone_of = set(), {}

    def lists(self, term: int) -> tuple[Lists, Lists]:
        """Return the list read in place, and the list of tools added later, which have higher numbers.

        Both may contain removed tools; see `holding`.
        """
        return self.placed[term], self._added[term]

    def holding(self, term: int) -> list[int]:
        """Return the numbers of the tools that have the term, in order."""
        return [
            number
            for numbers, _ in self.lists(term)
            for number in numbers
            if number not in self.gone
        ]

    def count(self, term: int) -> int:
        """Return the number of tools that have the term."""
        return (
            len(self.placed[term][0])
            + len(self._added[term][0])
            - self._gone_of.get(term, 0)
        )

    def _look_up(self, term: int) -> Term:
        lists = self.lists(term)
        count = len(lists[0][0]) + len(lists[1][0])
        rarity = self.rarity_of(count - self._gone_of.get(term, 0))
        return Term(rarity, count, tuple(one for one in lists if one[0]))

    def rarity(self, term: int) -> float:
        """Return the term's inverse document frequency."""
        return self.terms[term].rarity

    def rarities(self, factors: Mapping[int, float]) -> float:
        """Return the sum of the rarities of these terms, each multiplied by its factor."""
        known = self.terms
        return sum([known[term].rarity * factor for term, factor in factors.items()])

    def rarity_of_word(self, term: str) -> float:
        """Return the rarity of a term by its spelling, even if no tool has it."""
        number = self.ids.get(term)
        if number is None:
            return self.highest_rarity
        return self.rarity(number)

    @property
    def highest_rarity(self) -> float:
        """The rarity of a term that no tool has."""
        return self.rarity_of(0)

    def rarity_of(self, held: int) -> float:
        """Return the inverse document frequency of a term that `held` tools have."""
        return math.log(1 + (self.size - held + 0.5) / (held + 0.5))

    def weight(self, term: int, number: int) -> float:
        """Return the weight of the term in that tool, without its rarity; 0 if the tool does not have it."""
        tools, weights = self.placed[term]
        if not tools or number > tools[-1]:
            tools, weights = self._added[term]
        at = bisect_left(
            tools, number
        )  # a copy of `_place`: a function call would cost a fifth of a search
        if at < len(tools) and tools[at] == number:
            return weights[at]
        return 0.0

    def weights_of(self, texts: Sequence[tuple[str, str]]) -> dict[int, float]:
        """Return the weight that each term has in a tool with these texts, without its rarity."""
        found = self._frequencies(texts)
        gain = _gain(len(found))
        weights = array(
            "f", [frequency * gain / (frequency + K1) for frequency in found.values()]
        )
        return dict(zip(found, weights, strict=True))

    def fields_of(
        self, texts: Sequence[tuple[str, str]], wanted: Container[int]
    ) -> dict[int, str]:
        """Return the fields that contain each of the wanted terms, in a tool with these texts."""
        fields: dict[int, list[str]] = {}
        for field, text in texts:
            for term in set(
                chain.from_iterable(map(self.words.__getitem__, written_words(text)))
            ):
                if term in wanted:
                    fields.setdefault(term, []).append(field)
        return {term: ", ".join(names) for term, names in fields.items()}

    def worths(self, factors: Mapping[int, float]) -> dict[int, float]:
        """Return the score that each term adds per unit of its weight. `factors` maps terms to factors."""
        known = self.terms
        return {term: known[term].rarity * factor for term, factor in factors.items()}

    def _frequencies(self, texts: Sequence[tuple[str, str]]) -> dict[int, float]:
        """Return the frequency of each term in the texts, weighted by field."""
        found: dict[int, float] = {}
        known, get = self.words.__getitem__, found.get
        for (field, _), words in zip(
            texts, words_of_all([text for _, text in texts]), strict=True
        ):
            weight, base, each, most = _UNITS[field]
            unit = weight / (base + each * len(words))
            if len(words) > most:
                unit *= most / len(words)
            for term, count in Counter(chain.from_iterable(map(known, words))).items():
                found[term] = get(term, 0.0) + unit * min(count, _MOST_REPEATED)
        return found

    def _terms_of(self, word: str) -> tuple[int, ...]:
        ids, spelled, numbers = self.ids, self.spelled, list[int]()
        for term in terms(word):
            number = ids.get(term)
            if number is None:
                number = ids[term] = len(spelled)
                spelled.append(term)
            numbers.append(number)
        return tuple(numbers)


def _gain(terms: int) -> float:
    """Return the upper bound of a term's weight in a tool with this many different terms."""
    if terms <= _MOST_TERMS:
        return GAIN
    return GAIN * _MOST_TERMS / terms


class PostingsOfSome(Postings):
    """The postings of some tools: equal to postings of these tools alone, filtered for each term on first use.
    Read-only.

    `held` are the tools' numbers in `whole`, in order. Other tools may be added to `whole` meanwhile.
    """

    def __init__(self, whole: Postings, held: Sequence[int]) -> None:
        super().__init__()
        mask = bytearray(held[-1] + 1 if held else 0)
        for number in held:
            mask[number] = 1
        self.ids, self.words, self.spelled, self.names = (
            whole.ids,
            whole.words,
            whole.spelled,
            whole.names,
        )
        self.size = len(held)

        def are_held(numbers: Sequence[int]) -> Iterable[int]:
            return map(
                mask.__getitem__, islice(numbers, bisect_left(numbers, len(mask)))
            )

        def lists(term: int) -> Lists:
            tools, weights = array("I"), array("f")
            for numbers, values in whole.lists(term):
                tools.extend(compress(numbers, are_held(numbers)))
                weights.extend(compress(values, are_held(numbers)))
            return tools, weights

        self.placed = ComputedCache(lists)
