"""The tool calls of one model message: found, admitted, validated, run at the same time, answered in call order.

Whatever goes wrong becomes a `ToolResult` in words that help the model; nothing here raises but a cancellation.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

from mcpagent.approval import (
    CallAnswer,
    OnApproval,
    PendingCall,
    PendingKind,
    call_fingerprint,
    outdated_words,
    refused_words,
)
from mcpagent.conversation import CANCELLED, INNER, CallProgress, Conversation, not_run
from mcpagent.errors import RunCancelledError, ServerError, SessionStoreError
from mcpagent.events import Notice, ToolCallFinished, ToolCallStarted, ToolsLoaded, ToolsRemoved
from mcpagent.mcp.transports.beside_loop import beside_loop, is_large
from mcpagent.messages import (
    Message,
    Part,
    Spent,
    Text,
    ToolCall,
    ToolDefinition,
    ToolErrorKind,
    ToolResult,
    ToolsChanged,
    ToolsShown,
    json_copy,
)
from mcpagent.python.left_behind import end_or_leave, times_cancelled
from mcpagent.run import AgentRun
from mcpagent.search.signature import call_signature
from mcpagent.text.safe_text import safe_line
from mcpagent.tool_search.session_tools import SessionTools
from mcpagent.tools import Tool, ToolOutput, usable_output
from mcpagent.toolsets.validation import fitted, held_to_promise

NOT_BEGUN = "This call was cancelled before it began, so it was not run."
NOT_WRITTEN = "This call was not run: the run was cancelled, or the call could not be written down before."
MOST_SENT = 3
_LOST = '"{}" was not run again: the process that ran it died {} times. Go on without its result.'
_resent: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
_OVER_LIMIT = "This call was not run: the limit of {} is used up."
_DECIDING: ContextVar[bool] = ContextVar("mcpagent_deciding", default=False)
_SENT = CallProgress()
NOTHING_RETURNED = "(the tool returned nothing)"


@dataclass(frozen=True, slots=True)
class CallsOutcome:
    """The message with the results, and the calls that were not run because they wait for an answer."""

    message: Message
    pending: tuple[PendingCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether the model may make this call now: with `tool` it may, else `refusal` says why not.

    `changes` are what the attempt itself loads.
    """

    tool: Tool | None = None
    refusal: ToolOutput | None = None
    changes: tuple[ToolsChanged | ToolsShown, ...] = ()


@dataclass(frozen=True, slots=True)
class Approved:
    """A call that runs, with these arguments; `by_person`: somebody said so."""

    arguments: dict[str, Any]
    by_person: bool = False


@dataclass(slots=True)
class Batch:
    """By position of the `total` calls: results so far, which have begun to run, and those that wait.

    `parent` is the call whose program makes these, "" if a model does; `sent` is how the journal knows a call that a
    program sends. `last` is the output that came last.
    """

    total: int = 0
    parent: str = ""
    sent: CallProgress = _SENT
    last: ToolOutput = field(default_factory=lambda: ToolOutput(()))
    parts: dict[int, tuple[Part, ...]] = field(default_factory=dict[int, tuple[Part, ...]])
    begun: set[int] = field(default_factory=set[int])
    pending: dict[int, tuple[PendingCall, ...]] = field(default_factory=dict[int, tuple[PendingCall, ...]])

    def message(self) -> Message:
        """The results in call order, each with the changes that it brought."""
        return Message("tool", tuple(part for position in sorted(self.parts) for part in self.parts[position]))


