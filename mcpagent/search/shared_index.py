"""An index over the tools of all sessions of an agent, with a view for the tools of each session.

A tool's texts are indexed once for all sessions. A session's view returns the same results as an index of its tools
alone: rarity, similar meanings and corrections depend only on these tools, never on those of another user.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from weakref import WeakKeyDictionary

from mcpagent.search.examples import Examples, shipped_examples
from mcpagent.search.fields import field_texts
from mcpagent.search.index import Strategy, ToolIndex
from mcpagent.search.indexed_tools import Indexed, garbage_collection_paused
from mcpagent.search.learning import SearchHistory, UsagePrior
from mcpagent.search.name_index import NameIndexOfSome
from mcpagent.search.postings import ComputedCache, PostingsOfSome
from mcpagent.search.query_terms import QueryAnalyzer, Spelling
from mcpagent.search.ranking import Ranker
from mcpagent.search.semantic.vectors import Stages, vectors_for
from mcpagent.search.words import pieces, written_words
from mcpagent.values.messages import ToolDefinition

MOST_LEFT = 2_000
"""The index is rebuilt when it has this number of unused tools more than used ones."""


class SharedIndex:
    """The index over all recently used tools; `of` returns the view of one session's tools.

    Tools that no session has any more are removed after a while, all at once. `indexed` counts the tools that were
    indexed.
    """

    def __init__(
        self,
        strategy: Strategy,
        *,
        cache_folder: Path | None,
        history: SearchHistory | None,
        examples: Examples = shipped_examples,
    ) -> None:
        self.strategy, self.examples, self._cache_folder = (
            strategy,
            examples,
            cache_folder,
        )
        self.prior = UsagePrior(history) if history is not None else None
        self.lock = threading.RLock()
        self.indexed = 0
        self._owners: WeakKeyDictionary[object, _IndexOfSome] = WeakKeyDictionary()
        self._of_owners = threading.Lock()
        self._whole = self._begun()
        self._most = MOST_LEFT

    def _begun(self) -> _Whole:
        return _Whole(
            vectors_for(self.strategy, None, self._cache_folder),
            self._cache_folder,
            self.examples,
        )

    def of(
        self,
        owner: object,
        tools: Iterable[ToolDefinition],
        descriptions: Mapping[str, str],
    ) -> ToolIndex:
        """Return the view of these tools for `owner`, created at its first search; the same view until `drop`."""
        with self._of_owners:
            index = self._owners.get(owner)
            if index is None:
                index = self._owners[owner] = _IndexOfSome(self, tools, descriptions)
            return index

    def drop(self, owner: object) -> None:
        """Remove the owner's view, because its tools changed."""
        with self._of_owners:
            self._owners.pop(owner, None)

    def read(
        self, tools: Iterable[ToolDefinition], descriptions: Mapping[str, str]
    ) -> tuple[_Whole, dict[int, ToolDefinition]]:
        """Return an index that has all these tools, and the tools by their numbers in it, in order."""
        if self._whole.size > self._most:
            self._forget()
        before = self._whole.size
        found = self._whole.read(tools, descriptions)
        self.indexed += self._whole.size - before
        return self._whole, found

    def _forget(self) -> None:
        """Rebuild the index if most tools have no owner; the remaining owners add their tools again."""
        with self._of_owners:
            live = len(
                set(
                    chain.from_iterable(
                        index.numbers for index in self._owners.values()
                    )
                )
            )
            self._most = 2 * live + MOST_LEFT
            if self._whole.size > self._most:
                self._whole = self._begun()
                self._owners.clear()


