"""One session with one MCP server, opened, kept and closed by a task of its own.

The SDK's scopes must be left in the task that entered them, and what goes wrong inside cancels that task. So the owner
task holds them, callers only await tasks, and whatever the SDK raises reaches them as a `ServerError`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import mcp_types as types
from mcp import Client, MCPError
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import CONNECTION_CLOSED, UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import RootModel

from mcpagent.config import ServerConfig
from mcpagent.errors import ServerError
from mcpagent.mcp.callbacks import callbacks
from mcpagent.mcp.failures import CallTimeoutError, EraError, InvalidAnswerError, LostError, Outcome, RefusedError
from mcpagent.mcp.framing import INVALID_ANSWER
from mcpagent.mcp.handlers import Handlers
from mcpagent.mcp.mending import mended
from mcpagent.mcp.redaction import Redactor
from mcpagent.mcp.remote import HTTP_FAILED, http_streams, outcome_of, sse_streams
from mcpagent.mcp.server_log import ServerLog, log_path
from mcpagent.mcp.stdio import ProcessEnd, StdioTransport
from mcpagent.safe_text import safe_line

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import TransportStreams

Era: TypeAlias = Literal["auto", "legacy"]
"""How to greet a server: by a `server/discover` probe first, or at once with `initialize`."""

Progress: TypeAlias = Callable[[float, float | None, str], None]
"""Told (progress, total, message) of one call."""

T = TypeVar("T")

for _name in ("mcp", "client"):
    # The SDK logs what we report as errors of our own, with tracebacks; unconfigured, logging would print them.
    logging.getLogger(_name).addHandler(logging.NullHandler())

NO_HANDLERS = Handlers()
MAX_INPUT_ROUNDS = 10
_STATE_ONLY_WAIT_SECONDS = 0.1
_PING_SECONDS = 2.0
_CLOSED_TEXTS = ("Connection closed", "SSE stream")
"""How the SDK words the closing error it makes; servers use the same code for errors of their own."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds one request may stay silent and may take at all."""

    idle: float
    total: float


class _RawResult(RootModel[dict[str, Any]]):
    """A result as it came: the SDK's models drop fields, and mending has seen to its shape."""


