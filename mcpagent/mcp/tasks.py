"""Calls that a server runs as tasks: started by one request, polled until they end, then their result is fetched.

There are two protocols. In 2025-11-25, the client requests a task, if the tool's `execution.taskSupport` allows it, and
fetches the result by `tasks/result`. In 2026-07-28, it is the extension `io.modelcontextprotocol/tasks` (SEP-2663): the
server decides, and `tasks/get` returns result and questions. The SDK has the types of the former and implements
neither.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import mcp_types as types
from mcp import ClientSession, MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpagent.mcp.callbacks import answers_to
from mcpagent.mcp.outcomes import request_key
from mcpagent.mcp.pending_requests import RawResult
from mcpagent.mcp.request_failures import TaskError, failure_of
from mcpagent.mcp.sdk import ProgressFnT, as_request_id
from mcpagent.mcp.transports.bytes_to_messages import INVALID_ANSWER
from mcpagent.mcp.transports.open_requests import number
from mcpagent.mcp.transports.result_repairs import repair_result
from mcpagent.utilities.text.safe_text import safe_line

Raw: TypeAlias = dict[str, Any]

EXTENSION = "io.modelcontextprotocol/tasks"
NEWS = frozenset(
    {"notifications/tasks/status", "notifications/tasks", "notifications/progress"}
)
"""Methods of notifications about a task."""

STATUSES = frozenset({"working", "input_required", "completed", "failed", "cancelled"})
ENDED = frozenset({"completed", "failed", "cancelled"})

POLL_SECONDS = 1.0
"""Default polling interval, if the server sets none."""
LEAST_POLL_SECONDS = 0.05
MOST_POLL_SECONDS = 15.0
GRACE_SECONDS = 5.0
"""How long polling continues after the time for which the server retains a task."""
MOST_FAILED_POLLS = 3
CANCEL_SECONDS = 2.0
_EARLY_NEWS = 32

HANDLE = "mcpagent/task"
"""The key under which a result has a task's handle instead of content (see `marked`)."""


def marked(result: Raw, request_id: types.RequestId) -> Raw | None:
    """Return a `tools/call` answer that is a task's handle in the form of a result for the SDK; None if it is a
    result.
    """
    nested, is_extension = result.get("task"), result.get("resultType") == "task"
    if not is_extension and (
        not isinstance(nested, dict)
        or "content" in result
        or "structuredContent" in result
    ):
        return None
    handle = {
        "task": result if is_extension else nested,
        "is_extension": is_extension,
        "token": request_id,
    }
    return {"content": [], "resultType": "complete", HANDLE: handle}


def as_task(
    request: types.CallToolRequest, keep_seconds: float
) -> types.CallToolRequest:
    """Return the call as a task whose result the server keeps for `keep_seconds`."""
    task = types.TaskMetadata(ttl=int(keep_seconds * 1000))
    return request.model_copy(
        update={"params": request.params.model_copy(update={"task": task})}
    )


@dataclass(frozen=True, slots=True)
class TaskState:
    """A state of a task, from a handle, a response or a notification. `ttl_seconds` None: the task does not expire."""

    id: str
    status: str
    message: str
    updated: str
    ttl_seconds: float | None
    poll_seconds: float
    raw: Raw

    @classmethod
    def read(cls, raw: Raw) -> TaskState:
        """Read a state from the server's data. Raises `MCPError` if the data is invalid."""
        task_id, status = raw.get("taskId"), raw.get("status")
        if not isinstance(task_id, str) or not task_id or not isinstance(status, str):
            raise MCPError(
                code=INVALID_ANSWER,
                message="it begins a task and gives no id or no status of it",
            )
        if status not in STATUSES:
            text = f'its task has the status "{safe_line(status, 60)}", which the protocol does not know'
            raise MCPError(code=INVALID_ANSWER, message=text)
        poll = _seconds(raw, "pollIntervalMs", "pollInterval")
        return cls(
            task_id,
            status,
            message=str(raw.get("statusMessage") or ""),
            updated=str(raw.get("lastUpdatedAt") or ""),
            ttl_seconds=_seconds(raw, "ttlMs", "ttl"),
            poll_seconds=min(
                max(poll or POLL_SECONDS, LEAST_POLL_SECONDS), MOST_POLL_SECONDS
            ),
            raw=raw,
        )

    @property
    def look(self) -> tuple[str, str, str]:
        """The fields whose change is a change of the task."""
        return self.status, self.message, self.updated


