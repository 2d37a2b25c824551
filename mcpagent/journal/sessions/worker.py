"""A thread that runs jobs in order, and finishes every job before the interpreter ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeAlias, TypeVar

_T = TypeVar("_T")
_Item: TypeAlias = Callable[[], object]

END_SECONDS = 60.0

_running: set[Worker] = set()


class Worker:
    """A thread that runs jobs from a lock-free queue, so that a finalizer can add jobs in any thread.

    `at_end` runs last. `regularly` runs every `seconds`, between other jobs. The thread runs until `end`.
    """

    def __init__(self, at_end: _Item, regularly: _Item, seconds: float) -> None:
        self._items: SimpleQueue[_Item | None] = SimpleQueue()
        self._at_end, self._regularly, self._seconds = at_end, regularly, seconds
        self._due = time.monotonic() + seconds
        # A daemon thread: otherwise the interpreter would wait for it before any code could stop it.
        self._thread = Thread(target=self._work, name="mcpagent-sessions", daemon=True)
        _running.add(self)
        self._thread.start()

    def do(self, work: Callable[[], _T]) -> Future[_T]:
        """Run the work after all earlier jobs; return a future for its result."""
        future: Future[_T] = Future()

        def item() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - the waiter gets it
                future.set_exception(error)

        self._items.put(item)
        return future

    def soon(self, work: _Item) -> None:
        """Queue work like `do`, without a future. A finalizer may call it."""
        self._items.put(work)

    def end(self) -> None:
        """Let the thread end after all jobs; `join` waits for that."""
        self._items.put(None)

    def join(self) -> None:
        """Wait for the end of the thread, at most a minute."""
        self._thread.join(END_SECONDS)

    def _work(self) -> None:
        while (item := self._next()) is not None:
            with contextlib.suppress(Exception):
                item()
            del item  # its result may be waiting until this reference is gone
        with contextlib.suppress(Exception):
            self._at_end()
        _running.discard(self)

    def _next(self) -> _Item | None:
        """Return the next job; `regularly` if that is due; None at the end."""
        while True:
            now = time.monotonic()
            if now >= self._due:
                self._due = now + self._seconds
                return self._regularly
            try:
                return self._items.get(timeout=self._due - now)
            except Empty:
                continue


def _end_all() -> None:
    for worker in tuple(_running):
        worker.end()
    for worker in tuple(_running):
        worker.join()


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        after_in_child=_running.clear
    )  # a forked process has only the thread that called fork
