"""What a process does that serves durable runs: it does them, and takes over those of processes that died."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from mcpagent.agent import Agent
from mcpagent.approval import CallAnswer, usable_answers
from mcpagent.durable.queues import VERSION, WORKFLOW_NAME, RunQueue, outside
from mcpagent.durable.steps import WORKFLOW, Workflow, storable_error
from mcpagent.errors import AgentStateError, LimitError, OutputError, SessionBusyError, SessionStoreError
from mcpagent.limits.run_limits import KINDS, Limits
from mcpagent.messages import Message, dump_messages, load_messages
from mcpagent.questions.given import Given, wanted_output
from mcpagent.run import RunResult
from mcpagent.session import Session
from mcpagent.sessions.kept import KeptSession, SessionInfo
from mcpagent.sessions.standing import steps_from_json, steps_to_json, written_json
from mcpagent.sessions.store import SessionStore, written
from mcpagent.text.safe_text import safe_line

if TYPE_CHECKING:
    from dbos import WorkflowStatus

LOOK_SECONDS = 1.0
"""So often a worker looks whether another one has died, and a run whether its session is free."""

FIRST_LOOK_SECONDS = 0.1
"""So soon a run looks for the first time, and after another run of this process has ended."""

TOLD_SECONDS = 600.0
"""When a run has waited so long for a session that another process, such as a chat, has, the worker says so."""

Taken: TypeAlias = "tuple[Session[Any], KeptSession | None]"


class Runner:
    """Does runs of one agent. `me` is the token of this process, by which others see that it is alive."""

    def __init__(self, agent: Agent[Any], store: SessionStore, queue: RunQueue, me: str) -> None:
        self.agent, self.store, self.queue, self.me = agent, store, queue, me
        self._active: set[asyncio.Task[Any]] = set()
        self._waiting: set[asyncio.Task[Any]] = set()
        self._freed = asyncio.Event()

    async def end(self, seconds: float) -> None:
        """Waits for the runs under way; what is left then is neither done nor failed, and somebody's to go on with."""
        for task in tuple(self._waiting):
            task.cancel()
        if self._active:
            await asyncio.wait(self._active, timeout=seconds)
        for task in tuple(self._active):
            task.cancel()
        if self._active:
            await asyncio.wait(self._active, timeout=seconds)

    async def look(self) -> NoReturn:
        """Takes over what dead workers had: the engine gives each run to one process alone."""
        from dbos import DBOS

        while True:
            try:
                pending = await DBOS.list_workflows_async(
                    status="PENDING", name=WORKFLOW_NAME, app_version=VERSION, load_input=False
                )
                for executor in sorted({str(item.executor_id) for item in pending} - {self.me}):
                    if not await written(self.store.is_alive(executor)):
                        await asyncio.to_thread(DBOS._recover_pending_workflows, [executor])
            except Exception as error:  # noqa: BLE001 - the next look may find the database again
                logging.getLogger("mcpagent").warning("durable runs: %s", safe_line(str(error), 200))
            await asyncio.sleep(LOOK_SECONDS)

    async def execute(self, data: str) -> str:
        """What the workflow does: the same steps in each process."""
        from dbos import DBOS

        task, run = asyncio.current_task(), str(DBOS.workflow_id)
        assert task is not None
        self._active.add(task)
        workflow = Workflow(self.store, task)
        token = WORKFLOW.set(workflow)
        try:
            workflow.recorded = await _recorded(run)
            return await self._whole(json.loads(data), run, workflow, task)
        except Exception as error:  # noqa: BLE001 - toolsets are other people's code
            raise storable_error(error, self.store) from None
        except asyncio.CancelledError:
            if workflow.ended is None:
                raise
            task.uncancel()
            raise workflow.ended from None
        finally:
            WORKFLOW.reset(token)
            self._active.discard(task)
            self._freed.set()

    async def _whole(self, request: dict[str, Any], run: str, workflow: Workflow, task: asyncio.Task[Any]) -> str:
        from dbos import DBOS

        name, status = str(request["session"]), await _status(run)
        if _is_cancelled(status):  # it was given back while somebody cancelled it
            await outside(DBOS.cancel_workflow, run)
            raise asyncio.CancelledError
        if status.queue_name == self.queue.waiting:
            self._waiting.add(task)
            try:
                await self._wait_for(name, status)
            finally:
                self._waiting.discard(task)
            await self._put_into(self.queue.name, run)
        if (taken := await self._taken(name, status)) is None:
            return await self._put_into(self.queue.waiting, run)
        return await self._in_session(taken, name, run, request, workflow)

    async def _put_into(self, queue: str, run: str) -> NoReturn:
        """The run is done later, from the beginning: it goes into this queue, and this execution of it ends."""
        from dbos import DBOS

        if not _is_cancelled(await _status(run)):
            await outside(DBOS.resume_workflow, run, queue_name=queue)
        raise asyncio.CancelledError

    # -- the session --------------------------------------------------------------------------------------------------

    async def _taken(self, name: str, status: WorkflowStatus) -> Taken | None:
        """The session for this run, and as it is now; None while somebody else has it, or an earlier run waits for it.

        It is taken once more than the session takes it: `store.release` gives that back.
        """
        if not await self.queue.is_first(name, status):
            return None
        try:
            now = await written(self.store.begin(name))
        except SessionBusyError:
            return None
        try:
            other = str((now.values.get("durable") if now is not None else None) or "")
            if other in ("", status.workflow_id) or not await _is_under_way(other):
                return self.agent.session_as_of(name, now), now
        except SessionBusyError:  # this process has it open, as a session of the agent
            pass
        except BaseException:
            self.store.release(name)
            raise
        self.store.release(name)
        return None

    async def _wait_for(self, name: str, status: WorkflowStatus) -> None:
        """Waits until the session is free for this run, however long somebody else has it."""
        loop = asyncio.get_running_loop()
        begun, told, seconds = loop.time(), False, FIRST_LOOK_SECONDS
        while (taken := await self._taken(name, status)) is None:
            if loop.time() - begun > TOLD_SECONDS and not told:
                told = True
                who = await asyncio.to_thread(self._holder_of, name)
                self.agent.warn(f'a durable run waits for session "{safe_line(name, 60)}", which {who} has')
            seconds = await self._until_freed(seconds)
            if _is_cancelled(await _status(status.workflow_id)):
                raise asyncio.CancelledError
        taken[0].give_back()
        self.store.release(name)

    async def _until_freed(self, seconds: float) -> float:
        """Waits so long, or until a run of this process has ended; gives how long to wait the next time."""
        self._freed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._freed.wait()
        except TimeoutError:
            return min(seconds * 1.5, LOOK_SECONDS)
        await asyncio.sleep(FIRST_LOOK_SECONDS)  # until the engine knows that it has ended, too
        return FIRST_LOOK_SECONDS

    def _holder_of(self, name: str) -> str:
        holder = self.store.read(name).info.holder
        return str(holder) if holder is not None else "another run"

    async def _in_session(self, taken: Taken, name: str, run: str, request: dict[str, Any], workflow: Workflow) -> str:
        from dbos import DBOS, error

        (session, now), store = taken, self.store

        async def begin() -> str:
            return written_json(_kept_to_json(now))

        try:
            begun = _kept_from_json(name, json.loads(await DBOS.run_step_async({"name": "begin"}, begin)))
            if not _is_ours(now, begun, run):
                text = f'session "{safe_line(name, 60)}" went on with something else after the worker of this run died'
                raise SessionStoreError(f"{text}; the run is given up, nothing that was said is lost")
            session.give_back()
            session = self.agent.session_as_of(name, begun)
            session.durable_run = run
            if now is not None and now.values.get("durable") == run:  # a worker died in it
                session.goes_on_from = str(now.values.get("trace") or "")
                workflow.made = session.take_over(now)
            if "answers" in request:
                answers = [CallAnswer.from_json(answer) for answer in request["answers"]]
                wanted = wanted_output(session.output_schema)
                given = partial(Given, usable_answers(answers), wanted)
                result = await session.result_of(given, before=lambda: workflow.reserve(session.open_calls))
            else:
                result = await session.run(
                    str(request["prompt"]), output_type=request.get("output"), limits=self._limits_of(request)
                )
            session.durable_run = ""
        except Exception:
            session.durable_run = ""
            raise
        except asyncio.CancelledError:
            if isinstance(workflow.ended, error.DBOSWorkflowCancelledError):
                session.durable_run = ""
            raise
        finally:  # who is cancelled otherwise leaves the session to whoever goes on
            session.give_back()
            store.release(name)
        return store.as_json(_result_to_json(result))

    def _limits_of(self, request: Mapping[str, Any]) -> Limits | None:
        """Those that were asked for, as far as the worker's own allow it; None: its own."""
        if not (asked := request.get("limits")):
            return None
        return Limits(**{kind: asked.get(kind) for kind in KINDS}).within(self.agent.options.limits.of_run())


