"""Call found tools through one request tool, and describe them at their position in the history.

A request's `tools` precede everything else, so an additional tool costs the cached prefix of a whole conversation,
unless the format can announce found tools. This module keeps the prefix for other formats.
"""

from __future__ import annotations

from dataclasses import replace
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


def is_proxied(plan: ToolPlan, can: Capabilities) -> bool:
    """Return whether found tools are called through `call_tool`: in conversations with search tools."""
    return can.discovery == "call_tool" and any(
        tool.name in SEARCH_NAMES for tool in plan.eager
    )


def proxy_notes(change: Change) -> list[str]:
    """Return notes about the tools that `call_tool` can call from here on."""
    new = [
        f"Call it as call_tool(tool_name, arguments): {as_text(tool)}"
        for tool in change.new
    ]
    return [*new, *redefinition_notes(change)]


def through_call_tool(
    call: ToolCall, sent: object = None
) -> tuple[str, dict[str, Any]]:
    """Return the name and arguments of a call of a found tool.

    A call that was `sent` with other arguments was made natively, by the same model before tools were proxied, and
    stays unchanged.
    """
    if isinstance(sent, str) and '"tool_name"' not in sent:
        return call.name, call.arguments
    return CALL_TOOL.name, {"tool_name": call.name, "arguments": call.arguments}


def unproxied(response: ModelResponse) -> ModelResponse:
    """Return the answer with calls through `call_tool` as calls of the tools; they keep their sent form."""
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