async def run_calls(
    calls: Sequence[ToolCall], run: AgentRun, answers: Mapping[str, CallAnswer] | None = None
) -> CallsOutcome:
    """Runs the calls of one message and appends their results to the conversation, in call order.

    `answers`, by call id, are for calls that were pending; these were reported when they were first made.

    Ordered tools (search, add) run one after the other before later calls are judged; all others run at the same
    time. When cancelled, what was finished is kept, the rest is answered as cancelled, and the history is valid.
    """
    batch = Batch(len(calls))
    try:
        async with asyncio.TaskGroup() as group:
            for position, call in enumerate(calls):
                admission = await admit(call, run)
                run.conversation.note(admission.changes)
                running = run_call(position, call, admission, run, batch, (answers or {}).get(call.id))
                if run.conversation.times_sent(call.id):
                    running = _one_at_a_time(running)
                if admission.tool is not None and not admission.tool.ordered:
                    group.create_task(running)
                else:
                    before = times_cancelled()
                    await running
                    if times_cancelled() > before:  # it gave something all the same
                        raise asyncio.CancelledError
    except asyncio.CancelledError:
        for position, call in enumerate(calls):
            batch.parts.setdefault(position, (not_run(call, CANCELLED if position in batch.begun else NOT_BEGUN),))
        run.conversation.append(batch.message())
        raise
    message = batch.message()
    if message.parts:
        run.conversation.append(message)
        await run.keep()
    return CallsOutcome(message, tuple(call for position in sorted(batch.pending) for call in batch.pending[position]))


async def run_call(
    position: int, call: ToolCall, admission: Admission, run: AgentRun, batch: Batch, answer: CallAnswer | None
) -> None:
    """One call: approved, run within its limit of time, reported; its result goes into the batch."""
    tool, is_much = admission.tool, is_large(call.arguments)
    begun, ended = [await beside_loop(call.copied, is_much=is_much) for _ in range(2)]  # events have their own
    if answer is None and not is_gone_on_with(call.id, run):
        run.emit(ToolCallStarted(begun, tool.definition.server if tool is not None else None, batch.parent))
    decision = await _judged(call, admission, run, batch, answer)
    if isinstance(decision, PendingCall):
        batch.pending[position] = (decision,)
        return
    started = time.monotonic()  # not before: a person may have thought about it
    if tool is not None and isinstance(decision, Approved):
        seconds = tool.limit(run.tool_timeout_seconds)
        timeout, called = asyncio.timeout(seconds), run.for_call(call.id, tool.name, approved=decision.by_person)
        batch.begun.add(position)
        try:
            with called.entered(), run.watch.calling(call, tool):
                async with timeout:
                    # In a task of its own, so that one which does not heed its cancellation holds nobody.
                    working = asyncio.ensure_future(tool.run(await _to_run_with(tool, decision.arguments)))
                    try:
                        await asyncio.wait({working})
                    except asyncio.CancelledError:
                        await end_call(working, tool, run, run.left_after)
                    output = await held_to_promise(tool, usable_output(tool, working.result()))
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - tools are other people's code
            output = failure_output(error, tool, seconds if timeout.expired() else None)
        if run.of_call is not None and called.of_call is not None:  # a program makes it: count it for that call
            run.of_call.spent += called.of_call.spent
    else:
        output = decision if isinstance(decision, ToolOutput) else ToolOutput(())
    if output.pending and tool is not None and run.tools.is_own(tool):
        batch.pending[position] = output.pending
        return
    texts = [part.text for part in output.content if isinstance(part, Text)]
    batch.last = output = await beside_loop(output.for_model, is_much=is_large(texts))
    result = ToolResult(
        call.id, call.name, output.content or (Text(NOTHING_RETURNED),), output.error, time.monotonic() - started
    )
    if not batch.parent:  # else it is a value of a program, and no part of the conversation
        tokens = tool.large_result_tokens if tool is not None else None
        result = await run.large.set_aside(result, tokens=tokens, blocks=output.blocks)
    changes = (*admission.changes, *output.changes)
    run.conversation.note(output.changes)
    batch.parts[position] = (result, *changes)
    if len(batch.parts) + len(batch.pending) < batch.total:  # else the message with all results is written at once
        await _keep_result(call, tool, batch.parts[position], run)
    _report(ended, result, tool, output, () if batch.parent else changes, run, parent=batch.parent)


