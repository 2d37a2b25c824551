"""The tools with which a model finds tools: `search_tools`, `add_tool`, and two optional ones.

They use a session's tools, not the agent. A search changes nothing. Adding changes only the conversation, through parts
that come with the results.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from mcpagent.models.tool_changes_in_history import places_of
from mcpagent.prompt.builder import category_lines, connecting_line
from mcpagent.search.query import MAX_QUERIES, MAX_QUERY, MAX_SELECTED, selected_names
from mcpagent.search.words import name_key
from mcpagent.tool_search.name_patterns import is_glob, names_that_fit
from mcpagent.tool_search.session_tools import AddOutcome, SessionTools
from mcpagent.utilities.text.for_model import fenced, spelled
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import Event, ToolsSearched
from mcpagent.values.messages import (
    Pinned,
    Text,
    ToolDefinition,
    ToolErrorKind,
    ToolsChanged,
    ToolsShown,
)
from mcpagent.values.tools import Tool, ToolOutput

if TYPE_CHECKING:
    from mcpagent.search import Match, SearchResult

MAX_NAMES_PER_CALL = 50
MAX_LISTED_NAMES = 500
MAX_RESULTS = 20
"""Maximum number of results of one call; `offset` returns further ones."""

MAX_OFFSET = 1_000
RESULTS_PER_QUERY = 3
"""Number of results for each query if a call has several queries, at most `MAX_RESULTS` in total."""

MAX_INSTRUCTIONS = 100_000
"""Maximum number of characters of a prompt that `add_tool` returns, the same as for a skill; compaction never removes
them.
"""

MAX_PROMPTS = 3
"""Maximum number of prompts of servers among the results."""

_LEAST_RESULT = 40
_ROOMS = (
    (200, 240, True),
    (160, 160, True),
    (120, 80, True),
    (80, 0, True),
    (40, 0, False),
    (0, 0, False),
)
"""Limits that are tried in order until a result fits: characters of its description, characters of its optional
arguments, and whether types are shown.
"""

MAX_RESULT_CHARACTERS = 480
"""Maximum length of one result as JSON, about 120 tokens. Only its name and required parameters may exceed it."""

ALL_LOADED = "They are loaded: call them."
SOME_LOADED = 'Those with "loaded" can be called at once; to load another one, search for its name.'

_WHAT_TO_DO = {
    "likely": "likely: use it",
    "possible": "possible: read its description first",
    "weak": "weak: probably none, search once more in other words",
}
"""Advice to the model, by the odds of a match."""

_SHOWN_QUERY = 40
"""Maximum number of characters of the query shown with a result, if there were several queries."""


def _definition(
    name: str, description: str, optional: Iterable[str] = (), **properties: Any
) -> ToolDefinition:
    """Return a tool's definition; all parameters are required except the `optional` ones."""
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    required = [name for name in properties if name not in optional]
    return ToolDefinition(
        name, description, schema | ({"required": required} if required else {})
    )


def _texts(description: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}, "description": description}


def search_tools_definition(*, loads: bool) -> ToolDefinition:
    """Return the definition of `search_tools`; `loads`: a search loads its results at once."""
    after = "must be added using add_tool"
    if loads:
        after = "are loaded and can be called at once"
    query = {
        "type": "string",
        "description": "Regex pattern or plain words to search tool names and descriptions",
    }
    text = f"Search for available tools by name or description. Returns matching tools that {after}."
    return _definition(
        "search_tools",
        text,
        ("queries", "server", "limit", "offset"),
        query=query,
        queries=_texts("Further queries, one a need"),
        server={"type": "string", "description": "Only this server's tools"},
        limit={"type": "integer", "description": f"Most results, up to {MAX_RESULTS}"},
        offset={"type": "integer", "description": "Results to skip"},
    )


