"""The agent's loop, to be read first: one turn is one model answer and the calls it makes."""

from __future__ import annotations

import json
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
"""A call with the same arguments and the same outcome this many times in a row is spoken of; one more ends the run."""


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

    After `max_turns` turns, or when the model repeats one call without end, it is made to answer once more without
    calling. Raises `ModelError` when the model fails; the history is valid then too.
    """
    started = time.monotonic()
    repeats = _Repeats()
    execution = Execution(run.catalog, run.conversation, run.emit, run.tool_timeout_seconds)
    stop: StopReason | None = None
    answer = ""
    while stop is None:
        if run.turns >= run.max_turns:
            stop, answer = "max_turns", await _forced_answer(run, f"You have used all {run.max_turns} turns.")
        elif repeats.exhausted:
            stop, answer = "repeated_calls", await _forced_answer(run, "You made the same call again and again.")
        else:
            response = await step(run)
            if response.message.tool_calls:
                results = await run_calls(response.message.tool_calls, execution)
                repeats.count(response.message.tool_calls, results.tool_results)
                if repeats.must_be_told:
                    run.conversation.append(user_message(repeats.words))
            else:
                stop, answer = _ended(response), response.message.text
    if not answer:
        run.emit(Notice("the model gave an empty answer", "warning"))
    return RunFinished(answer, stop, run.turns, run.usage, time.monotonic() - started)


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
    run.conversation.close_open_calls("This call was not run: the answer was asked for without calls.")
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

    last: tuple[str, str, str] | None = None
    row: int = 0
    must_be_told: bool = False

    def count(self, calls: tuple[ToolCall, ...], results: tuple[ToolResult, ...]) -> None:
        before = self.row
        for call, result in zip(calls, results, strict=True):
            made = (call.name, json.dumps(call.arguments, sort_keys=True, default=str), f"{result.error} {result.text}")
            self.row = self.row + 1 if made == self.last else 1
            self.last = made
        self.must_be_told = before < REPEATS_TOLD <= self.row and not self.exhausted

    @property
    def exhausted(self) -> bool:
        return self.row > REPEATS_TOLD

    @property
    def words(self) -> str:
        name = self.last[0] if self.last else ""
        return (
            f'The call to "{name}" was made {self.row} times in a row with the same arguments and the same outcome. '
            "Do something else: change the arguments, use another tool, or answer."
        )
