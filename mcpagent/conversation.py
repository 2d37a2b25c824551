"""The history of one conversation, and what it says about which tools the model has.

Discovery is a fold over the history: nothing else remembers it, so a saved, resumed or handed-over conversation
offers the same tools in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from mcpagent.messages import Image, Message, Part, Text, ToolCall, ToolResult, ToolsChanged, ToolsShown


@dataclass(frozen=True, slots=True)
class Discovery:
    """What a history says about tools, by offered name.

    `discovered` is in order of discovery; `shown` were described to the model with their call signature; `removed`
    were withdrawn and not added again.
    """

    discovered: tuple[str, ...] = ()
    shown: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()

    def after(self, part: Part) -> Discovery:
        """The fold's step."""
        match part:
            case ToolsShown(names=names):
                return replace(self, shown=self.shown | set(names))
            case ToolsChanged(added=added, removed=removed):
                kept = tuple(name for name in self.discovered if name not in removed)
                new = tuple(dict.fromkeys(tool.name for tool in added if tool.name not in kept))
                return Discovery(
                    kept + new, self.shown | set(new), (self.removed | set(removed)) - {tool.name for tool in added}
                )
            case _:
                return self


def fold_discovery(messages: Iterable[Message], start: Discovery | None = None) -> Discovery:
    """What the whole history says about tools."""
    parts = (part for message in messages for part in message.parts)
    return reduce(Discovery.after, parts, start or Discovery())


CANCELLED = "This call was cancelled before it ended; it may have run."


def closed(messages: Sequence[Message], why: str = CANCELLED) -> list[Message]:
    """The history with every open tool call answered, so that any provider accepts it. Idempotent.

    A call left open by a cancelled run gets an error result that says `why`, in call order, directly after the
    message that made it; results that answer no call are dropped.
    """
    fixed: list[Message] = []
    open_calls: dict[str, ToolCall] = {}
    for message in messages:
        if message.role == "tool":
            parts = tuple(
                part
                for part in message.parts
                if not isinstance(part, ToolResult) or open_calls.pop(part.call_id, None) is not None
            )
            if parts:
                fixed.append(replace(message, parts=parts) if parts != message.parts else message)
            continue
        if open_calls:
            _answer(fixed, open_calls, why)
        open_calls = {call.id: call for call in message.tool_calls}
        fixed.append(message)
    if open_calls:
        _answer(fixed, open_calls, why)
    return fixed


def _answer(fixed: list[Message], open_calls: dict[str, ToolCall], why: str) -> None:
    results = tuple(ToolResult(call.id, call.name, (Text(why),), error="cancelled") for call in open_calls.values())
    if fixed[-1].role == "tool":
        fixed[-1] = replace(fixed[-1], parts=(*fixed[-1].parts, *results))
    else:
        fixed.append(Message("tool", results))


def change_words(gone: Sequence[str], changed: Sequence[str]) -> str:
    """What to tell a model whose tools changed."""
    parts = [f"{what}: {', '.join(names)}" for what, names in (("gone", gone), ("changed", changed)) if names]
    return f"Your tools have changed; {'; '.join(parts)}." if parts else "Your tools have changed."


class Conversation:
    """One history. `system` is its system prompt, fixed when it starts since changing it would lose the cache.

    `note` makes a change visible to the calls of a batch that is still running; appending the batch's message makes
    it history. `keep_open` leaves calls without a result as they are, to be answered by `Agent.resume`.
    """

    def __init__(self, system: str = "", messages: Sequence[Message] = (), *, keep_open: bool = False) -> None:
        self.system = system
        self._messages: list[Message] = list(messages) if keep_open else closed(messages)
        self._folded = fold_discovery(self._messages)
        self._noted: list[Part] = []
        self._announced: list[Part] = []
        self._unanswered_prompt = False

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(self._messages)

    @property
    def parts(self) -> tuple[Part, ...]:
        """All there is in order, with what the running batch noted and what waits to be announced."""
        said = (part for message in self._messages for part in message.parts)
        return (*said, *self._noted, *self._announced)

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the last answer that have no result yet."""
        answered: set[str] = set()
        for message in reversed(self._messages):
            if message.role == "tool":
                answered.update(result.call_id for result in message.tool_results)
            else:
                return tuple(call for call in message.tool_calls if call.id not in answered)
        return ()

    @property
    def discovery(self) -> Discovery:
        """What the history and the running batch say about tools."""
        return reduce(Discovery.after, self._noted, self._folded)

    def say(self, prompt: str | Sequence[Text | Image]) -> None:
        """Appends the user's message, after closing what a cancelled run left open."""
        self._messages = closed(self._messages)
        self.deliver()
        self._append(Message("user", (Text(prompt),) if isinstance(prompt, str) else tuple(prompt)))
        self._unanswered_prompt = True

    def announce(self, text: str, change: ToolsChanged | None = None) -> None:
        """Keeps something the model should know about its tools until there is a place for it in the history."""
        self._announced.extend((Text(text), change) if change is not None else (Text(text),))

    def deliver(self) -> None:
        """Appends what was announced, before a prompt that was just said: so the next request holds it already.

        Only between a batch of results, or an answer, and the next message.
        """
        if self._announced:
            prompt = [self._messages.pop()] if self._unanswered_prompt else []
            self._append(Message("user", tuple(self._announced)))
            self._messages += prompt
            self._unanswered_prompt = bool(prompt)
            self._announced.clear()

    def append(self, message: Message) -> None:
        """Appends an assistant's message or the results of its calls."""
        self._append(message)
        if message.role == "tool":
            self._noted.clear()

    def note(self, parts: Iterable[Part]) -> None:
        self._noted.extend(parts)

    def close_open_calls(self, why: str = CANCELLED) -> None:
        """Answers every open call with an error, so that the history is valid as it stands."""
        self._noted.clear()
        self._messages = closed(self._messages, why)

    def _append(self, message: Message) -> None:
        self._unanswered_prompt = False
        self._messages.append(message)
        self._folded = fold_discovery((message,), self._folded)