ADD_TOOL = _definition(
    "add_tool",
    "Add one or more tools to your available tools. Use this after finding tools with search_tools.",
    tool_names=_texts(
        "Array of names of the tools to add, exactly as search_tools returned them, or patterns with *, also over "
        "server.name"
    ),
)
REMOVE_TOOL = _definition(
    "remove_tool",
    "Remove tools you no longer need from your available tools. They can be added again with add_tool.",
    tool_names=_texts("Array of names of the tools to remove."),
)
SHOW_ALL_TOOLS = _definition(
    "show_all_tools",
    "List the names of all available tools by server. Prefer a search, which is much shorter.",
)


def tool_search_tools(session: SessionTools) -> tuple[Tool, ...]:
    """Return the virtual tools of one conversation, in the order in which they are offered.

    If the model's provider searches and loads tools, `search_tools` and `add_tool` are not among them.
    """
    loads, local = session.options.load == "search", not session.provider_searches
    tools = (
        (local, search_tools_definition(loads=loads), _search),
        (local and not loads, ADD_TOOL, _add),
        ("show_all_tools" in session.options.extra_tools, SHOW_ALL_TOOLS, _show_all),
        ("remove_tool" in session.options.extra_tools, REMOVE_TOOL, _remove),
    )
    return tuple(
        Tool(
            definition,
            partial(run, session),
            deferred=False,
            ordered=True,
            checks_arguments=True,
            large_result_tokens=0 if definition is ADD_TOOL else None,
        )
        for offered, definition, run in tools
        if offered
    )


def _json_output(
    answer: dict[str, Any],
    changes: tuple[ToolsShown | ToolsChanged, ...] = (),
    events: tuple[Event, ...] = (),
) -> ToolOutput:
    return ToolOutput(
        (Text(json.dumps(answer, ensure_ascii=False)),), changes=changes, events=events
    )


async def _search(session: SessionTools, arguments: dict[str, Any]) -> ToolOutput:
    asked = search_call(session, arguments)
    if isinstance(asked, str):
        return ToolOutput.of_text(
            json.dumps({"error": asked}, ensure_ascii=False), error="invalid_arguments"
        )
    query = asked.query
    started = time.monotonic()
    result = await found_by(session, asked)
    if not session.known and not session.listing.connecting:
        told = f"There are no tools to search: none is connected.{servers_down(session)} Do not search again."
        return _json_output({"found": 0, "tools": [], "message": told})
    offered = {tool.name for tool in session.offer()}
    names = tuple(match.tool.name for match in result.matches)
    loads = session.options.load == "search"
    loaded = loaded_by_search(result, session, offered) if loads else ()
    is_part = loads and not offered.union(loaded).issuperset(names)
    if is_part:
        there = offered.union(loaded)
    else:
        there = offered
    if not loads:
        after = ""
    elif not is_part:
        after = ALL_LOADED
    else:
        after = SOME_LOADED
    answer = _search_answer(result, session, there, after=after, offset=asked.offset)
    reader, prompts = await _prompts(session, asked, there)
    if reader is not None and prompts:
        answer["tools"] += prompts
        answer["found"] += len(prompts)
        told = answer["message"] if result.matches else ""
        adding = "" if loads else "loaded with add_tool like tools, or "
        answer["message"] = (
            f'{told} Prompts are {adding}read with {reader.name}, as their "call" shows.'.strip()
        )
    shown_query = (query if isinstance(query, str) else ", ".join(query[:MAX_QUERIES]))[
        :MAX_QUERY
    ]
    seconds, connecting = time.monotonic() - started, session.listing.connecting
    event = ToolsSearched(
        shown_query, result.found, names, len(session.known), seconds, connecting
    )
    changes: list[ToolsShown | ToolsChanged] = (
        [ToolsChanged(added=session.definitions(loaded))] if loads else []
    )
    if is_part or not loads:
        changes.append(
            ToolsShown(names, tuple(match.tool.key for match in result.matches))
        )
    if not names:
        changes.clear()
    if reader is not None and prompts:
        changes.append(ToolsShown((reader.name,), (reader.definition.key,)))
    return _json_output(answer, tuple(changes), (event,))


