"""All tools an agent knows, which of them the model is offered, and how more are added.

A *deferred* tool is known and hidden; a *discovered* one was added and is offered; a *pinned* one is offered from
the first request on. What is discovered is not kept here: it is a fold over the conversation.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from mcpagent.conversation import Discovery
from mcpagent.errors import ConfigError
from mcpagent.messages import ToolDefinition, ToolsChanged
from mcpagent.models.prices import LEAST_SEARCH_COST, MOST_SEARCH_COST
from mcpagent.names import NameMap, ToolKey, offered_names
from mcpagent.tools import Tool

if TYPE_CHECKING:
    from pathlib import Path

    from mcpagent.search import SearchHistory, ToolIndex

RESERVED_NAMES = frozenset({"search_tools", "add_tool", "remove_tool", "show_all_tools", "call_tool"})
"""Names of virtual tools; no server's tool is ever offered under one of them."""

USUAL_SEARCH_COST = 20_000.0
"""What a search costs with most models, in cached input tokens."""

_USED_TOOLS, _LOADED_TOOLS = 10, 40
"""How many tools a long task takes into its conversation: those it uses, or those that its searches load."""

CHARACTERS_PER_TOKEN = 4

Strategy: TypeAlias = (
    Literal["auto", "regex", "bm25", "hybrid"]
    | Callable[[str, Sequence[ToolDefinition]], Sequence[str] | Awaitable[Sequence[str]]]
)


@dataclass(frozen=True, slots=True)
class ToolSearch:
    """How tool search works.

    `enabled`: True hides every tool that is not eager; "marked" only those marked with `defer_loading=True`; "auto" is
    True when the definitions known take more than `auto_tokens`, else "marked". Where nothing is to be hidden there are
    no search tools either. False offers everything.
    `auto_tokens`: estimated tokens of definitions (characters / 4), absolute, whatever the model's window holds; None
    is where searching begins to cost less than offering, by the model's price of cached tokens (`paying_tokens`).
    `strategy`: the ranking, or a callable `(query, tools) -> names`, sync or async.
    `execution`: who searches. "local": our index, through `search_tools`. "provider": the model's provider, with
    strategy "auto", "bm25" or "regex"; where it cannot, one warning and "local". "auto": "local", since that ranks
    alike for every model and sends only found tools; either way they are written so that the prompt cache stays whole.
    `load`: "add_tool" shows what a search found and loads with `add_tool`; "search" loads what a search returns.
    `max_results`: tools per search.
    `extra_tools`: which of "show_all_tools" and "remove_tool" are offered beside `search_tools` and `add_tool`.
    `eager_tools`: server name -> fnmatch patterns on that server's own tool names, never deferred.
    `scope`: "mcp" defers MCP tools only, local functions stay offered.
    `on_direct_call`: a call to a known tool that is not loaded. "load" runs it where its signature was shown by a
    search and loads it, showing the signature, where it was not; "run" runs it whenever the arguments validate;
    "refuse" answers with what to do.
    `renderer`: `(ToolDefinition) -> dict`, what one search result shows.
    `cache_folder`: where the index of a large catalogue is kept from one run to the next.
    `history`: opt-in learning: what is searched, added and called without an error is noted in this file on the
    machine, and the same tools stand higher for such queries from then on.
    """

    enabled: bool | Literal["auto", "marked"] = True
    auto_tokens: int | None = None
    strategy: Strategy = "auto"
    execution: Literal["auto", "local", "provider"] = "auto"
    load: Literal["add_tool", "search"] = "add_tool"
    max_results: int = 5
    extra_tools: tuple[Literal["show_all_tools", "remove_tool"], ...] = ()
    eager_tools: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    scope: Literal["all", "mcp"] = "all"
    on_direct_call: Literal["load", "run", "refuse"] = "load"
    renderer: Callable[[ToolDefinition], dict[str, Any]] | None = None
    cache_folder: Path | None = None
    history: SearchHistory | None = None

    def __post_init__(self) -> None:
        _one_of("enabled", self.enabled, (True, False, "auto", "marked"))
        if not callable(self.strategy):
            _one_of("strategy", self.strategy, ("auto", "regex", "bm25", "hybrid"))
        _one_of("execution", self.execution, ("auto", "local", "provider"))
        if self.execution == "provider" and self.strategy not in ("auto", "bm25", "regex"):
            shown = "a callable" if callable(self.strategy) else repr(self.strategy)
            raise ConfigError(
                f'ToolSearch.strategy: providers rank by "auto", "bm25" or "regex", not by {shown}; '
                'use one of these, or execution="local"'
            )
        _one_of("load", self.load, ("add_tool", "search"))
        _one_of("scope", self.scope, ("all", "mcp"))
        _one_of("on_direct_call", self.on_direct_call, ("load", "run", "refuse"))
        for name in self.extra_tools:
            _one_of("extra_tools", name, ("show_all_tools", "remove_tool"))
        if self.auto_tokens is not None and self.auto_tokens < 0:
            raise ConfigError(f"ToolSearch.auto_tokens: expected 0 or more, got {self.auto_tokens!r}")
        if not 1 <= self.max_results <= 50:
            raise ConfigError(f"ToolSearch.max_results: expected 1 to 50, got {self.max_results!r}")


