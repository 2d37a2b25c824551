"""`DurableRuns`: runs as workflows of DBOS, so that another process finishes what one began."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import weakref
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from uuid import uuid4

from mcpagent.agent import Agent
from mcpagent.approval import CallAnswer, PendingCall, usable_answers
from mcpagent.config.file_changes import make_private
from mcpagent.config.user_folders import user_data_folder
from mcpagent.conversation import usable_prompt
from mcpagent.definition import Definition
from mcpagent.durable.old_sqlite import Connection
from mcpagent.durable.steps import WORKFLOW, Workflow, in_steps, storable_error
from mcpagent.errors import (
    AgentStateError,
    ConfigError,
    InputError,
    McpAgentError,
    OutputError,
    OutputProblem,
    SessionBusyError,
    SessionStoreError,
)
from mcpagent.events import StopReason
from mcpagent.messages import Message, Spent, Text, Usage, dump_messages, load_messages
from mcpagent.python.argument_checks import checked, expect
from mcpagent.run import RunResult
from mcpagent.session import Session, wanted_output
from mcpagent.sessions.kept import KeptSession, SessionInfo
from mcpagent.sessions.standing import steps_from_json, steps_to_json
from mcpagent.sessions.store import SessionStore, usable_id, written
from mcpagent.text.safe_text import safe_line

if TYPE_CHECKING:
    from dbos import DBOSConfig, WorkflowHandleAsync

LOOK_SECONDS = 1.0
"""So often a worker looks whether another one has died."""

BUSY_SECONDS = 600.0
"""So long a run waits for a session that another process, such as a chat, has."""

VERSION = "mcpagent-1"
"""Of what a workflow does between its steps: a worker goes on only with runs of its own version."""

_WORKFLOW = "mcpagent.run"
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
        """Tokens, as the provider counted them; of the process that finished the run."""
        return self.spent.usage


class DurableRun:
    """One run, wherever it is done. `id` names it in every process."""

    def __init__(self, handle: WorkflowHandleAsync[str]) -> None:
        self._handle = handle
        self.id = handle.workflow_id

    async def result(self, timeout_seconds: float | None = None) -> DurableResult:
        """What it came to, when it has; raises what ended it, and `TimeoutError` if that takes longer."""
        from dbos import error

        async with asyncio.timeout(timeout_seconds):
            try:
                data = json.loads(await self._handle.get_result(polling_interval_sec=0.2))
            except error.DBOSAwaitedWorkflowCancelledError:
                raise AgentStateError(f'run "{safe_line(self.id, 60)}" was cancelled') from None
        spent = Spent(**{**data["spent"], "usage": Usage(**data["spent"]["usage"])})
        pending = tuple(PendingCall.from_json(call) for call in data["pending"])
        problems = tuple(OutputProblem(*problem) for problem in data.get("problems", ()))
        return DurableResult(data["answer"], data["stop"], spent, pending, data.get("output"), problems)

    async def state(self) -> State:
        """ "waiting" for its turn, "running", "done", "failed" or "cancelled"."""
        return _STATES.get(str((await self._handle.get_status()).status), "failed")


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
    many begin in a minute. Raises `ConfigError` if the extra `durable` is not installed.
    """

    @checked()
    def __init__(
        self,
        database: str | Path | None = None,
        *,
        at_once: int | None = 10,
        per_user: int | None = None,
        per_minute: int | None = None,
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
        self._address, self.where = _address(database)
        self._at_once, self._per_user, self._per_minute = at_once, per_user, per_minute
        if at_once is not None and per_user is not None and per_user > at_once:
            raise ConfigError(f"DurableRuns: per_user is {per_user}, and at_once only {at_once}; make per_user smaller")
        self._agent: Agent[Any] | None = None
        self._queue = ""
        self._active: set[asyncio.Task[Any]] = set()
        self._alone: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

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
    ) -> DurableRun:
        """Begins a run of this session (None: a new one) as soon as it is its turn, in whichever worker.

        `run` is its id: the same one given twice is one run. With an `output_type` the answer is data that fits its
        JSON Schema; a worker has the schema alone, so validators of a type do not count. Raises `InputError` for an
        unusable prompt, id or type.
        """
        parts = usable_prompt(prompt)
        if any(not isinstance(part, Text) for part in parts):
            raise InputError("start: a durable run is asked with words alone")
        expect("start: user", user, str, "a name as text", error=InputError)
        words = "".join(part.text for part in parts if isinstance(part, Text))
        data: dict[str, Any] = {"session": usable_id(session or uuid4().hex), "prompt": words}
        if (spec := wanted_output(output_type)) is not None:
            data["output"] = {"title": spec.format.name, **spec.schema}
        return await self._enqueue(data, user, usable_id(run) if run else None)

    async def answer(self, answers: Sequence[CallAnswer], *, session: str, user: str = "") -> DurableRun:
        """Goes on with a run that ended with calls that wait, also days later and in another process.

        The same answers given twice are one run.
        """
        given = usable_answers(answers)
        if not given:
            raise InputError("answer: give an answer to each call that waits")
        data = {"session": usable_id(session), "answers": [answer.to_json() for answer in given.values()]}
        _, store = self._require_serving()
        digest = hashlib.sha256(_json(data).encode(errors="surrogatepass")).hexdigest()[:32]
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
        if await DBOS.get_workflow_status_async(id) is None:
            raise InputError(f'{self.where}: there is no run "{safe_line(id, 60)}"')
        return DurableRun(await DBOS.retrieve_workflow_async(id))

    async def _state(self, id: str) -> State | None:  # noqa: A002
        from dbos import DBOS

        status = await DBOS.get_workflow_status_async(id)
        return None if status is None else _STATES.get(str(status.status), "failed")

    async def cancel(self, id: str) -> None:  # noqa: A002
        """Ends a run before its next step, in whichever process; what it has sent is not taken back."""
        from dbos import DBOS

        await self.run(id)
        await DBOS.cancel_workflow_async(id)

    async def _enqueue(self, data: dict[str, Any], user: str, run: str | None = None) -> DurableRun:
        from dbos import DBOS

        _, store = self._require_serving()
        options: dict[str, Any] = {
            "workflow_name": _WORKFLOW,
            "queue_name": self._queue,
            "app_version": VERSION,
            "workflow_id": run or uuid4().hex,
        }
        if self._per_user is not None:
            options["queue_partition_key"] = user or data["session"]
        return DurableRun(
            await DBOS.enqueue_workflow_with_options_async(options, store.as_json(data))  # type: ignore[arg-type]
        )

    def _require_serving(self) -> tuple[Agent[Any], SessionStore]:
        if self._agent is None or self._agent.store is None:
            raise AgentStateError("durable runs are not served; use `async with durable.serving(agent):`")
        return self._agent, self._agent.store

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
        if self._agent is not None or _SERVING[0] is not None:
            raise AgentStateError("this process serves durable runs already; it can serve one agent's at a time")
        me = await written(agent.store.join())
        logging.getLogger("dbos").setLevel(logging.CRITICAL)  # what went wrong with a run is told by its result
        looking: asyncio.Task[None] | None = None
        self._agent, self._queue = agent, _queue_of(agent)
        try:
            DBOS(config=self._config(me))
            if DBOS.__dict__.get("_mcpagent_workflow") is None:
                DBOS._mcpagent_workflow = DBOS.workflow(name=_WORKFLOW)(_workflow)  # type: ignore[attr-defined]
            _SERVING[0] = self
            DBOS.listen_queues([self._queue] if works else [])
            try:
                DBOS.launch()
            except Exception as error:  # noqa: BLE001 - whatever the engine's database raises
                said = safe_line(str(error).partition("\n")[0], 200)
                raise SessionStoreError(f"{self.where}: durable runs cannot be kept there ({said})") from None
            await DBOS.register_queue_async(
                self._queue,
                global_concurrency=self._at_once,
                partition_concurrency=self._per_user,
                limiter={"limit": self._per_minute, "period": 60.0} if self._per_minute is not None else None,
                polling_interval_sec=0.2,
                on_conflict="always_update",
            )
            if works:
                looking = asyncio.create_task(self._look(agent.store, me), name="mcpagent-durable")
            yield
        finally:
            if looking is not None:
                looking.cancel()
                await asyncio.wait({looking})
            await self._end(stop_seconds)
            await asyncio.to_thread(DBOS.destroy)
            self._agent, _SERVING[0] = None, None

    def _config(self, me: str) -> DBOSConfig:
        is_file = self._address.startswith("sqlite:")
        return {
            "name": "mcpagent",
            "system_database_url": self._address,
            "db_engine_kwargs": {"connect_args": {"factory": Connection}} if is_file else {},
            "application_version": VERSION,
            "executor_id": me,
            "log_level": "CRITICAL",
            "enable_otlp": False,
            "notification_listener_polling_interval_sec": 0.2,
        }

    async def _end(self, seconds: float) -> None:
        """Waits for the runs under way; what is left then is neither done nor failed, and somebody's to go on with."""
        if self._active:
            await asyncio.wait(self._active, timeout=seconds)
        for task in tuple(self._active):
            task.cancel()
        if self._active:
            await asyncio.wait(self._active, timeout=seconds)

    async def _look(self, store: SessionStore, me: str) -> None:
        """Takes over what dead workers had: the engine gives each run to one process alone."""
        from dbos import DBOS

        while True:
            try:
                pending = await DBOS.list_workflows_async(status="PENDING", name=_WORKFLOW, load_input=False)
                for executor in sorted({str(item.executor_id) for item in pending} - {me}):
                    if not await written(store.is_alive(executor)):
                        await asyncio.to_thread(DBOS._recover_pending_workflows, [executor])
            except Exception as error:  # noqa: BLE001 - the next look may find the database again
                logging.getLogger("mcpagent").warning("durable runs: %s", safe_line(str(error), 200))
            await asyncio.sleep(LOOK_SECONDS)

    async def execute(self, data: str) -> str:
        """What the workflow does: the same steps in each process."""
        from dbos import DBOS

        agent, store = self._require_serving()
        task, run = asyncio.current_task(), str(DBOS.workflow_id)
        assert task is not None
        self._active.add(task)
        token = WORKFLOW.set(Workflow(store, await _recorded(run)))
        request = json.loads(data)
        name = str(request["session"])
        try:
            alone = self._alone.setdefault(name, asyncio.Lock())
            async with alone:
                return await self._in_session(agent, store, name, run, request)
        except McpAgentError as error:
            raise storable_error(error, store) from None
        finally:
            WORKFLOW.reset(token)
            self._active.discard(task)

    async def _in_session(
        self, agent: Agent[Any], store: SessionStore, name: str, run: str, request: dict[str, Any]
    ) -> str:
        from dbos import DBOS

        session, now = await _taken(agent, store, name, run)

        async def begin() -> str:
            return _json(_kept_to_json(now))

        try:
            begun = _kept_from_json(name, json.loads(await DBOS.run_step_async({"name": "begin"}, begin)))
            if not _is_ours(now, begun, run):
                text = f'session "{safe_line(name, 60)}" went on with something else after the worker of this run died'
                raise SessionStoreError(f"{text}; the run is given up, nothing that was said is lost")
            session.give_back()
            session = agent.session_as_of(name, begun)
            session.durable_run = run
            workflow = WORKFLOW.get()
            assert workflow is not None
            if "answers" in request:
                answers = [CallAnswer.from_json(answer) for answer in request["answers"]]
                result = await session.run(
                    answers,
                    output_type=session.output_schema,
                    before=lambda: workflow.reserve(session.open_calls),
                )
            else:
                result = await session.run(str(request["prompt"]), output_type=request.get("output"))
            session.durable_run = ""
        except Exception:
            session.durable_run = ""
            raise
        finally:  # who is cancelled leaves the session to whoever goes on
            session.give_back()
            store.release(name)
        return store.as_json(_result_to_json(result))


