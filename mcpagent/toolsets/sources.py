"""Combine the sources of an agent's tools (MCP servers, toolsets and functions) into one list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import chain
from operator import is_
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from mcpagent.config import ServerConfig, ServersConfig, load_servers
from mcpagent.errors import ConfigError
from mcpagent.history.intake.listed_items import OVER_BUDGET, values_within_budget
from mcpagent.mcp.all_servers import McpServers
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.models.provider_tools.provider_tool_values import ProviderTool
from mcpagent.permissions.approval_policy import ApprovalPolicy
from mcpagent.tool_search.catalog import Listing
from mcpagent.tool_search.category_words import own_words
from mcpagent.toolsets.composition import (
    ToolSource,
    as_toolset,
    expects_deferred,
    known_of,
    labelled_tools,
)
from mcpagent.toolsets.functions import function_tool
from mcpagent.toolsets.listed_tools import (
    hidden_by,
    list_of_names,
    put_together,
    told_apart,
    with_approval,
)
from mcpagent.toolsets.prompt_and_resource_tools import server_content_tools
from mcpagent.toolsets.selection import Selection
from mcpagent.toolsets.unmatched_names import (
    Completeness,
    unknown_name_line,
    unknown_names,
)
from mcpagent.utilities.python.argument_checks import expect
from mcpagent.utilities.python.worker_threads import with_pauses
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import Emit, Notice, ServersAwaited, ignore
from mcpagent.values.messages import ToolDefinition, ToolKey
from mcpagent.values.tools import Tool, usable_tool

if TYPE_CHECKING:
    from mcpagent.mcp.lists.server_lists import ToolsDifference
    from mcpagent.mcp.server_link import ServerLink
    from mcpagent.mcp.server_status import ServerStatus

_K = TypeVar("_K")
_T = TypeVar("_T")

McpConfig: TypeAlias = (
    str | Path | Mapping[str, Any] | Sequence[ServerConfig] | ServersConfig | None
)
"""The configuration of servers: a file, a dict of the same format, `ServerConfig` values, or the result of
`load_servers`.
"""


def expect_config(config: object) -> None:
    """Raise `ConfigError` unless the value has a type that a configuration of servers may have."""
    kinds = (str, Path, Mapping, Sequence, ServersConfig, NoneType)
    expect(
        "mcp_config",
        config,
        kinds,
        "a file, a dict, or a list of ServerConfig",
        holds=_is_config,
    )


def _is_config(config: Any) -> bool:
    is_list = isinstance(config, Sequence) and not isinstance(config, str)
    return not is_list or all(isinstance(server, ServerConfig) for server in config)


OnChange: TypeAlias = Callable[["ServerLink | None"], None]
"""Callback for a change of the connected servers, with the server that has joined, or None."""


class AgentSources(Protocol):
    """The tool sources of an agent, with their own lifecycle; `ToolSources` is the usual implementation."""

    functions: list[Tool]

    async def open(
        self, exits: AsyncExitStack, emit: Emit, on_change: OnChange
    ) -> None:
        """Enter all sources, so that `exits` exits them. Later changes call `on_change` with a server that has joined,
        or None.
        """
        ...

    async def settle(self, emit: Emit, spent: float) -> float:
        """Wait a bounded time for connecting servers, and report it; return the waited seconds.

        `spent` are the seconds that the same prompt has already waited.
        """
        ...

    async def enter_lifetimes(
        self, exits: AsyncExitStack, tools: Sequence[Tool]
    ) -> None:
        """Enter the context managers (`Tool.lifetime`) of tools, each once."""
        ...

    async def from_toolsets(self) -> tuple[Tool, ...]:
        """Return the tools that the toolsets list at present. Raises `ConfigError` if two tools clash."""
        ...

    def listing(self, from_toolsets: tuple[Tool, ...]) -> Listing:
        """Return the listing of all tools, with these tools of the toolsets; the same object until something
        changes.
        """
        ...

    @property
    def statuses(self) -> dict[str, ServerStatus]:
        """The status of each MCP server by name, including those that failed."""
        ...

    @property
    def is_listed(self) -> bool:
        """Return whether every server and toolset has listed its final tools."""
        ...

    @property
    def servers(self) -> McpServers:
        """The MCP servers; available only after the sources are open."""
        ...


class ToolSources:
    """All tool sources of an agent.

    More functions may be added to `functions` during the agent's life. `sources` are toolsets, lists of functions and
    `McpServer` values. `policy` decides which calls need approval, in addition to the rules in the servers' entries.
    """

    def __init__(
        self,
        functions: Sequence[Tool],
        sources: Sequence[ToolSource | ServerConfig],
        mcp_config: McpConfig,
        options: ServerOptions,
        policy: ApprovalPolicy,
    ) -> None:
        self.functions = list(functions)
        self.mcp_config = mcp_config
        self.options = options
        self._toolsets = tuple(
            as_toolset(item) for item in sources if not isinstance(item, ServerConfig)
        )
        self._server_values = tuple(
            item for item in sources if isinstance(item, ServerConfig)
        )
        self._selection = Selection(options.selected_servers, options.selected_tools)
        self._policy = policy
        self.servers = McpServers(ServersConfig(), (), options, emit=ignore)
        """The MCP servers; empty before the sources are open."""
        self._deferring: set[str] = set()
        self._kept: dict[str, tuple[list[Any], list[Tool]]] = {}
        self._selected: dict[int, tuple[tuple[Tool, ...], list[Tool]]] = {}
        self._listings: dict[
            tuple[int, ...], tuple[tuple[list[Tool], ...], Listing]
        ] = {}
        self._abouts: dict[str, tuple[Sequence[Tool], tuple[str, str], str]] = {}
        self._combined: dict[tuple[int, ...], tuple[list[Tool], tuple[Tool, ...]]] = {}
        self._last: tuple[
            list[tuple[str, list[Tool]]], list[Tool], tuple[Tool, ...]
        ] = ([], [], ())
        self._made_of: list[object] = []
        """The values from which `_listing` was computed, compared by identity. A toolset may change without a new value
        here.
        """
        self._listing = Listing()
        self._unusable: dict[str, str] = {}
        self._dropped: set[ToolKey] = set()
        self._measured: dict[int, tuple[ToolDefinition, bool]] = {}
        self._unmatched: dict[str, list[str]] = {}
        self._emit: Emit = ignore

    async def open(
        self, exits: AsyncExitStack, emit: Emit, on_change: OnChange
    ) -> None:
        """Connect all MCP servers concurrently, then enter the toolsets; `exits` exits them all.

        `on_change` is called when the connected servers change later, with the server that has joined, or None. Raises
        errors only for an invalid configuration, a `required` server, or a toolset that cannot start.
        """
        self._emit = emit
        if self.mcp_config is not None:
            given = self.mcp_config
        else:
            given = ServersConfig()
        if isinstance(given, ServersConfig):
            config = given
        else:
            config = load_servers(given)
        if self._server_values:
            both = load_servers((*config.servers, *self._server_values))
            config = replace(config, servers=both.servers)
        self._selection.check(
            [
                *(server.name for server in config.servers),
                *(item.name for item in config.problems),
            ]
        )
        wanted = [
            item
            for item in config.servers
            if not item.disabled and self._selection.has_server(item.name)
        ]
        for line in self._selection.unused(
            {*(item.name for item in wanted), *(item.name for item in config.problems)}
        ):
            emit(Notice(line, "warning"))
        self._deferring = {item.name for item in wanted if item.defer_loading}

        def on_late(server: ServerLink) -> None:
            self._report_unmatched(server)
            on_change(server)

        def on_changed(server: ServerLink, _: ToolsDifference) -> None:
            self._report_unmatched(server)
            on_change(None)

        self.servers = McpServers(
            config,
            wanted,
            self.options,
            emit=emit,
            on_late=on_late,
            on_lost=lambda _server, _reason: on_change(None),
            on_changed=on_changed,
        )
        exits.push_async_callback(self.servers.close)
        await self.servers.open(self.options.startup_seconds)
        for server in self.connected:
            self._report_unmatched(server)
            self._of_server(
                server
            )  # an error in a server's settings prevents the start
        for toolset in self._toolsets:
            await exits.enter_async_context(toolset)
        async for tool in with_pauses(self.functions):
            self._within_budget(
                [tool]
            )  # before the first listing, because many tools take long

    def _report_unmatched(self, server: ServerLink) -> None:
        """Report selected tools that the server does not have; again only if it had them in between."""
        if not server.is_known:
            return
        name = server.config.name
        lines = self._selection.unmatched(
            name, [tool.definition.original_name for tool in server.bound_tools()]
        )
        for line in lines:
            if line.partition(";")[0] not in self._unmatched.get(name, ()):
                self._emit(Notice(safe_line(line, 400), "warning"))
        self._unmatched[name] = [line.partition(";")[0] for line in lines]

    async def settle(self, emit: Emit, spent: float) -> float:
        """Wait for connecting servers, at most `question_seconds` in total for one prompt."""
        limit = self.options.question_seconds
        return await self.servers.settle(
            limit, lambda waited: emit(ServersAwaited(waited)), spent=spent
        )

    async def enter_lifetimes(
        self, exits: AsyncExitStack, tools: Sequence[Tool]
    ) -> None:
        """Enter the context managers (`Tool.lifetime`) of tools, each once."""
        entered: list[object] = []
        for tool in (*self.functions, *tools):
            if tool.lifetime is not None and tool.lifetime not in entered:
                entered.append(tool.lifetime)
                await exits.enter_async_context(tool.lifetime)

    async def from_toolsets(self) -> tuple[Tool, ...]:
        """Return the toolsets' tools for the current run. Raises `ConfigError` if two tools clash."""
        lists = [await labelled_tools(given) for given in self._toolsets]
        if (lists, self.functions) != self._last[:2]:
            functions = list(self.functions)
            key = (
                *(id(tool) for _, tools in lists for tool in tools),
                0,
                *map(id, functions),
            )
            held = self._combined.get(key)
            if held is None:
                together = put_together(
                    [*lists, ("the agent's own functions", functions)]
                )
                held = (functions, tuple(together[: len(together) - len(functions)]))
                _keep(self._combined, key, held)
            self._last = (lists, functions, held[1])
        return self._last[2]

    def listing(self, from_toolsets: tuple[Tool, ...]) -> Listing:
        """Return the listing of all tools, with these tools of the toolsets; the same object until something
        changes.
        """
        made_of = [from_toolsets, *self.functions, *self.servers.lives]
        if (
            not self._toolsets
            and len(made_of) == len(self._made_of)
            and all(map(is_, made_of, self._made_of))
        ):
            return self._listing
        self._made_of, self._listing = made_of, self._listing_of(from_toolsets)
        return self._listing

    def _listing_of(self, from_toolsets: tuple[Tool, ...]) -> Listing:
        connected: list[ServerLink] = []
        parts: list[list[Tool]] = []
        descriptions: dict[str, str] = {}
        for server in self.connected:
            tools = self._usable(server)
            if tools is not None:
                connected.append(server)
                parts.append(tools)
                descriptions[server.config.name] = self._about(server, tools)
        parts.append(self._of_toolsets(from_toolsets))
        parts.append(self._content(connected))
        parts.append(
            self._approved(
                "functions",
                list(self.functions),
                lambda: self._within_budget(self.functions),
            )
        )
        key = tuple(map(id, parts))
        held = self._listings.get(key)
        unavailable = self.unavailable
        trusted = tuple(
            server.config.name for server in connected if server.config.trust_hints
        )
        now = (
            descriptions,
            unavailable,
            self._expects_deferred(unavailable),
            self.servers.connecting,
            trusted,
        )
        if held is not None:
            before = held[1]
        else:
            before = Listing()
        told = (
            before.descriptions,
            before.unavailable,
            before.expects_deferred,
            before.connecting,
            before.trusted,
        )
        if held is None or now != told:
            if held is not None:
                all_tools = before.tools
            else:
                all_tools = tuple(told_apart(list(chain.from_iterable(parts))))
            held = (tuple(parts), Listing(all_tools, *now))
            _keep(self._listings, key, held)
        return held[1]

    def _about(self, server: ServerLink, tools: Sequence[Tool]) -> str:
        """Return the purpose of a server, from the configuration, else from the server's own text (third-party).

        Returns "" if that text adds nothing to the server's name.
        """
        if server.config.description:
            return server.config.description
        name, own = (
            server.config.name,
            (server.status.title, server.status.instructions),
        )
        held = self._abouts.get(name)
        if held is None or held[0] is not tools or held[1] != own:
            text = ""
            if server.config.openapi:
                text = ", ".join(groups_by_size(tools))
            elif any(own):
                text = own_words(name, [tool.definition for tool in tools], *own)
            held = self._abouts[name] = (tools, own, text)
        return held[2]

    def _of_toolsets(self, from_toolsets: tuple[Tool, ...]) -> list[Tool]:
        key = id(from_toolsets)
        held = self._selected.get(key)
        if held is None:
            held = (
                from_toolsets,
                self._with_approval(
                    self._selection.of(self._within_budget(from_toolsets))
                ),
            )
            _keep(self._selected, key, held)
        return held[1]

    def _within_budget(self, tools: Sequence[Tool]) -> list[Tool]:
        """Return the tools without those whose definition is over the budget; each of these is reported once.

        A definition is measured once, because toolsets may list the same ones for each prompt.
        """
        kept = list[Tool]()
        for tool in tools:
            measured = self._measured.get(id(tool.definition))
            if measured is None or measured[0] is not tool.definition:
                measured = (tool.definition, self._is_within_budget(tool))
                _keep(self._measured, id(tool.definition), measured, MOST_MEASURED)
            if measured[1]:
                kept.append(tool)
        return kept

    def _is_within_budget(self, tool: Tool) -> bool:
        it = tool.definition
        content = [it.description, it.parameters, tool.output_schema]
        if values_within_budget(content, it.name) is not None:
            return True
        if it.key not in self._dropped:
            self._dropped.add(it.key)
            line = f'tool "{safe_line(it.name, 60)}" is left out: {OVER_BUDGET}'
            self._emit(Notice(line, "warning"))
        return False

    def _content(self, connected: Sequence[ServerLink]) -> list[Tool]:
        offers = [
            (toolset, toolset.lists.prompts, toolset.lists.resources)
            for toolset in connected
        ]
        return self._approved(
            "content",
            offers,
            lambda: server_content_tools(connected, lambda: self.unavailable),
        )

    def _approved(
        self, source: str, given: list[Any], tools: Callable[[], list[Tool]]
    ) -> list[Tool]:
        """Return the tools with the agent's approval rules applied; the same list for the same input."""
        held = self._kept.get(source)
        if held is None or held[0] != given:
            held = self._kept[source] = (given, self._with_approval(tools()))
        return held[1]

    def _with_approval(self, tools: list[Tool]) -> list[Tool]:
        required = self._policy.required
        if required is False:
            return list(tools)
        predicate = None
        if not isinstance(required, bool):
            predicate = required
        return with_approval(tools, predicate)

    def _usable(self, toolset: ServerLink) -> list[Tool] | None:
        """Return the server's tools; None, with one warning, if its settings do not match its tools."""
        name = toolset.config.name
        try:
            tools = self._of_server(toolset)
        except ConfigError as error:
            if self._unusable.get(name) != str(error):
                self._unusable[name] = str(error)
                self._emit(Notice(str(error), "warning"))
            return None
        self._unusable.pop(name, None)
        return tools

    def _of_server(self, toolset: ServerLink) -> list[Tool]:
        server, given = toolset.config, toolset.bound_tools()

        def selected() -> list[Tool]:
            place = f'server "{server.name}": defer_loading'
            for unknown in unknown_names(
                given, list_of_names(server.defer_loading or False, place)
            ):
                raise ConfigError(f"{place}: {unknown_name_line(given, unknown)}")
            return self._selection.of(hidden_by(given, server))

        return self._approved(f"server {server.name}", given, selected)

    @property
    def connected(self) -> list[ServerLink]:
        """The servers whose tools are known, sorted by name."""
        return self.servers.toolsets

    @property
    def statuses(self) -> dict[str, ServerStatus]:
        """The status of each configured MCP server by name, with the reason if it failed or cannot be used."""
        return self.servers.statuses

    @property
    def is_listed(self) -> bool:
        """Return whether every server is ready and has listed its tools, and no toolset may list others in a run."""
        states = [status.state for status in self.statuses.values()]
        is_complete = all(
            known_of(toolset) is Completeness.ALL for toolset in self._toolsets
        )
        return is_complete and all(state in ("ready", "cached") for state in states)

    @property
    def unavailable(self) -> dict[str, str]:
        """For each server that cannot be used now: the reason, in one line."""
        return self.servers.unavailable | self._unusable

    def _expects_deferred(self, unavailable: Mapping[str, str]) -> bool:
        """Return whether an unavailable server, or a toolset in a run, may have tools to hide."""
        if not self._deferring.isdisjoint(unavailable):
            return True
        return any(expects_deferred(toolset) for toolset in self._toolsets)