@dataclass(frozen=True, slots=True)
class TaskServer:
    """The server that runs a task: its name and `session`, and the handlers for its questions.

    `allowed` are the methods of the requests that it may send.
    """

    name: str
    session: ClientSession
    allowed: frozenset[str]
    most_poll_seconds: float
    warn: Callable[[str], None]

    @property
    def version(self) -> str:
        """The negotiated protocol version."""
        return str(self.session.protocol_version)

    async def ask(self, request: types.Request[Any, Any]) -> Raw:
        """Send a request about the task, and return the raw result. Raises `MCPError`."""
        return (await self.session.send_request(request, RawResult)).root

    async def answer(self, questions: Raw) -> types.InputResponses:
        """Return the answers to `inputRequests`. Raises `MCPError` if one of them is not allowed."""
        wanted = {"resultType": "input_required", "inputRequests": questions}
        found = types.InputRequiredResult.model_validate(wanted, by_name=False)
        return await answers_to(self.session, found, self.allowed)


def takes_tasks(session: ClientSession) -> bool:
    """Return whether tool calls may be requested as tasks in the 2025-11-25 protocol; in the later one, the server
    decides.
    """
    can = session.server_capabilities
    if can and can.tasks:
        requests = can.tasks.requests
    else:
        requests = None
    is_modern = session.protocol_version in MODERN_PROTOCOL_VERSIONS
    return (
        not is_modern
        and requests is not None
        and bool(requests.tools and requests.tools.call)
    )


