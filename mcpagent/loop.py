"""The agent's loop, to be read first: one turn is one model answer and the calls it makes."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

from mcpagent.catalog import Catalog
from mcpagent.conversation import Conversation, change_words
from mcpagent.events import Emit, Notice, RequestSent, ResponseReceived, RunFinished, StopReason, ToolsLoaded
from mcpagent.execution import Execution, run_calls
from mcpagent.messages import Spent, ToolCall, ToolResult, ToolsChanged, user_message
from mcpagent.models.base import Model, ModelRequest, ModelResponse, ModelSettings
from mcpagent.pending import CallAnswer, OnApproval, PendingCall
from mcpagent.prompt.builder import final_answer_note
from mcpagent.recording.tape import Tape
from mcpagent.run_context import RunContext
from mcpagent.tool_context import StateChannel

REPEATS_TOLD = 5
"""A call with the same arguments and outcome this many times in a row is spoken of; the next one is not run."""

NOT_RUN = "This call was not run: an answer without further calls was asked for."


@dataclass(slots=True)
class Run:
    """One prompt being answered. `spent` adds up as it goes, so it is right also when the run is cut short.

    `list_tools` brings the catalogue up to date before each request. `answers`, by call id, are for the calls that
    the conversation has open. `parent` is the run whose tool call this one answers, under the tool name `label`: its
    usage and its turns count this run's too, so the outermost `max_turns` bounds all models' answers together.
    """

    model: Model
    catalog: Catalog
    conversation: Conversation
    emit: Emit
    max_turns: int
    tool_timeout_seconds: float
    settings: ModelSettings
    context: RunContext[Any]
    list_tools: Callable[[], Awaitable[None]]
    on_approval: OnApproval | None = None
    answers: Mapping[str, CallAnswer] | None = None
    parent: Run | None = None
    label: str = ""
    tape: Tape = field(default_factory=Tape)
    spent: Spent = field(default_factory=Spent)
    turns: int = 0
    nested_turns: int = 0

    @property
    def lineage(self) -> Iterator[Run]:
        """This run, its parent, and so on to the outermost."""
        run: Run | None = self
        while run is not None:
            yield run
            run = run.parent

    @property
    def has_turns_left(self) -> bool:
        return all(run.turns + run.nested_turns < run.max_turns for run in self.lineage)

    def count(self, spent: Spent) -> None:
        for run in self.lineage:
            run.spent += spent

    def count_turn(self) -> None:
        self.turns += 1
        for run in self.lineage:
            if run is not self:
                run.nested_turns += 1


_CURRENT: ContextVar[Run | None] = ContextVar("mcpagent_run", default=None)


def current_run() -> Run | None:
    """The run whose tool call this code is in, None outside of one."""
    return _CURRENT.get()


async def converse(run: Run) -> RunFinished:
    """Answers the conversation's last user message: model, tools, model ... until it answers without a call.

    After `max_turns` turns, or when the model insists on repeating one call, it is made to answer once more without
    calling. Raises `ModelError` when the model fails; the history is valid then too. Calls that wait for an answer end
    the run and stay open in the conversation.
    """
    token = _CURRENT.set(run)
    try:
        async with run.context.exits:
            return await _converse(run)
    finally:
        _CURRENT.reset(token)


async def _converse(run: Run) -> RunFinished:
    started = time.monotonic()
    repeats = _Repeats()
    execution = execution_of(run)
    if run.context.tool_context.namespaces:
        run.emit(execution.state.snapshot())
    stop: StopReason
    pending: tuple[PendingCall, ...] = ()
    await run.list_tools()
    if run.answers is not None:
        await run_calls(run.conversation.open_calls, execution, run.answers)
    run.conversation.deliver()
    while run.has_turns_left:
        response = await step(run)
        calls = response.message.tool_calls
        if not calls:
            stop, answer = _ended(response), response.message.text
            break
        if repeats.goes_on_with(calls):
            run.conversation.close_open_calls(NOT_RUN)
            stop, answer = "repeated_calls", await _forced_answer(run, "You made the same call again and again.")
            break
        outcome = await run_calls(calls, execution)
        if outcome.pending:
            stop, answer, pending = "calls_pending", response.message.text, outcome.pending
            break
        if words := repeats.count(calls, outcome.message.tool_results):
            run.conversation.announce(words)
        await run.list_tools()
        run.conversation.deliver()
    else:
        stop, answer = "max_turns", await _forced_answer(run, f"You have used all {run.max_turns} turns.")
    if not answer and not pending:
        run.emit(Notice("the model gave an empty answer", "warning"))
    seconds = time.monotonic() - started
    finished = RunFinished(answer, stop, run.turns, run.spent.usage, seconds, pending, run.spent)
    run.emit(finished)
    return finished


def execution_of(run: Run) -> Execution:
    """What the run's tool calls need."""
    return Execution(
        run.catalog,
        run.conversation,
        run.emit,
        run.tool_timeout_seconds,
        run.context,
        StateChannel(run.context.tool_context),
        run.on_approval,
        run.tape,
    )


