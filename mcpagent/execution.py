"""The tool calls of one model message: found, gated, validated, run at the same time, answered in call order.

Whatever goes wrong becomes a `ToolResult` in words that help the model; nothing here raises but a cancellation.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mcpagent.catalog import Catalog
from mcpagent.conversation import Conversation
from mcpagent.errors import ServerError
from mcpagent.events import Emit, ToolCallFinished, ToolCallStarted, ToolsLoaded, ToolsRemoved
from mcpagent.messages import Message, Part, Text, ToolCall, ToolErrorKind, ToolResult, ToolsChanged, ToolsShown
from mcpagent.pending import CallAnswer, OnApproval, PendingCall
from mcpagent.recording.tape import Tape
from mcpagent.run_context import RunContext
from mcpagent.safe_text import safe_line
from mcpagent.search.signature import call_signature
from mcpagent.tool_algebra import awaited
from mcpagent.tool_context import StateChannel
from mcpagent.tools import Tool, ToolOutput
from mcpagent.validation import argument_problem

NOTHING_RETURNED = "(the tool returned nothing)"


@dataclass(frozen=True, slots=True)
class Execution:
    """What running calls needs. `timeout_seconds` limits each call that has no limit of its own.

    Without `on_approval`, calls that need approval stay pending, and so are not run.
    """

    catalog: Catalog
    conversation: Conversation
    emit: Emit
    timeout_seconds: float
    context: RunContext[Any]
    state: StateChannel
    on_approval: OnApproval | None = None
    tape: Tape = field(default_factory=Tape)
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while `on_approval` decides: a person is asked one question at a time."""


@dataclass(frozen=True, slots=True)
class CallsOutcome:
    """The message with the results, and the calls that were not run because they wait for an answer."""

    message: Message
    pending: tuple[PendingCall, ...] = ()


@dataclass(frozen=True, slots=True)
class _Admission:
    """The gate's verdict: run `tool`, or answer with `refusal`. `changes` are what the attempt itself loads."""

    tool: Tool | None = None
    refusal: ToolOutput | None = None
    changes: tuple[ToolsChanged, ...] = ()


@dataclass(slots=True)
class _Batch:
    """Results so far, and calls that wait, by position of the call."""

    parts: dict[int, tuple[Part, ...]] = field(default_factory=dict[int, tuple[Part, ...]])
    pending: dict[int, PendingCall] = field(default_factory=dict[int, PendingCall])


async def run_calls(
    calls: Sequence[ToolCall], execution: Execution, answers: Mapping[str, CallAnswer] | None = None
) -> CallsOutcome:
    """Runs the calls of one message and appends their results to the conversation, in call order.

    `answers`, by call id, are for calls that were pending; these were told of when they were first made.

    Ordered tools (search, add) run one after the other before later calls are judged; all others run at the same
    time. When cancelled, what was finished is kept, the rest is answered as cancelled, and the history is valid.
    """
    batch = _Batch()
    try:
        async with asyncio.TaskGroup() as group:
            for position, call in enumerate(calls):
                admission = _admit(call, execution)
                execution.conversation.note(admission.changes)
                running = _run_call(position, call, admission, execution, batch, (answers or {}).get(call.id))
                if admission.tool is not None and not admission.tool.ordered:
                    group.create_task(running)
                else:
                    await running
    except asyncio.CancelledError:
        _append(batch, execution.conversation)
        execution.conversation.close_open_calls()
        raise
    message = _append(batch, execution.conversation)
    return CallsOutcome(message, tuple(batch.pending[position] for position in sorted(batch.pending)))


async def open_requests(execution: Execution) -> list[PendingCall]:
    """The conversation's open calls that wait for an answer; nothing is run or asked."""
    requests: list[PendingCall] = []
    for call in execution.conversation.open_calls:
        admission = _admit(call, execution)
        if admission.tool is not None:
            context = execution.context.for_call(call.id, admission.tool.name)
            waiting = await _waiting(admission.tool, call, context)
            requests += [waiting] if isinstance(waiting, PendingCall) else []
    return requests


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
        return _refuse("not_loaded", f'"{name}" was removed in this conversation. {catalog.how_to_load(name)}')
    policy = catalog.options.on_direct_call
    if policy == "refuse":
        return _refuse("not_loaded", f'"{name}" is not loaded. {catalog.how_to_load(name)}')
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
    lost = catalog.lost_server(name)
    down = [
        f' Server "{server}" is not connected: {reason}'
        for server, reason in catalog.unavailable.items()
        if server == lost or name.startswith(server)
    ]
    how = "Search for tools" if catalog.provider_searches else "Use search_tools to find tools"
    search = f" {how}." if catalog.searching else ""
    gone = f' any more: the server "{safe_line(lost, 60)}" no longer has it' if lost else ""
    return f'There is no tool "{shown}"{gone}.{hint}{"".join(down)}{search}'


