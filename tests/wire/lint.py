"""Which deferred tools a model can call without having been shown their schema: there must never be one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mcpagent.models.tool_changes_in_history import as_text
from mcpagent.values.messages import ToolDefinition


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


def unread(body: Mapping[str, Any], offered: Iterable[ToolDefinition]) -> list[str]:
    """The offered tools whose definition, as it is now, the model cannot have read in this request.

    It reads those in `tools` that are not deferred, deferred ones where something refers to them, those that stand in
    the history, and those that are told in words.
    """
    read = [json.dumps(definition) for definition in _read(body)]
    words = list(_texts([body.get(key) for key in ("messages", "input", "system")]))
    return [
        tool.name
        for tool in offered
        if json.dumps((tool.name, tool.description, tool.parameters)) not in read and not _is_in(as_text(tool), words)
    ]


def _is_in(told: str, texts: Iterable[str]) -> bool:
    return any(told in text for text in texts)


def _read(body: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    referred = set(_shown(body))
    for tool in body.get("tools", ()):
        if not tool.get("defer_loading") or tool["name"] in referred:
            yield from _definitions(tool, deferred=False)
    for turn in body.get("messages", ()):
        for block in turn["content"] if isinstance(turn["content"], list) else ():
            if block["type"] == "tool_addition" and "definition" in block["tool"]:
                yield from _definitions(block["tool"]["definition"], deferred=False)
    for item in body.get("input", ()):
        for tool in item.get("tools", ()):
            yield from _definitions(tool, deferred=item["type"] == "tool_search_output")


def _definitions(tool: Mapping[str, Any], *, deferred: bool) -> Iterator[tuple[Any, ...]]:
    for inner in tool.get("tools", (tool.get("function", tool),)):
        if inner is tool or deferred or not inner.get("defer_loading"):
            schema = inner.get("input_schema", inner.get("parameters"))
            yield (inner.get("name"), inner.get("description"), schema)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)
