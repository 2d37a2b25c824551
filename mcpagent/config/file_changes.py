"""Changing files so that no reader and no crash finds half of one, and no other process changes it at the same time."""

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

from mcpagent.config.bounded_files import check_own
from mcpagent.errors import ConfigError
from mcpagent.text.safe_text import safe_line

_BOM = "\ufeff"
_NEW = ".mcpagent-new-"
_ABANDONED_SECONDS = 3_600.0

_LOOK_SECONDS = 0.05


def make_private(folder: Path) -> None:
    """Makes the folder, and what is missing above it, for this user only, whatever the umask. Raises `OSError`."""
    missing: list[Path] = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another process was faster
            new.mkdir(0o700)
            new.chmod(0o700)  # a umask may have taken more away than others' rights


def close_to_others(folder: Path) -> None:
    """Takes it back from others who may write into it, as an old umask or a careless command let them."""
    with contextlib.suppress(OSError):
        found = folder.lstat()
        open_to = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if sys.platform != "win32" and stat.S_ISDIR(found.st_mode) and open_to and found.st_uid == os.geteuid():
            folder.chmod(0o700)


def write_whole(path: Path, content: str | bytes, *, is_cache: bool = False) -> None:
    """Puts `content` (text as UTF-8, line ends as they are) in the place of the file in one step, for its user only.

    The file is one of ours, in a folder of ours. It is on the disk when this returns, if it is no cache, which can be
    made again. Raises `OSError`; what was there stays then.
    """
    make_private(path.parent)
    _replace(path, content, 0o600, waits=not is_cache)


def write_beside(path: Path, text: str) -> Path:
    """Writes a new file for its user only: of this name, or of the next that is free; gives the path that it has.

    Nothing is overwritten, and no link is followed. Raises `OSError`.
    """
    make_private(path.parent)
    for number in count(1):
        free = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        with (
            contextlib.suppress(FileExistsError),
            open(free, "x", encoding="utf-8", opener=partial(os.open, mode=0o600)) as file,
        ):
            file.write(text)
            return free
    raise AssertionError("there is always a next number")


def _replace(path: Path, content: str | bytes, mode: int, *, waits: bool = True) -> None:
    import tempfile  # slow to import, and most runs write nothing

    _sweep(path.parent)
    data = content.encode() if isinstance(content, str) else content
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
    """Has the new name of a file in it outlive a loss of power, on systems that need that said."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):  # some file systems know no such thing
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _sweep(folder: Path) -> None:
    """Removes what writers that were killed an hour ago or earlier left behind."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(_NEW) and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_mtime < time.time() - _ABANDONED_SECONDS:
                        os.unlink(entry.path)


def is_writable(path: Path) -> bool:
    """Whether the file is the user's and can be written; a missing one is made, for this user only."""
    try:
        make_private(path.parent)
        check_own(path)
        path.touch(mode=0o600)
        with path.open("ab"):
            return True
    except OSError:
        return False


def write_text(path: Path, text: str, *, new_mode: int = 0o600) -> None:
    """Replaces the file's content in one step; its mode stays, a symbolic link is followed, a byte order mark is kept.

    A new file gets `new_mode`, missing folders are made for this user only. It is on the disk when this returns.
    Raises `ConfigError`.
    """
    try:
        target = path.resolve()
        if target.is_symlink():  # from Python 3.13 on, links in a circle resolve to one of themselves
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        exists = target.exists()
        mode = target.stat().st_mode & 0o7777 if exists else new_mode
        marked = exists and target.read_bytes().startswith(_BOM.encode())
        make_private(target.parent)
        _replace(target, _BOM * marked + text, mode)
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links in a circle, before Python 3.13
        raise ConfigError(f"{safe_line(str(path))}: cannot be written: {safe_line(str(error))}") from None


@contextlib.contextmanager
def alone_with(path: Path, *, wait_seconds: float = 10.0) -> Iterator[None]:
    """Inside, no other process that asks for the same changes files of that folder, so what is read is what is changed.

    Nothing is left behind. If the system has no such lock, or the folder cannot be made, nothing is held. Raises
    `ConfigError` if another process has held it for too long.
    """
    if sys.platform == "win32":
        yield
        return
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, RuntimeError):
            folder = path.resolve().parent
            make_private(folder)
            handle = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, handle)  # which unlocks it
            if not _locked(handle, wait_seconds):
                what = f"another program has been changing this folder for {wait_seconds:g} seconds"
                raise ConfigError(f"{safe_line(str(path))}: {what}; end that one, and try again")
        yield


def _locked(handle: int, wait_seconds: float) -> bool:
    """Whether the lock was there to be had in time."""
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