async def _prompts(
    session: SessionTools, asked: SearchCall, offered: set[str]
) -> tuple[Tool | None, list[dict[str, Any]]]:
    """Return the tool that reads prompts of servers, and the prompts that match a query, as search results."""
    from mcpagent.search.signature import first_sentences

    readers = [tool for tool in session.known.values() if tool.leads_to]
    if asked.offset or not readers:
        return None, []
    [reader, *_] = readers
    found = await session.catalog.prompt_index(reader.leads_to).find(
        asked.query, MAX_PROMPTS, server=asked.server
    )
    shown: list[dict[str, Any]] = []
    for match in found.matches:
        if match.odds == "weak":
            continue
        prompt = match.tool
        name = prompt.name
        if session.options.load == "search":  # there is no `add_tool`
            name = reader.name
        shown.append(
            {
                "name": name,
                "match": match.odds,
                "kind": "prompt",
                "description": first_sentences(prompt.description, 200),
                "call": prompt_call(prompt),
                **({"loaded": True} if reader.name in offered else {}),
            }
        )
    return reader, shown


def loaded_by_search(
    result: SearchResult, session: SessionTools, offered: set[str]
) -> Sequence[str]:
    """Return the names of the found tools to load: all likely ones, else all possible ones, else the best weak one.

    Tools that are already offered, or exceed the model's limits, are omitted.
    """
    by_odds: dict[str, list[str]] = {}
    for match in result.matches:
        by_odds.setdefault(match.odds, []).append(match.tool.name)
    new = (
        by_odds.get("likely") or by_odds.get("possible") or by_odds.get("weak", [])[:1]
    )
    return session.fitting(
        [name for name in new if name not in offered and name in session.known]
    )


class SearchCall(NamedTuple):
    """The arguments of a call of `search_tools`."""

    query: str | list[str]
    server: str | None
    limit: int
    offset: int


def search_call(session: SessionTools, arguments: dict[str, Any]) -> SearchCall | str:
    """Return the parsed arguments, whatever types the model passed; on failure, an error message for the model."""
    query = _query(arguments)
    if not query:
        return "query is empty; pass a few words or a regex pattern for what you need"
    usual = session.options.max_results
    if isinstance(query, list):
        usual = max(usual, min(RESULTS_PER_QUERY * len(query), MAX_RESULTS))
    elif (chosen := selected_names(query)) is not None:
        usual = max(usual, min(len(chosen), MAX_SELECTED))
    limit, offset = (
        _whole(arguments.get("limit"), usual),
        _whole(arguments.get("offset"), 0),
    )
    if limit is None or offset is None:
        return "limit and offset are whole numbers: how many results to show, and how many to skip"
    server = str(arguments.get("server") or "").strip()
    named = None
    if server:
        named = _server_named(session, server)
    if server and named is None:
        folded = {name.casefold(): name for name in _servers(session)}
        near = [
            safe_line(folded[name], 64)
            for name in get_close_matches(server[:64].casefold(), folded, n=3)
        ]
        hint = "."
        if near:
            hint = f"; did you mean {', '.join(near)}?"
        return f'there is no server "{safe_line(server, 64)}"{hint} Leave server out to search all tools.'
    return SearchCall(
        query,
        named,
        min(max(limit, 1), max(MAX_RESULTS, usual)),
        min(max(offset, 0), MAX_OFFSET),
    )


def _whole(given: Any, usual: int) -> int | None:
    """Return an integer, also from text; `usual` if the value is missing, None if it is invalid."""
    if given is None or given == "":
        return usual
    try:
        if isinstance(given, int | float | str) and len(str(given)) < 20:
            return int(float(given))
        return None
    except (ValueError, OverflowError):
        return None