def _misfit(tool: Tool, problem: str) -> str:
    return f"The arguments do not fit, so the call was not run: {problem}. Signature: {call_signature(tool.definition)}"


async def _run_call(
    position: int,
    call: ToolCall,
    admission: _Admission,
    execution: Execution,
    batch: _Batch,
    answer: CallAnswer | None,
) -> None:
    server = admission.tool.definition.server if admission.tool is not None else None
    if answer is None:
        execution.emit(ToolCallStarted(call, server))
    started = time.monotonic()
    output = await _decided(admission, call, execution, answer)
    if isinstance(output, PendingCall):
        batch.pending[position] = output
        return
    content = output.content or (Text(NOTHING_RETURNED),)
    result = ToolResult(call.id, call.name, content, output.error, time.monotonic() - started)
    changes = (*admission.changes, *output.changes)
    execution.conversation.note(output.changes)
    batch.parts[position] = (result, *changes)
    execution.emit(ToolCallFinished(call, result, server))
    for event in output.events:
        execution.emit(event)
    _tell(changes, execution)
    if (state_change := execution.state.changes()) is not None:
        execution.emit(state_change)


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


async def _decided(
    admission: _Admission, call: ToolCall, execution: Execution, answer: CallAnswer | None
) -> ToolOutput | PendingCall:
    """The call's output: a refusal, what running it gave, or that it waits for an answer."""
    tool = admission.tool
    if tool is None:
        return admission.refusal or ToolOutput(())
    return await execution.tape.outcome(call, tool, lambda: _judged(tool, call, execution, answer))


async def _judged(
    tool: Tool, call: ToolCall, execution: Execution, answer: CallAnswer | None
) -> ToolOutput | PendingCall:
    """What running an admitted call gave, or that it was not approved, or waits for an answer."""
    context = execution.context.for_call(call.id, tool.name)
    waiting = await _waiting(tool, call, context)
    if isinstance(waiting, ToolOutput):
        return waiting
    if waiting is None:
        return await _output(tool, call.arguments, context, execution.timeout_seconds)
    if answer is None and waiting.kind == "approval" and execution.on_approval is not None:
        answer = await _asked(waiting, execution.on_approval, execution.asking)
    if answer is None:
        return waiting
    return await _answered(waiting, answer, tool, context, execution.timeout_seconds)


async def _waiting(tool: Tool, call: ToolCall, context: RunContext[Any]) -> PendingCall | ToolOutput | None:
    """The request that the call has to wait for, if any; an output where the approval check itself failed."""
    if tool.external:
        return PendingCall.of("external", call, tool.definition)
    if tool.approval is None:
        return None
    try:
        with context.entered():
            needed = await awaited(tool.approval(context, call.arguments))
    except Exception as error:  # noqa: BLE001 - the user's code; a check that fails must not let the call through
        text = f'The permission check for "{tool.name}" failed, so it was not run: {type(error).__name__}: {error}'
        return ToolOutput.of_text(text, error="denied")
    return PendingCall.of("approval", call, tool.definition) if needed else None


async def _asked(request: PendingCall, on_approval: OnApproval, asking: asyncio.Lock) -> CallAnswer:
    try:
        async with asking:
            answer = await awaited(on_approval(request))
    except Exception as error:  # noqa: BLE001 - the user's code; without an answer the call is denied
        return request.deny(f"nobody could be asked ({type(error).__name__}: {error})")
    if isinstance(answer, CallAnswer):
        return answer
    return request.approve() if answer is True else request.deny()


async def _answered(
    request: PendingCall, answer: CallAnswer, tool: Tool, context: RunContext[Any], limit_seconds: float
) -> ToolOutput:
    if answer.fingerprint != request.fingerprint:
        text = f'"{tool.name}" or the call changed after the answer was asked for, so it was not run. Call again.'
        return ToolOutput.of_text(text, error="denied")
    if not answer.approved:
        said = f": {answer.message}" if answer.message else "."
        return ToolOutput.of_text(f'The user declined this call of "{tool.name}"{said}', error="denied")
    if tool.external:
        text = answer.value if isinstance(answer.value, str) else json.dumps(answer.value, default=str)
        return ToolOutput.of_text(text, error="failed" if answer.failed else None)
    arguments = request.arguments if answer.arguments is None else answer.arguments
    if problem := argument_problem(tool.definition.parameters, arguments):
        return ToolOutput.of_text(_misfit(tool, problem), error="invalid_arguments")
    return await _output(tool, arguments, replace(context, approved=True), limit_seconds)


async def _output(tool: Tool, arguments: dict[str, Any], context: RunContext[Any], limit_seconds: float) -> ToolOutput:
    """Runs the tool within its time limit; every failure becomes words for the model."""
    seconds = tool.timeout_seconds if tool.timeout_seconds is not None else limit_seconds
    timeout = asyncio.timeout(seconds)
    try:
        with context.entered():
            async with timeout:
                return await tool.run(arguments)
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
