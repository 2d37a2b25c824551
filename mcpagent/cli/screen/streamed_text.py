"""Write a model's text to a pipe as it arrives, without secrets."""

from __future__ import annotations

from collections.abc import Callable

from mcpagent.utilities.text.for_model import for_model
from mcpagent.utilities.text.secrets import settled_length

_LONGEST_ESCAPE = 256


class StreamedText:
    """Pass a growing text to `write`; the end that may become part of a secret waits for more text."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._waiting = ""
        self._last = ""

    @property
    def has_written(self) -> bool:
        """True if any text was written."""
        return bool(self._last)

    def feed(self, text: str) -> None:
        """Write the text, and the text that waited, as far as both are settled."""
        self._waiting += text
        end = min(settled_length(self._waiting), _before_control(self._waiting))
        settled, self._waiting = self._waiting[:end], self._waiting[end:]
        self._put(settled)

    def finish(self) -> None:
        """Write the rest, and the end of its line."""
        rest, self._waiting = self._waiting, ""
        self._put(rest)
        if self._last and self._last != "\n":
            self._put("\n")

    def _put(self, text: str) -> None:
        if printable := for_model(text):
            self._write(printable)
            self._last = printable[-1]


def _before_control(text: str) -> int:
    """Return where an escape sequence or a line end begins that may not be complete."""
    escape = text.rfind("\x1b")
    if escape >= 0 and len(text) - escape < _LONGEST_ESCAPE:
        return escape
    return len(text) - text.endswith("\r")
