"""Spans in a file of one's own, a line each; readable by its user only."""

from __future__ import annotations

import errno
import logging
import os
import stat
from pathlib import Path

from mcpagent.errors import ConfigError
from mcpagent.recording.recorder import opened_alone
from mcpagent.text.safe_text import safe_line
from mcpagent.tracing.otlp_lines import BEGINNING, otlp_line
from mcpagent.tracing.spans import TraceSpan

logger = logging.getLogger("mcpagent")


class TraceFile:
    """A file that spans are added to, by all agents of this process that have it open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        self._users = 0
        self._has_failed = False

    def open(self) -> None:
        """Opens it, or notes one more user. Raises `ConfigError` for a file that is no trace or cannot be written."""
        if self._descriptor is None:
            shown = safe_line(str(self.path), 120)
            try:
                if self.path.is_file() and not _is_trace(self.path):
                    raise ConfigError(f"trace {shown}: is there and is no trace; name a new file, or a trace to add to")
                self._descriptor = _opened_regular(self.path)
            except OSError as error:
                raise ConfigError(
                    f"trace {shown}: {error.strerror or error}; name a file that can be written"
                ) from None
        self._users += 1

    def write(self, span: TraceSpan, service: str, version: str) -> None:
        """Adds a span. A disk that is full ends the trace, not the run: it is logged, once."""
        if self._descriptor is None or self._has_failed:
            return
        data = otlp_line(span, service, version).encode("utf-8", "replace")
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            self._has_failed = True
            logger.warning("trace %s is not complete: %s", self.path, error)

    def close(self) -> None:
        """One user less; the last one closes it."""
        self._users -= 1
        if self._users <= 0 and self._descriptor is not None:
            descriptor, self._descriptor, self._users = self._descriptor, None, 0
            os.close(descriptor)


def _opened_regular(path: Path) -> int:
    """The file to add to; whoever reads a pipe slowly would hold the run. Raises `OSError`."""
    descriptor = opened_alone(path, os.O_APPEND)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "is no regular file")


def _is_trace(path: Path) -> bool:
    """Whether nothing stands in it, or a trace."""
    with path.open("rb") as file:
        return file.read(len(BEGINNING)) in (b"", BEGINNING.encode())
