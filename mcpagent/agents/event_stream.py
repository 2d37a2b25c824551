"""`EventStream`: the events of one answer as they happen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar, cast

from mcpagent.agents.run_input import RunInput
from mcpagent.errors import AgentStateError
from mcpagent.run.agent_run import RunResult
from mcpagent.run.output.last_answer import typed_answer
from mcpagent.run.output.output_spec import OutputSpec
from mcpagent.utilities.python.event_loops import in_own_loop, running_loop
from mcpagent.values.events import (
    AnswerRestarted,
    Emit,
    Event,
    RequestSent,
    RunFinished,
    TextDelta,
)
from mcpagent.values.type_variables import Output

_T = TypeVar("_T")


class Answering(Protocol):
    """The parts of a session that `ask`, `run` and `stream` use."""

    def answer_to(self, given: Callable[[], RunInput]) -> Coroutine[Any, Any, Any]:
        """Return the answer, as `ask` and `resume` do."""

    def result_of(
        self, given: Callable[[], RunInput]
    ) -> Coroutine[Any, Any, RunResult[Any]]:
        """Return the whole result, as `run` does."""

    async def begin_task(
        self, given: Callable[[], RunInput], listener: Emit
    ) -> tuple[asyncio.Task[RunFinished], ExitStack]:
        """Start a run whose events also go to `listener`.

        Return its task, and an exit stack to close if the task never starts.
        """

    def leave(self, task: asyncio.Task[RunFinished]) -> None:
        """Abandon the run of `begin_task`."""

    def _here(self, work: Coroutine[Any, Any, _T]) -> Coroutine[Any, Any, _T]: ...


@dataclass(frozen=True, slots=True)
class _End:
    """Last item in the queue of a stream."""


class EventStream(Generic[Output]):
    """The events of one run: an async context manager and an async iterator; see `Session.stream`."""

    def __init__(
        self,
        asked: Answering,
        given: Callable[[], RunInput],
        spec: OutputSpec | None = None,
    ) -> None:
        self._asked = asked
        self._given = given
        self._spec = spec
        self._text: list[str] = []
        self._finished: RunFinished | None = None
        self._events: asyncio.Queue[Event | _End] = asyncio.Queue()
        self._task: asyncio.Task[RunFinished] | None = None
        self._running = ExitStack()
        self._is_entered = False
        self._is_over = False

    async def __aenter__(self) -> Self:
        if self._is_entered or self._task is not None or self._is_over:
            raise AgentStateError(
                "this stream was begun already; make another one with session.stream(...)"
            )
        self._is_entered = True
        await self._start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> AsyncIterator[Event]:
        """Iterate over the events. Within `async with`, the stream lives as long as the block, otherwise as long as the
        loop.
        """
        if self._is_entered:
            return self
        return _PlainLoop(self)

    @in_own_loop
    async def __anext__(self) -> Event:
        if self._is_over:
            raise StopAsyncIteration
        if self._task is None:
            await self._start()
        assert self._task is not None
        event = await self._events.get()
        if not isinstance(event, _End):
            self._follow(event)
            return event
        self._is_over = True
        self._events.put_nowait(event)  # so that other readers see the end, too
        self._task.result()  # raises the run's exception
        raise StopAsyncIteration

    def _follow(self, event: Event) -> None:
        match event:
            case TextDelta(text=text) if self._spec is not None:
                self._text.append(text)
            case RequestSent() | AnswerRestarted():
                self._text.clear()
            case RunFinished():
                self._finished = event
            case _:
                pass

    def partial_output(self) -> Any:
        """Return the `output_type` value received so far, as JSON data; lists and texts may be incomplete.

        Returns None before the value begins, and without an `output_type`. The partial value is not validated.
        """
        if self._spec is not None:
            return self._spec.partial("".join(self._text))
        return None

    @property
    def output(self) -> Output:
        """The output of the run, after `RunFinished` was read: the value of the `output_type`, or the text without one.

        Raises `OutputError` if the answer is not of the type, `LimitError` if the run ended at a limit without such a
        value, and `AgentStateError` before the end.
        """
        if self._finished is None:
            raise AgentStateError(
                "the stream is not at its end; read its events to RunFinished first"
            )
        if self._spec is None:
            given = self._finished.answer
        else:
            given = typed_answer(self._finished, self._spec)
        return cast("Output", given)

    @in_own_loop
    async def aclose(self) -> None:
        """Cancel the run if it is active, and wait for its end; a second call does nothing."""
        self._leave()
        if self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    def __del__(self) -> None:
        self._leave()

    def _here(self, work: Coroutine[Any, Any, _T]) -> Coroutine[Any, Any, _T]:
        return self._asked._here(work)

    def _leave(self) -> None:
        """Cancel the run, once. The session is free at once; its next run waits for the end of the cancelled one."""
        task = self._task
        if not self._is_over and task is not None and not task.done():
            self._asked.leave(task)
            loop = task.get_loop()
            if loop.is_closed():
                self._running.close()
            elif running_loop() is loop:
                task.cancel()
            else:
                loop.call_soon_threadsafe(task.cancel)
        self._is_over = True

    @in_own_loop
    async def _start(self) -> None:
        task, self._running = await self._asked.begin_task(
            self._given, self._events.put_nowait
        )
        self._task, running, events = task, self._running, self._events
        task.add_done_callback(lambda task: _ended(task, running, events))


class _PlainLoop:
    """A plain `async for` over a stream. Only the loop refers to this object, so leaving the loop ends the stream."""

    def __init__(self, stream: EventStream[Any]) -> None:
        self._stream = stream

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    def __anext__(self) -> Awaitable[Event]:
        return self._stream.__anext__()

    def __del__(self) -> None:
        self._stream._leave()


def _ended(
    task: asyncio.Task[RunFinished],
    running: ExitStack,
    events: asyncio.Queue[Event | _End],
) -> None:
    running.close()  # a task that is cancelled before its first step never closes it
    events.put_nowait(_End())
    if not task.cancelled():
        task.exception()  # a reader, if there is one, gets the error