async def _judged(
    call: ToolCall, admission: Admission, run: AgentRun, batch: Batch, answer: CallAnswer | None
) -> Approved | ToolOutput | PendingCall:
    """Whether the call runs; one that does is counted, and written down."""
    tool = admission.tool
    if tool is None:
        return _refused(answer, call.name) or admission.refusal or ToolOutput(())
    if run.conversation.times_sent(call.id) >= MOST_SENT:
        return ToolOutput.of_text(_LOST.format(safe_line(call.name, 80), MOST_SENT), error="failed")
    decision = await _decided(call, tool, run, answer)
    if isinstance(decision, Approved):
        decision = _within_limits(call, tool, run) or decision
    if isinstance(decision, Approved) and not await _is_kept(call, tool, run, batch.sent):
        return ToolOutput.of_text(NOT_WRITTEN, error="cancelled")
    return decision


async def _one_at_a_time(running: Coroutine[Any, Any, None]) -> None:
    """Runs a call that was sent before, while no other such call runs in this process.

    So if the process dies again, one call is to blame, and its neighbours are not.
    """
    lock = _resent.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    try:
        async with lock:
            await running
    finally:
        running.close()  # if it was cancelled before it began


async def end_call(working: asyncio.Future[ToolOutput], tool: Tool, run: AgentRun, seconds: float) -> None:
    """As `end_or_leave`; the runtime's own tools always end."""
    left = f'tool "{safe_line(tool.name, 64)}" does not end when it is cancelled; it is left running'
    own = run.tools.is_own(tool)
    await end_or_leave(working, None if own else seconds, lambda: run.emit(Notice(left, "warning")))


def _over_limit(run: AgentRun, *, is_counted: bool) -> ToolOutput | None:
    """Return the result of a call that the limits do not allow, None if they do."""
    limit = run.refuses_call(is_own=not is_counted)
    return ToolOutput.of_text(_OVER_LIMIT.format(limit.allowed), error="cancelled") if limit is not None else None


def _within_limits(call: ToolCall, tool: Tool, run: AgentRun) -> ToolOutput | None:
    """As `_over_limit`; a call that may be made is counted, in the order in which they begin."""
    is_counted = _counts(call, tool, run)
    refusal = _over_limit(run, is_counted=is_counted)
    if refusal is None and is_counted:
        run.count(Spent(tool_calls=1))
    return refusal


def _counts(call: ToolCall, tool: Tool, run: AgentRun) -> bool:
    """Return whether the limit of calls is about this one: a call that a dead process sent was counted then."""
    return not run.tools.is_own(tool) and not run.conversation.times_sent(call.id)


async def run_inner_call(call: ToolCall, tool: Tool, run: AgentRun, sent: CallProgress) -> ToolOutput:
    """Run a call of a program, which runs as the call `run.context.call_id`; it passes the same gate as any call.

    Its arguments must fit; it is approved, written down before it is sent, and reported as a part of that other call.
    What it brings for the conversation is in the output, for the result of that call. One that has to wait for an
    answer beyond this run is `pending` in it; in the run that has the answer it is made again. `sent` is the entry of
    the journal for a call that is sent and has no result yet.
    """
    problem = "" if tool.checks_arguments else await _problem(tool, call.arguments, run)
    admission = _refuse("invalid_arguments", _misfit(tool, problem)) if problem else Admission(tool)
    batch = Batch(1, parent=run.context.call_id, sent=sent)
    running = run_call(0, call, admission, run, batch, (run.answers or {}).get(call.id))
    await (_one_at_a_time(running) if run.conversation.times_sent(call.id) else running)
    return replace(batch.last, pending=batch.pending.get(0, ()))


def is_gone_on_with(call_id: str, run: AgentRun) -> bool:
    """Whether this run has answers to calls that the program of this call waited for."""
    return any(answered.startswith(f"{call_id}{INNER}") for answered in run.answers or ())


async def _is_kept(call: ToolCall, tool: Tool, run: AgentRun, sent: CallProgress) -> bool:
    """Whether it is written down that the call is sent, with the answer that plans it.

    The runtime's own tools do nothing outside, so of these it is enough that they are planned.
    """
    if not run.tools.is_own(tool):
        times_sent = run.conversation.times_sent(call.id) + 1
        progress = replace(sent, is_repeatable=tool.safe_to_repeat, times_sent=times_sent)
        run.conversation.note_progress(call.id, progress)
    return await is_written(run)


