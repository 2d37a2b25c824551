"""Run work in another thread's event loop: for code that cannot await, and for code in its own loop (a notebook)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from functools import wraps
from typing import Any, Generic, Protocol, TypeVar, cast

from mcpagent.errors import AgentStateError

END_SECONDS = 5.0
"""Timeout after an interruption for work that ignores its cancellation."""

_T = TypeVar("_T")


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that this code runs in, if any."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class _HasLoop(Protocol):
    def _here(self, work: Coroutine[Any, Any, _T]) -> Coroutine[Any, Any, _T]: ...


_M = TypeVar("_M", bound=Callable[..., Coroutine[Any, Any, Any]])


def in_own_loop(method: _M) -> _M:
    """Run the method always in the event loop of the agent, which `ask_sync` may have started in another thread."""

    @wraps(method)
    def relayed(
        self: _HasLoop, /, *args: Any, **kwargs: Any
    ) -> Coroutine[Any, Any, Any]:
        return self._here(method(self, *args, **kwargs))

    return cast("_M", relayed)


class OtherLoopWork(Generic[_T]):
    """A coroutine that another thread's event loop does. Who is interrupted while waiting waits until it has ended."""

    def __init__(
        self, work: Coroutine[Any, Any, _T], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._work = work
        self._loop = loop
        self._outcome: Future[_T] = Future()
        self._task: asyncio.Task[_T] | None = None

    def result(self) -> _T:
        """The coroutine's result; an interrupt of this thread (Ctrl-C) cancels it."""
        try:
            self._loop.call_soon_threadsafe(self._start)
            return self._outcome.result()
        except BaseException:
            self._cancel()
            wait([self._outcome], END_SECONDS)
            raise

    async def awaited(self) -> _T:
        """Return the same for code in its own event loop."""
        outcome = asyncio.wrap_future(self._outcome)
        self._loop.call_soon_threadsafe(self._start)
        try:
            return await asyncio.shield(outcome)
        except asyncio.CancelledError:
            self._cancel()
            await asyncio.wait((outcome,), timeout=END_SECONDS)
            raise

    def _start(self) -> None:
        self._task = self._loop.create_task(self._work)
        self._task.add_done_callback(self._end)

    def _cancel(self) -> None:
        if self._loop.is_closed():
            self._stop()
        elif not self._outcome.done():
            self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        else:  # it was interrupted before it could start
            self._work.close()
            self._give_up()

    def _give_up(self) -> None:
        self._outcome.cancel()
        self._outcome.set_running_or_notify_cancel()  # notifies waiters, which `cancel` alone does not

    def _end(self, task: asyncio.Task[_T]) -> None:
        if task.cancelled():
            self._give_up()
        elif (error := task.exception()) is not None:
            self._outcome.set_exception(error)
        else:
            self._outcome.set_result(task.result())


async def _end_others() -> None:
    """Cancel all other tasks of this loop, as `asyncio.run` does: code that waits for one would wait for ever."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        ended, _ = await asyncio.wait(others, timeout=END_SECONDS)
        for task in ended:
            _ = task.cancelled() or task.exception()  # no waiter is left


class BackgroundLoop:
    """Runs coroutines to their end for synchronous code; also inside a notebook, whose own loop is busy."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        # A daemon: a script that forgets to close the agent still ends, and servers see their stdin close.
        self._thread = threading.Thread(
            target=self.loop.run_forever, name="mcpagent", daemon=True
        )
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """The coroutine's result."""
        return OtherLoopWork(work, self.loop).result()

    async def awaited(self, work: Coroutine[Any, Any, _T]) -> _T:
        """The same for code in another event loop."""
        if running_loop() is self.loop:
            return await work
        return await OtherLoopWork(work, self.loop).awaited()

    def close(self) -> None:
        """Cancel its work, and end its thread."""
        self.run(_end_others())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(END_SECONDS)
        if not self._thread.is_alive():  # a thread that ignores the stop keeps its loop
            self.loop.close()


def done_elsewhere(
    work: Callable[[], Coroutine[Any, Any, _T]],
    loop: asyncio.AbstractEventLoop,
    *,
    is_in_thread: bool,
) -> _T:
    """Return the result of the work, for code that cannot await, such as `ask_sync`.

    Raises `AgentStateError` if the work would never end. `is_in_thread`: the loop is a `BackgroundLoop`'s, which code
    in another loop may wait for.
    """
    running = running_loop()
    if running is loop or (running is not None and not is_in_thread):
        raise AgentStateError(
            "ask_sync() would block the running event loop; use `await agent.ask(...)`"
        )
    if not loop.is_running():
        raise AgentStateError(
            "the agent was started in an event loop that does not run now, so ask_sync() would wait for ever; "
            "use `loop.run_until_complete(agent.ask(...))`, or start the agent with `with`"
        )
    return OtherLoopWork(work(), loop).result()
