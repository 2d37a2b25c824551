"""The agent's loop; read this module first. One turn is one model answer and the calls in it."""

from __future__ import annotations

import asyncio
from functools import partial

from mcpagent.history.conversation import change_words
from mcpagent.models.base import ModelRequest, ModelResponse, OutputFormat
from mcpagent.models.output_modes.structured_output import told_form
from mcpagent.prompt.builder import call_note, final_answer_note
from mcpagent.run.agent_run import AgentRun
from mcpagent.run.compaction.compacting import estimated_request
from mcpagent.run.execution import run_calls
from mcpagent.run.middleware.progress import has_result, progress_of
from mcpagent.run.output.last_answer import LastAnswer
from mcpagent.run.output.output_spec import OutputSpec
from mcpagent.run.run_parts import StepState, Stop, ToolOffer
from mcpagent.tool_search.prefetching import prefetch
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import (
    LIMIT_STOPS,
    Notice,
    RequestSent,
    ResponseReceived,
    RunFinished,
    StopReason,
    ToolsLoaded,
)
from mcpagent.values.limits.model_hints import tool_written_about
from mcpagent.values.limits.question_parts import is_apology
from mcpagent.values.messages import (
    Citation,
    Spent,
    Step,
    ToolsChanged,
    Usage,
    user_message,
)

NOT_RUN = "This call was not run: an answer without further calls was asked for."


async def converse(run: AgentRun, wanted: OutputSpec | None = None) -> RunFinished:
    """Answer the conversation's last user message: model, tools, model ... until the model answers without a call.

    If the answer does not match `wanted`, the model gets one more request. The pipeline of the run surrounds each part
    and may stop the run. Calls that wait for an answer stop it too, and stay open in the conversation. Raises
    `ModelError` if the model fails; the history is valid then as well.
    """
    said = run.conversation.messages[run.begins_at :]
    last = LastAnswer.of_run(wanted, said, is_reminded=not run.hints.reminds_to_call)
    stop: Stop | None = None
    with run.entered():
        async with run.pipeline.around_run(run), run.context.exits:
            try:
                async with run.pipeline.around_turns(run):
                    response = await _begin(run)
                    while stop is None:
                        try:
                            response = response or await step(run, last.format)
                            if response is not None and response.message.tool_calls:
                                await run_calls(response.message.tool_calls, run)
                                await run.refresh()
                                _deliver(run)
                            elif response is not None:
                                stop = await _accepted(response, last, run)
                        except Stop as early:
                            if not early.final_note:
                                raise
                            run.conversation.close_open_calls(NOT_RUN)
                            stop = Stop(
                                early.reason,
                                await _final_answer(run, early.final_note, last),
                            )
                        response = None
            except Stop as early:
                stop = early
            if not stop.pending:
                run.conversation.close_open_calls(NOT_RUN)
            run.tally.is_over, run.tally.pending = True, stop.pending
            finished = run.tally.finished = _finished(run, last, stop)
    return finished


def _written_answer(run: AgentRun) -> ModelResponse | None:
    """Return an answer that an interrupted run had already received, so that it is not requested and paid for again;
    else None.
    """
    last = run.conversation.last
    if last is not None and last.role == "assistant" and not last.tool_calls:
        return ModelResponse(last, Usage(), "end")
    return None


def _finished(run: AgentRun, last: LastAnswer, stop: Stop) -> RunFinished:
    """Return the end event of the run. If a limit ended the run, the answer is the last text of the model."""
    reason, answer, pending = stop.reason, stop.answer, stop.pending
    limit, taken = run.tally.reached, run.tally.taken
    if limit is not None and not pending:
        reason, answer = LIMIT_STOPS[limit.limit], _said_so_far(run)
    elif not answer and not pending:
        cut = "was cut off before it answered: set a larger max_output_tokens, or less thinking"
        run.emit(
            Notice(
                f"the model {cut if reason == 'truncated' else 'gave an empty answer'}",
                "warning",
            )
        )
    citations = _citations(run) if limit is None or pending or answer else ()
    told = last.told(answer, reason)
    return RunFinished(
        turns=run.tally.turns,
        usage=taken.usage,
        seconds=taken.seconds,
        pending=pending,
        spent=taken,
        citations=citations,
        limit=limit,
        **told,
    )


def _citations(run: AgentRun) -> tuple[Citation, ...]:
    """Return the citations of the model's last message, or ()."""
    for message in reversed(run.conversation.messages):
        if message.role == "assistant":
            return message.citations
    return ()


def _said_so_far(run: AgentRun) -> str:
    """Return the last text of the model in this run, or ""."""
    for message in reversed(run.conversation.messages[run.begins_at :]):
        if message.role == "assistant" and message.text.strip():
            return message.text
    return ""


async def _settled(run: AgentRun) -> None:
    """Wait a bounded time for connecting servers, and report those that are still connecting."""
    if run.context.tool_context.namespaces:
        run.emit(run.state.snapshot())
    await run.tools.settle()
    await run.refresh()
    for server in run.tools.listing.connecting:
        text = f'server "{safe_line(server, 64)}" is still connecting; this question is answered without its tools'
        run.emit(Notice(text, "warning"))


async def _begin(run: AgentRun) -> ModelResponse | None:
    """Wait for servers; then run open calls that now have an answer or have not begun, else prefetch tools for the
    prompt.

    Returns the model's answer if an earlier process received it, else None.
    """
    await _settled(run)
    written = _written_answer(run)
    if written is not None:
        return written
    calls = run.conversation.open_calls
    if calls:
        await run_calls(calls, run, run.answers or {})
    elif run.conversation.has_unanswered_prompt:
        for event in await prefetch(
            run.tools, run.context.prompt, weak_too=run.hints.loads_weak_matches
        ):
            run.emit(event)
    _deliver(run)
    return None


