"""Fill the arguments of a tool from a need: each value is used once, and each word of the need must have a use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from mcpagent.offline.need import (
    COMMANDS,
    DESTRUCTION,
    FILLER,
    WEAK,
    Need,
    concept,
    concepts,
    split_words,
    word_set,
)
from mcpagent.offline.pieces import Piece
from mcpagent.utilities.json_schema.parts import properties_of, referred, required_of
from mcpagent.values.messages import ToolDefinition

_FORMATS = {
    "uri": "url",
    "url": "url",
    "email": "email",
    "date": "date",
    "date-time": "moment",
    "time": "time",
}
_KINDS = {  # matched against "name as words|description" of a parameter
    "zone": r"time ?zone\b.*\||\b(?:tz|zone)\||\|.*\biana\b",
    "url": r"\b(?:url|uri|link|website|href)\|",
    "email": r"\be ?mail\b.*\||\|.*email address",
    "sum": r"\b(?:expression|formula|equation|calculation)\|",
    "unit": r"\bunits?\b.*\||\bcurrency\|",
    "path": r"\b(?:paths?|file|filename|filepath|files|folder|directory|dir|cwd)\|",
    "glob": r"\b(?:pattern|glob)\|",
    "moment": r"\b(?:datetime|date time|timestamp)\|",
    "date": r"\b(?:date|birthday|deadline|day)\|.*|\|.*yyyy-mm-dd",
    "time": r"\btime\||\|.*hh:mm",
    "digits": r"\bnumber\|",
    "prompt": r"^(?:prompt|question|request|instructions?)\|",
    "text": r"\b(?:text|message|content|body|query|note|task|sentence|string|comment|summary|input)\|",
    "name": "",
}
_SOURCE = word_set(
    "source src from origin start begin before old first minimum min foreground left"
)
_TARGET = word_set(
    "target to dest destination end until after new second maximum max background right"
)
_CODING = frozenset(map(concept, ("encode", "decode", "format", "parse")))
_PERCENT = frozenset(
    map(concept, ("percent", "rate", "interest", "tip", "discount", "tax"))
)
_NO_NAME = DESTRUCTION | word_set(
    "or if not no but unless than except every everything anything something nothing stuff things ones rid"
)
# A tool does these only on request: in "the colour teal", nothing is to be inverted.
_DEEDS = word_set(
    "mix invert reverse shuffle sort encode decode difference convert split remove count add distance"
)
_ANNOUNCED = re.compile(
    r"(?i)(?::\s+|\b(?:saying|that says|containing|(?:remember|note) that|remind me to)\s+)(?=\S)"
)
_FILE = re.compile(r"\w\.[A-Za-z]\w{0,4}$")
"""Matches the end of a file name, which a folder's name lacks."""

_ROLES = re.compile(r"(?i)\b(?:of|is|are|was|as|in|into|on|out)\b")
# Words around a text argument without quotes. Rules cannot judge a text like "uppercase i love you", which begins with
# one.
_LEADS = word_set(
    """and also so then which the a of for is are me word words text phrase sentence string following message value what
    what's whats please translate make tell show give get find"""
)
_TAILS = word_set("code in as to into my our for me with is a an the by using please")
_BETWEEN = word_set("and")
_ASKING = (["which"], ["what"])
_JOINED = re.compile(
    r"(?i)\s*|[\s,]*(?:,|\b(?:and|or)\b|&)\s*(?:(?:in|of|for)\s+)?(?:the\s+)?"
)
_LIST = re.compile(
    r"(?i)(?::\s+|\b(?:of|from|between|among)\s+(?!\d+ and \d+$))([^,]+(?:,[^,]+)+|\S+ (?:and|or) \S+)$"
)


