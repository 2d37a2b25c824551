"""Restore the catalogue snapshot of a conversation that began in another process, to announce the differences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mcpagent.models.tool_changes_in_history import READER_NAMES
from mcpagent.tool_search.catalog import Listing
from mcpagent.values.messages import Part, ToolDefinition, ToolKey, ToolsChanged
from mcpagent.values.tools import Tool, ToolOutput

_OWN = frozenset(ToolKey(None, name, name) for name in READER_NAMES)
"""The keys of the runtime's own tools, which no catalogue contains."""


def told_last(
    offered: Sequence[ToolDefinition], parts: Iterable[Part]
) -> dict[ToolKey, ToolDefinition]:
    """Return the last definition of each tool that the model received: from the start, or later through the history."""
    told = {definition.key: definition for definition in offered}
    for part in parts:
        if isinstance(part, ToolsChanged):
            told = {
                key: definition
                for key, definition in told.items()
                if definition.name not in part.removed
            }
            told |= {definition.key: definition for definition in part.added}
    return {key: definition for key, definition in told.items() if key not in _OWN}


def listing_as_begun(
    now: Listing,
    told: Mapping[ToolKey, ToolDefinition],
    found: Collection[ToolKey],
    *,
    lost: Collection[ToolKey],
    descriptions: Mapping[str, str],
    connecting: Sequence[str],
    searching: bool,
    newly_offered: Collection[ToolKey],
    known: Collection[ToolKey] | None = None,
) -> Listing:
    """Return the listing at the time of the conversation's last request: the tools in `told`, with these definitions.

    `found` are the tools that the history mentions, `lost` those among them that became unavailable. If the model has
    to search (`searching`), it does not know the other tools. `known` are the tools that existed then; with None,
    current tools count as known if their server existed then. Other tools are new if they will be offered now
    (`newly_offered`), or if the model does not search.
    """
    then = dict(told)
    if searching and known is not None:
        there, servers = {tool.definition.key for tool in now.tools}, now.descriptions
        went = (
            key
            for key in known
            if key not in there and key not in lost and _was_there(key, servers)
        )
        then |= {
            key: _only_named(key) for key in sorted(went, key=str) if key not in then
        }
    tools: list[Tool] = []
    for tool in now.tools:
        key = tool.definition.key
        if (was := then.pop(key, None)) is not None:
            same = replace(
                was, name=tool.definition.name, listed=tool.definition.listed
            )
            tools.append(
                tool if same == tool.definition else replace(tool, definition=same)
            )
        elif key in lost:
            continue
        elif key in found or (
            searching
            and key not in newly_offered
            and (_was_there(key, descriptions) if known is None else key in known)
        ):
            tools.append(tool)
    tools += [Tool(was, _gone) for was in then.values()]
    if len(tools) == len(now.tools) and all(
        one is two for one, two in zip(tools, now.tools, strict=True)
    ):
        tools_then: tuple[Tool, ...] = now.tools
    else:
        tools_then = tuple(tools)
    return replace(
        now, tools=tools_then, descriptions=descriptions, connecting=tuple(connecting)
    )


def _only_named(key: ToolKey) -> ToolDefinition:
    """Return a definition with only a name, for a missing tool whose definition was never announced."""
    name = key.listed or key.name
    return ToolDefinition(
        name, "", {}, original_name=key.name, source=key.source or "", listed=key.listed
    )


def _was_there(key: ToolKey, descriptions: Mapping[str, str]) -> bool:
    return key.source is None or key.source in descriptions


async def _gone(arguments: dict[str, Any]) -> ToolOutput:  # noqa: ARG001 - as every tool
    """Return an error. Never called in practice, because a missing tool is removed before the next request."""
    return ToolOutput.of_text("This tool is not there any more.", error="unknown_tool")
