"""The tools of an index by number, with their names, postings and vectors."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from mcpagent.search.examples import Examples
from mcpagent.search.fields import field_texts
from mcpagent.search.index_cache import (
    FEWEST_TOOLS,
    catalogue_key,
    load_postings,
    save_postings,
)
from mcpagent.search.name_index import NameIndex
from mcpagent.search.postings import Postings
from mcpagent.search.ranking import Ranker
from mcpagent.search.semantic.vectors import Stages
from mcpagent.values.messages import ToolDefinition


class Indexed:
    """Tools by number, their numbers by server and name, and their index entries.

    `waiting` are tools that the next `settle` indexes. A catalogue of at least `FEWEST_TOOLS` is stored in
    `cache_folder`.
    """

    def __init__(
        self,
        vectors: Stages,
        server_descriptions: Mapping[str, str] | None,
        cache_folder: Path | None,
        examples: Examples,
    ) -> None:
        self.server_descriptions = dict(server_descriptions or {})
        self.tools: dict[int, ToolDefinition] = {}
        self.numbers: dict[str | None, dict[str, int]] = {}
        self.waiting: dict[str | None, dict[str, ToolDefinition]] = {}
        self.name_index = NameIndex()
        self.postings = Postings()
        self.vectors = vectors
        self.ranker = Ranker(self.postings, vectors)
        self._cache_folder, self._examples = cache_folder, examples
        self._next_number = 0

    def replace(self, server: str | None, tools: Iterable[ToolDefinition]) -> None:
        """Replace the tools of a server (None: local functions) at the next `settle`."""
        self.waiting[server] = {tool.name: tool for tool in tools}

    def settle(self) -> None:
        """Index the waiting tools, or read a whole catalogue from the cache folder if it was saved."""
        if not self.waiting:
            return
        waiting, self.waiting = self.waiting, {}
        with garbage_collection_paused():
            if (
                self.tools
                or self._cache_folder is None
                or not self._settle_saved(waiting, self._cache_folder)
            ):
                self._settle_each(waiting)

    def _settle_each(
        self, waiting: Mapping[str | None, Mapping[str, ToolDefinition]]
    ) -> None:
        for server, wanted in waiting.items():
            held = self.numbers.setdefault(server, {})
            for name in [
                name
                for name, number in held.items()
                if wanted.get(name) != self.tools[number]
            ]:
                self._remove(held.pop(name))
            for name, tool in wanted.items():
                if name not in held:
                    held[name] = self.add(tool)
            if not held:
                del self.numbers[server]

    def _settle_saved(
        self, waiting: Mapping[str | None, Mapping[str, ToolDefinition]], folder: Path
    ) -> bool:
        servers = sorted(waiting, key=lambda server: server or "")
        tools = [
            waiting[server][name]
            for server in servers
            for name in sorted(waiting[server])
        ]
        if len(tools) < FEWEST_TOOLS:
            return False
        key = catalogue_key(tools, self.server_descriptions, self._examples)
        saved = load_postings(folder, key, len(tools))
        postings = saved or Postings()
        for number, tool in enumerate(tools):
            if saved is None:
                postings.add(number, self.texts(tool))
            self.tools[number] = tool
            self._note(number, tool)
        numbers = iter(range(len(tools)))
        self.numbers = {
            server: dict(zip(sorted(waiting[server]), numbers, strict=False))
            for server in servers
        }
        self._next_number = len(tools)
        self.postings = postings
        self.ranker = Ranker(postings, self.vectors)
        if saved is None:
            save_postings(folder, key, postings)
        return True

    def texts(self, tool: ToolDefinition) -> list[tuple[str, str]]:
        """Return the searched texts of the tool as (field, text)."""
        return field_texts(
            tool,
            self.server_descriptions.get(tool.server or "", ""),
            self._examples(tool),
        )

    def add(self, tool: ToolDefinition) -> int:
        """Index one more tool; return its number."""
        number = self._next_number
        self._next_number += 1
        self.tools[number] = tool
        self.postings.add(number, self.texts(tool))
        self._note(number, tool)
        return number

    def _note(self, number: int, tool: ToolDefinition) -> None:
        self.vectors.add(number, tool, self._examples(tool))
        self.name_index.add(number, tool)

    def _remove(self, number: int) -> None:
        tool = self.tools.pop(number)
        self.postings.remove(number, self.texts(tool))
        self.vectors.remove(number)
        self.name_index.remove(number, tool)


@contextlib.contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Pause the garbage collector: indexing creates many objects without cycles, so a collection would find nothing.

    Collections would take a quarter of the indexing time. Afterwards, the created objects are in the oldest generation.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        if enabled:
            gc.enable()
