"""Compute the messages that a model receives: the whole history, or fewer after a compaction.

This is a pure function of the history, so a session that is resumed, forked or rewound sends the same messages as
before. Omitted messages may contain tool changes. So one `ToolsChanged` in the first sent message repeats them all, and
the request writers of every protocol find there where a tool was added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from mcpagent.prompt.builder import summary_words
from mcpagent.values.messages import (
    Compacted,
    Container,
    Message,
    Part,
    Pinned,
    Text,
    ToolDefinition,
    ToolResult,
    ToolsChanged,
    ToolsShown,
)


def compacted_in(message: Message) -> Compacted | None:
    """Return the last `Compacted` part of the message, or None."""
    found = None
    for part in message.parts:
        if isinstance(part, Compacted):
            found = part
    return found


def is_pinned(message: Message) -> bool:
    """Return whether the message is pinned: compaction never removes it."""
    return Pinned in map(type, message.parts)


@dataclass(frozen=True, slots=True)
class OmittedParts:
    """The parts of a history that the model does not receive.

    `cut`: messages before this index are omitted, except those at the indices in `stays`. `summary` replaces them; ""
    if there is no summary. `shortened` has the IDs of calls of whose results the model receives only the beginnings.
    """

    cut: int = 0
    stays: frozenset[int] = frozenset()
    shortened: frozenset[str] = frozenset()
    summary: str = ""

    @property
    def messages(self) -> int:
        """Number of omitted messages."""
        return self.cut - len(self.stays)

    def has(self, place: int) -> bool:
        """Return whether the message at this index is omitted."""
        return place < self.cut and place not in self.stays


def cut_at(
    messages: Sequence[Message], place: int, part: Compacted
) -> tuple[int, frozenset[int]]:
    """Return the index before which `part`, in the message at `place`, omits messages, and earlier indices that stay.

    A call and its results always stay together.
    """
    cut = min(max(place - part.kept, 0), place)
    while 0 < cut < place and messages[cut].role == "tool":
        cut -= 1
    stays: set[int] = set()
    for at in (place - back for back in part.pinned if 0 <= place - back < cut):
        stays |= whole_step(messages, at, cut)
    return cut, frozenset(stays)


def whole_step(messages: Sequence[Message], at: int, end: int) -> set[int]:
    """Return the index `at` and those of the calls and results that belong to the same step, before `end`."""
    first = at
    while first > 0 and messages[first].role == "tool":
        first -= 1
    last = first + 1
    while last < end and messages[last].role == "tool":
        last += 1
    return set(range(first, last))


def not_sent(messages: Sequence[Message]) -> OmittedParts:
    """Return the messages and results that the last `Compacted` part omits."""
    for place in range(len(messages) - 1, -1, -1):
        if (part := compacted_in(messages[place])) is not None:
            if part.leaves_out:
                cut, stays = cut_at(messages, place, part)
            else:
                cut, stays = 0, frozenset[int]()
            return OmittedParts(
                cut,
                stays,
                frozenset(result.call_id for result in part.shortened),
                part.summary,
            )
    return OmittedParts()


def front(
    messages: Sequence[Message], place: int, part: Compacted
) -> tuple[Message, ...]:
    """Return the messages to send for the history up to and including `place`, whose message contains `part`."""
    cut, stays = cut_at(messages, place, part)
    short = {result.call_id: result for result in part.shortened}
    before = [_plain(messages[at]) for at in sorted(stays)]
    kept = [
        _shown(message, short) for message in (*before, *islice(messages, cut, place))
    ]
    behind = [message for message in kept if message.parts]
    if part.unmoved:
        unmoved = sum(
            bool(message.parts) for message in kept[len(kept) - part.unmoved :]
        )
    else:
        unmoved = 0
    rest = _shown(messages[place], {})
    dropped = [messages[at] for at in range(cut)]
    head = _head(part, dropped, len(behind) - unmoved)
    return (head, *behind, *([rest] if rest.parts else []))


def _head(part: Compacted, dropped: Sequence[Message], moved: int) -> Message:
    parts: list[Part] = [Compacted(moved)]
    tools = tools_after(dropped)
    if tools != ToolsChanged():
        parts.append(tools)
    if part.leaves_out:
        parts.append(Text(summary_words(part.summary)))
    where = next(
        (
            message
            for message in reversed(dropped)
            if Container in map(type, message.parts)
        ),
        None,
    )
    if where is not None:
        parts += [one for one in where.parts if isinstance(one, Container)]
    return Message("user", tuple(parts), where.origin if where is not None else None)


def moved(messages: Sequence[Message]) -> int:
    """Return how many sent messages after the first were written after another first message.

    The first message is replaced at each compaction.
    """
    found = None
    if messages:
        found = compacted_in(messages[0])
    if found is not None:
        return found.kept
    return 0


def _plain(message: Message) -> Message:
    """Return the message without its `ToolsChanged` and `ToolsShown` parts, which the first sent message repeats."""
    parts = tuple(
        part
        for part in message.parts
        if not isinstance(part, ToolsChanged | ToolsShown)
    )
    if len(parts) == len(message.parts):
        return message
    return replace(message, parts=parts)


def _shown(message: Message, short: dict[str, ToolResult]) -> Message:
    """Return the message as it is sent: with shortened results, and without `Compacted` parts."""
    changed = False
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, Compacted):
            changed = True
        elif isinstance(part, ToolResult) and part.call_id in short:
            changed = True
            parts.append(short[part.call_id])
        else:
            parts.append(part)
    if changed and all(
        isinstance(part, Pinned) for part in parts
    ):  # a pinned message without other parts
        parts = []
    if changed:
        return replace(message, parts=tuple(parts))
    return message


def tools_after(messages: Iterable[Message]) -> ToolsChanged:
    """Combine the tool changes of these messages into one change, with the latest definition of each tool.

    For tools that were offered from the start and then changed or removed, it records their original position and
    definition. Tools that the provider itself could search stay searchable.
    """
    was: dict[str, tuple[int, ToolDefinition]] = {}
    now: dict[str, ToolDefinition] = {}
    gone: dict[str, None] = {}
    for message in messages:
        for part in message.parts:
            if not isinstance(part, ToolsChanged):
                continue
            for place, tool in part.was:
                was.setdefault(tool.name, (place, tool))
            for name in part.removed:
                now.pop(name, None)
                gone[name] = None
            for tool in part.added:
                now[tool.name] = tool
                gone.pop(tool.name, None)
    removed = tuple(name for name in gone if name in was)
    return ToolsChanged(tuple(now.values()), removed, tuple(was.values()))
