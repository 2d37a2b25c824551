"""Which number of a prompt belongs to which property: decided for all of a tool's numbers together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from mcpagent.models.offline.evidence import Evidence, Found
from mcpagent.models.offline.fitting import fits, kind_of
from mcpagent.models.offline.leftover import Span
from mcpagent.models.offline.pieces import Context, direction_score
from mcpagent.models.offline.roles import Property
from mcpagent.models.offline.words import concept, split_words, stem, word_set

_COUNT_WORDS = frozenset(
    concept(word) for word in word_set("limit max maximum count number size head top results lines amount n k")
)
_MONEY_WORDS = frozenset(
    concept(word) for word in word_set("amount total price cost value bill principal salary budget loan")
)
_PERCENT_WORDS = frozenset(
    concept(word) for word in word_set("percent percentage rate interest tip discount tax share")
)
_SURE_SCORE = 2.0

Assigned = dict[str, tuple[Any, tuple[Span, ...]]]


def _stems(words: Sequence[str]) -> set[str]:
    return {piece for word in words for part in split_words(word) for piece in (stem(part), concept(part))}


def _score(wanted: Property, number: Found, evidence: Evidence) -> float:
    text = evidence.text
    score = 1.0 if wanted.required else 0.0
    score += direction_score(wanted, number.preposition)
    following = _stems(evidence.words_after(number.end, 2)[:1]) | _stems(evidence.words_after(number.end, 2)[1:])
    nearest = _stems(evidence.words_after(number.end, 1))
    before = _stems([evidence.word_before(number.start)])
    names = wanted.concepts | {stem(word) for word in wanted.words}
    counted = re.match(r"(?:how many|number of|at most this many|count of)\b(.*)", wanted.description, re.IGNORECASE)
    if nearest & names:
        score += 4.0
    elif counted and following & _stems(counted[1].split()[:4]):
        score += 3.0
    elif following & wanted.description_concepts:
        score += 1.5
    if before & names:
        score += 3.0
    elif re.search(
        r"\b(?:first|last|top|latest|newest|only|most|least|limit)\s*$", text[: number.start], re.IGNORECASE
    ):
        score += 2.5 if names & _COUNT_WORDS else 0.0
    score += _percent_score(wanted, text, number) + _year_score(wanted, number)
    if re.search(r"[$€£¥]\s*$", text[: number.start]) and names & _MONEY_WORDS:
        score += 2.0
    return score


def _percent_score(wanted: Property, text: str, number: Found) -> float:
    is_percent = re.match(r"\s?(?:%|percent\b|per cent\b)", text[number.end :], re.IGNORECASE) is not None
    is_meant = bool(wanted.concepts & _PERCENT_WORDS)
    if is_percent:
        return 3.0 if is_meant else 0.5 if wanted.description_concepts & _PERCENT_WORDS else -1.0
    return -0.5 if is_meant else 0.0


def _year_score(wanted: Property, number: Found) -> float:
    if "year" in wanted.words and 1000 <= number.value <= 2999:
        return 3.0
    return 0.0


def _typed(value: Any, wanted: Property) -> Any:
    if kind_of(wanted.schema) == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _signed(value: Any, wanted: Property, evidence: Evidence) -> Any:
    """ "90 days ago" is -90 where the property says that negative values go back."""
    backwards = re.search(r"\b(?:ago|earlier|before|subtract|minus|back)\b", evidence.text, re.IGNORECASE)
    return -abs(value) if backwards and "negative" in wanted.description.lower() else value


def assign_numbers(properties: Sequence[Property], context: Context) -> Assigned:
    """Value and span for each property that gets a number; required ones first take what is named for them."""
    evidence = context.evidence
    numbers = [number for number in evidence.numbers if context.is_free(number.start, number.end)]
    assigned: Assigned = _calendar(properties, context)
    for wanted in properties:
        for score, value, start, end in sorted(_described(wanted, evidence), reverse=True)[:1]:
            if score >= (0.5 if wanted.required else _SURE_SCORE) and fits(value, wanted.schema):
                assigned[wanted.name] = (value, ((start, end),))
    pairs = sorted(
        (
            -_score(wanted, number, evidence),
            not wanted.required,
            wanted.direction,
            wanted.position,
            number.start,
            index,
            place,
        )
        for index, wanted in enumerate(properties)
        for place, number in enumerate(numbers)
    )
    taken: set[int] = set()
    for negative_score, _, _, _, _, index, place in pairs:
        wanted, number = properties[index], numbers[place]
        if wanted.name in assigned or place in taken or -negative_score < (0.2 if wanted.required else _SURE_SCORE):
            continue
        value = _signed(_typed(number.value, wanted), wanted, evidence)
        if fits(value, wanted.schema):
            assigned[wanted.name] = (value, ((number.start, number.end),))
            taken.add(place)
    return assigned


_NAMED_NUMBER = re.compile(r"\b(\d{1,6})\s*(?:=|:|is|for|\()?\s*([a-z]{3,20})\b")


def _described(wanted: Property, evidence: Evidence) -> list[tuple[float, int, int, int]]:
    """Score, value and span of words that the description gives a number for: "2 binary, 16 hexadecimal"."""
    found = []
    for number, word in _NAMED_NUMBER.findall(wanted.description):
        for said in evidence.words:
            low = said.value.lower()
            if len(low) >= 3 and (low == word or (word.startswith(low) and len(word) > 6)):
                score = 1.0 + direction_score(wanted, evidence.preposition_before(said.start))
                found.append((score, int(number), said.start, said.end))
    return found


def _calendar(properties: Sequence[Property], context: Context) -> Assigned:
    """Month names for `month`; `year` then is the year said, else the present one."""
    evidence = context.evidence
    by_name = {wanted.name: wanted for wanted in properties}
    month = next((wanted for name, wanted in by_name.items() if wanted.words == ["month"] or name == "month"), None)
    if month is None or kind_of(month.schema) not in ("integer", "number"):
        return {}
    assigned: Assigned = {}
    this = re.search(r"\bthis month\b", evidence.text, re.IGNORECASE)
    if evidence.months:
        found = evidence.months[0]
        assigned[month.name] = (found.value, ((found.start, found.end),))
    elif this:
        assigned[month.name] = (evidence.now.month, ((this.start(), this.end()),))
    year = by_name.get("year")
    if assigned and year is not None and not any(1000 <= number.value <= 2999 for number in evidence.numbers):
        assigned[year.name] = (evidence.now.year, ())
    return {name: found for name, found in assigned.items() if fits(found[0], by_name[name].schema)}


def fill_in_order(properties: Sequence[Property], context: Context) -> Assigned:
    """Numbers in the order said for properties in the order declared: "2d6" for a count and sides."""
    numbers = [number for number in context.evidence.numbers if context.is_free(number.start, number.end)]
    pairs = list(zip(properties, numbers, strict=False))
    if not numbers or len(numbers) > len(properties) or len(properties) < 2 or len(numbers) < 2:
        return {}
    assigned: Assigned = {}
    for wanted, number in pairs:
        value = _typed(number.value, wanted)
        if fits(value, wanted.schema):
            assigned[wanted.name] = (value, ((number.start, number.end),))
    return assigned
