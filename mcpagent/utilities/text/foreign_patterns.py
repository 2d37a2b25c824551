"""Compile and run regular expressions of models, servers and files within fixed bounds of CPU time and memory."""

from __future__ import annotations

import re
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regex import Pattern

MAX_PATTERN = 1_000
"""Maximum length of a pattern; the engine's time to compile it grows with the square of the length."""

MAX_EXPANDED = 2_500
"""Maximum length of a pattern after its counted repetitions are expanded, as the engine does: `(ab){3}` has nine."""

_COUNT = re.compile(r"\{\s*(\d+)")
_ODD_COUNT = re.compile(r"\{[\d,]*[\s#]")
_SELF_CALL = re.compile(r"\(\?(?:R|&|P>|[+-]?\d)")
_PLAIN_CLASS = re.compile(r"\[(?!\^?\])[^\[\]]+\]")
"""A character class whose end is certain: it contains no brackets, and `]` is not its first character."""

_STEP = re.compile(r"\(|\)|\{(\d+)[\d,]*\}|.", re.DOTALL)


class PatternError(Exception):
    """Raised if a pattern cannot be run; the message gives the reason."""


class CpuBudget:
    """A budget of CPU time for all searches in this thread, which begins when the object is created.

    CPU time of other processes does not count.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.thread_time() + seconds

    @property
    def over(self) -> bool:
        """Return whether the time is used up."""
        return time.thread_time() >= self._end

    def search(self, pattern: Pattern[str], text: str) -> bool:
        """Return whether the pattern matches anywhere in the text. Raises `PatternError` when the time is used up."""
        left = self._end - time.thread_time()
        try:
            if left > 0:
                # The engine's clock counts the CPU time of this whole process.
                return pattern.search(text, timeout=left, concurrent=True) is not None
        except TimeoutError:
            pass
        except MemoryError:
            raise PatternError("the pattern took too much memory") from None
        raise PatternError(f"the pattern took over {self._seconds * 1000:.0f} ms")


@lru_cache(maxsize=128)
def compiled(pattern: str, *, any_case: bool = False) -> Pattern[str]:
    """Compile the pattern, case-insensitive and with `^` and `$` at each line if `any_case`.

    Raises `PatternError`; its message begins with "invalid" if the pattern has a syntax error.
    """
    import regex

    if len(pattern) > MAX_PATTERN:
        raise PatternError(f"the pattern is longer than {MAX_PATTERN} characters")
    if _SELF_CALL.search(pattern):
        raise PatternError("the pattern calls itself")
    if expanded(pattern) > MAX_EXPANDED:
        raise PatternError("the pattern repeats too often")
    flags: Any = regex.IGNORECASE | regex.MULTILINE if any_case else 0
    try:
        return regex.compile(pattern, flags, cache_pattern=False)
    except regex.error as error:
        raise PatternError(f"invalid regex pattern: {_reason(error)}") from None
    except Exception as error:  # noqa: BLE001 - any failure of the engine by a hostile pattern is this pattern's error
        raise PatternError(f"the pattern failed: {type(error).__name__}") from None


def expanded(pattern: str) -> int:
    """Return an upper bound of the pattern's length after its counted repetitions are written out. Takes linear time.

    If groups cannot be distinguished from the content of classes and comments, every count multiplies the whole
    pattern.
    """
    plain = _PLAIN_CLASS.sub(
        lambda found: "a" * len(found[0]),
        re.sub(r"\\.", "aa", pattern, flags=re.DOTALL),
    )
    if "[" in plain or "(?#" in plain or re.search(r"\(\?[a-zA-Z0-9-]*x", plain):
        return _product(pattern)
    if _ODD_COUNT.search(plain):
        return MAX_EXPANDED + 1
    sizes = [0]
    last = 0
    for step in _STEP.finditer(plain):
        if step[0] == "(":
            sizes.append(1)
            last = 0
        elif step[0] == ")" and len(sizes) > 1:
            last = sizes.pop() + 1
            sizes[-1] += last
        elif step[1]:
            again = last * max(int(step[1][:9]) - 1, 0) + len(step[0])
            sizes[-1] += again
            last += again
        else:
            last = 1
            sizes[-1] += 1
    return sum(sizes)


def _product(pattern: str) -> int:
    if _ODD_COUNT.search(pattern):
        return MAX_EXPANDED + 1
    size = len(pattern)
    for count in _COUNT.findall(pattern):
        size *= max(int(count[:9]), 1)
        if size > MAX_EXPANDED:
            break
    return size


def _reason(error: Exception) -> str:
    """Return the engine's error message; a frequent one is reworded as other engines write it."""
    text = str(error)
    if text.startswith("missing )"):
        return "missing closing )"
    return text.split(" at position")[0]
