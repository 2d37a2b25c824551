"""The servers while the prompt is there already: cached ones are known at once, others connect in the background."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.text import Text

from mcpagent.cli.figures import counted, duration, tokens
from mcpagent.events import Event, ServerConnected, ServerConnecting, ServerFailed
from mcpagent.safe_text import safe_line

if TYPE_CHECKING:
    from mcpagent import Agent
    from mcpagent.cli.activity import Activity
    from mcpagent.cli.terminal import Glyphs
    from mcpagent.config import ServerConfig
    from mcpagent.mcp.cache import ListCache

WAIT_SECONDS = 10.0
"""How long, from the start on, a question waits for servers that are not known yet; they join later."""

TICK_SECONDS = 0.5
PROMPT_SECONDS = 5.0


class Startup:
    """Starts the agent. `follow` is told each event; `changed` is called when there is something new to show.

    `finished` is called once, when no server is connecting any more.
    """

    def __init__(
        self,
        agent: Agent,
        activity: Activity,
        glyphs: Glyphs,
        changed: Callable[[], None],
        finished: Callable[[], None],
    ) -> None:
        self._agent = agent
        self._activity = activity
        self._glyphs = glyphs
        self._changed = changed
        self._finished = finished
        self._since = time.monotonic()
        self._connecting: dict[str, float] = {}
        self._connected: dict[str, ServerConnected] = {}
        self._news = asyncio.Event()
        self._entering: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self.is_over = False

    async def begin(self, servers: tuple[ServerConfig, ...], cache: ListCache, shown: asyncio.Event) -> None:
        """Returns at once, or, where every server is known from the cache, when the agent knows their tools."""
        all_known = all(cache.path(server).exists() for server in servers)
        self._entering = asyncio.create_task(self._enter(None if all_known else shown), name="chat-connect")
        self._watching = asyncio.create_task(self._watch(), name="chat-watch")
        if all_known:
            await asyncio.wait({self._entering})
            if self.is_entered and not self._is_connecting():
                self._finish()

    async def _enter(self, shown: asyncio.Event | None) -> None:
        if shown is not None:
            # Loading the MCP SDK takes longer than all else, so the prompt comes first, and typing goes on meanwhile.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(shown.wait(), PROMPT_SECONDS)
            await asyncio.to_thread(_load_sdk)
        await self._agent.__aenter__()
        self._changed()

    async def _watch(self) -> None:
        assert self._entering is not None
        await asyncio.wait({self._entering})
        if self._entering.cancelled() or self._entering.exception() is not None:
            self._changed()
            return
        while self._is_connecting():
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
        match event:
            case ServerConnecting(server=server):
                self._connecting[server] = time.monotonic()
            case ServerConnected(server=server):
                self._connecting.pop(server, None)
                self._connected.setdefault(server, event)
                self._news.set()
            case ServerFailed(server=server):
                self._connecting.pop(server, None)
                self._news.set()
            case _:
                pass

    @property
    def failure(self) -> BaseException | None:
        """What kept the agent from starting."""
        entering = self._entering
        if entering is None or not entering.done() or entering.cancelled():
            return None
        return entering.exception()

    @property
    def is_entered(self) -> bool:
        """Whether there are tools to look at; more may come."""
        return self._entering is not None and self._entering.done() and self.failure is None

    async def ready(self) -> None:
        """Waits until some tools are known, or none will be soon. Raises what kept the agent from starting."""
        await self._until(lambda: bool(self._agent.known_tools))

    async def settled(self) -> None:
        """Waits for the servers that are not known yet, a bounded time. Raises as `ready` does."""
        await self._until(lambda: False)

    async def _until(self, enough: Callable[[], bool]) -> None:
        assert self._entering is not None
        try:
            while not self._entering.done():
                self._activity.show("connecting servers")
                await asyncio.wait({self._entering}, timeout=TICK_SECONDS)
            self._entering.result()
            while self._is_connecting() and not enough() and time.monotonic() - self._since < WAIT_SECONDS:
                self._activity.show(f"connecting {self._names()}")
                await self._tick()
        finally:
            self._activity.hide()

    def _is_connecting(self) -> bool:
        return any(status.state == "connecting" for status in self._agent.servers.values())

    async def _tick(self) -> None:
        """Until there is news, or the seconds that are shown have changed."""
        self._news.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), TICK_SECONDS)

    def _names(self) -> str:
        names = [name for name, status in self._agent.servers.items() if status.state == "connecting"]
        return ", ".join(safe_line(name, 40) for name in names)

    def progress(self, width: int) -> str:
        """` connecting github 3 s, slack 2 s, 4 more`, the slowest first; empty when nothing is connecting."""
        now = time.monotonic()
        waiting = [name for name, status in self._agent.servers.items() if status.state == "connecting"]
        waiting.sort(key=lambda name: (self._connecting.get(name, now), name))
        line = " connecting"
        for place, name in enumerate(waiting):
            piece = f" {safe_line(name, 40)} {now - self._connecting.get(name, now):.0f} s"
            more = f", {len(waiting) - place} more"
            if len(line) + len(piece) + len(more) + 1 > width and place:
                return line + more
            line += ("," if place else "") + piece
        return line[: width - 1] if waiting else ""

    def summary(self) -> Text | None:
        """One line about the servers that were connected now; None where all were known."""
        events = sorted(self._connected.values(), key=lambda event: event.seconds)
        if not events:
            return None
        tools = counted(sum(event.tools for event in events), "tool")
        slowest = events[-1]
        who = safe_line(slowest.server, 64) if len(events) == 1 else counted(len(events), "server")
        line = f"{who} connected in {duration(slowest.seconds)}, {tools}"
        if len(events) > 1:
            line += f"; slowest {safe_line(slowest.server, 40)}"
        return Text.assemble((f"{self._glyphs.ok} ", "ok"), (line, "dim"))

    async def close(self) -> None:
        """Ends what is still starting; whatever it came to has been told, or nobody asked for it."""
        tasks = {task for task in (self._entering, self._watching) if task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)


def search_line(agent: Agent) -> str:
    """What tool search saves in each request, for when it was switched on by itself."""
    catalog = agent.catalog
    everything = catalog.tokens(catalog.known)
    offered = catalog.tokens([tool.name for tool in agent.offered_tools()])
    return (
        f"tool search on: {counted(len(catalog.known), 'tool')} would cost {tokens(everything)} tokens per request; "
        f"search sends about {tokens(offered)}"
    )


def _load_sdk() -> None:
    import mcpagent.mcp.connection  # noqa: F401 - for its effect
