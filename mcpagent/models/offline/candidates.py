"""For each role, the pieces of a prompt that could fill it, and the best of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from mcpagent.models.offline.arithmetic import arithmetic
from mcpagent.models.offline.choice_candidates import booleans, enum_values
from mcpagent.models.offline.evidence import Evidence, Found
from mcpagent.models.offline.fitting import fits, kind_of
from mcpagent.models.offline.leftover import after_announcement, subject, subject_words
from mcpagent.models.offline.moment_candidates import dates, datetimes, times, zones
from mcpagent.models.offline.path_candidates import any_paths, files, folders, globs
from mcpagent.models.offline.pieces import Candidate, Context, candidate_of, direction_score
from mcpagent.models.offline.roles import Property, Role
from mcpagent.models.offline.sql_candidates import sql
from mcpagent.models.offline.unit_candidates import units
from mcpagent.models.offline.words import STOP_WORDS, concept, split_words, word_set

_GENERIC_NAMES = word_set(
    """text query date time number message name path value content file folder title pattern source target to from"""
)
_NAMING = re.compile(r"\b(?:named|called|titled|with (?:the )?(?:name|title))\s+", re.IGNORECASE)


def named_outright(wanted: Property, context: Context) -> Iterator[Candidate]:
    """`limit=5`, `title: "Plans"`, "branch main", "called Anna"."""
    evidence = context.evidence
    if not wanted.words:
        return
    spoken = r"[\s_-]?".join(wanted.words)
    if wanted.role == "label":
        # "of type person" names an entityType as well.
        spoken = f"(?:{spoken}|{wanted.words[-1]})"
    loose = wanted.role not in ("boolean", "number") and wanted.name.lower() not in _GENERIC_NAMES
    separator = r"\s*[=:]\s*|\s+(?:is|of|as|to be)?\s*" if loose else r"\s*[=:]\s*|\s+(?=[\"'“`])"
    for match in re.finditer(rf"(?<![\w-]){spoken}(?:{separator})", evidence.text, re.IGNORECASE):
        value = _value_at(evidence, match.end(), loose and not re.search(r"[=:]\s*$", match[0]))
        if value is not None:
            yield from _typed(wanted, value, match.start(), 6.0)
    if set(wanted.words) & {"name", "title", "subject"}:
        for match in _NAMING.finditer(evidence.text):
            value = _value_at(evidence, match.end(), False)
            if value is not None:
                yield from _typed(wanted, value, match.start(), 5.0)


def _value_at(evidence: Evidence, start: int, must_be_telling: bool) -> Found | None:
    for piece in (*evidence.quoted, *evidence.urls, *evidence.emails, *evidence.paths):
        if piece.start == start:
            return piece
    for name in evidence.names:
        if name.start == start:
            return name
    word = next((word for word in evidence.words if word.start == start), None)
    if word is None or (must_be_telling and (word.value.lower() in STOP_WORDS or not word.value[0].isalnum())):
        return None
    return word


def _typed(wanted: Property, found: Found, start: int, score: float) -> Iterator[Candidate]:
    value: Any = found.value
    if kind_of(wanted.schema) in ("integer", "number"):
        try:
            number = float(str(value).replace(",", ""))
        except ValueError:
            return
        value = int(number) if number.is_integer() and abs(number) < 1e18 else number
    elif kind_of(wanted.schema) == "boolean":
        if str(value).lower() not in ("true", "false", "yes", "no", "on", "off"):
            return
        value = str(value).lower() in ("true", "yes", "on")
    elif kind_of(wanted.schema) in ("array", "object"):
        return
    yield Candidate(value, ((start, found.end),), score)


def _urls(_wanted: Property, context: Context) -> Iterator[Candidate]:
    for url in context.evidence.urls:
        yield candidate_of(url)


def _emails(wanted: Property, context: Context) -> Iterator[Candidate]:
    for email in context.evidence.emails:
        yield candidate_of(email, 1.0 + direction_score(wanted, email.preposition))


def _expressions(_wanted: Property, context: Context) -> Iterator[Candidate]:
    for quote in context.evidence.quoted:
        if re.search(r"\d", quote.value):
            yield candidate_of(quote, 3.0)
    found = arithmetic(context.evidence.text)
    if found:
        yield candidate_of(found, 2.0)


_COLOUR_NAME = re.compile(
    r"\b(?:black|silver|gr[ae]y|white|maroon|red|purple|fuchsia|magenta|green|lime|olive|yellow|navy|blue|teal|aqua|cyan"
    r"|orange|pink|brown|gold|indigo|violet|turquoise|salmon|coral|crimson|beige)\b",
    re.IGNORECASE,
)


def _colours(wanted: Property, context: Context) -> Iterator[Candidate]:
    evidence = context.evidence
    for match in re.finditer(r"#[0-9a-fA-F]{3,8}\b|\b(?:rgb|hsl)a?\([^)]{1,40}\)", evidence.text):
        score = 3.0 + direction_score(wanted, evidence.preposition_before(match.start()))
        yield Candidate(match[0], ((match.start(), match.end()),), score)
    for match in _COLOUR_NAME.finditer(evidence.text):
        score = 2.0 + direction_score(wanted, evidence.preposition_before(match.start()))
        yield Candidate(match[0], ((match.start(), match.end()),), score)
    yield from _named(wanted, context)


def _ids(_wanted: Property, context: Context) -> Iterator[Candidate]:
    evidence = context.evidence
    for match in re.finditer(
        r"(?:(?<=\s)|^)#(\d+)\b|\b[A-Z]{2,10}-\d+\b|\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b",
        evidence.text,
    ):
        yield Candidate(match[1] or match[0], ((match.start(), match.end()),), 2.0, sure=False)
    for match in re.finditer(r"\bHEAD(?:[~^]\d*)*|\borigin/[\w-]+", evidence.text):
        yield Candidate(match[0], ((match.start(), match.end()),), 2.0, sure=False)
    for quote in evidence.quoted:
        yield candidate_of(quote, 1.0, sure=False)
    for number in evidence.numbers:
        yield candidate_of(number, 0.8, value=str(number.value), sure=False)


def _named(wanted: Property, context: Context) -> Iterator[Candidate]:
    evidence, known = context.evidence, wanted.tool_concepts
    for quote in evidence.quoted:
        yield candidate_of(quote, 3.0 + direction_score(wanted, quote.preposition), sure=False)
    for name in evidence.names:
        if not {concept(word) for word in split_words(name.value)} <= known:
            yield candidate_of(name, 2.0 + direction_score(wanted, name.preposition), sure=False)
    if "branch" in wanted.words or "table" in wanted.words:
        yield from _beside_noun(wanted, context)
    for phrase in evidence.phrases:
        value = re.sub(r"\s+(?:as|now|today)$", "", str(phrase.value))
        is_name = phrase.preposition != "by" and any(char.isalpha() for char in value)
        if is_name and not {concept(word) for word in split_words(value)} <= known:
            yield candidate_of(phrase, 1.0 + 0.5 * direction_score(wanted, phrase.preposition), value=value, sure=False)
    for word in subject_words(evidence, known, context.used):
        if any(char.isalpha() for char in word.value):
            yield candidate_of(word, 0.5, sure=False)


def _beside_noun(wanted: Property, context: Context) -> Iterator[Candidate]:
    nouns = {"branch", "table"} & set(wanted.words)
    words = context.evidence.words
    verbs = {"create", "new", "git", "describe", "named", "called"}
    for before, after in pairwise(words):
        if after.value.lower() in nouns and before.value.lower() not in STOP_WORDS | verbs:
            yield candidate_of(before, 2.2, sure=False)
        if before.value.lower() in nouns and after.value.lower() not in STOP_WORDS | verbs:
            yield candidate_of(after, 2.2, sure=False)


def _text(wanted: Property, context: Context) -> Iterator[Candidate]:
    evidence = context.evidence
    if evidence.payload:
        yield Candidate(evidence.payload, (), 3.0, sure=False)
    for quote in evidence.quoted:
        yield candidate_of(quote, 2.5 + direction_score(wanted, quote.preposition), sure=False)
    if "pattern" in wanted.schema:
        yield from (candidate_of(word, 2.2, sure=False) for word in evidence.words)
    if announced := after_announcement(evidence):
        yield candidate_of(announced, 1.9, sure=False)
    yield from _text_phrases(wanted, evidence)
    if left := subject(evidence, wanted.tool_concepts, context.used):
        yield candidate_of(left, 1.0, sure=False)


def _text_phrases(wanted: Property, evidence: Evidence) -> Iterator[Candidate]:
    for phrase in evidence.phrases:
        if wanted.direction:
            yield candidate_of(phrase, 0.6 + direction_score(wanted, phrase.preposition), sure=False)
        if wanted.concepts & _QUERY_CONCEPTS and phrase.preposition in ("for", "about"):
            yield candidate_of(phrase, 1.5, sure=False)


_QUERY_CONCEPTS = frozenset(concept(word) for word in word_set("query search term keyword keywords text q"))

CANDIDATES: dict[Role, Callable[[Property, Context], Iterator[Candidate]]] = {
    "enum": enum_values,
    "boolean": booleans,
    "url": _urls,
    "email": _emails,
    "zone": zones,
    "datetime": datetimes,
    "date": dates,
    "time": times,
    "expression": _expressions,
    "sql": sql,
    "glob": globs,
    "file": files,
    "folder": folders,
    "path": any_paths,
    "colour": _colours,
    "unit": units,
    "id": _ids,
    "name": _named,
    "text": _text,
}


VAGUE = word_set("everything all it them that this those these something anything stuff things one ones me us")
"""Words that name no particular thing; a tool is never run on one of them."""


def best(wanted: Property, context: Context) -> Candidate | None:
    """The best free candidate that fits the schema and is sure enough for the property; the earlier one on a tie."""
    pieces = [*named_outright(wanted, context)]
    if wanted.role in CANDIDATES:
        pieces.extend(CANDIDATES[wanted.role](wanted, context))
    usable = [
        piece
        for piece in pieces
        if (wanted.required or piece.sure)
        and not (isinstance(piece.value, str) and piece.value.lower() in VAGUE)
        and piece.score > 0
        and fits(piece.value, wanted.schema)
        and all(context.is_free(start, end) for start, end in piece.spans)
    ]
    return max(usable, key=lambda piece: (piece.score, -(piece.spans[0][0] if piece.spans else 0)), default=None)
