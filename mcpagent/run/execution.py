"""Run the tool calls of one model message: look up, validate and run them concurrently, and return results in call
order.

Every failure becomes a `ToolResult` with a text that helps the model. Only `Stop` and a cancellation are raised.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from mcpagent.errors import ServerError
from mcpagent.history.conversation import CANCELLED, CallProgress, not_run
from mcpagent.history.intake.admission_of_content import admitted
from mcpagent.models.base import accepted_files
from mcpagent.run.agent_run import AgentRun
from mcpagent.run.middleware.admission import admit, misfit_of, misfit_text
from mcpagent.run.run_parts import CallBatch, CallState, Stop
from mcpagent.run.validation import fitted, held_to_promise
from mcpagent.utilities.python.orphaned_tasks import end_or_leave, times_cancelled
from mcpagent.utilities.python.worker_threads import beside_loop, is_large
from mcpagent.utilities.text.safe_text import error_text, safe_line
from mcpagent.values.approval import CallAnswer
from mcpagent.values.events import Notice
from mcpagent.values.messages import (
    Message,
    Part,
    Text,
    ToolCall,
    ToolResult,
    json_copy,
)
from mcpagent.values.tools import Tool, ToolOutput, usable_output

NOT_BEGUN = "This call was cancelled before it began, so it was not run."
_NOT_PERMITTED = "This call was not run: nothing has permitted it."
NOTHING_RETURNED = "(the tool returned nothing)"
_resent: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
    WeakKeyDictionary()
)


async def run_calls(
    calls: Sequence[ToolCall],
    run: AgentRun,
    answers: Mapping[str, CallAnswer] | None = None,
) -> None:
    """Run the calls of one message and append their results to the conversation, in call order.

    `answers`, by call ID, are the answers to calls that were pending in an earlier run. Ordered tools (search, add) run
    one after the other before later calls are admitted; all others run concurrently. If the run is cancelled, the
    results so far stay, and the other calls are answered as cancelled. Raises `Stop` if calls wait for an answer.
    """
    batch = CallBatch(calls, is_resumed=answers is not None, unfinished=len(calls))
    async with run.pipeline.around_calls(run, batch):
        states: list[CallState] = []
        try:
            async with asyncio.TaskGroup() as group:
                for call in calls:
                    state = await admit(call, run)
                    state.batch, state.answer = batch, (answers or {}).get(call.id)
                    state.times_sent = run.conversation.times_sent(call.id)
                    states.append(state)
                    run.conversation.note(state.changes)
                    running = run_call(state, run)
                    if state.times_sent:
                        running = _one_at_a_time(running)
                    if state.tool is not None and not state.tool.ordered:
                        group.create_task(running)
                    else:
                        before = times_cancelled()
                        await running
                        if times_cancelled() > before:  # every call must have a result
                            raise asyncio.CancelledError
        except BaseExceptionGroup as errors:
            run.conversation.append(_results(calls, states))
            raise errors.exceptions[0] from errors.exceptions[0].__cause__
        except BaseException:
            run.conversation.append(_results(calls, states))
            raise
        parts = [part for state in states for part in state.parts]
        if parts:
            message = Message("tool", tuple(parts))
            run.conversation.append(message)
            batch.results = message.tool_results
    pending = tuple(request for state in states for request in state.pending)
    stop = batch.stop
    if stop is not None:
        raise (
            stop if stop.final_note else Stop(stop.reason, stop.answer, pending=pending)
        )
    if pending:
        raise Stop("calls_pending", _text_with_calls(run), pending=pending)


def _results(calls: Sequence[ToolCall], states: Sequence[CallState]) -> Message:
    """Return the results of calls after an interruption; a call without a result gets one that reports it."""
    parts: list[Part] = []
    for position, call in enumerate(calls):
        if position < len(states):
            state = states[position]
        else:
            state = CallState(call)
        parts += state.parts or (
            not_run(call, CANCELLED if state.has_begun else NOT_BEGUN),
        )
    return Message("tool", tuple(parts))


def _text_with_calls(run: AgentRun) -> str:
    """Return the text of the model message that contains the pending calls."""
    for message in reversed(run.conversation.messages):
        if message.role == "assistant":
            return message.text
    return ""


async def run_call(call: CallState, run: AgentRun) -> None:
    """Run one call, of the model or of a program, inside the pipeline. Afterwards it has a result or is pending."""
    started = time.monotonic()
    try:
        if call.batch.stop is not None:
            call.refuse(NOT_BEGUN, "cancelled")
        async with run.pipeline.around_call(run, call):
            started = time.monotonic()  # does not count the wait for an approval
            _require_permission(call)
            if not call.is_settled and call.tool is not None:
                tool, called = call.tool, run.for_call(call)
                seconds = tool.limit(run.tool_timeout_seconds)
                timeout = call.tally.timeout = asyncio.timeout(seconds)
                try:
                    with called.entered():
                        async with run.pipeline.around_execution(run, call):
                            if not call.is_settled:
                                call.has_begun = True
                                async with timeout:
                                    # A separate task, so that a tool that ignores its cancellation blocks nothing.
                                    working = asyncio.ensure_future(
                                        tool.run(await _arguments_for(tool, call))
                                    )
                                    try:
                                        await asyncio.wait({working})
                                    except asyncio.CancelledError:
                                        await end_call(
                                            working, tool, run, run.left_after
                                        )
                                    output = usable_output(tool, working.result())
                                    output = await held_to_promise(
                                        tool, output, is_for_program=bool(call.parent)
                                    )
                                    call.settle(output)
                except Stop as stop:
                    call.batch.stop = stop
                except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - tools are other people's code
                    call.settle(
                        failure_output(
                            error, tool, seconds if timeout.expired() else None
                        )
                    )
                call.batch.stop = call.batch.stop or call.tally.stop
            await _conclude(call, run, started)
    except Stop as stop:
        call.batch.stop = stop
        if call.result is None:
            await _conclude(call, run, started)
    finally:
        call.batch.unfinished -= 1


def _require_permission(call: CallState) -> None:
    """Refuse a call that no middleware has permitted, or if another call of its message has stopped the run
    meanwhile.
    """
    if call.is_settled:
        return
    if call.batch.stop is not None:
        call.refuse(NOT_BEGUN, "cancelled")
    elif call.tool is None or call.arguments is None:
        call.refuse(_NOT_PERMITTED, "denied")


async def _conclude(call: CallState, run: AgentRun, started: float) -> None:
    """Set the result of a call, unless it waits for an answer."""
    if (
        run.of_call is not None
    ):  # the call is made by a program, so its usage counts for the program's call
        run.of_call.spent += call.tally.spent
    if call.output is None and not call.pending:  # the run was stopped
        call.refuse(CANCELLED if call.has_begun else NOT_BEGUN, "cancelled")
    is_own = call.tool is not None and run.tools.is_own(call.tool)
    if call.output is not None and call.output.pending and is_own:
        call.wait_with(call.output.pending)
    if not call.pending:
        await _give_result(call, run, started)


async def _give_result(call: CallState, run: AgentRun, started: float) -> None:
    call.output = output = await _admitted(call.output or ToolOutput(()), call, run)
    content = output.content or (Text(NOTHING_RETURNED),)
    seconds = time.monotonic() - started - call.tally.asked_seconds
    call.result = ToolResult(
        call.call.id, call.call.name, content, output.error, seconds
    )
    if not call.parent:  # in a program, the result is a value of the program
        call.changes = (*call.changes, *output.changes)
    run.conversation.note(output.changes)


async def _admitted(output: ToolOutput, call: CallState, run: AgentRun) -> ToolOutput:
    """Return the output in a form that may enter the conversation: files within the budget, and cleaned texts.

    A program receives only images as data; documents and recordings are stored for the conversation.
    """
    if call.parent:
        accepts = frozenset({"image"})
    else:
        accepts = accepted_files(run.model)
    judged = await admitted(output.content, accepts=accepts)
    if judged.content is not output.content:
        output = replace(
            output, content=judged.content, blocks=(*output.blocks, *judged.blocks)
        )
    texts = [part.text for part in output.content if isinstance(part, Text)]
    return await beside_loop(output.for_model, is_much=is_large(texts))


async def _one_at_a_time(running: Coroutine[Any, Any, None]) -> None:
    """Run a call that was sent before by a process that died, one at a time.

    If the process dies again, it is clear that this call is the cause.
    """
    lock = _resent.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    try:
        async with lock:
            await running
    finally:
        running.close()  # if it was cancelled before it started


async def end_call(
    working: asyncio.Future[ToolOutput], tool: Tool, run: AgentRun, seconds: float
) -> None:
    """Wait for the end of a cancelled call as in `end_or_leave`; the runtime's own tools always end."""
    left = f'tool "{safe_line(tool.name, 64)}" does not end when it is cancelled; it is left running'
    own = run.tools.is_own(tool)
    await end_or_leave(
        working, None if own else seconds, lambda: run.emit(Notice(left, "warning"))
    )


