"""Third-party text made fit to print, log or put beside our own words.

Tool names, descriptions, results, server stderr and model output may be hostile: this is the one place that takes
out what could move a cursor, set a title, forge a line or hide from a reader.
"""

from __future__ import annotations

import unicodedata

_KEPT_CONTROLS = frozenset("\n\t")


def _is_safe(char: str) -> bool:
    if char in _KEPT_CONTROLS:
        return True
    # Cc: C0, C1, ESC, CR. Cf: bidi overrides, zero-width, tag characters. Cs: lone surrogates. Co/Cn: no meaning here.
    return unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Cn")


def safe_text(text: str) -> str:
    """The text without control, bidirectional, invisible and unassigned characters; line breaks and tabs stay.

    Idempotent. ANSI sequences lose their escape character and so become visible, harmless text.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(char for char in text.replace("\r\n", "\n") if _is_safe(char))


def safe_line(text: str, limit: int = 200) -> str:
    """One printable line of at most `limit` characters; runs of white space become one space."""
    line = " ".join(safe_text(text[: limit * 8]).split())
    return line if len(line) <= limit else line[: max(limit - 1, 0)] + "…"
