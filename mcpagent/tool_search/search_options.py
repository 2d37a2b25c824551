"""`ToolSearch`: the options of tool search, the threshold from which it pays, and warnings about its settings."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from mcpagent.errors import ConfigError
from mcpagent.search.result import RankingName
from mcpagent.utilities.python.argument_checks import (
    expect,
    expect_fields,
    expect_names,
)
from mcpagent.utilities.python.unknown_arguments import answers_unknown_arguments
from mcpagent.utilities.text.globs import fits
from mcpagent.values.messages import ToolDefinition

if TYPE_CHECKING:
    from pathlib import Path

    from mcpagent.search import SearchHistory

USUAL_SEARCH_COST = 20_000.0
"""Cost of a search with most models, in cached input tokens."""

PREFETCHED, PREFETCHED_CHEAP = 1, 3
"""Number of tools that "auto" prefetches. One costs almost nothing. Three cost a seventh more, which is too much if
tokens have a price and definitions are written in full."""

PREFETCHED_SMALL = 3
"""Number of tools that are prefetched for small models, which call offered tools and seldom search."""

_USED_TOOLS, _LOADED_TOOLS = 10, 40
"""Assumed number of tools that a long task uses, and that its searches load."""

CHARACTERS_PER_TOKEN = 4

Strategy: TypeAlias = (
    RankingName
    | Callable[
        [str, Sequence[ToolDefinition]], Sequence[str] | Awaitable[Sequence[str]]
    ]
)


@answers_unknown_arguments
@dataclass(frozen=True, slots=True)
class ToolSearch:
    """The options of tool search.

    `enabled`: True hides every tool that is not eager; "marked" only tools marked with `defer_loading=True`; "auto" is
    True if the known definitions take more than `auto_tokens`, else "marked". If nothing is to be hidden, there are no
    search tools either. False offers everything.
    `auto_tokens`: estimated tokens of definitions (characters / 4), absolute, independent of the model's window. None
    is the point from which searching costs less than offering, by the model's price of cached tokens (`paying_tokens`).
    `strategy`: the ranking, or a callable `(query, tools) -> names`, sync or async.
    `execution`: who searches. "local": our index, through `search_tools`. "provider": the model's provider, with
    strategy "auto", "bm25" or "regex"; if it cannot, one warning and "local". "auto": "local", since that ranks
    alike for every model and sends only found tools; either way they are written so that the prompt cache stays whole.
    `load`: "add_tool" shows what a search found and loads with `add_tool`; "search" loads the likely ones of what a
    search finds (`Match.odds`), without any the possible ones, and one if there are only weak ones. None is "add_tool",
    and "search" for a small model.
    `max_results`: tools per search.
    `prefetch`: search with the user's words, and load at most this many of the best tools with the question, unless the
    match is weak; 0 waits for the model's own search. None is 0, but with `enabled="auto"` it is the best value of
    `benchmarks/cost.py --everyday`: 1, and 3 for a model whose tokens have no known price, or that is shown tools in
    words. With any `enabled` it is 3 for a small model.
    `extra_tools`: which of "show_all_tools" and "remove_tool" to offer in addition to `search_tools` and `add_tool`.
    `eager_tools`: server name -> fnmatch patterns on that server's own tool names, never deferred.
    `scope`: "mcp" defers MCP tools only, local functions stay offered.
    `on_direct_call`: the reaction to a call of a known tool that is not loaded. "load" runs it if a search showed its
    signature; otherwise it loads the tool and shows the signature. "run" runs it whenever the arguments validate;
    "refuse" answers with instructions. None is "load", and "run" for a small model.
    `renderer`: `(ToolDefinition) -> dict`, the content of one search result.
    `cache_folder`: the folder that stores the index of a large catalogue between runs.
    `history`: opt-in learning. This file on the machine records the queries and the tools added and called without an
    error, and the same tools rank higher for similar queries from then on.
    `examples`: requests that tools serve, in their users' words, by offered name or "server.tool". They are searched
    with the tool and never shown. The bundled server's tools and those of well-known servers have some already.
    """

    enabled: bool | Literal["auto", "marked"] = True
    auto_tokens: int | None = None
    strategy: Strategy = "auto"
    execution: Literal["auto", "local", "provider"] = "auto"
    load: Literal["add_tool", "search"] | None = None
    max_results: int = 5
    prefetch: int | None = None
    extra_tools: tuple[Literal["show_all_tools", "remove_tool"], ...] = ()
    eager_tools: Mapping[str, Sequence[str]] = field(
        default_factory=dict[str, Sequence[str]]
    )
    scope: Literal["all", "mcp"] = "all"
    on_direct_call: Literal["load", "run", "refuse"] | None = None
    renderer: Callable[[ToolDefinition], dict[str, Any]] | None = None
    cache_folder: Path | None = None
    history: SearchHistory | None = None
    examples: Mapping[str, Sequence[str]] = field(
        default_factory=dict[str, Sequence[str]]
    )

    def __post_init__(self) -> None:
        known: dict[str, tuple[object, ...]] = {
            "enabled": (True, False, "auto", "marked"),
            "strategy": get_args(RankingName)
            if not callable(self.strategy)
            else (self.strategy,),
            "execution": ("auto", "local", "provider"),
            "load": ("add_tool", "search", None),
            "scope": ("all", "mcp"),
            "on_direct_call": ("load", "run", "refuse", None),
        }
        for name, allowed in known.items():
            _one_of(name, getattr(self, name), allowed)
        if self.execution == "provider" and self.strategy not in (
            "auto",
            "bm25",
            "regex",
        ):
            if callable(self.strategy):
                shown = "a callable"
            else:
                shown = repr(self.strategy)
            raise ConfigError(
                f'ToolSearch.strategy: providers rank by "auto", "bm25" or "regex", not by {shown}; '
                'use one of these, or execution="local"'
            )
        expect(
            "ToolSearch.auto_tokens",
            self.auto_tokens,
            (int, NoneType),
            "0 or more",
            holds=lambda tokens: tokens is None or tokens >= 0,
        )
        expect(
            "ToolSearch.max_results",
            self.max_results,
            int,
            "1 to 50",
            holds=lambda most: 1 <= most <= 50,
        )
        expect(
            "ToolSearch.prefetch",
            self.prefetch,
            (int, NoneType),
            "0 to 50",
            holds=lambda most: most is None or 0 <= most <= 50,
        )
        expect(
            "ToolSearch.eager_tools",
            self.eager_tools,
            Mapping,
            'patterns by server, such as {"files": ["read_*"]}',
        )
        expect(
            "ToolSearch.examples",
            self.examples,
            Mapping,
            'requests by tool, {"git.log": ["who did it?"]}',
        )
        for name, requests in self.examples.items():
            expect_names(f"ToolSearch.examples.{name}", requests)
        for server, patterns in self.eager_tools.items():
            expect_names(f"ToolSearch.eager_tools.{server}", patterns)
        expect_fields(self)

    def for_model(self, *, is_small: bool) -> ToolSearch:
        """Return the options with open settings decided by the model's size."""
        return replace(
            self,
            load=self.load or ("search" if is_small else "add_tool"),
            on_direct_call=self.on_direct_call or ("run" if is_small else "load"),
            prefetch=PREFETCHED_SMALL
            if is_small and self.prefetch is None
            else self.prefetch,
        )


