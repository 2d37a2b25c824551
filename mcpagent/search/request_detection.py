"""Find the request inside a prompt, so that pasted text around it is not searched.

A request is at the start or at the end of a prompt, with mails, logs, code or quotes before or after it. Its form
distinguishes it in any language: its length, its characters, and whether adjacent lines look alike. So does the share
of its words that one tool has. `benchmarks/search_pasted.py --fit` computed the weights of both.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from operator import mul
from typing import NamedTuple

from mcpagent.search.constants import FITTED

MAX_PROMPT = 100_000
"""Maximum number of characters of a prompt that are examined, half of them at each end."""

MAX_WORDS = 256
"""Maximum number of words of a request. Each 16 characters of a longer word count as one; so do two characters of a
script without spaces.
"""

_WHOLE_WORDS = 40
"""Maximum number of words of a prompt that is searched as a whole. A single line of any length is also searched as a
whole.
"""

_SECOND = FITTED["request chance"]["second"]
"""Minimum probability of a second part of the prompt that is also searched."""

_MOST_BLOCKS = 24
"""Maximum number of paragraphs that are examined, half of them at each end."""

_MANY = 5
_LONG_WORDS, _FEWEST_WORDS = 60, 3
"""Usual maximum and minimum number of words of a request."""

_FENCE = re.compile(r"^\s*(```|~~~)")
_WORDS = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]{1,2}|[^\W_]{1,16}"
)
_BUDGETED = re.compile(rf"{_WORDS.pattern}|(?<![^\W_])(?:[^\w\s]|_){{1,16}}")
"""Matches words, and runs of other signs, since an embedding model also reads signs."""

_PASTED = re.compile(
    r"\s*[>|{}<]|\s*[\[(]|\t| {4}|\s*[\w\-]{1,30}: \S|\s*(?:#|//|\*|--)\s?\w?"
)
_GLUED = re.compile(r"[^\W\d][_(.\[{=/:<>\\@#$%&*+|~;]+(?=[^\W\d\"'])")
_LONG_RUN = re.compile(r"([A-Za-z0-9_]{64})[A-Za-z0-9_]+")
_ENDS_AS_DATA = re.compile(r"[,;{}\[\]()<>=]$")


class RequestForm(NamedTuple):
    """The features of a part of a prompt that show whether it is the request. The same type also holds their
    weights.
    """

    length: float
    """Logarithm of one plus the number of words."""

    too_long: float
    """Logarithm of the length, as a multiple of the usual maximum."""

    too_short: float
    """1 if it has fewer words than a usual request."""

    odd_signs: float
    """Share of characters other than letters and spaces; 1 from one in `_MANY` on."""

    glued: float
    """Share of words that a sign joins to the next word, as in code and paths; 1 from one in `_MANY` on."""

    pasted: float
    """Share of lines that begin like quotes, code, data or mail headers."""

    ends_open: float
    """1 if the first line ends like data or a salutation."""

    alike: float
    """1 if an adjacent line begins with the same kinds of characters, as in a log."""

    question: float
    """1 if it ends with a question mark."""

    middle: float
    """1 if there is text before and after it."""

    line: float
    """1 if it is one line of a paragraph."""

    covered: float = 0.0
    """Share of the content words that the best matching tool has."""

    missing: float = 0.0
    """Share of the words that no tool has."""


_WEIGHTS = RequestForm(**FITTED["request"])


class Candidate(NamedTuple):
    """A part of a prompt that may be its request. `is_cut`: the part was longer than `MAX_WORDS`."""

    text: str
    form: RequestForm
    is_cut: bool = False


def candidates_in(prompt: str) -> list[Candidate]:
    """Return the parts of the prompt that may be its request, in order; only the whole prompt if nothing seems
    pasted.
    """
    text = ends_of(prompt)
    if "\n" not in text and len(text) <= MAX_WORDS:
        return [
            Candidate(text, _WEIGHTS)
        ]  # with a single part, its form is not evidence
    if "\n" not in text or word_count(text, _WHOLE_WORDS + 1) <= _WHOLE_WORDS:
        return [_candidate(text, _WEIGHTS)]
    blocks = _blocks(text)
    last = len(blocks) - 1
    found: dict[str, RequestForm] = {}
    for at, lines in enumerate(blocks):
        before, behind = (
            blocks[at - 1] if at else [],
            blocks[at + 1] if at < last else [],
        )
        if at == 0 and len(lines) > 1:
            found[lines[0].strip()] = _form(lines[:1], [], lines[1:], is_line=True)
        found["\n".join(lines).strip()] = _form(lines, before, behind)
        if at == last and len(lines) > 1:
            found.setdefault(
                lines[-1].strip(), _form(lines[-1:], lines[:-1], [], is_line=True)
            )
    return [
        _candidate(part, form) for part, form in found.items() if word_count(part, 1)
    ]


def _candidate(text: str, form: RequestForm) -> Candidate:
    kept, is_cut = within_budget(text)
    return Candidate(kept, form, is_cut)


def requests_among(candidates: Sequence[Candidate]) -> tuple[list[str], float]:
    """Return the parts that are requests, the most likely first, and the odds that the first is one.

    A second part is included if it is nearly as likely, and not contained in the first.
    """
    values = [math.exp(sum(map(mul, _WEIGHTS, one.form))) for one in candidates]
    whole = sum(values)
    ranked = sorted(range(len(values)), key=lambda at: (-values[at], at))
    best = candidates[ranked[0]].text
    chosen = [best]
    beside = 0.0
    for at in ranked[1:]:
        other = candidates[at].text
        if other in best or best in other:
            continue
        beside += values[at]
        if len(chosen) == 1 and values[at] >= _SECOND * whole:
            chosen.append(other)
    return chosen, values[ranked[0]] / beside if beside else math.inf


def within_budget(text: str) -> tuple[str, bool]:
    """Return the text up to its `MAX_WORDS`th word, with keys and encoded data shortened, and whether more text
    follows.

    Up to 16 separate signs count as a word.
    """
    text = _LONG_RUN.sub(r"\1", text)
    end = 0
    for count, word in enumerate(_BUDGETED.finditer(text)):
        if count == MAX_WORDS:
            return text[:end], True
        end = word.end()
    return text, False


def word_count(text: str, most: int = 10 * MAX_WORDS) -> int:
    """Return the number of words in the text, at most `most`."""
    count = 0
    for _ in _WORDS.finditer(text):
        count += 1
        if count == most:
            break
    return count


def ends_of(prompt: str) -> str:
    """Return the part of the prompt that is examined: all of it, or its two ends."""
    text = prompt.strip()
    if len(text) <= MAX_PROMPT:
        return text
    half = MAX_PROMPT // 2
    return f"{text[:half]}\n\n{text[-half:]}"


def _blocks(text: str) -> list[list[str]]:
    """Return the lines of each paragraph; a fenced block counts as one indented paragraph."""
    blocks: list[list[str]] = [[]]
    is_fenced = False
    for line in text.splitlines():
        if _FENCE.match(line):
            is_fenced = not is_fenced
            blocks.append([])
        elif is_fenced:
            blocks[-1].append(f"    {line}")
        elif line.strip():
            blocks[-1].append(line)
        else:
            blocks.append([])
    told = [block for block in blocks if any(line.strip() for line in block)]
    half = _MOST_BLOCKS // 2
    if len(told) <= _MOST_BLOCKS:
        return told
    return [*told[:half], *told[-half:]]


def _form(
    lines: Sequence[str],
    before: Sequence[str],
    behind: Sequence[str],
    *,
    is_line: bool = False,
) -> RequestForm:
    text = "\n".join(lines).strip()
    words = word_count(text)
    plain = sum(char.isalpha() or char.isspace() for char in text[:2_000]) / max(
        len(text[:2_000]), 1
    )
    shape, beside = _shape(lines[0]), [*before[-1:], *behind[:1]]
    return RequestForm(
        length=math.log1p(words),
        too_long=max(math.log((words or 1) / _LONG_WORDS), 0.0),
        too_short=float(words < _FEWEST_WORDS),
        odd_signs=min(_MANY * (1.0 - plain), 1.0),
        glued=min(_MANY * len(_GLUED.findall(text[:2_000])) / max(words, 1), 1.0),
        pasted=sum(bool(_PASTED.match(line)) for line in lines) / len(lines),
        ends_open=float(bool(_ENDS_AS_DATA.search(lines[0].rstrip()))),
        alike=float(len(shape) > 1 and any(_shape(line) == shape for line in beside)),
        question=float(text[-1:] in tuple("?？؟")),
        middle=float(bool(before) and bool(behind)),
        line=float(is_line),
    )


def _shape(line: str) -> str:
    """Return the beginning of a line as kinds of characters, such as `9-9-9` for a log line; "" for a sentence."""
    shape = re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+", "9", line[:30]))
    begun = re.match(r"[^ ]*[^\w\s][^ ]*|\s+", shape)
    if begun:
        return begun[0]
    return ""