def paying_tokens(search_cost: float | None, each: float = 350.0, *, load: str = "add_tool") -> int:
    """From how many tokens of definitions on searching costs less than offering all of them, cached as they are.

    `search_cost` is in cached tokens: the cheaper they are, the more definitions make good for a search's further
    requests. A task uses some tools, whose definitions (of `each` tokens on average) it pays for either way; where a
    search loads what it finds (`load="search"`) it pays for more than it uses. The line lies above all ratios that
    `benchmarks/cost.py --sweep` prints.
    """
    cost = USUAL_SEARCH_COST if search_cost is None else search_cost
    used, dearer = (_LOADED_TOOLS, 1.5) if load == "search" else (_USED_TOOLS, 1.0)
    return round(5_500 + used * each + dearer * cost)


def eager_tool_warnings(eager_tools: Mapping[str, Sequence[str]], servers: Mapping[str, Sequence[str]]) -> list[str]:
    """What in `eager_tools` cannot have been meant, one line each; `servers` gives the tools of those attached."""
    lines: list[str] = []
    for server, patterns in eager_tools.items():
        place = f"tool_search.eager_tools.{server}"
        if server not in servers:
            near = get_close_matches(server.lower(), [name.lower() for name in servers], n=1)
            meant = next((name for name in servers if near and name.lower() == near[0]), None)
            lines.append(f"{place}: the server is not attached" + (f"; did you mean '{meant}'?" if meant else ""))
            continue
        for pattern in patterns:
            if any(fnmatchcase(tool, pattern) for tool in servers[server]):
                continue
            own = pattern.removeprefix(f"{server}__")
            if own != pattern:
                lines.append(f'{place}: the pattern "{pattern}" looks namespaced; write "{own}"')
            else:
                lines.append(f'{place}: the pattern "{pattern}" matches none of the {len(servers[server])} tools')
    return lines


