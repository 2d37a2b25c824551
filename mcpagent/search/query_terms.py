"""Translate the words of a query into terms of the index.

Known words are used unchanged. Unknown words are typos, abbreviations or other forms; they are corrected or completed
to words that tools have.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from typing import NamedTuple

from mcpagent.search.constants import FITTED
from mcpagent.search.postings import ComputedCache, Postings
from mcpagent.search.words import (
    MAX_WORD,
    STOP_WORDS,
    pieces,
    plain,
    stem,
    stemmed,
    written_words,
)

MAX_TERMS = 64
"""Maximum number of scored terms of a query; a longer query is reduced to its rarest terms."""

_MOST_READ = 512
"""Maximum number of terms among which the scored ones are chosen."""

_PIECE_FACTOR, _JOINED_FACTOR, _GUESS_FACTOR = (
    FITTED["words"][kind] for kind in ("piece", "joined", "guess")
)
_MAX_GUESSES = 2
_KEPT_READINGS = 10_000


@dataclass(slots=True)
class QueryTerms:
    """A query as terms of the index.

    `factors` has the weight of each term, `words` the query's word for it. `guessed` terms come from a correction;
    `missing` words are in no tool. `corrected` maps each corrected word to its most likely correction.
    """

    factors: dict[int, float] = field(default_factory=dict[int, float])
    words: dict[int, str] = field(default_factory=dict[int, str])
    guessed: set[int] = field(default_factory=set[int])
    missing: list[str] = field(default_factory=list[str])
    corrected: dict[str, str] = field(default_factory=dict[str, str])

    def add(
        self, term: int, word: str, factor: float = 1.0, *, guessed: bool = False
    ) -> None:
        """Add a term for a word of the query; a repeated term keeps its highest factor. Terms beyond `_MOST_READ` are
        ignored.
        """
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
    """A candidate for an unknown word: the term, its spelling, and the similarity (0 to 1)."""

    term: int
    word: str
    likeness: float


class _Reading(NamedTuple):
    """The terms of a written word: (term, word, factor) for each known piece.

    `known` is also True for words that are never searched, such as stop words. `plain` is the word in lower case
    without accents.
    """

    terms: tuple[tuple[int, str, float], ...]
    known: bool
    plain: str


class QueryAnalyzer:
    """Translates queries into the terms of one set of postings.

    `spelling` returns the words that unknown words can be corrected to, and the subset to use (None: all). By default,
    these are the words of the postings.
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
        self._readings: dict[str, _Reading] = ComputedCache(self._read)
        self._stems: dict[str, str] = ComputedCache(stem)
        self._joined: dict[tuple[str, str], int | None] = ComputedCache(self._join)
        self._guesses: dict[str, list[_Guess]] = ComputedCache(self._guess)
        self._read_at = 0

    def analyze(self, text: str) -> QueryTerms:
        """Return the terms of the text's words, each once."""
        self._forget_when_changed()
        query = QueryTerms()
        words = written_words(text)
        readings = {word: self._readings[word] for word in words}
        for reading in readings.values():
            for term, part, factor in reading.terms:
                query.add(term, part, factor)
        # Adjacent words may be one word in the index: `log group` is `loggroup` there, `sign in` `signin`.
        for pair in pairwise([readings[word].plain for word in words]):
            joined = self._joined[pair]
            if joined is not None:
                query.add(joined, " ".join(pair), _JOINED_FACTOR)
        for word, reading in readings.items():
            if not reading.known:
                self._add_guess(query, word, reading.plain)
        if len(query.factors) > MAX_TERMS:
            self._keep_rarest(query)
        return query

    def _keep_rarest(self, query: QueryTerms) -> None:
        worths = self._postings.worths(query.factors)
        spelled = self._postings.spelled
        kept = sorted(worths, key=lambda term: (-worths[term], spelled[term]))[
            :MAX_TERMS
        ]
        for term in worths.keys() - set(kept):
            del query.factors[term], query.words[term]
            query.guessed.discard(term)

    def _join(self, pair: tuple[str, str]) -> int | None:
        """Return the term for two words written as one; None if no tool has it, which is the usual case."""
        term = self._postings.ids.get(stemmed(pair[0] + pair[1]))
        if term is not None and self._postings.count(term):
            return term
        return None

    def _read(self, written: str) -> _Reading:
        parts = [part for part in pieces(written) if part not in STOP_WORDS]
        word = plain(written)
        if not parts or (len(written) == 1 and written.isascii()):
            return _Reading((), True, word)
        known = [
            (part, term) for part in parts if (term := self._term(part)) is not None
        ]
        whole = plain(
            written[:MAX_WORD]
        )  # there are no spaces, so no piece equals the whole text
        whole_known = bool(known) and known[0][0] == whole
        if not whole.isascii():
            known = [(whole, term) for _, term in known]
        read = [
            (term, part, _PIECE_FACTOR if whole_known and part != whole else 1.0)
            for part, term in known
        ]
        return _Reading(tuple(read), bool(known) or written.isdigit(), word)

    def _add_guess(self, query: QueryTerms, written: str, word: str) -> None:
        guesses = self._guesses[word]
        for guess in guesses:
            query.add(guess.term, word, _GUESS_FACTOR * guess.likeness, guessed=True)
        if guesses:
            query.corrected[written] = guesses[0].word
        else:
            query.missing.append(word)

    def _guess(self, word: str) -> list[_Guess]:
        """Return the candidates for an unknown word, the most likely first."""
        spelling, held = self._known_spellings()
        return self._live(spelling.nearest(word, held)) or self._live(
            (long, 1.0) for long in spelling.completions(word, held)
        )

    def _forget_when_changed(self) -> None:
        """Clear the caches of analyzed words if a tool changed or the caches are full.

        The caches save work because a query is analyzed as a whole and again in parts, which have the same words.
        """
        if (
            self._read_at != self._postings.changes
            or len(self._readings) >= _KEPT_READINGS
        ):
            self._readings.clear()
            self._joined.clear()
            self._guesses.clear()
            self._read_at = self._postings.changes

    def _live(self, near: Iterable[tuple[str, float]]) -> list[_Guess]:
        """Return the terms of those words that a tool still has, at most `_MAX_GUESSES`, by similarity, then by
        frequency.

        A short word may be the beginning of hundreds of words, so the work for each word is small.
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

    def _term(self, word: str) -> int | None:
        term = self._postings.ids.get(stem(word))
        if term is not None and self._postings.count(term):
            return term
        return None

    def learned_spellings(self) -> tuple[Spelling, None]:
        """Return the words of all tools, including removed ones."""
        known = self._postings.words
        if self._spelled < len(known):
            self._spelling.add(
                part
                for word in islice(known, self._spelled, None)
                for part in pieces(word)
            )
            self._spelled = len(known)
        return self._spelling, None


MIN_TYPO_LENGTH = 4
_TWO_TYPOS_LENGTH = 8
_MAX_ABBREVIATION = 4
_VOWELS = frozenset("aeiou")


class Spelling:
    """The words of a vocabulary, which can be searched for similar spellings. Words are only added, never removed."""

    def __init__(self) -> None:
        self._by_first: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
        self._by_last: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
        self._seen: set[str] = set()

    def add(self, words: Iterable[str]) -> None:
        """Add plain words as targets of typo correction.

        Numbers and words shorter than three letters are skipped: typos are never corrected to them.
        """
        new = {
            word for word in words if len(word) > 2 and not word.isdigit()
        } - self._seen
        self._seen |= new
        # Copied in this order, so that words that are compared together are adjacent in memory.
        for word in "\n".join(
            sorted(new, key=lambda word: (word[0], len(word), word))
        ).split():
            self._by_first[word[0], len(word)].append(word)
            self._by_last[word[-1], len(word)].append(word)

    def nearest(
        self, word: str, held: Collection[str] | None = None
    ) -> list[tuple[str, float]]:
        """Return the words with the fewest typos, with their similarity (0 to 1).

        A match may have one typo, or two in a word of at least eight letters, and its first or last letter must be
        right. `held` restricts the words.
        """
        if len(word) < MIN_TYPO_LENGTH or any(char.isdigit() for char in word):
            return []
        from rapidfuzz.distance import OSA
        from rapidfuzz.process import extract

        length = len(word)
        most = 2
        if length < _TWO_TYPOS_LENGTH:
            most = 1
        for words_of, end in ((self._by_first, word[0]), (self._by_last, word[-1])):
            lengths = range(length - most, length + most + 1)
            words = list(
                chain.from_iterable(words_of.get((end, one), ()) for one in lengths)
            )
            near = extract(
                word, words, scorer=OSA.distance, score_cutoff=most, limit=None
            )
            if held is not None:
                near = [one for one in near if one[0] in held]
            if near:
                return [
                    (other, 1 - distance / length)
                    for other, distance, _ in near
                    if distance == near[0][1]
                ]
        return []

    def completions(self, word: str, held: Collection[str] | None = None) -> list[str]:
        """Return the words that a short word may abbreviate: `repo` repository, `msg` message, `db` database.

        `held` restricts the words.
        """
        if not 2 <= len(word) <= _MAX_ABBREVIATION or not word.isalpha():
            return []
        longer = [
            words
            for (first, length), words in self._by_first.items()
            if first == word[0] and length > len(word)
        ]
        known = [
            long for long in chain.from_iterable(longer) if held is None or long in held
        ]
        begun = [long for long in known if long.startswith(word)]
        if begun or not _VOWELS.isdisjoint(word[1:]):
            return begun
        return [
            long
            for long in known
            if len(long) > len(word) + 1 and abbreviates(word, long)
        ]


def abbreviates(short: str, long: str) -> bool:
    """Return whether `short` is `long` without vowels and other letters, and reaches into its second half: `msg`,
    `mgr`.
    """
    if long[0] != short[0] or not _VOWELS.isdisjoint(short[1:]):
        return False
    at = 0
    for letter in short:
        at = long.find(letter, at) + 1
        if not at:
            return False
    return at > len(long) // 2
