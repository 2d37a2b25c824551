"""A gateway: its clients, the servers of each client, and the clients' requests."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import mcp_types as types
from mcp import MCPError

from mcpagent.config import ServersConfig
from mcpagent.errors import InputError, McpAgentError
from mcpagent.gateway.asking_client import Caller, Client
from mcpagent.gateway.gateway_calls import (
    OUTCOME,
    RESOURCE_NOT_FOUND,
    call_on_server,
    error_result,
    forward,
)
from mcpagent.gateway.gateway_log import GatewayEvent, GatewayLog
from mcpagent.gateway.gateway_modes import (
    ADD,
    CALLS,
    RUN_CODE,
    SEARCH_TOOLS,
    Found,
    add_tools,
    called_tool,
    has_tools,
    is_client_tool,
    mode_of,
    search_for_client,
    tools_for,
    tools_named,
)
from mcpagent.gateway.gateway_options import GatewayOptions
from mcpagent.gateway.offered_tools import OfferedTool
from mcpagent.gateway.programs_for_clients import Programs
from mcpagent.gateway.upstreams import Lists, Upstreams
from mcpagent.mcp.server_notifications import ServerNews
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.prompt.builder import category_lines
from mcpagent.tool_search.search_options import definition_tokens
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import Emit, ignore
from mcpagent.values.messages import ToolDefinition

OnUpdate = Callable[[str], None]
OnListChange = Callable[[str], None]


class Gateway:
    """One gateway, to be entered once. `is_shared`: several clients use it, so clients that answer server requests get
    their own servers.

    `on_list_change` and `on_update` report changes to clients of the 2026 protocol, which subscribe to them: the name
    of a list, or the URI of a resource.
    """

    def __init__(
        self,
        config: ServersConfig,
        servers: ServerOptions,
        options: GatewayOptions,
        *,
        is_shared: bool = False,
        emit: Emit = ignore,
        on_list_change: OnListChange = lambda _: None,
        on_update: OnUpdate = lambda _: None,
    ) -> None:
        self.options = options
        self.clients: dict[str, Client] = {}
        self.log = GatewayLog(options.log)
        self._config = config
        self._servers = servers
        self._is_shared = is_shared
        self._emit = emit
        self._on_list_change = on_list_change
        self._on_update = on_update
        self._own: dict[str, Upstreams] = {}
        self._programs: dict[str, Programs] = {}
        self._opening = asyncio.Lock()
        self._forgetting: asyncio.Task[None] | None = None
        self._only = Client("only")
        self._common = self._upstreams(None if is_shared else self._only)

    def _upstreams(self, client: Client | None) -> Upstreams:
        return Upstreams(
            self._config,
            self._servers,
            self.options,
            client=client,
            emit=self._emit,
            on_change=self._lists_changed,
            on_news=self._heard,
        )

    async def __aenter__(self) -> Gateway:
        await self._common.open()
        if self._is_shared:
            self._forgetting = asyncio.create_task(self._forget_gone())
        self.log.add(GatewayEvent("start"))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._forgetting is not None:
            self._forgetting.cancel()
            await asyncio.gather(self._forgetting, return_exceptions=True)
        for client in [*self.clients.values(), self._only]:
            for parked in client.parked.values():
                parked.work.cancel()
        for programs in self._programs.values():
            await programs.close()
        await asyncio.gather(
            self._common.close(), *(own.close() for own in self._own.values())
        )
        self.log.add(GatewayEvent("end"))
        self.log.close()

    def instructions(self) -> str:
        """Return what a client's model should know about the servers, from the lists that are known."""
        lists = self._common.lists()
        assert lists.session is not None
        lines = category_lines(lists.session.categories())
        if not lines:
            return ""
        return "The tools of these servers can be searched:\n" + "\n".join(lines)

    def client(self, key: str) -> Client:
        """Return the client with this key; its first request creates it."""
        if not self._is_shared:
            return self._only
        return self.clients.setdefault(key, Client(key))

    async def upstreams_of(self, client: Client) -> Upstreams:
        """Return the servers for a client: its own if it answers server requests, otherwise those that all clients
        share.
        """
        if not self._is_shared or not client.methods():
            return self._common
        async with self._opening:
            if client.key not in self._own:
                own = self._upstreams(client)
                await own.open()
                self._own[client.key] = own
        return self._own[client.key]

    async def _forget_gone(self) -> None:
        """Remove clients that sent no request for `gone_seconds`, and stop their own servers."""
        loop, gone_seconds = asyncio.get_running_loop(), self.options.gone_seconds
        while True:
            await asyncio.sleep(gone_seconds / 4)
            gone = [
                key
                for key, client in self.clients.items()
                if loop.time() - client.used_at >= gone_seconds and not client.is_busy
            ]
            await self._forget(gone)

    async def _forget(self, keys: Sequence[str]) -> None:
        for key in keys:
            client = self.clients.pop(key)
            if (own := self._own.pop(key, None)) is not None:
                await own.close()
            if (programs := self._programs.pop(key, None)) is not None:
                await programs.close()
            for parked in client.parked.values():
                parked.work.cancel()

    # --- lists ---

    async def list_tools(self, client: Client) -> list[dict[str, Any]]:
        """Return the definitions for a client. In mode "all", wait for servers without a known list."""
        upstreams = await self.upstreams_of(client)
        if mode_of(client, self.options) == "all":
            await upstreams.settled()
        lists = upstreams.lists()
        listed = tools_for(client, self.options, lists)
        client.listed["tools"] = listed
        known = sum(_tokens(tool.wire) for tool in lists.tools.values())
        tokens = sum(map(_tokens, listed))
        self.log.add(
            GatewayEvent("list", client.name, known_tokens=known, listed_tokens=tokens)
        )
        return listed

    async def list_prompts(self, client: Client) -> list[dict[str, Any]]:
        """Return the prompts of all servers under their offered names."""
        lists = (await self.upstreams_of(client)).lists()
        listed = lists.listed_prompts()
        client.listed["prompts"] = listed
        return listed

    async def list_resources(self, client: Client) -> list[dict[str, Any]]:
        """Return the resources of all servers."""
        lists = (await self.upstreams_of(client)).lists()
        listed = lists.listed_resources()
        client.listed["resources"] = listed
        return listed

    async def list_templates(self, client: Client) -> list[dict[str, Any]]:
        """Return the resource templates of all servers."""
        lists = (await self.upstreams_of(client)).lists()
        return [item for _, item in lists.templates]

    # --- calls ---

    async def call(
        self,
        caller: Caller,
        name: str,
        arguments: dict[str, Any],
        meta: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Answer a client's call of a tool of the gateway or of a server."""
        client = caller.client
        upstreams = await self.upstreams_of(client)
        mode = mode_of(client, self.options)
        has_named = partial(has_tools, tools_named(name, arguments))
        lists = await upstreams.lists_with(has_named)
        if is_client_tool(name, client, self.options, lists):
            listed = lists.tools[name]
            return await self._called(upstreams, caller, listed, arguments, meta)
        if mode == "code" and name in (SEARCH_TOOLS, RUN_CODE):
            return await self._in_code(upstreams, caller, name, arguments)
        if mode in ("search", "add") and name in (SEARCH_TOOLS, *CALLS):
            return await self._by_search(
                upstreams, lists, caller, name, arguments, meta
            )
        if mode == "add" and name == ADD:
            return self._added(client, lists, arguments)
        text = f'no tool "{safe_line(name, 80)}" is listed; ask for the list again'
        raise MCPError(code=types.INVALID_PARAMS, message=text)

    def _added(
        self, client: Client, lists: Lists, arguments: dict[str, Any]
    ) -> dict[str, Any]:
        result = add_tools(client, arguments, lists)
        self._report_lists(client, lists)
        return result

    async def _in_code(
        self, upstreams: Upstreams, caller: Caller, name: str, arguments: dict[str, Any]
    ) -> dict[str, Any]:
        await upstreams.settled()
        programs = self._programs_of(caller.client, upstreams)
        return await programs.call(caller, name, arguments)

    async def _by_search(
        self,
        upstreams: Upstreams,
        lists: Lists,
        caller: Caller,
        name: str,
        arguments: dict[str, Any],
        meta: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Run the search, or call a tool that a search found."""
        if name == SEARCH_TOOLS:
            return await self._searched(caller.client, lists, upstreams, arguments)
        called = await called_tool(name, arguments, lists)
        if isinstance(called, dict):
            return called
        return await self._called(upstreams, caller, *called, meta)

    async def _searched(
        self,
        client: Client,
        lists: Lists,
        upstreams: Upstreams,
        arguments: dict[str, Any],
    ) -> dict[str, Any]:
        found: Found = await search_for_client(lists, arguments)
        if not found.found and upstreams.lists() is not lists:
            found = await search_for_client(upstreams.lists(), arguments)
        outcome = "found" if found.found else "nothing"
        event = GatewayEvent(
            "search", client.name, query=found.query[:200], outcome=outcome
        )
        self.log.add(event)
        return found.result

    async def _called(
        self,
        upstreams: Upstreams,
        caller: Caller,
        tool: OfferedTool,
        arguments: dict[str, Any],
        meta: Mapping[str, Any],
    ) -> dict[str, Any]:
        started = time.perf_counter()
        outcome = "cancelled"
        try:
            result = await call_on_server(upstreams, caller, tool, arguments, meta)
            outcome = str((result.get("_meta") or {}).get(OUTCOME, "answered"))
            return result
        except MCPError:
            outcome = "refused"
            raise
        finally:
            seconds = time.perf_counter() - started
            name = caller.client.name
            event = GatewayEvent(
                "call", name, tool.name, outcome=outcome, seconds=seconds
            )
            self.log.add(event)

    def _programs_of(self, client: Client, upstreams: Upstreams) -> Programs:
        if client.key not in self._programs:
            self._programs[client.key] = Programs(
                lambda: upstreams.lists().tools,
                self.call_for_program,
                upstreams,
            )
        return self._programs[client.key]

    async def call_for_program(
        self, upstreams: Upstreams, caller: Caller, name: str, arguments: dict[str, Any]
    ) -> dict[str, Any]:
        """Call a tool for a client's program; a server's error is a result."""
        tool = upstreams.lists().tools.get(name)
        if tool is None:
            return error_result(f'no tool "{safe_line(name, 80)}"', "not_sent")
        try:
            return await self._called(upstreams, caller, tool, arguments, {})
        except MCPError as error:
            return error_result(error.error.message, "refused")

    # --- prompts, resources, completion ---

    async def get_prompt(
        self, caller: Caller, params: types.GetPromptRequestParams
    ) -> dict[str, Any]:
        """Return a filled prompt from the server that has it."""
        upstreams = await self.upstreams_of(caller.client)
        lists = await upstreams.lists_with(lambda lists: params.name in lists.prompts)
        server, name = self._prompt(params.name, lists)
        sent = types.GetPromptRequestParams(name=name, arguments=params.arguments)
        request = types.GetPromptRequest(params=sent)
        return await forward(upstreams, caller, server, request, name)

    def _prompt(self, name: str, lists: Lists) -> tuple[str, str]:
        if name not in lists.prompts:
            text = f'no prompt "{safe_line(name, 80)}"'
            raise MCPError(code=types.INVALID_PARAMS, message=text)
        server, item = lists.prompts[name]
        return server, str(item["name"])

    async def read_resource(
        self, caller: Caller, params: types.ReadResourceRequestParams
    ) -> dict[str, Any]:
        """Return the contents of a resource from the server that has it."""
        upstreams = await self.upstreams_of(caller.client)
        lists = await upstreams.lists_with(
            partial(upstreams.has_server_of, str(params.uri))
        )
        server, uri = self._resource(params.uri, lists, upstreams)
        sent = types.ReadResourceRequestParams(uri=uri)
        request = types.ReadResourceRequest(params=sent)
        return await forward(upstreams, caller, server, request, uri)

    def _resource(
        self, uri: str, lists: Lists, upstreams: Upstreams
    ) -> tuple[str, str]:
        try:
            return upstreams.server_of(str(uri), lists)
        except InputError as error:
            data = {"uri": str(uri)}
            raise MCPError(
                code=RESOURCE_NOT_FOUND, message=str(error), data=data
            ) from None

    async def complete(
        self, caller: Caller, params: types.CompleteRequestParams
    ) -> dict[str, Any]:
        """Return completions from the server that has the prompt or template."""
        upstreams = await self.upstreams_of(caller.client)
        lists = upstreams.lists()
        ref = params.ref
        if isinstance(ref, types.PromptReference):
            server, name = self._prompt(ref.name, lists)
            own = params.model_copy(
                update={"ref": ref.model_copy(update={"name": name})}
            )
        else:
            server = self._template(ref.uri, lists, upstreams)
            own = params
        own = own.model_copy(update={"meta": None})
        request = types.CompleteRequest(params=own)
        return await forward(upstreams, caller, server, request, "")

    def _template(self, uri: str, lists: Lists, upstreams: Upstreams) -> str:
        holders = {
            server for server, item in lists.templates if item.get("uriTemplate") == uri
        }
        if len(holders) == 1:
            return holders.pop()
        return self._resource(uri, lists, upstreams)[0]

    async def subscribe(self, client: Client, uri: str, *, wanted: bool) -> None:
        """Subscribe a client to a resource, or, if not `wanted`, end the subscription. Raises `MCPError`."""
        upstreams = await self.upstreams_of(client)
        lists = upstreams.lists()
        key = self._resource(uri, lists, upstreams)
        if wanted == (key in client.subscribed):
            return
        client.subscribed.pop(key, None)
        try:
            await upstreams.subscription(uri, lists, wanted=wanted)
        except McpAgentError as error:
            raise MCPError(code=types.INVALID_PARAMS, message=str(error)) from None
        if wanted:
            client.subscribed[key] = uri

    async def listen(self, client: Client, uris: Sequence[str]) -> None:
        """Subscribe a client of the 2026 protocol to resources for the duration of a request. Raises `MCPError`."""
        client.listening.update(uris)
        for uri in uris:
            await self.subscribe(client, uri, wanted=True)

    async def end_listening(self, client: Client, uris: Sequence[str]) -> None:
        """End the subscriptions that no other request of the client needs."""
        client.listening.subtract(uris)
        for uri in uris:
            if client.listening[uri] <= 0:
                del client.listening[uri]
                with contextlib.suppress(MCPError):
                    await self.subscribe(client, uri, wanted=False)

    async def set_level(self, client: Client, level: types.LoggingLevel) -> None:
        """Request log messages of this level from the client's servers, or of a lower level that another client
        needs.
        """
        client.level = level
        upstreams = await self.upstreams_of(client)
        levels = {one.level for one in self._clients_of(upstreams)} | {level}
        lowest = next(one for one in _LEVELS if one in levels)
        for link in upstreams.servers.links.values():
            await link.set_log_level(lowest)

    async def roots_changed(self, client: Client) -> None:
        """Notify the client's servers that its roots changed."""
        upstreams = await self.upstreams_of(client)
        for link in upstreams.servers.links.values():
            await link.notify_roots_changed()

    # --- notifications ---

    def _clients_of(self, upstreams: Upstreams) -> list[Client]:
        if not self._is_shared:
            return [self._only]
        own = {key for key, value in self._own.items() if value is upstreams}
        if upstreams is not self._common:
            return [client for key, client in self.clients.items() if key in own]
        return [client for client in self.clients.values() if not client.methods()]

    def _lists_changed(self, upstreams: Upstreams) -> None:
        for client in self._clients_of(upstreams):
            self._report_lists(client, upstreams.lists())

    def _report_lists(self, client: Client, lists: Lists) -> None:
        """Notify the client of the lists that differ from those that it last received."""
        now = {
            "tools": tools_for(client, self.options, lists),
            "prompts": lists.listed_prompts(),
            "resources": lists.listed_resources(),
        }
        for what, listed in now.items():
            if what in client.listed and client.listed[what] != listed:
                client.listed[what] = listed
                client.notify(f"notifications/{what}/list_changed")
                self._on_list_change(what)

    def _heard(self, upstreams: Upstreams, server: str, news: ServerNews) -> None:
        for client in self._clients_of(upstreams):
            if news.kind == "resource":
                uri = client.subscribed.get((server, str(news.params.get("uri"))))
                if uri is not None:
                    client.notify("notifications/resources/updated", {"uri": uri})
                    self._on_update(uri)
            elif news.kind == "log":
                self._pass_on_log(upstreams, client, server, news)

    def _pass_on_log(
        self, upstreams: Upstreams, client: Client, server: str, news: ServerNews
    ) -> None:
        params = {**news.params, "logger": f"{server}.{news.params.get('logger', '')}"}
        params["logger"] = params["logger"].rstrip(".")
        if not client.is_modern:
            if _reaches(news.level, client.level):
                client.notify("notifications/message", params)
            return
        for caller in upstreams.calls.callers(server):
            if caller.log_level and _reaches(news.level, caller.log_level):
                message = {"method": "notifications/message", "params": params}
                client.send(caller.session, message, caller.request_id)


_LEVELS: tuple[types.LoggingLevel, ...] = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)


def _reaches(level: str, least: str | None) -> bool:
    if least is None or level not in _LEVELS:
        return True
    return _LEVELS.index(level) >= _LEVELS.index(least)


def _tokens(wire: dict[str, Any]) -> int:
    return definition_tokens(
        ToolDefinition(
            str(wire["name"]), str(wire.get("description", "")), wire["inputSchema"]
        )
    )
