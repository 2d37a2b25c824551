"""What the offline model says next: from a request and the time to a message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from mcpagent.messages import Message, Text, ToolCall, ToolDefinition
from mcpagent.models.base import ModelRequest
from mcpagent.models.offline import answers
from mcpagent.models.offline.evidence import Evidence, split_payload
from mcpagent.models.offline.history import VIRTUAL, Turn, new_ids, read_turn
from mcpagent.models.offline.intent import Need, is_new_request, need_of, small_talk, split_needs
from mcpagent.models.offline.planning import Calls, Decision, Task, decide, view
from mcpagent.models.offline.ranking import changes_something


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
