"""Translate the words of a query into terms of the index.

Known words are used unchanged. Unknown words are typos, abbreviations or words run together; they are corrected,
completed or split to match the words of tools.
"""

from __future__ import annotations

import heapq
import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import NamedTuple

from mcpagent.search.postings import Postings, WorkedOut
from mcpagent.search.words import (
    MAX_WORD,
    STOP_WORDS,
    is_one_piece,
    pieces,
    plain,
    stem,
    stemmed,
    written_words,
)

MAX_TERMS = 64
"""Terms of one query that are scored; a longer query keeps its rarest ones."""

_MOST_READ = 512
"""Terms among which these are chosen."""

_PIECE_FACTOR = 0.25
_JOINED_FACTOR = 0.3
_GUESS_FACTOR = 0.8
_SYNONYM_FACTOR, _FOR_UNKNOWN_FACTOR = 0.3, 0.6
"""Of a synonym beside the word itself, and in place of one that no tool holds."""

_MAX_GUESSES = 2
_MIN_SPLIT = 3
_KEPT_READINGS = 10_000


@dataclass(slots=True)
class Asked:
    """A query in the index's terms.

    `factors` is the weight of each term, `words` the query's word for it. `guessed` terms come from a correction;
    `missing` words are in no tool. `corrected` maps each corrected word to its likeliest correction.
    """

    factors: dict[int, float] = field(default_factory=dict[int, float])
    words: dict[int, str] = field(default_factory=dict[int, str])
    guessed: set[int] = field(default_factory=set[int])
    missing: list[str] = field(default_factory=list[str])
    corrected: dict[str, str] = field(default_factory=dict[str, str])

    def add(
        self, term: int, word: str, factor: float = 1.0, *, guessed: bool = False
    ) -> None:
        """Takes up a term for a word of the query, with the highest factor it is given; none beyond `_MOST_READ`."""
        held = self.factors.get(term)
        if held is None:
            if len(self.factors) >= _MOST_READ:
                return
            self.factors[term], self.words[term] = factor, word
        elif factor > held:
            self.factors[term] = factor
        if guessed:
            self.guessed.add(term)


class _Guess(NamedTuple):
    """A candidate term for an unknown word, its spelling, and their similarity (0 to 1)."""

    term: int
    word: str
    likeness: float


class _Reading(NamedTuple):
    """The (term, word, factor) of the known pieces of a written word.

    `known` is also True for words that are never searched, such as stop words. `plain` is the word without capitals and
    accents. `meant` are the terms of its synonyms in tools.
    """

    terms: tuple[tuple[int, str, float], ...]
    known: bool
    plain: str
    meant: tuple[int, ...]


