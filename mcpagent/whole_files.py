"""Files that are written whole or not at all, so that no reader and no crash finds half of one."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, content: str | bytes, *, mode: int = 0o600) -> None:
    """Puts `content` (text as UTF-8, line ends as they are) in the place of the file in one step.

    Missing folders are made for this user only. Raises `OSError`; what was there stays then.
    """
    import tempfile  # brings much along, and most runs write nothing

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    data = content.encode() if isinstance(content, str) else content
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
