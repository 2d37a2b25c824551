"""Wait for child processes without a thread for each, on Python 3.11; later versions do this themselves."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVarTuple, Unpack

Args = TypeVarTuple("Args")


def wait_without_threads() -> None:
    """On Python 3.11, let event loops wait for child processes through file descriptors (Linux 5.3 and later).

    A child watcher that the program itself set stays.
    """
    if sys.version_info < (3, 12) and sys.platform == "linux":
        policy = asyncio.get_event_loop_policy()
        with contextlib.suppress(OSError, NotImplementedError):
            if type(policy.get_child_watcher()) is asyncio.ThreadedChildWatcher:
                os.close(os.pidfd_open(os.getpid()))
                policy.set_child_watcher(_DescriptorWatcher())


def _exit_code(pid: int) -> int:
    """Return the exit code, negative for a signal. Like asyncio, return 255 if other code has already waited for the
    child.
    """
    try:
        _, status = os.waitpid(pid, 0)
    except ChildProcessError:
        return 255
    return os.waitstatus_to_exitcode(status)


if sys.version_info < (3, 12):

    class _DescriptorWatcher(asyncio.AbstractChildWatcher):
        """Watches each child in the event loop that started it, as `asyncio` of Python 3.12 does."""

        def add_child_handler(
            self,
            pid: int,
            callback: Callable[[int, int, Unpack[Args]], object],
            *args: *Args,
        ) -> None:
            loop = asyncio.get_running_loop()
            descriptor = os.pidfd_open(pid)

            def ended() -> None:
                loop.remove_reader(descriptor)
                os.close(descriptor)
                callback(pid, _exit_code(pid), *args)

            loop.add_reader(descriptor, ended)

        def remove_child_handler(self, pid: int) -> bool:  # noqa: ARG002 - asyncio's signature
            return True

        def attach_loop(self, loop: asyncio.AbstractEventLoop | None) -> None:
            """Do nothing: a child belongs to the event loop that runs when it is added."""

        def close(self) -> None:
            """Do nothing: each descriptor is closed when its child ends."""

        def is_active(self) -> bool:
            return True

        def __enter__(self) -> Self:
            return self

        def __exit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            trace: TracebackType | None,
        ) -> None:
            return None
