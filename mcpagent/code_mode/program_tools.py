"""The tools of code mode: `search_tools`, which returns stubs, and `run_code`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mcpagent.code_mode.code_options import CodeMode
from mcpagent.code_mode.importable import (
    Function,
    find_places,
    functions_of,
    importable,
    known_places,
    shown_functions,
)
from mcpagent.code_mode.memory import Memory
from mcpagent.code_mode.python_table import offered_modules
from mcpagent.code_mode.running import run_code
from mcpagent.prompt.builder import category_lines, connecting_line, program_words
from mcpagent.search.query import MAX_QUERIES, MAX_QUERY
from mcpagent.search.signature import call_signature
from mcpagent.tool_search.search_tools import (
    SearchCall,
    found_by,
    loaded_by_search,
    search_call,
    search_tools_definition,
    servers_down,
)
from mcpagent.tool_search.session_tools import SessionTools
from mcpagent.values.events import ToolsSearched
from mcpagent.values.messages import Text, ToolDefinition, ToolsChanged
from mcpagent.values.tools import Tool, ToolChange, ToolOutput

if TYPE_CHECKING:
    from mcpagent.search import SearchResult

RUN_CODE = "run_code"

MAX_TOLD = 40
"""Maximum number of functions, and of variables, that a note to the model lists."""

MAX_STUB = 1_600
"""Maximum number of characters of one tool in a search result; a longer stub omits its classes."""


def program_tools(
    session: SessionTools, memory: Memory, options: CodeMode
) -> tuple[Tool, ...]:
    """Return the tools of code mode for a conversation, in order; its programs share `memory`."""
    session.how_to_call = partial(_how_to_call, session, memory)
    session.still_there = partial(_still_there, session, memory)
    searching = search_tools_definition(loads=False)
    search = ToolDefinition(
        searching.name, program_words("search"), searching.parameters
    )
    code = {"type": "string"}
    schema = {"type": "object", "properties": {"code": code}, "required": ["code"]}
    run = ToolDefinition(RUN_CODE, program_words("run", offered_modules()), schema)
    return (
        Tool(
            search,
            partial(_search, session, memory),
            deferred=False,
            ordered=True,
            checks_arguments=True,
        ),
        # A program's calls have their own limits, and a user's answer may take long.
        Tool(
            run,
            partial(run_code, session, memory, options),
            timeout_seconds=float("inf"),
            deferred=False,
            ordered=True,
            large_result_tokens=options.output_tokens,
        ),
    )


def _how_to_call(session: SessionTools, memory: Memory, name: str) -> str:
    tool = session.find(name)
    if tool is None:
        return "Search for functions with search_tools."
    if not session.is_function(tool):
        return "Search for it with search_tools, which loads it."
    place = known_places(session, memory.places).by_key[tool.definition.key]
    return f"Call it in a program: run_code with `from tools.{place.module} import {place.function}`."


def _still_there(session: SessionTools, memory: Memory) -> str:
    """Return a list of importable functions and existing variables, for a conversation whose beginning was
    summarised.
    """
    places, modules = (
        known_places(session, memory.places).by_key,
        dict[str, list[str]](),
    )
    names = importable(session)
    for name in names[:MAX_TOLD]:
        place = places[session.known[name].definition.key]
        modules.setdefault(place.module, []).append(place.function)
    told: list[str] = []
    if modules:
        imports = "; ".join(
            f"from tools.{module} import {', '.join(functions)}"
            for module, functions in modules.items()
        )
        more = ""
        if len(names) > MAX_TOLD:
            more = f"; and {len(names) - MAX_TOLD} more"
        told.append(
            f"Functions that were found can still be imported ({imports}{more}). Search for one by its name to "
        )
        told.append("see its signature again. ")
    if variables := memory.variables():
        told.append(
            f"Variables of earlier programs are still there: {', '.join(variables[:MAX_TOLD])}."
        )
    return "".join(told).strip()


async def _search(
    session: SessionTools, memory: Memory, arguments: dict[str, Any]
) -> ToolOutput:
    asked = search_call(session, arguments)
    if isinstance(asked, str):
        return ToolOutput.of_text(asked, error="invalid_arguments")
    started = time.monotonic()
    result = await found_by(session, asked)
    if not session.known and not session.listing.connecting:
        return ToolOutput.of_text(
            f"There are no tools: none is connected.{servers_down(session)} Do not search again."
        )
    await find_places(session, memory.places)
    found = [match.tool.name for match in result.matches]
    names = [name for name in found if name in session.known]
    functions = [name for name in names if session.is_function(session.known[name])]
    loaded = _loaded_for_direct_calls(session, result, names)
    # Stubs of third-party schemas may take long.
    modules = await asyncio.to_thread(functions_of, session, memory.places, functions)
    lines = [*result.notes]
    if result.error:
        lines = [result.error, *lines]
    if names:
        lines += _match_lines(result, asked)
        lines += [
            _module_words(module, stubs, memory) for module, stubs in modules.items()
        ]
        lines += _direct_lines(session, names, loaded)
    else:
        lines.append(_nothing_found(session, result))
    changes = list[ToolChange]()
    if loaded:
        changes.append(ToolsChanged(added=session.definitions(loaded)))
    changes += shown_functions(session, names)
    event = _searched(session, asked, result.found, names, started)
    return ToolOutput((Text("\n".join(lines)),), None, tuple(changes), (event,))


def _searched(
    session: SessionTools,
    asked: SearchCall,
    count: int,
    names: Sequence[str],
    started: float,
) -> ToolsSearched:
    """Return the event of a search that found `count` tools and showed those in `names`."""
    query = asked.query
    if not isinstance(query, str):
        query = ", ".join(query[:MAX_QUERIES])
    about = (count, tuple(names), len(session.known), time.monotonic() - started)
    return ToolsSearched(query[:MAX_QUERY], *about, session.listing.connecting)


def _nothing_found(session: SessionTools, result: SearchResult) -> str:
    near = ""
    if result.nearest:
        near = f" Nearest names: {', '.join(result.nearest)}."
    categories = category_lines(session.categories())
    categories += [connecting_line(server) for server in session.listing.connecting]
    listed = "\n".join(categories or ["- none"])
    return f"No function matches.{near}{servers_down(session)} There are:\n{listed}"


def _match_lines(result: SearchResult, asked: SearchCall) -> list[str]:
    """Return notes about the quality of the matches and the number of further ones."""
    lines = list[str]()
    if result.how == "closest":
        lines.append("no tool matches the pattern; closest by words:")
    elif not result.found:
        lines.append(
            "Only weak matches: search once more in other words if none does what you need."
        )
    shown = asked.offset + len(result.matches)
    if result.found > shown and result.how != "exact":
        lines.append(
            f"{result.found - shown} more match: narrow the query, or go on with offset={shown}."
        )
    return lines


def _loaded_for_direct_calls(
    session: SessionTools, result: SearchResult, names: Sequence[str]
) -> Sequence[str]:
    """Return the found tools to load: those that programs cannot call, and, with `load="search"`, the likely ones.

    Tools that the model already has, or that exceed its limits, are excluded.
    """
    wanted = [name for name in names if not session.is_function(session.known[name])]
    if session.options.load == "search":
        offered = {tool.name for tool in session.offer()}
        likely = loaded_by_search(result, session, offered)
        wanted += [name for name in likely if session.is_direct(session.known[name])]
    new = [name for name in dict.fromkeys(wanted) if not session.is_offered(name)]
    return session.fitting(new)


def _direct_lines(
    session: SessionTools, names: Sequence[str], loaded: Sequence[str]
) -> list[str]:
    """Return lines about found tools that the model must call directly; `loaded` are available from now on."""
    lines, both = list[str](), list[str]()
    only = list[str]()
    for name in names:
        is_ready = name in loaded or session.is_offered(name)
        is_function = session.is_function(session.known[name])
        if is_function and name in loaded:
            both.append(name)
        elif is_ready and not is_function:
            only.append(name)
        elif not is_function:
            signature = call_signature(session.known[name].definition)
            lines.append(f"Not for programs, call directly by name: {signature}")
    if both:
        lines.append(f"Loaded, can be called directly too: {', '.join(both)}")
    if only:
        lines.append(f"Not for programs, call directly: {', '.join(only)}")
    return lines


def _module_words(
    module: str, functions: Mapping[str, Function], memory: Memory
) -> str:
    imports = f"from tools.{module} import {', '.join(functions)}"
    return "\n".join(
        (
            imports,
            *(function_words(function, memory) for function in functions.values()),
        )
    )


def function_words(function: Function, memory: Memory) -> str:
    """Return the stub for the model; if the tool has no output schema, with the shape of its last result in this
    conversation.
    """
    seen = memory.shapes.get(function.tool.definition.key, "")
    note = ""
    if seen and "Any" in function.stub.signature.rpartition("->")[2]:
        note = f"A result seen (not promised): {seen}"
    text = function.stub.shown(note)
    if len(text) <= MAX_STUB:
        return text
    short = f'{function.stub.signature}:\n    """{function.stub.description}"""'
    left_out = ", ".join(function.stub.class_names)[:200]
    return f"{short[: 2 * MAX_STUB]}\n# its types are left out here, and checked: {left_out}"
