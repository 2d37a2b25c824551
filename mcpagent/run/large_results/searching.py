"""`search_large_output`: find positions with words near each other, or matches of a pattern within a time limit."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcpagent.errors import InputError
from mcpagent.run.large_results.large_output import LargeOutput
from mcpagent.run.large_results.reading_ranges import MAX_ANSWER, whole_number
from mcpagent.utilities.text.for_model import fenced, for_model, line_for_model
from mcpagent.utilities.text.foreign_patterns import PatternError, compiled

if TYPE_CHECKING:
    from regex import Pattern

SECONDS = 0.15
"""CPU time of one search; the next call continues after it."""

USUAL_PLACES, MAX_PLACES = 10, 50
MAX_CONTEXT = 20
MAX_WORDS, MAX_WORD = 20, 200
MAX_PATTERN = 200

NEAR = 400
"""In long lines, the other words must be within this number of characters of the first."""

LONG_LINE = 400
_STEP, _OVERLAP = 1_000_000, 2_000


@dataclass(slots=True)
class _Found:
    """Positions as (start, end), in order; `stopped` is the offset at which the search ended early, None if it did
    not.
    """

    places: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    stopped: int | None = None
    why: str = ""


class _Clock:
    """Measures the CPU time of this thread."""

    def __init__(self) -> None:
        self._end = time.thread_time() + SECONDS

    @property
    def left(self) -> float:
        return self._end - time.thread_time()


def search(output: LargeOutput, arguments: Mapping[str, Any]) -> str:
    """Return the matches with their lines. Raises `InputError` for an invalid search."""
    words, pattern = (
        str(arguments.get(name) or "").strip() for name in ("words", "pattern")
    )
    if bool(words) == bool(pattern):
        raise InputError("give words, or a pattern, to search for")
    limit = min(max(_given(arguments, "limit", USUAL_PLACES), 1), MAX_PLACES)
    context = min(max(_given(arguments, "context", 1), 0), MAX_CONTEXT)
    start = _start(output, arguments)
    if pattern:
        found = _by_pattern(output, pattern, start, limit)
    else:
        found = _by_words(output, words, start, limit)
    return _told(output, found, words or pattern, start, context)


def _start(output: LargeOutput, arguments: Mapping[str, Any]) -> int:
    """Return the offset at which the search starts, from the line or character in the arguments."""
    line, char = (
        whole_number(arguments, "start_line"),
        whole_number(arguments, "start_char"),
    )
    if line is not None and line > output.lines:
        raise InputError(f"start_line: it has {output.lines:,} lines, got {line:,}")
    if char is not None and char > len(output.text):
        raise InputError(
            f"start_char: it has {len(output.text):,} characters, got {char:,}"
        )
    return max(output.line_start(line or 1), (char or 1) - 1)


def _given(arguments: Mapping[str, Any], name: str, usual: int) -> int:
    number = whole_number(arguments, name)
    if number is None:
        return usual
    return number


# -- Finding -----------------------------------------------------------------------------------------------------------


def _by_words(output: LargeOutput, words: str, start: int, limit: int) -> _Found:
    wanted = sorted({_folded(word[:MAX_WORD]) for word in words.split()[:MAX_WORDS]})
    found, clock = _Found(), _Clock()
    for begin, piece in _pieces(output.text, start, overlap=NEAR + MAX_WORD):
        if len(wanted) > 1:
            rarest = min(wanted, key=piece.count)
        else:
            rarest = wanted[0]
        others = [word for word in wanted if word != rarest]
        place = piece.find(rarest)
        while place >= 0:
            at = begin + place
            left, right = _around(output.text, at, at + len(rarest))
            if not found.places or at >= found.places[-1][1]:
                near = piece[max(left - begin, 0) : right - begin]
                if all(word in near for word in others):
                    if len(found.places) == limit:
                        found.stopped = at
                        return found
                    found.places.append((at, at + len(rarest)))
            if clock.left > 0:
                place = piece.find(rarest, place + 1)
            else:
                place = -1
        if clock.left <= 0:
            found.stopped, found.why = begin + len(piece), "time"
            if found.stopped < len(output.text):
                return found
            return _Found(found.places)
    return found


def _pieces(text: str, start: int, overlap: int) -> Iterator[tuple[int, str]]:
    """Yield the text in lower case from `start` on, in slightly overlapping pieces, each with its offset."""
    while start < len(text):
        yield start, _folded(text[start : start + _STEP + overlap])
        start += _STEP


def _folded(text: str) -> str:
    """Return the text in lower case, with the same length."""
    # In lower case, only this character would become two.
    return text.replace("\u0130", "I").lower()


def _around(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the line around a position, or the nearby part of a long line."""
    left, right = (
        text.rfind("\n", max(start - NEAR, 0), start) + 1,
        text.find("\n", end, end + NEAR),
    )
    return left or max(start - NEAR, 0), right if right >= 0 else min(
        end + NEAR, len(text)
    )


