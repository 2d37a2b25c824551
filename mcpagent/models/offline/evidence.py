"""What a prompt holds that can become an argument: quoted strings, URLs, paths, numbers, dates, places, phrases."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, TypeAlias

from mcpagent.models.offline.dates import find_dates, find_months, find_numbers, find_times
from mcpagent.models.offline.words import CARRIERS, STOP_WORDS, split_words, word_set
from mcpagent.models.offline.zones import find_zones

Kind: TypeAlias = Literal["quoted", "url", "email", "path", "date", "time", "month", "number", "zone", "name", "word"]

MAX_READ_CHARACTERS = 4_000
"""Rules read this much of a prompt; a longer text can still be passed on whole as a payload."""


@dataclass(frozen=True, slots=True)
class Found:
    """One piece of a prompt with its place, its typed value, and the preposition before it ("" where none)."""

    kind: Kind
    start: int
    end: int
    value: Any
    preposition: str = ""

    def overlaps(self, start: int, end: int) -> bool:
        return self.start < end and start < self.end


_QUOTED = re.compile(
    r"```[^\n`]*\n(?P<fence>.*?)```|\"(?P<double>[^\"]+)\"|“(?P<curly>[^”]+)”|`(?P<tick>[^`]+)`"
    r"|(?<!\w)'(?P<single>[^'\n]+(?:'\w+[^'\n]*)*)'(?!\w)|‘(?P<thin>[^’\n]+)’",
    re.DOTALL,
)
_URL = re.compile(r"\b(?:https?|ftp|file)://[^\s<>\"']*[^\s<>\"'.,;:!?)\]]|\bwww\.[\w-]+(?:\.[\w-]+)+(?:/[^\s]*)?")
_DOMAIN = re.compile(
    r"(?<![\w@/.])[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:com|org|net|io|dev|edu|gov|co\.uk|de|fr|ai)(?:/[^\s<>\"']*)?\b"
)
_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_PATH = re.compile(
    r"(?<![\w/:.])(?:~?/[\w.@+*-]+(?:/[\w.@+*-]*)*|/(?=\s|$)|\.{1,2}/[\w./@+*-]*|\.{1,2}(?=[\s,;?!]|$)|[A-Za-z]:\\[\w.\\-]+"
    r"|[\w.@+-]+(?:/[\w.@+*-]+)+/?|[\w.@+-]+/(?=[\s?!,;]|$)|[\w@+*-]*[A-Za-z_*][\w@+*-]*\.[A-Za-z*][A-Za-z0-9]{0,7}"
    r"|\.[A-Za-z][\w-]{2,}|(?:README|LICENSE|LICENCE|Makefile|Dockerfile|CHANGELOG|NOTICE)(?=\W|$))(?![\w])"
)
_NAME = re.compile(r"[A-ZÀ-Þ][\w'’&-]*(?:[ ](?:of|the|de|da|von|van|la|le)(?= [A-ZÀ-Þ])|[ ][A-ZÀ-Þ][\w'’&-]*)*")
_CODE = re.compile(r"\b[A-Z]{2,10}-\d+\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b|(?<!\w)#\d+\b")
_LETTERS = re.compile(r"[^\W\d_][\w'’/]*")
_WORD = re.compile(r"[^\s,;:!?\"“”()\[\]{}]*[^\s,;:!?\"“”()\[\]{}.]")
_PREPOSITION = re.compile(
    r"\b(from|to|into|in|of|for|about|at|on|between|and|with|until|till|since|by|named|called|as|than|after|before|under|inside|against|or)"
    r"(?:\s+(?:the|a|an|my|our|this|city of|town of|country|file|folder|directory))?\s*[\"'“`]?$",
    re.IGNORECASE,
)
_PHRASE_END = STOP_WORDS - {"the", "a", "an", "my", "our", "more", "all", "new"}


@dataclass(frozen=True)
class Evidence:
    """A prompt, and lazily what is in it. `payload` is a longer text given along with the request (a paste, stdin)."""

    text: str
    now: datetime
    payload: str = ""
    _spans: dict[str, list[Found]] = field(default_factory=dict[str, list[Found]], repr=False, compare=False)

    def preposition_before(self, start: int) -> str:
        match = _PREPOSITION.search(self.text[max(0, start - 30) : start])
        return match[1].lower() if match else ""

    def _found(self, kind: Kind, start: int, end: int, value: Any) -> Found:
        return Found(kind, start, end, value, self.preposition_before(start))

    def _outside(self, found: list[Found], *taken: list[Found]) -> list[Found]:
        return [
            one for one in found if not any(other.overlaps(one.start, one.end) for group in taken for other in group)
        ]

    @cached_property
    def quoted(self) -> list[Found]:
        """Quoted strings, fenced blocks and pieces of JSON."""
        found = []
        for match in _QUOTED.finditer(self.text):
            group = match.lastgroup or "double"
            found.append(self._found("quoted", match.start(), match.end(), match[group].strip("\n")))
        blocks = [self._found("quoted", start, end, self.text[start:end]) for start, end in _json_spans(self.text)]
        return sorted([*blocks, *self._outside(found, blocks)], key=lambda one: one.start)

    @cached_property
    def urls(self) -> list[Found]:
        matches = [*_URL.finditer(self.text)]
        found = [self._found("url", m.start(), m.end(), m[0] if "://" in m[0] else f"https://{m[0]}") for m in matches]
        domains = [self._found("url", m.start(), m.end(), f"https://{m[0]}") for m in _DOMAIN.finditer(self.text)]
        return sorted([*found, *self._outside(domains, found)], key=lambda one: one.start)

    @cached_property
    def emails(self) -> list[Found]:
        return [self._found("email", match.start(), match.end(), match[0]) for match in _EMAIL.finditer(self.text)]

    @cached_property
    def paths(self) -> list[Found]:
        found = [
            self._found(
                "path", match.start(), match.end(), match[0].rstrip(".") if len(match[0].strip("./")) else match[0]
            )
            for match in _PATH.finditer(self.text)
            if not _looks_numeric(match[0]) and not self._is_division(match)
        ]
        inside_quotes = [one for one in self.quoted if " " not in one.value]
        long_quotes = [one for one in self.quoted if one not in inside_quotes]
        dates = [one for one in self.dates if "/" in self.text[one.start : one.end]]
        zones = [one for one in self.zones if one.value == self.text[one.start : one.end]]
        return self._outside(found, self.urls, self.emails, long_quotes, dates, zones)

    def _is_division(self, match: re.Match[str]) -> bool:
        return match[0] == "/" and self.text[: match.start()].rstrip()[-1:].isdigit()

    @cached_property
    def dates(self) -> list[Found]:
        return self._outside(
            [self._found("date", *found) for found in find_dates(self.text, self.now)], self.urls, self.quoted_sentences
        )

    @cached_property
    def times(self) -> list[Found]:
        return self._outside([self._found("time", *found) for found in find_times(self.text)], self.quoted_sentences)

    @cached_property
    def months(self) -> list[Found]:
        return [self._found("month", *found) for found in find_months(self.text)]

    @cached_property
    def zones(self) -> list[Found]:
        return [self._found("zone", *found) for found in find_zones(self.text)]

    @cached_property
    def quoted_sentences(self) -> list[Found]:
        return [one for one in self.quoted if " " in one.value.strip()]

    @cached_property
    def numbers(self) -> list[Found]:
        found = [self._found("number", *number) for number in find_numbers(self.text)]
        found = [one for one in found if one.value == one.value and abs(one.value) < 1e300]
        return self._outside(
            found, self.urls, self.emails, self.dates, self.times, self.quoted_sentences, self._path_numbers
        )

    @cached_property
    def _path_numbers(self) -> list[Found]:
        return [one for one in self.paths if any(char.isalpha() for char in one.value)]

    @cached_property
    def names(self) -> list[Found]:
        """Capitalised words: proper names, unless they only open a sentence or are everyday words."""
        found = []
        for match in _NAME.finditer(self.text):
            start, name = match.start(), re.sub(r"['’]s$", "", match[0])
            # The word that opens a sentence says nothing by its capital, but a name may follow it: "Is Paris ...".
            opens = not self.text[:start].rstrip() or self.text[:start].rstrip()[-1] in ".!?:\n"
            first, _, rest = name.partition(" ")
            if opens and (first.lower() in STOP_WORDS or (rest and not rest.islower() and first.lower() in _OPENERS)):
                start, name = start + len(first) + 1, rest
            if name and not (opens and name == first) and name.lower() not in STOP_WORDS and len(name) > 1:
                found.append(self._found("name", start, start + len(name), name))
        return self._outside(found, self.urls, self.emails, self.quoted)

    @cached_property
    def codes(self) -> list[Found]:
        """Hashes, ticket numbers and the like."""
        found = [Found("word", match.start(), match.end(), match[0]) for match in _CODE.finditer(self.text)]
        return self._outside(found, self.urls, self.emails, self.paths, self.quoted)

    @cached_property
    def words(self) -> list[Found]:
        return [Found("word", match.start(), match.end(), match[0]) for match in _WORD.finditer(self.text)]

    @cached_property
    def phrases(self) -> list[Found]:
        """What follows a preposition, up to the next filler word: "of france", "between tea and coffee"."""
        found = []
        words = self.words
        for index, word in enumerate(words):
            preposition = word.value.lower()
            if preposition not in _PHRASE_OPENERS:
                continue
            following: list[Found] = []
            for other in words[index + 1 :]:
                previous_end = following[-1].end if following else word.end
                gap = self.text[previous_end : other.start]
                low = other.value.lower()
                if re.search(r"[,;:!?()\n]|\.\s", gap) or low in _PHRASE_END or len(following) >= 6:
                    break
                following.append(other)
            while following and following[0].value.lower() in ("the", "a", "an", "my", "our"):
                following.pop(0)
            if following:
                start, end = following[0].start, following[-1].end
                found.append(Found("name", start, end, self.text[start:end], preposition))
        return found

    def word_before(self, start: int) -> str:
        before = [word for word in self.words if word.end <= start]
        return before[-1].value.lower() if before else ""

    def words_after(self, end: int, count: int = 2) -> list[str]:
        return [word.lower() for word in _LETTERS.findall(self.text[end : end + 200])[:count]]


_PHRASE_OPENERS = word_set(
    """from to into in of for about at between and with named called titled by on under inside against or until"""
)
_OPENERS = word_set(
    """what which who where when why how is are do does can could would please show list give tell get find read open
    convert calculate compute add sum create make write delete remove fetch search translate count compare
    remember note and also then now hi hello hey"""
)


def _json_spans(text: str) -> list[tuple[int, int]]:
    """Where JSON objects and arrays of objects stand in a text; at most five."""
    spans: list[tuple[int, int]] = []
    for match in itertools.islice(re.finditer(r"[{\[]\s*[\"\[{\d\]}]", text), 5):
        if spans and match.start() < spans[-1][1]:
            continue
        with contextlib.suppress(ValueError, RecursionError):
            spans.append((match.start(), json.JSONDecoder().raw_decode(text, match.start())[1]))
    return spans


def _looks_numeric(text: str) -> bool:
    return not any(char.isalpha() for char in text) and any(char.isdigit() for char in text)


def content_words(text: str) -> list[str]:
    """The words of a text that are neither filler nor mere carriers."""
    return [word for word in split_words(text) if word not in STOP_WORDS and word not in CARRIERS]


_FENCED = re.compile(r"(?:[^\n`]{0,300}\n)?(?P<fence>`{3,}|~{3,})[^\n]*\n(?P<text>.*?)\n?(?P=fence)\s*", re.DOTALL)


def _unfenced(text: str) -> str:
    """What is inside, where the whole text is one fenced block, with or without a line that names it."""
    fenced = _FENCED.fullmatch(text)
    return fenced["text"] if fenced else text


def split_payload(prompt: str) -> tuple[str, str]:
    """The request and the text that came with it: a long prompt's first or last paragraph, and all the rest."""
    prompt = prompt.strip()
    head, gap, rest = prompt.partition("\n\n")
    if gap and len(head) <= 500:
        return head.strip(), _unfenced(rest.strip())
    before, gap, tail = prompt.rpartition("\n\n")
    if gap and len(tail) <= 500:
        return tail.strip(), _unfenced(before.strip())
    return prompt[:MAX_READ_CHARACTERS], ""