_SERVING: list[DurableRuns | None] = [None]
"""Who does the runs of this process: the engine is one for all of it."""


async def _workflow(data: str) -> str:
    serving = _SERVING[0]
    if serving is None:
        raise AgentStateError("durable runs are not served any more")
    return await serving.execute(data)


async def _taken(
    agent: Agent[Any], store: SessionStore, name: str, run: str
) -> tuple[Session[Any], KeptSession | None]:
    """The session for this run, and as it is now; waits while somebody else has it, or another run goes on with it.

    It is taken once more than the session takes it: `store.release` gives that back.
    """
    until = asyncio.get_running_loop().time() + BUSY_SECONDS
    while True:
        try:
            now = await written(store.begin(name))
            try:
                other = str((now.values.get("durable") if now is not None else None) or "")
                if other in ("", run) or not await _is_under_way(other):
                    return agent.session_as_of(name, now), now
            except BaseException:
                store.release(name)
                raise
            store.release(name)
        except SessionBusyError:
            if asyncio.get_running_loop().time() > until:
                raise
        if asyncio.get_running_loop().time() > until:
            raise AgentStateError(
                f'session "{safe_line(name, 60)}" has been in another run for {BUSY_SECONDS:g} seconds'
            )
        await asyncio.sleep(LOOK_SECONDS)


