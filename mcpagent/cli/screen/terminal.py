"""The terminal's capabilities: colours, characters, width; the two consoles; documents on stdout."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text
from rich.theme import Theme

from mcpagent.cli.common.options import ColorMode, Options
from mcpagent.errors import InputError
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import without_secrets

PIPE_WIDTH = 200
"""Number of columns if the output is no terminal: programs read it, so lines are not broken."""

HANGING = 2
"""Indentation of the continuation of a wrapped line, in columns."""

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
"""mcpagent's styles, and replacements for rich's styles that have a background or an unneeded colour."""


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The symbols used besides words; each has an ASCII form."""

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


ASCII_GLYPHS = Glyphs(
    call="*",
    search="?",
    ok="ok",
    failed="x",
    under="-",
    branch="-",
    bar="|",
    dot="-",
    ellipsis="...",
    block="#",
    spinner="|/-\\",
    line="-",
    corners=("+", "+", "+", "+"),
)


@dataclass(frozen=True, slots=True)
class Terminal:
    """The consoles `out` (stdout) and `err` (stderr), and the symbols that both can print."""

    out: Console
    err: Console
    glyphs: Glyphs

    def report(
        self, options: Options, document: Any, *lines: Text | str, exact: bool = False
    ) -> None:
        """Write the document if `--json` is set, otherwise the lines; `exact` is as for `put`."""
        if options.output == "json":
            write_json(document, exact=exact)
        else:
            put(self.out, *lines, exact=exact)

    def done(self, text: str) -> None:
        """Print `✓ text` on stdout."""
        put(self.out, Text.assemble((self.glyphs.ok, "ok"), f" {text}"))

    def warn(self, *texts: str) -> None:
        """Print `! text` on stderr, one line each."""
        put(self.err, *(warning_line(text, self.glyphs) for text in texts))


def warning_line(text: str, glyphs: Glyphs, limit: int = 600) -> Text:
    """Return `! text`, printable and in one line."""
    return Text(f"{glyphs.warning} {safe_line(text, limit)}", "warning")


def open_terminal(
    color: ColorMode, environ: Mapping[str, str] = os.environ
) -> Terminal:
    """Return the terminal of this process."""
    for stream in (sys.stdout, sys.stderr):
        # A character that the locale cannot encode becomes "?" and raises no error.
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    if all(_writes(stream, Glyphs()) for stream in (sys.stdout, sys.stderr)):
        glyphs = Glyphs()
    else:
        glyphs = ASCII_GLYPHS
    return Terminal(
        make_console(sys.stdout, color, environ),
        make_console(sys.stderr, color, environ),
        glyphs,
    )


def make_console(
    stream: TextIO | None, color: ColorMode, environ: Mapping[str, str]
) -> Console:
    """Return a console that prints plain text unchanged: no markup, emoji codes or highlighting; 16 colours at most."""
    if stream is not None:
        file = stream
    else:
        file = io.StringIO()
    is_terminal = is_a_terminal(stream)
    is_dumb = environ.get("TERM", "") in ("dumb", "unknown")
    columns = environ.get("COLUMNS", "")
    width = None
    if columns.isdecimal() and int(columns) > 0:
        width = int(columns)
    if is_dumb and is_terminal and width is None:
        width = shutil.get_terminal_size().columns
    return _PipeConsole(
        # The input line may replace this stream, so that it must be looked up at each print.
        file=None if file is sys.stdout else file,
        force_terminal=is_terminal,
        force_interactive=is_terminal and not is_dumb,
        color_system="standard" if wants_color(is_terminal, color, environ) else None,
        width=width if is_terminal else (width or PIPE_WIDTH),
        height=25
        if is_dumb
        else None,  # without a height, rich assumes that a dumb terminal has 80 columns
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
        theme=Theme(_STYLES),
    )


def put(
    console: Console, *lines: Text | str, style: str | None = None, exact: bool = False
) -> None:
    """Print lines without secrets; on a terminal they are wrapped at words, elsewhere they are not broken.

    Wrapped lines continue indented, so that third-party text, however long, cannot begin a line as mcpagent's do.
    `exact`: the user judges these lines, so nothing is removed.
    """
    for line in lines if exact else map(_without_secrets, lines):
        if console.is_terminal:
            console.print(_wrapped(line, console), style=style)
        else:
            console.print(line, style=style, soft_wrap=True)


