"""Write a model's text to a pipe as it arrives, without secrets."""

from __future__ import annotations

from collections.abc import Callable

from mcpagent.utilities.text.for_model import for_model
from mcpagent.utilities.text.secrets import KEY_BEGINS, LONGEST_KEY, settled_length

_LONGEST_ESCAPE = 256
_LONG = 1_000
"""Maximum length of unfinished text that is examined at each change; longer text is examined when it may be
complete.
"""


class StreamedText:
    """Passes a growing text to `write`; an ending that may be part of a secret waits for more text."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._raw = ""
        self._waiting = ""
        self._last = ""

    @property
    def has_written(self) -> bool:
        """True if any text was written."""
        return bool(self._last)

    def feed(self, text: str) -> None:
        """Write the waiting text and the new text, as far as both are certain to contain no part of a secret.

        Invisible characters are removed first: they could hide a secret from the search.
        """
        raw = self._raw + text
        end = _before_control(raw)
        self._raw = raw[end:]
        clean = for_model(raw[:end])
        self._waiting += clean
        if len(self._waiting) > _LONG and not self._may_settle(clean):
            return
        settled = settled_length(self._waiting)
        self._put(self._waiting[:settled])
        self._waiting = self._waiting[settled:]

    def finish(self) -> None:
        """Write the waiting text, and a line end."""
        rest = self._waiting + for_model(self._raw)
        self._raw = self._waiting = ""
        self._put(rest)
        if self._last and self._last != "\n":
            self._put("\n")

    def _may_settle(self, text: str) -> bool:
        """Return whether the waiting text may be complete now, so that it is worth examining again.

        Long text waits as a possible key. `text` is the newest part, which may contain the key's end marker or a
        separator.
        """
        if self._waiting.startswith(KEY_BEGINS):
            return "-" in text or len(self._waiting) > LONGEST_KEY
        return not text.isascii() or not text.isprintable() or " " in text

    def _put(self, text: str) -> None:
        if text:
            self._write(text)
            self._last = text[-1]


def _before_control(text: str) -> int:
    """Return the index at which an incomplete escape sequence or line end begins, or the text's length."""
    escape = text.rfind("\x1b")
    if escape >= 0 and len(text) - escape < _LONGEST_ESCAPE:
        return escape
    return len(text) - text.endswith("\r")