def _is_ours(now: KeptSession | None, begun: KeptSession | None, run: str) -> bool:
    """Whether nobody but this run has written into the session since it began."""
    if now is not None and now.values.get("durable") == run:
        return True
    return bool(_kept_to_json(now) == _kept_to_json(begun))


async def _recorded(run: str) -> dict[int, str]:
    """What the steps of a run gave so far, read outside of it: inside, reading would be a step."""
    from dbos import DBOS

    look = partial(Context().run, DBOS.list_workflow_steps, run)
    steps = await asyncio.get_running_loop().run_in_executor(None, look)
    return {step["function_id"]: step["output"] for step in steps if isinstance(step["output"], str)}


async def _is_under_way(run: str) -> bool:
    from dbos import DBOS

    status = await asyncio.get_running_loop().run_in_executor(
        None, lambda: Context().run(DBOS.get_workflow_status, run)
    )
    return status is not None and _STATES.get(str(status.status)) in ("waiting", "running")


def _wait(store: SessionStore, session: str, given: Mapping[str, CallAnswer]) -> bool:
    """Whether calls with these ids wait in the session now."""
    kept = store.read(session)
    waiting = {call["call_id"] for call in kept.values.get("pending") or ()}
    return bool(waiting & given.keys()) and bool(kept.messages) and kept.messages[-1].role == "assistant"


