"""The history of one conversation, and the tools that the model has according to it.

The discovered tools are computed from the history and stored nowhere else. So a conversation that is saved, resumed or
passed on offers the same tools in the same order.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import itemgetter
from os import PathLike
from typing import Any, TypeAlias, overload

from mcpagent.errors import InputError
from mcpagent.history.sent_messages import compacted_in, front, is_pinned
from mcpagent.history.token_estimates import message_tokens
from mcpagent.utilities.python.argument_checks import expect, expect_fields
from mcpagent.utilities.text.secrets import REDACTED
from mcpagent.values.messages import (
    BinaryBlock,
    Compacted,
    Content,
    File,
    FilePart,
    Message,
    Part,
    Pinned,
    Step,
    Text,
    ToolCall,
    ToolKey,
    ToolResult,
    ToolsChanged,
    ToolsShown,
    texts_for_model,
)


@dataclass(frozen=True, slots=True)
class Discovery:
    """The tools that a history mentions, by the names under which they were offered.

    `keys` maps each name to the identity of its tool, so that another tool of the same name does not match.
    `discovered` is in order of discovery. `shown` were described to the model with their signatures. `removed` were
    removed and not added again; `lost` are those among them that were no longer available.
    """

    discovered: tuple[str, ...] = ()
    shown: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    keys: Mapping[str, ToolKey] = field(default_factory=dict[str, ToolKey])


def fold_discovery(
    messages: Iterable[Message], start: Discovery | None = None
) -> Discovery:
    """Return the tools that all messages together mention, in addition to those of `start`."""
    return _folded(
        (part for message in messages for part in message.parts), start or Discovery()
    )


def _folded(parts: Iterable[Part], before: Discovery) -> Discovery:
    """Apply the tool changes in `parts` to `before` and return the result; without changes, return `before`."""
    telling = [
        part
        for part in parts
        if isinstance(part, ToolsShown | ToolsChanged | Compacted)
    ]
    if not telling:
        return before
    discovered, keys = dict.fromkeys(before.discovered), dict(before.keys)
    shown, removed, lost = set(before.shown), set(before.removed), set(before.lost)
    for part in telling:
        if isinstance(
            part, Compacted
        ):  # a compaction removes discovered tools that were not called, if there are too many
            discovered.update(
                (name, discovered.pop(name)) for name in part.used if name in discovered
            )
            continue
        if isinstance(part, ToolsShown):
            shown.update(part.tools)
            keys = part.tools | keys
            continue
        added = part.tools
        for name in part.removed:
            discovered.pop(name, None)
        discovered.update(dict.fromkeys(added))
        shown.update(added)
        removed.update(part.removed)
        lost.difference_update(part.removed)
        lost.update(part.lost)
        for gone in (removed, lost):
            gone.difference_update(added)
        keys = {tool.name: tool.key for _, tool in part.was} | keys | added
    return Discovery(
        tuple(discovered), frozenset(shown), frozenset(removed), frozenset(lost), keys
    )


INNER = "#"
"""Separator in the ID of a call that a program makes: the ID of the program's call, this sign, and a number."""

MAX_PROMPT_CHARACTERS = 10_000_000

CANCELLED = "This call was cancelled before it ended; it may have run."

UNKNOWN = "The process that made this call ended before it had an answer. Its outcome is unknown: it may have run."

NOT_KEPT = "This call was not run: its arguments hold a secret, which was not written down. Make it again if need be."


@dataclass(frozen=True, slots=True)
class CallProgress:
    """The progress of an open call: it was sent, and may have `parts` (its result, and tool changes).

    `is_repeatable`: the call may be sent again without harm. `blocks` are the files of the result of a program's call.
    `times_sent`: how often it was sent; without a result, the process died each time. `cause` is a digest of its tool
    and arguments: a result belongs only to a call with the same digest. `shown` names a program's call for the model.
    """

    is_repeatable: bool = False
    parts: tuple[Part, ...] = ()
    blocks: tuple[BinaryBlock, ...] = ()
    times_sent: int = 0
    cause: str = ""
    shown: str = ""

    @property
    def is_unknown(self) -> bool:
        """Return whether nobody knows if the call has run, and it must not run twice."""
        return not self.parts and not self.is_repeatable


