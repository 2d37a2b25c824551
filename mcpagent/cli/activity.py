"""The one line that moves: what is going on right now. It is taken away before anything is printed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcpagent.cli.figures import duration
from mcpagent.cli.terminal import Glyphs
from mcpagent.safe_text import safe_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

REFRESHES_PER_SECOND = 8


class Activity:
    """Shows `label` with a spinner and the seconds so far; nothing at all where the console cannot take it back."""

    def __init__(self, console: Console, glyphs: Glyphs) -> None:
        self._console = console
        self._frames = glyphs.spinner
        self._dot = glyphs.dot
        self._live: Live | None = None
        self._label = ""
        self._pauses = 0
        self._wanted = False
        self._since = time.monotonic()

    def show(self, label: str) -> None:
        """Shows the label from now on; the clock starts anew when it was not shown before."""
        self._label = label
        self._wanted = True
        if self._pauses or self._live is not None or not self._console.is_interactive:
            return
        from rich.live import Live

        self._since = time.monotonic()
        self._live = Live(
            console=self._console,
            get_renderable=self._line,
            transient=True,
            refresh_per_second=REFRESHES_PER_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def hide(self) -> None:
        self._wanted = False
        self._take_away()

    def _take_away(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Takes the line away while something else is printed or asked."""
        self._take_away()
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if self._wanted:
                self.show(self._label)

    def _line(self) -> Text:
        from rich.text import Text

        passed = time.monotonic() - self._since
        frame = self._frames[int(passed * REFRESHES_PER_SECOND) % len(self._frames)]
        clock = f" {self._dot} {duration(passed)}" if passed >= 1 else ""
        room = max(self._console.width - len(clock) - 4, 10)
        return Text(f"{frame} {safe_line(self._label, room)}{clock}", "dim", no_wrap=True)