def paying_tokens(
    search_cost: float | None, each: float = 350.0, *, load: str | None = "add_tool"
) -> int:
    """Return the number of definition tokens from which searching costs less than offering all tools, cached.

    `search_cost` is in cached tokens: the cheaper they are, the more definitions it takes to pay for a search's further
    requests. A task pays either way for the definitions of the tools that it uses (of `each` tokens on average). If a
    search loads its results (`load="search"`), the task pays for more than it uses. The threshold lies above all ratios
    that `benchmarks/cost.py --sweep` prints.
    """
    if search_cost is None:
        cost = USUAL_SEARCH_COST
    else:
        cost = search_cost
    if load == "search":
        used, dearer = _LOADED_TOOLS, 1.5
    else:
        used, dearer = _USED_TOOLS, 1.0
    return round(5_500 + used * each + dearer * cost)


def possible_search(search: ToolSearch, warn: Callable[[str], None]) -> ToolSearch:
    """Return the tool search asked for; with words alone, and a warning, if what its vectors need is not installed."""
    if search.strategy not in ("hybrid", "sentences", "multilingual"):
        return search
    from mcpagent.search import ToolIndex

    try:
        ToolIndex(search.strategy)
    except ConfigError as error:
        warn(f'{error}; tool search uses "bm25" instead')
        return replace(search, strategy="bm25")
    return search


def eager_tool_warnings(
    eager_tools: Mapping[str, Sequence[str]], servers: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return one line per entry of `eager_tools` that cannot be intended;

    `servers` has the tools of attached servers.
    """
    lines: list[str] = []
    for server, patterns in eager_tools.items():
        place = f"tool_search.eager_tools.{server}"
        if server not in servers:
            near = get_close_matches(
                server.lower(), [name.lower() for name in servers], n=1
            )
            meant = next(
                (name for name in servers if near and name.lower() == near[0]), None
            )
            lines.append(
                f"{place}: the server is not attached"
                + (f"; did you mean '{meant}'?" if meant else "")
            )
            continue
        for pattern in patterns:
            if any(fits(tool, pattern) for tool in servers[server]):
                continue
            own = pattern.removeprefix(f"{server}__")
            if own != pattern:
                lines.append(
                    f'{place}: the pattern "{pattern}" looks namespaced; write "{own}"'
                )
            else:
                lines.append(
                    f'{place}: the pattern "{pattern}" matches none of the {len(servers[server])} tools'
                )
    return lines


def _one_of(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        listed = ", ".join(repr(item) for item in allowed)
        raise ConfigError(f"ToolSearch.{name}: expected one of {listed}, got {value!r}")


def definition_tokens(definition: ToolDefinition) -> int:
    """Estimated tokens of one definition on the wire: characters of its JSON / 4."""
    shown = {
        "name": definition.name,
        "description": definition.description,
        "parameters": definition.parameters,
    }
    return -(
        -len(json.dumps(shown, ensure_ascii=False, default=str)) // CHARACTERS_PER_TOKEN
    )
