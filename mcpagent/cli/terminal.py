"""What the terminal can do: colours, characters, width; and the two consoles that are written to."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TextIO

from mcpagent.cli.options import ColorMode

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

PIPE_WIDTH = 200
"""Columns where nobody watches: lines are for programs then and are not broken."""

HANGING = 2
"""Columns by which the rest of a wrapped line is moved in."""

_STYLES = {
    "user": "bold",
    "tool": "cyan",
    "ok": "green",
    "warning": "yellow",
    "error": "red",
    "dim": "dim",
    "markdown.code": "cyan",
    "markdown.code_block": "none",
    "markdown.block_quote": "dim",
    "markdown.item.number": "none",
    "markdown.list": "none",
}
"""Our roles, and rich's own where they paint a background or use a colour without need."""


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The few characters beyond words; each has an ASCII form."""

    call: str = "●"
    search: str = "⌕"
    loaded: str = "+"
    ok: str = "✓"
    failed: str = "✗"
    warning: str = "!"
    under: str = "└"
    branch: str = "├"
    bar: str = "│"
    dot: str = "·"
    ellipsis: str = "…"
    block: str = "█"
    spinner: str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
    line: str = "─"
    corners: tuple[str, str, str, str] = ("┌", "┐", "└", "┘")


ASCII_GLYPHS = Glyphs("*", "?", "+", "ok", "x", "!", "-", "-", "|", "-", "...", "#", "|/-\\", "-", ("+", "+", "+", "+"))


@dataclass(frozen=True, slots=True)
class Terminal:
    """`out` is stdout, `err` is stderr; `glyphs` fit both."""

    out: Console
    err: Console
    glyphs: Glyphs


def open_terminal(color: ColorMode, environ: Mapping[str, str]) -> Terminal:
    """The consoles of this process."""
    for stream in (sys.stdout, sys.stderr):
        # A character the locale cannot write becomes "?", never a traceback.
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    glyphs = Glyphs() if all(_writes(stream, Glyphs()) for stream in (sys.stdout, sys.stderr)) else ASCII_GLYPHS
    return Terminal(make_console(sys.stdout, color, environ), make_console(sys.stderr, color, environ), glyphs)


def make_console(stream: TextIO | None, color: ColorMode, environ: Mapping[str, str]) -> Console:
    """A console that prints plain text as it is: no markup, no emoji codes, no highlighting; 16 colours at most."""
    import io

    from rich.theme import Theme

    file = stream if stream is not None else io.StringIO()
    is_terminal = is_a_terminal(stream)
    is_dumb = environ.get("TERM", "") in ("dumb", "unknown")
    columns = environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() and int(columns) > 0 else None
    if is_dumb and is_terminal and width is None:
        width = shutil.get_terminal_size().columns
    return _console_class()(
        # A stream that may be replaced while it is used (by the input line) is looked up at each print.
        file=None if file is sys.stdout else file,
        force_terminal=is_terminal,
        force_interactive=is_terminal and not is_dumb,
        color_system="standard" if wants_color(is_terminal, color, environ) else None,
        width=width if is_terminal else (width or PIPE_WIDTH),
        height=25 if is_dumb else None,  # without a height rich takes a dumb terminal to be 80 columns wide
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
        theme=Theme(_STYLES),
    )


def put(console: Console, *lines: Text | str, style: str | None = None) -> None:
    """Prints lines; on a terminal they are wrapped at words, elsewhere they stay whole.

    What is wrapped goes on indented: no text of others, however long it is, begins a line as ours do.
    """
    for line in lines:
        if console.is_terminal:
            console.print(_wrapped(line, console), style=style)
        else:
            console.print(line, style=style, soft_wrap=True)


def _wrapped(line: Text | str, console: Console) -> Text:
    from rich.text import Text

    text = Text(line) if isinstance(line, str) else line
    if text.cell_len <= console.width:
        return text
    indent = len(text.plain) - len(text.plain.lstrip(" ")) + HANGING
    first, *rest = text.wrap(console, max(console.width - indent, 20), overflow="fold")
    return Text("\n").join([first, *(Text.assemble(" " * indent, piece) for piece in rest)])


def silent_console() -> Console:
    """A console that prints nothing."""
    from rich.console import Console

    return Console(quiet=True, force_terminal=False, force_interactive=False)


@cache
def _console_class() -> type[Console]:
    from rich.console import Console

    class PipeConsole(Console):
        def on_broken_pipe(self) -> None:
            """Lets the error reach the top, where it becomes an exit code; rich would exit with 1 here."""
            raise BrokenPipeError

    return PipeConsole


def wants_color(is_terminal: bool, color: ColorMode, environ: Mapping[str, str]) -> bool:
    """`--color`, then NO_COLOR, then FORCE_COLOR, then what the stream is."""
    if color is not ColorMode.auto:
        return color is ColorMode.always
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in ("", "0", "false"):
        return True
    return is_terminal and environ.get("TERM", "") not in ("dumb", "unknown")


def is_a_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def _writes(stream: TextIO | None, glyphs: Glyphs) -> bool:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        f"{glyphs.call}{glyphs.search}{glyphs.ok}{glyphs.failed}{glyphs.under}{glyphs.spinner}".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