def _by_pattern(output: LargeOutput, pattern: str, start: int, limit: int) -> _Found:
    if len(pattern) > MAX_PATTERN:
        raise InputError(f"pattern: it is longer than {MAX_PATTERN} characters")
    try:
        runnable = compiled(pattern, any_case=True)
    except PatternError as error:
        raise InputError(f"pattern: {error}; search for words instead") from None
    text, found, clock, first = output.text, _Found(), _Clock(), start
    while start < len(text) and found.stopped is None:
        # In pieces, of whole lines if these are short, so that a pattern that uses up its time fails at the first
        # piece.
        end = text.find("\n", start + _STEP, start + 2 * _STEP) + 1 or min(
            start + 2 * _STEP, len(text)
        )
        _match_in(text, runnable, (start, end), limit, clock, found)
        if found.why == "time" and start == first:
            found.why = "pattern"
        if _is_cut(text, end):
            start = end - _OVERLAP
        else:
            start = end
    return found


def _is_cut(text: str, end: int) -> bool:
    """Return whether a piece that ends at `end` ends inside a line."""
    return end < len(text) and text[end - 1] != "\n"


def _match_in(
    text: str,
    pattern: Pattern[str],
    within: tuple[int, int],
    limit: int,
    clock: _Clock,
    found: _Found,
) -> None:
    """Append the matches within this part of the text to `found`."""
    start, end = within
    place = start = max(start, found.places[-1][1] if found.places else 0)
    if _is_cut(text, end):
        cut = end
    else:
        cut = -1
    try:
        for match in pattern.finditer(
            text, start, end, concurrent=True, timeout=max(clock.left, 0.001)
        ):
            if match.end() in (match.start(), cut):
                continue  # an empty match, which could be anywhere, or one that may continue in the next piece
            if len(found.places) == limit:
                found.stopped = match.start()
                return
            place = match.end()
            found.places.append((match.start(), match.end()))
    except TimeoutError:
        found.stopped, found.why = place, "time"
    except MemoryError:
        raise InputError(
            "pattern: it took too much memory; make it simpler, or search for words"
        ) from None


# -- Display -----------------------------------------------------------------------------------------------------------


def _told(
    output: LargeOutput, found: _Found, query: str, start: int, context: int
) -> str:
    asked, shown, room = line_for_model(query, 80), list[str](), MAX_ANSWER
    for number, (begin, end) in enumerate(found.places, 1):
        text = _shown(output, begin, end, context)
        if len(text) > room and shown:
            found.stopped, found.why = begin, ""
            found.places = found.places[: number - 1]
            break
        shown.append(text[:room])
        room -= len(shown[-1])
    if not shown and found.stopped is None:
        since = ""
        if start:
            since = f" from character {start + 1:,} on"
        return f'Nothing found for "{asked}"{since}. Try fewer or other words.'
    if shown:
        return f"{_summary(output, found, asked)}\n{fenced(for_model(chr(10).join(shown)))}"
    return _summary(output, found, asked)


def _summary(output: LargeOutput, found: _Found, asked: str) -> str:
    count = len(found.places)
    told = f'{count} place{"s" if count != 1 else ""} for "{asked}"'
    if found.stopped is None:
        return f"{told}."
    line, on = output.line_at(found.stopped), f"start_char={found.stopped + 1}"
    match found.why:
        case "pattern":
            return f"{told}. The pattern takes too long here: make it simpler, or search for words."
        case "time":
            return f"{told} up to line {line:,}; the time for one search is over. Go on with {on}."
        case _:
            return f"{told}, and there are more from line {line:,} on. Go on with {on}, or be more exact."


def _shown(output: LargeOutput, begin: int, end: int, context: int) -> str:
    """Return the match with lines around it; only the nearby part of long lines."""
    line = output.line_at(begin)
    first, last = output.line_start(line), output.line_start(line + 1)
    if last - first > LONG_LINE:
        left, right = (
            max(begin - NEAR // 2, first),
            min(max(end, begin + 1) + NEAR // 2, last, begin + 2 * NEAR),
        )
        text = output.text[left:right].strip("\n").replace("\n", " ")
        return f"{line} (characters {left + 1}-{right}): {text}"
    lines: list[str] = []
    for number in range(max(line - context, 1), min(line + context, output.lines) + 1):
        start = output.line_start(number)
        stop = output.line_start(number + 1)
        text = output.text[start : min(stop, start + LONG_LINE)].rstrip("\n")
        more = ""
        if stop - start > LONG_LINE + 1:
            more = " ..."
        lines.append(f"{number}{':' if number == line else '-'} {text}{more}")
    return "\n".join(lines)
