"""Arguments for a tool out of a prompt: typed by its schema, taken from what the prompt says, never invented."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mcpagent.models.offline.candidates import VAGUE, best
from mcpagent.models.offline.evidence import Evidence, Found
from mcpagent.models.offline.fitting import fits, kind_of, resolve
from mcpagent.models.offline.leftover import Span, after_announcement, subject
from mcpagent.models.offline.numbering import assign_numbers, fill_in_order
from mcpagent.models.offline.pieces import Candidate, Context
from mcpagent.models.offline.roles import ROLE_ORDER, Property
from mcpagent.models.offline.words import concept, concepts, split_words, word_set

_MAX_PROPERTIES = 60
_MAX_DEPTH = 3


@dataclass(frozen=True, slots=True)
class Filled:
    """`missing` names required properties that the prompt says nothing for. `spans` are the pieces that were used.

    `guessed` counts required values that rest on position alone, so a tool that fits better is preferred.
    `assumed` names properties whose value no piece of the prompt gave (a schema's own fallback, "." for here).
    `untyped` names those whose value could have been any text; `loose_spans` are the pieces they took.
    """

    arguments: dict[str, Any]
    missing: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    guessed: int = 0
    assumed: frozenset[str] = frozenset()
    untyped: frozenset[str] = frozenset()
    loose_spans: tuple[Span, ...] = ()


@dataclass(slots=True)
class _Filling:
    """Arguments as they come together."""

    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    spans: list[Span] = field(default_factory=list[Span])
    guessed: int = 0
    assumed: set[str] = field(default_factory=set[str])
    loose_spans: list[Span] = field(default_factory=list[Span])

    def take(self, name: str, value: Any, spans: tuple[Span, ...], *, loose: bool = False) -> None:
        self.arguments[name] = value
        if loose:
            self.loose_spans.extend(spans)
        if not spans:
            self.assumed.add(name)
        self.spans.extend(spans)


def tool_concepts(name: str, description: str) -> frozenset[str]:
    """What a tool's name and first sentence speak of."""
    sentence = re.split(r"(?<=[.!?])\s|\n", description.strip(), maxsplit=1)[0]
    return frozenset((*concepts(name), *concepts(sentence[:200])))


def fill(name: str, description: str, schema: Mapping[str, Any], evidence: Evidence) -> Filled:
    """The arguments for one call of the tool, out of one prompt."""
    return _fill_object(schema, schema, _about(name, description), Context(evidence), 0)


def _about(name: str, description: str) -> frozenset[str]:
    return frozenset((*tool_concepts(name, description), *(concept(word) for word in split_words(name))))


def following_up(filled: Filled, earlier: Mapping[str, Any], schema: Mapping[str, Any], *, same_tool: bool) -> Filled:
    """The arguments where this call follows up an earlier one: what this prompt leaves open stays as it was."""
    known = resolve(schema, schema).get("properties")
    open_names = {path.partition(".")[0] for path in filled.missing} | filled.assumed
    kept = {
        key: value
        for key, value in earlier.items()
        if isinstance(known, Mapping)
        and key in known
        and (key in open_names or (same_tool and key not in filled.arguments))
    }
    missing = tuple(path for path in filled.missing if path.partition(".")[0] not in kept)
    return replace(
        filled, arguments={**filled.arguments, **kept}, missing=missing, assumed=filled.assumed - kept.keys()
    )


_JOINED = re.compile(
    r"[\s,?'\"`]*(?:(?:and|or|&)\b\s*)?(?:(?:in|at|of|for|from|about)\s+)?(?:the\s+)?['\"`]?", re.IGNORECASE
)
_REPEATABLE = word_set("zone url file path folder name colour email")
_MAX_REPEATS = 5


def fill_each(
    name: str, description: str, schema: Mapping[str, Any], evidence: Evidence, first: Filled
) -> list[Filled]:
    """`first`, and one more for each further value of its one argument: "the time in Tokyo, Paris and Rome"."""
    about = _about(name, description)
    filled = [first]
    required = [wanted for wanted in _properties(schema, schema, about) if wanted.name in first.arguments]
    if first.missing or len(required) != 1 or required[0].role not in _REPEATABLE or len(first.spans) != 1:
        return filled
    spans = list(first.spans)
    while len(filled) < _MAX_REPEATS:
        following = best(required[0], Context(evidence, tuple(spans)))
        if following is None or len(following.spans) != 1 or following.score < 1.0:
            break
        start, end = following.spans[0]
        if start < spans[-1][1] or not _JOINED.fullmatch(evidence.text[spans[-1][1] : start]):
            break
        spans.append((start, end))
        filled.append(replace(first, arguments={required[0].name: following.value}, spans=((start, end),)))
    return filled


def _properties(schema: Mapping[str, Any], root: Mapping[str, Any], about: frozenset[str]) -> list[Property]:
    plain = resolve(schema, root)
    declared, listed = plain.get("properties"), plain.get("required")
    if not isinstance(declared, Mapping):
        return []
    required = listed if isinstance(listed, list) else []
    return [
        Property(name, resolve(inner, root), name in required, position, about)
        for position, (name, inner) in enumerate(list(declared.items())[:_MAX_PROPERTIES])
        if isinstance(name, str)
    ]


def _order(wanted: Property) -> tuple[int, bool, int, int]:
    return ROLE_ORDER.index(wanted.role), not wanted.required, wanted.direction, wanted.position


_BY_FORM = 2.0
"""Candidates from this score on are quoted, capitalised or named outright rather than just left over."""

_FREE = ("text", "name", "label", "id", "array", "object")


def _fill_object(
    schema: Mapping[str, Any], root: Mapping[str, Any], about: frozenset[str], context: Context, depth: int
) -> Filled:
    properties = _properties(schema, root, about)
    filling = _Filling(spans=list(context.used))
    numeric = [wanted for wanted in properties if wanted.role == "number"]
    numbers_done = False
    missing: list[str] = []
    for wanted in sorted(properties, key=_order):
        here = Context(context.evidence, tuple(filling.spans))
        if wanted.role == "number":
            if not numbers_done:
                numbers_done = True
                _take_numbers(numeric, filling, here)
        elif wanted.role in ("array", "object"):
            missing.extend(_take_nested(wanted, root, filling, here, depth))
        else:
            candidate = best(wanted, here)
            if candidate:
                filling.take(
                    wanted.name, candidate.value, candidate.spans, loose=wanted.role in _FREE and candidate.score < 2.0
                )
                filling.guessed += candidate.score < 1.0
    _only_optional(properties, filling, context)
    missing.extend(_undeclared(schema, root, properties))
    missing.extend(
        wanted.name
        for wanted in properties
        if wanted.required and wanted.name not in filling.arguments and not _has_default(wanted)
        if not any(path.partition(".")[0] == wanted.name for path in missing)
    )
    untyped = frozenset(one.name for one in properties if one.role in _FREE and one.name in filling.arguments)
    ordered = {wanted.name: filling.arguments[wanted.name] for wanted in properties if wanted.name in filling.arguments}
    return Filled(
        ordered,
        tuple(missing),
        tuple(filling.spans),
        filling.guessed,
        frozenset(filling.assumed),
        untyped,
        tuple(filling.loose_spans),
    )


def _undeclared(schema: Mapping[str, Any], root: Mapping[str, Any], properties: Sequence[Property]) -> list[str]:
    """Required names that the schema says nothing else about: nothing can be chosen for them."""
    listed, known = resolve(schema, root).get("required"), {wanted.name for wanted in properties}
    return [name for name in listed if isinstance(name, str) and name not in known] if isinstance(listed, list) else []


def _has_default(wanted: Property) -> bool:
    return wanted.schema.get("default") is not None


def _take_numbers(numeric: list[Property], filling: _Filling, context: Context) -> None:
    for wanted in numeric:
        candidate = best(wanted, context)
        if candidate and all(context.is_free(*span) for span in candidate.spans):
            filling.take(wanted.name, candidate.value, candidate.spans)
            context = Context(context.evidence, tuple(filling.spans))
    rest = [wanted for wanted in numeric if wanted.name not in filling.arguments]
    for name, (value, spans) in assign_numbers(rest, context).items():
        filling.take(name, value, spans)
    for wanted in rest:
        # "how many feet are in a mile": the article stands for one.
        if wanted.name not in filling.arguments and wanted.required and not context.evidence.numbers:
            single = re.search(r"\b(?:in|of|is|for) (an?) (?=\w)", context.evidence.text)
            if single and {"value", "amount", "quantity"} & set(wanted.words) and fits(1, wanted.schema):
                filling.take(wanted.name, 1, (single.span(1),))


def _only_optional(properties: list[Property], filling: _Filling, context: Context) -> None:
    """A tool that requires nothing still means what was said: its numbers in order, its one name or text."""
    if any(wanted.required for wanted in properties) or filling.arguments:
        return
    here = Context(context.evidence, tuple(filling.spans))
    numeric = [wanted for wanted in properties if wanted.role == "number"]
    for name, (value, spans) in fill_in_order(numeric, here).items():
        filling.take(name, value, spans)
    texts = [wanted for wanted in properties if wanted.role in ("name", "text")]
    if texts and not filling.arguments:
        wanted = texts[0]
        said = Property(wanted.name, wanted.schema, True, wanted.position, wanted.tool_concepts)
        candidate = best(said, here)
        if candidate and candidate.score >= 2.0:
            filling.take(wanted.name, candidate.value, candidate.spans)


# -- arrays and objects ----------------------------------------------------------------------------------------------


def _take_nested(
    wanted: Property, root: Mapping[str, Any], filling: _Filling, context: Context, depth: int
) -> list[str]:
    """Fills an array or object property; gives the paths of what is missing in it."""
    if depth >= _MAX_DEPTH:
        return []
    if wanted.role == "object":
        inner = _fill_object(wanted.schema, root, wanted.tool_concepts, context, depth + 1)
        if inner.arguments and not inner.missing and (wanted.required or len(inner.spans) > len(context.used)):
            filling.take(wanted.name, inner.arguments, inner.spans)
            return []
        return [f"{wanted.name}.{path}" for path in inner.missing] if wanted.required and inner.arguments else []
    items = resolve(wanted.schema.get("items"), root)
    if kind_of(items) == "object":
        inner = _fill_object(items, root, wanted.tool_concepts | wanted.concepts, context, depth + 1)
        if wanted.required and inner.arguments and not inner.missing and fits([inner.arguments], wanted.schema):
            filling.take(wanted.name, [inner.arguments], inner.spans)
            filling.loose_spans.extend(inner.loose_spans)
            return []
        return [f"{wanted.name}.{path}" for path in inner.missing] if wanted.required and inner.arguments else []
    values, spans = _listed(wanted, items, context)
    # What does not fit one by one is left out, so that a list of addresses holds addresses only.
    values = [value for value in values if fits(value, items)]
    if values and fits(values, wanted.schema):
        filling.take(wanted.name, values, spans, loose=len(values) < 2 and kind_of(items) in ("string", ""))
    return []


def _listed(wanted: Property, items: Mapping[str, Any], context: Context) -> tuple[list[Any], tuple[Span, ...]]:
    kind = kind_of(items)
    evidence = context.evidence
    if kind in ("number", "integer"):
        pieces = [one for one in evidence.numbers if context.is_free(one.start, one.end)] if wanted.required else []
        values = [
            int(one.value) if kind == "integer" and float(one.value).is_integer() else one.value for one in pieces
        ]
        return values, tuple((one.start, one.end) for one in pieces)
    if kind not in ("string", ""):
        return [], ()
    one = Property(wanted.name.removesuffix("s") or wanted.name, items, True, 0, wanted.tool_concepts)
    if one.role not in ("text", "name", "id"):
        return _typed_items(one, context)
    if not wanted.required:
        return [], ()
    return _spoken_items(wanted, context)


def _typed_items(one: Property, context: Context) -> tuple[list[Any], tuple[Span, ...]]:
    """All pieces of one kind: every file, every address."""
    values: list[Any] = []
    spans: tuple[Span, ...] = ()
    for _ in range(20):
        candidate: Candidate | None = best(one, Context(context.evidence, (*context.used, *spans)))
        if candidate is None or not candidate.spans or candidate.value in values:
            break
        values.append(candidate.value)
        spans += candidate.spans
    return values, spans


_SEPARATOR = re.compile(r"\s*(?:,\s*(?:and|or)\b|,|;|\n|\band\b|\bor\b|/)\s*")


def _spoken_items(wanted: Property, context: Context) -> tuple[list[Any], tuple[Span, ...]]:
    """Quoted strings, else "tea, coffee or juice" split at its commas."""
    evidence = context.evidence
    quoted = [one for one in evidence.quoted if context.is_free(one.start, one.end)]
    if quoted:
        return [one.value for one in quoted], tuple((one.start, one.end) for one in quoted)
    lists = [phrase for phrase in evidence.phrases if phrase.preposition in ("between", "from", "of")]
    whole: Found | None = after_announcement(evidence)
    if whole is None and lists:
        whole = Found("word", lists[0].start, len(evidence.text), evidence.text[lists[0].start :].rstrip("?!. "))
    whole = whole or subject(evidence, wanted.tool_concepts, context.used)
    if whole is None:
        return [], ()
    pieces = [piece.strip().rstrip("?!.") for piece in _SEPARATOR.split(str(whole.value))]
    pieces = [piece for piece in pieces if piece.lower() not in VAGUE]
    articles = re.compile(r"^(?:an?|the)\s+", re.IGNORECASE)
    return [articles.sub("", piece) for piece in pieces if piece], ((whole.start, whole.end),)
