"""The tools through which a model finds tools: `search_tools`, `add_tool`, and as options the two others.

They know a session's tools, not the agent. A search changes nothing; adding changes only the
conversation, through the parts that the results carry.
"""

from __future__ import annotations

import asyncio
import json
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from mcpagent.events import Event, ToolsSearched
from mcpagent.messages import Text, ToolDefinition, ToolErrorKind, ToolsChanged, ToolsShown
from mcpagent.models.tool_changes_in_history import places_of
from mcpagent.prompt.builder import category_line, connecting_line
from mcpagent.search.query import MAX_QUERIES, MAX_QUERY
from mcpagent.text.safe_text import safe_line
from mcpagent.tool_search.session_tools import AddOutcome, SessionTools
from mcpagent.tools import Tool, ToolOutput

if TYPE_CHECKING:
    from mcpagent.search import Match, SearchResult

MAX_NAMES_PER_CALL = 50
MAX_LISTED_NAMES = 500
MAX_DESCRIPTION_CHARACTERS = 200


def _definition(name: str, description: str, **properties: dict[str, Any]) -> ToolDefinition:
    """A tool's definition; all its parameters are required."""
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return ToolDefinition(name, description, schema | ({"required": list(properties)} if properties else {}))


def _tool_names(description: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}, "description": description}


def search_tools_definition(*, loads: bool) -> ToolDefinition:
    """What the model is told of `search_tools`; `loads`: what a search finds is loaded at once."""
    after = "are loaded and can be called at once" if loads else "must be added using add_tool"
    query = {"type": "string", "description": "Regex pattern or plain words to search tool names and descriptions"}
    text = f"Search for available tools by name or description. Returns matching tools that {after}."
    return _definition("search_tools", text, query=query)


ADD_TOOL = _definition(
    "add_tool",
    "Add one or more tools to your available tools. Use this after finding tools with search_tools.",
    tool_names=_tool_names("Array of exact names of the tools to add (e.g., ['read_file', 'weather_get'])."),
)
REMOVE_TOOL = _definition(
    "remove_tool",
    "Remove tools you no longer need from your available tools. They can be added again with add_tool.",
    tool_names=_tool_names("Array of names of the tools to remove."),
)
SHOW_ALL_TOOLS = _definition(
    "show_all_tools", "List the names of all available tools by server. Prefer a search, which is much shorter."
)


def tool_search_tools(session: SessionTools) -> tuple[Tool, ...]:
    """The virtual tools of one conversation, in the order they are offered.

    If the model's provider searches, and loads what it found, the first two are not among them.
    """
    loads, local = session.options.load == "search", not session.provider_searches
    tools = (
        (local, search_tools_definition(loads=loads), _search),
        (local and not loads, ADD_TOOL, _add),
        ("show_all_tools" in session.options.extra_tools, SHOW_ALL_TOOLS, _show_all),
        ("remove_tool" in session.options.extra_tools, REMOVE_TOOL, _remove),
    )
    return tuple(
        Tool(definition, partial(run, session), deferred=False, ordered=True, checks_arguments=True)
        for offered, definition, run in tools
        if offered
    )


def _json_output(
    answer: dict[str, Any], changes: tuple[ToolsShown | ToolsChanged, ...] = (), events: tuple[Event, ...] = ()
) -> ToolOutput:
    return ToolOutput((Text(json.dumps(answer, ensure_ascii=False)),), changes=changes, events=events)


async def _search(session: SessionTools, arguments: dict[str, Any]) -> ToolOutput:
    query = _query(arguments)
    if not query:
        told = "query is empty; pass a few words or a regex pattern for what you need"
        return ToolOutput.of_text(json.dumps({"error": told}), error="invalid_arguments")
    started = time.monotonic()
    result = await _found(session, query)
    if not session.known and not session.listing.connecting:
        told = f"There are no tools to search: none is connected.{_down(session)} Do not search again."
        return _json_output({"found": 0, "tools": [], "message": told})
    offered = {tool.name for tool in session.offer()}
    names = tuple(match.tool.name for match in result.matches)
    loads = session.options.load == "search"
    answer = _search_answer(result, session, offered, loads=loads)
    shown_query = (query if isinstance(query, str) else ", ".join(query[:MAX_QUERIES]))[:MAX_QUERY]
    seconds, connecting = time.monotonic() - started, session.listing.connecting
    event = ToolsSearched(shown_query, result.found, names, len(session.known), seconds, connecting)
    new = tuple(name for name in names if name not in offered and name in session.known)
    keys = tuple(match.tool.key for match in result.matches)
    change = ToolsChanged(added=session.definitions(session.fitting(new))) if loads else ToolsShown(names, keys)
    return _json_output(answer, (change,) if names else (), (event,))


