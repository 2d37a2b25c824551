"""The tools of one agent, shared by all its sessions: by key, by offered name, and in the search index.

A key identifies a tool. It is offered under a unique name, which does not change. `session_tools.py` computes which
tools a session is offered.
"""

from __future__ import annotations

from collections import ChainMap, Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from mcpagent.errors import ConfigError
from mcpagent.models.tool_changes_in_history import (
    READER_NAMES,
    RESERVED_NAMES,
    SUBMIT_TOOL,
)
from mcpagent.tool_search.category_words import characteristic_words
from mcpagent.tool_search.search_options import ToolSearch, definition_tokens
from mcpagent.tool_search.unique_names import NameMap, offered_names
from mcpagent.utilities.python.worker_threads import with_pauses
from mcpagent.values.messages import ToolDefinition, ToolKey
from mcpagent.values.tools import Tool

if TYPE_CHECKING:
    from mcpagent.search import ToolIndex
    from mcpagent.search.shared_index import SharedIndex


MOST_HELD = 8
"""Maximum number of cached catalogues without a session. Also the maximum number of definitions of one name with a
cached token count.
"""

MOST_COUNTED = 20_000
"""Maximum number of tool names with cached token counts, and of cached keys."""

MOST_EQUAL = 64
"""Maximum number of mappings (token counts, category words) that catalogues share."""

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools and servers at one moment. `tools` have the names that their sources use.

    `descriptions` has the description of each connected server. `unavailable` maps configured servers that are not
    connected to the reason in one line; `connecting` are those among them that may still connect. `expects_deferred`:
    one of these has tools that will be hidden.
    """

    tools: tuple[Tool, ...] = ()
    descriptions: Mapping[str, str] = field(default_factory=dict[str, str])
    unavailable: Mapping[str, str] = field(default_factory=dict[str, str])
    expects_deferred: bool = False
    connecting: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    """The servers that the configuration marks with `trust_hints`."""


@dataclass(frozen=True, slots=True)
class NameTable:
    """The tools of a catalogue by their offered names; `names` also has tools that are temporarily missing."""

    names: Mapping[ToolKey, str]
    known: Mapping[str, Tool]
    resolver: NameMap

    @classmethod
    def of(
        cls,
        tools: Mapping[ToolKey, Tool],
        names: Mapping[ToolKey, str],
        listed: Mapping[ToolKey, str],
        order: Iterable[str] = (),
    ) -> NameTable:
        """Return the table of tools with their offered names.

        `listed` has the name under which each tool is listed. `order` has names that were offered before: they keep
        their position, and new ones follow, by name.
        """
        by_name = {names[key]: tool for key, tool in tools.items()}
        placed = dict.fromkeys(name for name in order if name in by_name)
        in_order = [*placed, *sorted(by_name.keys() - placed.keys())]
        known = dict(
            zip(
                in_order,
                map(_renamed, map(by_name.__getitem__, in_order), in_order),
                strict=True,
            )
        )
        return cls(names, known, NameMap(names, listed, known))

    def has(self, key: ToolKey) -> bool:
        """Return whether the tool is available now."""
        return self.names.get(key) in self.known

    def plain(self) -> dict[str, Tool]:
        """Return `known` as a dict, which is faster to iterate."""
        if isinstance(self.known, ChainMap):
            return {**self.known.maps[1], **self.known.maps[0]}
        return dict(self.known)

    def is_as_new(
        self, tools: Mapping[ToolKey, Tool], reserved: frozenset[str]
    ) -> bool:
        """Return whether a new table of these tools would have the same names and order."""
        new = offered_names(listed_names(tools), reserved=reserved)
        return [*self.known] == sorted(self.known) and all(
            self.names[key] == name for key, name in new.items()
        )

    def goes_on_from(self, before: NameTable) -> bool:
        """Return whether all names mean the same tools as in `before`, and the tools that stayed come first, in the
        same order.
        """
        if (
            self.names is before.names
        ):  # both tables belong to the same or an equal catalogue
            return True
        left = [name for name in before.known if name in self.known]
        gone = {name for key, name in before.names.items() if key not in self.names}
        return (
            [*islice(self.known, len(left))] == left
            and gone.isdisjoint(self.known)
            and all(
                self.names.get(key, name) == name for key, name in before.names.items()
            )
        )


def listed_names(tools: Mapping[ToolKey, Tool]) -> dict[ToolKey, str]:
    """Return the name under which each of the tools is listed."""
    return {key: tool.definition.name for key, tool in tools.items()}


class SharedState:
    """The state that all catalogues of an agent share: the index, the token count of each definition, reserved names.

    No tool can have a reserved name. The names of provider tools (`taken`) are reserved, too.
    """

    def __init__(self, search: ToolSearch, taken: frozenset[str] = frozenset()) -> None:
        self._search = search
        self.taken = taken
        self.reserved = RESERVED_NAMES | {SUBMIT_TOOL} | taken
        self._index: SharedIndex | None = None
        self._tokens: dict[str, list[tuple[ToolDefinition, int]]] = {}
        self._keys: dict[tuple[str | None, ...], ToolKey] = {}
        self.counted = 0
        """Number of definitions whose tokens were counted."""
        self._equal: dict[tuple[tuple[str, Any], ...], Mapping[str, Any]] = {}
        self._prompts: tuple[tuple[ToolDefinition, ...], ToolIndex] | None = None

    def prompt_index(self, prompts: tuple[ToolDefinition, ...]) -> ToolIndex:
        """Return a search index over these prompts of servers; the same index for the same prompts."""
        from mcpagent.search import ToolIndex

        if self._prompts is None or self._prompts[0] is not prompts:
            index = ToolIndex("bm25")
            for server in dict.fromkeys(prompt.server for prompt in prompts):
                index.replace(server, [one for one in prompts if one.server == server])
            self._prompts = (prompts, index)
        return self._prompts[1]

    @property
    def index(self) -> SharedIndex:
        """The search index over the tools of all catalogues."""
        if self._index is None:
            from mcpagent.search.examples import examples_from
            from mcpagent.search.shared_index import SharedIndex

            search = self._search
            self._index = SharedIndex(
                search.strategy,
                cache_folder=search.cache_folder,
                history=search.history,
                examples=examples_from(search.examples),
            )
        return self._index

    def keys_of(self, tools: Iterable[Tool]) -> list[ToolKey]:
        """Return the tools' keys as shared objects: a thousand catalogues of a thousand tools would otherwise have a
        million.
        """
        if len(self._keys) >= MOST_COUNTED:
            self._keys.clear()
        keys: list[ToolKey] = []
        for tool in tools:
            it = tool.definition
            told = (it.server, it.source, it.original_name, it.listed, it.name)
            keys.append(self._keys.get(told) or self._keys.setdefault(told, it.key))
        return keys

    def equal(self, values: Mapping[str, _Value]) -> Mapping[str, _Value]:
        """Return an equal mapping of another catalogue, if there is one, because many sessions have nearly the same
        tools.
        """
        if len(self._equal) >= MOST_EQUAL:
            self._equal.clear()
        return self._equal.setdefault(tuple(values.items()), values)

    def drop(self, catalog: Catalog) -> None:
        """Remove the catalogue's tools from the index, because they have changed."""
        if self._index is not None:
            self._index.drop(catalog)

    def tokens(self, definition: ToolDefinition) -> int:
        """Return the estimated tokens of the definition in a request; equal definitions are counted once."""
        held = self._tokens.get(definition.name)
        if held is not None:
            for one, tokens in held:
                if one is definition or one == definition:
                    return tokens
        elif len(self._tokens) >= MOST_COUNTED:
            self._tokens.clear()
        tokens = definition_tokens(definition)
        self._tokens[definition.name] = [
            (definition, tokens),
            *(held or ())[: MOST_HELD - 1],
        ]
        self.counted += 1
        return tokens