class Asker:
    """Translate queries into the terms of one set of postings.

    `spelling` returns the plain words to correct unknown words to, and the subset of them to use (None: all). Without
    it, they come from the postings.
    """

    def __init__(
        self,
        postings: Postings,
        spelling: Callable[[], tuple[Spelling, Collection[str] | None]] | None = None,
    ) -> None:
        self._postings = postings
        self._spelling = Spelling()
        self._spelled = 0
        self._known_spellings = spelling or self.learned_spellings
        self._readings: dict[str, _Reading] = WorkedOut(self._read)
        self._stems: dict[str, str] = WorkedOut(stem)
        self._joined: dict[tuple[str, str], int | None] = WorkedOut(self._join)
        self._guesses: dict[str, list[_Guess]] = WorkedOut(self._guess)
        self._read_at = 0

    def ask(self, text: str) -> Asked:
        """Return the terms of the text's words, each once."""
        self._forget_when_changed()
        asked = Asked()
        words = written_words(text)
        readings = {word: self._readings[word] for word in words}
        for reading in readings.values():
            for term, part, factor in reading.terms:
                asked.add(term, part, factor)
        # Neighbouring words written as one in the index: `log group` is `loggroup` there, `sign in` `signin`.
        for pair in pairwise([readings[word].plain for word in words]):
            joined = self._joined[pair]
            if joined is not None:
                asked.add(joined, " ".join(pair), _JOINED_FACTOR)
        for word, reading in readings.items():
            for term in reading.meant:
                asked.add(
                    term,
                    reading.plain,
                    _SYNONYM_FACTOR if reading.known else _FOR_UNKNOWN_FACTOR,
                )
            if not reading.known and not reading.meant:
                self._add_guess(asked, word, reading.plain)
        if len(asked.factors) > MAX_TERMS:
            self._keep_rarest(asked)
        return asked

    def _keep_rarest(self, asked: Asked) -> None:
        worths = self._postings.worths(asked.factors)
        spelled = self._postings.spelled
        kept = sorted(worths, key=lambda term: (-worths[term], spelled[term]))[
            :MAX_TERMS
        ]
        for term in worths.keys() - set(kept):
            del asked.factors[term], asked.words[term]
            asked.guessed.discard(term)

    def _join(self, pair: tuple[str, str]) -> int | None:
        """Return the term of two words written as one: mostly none, and so looked up before it is counted."""
        term = self._postings.ids.get(stemmed(pair[0] + pair[1]))
        if term is not None and self._postings.count(term):
            return term
        return None

    def _read(self, written: str) -> _Reading:
        if is_one_piece(written):
            return self._read_piece(written.lower())
        parts = [part for part in pieces(written) if part not in STOP_WORDS]
        word = plain(written)
        meant = tuple(
            term
            for one in synonyms().get(stem(word), ())
            if (term := self._term(one)) is not None
        )
        if not parts or (len(written) == 1 and written.isascii()):
            return _Reading((), True, word, meant)
        known = [
            (part, term) for part in parts if (term := self._term(part)) is not None
        ]
        whole = plain(
            written[:MAX_WORD]
        )  # no piece of a text without spaces is its whole
        whole_known = bool(known) and known[0][0] == whole
        if not whole.isascii():
            known = [(whole, term) for _, term in known]
        read = [
            (term, part, _PIECE_FACTOR if whole_known and part != whole else 1.0)
            for part, term in known
        ]
        return _Reading(tuple(read), bool(known) or written.isdigit(), word, meant)

    def _read_piece(self, word: str) -> _Reading:
        """Return the reading of a word without inner words, as most words are."""
        base = stem(word)
        meant = tuple(
            term
            for one in synonyms().get(base, ())
            if (term := self._term(one)) is not None
        )
        if len(word) == 1 or word in STOP_WORDS:
            return _Reading((), True, word, meant)
        term = self._postings.ids.get(base)
        if term is None or not self._postings.count(term):
            return _Reading((), False, word, meant)
        return _Reading(((term, word, 1.0),), True, word, meant)

    def _add_guess(self, asked: Asked, written: str, word: str) -> None:
        if split := self._split(word):
            for part, term in split:
                asked.add(term, part)
            return
        guesses = self._guesses[word]
        for guess in guesses:
            asked.add(guess.term, word, _GUESS_FACTOR * guess.likeness, guessed=True)
        if guesses:
            asked.corrected[written] = guesses[0].word
        else:
            asked.missing.append(word)

    def _guess(self, word: str) -> list[_Guess]:
        """Return the candidates for an unknown word, the likeliest first."""
        spelling, held = self._known_spellings()
        return self._live(spelling.nearest(word, held)) or self._live(
            (long, 1.0) for long in spelling.completions(word, held)
        )

    def _forget_when_changed(self) -> None:
        """Clear the cached readings if a tool changed or the cache is full; the needs of a query repeat its words."""
        if (
            self._read_at != self._postings.changes
            or len(self._readings) >= _KEPT_READINGS
        ):
            self._readings.clear()
            self._joined.clear()
            self._guesses.clear()
            self._read_at = self._postings.changes

    def _live(self, near: Iterable[tuple[str, float]]) -> list[_Guess]:
        """Return the terms of words that a tool still has, at most `_MAX_GUESSES`, by similarity, then by frequency.

        A short word may be the beginning of hundreds of words, so the work per word is small.
        """
        stems, ids, count = self._stems, self._postings.ids, self._postings.count
        best: dict[int, tuple[float, str]] = {}
        for word, likeness in near:
            term = ids.get(stems[word])
            if term is not None and (
                term not in best or (-likeness, word) < best[term]
            ):
                best[term] = -likeness, word
        spelled = self._postings.spelled
        held = (
            (unlike, -count(term), spelled[term], term, word)
            for term, (unlike, word) in best.items()
        )
        chosen = heapq.nsmallest(_MAX_GUESSES, (one for one in held if one[1]))
        return [_Guess(term, word, -unlike) for unlike, _, _, term, word in chosen]

    def _split(self, word: str) -> list[tuple[str, int]]:
        """Return two known words that together form the word: `signin` as `sign in`."""
        for at in range(_MIN_SPLIT, len(word) - _MIN_SPLIT + 1):
            left = self._term(word[:at])
            right = None
            if left is not None:
                right = self._term(word[at:])
            if left is not None and right is not None:
                return [(word[:at], left), (word[at:], right)]
        return []

    def _term(self, word: str) -> int | None:
        term = self._postings.ids.get(stem(word))
        if term is not None and self._postings.count(term):
            return term
        return None

    def learned_spellings(self) -> tuple[Spelling, None]:
        """Return the plain words of all tools that there ever were."""
        known = self._postings.words
        if self._spelled < len(known):
            self._spelling.add(
                part
                for word in islice(known, self._spelled, None)
                for part in pieces(word)
            )
            self._spelled = len(known)
        return self._spelling, None


@cache
def synonyms() -> Mapping[str, tuple[str, ...]]:
    """Return the words of tools by the stem of a synonym; `benchmarks/search_synonyms.py` made the table."""
    held = json.loads(Path(__file__).with_name("synonyms.json").read_text("utf-8"))
    return {word: tuple(others) for word, others in held["synonyms"].items()}


MIN_TYPO_LENGTH = 4
_TWO_TYPOS_LENGTH = 8
_TWO_INSIDE_LENGTH = 6
"""Of a word with both ends right."""

_MAX_ABBREVIATION = 5
_VOWELS = frozenset("aeiou")