def _deliver(run: AgentRun) -> None:
    """Offer the tools that read large results, if any exist, and append queued announcements to the history."""
    run.large.offer_readers(run.tools)
    run.conversation.deliver()


async def step(
    run: AgentRun, output: OutputFormat | None = None, *, is_final: bool = False
) -> ModelResponse | None:
    """Send one request to the model and append its answer to the conversation.

    Returns None if the request was too long and the conversation has been compacted. With `is_final`, the model may not
    call tools.
    """
    step = StepState(
        lambda: _request(run, output, is_final=is_final), is_final=is_final
    )
    async with run.pipeline.around_step(run, step):
        run.tally.turns += 1
        run.count(
            Spent(turns=1)
        )  # after the middleware, because it stores the usage without this turn
        request, offer = step.prepared()
        names = tuple(definition.name for definition in request.tools)
        sizes = (
            offer.known_tools,
            offer.offered_tokens,
            offer.known_tokens,
            offer.deferred_tools,
        )
        run.emit(
            RequestSent(run.tally.turns, names, *sizes, searches=run.tools.searching)
        )
        if not step.is_settled:
            async with run.sending(
                step, run.emit, partial(estimated_request, run)
            ) as under_way:
                under_way.task = asyncio.ensure_future(
                    run.model.respond(told_form(run.model, request), under_way)
                )
        response = step.response
        assert response is not None
        run.conversation.append(response.message)
        run.conversation.note_step(
            Step(
                len(run.conversation) - 1,
                run.model.name,
                names,
                response.usage,
                response.dollars,
                seconds=step.seconds,
                begun=step.begun,
                known_tools=offer.known_tools,
                saved_tokens=offer.saved_tokens,
            )
        )
    if step.is_shortened:
        return None
    assert response is not None
    message = response.message
    run.emit(
        ResponseReceived(
            run.tally.turns,
            response.usage,
            step.seconds,
            response.dollars,
            message.citations,
        )
    )
    for part in message.parts:
        if isinstance(part, ToolsChanged):  # tools that the provider's own search found
            _report_found(part, run)
    return response


def _request(
    run: AgentRun, output: OutputFormat | None, *, is_final: bool
) -> tuple[ModelRequest, ToolOffer]:
    """Return the next request of the run, and the numbers of the tools that it offers."""
    tools = run.tools
    offered = tools.offer()
    request = ModelRequest(
        system=run.conversation.system,
        messages=run.conversation.sent,
        tools=tuple(tool.definition for tool in offered),
        deferred_tools=tools.left_to_provider(),
        tool_choice="none" if is_final else "auto",
        settings=run.settings,
        search_strategy=tools.provider_strategy,
        provider_tools=run.provider_tools,
        output=output,
    )
    offered_tokens = sum(map(tools.catalog.tokens, offered))
    return request, ToolOffer(
        len(tools.known),
        offered_tokens,
        tools.catalog.total_tokens(),
        tools.deferred_count,
    )


def _report_found(found: ToolsChanged, run: AgentRun) -> None:
    names = tuple(tool.name for tool in found.added)
    run.emit(ToolsLoaded(names, run.tools.tokens(names)))
    if change := run.tools.outdated(found.added):
        changed = [tool.name for tool in change.added]
        run.conversation.announce(change_words(change.removed, changed), change)


async def _final_answer(run: AgentRun, reason: str, last: LastAnswer) -> str:
    """Return the model's last answer, requested without calls because of `reason`."""
    note = final_answer_note(reason)
    if run.hints.restates_progress:
        note = f"{progress_of(run)} {note}"
    while True:
        run.conversation.append(user_message(note))
        response = None
        while response is None:
            response = await step(run, last.format, is_final=True)
        # A model may still make calls. They do not run, but the history must not have open calls.
        run.conversation.close_open_calls(NOT_RUN)
        await last.fits(response)
        note = _retry_of_apology(response, last, run) or last.ask_again()
        if not note:
            return response.message.text


async def _accepted(
    response: ModelResponse, last: LastAnswer, run: AgentRun
) -> Stop | None:
    """Return the end of the run with this answer; None if the run continues after an objection to the answer."""
    note = await _objection(response, last, run)
    if note:
        run.conversation.append(user_message(note))
        return None
    return Stop(_ended(response), response.message.text)


async def _objection(response: ModelResponse, last: LastAnswer, run: AgentRun) -> str:
    """Return the objection to an answer without a call, "" to accept it. Each objection is sent once."""
    fits = await last.fits(response)
    if not fits and not last.is_reminded and not run.tally.repeats.has_begun:
        tool = tool_written_about(
            response.message.text, [tool.name for tool in run.tools.offer()]
        )
        if tool:
            last.is_reminded = True
            return call_note(tool)
    return _retry_of_apology(response, last, run) or last.ask_again()


def _retry_of_apology(response: ModelResponse, last: LastAnswer, run: AgentRun) -> str:
    """Return a note for a small model that apologises after a successful call, once; "" in all other cases."""
    may_retry = run.hints.restates_progress and not last.is_excused
    if (
        not may_retry
        or response.message.tool_calls
        or not is_apology(response.message.text)
        or not has_result(run)
    ):
        return ""
    last.is_excused = True
    return progress_of(run)


def _ended(response: ModelResponse) -> StopReason:
    match response.stop:
        case "length":
            return "truncated"
        case "refusal":
            return "refused"
        case _:
            return "answered"
