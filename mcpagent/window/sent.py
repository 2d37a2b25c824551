"""What of a history a model is sent: all of it, or, since it was compacted, what the last `Compacted` says.

A pure function of the history, so a session that is resumed, forked or rewound sends what it sent at that point. What
tools were discovered stands in messages that may not be sent any more: one `ToolsChanged` at the head tells all of it,
so that the writers of all protocols, which look up where a tool was added, find it there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from mcpagent.messages import (
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
from mcpagent.prompt.builder import summary_words


def compacted_in(message: Message) -> Compacted | None:
    """What the message says of this, if it does."""
    found = None
    for part in message.parts:
        if isinstance(part, Compacted):
            found = part
    return found


def is_pinned(message: Message) -> bool:
    """Whether it stays whatever becomes of those around it."""
    return Pinned in map(type, message.parts)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What of a history a model is not sent: the messages before `cut`, but for those at `stays`, of which `summary`
    tells, "" if nothing does; and of the results of these calls all but their beginnings."""

    cut: int = 0
    stays: frozenset[int] = frozenset()
    shortened: frozenset[str] = frozenset()
    summary: str = ""

    @property
    def messages(self) -> int:
        """How many."""
        return self.cut - len(self.stays)

    def has(self, place: int) -> bool:
        """Whether the message at this place is among them."""
        return place < self.cut and place not in self.stays


def cut_at(messages: Sequence[Message], place: int, part: Compacted) -> tuple[int, frozenset[int]]:
    """Where the part at `place` cuts, and what stays before that: whole steps, whatever a history says."""
    cut = min(max(place - part.kept, 0), place)
    while 0 < cut < place and messages[cut].role == "tool":
        cut -= 1
    stays: set[int] = set()
    for at in (place - back for back in part.pinned if 0 <= place - back < cut):
        stays |= whole_step(messages, at, cut)
    return cut, frozenset(stays)


def whole_step(messages: Sequence[Message], at: int, end: int) -> set[int]:
    """The place with those of the calls and results that belong to it, before the end."""
    first = at
    while first > 0 and messages[first].role == "tool":
        first -= 1
    last = first + 1
    while last < end and messages[last].role == "tool":
        last += 1
    return set(range(first, last))


def not_sent(messages: Sequence[Message]) -> LeftOut:
    """By the last `Compacted` in them."""
    for place in range(len(messages) - 1, -1, -1):
        if (part := compacted_in(messages[place])) is not None:
            cut, stays = cut_at(messages, place, part) if part.leaves_out else (0, frozenset[int]())
            return LeftOut(cut, stays, frozenset(result.call_id for result in part.shortened), part.summary)
    return LeftOut()


def front(messages: Sequence[Message], place: int, part: Compacted) -> tuple[Message, ...]:
    """What is sent of the messages up to the one at `place`, in which the part stands, and which is included."""
    cut, stays = cut_at(messages, place, part)
    short = {result.call_id: result for result in part.shortened}
    before = [_plain(messages[at]) for at in sorted(stays)]
    kept = [_shown(message, short) for message in (*before, *islice(messages, cut, place))]
    behind = [message for message in kept if message.parts]
    unmoved = sum(bool(message.parts) for message in kept[len(kept) - part.unmoved :]) if part.unmoved else 0
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
    where = next((message for message in reversed(dropped) if Container in map(type, message.parts)), None)
    if where is not None:
        parts += [one for one in where.parts if isinstance(one, Container)]
    return Message("user", tuple(parts), where.origin if where is not None else None)


def moved(messages: Sequence[Message]) -> int:
    """How many of these, which are sent, from the second on were written after another beginning."""
    found = compacted_in(messages[0]) if messages else None
    return found.kept if found is not None else 0


def _plain(message: Message) -> Message:
    """Without what it says of tools, which the head has already."""
    parts = tuple(part for part in message.parts if not isinstance(part, ToolsChanged | ToolsShown))
    return message if len(parts) == len(message.parts) else replace(message, parts=parts)


def _shown(message: Message, short: dict[str, ToolResult]) -> Message:
    """As it is sent: results that were shortened, and nothing of what was said of compacting."""
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
    if changed and all(isinstance(part, Pinned) for part in parts):  # somebody pinned what said nothing else
        parts = []
    return replace(message, parts=tuple(parts)) if changed else message


def tools_after(messages: Iterable[Message]) -> ToolsChanged:
    """What these messages together did to the tools, as one change: what is left of it, each definition as it is now.

    Of tools that were offered from the start, and changed or went, it tells where they stood and what they were. What a
    provider could search by itself it still can.
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
