"""Write a history and its tools for OpenAI's Responses API, with discovered tools at their position.

Forms: https://platform.openai.com/docs/api-reference/responses, and its guide to tool search.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, count
from typing import Any

from mcpagent.models.base import ModelRequest
from mcpagent.models.capabilities import SAFE, Capabilities
from mcpagent.models.found_tools.proxied_calls import (
    CALL_TOOL,
    Proxy,
    proxy_of,
    through_call_tool,
)
from mcpagent.models.profiles import profile_of
from mcpagent.models.tool_changes_in_history import (
    ToolPlan,
    annotated,
    changes_in_words,
    plan_tools,
)
from mcpagent.models.wire_values import (
    data_url,
    ids_on_the_wire,
    json_text,
    legal_id,
    marked_error,
    object_schema,
    plain_content,
    sendable_name,
    shown_parts,
    without,
    written_parts,
)
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import Event, ToolsSearched
from mcpagent.values.messages import (
    Document,
    FileId,
    FilePart,
    Image,
    ImageUrl,
    Message,
    Origin,
    Part,
    ProviderBlock,
    Text,
    Thinking,
    ToolCall,
    ToolDefinition,
    ToolResult,
)

PROVIDER = "openai"

LOCAL_NAMESPACE = "own_functions"

_LONGEST_ID = 64


def request_body(
    request: ModelRequest, model_name: str, can: Capabilities = SAFE
) -> dict[str, Any]:
    """Return the body of a request without its settings.

    With `tool_choice` "none" it still has the tools, so the cached prefix stays.
    """
    plan = plan_tools(request)
    inline = can.discovery == "additional_tools"
    search = HostedSearch(request, plan, can)
    body: dict[str, Any] = {"model": model_name}
    proxy = proxy_of(plan, can)
    tools = [*map(write_tool, plan.eager), *search.tools]
    if not inline:
        arriving = chain.from_iterable(search.arriving.values())
        tools += [tool for tool in arriving if tool["name"] not in proxy.names]
    if proxy.is_offered:
        tools.append(write_tool(CALL_TOOL))
    if tools:
        body["tools"] = tools
    if request.system.strip():
        body["instructions"] = request.system
    items = write_input(request.messages, plan, search, proxy, inline=inline)
    known = {tool.name for tool in (*plan.all_tools, *request.deferred_tools)}
    if search.loaded and known:
        body["input"] = [without_lost(item, known) for item in items]
    else:
        body["input"] = items
    if request.tools and request.tool_choice == "none":
        body["tool_choice"] = "none"
    elif (
        plan.withdrawn and can.allowed_tools and not search.tools
    ):  # `tool_choice` cannot name tools in namespaces
        body["tool_choice"] = _allowed(plan.callable_names())
    if profile_of(Origin(PROVIDER, model=model_name)).encrypts is not False:
        body["include"] = ["reasoning.encrypted_content"]
    body["store"] = False
    return body


def _allowed(names: Sequence[str]) -> dict[str, Any] | str:
    """Return a `tool_choice` that allows only these tools without changing earlier input."""
    if not names:
        return "none"
    return {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": name} for name in names],
    }


def write_tool(tool: ToolDefinition) -> dict[str, Any]:
    """Return a tool definition with `strict` off.

    Strict mode requires schemas in OpenAI's subset, but mcpagent sends servers' schemas unchanged.
    """
    parameters = object_schema(tool.parameters)
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": parameters,
        "strict": False,
    }


class HostedSearch:
    """The tools of a request for OpenAI's own search: a namespace for each server, and one for local functions.

    `tools` has the tools from the start, `arriving` the later ones by position of the message. `recalled` are those
    among the latter that were found in another way, by position. `loaded` are the tools that OpenAI's search found in
    this history: its items contain their definitions. `namespaces` maps each tool to its namespace in a call.
    """

    def __init__(
        self, request: ModelRequest, plan: ToolPlan, can: Capabilities
    ) -> None:
        asked = can.searches and bool(request.deferred_tools)
        loaded_at = _loaded(request.messages)
        self._taken: set[str] = set()
        self.loaded = frozenset[str]().union(*loaded_at.values())
        self.namespaces: dict[str, dict[str, Any]] = {}
        if asked:
            searchable = {tool.name for tool in request.deferred_tools}
        else:
            searchable = set[str]()
        first = plan.deferred if asked else ()
        before = [
            tool
            for name, tool in plan.found.items()
            if name in self.loaded and name not in searchable
        ]
        if asked or self.loaded:
            self.tools = [{"type": "tool_search"}, *self._written((*first, *before))]
        else:
            self.tools = []
        if asked:
            joined = plan.joined
        else:
            joined = {}
        self.arriving: dict[int, list[dict[str, Any]]] = {}
        self.recalled: dict[int, list[dict[str, Any]]] = {}
        for place in sorted({*plan.changes, *joined}):
            spaces = self._written(joined.get(place, ()))
            found = [
                tool
                for tool in plan.new_at(place)
                if tool.name not in loaded_at.get(place, ())
            ]
            others = [
                write_tool(tool) for tool in found if tool.name not in self.namespaces
            ]
            self.arriving[place] = [*spaces, *others]
            self.recalled[place] = [
                self._in_namespace(tool)
                for tool in found
                if tool.name in self.namespaces
            ]

    def _written(self, tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
        """Return the namespaces with their tools, which are listed in the namespace's description.

        The model sees only the name and description of a namespace.
        """
        written: list[dict[str, Any]] = []
        by_server: dict[str, list[ToolDefinition]] = {}
        for tool in sorted(tools, key=lambda tool: tool.name):
            by_server.setdefault(tool.server or "", []).append(tool)
        for server, members in sorted(by_server.items()):
            name = self._free_name(sendable_name(server) if server else LOCAL_NAMESPACE)
            space = {
                "type": "namespace",
                "name": name,
                "description": _described(server, members),
            }
            self.namespaces |= dict.fromkeys((tool.name for tool in members), space)
            written.append({**space, "tools": [*map(_deferred, members)]})
        return written

    def _in_namespace(self, tool: ToolDefinition) -> dict[str, Any]:
        return {**self.namespaces[tool.name], "tools": [_deferred(tool)]}

    def _free_name(self, wanted: str) -> str:
        numbered = (f"{wanted[:56]}_{number}" for number in count(2))
        if wanted not in self._taken:
            name = wanted
        else:
            name = next(name for name in numbered if name not in self._taken)
        self._taken.add(name)
        return name


def _loaded(messages: Sequence[Message]) -> dict[int, list[str]]:
    """Return the names of the tools that OpenAI's search found, by position of the message."""
    found: dict[int, list[str]] = {}
    for position, message in enumerate(messages):
        for part in message.parts:
            if isinstance(part, ProviderBlock):
                found.setdefault(position, []).extend(found_names(part))
    return found