async def step(run: Run, tool_choice: Literal["auto", "none"] = "auto") -> ModelResponse:
    """One request to the model; its answer becomes part of the conversation."""
    run.count_turn()
    discovery = run.conversation.discovery
    offered = run.catalog.offer(discovery)
    request = ModelRequest(
        system=run.conversation.system,
        messages=run.conversation.messages,
        tools=tuple(tool.definition for tool in offered),
        deferred_tools=run.catalog.left_to_provider(),
        tool_choice=tool_choice,
        settings=run.settings,
        search_strategy=run.catalog.provider_strategy,
    )
    names = tuple(tool.name for tool in offered)
    catalog, known = run.catalog, run.catalog.known
    offered_tokens, known_tokens = catalog.tokens(names), catalog.tokens(known)
    run.emit(
        RequestSent(
            run.turns,
            names,
            len(known),
            offered_tokens,
            known_tokens,
            len(catalog.deferred),
            catalog.searching,
        )
    )
    started = time.monotonic()
    response = await run.model.respond(request, run.emit)
    price, paid = response.dollars, bool(response.usage.input_tokens or response.usage.output_tokens)
    run.count(
        Spent(
            response.usage, price or 0.0, price is not None or not paid, offered_tokens, known_tokens - offered_tokens
        )
    )
    run.conversation.append(response.message)
    run.emit(ResponseReceived(run.turns, response.usage, time.monotonic() - started, price))
    for part in response.message.parts:
        if isinstance(part, ToolsChanged):  # what the provider's own search found
            found = tuple(tool.name for tool in part.added)
            run.emit(ToolsLoaded(found, catalog.tokens(found)))
            if change := catalog.outdated(part.added):
                changed = [tool.name for tool in change.added]
                run.conversation.announce(change_words(change.removed, changed), change)
    return response


async def _forced_answer(run: Run, reason: str) -> str:
    run.conversation.append(user_message(final_answer_note(reason)))
    response = await step(run, tool_choice="none")
    # A model may call all the same; nothing is run, and the history must not keep an open call.
    run.conversation.close_open_calls(NOT_RUN)
    return response.message.text


def _ended(response: ModelResponse) -> StopReason:
    match response.stop:
        case "length":
            return "truncated"
        case "refusal":
            return "refused"
        case _:
            return "answered"


@dataclass(slots=True)
class _Repeats:
    """Counts identical calls with identical outcomes in a row."""

    last: ToolCall | None = None
    outcome: tuple[str | None, str] | None = None
    row: int = 0

    def count(self, calls: tuple[ToolCall, ...], results: tuple[ToolResult, ...]) -> str:
        """Counts one message's calls; gives what to tell the model when it has just repeated itself too often."""
        before = self.row
        for call, result in zip(calls, results, strict=True):
            outcome = (result.error, result.text)
            self.row = self.row + 1 if self._same(call) and outcome == self.outcome else 1
            self.last, self.outcome = call, outcome
        if self.last is None or not before < REPEATS_TOLD <= self.row:
            return ""
        return (
            f'The call to "{self.last.name}" was made {self.row} times in a row with the same arguments and the same '
            "outcome. Do something else: change the arguments, use another tool, or answer."
        )

    def goes_on_with(self, calls: tuple[ToolCall, ...]) -> bool:
        """Whether the model was told and makes the very same call again."""
        return self.row >= REPEATS_TOLD and all(self._same(call) for call in calls)

    def _same(self, call: ToolCall) -> bool:
        last = self.last
        return last is not None and (last.name, last.arguments) == (call.name, call.arguments)
