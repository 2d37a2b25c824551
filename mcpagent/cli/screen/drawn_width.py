"""Cut text that a user must judge into rows that no terminal wraps again.

rich counts no cells for spacing marks and skin tones, but most terminals draw them. A terminal would wrap a row that is
wider than the screen, and the rest would look like a row of mcpagent's.
"""

from __future__ import annotations

from unicodedata import category

from rich.cells import cell_len

_SKIN_TONES = range(0x1F3FB, 0x1F400)


def drawn_width(text: str) -> int:
    """Return the maximum number of cells in which a terminal may draw the text."""
    if text.isascii():
        return cell_len(text)
    return sum(map(_most_cells, text))


def _most_cells(char: str) -> int:
    if ord(char) in _SKIN_TONES:
        return 2
    if category(char) in ("Mc", "Me"):
        return 1
    return cell_len(char)


def cut_into_rows(text: str, width: int) -> list[str]:
    """Return the text in rows of at most `width` cells on any terminal; one empty row for an empty text."""
    rows, row, used = list[str](), "", 0
    for char in text:
        cells = _most_cells(char)
        if row and used + cells > width:
            rows.append(row)
            row, used = "", 0
        row += char
        used += cells
    return [*rows, row]