class Catalog:
    """The tools of an agent: `tools` by key, `naming` by offered name, and `index` for searching them.

    `update` replaces the current listing. Values returned earlier never change, so that a session can compare them with
    the current ones. `listed` are the tools from the toolsets; tools keep the names and positions that they had in the
    catalogue `after`.
    """

    def __init__(
        self,
        listing: Listing,
        search: ToolSearch,
        *,
        listed: tuple[Tool, ...] = (),
        after: NameTable | None = None,
        others: Iterable[Catalog] = (),
        shared: SharedState | None = None,
    ) -> None:
        self.search = search
        self._of_all = shared or SharedState(search)
        self.listed = listed
        self.listing = listing
        self._listed_now: Sequence[Tool] = ()
        self.naming = after or NameTable.of({}, {}, {})
        self._total: tuple[Mapping[str, Tool], int] | None = None
        self._categories: tuple[Mapping[str, Tool], Mapping[str, int]] | None = None
        self._abouts: Mapping[str, str] = {}
        self._twin: Catalog | None = None
        self.is_grown = False
        """Whether a new catalogue of the same listing would have other names or positions."""
        self._take(listing.tools, others)

    @property
    def reserved(self) -> frozenset[str]:
        """Names that no tool may have."""
        return self._of_all.reserved

    def prompt_index(self, prompts: tuple[ToolDefinition, ...]) -> ToolIndex:
        """Return a search index over these prompts of servers, shared by all catalogues of the agent."""
        return self._of_all.prompt_index(prompts)

    def update(self, listing: Listing, others: Iterable[Catalog] = ()) -> None:
        """Replace the listing; tools that stay keep their names. Raises `ConfigError` if two tools have the same
        identity.

        If a catalogue in `others` has the same definitions, its names and index are shared: these do not depend on the
        tools' code.
        """
        if listing.tools != self.listing.tools:
            self._take(listing.tools, others)
        self.listing = listing

    def _take(self, listed: Sequence[Tool], others: Iterable[Catalog]) -> None:
        self._twin = next(
            (one for one in others if one is not self and self._is_like(one, listed)),
            None,
        )
        if self._twin is not None:
            self._share(self._twin, listed)
        else:
            self._build(listed)

    def _build(self, listed: Sequence[Tool]) -> None:
        tools = _by_key(listed, self._of_all)
        listed_as = listed_names(tools)
        offered = offered_names(
            listed_as, sticky=self.naming.names, reserved=self.reserved
        )
        names = {**self.naming.names, **offered} if self.naming.names else offered
        self._listed_now = listed
        named_before, self.naming = (
            self.naming,
            NameTable.of(tools, names, listed_as, self.naming.known),
        )
        self.is_grown = bool(named_before.names) and not self.naming.is_as_new(
            tools, self.reserved
        )
        self._of_all.drop(self)

    def _is_like(self, other: Catalog, listed: Sequence[Tool]) -> bool:
        theirs = other.listing.tools
        return (
            other._twin is None
            and len(theirs) == len(listed)
            and all(
                one is two or one.definition == two.definition
                for one, two in zip(theirs, listed, strict=True)
            )
            and other.naming.goes_on_from(self.naming)
        )

    def _share(self, twin: Catalog, listed: Sequence[Tool]) -> None:
        own = [
            tool
            for tool, theirs in zip(listed, twin.listing.tools, strict=True)
            if tool is not theirs
        ]
        mine = _by_key(own, self._of_all)
        naming = twin.naming
        known = {
            naming.names[key]: _renamed(tool, naming.names[key])
            for key, tool in mine.items()
        }
        self._listed_now = listed
        self.naming = replace(naming, known=ChainMap(known, naming.known))  # type: ignore[arg-type]
        self._of_all.drop(self)

    @property
    def tools(self) -> Mapping[ToolKey, Tool]:
        """All tools by key. Computed on each access, which is rare, because sessions may have different tools."""
        return _by_key(self._listed_now, self._of_all)

    @property
    def index(self) -> ToolIndex:
        """The search index over all tools, by their names in this catalogue; created at its first search."""
        if self._twin is not None:
            return self._twin.index
        tools = (tool.definition for tool in self.naming.known.values())
        return self._of_all.index.of(self, tools, self.listing.descriptions)

    @property
    def is_twin(self) -> bool:
        """Return whether the catalogue shares the names and index of another one."""
        return self._twin is not None

    def tokens(self, tool: Tool) -> int:
        """Return the estimated tokens of the tool's definition in a request; counted once."""
        return self._of_all.tokens(tool.definition)

    def total_tokens(self) -> int:
        """Return the estimated tokens of all definitions together."""
        if self._twin is not None:
            return self._twin.total_tokens()
        known = self.naming.known
        if self._total is None or self._total[0] is not known:
            self._total = (known, sum(map(self.tokens, known.values())))
        return self._total[1]

    def categories(self) -> Mapping[str, int]:
        """Return the number of tools of each server or custom category."""
        if self._twin is not None:
            return self._twin.categories()
        known = self.naming.known
        if self._categories is None or self._categories[0] is not known:
            counts = Counter(map(category_of, known.values()))
            self._categories, self._abouts = (known, self._of_all.equal(counts)), {}
        return self._categories[1]

    def about(self, category: str) -> str:
        """Return the most characteristic words of a server's or category's tools; computed once."""
        if self._twin is not None:
            return self._twin.about(category)
        self.categories()  # this also removes the words of changed tools
        if category not in self._abouts:
            described = self.listing.descriptions
            found: defaultdict[str, list[ToolDefinition]] = defaultdict(list)
            for _, tool in sorted(
                self.naming.known.items()
            ):  # computed once for all categories without a description
                name = category_of(tool)
                if name == category or not described.get(name):
                    found[name].append(tool.definition)
            words = {
                name: characteristic_words(name, tools) for name, tools in found.items()
            }
            self._abouts = self._of_all.equal({**self._abouts, **words})
        return self._abouts.get(category, "")


