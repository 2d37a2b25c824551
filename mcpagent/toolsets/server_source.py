"""Use one MCP server as a source inside an operation, such as `prefixed(McpServer(...), "fs")`."""

from __future__ import annotations

from mcpagent.config import ServerConfig, ServersConfig
from mcpagent.mcp.all_servers import McpServers
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.run.agent_run import current_run
from mcpagent.toolsets.unmatched_names import Completeness
from mcpagent.values.events import ServersAwaited, log_warnings
from mcpagent.values.tools import Tool


class ServerSource:
    """The tools of one server; none before it has connected. A failure or delay is logged, and affects only this
    source.

    Entering waits for a slow server as configured in `options`. It raises `ServerError` for a `required` server that
    cannot be used.
    """

    def __init__(
        self, config: ServerConfig, options: ServerOptions | None = None
    ) -> None:
        self.config = config
        self._options = options or ServerOptions()
        self._servers: McpServers | None = None
        self._left: list[Tool] = []

    @property
    def known(self) -> Completeness:
        """Whether the list of tools is complete: `ALL` after the server has connected, `NOTHING` before."""
        if self._servers is not None and self._servers.toolsets:
            return Completeness.ALL
        return Completeness.NOTHING

    async def tools(self) -> list[Tool]:
        """Return the server's current tools, or the last ones. A prompt waits for a connecting server."""
        servers, run, limit = (
            self._servers,
            current_run(),
            self._options.question_seconds,
        )
        if servers is None:
            return self._left
        if (
            run is not None and run.context.run_id and servers.connecting
        ):  # the start has already waited as long as allowed
            await run.wait(
                lambda spent: servers.settle(
                    limit, lambda names: run.emit(ServersAwaited(names)), spent=spent
                )
            )
        return servers.all_tools()

    async def __aenter__(self) -> ServerSource:
        # A closed server is not opened again: entering again creates a new one.
        self._servers = McpServers(
            ServersConfig((self.config,)),
            (self.config,),
            self._options,
            emit=log_warnings,
        )
        try:
            await self._servers.open(self._options.startup_seconds)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        servers, self._servers = self._servers, None
        if servers is not None:
            self._left = (
                servers.all_tools()
            )  # later calls report that the server is closed
            await servers.close()
