"""One session with one MCP server, opened, kept and closed by a task of its own.

The SDK's scopes must be left in the task that entered them, and what goes wrong inside cancels that task. So the owner
task holds them, callers only await tasks, and whatever the SDK raises reaches them as a `ServerError`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import mcp_types as types
from mcp import Client, MCPError
from mcp.client.extension import advertise
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import CONNECTION_CLOSED, RequestId
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import RootModel

from mcpagent.config import Era, ServerConfig
from mcpagent.errors import ServerError
from mcpagent.mcp.callbacks import callbacks
from mcpagent.mcp.clock import Clocks, OutOfTimeError
from mcpagent.mcp.explaining import Explainer, after_colon, is_end_of_session
from mcpagent.mcp.failed_requests import failure_of
from mcpagent.mcp.failures import CallTimeoutError, EraError, Limits, LostError, Outcome, RefusedError
from mcpagent.mcp.framing import INVALID_ANSWER
from mcpagent.mcp.handlers import Handlers
from mcpagent.mcp.redaction import Redactor
from mcpagent.mcp.remote import http_streams
from mcpagent.mcp.server_log import ServerLog
from mcpagent.mcp.sse import sse_streams
from mcpagent.mcp.stdio import StdioTransport
from mcpagent.mcp.tasks import EXTENSION, HANDLE, FollowedTask, Peer, as_task
from mcpagent.mcp.wire import mended
from mcpagent.safe_text import safe_line

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import TransportStreams

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
_EARLY_NEWS = 32


class Listener(Protocol):
    """Who is told what a server says unasked. All text is redacted."""

    def warn(self, text: str) -> None:
        """An oddity of the server."""

    def list_changed(self, what: str) -> None:
        """One of its lists is no longer what it was: "tools", "prompts" or "resources"."""

    def resource_updated(self, uri: str) -> None:
        """A resource is no longer what it was."""

    def logged(self, level: str, text: str) -> None:
        """A message about its own work; `level` is the server's word."""


class _RawResult(RootModel[dict[str, Any]]):
    """A result as it came: the SDK's models drop fields, and mending has seen to its shape."""


