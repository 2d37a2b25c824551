"""The gateway as an MCP server: the SDK's server, with one handler for each request of a client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import mcp_types as types
from mcp.server import CacheHint, NotificationOptions, Server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpagent.gateway.asking_client import Caller, Client, in_rounds
from mcpagent.gateway.client_requests import Gateway
from mcpagent.gateway.gateway_calls import meta_of
from mcpagent.utilities.version import __version__

if TYPE_CHECKING:
    from mcp.server import InitializationOptions, ServerRequestContext

    Context: TypeAlias = ServerRequestContext[Any, Any]

NAME = "mcpagent-gateway"
SESSION_HEADER = "mcp-session-id"
_EVENTS = {
    "tools": ToolsListChanged,
    "prompts": PromptsListChanged,
    "resources": ResourcesListChanged,
}
_CACHED = (
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "server/discover",
)


async def _whole(
    handler: Callable[[Context, Any], Awaitable[Any]], context: Context, params: Any
) -> Any:
    """Return a handler's result with the `resultType` field of results in the 2026 protocol."""
    result = await handler(context, params)
    if (
        isinstance(result, dict)
        and context.protocol_version in MODERN_PROTOCOL_VERSIONS
    ):
        return {"resultType": "complete", **result}
    return result


class _Server(Server[Any]):
    """The SDK's server, with instructions computed for each client, and with notifications about changed lists."""

    def __init__(
        self, *names: str, described: Callable[[], str | None], **options: Any
    ) -> None:
        super().__init__(*names, **options)
        self._described = described

    @property
    def instructions(self) -> str | None:
        """The description of the servers for a client's model."""
        return self._described()

    @instructions.setter
    def instructions(self, text: str | None) -> None:
        """Ignore the text of the SDK's constructor."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *others: Any
    ) -> InitializationOptions:
        """Return the answer to a client's `initialize` request."""
        changes = NotificationOptions(
            prompts_changed=True, resources_changed=True, tools_changed=True
        )
        return super().create_initialization_options(
            notification_options or changes, *others
        )