def _one_of(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        listed = ", ".join(repr(item) for item in allowed)
        raise ConfigError(f"ToolSearch.{name}: expected one of {listed}, got {value!r}")


def definition_tokens(definition: ToolDefinition) -> int:
    """Estimated tokens of one definition on the wire: characters of its JSON / 4."""
    shown = {"name": definition.name, "description": definition.description, "parameters": definition.parameters}
    return -(-len(json.dumps(shown, ensure_ascii=False, default=str)) // CHARACTERS_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class Category:
    """A server or custom category of searchable tools, with the words that describe it."""

    name: str
    description: str
    tools: int


@dataclass(frozen=True, slots=True)
class AddOutcome:
    """What asking for tools by name came to; `not_found` maps each unknown name to near ones."""

    added: tuple[str, ...] = ()
    already: tuple[str, ...] = ()
    not_found: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


class Catalog:
    """The tools known to one conversation, by offered name.

    `tools` come as their servers name them; the catalogue gives the offered names. `pinned` names (any form) are
    offered from the start. With `search` None or off, every tool is offered. `unavailable` names servers that are
    configured and not connected, with the reason; the owner keeps it up to date. `expects_deferred`: tools to be hidden
    may still join. `after` was the same conversation's so far: what it left to the provider stays. `search_cost` tells
    what a search costs with the model, in cached input tokens, where that is needed for "auto". `virtual` tools are
    the runtime's own, offered first. `searching` and the names of known tools never change once the conversation has
    begun.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        search: ToolSearch | None = None,
        pinned: Sequence[str] = (),
        server_descriptions: Mapping[str, str] | None = None,
        unavailable: Mapping[str, str] | None = None,
        expects_deferred: bool = False,
        after: Catalog | None = None,
        search_cost: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._search_cost = search_cost
        self.options = search or ToolSearch(enabled=False)
        self.server_descriptions = dict(server_descriptions or {})
        self.unavailable = dict(unavailable or {})
        self.virtual: tuple[Tool, ...] = ()
        self.names: dict[ToolKey, str] = {}
        self.known: dict[str, Tool] = {}
        self._tools: dict[ToolKey, Tool] = {}
        self._tokens: dict[str, int] = {}
        self._index: ToolIndex | None = None
        self._left_to_provider: dict[str, ToolDefinition] = {**after._left_to_provider} if after is not None else {}
        self._joined_offered: set[str] = set()
        self._know(_by_key(tools))
        self._hides_all = self._decide(self.options.enabled)
        self._asked_pins = tuple(pinned)
        resolved = [self._resolver.resolve(name) for name in pinned]
        self.unknown_pins = tuple(name for name, found in zip(pinned, resolved, strict=True) if found is None)
        self.pinned: tuple[str, ...] = tuple(
            name for name, tool in self.known.items() if name in resolved or not self._is_deferrable(tool)
        )
        self.searching = self._searches(expects_deferred or bool(self._left_to_provider))

    def replace_source(self, server: str | None, tools: Iterable[Tool], description: str = "") -> tuple[str, ...]:
        """Makes `tools` the tools of one server (None: local ones) from now on.

        Tools that stay keep their names. Returns the new ones that are to be offered at once, because they are
        pinned or never deferred: the owner says so in the conversation.
        """
        if server is not None:
            self.server_descriptions[server] = description
            self.unavailable.pop(server, None)
        return self.update([*(tool for key, tool in self._tools.items() if key.server != server), *tools])

    def update(self, tools: Iterable[Tool]) -> tuple[str, ...]:
        """Makes these all the tools there are from now on; the rest as in `replace_source`."""
        before = set(self.known)
        servers = {key.server for key in self._tools}
        self._know(_by_key(tools))
        if self._index is not None:
            by_server: dict[str | None, list[ToolDefinition]] = {key: [] for key in servers}
            for tool in self.known.values():
                by_server.setdefault(tool.definition.server, []).append(tool.definition)
            for changed, definitions in by_server.items():
                self._index.replace(changed, definitions)
        new = [name for name in self.known if name not in before]
        wanted = {self._resolver.resolve(name) for name in self._asked_pins}
        at_once = tuple(name for name in new if name in wanted or not self._is_deferrable(self.known[name]))
        self._joined_offered.update(at_once)
        return at_once

    def _know(self, by_key: dict[ToolKey, Tool]) -> None:
        # Names once given stay given, also to a tool that is gone for now: it may come back.
        self.names |= offered_names(by_key, sticky=self.names, reserved=RESERVED_NAMES)
        self._tools = by_key
        self._resolver = NameMap({key: self.names[key] for key in by_key})
        now = {self.names[key]: _renamed(tool, self.names[key]) for key, tool in by_key.items()}
        newcomers = sorted(now.keys() - self.known.keys())
        changed = [name for name, tool in self.known.items() if now.get(name) != tool]
        for name in changed:
            self._tokens.pop(name, None)
        # Newcomers last: where all tools are offered, what was offered before keeps its place.
        self.known = {name: now[name] for name in (*self.known, *newcomers) if name in now}

    @property
    def deferred(self) -> dict[str, Tool]:
        """What the model has to search for, by offered name."""
        if not self.searching:
            return {}
        pinned = set(self.pinned)
        return {name: tool for name, tool in self.known.items() if name not in pinned}

    @property
    def index(self) -> ToolIndex:
        """The search index over all known tools; built on first use."""
        if self._index is None:
            from mcpagent.search import ToolIndex

            index = ToolIndex(
                self.options.strategy,
                server_descriptions=self.server_descriptions,
                cache_folder=self.options.cache_folder,
                history=self.options.history,
            )
            by_server: dict[str | None, list[ToolDefinition]] = {}
            for tool in self.known.values():
                by_server.setdefault(tool.definition.server, []).append(tool.definition)
            for server, definitions in by_server.items():
                index.replace(server, definitions)
            self._index = index
        return self._index

    def offer(self, discovery: Discovery) -> list[Tool]:
        """What the next request offers, in order: virtual tools, pinned by name, then as they were discovered."""
        if not self.searching:
            return list(self.known.values())
        names = dict.fromkeys((*self.pinned, *discovery.discovered))
        offered = [self.known[name] for name in names if name in self.known and name not in discovery.removed]
        return [*self.virtual, *offered]

    def left_to_provider(self) -> tuple[ToolDefinition, ...]:
        """What the next request gives the model's provider to search by itself; nothing where `search_tools` does.

        It only grows, and no definition changes, since a request must not rewrite an earlier one: what is lost or
        changed stays as it was given, until the provider finds it (`outdated`) or the model calls it.
        """
        if not self.provider_searches:
            return ()
        for name, tool in sorted(self.deferred.items()):
            if name not in self._joined_offered:
                self._left_to_provider.setdefault(name, tool.definition)
        return tuple(self._left_to_provider.values())

    def joining_provider_search(self, names: Iterable[str]) -> tuple[str, ...]:
        """Which of these the provider has not been given yet, and will be."""
        if not self.provider_searches:
            return ()
        hidden = self.deferred.keys() - self._joined_offered - self._left_to_provider.keys()
        return tuple(name for name in names if name in hidden)

    def outdated(self, sent: Iterable[ToolDefinition]) -> ToolsChanged | None:
        """What became of tools since they were given to the model like that; None where they are still the same."""
        now = {tool.name: self.known.get(tool.name) for tool in sent}
        changed = [tool.name for tool in sent if (known := now[tool.name]) and known.definition != tool]
        gone = tuple(name for name, known in now.items() if known is None)
        return ToolsChanged(self.definitions(changed), gone) if changed or gone else None

    @property
    def provider_searches(self) -> bool:
        return self.options.execution == "provider"

    @property
    def provider_strategy(self) -> Literal["auto", "bm25", "regex"]:
        """How a provider's own search is asked to rank."""
        match self.options.strategy:
            case "bm25" | "regex" as strategy:
                return strategy
            case _:
                return "auto"

    def how_to_load(self, name: str) -> str:
        """What a model does to get a tool it does not have, as a sentence."""
        if self.provider_searches:
            return "Search for it to load it."
        if self.options.load == "search":
            return f'Call search_tools(query="{name}") to load it.'
        return f'Call add_tool(tool_names=["{name}"]) first.'

    def find(self, name: str) -> Tool | None:
        """The tool a model or a person means by this name, in any form that means exactly one."""
        for tool in self.virtual:
            if tool.name == name:
                return tool
        resolved = self._resolver.resolve(name)
        return self.known[resolved] if resolved is not None else None

    def lost_server(self, name: str) -> str:
        """The server that had the tool of this offered name earlier in the conversation; "" where none had."""
        if name in self.known:
            return ""
        return next((key.server or "" for key, given in self.names.items() if given == name), "")

    def near(self, name: str, limit: int = 3) -> tuple[str, ...]:
        """Offered names like this one, for "did you mean"."""
        meant = self._resolver.candidates(name)
        return meant[:limit] if meant else self.index.names_near(name, limit)

    def add(self, names: Iterable[str], discovery: Discovery) -> AddOutcome:
        """Judges a request for tools by name, against what the conversation has; changes nothing."""
        offered = {tool.name for tool in self.offer(discovery)}
        added: dict[str, None] = {}
        already: dict[str, None] = {}
        not_found: dict[str, tuple[str, ...]] = {}
        for asked in names:
            tool = self.find(asked)
            if tool is None:
                not_found[asked] = self.near(asked)
            elif tool.name in offered:
                already[tool.name] = None
            else:
                added[tool.name] = None
        return AddOutcome(tuple(added), tuple(already), not_found)

    def definitions(self, names: Iterable[str]) -> tuple[ToolDefinition, ...]:
        return tuple(self.known[name].definition for name in names)

    def tokens(self, names: Iterable[str]) -> int:
        """Estimated tokens of these tools' definitions; virtual tools count too."""
        return sum(self._tokens_of(name) for name in names)

    def _tokens_of(self, name: str) -> int:
        if name not in self._tokens:
            tool = self.find(name)
            self._tokens[name] = definition_tokens(tool.definition) if tool is not None else 0
        return self._tokens[name]

    def categories(self) -> list[Category]:
        """What there is to search, one entry per server or custom category, sorted by name."""
        counts: dict[str, int] = {}
        for tool in self.deferred.values():
            name = tool.definition.server or tool.definition.category or "functions"
            counts[name] = counts.get(name, 0) + 1
        return [Category(name, self.server_descriptions.get(name, ""), counts[name]) for name in sorted(counts)]

    def _decide(self, enabled: bool | Literal["auto", "marked"]) -> bool:
        """Whether all tools are hidden that are not eager, rather than only those marked."""
        if enabled == "auto":
            return self._pays(self.tokens(self.known))
        return enabled is True

    def _pays(self, tokens: int) -> bool:
        if self.options.auto_tokens is not None:
            return tokens > self.options.auto_tokens
        each = tokens / max(len(self.known), 1)
        load = self.options.load
        least, most = (paying_tokens(cost, each, load=load) for cost in (LEAST_SEARCH_COST, MOST_SEARCH_COST))
        if not least < tokens <= most:  # the same at any price: the table need not be loaded
            return tokens > most
        return tokens > paying_tokens(self._search_cost(), each, load=load)

    def _searches(self, expects_deferred: bool) -> bool:
        if self.options.enabled is False:
            return False
        # With no tool known yet, the servers may be slow or broken; a search then says which.
        maybe_later = expects_deferred or (self._hides_all and bool(self.unavailable or not self.known))
        if self.provider_searches:  # a provider's search tool without a tool to find is refused
            return maybe_later or len(self.pinned) < len(self.known)
        return maybe_later or any(self._is_deferrable(tool) for tool in self.known.values())

    def _is_deferrable(self, tool: Tool) -> bool:
        definition = tool.definition
        if tool.deferred is False or not (tool.deferred or self._hides_all):
            return False
        if definition.server is None:
            return self.options.scope == "all"
        patterns = self.options.eager_tools.get(definition.server, ())
        return not any(fnmatchcase(definition.original_name, pattern) for pattern in patterns)


def _renamed(tool: Tool, name: str) -> Tool:
    return tool if tool.name == name else replace(tool, definition=replace(tool.definition, name=name))


def _by_key(tools: Iterable[Tool]) -> dict[ToolKey, Tool]:
    by_key: dict[ToolKey, Tool] = {}
    for tool in tools:
        definition = tool.definition
        key = ToolKey(definition.server, definition.name)
        if definition.server is None and key.name in RESERVED_NAMES:
            raise ConfigError(f'tool "{key.name}": the name is reserved for tool search; rename the function')
        if key in by_key:
            where = f'server "{key.server}"' if key.server is not None else "the agent's own tools"
            raise ConfigError(f'tool "{key.name}": defined twice in {where}; rename one of them')
        by_key[key] = tool
    return by_key
