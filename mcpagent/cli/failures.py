"""Errors for people: one line on stderr; a traceback only with --debug, and in the log."""

from __future__ import annotations

import os
import sys
import traceback

from mcpagent.cli.run_log import keep_error, run_log_path
from mcpagent.safe_text import safe_line

MAX_LINE = 600


def report_error(text: str, *, kept: BaseException | None = None) -> None:
    """Writes `error: ...` as one line; `kept` is the error whose traceback goes to the log that the line names."""
    log = ""
    if kept is not None and keep_error(path := run_log_path(os.environ), kept):
        log = f"; log: {safe_line(_short(str(path)), 300)}"
    _write(f"error: {safe_line(text, MAX_LINE)}{log}\n")


def report_warning(text: str) -> None:
    """Writes `! ...` as one line."""
    _write(f"! {safe_line(text, MAX_LINE)}\n")


def report_exception(error: BaseException, *, debug: bool) -> None:
    """Writes an exception that nobody expected, or any with `debug`."""
    if debug:
        keep_error(run_log_path(os.environ), error)
        _write("".join(traceback.format_exception(error)))
    else:
        report_error(f"internal error: {type(error).__name__}: {error}; --debug shows the traceback", kept=error)


def _short(path: str) -> str:
    """With `~` for the user's folder."""
    home = os.path.expanduser("~").rstrip(os.sep)
    return f"~{path[len(home) :]}" if home and path.startswith(home + os.sep) else path


def _write(text: str) -> None:
    if sys.stderr is None:
        return
    encoding = sys.stderr.encoding or "utf-8"
    try:
        sys.stderr.write(text.encode(encoding, "replace").decode(encoding))
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # nobody can be told
