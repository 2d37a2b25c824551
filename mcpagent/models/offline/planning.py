"""What to do next for one need: search, add, call, or be done with it. A pure function of what has happened so far."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from mcpagent.messages import ToolDefinition
from mcpagent.models.offline.arguments import Filled, fill, fill_each, following_up
from mcpagent.models.offline.evidence import Evidence
from mcpagent.models.offline.fitting import fits, resolve
from mcpagent.models.offline.history import ADD, SEARCH, VIRTUAL, Question, Step
from mcpagent.models.offline.intent import Need, search_query, second_query
from mcpagent.models.offline.mending import mended
from mcpagent.models.offline.ranking import Ranked, ToolView, changes_something, rank
from mcpagent.models.offline.signatures import search_results

_MAX_TRIES = 3
_SURE_FIT = 3.0
"""A tool discovered earlier must fit this well to be used without looking for a better one."""

_POOR_FIT = 1.6
"""Below this, other words are tried before the tool is."""

_EXPLETIVE = re.compile(r"\b(?:time|day|date|late|year) is it\b|\bit is \d|\bit's \d", re.IGNORECASE)
"""An "it" that stands for nothing."""

_REFERS = re.compile(
    r"^\W*(?:and|also|what about|how about)\b|\b(?:it|its|it's|there|that|this|same|them|those|again)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Task:
    """One need with all it is decided by. `earlier` is a call before this one that it may follow up."""

    need: Need
    evidence: Evidence
    steps: tuple[Step, ...]
    earlier: Step | None = None
    question: Question | None = None
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls to make now: the tool's name and arguments for each."""

    calls: tuple[tuple[str, dict[str, Any]], ...]


@dataclass(frozen=True, slots=True)
class Answered:
    results: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    step: Step


@dataclass(frozen=True, slots=True)
class Lacking:
    """A tool fits, but the prompt does not say what it requires."""

    tool: str
    parameter: str
    description: str


@dataclass(frozen=True, slots=True)
class NothingFits:
    searched: tuple[str, ...]


Decision: TypeAlias = Calls | Answered | Failed | Lacking | NothingFits


def view(definition: ToolDefinition) -> ToolView:
    return ToolView(
        definition.name,
        definition.description,
        definition.parameters,
        definition.server or "",
        definition.original_name,
    )


def decide(task: Task, offered: Sequence[ToolDefinition]) -> Decision:
    """The next calls for a task, or how it ended."""
    real = [step for step in task.steps if step.call.name not in VIRTUAL]
    latest = _latest_batch(real)
    if latest and not any(step.result.error for step in latest):
        return Answered(tuple(latest))
    tools = [view(definition) for definition in offered if definition.name not in VIRTUAL]
    if latest:
        return _after_failure(task, real, latest, tools, offered)
    return _first_call(task, tools, offered, frozenset())


def _latest_batch(real: Sequence[Step]) -> list[Step]:
    """The last calls that were made of one tool; several are one value each of the same request."""
    if not real:
        return []
    name = real[-1].call.name
    failed = [index for index, step in enumerate(real) if step.result.error]
    start = failed[-1] if failed and failed[-1] == len(real) - 1 else (failed[-1] + 1 if failed else 0)
    batch = [step for step in real[start:] if step.call.name == name]
    return batch or [real[-1]]


def _after_failure(
    task: Task,
    real: Sequence[Step],
    latest: Sequence[Step],
    tools: Sequence[ToolView],
    offered: Sequence[ToolDefinition],
) -> Decision:
    step = next(step for step in reversed(latest) if step.result.error)
    tool = next((tool for tool in tools if tool.name == step.call.name), None)
    if len(real) >= _MAX_TRIES or step.result.error in ("denied", "cancelled", "repeated"):
        return Failed(_most_telling(real))
    if tool is not None and step.result.error in ("failed", "invalid_arguments"):
        again = mended(tool, dict(step.call.arguments), step.result.text, task.evidence)
        made = [other.call.arguments for other in real]
        if again is not None and again not in made:
            return Calls(((tool.name, again),))
    if step.result.error == "not_loaded" and tool is not None and len(real) == 1:
        return Calls(((tool.name, dict(step.call.arguments)),))
    if tool is None or changes_something(tool):
        return Failed(_most_telling(real))
    following = _first_call(task, tools, offered, frozenset(other.call.name for other in real))
    return following if isinstance(following, Calls) else Failed(_most_telling(real))


def _most_telling(real: Sequence[Step]) -> Step:
    """The first failure of a tool is about the request; later ones are about substitutes."""
    return next(step for step in real if step.result.error)


def _first_call(
    task: Task, tools: Sequence[ToolView], offered: Sequence[ToolDefinition], tried: frozenset[str]
) -> Decision:
    names = {definition.name for definition in offered}
    searches = [step for step in task.steps if step.call.name == SEARCH]
    added = _added(task.steps)
    untried = [tool for tool in tools if tool.name not in tried]
    if task.question is not None or task.need.verbless:
        known = task.question.tool if task.question else task.earlier.call.name if task.earlier else ""
        named = [tool for tool in untried if tool.name == known]
        if named:
            return _call(task, named[0], fill(named[0].name, named[0].description, named[0].schema, task.evidence))
    ready = [tool for tool in untried if tool.name in added]
    if ready:
        return _best_call(task, ready, searched=True) or _call_anyway(task, ready[0])
    here = _ranked(task, untried)
    if here and not tried and (SEARCH not in names or _is_sure(here[0], task)):
        return _call(task, here[0].tool, here[0].filled)
    if SEARCH not in names:
        return _call(task, here[0].tool, here[0].filled) if here else NothingFits(())
    return _look_further(task, searches, here, names, tried)