class McpConnection:
    """A connection to one server; used once, from `open` to `close`.

    `handlers` say what the server may ask of us, `auth` signs in to a remote one, `log` keeps what it writes.
    """

    def __init__(
        self,
        config: ServerConfig,
        listener: Listener,
        *,
        era: Era = "auto",
        environ: Mapping[str, str] | None = None,
        handlers: Handlers = NO_HANDLERS,
        auth: httpx2.Auth | None = None,
        log: ServerLog | None = None,
    ) -> None:
        self.config = config
        self.era: Era = era
        self._listener = listener
        self._redact = Redactor(config)
        self._explain = Explainer(config.name, self._redact)
        self._log = log
        self._handlers = handlers
        self._answered_methods = handlers.methods()
        self._auth = auth
        self._environ = os.environ if environ is None else environ
        self._client: Client | None = None
        self._stdio: StdioTransport | None = None
        self._owner: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] | None = None
        self._stop = asyncio.Event()
        self._closing = False
        self._jobs: set[asyncio.Task[Any]] = set()
        self._open_calls: dict[asyncio.Task[Any], RequestId | None] = {}
        """Each with the id of what it sent last; None before that."""
        self._large: dict[asyncio.Task[Any], dict[str, Any] | None] = {}
        """Requests whose result is taken as it comes, and those of them that were too large for the SDK."""
        self._has_junk = False
        self._check: asyncio.Task[None] | None = None
        self._clocks = Clocks()
        self._subscribed: dict[str, None] = {}
        self._listening: asyncio.Task[None] | None = None
        self._followed: set[FollowedTask] = set()
        self._early_news: deque[tuple[str, Mapping[str, Any]]] = deque(maxlen=_EARLY_NEWS)

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
        tail = self._explain.last_words
        await self._abort()
        raise self._explain.error(
            f"did not answer within {waited:g} s{after_colon(tail)}{self._explain.heard}; "
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
        return self._explain.end_reason

    @property
    def spawn_seconds(self) -> float:
        """What starting the process took; 0.0 where there is none."""
        return 0.0 if self._stdio is None else self._stdio.spawn_seconds

    @property
    def session(self) -> ClientSession:
        """The SDK's session. Raises `LostError` where there is none."""
        if self._client is None or not self.usable:
            raise self._explain.lost("connect", "not_sent")
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
            if self._log is not None:
                self._log.close()
            if not self._ready.done():
                self._ready.set_exception(self._explain.error("was closed while it connected", "connect"))
            self._ready.exception()  # marks it as seen: whoever opened may be gone

    def _ways(self) -> list[tuple[str, Era]]:
        if self.config.command:
            ways: list[tuple[str, Era]] = [("stdio", "auto"), ("stdio", "legacy")]
            return ways if self.era == "auto" else ways[::-1]
        # Over HTTP the probe costs one short request, so it is made unless the configuration says otherwise.
        http: tuple[str, Era] = ("http", self.config.era)
        sse: tuple[str, Era] = ("sse", "legacy")
        return {"auto": [http, sse], "sse": [sse]}.get(self.config.transport, [http])

    async def _hold(self, way: str, era: Era) -> None:
        client = Client(
            mended(self._transport(way), self),
            mode=era,
            cache=None,
            client_info=types.Implementation(name="mcpagent", version=_version()),
            log_level=self.config.log_level,
            extensions=[advertise(EXTENSION)],
            **callbacks(self.config.name, self._handlers, self._redact, self._clocks.paused),
        )
        async with client:
            self.era = "legacy" if client.session.initialize_result is not None else "auto"
            self._client = client
            assert self._ready is not None
            if not self._ready.done():
                self._ready.set_result(None)
            self._start(self._settle_in(client))
            await self._stop.wait()

    async def _settle_in(self, client: Client) -> None:
        """What a server is told once it is connected; one that refuses is used all the same."""
        if self.is_modern:
            self._listen_anew()
        elif (level := self.config.log_level) is not None and client.server_capabilities.logging:
            params = types.SetLevelRequestParams(level=level)
            try:
                await self.request(types.SetLevelRequest(params=params), limits=self._connect_limits())
            except (RefusedError, CallTimeoutError, ServerError) as error:
                self.warn(f"does not take the log level: {safe_line(str(error))}")

    def _listen_anew(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
        assert self._client is not None
        self._listening = self._start(self._listen(self._client))

    async def _listen(self, client: Client) -> None:
        """Asks a server of the 2026 era to tell of changes; one of the earlier era tells of its lists unasked."""
        can = client.server_capabilities
        wanted = {
            "tools_list_changed": bool(can.tools and can.tools.list_changed),
            "prompts_list_changed": bool(can.prompts and can.prompts.list_changed),
            "resources_list_changed": bool(can.resources and can.resources.list_changed),
        }
        if not any(wanted.values()) and not self._subscribed:
            return
        listening = client.listen(**wanted, resource_subscriptions=tuple(self._subscribed))
        with contextlib.suppress(MCPError, SubscriptionLost, TimeoutError, RuntimeError):
            async with listening as subscription:
                async for _ in subscription:
                    pass  # the wire has told of the change as it passed

    def _transport(self, way: str) -> AbstractAsyncContextManager[TransportStreams]:
        if way == "http":
            return http_streams(self.config, auth=self._auth)
        if way == "sse":
            return sse_streams(self.config, auth=self._auth)
        self._stdio = StdioTransport(self.config, self.junk, self._environ, self._log)
        self._explain.stdio = self._stdio
        return self._stdio

    # --- what the wire tells (wire.Observer) ---

    def warn(self, text: str) -> None:
        self._listener.warn(self._redact(text))

    def junk(self, text: str) -> None:
        self._explain.last_junk = self._redact(text)
        if not self._has_junk:
            self._has_junk = True
            self.warn(f"writes to stdout what is not MCP, first: {text}")

    def answers(self, method: str) -> bool:
        return method in self._answered_methods

    def list_changed(self, what: str) -> None:
        self._listener.list_changed(what)

    def resource_updated(self, uri: str) -> None:
        self._listener.resource_updated(self._redact(uri))

    def logged(self, level: str, text: str) -> None:
        text = self._redact(text)
        if self._log is not None:
            self._log.note(f"[{level}] {text}")
        self._listener.logged(level, text)

    async def heard_of_task(self, method: str, params: Mapping[str, Any]) -> bool:
        is_heard = any([await task.hear(method, params) for task in tuple(self._followed)])
        if not is_heard:
            self._early_news.append((method, params))  # it may be of a task whose handle is still on its way to us
        return is_heard

    def takes(self, request_id: RequestId, result: dict[str, Any]) -> bool:
        job = next((job for job, sent_id in self._open_calls.items() if sent_id == request_id), None)
        if job not in self._large:
            return False
        self._large[job] = result
        return True

    def sent(self, request_id: RequestId) -> None:
        if (job := asyncio.current_task()) in self._open_calls:
            self._open_calls[job] = request_id

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
        may_be_task: bool = False,
        is_vital: bool = True,
    ) -> dict[str, Any]:
        """Sends one request and gives its raw result.

        A tool call that `may_be_task` is asked for as a task where the server takes them. Where no answer comes to one
        that `is_vital`, it is seen whether the server still lives. Raises `RefusedError` (the server's own error),
        `CallTimeoutError`, `TaskError`, or `LostError`; cancelling it tells the server.
        """
        phase = f'{request.method} "{safe_line(target, 60)}"' if target else str(request.method)
        session = self.session
        if may_be_task and isinstance(request, types.CallToolRequest) and self._takes_tasks():
            request = as_task(request, limits.total)

        async def send(progress: ProgressFnT) -> dict[str, Any]:
            result = await self._raw(session, request, progress)
            for _ in range(MAX_INPUT_ROUNDS):
                if HANDLE in result:
                    return await self._result_of_task(session, result, target, limits, progress)
                if result.get("resultType") != "input_required":
                    return result
                again = await self._with_input(session, request, result)
                result = await self._raw(session, again, progress)
            raise MCPError(code=INVALID_ANSWER, message=f"asks for input more than {MAX_INPUT_ROUNDS} times")

        return await self._run(send, phase, limits, on_progress, is_vital=is_vital)

    async def _raw(
        self, session: ClientSession, request: types.Request[Any, Any], progress: ProgressFnT | None = None
    ) -> dict[str, Any]:
        """The result of one request as it came: what is large goes past the SDK."""
        job = asyncio.current_task()
        assert job is not None
        self._large[job] = None
        try:
            result = (await session.send_request(request, _RawResult, progress_callback=progress)).root
            return self._large[job] or result
        finally:
            del self._large[job]

    async def subscribe(self, uri: str) -> None:
        """Has the server tell of each change of a resource, to the listener. Raises as `request` does."""
        self._subscribed[uri] = None
        if self.is_modern:
            self._listen_anew()
        else:
            params = types.SubscribeRequestParams(uri=uri)
            await self.request(types.SubscribeRequest(params=params), target=uri, limits=self._connect_limits())

    async def unsubscribe(self, uri: str) -> None:
        """Takes a subscription back. Raises as `request` does."""
        self._subscribed.pop(uri, None)
        if self.is_modern:
            self._listen_anew()
        else:
            params = types.UnsubscribeRequestParams(uri=uri)
            await self.request(types.UnsubscribeRequest(params=params), target=uri, limits=self._connect_limits())

    async def tell_roots_changed(self) -> None:
        """Tells a server of before 2026 that `roots/list` would give something else now. Raises `LostError`."""
        await self.session.send_notification(types.RootsListChangedNotification())

    async def _with_input(
        self, session: ClientSession, request: types.Request[Any, Any], result: dict[str, Any]
    ) -> types.Request[Any, Any]:
        """The request again, with answers to what the server wants to know first (2026-07-28, multi round-trip)."""
        wanted = types.InputRequiredResult.model_validate(result, by_name=False)
        responses = await self._answers_to(session, wanted)
        if not responses:
            await asyncio.sleep(_STATE_ONLY_WAIT_SECONDS)
        params = request.params.model_copy(
            update={"input_responses": responses or None, "request_state": wanted.request_state}
        )
        return request.model_copy(update={"params": params})

    async def _answers_to(self, session: ClientSession, wanted: types.InputRequiredResult) -> types.InputResponses:
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
        return responses

    def _takes_tasks(self) -> bool:
        """Whether tool calls may be asked for as tasks, which is the 2025-11-25 form; later the server decides."""
        can = self.session.server_capabilities
        requests = can.tasks.requests if can and can.tasks else None
        return not self.is_modern and requests is not None and bool(requests.tools and requests.tools.call)

    async def _result_of_task(
        self, session: ClientSession, result: dict[str, Any], target: str, limits: Limits, progress: ProgressFnT
    ) -> dict[str, Any]:
        async def ask(request: types.Request[Any, Any]) -> dict[str, Any]:
            return (await session.send_request(request, _RawResult)).root

        async def answer(questions: dict[str, Any]) -> types.InputResponses:
            wanted = {"resultType": "input_required", "inputRequests": questions}
            return await self._answers_to(session, types.InputRequiredResult.model_validate(wanted, by_name=False))

        async def send_on(request: types.Request[Any, Any]) -> None:
            with contextlib.suppress(MCPError, ServerError, TimeoutError):
                async with asyncio.timeout(_PING_SECONDS):
                    await ask(request)

        can = session.server_capabilities
        peer = Peer(
            self.config.name,
            version=str(session.protocol_version),
            cancels=self.is_modern or bool(can and can.tasks and can.tasks.cancel),
            has_answers=bool(self._answered_methods),
            most_poll_seconds=limits.idle / 3,
            warn=self.warn,
            ask=ask,
            answer=answer,
            send_on=lambda request: self._start(send_on(request)),
        )
        task = FollowedTask(result, target, peer, progress)
        self._followed.add(task)
        for news in tuple(self._early_news):
            await task.hear(*news)
        try:
            return await task.result()
        finally:
            self._followed.discard(task)

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
        *,
        is_vital: bool = True,
    ) -> T:
        if self._check is not None:
            await asyncio.wait({self._check})
            if not self.usable:
                raise self._explain.lost(phase, "not_sent")
        if not self._open_calls:
            self._explain.last_junk = ""
        job = self._start(self._limited(send, limits, on_progress))
        self._open_calls[job] = None
        try:
            await asyncio.wait({job})
        except asyncio.CancelledError:
            job.cancel()
            raise
        finally:
            sent_id = self._open_calls.pop(job)
        if job.cancelled():
            raise self._explain.lost(phase, self._outcome_of(sent_id))
        error = job.exception()
        if error is None:
            return job.result()
        if isinstance(error, OutOfTimeError):
            if is_vital and not self._open_calls:
                self._check = self._start(self._check_alive())
            raise CallTimeoutError(self._explain.timeout_text(phase, limits, was_total=error.was_total)) from None
        explained = self._explained(error, phase, self._outcome_of(sent_id))
        if is_end_of_session(error):
            self._stop.set()  # whoever tries again needs another connection
        raise explained from None

    def _outcome_of(self, sent_id: RequestId | None) -> Outcome:
        """What became of a request on a connection that ended."""
        is_unread = sent_id is None or (self._stdio is not None and not self._stdio.has_read(sent_id))
        return "not_sent" if is_unread else "unknown"

    async def _limited(self, send: Callable[[Any], Awaitable[T]], limits: Limits, on_progress: Progress | None) -> T:
        """Runs one request within its limits. Raises `OutOfTimeError`."""
        clock = self._clocks.start(limits)

        async def progress(done: float, total: float | None, message: str | None) -> None:
            clock.heard()
            if on_progress is not None:
                on_progress(done, total, message or "")

        try:
            async with clock.timeout:
                return await send(progress)
        except TimeoutError:
            raise clock.error() from None
        finally:
            self._clocks.stop(clock)

    def _explained(self, error: BaseException, phase: str, outcome: Outcome) -> Exception:
        is_open = self._client is not None
        return self._explain.explained(error, phase, outcome, is_open=is_open, is_usable=self.usable)

    def _as_server_error(self, error: BaseException) -> ServerError:
        was_read = self._stdio is None or self._stdio.has_read()
        explained = self._explained(error, "initialize", "unknown" if was_read else "not_sent")
        if isinstance(explained, ServerError):
            return explained
        return self._explain.error(f"failed during initialize: {safe_line(str(explained))}", "initialize")

    def _connect_limits(self) -> Limits:
        return Limits(self.config.connect_timeout_seconds, self.config.connect_timeout_seconds)

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
            if error.code != CONNECTION_CLOSED and failure_of(error.error) is None:
                return
            self._stop.set()
        except TimeoutError:
            self.warn("does not answer a ping either; it is started anew for the next call")
            if self._stdio is not None:
                self._stdio.patient = False
            self._stop.set()
        except ServerError:
            pass


def _worth_another_way(way: str, era: Era, failure: ServerError) -> bool:
    """Whether the way now at hand may mend the failure of the one before it.

    A process may have died of the probe, if it read it; a server may have changed its era; a URL may speak the older
    SSE.
    """
    if way == "stdio" and era == "legacy":
        return isinstance(failure, LostError) and failure.exit_code is not None and failure.outcome != "not_sent"
    if way == "stdio":
        return isinstance(failure, EraError)
    return isinstance(failure, LostError) and failure.http_status in (200, 400, 404, 405, 406, 410, 415, 501)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@cache
def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("mcpagent")
    except PackageNotFoundError:
        return "0"