async def _status(run: str) -> WorkflowStatus:
    from dbos import DBOS

    status = await outside(DBOS.get_workflow_status, run)
    if status is None:
        raise AgentStateError(f'run "{safe_line(run, 60)}" was deleted')
    return status


def _is_cancelled(status: WorkflowStatus) -> bool:
    return status.status == "CANCELLED" or bool((status.attributes or {}).get("cancelled"))


async def _recorded(run: str) -> dict[int, str]:
    """What the steps of a run gave so far."""
    from dbos import DBOS

    steps = await outside(DBOS.list_workflow_steps, run)
    return {step["function_id"]: step["output"] for step in steps if isinstance(step["output"], str)}


async def _is_under_way(run: str) -> bool:
    from dbos import DBOS

    status = await outside(DBOS.get_workflow_status, run)
    return status is not None and str(status.status) in ("ENQUEUED", "DELAYED", "PENDING")


def _is_ours(now: KeptSession | None, begun: KeptSession | None, run: str) -> bool:
    """Whether nobody but this run has written into the session since it began."""
    if now is not None and now.values.get("durable") == run:
        return True
    return bool(_kept_to_json(now) == _kept_to_json(begun))


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
    except (LimitError, OutputError):
        output = {"problems": [list(problem) for problem in result.problems]}
    return {
        **output,
        "answer": result.answer,
        "stop": result.stop,
        "spent": asdict(result.spent),
        "pending": [call.to_json() for call in result.pending],
    }
