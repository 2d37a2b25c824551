"""Dates, times and time zones that a prompt names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mcpagent.models.offline.pieces import Candidate, Context, candidate_of, direction_score
from mcpagent.models.offline.roles import Property


def zones(wanted: Property, context: Context) -> Iterator[Candidate]:
    evidence = context.evidence
    times = evidence.times
    for zone in evidence.zones:
        text = evidence.text[zone.start : zone.end]
        score = 1.0 + direction_score(wanted, zone.preposition) + (0.5 if not text.islower() else 0.0)
        if len(text) <= 3 and text.islower() and not zone.preposition:
            score -= 0.8
        # A place right beside a time of day is where that time is: "9:00 in Tokyo".
        beside_time = any(0 <= zone.start - time.end <= 6 or 0 <= time.start - zone.end <= 3 for time in times)
        if wanted.direction and beside_time and len(evidence.zones) > 1:
            score += -2.5 * wanted.direction
        yield candidate_of(zone, score)
    used = re.search(r"[Uu]se '([A-Za-z_/+-]{2,40})' [^.]{0,60}if no", wanted.description)
    if used and wanted.required:
        yield Candidate(used[1], (), 0.05, sure=False)


def dates(wanted: Property, context: Context) -> Iterator[Candidate]:
    evidence = context.evidence
    dates = evidence.dates
    for date in dates:
        score = 1.0 + direction_score(wanted, date.preposition)
        yield candidate_of(date, score)
    today = evidence.now.date().isoformat()
    lowered = evidence.text.lower()
    one_sided = len(dates) == 1 and (
        (wanted.direction < 0 and re.search(r"\b(until|till|to|before|left|away)\b", lowered))
        or (wanted.direction > 0 and re.search(r"\b(since|passed|ago|from)\b", lowered))
    )
    if one_sided and wanted.required:
        # "How many days until Christmas" counts from today: the better choice than taking the same date.
        yield Candidate(today, (), 0.9 if dates[0].preposition else 0.5, sure=False)
    if re.search(r"\bnow\b", lowered):
        yield Candidate(today, (), 0.4, sure=False)


def datetimes(wanted: Property, context: Context) -> Iterator[Candidate]:
    evidence = context.evidence
    for match in re.finditer(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?", evidence.text):
        preposition = evidence.preposition_before(match.start())
        score = 3.0 + direction_score(wanted, preposition)
        yield Candidate(match[0].replace(" ", "T"), ((match.start(), match.end()),), score)
    for date in evidence.dates:
        time = next((one for one in evidence.times if context.is_free(one.start, one.end)), None)
        spans = ((date.start, date.end), (time.start, time.end)) if time else ((date.start, date.end),)
        value = f"{date.value}T{time.value if time else '00:00'}:00"
        yield Candidate(value, spans, 1.0 + direction_score(wanted, date.preposition))


def times(wanted: Property, context: Context) -> Iterator[Candidate]:
    for time in context.evidence.times:
        yield candidate_of(time, 1.0 + direction_score(wanted, time.preposition))
    if wanted.required and re.search(r"\bnow\b", context.evidence.text, re.IGNORECASE):
        yield Candidate(f"{context.evidence.now:%H:%M}", (), 0.2, sure=False)
