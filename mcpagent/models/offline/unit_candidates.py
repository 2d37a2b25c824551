"""Units and currencies around the numbers of a prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mcpagent.models.offline.evidence import Evidence, Found
from mcpagent.models.offline.pieces import Candidate, Context, candidate_of
from mcpagent.models.offline.roles import Property
from mcpagent.models.offline.words import STOP_WORDS

_UNIT_WORD = re.compile(r"[°A-Za-zµ²³$€£][\w/°²³]*")
_UNIT_STOP = STOP_WORDS - {"per", "in"} | {"equal", "equals", "is", "convert", "and"}


def _unit_words(evidence: Evidence, start: int) -> Found | None:
    words: list[Found] = []
    for word in evidence.words:
        if word.start < start:
            continue
        low = word.value.lower()
        inner_stop = low in _UNIT_STOP or low in ("to", "into", "in", "as")
        # "in" is a unit (inch) only right after the number and before "to": "10 in to cm".
        if low == "in" and not words and evidence.words_after(word.end, 1) in (["to"], ["in"]):
            inner_stop = False
        if (
            inner_stop
            or len(words) >= 4
            or not _UNIT_WORD.fullmatch(word.value)
            or (not words and word.start - start > 12)
        ):
            break
        if low not in ("degrees", "degree"):
            words.append(word)
    if not words:
        return None
    return Found("word", words[0].start, words[-1].end, evidence.text[words[0].start : words[-1].end])


def units(wanted: Property, context: Context) -> Iterator[Candidate]:
    evidence = context.evidence
    for number in evidence.numbers:
        glued = re.compile(r"[°a-zA-Z][\w/°²³]*").match(evidence.text, number.end)
        unit = Found("word", glued.start(), glued.end(), glued[0]) if glued else _unit_words(evidence, number.end)
        if unit:
            yield candidate_of(unit, 2.0 - 1.5 * max(wanted.direction, 0))
    for match in re.finditer(r"\b(?:to|into|in|as|how many|how much)\s+(?:an?\s+)?", evidence.text, re.IGNORECASE):
        unit = _unit_words(evidence, match.end())
        if unit and context.is_free(unit.start, unit.end):
            asked = match[0].lower().startswith("how")
            single = re.search(r"\ban?\s+$", match[0])
            towards = -1.0 if single else 1.0
            yield candidate_of(
                unit, 1.2 + towards * wanted.direction * (1.2 if asked else 1.0), sure=bool(wanted.direction)
            )
