"""Split a question into parts, and find the parts that the calls so far cover: by words, without a language model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from mcpagent.values.messages import ToolCall, ToolResult

MOST_PARTS = 8

_SENTENCE = re.compile(r"(?<=[?!.;])\s+(?=\S)")
_BULLET = re.compile(r"^\s*(?:[-*•]|\(?[0-9a-h][.)])\s+")
_STARTERS = (
    "what|how|who|when|where|which|why|whose|is|are|was|does|do|did|can|could|tell|give|show|find|get|convert|calculate|"
    "compute|list|translate|send|add|look|check|count|create|write|read|search|multiply|divide|subtract|roll|flip|compare|"
    "use|say|return|fetch|open|book|set|turn|encode|decode|reverse|also|then|the"
)
_JOINED = re.compile(
    rf"(?:,\s*|\s+)(?:and\s+then|and\s+also|and|then)\s+(?=(?:{_STARTERS})\b)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]+(?:[.'][^\W_]+)*")
_EMPTY = frozenset(
    "a an and are as at be by can could did do does for from give how i in is it me my of on or please show tell that "  # noqa: SIM905
    "the then there to too was what when where which who with you your find get also use want would like need".split()
)


def parts_of(question: str) -> tuple[str, ...]:
    """Return the parts of a question, in order: sentences, list items, and the clauses that "and" or "then" joins."""
    found: list[str] = []
    lines = [_BULLET.sub("", line) for line in question.splitlines()]
    for sentence in [sentence for line in lines for sentence in _SENTENCE.split(line)]:
        for part in _JOINED.split(sentence):
            text = part.strip(" ,;")
            if _words(text) and len(text.split()) > 1 and not text.endswith(":"):
                found.append(text)
    return tuple(found[:MOST_PARTS])


def missing_parts(
    parts: Sequence[str], made: Iterable[tuple[ToolCall, ToolResult]]
) -> tuple[str, ...]:
    """Return the parts of the question that no successful call covers, judged by words in common.

    `made` are the calls so far. A part counts as covered only by words that no other part has: two questions about the
    weather differ in the town alone.
    """
    told = [
        _words(f"{call.name} {call.arguments} {result.text[:500]}")
        for call, result in made
        if not result.error
    ]
    missing: list[str] = []
    for place, part in enumerate(parts):
        others = [
            word
            for other, text in enumerate(parts)
            if other != place
            for word in _words(text)
        ]
        own = _words(part) - set(others) or _words(part)
        if not any(own & words for words in told):
            missing.append(part)
    return tuple(missing)


def _words(text: str) -> set[str]:
    """Return the content words of a text, in lower case and singular."""
    found = {word.lower() for word in _WORD.findall(text.replace("_", " "))}
    return {
        word.removesuffix("s") if len(word) > 3 else word for word in found - _EMPTY
    }


_APOLOGY = re.compile(
    r"^\W*(?:i(?:'|’)?m (?:very |so |really )?sorry|i am (?:very |so )?sorry|sorry\b|i apologi[sz]e|my apologies)"
    r"|^\W*unfortunately,? i"
    r"|\bi (?:cannot|can(?:'|’)t|am unable to|am not able to|(?:'|’)m unable to) (?:assist|help|fulfil|process|answer)",
    re.IGNORECASE,
)
_LONGEST_APOLOGY = 400


def is_apology(text: str) -> bool:
    """Return whether an answer is only an apology."""
    return len(text) <= _LONGEST_APOLOGY and _APOLOGY.search(text) is not None
