"""`mcpagent mcp logs`: what a server wrote to its standard error, from the file that is kept of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mcpagent.cli.configuration import load_configuration
from mcpagent.cli.exit_codes import ExitCode
from mcpagent.cli.folders import state_folder
from mcpagent.cli.options import Options
from mcpagent.cli.server_files import unknown_server
from mcpagent.cli.stdout import write_out
from mcpagent.cli.terminal import open_terminal, put
from mcpagent.errors import InputError
from mcpagent.mcp.server_log import log_path
from mcpagent.safe_text import safe_line

LONGEST_LINE = 2_100
TAIL_BYTES = 2_000_000
LOOK_SECONDS = 0.2


def show_log(options: Options, name: str, lines: int, *, follow: bool) -> ExitCode:
    """Writes the last lines, then, to follow, each one that comes. Raises `InputError` for a name nobody knows."""
    terminal = open_terminal(options.color, os.environ)
    path = server_log_path(options, name)
    known = load_configuration(options).names
    if not path.exists() and name not in known:
        raise InputError(unknown_server(name, known))
    start = _state(path)
    for line in last_lines(path, lines, start.size):
        write_out(line + "\n")
    if not path.exists():
        put(terminal.err, f"{safe_line(name, 64)} has written nothing yet ({path})", style="dim")
    if follow:
        for line in followed(path, start, lambda: time.sleep(LOOK_SECONDS)):
            write_out(line + "\n")
    return ExitCode.OK


def server_log_path(options: Options, name: str) -> Path:
    return log_path(state_folder(options.environ) / "logs", name)


@dataclass(frozen=True, slots=True)
class FileState:
    """How long a file is and which one it is; zeros where there is none."""

    size: int = 0
    identity: int = 0


def last_lines(path: Path, count: int, end: int) -> list[str]:
    """The last lines up to this place of the file, of the one before it too where that is needed; printable."""
    kept = _tail(path, end)
    if len(kept) < count:
        kept = [*_tail(path.with_name(f"{path.name}.1")), *kept]
    return [safe_line(line, LONGEST_LINE) for line in kept[-count:]]


def followed(path: Path, start: FileState, wait: Callable[[], None]) -> Iterator[str]:
    """Each whole line written after `start`; `wait` is called while there is none. A new file is followed on."""
    at, identity, rest = start.size, start.identity, b""
    while True:
        now = _state(path)
        if now.identity != identity or now.size < at:
            at, identity, rest = 0, now.identity, b""
        data = _read(path, at, TAIL_BYTES) if now.size > at else b""
        if not data:
            wait()
            continue
        at += len(data)
        *whole, rest = (rest + data).split(b"\n")
        yield from (safe_line(line.decode("utf-8", "replace"), LONGEST_LINE) for line in whole)


def _state(path: Path) -> FileState:
    try:
        found = path.stat()
    except OSError:
        return FileState()
    return FileState(found.st_size, found.st_ino)


def _tail(path: Path, end: int | None = None) -> list[str]:
    stop = _state(path).size if end is None else end
    start = max(0, stop - TAIL_BYTES)
    return _read(path, start, stop - start).decode("utf-8", "replace").splitlines()


def _read(path: Path, start: int, count: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(start)
            return file.read(count)
    except OSError:
        return b""