class FollowedTask:
    """A task from its handle to its result; `heard` receives each change and progress report.

    `is_over`: the task has ended, or its result has arrived.
    """

    def __init__(
        self, result: Raw, tool: str, peer: TaskServer, heard: ProgressFnT
    ) -> None:
        handle = result[HANDLE]
        self.token: types.RequestId = request_key(handle["token"])
        self._is_extension: bool = handle["is_extension"]
        self._task = TaskState.read(handle["task"])
        self._tool = safe_line(tool, 60)
        self._peer = peer
        self._heard = heard
        self._steps = 0.0
        self._begun = asyncio.get_running_loop().time()
        self._news = asyncio.Event()
        self._answered: set[str] = set()
        self._fetching: asyncio.Task[Raw] | None = None
        self.is_over = False

    async def hear(self, method: str, params: Mapping[str, Any]) -> bool:
        """Return whether a notification is about this task. Its content is ignored; it only triggers an immediate
        poll.
        """
        if method != "notifications/progress":
            is_mine = params.get("taskId") == self._task.id
            if is_mine:
                self._news.set()
            return is_mine
        token = as_request_id(params.get("progressToken"))
        if token is None or request_key(token) != self.token:
            return False
        if (done := number(params.get("progress"))) is not None:
            self._steps = done
            await self._heard(
                done, number(params.get("total")), str(params.get("message") or "")
            )
        return True

    async def result(self) -> Raw:
        """Return the call's result, repaired. Raises `TaskError`, or `MCPError` like an ordinary call."""
        try:
            if self._is_extension and self._task.status in ENDED:
                await (
                    self._ask_after()
                )  # the handle shows that the task has ended, but has no result
            while self._task.status not in ENDED:
                self._check_age()
                if self._task.status == "input_required":
                    await self._give_input()
                await self._wait()
                if self._fetching is not None and self._fetching.done():
                    self.is_over = True
                    return self._repaired(await self._fetching)
                await self._ask_after()
            self.is_over = True
            return await self._ended()
        finally:
            if self._fetching is not None:
                self._fetching.cancel()
                await asyncio.gather(self._fetching, return_exceptions=True)

    async def cancel(self) -> None:
        """Cancel the task at the server, if it supports that. Never raises, and ends within `CANCEL_SECONDS`."""
        can = self._peer.session.server_capabilities
        if self._peer.version in MODERN_PROTOCOL_VERSIONS or (
            can and can.tasks and can.tasks.cancel
        ):
            with contextlib.suppress(MCPError, TimeoutError):
                async with asyncio.timeout(CANCEL_SECONDS):
                    await self._peer.ask(
                        _Cancel(
                            params=types.CancelTaskRequestParams(task_id=self._task.id)
                        )
                    )

    async def _wait(self) -> None:
        """Wait until it is time to poll again, a notification arrives, or the result arrives."""
        news = asyncio.create_task(self._news.wait())
        awaited: set[asyncio.Task[Any]] = (
            {news} if self._fetching is None else {news, self._fetching}
        )
        seconds = min(self._task.poll_seconds, self._peer.most_poll_seconds)
        try:
            await asyncio.sleep(
                LEAST_POLL_SECONDS
            )  # a minimum pause, even with many notifications
            await asyncio.wait(
                awaited,
                timeout=max(seconds - LEAST_POLL_SECONDS, 0.0),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            news.cancel()
            self._news.clear()

    async def _ask_after(self) -> None:
        """Fetch the current state of the task. A failed poll is repeated, because polling changes nothing."""
        for attempt in range(1, MOST_FAILED_POLLS + 1):
            try:
                raw = await self._peer.ask(
                    _Get(params=types.GetTaskRequestParams(task_id=self._task.id))
                )
                break
            except MCPError as error:
                if failure_of(error.error) is None:
                    if error.code in (types.CONNECTION_CLOSED, INVALID_ANSWER):
                        raise
                    raise self._error(
                        f"no longer knows the task: {error.message}"
                    ) from None
                if attempt == MOST_FAILED_POLLS:
                    raise self._error(
                        f"cannot be asked after the task: {error.message}"
                    ) from None
                await asyncio.sleep(self._task.poll_seconds)
        before, task = self._task, TaskState.read(raw)
        if task.id != before.id:
            raise MCPError(
                code=INVALID_ANSWER,
                message="asked after one task, it answers about another",
            )
        self._task = task
        if task.look != before.look and task.status not in ENDED:
            self._steps += 1
            await self._heard(
                self._steps,
                None,
                self._task.message or self._task.status.replace("_", " "),
            )

    def _check_age(self) -> None:
        ttl = self._task.ttl_seconds
        if (
            ttl
            and asyncio.get_running_loop().time() - self._begun > ttl + GRACE_SECONDS
        ):
            raise self._error(
                f"keeps the task for {ttl:g} s only, and it has not ended"
            )

    async def _give_input(self) -> None:
        """Answer the server's questions for the task. In the earlier protocol, it asks while its result is awaited."""
        if not self._is_extension:
            if not self._peer.allowed:
                raise self._error(
                    "wants input, and nothing that a server may ask is allowed here"
                )
            if self._fetching is None:
                self._fetching = asyncio.create_task(
                    self._fetch(), name="mcp-task-result"
                )
            return
        asked = self._task.raw.get("inputRequests")
        questions = {}
        if isinstance(asked, dict):
            questions = asked
        if fresh := {
            key: value for key, value in questions.items() if key not in self._answered
        }:
            self._answered.update(fresh)
            responses = await self._peer.answer(fresh)
            params = _UpdateParams(task_id=self._task.id, input_responses=responses)
            await self._peer.ask(_Update(params=params))

    async def _ended(self) -> Raw:
        task = self._task
        if task.status == "cancelled":
            raise self._error(
                "cancelled the task" + (f": {task.message}" if task.message else "")
            )
        if not self._is_extension:
            result = self._repaired(await (self._fetching or self._fetch()))
            if task.status == "failed":
                return result | {"isError": True}
            return result
        if task.status == "failed":
            error = task.raw.get("error")
            words = ""
            if isinstance(error, dict):
                words = str(error.get("message") or "")
            raise self._error(
                f"failed: {words or task.message or 'it gives no reason'}",
                may_have_run=False,
            )
        inlined = task.raw.get("result")
        if not isinstance(inlined, dict):
            raise MCPError(
                code=INVALID_ANSWER, message="its task is completed and has no result"
            )
        return self._repaired(inlined)

    async def _fetch(self) -> Raw:
        return await self._peer.ask(
            _Result(params=types.GetTaskPayloadRequestParams(task_id=self._task.id))
        )

    def _repaired(self, raw: Raw) -> Raw:
        result, changes = repair_result("tools/call", self._peer.version, raw)
        for change in changes:
            self._peer.warn(f"the task of {self._tool}: {change}")
        if isinstance(result, str):
            raise MCPError(code=INVALID_ANSWER, message=result)
        return result

    def _error(self, what: str, *, may_have_run: bool = True) -> TaskError:
        text = f'server "{self._peer.name}", tools/call "{self._tool}" as a task: it {safe_line(what, 400)}'
        end = ""
        if may_have_run:
            end = "; the call may have run: check before you repeat it"
        return TaskError(text + end, server=self._peer.name, phase="tasks/get")


class FollowedTasks:
    """All tasks in progress on one connection."""

    def __init__(self) -> None:
        self._open: set[FollowedTask] = set()
        self._early: deque[tuple[str, Mapping[str, Any]]] = deque(maxlen=_EARLY_NEWS)
        """Notifications that may have arrived before the handle of their task."""
        self._cancelling: set[asyncio.Task[None]] = set()

    async def hear(self, method: str, params: Mapping[str, Any]) -> bool:
        """Return whether a notification (`NEWS`) is about one of the known tasks."""
        is_heard = any([await task.hear(method, params) for task in tuple(self._open)])
        if not is_heard:
            self._early.append((method, params))
        return is_heard

    async def result(
        self, handle: Raw, tool: str, peer: TaskServer, heard: ProgressFnT
    ) -> Raw:
        """Wait for the result of the task with this handle. Raises the errors of `FollowedTask.result`.

        If waiting ends before the task does, for instance by cancellation, a background request asks the server to
        cancel the task.
        """
        task = FollowedTask(handle, tool, peer, heard)
        self._open.add(task)
        try:
            for news in tuple(self._early):
                await task.hear(*news)
            return await task.result()
        finally:
            self._open.discard(task)
            if not task.is_over:
                cancelling = asyncio.create_task(
                    task.cancel(), name=f"mcp-cancel-{peer.name}"
                )
                self._cancelling.add(cancelling)
                cancelling.add_done_callback(self._cancelling.discard)

    async def close(self) -> None:
        """Wait until pending cancellations were sent to the server, for `CANCEL_SECONDS` at most."""
        if self._cancelling:
            await asyncio.gather(*self._cancelling, return_exceptions=True)


class _Get(types.GetTaskRequest):
    name_param = "taskId"


class _Result(types.GetTaskPayloadRequest):
    name_param = "taskId"


class _Cancel(types.CancelTaskRequest):
    name_param = "taskId"


class _UpdateParams(types.RequestParams):
    task_id: str
    input_responses: types.InputResponses


class _Update(types.Request[_UpdateParams, Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"
    params: _UpdateParams
    name_param = "taskId"


def _seconds(raw: Raw, *keys: str) -> float | None:
    """Return the first of these keys that is present, converted from milliseconds to seconds; None if it is not a
    positive number.
    """
    value = number(next((raw[key] for key in keys if key in raw), None))
    if value is not None and value > 0:
        return value / 1000
    return None
