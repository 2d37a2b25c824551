"""Change files atomically: a reader never sees half a file, not even after a crash, and other processes wait."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

from mcpagent.errors import ConfigError
from mcpagent.utilities.filesystem.bounded_files import check_own
from mcpagent.utilities.text.safe_text import safe_line

_BOM = "\ufeff"
_NEW = ".mcpagent-new-"
_ABANDONED_SECONDS = 3_600.0

_LOOK_SECONDS = 0.05


def make_private(folder: Path) -> None:
    """Create the folder and its missing parents for this user only, with any umask. Raises `OSError`."""
    missing: list[Path] = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another process created it first
            new.mkdir(0o700)
            new.chmod(0o700)  # a umask may also have removed the user's own rights


def close_to_others(folder: Path) -> None:
    """Remove other users' write permission, which an old umask or a careless command granted."""
    with contextlib.suppress(OSError):
        found = folder.lstat()
        open_to = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if (
            sys.platform != "win32"
            and stat.S_ISDIR(found.st_mode)
            and open_to
            and found.st_uid == os.geteuid()
        ):
            folder.chmod(0o700)


def write_whole(path: Path, content: str | bytes, *, is_cache: bool = False) -> None:
    """Replace the file by `content` in one step, readable by its user only. Text is written as UTF-8, line ends
    unchanged.

    Use it for mcpagent's own files in its own folders. Unless `is_cache`, the content is on the disk when this returns;
    a cache can be recreated. Raises `OSError`; the file is then unchanged.
    """
    make_private(path.parent)
    _replace(path, content, 0o600, waits=not is_cache)


def write_beside(path: Path, text: str) -> Path:
    """Write a new file that only its user can read, under this name or the next free one; return its path.

    It never overwrites a file and never follows a link. Raises `OSError`.
    """
    make_private(path.parent)
    for number in count(1):
        if number == 1:
            free = path
        else:
            free = path.with_name(f"{path.stem}-{number}{path.suffix}")
        with (
            contextlib.suppress(FileExistsError),
            open(
                free, "x", encoding="utf-8", opener=partial(os.open, mode=0o600)
            ) as file,
        ):
            file.write(text)
            return free
    raise AssertionError("there is always a next number")


def _replace(
    path: Path, content: str | bytes, mode: int, *, waits: bool = True
) -> None:
    import tempfile  # slow to import, and most runs write nothing

    _sweep(path.parent)
    if isinstance(content, str):
        data = content.encode()
    else:
        data = content
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=_NEW)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            if waits:
                os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    if waits:
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Write the folder's entries to the disk, so that a new file name survives a power failure."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):  # some file systems cannot sync a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _sweep(folder: Path) -> None:
    """Remove temporary files of writers that were killed at least an hour ago."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(_NEW) and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    if (
                        entry.stat(follow_symlinks=False).st_mtime
                        < time.time() - _ABANDONED_SECONDS
                    ):
                        os.unlink(entry.path)


def is_writable(path: Path) -> bool:
    """Return whether the user owns the file and can write it; create a missing one for this user only."""
    try:
        make_private(path.parent)
        check_own(path)
        path.touch(mode=0o600)
        with path.open("ab"):
            return True
    except OSError:
        return False


def write_text(path: Path, text: str, *, new_mode: int = 0o600) -> None:
    """Replace the file's content in one step; keep its mode and byte order mark, and follow a symbolic link.

    A new file gets `new_mode`; missing folders are created for this user only. The content is on the disk when this
    returns. Raises `ConfigError`.
    """
    try:
        target = path.resolve()
        if target.is_symlink():  # since Python 3.13, `resolve` returns a link of a loop instead of raising an error
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        exists = target.exists()
        if exists:
            mode = target.stat().st_mode & 0o7777
        else:
            mode = new_mode
        marked = exists and target.read_bytes().startswith(_BOM.encode())
        make_private(target.parent)
        _replace(target, _BOM * marked + text, mode)
    except (
        OSError,
        ValueError,
        RuntimeError,
    ) as error:  # RuntimeError: a loop of links, before Python 3.13
        raise ConfigError(
            f"{safe_line(str(path))}: cannot be written: {safe_line(str(error))}"
        ) from None


@contextlib.contextmanager
def alone_with(path: Path, *, wait_seconds: float = 10.0) -> Iterator[None]:
    """Lock the folder of a file, so that no other process that uses this lock changes the file between read and write.

    No lock file remains. If the system has no such lock, or the folder cannot be created, the block runs without a
    lock. Raises `ConfigError` if another process holds the lock for longer than `wait_seconds`.
    """
    if sys.platform == "win32":
        yield
        return
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, RuntimeError):
            folder = path.resolve().parent
            make_private(folder)
            handle = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, handle)  # closing also unlocks
            if not _locked(handle, wait_seconds):
                what = f"another program has been changing this folder for {wait_seconds:g} seconds"
                raise ConfigError(
                    f"{safe_line(str(path))}: {what}; end that one, and try again"
                )
        yield


def _locked(handle: int, wait_seconds: float) -> bool:
    """Return whether the lock on the open folder `handle` was acquired within `wait_seconds`."""
    import fcntl

    until = time.monotonic() + wait_seconds
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(_LOOK_SECONDS)
        else:
            return True
