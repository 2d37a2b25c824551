"""Files of the user, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from mcpagent.errors import ConfigError
from mcpagent.safe_text import safe_line
from mcpagent.whole_files import write_whole

_BOM = "\ufeff"


def write_text(path: Path, text: str, *, new_mode: int = 0o600) -> None:
    """Replaces the file's content in one step; its mode stays, a symbolic link is followed, a byte order mark is kept.

    A new file gets `new_mode`, missing folders are made for this user only. Raises `ConfigError`.
    """
    try:
        target = path.resolve()
        exists = target.exists()
        mode = target.stat().st_mode & 0o7777 if exists else new_mode
        marked = exists and target.read_bytes().startswith(_BOM.encode())
        write_whole(target, _BOM * marked + text, mode=mode)
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise ConfigError(f"{safe_line(str(path))}: cannot be written: {safe_line(str(error))}") from None


@contextlib.contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """Inside, no other process that asks for the same changes files of that folder, so what is read is what is changed.

    Nothing is left behind. Where the system has no such lock, or the folder cannot be made, nothing is held.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, RuntimeError):
            folder = path.resolve().parent
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, handle)  # which unlocks it
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
