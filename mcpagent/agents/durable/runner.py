"""Execute durable runs in a worker: open the session and let it answer or resume."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from mcpagent.agents.agent import Agent
from mcpagent.agents.durable.queues import (
    VERSION,
    WORKFLOW_NAME,
    RunQueue,
    RunTurn,
    outside,
)
from mcpagent.agents.run_input import RunInput, wanted_output
from mcpagent.agents.session_runtime import SessionRuntime
from mcpagent.errors import McpAgentError, SessionBusyError
from mcpagent.history.conversation import usable_prompt
from mcpagent.journal.sessions.entries import clean_json
from mcpagent.journal.sessions.run_ended import RunEnded, ended_from_json, ended_to_json
from mcpagent.journal.sessions.store import Sessions, written
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.approval import CallAnswer, usable_answers
from mcpagent.values.limits.run_limits import KINDS, Limits

LOOK_SECONDS = 1.0
"""Interval at which a worker checks for dead workers, and a waiting run for its session."""

FIRST_LOOK_SECONDS = 0.1
"""Delay before a waiting run's first check, and after another run of this process has ended."""

TOLD_SECONDS = 600.0
"""Seconds after which the worker reports that it still waits for a session that another process has open, such as a
chat.
"""

MAX_OPEN = 32
"""Maximum number of sessions that a worker keeps in memory between runs: reading a long session takes more time than
answering in it.
"""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The input of a run: a prompt, or answers to pending calls. `output` is the JSON Schema of the answer (None:
    text).
    """

    session: str
    prompt: str = ""
    answers: tuple[CallAnswer, ...] = ()
    output: Mapping[str, Any] | None = None
    limits: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the input as plain JSON data."""
        answers = [answer.to_json() for answer in self.answers]
        given = {
            "prompt": self.prompt,
            "answers": answers,
            "output": self.output,
            "limits": self.limits,
        }
        return {"session": self.session} | {
            name: value for name, value in given.items() if value
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunRequest:
        """Return the input that `to_json` wrote."""
        answers = tuple(
            CallAnswer.from_json(answer) for answer in data.get("answers", ())
        )
        return cls(
            data["session"],
            data.get("prompt", ""),
            answers,
            data.get("output"),
            data.get("limits"),
        )


class Runner:
    """Executes the runs of one agent. `me` is the token of this process, by which other workers see that it is
    alive.
    """

    def __init__(
        self, agent: Agent[Any], store: Sessions, queue: RunQueue, me: str
    ) -> None:
        self.agent, self.store, self.queue, self.me = agent, store, queue, me
        self._active: set[asyncio.Task[Any]] = set()
        self._waiting: set[asyncio.Task[Any]] = set()
        self._open: OrderedDict[str, SessionRuntime[Any]] = OrderedDict()
        self._freed: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        """Events by the ID of a run that has ended in this process; "" for any run."""

    async def end(self, seconds: float) -> None:
        """Wait up to `seconds` for the active runs; another worker resumes those that do not finish."""
        for task in tuple(self._waiting):
            task.cancel()
        if self._active:
            await asyncio.wait(self._active, timeout=seconds)
        for task in tuple(self._active):
            task.cancel()
        if self._active:
            await asyncio.wait(self._active, timeout=seconds)

    async def look(self) -> NoReturn:
        """Resume the runs of dead workers, forever; the engine assigns each run to only one process."""
        from dbos import DBOS

        while True:
            try:
                pending = await DBOS.list_workflows_async(
                    status="PENDING",
                    name=WORKFLOW_NAME,
                    app_version=VERSION,
                    load_input=False,
                )
                for executor in sorted(
                    {str(item.executor_id) for item in pending} - {self.me}
                ):
                    if not await written(self.store.is_alive(executor)):
                        await asyncio.to_thread(
                            DBOS._recover_pending_workflows, [executor]
                        )
            except Exception as error:  # noqa: BLE001 - the next look may find the database again
                logging.getLogger("mcpagent").warning(
                    "durable runs: %s", safe_line(str(error), 200)
                )
            await asyncio.sleep(LOOK_SECONDS)

    async def execute(self, run: str, data: str) -> None:
        """Run the run of this ID to its end, which its session stores. Raises `McpAgentError` if the run failed."""
        task = asyncio.current_task()
        assert task is not None
        self._active.add(task)
        try:
            await self._work(RunRequest.from_json(json.loads(data)), run, task)
        except Exception as error:  # noqa: BLE001 - toolsets are other people's code
            raise self._without_secrets(RunEnded.failed(run, error)) from None
        finally:
            self._active.discard(task)
            for key in ("", run):
                if (freed := self._freed.pop(key, None)) is not None:
                    freed.set()

    async def _work(
        self, request: RunRequest, run: str, task: asyncio.Task[Any]
    ) -> None:
        record = await written(self.store.run_record(request.session, run))
        if (
            record.ended is not None
        ):  # the worker died before it could notify the engine
            if record.ended.error is not None:
                raise record.ended.error
            return
        turn = await self.queue.turn(request.session, run)
        if turn is None or (record.is_cancelled and not record.is_under_way):
            await self._leave_cancelled(run)
        if turn.waits:
            self._waiting.add(task)
            try:
                await self._wait_for(request.session, run)
            finally:
                self._waiting.discard(task)
            await self._put_into(self.queue.name, request.session, run)
        session = await self._taken(request.session, run, turn)
        if session is None:
            await self._put_into(self.queue.waiting, request.session, run)
        await self._answer(session, request, run, resumes=record.is_under_way)

    async def _put_into(self, queue: str, session: str, run: str) -> NoReturn:
        """Move the run to this queue for later, and end this execution of the run."""
        from dbos import DBOS

        await outside(DBOS.resume_workflow, run, queue_name=queue)
        if (
            await written(self.store.run_record(session, run))
        ).is_cancelled:  # the run was cancelled meanwhile
            await self._leave_cancelled(run)
        raise asyncio.CancelledError

    async def _leave_cancelled(self, run: str) -> NoReturn:
        """End a run that was cancelled before it started; its session has not stored the run."""
        from dbos import DBOS

        await outside(DBOS.cancel_workflow, run)
        raise asyncio.CancelledError

    # -- Session of a run ----------------------------------------------------------------------------------------------

    async def _taken(
        self, name: str, run: str, turn: RunTurn
    ) -> SessionRuntime[Any] | None:
        """Return the session for this run; None while another process has the session open or an earlier run is
        unfinished.

        The session gets one lease more than `Session` itself holds; `store.release` releases it.
        """
        if not turn.is_first:
            return None
        try:
            updated = await written(self.store.take(name))
        except SessionBusyError:
            return None
        try:
            session = await self._opened(name, run, updated)
        except SessionBusyError:  # a session of the agent in this process has it open
            session = None
        except BaseException:
            self.store.release(name)
            raise
        if session is None:
            self.store.release(name)
        return session

    async def _opened(
        self, name: str, run: str, updated: float
    ) -> SessionRuntime[Any] | None:
        """Return the live session of this process, or else read it from the store.

        Returns None if the session has another unfinished run.
        """
        session = self._open.pop(name, None)
        if session is not None and session.take_again(updated):
            return session
        kept = await written(self.store.reading(name))
        owner = ""
        if kept is not None:
            owner = str(kept.values.get("durable") or "")
        if owner not in ("", run) and await _is_unfinished(owner):
            return None
        return self.agent._runtime.session_as_of(name, kept)

    async def _wait_for(self, name: str, run: str) -> None:
        """Wait until the session is free for this run, without a timeout."""
        loop = asyncio.get_running_loop()
        begun, is_reported, seconds = loop.time(), False, FIRST_LOOK_SECONDS
        while True:
            turn = await self.queue.turn(name, run)
            if turn is None:
                await self._leave_cancelled(run)
            session = await self._taken(name, run, turn)
            if session is not None:
                break
            if loop.time() - begun > TOLD_SECONDS and not is_reported:
                is_reported = True
                who = await asyncio.to_thread(self._holder_of, name)
                self.agent._runtime.warn(
                    f'a durable run waits for session "{safe_line(name, 60)}", which {who} has'
                )
            seconds = await self._until_freed(seconds)
        self._let_go(session)

    def _let_go(self, session: SessionRuntime[Any]) -> None:
        """Release the session for other processes. The local state stays valid until another process writes."""
        session.release()
        self.store.release(session.id)
        self._open[session.id] = session
        if len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)

    async def _until_freed(self, seconds: float) -> float:
        """Wait for the delay, or until a run of this process has ended; return the next delay."""
        if not await self.is_freed_within(seconds):
            return min(seconds * 1.5, LOOK_SECONDS)
        await asyncio.sleep(
            FIRST_LOOK_SECONDS
        )  # until the engine, too, has noted the end
        return FIRST_LOOK_SECONDS

    async def is_freed_within(self, seconds: float, run: str = "") -> bool:
        """Wait up to `seconds`; return True as soon as this run ("": any run) has ended in this process."""
        try:
            async with asyncio.timeout(seconds):
                await self._freed[run].wait()
        except TimeoutError:
            return False
        return True

    def forget(self, run: str) -> None:
        """Discard the event of this run."""
        self._freed.pop(run, None)

    def _holder_of(self, name: str) -> str:
        holder = self.store.read(name).info.holder
        if holder is not None:
            return str(holder)
        return "another run"

    # -- Execution -----------------------------------------------------------------------------------------------------

    async def _answer(
        self,
        session: SessionRuntime[Any],
        request: RunRequest,
        run: str,
        *,
        resumes: bool,
    ) -> None:
        """Let the session answer, or resume if a dead worker had started the run; the session stores the end."""
        session.durable_run = run
        try:
            if resumes:
                given = partial(self._resumed, session, request)
            else:
                given = partial(self._given, request)
            await session.result_of(given)
        except Exception as error:
            session.fail(error)
            raise
        finally:
            self._let_go(session)
            await written(self.store.flush())

    def _given(self, request: RunRequest) -> RunInput:
        limits = self._limits_of(request)
        if request.answers:
            return RunInput(usable_answers(request.answers), limits=limits)
        return RunInput(
            usable_prompt(request.prompt), wanted_output(request.output), limits=limits
        )

    def _resumed(self, session: SessionRuntime[Any], request: RunRequest) -> RunInput:
        """Return the answers to the calls that are still pending: the other calls were already made."""
        waiting = {call.call_id for call in session.pending}
        answers = [answer for answer in request.answers if answer.call_id in waiting]
        return RunInput(usable_answers(answers), limits=self._limits_of(request))

    def _limits_of(self, request: RunRequest) -> Limits | None:
        """Return the limits of the run, restricted to those of the worker's agent; None: the agent's limits."""
        if not request.limits:
            return None
        asked = Limits(**{kind: request.limits.get(kind) for kind in KINDS})
        return asked.within(self.agent._runtime.definition.options.limits.of_run())

    def _without_secrets(self, ended: RunEnded) -> McpAgentError:
        """Return the error that ended a run, with secrets removed so that the engine may store it."""
        error = ended_from_json(
            ended.run, json.loads(clean_json(ended_to_json(ended)))
        ).error
        assert error is not None
        return error


async def _is_unfinished(run: str) -> bool:
    from dbos import DBOS

    status = await outside(DBOS.get_workflow_status, run)
    return status is not None and str(status.status) in (
        "ENQUEUED",
        "DELAYED",
        "PENDING",
    )
