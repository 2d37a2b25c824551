"""Which of some tools serves a need: its words against the tool's, and whether the prompt holds what it requires."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcpagent.models.offline.arguments import Filled, fill
from mcpagent.models.offline.evidence import Evidence
from mcpagent.models.offline.intent import Need
from mcpagent.models.offline.words import (
    CARRIERS,
    COMMANDS,
    STOP_WORDS,
    WEAK_WORDS,
    concept,
    concepts,
    split_words,
    word_set,
)

_CLOSE_LOOKS = 12
"""Tools whose arguments are tried out, after the words have sorted all of them."""

_NONE: Mapping[str, Any] = {}

FIT = 1.0
"""A score from here on means that the tool is about what was asked."""

_CHANGING = {
    concept(word)
    for word in word_set(
        """delete remove drop reset kill write create update insert edit move rename send post publish commit push merge
    add append set upload purchase pay close cancel stop restart install execute toggle trigger clear truncate
    revoke approve assign complete checkout"""
    )
}
_SAME_DEED = {
    concept("create"): ("make", "new", "add", "remember", "write", "store", "note"),
    concept("add"): (
        "append",
        "put",
        "insert",
        "remember",
        "note",
        "create",
        "new",
        "write",
        "remind",
        "plus",
        "sum",
        "stage",
    ),
    concept("write"): ("create", "save", "make", "put", "store", "overwrite"),
    concept("delete"): ("drop", "clear", "forget", "cancel", "purge"),
    concept("complete"): ("done", "finish", "mark", "check", "tick"),
    concept("execute"): ("run", "eval", "query", "select"),
    concept("move"): ("rename",),
    concept("update"): ("change", "edit", "set", "modify"),
    concept("edit"): ("change", "update", "replace", "modify"),
    concept("send"): ("post", "write", "tell", "message", "email", "mail"),
    concept("checkout"): ("switch",),
    concept("set"): ("change", "update", "make"),
}


@dataclass(frozen=True, slots=True)
class ToolView:
    """A tool as far as it is seen: an offered definition, or a search result with the schema its signature tells."""

    name: str
    description: str
    schema: Mapping[str, Any]
    server: str = ""
    original_name: str = ""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A tool with its score for the need and the arguments that the prompt gives for it."""

    tool: ToolView
    score: float
    filled: Filled


def _weight(word: str) -> float:
    return 0.25 if word in WEAK_WORDS or word in CARRIERS else 1.0


def _own_words(tool: ToolView) -> list[str]:
    name = tool.original_name or tool.name.rpartition("__")[2]
    server = {concept(word) for word in split_words(tool.server)}
    telling = [word for word in split_words(name) if word not in WEAK_WORDS | CARRIERS | STOP_WORDS]
    words = telling or split_words(name)
    # "git_log" of the server "git": the prefix tells no two of its tools apart.
    return [word for word in words if concept(word) not in server] or words


def _deeds(tool: ToolView) -> list[str]:
    """Verbs at the front of the tool's name that change something."""
    return [deed for word in _own_words(tool)[:2] if (deed := concept(word)) in _CHANGING]


def changes_something(tool: ToolView) -> bool:
    """Whether the tool's name says that it changes something."""
    return bool(_deeds(tool))


def _is_unasked_change(tool: ToolView, need: Need) -> bool:
    """Whether the tool would change something that nobody told it to: "show the commits" is not "commit"."""
    deeds = _deeds(tool)
    asked = {concept(word) for word in (*need.deeds, *need.hints)}
    return bool(deeds) and not any(
        {deed, *(concept(word) for word in _SAME_DEED.get(deed, ()))} & asked for deed in deeds
    )


def need_concepts(need: Need) -> frozenset[str]:
    """What the need speaks of, as concepts."""
    return frozenset(concept(word) for word in (*need.keywords, *need.hints))


@dataclass(frozen=True, slots=True)
class _Spoken:
    """The concepts that a tool's name, description and parameters speak of."""

    name: frozenset[str]
    described: frozenset[str]
    parameters: frozenset[str]

    def hit(self, term: str) -> float:
        return 3.0 if term in self.name else 1.4 if term in self.described else 0.9 if term in self.parameters else 0.0


def _spoken(tool: ToolView) -> _Spoken:
    properties = tool.schema.get("properties")
    names = [str(key) for key in properties] if isinstance(properties, Mapping) else []
    return _Spoken(
        frozenset(concept(word) for word in (*split_words(tool.name), *split_words(tool.original_name))),
        frozenset(concepts(_opening(tool.description))),
        frozenset(concept(word) for name in (*names, tool.server) for word in split_words(name)),
    )


def word_score(need: Need, tool: ToolView, values: frozenset[str] = frozenset()) -> float:
    """How much of the need's words the tool speaks of, and how much of the tool's name was asked for.

    `values` are words that became arguments, so the tool need not speak of them.
    """
    spoken = _spoken(tool)
    wanted: dict[str, float] = {}
    for word in need.keywords:
        wanted[concept(word)] = max(wanted.get(concept(word), 0.0), _weight(word))
    optional = {concept(hint) for hint in need.hints} - wanted.keys()
    wanted |= dict.fromkeys(optional, 0.6)
    reached = sum(weight * spoken.hit(term) for term, weight in wanted.items())
    if not any(spoken.hit(term) > 1.0 for term in wanted):
        return 0.0
    total = sum(
        weight for term, weight in wanted.items() if spoken.hit(term) or (term not in optional and term not in values)
    )
    own = [concept(word) for word in _own_words(tool)]
    precise = sum(term in wanted for term in own) / len(own) if own else 0.0
    return reached / max(total, 0.8) + 1.2 * precise + _obedience(need, tool) - _unmet(need, spoken, values)


