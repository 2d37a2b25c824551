"""For each role, the pieces of a prompt that could fill it, best first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mcpagent.models.offline.evidence import Evidence, Found
from mcpagent.models.offline.fitting import fits, kind_of
from mcpagent.models.offline.leftover import Span, after_announcement, subject, subject_words
from mcpagent.models.offline.roles import Property, Role
from mcpagent.models.offline.words import STOP_WORDS, concept, split_words, stem, word_set


@dataclass(frozen=True, slots=True)
class Candidate:
    """A value for one property. `sure` pieces may also fill optional properties; guesses only required ones."""

    value: Any
    spans: tuple[Span, ...] = ()
    score: float = 1.0
    sure: bool = True


@dataclass(frozen=True)
class Context:
    """What candidates are drawn from: the prompt, and the spans that other properties already took."""

    evidence: Evidence
    used: tuple[Span, ...] = ()

    def is_free(self, start: int, end: int) -> bool:
        return not any(low < end and start < high for low, high in self.used)


def _of(found: Found, score: float = 1.0, *, value: Any = None, sure: bool = True) -> Candidate:
    return Candidate(found.value if value is None else value, ((found.start, found.end),), score, sure)


_FROM_WORDS = frozenset(("from", "between", "since", "by"))
_TO_WORDS = word_set("to into until till and as with than against")


def direction_score(wanted: Property, preposition: str) -> float:
    """How well "from" and "to" before a piece agree with the property's own direction."""
    if not wanted.direction or not preposition:
        return 0.0
    expected, opposite = (_FROM_WORDS, _TO_WORDS) if wanted.direction < 0 else (_TO_WORDS, _FROM_WORDS)
    return 2.0 if preposition in expected else -2.0 if preposition in opposite else 0.0


# -- what the prompt names outright ----------------------------------------------------------------------------------

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


# -- one function per role -------------------------------------------------------------------------------------------


def _plain(text: str) -> str:
    return " ".join(stem(word) for word in split_words(text))


_ENUM_WORDS = {"ascending": ("ascend", "a-z", "up"), "descending": ("descend", "z-a", "reverse", "down")}


def _enum(wanted: Property, context: Context) -> Iterator[Candidate]:
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


def _boolean(wanted: Property, context: Context) -> Iterator[Candidate]:
    telling = wanted.concepts - {concept(word) for word in ("is", "include", "use", "with", "show", "enable")}
    words = context.evidence.words
    for index, word in enumerate(words):
        if any(concept(piece) in telling for piece in split_words(word.value)):
            before = {other.value.lower() for other in words[max(0, index - 2) : index]}
            yield Candidate(not before & _NEGATION, ((word.start, word.end),), 1.0, sure=len(telling) == 1)
    if wanted.required:
        yield Candidate(False, (), 0.05, sure=False)


def _zones(wanted: Property, context: Context) -> Iterator[Candidate]:
    evidence = context.evidence
    times = evidence.times
    for zone in evidence.zones:
        text = evidence.text[zone.start : zone.end]
        score = 1.0 + direction_score(wanted, zone.preposition) + (0.5 if not text.islower() else 0.0)
        if len(text) <= 3 and text.islower() and not zone.preposition:
            score -= 0.8
        # A place right beside a time of day is where that time is: "9:00 in Tokyo".
        beside_time = any(0 <= zone.start - time.end <= 6 or 0 <= time.start - zone.end <= 3 for time in times)
        if wanted.direction and beside_time and len(evidence.zones) > 1:
            score += -2.5 * wanted.direction
        yield _of(zone, score)
    used = re.search(r"[Uu]se '([A-Za-z_/+-]{2,40})' [^.]{0,60}if no", wanted.description)
    if used and wanted.required:
        yield Candidate(used[1], (), 0.05, sure=False)


def _dates(wanted: Property, context: Context) -> Iterator[Candidate]:
    evidence = context.evidence
    dates = evidence.dates
    for date in dates:
        score = 1.0 + direction_score(wanted, date.preposition)
        yield _of(date, score)
    today = evidence.now.date().isoformat()
    lowered = evidence.text.lower()
    one_sided = len(dates) == 1 and (
        (wanted.direction < 0 and re.search(r"\b(until|till|to|before|left|away)\b", lowered))
        or (wanted.direction > 0 and re.search(r"\b(since|passed|ago|from)\b", lowered))
    )
    if one_sided and wanted.required:
        # "How many days until Christmas" counts from today: the better choice than taking the same date.
        yield Candidate(today, (), 0.9 if dates[0].preposition else 0.5, sure=False)
    if re.search(r"\bnow\b", lowered):
        yield Candidate(today, (), 0.4, sure=False)