async def is_written(run: AgentRun) -> bool:
    """Write what is new in the run. Return whether the store took it; the loop ends a run whose store does not."""
    try:
        await run.keep()
    except (SessionStoreError, RunCancelledError):
        return False
    return True


async def _keep_result(call: ToolCall, tool: Tool | None, parts: tuple[Part, ...], run: AgentRun) -> None:
    """Writes a result down while other calls of its message still run."""
    run.conversation.note_progress(call.id, CallProgress(tool is not None and tool.safe_to_repeat, parts))
    await is_written(run)


async def admit(call: ToolCall, run: AgentRun) -> Admission:
    """Whether the model may run this now: offered, allowed by `on_direct_call`, or virtual; and the arguments fit."""
    if call.malformed:
        return _refuse(
            "invalid_arguments",
            f"The arguments are not one complete JSON object, so the call was not run: {safe_line(call.malformed)} "
            "Send the call again with complete JSON arguments.",
        )
    tools, discovery = run.tools, run.conversation.discovery
    tool = tools.find(call.name)
    if tool is None:
        # For near names all that there are may have to be indexed first.
        return _refuse("unknown_tool", await asyncio.to_thread(_unknown, call.name, tools))
    name = tool.name
    problem = "" if tool.checks_arguments else await _problem(tool, call.arguments, run)
    if tools.is_offered(name):
        return Admission(tool) if not problem else _refuse("invalid_arguments", _misfit(tool, problem))
    if name in discovery.removed:
        return _refuse("not_loaded", f'"{name}" was removed in this conversation. {tools.how_to_load(name)}')
    policy = tools.options.on_direct_call
    if policy == "refuse":
        return _refuse("not_loaded", f'"{name}" is not loaded. {tools.how_to_load(name)}')
    loading = tools.loading(tool)
    if policy == "run" or name in discovery.shown:
        return (
            Admission(tool, None, (loading,)) if not problem else _refuse("invalid_arguments", _misfit(tool, problem))
        )
    how = (
        "It is loaded now" if isinstance(loading, ToolsChanged) else "No more tools can be loaded, but it can be called"
    )
    text = f'"{name}" was not loaded and was not run. {how}: {call_signature(tool.definition)} Call it again.'
    return Admission(None, ToolOutput.of_text(text, error="not_loaded"), (loading,))


def _refuse(error: ToolErrorKind, text: str) -> Admission:
    return Admission(refusal=ToolOutput.of_text(text, error=error))


def _unknown(name: str, tools: SessionTools) -> str:
    near = tools.near(name)
    shown = safe_line(name, 80)
    hint = f" Did you mean {', '.join(near)}?" if near else ""
    lost = tools.lost_source(name)
    down = [
        f' Server "{server}" is not connected: {reason}'
        for server, reason in tools.unavailable.items()
        if (server == lost or name.startswith(server)) and server not in tools.listing.connecting
    ]
    down += [
        f' Server "{safe_line(server, 64)}" is still connecting and may have it; you are told when it is ready.'
        for server in tools.listing.connecting
    ]
    how = "Search for tools" if tools.provider_searches else "Use search_tools to find tools"
    search = f" {how}." if tools.searching else ""
    gone = f' any more: its source "{safe_line(lost, 60)}" no longer has it' if lost else ""
    so_far = " so far" if tools.listing.connecting else ""
    return f'There is no tool "{shown}"{so_far}{gone}.{hint}{"".join(down)}{search}'


