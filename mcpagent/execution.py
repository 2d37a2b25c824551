"""The tool calls of one model message: found, gated, validated, run at the same time, answered in call order.

Whatever goes wrong becomes a `ToolResult` in words that help the model; nothing here raises but a cancellation.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from mcpagent.catalog import Catalog
from mcpagent.conversation import Conversation
from mcpagent.errors import ServerError
from mcpagent.events import Emit, ToolCallFinished, ToolCallStarted, ToolsLoaded, ToolsRemoved
from mcpagent.messages import Message, Part, Text, ToolCall, ToolErrorKind, ToolResult, ToolsChanged, ToolsShown
from mcpagent.safe_text import safe_line
from mcpagent.search.signature import call_signature
from mcpagent.tools import Tool, ToolOutput
from mcpagent.validation import argument_problem

NOTHING_RETURNED = "(the tool returned nothing)"


@dataclass(frozen=True, slots=True)
class Execution:
    """What running calls needs. `timeout_seconds` limits each call that has no limit of its own."""

    catalog: Catalog
    conversation: Conversation
    emit: Emit
    timeout_seconds: float


@dataclass(frozen=True, slots=True)
class _Admission:
    """The gate's verdict: run `tool`, or answer with `refusal`. `changes` are what the attempt itself loads."""

    tool: Tool | None = None
    refusal: ToolOutput | None = None
    changes: tuple[ToolsChanged, ...] = ()


@dataclass(slots=True)
class _Batch:
    """Results so far, by position of the call."""

    parts: dict[int, tuple[Part, ...]] = field(default_factory=dict[int, tuple[Part, ...]])


async def run_calls(calls: Sequence[ToolCall], execution: Execution) -> Message:
    """Runs the calls of one message and appends their results to the conversation, in call order.

    Ordered tools (search, add) run one after the other before later calls are judged; all others run at the same
    time. When cancelled, what was finished is kept, the rest is answered as cancelled, and the history is valid.
    """
    batch = _Batch()
    try:
        async with asyncio.TaskGroup() as group:
            for position, call in enumerate(calls):
                admission = _admit(call, execution)
                execution.conversation.note(admission.changes)
                running = _run_call(position, call, admission, execution, batch)
                if admission.tool is not None and not admission.tool.ordered:
                    group.create_task(running)
                else:
                    await running
    except asyncio.CancelledError:
        _append(batch, execution.conversation)
        execution.conversation.close_open_calls()
        raise
    return _append(batch, execution.conversation)


def _append(batch: _Batch, conversation: Conversation) -> Message:
    message = Message("tool", tuple(part for position in sorted(batch.parts) for part in batch.parts[position]))
    if message.parts:
        conversation.append(message)
    return message


def _admit(call: ToolCall, execution: Execution) -> _Admission:
    """Whether the model may run this now: offered, allowed by `on_direct_call`, or virtual; and the arguments fit."""
    if call.malformed:
        return _refuse(
            "invalid_arguments",
            f"The arguments are not one complete JSON object, so the call was not run: {safe_line(call.malformed)} "
            "Send the call again with complete JSON arguments.",
        )
    catalog, discovery = execution.catalog, execution.conversation.discovery
    tool = catalog.find(call.name)
    if tool is None:
        return _refuse("unknown_tool", _unknown(call.name, catalog))
    name = tool.name
    problem = "" if tool.checks_arguments else argument_problem(tool.definition.parameters, call.arguments)
    if any(offered.name == name for offered in catalog.offer(discovery)):
        return _Admission(tool) if not problem else _refuse("invalid_arguments", _misfit(tool, problem))
    if name in discovery.removed:
        return _refuse(
            "not_loaded", f'"{name}" was removed in this conversation. Call add_tool(tool_names=["{name}"]) to load it.'
        )
    policy = catalog.options.on_direct_call
    if policy == "refuse":
        return _refuse("not_loaded", f'"{name}" is not loaded. Call add_tool(tool_names=["{name}"]) first.')
    loading = (ToolsChanged(added=(tool.definition,)),)
    if policy == "run" or name in discovery.shown:
        return _Admission(tool, None, loading) if not problem else _refuse("invalid_arguments", _misfit(tool, problem))
    text = (
        f'"{name}" was not loaded and was not run. It is loaded now: {call_signature(tool.definition)} Call it again.'
    )
    return _Admission(None, ToolOutput.of_text(text, error="not_loaded"), loading)


def _refuse(error: ToolErrorKind, text: str) -> _Admission:
    return _Admission(refusal=ToolOutput.of_text(text, error=error))


def _unknown(name: str, catalog: Catalog) -> str:
    near = catalog.near(name)
    shown = safe_line(name, 80)
    hint = f" Did you mean {', '.join(near)}?" if near else ""
    down = [
        f' Server "{server}" is not connected: {reason}'
        for server, reason in catalog.unavailable.items()
        if name.startswith(server)
    ]
    search = " Use search_tools to find tools." if catalog.searching else ""
    return f'There is no tool "{shown}".{hint}{"".join(down)}{search}'


def _misfit(tool: Tool, problem: str) -> str:
    return f"The arguments do not fit, so the call was not run: {problem}. Signature: {call_signature(tool.definition)}"


async def _run_call(position: int, call: ToolCall, admission: _Admission, execution: Execution, batch: _Batch) -> None:
    server = admission.tool.definition.server if admission.tool is not None else None
    execution.emit(ToolCallStarted(call, server))
    started = time.monotonic()
    if admission.tool is not None:
        output = await _output(admission.tool, call, execution.timeout_seconds)
    else:
        output = admission.refusal or ToolOutput(())
    content = output.content or (Text(NOTHING_RETURNED),)
    result = ToolResult(call.id, call.name, content, output.error, time.monotonic() - started)
    changes = (*admission.changes, *output.changes)
    execution.conversation.note(output.changes)
    batch.parts[position] = (result, *changes)
    execution.emit(ToolCallFinished(call, result, server))
    for event in output.events:
        execution.emit(event)
    _tell(changes, execution)


def _tell(changes: Sequence[ToolsShown | ToolsChanged], execution: Execution) -> None:
    for change in changes:
        match change:
            case ToolsChanged(added=added, removed=removed):
                if added:
                    names = tuple(tool.name for tool in added)
                    execution.emit(ToolsLoaded(names, execution.catalog.tokens(names)))
                if removed:
                    execution.emit(ToolsRemoved(removed))
            case ToolsShown():
                pass


async def _output(tool: Tool, call: ToolCall, limit_seconds: float) -> ToolOutput:
    """Runs the tool within its time limit; every failure becomes words for the model."""
    seconds = tool.timeout_seconds if tool.timeout_seconds is not None else limit_seconds
    timeout = asyncio.timeout(seconds)
    try:
        async with timeout:
            return await tool.run(call.arguments)
    except ServerError as error:
        return ToolOutput.of_text(str(error), error="server_down")
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return ToolOutput.of_text(f'"{tool.name}" was cancelled from inside; it may have run.', error="cancelled")
    except Exception as error:  # noqa: BLE001 - the boundary to tools, which are other people's code
        if timeout.expired():
            text = f'"{tool.name}" gave no answer within {seconds:g} seconds; it may have run, or still be running.'
            return ToolOutput.of_text(text, error="timeout")
        return ToolOutput.of_text(f"{type(error).__name__}: {error}", error="failed")
