"""Clean third-party text for a model: remove invisible characters, and fence text that could imitate mcpagent's own.

Descriptions, results, errors and prompts of servers, files and web pages are untrusted. They may contain words that
only a model reads (tag characters, zero-width characters, selectors), reverse the direction of other text, or imitate
the text around them. A provider's tool result is a separate block that no text can close. In a text that also has other
words, use `set_apart`: its result cannot be closed from inside. All functions here are pure, so the same input gives
the same bytes in every request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache, lru_cache

MAX_DESCRIPTION = 2_048
"""Maximum length of the description of a tool or parameter."""
MAX_ERROR = 10_000
"""Maximum length of an error's text."""
CUT = f" [cut here: longer than {MAX_DESCRIPTION:,} characters]"
_FENCES = ("```", "~~~")
_LINE_END = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")

# Always removed: control characters; invisible soft hyphens, grapheme joiners and fillers; direction marks, overrides
# and isolates; zero-width spaces and operators; annotation, music and hieroglyph controls; ideographic variation
# selectors, which could encode bytes; private use planes; noncharacters of Unicode.
_NEVER = (
    "\x01-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0100-\U000e01ef\U000f0000-\U0010ffff"
)
_BREAKS = "\v\f\x85\u2028\u2029"
_TAGS = "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
_HALVES = "\x00\ud800-\udfff"
# Kept only in valid positions: joiners between letters of scripts that need them and between emoji, and one selector
# after a character that has that variant. Sources: Unicode's StandardizedVariants, emoji-variation-sequences and
# emoji-zwj-sequences.
_JOINERS = "\u200c\u200d"
_SELECTORS = "\ufe00-\ufe0f"
_MONGOLIAN_SELECTORS = "\u180b-\u180f"

_JOINING_SCRIPTS = (
    "\u0600-\u0605\u0610-\u061b\u061d-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\u1a20-\u1c4f\ua800-\uaaff\uabc0-\uabff"
    "\ufb50-\ufdcf\ufdf0-\ufdff\ufe70-\ufefc\U00010a00-\U00010fff\U00011000-\U00011fff\U0001e900-\U0001e95f"
)
_EMOJIS = (
    "\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u2460-\u24ff\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff\u3030"
    "\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_JOINING_SCRIPT, _EMOJI = (
    re.compile(f"[{_JOINING_SCRIPTS}]"),
    re.compile(f"[{_EMOJIS}]"),
)
_VARIED = re.compile(
    "[\u1000-\u109f\u2018-\u201f\u2200-\u22ff\u2a00-\u2aff\u3000-\u303f\u3400-\u9fff\ua840-\ua87f\uf900-\ufaff\uff00-\uff9f"
    "\U00010ac0-\U00010aff\U00013000-\U0001345f\U00020000-\U0003ffff]"
)
_MONGOLIAN = re.compile("[\u1820-\u18aa]")

_CONTROLS_OF_ASCII = bytes(
    code for code in range(128) if (code < 32 and code not in b"\t\n\r") or code == 127
)
_KEYCAP, _BLACK_FLAG = "\u20e3", "\U0001f3f4"
_REGIONS = ("gbeng", "gbsct", "gbwls")
"""The regional flags written with tag characters that Unicode recommends for interchange."""


def _tagged(letters: str) -> str:
    return "".join(chr(0xE0000 + ord(letter)) for letter in letters) + "\U000e007f"


_PLACED = _JOINERS + _SELECTORS + _MONGOLIAN_SELECTORS
_SUSPICIOUS = _BREAKS + _NEVER + _TAGS + _HALVES + _PLACED
# ECMA-48 sequences: CSI; OSC, DCS, SOS, PM and APC with their content; selection of character sets. Each begins with
# ESC and a letter, or with a C1 control.
_TERMINAL_SEQUENCE = (
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{1,2}[0-~]"
)
# Matches joiners and selectors except in certainly valid positions: valid ones are frequent in emoji and Persian text,
# and each match costs a Python call.
_MISPLACED = (
    f"(?<![{_PLACED}])(?!(?<=[{_EMOJIS}])(?:\ufe0f?\u200d(?=[{_EMOJIS}])|\ufe0f(?![{_PLACED}])))"
    f"(?!(?<=[{_JOINING_SCRIPTS}])[{_JOINERS}](?![{_PLACED}]))[{_PLACED}]+"
)
_STEP = 50_000
_FLAG_OR_TAGS = f"({_BLACK_FLAG}(?:{'|'.join(map(_tagged, _REGIONS))}))|[{_TAGS}]+"


@cache
def _pattern(source: str) -> re.Pattern[str]:
    return re.compile(source)


def for_model(text: str) -> str:
    """Return the text without controls, invisible characters and reversed directions; the same object if it has none.

    Line breaks (CR LF too), tabs, emoji and the joiners that scripts like Persian and Hindi need stay unchanged; other
    line ends become line breaks. Terminal escape sequences are removed as a whole. NUL and lone surrogates become
    U+FFFD. Idempotent. A long text is processed in steps, so that a worker thread lets other threads run.
    """
    if len(text) <= _STEP:
        return _cleaned(text)
    same, changed = 0, list[str]()
    for piece in _steps(text):
        clean = _cleaned(piece)
        if not changed and clean == piece:
            same += len(piece)  # unchanged text is not copied
        else:
            if changed:
                changed += [clean]
            else:
                changed += [text[:same], clean]
    if changed:
        return "".join(changed)
    return text