def _servers(session: SessionTools) -> list[str]:
    """Return the servers with tools, and those that are not connected, which an empty search reports."""
    known = {
        tool.definition.server
        for tool in session.known.values()
        if tool.definition.server
    }
    return sorted(known.union(session.unavailable, session.listing.connecting))


def _server_named(session: SessionTools, name: str) -> str | None:
    key = name_key(name)
    return next(
        (server for server in _servers(session) if name_key(server) == key), None
    )


async def found_by(session: SessionTools, asked: SearchCall) -> SearchResult:
    """Search; without a good match, wait for servers that are connecting or changing, and search again."""
    before, last = session.listing, asked.offset + asked.limit
    result = await session.search(asked.query, last, asked.server)
    if not result.matches or result.confidence == "low":
        await session.settle()
        if session.listing is not before:
            result = await session.search(asked.query, last, asked.server)
    if not asked.offset:
        return result
    first = await session.search(asked.query, asked.limit, asked.server)
    return replace(
        result, matches=result.matches[asked.offset : first.found], found=first.found
    )


def _query(arguments: dict[str, Any]) -> str | list[str]:
    """Return `query` and `queries`, each a text or a list of texts, as one query or a list; "" if both are empty."""
    asked = [
        arguments.get("query") or arguments.get("pattern") or "",
        arguments.get("queries") or "",
    ]
    texts = [
        text for one in asked for text in (one if isinstance(one, list) else [one])
    ]
    words = list(
        dict.fromkeys(str(text).strip() for text in texts if str(text).strip())
    )
    if len(words) > 1:
        return words
    return "".join(words)


def _search_answer(
    result: SearchResult,
    session: SessionTools,
    offered: set[str],
    *,
    after: str,
    offset: int = 0,
) -> dict[str, Any]:
    answer: dict[str, Any] = {"error": result.error} if result.error else {}
    answer["found"] = result.found
    answer["tools"] = [
        rendered(match, session, match.tool.name in offered) for match in result.matches
    ]
    if result.how == "fuzzy":
        answer["match"] = "fuzzy"
    answer["message"] = " ".join(
        (*result.notes, *_advice(result, session, after=after, offset=offset))
    )
    return answer


def _advice(
    result: SearchResult, session: SessionTools, *, after: str, offset: int
) -> list[str]:
    """Return notes on the results of a search. `after` is a note about loaded results; "" if they must be added."""
    if offset and not result.matches:
        return [
            f"There are no more: {result.found} match in all."
            if result.found
            else "There are no more."
        ]
    if not result.matches:
        near = ""
        if result.nearest:
            near = f" Nearest names: {', '.join(result.nearest)}."
        lines = category_lines(session.categories())
        lines += [connecting_line(server) for server in session.listing.connecting]
        categories = "\n".join(lines) or "- none"
        return [
            f"No tools found matching the pattern.{near}{servers_down(session)} Available categories:\n{categories}"
        ]
    load = after or "Use 'add_tool' to load the ones you need."
    if result.how == "closest":
        return [
            f"no tool matches the pattern; closest by words: {_names_of(result)}. {load}{servers_down(session)}"
        ]
    if not result.found:
        return [
            f"Only weak matches. {_what_to_do(result)}{load}{servers_down(session)}"
        ]
    advice = [
        f"Found matching tools. {_what_to_do(result)}{load}{_connecting(session, is_sure=result.confidence == 'high')}"
    ]
    shown = offset + len(result.matches)
    if result.found > shown and result.how != "exact":
        more = result.found - shown
        advice.append(
            f"{more} more match: narrow with more words, a regex or a server, or go on with offset={shown}."
        )
    return advice


def _what_to_do(result: SearchResult) -> str:
    """Return advice for each class of odds among the matches; "" if all are likely."""
    shown = {match.odds for match in result.matches}
    if shown == {"likely"}:
        return ""
    return (
        "; ".join(
            text for odds, text in _WHAT_TO_DO.items() if odds in shown
        ).capitalize()
        + ". "
    )


