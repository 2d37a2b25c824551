"""Detect calls without progress: repetitions of the same calls, and a tool that keeps failing in the same way."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any

from mcpagent.values.messages import Message, Text, ToolCall, ToolResult

REPEATS_TOLD = 5
"""A series of calls that came this many times with the same arguments and results: the model is warned, and a further
repetition does not run.
"""

REPEATS_TOLD_SMALL = 2
"""The limit for small models, which rarely stop repeating by themselves."""

LONGEST_ROW = 8
"""Maximum number of different calls in a series that counts as a repetition."""

PATIENCE = 2
"""Factor on the count if results are only similar. Also the factor for a failing tool before its calls are no longer
run.
"""

_UNREAD = frozenset({"binary", "images"})
"""Kinds of offloaded results whose preview contains no text from the result."""

_ENDS = 5_000
"""Number of characters at each end of a result that are compared."""

_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)
_WORD = re.compile(r"[0-9A-Za-z]+")
_OF_TIME = frozenset(
    "mon tue tues wed thu thurs fri sat sun monday tuesday wednesday thursday friday saturday sunday "  # noqa: SIM905
    "jan feb mar apr may jun jul aug sep sept oct nov dec january february march april june july august september "
    "october november december am pm".split()
)
_PARTS_OF_ONE = re.compile(r"#(?:[\s.,:/+_-]*#)+")
_NAMED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\S*[/\\]\S*")


def skeleton(text: str) -> str:
    """Return the constant part of a text: dates, times, numbers and IDs become "#"."""
    if len(text) <= 2 * _ENDS:
        ends = text
    else:
        ends = f"{text[:_ENDS]} … {text[-_ENDS:]}"
    return _PARTS_OF_ONE.sub("#", _WORD.sub(_if_it_stays, _UUID.sub("#", ends)))


def _if_it_stays(word: re.Match[str]) -> str:
    """Return the word unchanged, or "#" for a word about time or with a digit (number, digest, ID)."""
    text = word[0]
    if text.isalpha() and text.lower() not in _OF_TIME:
        return text
    return "#"


def kind_of_failure(
    result: ToolResult, call: ToolCall | None = None
) -> tuple[str, str]:
    """Return the error kind and text of a failed call, without arguments, quotations and paths, so that failures can be
    compared.
    """
    text = _NAMED.sub("#", result.text[:500])
    for given in sorted(
        set(_words_of(call.arguments)) if call is not None else (),
        key=len,
        reverse=True,
    ):
        text = text.replace(given, "#")
    return result.error or "", skeleton(text)


def _words_of(value: Any, most: int = 50) -> list[str]:
    """Return texts among the first arguments, which an error message might repeat."""
    found: list[str] = []
    waiting = [value]
    while waiting and len(found) < most:
        item = waiting.pop()
        if isinstance(item, str):
            if 2 < len(item) <= 500:
                found += [item]
        elif isinstance(item, dict | list):
            waiting += islice(item.values() if isinstance(item, dict) else item, most)
    return found


@dataclass(frozen=True, slots=True)
class ComparedCall:
    """A call and its result, for comparison. `alike` is a digest of the result without parts that change with time."""

    call: ToolCall
    outcome: tuple[str | None, str, bytes]
    alike: bytes

    @classmethod
    def of(cls, call: ToolCall, result: ToolResult) -> ComparedCall:
        """Return the values to compare for a call and its result."""
        digest = hashlib.blake2b(
            skeleton(result.text).encode("utf-8", "replace"), digest_size=16
        )
        seen = hashlib.blake2b(digest_size=16)
        for part in result.content:
            if not isinstance(part, Text):
                fields = [getattr(part, name) for name in part.__dataclass_fields__]
                seen.update("\0".join(["", *fields]).encode("utf-8", "replace"))
        aside = result.set_aside
        if (
            aside is not None and aside.kind in _UNREAD
        ):  # the ID of an offloaded result derives from its bytes
            seen.update(aside.handle.encode())
        digest.update(seen.digest())
        return cls(call, (result.error, result.text, seen.digest()), digest.digest())

    def same_as(self, other: ComparedCall) -> bool:
        """Return whether call and result are identical."""
        return same(self.call, other.call) and self.outcome == other.outcome

    def like(self, other: ComparedCall) -> bool:
        """Return whether the calls are identical and their results differ only in parts that change with time."""
        return same(self.call, other.call) and (self.outcome[0], self.alike) == (
            other.outcome[0],
            other.alike,
        )


def same(one: ToolCall, other: ToolCall) -> bool:
    """Return whether two calls have the same tool and arguments."""
    return (one.name, one.arguments) == (other.name, other.arguments)


@dataclass(slots=True)
class FailureStreak:
    """A tool's latest failures: their kind, and how many came in a row.

    Many calls of one message may fail before the model sees any result. So `is_told` is set once the model has seen the
    failures, and `tried_again` if a call of a later message fails too.
    """

    kind: tuple[str, str]
    times: int = 0
    is_told: bool = False
    tried_again: bool = False


@dataclass(slots=True)
class Repeats:
    """Counts repetitions among the calls of one run.

    `reason` is the text for a model that must answer now because of a repetition. `failing` maps each tool whose last
    call failed to its failures. `row` is the series that the model was warned about.
    """

    told_after: int = REPEATS_TOLD
    row: tuple[ToolCall, ...] = ()
    reason: str = "You made the same call again and again."
    failing: dict[str, FailureStreak] = field(default_factory=dict[str, FailureStreak])
    _made: list[ComparedCall] = field(default_factory=list[ComparedCall])

    @property
    def has_begun(self) -> bool:
        """Return whether any call was made."""
        return bool(self._made)

    def count(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> str:
        """Count the calls of one message; return the warning to send if the model has repeated itself too often, else
        "".
        """
        row_words, knew = (
            "",
            {name for name, failing in self.failing.items() if failing.is_told},
        )
        for call, result in zip(calls, results, strict=True):
            self._made.append(ComparedCall.of(call, result))
            del self._made[: -self.told_after * PATIENCE * LONGEST_ROW]
            before, self.row = self.row, self._repeated_row()
            if self.row and not before:
                row_words = _words(self.row, self.told_after)
            self._note(call, result, is_told=call.name in knew)
        words = []
        if row_words:
            words = [row_words]
        for name, failing in self.failing.items() if not self.row else ():
            if failing.times >= self.told_after and not failing.is_told:
                failing.is_told = True
                words.append(_failing_words(name, failing.times))
        return " ".join(words)

    def count_all(self, messages: Sequence[Message]) -> None:
        """Count the calls that an earlier process made for the same prompt."""
        for message, following in pairwise(messages):
            calls = message.tool_calls
            if calls and len(results := following.tool_results) == len(calls):
                self.count(calls, results)

    def goes_on_with(self, calls: Sequence[ToolCall]) -> bool:
        """Return whether the model repeats the series after its warning, or calls only tools that keep failing."""
        if calls and all(map(self._keeps_failing, calls)):
            self.reason = (
                f'Your calls to "{calls[0].name}" keep failing in the same way.'
            )
            return True
        if not self.row:
            return False
        expected = (self.row * (len(calls) // len(self.row) + 1))[: len(calls)]
        return all(same(one, other) for one, other in zip(calls, expected, strict=True))

    def _keeps_failing(self, call: ToolCall) -> bool:
        failing = self.failing.get(call.name)
        return (
            failing is not None
            and failing.tried_again
            and failing.times >= self.told_after * PATIENCE
        )

    def _note(self, call: ToolCall, result: ToolResult, *, is_told: bool) -> None:
        """Count a failed call of a tool, or reset its count after a success.

        `is_told`: the model had already seen failures of the tool when it made the call.
        """
        if result.error is None:
            self.failing.pop(call.name, None)
            return
        kind = kind_of_failure(result, call)
        failing = self.failing.get(call.name)
        if failing is None or failing.kind != kind:
            failing = self.failing[call.name] = FailureStreak(kind)
        failing.times += 1
        failing.tried_again = failing.tried_again or (is_told and failing.is_told)

    def _repeated_row(self) -> tuple[ToolCall, ...]:
        """Return the shortest series of calls that the last calls repeat, starting with the call that would come
        next.
        """
        for length in range(1, LONGEST_ROW + 1):
            if self._consists_of(
                length, self.told_after, ComparedCall.same_as
            ) or self._consists_of(
                length, self.told_after * PATIENCE, ComparedCall.like
            ):
                return tuple(made.call for made in self._made[-length:])
        return ()

    def _consists_of(
        self,
        length: int,
        times: int,
        alike: Callable[[ComparedCall, ComparedCall], bool],
    ) -> bool:
        last = self._made[-times * length :]
        return len(last) == times * length and all(
            alike(one, last[place % length]) for place, one in enumerate(last)
        )


def _words(row: Sequence[ToolCall], times: int) -> str:
    if len(row) == 1:
        what = f'The call to "{row[0].name}" was made {times} times in a row with the same arguments and'
        return f"{what} the same outcome. Do something else: change the arguments, use another tool, or answer."
    names = ", ".join(f'"{call.name}"' for call in row)
    what = f"The calls to {names} were made {times} times in turns with the same arguments and"
    return f"{what} the same outcomes. Do something else: change the arguments, use other tools, or answer."


def _failing_words(name: str, times: int) -> str:
    what = f'The calls to "{name}" failed {times} times in a row in the same way, with different arguments.'
    return f"{what} Do something else: find out what it needs, use another tool, or answer."
