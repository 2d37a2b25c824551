"""The part of a request that is its subject: what is left without the command and what was already understood."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mcpagent.models.offline.evidence import Evidence, Found
from mcpagent.models.offline.words import CARRIERS, COMMANDS, STOP_WORDS, WEAK_WORDS, concept, split_words, word_set

Span = tuple[int, int]

_AFTER_COLON = re.compile(r":\s+(\S.*)$", re.DOTALL)
_SAYING = re.compile(
    r"\b(?:saying|that says|with the text|with text|with content|containing|with the message)\b[:,]?\s+", re.IGNORECASE
)
_REMEMBERED = re.compile(
    r"\b(?:remember|note|notes?|down|write|remind me|know|fact)\s+(?:that|to)\s+|\bfinished\s+(?!with\b)", re.IGNORECASE
)
_TAIL_NOUNS = word_set("list lists file files folder note notes todo todos please backwards")


_OPEN_ENDS = word_set("in to from of for as with into at by")
_LIGHT = word_set("the a an this that of following me for to in with my mention mentions contain contains")


def _speaks_of(word: str, tool_concepts: frozenset[str]) -> bool:
    return any(concept(piece) in tool_concepts for piece in split_words(word))


def _is_filler(word: str, tool_concepts: frozenset[str]) -> bool:
    return all(
        piece in STOP_WORDS or piece in WEAK_WORDS or piece in CARRIERS or concept(piece) in tool_concepts
        for piece in split_words(word)
    )


def _without_command(words: list[Found], known: frozenset[str]) -> list[Found]:
    """Without the filler in front; once the command was said, only the lightest words still belong to it."""
    commanded = False
    for index, word in enumerate(words):
        low = word.value.lower()
        if not commanded and low in COMMANDS and len(words) > index + 1:
            commanded = index > 0 and _speaks_of(low, known)
            continue
        if not _is_filler(low, known) or (commanded and not _speaks_of(low, known) and low not in _LIGHT | CARRIERS):
            return words[index:]
        commanded = commanded or _speaks_of(low, known)
    return []


def _without_tail(words: list[Found], known: frozenset[str]) -> list[Found]:
    """Without "to my todo list" and the like: a last run of filler that speaks of the tool."""
    keep = len(words)
    while keep and (_is_filler(words[keep - 1].value, known) or words[keep - 1].value.lower() in _TAIL_NOUNS):
        keep -= 1
    tail = [word.value.lower() for word in words[keep:]]
    return words[:keep] if any(_speaks_of(word, known) or word in _TAIL_NOUNS for word in tail) else words


def after_announcement(evidence: Evidence) -> Found | None:
    """What follows a colon, "saying" or "remember that"."""
    for pattern in (_SAYING, _REMEMBERED):
        match = pattern.search(evidence.text)
        if match and match.end() < len(evidence.text):
            return _trimmed(evidence.text, match.end(), len(evidence.text))
    match = _AFTER_COLON.search(evidence.text)
    return _trimmed(evidence.text, match.start(1), len(evidence.text)) if match else None


def _trimmed(text: str, start: int, end: int) -> Found | None:
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    value = piece.strip().rstrip("?!. ").strip("\"'")
    return Found("word", start, end, value) if value else None


def subject(evidence: Evidence, tool_concepts: Iterable[str], used: Iterable[Span]) -> Found | None:
    """The words between the command before them and the "to my list" after them; None where nothing is left."""
    known, spans = frozenset(tool_concepts), tuple(used)
    words = [word for word in evidence.words if not any(start < word.end and word.start < end for start, end in spans)]
    words = _without_tail(_without_command(words, known), known)
    while words and words[-1].value.lower() in _OPEN_ENDS:
        words.pop()
    if all(word.value.lower() in STOP_WORDS for word in words):
        return None
    start, end = words[0].start, words[-1].end
    # Pieces understood otherwise may lie in the middle; they belong to the subject's own wording there.
    return Found("word", start, end, evidence.text[start:end].strip())


def subject_words(evidence: Evidence, tool_concepts: Iterable[str], used: Iterable[Span]) -> list[Found]:
    """The single words that neither the command nor filler explains."""
    known, spans = frozenset(tool_concepts), tuple(used)
    return [
        word
        for word in evidence.words
        if not any(start < word.end and word.start < end for start, end in spans)
        and not _is_filler(word.value, known)
        and word.value.lower() not in COMMANDS
    ]
