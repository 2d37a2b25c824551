"""The tools that a client is offered in each mode, including the gateway's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mcpagent.gateway.asking_client import Client
from mcpagent.gateway.gateway_calls import error_result, text_result, withheld_text
from mcpagent.gateway.gateway_options import GatewayMode, GatewayOptions
from mcpagent.gateway.offered_tools import Access, OfferedTool
from mcpagent.gateway.upstreams import Lists
from mcpagent.run.validation import fitted
from mcpagent.tool_search.search_tools import (
    ADD_TOOL,
    ALL_LOADED,
    MAX_NAMES_PER_CALL,
    SOME_LOADED,
    search_tools_definition,
    tool_search_tools,
)
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import ToolsSearched
from mcpagent.values.messages import Text, ToolDefinition

SEARCH_TOOLS, ADD, RUN_CODE = "search_tools", "add_tool", "run_code"
CALLS: Mapping[str, Access] = {
    "call_read_tool": "read",
    "call_write_tool": "write",
    "call_destructive_tool": "destructive",
}
"""The gateway's tools that call other tools, each with the maximum access of those."""

CALL_OF: Mapping[Access, str] = {access: name for name, access in CALLS.items()}
_REACH: Mapping[Access, int] = {"read": 0, "write": 1, "destructive": 2}
_DOES = {
    "read": "that only reads",
    "write": "that changes things and destroys nothing",
    "destructive": "that may delete or overwrite",
}
_HOW = 'Call each with the tool in its "call".'
_SEARCH = f"Search the tools of all servers by name or description. {_HOW}"


def mode_of(client: Client, options: GatewayOptions) -> GatewayMode:
    """Return the client's mode."""
    mode = options.modes.get(client.name, options.mode)
    if mode != "auto":
        return mode
    if client.follows_lists:
        return "add"
    return "search"


def tools_for(
    client: Client, options: GatewayOptions, lists: Lists
) -> list[dict[str, Any]]:
    """Return the definitions that a client is offered, in a stable order."""
    mode = mode_of(client, options)
    usable = {name: tool for name, tool in lists.tools.items() if tool.withheld is None}
    if mode == "all":
        return [tool.wire for tool in usable.values()]
    pinned = [tool.wire for tool in usable.values() if _is_offered(tool, mode)]
    if mode == "code":
        return [*code_definitions(), *pinned]
    own = [_search_definition(), *map(_call_definition, CALLS)]
    if mode == "add":
        own.append(_wire(ADD_TOOL, read_only=True))
    added = [
        usable[name].wire
        for name in client.added
        if name in usable and not usable[name].is_pinned
    ]
    return [*own, *pinned, *added]


def is_client_tool(
    name: str, client: Client, options: GatewayOptions, lists: Lists
) -> bool:
    """Return whether a client may call a server's tool directly by its name."""
    tool = lists.tools.get(name)
    if tool is None:
        return False
    mode = mode_of(client, options)
    return mode == "all" or _is_offered(tool, mode) or name in client.added


def _is_offered(tool: OfferedTool, mode: GatewayMode) -> bool:
    """Return whether a mode with a search offers the tool from the start."""
    if mode != "code":
        return tool.is_pinned
    callers = tool.allowed_callers
    return "direct" in callers and (tool.is_pinned or "code" not in callers)


def _search_definition() -> dict[str, Any]:
    definition = search_tools_definition(loads=True)
    return _wire(replace(definition, description=_SEARCH), read_only=True)


def _call_definition(name: str) -> dict[str, Any]:
    access = CALLS[name]
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
        "required": ["name"],
    }
    text = f"Call a tool {_DOES[access]}, by its name in search_tools."
    wire = _wire(ToolDefinition(name, text, schema), read_only=access == "read")
    if access != "read":
        wire["annotations"]["destructiveHint"] = access == "destructive"
    return wire


def code_definitions() -> list[dict[str, Any]]:
    """Return the tool definitions of code mode."""
    from mcpagent.code_mode.python_table import offered_modules
    from mcpagent.prompt.builder import program_words

    searching = search_tools_definition(loads=False)
    words = program_words("run", offered_modules())
    code = {"type": "string"}
    schema = {"type": "object", "properties": {"code": code}, "required": ["code"]}
    return [
        _wire(replace(searching, description=program_words("search")), read_only=True),
        _wire(ToolDefinition(RUN_CODE, words, schema), read_only=False),
    ]


def _wire(definition: ToolDefinition, *, read_only: bool) -> dict[str, Any]:
    return {
        "name": definition.name,
        "description": definition.description,
        "inputSchema": definition.parameters,
        "annotations": {"readOnlyHint": read_only},
    }


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a client's search; its query, and the number of likely and possible tools, for the log."""

    result: dict[str, Any]
    query: str
    found: int


