"""The tools of one session: the part of the agent's catalogue that it is offered, and the part that it has to search
for.

A *deferred* tool is known but hidden; a *discovered* one was added and is offered; a *pre-discovered* one (`pinned` in
this module) is offered from the first request on. Discovery is not stored here: it is computed from the conversation,
by the tools' keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import is_
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mcpagent.errors import ConfigError
from mcpagent.history.conversation import Conversation, Discovery
from mcpagent.models.base import ToolLimits
from mcpagent.models.prices import LEAST_SEARCH_COST, MOST_SEARCH_COST
from mcpagent.search.pattern import looks_like_pattern
from mcpagent.search.words import name_key
from mcpagent.tool_search.catalog import (
    Catalog,
    Listing,
    NameTable,
    category_of,
    listed_names,
)
from mcpagent.tool_search.name_patterns import names_by_pattern
from mcpagent.tool_search.search_options import (
    PREFETCHED,
    PREFETCHED_CHEAP,
    ToolSearch,
    paying_tokens,
)
from mcpagent.tool_search.tool_budget import MOST_OF_WINDOW, ToolBudget
from mcpagent.tool_search.unique_names import offered_names
from mcpagent.utilities.text.globs import fits
from mcpagent.values.messages import ToolDefinition, ToolKey, ToolsChanged, ToolsShown
from mcpagent.values.tools import Tool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcpagent.search import SearchResult


MAX_LEFT_OUT_NAMES = 50

VIRTUAL_TOKENS = 100
"""Upper bound for the tokens of a virtual tool's definition, before the definition exists."""


async def _nothing() -> None:
    """Do nothing: the default of `settle`, for tools without servers."""


class Category(NamedTuple):
    """A server or custom category with searchable tools: its name, its description, and the number of tools."""

    name: str
    description: str
    tools: int


@dataclass(frozen=True, slots=True)
class AddOutcome:
    """The outcome of adding tools by name; `not_found` maps each unknown name to similar names."""

    added: tuple[str, ...] = ()
    already: tuple[str, ...] = ()
    not_found: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict[str, tuple[str, ...]]
    )


@dataclass(frozen=True, slots=True)
class ToolsUpdate:
    """The changes of the known tools, by offered name; `changed` tools are offered and have a new definition.

    `at_once` are offered from now on without being requested: new tools that are pinned or never hidden, as many as fit
    the model; and tools that the conversation was offered before they became unavailable.
    """

    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    at_once: tuple[str, ...] = ()


