"""Announce changed tools in a conversation, as text and as a record in its history; warn the user at the start."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from mcpagent.history.conversation import change_words
from mcpagent.models.tool_changes_in_history import places_of
from mcpagent.prompt.builder import category_line
from mcpagent.tool_search.catalog import Listing, listed_names
from mcpagent.tool_search.search_options import ToolSearch, eager_tool_warnings
from mcpagent.tool_search.session_tools import SessionTools, ToolsUpdate
from mcpagent.tool_search.unique_names import collision_warnings
from mcpagent.utilities.text.safe_text import listed, safe_line
from mcpagent.values.messages import ToolDefinition, ToolsChanged


def announce(
    update: ToolsUpdate,
    before: Listing,
    definitions: Sequence[ToolDefinition],
    tools: SessionTools,
) -> None:
    """Announce to the model how its tools changed, and record it in the history.

    The record has the tools that this change offers, redefines or removes, so that a request never rewrites an earlier
    one. `definitions` are the offered tools with a new definition.
    """
    conversation = tools.conversation
    offered = {tool.name for tool in definitions}
    added = tools.definitions([*update.at_once, *update.changed])
    removed = tuple(name for name in update.gone if name in offered)
    older = (*removed, *update.changed)
    was = places_of(older, definitions, conversation.parts) if older else ()
    joined = tools.joining_provider_search(update.new)
    record = None
    if added or removed or joined:
        record = ToolsChanged(added, removed, was, joined, removed)
    if (
        not tools.searching
    ):  # without search, a tool that is not offered cannot be found
        update = replace(update, new=update.at_once, gone=removed)
    lines = _change_lines(update, before, tools, offered)
    if lines or record is not None:
        conversation.announce("\n".join(lines) or change_words((), ()), record)


def _connecting_lines(before: Listing, now: Listing) -> list[str]:
    """Return a line for each server that began to connect during the conversation."""
    begun = [server for server in now.connecting if server not in before.connecting]
    return [
        f"A server is still connecting: {safe_line(server, 64)}; you are told when its tools can be used."
        for server in begun
    ]


def _failed_lines(before: Listing, now: Listing) -> list[str]:
    """Return a line for each server that was announced as connecting, and has failed."""
    failed = [
        server
        for server in before.connecting
        if server in now.unavailable and server not in now.connecting
    ]
    return [
        f"A server cannot be used: {safe_line(server, 64)} ({safe_line(now.unavailable[server], 120)})."
        for server in failed
    ]


def _change_lines(
    update: ToolsUpdate, before: Listing, tools: SessionTools, offered: Collection[str]
) -> list[str]:
    """Return a line for each server that connected or changed its tools, and lines for all other changed tools.

    `offered` are the names of tools that are offered from now on.
    """
    now = tools.listing
    owner = {name: key.source for key, name in tools.names.items()}
    lines: list[str] = []
    for server in sorted({*before.descriptions, *now.descriptions}):
        theirs = {
            what: [name for name in names if owner.get(name) == server]
            for what, names in (
                ("new", update.new),
                ("gone", update.gone),
                ("changed", update.changed),
            )
        }
        if server not in before.descriptions:
            count = sum(tool.definition.server == server for tool in now.tools)
            line = category_line(server, tools.about(server), count).removeprefix("- ")
            usable = theirs["new"]
            if tools.searching or len(usable) == count:
                lines.append(
                    f"A server has connected, its tools can be used from now on: {line}."
                )
            elif usable:
                some = f"{len(usable)} of its {count} tools can be used from now on"
                lines.append(
                    f"A server has connected, {some}: {safe_line(server, 64)}: {listed(usable)}."
                )
        elif any(theirs.values()):
            parts = "; ".join(
                f"{what}: {listed(names)}" for what, names in theirs.items() if names
            )
            lines.append(f'The server "{server}" changed its tools; {parts}.')
    lines += [*_connecting_lines(before, now), *_failed_lines(before, now)]
    servers = {*before.descriptions, *now.descriptions}
    new, gone, changed = (
        [name for name in names if owner.get(name) not in servers]
        for names in (update.new, update.gone, update.changed)
    )
    if new:
        lines.append(f"More tools can be used from now on: {listed(new)}.")
    withdrawn = [name for name in gone if name in offered]
    if withdrawn or changed:
        lines.append(change_words(withdrawn, changed))
    if hidden := [name for name in gone if name not in offered]:
        lines.append(
            f"Your tools have changed; not to be found any more: {listed(hidden)}."
        )
    return lines


def start_warnings(tools: SessionTools, search: ToolSearch) -> Iterator[str]:
    """Yield a warning for each setting about tools that cannot be intended, judged by the known tools."""
    by_server: dict[str, list[str]] = {name: [] for name in tools.listing.descriptions}
    for tool in tools.known.values():
        if tool.definition.server is not None:
            by_server.setdefault(tool.definition.server, []).append(
                tool.definition.original_name
            )
    yield from eager_tool_warnings(search.eager_tools, by_server)
    yield from collision_warnings(tools.names, listed_names(tools.catalog.tools))
    for name in tools.unknown_pins:
        near = ", ".join(tools.near(name))
        yield f'pre_discovered_tools: no tool "{name}"' + (
            f"; did you mean {near}?" if near else ""
        )
