"""What a terminal shows after everything that was written to it, by the terminal emulator pyte.

Screens that are kept in `golden/` are compared with what varies taken out. MCPAGENT_UPDATE_SCREENS=1 writes them anew.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).with_name("golden")

_VARYING = (
    (re.compile(r"\b\d+(\.\d+)? (ms|s)\b"), "TIME"),
    (re.compile(r"mcpagent \d+\.\d+\.\d+\S*"), "mcpagent VERSION"),
    (re.compile(r"\S*/python[\d.]*\b"), "PYTHON"),
    (re.compile(r"[█#]+"), "BAR"),
    (re.compile(r"(?<![\w.])\d[\d,.]*[kM]?\b"), "N"),
    (re.compile(r" {2,}"), "  "),
    (re.compile(r"(?<=  N)  BAR"), ""),  # a small share has a bar of no length
)
"""What changes with a machine or a word of the system prompt; what a screen says and how it is laid out stays."""


class Picture:
    """Takes what a program writes, as a terminal of this size would."""

    def __init__(self, columns: int, rows: int = 40) -> None:
        import pyte

        self._screen: Any = pyte.HistoryScreen(columns, rows, history=20_000, ratio=0.5)
        self._stream: Any = pyte.Stream(self._screen)

    def feed(self, raw: str) -> None:
        self._stream.feed(raw)

    def resize(self, columns: int, rows: int = 40) -> None:
        self._screen.resize(rows, columns)

    @property
    def title(self) -> str:
        return str(self._screen.title)

    @property
    def lines(self) -> list[str]:
        """All rows, also those that have scrolled away, without the spaces at their ends."""
        gone = ["".join(row[column].data for column in range(self._screen.columns)) for row in self._screen.history.top]
        return [line.rstrip() for line in (*gone, *self._screen.display)]

    @property
    def text(self) -> str:
        """The same as one text, without the empty rows at its end."""
        return "\n".join(self.lines).rstrip() + "\n"


def assert_golden(name: str, text: str, folder: Path) -> None:
    """Compares a screen with the one that was kept; `folder` is the test's own, whose path varies."""
    lines = text.replace(str(folder), "FOLDER").splitlines()
    for pattern, word in _VARYING:
        lines = [pattern.sub(word, line) for line in lines]
    shown = re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in lines)) + "\n"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("MCPAGENT_UPDATE_SCREENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(shown, "utf-8")
    assert shown == path.read_text("utf-8"), f"{path.name} differs; see mcpagent's terminal, then update it"
