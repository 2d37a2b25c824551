"""Write one server's standard error to a file of limited size.

Lines are written a few times a second, however fast they arrive. Lines that exceed the buffer between two writes are
counted and dropped, so that a flood costs little.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
from collections import deque
from datetime import UTC, datetime
from pathlib import Path

from mcpagent.utilities.filesystem.bounded_files import check_own
from mcpagent.utilities.filesystem.file_changes import make_private
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import without_secrets

MAX_LOG_BYTES = 1024 * 1024
"""Maximum size of a log; a larger file is renamed to `NAME.log.1`, replacing an existing one."""

_WRITE_SECONDS = 0.2
_MAX_WAITING = 500
_LONGEST_LINE = 2_000


def log_path(folder: Path, server: str) -> Path:
    """Return the path of a server's log. Any server name gives a plain file name, which differs for each name."""
    plain = re.sub(r"[^a-z0-9_-]", "_", server.lower())[:60]
    if plain != server or not plain.strip("_-"):
        plain = f"{plain}-{hashlib.sha256(server.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return folder / f"{plain}.log"


class ServerLog:
    """Appends printable lines with their time (UTC) to a file that only its user can read.

    Several processes may write to the same file. If it is not writable, the lines are dropped without an error.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_LOG_BYTES) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._waiting: deque[str] = deque()
        self._left_out = 0
        self._rest = bytearray()
        self._timer: asyncio.TimerHandle | None = None

    def output(self, data: bytes) -> None:
        """Add output of the server in chunks of any size; a line is logged when it is complete."""
        *lines, rest = bytes(self._rest + data).split(b"\n")
        self._rest = bytearray(rest[:_LONGEST_LINE])
        for line in lines[-_MAX_WAITING:]:
            self._add(line.decode("utf-8", "replace"))
        self._left_out += max(0, len(lines) - _MAX_WAITING)

    def note(self, text: str) -> None:
        """Append a note by mcpagent, for example that the server was started."""
        self._add(f"--- {text}")

    def close(self) -> None:
        """Write the pending lines."""
        if self._rest:
            self.output(b"\n")
        self._write()

    def _add(self, line: str) -> None:
        if len(self._waiting) >= _MAX_WAITING:
            self._left_out += 1
            return
        self._waiting.append(line)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(
                _WRITE_SECONDS, self._write
            )

    def _write(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines, self._waiting = list(self._waiting), deque()
        if self._left_out:
            lines.append(
                f"--- {self._left_out} more lines are left out, they came too fast"
            )
            self._left_out = 0
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        shown = [
            safe_line(without_secrets(line[: _LONGEST_LINE * 2]), _LONGEST_LINE)
            for line in lines
        ]
        text = "".join(f"{stamp} {line}\n" for line in shown if line)
        if text:
            with contextlib.suppress(OSError):
                append_bounded(self._path, text.encode(), self._max_bytes)


def append_bounded(path: Path, content: bytes, max_bytes: int = MAX_LOG_BYTES) -> None:
    """Append to a file that only its user can read; rename a full one to `NAME.1` first. Raises `OSError`."""
    make_private(path.parent)
    check_own(path)
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size + len(content) > max_bytes:
            path.replace(path.with_name(f"{path.name}.1"))
    no_follow = getattr(os, "O_NOFOLLOW", 0)
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | no_follow, 0o600)
    with os.fdopen(handle, "ab") as file:
        file.write(content)
