"""Values of an enum and of booleans that a prompt names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mcpagent.models.offline.pieces import Candidate, Context
from mcpagent.models.offline.roles import Property
from mcpagent.models.offline.words import concept, split_words, stem, word_set


def _plain(text: str) -> str:
    return " ".join(stem(word) for word in split_words(text))


_ENUM_WORDS = {"ascending": ("ascend", "a-z", "up"), "descending": ("descend", "z-a", "reverse", "down")}


def enum_values(wanted: Property, context: Context) -> Iterator[Candidate]:
    if "const" in wanted.schema:
        yield Candidate(wanted.schema["const"], (), 1.0, sure=False)
        return
    values = wanted.schema.get("enum") or []
    if len(values) == 1:
        yield Candidate(values[0], (), 0.1, sure=False)
    text = context.evidence.text
    for value in values:
        if value is None or isinstance(value, bool | dict | list) or value == "":
            continue
        for match in re.finditer(rf"(?<![\w-]){re.escape(str(value))}s?(?![\w-])", text, re.IGNORECASE):
            yield Candidate(value, ((match.start(), match.end()),), 3.0 + len(str(value)) / 100)
    stems = [(word, _plain(word.value)) for word in context.evidence.words]
    for value in values:
        if not isinstance(value, str) or not _plain(value):
            continue
        aliases = {_plain(value), _plain(value).replace(" ", "")}
        for index, (word, stemmed) in enumerate(stems):
            pair = f"{stemmed} {stems[index + 1][1]}" if index + 1 < len(stems) else stemmed
            close = len(stemmed) >= 4 and stemmed.replace(" ", "").startswith(_plain(value)) and len(_plain(value)) >= 4
            if stemmed in aliases or stemmed.replace(" ", "") in aliases or pair in aliases or close:
                end = stems[index + 1][0].end if pair in aliases and stemmed not in aliases else word.end
                yield Candidate(value, ((word.start, end),), 2.0)


_NEGATION = word_set("no not without don't dont never exclude excluding disable skip")


def booleans(wanted: Property, context: Context) -> Iterator[Candidate]:
    telling = wanted.concepts - {concept(word) for word in ("is", "include", "use", "with", "show", "enable")}
    words = context.evidence.words
    for index, word in enumerate(words):
        if any(concept(piece) in telling for piece in split_words(word.value)):
            before = {other.value.lower() for other in words[max(0, index - 2) : index]}
            yield Candidate(not before & _NEGATION, ((word.start, word.end),), 1.0, sure=len(telling) == 1)
    if wanted.required:
        yield Candidate(False, (), 0.05, sure=False)
