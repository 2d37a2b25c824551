"""Admission of calls: the tool is offered, or loaded by the call, and the arguments are valid."""

from __future__ import annotations

import asyncio
from typing import Any

from mcpagent.run.agent_run import AgentRun
from mcpagent.run.run_parts import CallState
from mcpagent.run.validation import fitted
from mcpagent.search.signature import call_signature
from mcpagent.tool_search.session_tools import SessionTools
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import Notice
from mcpagent.values.messages import ToolCall, ToolErrorKind, ToolsChanged
from mcpagent.values.tools import Tool, ToolOutput


async def admit(call: ToolCall, run: AgentRun) -> CallState:
    """Return the state of a call: with its tool if the model may call it now, else with the reason why not.

    The tool must be offered, virtual, or permitted by `on_direct_call`, and the arguments must be valid.
    """
    if call.malformed:
        why = f"The arguments are not one complete JSON object, so the call was not run: {safe_line(call.malformed)}"
        return _refused(
            call,
            "invalid_arguments",
            f"{why} Send the call again with complete JSON arguments.",
        )
    tools, discovery = run.tools, run.conversation.discovery
    tool = tools.find(call.name)
    if tool is None:
        # In a thread, because similar names may require indexing all tools first.
        return _refused(
            call, "unknown_tool", await asyncio.to_thread(_unknown, call.name, tools)
        )
    name = tool.name
    if tool.checks_arguments:
        problem = ""
    else:
        problem = await misfit_of(tool, call.arguments, run)
    if tools.is_offered(name):
        if not problem:
            return CallState(call, tool)
        return _refused_misfit(call, tool, problem)
    if not tools.is_direct(tool):
        text = f'"{name}" can be called only from programs. {tools.how_to_load(name)}'
        return _refused(call, "not_loaded", text)
    if name in discovery.removed:
        text = f'"{name}" was removed in this conversation. {tools.how_to_load(name)}'
        return _refused(call, "not_loaded", text)
    policy = tools.options.on_direct_call
    if policy == "refuse":
        return _refused(
            call, "not_loaded", f'"{name}" is not loaded. {tools.how_to_load(name)}'
        )
    loading = tools.loading(tool)
    if policy == "run" or name in discovery.shown:
        if not problem:
            return CallState(call, tool, changes=(loading,))
        return _refused_misfit(call, tool, problem)
    how = "No more tools can be loaded, but it can be called"
    if isinstance(loading, ToolsChanged):
        how = "It is loaded now"
    text = f'"{name}" was not loaded and was not run. {how}: {call_signature(tool.definition)} Call it again.'
    refused = _refused(call, "not_loaded", text)
    refused.changes = (loading,)
    return refused


def _refused(call: ToolCall, error: ToolErrorKind, text: str) -> CallState:
    return CallState(call, refusal=ToolOutput.of_text(text, error=error))


def _refused_misfit(call: ToolCall, tool: Tool, problem: str) -> CallState:
    return _refused(call, "invalid_arguments", misfit_text(tool, problem))


def _unknown(name: str, tools: SessionTools) -> str:
    near = tools.near(name)
    shown = safe_line(name, 80)
    hint = ""
    if near:
        hint = f" Did you mean {', '.join(near)}?"
    lost = tools.lost_source(name)
    down = [
        f' Server "{server}" is not connected: {reason}'
        for server, reason in tools.unavailable.items()
        if (server == lost or name.startswith(server))
        and server not in tools.listing.connecting
    ]
    down += [
        f' Server "{safe_line(server, 64)}" is still connecting and may have it; you are told when it is ready.'
        for server in tools.listing.connecting
    ]
    how = "Use search_tools to find tools"
    if tools.provider_searches:
        how = "Search for tools"
    search = ""
    if tools.searching:
        search = f" {how}."
    gone = ""
    if lost:
        gone = f' any more: its source "{safe_line(lost, 60)}" no longer has it'
    so_far = ""
    if tools.listing.connecting:
        so_far = " so far"
    return f'There is no tool "{shown}"{so_far}{gone}.{hint}{"".join(down)}{search}'


async def misfit_of(tool: Tool, arguments: dict[str, Any], run: AgentRun) -> str:
    """Return the problem of invalid arguments, "" if they are valid. A schema that cannot be used is reported once."""
    _, found = await fitted(tool.definition.parameters, arguments)
    told, key = run.tools.told_unchecked, tool.definition.key
    if found.unchecked and key not in told:
        told.add(key)
        run.emit(
            Notice(
                f"the arguments of {tool.name} are not checked; its schema: {found.unchecked}",
                "warning",
            )
        )
    return found.problem


def misfit_text(tool: Tool, problem: str) -> str:
    """Return the result text for a call with invalid arguments, with the signature of the tool."""
    return f"The arguments do not fit, so the call was not run: {problem}. Signature: {call_signature(tool.definition)}"
