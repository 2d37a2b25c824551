"""Files of the user, written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from mcpagent.errors import ConfigError
from mcpagent.safe_text import safe_line

_BOM = "\ufeff"


def write_text(path: Path, text: str, *, new_mode: int = 0o600) -> None:
    """Replaces the file's content in one step; its mode stays, a symbolic link is followed, a byte order mark is kept.

    A new file gets `new_mode`, missing folders are made for this user only. Raises `ConfigError`.
    """
    temporary = None
    try:
        target = path.resolve()
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        exists = target.exists()
        mode = target.stat().st_mode & 0o7777 if exists else new_mode
        marked = exists and target.read_bytes().startswith(_BOM.encode())
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(_BOM * marked + text)
        Path(temporary).chmod(mode)
        Path(temporary).replace(target)
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links in a circle
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise ConfigError(f"{safe_line(str(path))}: cannot be written: {safe_line(str(error))}") from None