def call_digest(key: ToolKey | None, arguments: Any) -> str:
    """Return a digest of a call's tool and arguments. A stored result belongs only to a call with the same digest."""
    text = json.dumps([key, arguments], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def closed(messages: Sequence[Message], why: str = CANCELLED) -> list[Message]:
    """Return the history with a result for every open tool call, so that any provider accepts it. Idempotent.

    A call left open by a cancelled run gets an error result with `why`. Results are in call order, in one message
    directly after the message with the calls. Results without a call are dropped.
    """
    fixed = in_order(messages)
    _add_results(fixed, _missing(_open_calls(fixed), why))
    return fixed


def in_order(messages: Sequence[Message]) -> list[Message]:
    """Return the messages like `closed`, but leave the open calls of the last answer without results."""
    fixed: list[Message] = []
    for message in messages:
        calls = _open_calls(fixed)
        if message.role == "tool":
            _add_results(
                fixed, replace(message, parts=_answering(calls, message.parts))
            )
        else:
            if calls:
                _add_results(fixed, _missing(calls, CANCELLED))
            fixed.append(message)
    return fixed


def _answering(calls: Sequence[ToolCall], parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return the parts without superfluous results: those of other calls, and a second result of the same call."""
    waiting = {call.id for call in calls}
    kept: list[Part] = []
    for part in parts:
        if isinstance(part, ToolResult):
            if part.call_id not in waiting:
                continue
            waiting.remove(part.call_id)
        kept.append(part)
    return tuple(kept)


def _open_calls(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Return the calls of the last answer that have no result yet."""
    answered: set[str] = set()
    for message in reversed(messages):
        if message.role != "tool":
            return tuple(call for call in message.tool_calls if call.id not in answered)
        answered.update(result.call_id for result in message.tool_results)
    return ()


def _missing(calls: Sequence[ToolCall], why: str) -> Message:
    return Message("tool", tuple(not_run(call, why) for call in calls))


def _add_results(messages: list[Message], results: Message) -> None:
    """Append the results, or add them to the existing results of the same message, in call order."""
    if not results.parts:
        return
    if messages and messages[-1].role == "tool":
        earlier = messages.pop()
    else:
        earlier = replace(results, parts=())
    calls = messages[-1].tool_calls if messages else ()
    messages.append(
        replace(earlier, parts=_by_call(calls, (*earlier.parts, *results.parts)))
    )


def _by_call(calls: Sequence[ToolCall], parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return the results in the order of their calls, each followed by its changes of tools."""
    places = {call.id: place for place, call in enumerate(calls)}
    groups: list[tuple[int, list[Part]]] = [(-1, [])]
    for part in parts:
        if isinstance(part, ToolResult):
            groups.append((places.get(part.call_id, len(places)), []))
        groups[-1][1].append(part)
    return tuple(
        part for _, group in sorted(groups, key=itemgetter(0)) for part in group
    )


def not_run(call: ToolCall, why: str) -> ToolResult:
    """Return the result for a call that did not run, with the reason `why`."""
    return ToolResult(call.id, call.name, (Text(why),), error="cancelled")


def change_words(gone: Sequence[str], changed: Sequence[str]) -> str:
    """Return the text that reports removed and changed tools to the model."""
    parts = [
        f"{what}: {', '.join(names)}"
        for what, names in (("gone", gone), ("changed", changed))
        if names
    ]
    if parts:
        return f"Your tools have changed; {'; '.join(parts)}."
    return "Your tools have changed."


class Messages(Sequence[Message]):
    """A view of the first messages of an append-only list: a snapshot of a conversation without a copy."""

    __slots__ = ("_all", "_length")
    __hash__ = None  # type: ignore[assignment]  # as that of a list

    def __init__(self, messages: list[Message]) -> None:
        self._all, self._length = messages, len(messages)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> Message: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, place: int | slice) -> Message | tuple[Message, ...]:
        found = range(self._length)[place]
        if isinstance(found, int):
            return self._all[found]
        return tuple(self._all[at] for at in found)

    def __iter__(self) -> Iterator[Message]:
        return islice(self._all, self._length)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Messages | tuple | list) and tuple(self) == tuple(
            other
        )

    def __repr__(self) -> str:
        return repr(tuple(self))


class Conversation:
    """A history. `system` is its system prompt, fixed from the start, since a change would invalidate the provider's
    cache.

    `note` makes a tool change visible to the other calls of a running batch, before the batch's message is appended.
    Calls of the last message that have no result stay open for `Session.resume`, until the next prompt.
    """

    def __init__(self, system: str = "", messages: Sequence[Message] = ()) -> None:
        self.system = system
        # A `Messages` view holds this list and a length, so the list is only appended to, or replaced by another list.
        self._messages = in_order(messages)
        self._telling = [
            place for place, message in enumerate(self._messages) if _tells(message)
        ]
        self._folded = self._fold()
        self._compactions = [
            place for place in self._telling if compacted_in(self._messages[place])
        ]
        self._tokens: list[int] = []
        """Running totals: the estimated tokens of all messages up to each one."""
        self._fronts: dict[int, tuple[tuple[Message, ...], int]] = {}
        self._noted: list[Part] = []
        self._announced: list[Part] = []
        self._unanswered_prompt = False
        self._progress: dict[str, CallProgress] = {}
        self._progress_log: list[str] = []
        """The IDs of calls whose progress changed, in order, for the journal."""
        self._steps: list[Step] = []
        self._written = 0
        self.windows: dict[str, int] = {}
        """Model name -> the tokens of its window, if a refused request has shown them."""

    def first(self, length: int | None = None) -> Conversation:
        """Return a separate conversation of the first `length` messages; None: all, with pending announcements.

        `length` must not separate calls from their results. The cost does not depend on the number of messages.
        """
        other = Conversation(self.system)
        other._messages = self._messages[:length]
        other._telling = self._telling[
            : bisect_left(self._telling, len(other._messages))
        ]
        if len(other._telling) == len(self._telling):
            other._folded = self._folded
        else:
            other._folded = other._fold()
        other._written = min(self._written, len(other._messages))
        other._tokens = self._tokens[: len(other._messages)]
        other._compactions = self._compactions[
            : bisect_left(self._compactions, len(other._messages))
        ]
        other._steps = [
            step for step in self._steps if step.place < len(other._messages)
        ]
        other.windows = {**self.windows}
        if length is None:
            other._announced, other._unanswered_prompt = (
                [*self._announced],
                self._unanswered_prompt,
            )
            other._progress = {**self._progress}
        return other

    @property
    def messages(self) -> Messages:
        """The history so far; the returned value does not change when the conversation continues."""
        return Messages(self._messages)

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def last(self) -> Message | None:
        """The last message, or None."""
        if self._messages:
            return self._messages[-1]
        return None

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts in order, including those of the running batch and pending announcements."""
        said = (part for message in self._messages for part in message.parts)
        return (*said, *self._noted, *self._announced)

    # -- Messages to send ----------------------------------------------------------------------------------------------

    @property
    def sent(self) -> Sequence[Message]:
        """The messages that a model receives: all, or fewer after a compaction."""
        place = self._compacted_before(len(self._messages))
        if place is None:
            return self.messages
        return *self._front(place)[0], *self._messages[place + 1 :]

    def sent_tokens(self, length: int | None = None) -> int:
        """Return the estimated tokens that a request contained after `length` messages; None: that it contains now."""
        if length is None:
            length = len(self._messages)
        if not length:
            return 0
        for message in islice(self._messages, len(self._tokens), length):
            self._tokens.append(
                message_tokens(message) + (self._tokens[-1] if self._tokens else 0)
            )
        whole, place = self._tokens[length - 1], self._compacted_before(length)
        if place is None:
            return whole
        return self._front(place)[1] + whole - self._tokens[place]

    @property
    def compacted_at(self) -> int | None:
        """The index of the message with the last compaction, or None."""
        if self._compactions:
            return self._compactions[-1]
        return None

    @property
    def is_just_compacted(self) -> bool:
        """True if no message has been added since the last compaction, except an unanswered prompt."""
        last = len(self._messages) - 1 - self._unanswered_prompt
        return (
            any(isinstance(part, Compacted) for part in self._announced)
            or self.compacted_at == last
        )

    def _compacted_before(self, length: int) -> int | None:
        found = bisect_left(self._compactions, length)
        if found:
            return self._compactions[found - 1]
        return None

    def _front(self, place: int) -> tuple[tuple[Message, ...], int]:
        """Return the sent messages for the history up to the compaction at `place`, and their estimated tokens."""
        if (known := self._fronts.get(place)) is None:
            part = compacted_in(self._messages[place])
            assert part is not None
            messages = front(self._messages, place, part)
            known = self._fronts[place] = (messages, sum(map(message_tokens, messages)))
        return known

    def compact(self, part: Compacted) -> None:
        """Queue a compaction until `deliver` appends it to the history. It replaces a queued one.

        `part.kept` counts from the end of the current messages, without an unanswered prompt.
        """
        self._announced = [
            *(one for one in self._announced if not isinstance(one, Compacted)),
            part,
        ]

    @property
    def steps(self) -> Sequence[Step]:
        """The tokens, cost and time of each answer, in order; only for answers made or stored by mcpagent."""
        return self._steps

    def note_step(self, step: Step) -> None:
        """Store the usage of the last answer. Steps with the same offered names share one tuple."""
        before = self._steps[-1].offered if self._steps else ()
        self._steps.append(
            replace(step, offered=before) if step.offered == before else step
        )

    # -- Progress and position, for the journal ------------------------------------------------------------------------

    @property
    def written(self) -> int:
        """Return how many of the first messages have not changed since `is_written` was called."""
        return self._written

    def is_written(self) -> None:
        """Note that the journal has written all current messages."""
        self._written = len(self._messages)

    @property
    def announced(self) -> tuple[Part, ...]:
        """The queued parts that are not yet in the history; `deliver` appends them."""
        return tuple(self._announced)

    @property
    def has_unanswered_prompt(self) -> bool:
        """Return whether the last message is a prompt without an answer."""
        return self._unanswered_prompt

    @property
    def progress(self) -> Mapping[str, CallProgress]:
        """The journaled progress of open calls that were sent, by call ID."""
        return self._progress

    def note_progress(self, call_id: str, progress: CallProgress) -> None:
        """Store the progress of an open call."""
        self._progress[call_id] = progress
        self._progress_log.append(call_id)

    @property
    def progress_log(self) -> Sequence[str]:
        """The IDs of calls whose progress changed or was removed, in order. The list only grows."""
        return self._progress_log

    def restore(
        self,
        progress: Mapping[str, CallProgress],
        announced: Sequence[Part],
        steps: Sequence[Step] = (),
        *,
        unanswered_prompt: bool,
        offered: Mapping[str, ToolKey],
    ) -> None:
        """Continue where another process ended: add known results to their calls; the outcome of other sent calls is
        unknown.

        A result belongs only to a call of the same tool with the same arguments. `offered` has the keys of the tools
        that were offered from the start, by name. A call that was not sent runs later, unless its arguments are lost.
        """
        self._announced, self._steps = [*announced], [*steps]
        self._unanswered_prompt = unanswered_prompt and not self.open_calls
        calls = {call.id: call for call in self.open_calls}
        for call_id, known in progress.items():
            if call_id in calls or call_id.rpartition(INNER)[0] in calls:
                self.note_progress(call_id, known)
        results: list[Part] = []
        keys = {**offered, **self.discovery.keys}
        for call_id, known in progress.items():
            if (call := calls.get(call_id)) is None:
                continue
            is_same = _is_same(call, known, keys)
            if known.parts and is_same:
                results += known.parts
            elif known.is_unknown or not is_same:
                results.append(not_run(call, UNKNOWN))
        known_results = {
            part.call_id for part in results if isinstance(part, ToolResult)
        }
        results += [
            not_run(call, NOT_KEPT)
            for call_id, call in calls.items()
            if call_id not in known_results and is_cut(call)
        ]
        if results:
            self.append(Message("tool", tuple(results)))

    @property
    def place(self) -> int:
        """The number of messages without the "tool" messages at the end: the position of the open calls."""
        behind = 0
        while (
            behind < len(self._messages) and self._messages[-1 - behind].role == "tool"
        ):
            behind += 1
        return len(self._messages) - behind

    def times_sent(self, call_id: str) -> int:
        """Return how often an open call was sent without a result, because the process died each time."""
        known = self._progress.get(call_id)
        if known is not None:
            return known.times_sent
        return 0

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the last answer that have no result yet."""
        return _open_calls(self._messages)

    @property
    def discovery(self) -> Discovery:
        """The tools that the history mentions, including changes by the running batch and queued changes."""
        if not self._noted and not self._announced:
            return self._folded
        return _folded((*self._noted, *self._announced), self._folded)

    @property
    def answered_prompt(self) -> str:
        """The text of the last prompt that has an answer, or "".

        A user message after results is not a prompt.
        """
        roles = ("tool", *(message.role for message in self._messages))
        for place in range(len(self._messages) - 1, 0, -1):
            if roles[place : place + 2] == ("user", "assistant") and (
                place == 1 or roles[place - 1] != "tool"
            ):
                return self._messages[place - 1].text
        return ""

    def say(self, prompt: str | Sequence[Content]) -> None:
        """Append the user's message, after closing calls that a cancelled run left open."""
        self.close_open_calls()
        self.deliver()
        self._append(
            Message(
                "user", (Text(prompt),) if isinstance(prompt, str) else tuple(prompt)
            )
        )
        self._unanswered_prompt = True

    def take_back_prompt(self) -> bool:
        """Remove the user's last message if it has no answer yet; return whether there was one."""
        was_there, self._unanswered_prompt = self._unanswered_prompt, False
        if was_there:
            self._messages = self._messages[:-1]
            self._changed_from(len(self._messages))
        return was_there

    def pin(self, place: int) -> bool:
        """Pin the message at this index, so that compaction keeps it; return False if there is no message."""
        if not 0 <= place < len(self._messages):
            return False
        message = self._messages[place]
        if not is_pinned(message):
            pinned = replace(message, parts=(*message.parts, Pinned()))
            self._messages = [
                *self._messages[:place],
                pinned,
                *self._messages[place + 1 :],
            ]
            compactions = [*self._compactions]  # pinning does not change them
            self._changed_from(place)
            self._compactions = compactions
        return True

    def announce(
        self, text: str, change: ToolsChanged | ToolsShown | None = None
    ) -> None:
        """Queue a note for the model about its tools; `deliver` adds it to the history."""
        self._announced.extend(
            (Text(text), change) if change is not None else (Text(text),)
        )

    def deliver(self) -> None:
        """Append the queued notes, before a new prompt, so that the next request contains them.

        Call it only between a batch of results, or an answer, and the next message.
        """
        if self._announced:
            prompt = []
            if self._unanswered_prompt:
                prompt = self._messages[-1:]
            if prompt:
                self._messages = self._messages[:-1]
                self._changed_from(len(self._messages))
            self._append(Message("user", tuple(self._announced)))
            self._messages += prompt
            self._unanswered_prompt = bool(prompt)
            self._announced.clear()

    def append(self, message: Message) -> None:
        """Append an assistant's message, or tool results. Results are merged with existing results of the same calls'
        message, in call order.
        """
        if message.role != "tool":
            self._append(message)
        elif self._messages and self._messages[-1].role == "tool":
            self._messages = list(self._messages)
            self._changed_from(len(self._messages) - 1)
            _add_results(self._messages, message)
            self._fold_last()
        else:
            self._append(
                replace(message, parts=_by_call(self.open_calls, message.parts))
            )
        if message.role == "tool":
            self._noted.clear()
            if self._progress:
                answered = {result.call_id for result in message.tool_results}
                for call_id in [*self._progress]:
                    if call_id in answered or call_id.rpartition(INNER)[0] in answered:
                        del self._progress[call_id]
                        self._progress_log.append(call_id)

    def note(self, parts: Iterable[Part]) -> None:
        """Make tool changes visible to the other calls of the running batch."""
        self._noted.extend(parts)

    def close_open_calls(self, why: str = CANCELLED) -> None:
        """Add an error result with the text `why` to every open call, so that the history is valid."""
        self._noted.clear()
        if calls := self.open_calls:
            self.append(_missing(calls, why))

    def _changed_from(self, place: int) -> None:
        """Discard values computed from the messages after this index."""
        self._written = min(self._written, place)
        del self._tokens[place:]
        del self._compactions[bisect_left(self._compactions, place) :]
        self._fronts = {at: known for at, known in self._fronts.items() if at < place}

    def _append(self, message: Message) -> None:
        self._unanswered_prompt = False
        self._messages.append(message)
        self._fold_last()

    def _fold(self) -> Discovery:
        return fold_discovery(self._messages[place] for place in self._telling)

    def _fold_last(self) -> None:
        """Apply the tool changes of the last message, which may have replaced an earlier version of it."""
        place = len(self._messages) - 1
        if self._telling[-1:] == [place]:
            self._telling.pop()
            self._folded = self._fold()
        if _tells(self._messages[place]):
            self._telling.append(place)
            if compacted_in(self._messages[place]):
                self._compactions.append(place)
            self._folded = fold_discovery((self._messages[place],), self._folded)


def _is_same(call: ToolCall, known: CallProgress, keys: Mapping[str, ToolKey]) -> bool:
    """Return whether the stored progress belongs to this call; True if the history does not know the tool's
    identity.
    """
    return call.name not in keys or known.cause in (
        "",
        call_digest(keys[call.name], call.arguments),
    )


def is_cut(call: ToolCall) -> bool:
    """Return whether the stored arguments of the call lack a secret that was redacted."""
    return REDACTED in json.dumps(call.arguments)


def _tells(message: Message) -> bool:
    """Return whether the message has tool changes or a compaction."""
    for part in message.parts:
        if isinstance(part, ToolsShown | ToolsChanged | Compacted):
            return True
    return False


# -- Validation of prompts and histories -------------------------------------------------------------------------------

Words: TypeAlias = tuple[Content | File, ...]
"""The parts of a prompt: text, content and files."""


def usable_prompt(prompt: object) -> Words:
    """Return the parts of a prompt. Raises `InputError` if it is empty, too long, or not a prompt."""
    parts: tuple[Any, ...] = (
        (Text(prompt),) if isinstance(prompt, str) else _parts(prompt)
    )
    words = [part.text for part in parts if isinstance(part, Text)]
    if len(words) == len(parts) and not "".join(words).strip():
        raise InputError("prompt is empty; say what you want to know")
    if (length := sum(map(len, words))) > MAX_PROMPT_CHARACTERS:
        raise InputError(
            f"prompt is {length:,} characters; the limit is {MAX_PROMPT_CHARACTERS:,}"
        )
    sendable: Words = ()
    for part in parts:
        sendable += (Text(_sendable(part.text)) if isinstance(part, Text) else part,)
    return sendable


def usable_history(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with texts cleaned like a prompt's; a text that cannot be sent would fail every later
    request.

    Raises `InputError` if a message has a field of the wrong type.
    """
    for place, message in enumerate(messages):
        expect_fields(message, f"messages[{place}]", InputError)
        for number, part in enumerate(message.parts):
            expect_fields(part, f"messages[{place}].parts[{number}]", InputError)
    return [
        message
        if (parts := _sendable_parts(message.parts)) == message.parts
        else replace(message, parts=parts)
        for message in messages
    ]


def _sendable_parts(parts: Sequence[Any]) -> tuple[Any, ...]:
    def sendable(part: Any) -> Any:
        match part:
            case Text(text=text):
                if text == (clean := _sendable(text)):
                    return part
                return replace(part, text=clean)
            case ToolResult(content=content):
                usable = texts_for_model(_sendable_parts(content))
                if usable == content:
                    return part
                return replace(part, content=usable)
            case _:
                return part

    return tuple(map(sendable, parts))


def _parts(prompt: object) -> tuple[Any, ...]:
    if not isinstance(prompt, Sequence) or isinstance(prompt, bytes):
        raise InputError(
            f"prompt: expected text, or a list of texts and files, got {type(prompt).__name__}"
        )
    parts: list[Any] = []
    for part in prompt:
        if isinstance(part, str):
            part = Text(part)
        if not isinstance(part, Text | File | FilePart):
            raise InputError(
                f"prompt: expected a list of texts and files, got {type(part).__name__} in it"
            )
        _expect_texts(part)
        parts.append(part)
    return tuple(parts)


_FIELDS = {
    "media_type": 'a media type such as "image/png"',
    "data": "its bytes as text in Base64",
}
_OPTIONAL_FIELDS = {"provider_data", "citations", "type"}


def _expect_texts(part: Text | File | FilePart) -> None:
    """Raise `InputError` if a field of a part is not text."""
    kind = type(part).__name__
    if isinstance(part, File):
        expect(
            "prompt: File",
            part.path,
            (str, PathLike),
            "the path of a file",
            error=InputError,
        )
        return
    for name in part.__dataclass_fields__:
        if name not in _OPTIONAL_FIELDS:
            expect(
                f"prompt: {kind}",
                getattr(part, name),
                str,
                _FIELDS.get(name, "text"),
                error=InputError,
            )


def _sendable(text: str) -> str:
    # NUL and lone surrogates cannot be sent to any provider.
    if text.isascii() and "\0" not in text:
        return text
    return (
        text.replace("\0", "\N{REPLACEMENT CHARACTER}")
        .encode("utf-8", "replace")
        .decode("utf-8")
    )
