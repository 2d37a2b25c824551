"""Find the parts of a request that can become arguments: quotes, addresses, paths, dates, numbers, arithmetic, time
zones.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any
from zoneinfo import available_timezones

from mcpagent.search.words import plain


@dataclass(frozen=True, slots=True)
class Piece:
    """A value in the text, with its position. The value of an invalid date, such as 30 February, is None."""

    kind: str
    start: int
    end: int
    value: Any


_ONES = "zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_SPOKEN = {word: number for number, word in enumerate(_ONES.split("|"))}
_DIGITS = rf"(?:\d+(?:,\d{{3}})+(?:\.\d+)?|\d+(?:\.\d+)?|\b(?:{_ONES})\b)"
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_UNIT = "(?:day|week|month|year)s?"
_DAY = (
    r"(?:\d{4}-\d\d?-\d\d?|\d\d?[./]\d\d?[./]\d{4}"
    rf"|(?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTH}(?:,? \d{{4}})?\b"
    rf"|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? \d{{4}})?"
    r"|today\b|tomorrow\b|yesterday\b|christmas\b|(?:(?:next|last) )?(?:mon|tues|wednes|thurs|fri|satur|sun)day\b)"
)
_APART = re.compile(rf"(?i)(a|an|\d+|{_ONES}) ({_UNIT}) (after|before|from) ({_DAY})")
_PATTERNS = {
    "quoted": r"```[^\n`]*\n(.*?)```|\"([^\"]+)\"|“([^”]+)”|`([^`]+)`|(?<!\w)'([^'\n]+(?:'\w+[^'\n]*)*)'(?!\w)"
    r"|(?<!\w)(\{\".*\}|\[.*\])",
    "url": r"\b(?:https?|ftp|file)://[^\s<>\"']*[^\s<>\"'.,;:!?)\]]|\bwww\.[\w-]+(?:\.[\w-]+)+(?:/[^\s]*)?"
    r"|(?<![\w@/.-])[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|io|dev)\b(?:/\S*)?",
    "email": r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}",
    "colour": r"(?<!\w)#[0-9a-f]{3,8}\b",
    "date": rf"(?<![\w./-])(?:(?:a|an|\d+|{_ONES}) {_UNIT} (?:(?:after|before|from) {_DAY}|from now\b|ago\b)"
    rf"|in (?:\d+|{_ONES}) {_UNIT}\b(?! ?,? ?(?:after|before|from)\b)|{_DAY})",
    "time": r"(?<![\w:.])(?:\d{1,2}:\d\d(?: ?[ap]m\b)?|\d{1,2} ?[ap]m\b|noon\b|midnight\b)",
    "path": r"(?<![\w/:.])(?![\d/.]+(?:\s|$))(?:[~\w.@*+-]*/[\w./@+*-]*\w/?|[\w.@+-]+/(?=[\s?!,;]|$)"
    r"|[\w@+*-]*[a-z_*][\w@+*-]*\.[a-z*][a-z0-9]{0,7}|(?:README|LICENSE|Makefile)(?=\W|$)"
    r"|(?!(?:an?|the|this|that|my|our|your|each|every|new|current) )[\w-]+(?= (?:folder|directory)\b))(?![\w/])",
    "label": r"(?<![\w.-])(?-i:[A-Z]{1,10}-\d[\d-]*)(?![\w-])",  # an invoice or ticket number: A-17, OPS-1042
    "code": r"\b0[xob][0-9a-f]+\b",
    "number": rf"(?!one (?:of|from)\b)(?:(?<![\w.)])|(?<=\dd)|(?<=[$€£#]))((?:[-−](?=\d))?{_DIGITS})"
    r"(?:\s?(?:dollars?|euros?|[€$]))?",
}


def find_pieces(text: str, now: datetime) -> list[Piece]:
    """Return the values in a text in order, without values inside other values."""
    found: list[Piece] = []
    for kind, pattern in _PATTERNS.items():
        matches = re.finditer(pattern, text, re.DOTALL | re.IGNORECASE)
        found += [
            Piece(_kind(kind, match), *match.span(), _value(kind, match, now))
            for match in matches
        ]
        text = text_without(text, found)
    return sorted(found, key=lambda piece: piece.start)


def text_without(text: str, pieces: list[Piece]) -> str:
    """Return the text with NUL characters in place of the pieces, so that positions do not change."""
    for piece in pieces:
        text = (
            text[: piece.start] + "\0" * (piece.end - piece.start) + text[piece.end :]
        )
    return text


def _kind(kind: str, match: re.Match[str]) -> str:
    """Return "glob" for a path with a wildcard, which does not name a single file, else `kind`."""
    if kind == "path" and "*" in match[0]:
        return "glob"
    return kind


def _value(kind: str, match: re.Match[str], now: datetime) -> Any:
    inner = next(filter(None, match.groups()), match[0]).strip("\n")
    if kind == "date" and _lacks_year(inner, match.string):
        return None
    if kind in ("date", "time"):
        return _moment(inner.lower(), now, "%Y-%m-%d" if kind == "date" else "%H:%M")
    if kind == "number":
        return _number(inner)
    if kind == "path" and "." in inner.rpartition("/")[2]:
        return inner.removeprefix("@")  # an attachment of the chat that did not load
    if kind == "url" and "://" not in inner:
        return f"https://{inner}"
    return inner


def _lacks_year(date: str, text: str) -> bool:
    """Return whether the date has no year but another date in the text has one: "between 1 May and 1 June 2027"."""
    if not re.match(rf"(?i)(?!.*\d{{4}}).*\b{_MONTH}", date):
        return False
    return bool(re.search(rf"(?i)\b{_MONTH}(?: \d\w*,?)? \d{{4}}", text))


def _moment(text: str, now: datetime, shape: str) -> str | None:
    """Return a date or time in ISO 8601, parsed by dateparser; the day precedes the month, except in forms such as
    12/31.
    """
    import dateparser

    if apart := _APART.fullmatch(text):
        count, unit, side, anchor = apart.groups()
        day = _moment(anchor, now, "%Y-%m-%d")
        if side == "before":
            there = f"{count} {unit} ago"
        else:
            there = f"in {count} {unit}"
        if day:
            return _moment(there, datetime.fromisoformat(day), shape)
        return None
    if re.match(r"(?!(\d\d?)/\1/)0?(?:[1-9]|1[012])/0?(?:[1-9]|1[012])/", text):
        return None  # the month is ambiguous
    named = {"christmas": "25 december", "noon": "12:00", "midnight": "00:00"}.get(
        text, text
    )
    if re.match("\\d{4}-", text):
        order = "YMD"
    elif re.match("\\d\\d?/(?:1[3-9]|[23]\\d)/", text):
        order = "MDY"
    else:
        order = "DMY"
    settings = {
        "RELATIVE_BASE": now.replace(tzinfo=None),
        "PREFER_DATES_FROM": "future",
        "DATE_ORDER": order,
    }
    found: datetime | None = dateparser.parse(
        named, languages=["en"], settings=settings
    )
    if found:
        return found.strftime(shape)
    return None


def _number(text: str) -> int | float:
    plainly = text.lower().replace(",", "").replace("−", "-")
    if plainly in _SPOKEN:
        return _SPOKEN[plainly]
    if "." in plainly:
        return float(plainly)
    return int(plainly)


_MATHS = {
    r"\b(?:to the power of|raised to)\b|\*\*|\^": "**",
    r"\b(?:multiplied by|times)\b|[*×]|(?<=\d)x(?=\d)|(?<=\d )x(?= \d)": "*",
    r"\b(?:divided by|over)\b|[/÷]": "/",
    r"\bplus\b|\+": "+",
    r"\bminus\b|[-−]": "-",
    r"(?:%|\bpercent) of\b": "/ 100 *",
    r"\bmod(?:ulo)?\b|%": "%",
    r"\b(?:the )?(?:square root|sqrt) of\b": "sqrt",
    r"\b(?:sqrt|factorial|abs|round|exp|log10|log2|log|sin|cos|tan|pi)\b|[(),]": "",
    _DIGITS: "number",
}
_TOKEN = "|".join(f"({pattern})" for pattern in _MATHS)
_RANGE = r"(?:(?<=of )|(?<=from )|(?<=between ))\d+ ?[-–−] ?\d"  # a range, as in "the sum of 1-9"
_SUM = re.compile(rf"(?i)(?<![\w.#])(?!{_RANGE})(?:(?:{_TOKEN})\s*){{2,200}}")
_DONE = r"add|multiply|divide|subtract|(?:sum|product) of(?= \S+ and\b)"
_ORDERED = re.compile(
    rf"(?i)\b({_DONE}) ({_DIGITS}) (?:and|to|by|with|from) ({_DIGITS})\b"
)


def find_sum(text: str) -> list[Piece]:
    """Return the longest arithmetic expression, in Python's syntax: "the square root of 2", "15 % of 80".

    Returns [] if it is incomplete.
    """
    if ordered := _ORDERED.search(text):
        sign = {"add": "+", "sum": "+", "mul": "*", "pro": "*", "div": "/", "sub": "-"}[
            ordered[1][:3].lower()
        ]
        numbers = [str(_number(number)) for number in ordered.groups()[1:]]
        return [
            Piece(
                "sum",
                *ordered.span(),
                f" {sign} ".join(numbers[:: -1 if sign == "-" else 1]),
            )
        ]
    found = max(_SUM.finditer(text), key=lambda match: len(match[0]), default=None)
    written = ""
    if found:
        written = found[0].rstrip(" ,")
    spelled = list(_MATHS.values())
    parts = (
        (spelled[(match.lastindex or 1) - 1], match[0].lower())
        for match in re.finditer(f"(?i){_TOKEN}", written)
    )
    code = " ".join(
        str(_number(said)) if sign == "number" else sign or said for sign, said in parts
    )
    code = re.sub(r"\bsqrt (?:(-) )?([\d.]+)", r"sqrt(\1\2)", code)
    code = re.sub(r"(?<=\() | (?=[),])|(?<=[a-z\d]) (?=\()", "", code)
    try:
        is_sum = isinstance(ast.parse(code, mode="eval").body, ast.BinOp | ast.Call)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    if found and is_sum:
        return [Piece("sum", found.start(), found.start() + len(written), code)]
    return []


_PLACES = """
America/New_York: washington, boston, miami, nyc, georgia | America/Los_Angeles: san francisco, seattle, washington
UTC: utc, gmt
America/Sao_Paulo: rio de janeiro | Asia/Kolkata: mumbai, delhi, new delhi | Asia/Shanghai: beijing, china
Europe/London: uk, england | Europe/Berlin: germany, munich, frankfurt | Europe/Madrid: barcelona
"""


@cache
def _places() -> dict[str, str]:
    """Return time zones by place, from `zone.tab` and `iso3166.tab`, without ambiguous places (Georgia)."""
    texts = [
        (files("tzdata") / "zoneinfo" / name).read_text("utf-8")
        for name in ("zone.tab", "iso3166.tab")
    ]
    rows, pairs = (
        [line.split("\t") for line in text.splitlines() if line[:1] != "#"]
        for text in texts
    )
    codes, countries = [row[0] for row in rows], dict(pairs)
    named = {
        (plain(row[2].rpartition("/")[2].replace("_", " ")), row[2]) for row in rows
    }
    named |= {
        (plain(countries[row[0]]), row[2]) for row in rows if codes.count(row[0]) == 1
    }
    for zone, _, cities in (
        entry.partition(":") for entry in re.split(r"[|\n]", _PLACES.strip())
    ):
        named |= {(city.strip(), zone.strip()) for city in cities.split(",")}
    counts = Counter(place for place, _ in named)
    zones = {zone.lower(): zone for zone in available_timezones() if "/" in zone}
    return {place: zone for place, zone in named if counts[place] == 1} | zones


def find_zones(text: str) -> list[Piece]:
    """Return the IANA time zone of each place in a text, the longest names first."""
    words = list(re.finditer(r"[^\W\d_]+(?:[-'’_/][^\W\d_]+)*", text))
    found: list[Piece] = []
    for first, word in enumerate(words):
        for last in words[first : first + 3][::-1]:
            zone = _places().get(
                plain(
                    text[word.start() : last.end()].replace("’", "'").removesuffix("'s")
                )
            )
            if zone and (not found or found[-1].end <= word.start()):
                found.append(Piece("zone", word.start(), last.end(), zone))
    return found