def _queue_of(agent: Agent[Any]) -> str:
    return f"mcpagent {safe_line(agent.model.name, 100)}"


def _kept_to_json(kept: KeptSession | None) -> Any:
    if kept is None:
        return None
    return {
        "messages": dump_messages(kept.messages),
        "steps": {str(place): step for place, step in steps_to_json(kept.steps, 0).items()},
        "calls": dict(kept.calls),
        "values": dict(kept.values),
    }


def _kept_from_json(name: str, data: Any) -> KeptSession | None:
    if data is None:
        return None
    messages: list[Message] = load_messages(data["messages"])
    steps = steps_from_json({int(place): step for place, step in data["steps"].items()})
    return KeptSession(SessionInfo(name, "", 0.0, 0.0), tuple(messages), steps, data["calls"], data["values"])


def _result_to_json(result: RunResult) -> Any:
    try:
        output = {"output": result.output} if result.has_type else {}
    except OutputError:
        output = {"problems": [list(problem) for problem in result.problems]}
    return {
        **output,
        "answer": result.answer,
        "stop": result.stop,
        "spent": asdict(result.spent),
        "pending": [call.to_json() for call in result.pending],
    }


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False)


def _address(database: str | Path | None) -> tuple[str, str]:
    """For the engine, and for people: without a password."""
    if isinstance(database, str) and database.startswith(("postgresql://", "postgres://")):
        from urllib.parse import urlsplit

        from mcpagent.text.known_secrets import hide

        hide(urlsplit(database).password)
        rest = database.partition("://")[2]
        return f"postgresql://{rest}", f"postgresql://{rest.rpartition('@')[2]}"

    path = (
        Path(database).expanduser() if database is not None else user_data_folder(os.environ) / "runs.db"
    ).absolute()
    make_private(path.parent)
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    return f"sqlite:///{path}", safe_line(str(path), 200)
