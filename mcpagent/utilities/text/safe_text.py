"""Make third-party text safe to print, to log or to embed in mcpagent's own messages.

Tool names, descriptions, results, server stderr and model output may be hostile. Only this module removes characters
that move a cursor, set a title, forge a line or hide text from a reader.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence

MAX_LISTED_NAMES = 20

_STEP = 200_000
"""Number of characters processed in one step; other threads run between steps."""

_KEPT_CONTROLS = frozenset("\n\t")
_HIDDEN = re.compile(
    "[\u200b\u2060-\u2064\ufeff\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)


def _is_safe(char: str) -> bool:
    if char in _KEPT_CONTROLS:
        return True
    # Cc: C0, C1, ESC, CR. Cf: bidi overrides, zero-width, tag characters. Cs: lone surrogates. Co, Cn: private or
    # unassigned.
    return unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Cn")


def safe_text(text: str) -> str:
    """Return the text without control, bidirectional, invisible and unassigned characters; line breaks and tabs stay.

    Idempotent. ANSI sequences lose their escape character and so become visible, harmless text. A long text is
    processed in steps, so that a worker thread lets other threads run.
    """
    if len(text) > _STEP:
        pieces = steps_of(text)
        safe = [safe_text(piece) for piece in pieces]
        if safe == pieces:
            return text  # copying a long text would block all threads
        return "".join(safe)
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n")
    removed = {ord(char): None for char in set(text) if not _is_safe(char)}
    if not removed:
        return text
    return text.translate(removed)


def steps_of(text: str) -> list[str]:
    """Return the text in pieces; other threads can run while the caller processes them one by one."""
    return [text[start : start + _STEP] for start in range(0, len(text), _STEP)]


_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\ufffc\U00016fe4\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters without a visible shape: Unicode's Default_Ignorable_Code_Point, and blank ones such as the empty Braille
pattern.
"""


def visible(text: str, kept: str = "\n\t") -> str:
    """Return the whole text; characters that could hide, move or reorder text are written as JSON escapes.

    Use it for texts that the user must approve. `kept`: control characters that stay unchanged. If the text has such
    characters, or letters that look like their escapes, each backslash is doubled, so that two different texts never
    look alike.
    """
    shown = with_codes(text, kept)
    if shown == text and not _looks_like_code(text, kept):
        return text
    return with_codes(text.replace("\\", "\\\\"), kept)


_CODE = re.compile(r"\\(u[0-9a-fA-F]{4}|[bfnrt])")


def _looks_like_code(text: str, kept: str) -> bool:
    of_kept = {json.dumps(char)[2:-1] for char in kept}
    return any(code not in of_kept for code in _CODE.findall(text))


def with_codes(text: str, kept: str = "\n\t") -> str:
    """Return the text with dangerous characters as JSON escapes, like `visible`, for a text whose backslashes are
    already escaped, such as JSON.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char if char in kept or _is_plain(char) else json.dumps(char)[1:-1]
        for char in text
    )


def _is_plain(char: str) -> bool:
    return (
        (char.isprintable() or char == "\u3000")
        and _is_safe(char)
        and not _IGNORABLE.match(char)
    )


def hides_something(text: str) -> bool:
    """Return whether the text has characters that can hide words from a reader.

    They are tag characters (U+E0000), zero-width characters and reversed directions. Joiners and variation selectors do
    not count: emoji and some scripts need them.
    """
    return not text.isascii() and _HIDDEN.search(text) is not None


def safe_line(text: str, limit: int = 200) -> str:
    """Return one printable line of at most `limit` characters; runs of white space become one space."""
    line = " ".join(safe_text(text[: limit * 8]).split())
    if len(line) <= limit:
        return line
    return line[: max(limit - 1, 0)] + "…"


def listed(names: Sequence[str]) -> str:
    """Return names for an error line: the first ones, and how many more there are."""
    shown = ", ".join(safe_line(name, 64) for name in names[:MAX_LISTED_NAMES])
    more = ""
    if len(names) > MAX_LISTED_NAMES:
        more = f" and {len(names) - MAX_LISTED_NAMES} more"
    return f"{shown}{more}" or "none"


def without_halves(text: str) -> str:
    """Return the text with lone surrogates replaced by question marks, for files, databases and encoders."""
    if text.isascii():
        return text
    pieces = steps_of(text)
    whole = [piece.encode("utf-8", "replace").decode("utf-8") for piece in pieces]
    if whole == pieces:
        return text
    return "".join(whole)


def error_text(error: BaseException) -> str:
    """Return the type and message of an exception; only the type if its `__str__` fails."""
    kind = type(error).__name__
    try:
        return f"{kind}: {error}"
    except Exception:  # noqa: BLE001 - any code may be in its `__str__`
        return kind