class GatewayServer:
    """The handlers of one gateway. `principal_of` returns the sender of an HTTP request without a session."""

    def __init__(
        self,
        gateway_of: Callable[[GatewayServer], Gateway],
        principal_of: Callable[[Context], str] = lambda _: "",
    ) -> None:
        self._bus = InMemorySubscriptionBus()
        self._listening = ListenHandler(self._bus)
        self._working: set[asyncio.Future[None]] = set()
        self._principal_of = principal_of
        self.gateway = gateway_of(self)
        hints: Any = {method: CacheHint() for method in _CACHED}
        self.server = _Server(
            NAME, version=__version__, cache_hints=hints, described=self._described
        )
        for method, params_type, handler in self._handlers():
            whole = partial(_whole, handler)
            self.server.add_request_handler(method, params_type, whole)
        self.server.add_notification_handler(
            "notifications/roots/list_changed",
            types.NotificationParams,
            self._roots_changed,
        )

    def _described(self) -> str | None:
        return self.gateway.instructions() or None

    def _handlers(
        self,
    ) -> list[tuple[str, type[Any], Callable[[Context, Any], Awaitable[Any]]]]:
        page = types.PaginatedRequestParams
        return [
            ("tools/list", page, self._tools),
            ("tools/call", types.CallToolRequestParams, self._call),
            ("prompts/list", page, self._prompts),
            ("prompts/get", types.GetPromptRequestParams, self._prompt),
            ("resources/list", page, self._resources),
            ("resources/templates/list", page, self._templates),
            ("resources/read", types.ReadResourceRequestParams, self._resource),
            ("resources/subscribe", types.SubscribeRequestParams, self._subscribe),
            (
                "resources/unsubscribe",
                types.UnsubscribeRequestParams,
                self._unsubscribe,
            ),
            (
                "subscriptions/listen",
                types.SubscriptionsListenRequestParams,
                self._listen,
            ),
            ("completion/complete", types.CompleteRequestParams, self._complete),
            ("logging/setLevel", types.SetLevelRequestParams, self._set_level),
        ]

    # --- changes, for clients of 2026 ---

    def list_changed(self, what: str) -> None:
        """Report a changed list to the clients that subscribed to it."""
        self._publish(_EVENTS[what]())

    def updated(self, uri: str) -> None:
        """Report a changed resource to the clients that subscribed to it."""
        self._publish(ResourceUpdated(uri))

    def _publish(self, event: Any) -> None:
        self._in_background(self._bus.publish(event))

    def _in_background(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    # --- clients ---

    def client(self, context: Context) -> Client:
        """Return the client of a request."""
        client = self.gateway.client(self._key(context))
        client.note(context)
        return client

    def _key(self, context: Context) -> str:
        """Return the key of a request's client: its sender and session.

        The 2026 protocol has no sessions: its clients are distinguished by capabilities, and a session header is
        ignored.
        """
        if context.request is None:
            return ""
        sender = self._principal_of(context)
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return json.dumps([sender, context.request.headers.get(SESSION_HEADER)])
        can = context.session.client_capabilities
        shown = can.model_dump(mode="json", exclude_none=True) if can else {}
        return json.dumps([sender, shown], sort_keys=True)

    @contextmanager
    def _called(self, context: Context) -> Iterator[Caller]:
        client = self.client(context)
        client.open += 1
        if client.is_modern:
            meta = dict[str, Any](context.meta or {})
            level = meta.get(types.LOG_LEVEL_META_KEY)
        else:
            level = client.level or "info"
        assert context.request_id is not None
        try:
            yield Caller(client, context.session, context.request_id, level)
        finally:
            client.open -= 1

    async def _in_rounds(
        self,
        context: Context,
        params: Any,
        start: Callable[[Caller], Awaitable[dict[str, Any]]],
    ) -> dict[str, Any]:
        with self._called(context) as caller:
            try:
                return await in_rounds(caller, params, start)
            finally:
                await caller.client.flushed()

    # --- requests ---

    async def _tools(self, context: Context, _: Any) -> dict[str, Any]:
        return {"tools": await self.gateway.list_tools(self.client(context))}

    async def _prompts(self, context: Context, _: Any) -> dict[str, Any]:
        return {"prompts": await self.gateway.list_prompts(self.client(context))}

    async def _resources(self, context: Context, _: Any) -> dict[str, Any]:
        return {"resources": await self.gateway.list_resources(self.client(context))}

    async def _templates(self, context: Context, _: Any) -> dict[str, Any]:
        templates = await self.gateway.list_templates(self.client(context))
        return {"resourceTemplates": templates}

    async def _call(
        self, context: Context, params: types.CallToolRequestParams
    ) -> dict[str, Any]:
        async def start(caller: Caller) -> dict[str, Any]:
            arguments = params.arguments or {}
            return await self.gateway.call(
                caller, params.name, arguments, meta_of(params)
            )

        return await self._in_rounds(context, params, start)

    async def _prompt(
        self, context: Context, params: types.GetPromptRequestParams
    ) -> dict[str, Any]:
        async def start(caller: Caller) -> dict[str, Any]:
            return await self.gateway.get_prompt(caller, params)

        return await self._in_rounds(context, params, start)

    async def _resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> dict[str, Any]:
        async def start(caller: Caller) -> dict[str, Any]:
            return await self.gateway.read_resource(caller, params)

        return await self._in_rounds(context, params, start)

    async def _complete(
        self, context: Context, params: types.CompleteRequestParams
    ) -> dict[str, Any]:
        with self._called(context) as caller:
            return await self.gateway.complete(caller, params)

    async def _subscribe(
        self, context: Context, params: types.SubscribeRequestParams
    ) -> dict[str, Any]:
        await self.gateway.subscribe(self.client(context), str(params.uri), wanted=True)
        return {}

    async def _unsubscribe(
        self, context: Context, params: types.UnsubscribeRequestParams
    ) -> dict[str, Any]:
        await self.gateway.subscribe(
            self.client(context), str(params.uri), wanted=False
        )
        return {}

    async def _listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> Any:
        client, wanted = self.client(context), params.notifications
        uris = [str(uri) for uri in wanted.resource_subscriptions or ()]
        client.follows_lists = client.follows_lists or bool(wanted.tools_list_changed)
        client.open += 1
        try:
            await self.gateway.listen(client, uris)
            return await self._listening(context, params)
        finally:
            client.open -= 1
            # A cancelled request cannot wait for servers here.
            self._in_background(self.gateway.end_listening(client, uris))

    async def _set_level(
        self, context: Context, params: types.SetLevelRequestParams
    ) -> dict[str, Any]:
        await self.gateway.set_level(self.client(context), params.level)
        return {}

    async def _roots_changed(self, context: Context, _: Any) -> None:
        await self.gateway.roots_changed(self.client(context))
