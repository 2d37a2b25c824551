"""Run coroutines in another thread's event loop: for synchronous code, and for code in a loop of its own (a
notebook).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from functools import wraps
from typing import Any, Generic, Protocol, TypeVar, cast

from mcpagent.errors import AgentStateError

END_SECONDS = 5.0
"""Maximum wait, after an interruption, for work that ignores its cancellation."""

_T = TypeVar("_T")


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs this code; None in synchronous code."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class _HasLoop(Protocol):
    def _here(self, work: Coroutine[Any, Any, _T]) -> Coroutine[Any, Any, _T]: ...


_M = TypeVar("_M", bound=Callable[..., Coroutine[Any, Any, Any]])


def in_own_loop(method: _M) -> _M:
    """Decorate a method so that it always runs in the agent's event loop, which `ask_sync` may have started in another
    thread.
    """

    @wraps(method)
    def relayed(
        self: _HasLoop, /, *args: Any, **kwargs: Any
    ) -> Coroutine[Any, Any, Any]:
        return self._here(method(self, *args, **kwargs))

    return cast("_M", relayed)


class OtherLoopWork(Generic[_T]):
    """A coroutine that runs in another thread's event loop.

    If the waiting code is interrupted, it cancels the coroutine and waits for its end.
    """

    def __init__(
        self, work: Coroutine[Any, Any, _T], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._work = work
        self._loop = loop
        self._outcome: Future[_T] = Future()
        self._task: asyncio.Task[_T] | None = None

    def result(self) -> _T:
        """Wait in this thread, and return the coroutine's result; an interruption (Ctrl-C) cancels the coroutine."""
        try:
            self._loop.call_soon_threadsafe(self._start)
            return self._outcome.result()
        except BaseException:
            self._cancel()
            wait([self._outcome], END_SECONDS)
            raise

    async def awaited(self) -> _T:
        """Await the coroutine's result, for code in another event loop."""
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
        else:  # it was cancelled before it could start
            self._work.close()
            self._give_up()

    def _give_up(self) -> None:
        self._outcome.cancel()
        self._outcome.set_running_or_notify_cancel()  # wakes the waiters, which `cancel` alone does not

    def _end(self, task: asyncio.Task[_T]) -> None:
        if task.cancelled():
            self._give_up()
        elif (error := task.exception()) is not None:
            self._outcome.set_exception(error)
        else:
            self._outcome.set_result(task.result())


async def _end_others() -> None:
    """Cancel all other tasks of this loop, as `asyncio.run` does; code that waits for such a task would otherwise wait
    for ever.
    """
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        ended, _ = await asyncio.wait(others, timeout=END_SECONDS)
        for task in ended:
            _ = (
                task.cancelled() or task.exception()
            )  # mark the exception as read: no code waits for it any more


class BackgroundLoop:
    """An event loop in a thread, which runs coroutines for synchronous code, also in a notebook whose own loop is
    busy.
    """

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        # A daemon thread: a script that forgets to close the agent still ends, and its servers see their stdin close.
        self._thread = threading.Thread(
            target=self.loop.run_forever, name="mcpagent", daemon=True
        )
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run the coroutine, and return its result."""
        return OtherLoopWork(work, self.loop).result()

    async def awaited(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run the coroutine for code in another event loop, and return its result."""
        if running_loop() is self.loop:
            return await work
        return await OtherLoopWork(work, self.loop).awaited()

    def close(self) -> None:
        """Cancel all work of the loop, and end its thread."""
        self.run(_end_others())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(END_SECONDS)
        if (
            not self._thread.is_alive()
        ):  # if the thread ignores the stop, its loop stays open
            self.loop.close()


def done_elsewhere(
    work: Callable[[], Coroutine[Any, Any, _T]],
    loop: asyncio.AbstractEventLoop,
    *,
    is_in_thread: bool,
) -> _T:
    """Run the coroutine that `work` creates in `loop`, and return its result to synchronous code, such as `ask_sync`.

    Raises `AgentStateError` if waiting would block that loop for ever. `is_in_thread`: the loop belongs to a
    `BackgroundLoop`, so code inside another loop may wait for it.
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
