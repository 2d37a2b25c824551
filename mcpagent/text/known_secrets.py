"""Register the secret values of this process, so that output and stores can redact them.

Redaction here goes by value. Redaction by name or shape may miss a secret; a known value is always found.
"""

from __future__ import annotations

import threading

REDACTED = "[redacted]"
SHORTEST = 6
"""Shorter values are left: replacing them would spoil the text and hide nothing."""

_lock = threading.Lock()
_values: frozenset[str] = frozenset()


def hide(*values: str | None) -> None:
    """Add values that `without_secrets` redacts from now on."""
    global _values
    with _lock:
        fresh = {value for value in values if value and len(value) >= SHORTEST} - _values
        if fresh:
            _values |= fresh


def known_values() -> frozenset[str]:
    """Return all registered values, for code that redacts other spellings too; the same object until one is added."""
    return _values


def without_secrets(text: str) -> str:
    """Return the text with each known secret as `[redacted]`."""
    for value in sorted(_values, key=lambda value: (-len(value), value)):  # one may be a part of another
        text = text.replace(value, REDACTED)
    return text
