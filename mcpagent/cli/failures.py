"""Errors for people: one line on stderr; a traceback only with --debug."""

from __future__ import annotations

import sys
import traceback

from mcpagent.safe_text import safe_line

MAX_LINE = 600


def report_error(text: str) -> None:
    """Writes `error: ...` as one line."""
    _write(f"error: {safe_line(text, MAX_LINE)}\n")


def report_exception(error: BaseException, *, debug: bool) -> None:
    """Writes an exception that nobody expected, or any with `debug`."""
    if debug:
        _write("".join(traceback.format_exception(error)))
    else:
        report_error(f"internal error: {type(error).__name__}: {error}; run it again with --debug for the traceback")


def _write(text: str) -> None:
    if sys.stderr is None:
        return
    encoding = sys.stderr.encoding or "utf-8"
    try:
        sys.stderr.write(text.encode(encoding, "replace").decode(encoding))
        sys.stderr.flush()
    except OSError:
        pass  # nobody can be told
