"""Secret values this process has held, so that every place where text is shown or kept can take them out.

Redaction by value: a name or a shape may be missed, a value that is known is not.
"""

from __future__ import annotations

import re
import threading

REDACTED = "[redacted]"
SHORTEST = 6
"""Shorter values are left: replacing them would spoil the text and hide nothing."""

_lock = threading.Lock()
_values: set[str] = set()
_pattern: re.Pattern[str] | None = None


def hide(*values: str | None) -> None:
    """From now on `without_secrets` takes these out."""
    global _pattern
    fresh = {value for value in values if value and len(value) >= SHORTEST} - _values
    if not fresh:
        return
    with _lock:
        _values.update(fresh)
        _pattern = re.compile("|".join(map(re.escape, sorted(_values, key=lambda value: (-len(value), value)))))


def known_values() -> frozenset[str]:
    """All that is hidden by now, for whoever redacts in other spellings too."""
    return frozenset(_values)


def without_secrets(text: str) -> str:
    """The text with each known secret as `[redacted]`."""
    return text if _pattern is None else _pattern.sub(REDACTED, text)