def _deferred(tool: ToolDefinition) -> dict[str, Any]:
    return {**write_tool(tool), "defer_loading": True}


def _described(server: str, members: Sequence[ToolDefinition]) -> str:
    whose = "functions"
    if server:
        whose = f"tools of the server {safe_line(server, 60)}"
    return f"{len(members)} {whose}: {safe_line(', '.join(tool.name for tool in members), 500)}"


def found_names(part: Part) -> list[str]:
    """Return the names of the tools that a result of OpenAI's own search loads, including those in namespaces."""
    if (
        not isinstance(part, ProviderBlock)
        or part.data.get("type") != "tool_search_output"
    ):
        return []
    inside = [
        function
        for tool in _tools_in(part.data)
        for function in (_tools_in(tool) or (tool,))
    ]
    return [
        function["name"] for function in inside if isinstance(function.get("name"), str)
    ]


def _tools_in(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    tools = item.get("tools")
    if isinstance(tools, list):
        return [tool for tool in tools if isinstance(tool, dict)]
    return []


def without_lost(item: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return a search result without definitions of tools that no longer exist, because the model could call these."""
    if item.get("type") != "tool_search_output" or not isinstance(
        item.get("tools"), list
    ):
        return item
    kept: list[dict[str, Any]] = []
    for tool in _tools_in(item):
        if "tools" not in tool:
            if tool.get("name") in known:
                kept += [tool]
        elif left := [
            function for function in _tools_in(tool) if function.get("name") in known
        ]:
            kept.append({**tool, "tools": left})
    return {**item, "tools": kept}


def search_events(message: Message, *, known: int) -> list[Event]:
    """Return the events of tool searches that OpenAI ran.

    Their query is the JSON of the search's arguments, which are paths, not words.
    """
    events: list[Event] = []
    query = ""
    for part in message.parts:
        if not isinstance(part, ProviderBlock):
            continue
        if part.data.get("type") == "tool_search_call":
            query = json_text(part.data.get("arguments"))
        elif part.data.get("type") == "tool_search_output":
            names = tuple(found_names(part))
            events.append(ToolsSearched(query, len(names), names, known, 0.0))
    return events


def write_input(
    messages: Sequence[Message],
    plan: ToolPlan,
    search: HostedSearch,
    proxy: Proxy,
    *,
    inline: bool,
) -> list[dict[str, Any]]:
    """Return the history as input items.

    With `inline`, tools appear at their position as `additional_tools`; those of `proxy` are described there and called
    through `call_tool`. Results of another provider's search come before the answer with the search, because calls of
    the found tools follow in it.
    """
    items: list[dict[str, Any]] = []
    ids = ids_on_the_wire(messages, partial(legal_id, longest=_LONGEST_ID))
    words = plan.changes
    if proxy.in_words:
        words = changes_in_words(plan, messages)
    for position, message in enumerate(messages):
        new = None
        if inline:
            new = search.arriving.get(position)
        added = []
        if new:
            added = [{"type": "additional_tools", "role": "developer", "tools": new}]
        added += _recalled(position, search.recalled.get(position, ()))
        if message.role == "assistant":
            items += [
                *added,
                *_assistant_items(message, ids, search.namespaces, proxy.names),
            ]
        else:
            noted = annotated(message, words.get(position, ()), proxy.notes)
            items += [*_user_items(noted, ids), *added]
    return items


def _recalled(position: int, found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return deferred tools that were found in another way as results of a client-side search."""
    if not found:
        return []
    names = [function["name"] for space in found for function in space["tools"]]
    of_ours = {
        "call_id": f"found_{position}",
        "execution": "client",
        "status": "completed",
    }
    call = {"type": "tool_search_call", **of_ours, "arguments": {"queries": names}}
    return [call, {"type": "tool_search_output", **of_ours, "tools": list(found)}]


def _user_items(message: Message, ids: Mapping[str, str]) -> list[dict[str, Any]]:
    content = written_parts(
        [part for part in message.parts if isinstance(part, Text | FilePart)],
        "input_text",
        _file,
    )
    items = [
        _tool_output(part, ids)
        for part in message.parts
        if isinstance(part, ToolResult)
    ]
    if content:
        items.append({"role": "user", "content": plain_content(content)})
    return items


def _file(part: FilePart) -> dict[str, Any] | None:
    """Return an image or a file as an input part; None for a recording, which the API does not accept."""
    match part:
        case Image():
            return {
                "type": "input_image",
                "image_url": data_url(part),
                "detail": "auto",
            }
        case ImageUrl():
            return {"type": "input_image", "image_url": part.url, "detail": "auto"}
        case Document(media_type="application/pdf"):
            return {
                "type": "input_file",
                "filename": part.name or "document.pdf",
                "file_data": data_url(part),
            }
        case FileId() if part.media_type.startswith("image/"):
            return {"type": "input_image", "file_id": part.id, "detail": "auto"}
        case FileId():
            return {"type": "input_file", "file_id": part.id}
        case _:
            return None


def _tool_output(result: ToolResult, ids: Mapping[str, str]) -> dict[str, Any]:
    parts = shown_parts(result)
    first = parts[0]
    if result.error and isinstance(first, Text):
        parts[0] = Text(marked_error(result, first.text))
    call_id = ids[result.call_id]
    return {
        "type": "function_call_output",
        "call_id": call_id,
        "output": plain_content(written_parts(parts, "input_text", _file)),
    }


def _assistant_items(
    message: Message,
    ids: Mapping[str, str],
    namespaces: Mapping[str, Mapping[str, Any]],
    through: Collection[str],
) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for part in message.parts:
        match part:
            case Text() if "content" in part.provider_data:
                _add_content(items, part.provider_data, _with_text(part))
            case Text() if part.text.strip():
                items.append({"role": "assistant", "content": part.text})
            case ToolCall():
                if part.name in through:
                    name, arguments = through_call_tool(
                        part, part.provider_data.get("arguments")
                    )
                    part = replace(part, name=name, arguments=arguments)
                items.append(_call_item(part, ids[part.id], namespaces))
            case Thinking() if part.provider_data:
                items.append(dict(part.provider_data))
            case ProviderBlock(data={"item": dict(), "content": content}):
                _add_content(items, part.data, content)
            case ProviderBlock() if part.data:
                items.append(dict(part.data))
            case _:
                pass
    return items


def _with_text(part: Text) -> dict[str, Any]:
    content = part.provider_data["content"]
    return {
        **content,
        "refusal" if content.get("type") == "refusal" else "text": part.text,
    }


def _add_content(
    items: list[dict[str, Any]], place: Mapping[str, Any], content: Any
) -> None:
    """Restore a message item from its content blocks: add a block to the previous item if it is `joined`, else begin a
    new item.
    """
    item = place["item"]
    if place.get("joined") and items and without(items[-1], ("content",)) == item:
        items[-1]["content"].append(content)
    else:
        items.append({**item, "content": [content]})


def _call_item(
    call: ToolCall, call_id: str, namespaces: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    sent = call.provider_data
    if "arguments" in sent:
        arguments = sent["arguments"]
    else:
        arguments = json_text(call.arguments)
    item = {
        "type": "function_call",
        "call_id": call_id,
        "name": call.name,
        "arguments": arguments,
    }
    if sent:
        return {**item, **sent}
    if call.name in namespaces:
        return {**item, "namespace": namespaces[call.name]["name"]}
    return item
