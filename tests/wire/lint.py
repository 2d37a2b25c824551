"""Which deferred tools a model can call without having been shown their schema: there must never be one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def callable_unseen(body: Mapping[str, Any]) -> list[str]:
    """The names of such tools in one request to Anthropic or OpenAI.

    A deferred definition that nothing refers to can be called all the same, blind, once its name is known. Where the
    provider searches by itself, or asks us to, it shows what it lets the model call.
    """
    if any("tool_search" in tool.get("type", "") for tool in body.get("tools", ())):
        return []
    shown = set(_shown(body))
    functions = [inner for tool in body.get("tools", ()) for inner in tool.get("tools", (tool,))]
    return [tool["name"] for tool in functions if tool.get("defer_loading") and tool["name"] not in shown]


def _shown(body: Mapping[str, Any]) -> Iterator[str]:
    """What the history of a request to Anthropic refers to, where the provider puts the schema in."""
    for turn in body.get("messages", ()):
        for block in turn["content"] if isinstance(turn["content"], list) else ():
            inner = block.get("content")
            found = inner.get("tool_references", ()) if isinstance(inner, dict) else inner or ()
            yield from (piece["tool_name"] for piece in found if "tool_name" in piece)
            if block["type"] == "tool_addition":
                yield block["tool"].get("name", "")
