"""`get_prompt` and `get_resource`: tools with which a model finds and requests the prompts and resources of servers.

Permission rules apply to the requested prompt or resource (`Tool.asks`), not to these two tools.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from mcpagent.mcp.all_servers import McpServers
from mcpagent.mcp.lists.server_lists import PromptInfo, ResourceInfo
from mcpagent.mcp.prompts_and_resources import get_prompt, get_resource
from mcpagent.mcp.server_link import ServerLink
from mcpagent.permissions.decision import entry_rules
from mcpagent.run.validation import verdict_beside
from mcpagent.tool_search.search_tools import MAX_INSTRUCTIONS
from mcpagent.utilities.text.for_model import line_for_model, spelled
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import (
    Pinned,
    PromptRequest,
    ResourceRequest,
    Text,
    ToolDefinition,
)
from mcpagent.values.tools import Tool, ToolOutput

_NAME = 1_280
"""Number of characters of a name that are examined, before it is cut to a hundred."""

MAX_NAMED = 20
"""Maximum number of prompts or resources that a description lists; the rest are counted."""


def server_content_tools(
    toolsets: Sequence[ServerLink],
    unavailable: Callable[[], Mapping[str, str]] = dict[str, str],
) -> list[Tool]:
    """Return these tools for the connected servers; [] if none of them offers prompts or resources.

    `unavailable` returns the servers that cannot be used at the time of a call, with the reason, because the model may
    still name one.
    """
    with_prompts = {
        toolset.config.name: toolset for toolset in toolsets if toolset.lists.prompts
    }
    with_resources = {
        toolset.config.name: toolset for toolset in toolsets if toolset.lists.resources
    }
    tools: list[Tool] = []
    if with_prompts:
        definition = _prompt_definition(with_prompts)
        tool = _content_tool(
            definition, with_prompts, unavailable, _prompt, _asked_prompt
        )
        tools.append(replace(tool, leads_to=_searchable(with_prompts)))
    if with_resources:
        definition = _resource_definition(with_resources)
        tools.append(
            _content_tool(
                definition, with_resources, unavailable, _resource, _asked_resource
            )
        )
    return tools


def _searchable(toolsets: Mapping[str, ServerLink]) -> tuple[ToolDefinition, ...]:
    """Return the prompts of the servers as definitions that tool search can rank."""
    return tuple(
        ToolDefinition(
            f"{server}/{spelled(prompt.name[:_NAME])}",
            line_for_model(prompt.description, 400),
            {
                "type": "object",
                "properties": {
                    spelled(item.name[:_NAME]): {"type": "string"}
                    for item in prompt.arguments
                },
                "required": [
                    spelled(item.name[:_NAME])
                    for item in prompt.arguments
                    if item.required
                ],
            },
            server,
            spelled(prompt.name[:_NAME]),
        )
        for server, toolset in toolsets.items()
        for prompt in toolset.lists.prompts
    )


def known_content(servers: McpServers) -> list[ToolDefinition]:
    """Return the listed prompts and resources that calls of these tools can request."""
    return [
        *(
            PromptRequest("get_prompt", "", {}, name, one.name)
            for name, all_ in servers.prompts.items()
            for one in all_
        ),
        *(
            ResourceRequest(
                "get_resource",
                "",
                {},
                name,
                one.uri,
                read_only=None if one.is_template else True,
            )
            for name, all_ in servers.resources.items()
            for one in all_
        ),
    ]


def _content_tool(
    definition: ToolDefinition,
    toolsets: Mapping[str, ServerLink],
    unavailable: Callable[[], Mapping[str, str]],
    get: Callable[[ServerLink, dict[str, Any]], Awaitable[ToolOutput]],
    asked: Callable[[ServerLink, dict[str, Any]], ToolDefinition | None],
) -> Tool:
    async def run(arguments: dict[str, Any]) -> ToolOutput:
        server = arguments.get("server")
        if (
            isinstance(server, str)
            and (reason := unavailable().get(server)) is not None
        ):
            text = f'server "{safe_line(server, 60)}" is not connected: {safe_line(reason)}'
            return ToolOutput.of_text(text, error="server_down")
        if isinstance(server, str) and server not in toolsets:
            return _unknown("server", server, list(toolsets))
        if problem := (await verdict_beside(definition.parameters, arguments)).problem:
            return ToolOutput.of_text(
                f"the arguments do not fit: {problem}", error="invalid_arguments"
            )
        return await get(toolsets[arguments["server"]], arguments)

    def asks(tool: ToolDefinition, arguments: dict[str, Any]) -> ToolDefinition:
        server = arguments.get("server")
        toolset = None
        if isinstance(server, str):
            toolset = toolsets.get(server)
        # Without a valid server, no request is sent: `run` reports the problem.
        request = None
        if toolset is not None:
            request = asked(toolset, arguments)
        if request is None:
            return tool
        return replace(request, name=tool.name, title=tool.title)

    rules = tuple(
        rule for toolset in toolsets.values() for rule in entry_rules(toolset.config)
    )
    return Tool(definition, run, checks_arguments=True, asks=asks, rules=rules)


def _meant_prompt(toolset: ServerLink, name: object) -> PromptInfo | None:
    named = {spelled(prompt.name): prompt for prompt in reversed(toolset.lists.prompts)}
    if isinstance(name, str):
        return named.get(spelled(name))
    return None


def _asked_prompt(
    toolset: ServerLink, arguments: dict[str, Any]
) -> ToolDefinition | None:
    prompt, server = _meant_prompt(toolset, arguments.get("name")), toolset.config.name
    if prompt is None:
        return None
    about = f'Gets the prompt "{spelled(prompt.name)}" of the server "{spelled(server)}", with these arguments.'
    return PromptRequest("", about, {"type": "object"}, server, prompt.name)


async def _prompt(toolset: ServerLink, arguments: dict[str, Any]) -> ToolOutput:
    prompt = _meant_prompt(toolset, arguments["name"])
    if prompt is None:
        return _unknown(
            "prompt",
            arguments["name"],
            [spelled(prompt.name) for prompt in toolset.lists.prompts],
        )
    names = {spelled(item.name): item.name for item in prompt.arguments}
    given = arguments.get("arguments") or {}
    values = {names.get(str(key), str(key)): str(value) for key, value in given.items()}
    missing = [
        item.name
        for item in prompt.arguments
        if item.required and item.name not in values
    ]
    if missing:
        needed = ", ".join(safe_line(spelled(name), 60) for name in missing)
        text = f'prompt "{safe_line(spelled(prompt.name), 60)}" needs {needed}; give them in "arguments"'
        return ToolOutput.of_text(text, error="invalid_arguments")
    output = await get_prompt(toolset, prompt.name, values)
    texts = [part.text for part in output.content if isinstance(part, Text)]
    if output.error is None and sum(map(len, texts)) <= MAX_INSTRUCTIONS:
        # The text of a prompt has instructions, like that of a skill, so compaction preserves it.
        return replace(output, changes=(*output.changes, Pinned()))
    return output


def _meant_uri(toolset: ServerLink, uri: str) -> tuple[str, bool]:
    """Return the URI to send, and whether the server listed it; an unlisted one may come from a template or a link."""
    listed = {
        spelled(resource.uri): resource.uri
        for resource in toolset.lists.resources
        if not resource.is_template
    }
    return listed.get(uri, uri), uri in listed


def _asked_resource(
    toolset: ServerLink, arguments: dict[str, Any]
) -> ToolDefinition | None:
    uri, server = arguments.get("uri"), toolset.config.name
    if not isinstance(uri, str):
        return None
    sent, is_listed = _meant_uri(toolset, uri)
    listed = "which does not list it"
    if is_listed:
        listed = "which lists it"
    about = f'Reads the resource "{spelled(sent)}" of the server "{spelled(server)}", {listed}.'
    return ResourceRequest(
        "",
        about,
        {"type": "object"},
        server,
        sent,
        read_only=True if is_listed else None,
    )


async def _resource(toolset: ServerLink, arguments: dict[str, Any]) -> ToolOutput:
    return await get_resource(toolset, _meant_uri(toolset, arguments["uri"])[0])


def _definition(
    name: str,
    title: str,
    description: str,
    listed: Mapping[str, list[str]],
    properties: dict[str, Any],
) -> ToolDefinition:
    """Return the definition of a tool; `listed` has lines about the items of each server.

    Its first two properties are required.
    """
    lines = [f"- {server}: {_capped(items)}" for server, items in listed.items()]
    return ToolDefinition(
        name=name,
        description="\n".join([f"{description} Available:", *lines]),
        parameters={
            "type": "object",
            "properties": properties,
            "required": list(properties)[:2],
        },
        original_name=name,
        title=title,
        read_only=True,
    )


def _prompt_definition(toolsets: Mapping[str, ServerLink]) -> ToolDefinition:
    return _definition(
        "get_prompt",
        "Get a prompt",
        "Get a prepared prompt of an MCP server, filled with your arguments.",
        {
            name: [_prompt_line(prompt) for prompt in toolset.lists.prompts]
            for name, toolset in toolsets.items()
        },
        {
            "server": {
                "type": "string",
                "enum": list(toolsets),
                "description": "The server that has the prompt",
            },
            "name": {"type": "string", "description": "The prompt's name"},
            "arguments": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "Values for the prompt's arguments, as strings",
            },
        },
    )


def _resource_definition(toolsets: Mapping[str, ServerLink]) -> ToolDefinition:
    return _definition(
        "get_resource",
        "Read a resource",
        "Read a resource of an MCP server by its URI.",
        {
            name: [_resource_line(resource) for resource in toolset.lists.resources]
            for name, toolset in toolsets.items()
        },
        {
            "server": {
                "type": "string",
                "enum": list(toolsets),
                "description": "The server that has it",
            },
            "uri": {
                "type": "string",
                "description": "The URI; fill in the {placeholders} of a template",
            },
        },
    )


def _prompt_line(prompt: PromptInfo) -> str:
    arguments = ", ".join(
        f"{spelled(item.name[:_NAME])}{'' if item.required else '?'}"
        for item in prompt.arguments
    )
    about = ""
    if prompt.description:
        about = f" - {line_for_model(prompt.description, 80)}"
    return line_for_model(f"{spelled(prompt.name[:_NAME])}({arguments}){about}", 160)


def _resource_line(resource: ResourceInfo) -> str:
    return line_for_model(
        f"{spelled(resource.uri[:_NAME])}{f' - {resource.name}' if resource.name else ''}",
        160,
    )


def _capped(lines: list[str]) -> str:
    more = ""
    if len(lines) > MAX_NAMED:
        more = f"; and {len(lines) - MAX_NAMED} more"
    return "; ".join(lines[:MAX_NAMED]) + more


def _unknown(what: str, given: str, known: list[str]) -> ToolOutput:
    near = get_close_matches(given, known, n=3, cutoff=0.5) or known[:5]
    names = ", ".join(f'"{safe_line(name, 60)}"' for name in near)
    return ToolOutput.of_text(
        f'no {what} "{safe_line(given, 60)}"; try {names}', error="invalid_arguments"
    )