class McpConnection:
    """A connection to one server; used once, from `open` to `close`.

    `on_warning` is told each oddity of the server as a printable line, `on_change` each list-changed notification
    ("tools", "prompts", "resources").
    """

    def __init__(
        self,
        config: ServerConfig,
        *,
        era: Era = "auto",
        on_warning: Callable[[str], None],
        on_change: Callable[[str], None],
        environ: Mapping[str, str] | None = None,
        handlers: Handlers = NO_HANDLERS,
        auth: httpx2.Auth | None = None,
        log_folder: Path | None = None,
    ) -> None:
        self.config = config
        self._redact = Redactor(config)
        self._log_folder = log_folder
        self._handlers = handlers
        self._answered_methods = handlers.methods()
        self._auth = auth
        self.era: Era = era
        self._on_warning = on_warning
        self._on_change = on_change
        self._environ = os.environ if environ is None else environ
        self._client: Client | None = None
        self._stdio: StdioTransport | None = None
        self._owner: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] | None = None
        self._stop = asyncio.Event()
        self._closing = False
        self._jobs: set[asyncio.Task[Any]] = set()
        self._open_calls: set[asyncio.Task[Any]] = set()
        self._junk_lines = 0
        self._last_junk = ""
        self._check: asyncio.Task[None] | None = None

    # --- life ---

    async def open(self) -> None:
        """Connects. Raises `ServerError` at the latest after `connect_timeout_seconds`."""
        self._ready = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(), name=f"mcp-{self.config.name}")
        try:
            await asyncio.wait({self._ready}, timeout=self.config.connect_timeout_seconds)
        except asyncio.CancelledError:
            await self._abort()
            raise
        if self._ready.done():
            return self._ready.result()
        waited = self.config.connect_timeout_seconds
        tail = self._stderr()
        await self._abort()
        raise self._error(
            f"did not answer within {waited:g} s{_after_colon(tail)}; "
            'check its command or raise "connect_timeout_seconds"',
            "connect",
            tail,
        )

    async def close(self) -> None:
        """Ends the session and the process. Never raises, and returns within `shutdown_seconds` and a little."""
        if self._stdio is not None and not self.usable:
            self._stdio.patient = False
        self._closing = True
        if self._owner is None:
            return
        if self._client is None:
            await self._abort()
            return
        self._stop.set()
        await self._owner_ended(self.config.shutdown_seconds)

    async def _abort(self) -> None:
        self._closing = True
        if self._stdio is not None:
            self._stdio.patient = False
        if self._owner is not None:
            self._owner.cancel()
        await self._owner_ended(1.0)

    async def _owner_ended(self, seconds: float) -> None:
        assert self._owner is not None
        for job in self._jobs:
            job.cancel()
        await asyncio.wait({self._owner, *self._jobs}, timeout=seconds)
        if not self._owner.done():
            if self._stdio is not None:
                self._stdio.patient = False
            self._owner.cancel()
            await asyncio.wait({self._owner}, timeout=2.0)

    @property
    def usable(self) -> bool:
        return self._client is not None and not self._stop.is_set()

    @property
    def end_reason(self) -> str:
        """How the connection ended, for one that did."""
        return str(self._end() or "closed the connection") + _after_colon(self._stderr())

    @property
    def session(self) -> ClientSession:
        """The SDK's session. Raises `LostError` where there is none."""
        if self._client is None or not self.usable:
            raise self._lost("connect", "not_sent")
        return self._client.session

    @property
    def is_modern(self) -> bool:
        return self.session.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def _own(self) -> None:
        """The owner: tries each way to reach the server, then keeps the session until it is to stop or ends."""
        assert self._ready is not None
        failure: ServerError | None = None
        try:
            for way, era in self._ways():
                if failure is not None and not _worth_another_way(way, era, failure):
                    break
                self._stop = asyncio.Event()
                try:
                    await self._hold(way, era)
                    return
                except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  the SDK raises what it likes
                    if _is_cancelled() or self._closing or self._ready.done():
                        return
                    found = self._as_server_error(error)
                    failure = found if failure is None or way == "stdio" else failure
            if failure is not None and not self._ready.done():
                self._ready.set_exception(failure)
        finally:
            self._client = None
            self._stop.set()
            if not self._ready.done():
                self._ready.set_exception(self._error("was closed while it connected", "connect"))
            self._ready.exception()  # marks it as seen: whoever opened may be gone

    def _ways(self) -> list[tuple[str, Era]]:
        if self.config.command:
            ways: list[tuple[str, Era]] = [("stdio", "auto"), ("stdio", "legacy")]
            return ways if self.era == "auto" else ways[::-1]
        # Over HTTP the probe costs one short request, so it is always made.
        if self.config.transport == "auto":
            return [("http", "auto"), ("sse", "legacy")]
        return [("sse", "legacy")] if self.config.transport == "sse" else [("http", "auto")]

    async def _hold(self, way: str, era: Era) -> None:
        client = Client(
            mended(self._transport(way), self),
            mode=era,
            cache=None,
            client_info=types.Implementation(name="mcpagent", version=_version()),
            **callbacks(self.config.name, self._handlers),
        )
        async with client:
            self.era = "legacy" if client.session.initialize_result is not None else "auto"
            self._client = client
            assert self._ready is not None
            if not self._ready.done():
                self._ready.set_result(None)
            if self.is_modern:
                self._start(self._listen(client))
            await self._stop.wait()

    async def _listen(self, client: Client) -> None:
        """Asks a server of the 2026 era to tell of changed lists; the earlier era tells unasked."""
        can = client.server_capabilities
        tools = bool(can.tools and can.tools.list_changed)
        prompts = bool(can.prompts and can.prompts.list_changed)
        resources = bool(can.resources and can.resources.list_changed)
        if not (tools or prompts or resources):
            return
        listening = client.listen(
            tools_list_changed=tools, prompts_list_changed=prompts, resources_list_changed=resources
        )
        with contextlib.suppress(MCPError, SubscriptionLost, TimeoutError, RuntimeError):
            async with listening as subscription:
                async for _ in subscription:
                    pass  # the wire has told of the change as it passed

    def _transport(self, way: str) -> AbstractAsyncContextManager[TransportStreams]:
        if way == "http":
            return http_streams(self.config, auth=self._auth)
        if way == "sse":
            return sse_streams(self.config, auth=self._auth)
        log = (
            None if self._log_folder is None else ServerLog(log_path(self._log_folder, self.config.name), self._redact)
        )
        self._stdio = StdioTransport(self.config, self.junk, self._environ, log)
        return self._stdio

    # --- what the wire tells (mending.Observer) ---

    def warn(self, text: str) -> None:
        self._on_warning(self._redact(text))

    def junk(self, text: str) -> None:
        self._junk_lines += 1
        self._last_junk = self._redact(text)
        if self._junk_lines == 1:
            self.warn(f"writes to stdout what is not MCP, first: {text}")

    def answers(self, method: str) -> bool:
        return method in self._answered_methods

    def changed(self, what: str) -> None:
        self._on_change(what)

    def ended(self) -> None:
        self._stop.set()

    # --- requests ---

    async def request(
        self,
        request: types.Request[Any, Any],
        *,
        limits: Limits,
        target: str = "",
        on_progress: Progress | None = None,
    ) -> dict[str, Any]:
        """Sends one request and gives its raw result.

        Raises `RefusedError` (the server's own error), `CallTimeoutError`, or `LostError`; cancelling it tells the
        server.
        """
        phase = f'{request.method} "{safe_line(target, 60)}"' if target else str(request.method)
        session = self.session

        async def send(progress: ProgressFnT) -> dict[str, Any]:
            result = (await session.send_request(request, _RawResult, progress_callback=progress)).root
            for _ in range(MAX_INPUT_ROUNDS):
                if result.get("resultType") != "input_required":
                    return result
                again = await self._with_input(session, request, result)
                result = (await session.send_request(again, _RawResult, progress_callback=progress)).root
            raise MCPError(code=INVALID_ANSWER, message=f"asks for input more than {MAX_INPUT_ROUNDS} times")

        return await self._run(send, phase, limits, on_progress)

    async def _with_input(
        self, session: ClientSession, request: types.Request[Any, Any], result: dict[str, Any]
    ) -> types.Request[Any, Any]:
        """The request again, with answers to what the server wants to know first (2026-07-28, multi round-trip)."""
        wanted = types.InputRequiredResult.model_validate(result, by_name=False)
        responses: dict[str, types.InputResponse] = {}
        for key, question in (wanted.input_requests or {}).items():
            if not self.answers(question.method):
                code, text = types.METHOD_NOT_FOUND, f"it wants {question.method}, which is not allowed"
                raise MCPError(code=code, message=text)
            context = ClientRequestContext(session=session, request_id=key)
            answer = await session.dispatch_input_request(context, question)
            if isinstance(answer, types.ErrorData):
                raise MCPError.from_error_data(answer)
            responses[key] = answer
        if not responses:
            await asyncio.sleep(_STATE_ONLY_WAIT_SECONDS)
        params = request.params.model_copy(
            update={"input_responses": responses or None, "request_state": wanted.request_state}
        )
        return request.model_copy(update={"params": params})

    async def list_tools_page(self, cursor: str | None, limits: Limits) -> types.ListToolsResult:
        """One page of `tools/list`, through the SDK so that it learns what it needs for later calls."""
        session = self.session
        params = types.PaginatedRequestParams(cursor=cursor) if cursor is not None else None

        async def send(_: object) -> types.ListToolsResult:
            return await session.list_tools(params=params)

        return await self._run(send, "tools/list", limits, None)

    async def _run(
        self,
        send: Callable[[Any], Awaitable[T]],
        phase: str,
        limits: Limits,
        on_progress: Progress | None,
    ) -> T:
        if self._check is not None:
            await asyncio.wait({self._check})
            if not self.usable:
                raise self._lost(phase, "not_sent")
        self._last_junk = ""
        job = self._start(_limited(send, limits, on_progress))
        self._open_calls.add(job)
        job.add_done_callback(self._open_calls.discard)
        try:
            await asyncio.wait({job})
        except asyncio.CancelledError:
            job.cancel()
            raise
        if job.cancelled():
            raise self._lost(phase, "unknown")
        error = job.exception()
        if error is None:
            return job.result()
        if isinstance(error, TimeoutError):
            if not self._open_calls - {job}:
                self._check = self._start(self._check_alive())
            raise CallTimeoutError(self._timeout_text(phase, limits, error)) from None
        raise self._explained(error, phase) from None

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        job = asyncio.create_task(work, name=f"mcp-call-{self.config.name}")
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return job

    async def _check_alive(self) -> None:
        """After a call went unanswered: a server that does not answer a ping either is given up."""
        try:
            session = self.session
            async with asyncio.timeout(_PING_SECONDS):
                if self.is_modern:
                    await session.send_discover(str(session.protocol_version))
                else:
                    await session.send_ping()
        except MCPError as error:
            if error.code not in (CONNECTION_CLOSED, HTTP_FAILED):
                return
            self._stop.set()
        except TimeoutError:
            self._on_warning("does not answer a ping either; it is started anew for the next call")
            if self._stdio is not None:
                self._stdio.patient = False
            self._stop.set()
        except ServerError:
            pass

    # --- errors ---

    def _timeout_text(self, phase: str, limits: Limits, error: TimeoutError) -> str:
        name = self.config.name
        if str(error) == "total":
            what, key = f"did not finish {phase} within {limits.total:g} s", "total_timeout_seconds"
        else:
            what, key = f"was silent for {limits.idle:g} s during {phase}", "timeout_seconds"
        heard = f"; it wrote: {self._last_junk}" if self._last_junk else ""
        return f'server "{name}" {what}{heard}; the call may have run; raise "{key}" if it needs longer'

    def _explained(self, error: BaseException, phase: str) -> Exception:
        error = _root_cause(error)
        if isinstance(error, ServerError | RefusedError):
            return error
        if not isinstance(error, MCPError):
            if self._end() is not None or isinstance(error, asyncio.CancelledError):
                return self._lost(phase, "unknown")
            return self._error(f"failed during {phase}: {safe_line(str(error) or type(error).__name__)}", phase)
        if error.code == CONNECTION_CLOSED and (not self.usable or error.message.startswith(_CLOSED_TEXTS)):
            return self._lost(phase, "unknown")
        if error.code == HTTP_FAILED:
            return self._http_failed(error, phase)
        if error.code == INVALID_ANSWER:
            what = f'server "{self.config.name}" sent an invalid answer to {phase}: {safe_line(error.message)}'
            return InvalidAnswerError(self._redact(what), server=self.config.name, phase=phase)
        if self._client is None:
            kind = EraError if error.code == UNSUPPORTED_PROTOCOL_VERSION else ServerError
            what = f'server "{self.config.name}" refused {phase}: {safe_line(error.message)}'
            return kind(self._redact(what), server=self.config.name, phase=phase)
        return RefusedError(error.code, error.message, error.error.data)

    def _http_failed(self, error: MCPError, phase: str) -> ServerError:
        data = error.error.data if isinstance(error.error.data, Mapping) else {}
        lost = LostError(
            self._redact(f'server "{self.config.name}" {safe_line(error.message, 400)} during {phase}'),
            server=self.config.name,
            phase=phase,
        )
        lost.outcome = outcome_of(data)
        lost.session_lost = bool(data.get("session_lost"))
        lost.http_status = data.get("status")
        return lost

    def _lost(self, phase: str, outcome: Outcome) -> LostError:
        """The connection's end as an error: how the process ended and what it said last, where it is one."""
        end, tail = self._end(), self._stderr()
        what = str(end) if end is not None else "closed the connection"
        error = LostError(
            f'server "{self.config.name}" {what} during {phase}{_after_colon(tail)}',
            server=self.config.name,
            phase=phase,
            exit_code=None if end is None else end.code,
            stderr_tail=tail,
        )
        error.outcome = outcome
        return error

    def _error(self, what: str, phase: str, tail: tuple[str, ...] = ()) -> ServerError:
        name = self.config.name
        return ServerError(self._redact(f'server "{name}" {what}'), server=name, phase=phase, stderr_tail=tail)

    def _as_server_error(self, error: BaseException) -> ServerError:
        explained = self._explained(error, "initialize")
        if isinstance(explained, ServerError):
            return explained
        return self._error(f"failed during initialize: {safe_line(str(explained))}", "initialize")

    def _end(self) -> ProcessEnd | None:
        return None if self._stdio is None else self._stdio.died

    def _stderr(self) -> tuple[str, ...]:
        return () if self._stdio is None else self._stdio.stderr_lines()


