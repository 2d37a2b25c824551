"""The log of the program itself: warnings of its libraries and tracebacks of errors, in one file of bounded size."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path

from mcpagent.cli.folders import state_folder

LONGEST_ENTRY = 20_000


def run_log_path(environ: Mapping[str, str]) -> Path:
    """`mcpagent.log` in the state folder; a fuller one becomes `mcpagent.log.1`."""
    return state_folder(environ) / "mcpagent.log"


class RunLog(logging.Handler):
    """Appends each record, after the time (UTC), without secrets. The file comes to be with the first one."""

    def __init__(self, path: Path, level: int = logging.WARNING) -> None:
        super().__init__(level)
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        write_entry(self._path, f"{record.levelname.lower()} {record.name}: {self.format(record)}")


def keep_error(path: Path, error: BaseException) -> bool:
    """Whether the error's traceback stands in the file now."""
    from mcpagent import __version__

    python = ".".join(map(str, sys.version_info[:3]))
    head = f"mcpagent {__version__}, Python {python} on {sys.platform}"
    return write_entry(path, f"{head}\n{''.join(traceback.format_exception(error))}")


def write_entry(path: Path, text: str) -> bool:
    """Appends one entry of printable text. A file that cannot be written is no error: False."""
    from datetime import UTC, datetime

    from mcpagent.known_secrets import without_secrets
    from mcpagent.mcp.server_log import append_bounded
    from mcpagent.safe_text import safe_text
    from mcpagent.secret_shapes import without_shapes

    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    entry = safe_text(without_shapes(without_secrets(text[-LONGEST_ENTRY:]))).rstrip("\n")
    try:
        append_bounded(path, f"{stamp} {entry}\n".encode("utf-8", "replace"))
    except OSError:
        return False
    return True
