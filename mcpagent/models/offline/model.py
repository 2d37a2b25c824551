"""The offline model: rules that answer where no provider's key is set. It sees a request and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from mcpagent.events import Emit, TextDelta
from mcpagent.messages import Message, Text, ToolCall, ToolDefinition, Usage
from mcpagent.models.base import ModelRequest, ModelResponse
from mcpagent.models.offline import answers
from mcpagent.models.offline.evidence import Evidence, split_payload
from mcpagent.models.offline.history import VIRTUAL, Turn, new_ids, read_turn
from mcpagent.models.offline.intent import Need, is_new_request, need_of, small_talk, split_needs
from mcpagent.models.offline.planning import Calls, Decision, Task, decide, view
from mcpagent.models.offline.ranking import changes_something


def _local_now() -> datetime:
    return datetime.now().astimezone()


class OfflineModel:
    """A rule-based stand-in that needs no key and no network, and says so once in a conversation.

    It really searches, adds and calls: keywords from the prompt, arguments filled from each tool's schema, answers
    that report what the tools returned. The same request gives the same answer; `now` is read only for words such as
    "tomorrow". `Usage` counts characters / 4, as nothing is billed.
    """

    name = "offline:rules"

    def __init__(self, now: Callable[[], datetime] = _local_now) -> None:
        self._now = now

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        message = answer(request, self._now())
        if message.text:
            for line in message.text.splitlines(keepends=True):
                emit(TextDelta(line))
        usage = Usage(_tokens(request), _size(message) // 4 + 1, requests=1)
        return ModelResponse(message, usage, "tool_calls" if message.tool_calls else "end", dollars=0.0)

    async def aclose(self) -> None:
        """Nothing to give back."""


def answer(request: ModelRequest, now: datetime) -> Message:
    """The next message for a request, as a function of it and the time."""
    turn = read_turn(request, answers.INTRODUCTION)
    talk = small_talk(turn.prompt)
    if talk is not None:
        return _said(answers.small_talk_answer(talk, request), turn)
    tasks = _tasks(turn, now)
    decisions = [decide(task, request.tools) for task in tasks]
    if request.tool_choice == "none" or not any(isinstance(decision, Calls) for decision in decisions):
        return _said(answers.final_answer(tasks, decisions), turn)
    return Message("assistant", _calls(request, decisions), "offline")


def _said(text: str, turn: Turn) -> Message:
    introduced = text if turn.introduced else f"{text}\n\n{answers.INTRODUCTION}{answers.INTRODUCTION_REST}"
    return Message("assistant", (Text(introduced),), "offline")


def _tasks(turn: Turn, now: datetime) -> list[Task]:
    text, payload = split_payload(turn.prompt)
    if turn.question is not None and not is_new_request(turn.prompt):
        asked, asked_payload = split_payload(turn.question.prompt)
        need = need_of(Evidence(asked, now))
        evidence = Evidence(f"{asked.rstrip('?. ')}. {text}", now, payload or asked_payload)
        return [Task(need, evidence, tuple(turn.steps.get(0, ())), question=turn.question, answer=turn.prompt.strip())]
    tasks: list[Task] = []
    for number, piece in enumerate(split_needs(text)):
        evidence = Evidence(piece, now, payload)
        need = need_of(evidence)
        if need.verbless and tasks:
            need = _like(need, tasks[-1].need)
        elif need.verbless and turn.last_prompt and turn.last_step is None:
            need = _like(need, need_of(Evidence(split_payload(turn.last_prompt)[0], now)))
        steps = tuple(turn.steps.get(number, ()))
        tasks.append(Task(need, evidence, steps, earlier=None if tasks else turn.last_step))
    return tasks


def _like(need: Need, model: Need) -> Need:
    """A need without words of its own ("and in Paris?") asks for what the one before it asked for."""
    return replace(need, about=model.about, keywords=model.keywords, hints=(*model.hints, *need.hints), verbless=False)


def _calls(request: ModelRequest, decisions: Sequence[Decision]) -> tuple[ToolCall, ...]:
    """The calls of all needs that can go ahead; what changes something waits until all before it is done."""
    by_name = {definition.name: definition for definition in request.tools}
    wanted: list[tuple[int, str, dict[str, object]]] = []
    is_open = is_changing = False
    for number, decision in enumerate(decisions):
        if not isinstance(decision, Calls):
            continue
        changing = any(_is_changing(by_name.get(name)) for name, _ in decision.calls)
        only_looks = all(name in VIRTUAL for name, _ in decision.calls)
        if only_looks or not is_open or not (changing or is_changing):
            wanted.extend((number, name, arguments) for name, arguments in decision.calls)
        is_open = True
        is_changing = is_changing or changing or only_looks
    ids = new_ids(request, [number for number, _, _ in wanted])
    return tuple(ToolCall(call_id, name, arguments) for call_id, (_, name, arguments) in zip(ids, wanted, strict=True))


def _is_changing(definition: ToolDefinition | None) -> bool:
    if definition is None:
        return False
    return not definition.read_only if definition.read_only is not None else changes_something(view(definition))


def _size(message: Message) -> int:
    arguments = sum(len(json.dumps(call.arguments, default=str)) + len(call.name) for call in message.tool_calls)
    return len(message.text) + arguments + sum(len(result.text) for result in message.tool_results)


def _tokens(request: ModelRequest) -> int:
    tools = sum(
        len(tool.name) + len(tool.description) + len(json.dumps(tool.parameters, default=str)) for tool in request.tools
    )
    return (len(request.system) + tools + sum(_size(message) for message in request.messages)) // 4 + 1