def _lacks(ranked: Ranked, task: Task) -> bool:
    return bool({path.partition(".")[0] for path in ranked.filled.missing} - _known(task).keys())


def _substitutes(ranked: Sequence[Ranked], task: Task) -> list[Ranked]:
    return [one for one in ranked if not _lacks(one, task) and not changes_something(one.tool)]


def _is_sure(ranked: Ranked, task: Task) -> bool:
    return ranked.score >= _SURE_FIT and not _lacks(ranked, task)


def _look_further(
    task: Task, searches: Sequence[Step], here: Sequence[Ranked], names: set[str], tried: frozenset[str]
) -> Decision:
    """Search, then search in other words, then add the best of what was found."""
    asked = [str(step.call.arguments.get("query", "")) for step in searches]
    query = search_query(task.need)
    if not searches:
        return Calls(((SEARCH, {"query": query}),))
    refused = {name for step in task.steps if step.call.name == ADD for name in _tool_names(step)}
    found = [tool for step in searches for tool in search_results(step.result.text) if tool.name not in tried | refused]
    fitting = _ranked(task, list({tool.name: tool for tool in found}.values()), searched=True)
    if tried:
        # Substitutes for a tool that failed: only what can be called outright.
        fitting, here = _substitutes(fitting, task), _substitutes(here, task)
    again = second_query(task.need)
    is_poor = not fitting or _lacks(fitting[0], task) or fitting[0].score < _POOR_FIT
    if is_poor and len(searches) == 1 and again and again not in asked:
        return Calls(((SEARCH, {"query": again}),))
    if fitting and (not here or fitting[0].score > here[0].score):
        chosen = fitting[0].tool.name
        if chosen in names:
            return _call(task, fitting[0].tool, fitting[0].filled)
        if ADD in names:
            return Calls(((ADD, {"tool_names": [chosen]}),))
    if here:
        return _call(task, here[0].tool, here[0].filled)
    return NothingFits(tuple(asked))


def _tool_names(step: Step) -> list[str]:
    names = step.call.arguments.get("tool_names")
    return [str(name) for name in names] if isinstance(names, list) else []


def _added(steps: Sequence[Step]) -> list[str]:
    return [name for step in steps if step.call.name == ADD and not step.result.error for name in _tool_names(step)]


def _ranked(task: Task, tools: Sequence[ToolView], *, searched: bool = False) -> list[Ranked]:
    return rank(task.need, task.evidence, tools, searched=searched, known=_known(task))


def _refers_back(text: str) -> bool:
    return _REFERS.search(_EXPLETIVE.sub("", text)) is not None


def _known(task: Task) -> dict[str, Any]:
    """The arguments of the call before, where the need refers to it: "and its population?"."""
    return dict(task.earlier.call.arguments) if task.earlier and _refers_back(task.need.text) else {}


def _best_call(task: Task, tools: Sequence[ToolView], *, searched: bool) -> Decision | None:
    fitting = _ranked(task, tools, searched=searched)
    return _call(task, fitting[0].tool, fitting[0].filled) if fitting else None


def _call_anyway(task: Task, tool: ToolView) -> Decision:
    return _call(task, tool, fill(tool.name, tool.description, tool.schema, task.evidence))


def _call(task: Task, tool: ToolView, filled: Filled) -> Decision:
    complete = _completed(task, tool, filled)
    if complete.missing:
        parameter = complete.missing[0]
        return Lacking(tool.name, parameter, _description(tool, parameter))
    if complete is not filled:
        return Calls(((tool.name, complete.arguments),))
    each = fill_each(tool.name, tool.description, tool.schema, task.evidence, filled)
    return Calls(tuple((tool.name, one.arguments) for one in each))


def _completed(task: Task, tool: ToolView, filled: Filled) -> Filled:
    """With what the answer to our question, or the call this one follows up, says about open properties."""
    if task.question is not None and task.question.tool == tool.name:
        return _answered(tool, filled, task.question.parameter, task.answer)
    if task.earlier is None or not (task.need.verbless or _refers_back(task.need.text)):
        return filled
    same = task.earlier.call.name == tool.name
    return following_up(filled, task.earlier.call.arguments, tool.schema, same_tool=same and task.need.verbless)


def _answered(tool: ToolView, filled: Filled, parameter: str, answer: str) -> Filled:
    schema = _property(tool, parameter)
    is_open = parameter in filled.missing or parameter in filled.untyped
    if not is_open or "." in parameter or not fits(answer, schema):
        return filled
    missing = tuple(name for name in filled.missing if name != parameter)
    return Filled({**filled.arguments, parameter: answer}, missing, filled.spans)


def _property(tool: ToolView, parameter: str) -> dict[str, Any]:
    properties = resolve(tool.schema, tool.schema).get("properties")
    return resolve(properties.get(parameter), tool.schema) if isinstance(properties, dict) else {}


def _description(tool: ToolView, parameter: str) -> str:
    schema = _property(tool, parameter)
    values = schema.get("enum")
    if isinstance(values, list) and values:
        return "one of " + ", ".join(str(value) for value in values[:12])
    text = schema.get("description")
    return text if isinstance(text, str) else ""