class _Whole(Indexed):
    """All tools of the index, with a number for each different definition; none is ever removed."""

    def __init__(
        self, vectors: Stages, cache_folder: Path | None, examples: Examples
    ) -> None:
        super().__init__(vectors, None, cache_folder, examples)
        self._alike: dict[tuple[str | None, str, str], list[int]] = {}
        self._about: dict[int, str] = {}
        self._known: dict[int, int] = {}
        self._words: dict[int, frozenset[str]] = ComputedCache(self._words_of)
        self._pieces: dict[str, tuple[str, ...]] = ComputedCache(
            lambda word: tuple(pieces(word))
        )

    @property
    def size(self) -> int:
        """Number of tools."""
        return len(self.tools)

    def read(
        self, tools: Iterable[ToolDefinition], descriptions: Mapping[str, str]
    ) -> dict[int, ToolDefinition]:
        """Index the tools, and return them by number, in order; `descriptions` are the descriptions of their
        servers.
        """
        self.server_descriptions = dict(descriptions)
        found: dict[int, ToolDefinition] = {}
        with garbage_collection_paused():
            if not self.tools:
                self._read_first(tools)
            abouts = self.server_descriptions
            for tool in tools:
                number = self._known.get(
                    id(tool)
                )  # their IDs stay unique, because this dict keeps the tools alive
                if number is None or self._about[number] != abouts.get(
                    tool.server or "", ""
                ):
                    number = self._number(tool)
                found[number] = tool
        return dict(sorted(found.items()))

    def _read_first(self, tools: Iterable[ToolDefinition]) -> None:
        """Index the first tools, from the cache folder if they were saved there."""
        for server, theirs in _by_server(tools).items():
            self.replace(server, theirs)
        self.settle()
        for number, tool in self.tools.items():
            self._keep(number, tool)

    def _keep(self, number: int, tool: ToolDefinition) -> None:
        self._alike_ones(tool).append(number)
        self._about[number] = self.server_descriptions.get(tool.server or "", "")
        self._known[id(tool)] = number

    def _alike_ones(self, tool: ToolDefinition) -> list[int]:
        about = self.server_descriptions.get(tool.server or "", "")
        return self._alike.setdefault((tool.server, tool.name, about), [])

    def _number(self, tool: ToolDefinition) -> int:
        for number in reversed(self._alike_ones(tool)):
            held = self.tools[number]
            if held is tool or held == tool:
                return number
        number = self.add(tool)
        self._keep(number, tool)
        return number

    def _words_of(self, number: int) -> frozenset[str]:
        texts = field_texts(
            self.tools[number], self._about[number], self._examples(self.tools[number])
        )
        return frozenset(chain.from_iterable(written_words(text) for _, text in texts))

    def of_some(
        self, numbers: dict[int, ToolDefinition]
    ) -> tuple[NameIndexOfSome, PostingsOfSome, Stages, Ranker]:
        """Return the names, postings, vectors and ranker of these tools alone."""
        held = tuple(numbers)
        postings = PostingsOfSome(self.postings, held)
        vectors = self.vectors.of_some(held)

        def spelling() -> tuple[Spelling, frozenset[str]]:
            words: set[str] = set().union(*map(self._words.__getitem__, held))
            plain = frozenset(chain.from_iterable(map(self._pieces.__getitem__, words)))
            return self.ranker.analyzer.learned_spellings()[0], plain

        return (
            NameIndexOfSome(self.name_index, numbers),
            postings,
            vectors,
            Ranker(postings, vectors, QueryAnalyzer(postings, spelling)),
        )


class _Some(Indexed):
    """One session's tools, with index data as if they were alone; the data comes from the whole index."""

    def __init__(
        self,
        shared: SharedIndex,
        tools: Iterable[ToolDefinition],
        descriptions: Mapping[str, str],
    ) -> None:
        super().__init__(Stages(), descriptions, None, shared.examples)
        self._shared = shared
        for server, theirs in _by_server(tools).items():
            self.replace(server, theirs)

    def settle(self) -> None:
        """Add the waiting tools to the whole index, once."""
        if not self.waiting:
            return
        tools = list(
            chain.from_iterable(theirs.values() for theirs in self.waiting.values())
        )
        whole, self.tools = self._shared.read(tools, self.server_descriptions)
        for number, tool in self.tools.items():
            self.numbers.setdefault(tool.server, {})[tool.name] = number
        self.name_index, self.postings, self.vectors, self.ranker = whole.of_some(
            self.tools
        )
        self.waiting = {}


class _IndexOfSome(ToolIndex):
    """The search over one session's tools."""

    def __init__(
        self,
        shared: SharedIndex,
        tools: Iterable[ToolDefinition],
        descriptions: Mapping[str, str],
    ) -> None:
        super().__init__(shared.strategy)
        self._lock, self._prior = shared.lock, shared.prior
        self._held = _Some(shared, tools, descriptions)

    @property
    def numbers(self) -> Iterable[int]:
        """The numbers of the session's tools in the whole index; empty before the first search."""
        return tuple(self._held.tools)


def _by_server(
    tools: Iterable[ToolDefinition],
) -> dict[str | None, list[ToolDefinition]]:
    found: dict[str | None, list[ToolDefinition]] = {}
    for tool in tools:
        found.setdefault(tool.server, []).append(tool)
    return found