async def search_for_client(lists: Lists, arguments: dict[str, Any]) -> Found:
    """Search the tools; each match names the gateway's tool with which to call it."""
    assert lists.session is not None
    [searching, *_] = tool_search_tools(lists.session)
    output = await searching.run(arguments)
    [part] = [part for part in output.content if isinstance(part, Text)]
    result = text_result(_with_calls(part.text, lists))
    events = [event for event in output.events if isinstance(event, ToolsSearched)]
    if output.error is not None:
        result["isError"] = True
    if not events:
        return Found(result, "", 0)
    return Found(result, events[0].query, events[0].found)


def _with_calls(text: str, lists: Lists) -> str:
    """Return the answer of a search, with the gateway's tool with which to call each match."""
    answer = json.loads(text)
    for found in answer.get("tools", ()):
        found.pop("loaded", None)
        tool = lists.tools.get(found.get("name"))
        if tool is not None:
            found["call"] = CALL_OF[tool.access]
    message = str(answer.get("message", ""))
    if message:
        answer["message"] = message.replace(ALL_LOADED, _HOW).replace(SOME_LOADED, _HOW)
    return json.dumps(answer, ensure_ascii=False)


def named_tool(name: str, lists: Lists) -> OfferedTool | None:
    """Return the only tool that a name can mean: the offered name, another spelling, or the server's own name; or
    None.
    """
    if name in lists.tools:
        return lists.tools[name]
    assert lists.session is not None
    meant = lists.session.find(name)
    if meant is not None:
        return lists.tools.get(meant.name)
    own = [tool for tool in lists.tools.values() if tool.listed.original_name == name]
    if len(own) == 1:
        return own[0]
    return None


def tools_named(name: str, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of server tools in a call: the called name, or names in the arguments of the gateway's tools."""
    if name in (SEARCH_TOOLS, RUN_CODE):
        return ()
    if name in CALLS:
        return (str(arguments.get("name") or ""),)
    if name == ADD:
        return tuple(map(str, _names_to_add(arguments)))
    return (name,)


def has_tools(names: tuple[str, ...], lists: Lists) -> bool:
    """Return whether each name identifies a tool in the lists."""
    return all(named_tool(name, lists) is not None for name in names if name)


async def called_tool(
    by: str, arguments: Mapping[str, Any], lists: Lists
) -> tuple[OfferedTool, dict[str, Any]] | dict[str, Any]:
    """Return the tool and arguments that a call of `call_read_tool` (or write, destructive) names, or a result with the
    mistake.
    """
    name, given = str(arguments.get("name") or ""), arguments.get("arguments")
    if isinstance(given, str):
        given = _parsed(given)
    if given is None:
        given = {}
    if not name or not isinstance(given, dict):
        text = 'pass {"name": "server__tool", "arguments": {...}}'
        return error_result(text, "not_sent")
    tool = named_tool(name, lists)
    if tool is None:
        text = f'no tool "{safe_line(name, 80)}"; find its name with search_tools'
        return error_result(text, "not_sent")
    if _REACH[tool.access] > _REACH[CALLS[by]]:
        text = f"{tool.name} is a tool {_DOES[tool.access]}; call it with {CALL_OF[tool.access]}"
        if tool.withheld is not None:
            text = f"{text}. {withheld_text(tool.withheld)}"
        return error_result(text, "not_sent")
    return await _fitting(tool, given)


async def _fitting(
    tool: OfferedTool, given: dict[str, Any]
) -> tuple[OfferedTool, dict[str, Any]] | dict[str, Any]:
    """Return a call whose arguments match the schema, or a result with the mistake and the schema."""
    schema = tool.shown.parameters
    fitting, verdict = await fitted(schema, given)
    if verdict.problem:
        why, whole = safe_line(verdict.problem, 300), json.dumps(schema)
        text = f"the arguments do not fit: {why}; schema: {whole}"
        return error_result(text, "not_sent")
    return tool, fitting


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _names_to_add(arguments: Mapping[str, Any]) -> list[Any]:
    """Return the names in a call of `add_tool`; [] if they are invalid."""
    names = arguments.get("tool_names")
    if isinstance(names, str):
        return [names]
    if isinstance(names, list) and len(names) <= MAX_NAMES_PER_CALL:
        return names
    return []


def add_tools(
    client: Client, arguments: Mapping[str, Any], lists: Lists
) -> dict[str, Any]:
    """Add tools to the client's list; return the added tools, and how to call them without the list."""
    names = _names_to_add(arguments)
    if not names:
        text = f'pass {{"tool_names": [...]}}, at most {MAX_NAMES_PER_CALL} at once'
        return error_result(text, "not_sent")
    lines = []
    for name in map(str, names):
        tool = named_tool(name, lists)
        if tool is None:
            lines.append(f"not found: {safe_line(name, 80)}")
        elif tool.withheld is not None:
            lines.append(withheld_text(tool.withheld))
        else:
            client.added[tool.name] = None
            lines.append(f"added: {tool.name} (or {CALL_OF[tool.access]})")
    return text_result("\n".join(lines))
