"""The agent's loop, to be read first: one turn is one model answer and the calls it makes."""

from __future__ import annotations

import asyncio
import re
import time
from functools import partial
from typing import Literal

from mcpagent.approval import PendingCall
from mcpagent.compaction.compacting import estimated_request, make_room
from mcpagent.conversation import change_words
from mcpagent.errors import ContextOverflowError
from mcpagent.events import (
    LIMIT_STOPS,
    Notice,
    RequestSent,
    ResponseReceived,
    RunFinished,
    StopReason,
    ToolsLoaded,
)
from mcpagent.execution import run_calls
from mcpagent.limits.repeats import REPEATS_TOLD, REPEATS_TOLD_SMALL, Repeats
from mcpagent.messages import Message, Step, Text, ToolsChanged, Usage, user_message
from mcpagent.models.base import ModelRequest, ModelResponse, OutputFormat, RequestUnderWay
from mcpagent.models.output_ways.asked_output import told_form
from mcpagent.output.last_answer import LastAnswer
from mcpagent.output.output_spec import OutputSpec
from mcpagent.prompt.builder import call_note, final_answer_note
from mcpagent.run import AgentRun
from mcpagent.text.safe_text import safe_line
from mcpagent.tool_search.prefetching import prefetch

_NAMES = re.compile(r"([A-Za-z0-9_.-]{1,128})(\(|`)?")
_A_TOOL = re.compile(
    r"`[A-Za-z0-9_.-]{1,128}` (function|tool)\b|\b(use|call|using|calling) (a|the|this) (function|tool)\b"
)

NOT_RUN = "This call was not run: an answer without further calls was asked for."


async def converse(run: AgentRun, wanted: OutputSpec | None = None) -> RunFinished:
    """Answers the conversation's last user message: model, tools, model ... until it answers without a call.

    With `wanted`, an answer that is not what it says is asked for once more.

    When its turns or calls are used up, or when the model insists on repeating calls, it is made to answer once more
    without calling; when another limit is reached, what it said so far is the answer. Raises `ModelError` when the
    model fails; the history is valid then too. Calls that wait for an answer end the run and stay open in the
    conversation.
    """
    started = time.monotonic()
    repeats = Repeats(REPEATS_TOLD_SMALL if run.is_small else REPEATS_TOLD)
    repeats.count_all(run.conversation.messages[run.begins_at :])
    last = LastAnswer.of_run(wanted, run.conversation.messages[run.begins_at :], is_reminded=not run.is_small)
    stop: StopReason = "calls_pending"
    pending: tuple[PendingCall, ...] = ()
    answer = ""
    with run.entered(), run.watch.running():
        async with run.context.exits:
            async with run.within_limits():
                await run.keep()
                await _settled(run)
                written = _written_answer(run)
                if written is None:
                    pending, answer = await _begin(run), _last_answer(run)
                while not pending:
                    response, written = written, None
                    if response is None and (limit := run.must_answer()) is not None:
                        await _forced_answer(run, f"You have used all {limit.allowed}.", last)
                        break
                    response = response or await step(run, output=last.format)
                    if response is None:
                        continue
                    calls = response.message.tool_calls
                    if not calls and (note := await _objection(response, last, run, repeats)):
                        run.conversation.append(user_message(note))
                        continue
                    if not calls:
                        stop, answer = _ended(response), response.message.text
                        break
                    if repeats.goes_on_with(calls):
                        run.conversation.close_open_calls(NOT_RUN)
                        stop, answer = "repeated_calls", await _forced_answer(run, repeats.reason, last)
                        break
                    outcome = await run_calls(calls, run)
                    if outcome.pending:
                        answer, pending = response.message.text, outcome.pending
                        break
                    if words := repeats.count(calls, outcome.message.tool_results):
                        run.conversation.announce(words)
                    await run.refresh()
                    _deliver(run)
            run.tally.clock.stop()
            run.tally.is_over, run.tally.pending = True, pending
            finished = run.tally.finished = _finished(run, last, stop, answer, time.monotonic() - started)
            await run.keep()
        run.emit(finished)
    return finished


