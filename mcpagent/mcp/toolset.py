"""One configured MCP server as a toolset: its tools bound to calls, over a connection that is replaced when it dies.

`opening.py` opens connections, `reconnecting.py` keeps the one there is, `known_lists.py` knows what the server lists,
`refreshing.py` has it read again, `calls.py` and `offers.py` send requests. Here they are put together.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from mcpagent.config import ServerConfig
from mcpagent.errors import ServerError
from mcpagent.events import Emit, Notice, ServerLogged, ignore
from mcpagent.mcp.cache import ListCache
from mcpagent.mcp.calls import Calls
from mcpagent.mcp.handlers import Handlers, folder_uris
from mcpagent.mcp.known_lists import KnownLists, matches
from mcpagent.mcp.lists import PromptInfo, ResourceInfo, ToolsDifference
from mcpagent.mcp.offers import Offers
from mcpagent.mcp.opening import Authenticate, Opening
from mcpagent.mcp.pins import PinStore, ToolChange
from mcpagent.mcp.reconnecting import Reconnecting
from mcpagent.mcp.refreshing import Refreshing
from mcpagent.mcp.status import ServerStatus
from mcpagent.mcp.telling import Telling
from mcpagent.messages import ToolDefinition
from mcpagent.safe_text import safe_line
from mcpagent.tools import Run, Tool, ToolOutput

if TYPE_CHECKING:
    import httpx2

    from mcpagent.mcp.connection import McpConnection

AllowChange: TypeAlias = Callable[[ToolChange], Awaitable[bool]]
"""Asks whether a changed tool may be used as it is now."""


def _ignore_change(change: ToolsDifference) -> None:
    """For whoever does not want to know."""


class McpToolset:
    """The tools, prompts and resources of one server; entered once, from any task, and left from any task.

    Entering raises `ServerError` where the server cannot be used. Later failures never raise: a call that fails gives
    an output that says so, and the next call finds a new connection. `environ` is what the child may inherit from.

    With a `cache` that knows the server, entering reads the lists from there and the server is started by its first
    call, or in the background where `eager`. `on_tools_changed` is told when its tools are no longer what they were:
    `tools()` then gives the new ones. `handlers` say what the server may ask of us; `auth` signs in to a remote one.
    With `pins` a tool that changed since it was first used is called only where `allow_change` says so.
    `log_folder` is where its standard error goes (`server_log.log_path`).
    """

    def __init__(
        self,
        config: ServerConfig,
        *,
        emit: Emit = ignore,
        environ: Mapping[str, str] | None = None,
        cache: ListCache | None = None,
        eager: bool = False,
        handlers: Handlers | None = None,
        auth: httpx2.Auth | Authenticate | None = None,
        pins: PinStore | None = None,
        allow_change: AllowChange | None = None,
        log_folder: Path | None = None,
        on_tools_changed: Callable[[ToolsDifference], None] = _ignore_change,
    ) -> None:
        self.config = config
        self.on_tools_changed = on_tools_changed
        self._emit = emit
        self._eager = eager
        self._handlers = handlers or Handlers()
        self._roots = (*self._handlers.root_uris(), *folder_uris(config.roots))
        self._pins = pins
        self._allow_change = allow_change
        self._bound: tuple[tuple[ToolDefinition, ...], list[Tool]] | None = None
        self._lists = KnownLists(config, cache, emit, lambda change: self.on_tools_changed(change))
        self._telling = Telling(config.name, emit, self._list_changed)
        self._opening = Opening(
            config,
            self._lists,
            self._telling,
            emit=emit,
            environ=environ,
            handlers=self._current_handlers,
            auth=auth,
            log_folder=log_folder,
        )
        self._line = Reconnecting(config.name, self._open)
        self._refreshing = Refreshing(config.name, self._refresh, self._telling.warn)
        self._calls = Calls(
            config, self._line, self._lists, self._refreshing, emit=emit, reread=self._opening.read_again
        )
        self._offers = Offers(config.name, self._line, self._calls)

    @property
    def status(self) -> ServerStatus:
        status = self._opening.status
        count = len(self._lists.tools) if status.state in ("ready", "cached", "closed") else 0
        return replace(status, tool_count=count, warnings=self._telling.warnings)

    @property
    def prompts(self) -> tuple[PromptInfo, ...]:
        return self._lists.current.prompts

    @property
    def resources(self) -> tuple[ResourceInfo, ...]:
        return self._lists.current.resources

    @property
    def log(self) -> tuple[ServerLogged, ...]:
        """The last messages that the server sent about its own work."""
        return self._telling.log

    # --- life ---

    async def __aenter__(self) -> McpToolset:
        if (cached := self._opening.load()) is None:
            await self._line.get()
        elif self._eager or cached.is_stale:
            self._refreshing.soon()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line.is_closed = True
        await self._refreshing.close()
        await self._line.close()
        self._telling.close()
        self._opening.close()

    async def restart(self) -> None:
        """Ends the connection, where there is one, and opens a new one; what the server lists is read again.

        Raises `ServerError`. Crashes before are forgotten, so nothing holds the start back.
        """
        self._opening.forget()
        await self._line.restart()

    async def _open(self) -> McpConnection:
        """A new connection. The lists are read the first time, and later while the call that needs it goes on."""
        is_ready = self._opening.status.state == "ready"
        connection = await self._opening.open()
        await self._offers.subscribe_again(connection, self._telling.warn)
        if is_ready:
            self._refreshing.soon()
        return connection

    def _current_handlers(self) -> Handlers:
        return replace(self._handlers, roots=(lambda: self._roots) if self._roots else ())

    async def set_roots(self, folders: Sequence[str | Path]) -> None:
        """From now on the server is told of these folders, and told that they changed where it runs.

        One that was told of none before is ended, and started by the next call: what a client can is said at the start.
        """
        had, self._roots = self._roots, folder_uris(folders)
        if not self._line.is_connected or had == self._roots:
            return
        if not had:
            await self._line.drop()
            return
        connection = await self._line.get()
        if not connection.is_modern:  # since 2026-07-28 a server asks when it needs them
            await connection.tell_roots_changed()

    def _list_changed(self, _what: str) -> None:
        self._lists.forget()
        self._refreshing.announced()

    async def _refresh(self) -> None:
        is_ready = self._opening.status.state == "ready"
        connection = await self._line.get()
        if is_ready:  # else opening it has read them
            await self._opening.read_again(connection)

    # --- tools ---

    async def tools(self) -> list[Tool]:
        """`bound_tools`, as every toolset has it."""
        return self.bound_tools()

    def bound_tools(self) -> list[Tool]:
        """The server's tools by their own names, in its order; the same values until the server's list changes."""
        if self._bound is None or self._bound[0] is not self._lists.tools:
            self._bound = (self._lists.tools, self._bind())
        return list(self._bound[1])

    def _bind(self) -> list[Tool]:
        seconds, always = self._calls.outer_seconds, self.config.always_load
        return [
            Tool(
                definition,
                self._runner(definition),
                timeout_seconds=seconds,
                deferred=False if always and matches(definition.original_name, always) else None,
            )
            for definition in self._lists.tools
        ]

    def _runner(self, definition: ToolDefinition) -> Run:
        async def run(arguments: dict[str, Any]) -> ToolOutput:
            if self._pins is not None and self._opening.status.state == "cached":
                # What was listed long ago cannot show a change: the server's own list is read first.
                with contextlib.suppress(ServerError):  # the call meets it too, and tells
                    await self._line.get()
            if (refusal := await self._refused_change(definition)) is not None:
                return refusal
            output = await self._calls.call(definition.original_name, arguments)
            if self._lists.is_old:
                self._refreshing.soon()
            return output

        return run

    async def _refused_change(self, definition: ToolDefinition) -> ToolOutput | None:
        """What to answer where the tool is not what it was when first used, and nobody says that this is right."""
        if self._pins is None:
            return None
        listed = self._lists.current.tools
        current = next((tool for tool in listed if tool.original_name == definition.original_name), definition)
        if (change := self._pins.check(self.config, current)) is None:
            return None
        self._emit(Notice(safe_line(str(change), 500), "warning"))
        if self._allow_change is not None and await self._allow_change(change):
            self._pins.accept(self.config, current)
            return None
        text = (
            f'tool "{safe_line(change.tool, 60)}" was changed by its server since it was first used; it was not called'
        )
        return ToolOutput.of_text(f"{text}, since nobody has allowed the change", error="denied")

    # --- what it offers besides tools ---

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> ToolOutput:
        """One prompt, filled with `arguments`."""
        return await self._offers.get_prompt(name, arguments)

    async def get_resource(self, uri: str) -> ToolOutput:
        """The content of one resource."""
        return await self._offers.get_resource(uri)

    async def complete(
        self, of: PromptInfo | ResourceInfo, argument: str, value: str, known: Mapping[str, str] | None = None
    ) -> tuple[str, ...]:
        """The values that the server proposes for an argument of a prompt or template which begins so.

        `known` are the arguments given already. Nothing where the server has no proposals, or fails.
        """
        return await self._offers.complete(of, argument, value, known or {})

    async def subscribe(self, uri: str) -> None:
        """From now on an event tells when this resource changes, also over restarts of the server.

        Raises `ServerError` where the server does not do that.
        """
        await self._offers.subscription(uri, wanted=True)

    async def unsubscribe(self, uri: str) -> None:
        """Takes a subscription back. Raises `ServerError` where the server refuses."""
        await self._offers.subscription(uri, wanted=False)
