"""Read files that other users may have created: without blocking, regular files only, up to a size limit."""

from __future__ import annotations

import errno
import mmap
import os
import stat
import sys
from pathlib import Path
from typing import BinaryIO

MAX_FILE_BYTES = 1_000_000
"""Size limit of a configuration, a card or a file of variables, which is read before the user consents to it."""


MAX_OWN_BYTES = 200_000_000
"""Size limit of mcpagent's own files, such as the cached tools of a large server."""


class FileTooLargeError(OSError):
    """Raised if a file exceeds the size limit."""


def open_regular(path: Path | str) -> BinaryIO:
    """Open the file for reading.

    Raises `OSError`, also for a folder, a device or a pipe, which may never end, or block.
    """
    # Check the path before opening it, too: opening a device or a pipe may already have an effect.
    _check(os.stat(path).st_mode, path)
    handle = os.open(
        path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    )
    try:
        _check(os.fstat(handle).st_mode, path)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def _check(mode: int, path: Path | str) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a directory", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "is no regular file", str(path))


def read_bounded(path: Path | str, limit: int = MAX_FILE_BYTES) -> bytes:
    """Return the content of a regular file. Raises `FileTooLargeError` for more than `limit` bytes, else `OSError`."""
    with open_regular(path) as file:
        return _all_of(file, path, limit)


def open_given(path: Path | str) -> BinaryIO:
    """Open a file that the user names for one command: a regular file, or a file that a shell opened (`<(command)`).

    Raises `OSError` for files that would block, such as a pipe without a writer.
    """
    if str(path).startswith(_OPENED):
        return open(path, "rb")
    return open_regular(path)


_PIECE = 1 << 20

_OPENED = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")


def read_own(path: Path | str) -> bytes:
    """Return the content of one of mcpagent's own files for this user: state, data or cache.

    Raises `OSError` if another user may have written the file (`is_nobody_elses`), if it is not a regular file, or is
    too large.
    """
    with open_regular(path) as file:
        _check_owner(os.fstat(file.fileno()), path)
        return _all_of(file, path, MAX_OWN_BYTES)


def map_own(path: Path | str) -> memoryview:
    """Map a file of this user into memory; the system reads only the pages that are used.

    Use it only for files that mcpagent replaces as a whole.
    """
    with open_regular(path) as file:
        found = os.fstat(file.fileno())
        _check_owner(found, path)
        if not 0 < found.st_size <= MAX_OWN_BYTES:
            raise FileTooLargeError(
                errno.EFBIG,
                f"empty, or larger than {MAX_OWN_BYTES // 1_000_000} MB",
                str(path),
            )
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def check_own(path: Path | str) -> None:
    """Check a file that another library will open. Raises `OSError` if `read_own` would not read it."""
    if os.path.lexists(path):
        found = os.stat(path)
        _check(found.st_mode, path)
        _check_owner(found, path)


def is_nobody_elses(path: Path | str) -> bool:
    """Return whether only this user or the administrator can have written the file; True if it is missing.

    A folder that other users can write to, or once could, may contain files of theirs.
    """
    try:
        return _is_users(os.stat(path), path)
    except OSError:
        return True


def _check_owner(found: os.stat_result, path: Path | str) -> None:
    if not _is_users(found, path):
        raise PermissionError(
            errno.EPERM,
            "belongs to another user, or everybody may write into it",
            str(path),
        )


def _is_users(found: os.stat_result, path: Path | str) -> bool:
    if sys.platform == "win32":
        return True
    user = os.geteuid()
    # In a container, root often works in a folder that belongs to a user of the host; that user owns the files there.
    if user:
        owners = {0, user}
    else:
        owners = {0, os.stat(Path(path).parent).st_uid}
    return found.st_uid in owners and not found.st_mode & stat.S_IWOTH


def _all_of(file: BinaryIO, path: Path | str, limit: int) -> bytes:
    data = bytearray()
    while piece := file.read(
        _PIECE
    ):  # reading up to the limit at once would allocate that much memory
        data += piece
        if len(data) > limit:
            raise FileTooLargeError(
                errno.EFBIG, f"larger than {limit // 1_000_000} MB", str(path)
            )
    return bytes(data)