class ParameterSlot:
    """A parameter of a tool. `direction`: -1 for a source or start, 1 for a target or end, 0 otherwise."""

    def __init__(self, name: str, schema: Mapping[str, Any], required: bool) -> None:
        self.name, self.schema, self.required = name, schema, required
        words, self.about = (
            split_words(name),
            str(schema.get("description") or "")[:300],
        )
        self.words, self.told = frozenset(map(concept, words)), concepts(self.about)
        if _SOURCE.intersection(words):
            self.direction = -1
        elif _TARGET.intersection(words):
            self.direction = 1
        else:
            self.direction = 0
        spoken, declared = (
            f"{' '.join(words)}|{self.about.lower()}".replace("\n", " "),
            schema.get("type"),
        )
        by_name = next(
            kind for kind, pattern in _KINDS.items() if re.search(pattern, spoken)
        )
        self.kind = _FORMATS.get(str(schema.get("format")), by_name)
        if isinstance(schema.get("enum"), list) or declared not in ("string", None):
            if "enum" in schema:
                self.kind = "enum"
            elif declared == "integer":
                self.kind = "number"
            else:
                self.kind = str(declared)


def slots_of(schema: Mapping[str, Any]) -> list[ParameterSlot]:
    """Return the parameters of an input schema, including names that are only listed as required."""
    properties, required = properties_of(schema), required_of(schema)
    names = list(dict.fromkeys((*map(str, properties), *required)))[:60]
    return [
        ParameterSlot(name, _resolved(properties.get(name), schema), name in required)
        for name in names
    ]


def _resolved(schema: Any, root: Mapping[str, Any], level: int = 0) -> dict[str, Any]:
    """Return a schema with a local `$ref` and the first non-null branch of `anyOf`, `oneOf` or `allOf` merged into
    it.
    """
    plain = {}
    if isinstance(schema, Mapping):
        plain = {str(key): value for key, value in schema.items()}
    lists = [
        plain[key]
        for key in ("anyOf", "oneOf", "allOf")
        if isinstance(plain.get(key), list)
    ]
    parts = [
        branch
        for branches in lists
        for branch in branches
        if branch != {"type": "null"}
    ][:1]
    parts.append(referred(root, plain.get("$ref")))
    for part in parts if level < 6 else []:
        plain = {**_resolved(part, root, level + 1), **plain}
    if isinstance(kinds := plain.get("type"), list):
        plain["type"] = next((kind for kind in kinds if kind != "null"), None)
    return plain