def category_of(tool: Tool) -> str:
    """Return the category of a tool: its server, or the category of its function."""
    return tool.definition.server or tool.definition.category or "functions"


class Catalogs:
    """The catalogues of one agent: its own, and one for each different set of tools that its toolsets return for a
    session.

    Sessions with the same tools share a catalogue. `listing_of` returns the agent's listing with the tools of the
    toolsets added; names in `taken` belong to provider tools.
    """

    def __init__(
        self,
        search: ToolSearch,
        listing_of: Callable[[tuple[Tool, ...]], Listing],
        taken: frozenset[str] = frozenset(),
    ) -> None:
        self.search, self.listing_of = search, listing_of
        self.shared = SharedState(search, taken)
        self._held: list[Catalog] = []
        self._alive: WeakValueDictionary[int, Catalog] = WeakValueDictionary()

    async def count(self, tools: Iterable[Tool]) -> None:
        """Count the tokens of the tools before the first catalogue is created, because thousands of tools take long."""
        async for tool in with_pauses(tools):
            self.shared.tokens(tool.definition)

    def of(
        self,
        listed: tuple[Tool, ...],
        mine: Catalog | None = None,
        *,
        goes_on: bool = True,
    ) -> Catalog:
        """Return a current catalogue of the toolsets' tools; `mine` is the session's present one.

        If its conversation continues (`goes_on`), names and positions do not change.
        """
        listing = self.listing_of(listed)
        if mine is not None and mine.listing is listing:
            return mine
        others = self._others(listed, listing)
        if mine is not None and _are_same(mine.listed, listed):
            found = mine
        else:
            if mine is not None and goes_on:
                before = mine.naming
            else:
                before = NameTable.of({}, {}, {})
            same = (
                one
                for one in others
                if _are_same(one.listed, listed) and one.naming.goes_on_from(before)
            )
            found = next(same, None) or Catalog(
                listing,
                self.search,
                listed=listed,
                after=before,
                others=others,
                shared=self.shared,
            )
        found.update(listing, others)
        if not found.is_twin:
            self._alive[id(found)] = found
            if found not in self._held:
                if self._held:
                    self._held[1:] = [found, *self._held[1 : MOST_HELD - 1]]
                else:
                    self._held[1:] = [found]
        return found

    def _others(self, listed: tuple[Tool, ...], listing: Listing) -> list[Catalog]:
        """Return current catalogues that a session may share: cached ones, and those of live sessions.

        A live session's catalogue counts only if it equals a new one for this session, so that a conversation does not
        depend on which other sessions are alive.
        """
        for one in self._held:
            one.update(self.listing_of(one.listed))
        alive = [one for one in self._alive.values() if one not in self._held]
        for one in alive:
            if _are_same(one.listed, listed):
                one.update(listing)
        return [*self._held, *(one for one in alive if not one.is_grown)]


