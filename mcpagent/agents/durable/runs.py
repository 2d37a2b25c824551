"""`DurableRuns`: runs in a queue of the engine DBOS, so that another process can finish a run."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from mcpagent.agents.agent import Agent
from mcpagent.agents.durable.database import EngineConnection, EngineDatabase
from mcpagent.agents.durable.queues import (
    POLL_SECONDS,
    VERSION,
    WORKFLOW_NAME,
    Bounds,
    RunQueue,
    State,
    owner_of,
    run_state,
    state_of,
    unserved_words,
)
from mcpagent.agents.durable.runner import Runner, RunRequest
from mcpagent.agents.run_input import wanted_output
from mcpagent.errors import AgentStateError, ConfigError, InputError, RunCancelledError
from mcpagent.history.conversation import usable_prompt
from mcpagent.journal.sessions.entries import clean_json
from mcpagent.journal.sessions.run_ended import DurableResult, RunEnded, RunRecord
from mcpagent.journal.sessions.saved_state import written_json
from mcpagent.journal.sessions.store import Sessions, usable_id, written
from mcpagent.toolsets.definition import Definition
from mcpagent.utilities.python.argument_checks import checked, expect
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.approval import CallAnswer, usable_answers
from mcpagent.values.limits.run_limits import Limits
from mcpagent.values.messages import Text

if TYPE_CHECKING:
    from dbos import DBOSConfig, WorkflowStatus

SERVED_SECONDS = 5.0
"""Interval at which `result` checks that a worker serves the model of this run."""

ASK_ENGINE_SECONDS = 0.5
"""Interval at which `result` polls the engine until the session has stored the run."""

_INSTALL = "durable runs need DBOS, which is not installed; pip install 'mcpagent[durable]' (docs/install.md)"


class DurableRun:
    """A durable run. `id` identifies the run, and `session` its session, in every process."""

    def __init__(self, runs: DurableRuns, id: str, session: str) -> None:  # noqa: A002 - what everybody calls it
        self._runs = runs
        self.id, self.session = id, session

    async def result(self, timeout_seconds: float | None = None) -> DurableResult:
        """Wait for the end of the run and return its result. Raises the error that ended the run, or `TimeoutError`.

        While no worker serves the model of the run, `result` waits for a limited time and then raises an
        `AgentStateError`. The run itself continues to wait for a worker.
        """
        ended = asyncio.ensure_future(self._runs.end_of(self))
        unserved = asyncio.ensure_future(self._runs.never_served(self))
        try:
            async with asyncio.timeout(timeout_seconds):
                await asyncio.wait(
                    {ended, unserved}, return_when=asyncio.FIRST_COMPLETED
                )
            if not ended.done():
                unserved.result()  # raises `AgentStateError`
            end = ended.result()
        finally:
            for task in (ended, unserved):
                task.cancel()
            await asyncio.wait({ended, unserved})
        if end.error is not None:
            raise end.error
        assert end.result is not None
        return end.result

    async def state(self) -> State:
        """Return "waiting" (for a worker or its session), "running", "done", "failed" or "cancelled"."""
        record = await self._runs.record_of(self)
        if record.ended is not None:
            return record.ended.state
        return run_state(await _status(self.id), record)


class DurableRuns:
    """A queue of runs; if the process that executes a run dies, another one finishes the run.

        durable = DurableRuns("postgresql://...")
        agent = Agent(..., sessions=Sessions("postgresql://..."))
        async with agent, durable.serving(agent):
            run = await durable.start("What is new?", session="ann")
            print((await run.result()).answer)

    `database` is that of the engine: a file (None: `runs.db` in the user's data folder), or a PostgreSQL database that
    several workers share. The engine stores the queue and assigns each run to one worker. All other data is in the
    session, so the agent needs a session store that all workers can reach.

    A worker that takes over a run resumes its session without repeating stored steps. A call with an unknown outcome is
    reported to the model and not repeated, unless its tool is `safe_to_repeat`.

    `at_once` limits how many runs a model answers at the same time, `per_user` how many of one user, and `per_minute`
    how many start in a minute; the worker that starts last sets these limits for all. `result` raises an error when no
    worker has served the run's model for `unserved_seconds`. Raises `ConfigError` if the extra `durable` is not
    installed, or if `database` is invalid.
    """

    @checked()
    def __init__(
        self,
        database: str | Path | None = None,
        *,
        at_once: int | None = 10,
        per_user: int | None = None,
        per_minute: int | None = None,
        unserved_seconds: float = 60.0,
    ) -> None:
        expect(
            "DurableRuns: database",
            database,
            (str, Path, NoneType),
            "a file, or postgresql://...",
        )
        for name, value in (
            ("at_once", at_once),
            ("per_user", per_user),
            ("per_minute", per_minute),
        ):
            expect(
                f"DurableRuns: {name}",
                value,
                (int, NoneType),
                "a whole number, 1 or more, or None",
                holds=lambda number: number is None or number >= 1,
            )
        seconds = "a number of seconds above 0"
        expect(
            "DurableRuns: unserved_seconds",
            unserved_seconds,
            (int, float),
            seconds,
            holds=lambda limit: limit > 0,
        )
        self._database = EngineDatabase.of(database)
        self._limits, self._unserved_seconds = (
            Bounds(at_once, per_user, per_minute),
            float(unserved_seconds),
        )
        if at_once is not None and per_user is not None and per_user > at_once:
            raise ConfigError(
                f"DurableRuns: per_user is {per_user}, and at_once only {at_once}; make per_user smaller"
            )
        self._runner: Runner | None = None
        self._works = False

    @property
    def where(self) -> str:
        """The file, or the address of the database without its password."""
        return self._database.where

    def __repr__(self) -> str:
        return f"<DurableRuns {self.where}>"

    def __call__(self, definition: Definition) -> Definition:
        """Return the definition unchanged, so that `RunOptions(wrappers=[durable])` works, though it is not
        necessary.
        """
        return definition

    # -- Public methods ------------------------------------------------------------------------------------------------

    async def start(
        self,
        prompt: str,
        *,
        session: str | None = None,
        user: str = "",
        run: str | None = None,
        output_type: Any = None,
        limits: Limits | None = None,
    ) -> DurableRun:
        """Queue a run of this session (None: a new session); a worker starts it in turn.

        `run` is the ID of the run: passing the same ID twice starts one run. The run belongs to its session, and to the
        `user` if you pass one. With an `output_type` the answer is data that matches its JSON Schema; a type's own
        validators do not run. `limits` apply in addition to those of the worker's agent. Raises `InputError` for an
        unusable prompt, ID, type or limit, and for the ID of another owner's run.
        """
        expect(
            "start: limits", limits, (Limits, NoneType), "Limits(...)", error=InputError
        )
        parts = usable_prompt(prompt)
        if any(not isinstance(part, Text) for part in parts):
            raise InputError("start: a durable run is asked with words alone")
        expect("start: user", user, str, "a name as text", error=InputError)
        words = "".join(part.text for part in parts if isinstance(part, Text))
        if run is None:
            wanted = uuid4().hex
        else:
            wanted = _usable_run(run)
        name = usable_id(owner_of(wanted, user) if session is None else session)
        spec = wanted_output(output_type)
        output = None
        if spec is not None:
            output = {"title": spec.format.name, **spec.schema}
        if limits is not None:
            given = limits.given()
        else:
            given = None
        begun = await self._enqueue(
            RunRequest(name, words, output=output, limits=given), user, wanted
        )
        if run is None:
            return begun
        return await self.run(wanted, session=name, user=user)

    async def answer(
        self, answers: Sequence[CallAnswer], *, session: str, user: str = ""
    ) -> DurableRun:
        """Continue a run that ended with pending calls, in any process and even days later.

        Passing the same answers twice starts one run.
        """
        given = usable_answers(answers)
        expect("answer: user", user, str, "a name as text", error=InputError)
        if not given:
            raise InputError("answer: give an answer to each call that waits")
        request = RunRequest(usable_id(session), answers=tuple(given.values()))
        store = self._require_serving().store
        digest = hashlib.sha256(written_json(request.to_json()).encode()).hexdigest()[
            :32
        ]
        # A run that failed, or that answered the same call before a rewind, does not count as the run of this answer.
        for number in count(1):
            run = DurableRun(self, f"answer-{digest}-{number}", session)
            if await _found(run.id) is not None:
                state = await run.state()
            else:
                state = "waiting"
            if state in ("waiting", "running") or (
                state == "done" and not _wait(store, session, given)
            ):
                return await self._enqueue(request, user, run.id)
        raise AssertionError

    async def run(
        self,
        id: str,  # noqa: A002
        *,
        session: str | None = None,
        user: str | None = None,
    ) -> DurableRun:
        """Return the run of this ID, started in any process.

        Raises `InputError` for an unknown ID, and, if you pass a session or user, for a run of another session or user.
        """
        self._require_serving()
        status = await _found(_usable_run(id))
        if status is None:
            raise InputError(f'{self.where}: there is no run "{safe_line(id, 60)}"')
        found = str(status.authenticated_user)
        is_users = user is None or status.queue_partition_key == owner_of(found, user)
        if session not in (None, found) or not is_users:
            raise InputError(
                f'run "{safe_line(id, 60)}" belongs to another owner; use the ID of a run of your own'
            )
        return DurableRun(self, id, found)

    async def cancel(
        self,
        id: str,  # noqa: A002
        *,
        session: str | None = None,
        user: str | None = None,
    ) -> None:
        """End a run before its next step, in any process; a request or call that was already sent continues.

        Raises the errors of `run`.
        """
        from dbos import DBOS

        run = await self.run(id, session=session, user=user)
        await written(self._require_serving().store.cancel_run(run.session, id))
        await DBOS.cancel_workflow_async(id)

    async def _enqueue(self, request: RunRequest, user: str, run: str) -> DurableRun:
        from dbos import DBOS

        runner = self._require_serving()
        options: Any = runner.queue.options(request.session, user, run)
        await DBOS.enqueue_workflow_with_options_async(
            options, clean_json(request.to_json())
        )
        if not self._works and (
            words := await unserved_words(runner.store, runner.queue.name, VERSION)
        ):
            runner.agent._runtime.warn(f"{self.where}: {words}")
        return DurableRun(self, run, request.session)

    # -- Outcomes ------------------------------------------------------------------------------------------------------

    async def record_of(self, run: DurableRun) -> RunRecord:
        """Return the state of a run in its session, which takes precedence over the engine's state."""
        return await written(
            self._require_serving().store.run_record(run.session, run.id)
        )

    async def end_of(self, run: DurableRun) -> RunEnded:
        """Wait for the end of a run. Raises the error of a run that ended before it started in its session."""
        loop, runner = asyncio.get_running_loop(), self._require_serving()
        ask_engine_at = loop.time() + ASK_ENGINE_SECONDS
        try:
            while True:
                record = await self.record_of(run)
                if record.ended is not None:
                    return record.ended
                if loop.time() > ask_engine_at:
                    ask_engine_at = loop.time() + ASK_ENGINE_SECONDS
                    if (end := await self._end_without_session(run)) is not None:
                        return end
                await runner.is_freed_within(POLL_SECONDS, run.id)
        finally:
            runner.forget(run.id)

    async def _end_without_session(self, run: DurableRun) -> RunEnded | None:
        """Return the end of a run that its session will never store; None while a worker may still finish the run."""
        status = await _found(run.id)
        state = "failed"
        if status is not None:
            state = state_of(status)
        if state in ("waiting", "running"):
            return None
        record = await self.record_of(run)  # the run may have ended in between
        if (
            record.is_under_way and state == "cancelled"
        ):  # set by a worker that may have died before it noticed
            await written(self._require_serving().store.cancel_run(run.session, run.id))
            return None
        return record.ended or _end_told_by_engine(run, status)

    async def never_served(self, run: DurableRun) -> None:
        """Raise `AgentStateError` when no worker has served the run's model for `unserved_seconds`."""
        loop = asyncio.get_running_loop()
        since, pause = loop.time(), min(SERVED_SECONDS, self._unserved_seconds)
        while True:
            await asyncio.sleep(pause)
            runner, words = self._require_serving(), ""
            with suppress(Exception):  # an unreachable database may come back
                status = await _status(run.id)
                if str(status.status) in ("ENQUEUED", "DELAYED"):
                    words = await unserved_words(
                        runner.store, str(status.queue_name), str(status.app_version)
                    )
            if not words:
                since = loop.time()
            elif loop.time() - since >= self._unserved_seconds:
                raise AgentStateError(
                    f'{self.where}: run "{safe_line(run.id, 60)}" waits: {words}'
                )

    def _require_serving(self) -> Runner:
        if self._runner is None:
            raise AgentStateError(
                "durable runs are not served; use `async with durable.serving(agent):`"
            )
        return self._runner

    # -- Worker --------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def serving(
        self, agent: Agent[Any], *, works: bool = True, stop_seconds: float = 10.0
    ) -> AsyncIterator[None]:
        """Context manager in which runs can be started. If `works` is True, this process also executes runs, including
        those of dead workers.

        On exit, active runs have `stop_seconds` to end; another worker, or the next start, resumes the rest. A process
        can have only one such block at a time. Raises `ConfigError` if the agent does not store sessions.
        """
        try:
            from dbos import DBOS
        except ModuleNotFoundError:
            raise ConfigError(_INSTALL) from None
        if agent._runtime.store is None:
            raise ConfigError(
                "durable runs need an agent that keeps its sessions: Agent(sessions=Sessions(...))"
            )
        if not agent._runtime.is_started:
            raise AgentStateError(
                "start the agent first: `async with agent, durable.serving(agent):`"
            )
        if self._runner is not None or _SERVING[0] is not None:
            raise AgentStateError(
                "this process serves durable runs already; it can serve one agent's at a time"
            )
        await asyncio.to_thread(self._database.make_ready)
        me = await written(agent._runtime.store.join())
        logging.getLogger("dbos").setLevel(
            logging.CRITICAL
        )  # the run's result reports its error
        looking: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        threads = getattr(loop, "_default_executor", None)
        queue = RunQueue.of(agent._runtime.model.name)
        self._works = works
        self._runner = runner = _SERVING[0] = Runner(
            agent, agent._runtime.store, queue, me
        )
        try:
            try:
                DBOS(config=self._config(me))
                if DBOS.__dict__.get("_mcpagent_workflow") is None:
                    workflow = DBOS.workflow(name=WORKFLOW_NAME)(_workflow)
                    DBOS._mcpagent_workflow = workflow  # type: ignore[attr-defined]
                DBOS.listen_queues([queue.name, queue.waiting] if works else [])
                DBOS.launch()
                await queue.register(self._limits, works=works)
            except Exception as error:  # noqa: BLE001 - any error of the engine's database
                raise self._database.problem(error) from None
            if works:
                await queue.sit_down(me)
                looking = asyncio.create_task(runner.look(), name="mcpagent-durable")
            yield
        finally:
            if looking is not None:
                looking.cancel()
                await asyncio.wait({looking})
                with suppress(
                    Exception
                ):  # the database may be down; other workers notice that this process has ended
                    await queue.stand_up(me)
            await runner.end(stop_seconds)
            await asyncio.to_thread(DBOS.destroy)
            # The engine replaced the loop's default executor by its own threads, which have ended.
            loop.set_default_executor(
                threads or ThreadPoolExecutor(thread_name_prefix="asyncio")
            )
            self._runner = _SERVING[0] = None

    def _config(self, me: str) -> DBOSConfig:
        is_file = self._database.file is not None
        return {
            "name": "mcpagent",
            "system_database_url": self._database.address,
            "db_engine_kwargs": {"connect_args": {"factory": EngineConnection}}
            if is_file
            else {},
            "application_version": VERSION,
            "executor_id": me,
            "log_level": "CRITICAL",
            "enable_otlp": False,
            # mcpagent uses no notifications. Each poll takes CPU, and the engine cannot end during a poll.
            "notification_listener_polling_interval_sec": 0.5,
        }


