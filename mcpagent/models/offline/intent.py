"""What a prompt asks for: small talk or needs, one need per tool call or so, and the words to search tools with."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mcpagent.models.offline.evidence import Evidence, Found
from mcpagent.models.offline.hints import hints_of, value_hints
from mcpagent.models.offline.words import (
    CARRIERS,
    COMMANDS,
    STOP_WORDS,
    WEAK_WORDS,
    concept,
    split_words,
    synonyms,
    word_set,
)

MAX_NEEDS = 5

_GREETING = re.compile(
    r"^\W*(?:hi|hey|hello|howdy|good (?:morning|evening|afternoon)|yo)(?: there| everyone| all)?\b[^\w]*$",
    re.IGNORECASE,
)
_THANKS = re.compile(
    r"^\W*(?:thanks?|thank you|thx|cheers|great|nice|cool|perfect|ok(?:ay)?|bye|goodbye)\b[\w\s,!.]{0,20}$",
    re.IGNORECASE,
)
_CANCEL = re.compile(
    r"^\W*(?:never ?mind|cancel|forget (?:it|about it)|no(?:pe)?(?:,? thanks?| thank you)?|stop|nothing|leave it)\W*$",
    re.IGNORECASE,
)
_WHO = re.compile(
    r"\b(?:who|what) (?:are|r) you\b|\byour name\b|\bare you (?:an? )?(?:ai|bot|real|llm|human)\b|^\W*how are you\b",
    re.IGNORECASE,
)
_ABILITY = re.compile(
    r"\bwhat (?:all )?(?:can|could) (?:you|i|we) (?:do|ask|use)|^\W*help\W*$|\bhelp me get started\b"
    r"|\b(?:what|which|list|show)\b[\w\s]{0,20}\btools\b[^.]{0,30}$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Need:
    """One thing asked for. `about` is the text whose words choose the tool, where it is not the need's own.

    `keywords` are searched for; `hints` stand for what the sentence means without saying it; `deeds` is the verb of a
    command, empty for a question.
    """

    text: str
    about: str
    keywords: tuple[str, ...]
    hints: tuple[str, ...]
    deeds: tuple[str, ...] = ()
    verbless: bool = False


_SMALL_TALK = (
    ("greeting", _GREETING),
    ("thanks", _THANKS),
    ("cancel", _CANCEL),
    ("ability", _ABILITY),
    ("who", _WHO),
)


def small_talk(prompt: str) -> str | None:
    """Which kind of small talk the whole prompt is, by its name in `_SMALL_TALK`; None where it is none."""
    text = prompt.strip()
    if not re.search(r"\w", text):
        return "greeting"
    for kind, pattern in _SMALL_TALK:
        if len(text) <= 120 and pattern.search(text):
            return kind
    return None


# -- several needs ---------------------------------------------------------------------------------------------------

_BREAK = re.compile(
    r"\s*(?:[;\n]+|[.?!](?=\s)|,?\s+and then\b|,?\s+then\b|,\s*and\b"
    r"|,?\s+and also\b|,?\s+also\b|,|\s+and\b|\s+plus\b(?=\s+\w+\s))\s*",
    re.IGNORECASE,
)


def _starts_request(piece: str) -> bool:
    words = re.findall(r"[\w']+", piece.lower())
    while words and words[0] in ("please", "also", "then", "now", "and", "can", "could", "you", "i", "want", "to"):
        words.pop(0)
    return bool(words) and words[0] in COMMANDS


_CONNECTION = re.compile(r"^(?:(?:and|then|also)\b[\s,]*)+", re.IGNORECASE)
_CONTINUES = re.compile(r"^(?:in|at|for|of|from|on)\s+\S+", re.IGNORECASE)
_AMOUNT_AGAIN = re.compile(r"^[-+]?[\d.,]+\s*[a-z°]+\s+(?:to|in|into)\s+\w+", re.IGNORECASE)


def split_needs(prompt: str) -> list[str]:
    """The prompt cut where another request begins, never inside quotes; at most five pieces."""
    masked = re.sub(
        r"```.*?```|\"[^\"]*\"|“[^”]*”|`[^`]*`|(?<!\w)'[^'\n]*'(?!\w)",
        lambda m: "\0" * len(m[0]),
        prompt,
        flags=re.DOTALL,
    )
    pieces: list[str] = []
    start = 0
    for match in _BREAK.finditer(masked):
        rest = masked[match.end() :]
        strong = match[0].strip()[:1] in ";.?!\n" or "\n" in match[0] or "then" in match[0].lower()
        here = prompt[start : match.start()].strip()
        if not here or not rest.strip() or not re.search(r"\w|\0", rest):
            continue
        if not strong and re.match(r"\W*(?:and|or)\b", rest, re.IGNORECASE):
            continue
        begins = _starts_request(rest) or _AMOUNT_AGAIN.match(rest) or (_CONTINUES.match(rest) and "," not in match[0])
        if len(pieces) < MAX_NEEDS - 1 and begins and (strong or _is_whole(masked[start : match.start()])):
            pieces.append(here)
            start = match.end()
    pieces.append(prompt[start:].strip())
    pieces[1:] = [_CONNECTION.sub("", piece) for piece in pieces[1:]]
    return [piece for piece in pieces if not _is_courtesy(piece)] or [prompt.strip()]


def _is_whole(piece: str) -> bool:
    """Whether the words before a comma or "and" are a request of their own."""
    return len(re.findall(r"\w+|\0+", piece)) >= 2


def _is_courtesy(piece: str) -> bool:
    return bool(_GREETING.match(piece) or _THANKS.match(piece)) or piece.lower().strip(" .!,") in ("please", "")


# -- one need --------------------------------------------------------------------------------------------------------


def _subject_spans(evidence: Evidence) -> list[Found]:
    """Pieces that are values rather than words about the task."""
    capitals = [name for name in evidence.names if name.start > 0]
    zones = [zone for zone in evidence.zones if zone.preposition or not evidence.text[zone.start : zone.end].islower()]
    paths = [path for path in evidence.paths if "." in path.value or "/" in path.value]
    moments = [*evidence.dates, *evidence.times]
    return [*evidence.quoted, *evidence.urls, *evidence.emails, *paths, *evidence.numbers, *moments, *capitals, *zones]


def keywords_of(evidence: Evidence) -> tuple[str, ...]:
    """The words of a request that say what is to be done, values and filler left out; as written, in lower case."""
    values = _subject_spans(evidence)
    kept = [
        piece
        for word in evidence.words
        if not any(value.overlaps(word.start, word.end) for value in values)
        for piece in split_words(word.value)
        if piece not in STOP_WORDS and len(piece) > 1
    ]
    return tuple(dict.fromkeys(kept))


def need_of(evidence: Evidence) -> Need:
    """What one piece of a prompt asks for."""
    text = evidence.text
    hints, keywords = tuple(dict.fromkeys((*hints_of(text), *value_hints(evidence)))), keywords_of(evidence)
    if evidence.times and evidence.zones and "current" in hints:
        # A time of day that is given is to be converted, not asked for.
        hints = ("convert", *(hint for hint in hints if hint != "current"))
    deeds = _deeds(text)
    if "sum" in hints:
        # Among numbers "add" is arithmetic; elsewhere it puts something into a list.
        keywords, deeds = tuple(word for word in keywords if word not in ("add", "together")), ()
    telling = [word for word in keywords if word not in WEAK_WORDS and word not in CARRIERS]
    follows = _FOLLOWS.match(text) is not None or not hints_of(text) or not _starts_request(text)
    verbless = not telling and follows
    return Need(text, text, keywords, hints, deeds, verbless)


_FOLLOWS = re.compile(r"\W*(?:and|or|what about|how about|same for)\b", re.IGNORECASE)
_BEFORE_VERB = word_set(
    """please can could would you i we want to need like let's lets just now also then and go ahead kindly hey hi first
    next finally so ok okay"""
)
_LOOKING = word_set(
    """what what's whats which who where when why how is are was were do does did show list give tell get find read see
    view display print look search describe has have"""
)


def _deeds(text: str) -> tuple[str, ...]:
    """The verb that opens a command: "please delete a.txt" is about deleting, "which files were deleted" is not."""
    words = re.findall(r"[a-z']+", text.lower()[:200])
    while words and words[0] in _BEFORE_VERB:
        words.pop(0)
    return (words[0],) if words and words[0] not in _LOOKING else ()


def search_query(need: Need) -> str:
    """A short query of the need's own words; its hints where it has none."""
    telling = [word for word in need.keywords if word not in WEAK_WORDS] or list(need.keywords)
    own = telling[:6]
    concepts = {concept(word) for word in own}
    extra = [hint for hint in need.hints if concept(hint) not in concepts][: 4 if len(own) < 2 else 2]
    return " ".join([*own, *extra]) or " ".join(need.hints) or " ".join(split_words(need.about)[:6])


def second_query(need: Need) -> str:
    """Other words for the same, for when the first query found nothing that fits: the hints, else synonyms."""
    telling = [word for word in need.keywords if word not in WEAK_WORDS and word not in CARRIERS]
    others = [other for word in telling[:4] if word not in COMMANDS for other in synonyms(word)[:2]]
    return " ".join(need.hints or dict.fromkeys(others) or telling[:2])


def is_new_request(prompt: str) -> bool:
    """Whether a prompt is a request of its own rather than the answer to a question."""
    return _starts_request(prompt) or small_talk(prompt) is not None or len(prompt) > 300