def _without_secrets(line: Text | str) -> Text | str:
    if isinstance(line, str):
        plain = line
    else:
        plain = line.plain
    clean = without_secrets(plain)
    if clean == plain:
        return line
    if isinstance(line, str):
        return clean
    return Text(clean, style=line.style)


def _wrapped(line: Text | str, console: Console) -> Text:
    if isinstance(line, str):
        text = Text(line)
    else:
        text = line
    if text.cell_len <= console.width:
        return text
    indent = len(text.plain) - len(text.plain.lstrip(" ")) + HANGING
    first, *rest = text.wrap(console, max(console.width - indent, 20), overflow="fold")
    return Text("\n").join(
        [first, *(Text.assemble(" " * indent, piece) for piece in rest)]
    )


def silent_console() -> Console:
    """Return a console that prints nothing."""
    return Console(quiet=True, force_terminal=False, force_interactive=False)


class _PipeConsole(Console):
    def on_broken_pipe(self) -> None:
        """Pass the error on to the top level, which converts it to an exit code; rich would exit with code 1 here."""
        raise BrokenPipeError


def wants_color(
    is_terminal: bool, color: ColorMode, environ: Mapping[str, str]
) -> bool:
    """Return whether to use colour; `--color` decides, then NO_COLOR, then FORCE_COLOR, then the stream."""
    if color != "auto":
        return color == "always"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in ("", "0", "false"):
        return True
    return is_terminal and environ.get("TERM", "") not in ("dumb", "unknown")


def is_a_terminal(stream: TextIO | None) -> bool:
    """Return whether the stream is a terminal; False for a closed or missing stream."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # the stream is closed
        return False


_STEP_SECONDS = 0.1


def typed_line() -> str:
    """Return the next line that the user types; "" at the end of the input.

    It waits for the keyboard in short steps. Python handles Ctrl-C between two steps; just before one long wait, it
    would notice Ctrl-C only after the line.
    """
    if sys.platform != "win32" and is_a_terminal(sys.stdin):
        import select

        with contextlib.suppress(OSError, ValueError):  # a stand-in without a file
            while not select.select([sys.stdin], [], [], _STEP_SECONDS)[0]:
                pass
    return sys.stdin.readline()


def agreed(terminal: Terminal, question: str, yes_does: str) -> bool:
    """Ask the user; return whether the answer is yes. Raises `InputError` without a terminal.

    `yes_does` is the effect of `--yes`, for that error: "deletes".
    """
    if not (is_a_terminal(sys.stdin) and terminal.err.is_terminal):
        raise InputError(
            f"nobody can be asked here; --yes {yes_does} without a question"
        )
    terminal.err.file.write(f"{question} [y] yes  [N] no ")
    terminal.err.file.flush()
    return typed_line().strip().lower() in ("y", "yes")


def _writes(stream: TextIO | None, glyphs: Glyphs) -> bool:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        f"{glyphs.call}{glyphs.search}{glyphs.ok}{glyphs.failed}{glyphs.under}{glyphs.spinner}".encode(
            encoding
        )
    except (UnicodeEncodeError, LookupError):
        return False
    return True


# -- Documents on stdout -----------------------------------------------------------------------------------------------


def write_out(text: str, *, exact: bool = False) -> None:
    """Write to stdout and flush, with secrets removed; `exact` is as for `put`."""
    if sys.stdout is not None:
        sys.stdout.write(text if exact else without_secrets(text))
        sys.stdout.flush()


def write_json(document: Any, indent: int | None = 2, *, exact: bool = False) -> None:
    """Write the document and a line end to stdout."""
    write_out(portable_json(document, indent) + "\n", exact=exact)


def portable_json(document: Any, indent: int | None = None) -> str:
    """Return JSON that any parser can read in any locale: ASCII, and null for NaN and infinity.

    Python's own "NaN" and "Infinity" occur easily: `1e999` in the text of a server or a model is enough.
    """
    try:
        return json.dumps(document, indent=indent, default=str, allow_nan=False)
    except ValueError:
        return json.dumps(
            _finite(document), indent=indent, default=str, allow_nan=False
        )


def readable_json(document: Any) -> str:
    """Return JSON with its characters unescaped, if stdout can encode them."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return portable_json(document)
    return text


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