async def _found(session: SessionTools, query: str | list[str]) -> SearchResult:
    """What fits; if nothing does well, once more when servers that connect, or change, were waited for."""
    before = session.listing
    result = await session.search(query, session.options.max_results)
    if not result.matches or result.confidence == "low":
        await session.settle()
        if session.listing is not before:
            result = await session.search(query, session.options.max_results)
    return result


def _query(arguments: dict[str, Any]) -> str | list[str]:
    """`query`, or the list that some models send as `query` or `queries`; empty when there is nothing to look for."""
    asked = arguments.get("query") or arguments.get("queries") or arguments.get("pattern") or ""
    if isinstance(asked, list):
        words = [str(item).strip() for item in asked if str(item).strip()]
        return words if len(words) > 1 else "".join(words)
    return str(asked).strip()


def _search_answer(result: SearchResult, session: SessionTools, offered: set[str], *, loads: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {"error": result.error} if result.error else {}
    answer["found"] = result.found
    answer["tools"] = [rendered(match, session, match.tool.name in offered) for match in result.matches]
    if result.how == "fuzzy":
        answer["match"] = "fuzzy"
    if result.matches and result.confidence == "low":
        answer["confidence"] = "low"
    answer["message"] = " ".join((*result.notes, *_advice(result, session, loads=loads)))
    return answer


def _advice(result: SearchResult, session: SessionTools, *, loads: bool) -> list[str]:
    if not result.matches:
        near = f" Nearest names: {', '.join(result.nearest)}." if result.nearest else ""
        lines = [category_line(*category) for category in session.categories()]
        lines += [connecting_line(server) for server in session.listing.connecting]
        categories = "\n".join(lines) or "- none"
        return [f"No tools found matching the pattern.{near}{_down(session)} Available categories:\n{categories}"]
    if result.confidence == "low":
        after = "are loaded: call one" if loads else "can be loaded with 'add_tool'"
        text = (
            "These match only weakly. Read each description closely: the one that does what you need "
            f"{after}; if none does, search once more in other words, or go on without a tool."
        )
        return [text + _connecting(session)]
    after = "They are loaded: call them." if loads else "Use 'add_tool' to load the ones you need."
    advice = [f"Found matching tools. {after}{_connecting(session, is_sure=True)}"]
    if result.found > len(result.matches):
        more = result.found - len(result.matches)
        advice.append(f"{more} more match: narrow with more words, a regex, or a server's name.")
    return advice


def _down(session: SessionTools) -> str:
    connecting = session.listing.connecting
    down = [
        f"{server} ({safe_line(reason, 120)})"
        for server, reason in session.unavailable.items()
        if server not in connecting
    ]
    return (f" Not connected: {'; '.join(down)}." if down else "") + _connecting(session)


def _connecting(session: SessionTools, *, is_sure: bool = False) -> str:
    """Which servers are not there yet and may have what was looked for, unless what was found is sure to be it."""
    servers = [f"{safe_line(server, 64)} (it is still connecting)" for server in session.listing.connecting]
    if not servers:
        return ""
    what = "You are told when their tools can be used: call search_tools again then. Until then, say that they are"
    until = "" if is_sure else f" {what} still connecting, not that there is no such tool."
    return f" Not searched yet: {', '.join(servers)}.{until}"


def rendered(match: Match, session: SessionTools, loaded: bool) -> dict[str, Any]:
    """What is shown of a tool that was found."""
    from mcpagent.search.signature import call_signature, first_sentences

    tool = match.tool
    if session.options.renderer is not None:
        shown = {"name": tool.name, **session.options.renderer(tool)}
    else:
        shown = {"name": tool.name, "description": first_sentences(tool.description, MAX_DESCRIPTION_CHARACTERS)}
        if tool.server is not None:
            shown["server"] = tool.server
        shown["signature"] = call_signature(tool)
    return {**shown, "loaded": True} if loaded else shown


def _names(arguments: dict[str, Any]) -> list[str] | str:
    """The asked names, from the array, a bare string or the older `tool_name`; a text says what is wrong instead."""
    asked = arguments.get("tool_names", arguments.get("tool_name", arguments.get("names")))
    if isinstance(asked, str):
        asked = [asked]
    if not isinstance(asked, list) or not asked or not all(isinstance(name, str) and name.strip() for name in asked):
        return 'Pass tool_names as an array of tool names, e.g. {"tool_names": ["read_file"]}.'
    if len(asked) > MAX_NAMES_PER_CALL:
        return f"{len(asked)} tools at once is over the limit of {MAX_NAMES_PER_CALL}; add only the ones you need."
    return [str(name).strip() for name in asked]


async def _add(session: SessionTools, arguments: dict[str, Any]) -> ToolOutput:
    names = _names(arguments)
    if isinstance(names, str):
        return ToolOutput.of_text(names, error="invalid_arguments")
    outcome = await asyncio.to_thread(session.add, names)  # near names may need all to be indexed first
    if len(session.fitting(outcome.added, outcome.added)) < len(outcome.added):
        room = session.room(outcome.added).words()
        text = f"The model takes {room} more and no more; add fewer, or answer with what is loaded."
        return ToolOutput.of_text(text, error="invalid_arguments")
    change = ToolsChanged(added=session.definitions(outcome.added))
    error: ToolErrorKind | None = None if outcome.added or outcome.already else "unknown_tool"
    return ToolOutput((Text(_add_message(outcome)),), error, (change,) if outcome.added else ())


def _add_message(outcome: AddOutcome) -> str:
    lines: list[str] = []
    if outcome.added:
        lines.append(f"Added tools: {', '.join(outcome.added)}")
    if outcome.already:
        lines.append(f"Already available: {', '.join(outcome.already)}")
    if outcome.not_found:
        missing = (
            f"{safe_line(name, 80)} (did you mean {', '.join(near)}?)" if near else safe_line(name, 80)
            for name, near in outcome.not_found.items()
        )
        lines.append(f"Not found: {', '.join(missing)}")
    return "\n".join(lines)


async def _remove(session: SessionTools, arguments: dict[str, Any]) -> ToolOutput:
    names = _names(arguments)
    if isinstance(names, str):
        return ToolOutput.of_text(names, error="invalid_arguments")
    definitions = [tool.definition for tool in session.offer()]
    offered = {tool.name for tool in definitions} - {tool.name for tool in session.virtual}
    resolved = {name: tool.name if (tool := session.find(name)) else name for name in names}
    removed = tuple(dict.fromkeys(name for name in resolved.values() if name in offered))
    missing = [safe_line(asked, 80) for asked, name in resolved.items() if name not in offered]
    lines = [f"Removed tools: {', '.join(removed)}"] if removed else []
    lines += [f"Not loaded: {', '.join(missing)}"] if missing else []
    was = places_of(removed, definitions, session.conversation.parts)
    change = (ToolsChanged(removed=removed, was=was),) if removed else ()
    return ToolOutput((Text("\n".join(lines)),), None if removed else "unknown_tool", change)


async def _show_all(session: SessionTools, _arguments: dict[str, Any]) -> ToolOutput:
    by_server: dict[str, list[str]] = {}
    for name, tool in session.known.items():
        by_server.setdefault(tool.definition.server or tool.definition.category or "functions", []).append(name)
    lines: list[str] = [f"{len(session.known)} tools"]
    left = MAX_LISTED_NAMES
    for server in sorted(by_server):
        names = by_server[server][:left]
        left -= len(names)
        if names:
            lines.append(f"{safe_line(server, 64)} ({len(by_server[server])}): {', '.join(names)}")
    if len(session.known) > MAX_LISTED_NAMES:
        lines.append(f"{len(session.known) - MAX_LISTED_NAMES} more are not listed; search for them.")
    return ToolOutput.of_text("\n".join(lines))
