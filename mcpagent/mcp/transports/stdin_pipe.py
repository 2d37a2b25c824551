"""The pipe from which a server reads requests, and the requests that it certainly did not read.

When a process ends, the bytes that it did not read stay in the pipe, and Linux reports their number. So a request that
the process never received can be sent to the next process, and one that it may have received is never repeated.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import sys
import weakref
from collections import deque
from typing import TypeAlias

from mcp_types import RequestId

_PRUNED_FROM = 64
_MOST_WRITTEN = 1 << 20


class PosixStdin:
    """A pipe that does not use asyncio's: that one drops unwritten bytes, and closes before the read bytes can be
    counted.

    `child_end` is the file descriptor with which the child is started; `is_broken`: the other end is closed.
    """

    def __init__(self) -> None:
        self.child_end, self._fd = os.pipe()
        _OPEN.add(self)
        os.set_blocking(self._fd, False)
        self._waiting: deque[memoryview] = deque()
        self._sent = 0
        self._written = 0
        self._requests: deque[tuple[int, RequestId]] = deque()
        """Requests that may be unread, each with the position of its last byte in the stream."""
        self._drained = asyncio.Event()
        self._drained.set()
        self._taken_at_end: int | None = None
        self.is_broken = False

    def has_started(self, transport: asyncio.SubprocessTransport | None) -> None:  # noqa: ARG002  (Stdin)
        """Close the parent's copy of the child's end, whether or not the child could be started."""
        os.close(self.child_end)

    def send(self, line: bytes, request_id: RequestId | None) -> None:
        """Write as much as the pipe accepts, and the rest when the server reads."""
        self._sent += len(line)
        if request_id is not None:
            if len(self._requests) >= _PRUNED_FROM:
                self._forget_read()
            self._requests.append(
                (self._sent - 1, request_id)
            )  # without its line feed, the request is already complete
        if self.is_broken or self._taken_at_end is not None:
            return
        self._waiting.append(memoryview(line))
        if len(self._waiting) == 1:
            self._push()
            if self._waiting:
                self._drained.clear()
                asyncio.get_running_loop().add_writer(self._fd, self._push)

    async def drained(self) -> None:
        """Wait until all sent bytes are in the pipe, or it has no reader any more."""
        await self._drained.wait()

    def _push(self) -> None:
        try:
            while self._waiting:
                first = self._waiting[0]
                count = os.write(self._fd, first[:_MOST_WRITTEN])
                self._written += count
                if count == len(first):
                    self._waiting.popleft()
                else:
                    self._waiting[0] = first[count:]
        except BlockingIOError:
            return
        except OSError:
            self.is_broken = True
        self._write_no_more()

    def _write_no_more(self) -> None:
        self._waiting.clear()
        if not self._drained.is_set():
            asyncio.get_running_loop().remove_writer(self._fd)
            self._drained.set()

    def has_read(self, request_id: RequestId | None) -> bool:
        """Return whether the server may have read a request (None: any byte); False if it certainly did not."""
        taken = self._taken()
        if request_id is None:
            return taken > 0
        return all(
            end <= taken for end, unread_id in self._requests if unread_id == request_id
        )

    def has_unread(self) -> bool:
        """Return whether sent bytes are certainly still in the pipe."""
        return self._taken_at_end is None and _unread(self._fd) > 0

    def _taken(self) -> int:
        """Return how many bytes may have been read: all sent bytes as long as the pipe has a reader."""
        if self._taken_at_end is not None:
            return self._taken_at_end
        if _has_no_reader(self._fd):
            return self._written - _unread(self._fd)
        return self._sent

    def _forget_read(self) -> None:
        taken = self._written - _unread(self._fd)
        while self._requests and self._requests[0][0] <= taken:
            self._requests.popleft()

    def has_forked(self) -> None:
        """Close the pipe in a forked process; otherwise the server would not see the end of its input."""
        if self._taken_at_end is None:
            self._taken_at_end = self._written
            with contextlib.suppress(OSError):
                os.close(self._fd)

    def close(self) -> None:
        """Close the input of the child."""
        if self._taken_at_end is not None:
            return
        # A process that still reads gets everything in the pipe, and then the end of the input.
        if _has_no_reader(self._fd):
            self._taken_at_end = self._taken()
        else:
            self._taken_at_end = self._written
        self._write_no_more()
        os.close(self._fd)


_OPEN: weakref.WeakSet[PosixStdin] = weakref.WeakSet()


def _has_forked() -> None:
    for stdin in _OPEN:
        stdin.has_forked()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_has_forked)


class WindowsStdin:
    """The interface of `PosixStdin`, over asyncio's pipe. It does not report what was read, so every sent byte may have
    been read.
    """

    def __init__(self) -> None:
        self.child_end = asyncio.subprocess.PIPE
        self._transport: asyncio.WriteTransport | None = None
        self._is_closed = False

    @property
    def is_broken(self) -> bool:
        """Return whether the other end is closed."""
        return self._transport is None or (
            self._transport.is_closing() and not self._is_closed
        )

    def has_started(self, transport: asyncio.SubprocessTransport | None) -> None:
        """Use the stdin pipe of the running child; `transport` is None if it could not be started."""
        if transport is None:
            pipe = None
        else:
            pipe = transport.get_pipe_transport(0)
        if isinstance(pipe, asyncio.WriteTransport):
            self._transport = pipe
        else:
            self._transport = None

    def send(self, line: bytes, request_id: RequestId | None) -> None:  # noqa: ARG002  (Stdin)
        """Pass the line to asyncio, which buffers what the pipe does not accept."""
        if self._transport is not None:
            self._transport.write(line)

    async def drained(self) -> None:
        """Do nothing: asyncio buffers the bytes that the pipe does not accept."""

    def has_read(self, request_id: RequestId | None) -> bool:  # noqa: ARG002  (Stdin)
        """Return True: any sent byte may have been read."""
        return True

    def has_unread(self) -> bool:
        """Return False: the system does not report it."""
        return False

    def close(self) -> None:
        """Close the input of the child."""
        self._is_closed = True
        if self._transport is not None:
            self._transport.close()


Stdin: TypeAlias = PosixStdin | WindowsStdin
"""The parent's end of a child's standard input."""


def new_stdin() -> Stdin:
    """Return a new pipe for this operating system."""
    if sys.platform == "win32":
        return WindowsStdin()
    return PosixStdin()


def _unread(fd: int) -> int:
    """Return the number of bytes in the pipe; 0 if the system does not report it."""
    if sys.platform != "linux":
        return 0
    import fcntl
    import termios

    answer = bytearray(4)
    with contextlib.suppress(OSError):
        fcntl.ioctl(fd, termios.FIONREAD, answer)
    return int.from_bytes(answer, sys.byteorder)


def _has_no_reader(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))
