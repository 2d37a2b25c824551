"""Dates, times of day and numbers as people write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta

_MONTH_NAMES = "january february march april may june july august september october november december"
_MONTHS = _MONTH_NAMES.split()
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTH = "|".join(rf"{name}|{name[:3]}\.?" for name in _MONTHS)

_ISO = re.compile(r"\b(\d{4})-(\d{1,2})-(\d{1,2})\b")
_DOTTED = re.compile(r"\b(\d{1,2})\.(\d{1,2})\.(\d{4})\b")
_SLASHED = re.compile(r"\b(\d{1,2})/(\d{1,2})/(\d{4})\b")
_DAY_MONTH = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({_MONTH})\b(?:,? (\d{{4}}))?", re.IGNORECASE)
_MONTH_DAY = re.compile(rf"\b({_MONTH}) (\d{{1,2}})(?:st|nd|rd|th)?\b(?!:)(?:,? (\d{{4}}))?", re.IGNORECASE)
_MONTH_ALONE = re.compile(rf"\b({'|'.join(_MONTHS)})\b", re.IGNORECASE)
_RELATIVE = re.compile(
    r"\b(today|tomorrow|yesterday|christmas(?: day)?|new year(?:'s(?: day| eve)?)?|halloween)\b", re.IGNORECASE
)
_WEEKDAY = re.compile(rf"\b(?:(next|last|this|on) )?({'|'.join(_DAYS)})\b", re.IGNORECASE)
_CLOCK = re.compile(r"\b(\d{1,2}):(\d{2})(?::\d{2})?(?:\s?([ap])\.?m\b\.?)?", re.IGNORECASE)
_HOUR = re.compile(r"\b(\d{1,2})\s?([ap])\.?m\b\.?", re.IGNORECASE)
_NOON = re.compile(r"\b(noon|midday|midnight)\b", re.IGNORECASE)
_OCLOCK = re.compile(r"\b(\d{1,2}) o'?clock\b", re.IGNORECASE)

Found = tuple[int, int, str]


def _date(year: int, month: int, day: int) -> str | None:
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return None


def month_number(name: str) -> int | None:
    """1 to 12 for an English month name or its first three letters."""
    low = name.lower().rstrip(".")
    return next((number for number, month in enumerate(_MONTHS, 1) if low in (month, month[:3])), None)


def _holiday(name: str, today: date) -> date:
    if name.startswith("christmas"):
        month, day = 12, 25
    elif name.startswith("halloween"):
        month, day = 10, 31
    elif name.endswith("eve"):
        month, day = 12, 31
    else:
        month, day = 1, 1
    this_year = date(today.year, month, day)
    return this_year if this_year >= today else date(today.year + 1, month, day)


def _relative(word: str, today: date) -> date:
    shifts = {"today": 0, "tomorrow": 1, "yesterday": -1}
    return today + timedelta(days=shifts[word]) if word in shifts else _holiday(word, today)


def _weekday(which: str, name: str, today: date) -> date:
    ahead = (_DAYS.index(name) - today.weekday()) % 7
    if which == "last":
        return today - timedelta(days=(today.weekday() - _DAYS.index(name) - 1) % 7 + 1)
    return today + timedelta(days=ahead or (7 if which == "next" else 0))


def _all_dates(text: str, today: date) -> Iterator[tuple[int, int, str | None]]:
    for match in _ISO.finditer(text):
        yield match.start(), match.end(), _date(int(match[1]), int(match[2]), int(match[3]))
    for match in _DOTTED.finditer(text):
        yield match.start(), match.end(), _date(int(match[3]), int(match[2]), int(match[1]))
    for match in _SLASHED.finditer(text):
        first, second, year = int(match[1]), int(match[2]), int(match[3])
        yield match.start(), match.end(), _date(year, first, second) or _date(year, second, first)
    for match in _DAY_MONTH.finditer(text):
        yield match.start(), match.end(), _date(int(match[3] or today.year), month_number(match[2]) or 0, int(match[1]))
    for match in _MONTH_DAY.finditer(text):
        yield match.start(), match.end(), _date(int(match[3] or today.year), month_number(match[1]) or 0, int(match[2]))
    for match in _RELATIVE.finditer(text):
        yield match.start(), match.end(), _relative(match[1].lower(), today).isoformat()
    for match in _WEEKDAY.finditer(text):
        yield match.start(), match.end(), _weekday((match[1] or "").lower(), match[2].lower(), today).isoformat()


def _apart(found: Iterator[tuple[int, int, str | None]]) -> list[Found]:
    """In order of place, invalid ones and those inside an earlier one dropped."""
    kept: list[Found] = []
    for start, end, value in sorted(found, key=lambda item: (item[0], -item[1])):
        if value is not None and (not kept or start >= kept[-1][1]):
            kept.append((start, end, value))
    return kept


def find_dates(text: str, now: datetime) -> list[Found]:
    """Start, end and ISO date of every date in a text; words such as "tomorrow" count from `now`."""
    return _apart(_all_dates(text, now.date()))


def _all_times(text: str) -> Iterator[tuple[int, int, str | None]]:
    for match in _CLOCK.finditer(text):
        yield match.start(), match.end(), _clock(int(match[1]), int(match[2]), match[3])
    for match in _HOUR.finditer(text):
        yield match.start(), match.end(), _clock(int(match[1]), 0, match[2])
    for match in _OCLOCK.finditer(text):
        yield match.start(), match.end(), _clock(int(match[1]), 0, None)
    for match in _NOON.finditer(text):
        yield match.start(), match.end(), "00:00" if match[1].lower() == "midnight" else "12:00"


def _clock(hour: int, minute: int, half: str | None) -> str | None:
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half.lower() == "p" else 0)
    return f"{hour:02}:{minute:02}" if hour < 24 and minute < 60 else None


def find_times(text: str) -> list[Found]:
    """Start, end and HH:MM of every time of day in a text."""
    return _apart(_all_times(text))


def find_months(text: str) -> list[tuple[int, int, int]]:
    """Start, end and number of every full month name ("may" only with a capital)."""
    return [
        (match.start(), match.end(), month_number(match[1]) or 0)
        for match in _MONTH_ALONE.finditer(text)
        if match[1] != "may"
    ]


_NUMBER = re.compile(r"(?:(?<![\w.])|(?<=\d[dxX×]))[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\d])")
_NUMBER_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
_WORDS = _NUMBER_WORDS.split()
_TENS = {
    word: 20 + 10 * index
    for index, word in enumerate(["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"])
}
_BY_WORD: dict[str, float] = (
    {word: float(number) for number, word in enumerate(_WORDS)}
    | {word: float(number) for word, number in _TENS.items()}
    | {"dozen": 12, "hundred": 100, "thousand": 1000, "million": 1e6, "half": 0.5}
)
_SPELLED = re.compile(rf"\b(?:{'|'.join(_BY_WORD)})(?:[ -](?:{'|'.join(_BY_WORD)}))*\b", re.IGNORECASE)
_SCALE_AFTER = re.compile(r"\s?(k|thousand|million|billion|hundred)\b", re.IGNORECASE)
_SCALES = {"k": 1000, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}


def _spelled_value(words: list[str]) -> float:
    total = 0.0
    for word in words:
        value = _BY_WORD[word]
        total = max(total, 1) * value if value >= 100 else total + value
    return total


def find_numbers(text: str) -> list[tuple[int, int, int | float]]:
    """Start, end and value of every number: digits with or without commas, "2 million", "twenty-one"."""
    found: list[tuple[int, int, int | float]] = []
    for match in _NUMBER.finditer(text):
        value, end = float(match[0].replace(",", "")), match.end()
        # A minus between two numbers is an operator or a range, not a sign.
        if match[0][0] in "-+" and text[: match.start()].rstrip()[-1:].isdigit():
            value = abs(value)
        scale = _SCALE_AFTER.match(text, end)
        if scale:
            value, end = value * _SCALES[scale[1].lower()], scale.end()
        found.append((match.start(), end, int(value) if value.is_integer() else value))
    for match in _SPELLED.finditer(text):
        words = re.split(r"[ -]", match[0].lower())
        if all(not start <= match.start() < end for start, end, _ in found):
            value = _spelled_value(words)
            found.append((match.start(), match.end(), int(value) if value.is_integer() else value))
    return sorted(found)
