"""The tools through which a model finds tools: `search_tools`, `add_tool`, and as options the two others.

They know the catalogue and the conversation, not the agent. A search changes nothing; adding changes only the
conversation, through the parts that the results carry.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mcpagent.catalog import AddOutcome, Catalog
from mcpagent.conversation import Conversation
from mcpagent.events import Event, ToolsSearched
from mcpagent.messages import Text, ToolDefinition, ToolErrorKind, ToolsChanged, ToolsShown
from mcpagent.models.discovery import places_of
from mcpagent.prompt.builder import category_line
from mcpagent.safe_text import safe_line
from mcpagent.tools import Run, Tool, ToolOutput

if TYPE_CHECKING:
    from mcpagent.search import Match, SearchResult

MAX_NAMES_PER_CALL = 50
MAX_LISTED_NAMES = 500
MAX_DESCRIPTION_CHARACTERS = 200


def search_tools_definition(*, loads: bool) -> ToolDefinition:
    after = "are loaded and can be called at once" if loads else "must be added using add_tool"
    return ToolDefinition(
        "search_tools",
        f"Search for available tools by name or description. Returns matching tools that {after}.",
        {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": "Regex pattern or plain words to search tool names and descriptions",
                }
            },
            "required": ["query"],
        },
    )


_TOOL_NAMES_SCHEMA: dict[str, Any] = {"type": "array", "items": {"type": "string"}}

ADD_TOOL = ToolDefinition(
    "add_tool",
    "Add one or more tools to your available tools. Use this after finding tools with search_tools.",
    {
        "type": "object",
        "properties": {
            "tool_names": {
                **_TOOL_NAMES_SCHEMA,
                "description": "Array of exact names of the tools to add (e.g., ['read_file', 'weather_get']).",
            }
        },
        "required": ["tool_names"],
    },
)

REMOVE_TOOL = ToolDefinition(
    "remove_tool",
    "Remove tools you no longer need from your available tools. They can be added again with add_tool.",
    {
        "type": "object",
        "properties": {"tool_names": {**_TOOL_NAMES_SCHEMA, "description": "Array of names of the tools to remove."}},
        "required": ["tool_names"],
    },
)

SHOW_ALL_TOOLS = ToolDefinition(
    "show_all_tools",
    "List the names of all available tools by server. Prefer a search, which is much shorter.",
    {"type": "object", "properties": {}},
)


def tool_search_tools(catalog: Catalog, conversation: Conversation) -> tuple[Tool, ...]:
    """The virtual tools of one conversation, in the order they are offered.

    Where the model's provider searches, and loads what it found, the first two are not among them.
    """

    def bound(definition: ToolDefinition, run: Run) -> Tool:
        return Tool(definition, run, deferred=False, ordered=True, checks_arguments=True)

    async def search(arguments: dict[str, Any]) -> ToolOutput:
        return await _search(arguments, catalog, conversation)

    async def add(arguments: dict[str, Any]) -> ToolOutput:
        return _add(arguments, catalog, conversation)

    async def remove(arguments: dict[str, Any]) -> ToolOutput:
        return _remove(arguments, catalog, conversation)

    async def show_all(_arguments: dict[str, Any]) -> ToolOutput:
        return _show_all(catalog)

    loads = catalog.options.load == "search"
    tools: list[Tool] = []
    if not catalog.provider_searches:
        tools.append(bound(search_tools_definition(loads=loads), search))
        if not loads:
            tools.append(bound(ADD_TOOL, add))
    if "show_all_tools" in catalog.options.extra_tools:
        tools.append(bound(SHOW_ALL_TOOLS, show_all))
    if "remove_tool" in catalog.options.extra_tools:
        tools.append(bound(REMOVE_TOOL, remove))
    return tuple(tools)


def _json_output(
    answer: dict[str, Any], changes: tuple[ToolsShown | ToolsChanged, ...] = (), events: tuple[Event, ...] = ()
) -> ToolOutput:
    return ToolOutput((Text(json.dumps(answer, ensure_ascii=False)),), changes=changes, events=events)


def _listed(categories: Iterable[str]) -> str:
    return "\n".join(categories) or "- none"


async def _search(arguments: dict[str, Any], catalog: Catalog, conversation: Conversation) -> ToolOutput:
    query = _query(arguments)
    if not query:
        return ToolOutput.of_text(
            json.dumps({"error": "query is empty; pass a few words or a regex pattern for what you need"}),
            error="invalid_arguments",
        )
    if not catalog.known:
        return _json_output(
            {
                "found": 0,
                "tools": [],
                "message": "There are no tools to search: none is connected. Do not search again.",
            }
        )
    started = time.monotonic()
    result = await catalog.index.find(query, catalog.options.max_results)
    offered = {tool.name for tool in catalog.offer(conversation.discovery)}
    names = tuple(match.tool.name for match in result.matches)
    loads = catalog.options.load == "search"
    answer = _search_answer(result, catalog, offered, loads=loads)
    shown_query = query if isinstance(query, str) else ", ".join(query)
    event = ToolsSearched(shown_query, result.found, names, len(catalog.known), time.monotonic() - started)
    new = tuple(name for name in names if name not in offered)
    change = ToolsChanged(added=catalog.definitions(new)) if loads else ToolsShown(names)
    return _json_output(answer, (change,) if names else (), (event,))


def _query(arguments: dict[str, Any]) -> str | list[str]:
    """`query`, or the list that some models send as `query` or `queries`; empty when there is nothing to look for."""
    asked = arguments.get("query") or arguments.get("queries") or arguments.get("pattern") or ""
    if isinstance(asked, list):
        words = [str(item).strip() for item in asked if str(item).strip()]
        return words if len(words) > 1 else "".join(words)
    return str(asked).strip()


def _search_answer(result: SearchResult, catalog: Catalog, offered: set[str], *, loads: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {"error": result.error} if result.error else {}
    answer["found"] = result.found
    answer["tools"] = [_rendered(match, catalog, match.tool.name in offered) for match in result.matches]
    if result.how == "fuzzy":
        answer["match"] = "fuzzy"
    answer["message"] = " ".join((*result.notes, *_advice(result, catalog, loads=loads)))
    return answer


def _advice(result: SearchResult, catalog: Catalog, *, loads: bool) -> list[str]:
    if not result.matches:
        near = f" Nearest names: {', '.join(result.nearest)}." if result.nearest else ""
        categories = _listed(category_line(item.name, item.description, item.tools) for item in catalog.categories())
        return [f"No tools found matching the pattern.{near}{_down(catalog)} Available categories:\n{categories}"]
    after = "They are loaded: call them." if loads else "Use 'add_tool' to load the ones you need."
    advice = [f"Found matching tools. {after}"]
    if result.found > len(result.matches):
        more = result.found - len(result.matches)
        advice.append(f"{more} more match: narrow with more words, a regex, or a server's name.")
    return advice


def _down(catalog: Catalog) -> str:
    down = [f"{server} ({safe_line(reason, 120)})" for server, reason in catalog.unavailable.items()]
    return f" Not connected: {'; '.join(down)}." if down else ""


def _rendered(match: Match, catalog: Catalog, loaded: bool) -> dict[str, Any]:
    from mcpagent.search.signature import call_signature, first_sentences

    tool = match.tool
    if catalog.options.renderer is not None:
        shown = {"name": tool.name, **catalog.options.renderer(tool)}
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
    if not isinstance(asked, list) or not asked or not all(isinstance(name, str) for name in asked):
        return 'Pass tool_names as an array of tool names, e.g. {"tool_names": ["read_file"]}.'
    if len(asked) > MAX_NAMES_PER_CALL:
        return f"{len(asked)} tools at once is over the limit of {MAX_NAMES_PER_CALL}; add only the ones you need."
    return [str(name).strip() for name in asked]


def _add(arguments: dict[str, Any], catalog: Catalog, conversation: Conversation) -> ToolOutput:
    names = _names(arguments)
    if isinstance(names, str):
        return ToolOutput.of_text(names, error="invalid_arguments")
    outcome = catalog.add(names, conversation.discovery)
    change = ToolsChanged(added=catalog.definitions(outcome.added))
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


def _remove(arguments: dict[str, Any], catalog: Catalog, conversation: Conversation) -> ToolOutput:
    names = _names(arguments)
    if isinstance(names, str):
        return ToolOutput.of_text(names, error="invalid_arguments")
    definitions = [tool.definition for tool in catalog.offer(conversation.discovery)]
    offered = {tool.name for tool in definitions} - {tool.name for tool in catalog.virtual}
    resolved = {name: tool.name if (tool := catalog.find(name)) else name for name in names}
    removed = tuple(dict.fromkeys(name for name in resolved.values() if name in offered))
    missing = [safe_line(asked, 80) for asked, name in resolved.items() if name not in offered]
    lines = [f"Removed tools: {', '.join(removed)}"] if removed else []
    lines += [f"Not loaded: {', '.join(missing)}"] if missing else []
    was = places_of(removed, definitions, conversation.parts)
    change = (ToolsChanged(removed=removed, was=was),) if removed else ()
    return ToolOutput((Text("\n".join(lines)),), None if removed else "unknown_tool", change)


def _show_all(catalog: Catalog) -> ToolOutput:
    by_server: dict[str, list[str]] = {}
    for name, tool in catalog.known.items():
        by_server.setdefault(tool.definition.server or tool.definition.category or "functions", []).append(name)
    lines: list[str] = [f"{len(catalog.known)} tools"]
    left = MAX_LISTED_NAMES
    for server in sorted(by_server):
        names = by_server[server][:left]
        left -= len(names)
        if names:
            lines.append(f"{safe_line(server, 64)} ({len(by_server[server])}): {', '.join(names)}")
    if len(catalog.known) > MAX_LISTED_NAMES:
        lines.append(f"{len(catalog.known) - MAX_LISTED_NAMES} more are not listed; search for them.")
    return ToolOutput.of_text("\n".join(lines))
