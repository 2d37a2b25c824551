"""`DurableRuns`: runs as workflows of DBOS, so that another process finishes what one began."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from uuid import uuid4

from mcpagent.agent import Agent
from mcpagent.approval import CallAnswer, PendingCall, usable_answers
from mcpagent.conversation import usable_prompt
from mcpagent.definition import Definition
from mcpagent.durable.database import EngineConnection, EngineDatabase
from mcpagent.durable.queues import VERSION, WORKFLOW_NAME, Bounds, RunQueue, unserved_words
from mcpagent.durable.runner import Runner
from mcpagent.durable.steps import in_steps
from mcpagent.errors import AgentStateError, ConfigError, InputError, OutputProblem
from mcpagent.events import StopReason
from mcpagent.limits.run_limits import Limits
from mcpagent.messages import Spent, Text, Usage
from mcpagent.python.argument_checks import checked, expect
from mcpagent.questions.given import wanted_output
from mcpagent.sessions.standing import written_json
from mcpagent.sessions.store import SessionStore, usable_id, written
from mcpagent.text.safe_text import safe_line

if TYPE_CHECKING:
    from dbos import DBOSConfig, WorkflowHandleAsync, WorkflowStatus

SERVED_SECONDS = 5.0
"""So often whoever waits for a run looks whether anybody does those of its model."""

_INSTALL = "durable runs need DBOS, which is not installed; pip install 'mcpagent[durable]' (docs/install.md)"

State: TypeAlias = Literal["waiting", "running", "done", "failed", "cancelled"]
_STATES: dict[str, State] = {
    "ENQUEUED": "waiting",
    "DELAYED": "waiting",
    "PENDING": "running",
    "SUCCESS": "done",
    "CANCELLED": "cancelled",
}


@dataclass(frozen=True, slots=True)
class DurableResult:
    """What a run came to; with the stop "calls_pending", `pending` wait for `DurableRuns.answer`.

    `output` is the JSON data that the answer holds, where an `output_type` was given; None if it does not fit, which
    `problems` tell.
    """

    answer: str
    stop: StopReason
    spent: Spent
    pending: tuple[PendingCall, ...] = ()
    output: Any = None
    problems: tuple[OutputProblem, ...] = ()

    @property
    def usage(self) -> Usage:
        """Tokens of the whole run, as the provider counted them, with those of agents that it called as tools."""
        return self.spent.usage


class DurableRun:
    """One run, wherever it is done. `id` names it in every process."""

    def __init__(self, handle: WorkflowHandleAsync[str], unserved: Callable[[], Awaitable[None]]) -> None:
        self._handle, self._unserved = handle, unserved
        self.id = handle.workflow_id

    async def result(self, timeout_seconds: float | None = None) -> DurableResult:
        """What it came to, when it has; raises what ended it, and `TimeoutError` if that takes longer.

        While no worker does the runs of its model it is waited for a bounded time, and then an `AgentStateError` says
        so; the run goes on waiting for one.
        """
        from dbos import error

        got = asyncio.ensure_future(self._handle.get_result(polling_interval_sec=0.2))
        unserved = asyncio.ensure_future(self._unserved())
        try:
            async with asyncio.timeout(timeout_seconds):
                await asyncio.wait({got, unserved}, return_when=asyncio.FIRST_COMPLETED)
            if not got.done():
                unserved.result()  # raises
            data = json.loads(got.result())
        except error.DBOSAwaitedWorkflowCancelledError:
            raise AgentStateError(f'run "{safe_line(self.id, 60)}" was cancelled') from None
        finally:
            for task in (got, unserved):
                task.cancel()
            await asyncio.wait({got, unserved})
        spent = Spent(**{**data["spent"], "usage": Usage(**data["spent"]["usage"])})
        pending = tuple(PendingCall.from_json(call) for call in data["pending"])
        problems = tuple(OutputProblem(*problem) for problem in data.get("problems", ()))
        return DurableResult(data["answer"], data["stop"], spent, pending, data.get("output"), problems)

    async def state(self) -> State:
        """ "waiting" for its turn or its session, "running", "done", "failed" or "cancelled"."""
        return _state_of(await self._handle.get_status())


class DurableRuns:
    """Runs that another process finishes if the one that began them dies: `Agent(..., wrappers=[durable])`.

        durable = DurableRuns("postgresql://...")
        agent = Agent(..., wrappers=[durable], sessions=SessionStore("postgresql://..."))
        async with agent, durable.serving(agent):
            run = await durable.start("What is new?", session="ann")
            print((await run.result()).answer)

    `database` is that of the engine: a file (None: `runs.db` in the user's data folder), or a PostgreSQL database that
    several workers share. Each request to the model and each call of a tool is a step of it: what is completed is not
    done again, and a call of which nobody knows whether it ran is told to the model, not made again, unless its tool is
    `safe_to_repeat`. The agent needs a store of sessions that all workers reach.
    `at_once` bounds how many runs a model answers at the same time, `per_user` how many of one user's, `per_minute` how
    many begin in a minute; the worker that starts last sets them for all. Whoever waits for a run is told when no
    worker has done those of its model for `unserved_seconds`. Raises `ConfigError` if the extra `durable` is not
    installed, or for what is no database.
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
        expect("DurableRuns: database", database, (str, Path, NoneType), "a file, or postgresql://...")
        for name, value in (("at_once", at_once), ("per_user", per_user), ("per_minute", per_minute)):
            expect(
                f"DurableRuns: {name}",
                value,
                (int, NoneType),
                "a whole number, 1 or more, or None",
                holds=lambda number: number is None or number >= 1,
            )
        seconds = "a number of seconds above 0"
        expect("DurableRuns: unserved_seconds", unserved_seconds, (int, float), seconds, holds=lambda limit: limit > 0)
        self._database = EngineDatabase.of(database)
        self._limits, self._unserved_seconds = Bounds(at_once, per_user, per_minute), float(unserved_seconds)
        if at_once is not None and per_user is not None and per_user > at_once:
            raise ConfigError(f"DurableRuns: per_user is {per_user}, and at_once only {at_once}; make per_user smaller")
        self._runner: Runner | None = None
        self._works = False

    @property
    def where(self) -> str:
        """The file, or the database without its password."""
        return self._database.where

    def __repr__(self) -> str:
        return f"<DurableRuns {self.where}>"

    def __call__(self, definition: Definition) -> Definition:
        """The agent with its requests and calls as steps."""
        return in_steps(definition)

    # -- for whoever asks ---------------------------------------------------------------------------------------------

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
        """Begins a run of this session (None: a new one) as soon as it is its turn, in whichever worker.

        `run` is its id: the same one given twice is one run. With an `output_type` the answer is data that fits its
        JSON Schema; a worker has the schema alone, so validators of a type do not count. `limits` hold besides those of
        the worker's agent. Raises `InputError` for an unusable prompt, id, type or limit.
        """
        expect("start: limits", limits, (Limits, NoneType), "Limits(...)", error=InputError)
        parts = usable_prompt(prompt)
        if any(not isinstance(part, Text) for part in parts):
            raise InputError("start: a durable run is asked with words alone")
        expect("start: user", user, str, "a name as text", error=InputError)
        words = "".join(part.text for part in parts if isinstance(part, Text))
        data: dict[str, Any] = {"session": usable_id(session or uuid4().hex), "prompt": words}
        if (spec := wanted_output(output_type)) is not None:
            data["output"] = {"title": spec.format.name, **spec.schema}
        if limits is not None:
            data["limits"] = limits.given()
        return await self._enqueue(data, user, _usable_run(run) if run else uuid4().hex)

    async def answer(self, answers: Sequence[CallAnswer], *, session: str, user: str = "") -> DurableRun:
        """Goes on with a run that ended with calls that wait, also days later and in another process.

        The same answers given twice are one run.
        """
        given = usable_answers(answers)
        expect("answer: user", user, str, "a name as text", error=InputError)
        if not given:
            raise InputError("answer: give an answer to each call that waits")
        data = {"session": usable_id(session), "answers": [answer.to_json() for answer in given.values()]}
        store = self._require_serving().store
        digest = hashlib.sha256(written_json(data).encode()).hexdigest()[:32]
        # What failed, or answered the same call before the conversation was taken back, is not what is answered now.
        for number in count(1):
            once = f"answer-{digest}-{number}"
            state = await self._state(once)
            if state in (None, "waiting", "running") or (state == "done" and not _wait(store, session, given)):
                return await self._enqueue(data, user, once)
        raise AssertionError

    async def run(self, id: str) -> DurableRun:  # noqa: A002 - what everybody calls it
        """The run of this id, begun in whichever process. Raises `InputError` if there is none."""
        from dbos import DBOS

        self._require_serving()
        if await DBOS.get_workflow_status_async(_usable_run(id)) is None:
            raise InputError(f'{self.where}: there is no run "{safe_line(id, 60)}"')
        return self._known(await DBOS.retrieve_workflow_async(id))

    async def cancel(self, id: str) -> None:  # noqa: A002
        """Ends a run before its next step, in whichever process; what it has sent is not taken back."""
        from dbos import DBOS

        await self.run(id)
        # Also for a worker that gives it back at this very moment, to be done later.
        await DBOS.update_workflow_attributes_async(id, {"cancelled": True}, merge=True)
        await DBOS.cancel_workflow_async(id)

    async def _state(self, id: str) -> State | None:  # noqa: A002
        from dbos import DBOS

        status = await DBOS.get_workflow_status_async(id)
        return None if status is None else _state_of(status)

    async def _enqueue(self, data: dict[str, Any], user: str, run: str) -> DurableRun:
        from dbos import DBOS

        runner = self._require_serving()
        options: Any = runner.queue.options(data["session"], user, run)
        begun = await DBOS.enqueue_workflow_with_options_async(options, runner.store.as_json(data))
        if not self._works and (words := await unserved_words(runner.store, runner.queue.name, VERSION)):
            runner.agent.warn(f"{self.where}: {words}")
        return self._known(begun)

    def _known(self, handle: WorkflowHandleAsync[str]) -> DurableRun:
        return DurableRun(handle, lambda: self._never_served(handle))

    async def _never_served(self, handle: WorkflowHandleAsync[str]) -> None:
        """Raises `AgentStateError` when nobody has done runs like this one for long."""
        loop = asyncio.get_running_loop()
        since, pause = loop.time(), min(SERVED_SECONDS, self._unserved_seconds)
        while True:
            await asyncio.sleep(pause)
            runner, words = self._require_serving(), ""
            with suppress(Exception):  # a database that is away may come back
                status = await handle.get_status()
                if str(status.status) in ("ENQUEUED", "DELAYED"):
                    words = await unserved_words(runner.store, str(status.queue_name), str(status.app_version))
            if not words:
                since = loop.time()
            elif loop.time() - since >= self._unserved_seconds:
                raise AgentStateError(f'{self.where}: run "{safe_line(handle.workflow_id, 60)}" waits: {words}')

    def _require_serving(self) -> Runner:
        if self._runner is None:
            raise AgentStateError("durable runs are not served; use `async with durable.serving(agent):`")
        return self._runner

    # -- the worker ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def serving(
        self, agent: Agent[Any], *, works: bool = True, stop_seconds: float = 10.0
    ) -> AsyncIterator[None]:
        """Inside, runs can be started; with `works` this process does them too, and those of workers that died.

        On leaving, runs under way have `stop_seconds` to end; what is left is gone on with by another worker, or by the
        next start. One at a time in a process. Raises `ConfigError` if the agent was not made with these runs, or keeps
        no sessions.
        """
        try:
            from dbos import DBOS
        except ModuleNotFoundError:
            raise ConfigError(_INSTALL) from None
        if agent.store is None:
            raise ConfigError("durable runs need an agent that keeps its sessions: Agent(sessions=SessionStore(...))")
        if not agent.is_started:
            raise AgentStateError("start the agent first: `async with agent, durable.serving(agent):`")
        if self._runner is not None or _SERVING[0] is not None:
            raise AgentStateError("this process serves durable runs already; it can serve one agent's at a time")
        await asyncio.to_thread(self._database.make_ready)
        me = await written(agent.store.join())
        logging.getLogger("dbos").setLevel(logging.CRITICAL)  # what went wrong with a run is told by its result
        looking: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        threads = getattr(loop, "_default_executor", None)
        queue = RunQueue.of(agent.model.name)
        self._works = works
        self._runner = runner = _SERVING[0] = Runner(agent, agent.store, queue, me)
        try:
            try:
                DBOS(config=self._config(me))
                if DBOS.__dict__.get("_mcpagent_workflow") is None:
                    DBOS._mcpagent_workflow = DBOS.workflow(name=WORKFLOW_NAME)(_workflow)  # type: ignore[attr-defined]
                DBOS.listen_queues([queue.name, queue.waiting] if works else [])
                DBOS.launch()
                await queue.register(self._limits, works=works)
            except Exception as error:  # noqa: BLE001 - whatever the engine's database raises
                raise self._database.problem(error) from None
            if works:
                await queue.sit_down(me)
                looking = asyncio.create_task(runner.look(), name="mcpagent-durable")
            yield
        finally:
            if looking is not None:
                looking.cancel()
                await asyncio.wait({looking})
                with suppress(Exception):  # the database may be what is gone; others see that this process is
                    await queue.stand_up(me)
            await runner.end(stop_seconds)
            await asyncio.to_thread(DBOS.destroy)
            # The engine has put its own threads in place of the loop's, and they are gone now.
            loop.set_default_executor(threads or ThreadPoolExecutor(thread_name_prefix="asyncio"))
            self._runner = _SERVING[0] = None

    def _config(self, me: str) -> DBOSConfig:
        is_file = self._database.file is not None
        return {
            "name": "mcpagent",
            "system_database_url": self._database.address,
            "db_engine_kwargs": {"connect_args": {"factory": EngineConnection}} if is_file else {},
            "application_version": VERSION,
            "executor_id": me,
            "log_level": "CRITICAL",
            "enable_otlp": False,
            "notification_listener_polling_interval_sec": 0.2,
        }


_SERVING: list[Runner | None] = [None]
"""Who does the runs of this process: the engine is one for all of it."""


async def _workflow(data: str) -> str:
    runner = _SERVING[0]
    if runner is None:
        raise AgentStateError("durable runs are not served any more")
    return await runner.execute(data)


def _state_of(status: WorkflowStatus) -> State:
    if str(status.status) == "PENDING" and str(status.queue_name).endswith("(waiting)"):
        return "waiting"
    return _STATES.get(str(status.status), "failed")


def _usable_run(run: object) -> str:
    """A run's id. Raises `InputError` for what is none, as for a session's."""
    try:
        if usable_id(run).strip():
            return str(run)
    except InputError as error:
        raise InputError(str(error).replace("session id", "run id")) from None
    raise InputError("run id: expected more than spaces")


def _wait(store: SessionStore, session: str, given: Mapping[str, CallAnswer]) -> bool:
    """Whether calls with these ids wait in the session now."""
    kept = store.read(session)
    waiting = {call["call_id"] for call in kept.values.get("pending") or ()}
    return bool(waiting & given.keys()) and bool(kept.messages) and kept.messages[-1].role == "assistant"