def _obedience(need: Need, tool: ToolView) -> float:
    """A tool named after the command is preferred; one that only looks does not serve a command to change something."""
    told = {concept(deed) for deed in need.deeds}
    if told & {concept(word) for word in _own_words(tool)}:
        return 0.8
    return -0.6 if told & _CHANGING and not _deeds(tool) else 0.0


def _unmet(need: Need, spoken: _Spoken, values: frozenset[str]) -> float:
    """The price of things asked for that the tool does not speak of; higher where it speaks of none of them."""
    things = {concept(word) for word in need.keywords if word not in COMMANDS | CARRIERS | WEAK_WORDS}
    unmet = [thing for thing in things if not spoken.hit(thing) and thing not in values]
    meant = {concept(hint) for hint in need.hints}
    met = any(spoken.hit(thing) > 1.0 for thing in things | meant)
    # A hint stands for some of the words: "web page" is met by a tool named "fetch".
    limit = 0.35 if meant & spoken.name else 1.4
    return min(0.35 * len(unmet), limit) + (0.8 if unmet and not met else 0.0)


def _opening(description: str) -> str:
    return " ".join(re.split(r"(?<=[.!?])\s", description[:600])[:2])[:300]


def _value_score(evidence: Evidence, filled: Filled, known: Mapping[str, Any]) -> float:
    """Whether what the tool requires is there, and what is there is used."""
    missing = [path for path in filled.missing if path.partition(".")[0] not in known]
    score = -(1.1 + 0.5 * len(missing)) if missing else 0.0
    score -= 0.15 * filled.guessed
    if filled.arguments and not missing:
        score += 0.4
    pieces = [*evidence.quoted, *evidence.urls, *evidence.dates, *evidence.times, *_telling_numbers(evidence)]
    pieces += [path for path in evidence.paths if "/" in path.value or "." in path.value]
    pieces += evidence.codes
    unused = [piece for piece in pieces if not any(piece.overlaps(*span) for span in filled.spans)]
    return score - 0.35 * min(len(unused), 3)


_NAMED = re.compile(r"(\w+)\W+[A-Z\d\"']")
"""A word and a value that is no plain word: "capital Nairobi"."""


def _takes_what_is_asked_for(need: Need, evidence: Evidence, tool: ToolView, filled: Filled) -> bool:
    """Whether what is asked for is what the tool must be given: "the capital of France" is not for `f(capital)`."""
    if {concept(deed) for deed in need.deeds} & _CHANGING:
        return False
    asked = {concept(word) for word in need.keywords if word not in CARRIERS | WEAK_WORDS | COMMANDS}
    required = tool.schema.get("required")
    for name in required if isinstance(required, list) else ():
        words = split_words(str(name))
        if len(words) != 1 or concept(words[0]) not in asked or name not in filled.untyped:
            continue
        given = [evidence.word_before(start) for start, _ in filled.spans]
        openings = [
            split_words(found[1]) for start, end in filled.spans if (found := _NAMED.match(evidence.text[start:end]))
        ]
        if concept(words[0]) not in {concept(word) for group in (given, *openings) for word in group}:
            return True
    return False


def _telling_numbers(evidence: Evidence) -> list[Any]:
    return [number for number in evidence.numbers if evidence.text[number.start : number.end][:1].isdigit()]


def rank(
    need: Need,
    evidence: Evidence,
    tools: Sequence[ToolView],
    *,
    searched: bool = False,
    known: Mapping[str, Any] = _NONE,
) -> list[Ranked]:
    """The tools that fit the need, best first, those of equal score as given.

    `searched`: the tools are what a search gave, best first, so their order counts a little. `known`: arguments of an
    earlier call that the need refers to.
    """
    scored = [
        (word_score(need, tool), place, tool) for place, tool in enumerate(tools) if not _is_unasked_change(tool, need)
    ]
    scored = [item for item in scored if item[0] != 0.0]
    scored.sort(key=lambda item: (-item[0], item[1]))
    ranked = []
    for _, place, tool in scored[:_CLOSE_LOOKS]:
        filled = fill(tool.name, tool.description, tool.schema, evidence)
        score = word_score(need, tool, _value_words(evidence, filled)) + _value_score(evidence, filled, known)
        score -= 2.0 * _takes_what_is_asked_for(need, evidence, tool, filled)
        score -= (0.05 * place if searched else 0.0) + (0.5 if "DEPRECATED" in tool.description[:300] else 0.0)
        ranked.append(Ranked(tool, score, filled))
    ranked.sort(key=lambda item: -item.score)
    return [item for item in ranked if item.score >= FIT]


def _value_words(evidence: Evidence, filled: Filled) -> frozenset[str]:
    """Words that became arguments by their form; what a free text swallowed says nothing for the tool."""
    spans = [span for span in filled.spans if span not in filled.loose_spans]
    pieces = [evidence.text[start:end] for start, end in spans]
    # "10 lines" is one value: what a number counts belongs to it.
    numbers = [end for start, end in spans if evidence.text[start].isdigit()]
    counted = [word for end in numbers for word in evidence.words_after(end, 1)]
    return frozenset(concept(word) for word in split_words(" ".join((*pieces, *counted))))