def _names_of(result: SearchResult) -> str:
    return ", ".join(match.tool.name for match in result.matches)


def servers_down(session: SessionTools) -> str:
    """Return a note about servers that are not connected, with the reason, or still connecting; "" if all are
    connected.
    """
    connecting = session.listing.connecting
    down = [
        f"{server} ({safe_line(reason, 120)})"
        for server, reason in session.unavailable.items()
        if server not in connecting
    ]
    return (f" Not connected: {'; '.join(down)}." if down else "") + _connecting(
        session
    )


def _connecting(session: SessionTools, *, is_sure: bool = False) -> str:
    """Return a note about connecting servers that may have the wanted tool; with an instruction unless the result is
    certain.
    """
    servers = [
        f"{safe_line(server, 64)} (it is still connecting)"
        for server in session.listing.connecting
    ]
    if not servers:
        return ""
    what = "You are told when their tools can be used: call search_tools again then. Until then, say that they are"
    if is_sure:
        until = ""
    else:
        until = f" {what} still connecting, not that there is no such tool."
    return f" Not searched yet: {', '.join(servers)}.{until}"


def rendered(match: Match, session: SessionTools, loaded: bool) -> dict[str, Any]:
    """Return the content of one search result."""
    from mcpagent.search.signature import call_signature, first_sentences

    tool = match.tool
    named = {"name": tool.name, "match": match.odds}
    known = session.known.get(tool.name)
    if known is not None and known.instructs:
        named["kind"] = "skill"
    if match.query:
        named["query"] = safe_line(match.query, _SHOWN_QUERY)
    if session.options.renderer is not None:
        shown = {**named, **session.options.renderer(tool)}
    else:
        for room, optional, types in _ROOMS:
            if room:
                description = first_sentences(tool.description, room)
            else:
                description = ""
            shown = named | ({"description": description} if description else {})
            if tool.server is not None:
                shown["server"] = tool.server
            shown["signature"] = call_signature(tool, optional, types=types)
            if (
                len(json.dumps(shown, ensure_ascii=False)) + _LEAST_RESULT
                <= MAX_RESULT_CHARACTERS
            ):
                break
    if loaded:
        return {**shown, "loaded": True}
    return shown


def _names(arguments: dict[str, Any]) -> list[str] | str:
    """Return the names from a list, a single string or the older `tool_name`; on failure, an error message for the
    model.
    """
    asked = arguments.get(
        "tool_names", arguments.get("tool_name", arguments.get("names"))
    )
    if isinstance(asked, str):
        asked = [asked]
    if (
        not isinstance(asked, list)
        or not asked
        or not all(isinstance(name, str) and name.strip() for name in asked)
    ):
        return 'Pass tool_names as an array of texts, the names as search_tools returned them: {"tool_names": [...]}.'
    if len(asked) > MAX_NAMES_PER_CALL:
        return f"{len(asked)} tools at once is over the limit of {MAX_NAMES_PER_CALL}; add only the ones you need."
    return [str(name).strip() for name in asked]


async def _add(session: SessionTools, arguments: dict[str, Any]) -> ToolOutput:
    asked = _names(arguments)
    if isinstance(asked, str):
        return ToolOutput.of_text(asked, error="invalid_arguments")
    outcome = await _outcome_for(session, asked)
    if isinstance(outcome, AddOutcome) and outcome.not_found:
        before = session.listing
        await session.settle()
        if session.listing is not before:
            outcome = await _outcome_for(session, asked)
    if isinstance(outcome, str):
        return ToolOutput.of_text(outcome, error="invalid_arguments")
    if len(session.fitting(outcome.added, outcome.added)) < len(outcome.added):
        room = session.room(outcome.added).words()
        text = f"The model takes {room} more and no more; add fewer, or answer with what is loaded."
        return ToolOutput.of_text(text, error="invalid_arguments")
    return await _added(session, asked, outcome)


