"""Compute the tools that a history added, changed and removed, by position; each adapter writes them in its API's form.

The rule behind it: bytes that were sent never change. So a found tool keeps its first definition, a later change is
announced at the position where it happened, and a removed tool stays where it was written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mcpagent.models.base import ModelRequest
from mcpagent.models.wire_values import json_text
from mcpagent.values.messages import (
    Message,
    Part,
    Text,
    ToolDefinition,
    ToolResult,
    ToolsChanged,
)

SEARCH_NAMES = frozenset(
    {"search_tools", "add_tool", "remove_tool", "show_all_tools", "call_tool"}
)
"""The runtime's own tools whose results mcpagent writes."""

READER_NAMES = ("read_large_output", "search_large_output", "query_large_output")
"""The runtime's own tools that read offloaded results, in the order in which they are offered."""

RESERVED_NAMES = SEARCH_NAMES.union(READER_NAMES)
"""Names that no other tool may have."""

SUBMIT_TOOL = "submit_answer"
"""The tool with which a model submits its answer as data. It is only in requests, never in a history. Its name is
reserved.
"""


@dataclass(frozen=True, slots=True)
class Change:
    """The changes at one position of the history: tools that became callable, were redefined, or were removed.

    `result` is the ID of the call that caused them, or "". `new` are those of the `added` tools that never appeared
    before.
    """

    result: str = ""
    new: tuple[ToolDefinition, ...] = ()
    added: tuple[ToolDefinition, ...] = ()
    redefined: tuple[ToolDefinition, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolPlan:
    """The tools of one request by origin.

    `eager` were offered from the start, with their first definitions. `found` came later, in order, each with its first
    definition; `withdrawn` tools may not be called any more. `changes` has the changes to announce, by position of the
    message. The provider could search `deferred` tools from the start, and `joined` ones from their position on.
    """

    eager: tuple[ToolDefinition, ...]
    found: Mapping[str, ToolDefinition]
    withdrawn: frozenset[str]
    changes: Mapping[int, tuple[Change, ...]]
    deferred: tuple[ToolDefinition, ...]
    joined: Mapping[int, tuple[ToolDefinition, ...]]

    @property
    def all_tools(self) -> tuple[ToolDefinition, ...]:
        """All tools: first eager ones, then found ones in order, including withdrawn ones. The list only grows."""
        return (*self.eager, *self.found.values())

    def new_at(self, position: int) -> tuple[ToolDefinition, ...]:
        """Return the tools that became callable for the first time at this position."""
        return tuple(
            tool for change in self.changes.get(position, ()) for tool in change.new
        )

    def in_order_of_arrival(self) -> tuple[ToolDefinition, ...]:
        """Return all tools that are not eager, in the order in which the provider first received their definitions.

        A tool whose definition changed keeps its position, with the last definition.
        """
        arrived = {tool.name: tool for tool in self.deferred}
        for position in sorted({*self.changes, *self.joined}):
            for tool in (*self.joined.get(position, ()), *self.new_at(position)):
                arrived.setdefault(tool.name, tool)
        return tuple({**arrived, **self.found}.values())

    def callable_names(self) -> list[str]:
        """Return the names of the tools that may be called now, in the order of the request."""
        return [tool.name for tool in self.all_tools if tool.name not in self.withdrawn]


@dataclass(slots=True)
class _Fold:
    """The result of folding a part of the history: the last and first definitions of added tools, and withdrawn tools.

    `was` are changed or withdrawn tools that were offered from the start: their position among these, and their first
    definition.
    """

    last: dict[str, ToolDefinition] = field(default_factory=dict[str, ToolDefinition])
    first: dict[str, ToolDefinition] = field(default_factory=dict[str, ToolDefinition])
    withdrawn: set[str] = field(default_factory=set[str])
    was: dict[str, tuple[int, ToolDefinition]] = field(
        default_factory=dict[str, tuple[int, ToolDefinition]]
    )


def plan_tools(request: ModelRequest) -> ToolPlan:
    """Compute the origin of the request's tools from its history.

    A tool is omitted if the history added and did not withdraw it, but it is not offered now: it no longer exists, or
    belongs to another configuration. If a tool changed without a record in the history, its new definition is used from
    the start: correctness matters more than the cache.
    """
    offered = {tool.name: tool for tool in request.tools}
    searchable = {tool.name: tool for tool in request.deferred_tools}
    changing = _changing(request.messages)
    fold = _folded(part for message in changing.values() for part in message.parts)
    found: dict[str, ToolDefinition] = {}
    for name, first in fold.first.items():
        if name in offered:
            current = _same(offered[name], fold.last[name])
            if current:
                found[name] = searchable.get(name, first)
            else:
                found[name] = offered[name]
        elif name in fold.withdrawn:
            found[name] = searchable.get(name, first)
    stale = frozenset(
        name
        for name, last in fold.last.items()
        if name in offered and not _same(offered[name], last)
    )
    eager = _eager(request.tools, fold)
    gone = frozenset(
        name
        for name in (*found, *fold.was)
        if name not in offered and name in fold.withdrawn
    )
    began = {tool.name: tool for tool in eager if tool.name in fold.was}
    changes = _changes(changing, found, stale, began)
    joined = _joined(changing, searchable)
    later = {tool.name for tools in joined.values() for tool in tools}
    deferred = tuple(tool for tool in request.deferred_tools if tool.name not in later)
    return ToolPlan(eager, found, gone, changes, deferred, joined)


def _changing(messages: Sequence[Message]) -> dict[int, Message]:
    """Return the messages that change tools, by position. Only this function reads all messages."""
    return {
        position: message
        for position, message in enumerate(messages)
        for part in message.parts
        if isinstance(part, ToolsChanged)
    }


def _joined(
    changing: Mapping[int, Message], searchable: Mapping[str, ToolDefinition]
) -> dict[int, tuple[ToolDefinition, ...]]:
    """Return, by position, the tools that a provider could search from there on; each tool once."""
    waiting = dict(searchable)
    joined: dict[int, tuple[ToolDefinition, ...]] = {}
    for position, message in changing.items():
        names = [
            name
            for part in message.parts
            if isinstance(part, ToolsChanged)
            for name in part.joined
        ]
        if here := tuple(
            waiting.pop(name) for name in dict.fromkeys(names) if name in waiting
        ):
            joined[position] = here
    return joined


def _folded(parts: Iterable[Part]) -> _Fold:
    fold = _Fold()
    for part in parts:
        if isinstance(part, ToolsChanged):
            _advance(fold, part)
    return fold


def _advance(fold: _Fold, change: ToolsChanged) -> None:
    for place, tool in change.was:
        fold.was.setdefault(tool.name, (place, tool))
        fold.last.setdefault(tool.name, tool)
    fold.withdrawn.update(name for name in change.removed if name in fold.last)
    for tool in change.added:
        if tool.name not in fold.was:
            fold.first.setdefault(tool.name, tool)
        fold.last[tool.name] = tool
        fold.withdrawn.discard(tool.name)


def _eager(
    offered: Sequence[ToolDefinition], fold: _Fold
) -> tuple[ToolDefinition, ...]:
    """Return the tools offered from the start, including withdrawn ones, at their position and with their first
    definition.

    A tool that disappeared without a record in the history is omitted; one that changed without a record has its
    current definition.
    """
    now = {tool.name: tool for tool in offered}
    eager = [
        tool
        for tool in offered
        if tool.name not in fold.first and tool.name not in fold.was
    ]
    for place, began in sorted(fold.was.values(), key=lambda item: item[0]):
        current = now.get(began.name)
        if current is not None and not _same(current, fold.last[began.name]):
            eager.insert(place, current)
        elif current is not None or began.name in fold.withdrawn:
            eager.insert(place, began)
    return tuple(eager)


def places_of(
    names: Iterable[str], offered: Sequence[ToolDefinition], parts: Iterable[Part]
) -> tuple[tuple[int, ToolDefinition], ...]:
    """Return the value of `ToolsChanged.was` for a change of these tools: those that were offered from the start."""
    wanted = set(names)
    return tuple(
        (place, tool)
        for place, tool in enumerate(_eager(offered, _folded(parts)))
        if tool.name in wanted
    )


def _changes(
    changing: Mapping[int, Message],
    found: Mapping[str, ToolDefinition],
    stale: frozenset[str],
    began: Mapping[str, ToolDefinition],
) -> dict[int, tuple[Change, ...]]:
    told = dict(began)
    callable_now = set(began)
    sent = {**began, **found}
    changes: dict[int, tuple[Change, ...]] = {}
    for position, message in changing.items():
        here: list[Change] = []
        result = ""
        for part in message.parts:
            if isinstance(part, ToolResult):
                result = part.call_id
            if isinstance(part, ToolsChanged):
                here.append(_change(part, result, sent, stale, told, callable_now))
        if any(change.added or change.redefined or change.removed for change in here):
            changes[position] = tuple(here)
    return changes


def _change(
    part: ToolsChanged,
    result: str,
    sent: Mapping[str, ToolDefinition],
    stale: frozenset[str],
    told: dict[str, ToolDefinition],
    callable_now: set[str],
) -> Change:
    """Return the change at one position, compared with earlier announcements; update `told` and `callable_now`."""
    removed = tuple(name for name in part.removed if name in callable_now)
    callable_now.difference_update(removed)
    new: list[ToolDefinition] = []
    added: list[ToolDefinition] = []
    redefined: list[ToolDefinition] = []
    for tool in part.added:
        if tool.name not in sent:
            continue
        if tool.name not in told:
            told[tool.name] = sent[tool.name]
            new.append(sent[tool.name])
        if tool.name not in stale and not _same(told[tool.name], tool):
            redefined.append(tool)
            told[tool.name] = tool
        if tool.name not in callable_now:
            added.append(sent[tool.name])
            callable_now.add(tool.name)
    return Change(result, tuple(new), tuple(added), tuple(redefined), removed)


def _same(one: ToolDefinition, other: ToolDefinition) -> bool:
    return (one.description, one.parameters) == (other.description, other.parameters)


def changes_in_words(
    plan: ToolPlan, messages: Sequence[Message]
) -> dict[int, tuple[Change, ...]]:
    """Return the changes to announce as text, by position; changes inside an answer are announced after it."""
    told: dict[int, tuple[Change, ...]] = {}
    for position, changes in plan.changes.items():
        following = range(position, len(messages))
        place = next(
            (place for place in following if messages[place].role != "assistant"), None
        )
        if place is not None:
            told[place] = (*told.get(place, ()), *changes)
    return told


def redefinition_notes(change: Change) -> list[str]:
    """Return notes about changed definitions, for models whose API has no other way to report them."""
    return [
        f"The tool {tool.name} changed; from now on it is: {as_text(tool)}"
        for tool in change.redefined
    ]


def as_text(tool: ToolDefinition) -> str:
    """Return a definition as JSON, so that a server's text in it cannot imitate mcpagent's own."""
    return json_text(
        {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        }
    )


def annotated(
    message: Message,
    changes: Sequence[Change],
    notes_of: Callable[[Change], Sequence[str]],
    *,
    inside: Collection[str] = SEARCH_NAMES,
) -> Message:
    """Return the message with each change's notes after the result that caused it, else at the end of the message.

    Notes are added inside a result only if its tool is in `inside`, whose results mcpagent writes: in other results,
    they would look like third-party text.
    """
    if not changes:
        return message
    notes: dict[str, list[Text]] = {}
    for change in changes:
        notes.setdefault(change.result, []).extend(
            Text(note) for note in notes_of(change)
        )
    if not any(notes.values()):
        return message
    parts: list[Part] = []
    for part in message.parts:
        own = []
        if isinstance(part, ToolResult):
            own = notes.pop(part.call_id, [])
        if own and isinstance(part, ToolResult) and part.name in inside:
            parts.append(replace(part, content=(*part.content, *own)))
        else:
            parts += [part, *own]
    return replace(
        message, parts=(*parts, *(note for rest in notes.values() for note in rest))
    )


def with_found(
    message: Message, request: ModelRequest, names_of: Callable[[Part], Sequence[str]]
) -> Message:
    """Return the message with tool changes for the provider's own searches, each directly after the search's result."""
    offered = {tool.name for tool in request.tools}
    deferred = {
        tool.name: tool for tool in request.deferred_tools if tool.name not in offered
    }
    parts: list[Part] = []
    for part in message.parts:
        parts.append(part)
        new = tuple(
            deferred.pop(name)
            for name in dict.fromkeys(names_of(part))
            if name in deferred
        )
        if new:
            parts.append(ToolsChanged(added=new))
    if len(parts) > len(message.parts):
        return replace(message, parts=tuple(parts))
    return message