async def run_inner_call(
    call: ToolCall, tool: Tool, run: AgentRun, progress: CallProgress
) -> CallState:
    """Run a call of the program that runs as the call `run.context.call_id`, inside the same pipeline as any call.

    The program's result gets the tool changes of the call. If the call waits for an answer beyond this run, the run
    that gets the answer makes it again. `progress` is its entry in the journal if it was already sent.
    """
    state = CallState(call, tool, parent=run.context.call_id, progress=progress)
    state.answer, state.times_sent = (
        (run.answers or {}).get(call.id),
        run.conversation.times_sent(call.id),
    )
    if tool.checks_arguments:
        problem = ""
    else:
        problem = await misfit_of(tool, call.arguments, run)
    if problem:
        state.tool, state.refusal = (
            None,
            ToolOutput.of_text(misfit_text(tool, problem), error="invalid_arguments"),
        )
    if run.of_call is not None:
        state.batch.stop = run.of_call.stop
    else:
        state.batch.stop = None
    running = run_call(state, run)
    await (_one_at_a_time(running) if state.times_sent else running)
    if run.of_call is not None:  # a stop by the call ends the run after the program
        run.of_call.stop = state.batch.stop
    return state


async def _arguments_for(tool: Tool, call: CallState) -> dict[str, Any]:
    """Return a copy of the permitted arguments for the tool's own code."""
    arguments = call.arguments or {}
    is_much = is_large(arguments)
    if not tool.checks_arguments and await beside_loop(
        lambda: _has_null(arguments), is_much=is_much
    ):
        arguments, _ = await fitted(tool.definition.parameters, arguments)
    return await beside_loop(lambda: json_copy(arguments), is_much=is_much)


def _has_null(value: Any) -> bool:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if item is None:
            return True
        if isinstance(item, dict | list):
            if isinstance(item, dict):
                waiting += item.values()
            else:
                waiting += item
    return False


def failure_output(
    error: BaseException, tool: Tool, expired_seconds: float | None = None
) -> ToolOutput:
    """Return the output, in words for the model, of a call that raised `error`. Raises the run's own cancellation
    again.
    """
    if isinstance(error, ServerError):
        return ToolOutput.of_text(str(error), error="server_down")
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise error
        return ToolOutput.of_text(
            f'"{tool.name}" was cancelled from inside; it may have run.',
            error="cancelled",
        )
    if expired_seconds is not None:
        text = f'"{tool.name}" gave no answer within {expired_seconds:g} seconds; it may have run, or still be running.'
        return ToolOutput.of_text(text, error="timeout")
    return ToolOutput.of_text(error_text(error), error="failed")
