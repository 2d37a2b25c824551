"""Call found tools through one proxy tool, `call_tool`, and describe them at their position in the history.

A request's `tools` precede everything else, so an additional tool invalidates the cached prefix of the whole
conversation, unless the API can announce found tools. This module preserves the prefix for other APIs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mcpagent.models.base import ModelResponse
from mcpagent.models.capabilities import Capabilities
from mcpagent.models.tool_changes_in_history import (
    SEARCH_NAMES,
    Change,
    ToolPlan,
    as_text,
    redefinition_notes,
)
from mcpagent.models.wire_values import json_text
from mcpagent.values.messages import ToolCall, ToolDefinition

CALL_TOOL = ToolDefinition(
    "call_tool",
    "Call a tool that was loaded in this conversation, by its name and with the arguments its definition asks for.",
    {
        "type": "object",
        "properties": {
            "tool_name": {"type": "string", "description": "The tool's exact name."},
            "arguments": {
                "type": "object",
                "description": "Its arguments, as its definition says.",
            },
        },
        "required": ["tool_name", "arguments"],
    },
)


NATIVE_BATCHES = 2
"""With "batches": number of searches whose tools are added to `tools`. Each of them invalidates the provider's
cache.
"""


@dataclass(frozen=True, slots=True)
class Proxy:
    """The role of `call_tool` in one request.

    `names` are the found tools that are called through it. `is_offered`: the request has `call_tool` as a tool.
    `in_words`: found tools may be described in the history.
    """

    names: frozenset[str] = frozenset()
    is_offered: bool = False
    in_words: bool = False

    def native(self, plan: ToolPlan) -> list[ToolDefinition]:
        """Return the tools for the request's `tools`: those from the start, and the first found ones."""
        found = [tool for name, tool in plan.found.items() if name not in self.names]
        if self.is_offered:
            return [*plan.eager, *found, CALL_TOOL]
        return [*plan.eager, *found]

    def notes(self, change: Change) -> list[str]:
        """Return notes about tools that `call_tool` can call from here on, and about changed ones."""
        new = [
            f"Call it as call_tool(tool_name, arguments): {as_text(tool)}"
            for tool in change.new
            if tool.name in self.names
        ]
        return [*new, *redefinition_notes(change)]


def proxy_of(plan: ToolPlan, can: Capabilities) -> Proxy:
    """Return which found tools are called through `call_tool`: none in conversations without search tools.

    With "batches", the tools of the first searches are added to `tools`, where models call them best, while a
    conversation is short. `call_tool` is added with the last of these batches, so that it does not invalidate the cache
    by itself.
    """
    if not any(tool.name in SEARCH_NAMES for tool in plan.eager):
        return Proxy()
    if can.discovery == "call_tool":
        return Proxy(frozenset(plan.found), is_offered=True, in_words=True)
    if can.discovery != "batches":
        return Proxy()
    batches = [place for place in sorted(plan.changes) if plan.new_at(place)]
    written = batches[:NATIVE_BATCHES]
    native = {tool.name for place in written for tool in plan.new_at(place)}
    is_full = len(written) == NATIVE_BATCHES
    return Proxy(frozenset(plan.found) - native, is_offered=is_full, in_words=True)


def through_call_tool(
    call: ToolCall, sent: object = None
) -> tuple[str, dict[str, Any]]:
    """Return the call of a found tool as a call of `call_tool`: name and arguments.

    `sent` are the arguments that the model sent. If they are not those of `call_tool`, the model made a native call
    before tools were proxied, and the call stays unchanged.
    """
    if isinstance(sent, str) and '"tool_name"' not in sent:
        return call.name, call.arguments
    return CALL_TOOL.name, {"tool_name": call.name, "arguments": call.arguments}


def unproxied(response: ModelResponse) -> ModelResponse:
    """Return the answer with calls of `call_tool` as calls of the tools themselves. The original form is stored with
    them.
    """
    parts = tuple(
        _unwrapped(part) if isinstance(part, ToolCall) else part
        for part in response.message.parts
    )
    return replace(response, message=replace(response.message, parts=parts))


def _unwrapped(call: ToolCall) -> ToolCall:
    if call.name != CALL_TOOL.name or call.malformed:
        return call
    name, arguments = call.arguments.get("tool_name"), call.arguments.get("arguments")
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return replace(call, arguments={}, malformed=json_text(call.arguments))
    return replace(call, name=name, arguments=arguments)
