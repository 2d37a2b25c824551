"""Break plain lines at spaces for a narrow terminal, before anything else is loaded; `screen` does so for texts."""

from __future__ import annotations

import os


def at_words(text: str, descriptor: int, indent: int = 2) -> str:
    """Return the lines of a text as this terminal can show them, further lines moved in; unchanged for no terminal.

    The terminal itself breaks words. It breaks a path or command that is longer than a line, so that it can be copied.
    """
    try:
        width = os.get_terminal_size(descriptor).columns
    except (OSError, ValueError):
        return text
    lines = text.splitlines()
    if all(len(line) <= width for line in lines):
        return text
    import textwrap

    wrapped = [
        textwrap.wrap(
            line,
            max(width, 20),
            subsequent_indent=" " * indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in lines
    ]
    return "".join(f"{piece}\n" for pieces in wrapped for piece in pieces or [""])