class Spelling:
    """Plain words of a vocabulary, found by similar spelling. Words are only ever added."""

    def __init__(self) -> None:
        self._by_first: defaultdict[str, list[str]] = defaultdict(list)
        self._by_first_three: defaultdict[str, list[str]] = defaultdict(list)
        self._by_first_and_length: defaultdict[tuple[str, int], list[str]] = (
            defaultdict(list)
        )
        self._by_last_and_length: defaultdict[tuple[str, int], list[str]] = defaultdict(
            list
        )
        self._joined: dict[str, tuple[int, str]] = {}
        self._seen: set[str] = set()
        self._some: dict[tuple[str, str, int, int], list[str]] = WorkedOut(
            self._words_of
        )

    def add(self, words: Iterable[str]) -> None:
        """Add plain words; digits alone and words under three letters are no target of a correction."""
        self._some.clear()
        new = {
            word for word in words if len(word) > 2 and not word.isdigit()
        } - self._seen
        if not new:
            return
        self._seen |= new
        # Copied in this order, so that words which are compared together lie one after the other in memory.
        for word in "\n".join(
            sorted(new, key=lambda word: (word[0], len(word), word))
        ).split("\n"):
            self._by_first[word[0]].append(word)
            self._by_first_three[word[:3]].append(word)
            self._by_first_and_length[word[0], len(word)].append(word)
            self._by_last_and_length[word[-1], len(word)].append(word)

    def nearest(
        self, word: str, held: Collection[str] | None = None
    ) -> list[tuple[str, float]]:
        """Return the words with the fewest typos, with their likeness (0 to 1).

        Allowed are one typo, or two in a long word, or two inside one.
        """
        if len(word) < MIN_TYPO_LENGTH or any(char.isdigit() for char in word):
            return []
        from rapidfuzz.distance import OSA
        from rapidfuzz.process import extract

        length, few = len(word), len(word) < _TWO_TYPOS_LENGTH
        most = 2
        if few:
            most = 1

        def within(most: int, words: Sequence[str]) -> list[tuple[str, float]]:
            near = extract(
                word, words, scorer=OSA.distance, score_cutoff=most, limit=None
            )
            if held is not None:
                near = [one for one in near if one[0] in held]
            return [
                (other, 1 - distance / length)
                for other, distance, _ in near
                if distance == near[0][1]
            ]

        near = within(most, self._some[word[0], "", length, most])
        if not near:
            near = within(
                most,
                self._begun_otherwise(word)
                if few
                else self._some["", word[-1], length, most],
            )
        if near or not few or length < _TWO_INSIDE_LENGTH:
            return near
        return within(2, self._some[word[0], word[-1], length, 2])

    def _begun_otherwise(self, word: str) -> list[str]:
        """Return the words that one typo in the first letter makes this word of."""
        rest, seen = word[1:], self._seen
        near = [
            letter + end
            for end in (rest, word)
            for letter in self._by_first
            if letter + end in seen
        ]
        return near + [
            other for other in (rest, word[1] + word[0] + word[2:]) if other in seen
        ]

    def _words_of(self, key: tuple[str, str, int, int]) -> list[str]:
        """Return the words with this first letter, this last one ("": any), and about this length; how much about."""
        first, last, length, about = key
        lengths = range(length - about, length + about + 1)
        if not first:
            return list(
                chain.from_iterable(
                    self._by_last_and_length.get((last, one), ()) for one in lengths
                )
            )
        begun = chain.from_iterable(
            self._by_first_and_length.get((first, one), ()) for one in lengths
        )
        if last:
            return [word for word in begun if word[-1] == last]
        return list(begun)

    def completions(self, word: str, held: Collection[str] | None = None) -> list[str]:
        """Return the words that a short word may abbreviate: `repo` repository, `msg` message, `db` database.

        See `nearest` for `held`.
        """
        if not 2 <= len(word) <= _MAX_ABBREVIATION or not word.isalpha():
            return []
        begun = [
            long
            for long in self._by_first_three.get(word[:3], ())
            if long.startswith(word)
        ]
        if held is not None:
            begun = [long for long in begun if long in held]
        if begun or not _VOWELS.isdisjoint(word[1:]):
            return begun
        holding = re.compile(f"^{'.*'.join(word)}.*$", re.MULTILINE).findall(
            self._lines(word[0])
        )
        return [
            long
            for long in holding
            if len(long) > len(word) + 1
            and abbreviates(word, long)
            and (held is None or long in held)
        ]

    def _lines(self, letter: str) -> str:
        """Return the words that begin with the letter, one a line: a pattern looks through thousands in no time."""
        words = self._by_first.get(letter, [])
        count, lines = self._joined.get(letter, (0, ""))
        if count != len(words):
            lines = "\n".join(words)
            self._joined[letter] = len(words), lines
        return lines


def abbreviates(short: str, long: str) -> bool:
    """Return whether `short` is `long` without vowels and more, reaching into its second half: `msg`, `mgr`."""
    if long[0] != short[0] or not _VOWELS.isdisjoint(short[1:]):
        return False
    at = 0
    for letter in short:
        at = long.find(letter, at) + 1
        if not at:
            return False
    return at > len(long) // 2
