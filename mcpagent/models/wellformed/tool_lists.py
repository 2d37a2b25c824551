"""Adapt lists of tools to servers with stricter rules: short descriptions, and a placeholder tool for earlier calls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mcpagent.models.failures_and_retries import Failure

_LENGTH = re.compile(r"maximum length ([0-9]{2,6})")

_HOLDING_TOOLS = ("tools", "function")

PLACEHOLDER: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "no_tool",
        "description": "There is no tool to call now.",
        "parameters": {"type": "object", "properties": {}},
    },
}
"""A placeholder tool for a request that has no tools, but calls in its history."""


def refused_description(failure: Failure) -> int | None:
    """Return the maximum length of a tool's description if the failure refuses a longer one; else None."""
    named = f"{failure.param} {failure.message}"
    found = _LENGTH.search(failure.message)
    if found and re.search(r"tools\W.{0,40}description", named):
        return int(found[1])
    return None


def with_short_descriptions(value: Any, longest: int) -> Any:
    """Return tools, or a body with tools, with descriptions of at most `longest` characters."""
    if isinstance(value, list):
        return [with_short_descriptions(one, longest) for one in value]
    if not isinstance(value, Mapping):
        return value
    made = dict(value)
    for name in _HOLDING_TOOLS:
        if name in made:
            made[name] = with_short_descriptions(made[name], longest)
    description = made.get("description")
    if isinstance(description, str) and len(description) > longest:
        made["description"] = (
            f"{description[: longest - 1].rstrip()}\N{HORIZONTAL ELLIPSIS}"
        )
    items = made.get("input")
    if isinstance(items, list):  # found tools are separate input items
        made["input"] = [
            with_short_descriptions(item, longest) if "tools" in item else item
            for item in items
        ]
    return made


def wants_tools(failure: Failure) -> bool:
    """Return whether the failure demands tools in a request whose history has calls.

    Messages of LiteLLM for Anthropic and Bedrock (anomalyco/opencode#2915), and of Bedrock's Converse behind gateways.
    """
    return "without `tools=` param" in failure.message or (
        "toolConfig field must be defined" in failure.message
    )


def with_placeholder(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Chat Completions body with a placeholder tool if only its history has calls."""
    messages = body.get("messages")
    if body.get("tools") or not isinstance(messages, list):
        return dict(body)
    for message in messages:
        if message.get("tool_calls"):
            return {**body, "tools": [PLACEHOLDER], "tool_choice": "none"}
    return dict(body)