def groups_by_size(tools: Sequence[Tool]) -> list[str]:
    """Return the categories of a server's tools, the largest first."""
    counts = Counter(tool.definition.category for tool in tools)
    counts.pop("", None)
    return [name for name, _ in counts.most_common()]


class WrappedSources:
    """Wraps the sources of an agent; a subclass replaces some of their methods."""

    def __init__(self, inside: AgentSources) -> None:
        self.inside = inside

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inside, name)


MOST_MEASURED = 200_000
"""Maximum number of definitions whose size is cached."""

MAX_KEPT = 64
"""Maximum number of cached listings. Their keys are the identities of their parts, which the cache keeps alive."""


def _keep(kept: dict[_K, _T], key: _K, value: _T, most: int = MAX_KEPT) -> None:
    kept.pop(key, None)
    kept[key] = value
    while len(kept) > most:
        kept.pop(next(iter(kept)))


AnyTools: TypeAlias = Callable[..., Any] | Tool | ToolSource | ProviderTool
"""An item of `Agent(tools=[...])`: a function, a tool, a toolset, an `McpServer`, a list of functions and tools, or a
tool that the provider runs.
"""


def _shown(item: object) -> str:
    """Return the type of an invalid item, for an error; a text may be meant as the name of a server's tool."""
    if isinstance(item, str):
        return (
            f'the text "{safe_line(item, 60)}"; a server\'s tools come with mcp_config='
        )
    return type(item).__name__


def sources_of(
    tools: Sequence[AnyTools],
    mcp_config: McpConfig,
    options: ServerOptions,
    policy: ApprovalPolicy,
) -> ToolSources:
    """Return the sources for these items. Functions and single tools become the agent's own tools; other items list
    their tools.
    """
    functions: list[Tool] = []
    sources: list[ToolSource | ServerConfig] = []
    for item in tools:
        if hasattr(item, "as_tool"):
            raise ConfigError(
                "tools: an Agent is not a tool by itself; use agent.as_tool(name, description)"
            )
        if isinstance(item, Tool):
            functions.append(usable_tool(item))
        elif isinstance(item, ServerConfig | list | tuple) or hasattr(item, "tools"):
            sources.append(item)  # type: ignore[arg-type]  # its type is checked when it is added
        elif callable(item):
            functions.append(function_tool(item))
        else:
            raise ConfigError(
                f"tools: expected functions, tools and toolsets, got {_shown(item)}"
            )
    return ToolSources(functions, sources, mcp_config, options, policy)
