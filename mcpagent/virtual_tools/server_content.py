"""`get_prompt` and `get_resource`: what servers offer besides tools, as tools that a model can find and call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from mcpagent.mcp.lists import PromptInfo, ResourceInfo
from mcpagent.mcp.toolset import McpToolset
from mcpagent.messages import ToolDefinition
from mcpagent.safe_text import safe_line
from mcpagent.tools import Tool, ToolOutput

MAX_NAMED = 20
"""Prompts or resources named in a description; the rest is counted."""


def server_content_tools(toolsets: Sequence[McpToolset]) -> list[Tool]:
    """The virtual tools for these connected servers; none where no server offers prompts or resources."""
    with_prompts = {toolset.config.name: toolset for toolset in toolsets if toolset.prompts}
    with_resources = {toolset.config.name: toolset for toolset in toolsets if toolset.resources}
    tools: list[Tool] = []
    if with_prompts:
        tools.append(_prompt_tool(with_prompts))
    if with_resources:
        tools.append(_resource_tool(with_resources))
    return tools


def _prompt_tool(toolsets: Mapping[str, McpToolset]) -> Tool:
    async def run(arguments: dict[str, Any]) -> ToolOutput:
        toolset = toolsets.get(arguments["server"])
        if toolset is None:
            return _unknown("server", arguments["server"], list(toolsets))
        names = [prompt.name for prompt in toolset.prompts]
        if arguments["name"] not in names:
            return _unknown("prompt", arguments["name"], names)
        values = {str(key): str(value) for key, value in (arguments.get("arguments") or {}).items()}
        prompt = next(prompt for prompt in toolset.prompts if prompt.name == arguments["name"])
        missing = [item.name for item in prompt.arguments if item.required and item.name not in values]
        if missing:
            text = f'prompt "{safe_line(prompt.name, 60)}" needs {", ".join(missing)}; give them in "arguments"'
            return ToolOutput.of_text(text, error="invalid_arguments")
        return await toolset.get_prompt(prompt.name, values)

    lines = [
        f"- {name}: {_capped([_prompt_line(prompt) for prompt in toolset.prompts])}"
        for name, toolset in toolsets.items()
    ]
    definition = ToolDefinition(
        name="get_prompt",
        description="Get a prepared prompt of an MCP server, filled with your arguments. Available:\n"
        + "\n".join(lines),
        parameters={
            "type": "object",
            "properties": {
                "server": {"type": "string", "enum": list(toolsets), "description": "The server that has the prompt"},
                "name": {"type": "string", "description": "The prompt's name"},
                "arguments": {
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                    "description": "Values for the prompt's arguments, as strings",
                },
            },
            "required": ["server", "name"],
        },
        original_name="get_prompt",
        title="Get a prompt",
        read_only=True,
    )
    return Tool(definition, run)


def _resource_tool(toolsets: Mapping[str, McpToolset]) -> Tool:
    async def run(arguments: dict[str, Any]) -> ToolOutput:
        toolset = toolsets.get(arguments["server"])
        if toolset is None:
            return _unknown("server", arguments["server"], list(toolsets))
        # A URI that was not listed may still be one: of a template, or from a resource link in a result.
        return await toolset.get_resource(arguments["uri"])

    lines = [
        f"- {name}: {_capped([_resource_line(resource) for resource in toolset.resources])}"
        for name, toolset in toolsets.items()
    ]
    definition = ToolDefinition(
        name="get_resource",
        description="Read a resource of an MCP server by its URI. Available:\n" + "\n".join(lines),
        parameters={
            "type": "object",
            "properties": {
                "server": {"type": "string", "enum": list(toolsets), "description": "The server that has it"},
                "uri": {"type": "string", "description": "The URI; fill in the {placeholders} of a template"},
            },
            "required": ["server", "uri"],
        },
        original_name="get_resource",
        title="Read a resource",
        read_only=True,
    )
    return Tool(definition, run)


def _prompt_line(prompt: PromptInfo) -> str:
    arguments = ", ".join(item.name if item.required else f"{item.name}?" for item in prompt.arguments)
    about = f" - {safe_line(prompt.description, 80)}" if prompt.description else ""
    return safe_line(f"{prompt.name}({arguments}){about}", 160)


def _resource_line(resource: ResourceInfo) -> str:
    return safe_line(f"{resource.uri}{f' - {resource.name}' if resource.name else ''}", 160)


def _capped(lines: list[str]) -> str:
    more = f"; and {len(lines) - MAX_NAMED} more" if len(lines) > MAX_NAMED else ""
    return "; ".join(lines[:MAX_NAMED]) + more


def _unknown(what: str, given: str, known: list[str]) -> ToolOutput:
    near = get_close_matches(given, known, n=3, cutoff=0.5) or known[:5]
    names = ", ".join(f'"{safe_line(name, 60)}"' for name in near)
    return ToolOutput.of_text(f'no {what} "{safe_line(given, 60)}"; try {names}', error="invalid_arguments")