async def _to_run_with(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """A copy of arguments that fit, for the tool's own code."""
    is_much = is_large(arguments)
    if not tool.checks_arguments and await beside_loop(lambda: _has_null(arguments), is_much=is_much):
        arguments, _ = await fitted(tool.definition.parameters, arguments)
    return await beside_loop(lambda: json_copy(arguments), is_much=is_much)


def _has_null(value: Any) -> bool:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if item is None:
            return True
        if isinstance(item, dict | list):
            waiting += item.values() if isinstance(item, dict) else item
    return False


async def _problem(tool: Tool, arguments: dict[str, Any], run: AgentRun) -> str:
    """What is wrong with the arguments, if anything is; that they cannot be checked is told once."""
    _, found = await fitted(tool.definition.parameters, arguments)
    told, key = run.tools.told_unchecked, tool.definition.key
    if found.unchecked and key not in told:
        told.add(key)
        run.emit(Notice(f"the arguments of {tool.name} are not checked; its schema: {found.unchecked}", "warning"))
    return found.problem


def _misfit(tool: Tool, problem: str) -> str:
    return f"The arguments do not fit, so the call was not run: {problem}. Signature: {call_signature(tool.definition)}"


def _report(
    call: ToolCall,
    result: ToolResult,
    tool: Tool | None,
    output: ToolOutput,
    changes: Sequence[ToolsShown | ToolsChanged],
    run: AgentRun,
    parent: str = "",
) -> None:
    run.emit(ToolCallFinished(call, result, tool.definition.server if tool is not None else None, parent))
    for event in output.events:
        run.emit(event)
    for change in changes:
        match change:
            case ToolsChanged(added=added, removed=removed):
                if added:
                    names = tuple(tool.name for tool in added)
                    run.emit(ToolsLoaded(names, run.tools.tokens(names)))
                if removed:
                    run.emit(ToolsRemoved(removed))
            case ToolsShown():
                pass
    if (state_change := run.state.changes()) is not None:
        run.emit(state_change)


# -- approval ---------------------------------------------------------------------------------------------------------


def waiting_calls(
    conversation: Conversation, tools: SessionTools, session: str, inner: Mapping[str, PendingCall]
) -> list[PendingCall]:
    """Return a session's open calls, each made from the history and its tool as they are now.

    `inner` are the calls of programs by ID: each takes the place of the call that runs its program.
    """
    waiting: list[PendingCall] = []
    for call in conversation.open_calls:
        if own := [one for call_id, one in inner.items() if call_id.startswith(f"{call.id}{INNER}")]:
            waiting += own
        else:
            waiting.append(waiting_call(call, tools.find(call.name), place=conversation.place, session=session))
    return waiting


def waiting_call(call: ToolCall, tool: Tool | None, *, place: int, session: str) -> PendingCall:
    """Return the request for a call at this place of the history, also if its tool is missing."""
    kind: PendingKind = "external" if tool is not None and tool.external else "approval"
    definition = tool.asked(call.arguments) if tool is not None else ToolDefinition(call.name, "", {})
    return PendingCall.of(kind, call, definition, place=place, session=session)


async def _decided(
    call: ToolCall, tool: Tool, run: AgentRun, answer: CallAnswer | None
) -> Approved | ToolOutput | PendingCall:
    """Whether an admitted call runs, and with which arguments; else its output, or that it waits for an answer."""
    if answer is not None:
        return await _answered(call, answer, tool, run)
    refusal = _over_limit(run, is_counted=_counts(call, tool, run))
    if refusal is not None:  # a person is not asked about a call that cannot run
        return refusal
    waiting = await _waiting(call, tool, run)
    if waiting is None:
        return Approved(call.arguments)
    if isinstance(waiting, PendingCall) and waiting.kind == "approval" and run.on_approval is not None:
        if not await is_written(run):  # a person may take long
            return ToolOutput.of_text(NOT_WRITTEN, error="cancelled")
        with run.watch.deciding(call), run.asking_a_person():
            decided = await _asked(waiting, run.on_approval, run.asking)
        return waiting if isinstance(decided, PendingCall) else await _answered(call, decided, tool, run)
    return waiting


async def _waiting(call: ToolCall, tool: Tool, run: AgentRun) -> PendingCall | ToolOutput | None:
    """The request that the call has to wait for, if any; an output when the approval check itself failed."""
    is_much = is_large(call.arguments)
    if tool.external:
        return await beside_loop(lambda: _pending("external", call, tool.definition, run), is_much=is_much)
    if tool.approval is None:
        return None
    try:
        with run.for_call(call.id, tool.name).entered():
            needed = tool.approval(await beside_loop(lambda: json_copy(call.arguments), is_much=is_much))
            needed = await needed if inspect.isawaitable(needed) else needed
    except Exception as error:  # noqa: BLE001 - the user's code; a check that fails must not let the call through
        text = f'The permission check for "{tool.name}" failed, so it was not run: {type(error).__name__}: {error}'
        return ToolOutput.of_text(text, error="denied")
    if not needed:
        return None
    return await beside_loop(lambda: _pending("approval", call, tool.asked(call.arguments), run), is_much=is_much)


def _pending(kind: PendingKind, call: ToolCall, definition: ToolDefinition, run: AgentRun) -> PendingCall:
    return PendingCall.of(kind, call, definition, place=run.conversation.place, session=run.context.thread_id)


async def _asked(request: PendingCall, on_approval: OnApproval, asking: asyncio.Lock) -> CallAnswer | PendingCall:
    try:
        # Who decides may ask an agent, whose calls are decided meanwhile.
        async with contextlib.nullcontext() if _DECIDING.get() else asking:
            token = _DECIDING.set(True)
            try:
                answer = on_approval(request)
                answer = await answer if inspect.isawaitable(answer) else answer
            finally:
                _DECIDING.reset(token)
    except Exception as error:  # noqa: BLE001 - the user's code; without an answer the call is denied
        return request.deny(f"nobody could be asked ({type(error).__name__}: {error})")
    if isinstance(answer, CallAnswer) or answer is request:
        return answer
    return request.approve() if answer is True else request.deny()


def _refused(answer: CallAnswer | None, name: str) -> ToolOutput | None:
    """What a denial tells the model, whatever became of the tool meanwhile."""
    if answer is None or answer.approved:
        return None
    return ToolOutput.of_text(refused_words(name, answer.message), error="denied")


async def _answered(
    call: ToolCall, answer: CallAnswer, tool: Tool, run: AgentRun
) -> Approved | ToolOutput | PendingCall:
    kind = "external" if tool.external else "approval"
    if refused := _refused(answer, tool.name):
        return refused
    is_much, at = is_large(call.arguments), (run.conversation.place, run.context.thread_id)
    bound = await beside_loop(lambda: call_fingerprint(call, tool.asked(call.arguments), *at), is_much=is_much)
    if answer.fingerprint != bound or answer.kind != kind:
        return ToolOutput.of_text(outdated_words(tool.name), error="denied")
    if tool.external:
        text = answer.value if isinstance(answer.value, str) else json.dumps(answer.value, default=str)
        return ToolOutput.of_text(text, error="failed" if answer.failed else None)
    arguments = call.arguments if answer.arguments is None else answer.arguments
    if run.on_approval is not None and tool.asked(arguments) != tool.asked(call.arguments):
        # Edited into a request for something else (another resource): rules and the person judge that one too.
        return await _decided(replace(call, arguments=arguments), tool, run, None)
    if problem := await _problem(tool, arguments, run):
        return ToolOutput.of_text(_misfit(tool, problem), error="invalid_arguments")
    return Approved(arguments, by_person=True)


def failure_output(error: BaseException, tool: Tool, expired_seconds: float | None = None) -> ToolOutput:
    """What a call that raised gave, in words for the model. Raises the cancellation of the run itself."""
    if isinstance(error, ServerError):
        return ToolOutput.of_text(str(error), error="server_down")
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise error
        return ToolOutput.of_text(f'"{tool.name}" was cancelled from inside; it may have run.', error="cancelled")
    if expired_seconds is not None:
        text = f'"{tool.name}" gave no answer within {expired_seconds:g} seconds; it may have run, or still be running.'
        return ToolOutput.of_text(text, error="timeout")
    return ToolOutput.of_text(f"{type(error).__name__}: {error}", error="failed")
