"""Break plain lines at spaces for a narrow terminal, before other modules are loaded; `screen` does the same for styled
texts.
"""

from __future__ import annotations

import os


def at_words(text: str, descriptor: int, indent: int = 2) -> str:
    """Return the text with its lines broken at spaces for this terminal, continuation lines indented; unchanged without
    a terminal.

    Without this, the terminal breaks lines within words. A path or command longer than a line is left to the terminal,
    so that it can be copied.
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