async def _limited(send: Callable[[Any], Awaitable[T]], limits: Limits, on_progress: Progress | None) -> T:
    """Runs one request within its limits; progress starts the silence anew, never the total. Raises `TimeoutError`."""
    loop = asyncio.get_running_loop()
    end = loop.time() + limits.total
    try:
        async with asyncio.timeout(min(limits.idle, limits.total)) as limit:

            async def progress(done: float, total: float | None, message: str | None) -> None:
                if not limit.expired():
                    limit.reschedule(min(end, loop.time() + limits.idle))
                if on_progress is not None:
                    on_progress(done, total, message or "")

            return await send(progress)
    except TimeoutError:
        raise TimeoutError("total" if loop.time() >= end else "idle") from None


def _worth_another_way(way: str, era: Era, failure: ServerError) -> bool:
    """Whether the way now at hand may mend the failure of the one before it.

    A process may have died of the probe; a server may have changed its era; a URL may speak the older SSE.
    """
    if way == "stdio":
        return failure.exit_code is not None if era == "legacy" else isinstance(failure, EraError)
    return isinstance(failure, LostError) and failure.http_status in (200, 400, 404, 405, 406, 410, 415, 501)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _root_cause(error: BaseException) -> BaseException:
    """The most telling exception of a group: our own, then the SDK's, then whatever came first."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    causes = [_root_cause(part) for part in error.exceptions]
    for kind in (ServerError, MCPError, Exception):
        for cause in causes:
            if isinstance(cause, kind):
                return cause
    return causes[0]


def _after_colon(tail: tuple[str, ...]) -> str:
    return f": {tail[-1]}" if tail else ""


@cache
def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("mcpagent")
    except PackageNotFoundError:
        return "0"