def _steps(text: str) -> Iterator[str]:
    """Yield the text in pieces that can be cleaned independently of each other.

    A text with terminal sequences is cut at line ends. If it has no line ends, a sequence may be split in two. A run of
    removed characters that fills a whole step may be split, too; texts written by people have no such run.
    """
    has_sequences = _has_sequences(text)
    # Matches a position to cut at: after a character that stays, if another one follows, perhaps after removed ones.
    start, between = (
        0,
        _pattern(f"[^\r{_SUSPICIOUS}](?=[{_NEVER}]{{0,100}}[^\r{_SUSPICIOUS}])"),
    )
    while start < len(text):
        end = 0
        if has_sequences:
            end = text.find("\n", start + _STEP, start + 2 * _STEP) + 1
        if not end:
            found = between.search(text, start + _STEP, start + 2 * _STEP)
            if found:
                end = found.end()
            else:
                end = start + 2 * _STEP
        yield text[start:end]
        start = end


def _has_sequences(text: str) -> bool:
    return "\x1b" in text or (
        not text.isascii() and any(char in text for char in "\x90\x98\x9b\x9d\x9e\x9f")
    )


def _cleaned(text: str) -> str:
    if _is_plain(text):
        return text
    clean = text
    if _has_sequences(text):
        clean = _pattern(_TERMINAL_SEQUENCE).sub("", clean)
    clean = _pattern(rf"\r(?!\n)|[{_BREAKS}]").sub("\n", clean)
    clean = _pattern(f"[{_NEVER}]+").sub("", clean)
    clean = _pattern(f"[{_HALVES}]").sub("\ufffd", clean)
    clean = _pattern(_FLAG_OR_TAGS).sub(lambda found: found[1] or "", clean)
    clean = _pattern(_MISPLACED).sub(_kept_in_place, clean)
    if clean == text:
        return text
    return clean


def _is_plain(text: str) -> bool:
    """Return whether the text certainly has nothing to remove; quicker than cleaning it."""
    if not text.isascii():
        return _pattern(rf"\r(?!\n)|[{_SUSPICIOUS}]").search(text) is None
    data = text.encode()
    is_broken = b"\r" in data and data.count(b"\r") != data.count(b"\r\n")
    return not is_broken and len(data.translate(None, _CONTROLS_OF_ASCII)) == len(data)


def _kept_in_place(found: re.Match[str]) -> str:
    """Return the valid part of a run of joiners and selectors, judged by the characters before and after it."""
    text, start, end = found.string, found.start(), found.end()
    return _placed(
        text[start - 1 : start], text[start : min(start + 3, end)], text[end : end + 1]
    )


@lru_cache(maxsize=4_096)
def _placed(before: str, run: str, after: str) -> str:
    follows = ""
    if len(run) == 1:
        follows = after
    kept = ""
    if _selects(run[0], before, follows):
        kept = run[0]
    rest = run[len(kept) :]
    if rest[:1] == "\u200d" and _EMOJI.match(before) and _EMOJI.match(after):
        return f"{kept}\u200d"
    if rest[:1] in ("\u200c", "\u200d") and _JOINING_SCRIPT.match(before):
        return kept + rest[0]
    return kept


def _selects(selector: str, before: str, after: str) -> bool:
    """Return whether Unicode defines this variation selector for the character before it."""
    if selector in "\ufe0e\ufe0f":
        is_key = before in "0123456789#*" and after == _KEYCAP
        return bool(_EMOJI.match(before)) or (bool(before) and is_key)
    if "\u180b" <= selector <= "\u180f":
        return bool(_MONGOLIAN.match(before))
    return "\ufe00" <= selector <= "\ufe02" and bool(_VARIED.match(before))


def cut_for_model(text: str, limit: int = MAX_DESCRIPTION) -> str:
    """Return `for_model(text)`, cut to `limit` characters with a note that it was cut. Idempotent."""
    clean = for_model(text[: limit * 8])
    if len(text) <= limit * 8 and len(clean) <= limit:
        return clean
    if limit == MAX_DESCRIPTION:
        note = CUT
    else:
        note = f" [cut here: longer than {limit:,} characters]"
    return for_model(clean[: limit - len(note)]) + note


def line_for_model(text: str, limit: int = 200) -> str:
    """Return `for_model(text)` as one line of at most `limit` characters; runs of white space become one space."""
    line = " ".join(for_model(text[: limit * 8]).split())
    if len(line) <= limit:
        return line
    return for_model(line[: max(limit - 1, 0)]) + "…"


def spelled(text: str) -> str:
    """Return the text with every character that `for_model` would change written as its JSON escape.

    Use it for values that the model must return exactly.
    """
    if for_model(text) == text:
        return text
    return _pattern(rf"\r(?!\n)|[{_SUSPICIOUS}]").sub(
        lambda found: json.dumps(found[0])[1:-1], text
    )


def set_apart(text: str) -> str:
    """Return third-party text in a form that can be embedded in other text and cannot end its own block.

    A single line is returned unchanged. Several lines become a block between two fences that are longer than any run of
    backticks inside, so the text cannot imitate the text after it. A single line that would open a block is fenced as
    well.
    """
    opens = text.lstrip().startswith(_FENCES)
    if opens or _LINE_END.search(text):
        return fenced(text)
    return text


def fenced(text: str, label: str = "", language: str = "") -> str:
    """Return the text as a code block whose fence is longer than any run of backticks inside, so that the text cannot
    end it.
    """
    longest = 0
    if "`" in text:
        longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    heading = ""
    if label:
        heading = f"{label}:\n"
    return f"{heading}{fence}{language}\n{text}\n{fence}"
