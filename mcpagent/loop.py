"""The agent's loop, to be read first: one turn is one model answer and the calls it makes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Literal

from mcpagent.catalog import Catalog
from mcpagent.conversation import Conversation
from mcpagent.events import Emit, Notice, RequestSent, ResponseReceived, RunFinished, StopReason
from mcpagent.execution import Execution, run_calls
from mcpagent.messages import ToolCall, ToolResult, Usage, user_message
from mcpagent.models.base import Model, ModelRequest, ModelResponse, ModelSettings
from mcpagent.prompt.builder import final_answer_note

REPEATS_TOLD = 5
"""A call with the same arguments and outcome this many times in a row is spoken of; the next one is not run."""

NOT_RUN = "This call was not run: an answer without further calls was asked for."


@dataclass(slots=True)
class Run:
    """One prompt being answered. `usage` adds up as it goes, so it is right also when the run is cut short."""

    model: Model
    catalog: Catalog
    conversation: Conversation
    emit: Emit
    max_turns: int
    tool_timeout_seconds: float
    settings: ModelSettings
    usage: Usage = field(default_factory=Usage)
    turns: int = 0


async def converse(run: Run) -> RunFinished:
    """Answers the conversation's last user message: model, tools, model ... until it answers without a call.

    After `max_turns` turns, or when the model insists on repeating one call, it is made to answer once more without
    calling. Raises `ModelError` when the model fails; the history is valid then too.
    """
    started = time.monotonic()
    repeats = _Repeats()
    execution = Execution(run.catalog, run.conversation, run.emit, run.tool_timeout_seconds)
    stop: StopReason
    while run.turns < run.max_turns:
        response = await step(run)
        calls = response.message.tool_calls
        if not calls:
            stop, answer = _ended(response), response.message.text
            break
        if repeats.goes_on_with(calls):
            run.conversation.close_open_calls(NOT_RUN)
            stop, answer = "repeated_calls", await _forced_answer(run, "You made the same call again and again.")
            break
        results = await run_calls(calls, execution)
        if words := repeats.count(calls, results.tool_results):
            run.conversation.announce(words)
        run.conversation.deliver()
    else:
        stop, answer = "max_turns", await _forced_answer(run, f"You have used all {run.max_turns} turns.")
    if not answer:
        run.emit(Notice("the model gave an empty answer", "warning"))
    finished = RunFinished(answer, stop, run.turns, run.usage, time.monotonic() - started)
    run.emit(finished)
    return finished


async def step(run: Run, tool_choice: Literal["auto", "none"] = "auto") -> ModelResponse:
    """One request to the model; its answer becomes part of the conversation."""
    run.turns += 1
    offered = run.catalog.offer(run.conversation.discovery)
    request = ModelRequest(
        system=run.conversation.system,
        messages=run.conversation.messages,
        tools=tuple(tool.definition for tool in offered),
        tool_choice=tool_choice,
        settings=run.settings,
    )
    names = tuple(tool.name for tool in offered)
    known = run.catalog.known
    run.emit(RequestSent(run.turns, names, len(known), run.catalog.tokens(names), run.catalog.tokens(known)))
    started = time.monotonic()
    response = await run.model.respond(request, run.emit)
    run.usage += response.usage
    run.conversation.append(response.message)
    run.emit(ResponseReceived(run.turns, response.usage, time.monotonic() - started))
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
