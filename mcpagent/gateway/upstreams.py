"""The servers behind a gateway, for one or several clients: started on demand, stopped when idle."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from urllib.parse import quote, unquote

from mcpagent.config import ServersConfig
from mcpagent.errors import InputError, McpAgentError
from mcpagent.gateway.asking_client import Caller, Client, OpenCalls
from mcpagent.gateway.gateway_options import GatewayOptions
from mcpagent.gateway.offered_tools import (
    OfferedTool,
    listed_prompts,
    listed_resources,
    offered_tools,
)
from mcpagent.history.conversation import Conversation
from mcpagent.mcp.all_servers import McpServers
from mcpagent.mcp.handlers import Forwarding, Handlers
from mcpagent.mcp.sdk import UriTemplate
from mcpagent.mcp.server_link import ServerLink
from mcpagent.mcp.server_notifications import ServerNews
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.tool_search.catalog import Catalog, Listing
from mcpagent.tool_search.session_tools import SessionTools
from mcpagent.values.events import Emit, ignore
from mcpagent.values.tools import Tool, ToolOutput

MERGE_SECONDS = 0.1
"""Changes of lists within this time are reported to clients together."""
CACHE_SECONDS = 5.0
"""Maximum wait of the start for reading the cached lists."""
SETTLE_SECONDS = 20.0
"""Maximum wait of a search, or of a list of all tools, for servers whose lists are still unknown."""
_SEEN_URIS = 10_000
_SCHEME = "mcpagent://"

OnChange = Callable[["Upstreams"], None]
OnNews = Callable[["Upstreams", str, ServerNews], None]


@dataclass(eq=False)
class Lists:
    """The lists of all servers at one moment. `seen` are the servers' lists from which these were made.

    `missing` has the reason for each server without a list (None: not computed yet).
    """

    seen: tuple[tuple[str, object], ...] = ()
    missing: Mapping[str, str] | None = None
    tools: Mapping[str, OfferedTool] = field(default_factory=dict[str, OfferedTool])
    prompts: Mapping[str, tuple[str, dict[str, Any]]] = field(
        default_factory=dict[str, tuple[str, dict[str, Any]]]
    )
    resources: Mapping[str, tuple[str, dict[str, Any]]] = field(
        default_factory=dict[str, tuple[str, dict[str, Any]]]
    )
    templates: tuple[tuple[str, dict[str, Any]], ...] = ()
    session: SessionTools | None = None

    def listed_prompts(self) -> list[dict[str, Any]]:
        """Return the prompts under their offered names."""
        return [{**item, "name": name} for name, (_, item) in self.prompts.items()]

    def listed_resources(self) -> list[dict[str, Any]]:
        """Return the resources under their URIs for clients."""
        return [{**item, "uri": uri} for uri, (_, item) in self.resources.items()]


class Upstreams:
    """The servers of a configuration. `client` answers their requests; None: no client does.

    `on_change` is called when lists changed, `on_news` for other notifications of servers.
    """

    def __init__(
        self,
        config: ServersConfig,
        servers: ServerOptions,
        options: GatewayOptions,
        *,
        client: Client | None = None,
        emit: Emit = ignore,
        on_change: OnChange = lambda _: None,
        on_news: OnNews = lambda *_: None,
    ) -> None:
        self.options = options
        self.calls = OpenCalls()
        self._cache = servers.cache
        self._on_change = on_change
        self._on_news = on_news
        if client is not None:
            servers = replace(servers, handlers=partial(self._handlers, client))
        self.servers = McpServers(
            config,
            [server for server in config.servers if not server.disabled],
            servers,
            emit=emit,
            on_late=self._changed,
            on_lost=self._changed,
            on_changed=self._changed,
            on_news=self._heard,
        )
        self._lists = Lists()
        self._open: Counter[str] = Counter()
        self._used: dict[str, float] = {}
        self._subscriptions: Counter[tuple[str, str]] = Counter()
        self._seen_uris: dict[str, str] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._change = asyncio.Event()

    # --- life ---

    async def open(self) -> None:
        """Read the cached lists; servers without them connect in the background."""
        await self.servers.open(0)
        if (cache := self._cache) is not None:
            links = self.servers.links.values()
            cached = [link for link in links if cache.path(link.config).exists()]
            await self.servers.settle(
                CACHE_SECONDS,
                lambda _: None,
                enough=lambda: all(link.is_known for link in cached),
            )
        self._tasks = [
            asyncio.create_task(self._report_changes(), name="gateway-changes"),
            asyncio.create_task(self._rest_idle(), name="gateway-idle"),
        ]

    async def close(self) -> None:
        """Stop all servers."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.servers.close()

    async def settled(
        self,
        seconds: float = SETTLE_SECONDS,
        enough: Callable[[], bool] = lambda: False,
    ) -> None:
        """Wait for servers whose lists are still unknown, until `enough` returns True or the time is over."""
        await self.servers.settle(seconds, lambda _: None, enough=enough)

    def _handlers(self, client: Client, _config: Any) -> Handlers:
        return Handlers(
            forwarding=Forwarding(client.methods, self._send_to_client, client.sampling)
        )

    async def _send_to_client(self, server: str, request: Any, key: str) -> Any:
        is_in_call = self.servers.links[server].life.known.is_modern is True
        return await self.calls.send(server, request, key, is_in_call=is_in_call)

    def _changed(self, *_: object) -> None:
        self._change.set()

    def _heard(self, server: str, news: ServerNews) -> None:
        if news.kind == "list":
            self._change.set()
        else:
            self._on_news(self, server, news)

    async def _report_changes(self) -> None:
        while True:
            await self._change.wait()
            await asyncio.sleep(MERGE_SECONDS)
            self._change.clear()
            self._on_change(self)

    async def _rest_idle(self) -> None:
        """Close the connections of servers without a request for `idle_seconds`."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(self.options.idle_seconds / 4, 60.0))
            for name, link in self.servers.links.items():
                is_idle = (
                    loop.time() - self._used.get(name, link.since)
                    >= self.options.idle_seconds
                )
                if is_idle and self._may_rest(name, link):
                    await link.rest()

    def _may_rest(self, name: str, link: ServerLink) -> bool:
        is_subscribed = any(server == name for server, _ in self._subscriptions)
        return (
            link.life.connection is not None
            and not self._open[name]
            and not is_subscribed
        )

    @contextlib.asynccontextmanager
    async def using(self, server: str, caller: Caller) -> AsyncIterator[ServerLink]:
        """Return the server's link for one request. Raises `InputError` if the server is unknown or cannot be
        started.
        """
        link = self.servers.links.get(server)
        if link is None:
            problem = self.servers.statuses.get(server)
            reason = problem.reason if problem is not None else "it is not configured"
            raise InputError(f'server "{server}" cannot be used: {reason}')
        if not self._open[server]:
            await link.fit_handlers()
        self._open[server] += 1
        try:
            with self.calls.opened(caller, server):
                yield link
        finally:
            self._open[server] -= 1
            self._used[server] = asyncio.get_running_loop().time()

    # --- lists ---

    def lists(self) -> Lists:
        """Return the current lists, the same value until one changes."""
        links = self.servers.toolsets
        seen = tuple((link.config.name, link.lists) for link in links)
        missing = dict(self.servers.unavailable)
        before = self._lists
        if before.missing == missing and _are_same(before.seen, seen):
            return before
        prefixed = self.options.is_prefixed
        tools = offered_tools(links, self.options.pinned, is_prefixed=prefixed)
        usable = {name: tool for name, tool in tools.items() if tool.withheld is None}
        self._lists = Lists(
            seen,
            missing,
            tools=tools,
            prompts=listed_prompts(links, is_prefixed=prefixed),
            resources=_by_uri(listed_resources(links, "resources")),
            templates=tuple(listed_resources(links, "resourceTemplates")),
            session=self._session(usable),
        )
        return self._lists

    async def lists_with(self, has: Callable[[Lists], bool]) -> Lists:
        """Return the current lists; if they lack what a client asks for, wait for servers without a known list."""
        if not has(self.lists()):
            await self.settled(enough=lambda: has(self.lists()))
        return self.lists()

    def forget_lists(self) -> None:
        """Discard the lists after a consent or a refusal, so that they are made again."""
        self._lists = Lists()

    def _session(self, tools: Mapping[str, OfferedTool]) -> SessionTools:
        bound = tuple(Tool(tool.definition, _not_called) for tool in tools.values())
        descriptions = {
            link.config.name: link.life.known.title for link in self.servers.toolsets
        }
        listing = Listing(
            bound,
            descriptions,
            self.servers.unavailable,
            connecting=self.servers.connecting,
        )
        search = replace(self.options.search, enabled=True, load="search")
        catalog = Catalog(listing, search)
        return SessionTools(catalog, Conversation(), search=search, settle=self.settled)

    # --- resources ---

    def server_of(self, uri: str, lists: Lists) -> tuple[str, str]:
        """Return the server of a resource, and the resource's URI there. Raises `InputError` if the server is
        uncertain.
        """
        if uri in lists.resources:
            server, item = lists.resources[uri]
            return server, str(item["uri"])
        if uri.startswith(_SCHEME):
            server, _, own = uri.removeprefix(_SCHEME).partition("/")
            return unquote(server), unquote(own)
        fitting = {server for server, item in lists.templates if _fits(item, uri)}
        if uri in self._seen_uris:
            fitting = {self._seen_uris[uri]}
        if not fitting:
            fitting = {server for server, _ in lists.resources.values()}
            fitting |= {server for server, _ in lists.templates}
        if len(fitting) == 1:
            return fitting.pop(), uri
        if fitting:
            named = " or ".join(_qualified(server, uri) for server in sorted(fitting))
            raise InputError(f"several servers may have this resource; read {named}")
        raise InputError("no server here has this resource")

    def has_server_of(self, uri: str, lists: Lists) -> bool:
        """Return whether exactly one server with known lists has the resource."""
        try:
            self.server_of(uri, lists)
        except InputError:
            return False
        return True

    def note_links(self, server: str, result: Mapping[str, Any]) -> None:
        """Record which server sent links to resources, so that clients can read these later."""
        for block in result.get("content") or ():
            if isinstance(block, Mapping) and block.get("type") == "resource_link":
                if len(self._seen_uris) >= _SEEN_URIS:
                    self._seen_uris.clear()
                self._seen_uris[str(block.get("uri"))] = server

    async def subscription(self, uri: str, lists: Lists, *, wanted: bool) -> None:
        """Subscribe to a resource, or, if not `wanted`, end one subscription. Raises `McpAgentError`."""
        server, own = self.server_of(uri, lists)
        link = self.servers.links.get(server)
        if link is None:
            raise InputError(f'server "{server}" is not configured')
        key = (server, own)
        is_first = wanted and not self._subscriptions[key]
        self._subscriptions[key] += 1 if wanted else -1
        is_last = not wanted and self._subscriptions[key] <= 0
        try:
            if is_first or is_last:
                await link.subscription(own, wanted=wanted)
        except McpAgentError:
            self._subscriptions[key] -= 1 if wanted else 0
            raise
        finally:
            self._subscriptions += Counter()


async def _not_called(_: dict[str, Any]) -> ToolOutput:
    raise InputError("a search calls no tool")


def _are_same(
    old: tuple[tuple[str, object], ...], new: tuple[tuple[str, object], ...]
) -> bool:
    """Return whether both have the same servers with identical list objects."""
    return len(old) == len(new) and all(
        one[0] == two[0] and one[1] is two[1] for one, two in zip(old, new, strict=True)
    )


def _by_uri(
    found: Iterator[tuple[str, dict[str, Any]]],
) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return resources by their URI for clients; a URI that several servers list gets the server's name."""
    items = list(found)
    holders = Counter(str(item.get("uri")) for _, item in items)
    named = {}
    for server, item in items:
        uri = str(item.get("uri"))
        shown = uri if holders[uri] == 1 else _qualified(server, uri)
        named[shown] = (server, item)
    return named


def _qualified(server: str, uri: str) -> str:
    return f"{_SCHEME}{quote(server, safe='')}/{quote(uri, safe='')}"


def _fits(template: Mapping[str, Any], uri: str) -> bool:
    try:
        return (
            UriTemplate.parse(str(template.get("uriTemplate"))).match(uri) is not None
        )
    except ValueError:
        return False
