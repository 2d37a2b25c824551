"""Secret values this process has held, so that whatever shows or keeps text can take them out.

Redaction by value: a name or a shape may be missed, a value that is known is not.
"""

from __future__ import annotations

import threading

REDACTED = "[redacted]"
SHORTEST = 6
"""Shorter values are left: replacing them would spoil the text and hide nothing."""

_lock = threading.Lock()
_values: frozenset[str] = frozenset()


def hide(*values: str | None) -> None:
    """From now on `without_secrets` takes these out."""
    global _values
    with _lock:
        fresh = {value for value in values if value and len(value) >= SHORTEST} - _values
        if fresh:
            _values |= fresh


def known_values() -> frozenset[str]:
    """All that is hidden by now, for whoever redacts in other spellings too; the same object until there is more."""
    return _values


def without_secrets(text: str) -> str:
    """The text with each known secret as `[redacted]`."""
    for value in sorted(_values, key=lambda value: (-len(value), value)):  # one may be a part of another
        text = text.replace(value, REDACTED)
    return text
