"""Where an agent's tools come from: MCP servers, toolsets and functions, put together to one list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcpagent.config import ServerConfig, ServersConfig, load_servers
from mcpagent.events import Emit
from mcpagent.mcp.lists import ToolsDifference
from mcpagent.mcp.redaction import secrets_of
from mcpagent.mcp.servers import McpServers, ServerOptions
from mcpagent.selection import Selection
from mcpagent.tool_algebra import ApprovalPredicate, approval_required, deferred_as_configured
from mcpagent.tool_algebra import combined as combined_lists
from mcpagent.tools import Tool
from mcpagent.toolsets.compose import ToolSource, as_toolset, label_of
from mcpagent.virtual_tools.server_content import server_content_tools

if TYPE_CHECKING:
    from mcpagent.mcp.status import ServerStatus
    from mcpagent.mcp.toolset import McpToolset


class ToolSources:
    """All that gives an agent tools.

    `functions` may grow while the agent lives. `sources` are toolsets, lists of functions and `McpServer` values.
    `approval` True, or a predicate, makes the calls of every tool wait for approval.
    """

    def __init__(
        self,
        functions: Sequence[Tool],
        sources: Sequence[ToolSource | ServerConfig],
        mcp_config: str | Path | Mapping[str, Any] | Sequence[ServerConfig] | ServersConfig | None,
        selection: Selection,
        approval: bool | ApprovalPredicate,
    ) -> None:
        self.functions = list(functions)
        self._toolsets = tuple(as_toolset(item) for item in sources if not isinstance(item, ServerConfig))
        self._server_values = tuple(item for item in sources if isinstance(item, ServerConfig))
        self._mcp_config = mcp_config
        self._selection = selection
        self._approval = approval
        self._servers: McpServers | None = None
        self._deferring: set[str] = set()
        self.secrets: list[str] = []

    async def open(
        self,
        exits: AsyncExitStack,
        options: ServerOptions,
        startup_seconds: float | None,
        *,
        emit: Emit,
        on_late: Callable[[McpToolset], None],
        on_lost: Callable[[str, str], None],
        on_changed: Callable[[McpToolset, ToolsDifference], None],
    ) -> None:
        """Connects all MCP servers at once, then enters the toolsets; `exits` will leave them.

        Raises only for a wrong configuration, a `required` server, or a toolset that cannot start.
        """
        given = self._mcp_config if self._mcp_config is not None else ServersConfig((), (), ())
        config = given if isinstance(given, ServersConfig) else load_servers(given)
        if self._server_values:
            both = load_servers((*config.servers, *self._server_values))
            config = replace(config, servers=both.servers)
        self._selection.check([*(server.name for server in config.servers), *(item.name for item in config.problems)])
        wanted = [item for item in config.servers if not item.disabled and self._selection.has_server(item.name)]
        self._deferring = {item.name for item in wanted if item.defer_loading}
        self.secrets = [value for item in wanted for value in secrets_of(item)]
        self._servers = McpServers(
            config, wanted, options, emit=emit, on_late=on_late, on_lost=on_lost, on_changed=on_changed
        )
        exits.push_async_callback(self._servers.close)
        await self._servers.open(startup_seconds)
        for toolset in self._toolsets:
            await exits.enter_async_context(toolset)

    async def enter_lifetimes(self, exits: AsyncExitStack, tools: Sequence[Tool]) -> None:
        """Enters what single tools need to live, each thing once."""
        entered: list[object] = []
        for tool in (*self.functions, *tools):
            if tool.lifetime is not None and tool.lifetime not in entered:
                entered.append(tool.lifetime)
                await exits.enter_async_context(tool.lifetime)

    async def from_toolsets(self) -> list[Tool]:
        """What the toolsets have now, in the run that is current. Raises `ConfigError` where two tools clash."""
        lists = [(label_of(toolset), await toolset.tools()) for toolset in self._toolsets]
        count = sum(len(tools) for _, tools in lists)
        return combined_lists([*lists, ("the agent's own functions", self.functions)])[:count]

    def of_server(self, toolset: McpToolset) -> list[Tool]:
        """The selected tools of a connected server, marked as its configuration says."""
        return self._selection.of(deferred_as_configured(toolset.bound_tools(), toolset.config))

    def all(self, from_toolsets: Sequence[Tool]) -> list[Tool]:
        """Every tool there is, with those of the toolsets as they were listed last."""
        from_servers = [tool for toolset in self.connected for tool in self.of_server(toolset)]
        content = server_content_tools(self.connected)
        tools = [*from_servers, *self._selection.of(from_toolsets), *content, *self.functions]
        if self._approval is False:
            return tools
        return approval_required(tools, None if self._approval is True else self._approval)

    @property
    def connected(self) -> list[McpToolset]:
        """The servers whose tools are known, by name."""
        return self._servers.toolsets if self._servers is not None else []

    @property
    def servers(self) -> McpServers:
        """The MCP servers; only once these sources are open."""
        assert self._servers is not None
        return self._servers

    @property
    def statuses(self) -> dict[str, ServerStatus]:
        """Each configured MCP server by name, also those that failed or cannot be used, with the reason."""
        return self._servers.statuses if self._servers is not None else {}

    @property
    def unavailable(self) -> dict[str, str]:
        """Why each server that is not connected is not, in one line."""
        return self._servers.unavailable if self._servers is not None else {}

    @property
    def expects_deferred(self) -> bool:
        """Whether a server that is not connected yet has tools to be hidden until they are found."""
        return any(name in self._deferring for name in self.unavailable)

    @property
    def descriptions(self) -> dict[str, str]:
        """What each connected server is about: the configuration's words, else the server's own."""
        return {toolset.config.name: about(toolset) for toolset in self.connected}


def about(toolset: McpToolset) -> str:
    """What a server is about, in the configuration's words, else in its own, which are third-party text."""
    status = toolset.status
    return toolset.config.description or status.title or status.instructions
