"""Words that tools use for what a prompt means without saying it: "how far" is about a distance."""

from __future__ import annotations

import re

from mcpagent.models.offline.arithmetic import arithmetic
from mcpagent.models.offline.evidence import Evidence

# Sentences whose words are not those that tools use: each shape adds words that tools do use.
_HINTS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), words)
    for pattern, words in (
        (r"\bwhat(?:'s| is)? (?:the )?time\b|\btime is it\b|\bhow late is it\b|\bo'?clock\b", "current time"),
        (r"\bhow far\b", "distance"),
        (r"\bhow old\b|\bage of\b", "age birth"),
        (r"\b(?:what|which) (?:week)?day\b|\bday of the week\b", "weekday date"),
        (r"\bhow (?:many days|long)\b|\bdays? (?:until|till|between|since|left)\b", "days between dates"),
        (
            r"\b\d+ (?:day|week|month|year)s? (?:from|after|before|ago)\b|\bin \d+ (?:day|week|month|year)s\b",
            "add date days",
        ),
        (r"\bwhat(?:'s| is)? (?:the |today's )?date\b|\btoday's date\b|\bwhat day is (?:it|today)\b", "current date"),
        (r"\bhow (?:big|large)\b", "size"),
        (r"\bhow many people\b|\binhabitants\b", "population"),
        (r"\bhow many\b", "count"),
        (r"\baverage\b|\bmedian\b|\bstandard deviation\b", "statistics"),
        (
            r"\bremember that\b|\b(?:make|write|take|leave|new)\b.{1,10}\bnote\b|\bnote that\b|\bwrite down\b|\bjot\b",
            "add note remember",
        ),
        (
            r"\b(?:mark|tick|check)\b.*\b(?:done|complete|completed|finished|off)\b|\bi(?: have|'ve)? finished\b",
            "complete todo",
        ),
        (r"\bremind me\b|\breminder\b|\bto-?do\b|\bi (?:need|have|must|ought) to\b", "add todo task"),
        (r"\bupper ?case\b|\blower ?case\b|\btitle ?case\b", "change case"),
        (r"\bwhat(?: has|'s)? changed\b|\buncommitted\b|^\W*(?:what|show|list|see)\b.*\bchanges\b", "diff status"),
        (r"\b(?:know|remember) about\b", "knowledge notes"),
        (r"\b(?:rows|records|entries)\b.*\btable\b|\bselect\b.+\bfrom\b", "query select"),
        (r"\bwhere am i\b|\bpwd\b|\b(?:what|which) (?:folder|directory) (?:am|are)\b", "working directory"),
        (r"\b(?:hex|hexadecimal|binary|octal)\b", "convert number base"),
        (r"\bnext (?:mon|tues|wednes|thurs|fri|satur|sun)day\b", "next weekday"),
        (r"\bfiles?\b.{1,30}\b(?:mention|mentions|contain|contains|containing)\b", "search text files"),
        (r"\b(?:what|which) files\b|\bfiles (?:are )?(?:here|there|in)\b|\bls\b", "list files"),
        (r"\bsha-?\d|\bmd5\b|\bchecksum\b", "hash"),
        (r"\b(?:last|recent|latest|newest|first)\b.*\bcommits?\b|\bcommit history\b", "log"),
        (r"\bheads or tails\b", "flip coin"),
        (r"\bin words\b|\bspell\b", "number words"),
        (r"\btip\b", "split bill tip"),
        (r"\bmoney\b", "currency"),
        (r"\bweb ?(?:site|page)s?\b", "fetch url"),
        (r"\btimes? (?:zone )?difference\b|\bhours? (?:ahead|behind|apart|between)\b", "time difference"),
        (r"\b(?:pretty|pretty-print|format|validate)\b.*\bjson\b", "format json"),
    )
)
_MEASURE = re.compile(
    r"(?<!last )(?<!first )(?<!top )\b\d[\d.,]*\s*[a-z°/²³]+(?: [a-z]+){0,3}? (?:to|in|into|as)\s+[a-z°]"
    r"|\bhow many [a-z]+(?: [a-z]+)? (?:are |is )?(?:there )?in (?:an?|one|\d)",
    re.IGNORECASE,
)


def hints_of(text: str) -> tuple[str, ...]:
    """Words that tools would use for what the sentence means."""
    hints = [word for pattern, words in _HINTS if pattern.search(text) for word in words.split()]
    if _MEASURE.search(text) and not re.search(r"\btime|o'clock|\d:\d\d|\d ?[ap]m\b", text, re.IGNORECASE):
        hints += ["convert", "units"]
    if re.search(r"\d\s?%|\bpercent\b", text):
        hints.append("percent")
    found = arithmetic(text)
    if found is not None and "percent" not in hints:
        hints += ["calculate"]
        if re.fullmatch(r"[\d.]+ \+ [\d.]+", str(found.value)):
            hints += ["sum"]
    if re.search(r"\badd(?:ed)?\b|\btogether\b", text, re.IGNORECASE) and len(re.findall(r"\d+", text)) >= 2:
        hints += ["sum"]
    return tuple(dict.fromkeys(hints))


_SHOW = re.compile(r"\W*(?:please )?(?:show|open|view|print|display|cat)\b", re.IGNORECASE)


def value_hints(evidence: Evidence) -> tuple[str, ...]:
    """ "Read README.md" is about a file, though it does not say so."""
    if evidence.urls:
        return ("fetch", "url")
    if any(path.value.endswith("/") or path.value.strip("./") == "" for path in evidence.paths):
        return ("folder",)
    if not any("." in path.value.rpartition("/")[2].strip(".") or path.value.isupper() for path in evidence.paths):
        return ()
    return ("read", "file") if _SHOW.match(evidence.text) else ("file",)
