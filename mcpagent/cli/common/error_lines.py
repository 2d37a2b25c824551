"""Report errors: one line on stderr; tracebacks only with --debug, and in mcpagent's own log."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mcpagent.cli.common.line_wrapping import at_words
from mcpagent.utilities.filesystem.user_folders import state_folder
from mcpagent.utilities.text.safe_text import safe_line

MAX_LINE = 600
LONGEST_ENTRY = 20_000


def report_error(text: str, *, kept: BaseException | None = None) -> None:
    """Write `error: ...` as one line. The traceback of `kept` is written to a log, which the line names."""
    log = ""
    if kept is not None and keep_error(path := run_log_path(os.environ), kept):
        home = os.path.expanduser("~").rstrip(os.sep)
        if home and str(path).startswith(home + os.sep):
            shown = f"~{str(path)[len(home) :]}"
        else:
            shown = str(path)
        log = f"; log: {safe_line(shown, 300)}"
    _write(_line(f"error: {safe_line(text, MAX_LINE)}{log}"))


def report_warning(text: str) -> None:
    """Write `! ...` as one line."""
    _write(_line(f"! {safe_line(text, MAX_LINE)}"))


def report_exception(error: BaseException, *, debug: bool) -> None:
    """Report an unexpected exception, or any exception with `debug`."""
    if debug:
        keep_error(run_log_path(os.environ), error)
        _write("".join(traceback.format_exception(error)))
    else:
        report_error(
            f"internal error: {type(error).__name__}: {error}; --debug shows the traceback",
            kept=error,
        )


def _write(text: str) -> None:
    if sys.stderr is None:
        return
    text = _redacted(text)
    encoding = sys.stderr.encoding or "utf-8"
    try:
        sys.stderr.write(text.encode(encoding, "replace").decode(encoding))
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # stderr has no reader left


def _line(text: str) -> str:
    """Return the text as a line of stderr, broken at spaces on a terminal."""
    try:
        descriptor = sys.stderr.fileno()
    except (
        OSError,
        ValueError,
        AttributeError,
    ):  # stderr is replaced, closed, or missing
        return f"{text}\n"
    return at_words(f"{text}\n", descriptor)


def did_you_mean(near: Iterable[str], otherwise: str = "") -> str:
    """Return `did you mean git or gitlab?`; `otherwise` if there is no similar name."""
    names = [safe_line(name, 80) for name in near]
    if names:
        return f"did you mean {' or '.join(names)}?"
    return otherwise


def cannot_be_read(error: OSError | ValueError) -> str:
    """Return why a file cannot be read and how to fix that; the text follows the file's name."""
    match error:
        case FileNotFoundError():
            return "not found; create it or name another file"
        case IsADirectoryError():
            return "is a folder; name a file in it"
        case PermissionError():
            return "permission denied; make it readable for your user"
        case UnicodeDecodeError():
            return "not UTF-8; save the file as UTF-8"
        case _:
            why = getattr(error, "strerror", None) or str(error)
            return f"cannot be read: {safe_line(why, 120)}; name another file"


# -- Log of the program ------------------------------------------------------------------------------------------------


def run_log_path(environ: Mapping[str, str]) -> Path:
    """Return the path of `mcpagent.log` in the state folder; a full one becomes `mcpagent.log.1`."""
    return state_folder(environ) / "mcpagent.log"


class RunLog(logging.Handler):
    """Appends warnings of libraries with their time (UTC), redacted. The first warning creates the file."""

    def __init__(self, path: Path, level: int = logging.WARNING) -> None:
        super().__init__(level)
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        """Append the record; called by `logging`."""
        write_entry(
            self._path,
            f"{record.levelname.lower()} {record.name}: {self.format(record)}",
        )


def keep_error(path: Path, error: BaseException) -> bool:
    """Write the error's traceback to the file; return whether that succeeded."""
    from mcpagent.utilities.version import __version__

    python = ".".join(map(str, sys.version_info[:3]))
    head = f"mcpagent {__version__}, Python {python} on {sys.platform}"
    return write_entry(path, f"{head}\n{''.join(traceback.format_exception(error))}")


def write_entry(path: Path, text: str) -> bool:
    """Append one entry of printable text; return False, without an error, if the file is not writable."""
    from datetime import UTC, datetime

    from mcpagent.mcp.transports.server_log import append_bounded
    from mcpagent.utilities.text.safe_text import safe_text

    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    entry = safe_text(_redacted(text[-LONGEST_ENTRY:])).rstrip("\n")
    try:
        append_bounded(path, f"{stamp} {entry}\n".encode("utf-8", "replace"))
    except OSError:
        return False
    return True


def _redacted(text: str) -> str:
    from mcpagent.utilities.text.secrets import without_secrets

    return without_secrets(text)


class DebugLog(logging.StreamHandler[Any]):
    """Writes libraries' log messages to stderr with `--debug`: redacted, and without terminal control characters."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        from mcpagent.utilities.text.secrets import hide_environment

        super().__init__(sys.stderr)
        hide_environment(environ)

    def format(self, record: logging.LogRecord) -> str:
        """Return `logger: message`."""
        from mcpagent.utilities.text.safe_text import safe_text

        return safe_text(_redacted(f"{record.name}: {super().format(record)}"))
