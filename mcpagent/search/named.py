"""Which tools may be called what: by the key of each name they have (see `name_key`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator

from mcpagent.messages import ToolDefinition
from mcpagent.search.fields import local_name
from mcpagent.search.name_forms import name_key

LONGEST_KEYED = 256
"""Characters of a name of a server's own that can be looked up by it, twice what MCP recommends as the most."""


def name_keys(tool: ToolDefinition) -> set[str]:
    """The keys of all that the tool may be called; `server.tool` and `server__tool` have the same."""
    name = local_name(tool)
    local = name_key(name) if len(name) <= LONGEST_KEYED else ""
    return {name_key(tool.name), local, name_key(tool.server or "") + local if local else ""} - {""}


class Named:
    """The numbers of tools by name key. `key in named` tells whether any tool has it."""

    def __init__(self) -> None:
        self._numbers: defaultdict[str, list[int]] = defaultdict(list)
        self._by_length: defaultdict[int, dict[str, None]] = defaultdict(dict)

    def add(self, number: int, tool: ToolDefinition) -> None:
        """Takes up a tool; one with a higher number than all before."""
        for key in name_keys(tool):
            self._numbers[key].append(number)
            self._by_length[len(key)][key] = None

    def remove(self, number: int, tool: ToolDefinition) -> None:
        """Forgets a tool that was taken up."""
        for key in name_keys(tool):
            self._numbers[key].remove(number)
            if not self._numbers[key]:
                del self._numbers[key], self._by_length[len(key)][key]

    def numbers(self, key: str) -> tuple[int, ...]:
        """The tools with that key, in order."""
        return tuple(self._numbers.get(key, ()))

    def __contains__(self, key: object) -> bool:
        return key in self._numbers

    def of_length(self, lengths: Iterable[int]) -> Iterator[str]:
        """The keys of these lengths."""
        for length in lengths:
            yield from self._by_length.get(length, ())


class NamedOfSome(Named):
    """The same for some of the tools of `whole`; nothing is added here."""

    def __init__(self, whole: Named, held: Container[int]) -> None:
        super().__init__()
        self._whole, self._held = whole, held

    def numbers(self, key: str) -> tuple[int, ...]:
        """Those with that key that are held, in order."""
        return tuple(number for number in self._whole.numbers(key) if number in self._held)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and any(map(self._held.__contains__, self._whole.numbers(key)))

    def of_length(self, lengths: Iterable[int]) -> Iterator[str]:
        """The keys of these lengths that a tool has which is held."""
        return (key for key in self._whole.of_length(lengths) if key in self)
