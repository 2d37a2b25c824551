"""Read files in the folder in which the server was started; never files outside, and without writing."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from mcpagent.demo import DemoToolError

Folder = Annotated[
    str,
    Field(
        description="Folder, relative to the working directory; . is the working directory"
    ),
]
FilePath = Annotated[
    str, Field(description="Path of a file, relative to the working directory")
]

_SKIPPED = frozenset({"node_modules", "__pycache__", "venv"})
_MOST_FILES = 20_000
_LARGEST_BYTES = 2_000_000


def _inside(path: str, root: Path | None = None) -> Path:
    """Return the real path below the root (None: the working folder). Raises `DemoToolError` for a path outside of the
    root.
    """
    base = (root or Path.cwd()).resolve()
    try:
        real = (base / path.strip()).resolve()
    except (OSError, ValueError, RuntimeError):
        raise DemoToolError(f"{path!r} is not a usable path") from None
    if not real.is_relative_to(base):
        raise DemoToolError(
            f"{path!r} is outside the working directory; only paths below it can be read"
        )
    if not real.exists():
        raise DemoToolError(
            f"there is no {path!r} in the working directory; list_files shows what is there"
        )
    return real


def _folder(path: str) -> Path:
    real = _inside(path)
    if not real.is_dir():
        raise DemoToolError(f"{path!r} is a file, not a folder")
    return real


def _file(path: str) -> Path:
    real = _inside(path)
    if not real.is_file():
        raise DemoToolError(
            f"{path!r} is a folder, not a file; list_files shows what is in it"
        )
    return real


def _text(path: Path, limit: int = _LARGEST_BYTES) -> str | None:
    """Return the first `limit` bytes of a text file; None if the file is not text or cannot be read."""
    try:
        with path.open("rb") as stream:
            data = stream.read(limit)
    except OSError:
        return None
    if b"\0" in data[:8192]:
        return None
    return data.decode(errors="replace")


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder in a fixed order; hidden folders are skipped, links not followed."""
    for parent, names, files in os.walk(folder):
        names[:] = sorted(
            name for name in names if name not in _SKIPPED and not name.startswith(".")
        )
        for name in sorted(files):
            path = Path(parent, name)
            if not path.is_symlink() and path.is_file():
                yield path


def _bounded(folder: Path) -> Iterator[Path]:
    return itertools.islice(_walk(folder), _MOST_FILES)


def list_files(folder: Folder = ".") -> str:
    """List the files and folders in a directory."""
    real = _folder(folder)
    try:
        entries = sorted(
            os.scandir(real), key=lambda entry: (entry.is_file(), entry.name)
        )
    except OSError as error:
        raise DemoToolError(f"cannot list {folder!r}: {error.strerror}") from None
    lines = [f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries]
    shown = lines[:500] + (
        [f"... and {len(lines) - 500} more"] if len(lines) > 500 else []
    )
    return "\n".join(shown) or f"{folder} is empty."


def read_text_file(
    path: FilePath,
    max_lines: Annotated[
        int, Field(description="At most this many lines from the start", ge=1, le=5000)
    ] = 200,
) -> str:
    """Read the contents of a text file."""
    text = _text(_file(path))
    if text is None:
        raise DemoToolError(f"{path!r} is not a text file that can be read")
    lines = text.splitlines()
    more = ""
    if len(lines) > max_lines:
        more = f"\n... {len(lines) - max_lines} more lines"
    return "\n".join(lines[:max_lines]) + more


def search_in_files(
    text: Annotated[
        str,
        Field(
            description="The text to look for, case ignored",
            min_length=1,
            max_length=200,
        ),
    ],
    folder: Folder = ".",
    limit: Annotated[
        int, Field(description="At most this many matching lines", ge=1, le=500)
    ] = 50,
) -> str:
    """Search for text inside the files of a folder and its subfolders (like grep)."""
    base, wanted = _folder(folder), text.casefold()
    hits = (
        f"{path.relative_to(base)}:{number}: {line.strip()[:200]}"
        for path in _bounded(base)
        for number, line in enumerate((_text(path) or "").splitlines(), 1)
        if wanted in line.casefold()
    )
    return (
        "\n".join(itertools.islice(hits, limit))
        or f"No file below {folder} contains {text!r}."
    )


def find_files(
    pattern: Annotated[
        str,
        Field(description="File name pattern such as *.py or test_*", max_length=100),
    ],
    folder: Folder = ".",
) -> str:
    """Find files by name pattern in a folder and its subfolders."""
    base = _folder(folder)
    # fnmatch creates a regular expression, in which many stars cost exponential time.
    if pattern.count("*") > 4:
        raise DemoToolError("pattern has more than four *; use a simpler one")
    found = [
        path.relative_to(base)
        for path in _bounded(base)
        if fnmatchcase(path.name.lower(), pattern.lower())
    ]
    return (
        "\n".join(str(path) for path in found[:200])
        or f"No file below {folder} matches {pattern!r}."
    )


def file_info(path: FilePath) -> dict[str, Any]:
    """Get size, type and modification time of a file or folder."""
    real = _inside(path)
    status = real.stat()
    return {
        "name": real.name,
        "type": "folder" if real.is_dir() else "file",
        "bytes": status.st_size,
        "modified": datetime.fromtimestamp(status.st_mtime, UTC).isoformat(
            timespec="seconds"
        ),
    }


def count_lines(path: FilePath) -> str:
    """Count the lines and words of a text file."""
    text = _text(_file(path))
    if text is None:
        raise DemoToolError(f"{path!r} is not a text file that can be read")
    return f"{path}: {len(text.splitlines())} lines, {len(text.split())} words"


def folder_size(folder: Folder = ".") -> dict[str, int]:
    """Add up how many files a folder holds and how many bytes they take."""
    sizes = [path.lstat().st_size for path in _bounded(_folder(folder))]
    return {"files": len(sizes), "bytes": sum(sizes)}
