"""Start the servers behind the input line: cached servers are known at once, others connect in the background."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from importlib import import_module

from rich.text import Text

from mcpagent.agents.agent import Agent
from mcpagent.cli.common.number_formats import counted, duration, tokens
from mcpagent.cli.screen.rendering import Activity
from mcpagent.cli.screen.terminal import Glyphs
from mcpagent.config import ServerConfig
from mcpagent.errors import AgentStateError
from mcpagent.mcp.lists.list_cache import ListCache
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import Event, ServerConnected, ServerFailed

TICK_SECONDS = 0.5
PROMPT_SECONDS = 5.0


class Startup:
    """Starts the agent. `follow` receives each event; `changed` is called when the display must change.

    `finished` is called once, when no server is connecting any more.
    """

    def __init__(
        self,
        agent: Agent,
        activity: Activity,
        glyphs: Glyphs,
        changed: Callable[[], None],
        finished: Callable[[], None],
        wait_seconds: float,
    ) -> None:
        self._agent = agent
        self._activity = activity
        self._glyphs = glyphs
        self._changed = changed
        self._finished = finished
        self._wait_seconds = wait_seconds
        self._connected: dict[str, ServerConnected] = {}
        self._news = asyncio.Event()
        self._entering: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self.is_over = False

    async def begin(
        self, servers: tuple[ServerConfig, ...], cache: ListCache, shown: asyncio.Event
    ) -> None:
        """Start the agent. Returns at once, or, if every server is cached, when the agent knows their tools."""
        all_known = all(cache.path(server).exists() for server in servers)
        self._entering = asyncio.create_task(
            self._enter(None if all_known else shown), name="chat-connect"
        )
        self._watching = asyncio.create_task(self._watch(), name="chat-watch")
        if all_known:
            await asyncio.wait({self._entering})
            if self.is_entered and not self._connecting_now():
                self._finish()

    async def _enter(self, shown: asyncio.Event | None) -> None:
        if shown is not None:
            # Loading the MCP SDK takes longest, so the input line is displayed first, and typing works meanwhile.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(shown.wait(), PROMPT_SECONDS)
            await asyncio.to_thread(import_module, "mcpagent.mcp.connection")
        await self._agent.__aenter__()
        self._changed()

    async def _watch(self) -> None:
        assert self._entering is not None
        await asyncio.wait({self._entering})
        if self._entering.cancelled() or self._entering.exception() is not None:
            self._changed()
            return
        while self._connecting_now():
            self._changed()
            await self._tick()
        self._finish()

    def _finish(self) -> None:
        if self.is_over:
            return
        self.is_over = True
        self._finished()
        self._changed()

    def follow(self, event: Event) -> None:
        """Process an event as it happens."""
        match event:
            case ServerConnected(server=server):
                self._connected.setdefault(server, event)
                self._news.set()
            case ServerFailed():
                self._news.set()
            case _:
                pass

    @property
    def failure(self) -> BaseException | None:
        """The error that kept the agent from starting, or None."""
        entering = self._entering
        if entering is None or not entering.done() or entering.cancelled():
            return None
        return entering.exception()

    @property
    def is_entered(self) -> bool:
        """True once the agent has started without an error. Servers that are still connecting may add tools later."""
        return (
            self._entering is not None
            and self._entering.done()
            and self.failure is None
        )

    async def ready(self) -> None:
        """Wait, for a limited time, until some tools are known, or no server is about to have any. Raises the errors of
        `entered`.
        """
        await self.entered()
        if self._agent.known_tools or not self._connecting_now():
            return
        try:
            await self._agent.mcp.settle(
                self._wait_seconds,
                self._show_waited,
                enough=lambda: bool(self._agent.known_tools),
            )
        except AgentStateError:  # a replay starts no servers
            return
        finally:
            self._activity.hide()

    def _show_waited(self, servers: tuple[str, ...]) -> None:
        self._activity.show(
            f"connecting {', '.join(safe_line(name, 40) for name in servers)}"
        )

    async def entered(self) -> None:
        """Wait until the agent is usable. Raises the error that kept it from starting."""
        assert self._entering is not None
        try:
            while not self._entering.done():
                self._activity.show("connecting servers")
                await asyncio.wait({self._entering}, timeout=TICK_SECONDS)
            self._entering.result()
        finally:
            self._activity.hide()

    def _connecting_now(self) -> dict[str, float]:
        """Return the connecting servers, each with the seconds since it started to connect."""
        servers = self._agent.servers.items()
        return {
            name: status.seconds
            for name, status in servers
            if status.state == "connecting"
        }

    async def _tick(self) -> None:
        """Wait for an event, or until the displayed seconds change."""
        self._news.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), TICK_SECONDS)

    def progress(self, width: int) -> str:
        """Return ` connecting github 3 s, slack 2 s, 4 more`, the slowest first; "" if no server is connecting."""
        waiting = sorted(
            self._connecting_now().items(), key=lambda item: (-item[1], item[0])
        )
        line = " connecting"
        for place, (name, seconds) in enumerate(waiting):
            piece = f" {safe_line(name, 40)} {seconds:.0f} s"
            more = f", {len(waiting) - place} more"
            if len(line) + len(piece) + len(more) + 1 > width and place:
                return line + more
            line += ("," if place else "") + piece
        if waiting:
            return line[: width - 1]
        return ""

    def summary(self) -> list[Text]:
        """Return one line about the servers that have just connected; [] if all were cached."""
        events = sorted(self._connected.values(), key=lambda event: event.seconds)
        if not events:
            return []
        tools = counted(sum(event.tools for event in events), "tool")
        slowest = events[-1]
        if len(events) == 1:
            who = safe_line(slowest.server, 64)
        else:
            who = counted(len(events), "server")
        line = f"{who} connected in {duration(slowest.seconds)}, {tools}"
        if len(events) > 1:
            line += f"; slowest {safe_line(slowest.server, 40)}"
        return [Text.assemble((f"{self._glyphs.ok} ", "ok"), (line, "dim"))]

    async def close(self) -> None:
        """Cancel servers that are still starting."""
        tasks = {task for task in (self._entering, self._watching) if task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)


LEAST_NOTED = 1_000
"""Minimum tokens of definitions for a note that all tools are offered without a search."""


def search_line(agent: Agent) -> str:
    """Return a line about automatic tool search: its saving per request, or when it would begin; otherwise "".

    Few tools are offered without a search, which needs no line.
    """
    catalog = agent._runtime.tools
    everything = catalog.tokens(catalog.known)
    if not catalog.searching and everything < LEAST_NOTED:
        return ""
    if not catalog.searching:
        return (
            f"tool search off: all {counted(len(catalog.known), 'tool')} offered, {tokens(everything)} tokens per "
            f"request; it begins at about {tokens(catalog.search_begins_at)} tokens"
        )
    offered = catalog.tokens([tool.name for tool in agent.offered_tools()])
    return (
        f"tool search on: {counted(len(catalog.known), 'tool')} would cost {tokens(everything)} tokens per request; "
        f"search sends about {tokens(offered)}"
    )
