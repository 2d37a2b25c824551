"""What the agent's tests share: small tools, and reading what a model was sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mcpagent import Agent, Message, Tool, ToolDefinition, ToolOutput, ToolSearch
from mcpagent.history.conversation import Conversation
from mcpagent.models.base import ModelRequest
from mcpagent.models.scripted import ScriptedModel
from mcpagent.tool_search.catalog import Catalog, Listing
from mcpagent.tool_search.session_tools import SessionTools
from mcpagent.values.events import Event
from mcpagent.values.messages import ToolCall, ToolResult

STRING = {"type": "string"}


class CountedTools:
    """A toolset of echoing tools that remembers which were run, with which arguments."""

    def __init__(self, *names: str, server: str = "files") -> None:
        self.ran: list[tuple[str, dict[str, Any]]] = []
        self._tools = [self._tool(name, server) for name in names]

    def _tool(self, name: str, server: str) -> Tool:
        async def run(arguments: dict[str, Any]) -> ToolOutput:
            self.ran.append((f"{server}.{name}", arguments))
            return ToolOutput.of_text(f"{server}.{name} {json.dumps(arguments, sort_keys=True)}")

        schema = {"type": "object", "properties": {"path": STRING}, "required": ["path"]}
        words = name.replace("_", " ")
        return Tool(ToolDefinition(name, f"{words} on {server}", schema, server=server, original_name=name), run)

    async def tools(self) -> list[Tool]:
        return self._tools

    async def __aenter__(self) -> CountedTools:
        return self

    async def __aexit__(self, *error: object) -> None:
        return None


def session_tools(tools: Sequence[Tool], search: ToolSearch | None = None, **options: Any) -> SessionTools:
    """The tools of a session over these; `descriptions` are the servers', all else goes to `SessionTools`."""
    search = search or ToolSearch(enabled=False)
    listing = Listing(tuple(tools), options.pop("descriptions", {}), options.pop("unavailable", {}))
    conversation = options.pop("conversation", None) or Conversation()
    return SessionTools(Catalog(listing, search), conversation, search=search, **options)


def call(name: str, identity: str = "", **arguments: Any) -> ToolCall:
    return ToolCall(identity or f"call_{name}", name, arguments)


def offered(request: ModelRequest) -> list[str]:
    return [tool.name for tool in request.tools]


def results(messages: Sequence[Message]) -> list[ToolResult]:
    return [result for message in messages for result in message.tool_results]


def searching_agent(
    model: ScriptedModel, *toolsets: CountedTools, events: list[Event] | None = None, **options: Any
) -> Agent:
    """An agent in tool search mode; `options` go to `ToolSearch`, but for `pinned`."""
    pinned = options.pop("pinned", ())
    return Agent(
        model,
        tool_search=ToolSearch(**options),
        pre_discovered_tools=pinned,
        on_event=events.append if events is not None else None,
        tools=toolsets,
    )
