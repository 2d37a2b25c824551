"""Regular expressions from a model: bounded in length and time, run where they cannot hold up the event loop."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError

MAX_PATTERN = 200
"""Characters of a pattern that is run; longer ones are searched as words."""

DEADLINE_SECONDS = 0.1
"""For one search over all texts together."""

_SURE_SIGN = re.compile(
    r"""\\[a-zA-Z.|()\[\]{}+*?^$\\]        # an escape
    | \(\? | \)[+?{] | \[[^\]\s]+\]       # a group with an operator, a class
    | \| | [*] | \.[+?]                   # alternatives, repeats
    | ^\^ | [\w)\]]\$$                    # anchors where anchors stand
    | \w\{\d | \w\?\w | \w\+\w*$        # repeats of one letter""",
    re.VERBOSE,
)


_SURE_SIGN_IN_PROSE = re.compile(r"\\[bdswBDSW.]|\.[*+]|\|")
_PROSE_WORDS = 8
"""Words from which brackets, question marks and links are rather a sentence's than a pattern's."""


class PatternError(Exception):
    """The pattern cannot be run; the text says why."""


def looks_like_pattern(query: str) -> bool:
    """Whether it reads as a regular expression, not as prose with a question mark or a remark in brackets."""
    words = len(query.split())
    if (_SURE_SIGN if words < _PROSE_WORDS else _SURE_SIGN_IN_PROSE).search(query):
        return True
    return words <= 3 and any(query.count(left) != query.count(right) for left, right in ("()", "[]"))


def literal_words(pattern: str) -> str:
    """What is left of the pattern when its operators are taken out: the words it asks for."""
    without_classes = re.sub(r"\\[a-zA-Z]|\[[^\]]*\]|\(\?[a-zA-Z]*[:)=!]?|\{[\d,]*\}", " ", pattern)
    return re.sub(r"[^\w\s\-']+", " ", without_classes)


def required_literal(pattern: str) -> str:
    """Letters and digits that every text the pattern matches must hold, in lower case; empty where none are sure."""
    if re.search(r"[|()\[\]{}]|\\[^bBsSwWdD.]", pattern) or not pattern.isascii():
        return ""
    plain = re.sub(r"\\.|[A-Za-z0-9][?*]", " ", pattern)
    return max(re.findall(r"[a-z0-9]+", plain.lower()), key=len, default="")


def matching(pattern: str, texts: Iterable[str]) -> list[int]:
    """Which of the texts the pattern matches anywhere, whatever the case.

    Raises `PatternError` where the pattern is too long, malformed, or not done within 100 ms for all texts together.
    """
    if len(pattern) > MAX_PATTERN:
        raise PatternError(f"the pattern is longer than {MAX_PATTERN} characters")
    done: Future[list[int]] = Future()
    # A thread of its own: `regex` looks at its time limit only now and then, and the answer must not wait for that.
    threading.Thread(target=_run, args=(pattern, texts, done), name="mcpagent-pattern", daemon=True).start()
    try:
        return done.result(DEADLINE_SECONDS * 1.1)
    except (TimeoutError, FutureTimeoutError):
        raise PatternError(_too_slow()) from None


def _too_slow() -> str:
    return f"the pattern took over {DEADLINE_SECONDS * 1000:.0f} ms"


def _run(pattern: str, texts: Iterable[str], done: Future[list[int]]) -> None:
    try:
        done.set_result(_matching(pattern, texts))
    except PatternError as error:
        done.set_exception(error)
    except Exception as error:  # noqa: BLE001 - whatever a hostile pattern does to the engine ends as this search's error
        done.set_exception(PatternError(f"the pattern failed: {type(error).__name__}"))


def _matching(pattern: str, texts: Iterable[str]) -> list[int]:
    import regex

    end = time.monotonic() + DEADLINE_SECONDS
    try:
        compiled = regex.compile(pattern, regex.IGNORECASE | regex.MULTILINE)
    except regex.error as error:
        raise PatternError(f"invalid regex pattern: {_reason(error)}") from None
    found: list[int] = []
    for place, text in enumerate(texts):
        left = end - time.monotonic()
        if left <= 0:
            raise PatternError(_too_slow())
        try:
            if compiled.search(text, timeout=left, concurrent=True):
                found.append(place)
        except TimeoutError:
            raise PatternError(_too_slow()) from None
    return found


def _reason(error: Exception) -> str:
    """The engine's words, with the common one as users of other engines know it."""
    text = str(error)
    return "missing closing )" if text.startswith("missing )") else text.split(" at position")[0]