def _datetimes(wanted: Property, context: Context) -> Iterator[Candidate]:
    evidence = context.evidence
    for match in re.finditer(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?", evidence.text):
        preposition = evidence.preposition_before(match.start())
        score = 3.0 + direction_score(wanted, preposition)
        yield Candidate(match[0].replace(" ", "T"), ((match.start(), match.end()),), score)
    for date in evidence.dates:
        time = next((one for one in evidence.times if context.is_free(one.start, one.end)), None)
        spans = ((date.start, date.end), (time.start, time.end)) if time else ((date.start, date.end),)
        value = f"{date.value}T{time.value if time else '00:00'}:00"
        yield Candidate(value, spans, 1.0 + direction_score(wanted, date.preposition))


def _times(wanted: Property, context: Context) -> Iterator[Candidate]:
    for time in context.evidence.times:
        yield _of(time, 1.0 + direction_score(wanted, time.preposition))
    if wanted.required and re.search(r"\bnow\b", context.evidence.text, re.IGNORECASE):
        yield Candidate(f"{context.evidence.now:%H:%M}", (), 0.2, sure=False)


def _urls(_wanted: Property, context: Context) -> Iterator[Candidate]:
    for url in context.evidence.urls:
        yield _of(url)


def _emails(wanted: Property, context: Context) -> Iterator[Candidate]:
    for email in context.evidence.emails:
        yield _of(email, 1.0 + direction_score(wanted, email.preposition))


_FOLDER_NEAR = re.compile(r"\b(?:folder|directory|dir|repo|repository)\b", re.IGNORECASE)
_HERE = re.compile(
    r"\b(?:here|(?:this|current|working|the|my|local) (?:folder|directory|dir|repo|repository|project))\b",
    re.IGNORECASE,
)
_NOT_FOLDERS = word_set(
    """file files folder folders directory directories list repo repository project commit commits branch branches it
    there"""
)


def _is_file_name(path: str) -> bool:
    last = path.rstrip("/").rpartition("/")[2]
    return not path.endswith("/") and ("." in last.strip(".") or last.isupper() or last in ("Makefile", "Dockerfile"))


def _path_entities(wanted: Property, context: Context, bonus: Callable[[str], float]) -> Iterator[Candidate]:
    for path in context.evidence.paths:
        if "*" not in path.value:
            yield _of(path, 2.0 + direction_score(wanted, path.preposition) + bonus(path.value))
    for quote in context.evidence.quoted:
        if re.fullmatch(r"[\w./~ @+-]{1,200}", quote.value) and ("/" in quote.value or "." in quote.value):
            yield _of(quote, 2.5 + direction_score(wanted, quote.preposition) + bonus(quote.value))


def _spoken_folders(context: Context) -> Iterator[Candidate]:
    evidence = context.evidence
    for match in _FOLDER_NEAR.finditer(evidence.text):
        before = [word for word in evidence.words if word.end <= match.start()][-1:]
        after = [word for word in evidence.words if word.start >= match.end()][:2]
        after = after[1:] if after and after[0].value.lower() in ("called", "named") else after[:1]
        for word in (*before, *after):
            if word.value.lower() not in STOP_WORDS | _NOT_FOLDERS and re.fullmatch(r"[\w.-]+", word.value):
                if word in before and concept(word.value) in (
                    "list",
                    "read",
                    "show",
                    "creat",
                    "open",
                    "current",
                    "git",
                ):
                    continue
                if word.value.lower() in ("current", "working", "show", "git", "local", "whole", "entire"):
                    continue
                yield _of(word, 1.6 if word in before else 1.5)
    for phrase in evidence.phrases:
        is_place = phrase.preposition in ("in", "of", "under", "inside", "from", "into")
        if is_place and phrase.value.lower() not in _NOT_FOLDERS and re.fullmatch(r"[\w.-]+", phrase.value):
            yield _of(phrase, 1.0)
    if here := _HERE.search(evidence.text):
        yield Candidate(".", ((here.start(), here.end()),), 0.9)


def _folders(wanted: Property, context: Context) -> Iterator[Candidate]:
    yield from _path_entities(wanted, context, lambda path: -2.0 if _is_file_name(path) else 0.5)
    yield from _spoken_folders(context)
    if wanted.required:
        # Whoever names no folder means the one they are in, as at any prompt.
        yield Candidate(".", (), 0.1, sure=False)


def _files(wanted: Property, context: Context) -> Iterator[Candidate]:
    yield from _path_entities(wanted, context, lambda path: 0.5 if _is_file_name(path) else 0.0)
    for match in re.finditer(r"\bfile\s+(?:named\s+|called\s+)?(?=([\w.-]+))", context.evidence.text, re.IGNORECASE):
        if match[1].lower() not in STOP_WORDS:
            yield Candidate(match[1], ((match.end(), match.end() + len(match[1])),), 1.2, sure=False)


def _any_paths(wanted: Property, context: Context) -> Iterator[Candidate]:
    yield from _path_entities(wanted, context, lambda _path: 0.0)
    lists = bool({concept("list"), concept("tree"), concept("folder")} & wanted.tool_concepts)
    if lists:
        yield from _spoken_folders(context)
        if wanted.required and concept("creat") not in wanted.tool_concepts:
            yield Candidate(".", (), 0.1, sure=False)
    else:
        yield from _files(wanted, context)


_EXTENSIONS = {
    "python": "py",
    "markdown": "md",
    "json": "json",
    "yaml": "yaml",
    "toml": "toml",
    "text": "txt",
    "csv": "csv",
    "html": "html",
    "javascript": "js",
    "typescript": "ts",
    "pdf": "pdf",
    "rust": "rs",
    "go": "go",
    "image": "png",
}


def _globs(wanted: Property, context: Context) -> Iterator[Candidate]:
    for path in context.evidence.paths:
        if "*" in path.value:
            yield _of(path, 3.0)
        elif _is_file_name(path.value):
            yield _of(path, 1.0)
    for match in re.finditer(r"(?<!\w)\.(\w{1,5})\b(?= files?\b)|\b(\w+)(?= files?\b)", context.evidence.text):
        extension = match[1] or _EXTENSIONS.get(match[2].lower())
        if extension:
            deep = "**/" if "**" in wanted.description or "recursiv" in wanted.description.lower() else ""
            yield Candidate(f"{deep}*.{extension}", ((match.start(), match.end()),), 2.0)
    for found in (*context.evidence.quoted, *_names_said(context)):
        value = str(found.value)
        is_pattern = "*" in value or "." in value
        yield _of(found, 1.5 if is_pattern else 0.9, value=value if is_pattern else f"*{value}*", sure=False)


def _names_said(context: Context) -> Iterator[Found]:
    for phrase in context.evidence.phrases:
        if phrase.preposition in ("named", "called", "titled", "for", "about"):
            yield phrase


_OPERATORS = (
    (r"\bto the power of\b|\braised to\b|\^", " ** "),
    (r"\bmultiplied by\b|\btimes\b|×|(?<=\d)\s*x\s*(?=\d)", " * "),
    (r"\bdivided by\b|\bover\b|÷", " / "),
    (r"\bplus\b", " + "),
    (r"\bminus\b|−", " - "),
    (r"\bmodulo\b|\bmod\b", " % "),
    (r"\bsquare root of\s+([\d.]+)", r" sqrt(\1) "),
    (r"([\d.]+)\s+squared\b", r" \1 ** 2 "),
    (r"([\d.]+)\s+cubed\b", r" \1 ** 3 "),
    (r"([\d.]+)\s*(?:%|percent) of\s+([\d.]+)", r" \1 / 100 * \2 "),
    (r"(?<=\d),(?=\d{3}\b)", ""),
    (r"\bfactorial of\s+(\d+)|\b(\d+) factorial\b|\b(\d+)!", r" factorial(\1\2\3) "),
)
_EXPRESSION = re.compile(
    r"(?:(?:sqrt|abs|round|floor|ceil|exp|log10|log2|log|sin|cos|tan|factorial|min|max|pi)\b|[\d.]+|[-+*/%(),\s])+"
)


def arithmetic(text: str) -> Found | None:
    """The longest piece of a text that is a sum to calculate, with "times" and "plus" as operators."""
    rewritten = text
    for pattern, replacement in _OPERATORS:
        rewritten = re.sub(pattern, replacement, rewritten, flags=re.IGNORECASE)
    pieces = [match[0].strip().strip(",").strip() for match in _EXPRESSION.finditer(rewritten)]
    # A sign alone is not a sum: something must be done to a number.
    sums = [piece for piece in pieces if re.search(r"\d", piece) and re.search(r"\d\s*[-+*/%]|[a-z]\(", piece)]
    sums = [piece.rstrip("+-*/%.( ") for piece in sums if not re.fullmatch(r"\d{4}-\d\d?-\d\d?", piece)]
    best = max(sums, key=len, default="")
    return Found("number", 0, len(text), " ".join(best.split())) if re.search(r"[-+*/%(]", best) else None


def _expressions(_wanted: Property, context: Context) -> Iterator[Candidate]:
    for quote in context.evidence.quoted:
        if re.search(r"\d", quote.value):
            yield _of(quote, 3.0)
    found = arithmetic(context.evidence.text)
    if found:
        yield _of(found, 2.0)


_TABLE_ROWS = re.compile(
    r"(?P<count>\bhow many\b|\bcount\b)?[^.]*\b(?:rows|records|entries|contents|data)\b[^.]*?"
    r"\b(?:in|of|from)\s+(?:the\s+)?(?:table\s+(?P<after>[A-Za-z_]\w*)|(?P<before>[A-Za-z_]\w*)\s+table)\b",
    re.IGNORECASE,
)


def _simple_query(text: str) -> Iterator[Candidate]:
    """The two requests for rows that need no more than a table's name."""
    found = _TABLE_ROWS.search(text)
    if found:
        what = "COUNT(*)" if found["count"] else "*"
        limit = "" if found["count"] else " LIMIT 50"
        yield Candidate(f"SELECT {what} FROM {found['after'] or found['before']}{limit}", (found.span(),), 1.0)  # noqa: S608 - the name is one identifier


def _sql(wanted: Property, context: Context) -> Iterator[Candidate]:
    yield from _written_sql(context)
    if "select" in wanted.description.lower() or concept("select") in wanted.tool_concepts:
        yield from _simple_query(context.evidence.text)


def _written_sql(context: Context) -> Iterator[Candidate]:
    text = context.evidence.text
    sources = [*((quote.value, quote.start, quote.end) for quote in context.evidence.quoted), (text, 0, len(text))]
    for value, start, end in sources:
        match = re.search(
            r"\b(?:select|insert into|update|delete from|create table|with|pragma|show)\b\s.+",
            value,
            re.IGNORECASE | re.DOTALL,
        )
        if match and re.match(
            r"select\b.+|insert|delete|create|update\s.+\sset\b|with\s.+\sselect\b|pragma",
            match[0],
            re.IGNORECASE | re.DOTALL,
        ):
            yield Candidate(match[0].strip().rstrip("`\"'"), ((start, end),), 2.0)
            return


_UNIT_WORD = re.compile(r"[°A-Za-zµ²³$€£][\w/°²³]*")
_UNIT_STOP = STOP_WORDS - {"per", "in"} | {"equal", "equals", "is", "convert", "and"}


def _unit_words(evidence: Evidence, start: int) -> Found | None:
    words: list[Found] = []
    for word in evidence.words:
        if word.start < start:
            continue
        low = word.value.lower()
        inner_stop = low in _UNIT_STOP or low in ("to", "into", "in", "as")
        # "in" is a unit (inch) only right after the number and before "to": "10 in to cm".
        if low == "in" and not words and evidence.words_after(word.end, 1) in (["to"], ["in"]):
            inner_stop = False
        if (
            inner_stop
            or len(words) >= 4
            or not _UNIT_WORD.fullmatch(word.value)
            or (not words and word.start - start > 12)
        ):
            break
        if low not in ("degrees", "degree"):
            words.append(word)
    if not words:
        return None
    return Found("word", words[0].start, words[-1].end, evidence.text[words[0].start : words[-1].end])


def _units(wanted: Property, context: Context) -> Iterator[Candidate]:
    evidence = context.evidence
    for number in evidence.numbers:
        glued = re.compile(r"[°a-zA-Z][\w/°²³]*").match(evidence.text, number.end)
        unit = Found("word", glued.start(), glued.end(), glued[0]) if glued else _unit_words(evidence, number.end)
        if unit:
            yield _of(unit, 2.0 - 1.5 * max(wanted.direction, 0))
    for match in re.finditer(r"\b(?:to|into|in|as|how many|how much)\s+(?:an?\s+)?", evidence.text, re.IGNORECASE):
        unit = _unit_words(evidence, match.end())
        if unit and context.is_free(unit.start, unit.end):
            asked = match[0].lower().startswith("how")
            single = re.search(r"\ban?\s+$", match[0])
            towards = -1.0 if single else 1.0
            yield _of(unit, 1.2 + towards * wanted.direction * (1.2 if asked else 1.0), sure=bool(wanted.direction))


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
        yield _of(quote, 1.0, sure=False)
    for number in evidence.numbers:
        yield _of(number, 0.8, value=str(number.value), sure=False)


def _named(wanted: Property, context: Context) -> Iterator[Candidate]:
    evidence, known = context.evidence, wanted.tool_concepts
    for quote in evidence.quoted:
        yield _of(quote, 3.0 + direction_score(wanted, quote.preposition), sure=False)
    for name in evidence.names:
        if not {concept(word) for word in split_words(name.value)} <= known:
            yield _of(name, 2.0 + direction_score(wanted, name.preposition), sure=False)
    if "branch" in wanted.words or "table" in wanted.words:
        yield from _beside_noun(wanted, context)
    for phrase in evidence.phrases:
        value = re.sub(r"\s+(?:as|now|today)$", "", str(phrase.value))
        is_name = phrase.preposition != "by" and any(char.isalpha() for char in value)
        if is_name and not {concept(word) for word in split_words(value)} <= known:
            yield _of(phrase, 1.0 + 0.5 * direction_score(wanted, phrase.preposition), value=value, sure=False)
    for word in subject_words(evidence, known, context.used):
        if any(char.isalpha() for char in word.value):
            yield _of(word, 0.5, sure=False)


def _beside_noun(wanted: Property, context: Context) -> Iterator[Candidate]:
    nouns = {"branch", "table"} & set(wanted.words)
    words = context.evidence.words
    verbs = {"create", "new", "git", "describe", "named", "called"}
    for before, after in pairwise(words):
        if after.value.lower() in nouns and before.value.lower() not in STOP_WORDS | verbs:
            yield _of(before, 2.2, sure=False)
        if before.value.lower() in nouns and after.value.lower() not in STOP_WORDS | verbs:
            yield _of(after, 2.2, sure=False)


def _text(wanted: Property, context: Context) -> Iterator[Candidate]:
    evidence = context.evidence
    if evidence.payload:
        yield Candidate(evidence.payload, (), 3.0, sure=False)
    for quote in evidence.quoted:
        yield _of(quote, 2.5 + direction_score(wanted, quote.preposition), sure=False)
    if "pattern" in wanted.schema:
        yield from (_of(word, 2.2, sure=False) for word in evidence.words)
    if announced := after_announcement(evidence):
        yield _of(announced, 1.9, sure=False)
    yield from _text_phrases(wanted, evidence)
    if left := subject(evidence, wanted.tool_concepts, context.used):
        yield _of(left, 1.0, sure=False)


def _text_phrases(wanted: Property, evidence: Evidence) -> Iterator[Candidate]:
    for phrase in evidence.phrases:
        if wanted.direction:
            yield _of(phrase, 0.6 + direction_score(wanted, phrase.preposition), sure=False)
        if wanted.concepts & _QUERY_CONCEPTS and phrase.preposition in ("for", "about"):
            yield _of(phrase, 1.5, sure=False)


_QUERY_CONCEPTS = frozenset(concept(word) for word in word_set("query search term keyword keywords text q"))

CANDIDATES: dict[Role, Callable[[Property, Context], Iterator[Candidate]]] = {
    "enum": _enum,
    "boolean": _boolean,
    "url": _urls,
    "email": _emails,
    "zone": _zones,
    "datetime": _datetimes,
    "date": _dates,
    "time": _times,
    "expression": _expressions,
    "sql": _sql,
    "glob": _globs,
    "file": _files,
    "folder": _folders,
    "path": _any_paths,
    "colour": _colours,
    "unit": _units,
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
