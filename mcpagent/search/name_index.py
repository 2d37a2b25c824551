"""Look up tools by any of their names, in any spelling (see `name_key`)."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain, repeat

from mcpagent.search.fields import local_name
from mcpagent.search.query import MAX_QUERY, is_identifier, mentioned_names
from mcpagent.search.words import name_key
from mcpagent.values.messages import ToolDefinition, ToolKey

LONGEST_KEYED = 256
"""Maximum length of a tool's own name in the index, twice the maximum that MCP recommends."""

_LONGEST_NEAR = 64


def name_keys(tool: ToolDefinition) -> set[str]:
    """Return the keys of all names of the tool; `server.tool` and `server__tool` have the same key."""
    name, server = local_name(tool), tool.server or ""
    local = ""
    if len(name) <= LONGEST_KEYED:
        local = name_key(name)
    full = ""
    if local:
        full = _server_key(server) + local
    if full and tool.name == f"{server}__{name}":
        offered = full
    else:
        offered = name_key(tool.name)
    return {offered, local, full} - {""}


_server_key = lru_cache(maxsize=256)(name_key)
"""`name_key` with a cache, for the server names that many tools repeat."""


def written_names(tool: ToolDefinition) -> tuple[str, ...]:
    """Return all names of the tool, in their usual spelling."""
    local, server = local_name(tool), tool.server or ""
    return tool.name, local, f"{server}.{local}", f"{server}__{local}"


class NameIndex:
    """Tool numbers by name key. `key in index` is True if any tool has the key."""

    def __init__(self) -> None:
        self.tools: dict[int, ToolDefinition] = {}
        self._numbers: defaultdict[str, list[int]] = defaultdict(list)
        self._by_length: defaultdict[int, dict[str, None]] | None = None
        """Keys by length; computed when the first unknown name is looked up."""

    def add(self, number: int, tool: ToolDefinition) -> None:
        """Add a tool; its number must be higher than all earlier ones."""
        self.tools[number] = tool
        for key in name_keys(tool):
            self._numbers[key].append(number)
            if self._by_length is not None:
                self._by_length[len(key)][key] = None

    def remove(self, number: int, tool: ToolDefinition) -> None:
        """Remove a tool."""
        del self.tools[number]
        for key in name_keys(tool):
            self._numbers[key].remove(number)
            if not self._numbers[key]:
                del self._numbers[key]
                if self._by_length is not None:
                    del self._by_length[len(key)][key]

    def numbers(self, key: str) -> tuple[int, ...]:
        """Return the numbers of the tools with that key, in order."""
        return tuple(self._numbers.get(key, ()))

    def __contains__(self, key: object) -> bool:
        return key in self._numbers

    def of_length(self, lengths: Iterable[int]) -> Iterator[str]:
        """Yield the keys with these lengths."""
        if self._by_length is None:
            self._by_length = defaultdict(dict)
            # Copied in order of length, so that keys that are compared together are adjacent in memory.
            for key in "\n".join(sorted(self._numbers, key=len)).split("\n"):
                self._by_length[len(key)][key] = None
        return chain.from_iterable(map(self._by_length.get, lengths, repeat(())))

    def exactly(self, name: str, server: str | None) -> list[int]:
        """Return the tools with that name, on one server or on all (None); a tool with exactly that offered name comes
        first.
        """
        key, tools = name_key(name), self.tools
        numbers = (
            number
            for number in self.numbers(key)
            if server is None or tools[number].server == server
        )
        return sorted(
            numbers,
            key=lambda number: (
                name_key(tools[number].name) != key,
                tools[number].name,
            ),
        )

    def identified(self, key: ToolKey) -> list[int]:
        """Return the tools with this identity: one, unless several sessions have their own copy."""
        return [
            number
            for number in self.numbers(name_key(key.name))
            if self.tools[number].key == key
        ]

    def mentioned(self, text: str, server: str | None) -> dict[int, str]:
        """Return the tools that the text names, with the spelling in the text; exact spellings come before similar
        ones.
        """
        mentioned = mentioned_names(text[:MAX_QUERY], self)
        found = [
            (number, written)
            for key, written in mentioned.items()
            for number in self.exactly(key, server)
        ]
        found.sort(key=lambda one: one[1] not in written_names(self.tools[one[0]]))
        return dict(found)

    def named_by_pattern(self, pattern: str, server: str | None) -> dict[int, str]:
        """Return the tools that a pattern names: the pattern is a name, or consists of alternatives that are all
        names.
        """
        parts = [part.strip() for part in pattern.split("|")]
        if len(parts) > 1 and all(map(is_identifier, parts)):
            found = [
                (number, part)
                for part in parts
                for number in self.exactly(part, server)
            ]
            if {part for _, part in found} == set(parts):
                return dict(found)
            return {}
        folded = pattern.casefold()
        numbers = self.exactly(pattern, server)
        return {
            number: pattern
            for number in numbers
            if any(
                written.casefold() == folded
                for written in written_names(self.tools[number])
            )
        }

    def near(
        self, name: str, likeness: float, limit: int, server: str | None = None
    ) -> list[tuple[int, float]]:
        """Return the tools whose names are similar to this one, with their similarity (at most 100), the most similar
        first.

        `likeness` is the minimum similarity. With a `server`, only its tools.
        """
        from rapidfuzz.fuzz import ratio
        from rapidfuzz.process import extract

        key = name_key(name)
        if not 2 < len(key) <= _LONGEST_NEAR:
            return []
        # rapidfuzz's ratio of two texts is at most 2 * shorter / (shorter + longer), so other lengths cannot match.
        spread = (200 - likeness) / likeness
        lengths = range(math.ceil(len(key) / spread), math.floor(len(key) * spread) + 1)
        fitting = extract(
            key,
            list(self.of_length(lengths)),
            scorer=ratio,
            score_cutoff=likeness,
            limit=None,
        )
        fitting.sort(
            key=lambda one: (-one[1], one[0])
        )  # a fixed order of equally similar names
        best: dict[int, float] = {}
        for near, score, _ in fitting[: 4 * limit if server is None else None]:
            for number in self.numbers(near):
                if server is None or self.tools[number].server == server:
                    best[number] = max(best.get(number, 0.0), score)
        return heapq.nsmallest(
            limit, best.items(), key=lambda item: (-item[1], self.tools[item[0]].name)
        )


class NameIndexOfSome(NameIndex):
    """A read-only view of some tools of `whole`."""

    def __init__(self, whole: NameIndex, held: dict[int, ToolDefinition]) -> None:
        super().__init__()
        self.tools, self._whole = held, whole

    def numbers(self, key: str) -> tuple[int, ...]:
        """Return the numbers of the included tools with that key, in order."""
        return tuple(
            number for number in self._whole.numbers(key) if number in self.tools
        )

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and any(
            map(self.tools.__contains__, self._whole.numbers(key))
        )

    def of_length(self, lengths: Iterable[int]) -> Iterator[str]:
        """Yield the keys of these lengths that an included tool has."""
        return (key for key in self._whole.of_length(lengths) if key in self)
