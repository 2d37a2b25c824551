"""`ToolSearch`: the options of tool search, the threshold from which it saves tokens, and warnings about its
settings.
"""

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
"""Cost of a search with most models, as a number of cached input tokens."""

PREFETCHED, PREFETCHED_CHEAP = 1, 3
"""Number of tools that "auto" prefetches. One costs almost nothing; three increase the cost by a seventh, which is too
much if tokens have a price and definitions are written in full.
"""

PREFETCHED_SMALL = 3
"""Number of tools that are prefetched for small models, which call offered tools but seldom search."""

_USED_TOOLS, _LOADED_TOOLS = 10, 40
"""Assumed number of tools that a long task uses, and of tools that its searches load."""

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

    - `enabled`: True hides every tool that is not eager; "marked" only tools marked with `defer_loading=True`. "auto"
      is True if the known definitions take more than `auto_tokens`, else "marked". False offers everything. If no tool
      would be hidden, there are no search tools either.
    - `auto_tokens`: a threshold in estimated tokens of definitions (characters / 4), independent of the model's window.
      None: the size from which searching costs less than offering, by the model's price of cached tokens
      (`paying_tokens`).
    - `strategy`: the ranking, or a callable `(query, tools) -> names`, sync or async.
    - `execution`: "local" searches with mcpagent's index, through `search_tools`. "provider" lets the model's provider
      search, with strategy "auto", "bm25" or "regex"; if it cannot, one warning and "local". "auto" is "local", since
      that ranks alike for every model and sends only found tools. In both modes, the prompt cache stays valid.
    - `load`: "add_tool" shows the results of a search, which the model loads with `add_tool`. "search" loads the likely
      results at once (`Match.odds`), else the possible ones, else one weak one. None: "add_tool", and "search" for a
      small model.
    - `max_results`: tools for each search.
    - `prefetch`: search with the user's words, and load at most this many of the best tools with the prompt, unless the
      match is weak; 0 waits for the model's own search. None: 0, or 3 for a small model. With `enabled="auto"`, None is
      the best value of `benchmarks/cost.py --everyday`: 1, and 3 if the model's tokens have no known price, or it gets
      definitions as text.
    - `extra_tools`: "show_all_tools" and "remove_tool", to offer in addition to `search_tools` and `add_tool`.
    - `eager_tools`: server name -> fnmatch patterns for that server's own tool names, which are never deferred.
    - `scope`: "mcp" defers MCP tools only; local functions stay offered.
    - `on_direct_call`: the reaction to a call of a known tool that is not loaded. "load" runs it if a search showed its
      signature; otherwise it loads the tool and shows the signature. "run" runs it whenever the arguments are valid;
      "refuse" answers with instructions. None: "load", and "run" for a small model.
    - `renderer`: `(ToolDefinition) -> dict`, the content of one search result.
    - `cache_folder`: stores the index of a large catalogue between runs.
    - `history`: opt-in learning. This local file records queries and the tools added and successfully called after
      them; these tools then rank higher for similar queries.
    - `examples`: requests that tools serve, in users' words, by offered name or "server.tool". They are searched with
      the tool and never shown. The bundled server's tools and those of well-known servers already have some.
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
        """Return the options with values of None replaced by the defaults for the model's size."""
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
    """Return the number of definition tokens above which searching costs less than offering all tools with a cached
    prefix.

    `search_cost` is a number of cached tokens: the cheaper they are, the more definitions can be offered for the cost
    of a search's further requests. A task pays in any case for the definitions of tools that it uses (`each` tokens on
    average). If a search loads its results (`load="search"`), it pays for more than it uses. The threshold is above all
    ratios that `benchmarks/cost.py --sweep` prints.
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
    """Return the tool search options. If the packages for the strategy's vectors are missing, warn and use words
    alone.
    """
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
    """Return a warning for each entry of `eager_tools` that matches no server or no tool.

    `servers` has the tools of the attached servers.
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
    """Return the estimated tokens of a definition in a request: the characters of its JSON / 4."""
    shown = {
        "name": definition.name,
        "description": definition.description,
        "parameters": definition.parameters,
    }
    return -(
        -len(json.dumps(shown, ensure_ascii=False, default=str)) // CHARACTERS_PER_TOKEN
    )