async def _added(
    session: SessionTools, asked: Sequence[str], outcome: AddOutcome
) -> ToolOutput:
    """Return a result that adds these tools, with the instructions of skills and prompts among them."""
    error: ToolErrorKind | None = (
        None if outcome.added or outcome.already else "unknown_tool"
    )
    told = _add_message(outcome)
    if outcome.not_found:
        told += _connecting(session)
    read = await _instructions(session, outcome.added)
    read += [
        await _prompt_text(session, reader, prompt)
        for reader, prompt in _prompts_named(session, asked).values()
    ]
    content = (Text(told), *(part for output in read for part in output.content))
    changes: list[ToolsChanged | Pinned] = []
    if outcome.added:
        changes.append(ToolsChanged(added=session.definitions(outcome.added)))
    if any(output.error is None for output in read):
        changes.append(Pinned())
    return ToolOutput(content, error, tuple(changes))


def _prompts_named(
    session: SessionTools, names: Iterable[str]
) -> dict[str, tuple[Tool, ToolDefinition]]:
    """Return the prompts of servers with these names, each with the tool that reads it. Names with "/" are never
    tools.
    """
    wanted = {name for name in names if session.find(name) is None}
    return {
        prompt.name: (reader, prompt)
        for reader in session.known.values()
        for prompt in reader.leads_to
        if prompt.name in wanted
    }


async def _prompt_text(
    session: SessionTools, reader: Tool, prompt: ToolDefinition
) -> ToolOutput:
    """Return a prompt's text as instructions. If it has arguments, is too long, or needs approval, return how to read
    it.
    """
    call = prompt_call(prompt)
    known = ToolOutput.of_text(
        f"Read the prompt {spelled(prompt.name)} with {reader.name}({json.dumps(call, ensure_ascii=False)}).",
        error="invalid_arguments",
    )
    arguments = {key: call[key] for key in ("server", "name")}
    if prompt.parameters["required"] or not session.instructs(reader, arguments):
        return known
    output = await reader.run(arguments)
    texts = [part.text for part in output.content if isinstance(part, Text)]
    if output.error is None and sum(map(len, texts)) > MAX_INSTRUCTIONS:
        return known
    label = f'Instructions of the prompt "{spelled(prompt.name)}"'
    if output.error is not None:
        label = f'The prompt "{spelled(prompt.name)}" cannot be read'
    content = [
        Text(fenced(part.text, label)) if isinstance(part, Text) else part
        for part in output.content
    ]
    return replace(output, content=tuple(content))


def prompt_call(prompt: ToolDefinition) -> dict[str, Any]:
    """Return the arguments for reading a prompt, with "..." as the value of each of the prompt's arguments."""
    values = dict.fromkeys(prompt.parameters["properties"], "...")
    call: dict[str, Any] = {"server": prompt.server, "name": prompt.original_name}
    if values:
        return {**call, "arguments": values}
    return call


async def _instructions(
    session: SessionTools, names: Sequence[str]
) -> list[ToolOutput]:
    """Return the instructions of the added skills, except those that need approval or are denied."""
    skills = [
        tool
        for name in names
        if (tool := session.known[name]).instructs and session.instructs(tool, {})
    ]
    return [await skill.run({}) for skill in skills]


async def _outcome_for(session: SessionTools, asked: Sequence[str]) -> AddOutcome | str:
    """Return the outcome of adding tools by name; for a prompt, of the tool that reads it. On failure, an error
    message.
    """
    prompts = _prompts_named(session, asked)
    names = [prompts[name][0].name if name in prompts else name for name in asked]
    # In a thread, because similar names may require indexing all tools first.
    return await asyncio.to_thread(_outcome, session, list(dict.fromkeys(names)))