def _are_same(one: tuple[Tool, ...], other: tuple[Tool, ...]) -> bool:
    return one is other or one == other


def _renamed(tool: Tool, name: str) -> Tool:
    definition = tool.definition
    if definition.name == name:
        return tool
    return replace(
        tool, definition=replace(definition, name=name, listed=definition.key.listed)
    )


def _by_key(listed: Sequence[Tool], shared: SharedState) -> dict[ToolKey, Tool]:
    keys = shared.keys_of(listed)
    by_key = dict(zip(keys, listed, strict=True))
    functions = {
        tool.definition.name for tool in listed if tool.definition.server is None
    }
    for name in sorted(shared.reserved & functions):
        if name in shared.taken:
            why = "code mode has a tool of this name, or the provider runs one"
        elif name in READER_NAMES:
            why = "the name is reserved for readers of large results"
        else:
            why = "the name is reserved for tool search"
        raise ConfigError(f'tool "{name}": {why}; rename the function')
    if len(by_key) < len(listed):
        key = next(key for key, count in Counter(keys).items() if count > 1)
        where = "the agent's own tools"
        if key.source is not None:
            where = f'source "{key.source}"'
        raise ConfigError(
            f'tool "{key.name}": defined twice in {where}; rename one of them'
        )
    return by_key
