"""What one server offers besides tools: prompts, resources, subscriptions to them, and values for their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mcpagent.errors import ServerError
from mcpagent.mcp.calls import Calls
from mcpagent.mcp.failures import CallTimeoutError, LostError, RefusedError
from mcpagent.mcp.lists import PromptInfo, ResourceInfo
from mcpagent.mcp.reconnecting import Reconnecting
from mcpagent.safe_text import safe_line
from mcpagent.tools import ToolOutput

if TYPE_CHECKING:
    from mcpagent.mcp.connection import McpConnection


class Offers:
    """Requests for them, by the connection that there is."""

    def __init__(self, server: str, line: Reconnecting, calls: Calls) -> None:
        self._server = server
        self._line = line
        self._calls = calls
        self._subscribed: dict[str, None] = {}

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> ToolOutput:
        import mcp_types as types

        from mcpagent.mcp.content import output_of_prompt

        params = types.GetPromptRequestParams(name=name, arguments=dict(arguments))
        result = await self._calls.outcome(types.GetPromptRequest(params=params), name, is_repeatable=True)
        return await self._calls.shown(output_of_prompt, result) if isinstance(result, dict) else result

    async def get_resource(self, uri: str) -> ToolOutput:
        import mcp_types as types

        from mcpagent.mcp.content import output_of_resource

        params = types.ReadResourceRequestParams(uri=uri)
        result = await self._calls.outcome(types.ReadResourceRequest(params=params), uri, is_repeatable=True)
        return await self._calls.shown(output_of_resource, result) if isinstance(result, dict) else result

    async def complete(
        self, of: PromptInfo | ResourceInfo, argument: str, value: str, known: Mapping[str, str]
    ) -> tuple[str, ...]:
        """Nothing where the server has no proposals, or fails."""
        from mcpagent.mcp.completing import completion_request, values_of

        try:
            connection = await self._line.get()
            if (capabilities := connection.session.server_capabilities) is None or capabilities.completions is None:
                return ()
            request = completion_request(of, argument, value, known)
            return values_of(await connection.request(request, limits=self._calls.limits))
        except (RefusedError, CallTimeoutError, ServerError):
            return ()

    async def subscription(self, uri: str, *, wanted: bool) -> None:
        """Takes a subscription, which is kept over restarts, or takes it back. Raises `ServerError`."""
        connection = await self._line.get()
        try:
            await (connection.subscribe(uri) if wanted else connection.unsubscribe(uri))
        except (RefusedError, CallTimeoutError) as error:
            what = f'server "{self._server}" takes no subscription to {safe_line(uri, 200)}: {safe_line(str(error))}'
            raise ServerError(what, server=self._server, phase="resources/subscribe") from None
        if wanted:
            self._subscribed[uri] = None
        else:
            self._subscribed.pop(uri, None)

    async def subscribe_again(self, connection: McpConnection, warn: Callable[[str], None]) -> None:
        """What was subscribed to, over a new connection; one that is refused is a warning."""
        for uri in self._subscribed:
            try:
                await connection.subscribe(uri)
            except (RefusedError, CallTimeoutError, LostError) as error:
                warn(f"took no new subscription to {safe_line(uri, 200)}: {error}")
