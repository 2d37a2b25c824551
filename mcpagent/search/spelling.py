"""Words of a query that are in no tool, matched to the words that are: typos, abbreviations, words run together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

MIN_TYPO_LENGTH = 4
_TWO_TYPOS_LENGTH = 8
_MAX_ABBREVIATION = 5
_VOWELS = frozenset("aeiou")


class Spelling:
    """The plain words of a vocabulary, findable by their look. Words are only ever added."""

    def __init__(self) -> None:
        self._by_first: defaultdict[str, list[str]] = defaultdict(list)
        self._by_first_three: defaultdict[str, list[str]] = defaultdict(list)
        self._by_first_and_length: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
        self._by_last_and_length: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
        self._seen: set[str] = set()

    def add(self, words: Iterable[str]) -> None:
        """Takes up plain words; digits alone and words under three letters are no target of a correction."""
        for word in words:
            if len(word) > 2 and word not in self._seen and not word.isdigit():
                self._seen.add(word)
                self._by_first[word[0]].append(word)
                self._by_first_three[word[:3]].append(word)
                self._by_first_and_length[word[0], len(word)].append(word)
                self._by_last_and_length[word[-1], len(word)].append(word)

    def nearest(self, word: str, held: Collection[str] | None = None) -> list[tuple[str, float]]:
        """The words fewest typos away with their likeness (0 to 1): one typo, or two in a long word.

        A typo is a letter missing, added, changed, or swapped with its neighbour; the first or the last letter must
        be right. Words that are not `held` are no target (None: all are).
        """
        if len(word) < MIN_TYPO_LENGTH or any(char.isdigit() for char in word):
            return []
        from rapidfuzz.distance import OSA
        from rapidfuzz.process import extract

        most = 2 if len(word) >= _TWO_TYPOS_LENGTH else 1
        lengths = range(len(word) - most, len(word) + most + 1)
        for letter, buckets in ((word[0], self._by_first_and_length), (word[-1], self._by_last_and_length)):
            fitting = [other for length in lengths for other in buckets.get((letter, length), ())]
            near = extract(word, fitting, scorer=OSA.distance, score_cutoff=most, limit=None)
            near = near if held is None else [one for one in near if one[0] in held]
            if near:
                least = near[0][1]
                return [(other, 1 - distance / len(word)) for other, distance, _ in near if distance == least]
        return []

    def completions(self, word: str, held: Collection[str] | None = None) -> list[str]:
        """The words that a short word may abbreviate: `repo` repository, `msg` message, `db` database; see `nearest`
        for `held`."""
        if not 2 <= len(word) <= _MAX_ABBREVIATION or not word.isalpha():
            return []
        begun = [long for long in self._by_first_three.get(word[:3], ()) if long.startswith(word)]
        begun = begun if held is None else [long for long in begun if long in held]
        if begun or not _VOWELS.isdisjoint(word[1:]):
            return begun
        same_start = [long for long in self._by_first.get(word[0], ()) if held is None or long in held]
        return [long for long in same_start if len(long) > len(word) + 1 and abbreviates(word, long)]


def abbreviates(short: str, long: str) -> bool:
    """Whether `short` is `long` with its vowels and more left out, reaching into its second half: `msg`, `mgr`."""
    if long[0] != short[0] or not _VOWELS.isdisjoint(short[1:]):
        return False
    at = 0
    for letter in short:
        at = long.find(letter, at) + 1
        if not at:
            return False
    return at > len(long) // 2