def _written_answer(run: AgentRun) -> ModelResponse | None:
    """Return the answer that an interrupted run had already, so that it is not asked for, and paid, again."""
    last = run.conversation.last
    if last is not None and last.role == "assistant" and not last.tool_calls:
        return ModelResponse(last, Usage(), "end")
    return None


def _finished(run: AgentRun, last: LastAnswer, stop: StopReason, answer: str, seconds: float) -> RunFinished:
    """The end, with whatever there is to tell of it; what a limit ended has as answer what was said until then."""
    pending, taken = run.tally.pending, run.tally.taken
    limit = run.tally.reached
    if limit is not None and not pending:
        stop, answer = LIMIT_STOPS[limit.limit], _said_so_far(run)
    elif not answer and not pending:
        cut = "was cut off before it answered: set a larger max_output_tokens, or less thinking"
        run.emit(Notice(f"the model {cut if stop == 'truncated' else 'gave an empty answer'}", "warning"))
    said = (message for message in reversed(run.conversation.messages) if message.role == "assistant")
    citations = next(said).citations if limit is None or pending or answer else ()
    told = last.told(answer, stop)
    return RunFinished(
        turns=run.tally.turns,
        usage=taken.usage,
        seconds=seconds,
        pending=pending,
        spent=taken,
        citations=citations,
        limit=limit,
        **told,
    )


def _said_so_far(run: AgentRun) -> str:
    """The last words of the model in this run, "" if there are none."""
    said = (
        message.text for message in reversed(run.conversation.messages[run.begins_at :]) if message.role == "assistant"
    )
    return next((text for text in said if text.strip()), "")


async def _settled(run: AgentRun) -> None:
    """Waits a bounded time for servers that are connecting; whoever asked is told which still are."""
    if run.context.tool_context.namespaces:
        run.emit(run.state.snapshot())
    await run.tools.settle()
    await run.refresh()
    for server in run.tools.listing.connecting:
        text = f'server "{safe_line(server, 64)}" is still connecting; this question is answered without its tools'
        run.emit(Notice(text, "warning"))


async def _begin(run: AgentRun) -> tuple[PendingCall, ...]:
    """Runs the calls that were answered, or not begun, or loads what the question finds; gives the calls that wait."""
    pending: tuple[PendingCall, ...] = ()
    if calls := run.conversation.open_calls:
        pending = (await run_calls(calls, run, run.answers)).pending
    elif run.conversation.has_unanswered_prompt:
        for event in await prefetch(run.tools, run.context.prompt, weak_too=run.is_small):
            run.emit(event)
    if not pending:
        _deliver(run)
    return pending


def _deliver(run: AgentRun) -> None:
    """What there is to say of tools, those among them that read what was just set aside."""
    run.large.offer_readers(run.tools)
    run.conversation.deliver()


def _last_answer(run: AgentRun) -> str:
    """The text beside the calls that wait, if any do."""
    last = (message.text for message in reversed(run.conversation.messages) if message.role == "assistant")
    return next(last, "") if run.conversation.open_calls else ""


async def _makes_room(run: AgentRun) -> bool:
    """Whether the conversation, which was too long for the model, is shorter now.

    Else what was asked is taken back: it can never be answered, and must not be in the way of what is asked next.
    """
    if await make_room(run, refused=True):
        return True
    if run.conversation.take_back_prompt():
        run.emit(Notice("what was asked is too long, and is taken back: ask for less", "warning"))
    return False


