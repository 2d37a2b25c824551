"""Choose where to cut a history, and shorten its old results: pure functions of the messages and the available tokens.

A cut is always between whole steps, so calls stay with their results. Old results are shortened first. Only if that is
not enough, a summary replaces the messages before the cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from mcpagent.history.sent_messages import (
    compacted_in,
    cut_at,
    front,
    is_pinned,
    whole_step,
)
from mcpagent.history.token_estimates import message_tokens
from mcpagent.values.messages import (
    FILE_PARTS,
    Compacted,
    Message,
    Text,
    ToolResult,
    ToolsChanged,
)

LENGTHS = (8_000, 2_000, 400, 100)
"""Numbers of characters that remain of a result, tried in order until the messages fit."""

OLD_LENGTH = 400
"""Number of characters that remain of an old result."""

SUMMARY_SHARE = 0.25
"""Share of the target size for the summary; the rest is for messages that stay."""

HEAD_TOKENS = 120
"""Tokens of the text that surrounds a summary."""


def shorter(result: ToolResult, length: int) -> ToolResult:
    """Return the beginning of the result, or the same result if it is not much longer than `length`."""
    text = result.text
    files = sum(isinstance(part, FILE_PARTS) for part in result.content)
    if len(text) <= 1.1 * length + 80 and not files:
        return result
    rest = []
    if len(text) > length:
        rest = [f"{len(text):,} characters are too long; ask for less"]
    if files:
        rest += [f"{files} file(s)"]
    return replace(
        result,
        content=(
            Text(
                f"{text[:length]}\n[left out to save room: {', '.join(rest)}]".lstrip()
            ),
        ),
    )


@dataclass(frozen=True, slots=True)
class CuttableRange:
    """The part of a history that may be cut: from `begin`, the last cut, to `end`.

    `before` is the last compaction, in the message at `place`. `asked` is the index of the current prompt, None if it
    comes after `end`.
    """

    messages: Sequence[Message]
    begin: int
    end: int
    before: Compacted | None = None
    place: int = 0
    asked: int | None = None

    @classmethod
    def of(
        cls, messages: Sequence[Message], end: int, place: int | None, asked: int | None
    ) -> CuttableRange:
        """Return the part of the history up to `end`. The last compaction is in the message at `place`, or None."""
        before = None
        if place is not None:
            before = compacted_in(messages[place])
        if before is None or place is None:
            return cls(messages, 0, end, asked=asked)
        return cls(
            messages, cut_at(messages, place, before)[0], end, before, place, asked
        )

    @property
    def summary(self) -> str:
        """The summary of all messages omitted so far, or ""."""
        if self.before is not None:
            return self.before.summary
        return ""

    def released(self) -> CuttableRange:
        """Return the same range, without the prompt that the last cut preserved if that is no longer the current
        one.
        """
        if self.before is None or not self.before.pinned:
            return self
        stays = (
            back for back in self.before.pinned if self._has_to_stay(self.place - back)
        )
        pinned = tuple(stays)
        if pinned == self.before.pinned:
            return self
        return replace(self, before=replace(self.before, pinned=pinned))

    def _has_to_stay(self, at: int) -> bool:
        step = whole_step(self.messages, at, self.end)
        return self.asked in step or any(is_pinned(self.messages[one]) for one in step)

    def steps(self) -> Iterator[tuple[int, int]]:
        """Yield the ranges (start, end) of steps: a message with the results of its calls."""
        start = self.begin
        while start < self.end:
            after = start + 1
            while after < self.end and self.messages[after].role == "tool":
                after += 1
            yield start, after
            start = after

    def part(
        self,
        cut: int,
        shortened: Sequence[ToolResult],
        summary: str,
        *,
        is_cut: bool = False,
        anew: bool = True,
    ) -> Compacted:
        """Return a compaction that omits all messages before `cut`, except the prompt and pinned messages.

        `anew`: the remaining messages may change; if False, messages that were already sent stay unchanged.
        """
        known = {
            result.call_id: result
            for result in (self.before.shortened if self.before else ())
        }
        known |= {result.call_id: result for result in shortened}
        stays = self.staying(cut)
        there = {
            part.call_id
            for at in (*stays, *range(cut, self.end))
            for part in self.messages[at].tool_results
        }
        unmoved = 0
        if not anew:
            before_last = 0
            if self.before is not None:
                before_last = self.before.unmoved
            unmoved = self.end - (self.place - before_last)
        return Compacted(
            kept=self.end - cut,
            summary=summary,
            pinned=tuple(self.end - at for at in stays),
            shortened=tuple(
                result for call_id, result in known.items() if call_id in there
            ),
            used=self._used(),
            unmoved=unmoved,
            is_cut=is_cut
            or (not summary and self.before is not None and self.before.is_cut),
        )

    def staying(self, cut: int) -> tuple[int, ...]:
        """Return the indices before `cut` of messages that stay: pinned messages with their results, and the prompt.

        Messages that stayed at an earlier cut stay again.
        """
        if self.asked is not None:
            asked = {self.asked}
        else:
            asked = set[int]()
        stays: set[int] = set()
        if cut == self.begin and self.before is not None:
            stays.update(self.place - back for back in self.before.pinned)
        for at in range(min(cut, self.end)):
            message = self.messages[at]
            if at in asked or is_pinned(message):
                stays |= whole_step(self.messages, at, self.end)
        return tuple(sorted(at for at in stays if at < cut))

    def _used(self) -> tuple[str, ...]:
        """Return the names of the discovered tools that were called, in the order of their last calls."""
        found = set[str]()
        called: dict[str, None] = {}
        for message in self.messages[: self.end]:
            for part in message.parts:
                if isinstance(part, ToolsChanged):
                    found.update(tool.name for tool in part.added)
            for call in message.tool_calls:
                called.pop(call.name, None)
                called[call.name] = None
        return tuple(name for name in called if name in found)

    def tokens(self, part: Compacted) -> int:
        """Return the estimated tokens of the next request's messages if the history up to `self.end` is compacted as in
        `part`: its summary, and the messages that it keeps, whole or shortened.
        """
        placed = [*self.messages[: self.end], Message("user", (part,))]
        return sum(map(message_tokens, front(placed, self.end, part)))

    def results(self, start: int, end: int, length: int) -> list[ToolResult]:
        """Return the results between two indices that are longer than `length`, shortened to it; pinned messages are
        skipped.
        """
        return self._shorter(
            (at for at in range(start, end) if not is_pinned(self.messages[at])), length
        )

    def pinned_results(self, cut: int, length: int) -> list[ToolResult]:
        """Return the shortened results of all pinned messages, before and after `cut`."""
        behind = (at for at in range(cut, self.end) if is_pinned(self.messages[at]))
        return self._shorter((*self.staying(cut), *behind), length)

    def _shorter(self, places: Iterable[int], length: int) -> list[ToolResult]:
        all_of_them = (
            result for at in places for result in self.messages[at].tool_results
        )
        return [
            short
            for result in all_of_them
            if (short := shorter(result, length)) is not result
        ]


def with_short_answers_to_come(
    live: CuttableRange, tokens: int, limit: int
) -> Compacted | None:
    """Shorten the results that the model has not answered yet to at most `tokens`, and all messages to at most `limit`.

    Messages that were sent before stay unchanged. Returns None if these results are not the problem, or if that is not
    enough.
    """
    waiting = _unanswered(live, list(live.steps()))
    messages = live.messages[waiting : live.end]
    if sum(map(message_tokens, messages)) <= tokens:
        return None
    for length in LENGTHS:
        results = live.results(waiting, live.end, length)
        short = {result.call_id: result for result in results}
        if sum(message_tokens(_with(message, short)) for message in messages) <= tokens:
            part = live.part(live.begin, results, live.summary, anew=False)
            if live.tokens(part) <= limit:
                return part
            return None
    return None


def with_short_results(live: CuttableRange, tokens: int) -> Compacted:
    """Return a compaction that omits nothing, but shortens the results before the last steps that fit into `tokens`."""
    return live.part(
        live.begin,
        live.results(live.begin, tail_of(live, tokens), OLD_LENGTH),
        live.summary,
    )


def tail_of(live: CuttableRange, tokens: int) -> int:
    """Return the index of the first of the last steps that together fit into `tokens`.

    Steps with results that the model has not answered yet are always included.
    """
    known = {
        result.call_id: result
        for result in (live.before.shortened if live.before else ())
    }
    steps = list(live.steps())
    needed = _unanswered(live, steps)
    start, left = live.end, tokens
    for begin, end in reversed(steps):
        size = sum(
            message_tokens(_with(message, known))
            for message in live.messages[begin:end]
        )
        if size > left and begin < needed:
            break
        start, left = begin, max(left - size, 0)
    return start


def _with(message: Message, known: dict[str, ToolResult]) -> Message:
    if not known or message.role != "tool":
        return message
    parts = (
        known.get(part.call_id, part) if isinstance(part, ToolResult) else part
        for part in message.parts
    )
    return replace(message, parts=tuple(parts))


def _unanswered(live: CuttableRange, steps: Sequence[tuple[int, int]]) -> int:
    """Return the start of the last answer with calls if the model has not answered their results; else the end."""
    if live.asked is not None:
        for begin, end in reversed(steps):
            if live.messages[begin].role == "assistant":
                if end - begin > 1 and begin > live.asked:
                    return begin
                return live.end
    return live.end


def shortest(
    live: CuttableRange, cut: int, summary: str, aim: int, *, is_cut: bool = False
) -> Compacted:
    """Return a compaction that omits all messages before `cut`, and shortens results of the rest until it fits into
    `aim`.

    Answered results are shortened first, pinned ones last; the output store has them in full. If it cannot fit, all are
    as short as possible.
    """
    waiting = max(_unanswered(live, list(live.steps())), cut)
    part = live.part(cut, (), summary, is_cut=is_cut)
    long = 10**9
    usual = (
        (OLD_LENGTH, long, long),
        *((min(OLD_LENGTH, length), length, long) for length in LENGTHS),
    )
    for old, new, pinned in (
        *usual,
        *((LENGTHS[-1], LENGTHS[-1], length) for length in LENGTHS),
    ):
        if live.tokens(part) <= aim:
            break
        results = (
            *live.results(cut, waiting, old),
            *live.results(waiting, live.end, new),
        )
        part = live.part(
            cut, (*results, *live.pinned_results(cut, pinned)), summary, is_cut=is_cut
        )
    return part