class Fit:
    """The match of a tool with a need.

    `arguments` are those of one call; `others` are the arguments of further calls of the same kind. Arguments that the
    need does not state come from `known`, the arguments of an earlier call that it refers to. `follows` is True if the
    need only changes values of that call ("and in Paris?"). `taken` are the pieces that became arguments.
    """

    def __init__(
        self,
        tool: ToolDefinition,
        need: Need,
        known: Mapping[str, Any],
        *,
        follows: bool = False,
    ) -> None:
        self.tool, self.need, self.slots = tool, need, slots_of(tool.parameters)
        self.name = tool.original_name or tool.name
        self.named = frozenset(map(concept, split_words(self.name)))
        self.told = concepts(f"{tool.description[:400]} {tool.server or ''}")
        self.arguments: dict[str, Any] = {}
        self.others: list[dict[str, Any]] = []
        self.taken, self.doubtful = list[Piece](), list[Piece]()
        self._choose()
        for kind in (
            "zone",
            "url",
            "email",
            "path",
            "glob",
            "date",
            "time",
            "sum",
            "array",
            "number",
            "digits",
        ):
            if (slots := self._open(kind)) and kind == "array":
                self._list_up(slots[0])
            elif slots:
                or_quoted = []
                if kind in ("path", "glob") and slots[0].required:
                    or_quoted = ["quoted"]
                pieces = self._free(kind)
                if kind == "digits":  # an invoice number may contain letters
                    pieces = self._free("label") or self._free("number")
                if not any(slot.required for slot in slots):
                    pieces = [piece for piece in pieces if not self._is_summand(piece)]
                self._place(slots, pieces or self._free(*or_quoted))
        self._write(
            [
                slot
                for slot in self._open("text", "name", "prompt", "unit")
                if slot.required
            ]
        )
        if (
            re.search(r"\bin an? \S+$", need.text)
            and not need.of("number")
            and self._open("number")
        ):
            self._take(
                self._open("number")[0], Piece("number", 0, 0, 1)
            )  # as in "how many ounces are in a pound"
        is_new = bool(self.arguments)
        kept = {
            slot.name: known[slot.name]
            for slot in self.slots
            if slot.name in known and (slot.required or follows)
        }
        every = {**kept, **self.arguments}
        self.arguments = {
            slot.name: every[slot.name] for slot in self.slots if slot.name in every
        }
        self.missing = [
            slot for slot in self.slots if slot.required and slot.name not in every
        ]
        self.is_asked_whole = any(
            slot.kind == "prompt" and slot.name in self.arguments for slot in self.slots
        )
        if follows:
            self.score = 9.0 * is_new
        else:
            self.score = self._score()
        if self.is_asked_whole:
            self.unused = []
        else:
            # "split by 3" does not state the object; the number itself is accounted for.
            self.unused = [
                need.text[start:end]
                for start, end in self._unused()
                if not (self.missing and need.is_means(start))
            ]
        self.is_certain = not self.missing and not self.unused

    def _take(self, slot: ParameterSlot, piece: Piece) -> None:
        value = piece.value
        if slot.kind == "text" and concept("lines") in self.named:
            value = re.sub(r",\s*", "\n", value)  # as in "sort pear, apple, fig"
            if "\n" not in value:
                return
        if slot.kind == "digits":
            self.arguments[slot.name] = str(value)
        else:
            self.arguments[slot.name] = value
        self.taken.append(piece)

    def _open(self, *kinds: str) -> list[ParameterSlot]:
        return [
            slot
            for slot in self.slots
            if slot.name not in self.arguments and slot.kind in kinds
        ]

    def _is_summand(self, piece: Piece) -> bool:
        """Return whether a number belongs to a sum: "2 + 2" are not 2 days and 2 weeks."""
        return piece.kind == "number" and any(
            found.start <= piece.start and piece.end <= found.end
            for found in self.need.sums
        )

    def _is_taken(self, start: int, end: int) -> bool:
        return any(piece.start < end and start < piece.end for piece in self.taken)

    def _free(self, *kinds: str) -> list[Piece]:
        pieces = self.need.of(*kinds)
        return [
            one
            for one in pieces
            if one.value is not None and not self._is_taken(one.start, one.end)
        ]

    def _hit(self, term: str) -> float:
        """Return how strongly the tool matches a term. A parameter's words count only if the parameter has a value."""
        if term in self.named or term in self.told:
            if term in self.named:
                return 3.0
            return 1.4
        filled = (slot for slot in self.slots if slot.name in self.arguments)
        return 0.9 * any(
            term in slot.words or (slot.kind == "number" and term in slot.told)
            for slot in filled
        )

    def _unused(self) -> list[tuple[int, int]]:
        """Return the positions of words and values that have no use."""
        doubtful = {piece.start for piece in self.doubtful}
        return [
            (start, end)
            for start, end, word, meant in self.need.tokens
            if not self._is_taken(start, end)
            and (word.isdigit() or start in doubtful or not meant & self.named)
            if self.need.is_value(start, end)
            or start in doubtful
            or not (
                (word in FILLER and not self._is_counted(start))
                or any(map(self._hit, meant))
            )
        ]

    def _is_counted(self, start: int) -> bool:
        """Return whether the word at this position is the counted unit: "how many words" contains no text argument."""
        return self.need.before(start)[:2] == ["many", "how"]

    def _score(self) -> float:
        """Return how well the tool covers the need and the need states the tool's name; 0 if they do not match."""
        asked = dict.fromkeys(map(concept, self.need.hints), 0.6)
        for start, end, word, meant in self.need.tokens:
            if not self.need.is_value(start, end) and (
                meant & self.named or not self._is_taken(start, end)
            ):
                asked |= {
                    term: max(asked.get(term, 0.0), 0.2 if word in WEAK else 1.0)
                    for term in meant
                }
        hits = {term: weight for term, weight in asked.items() if self._hit(term)}
        own = [word for word in split_words(self.name) if word not in WEAK] or ["-"]
        opposite = {"to": "from", "from": "to"}.get(split_words(self.name)[0], "-")
        is_opposite = re.search(rf"(?i)\b{opposite} {own[0]}\b", self.need.text)
        # without arguments, the need must state the tool's name
        least = 3.0
        if self.arguments:
            least = 1.4
        is_meant = any(
            weight >= 0.6 and self._hit(term) >= least for term, weight in hits.items()
        )
        # A tool that may change something needs an explicit request for it.
        server = split_words(self.tool.server or "")
        unasked = [
            word for word in own if concept(word) not in asked and word not in server
        ]
        is_unasked = own[0] in unasked and self.tool.read_only is not True
        is_vague = (
            unasked and {concept(own[0]), self.need.verb} & _CODING
        )  # as in "decode aGVsbG8="
        is_topic = re.match(
            rf"(?i)\W*{own[0][:3]}\w*ing\b(?<!{own[0]})", self.need.text
        )  # as in "flipping coins"
        if (
            is_opposite
            or not is_meant
            or is_unasked
            or is_vague
            or is_topic
            or _DEEDS.intersection(unasked)
        ):
            return 0.0
        precise = sum(concept(word) in asked for word in own) / len(own)
        spoken = sum(weight * self._hit(term) for term, weight in hits.items())
        if self.is_asked_whole:
            spoken /= 1
        else:
            spoken /= max(sum(hits.values()), 0.8)
        return spoken + 1.2 * precise + 0.2 * len(self.arguments)

    def _choose(self) -> None:
        """Assign enum values that the need states unambiguously; a list of values in a description counts as an enum,
        too.
        """
        text, tokens = self.need.text, self.need.tokens
        for slot in sorted(
            self._open("enum", "number"), key=lambda slot: not slot.required
        ):
            listed = [
                (word, int(number))
                for number, word in re.findall(
                    r"\b(\d{1,4}) \(?([a-zA-Z]{4,})", slot.about
                )
            ]
            named: list[Piece] = []
            for spelled, value in (
                listed
                if slot.kind == "number"
                else [(str(one), one) for one in slot.schema["enum"]]
            ):
                like = "-"
                if len(spelled) > 3:
                    like = spelled.lower()
                spans = [
                    token[:2]
                    for token in tokens
                    if concept(spelled) in token[3] or token[2].startswith(like)
                ]
                spans = spans or [
                    found.span()
                    for found in re.finditer(
                        rf"(?i)\b{re.escape(spelled or '-')}\b", text
                    )
                ]
                named += [
                    Piece("choice", *span, value)
                    for span in spans
                    if not self._is_taken(*span)
                ]
            towards = [
                piece for piece in named if self.need.direction(piece) == slot.direction
            ]
            if len(named) == 1:
                chosen = named
            elif len(towards) == 1 and slot.direction:
                chosen = towards
            else:
                chosen = []
            if slot.kind == "enum" and not chosen:
                self.doubtful += named
            for piece in chosen:
                self._take(slot, piece)

    def _place(self, slots: list[ParameterSlot], pieces: list[Piece]) -> None:
        """Assign pieces to parameters of their kind, first by the words around them, then by position."""
        is_only = len(slots) == 1 and not any(
            slot.required for slot in self.slots if slot is not slots[0]
        )
        pairs = [
            (self._affinity(slot, piece), slot, piece)
            for slot in slots
            for piece in pieces
        ]
        for affinity, slot, piece in sorted(pairs, key=lambda pair: -pair[0]):
            if affinity >= 2 and slot in slots and piece in pieces:
                self._take(slot, piece)
                slots, pieces = (
                    [one for one in slots if one != slot],
                    [one for one in pieces if one != piece],
                )
        if not self.taken and all(self.need.is_means(one.start) for one in pieces):
            return  # "split by 3" does not state the object
        is_number = any(slot.kind == "number" for slot in slots)
        wanted = [slot for slot in slots if slot.required] or (
            slots if len(pieces) > 1 or not is_number else []
        )
        if any(self._affinity(slot, piece) < 0 for slot in wanted for piece in pieces):
            return
        direction = self.need.direction
        if len(pieces) == 1 < len(wanted) and not is_number:
            wanted = [
                slot for slot in wanted if slot.direction == direction(pieces[0])
            ][:1] or wanted[:1]
        gaps = [self.need.text[one.end : two.start] for one, two in pairwise(pieces)]
        is_list = not any(map(direction, pieces)) and all(map(_JOINED.fullmatch, gaps))
        if len(wanted) == 1 < len(pieces) <= 5 and is_only and is_list:
            self.others = [{wanted[0].name: piece.value} for piece in pieces[1:]]
            self.taken += pieces[1:]
            pieces = pieces[:1]
        if len(pieces) == len(wanted) and not (
            is_number and any(map(_ROLES.search, gaps))
        ):
            ordered = sorted(pieces, key=lambda piece: (direction(piece), piece.start))
            for slot, piece in zip(
                sorted(wanted, key=lambda slot: slot.direction), ordered, strict=True
            ):
                self._take(slot, piece)

    def _affinity(self, slot: ParameterSlot, piece: Piece) -> float:
        """Return how strongly the words around a value support a parameter; below 0 if they contradict it."""
        before = self.need.before(piece.start)[:3] or ["-"]
        after = next(
            (token[2] for token in self.need.tokens if token[0] >= piece.end), "-"
        )
        noun = "-"
        if after not in FILLER:
            noun = concept(after)
        if slot.kind == "unit":
            is_target = before[0] in ("to", "in", "into", "as") or before[:2] == [
                "many",
                "how",
            ]
            is_source = before[0][0].isdigit() or before[0] in ("a", "an")
            direction = 0
            if is_target:
                direction = 1
            elif is_source:
                direction = -1
            if slot.direction == direction:
                return 4.0
            return -5.0
        if slot.kind == "zone" and any(
            0 <= piece.start - time.end < 7 for time in self.need.of("time")
        ):
            return -4.0 * slot.direction  # as in "9:00 in Tokyo"
        is_percent = noun == concept("%")
        if slot.kind == "number" and (is_percent or slot.words & _PERCENT):
            if is_percent and slot.words & _PERCENT:
                return 5.0
            return -5.0
        source, to, target = self.name.partition("_to_")
        is_result = (
            to and noun in concepts(target) and noun not in concepts(source)
        )  # as "5 miles" for `km_to_miles`
        is_no_folder = (
            slot.kind == "path"
            and concept("folder") in slot.words
            and _FILE.search(str(piece.value))
        )
        is_index = f"{before[0]}s" in split_words(
            slot.name
        )  # "line 2" does not mean 2 lines
        if (
            is_result
            or is_no_folder
            or is_index
            or (slot.schema.get("type") == "integer" and piece.value % 1)
        ):
            return -5.0
        said = [
            token[3]
            for token in self.need.tokens
            if token[1] <= piece.start and token[2] not in FILLER
        ][-1:]
        if noun in slot.words:
            named = 4.0
        elif slot.kind == "number" and noun in slot.told:
            named = 3.0
        else:
            named = 0.0
        named += 3.0 * any(slot.words & terms for terms in said)
        return named + 2.0 * (slot.direction * self.need.direction(piece) > 0)

    def _list_up(self, slot: ParameterSlot) -> None:
        """Assign a list to a parameter: all numbers, all quoted texts, or the parts between commas."""
        kind = ParameterSlot("", _resolved(slot.schema.get("items"), {}), True).kind
        pieces = self._free("number" if kind == "number" else "quoted")
        if (
            found := _LIST.search(self.need.text)
            if kind == "name" and not pieces
            else None
        ):
            parts = re.split(r"\s*,\s*(?:and |or )?|\s+(?:and|or)\s+", found[1])
            pieces = [
                Piece(
                    "list", *found.span(), re.sub(r"^(?:an?|the)\s+", "", part.strip())
                )
                for part in parts
            ]
        gaps = (self.need.text[one.end : two.start] for one, two in pairwise(pieces))
        # "The sum of 1 to 100" is not the sum of two numbers.
        if (
            len(pieces) > (kind == "number")
            and kind in ("number", "name")
            and all(map(_JOINED.fullmatch, gaps))
        ):
            self.arguments[slot.name] = [piece.value for piece in pieces]
            self.taken += pieces

    def _write(self, slots: list[ParameterSlot]) -> None:
        """Assign texts: the part after a colon, quoted texts, the payload, and words without another use."""
        text, sides = self.need.text, ["path"] * all(slot.direction for slot in slots)
        sides.append("label")
        quoted = self._free("quoted", "email", "colour", *sides)
        main = next(
            (slot for slot in reversed(slots) if slot.kind == "text"),
            slots[-1] if slots else None,
        )
        if main is None:
            return
        announced = _ANNOUNCED.search(text)
        if main.kind == "prompt":
            self.arguments[main.name] = re.sub(
                rf"(?i)^ask (?:the )?{re.escape(self.name)}\W+(?:for )?", "", text
            )
        elif announced and not any(piece.start == announced.end() for piece in quoted):
            self._take(
                main,
                Piece(
                    "text",
                    announced.start(),
                    len(text),
                    text[announced.end() :].strip(),
                ),
            )
        elif self.need.payload and not quoted:
            self._take(main, Piece("text", 0, 0, self.need.payload))
        left = self._free("quoted", "email", "colour", *sides)
        self._place([slot for slot in slots if slot.name not in self.arguments], left)
        self._use_leftover([slot for slot in slots if slot.name not in self.arguments])

    def _use_leftover(self, slots: list[ParameterSlot]) -> None:
        """Assign runs of words without another use, if they can only be a missing argument."""
        need, runs = self.need, list[Piece]()
        values = {
            piece.kind
            for piece in need.pieces
            if not self._is_taken(piece.start, piece.end)
        }
        for start, end in self._unused():
            if runs and not need.text[runs[-1].end : start].strip(" -"):
                start = runs.pop().start
            runs.append(Piece("name", start, end, need.text[start:end]))
        if runs:
            before = need.before(runs[0].start)
        else:
            before = []
        if before[:1] not in ([], ["the"], ["a"], ["an"]) and [
            slot.kind for slot in slots
        ] == ["text"]:
            start, end = runs[0].start, runs[-1].end
            is_plain = not any(
                run.value.lower().split()[0] in COMMANDS for run in runs[1:]
            )
            for low, _, word, _ in need.tokens:
                allowed = _BETWEEN
                if low < start:
                    allowed = _LEADS
                elif low >= end:
                    allowed = _TAILS
                is_plain &= (
                    word not in FILLER
                    or word in allowed
                    or self._is_taken(low, low + 1)
                )
            # "Spell hello" suggests words, but names no tool that accepts a text.
            is_plain &= any(
                concept(word) in self.named | self.told or self._is_taken(low, low + 1)
                for low, _, word, _ in need.tokens
                if word not in FILLER and not start <= low < end
            )
            is_number = (
                values == {"number"} and len(runs) == 1 and need.verb in self.named
            )
            if is_plain and (is_number or not values):
                self._take(slots[0], Piece("text", start, end, need.text[start:end]))
        elif runs and not values and any(slot.kind != "text" for slot in slots):
            # "The capital of France" and "which capital" ask for a capital, so the word is not a value for a parameter
            # `capital`.
            asked = re.search(r"(\w+) (?:of|in) (?:the )?$", need.text[: runs[0].start])
            is_result = asked is not None and concept(asked[1]) in slots[0].words
            is_result |= any(need.before(run.start)[:1] in _ASKING for run in runs)
            gaps = split_words(
                " ".join(need.text[one.end : two.start] for one, two in pairwise(runs))
            )
            first = need.tokens[0][0]
            is_long = any(
                len(words := run.value.lower().split()) > 3
                or _NO_NAME.intersection(words)
                or (run.start == first and words[0] in COMMANDS)
                for run in runs
            )
            if FILLER.issuperset(gaps) and not is_result and not is_long:
                self._place(slots, runs)