async def step(
    run: AgentRun, tool_choice: Literal["auto", "none"] = "auto", output: OutputFormat | None = None
) -> ModelResponse | None:
    """One request to the model; its answer becomes part of the conversation. None: it was too long, and is shorter now.

    The answer is written down with what follows it: the calls as they are sent, or the end of the run.
    """
    await make_room(run)
    await run.keep()
    run.count_turn()
    tools, turn = run.tools, run.tally.turns
    offered = tools.offer()
    request = ModelRequest(
        system=run.conversation.system,
        messages=run.conversation.sent,
        tools=tuple(tool.definition for tool in offered),
        deferred_tools=tools.left_to_provider(),
        tool_choice=tool_choice,
        settings=run.settings,
        search_strategy=tools.provider_strategy,
        provider_tools=run.provider_tools,
        output=output,
    )
    names = tuple(definition.name for definition in request.tools)
    offered_tokens = sum(map(tools.catalog.tokens, offered))
    known_tokens = tools.catalog.total_tokens()
    saved = known_tokens - offered_tokens
    run.emit(
        RequestSent(
            turn,
            names,
            known_tools=len(tools.known),
            offered_tokens=offered_tokens,
            known_tokens=known_tokens,
            deferred_tools=tools.deferred_count,
            searches=tools.searching,
        )
    )
    sent = partial(estimated_request, run)
    begun, started = time.time(), time.monotonic()
    under_way = RequestUnderWay(run.model, request, run.emit, run.count, sent)
    try:
        with run.watch.asking(request, run.model) as answered, under_way:
            working = asyncio.ensure_future(run.model.respond(told_form(run.model, request), under_way))
            try:
                await asyncio.wait({working})
            except asyncio.CancelledError:
                await run.end_request(working)
            response = under_way.answered(working.result(), offered=offered_tokens, saved=saved)
            answered(response)
    except asyncio.CancelledError:
        heard = under_way.heard
        if run.tally.clock.is_up and heard.strip():  # it took too long; what was written is the answer so far
            run.conversation.append(Message("assistant", (Text(heard),)))
        raise
    except ContextOverflowError:
        if await _makes_room(run):
            return None
        raise
    seconds = time.monotonic() - started
    run.conversation.append(response.message)
    place = len(run.conversation) - 1
    took = Step(
        place,
        run.model.name,
        names,
        response.usage,
        response.dollars,
        seconds=seconds,
        begun=begun,
        known_tools=len(tools.known),
        saved_tokens=saved,
    )
    run.conversation.note_step(took)
    run.emit(ResponseReceived(turn, response.usage, seconds, response.dollars, response.message.citations))
    for part in response.message.parts:
        if isinstance(part, ToolsChanged):  # what the provider's own search found
            _report_found(part, run)
    return response


def _report_found(found: ToolsChanged, run: AgentRun) -> None:
    names = tuple(tool.name for tool in found.added)
    run.emit(ToolsLoaded(names, run.tools.tokens(names)))
    if change := run.tools.outdated(found.added):
        changed = [tool.name for tool in change.added]
        run.conversation.announce(change_words(change.removed, changed), change)


async def _forced_answer(run: AgentRun, reason: str, last: LastAnswer) -> str:
    note = final_answer_note(reason)
    while True:
        run.conversation.append(user_message(note))
        while (response := await step(run, tool_choice="none", output=last.format)) is None:
            pass
        # A model may call all the same; nothing is run, and the history must not keep an open call.
        run.conversation.close_open_calls(NOT_RUN)
        await last.fits(response)
        if not (note := last.ask_again()):
            return response.message.text


async def _objection(response: ModelResponse, last: LastAnswer, run: AgentRun, repeats: Repeats) -> str:
    """Return the objection to an answer without a call, "" to accept it. Each objection is sent once."""
    fits = await last.fits(response)
    if not fits and not last.is_reminded and (tool := _only_talked_of(response.message.text, run, repeats)):
        last.is_reminded = True
        return call_note(tool)
    return last.ask_again()


def _only_talked_of(text: str, run: AgentRun, repeats: Repeats) -> str:
    """The tool that an answer without any call is about, as `get_time` or "calculate()"; "" if it is about none."""
    offered = run.tools.offer()
    if repeats.has_begun or not offered:
        return ""
    said = {word.rstrip(".-") for word, call in _NAMES.findall(text) if "_" in word or call}
    named = (f'"{tool.name}"' for tool in offered if tool.name in said)
    # An answer with code in it talks of the functions in that code.
    return next(named, "a tool" if "```" not in text and _A_TOOL.search(text) else "")


def _ended(response: ModelResponse) -> StopReason:
    match response.stop:
        case "length":
            return "truncated"
        case "refusal":
            return "refused"
        case _:
            return "answered"