def _outcome(session: SessionTools, names: Sequence[str]) -> AddOutcome | str:
    if any(map(is_glob, names)):
        names = _with_patterns(session, names)
    if isinstance(names, str):
        return names
    outcome = session.add(names)
    keys = [key for added in outcome.added for key in session.known[added].companions]
    further = [session.names[key] for key in keys if key in session.names]
    if further:
        return session.add([*names, *further])
    return outcome


def _with_patterns(session: SessionTools, names: Sequence[str]) -> list[str] | str:
    """Return the names, with each pattern replaced by its matching tools; an error message if there are too many.

    In that case no tool is added, because it is unclear which ones the model meant.
    """
    found: dict[str, None] = {}
    for name in names:
        fitting = []
        if is_glob(name):
            fitting = names_that_fit(session.known, name)
        if len(fitting) > MAX_NAMES_PER_CALL:
            first = ", ".join(fitting[:5])
            return (
                f'"{safe_line(name, 80)}" fits {len(fitting)} tools ({first}, ...), over the limit of '
                f"{MAX_NAMES_PER_CALL}; nothing was added. Narrow it, or add only the ones you need."
            )
        found.update(dict.fromkeys(fitting or [name]))
    if len(found) > MAX_NAMES_PER_CALL:
        return f"{len(found)} tools at once is over the limit of {MAX_NAMES_PER_CALL}; add only the ones you need."
    return list(found)


def _add_message(outcome: AddOutcome) -> str:
    lines: list[str] = []
    if outcome.added:
        lines.append(f"Added tools: {', '.join(outcome.added)}")
    if outcome.already:
        lines.append(f"Already available: {', '.join(outcome.already)}")
    if outcome.not_found:
        missing = (
            f"{safe_line(name, 80)} (did you mean {', '.join(near)}?)"
            if near
            else safe_line(name, 80)
            for name, near in outcome.not_found.items()
        )
        lines.append(f"Not found: {', '.join(missing)}")
    return "\n".join(lines)


async def _remove(session: SessionTools, arguments: dict[str, Any]) -> ToolOutput:
    names = _names(arguments)
    if isinstance(names, str):
        return ToolOutput.of_text(names, error="invalid_arguments")
    definitions = [tool.definition for tool in session.offer()]
    offered = {tool.name for tool in session.offer() if not session.is_own(tool)}
    resolved = {
        name: tool.name if (tool := session.find(name)) else name for name in names
    }
    removed = tuple(
        dict.fromkeys(name for name in resolved.values() if name in offered)
    )
    missing = [
        safe_line(asked, 80) for asked, name in resolved.items() if name not in offered
    ]
    lines = []
    if removed:
        lines = [f"Removed tools: {', '.join(removed)}"]
    if missing:
        lines += [f"Not loaded: {', '.join(missing)}"]
    was = places_of(removed, definitions, session.conversation.parts)
    change = (ToolsChanged(removed=removed, was=was),) if removed else ()
    return ToolOutput(
        (Text("\n".join(lines)),), None if removed else "unknown_tool", change
    )


async def _show_all(session: SessionTools, _arguments: dict[str, Any]) -> ToolOutput:
    await session.settle()
    by_server: dict[str, list[str]] = {}
    for name, tool in session.known.items():
        by_server.setdefault(
            tool.definition.server or tool.definition.category or "functions", []
        ).append(name)
    lines: list[str] = [f"{len(session.known)} tools"]
    left = MAX_LISTED_NAMES
    for server in sorted(by_server):
        names = by_server[server][:left]
        left -= len(names)
        if names:
            lines.append(
                f"{safe_line(server, 64)} ({len(by_server[server])}): {', '.join(names)}"
            )
    if len(session.known) > MAX_LISTED_NAMES:
        lines.append(
            f"{len(session.known) - MAX_LISTED_NAMES} more are not listed; search for them."
        )
    if down := servers_down(session).strip():
        lines += [down]
    return ToolOutput.of_text("\n".join(lines))