_SERVING: list[Runner | None] = [None]
"""The runner of this process in a list of one item, or None; the engine allows one per process."""


async def _workflow(data: str) -> None:
    from dbos import DBOS

    runner = _SERVING[0]
    if runner is None:
        raise AgentStateError("durable runs are not served any more")
    await runner.execute(str(DBOS.workflow_id), data)


async def _found(run: str) -> WorkflowStatus | None:
    """Return the engine's record of a run, or None for an unknown run."""
    from dbos import DBOS

    return await DBOS.get_workflow_status_async(run)


async def _status(run: str) -> WorkflowStatus:
    status = await _found(run)
    if status is None:
        raise AgentStateError(f'run "{safe_line(run, 60)}" was deleted')
    return status


def _end_told_by_engine(run: DurableRun, status: WorkflowStatus | None) -> RunEnded:
    """Return the end of a run by the engine's record, for a run that its session has not stored."""
    if status is not None and status.status == "CANCELLED":
        return RunEnded(run.id, error=RunCancelledError(run.id))
    if status is not None and status.error is not None:
        return RunEnded.failed(run.id, status.error)
    gone = "or its session, was deleted"
    return RunEnded(
        run.id,
        error=AgentStateError(
            f'run "{safe_line(run.id, 60)}", {gone}; there is no result any more'
        ),
    )


def _usable_run(run: object) -> str:
    """Return a valid run ID; the rules are those for session IDs. Raises `InputError`."""
    try:
        if usable_id(run).strip():
            return str(run)
    except InputError as error:
        raise InputError(str(error).replace("session id", "run id")) from None
    raise InputError("run id: expected more than spaces")


def _wait(store: Sessions, session: str, given: Mapping[str, CallAnswer]) -> bool:
    """Return whether calls with these IDs are pending in the session."""
    kept = store.read(session)
    waiting = {call["call_id"] for call in kept.values.get("pending") or ()}
    return (
        bool(waiting & given.keys())
        and bool(kept.messages)
        and kept.messages[-1].role == "assistant"
    )