class SessionTools:
    """The tools of a catalogue that one conversation can use.

    - `pinned`: names (in any form) and patterns of tools that are offered from the start; without `search`, all tools
      are.
    - `after`: the previous value of the same conversation; tools that the provider can search stay so.
    - `search_cost`, `limits`: return the cost of a search in cached input tokens, and the limits of the model.
      `too_many` is the reason if tools are hidden because of these.
    - `settle`: waits a bounded time for servers that are connecting.
    - `instructs`: returns whether the rules let `add_tool` return the instructions of such a call.
    - `virtual`: the runtime's own tools, which are offered first. `later`: those of them that are offered once the
      history has added them; the tool budget never drops them.
    - `told_unchecked`: tools that were announced as unchecked, because their arguments cannot be validated.
    - `has_programs`: code mode is on, so `allowed_callers` of a tool count.

    `searching` and the names of known tools never change after the conversation has begun.
    """

    def __init__(
        self,
        catalog: Catalog,
        conversation: Conversation,
        *,
        search: ToolSearch | None = None,
        pinned: Sequence[str] = (),
        after: SessionTools | None = None,
        search_cost: Callable[[], float | None] = lambda: None,
        limits: Callable[[], ToolLimits] = ToolLimits,
        settle: Callable[[], Awaitable[None]] = _nothing,
        instructs: Callable[[Tool, dict[str, Any]], bool] = lambda _tool, _arguments: (
            True
        ),
        has_programs: bool = False,
    ) -> None:
        self._limits = limits
        self.has_programs = has_programs
        self.settle = settle
        self.instructs = instructs
        self.conversation = conversation
        self.options = search or catalog.search
        self._asked_pins = tuple(pinned)
        self._search_cost = search_cost
        self._left_to_provider: dict[str, ToolDefinition] = (
            {**after._left_to_provider} if after is not None else {}
        )
        self._joined_offered: set[str] = set()
        self._told_about: dict[str, str] = {**after._about} if after is not None else {}
        self.told_unchecked: set[ToolKey] = (
            after.told_unchecked if after is not None else set()
        )
        self._last: tuple[tuple[object, ...], Collection[str]] | None = None
        self.virtual: tuple[Tool, ...] = ()
        self.later: Mapping[str, Tool] = {}
        self.how_to_call: Callable[[str], str] | None = None
        """In code mode, returns how a program calls a tool with this name; None if the model calls tools itself."""
        self.still_there: Callable[[], str] = str
        """Returns a note about earlier searches and programs that the model no longer sees."""
        self.begin(catalog)

    def begin(self, catalog: Catalog) -> None:
        """Decide which tools are pinned and hidden, from the current tools; only before the conversation begins."""
        self.catalog = catalog
        self.listing: Listing = catalog.listing
        self._about = dict(self._told_about)
        self._shared = catalog.naming
        self._naming = self._named({})
        self._fits = self._limits()
        self._hides_all = self._decide(self.options.enabled)
        found = {name: self._pinned_by(name) for name in self._asked_pins}
        self.unknown_pins = tuple(
            name for name, resolved in found.items() if not resolved
        )
        meant = chain.from_iterable(found.values())
        asked = dict.fromkeys(
            name for name in meant if self.is_direct(self.known[name])
        )
        known = self._naming.plain().items()
        wanted = [
            name
            for name, tool in known
            if name in asked or not self._is_deferrable(tool)
        ]
        self.searching = self._searches(
            wanted, self.listing.expects_deferred or bool(self._left_to_provider)
        )
        if not self.searching:
            wanted = list(self.known)
        fitting = self._fitting_pins(wanted, list(asked))
        self._unpinned = len(wanted) - len(fitting)
        self.pinned: tuple[str, ...] = tuple(name for name in wanted if name in fitting)
        self._last = None

    def _pinned_by(self, asked: str) -> list[str]:
        """Return the names of known tools that a name or pattern in `pre_discovered_tools` matches."""
        resolved = self._naming.resolver.resolve(asked)
        if resolved is not None and not looks_like_pattern(asked):
            return [resolved]
        if asked in self.known:
            return [asked]
        return names_by_pattern(self._naming.plain(), asked)

    # -- Names ---------------------------------------------------------------------------------------------------------

    @property
    def known(self) -> Mapping[str, Tool]:
        """Every known tool by its name in this conversation."""
        return self._naming.known

    @property
    def names(self) -> Mapping[ToolKey, str]:
        """All names given so far by key, including those of temporarily missing tools."""
        return self._naming.names

    @property
    def unavailable(self) -> Mapping[str, str]:
        """The reason why each configured server is not connected."""
        return self.listing.unavailable

    def _named(self, order: Iterable[str]) -> NameTable:
        """Return the catalogue's table of names, or one of the conversation's own if its history has different
        names.
        """
        shared, meant = self._shared, self.conversation.discovery.keys
        theirs = {key: name for name, key in meant.items() if shared.has(key)}
        lost = meant.keys() - theirs.values()
        if lost.isdisjoint(shared.known) and all(
            shared.names[key] == name for key, name in theirs.items()
        ):
            return shared
        sticky = {
            key: name
            for key, name in shared.names.items()
            if name not in meant and key not in theirs
        } | theirs
        tools = self.catalog.tools
        listed = listed_names(tools)
        new = offered_names(
            listed, sticky=sticky, reserved=self.catalog.reserved | lost
        )
        return NameTable.of(tools, {**sticky, **new}, listed, order)

    def refresh(self) -> ToolsUpdate | None:
        """Adopt the current catalogue and return the changes, for the caller to announce; None if nothing changed."""
        if self.catalog.listing is self.listing:
            return None
        self.listing, room = self.catalog.listing, self.room()
        before, named, self._shared = (
            self._naming.known,
            self._naming.names,
            self.catalog.naming,
        )
        self._naming = self._named(before)
        after = self._naming.known
        if self._naming.names is named:  # the same definitions under the same names
            return ToolsUpdate()
        discovery = self.conversation.discovery
        new = tuple(name for name in after if name not in before)
        wanted = set(chain.from_iterable(map(self._pinned_by, self._asked_pins)))
        direct = [name for name in new if self.is_direct(after[name])]
        back = [name for name in direct if name in discovery.lost]
        others = [
            name
            for name in direct
            if name in wanted
            or not (self.searching and self._is_deferrable(after[name]))
        ]
        others = [name for name in others if name not in discovery.lost]
        fitting = {*back, *others[: room.fitting(self._sizes(others))]}
        at_once = tuple(name for name in new if name in fitting)
        changed = tuple(
            name
            for name, tool in after.items()
            if (had := before.get(name)) is not None
            and had is not tool
            and had.definition != tool.definition
        )
        offered = tuple(name for name in changed if name in self._offered(discovery))
        self._joined_offered.update(at_once)
        return ToolsUpdate(
            new, tuple(name for name in before if name not in after), offered, at_once
        )

    # -- Offered tools -------------------------------------------------------------------------------------------------

    @property
    def deferred(self) -> dict[str, Tool]:
        """The tools that the model has to search for, by offered name."""
        if not self.searching:
            return {}
        pinned = set(self.pinned)
        return {
            name: tool
            for name, tool in self._naming.plain().items()
            if name not in pinned
        }

    @property
    def deferred_count(self) -> int:
        """Number of tools that the model has to search for."""
        if self.searching:
            return len(self.known) - sum(name in self.known for name in self.pinned)
        return 0

    def offer(self) -> list[Tool]:
        """Return the tools of the next request: virtual tools, pinned ones by name, discovered ones in order of
        discovery.
        """
        known, later = self._naming.known, self.later
        offered = list(self.virtual)
        for name in self._offered(self.conversation.discovery):
            offered.append(later.get(name) or known[name])
        return offered

    def _offered(self, discovery: Discovery) -> Collection[str]:
        """Return the offered names according to the history: pinned tools, and as many of the latest discovered ones as
        fit.

        Removed tools are still part of the requests, and so count for the budget.
        """
        known = self._naming.known
        stands_on = (discovery, known, self.virtual, self.later)
        if self._last is not None and all(map(is_, self._last[0], stands_on)):
            return self._last[1]
        if self.searching:
            withdrawn = discovery.removed
        else:
            withdrawn = discovery.removed - known.keys()
        pinned = [
            name
            for name in self.pinned
            if self._may_offer(name) and name not in withdrawn
        ]
        own = set(self.pinned)
        found = [
            name
            for name in discovery.discovered
            if self._may_offer(name) and name not in own
        ]
        later = [name for name in discovery.discovered if name in self.later]
        room = self._room.beside(
            self._sizes([*(tool.name for tool in self.virtual), *later, *withdrawn])
        )
        # The tools offered from the start may already exceed the model's budget.
        if later:
            pinned = pinned[: room.fitting(self._sizes(pinned))]
        room = room.beside(self._sizes(pinned))
        fitting = {
            *later,
            *found[len(found) - room.fitting(self._sizes(reversed(found))) :],
        }
        named = [*pinned, *(name for name in discovery.discovered if name in fitting)]
        names = known if named == list(known) else dict.fromkeys(named)
        self._last = (stands_on, names)
        return names

    @property
    def _room(self) -> ToolBudget:
        """The tool budget of the model."""
        if self._fits != ToolLimits():
            return ToolBudget.of(self._fits, self.catalog.total_tokens())
        return ToolBudget()

    def _sizes(self, names: Iterable[str]) -> Iterator[int]:
        """Yield the estimated tokens of the definitions with these names; 0 for missing tools."""
        here = {tool.name: tool for tool in self.virtual} | {**self.later}
        return (
            self.catalog.tokens(tool)
            if (tool := here.get(name) or self.known.get(name))
            else 0
            for name in names
        )

    def left_out(self) -> str:
        """Return a note for the model that some tools found in the history do not fit its limits; "" if all do."""
        discovery = self.conversation.discovery
        offered = set(self._offered(discovery))
        names = [
            name
            for name in discovery.discovered
            if self._may_offer(name) and name not in offered
        ]
        if not names:
            return ""
        still = " They still run when they are called by name."
        if self.options.on_direct_call == "refuse":
            still = ""
        more = ""
        if len(names) > MAX_LEFT_OUT_NAMES:
            more = f" and {len(names) - MAX_LEFT_OUT_NAMES} more"
        shown = ", ".join(names[:MAX_LEFT_OUT_NAMES])
        return f"You take {self._room.words()} at most, so these are not loaded any more: {shown}{more}.{still}"

    @property
    def misfits(self) -> list[str]:
        """Return warnings if the initially offered tools exceed the model's limits, with the consequence."""
        lines = []
        if self.too_many and self.options.enabled == "marked":
            lines = [f"{self.too_many}; tool search is on"]
        most = f"more than the model takes ({self._room.words()})"
        if self._unpinned and self.searching:
            first = len(self.pinned)
            pinned = f"{first + self._unpinned} tools are to be offered from the start, {most}"
            lines.append(f"{pinned}: {first} are, the others are found by search")
        if not self.searching and (left := len(self.known) - self._offered_count()):
            many = f"{len(self.known)} tools are {most}"
            if self._room.fitting(self._sizes(self.known)) == len(self.known):
                many = f"{len(self.known)} tools and those that went are {most}"
            lines.append(f"{many}: {left} are not offered before the next conversation")
        return lines

    def _offered_count(self) -> int:
        """Return the number of catalogue tools in the next request."""
        names = self._offered(self.conversation.discovery)
        return len(names) - sum(name in names for name in self.later)

    def is_direct(self, tool: Tool) -> bool:
        """Return whether the model itself may call the tool, not only its programs."""
        return not self.has_programs or "direct" in tool.allowed_callers

    def _may_offer(self, name: str) -> bool:
        tool = self._naming.known.get(name)
        return tool is not None and self.is_direct(tool)

    def is_function(self, tool: Tool) -> bool:
        """Return whether a program may call the tool."""
        return self.has_programs and "code" in tool.allowed_callers

    def is_own(self, tool: Tool) -> bool:
        """Return whether the tool is one of the runtime's own."""
        if self.later.get(tool.definition.name) is tool:
            return True
        for own in self.virtual:
            if own is tool:
                return True
        return False

    def is_offered(self, name: str) -> bool:
        """Return whether the next request offers a tool with this name."""
        return any(tool.name == name for tool in self.virtual) or name in self._offered(
            self.conversation.discovery
        )

    def left_to_provider(self) -> tuple[ToolDefinition, ...]:
        """Return the tools that the provider may search in the next request; () if `search_tools` searches.

        The set only grows, and no definition changes, because a request must not rewrite an earlier one. A lost or
        changed tool keeps its first definition until the provider finds it (`outdated`) or the model calls it.
        """
        if not self.provider_searches:
            return ()
        for name, tool in sorted(self.deferred.items()):
            if name not in self._joined_offered:
                self._left_to_provider.setdefault(name, tool.definition)
        return tuple(self._left_to_provider.values())

    def joining_provider_search(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of the names that the provider has not received yet, and will receive for its search."""
        if not self.provider_searches:
            return ()
        hidden = (
            self.deferred.keys() - self._joined_offered - self._left_to_provider.keys()
        )
        return tuple(name for name in names if name in hidden)

    def outdated(self, sent: Iterable[ToolDefinition]) -> ToolsChanged | None:
        """Return how these tools have changed since the model received them; None if they have not."""
        now = {tool.name: self.known.get(tool.name) for tool in sent}
        changed = [
            tool.name
            for tool in sent
            if (known := now[tool.name]) and known.definition != tool
        ]
        gone = tuple(name for name, known in now.items() if known is None)
        if changed or gone:
            return ToolsChanged(self.definitions(changed), gone, lost=gone)
        return None

    @property
    def provider_searches(self) -> bool:
        """Return whether the model's provider searches, not `search_tools`."""
        return self.options.execution == "provider"

    @property
    def provider_strategy(self) -> Literal["auto", "bm25", "regex"]:
        """The ranking to request for a provider's own search."""
        match self.options.strategy:
            case "bm25" | "regex" as strategy:
                return strategy
            case _:
                return "auto"

    @property
    def prefetches(self) -> int:
        """Maximum number of tools that a prompt's own words load before the first request; 0: none."""
        if not self.searching or self.provider_searches:
            return 0
        if self.options.prefetch is not None or self.options.enabled != "auto":
            return self.options.prefetch or 0
        if self.may_join and self._search_cost() is not None:
            return PREFETCHED
        return PREFETCHED_CHEAP

    @property
    def may_join(self) -> bool:
        """Return whether the model can receive a tool between two turns. If not, a tool is only shown, and runs when
        called.
        """
        return self._fits.joining

    # -- Searching and adding ------------------------------------------------------------------------------------------

    async def search(
        self,
        query: str | Sequence[str],
        limit: int | None = None,
        server: str | None = None,
        *,
        is_prompt: bool = False,
    ) -> SearchResult:
        """Search the catalogue's index, and return matches under the names of this conversation; see
        `ToolIndex.find`.
        """
        result = await self.catalog.index.find(
            query, limit, server=server, is_prompt=is_prompt
        )
        if self._naming is self._shared:
            return result
        own = self._own_names()
        return replace(
            result,
            matches=tuple(
                replace(match, tool=self.known[own[match.tool.name]].definition)
                for match in result.matches
                if match.tool.name in own
            ),
            nearest=tuple(own[name] for name in result.nearest if name in own),
        )

    def _own_names(self) -> dict[str, str]:
        """Return this conversation's name of each known tool, by its name in the index."""
        names, known = self.names, self.known
        both = (
            (shared, names.get(key, "")) for key, shared in self._shared.names.items()
        )
        return {shared: name for shared, name in both if name in known}

    def how_to_load(self, name: str) -> str:
        """Return a sentence about how the model can load a tool that it does not have."""
        if self.how_to_call is not None:
            return self.how_to_call(name)
        if not self.searching:
            return "It cannot be loaded in this conversation."
        if self.provider_searches:
            return "Search for it to load it."
        if self.options.load == "search":
            return f'Call search_tools(query="{name}") to load it.'
        return f'Call add_tool(tool_names=["{name}"]) first.'

    def find(self, name: str) -> Tool | None:
        """Return the tool that a model or a person means by this name, in any form that matches exactly one; else
        None.
        """
        for tool in self.virtual:
            if tool.definition.name == name:
                return tool
        if name in self.later and self.is_offered(name):
            return self.later[name]
        known = self._naming.known
        if name in known:
            return known[name]
        lost = self.conversation.discovery.keys.keys() - known.keys()
        if name_key(name) in map(name_key, lost):
            return None  # the history has this name for a missing tool, so no other tool may be called under it
        return known.get(self._naming.resolver.resolve(name) or "")

    def lost_source(self, name: str) -> str | None:
        """Return the ID of the source that had a tool with this offered name earlier in the conversation; None if none
        did.
        """
        keys = {given: key for key, given in self.names.items()} | dict(
            self.conversation.discovery.keys
        )
        key = None
        if name not in self.known:
            key = keys.get(name)
        if key is not None:
            return key.source
        return None

    def near(self, name: str, limit: int = 3) -> tuple[str, ...]:
        """Return offered names similar to this one, for a suggestion ("did you mean")."""
        if meant := self._naming.resolver.candidates(name):
            return meant[:limit]
        near = self.catalog.index.names_near(name, limit)
        if self._naming is self._shared:
            return near
        own = self._own_names()
        return tuple(own[found] for found in near if found in own)

    def add(self, names: Iterable[str]) -> AddOutcome:
        """Return the outcome of adding these tools by name, without changing anything."""
        added: dict[str, None] = {}
        already: dict[str, None] = {}
        not_found: dict[str, tuple[str, ...]] = {}
        for asked in names:
            tool = self.find(asked)
            if tool is None:
                not_found[asked] = self.near(asked)
            elif self.is_offered(tool.name):
                already[tool.name] = None
            else:
                added[tool.name] = None
        return AddOutcome(tuple(added), tuple(already), not_found)

    def definitions(self, names: Iterable[str]) -> tuple[ToolDefinition, ...]:
        """Return the definitions of these known tools."""
        return tuple(self.known[name].definition for name in names)

    def tokens(self, names: Iterable[str]) -> int:
        """Return the estimated tokens of these tools' definitions, including virtual tools."""
        tokens = 0
        for name in names:
            tool = self.find(name)
            if tool is not None:
                tokens += self.catalog.tokens(tool)
        return tokens

    def categories(self) -> list[Category]:
        """Return the servers and custom categories with searchable tools, sorted by name."""
        if not self.searching:
            return []
        offered = Counter(
            category_of(self.known[name]) for name in self.pinned if name in self.known
        )
        counts = {
            name: count - offered[name]
            for name, count in self.catalog.categories().items()
        }
        return [
            Category(name, self.about(name), counts[name])
            for name in sorted(counts)
            if counts[name]
        ]

    def about(self, category: str) -> str:
        """Return the purpose of a server or custom category, which stays the same for the whole conversation.

        This is the configured description or the server's own, else the most characteristic words of its tools.
        """
        if not self._about.get(category):
            self._about[category] = self.listing.descriptions.get(
                category
            ) or self.catalog.about(category)
        return self._about[category]

    def told_of_servers(self) -> Mapping[str, str]:
        """Return the description of each connected server in this conversation, for storing with the session."""
        servers = self.listing.descriptions
        if self.searching:
            return {name: self.about(name) for name in servers}
        return servers

    # -- Decisions at the start, and budget ----------------------------------------------------------------------------

    def _decide(self, enabled: bool | Literal["auto", "marked"]) -> bool:
        """Return whether to hide all tools that are not eager, not only the marked ones.

        Raises `ConfigError` if all tools are to be offered but the model accepts fewer.
        """
        self.too_many = ""
        if enabled is True:
            return True
        self.too_many = self._misfit()
        if enabled is False and self.too_many:
            raise ConfigError(
                f'{self.too_many}; use with_tool_search_mode="auto", or select fewer'
            )
        return bool(self.too_many) or (
            enabled == "auto" and self._pays(self.catalog.total_tokens())
        )

    def _misfit(self) -> str:
        """Return why the initially offered tools exceed the model's limits; "" if they do not."""
        shown = [
            tool
            for tool in self.known.values()
            if not tool.deferred or self.options.enabled is False
        ]
        if self._fits != ToolLimits():
            return self._too_many([self.catalog.tokens(tool) for tool in shown])
        return ""

    def _too_many(self, sizes: Sequence[int]) -> str:
        """Return why tools of these sizes in tokens exceed the model's limits; "" if they do not."""
        room, window = ToolBudget.of(self._fits, sum(sizes)), self._fits.window_tokens
        if room.fitting(sizes) == len(sizes):
            return ""
        if room.tools is not None and len(sizes) > room.tools:
            return f"{len(sizes)} tools are more than the model takes ({room.tools})"
        half = f"more than {MOST_OF_WINDOW:.0%} of its window of {window:,} tokens"
        return f"{len(sizes)} tools take {sum(sizes):,} tokens, {half}"

    def room(self, wanted: Iterable[str] = ()) -> ToolBudget:
        """Return the model's remaining tool budget, after the offered tools and the `wanted` ones."""
        discovery = self.conversation.discovery
        offered = self._offered(discovery)
        withdrawn = discovery.removed.difference(wanted, offered)
        names = [*(tool.name for tool in self.virtual), *offered, *withdrawn]
        return self._room.beside(self._sizes(names))

    def fitting(
        self, names: Sequence[str], wanted: Iterable[str] = ()
    ) -> Sequence[str]:
        """Return the first names in the sequence that fit in addition to the offered and `wanted` tools."""
        return names[: self.room(wanted).fitting(self._sizes(names))]

    def loading(self, tool: Tool) -> ToolsChanged | ToolsShown:
        """Return the effect of calling a tool that is not offered: it is loaded, or only shown if it does not fit."""
        if not self.fitting((tool.name,), (tool.name,)):
            return ToolsShown((tool.name,), (tool.definition.key,))
        return ToolsChanged(added=(tool.definition,))

    def _fitting_pins(
        self, wanted: Sequence[str], asked: Sequence[str]
    ) -> frozenset[str]:
        """Return the pinned tools that fit: requested ones first, and few enough to leave space for search results.

        Without search, return the first ones that fit in addition to the removed tools.
        """
        if not self.searching:
            discovery = self.conversation.discovery
            room = self._room.beside(self._sizes(discovery.removed - self.known.keys()))
            first = list(
                dict.fromkeys(
                    (
                        *(name for name in discovery.discovered if name in self.known),
                        *wanted,
                    )
                )
            )
            return frozenset(first[: room.fitting(self._sizes(first))])
        virtual = [VIRTUAL_TOKENS] * (2 + len(self.options.extra_tools))
        room = self._room.beside(virtual)
        if room.fitting(self._sizes(wanted)) == len(wanted):
            return frozenset(wanted)
        first = list(dict.fromkeys((*asked, *wanted)))
        each = self.catalog.total_tokens() // max(len(self.known), 1)
        room = room.beside([each] * self.options.max_results)
        return frozenset(first[: room.fitting(self._sizes(first))])

    @property
    def search_begins_at(self) -> int:
        """Number of definition tokens above which "auto" searches."""
        if self.options.auto_tokens is not None:
            return self.options.auto_tokens
        each = self.catalog.total_tokens() / max(len(self.known), 1)
        return paying_tokens(self._search_cost(), each, load=self.options.load)

    def _pays(self, tokens: int) -> bool:
        if self.options.auto_tokens is not None:
            return tokens > self.options.auto_tokens
        each = tokens / max(len(self.known), 1)
        load = self.options.load
        least, most = (
            paying_tokens(cost, each, load=load)
            for cost in (LEAST_SEARCH_COST, MOST_SEARCH_COST)
        )
        if (
            not least < tokens <= most
        ):  # the result is the same at any price, so the price table need not be loaded
            return tokens > most
        return tokens > paying_tokens(self._search_cost(), each, load=load)

    def _searches(self, pinned: Sequence[str], expects_deferred: bool) -> bool:
        if self.options.enabled is False:
            return False
        if self._room.fitting(self._sizes(pinned)) < len(pinned):
            return True
        # If no tool is known yet, servers may be slow or have failed; a search then reports them.
        maybe_later = expects_deferred or (
            self._hides_all and bool(self.unavailable or not self.known)
        )
        if (
            self.provider_searches
        ):  # providers refuse a search tool without any tool to find
            return maybe_later or len(pinned) < len(self.known)
        return maybe_later or any(
            self._is_deferrable(tool) for tool in self.known.values()
        )

    def _is_deferrable(self, tool: Tool) -> bool:
        definition = tool.definition
        if not self.is_direct(tool):
            return True
        if tool.deferred is False or not (tool.deferred or self._hides_all):
            return False
        if definition.server is None:
            return self.options.scope == "all"
        patterns = self.options.eager_tools.get(definition.server)
        return not patterns or not any(
            fits(definition.original_name, pattern) for pattern in patterns
        )
