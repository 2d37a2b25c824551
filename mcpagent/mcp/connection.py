"""A session with one MCP server, which a dedicated task opens, holds and closes.

The SDK's scopes must be exited in the task that entered them, and failures inside them cancel that task. So the owner
task holds the scopes, callers only await tasks, and exceptions of the SDK reach callers as a `ServerError`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import mcp_types as types
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpagent.config import Era, ServerConfig
from mcpagent.errors import ServerError
from mcpagent.mcp.callbacks import MAX_INPUT_ROUNDS, callbacks, with_input
from mcpagent.mcp.connection_errors import Explainer, after_colon, is_end_of_session
from mcpagent.mcp.handlers import Handlers
from mcpagent.mcp.outcomes import End, Outcome, TransportName, outcome_of
from mcpagent.mcp.pending_requests import Attempt, Attempts, Progress, RawResult
from mcpagent.mcp.protocol_version import agree_on_era, ask_for_news
from mcpagent.mcp.request_failures import (
    REQUEST_FAILURES,
    CallTimeoutError,
    ProtocolVersionError,
    RefusedError,
    RequestLimits,
    RequestLostError,
    failure_of,
)
from mcpagent.mcp.sdk import SdkSession
from mcpagent.mcp.server_notifications import ReportNews, ServerNews
from mcpagent.mcp.tasks import (
    EXTENSION,
    HANDLE,
    FollowedTasks,
    TaskServer,
    as_task,
    takes_tasks,
)
from mcpagent.mcp.transports.api_server import api_streams
from mcpagent.mcp.transports.bytes_to_messages import INVALID_ANSWER, Transport
from mcpagent.mcp.transports.dispatcher import relayed
from mcpagent.mcp.transports.remote import http_streams
from mcpagent.mcp.transports.server_log import ServerLog, log_path
from mcpagent.mcp.transports.sse import sse_streams
from mcpagent.mcp.transports.stdio import StdioTransport
from mcpagent.run.agent_run import current_run
from mcpagent.run.run_parts import ServerRequest
from mcpagent.utilities.python.worker_threads import created_beside_loop, is_large
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import without_secrets
from mcpagent.utilities.version import __version__

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

for _name in ("mcp", "client"):
    # The SDK logs tracebacks of failures that mcpagent reports itself; without this handler, Python would print them.
    logging.getLogger(_name).addHandler(logging.NullHandler())

NO_HANDLERS = Handlers()
_OTHER_TRANSPORT_STATUSES = frozenset({200, 400, 404, 405, 406, 410, 415, 501})
"""HTTP statuses with which a URL of the older SSE transport may respond to a POST."""
_PING_SECONDS = 1.8
"""Less than `open_requests.PROBE_SECONDS`: the end of that timeout would look like a response."""
SILENT_SECONDS = 2.0
"""After this time, a process that has read its input but has written nothing is reported, because it may not be a
server.
"""
UNREAD_SECONDS = 10.0
"""After this time, a process that has not read its input is reported; it may still be loading its packages."""
GREETING_SECONDS = 0.25
"""Further wait, because a server that ignores the probe gets `initialize` only after `open_requests.PROBE_SECONDS`, and
then needs time to respond.
"""

Pause: TypeAlias = Callable[[float], Awaitable[None]]


class McpConnection:
    """A connection to one server; used once, from `open` to `close`.

    `report` receives the server's notifications, redacted, at any time. `handlers` define which requests the server may
    send, `auth` authenticates with a remote server, and `log_folder` is the folder for its output. `pause` waits a
    number of seconds before a silent process is reported.
    """

    def __init__(
        self,
        config: ServerConfig,
        report: ReportNews,
        *,
        era: Era = "auto",
        environ: Mapping[str, str] | None = None,
        handlers: Handlers = NO_HANDLERS,
        auth: httpx2.Auth | None = None,
        log_folder: Path | None = None,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self.config = config
        self._pause = pause
        self.era: Era = era
        self._report = report
        self._explain = Explainer(config.name)
        if log_folder is None:
            self._log = None
        else:
            self._log = ServerLog(log_path(log_folder, config.name))
        self._handlers = handlers
        self._allowed = handlers.methods()
        self._at_once = handlers.forwarding is not None
        self._auth = auth
        self._environ = os.environ if environ is None else environ
        self._session: SdkSession | None = None
        self._way: TransportName = "stdio"
        self._stdio: StdioTransport | None = None
        self._owner: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._is_closing = False
        self._jobs: set[asyncio.Task[Any]] = set()
        self._attempts = Attempts()
        self._has_junk = False
        self._check: asyncio.Task[None] | None = None
        self._subscribed: dict[str, None] = {}
        self._listening: asyncio.Task[None] | None = None
        self._tasks = FollowedTasks()

    # --- opening and closing

    async def open(self) -> None:
        """Connect. Raises `ServerError` after `connect_timeout_seconds` at the latest."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(
            self._own(ready), name=f"mcp-{self.config.name}"
        )
        try:
            await asyncio.wait({ready}, timeout=self.config.connect_timeout_seconds)
        except asyncio.CancelledError:
            await self.close()
            raise
        if ready.done():
            return ready.result()
        waited = self.config.connect_timeout_seconds
        tail = self._explain.last_words
        what = f"did not answer within {waited:g} s{after_colon(tail)}{self._explain.heard}; check its command or"
        if self._is_silent:
            what = f"{silence_of(self.config, waited)}; if it is one,"
        await self.close()
        raise self._explain.error(
            f'{what} raise "connect_timeout_seconds"', "connect", tail
        )

    async def close(self) -> None:
        """End the session and the process. Never raises, and returns soon after `shutdown_seconds` at the latest."""
        self._is_closing = True
        if self._owner is None:
            return
        if self.usable:
            await self._tasks.close()
        elif self._stdio is not None:
            self._stdio.is_patient = False
        for job in self._jobs:
            job.cancel()
        if self._session is None:
            self._owner.cancel()
        self._stop.set()
        if self._session is None:
            seconds = 1.0
        else:
            seconds = self.config.shutdown_seconds
        await asyncio.wait({self._owner, *self._jobs}, timeout=seconds)
        if not self._owner.done():
            if self._stdio is not None:
                self._stdio.is_patient = False
            self._owner.cancel()
            await asyncio.wait({self._owner}, timeout=2.0)

    async def daemons(self) -> tuple[str, ...]:
        """Return the commands of the background processes that closing the server would end."""
        if self._stdio is None or not self.usable:
            return ()
        return await asyncio.to_thread(self._stdio.daemons)

    def keep_daemons(self) -> None:
        """Let the server's background processes outlive its close."""
        if self._stdio is not None:
            self._stdio.keeps_running = True

    @property
    def usable(self) -> bool:
        """Return whether requests can be sent: the session is open and has not ended."""
        return self._session is not None and not self._stop.is_set()

    @property
    def allowed(self) -> frozenset[str]:
        """The methods of server requests that mcpagent answers, as declared when connecting."""
        return self._allowed

    @property
    def end_reason(self) -> str:
        """The reason why the connection ended."""
        return self._explain.end_reason

    @property
    def spawn_seconds(self) -> float:
        """Seconds that starting the process took; 0.0 without a process."""
        if self._stdio is None:
            return 0.0
        return self._stdio.spawn_seconds

    @property
    def session(self) -> SdkSession:
        """The SDK's session. Raises `RequestLostError` if it is missing."""
        if self._session is None or not self.usable:
            raise self._explain.lost("connect", "not_sent")
        return self._session

    @property
    def is_modern(self) -> bool:
        """Return whether the protocol is 2026-07-28 or later. Raises `RequestLostError`."""
        return self.session.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def _own(self, ready: asyncio.Future[None]) -> None:
        """Own the connection: try each way to reach the server, then hold the session until it must stop or ends."""
        failure: ServerError | None = None
        try:
            for way in ways_to(self.config, self.era):
                if failure is not None and not way.may_fix(failure):
                    break
                self._stop = asyncio.Event()
                try:
                    await self._hold(way, ready)
                    return
                except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  the SDK may raise any exception
                    if _is_cancelled() or self._is_closing or ready.done():
                        return
                    found = self._as_server_error(error)
                    if failure is None or way.transport == "stdio":
                        failure = found
            if failure is not None:
                ready.set_exception(failure)
        finally:
            self._session = None
            self._stop.set()
            if self._log is not None:
                self._log.close()
            if not ready.done():
                ready.set_exception(
                    self._explain.error("was closed while it connected", "connect")
                )
            ready.exception()  # marks the exception as read: the opener may be gone

    async def _hold(self, way: TransportChoice, ready: asyncio.Future[None]) -> None:
        wire = relayed(
            self._transport(way), self, self._attempts, self._tasks, self._allowed
        )
        async with (
            wire as relay,
            SdkSession(
                dispatcher=relay,
                client_info=types.Implementation(name="mcpagent", version=__version__),
                log_level=self.config.log_level,
                extensions={EXTENSION: {}},
                **callbacks(self.config.name, self._handlers, self._attempts.paused),
            ) as session,
        ):
            waiting = self._start(self._report_silence())
            try:
                await agree_on_era(session, way.era)
            finally:
                waiting.cancel()
            if session.initialize_result is not None:
                self.era = "legacy"
            else:
                self.era = "auto"
            self._session = session
            if not ready.done():
                ready.set_result(None)
            self._start(self._settle_in(session))
            await self._stop.wait()

    def _transport(self, way: TransportChoice) -> Transport:
        self._way = way.transport
        if self.config.openapi:
            return api_streams(self.config, self.warn, auth=self._auth)
        if way.transport == "http":
            return http_streams(
                self.config, self.warn, auth=self._auth, heard=self._attempts.heard
            )
        if way.transport == "sse":
            return sse_streams(self.config, auth=self._auth, heard=self._attempts.heard)
        heard = self._attempts.heard
        self._stdio = self._explain.stdio = StdioTransport(
            self.config, self.junk, self._environ, self._log, heard
        )
        return self._stdio

    async def _settle_in(self, session: SdkSession) -> None:
        """Send settings to a server after connecting; if it refuses them, it is still usable."""
        if self.is_modern:
            self._listen_anew(session)
        elif self.config.log_level is not None:
            await self.set_log_level(self.config.log_level)

    async def set_log_level(self, level: types.LoggingLevel) -> None:
        """Set the level of log messages at a server from before 2026; a refusal only emits a warning."""
        can = self.session.server_capabilities
        if not self.is_modern and can is not None and can.logging:
            params = types.SetLevelRequestParams(level=level)
            try:
                await self.request(
                    types.SetLevelRequest(params=params), limits=self._connect_limits
                )
            except REQUEST_FAILURES as error:
                self.warn(f"does not take the log level: {safe_line(str(error))}")

    @property
    def _is_silent(self) -> bool:
        return self._stdio is not None and self._stdio.is_silent

    async def _report_silence(self) -> None:
        """Report a process that has written nothing since its start; connecting continues."""
        seconds = SILENT_SECONDS
        await self._pause(SILENT_SECONDS + GREETING_SECONDS)
        if self._stdio is not None and self._stdio.has_unread:
            seconds = UNREAD_SECONDS
            await self._pause(UNREAD_SECONDS - SILENT_SECONDS)
        if self._is_silent:
            self.report(ServerNews("silence", silence_of(self.config, seconds)))

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a background task that ends with the connection."""
        job = asyncio.create_task(work, name=f"mcp-job-{self.config.name}")
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return job

    # --- observed messages (`dispatcher.Observer`)

    def report(self, news: ServerNews) -> None:
        """Pass on a notification of the server, with its secrets redacted."""
        news = replace(news, text=without_secrets(news.text))
        if news.kind == "log" and self._log is not None:
            self._log.note(f"[{news.level}] {news.text}")
        self._report(news)

    def warn(self, text: str) -> None:
        """Report an oddity of the server."""
        self.report(ServerNews("warning", text))

    def junk(self, text: str) -> None:
        """Store output that is not MCP, because it may explain later errors; the first one is also a warning."""
        self._explain.last_junk = text
        if not self._has_junk:
            self._has_junk = True
            self.warn(f"writes to stdout what is not MCP, first: {text}")

    def ended(self) -> None:
        """Mark the connection as unusable, so that its owner closes it."""
        self._stop.set()

    # --- requests

    async def request(
        self,
        request: types.Request[Any, Any],
        *,
        limits: RequestLimits,
        target: str = "",
        on_progress: Progress | None = None,
        may_be_task: bool = False,
        is_vital: bool = True,
    ) -> dict[str, Any]:
        """Send one request and return its raw result.

        With `may_be_task`, a tool call is requested as a task if the server supports that. If a request that `is_vital`
        gets no response, the server is pinged. Raises `REQUEST_FAILURES`: `RefusedError` (the server's own error),
        `CallTimeoutError`, `TaskError`, or `RequestLostError`. Cancelling it notifies the server.
        """
        if target:
            phase = f'{request.method} "{safe_line(target, 60)}"'
        else:
            phase = str(request.method)
        async with self._attempt(
            phase, limits, on_progress, is_vital=is_vital
        ) as attempt:
            session = self.session
            if (
                may_be_task
                and isinstance(request, types.CallToolRequest)
                and takes_tasks(session)
            ):
                request = as_task(request, limits.total)
            for _ in range(MAX_INPUT_ROUNDS + 1):
                # Results bypass the SDK, which gets a placeholder for each.
                shown = await session.send_request(
                    request, RawResult, progress_callback=attempt.heard
                )
                result = attempt.whole(shown.root)
                if HANDLE in result:
                    attempt.has_begun = True
                    peer = TaskServer(
                        self.config.name,
                        session,
                        self._allowed,
                        limits.idle / 3,
                        self.warn,
                    )
                    return await self._tasks.result(result, target, peer, attempt.heard)
                if result.get("resultType") != "input_required":
                    return result
                request = await with_input(
                    session, request, result, self._allowed, at_once=self._at_once
                )
            raise MCPError(
                code=INVALID_ANSWER,
                message=f"asks for input more than {MAX_INPUT_ROUNDS} times",
            )

    async def list_tools_page(
        self, cursor: str | None, limits: RequestLimits
    ) -> types.ListToolsResult:
        """Return one page of `tools/list`; the session stores the data about its tools that later `tools/call` requests
        need.
        """
        params = None
        if cursor is not None:
            params = types.PaginatedRequestParams(cursor=cursor)
        request = types.ListToolsRequest(params=params)
        result = await self.request(request, limits=limits)
        learn = partial(_learned, self.session, result, is_first=cursor is None)
        return await created_beside_loop(learn, is_much=is_large(result["tools"]))

    async def subscription(self, uri: str, *, wanted: bool) -> None:
        """Start or stop notifications about changes of a resource. Raises the errors of `request`."""
        if wanted:
            self._subscribed[uri] = None
        else:
            self._subscribed.pop(uri, None)
        if self.is_modern:
            self._listen_anew(self.session)
            return
        request: types.SubscribeRequest | types.UnsubscribeRequest
        request = types.UnsubscribeRequest(
            params=types.UnsubscribeRequestParams(uri=uri)
        )
        if wanted:
            request = types.SubscribeRequest(
                params=types.SubscribeRequestParams(uri=uri)
            )
        await self.request(request, target=uri, limits=self._connect_limits)

    async def notify_roots_changed(self) -> None:
        """Notify a server from before 2026 that the result of `roots/list` has changed. Raises `RequestLostError`."""
        await self.session.send_notification(types.RootsListChangedNotification())

    def _listen_anew(self, session: SdkSession) -> None:
        if self._listening is not None:
            self._listening.cancel()
        self._listening = self._start(ask_for_news(session, tuple(self._subscribed)))

    @asynccontextmanager
    async def _attempt(
        self,
        phase: str,
        limits: RequestLimits,
        on_progress: Progress | None = None,
        *,
        is_vital: bool = True,
    ) -> AsyncIterator[Attempt]:
        """Run one request within its limits; every failure is raised as one of mcpagent's errors, with a message."""
        if self._check is not None:
            await asyncio.wait({self._check})
        if not self.usable:
            raise self._explain.lost(phase, "not_sent")
        if not self._attempts:
            self._explain.last_junk = ""
        with self._attempts.opened(limits, on_progress) as attempt:
            try:
                async with attempt.timeout:
                    yield attempt
                _note_request(phase, attempt)
                return
            except TimeoutError:
                failure: Exception = CallTimeoutError(
                    self._explain.timeout_text(
                        phase,
                        limits,
                        was_total=attempt.is_total_over,
                        was_silent=self._attempts.was_silent(attempt),
                    )
                )
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                    raise
                failure = self._explained(error, phase, self._outcome_of(attempt))
                if is_end_of_session(error):
                    self._stop.set()  # a retry needs another connection
        _note_request(phase, attempt, failure)
        if isinstance(failure, CallTimeoutError) and is_vital and not self._attempts:
            self._check = self._start(self._check_alive())
        raise failure from None

    def _outcome_of(self, attempt: Attempt) -> Outcome:
        """Return the outcome of a request on a connection that ended."""
        sent_id, stdio = attempt.sent_id, self._stdio
        was_read = attempt.has_begun or stdio is None or stdio.has_read(sent_id)
        return outcome_of(
            End(
                self._way,
                is_sent=attempt.has_begun or sent_id is not None,
                was_read=was_read,
            )
        )[0]

    def _explained(
        self, error: BaseException, phase: str, outcome: Outcome
    ) -> Exception:
        is_open = self._session is not None
        return self._explain.explained(
            error, phase, outcome, is_open=is_open, is_usable=self.usable
        )

    def _as_server_error(self, error: BaseException) -> ServerError:
        was_read = self._stdio is None or self._stdio.has_read()
        explained = self._explained(
            error, "initialize", outcome_of(End(self._way, was_read=was_read))[0]
        )
        if isinstance(explained, ServerError):
            return explained
        return self._explain.error(
            f"failed during initialize: {safe_line(str(explained))}", "initialize"
        )

    @property
    def _connect_limits(self) -> RequestLimits:
        return RequestLimits(
            self.config.connect_timeout_seconds, self.config.connect_timeout_seconds
        )

    async def _check_alive(self) -> None:
        """Ping a server after a request without a response; close the connection if the ping gets none either."""
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
            self.warn(
                "does not answer a ping either; it is started anew for the next call"
            )
            if self._stdio is not None:
                self._stdio.is_patient = False
            self._stop.set()
        except RequestLostError:
            pass


def silence_of(config: ServerConfig, seconds: float) -> str:
    """Return the warning about a process that has written nothing: its command may not start a server."""
    words = [str(word) for word in (config.command, *config.args)]
    program = safe_line(words[0], 60)
    return (
        f"{program} has neither answered nor written for {seconds:g} s; is it a server? "
        f"command: {safe_line(shlex.join(words), 1000)}"
    )


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@dataclass(frozen=True, slots=True)
class TransportChoice:
    """A transport, and the protocol version with which to begin."""

    transport: TransportName
    era: Era

    def may_fix(self, failure: ServerError) -> bool:
        """Return whether this transport and version may work after the previous ones failed with this error.

        A process may have ended because it read the probe; a server may have changed its protocol version; a URL may
        use SSE.
        """
        if self.transport != "stdio":
            return (
                isinstance(failure, RequestLostError)
                and failure.http_status in _OTHER_TRANSPORT_STATUSES
            )
        if self.era != "legacy":
            return isinstance(failure, ProtocolVersionError)
        return (
            isinstance(failure, RequestLostError)
            and failure.exit_code is not None
            and failure.outcome == "unknown"
        )


def ways_to(config: ServerConfig, era: Era) -> list[TransportChoice]:
    """Return the combinations to try, at least one; `era` is the server's known protocol, "auto" if unknown."""
    if config.openapi:
        return [TransportChoice("http", "legacy")]
    if config.command:
        local = [TransportChoice("stdio", "auto"), TransportChoice("stdio", "legacy")]
        if era == "auto":
            return local
        return local[::-1]
    # Over HTTP, the probe costs one short request, so it is sent by default.
    http, sse = TransportChoice("http", config.era), TransportChoice("sse", "legacy")
    return {"auto": [http, sse], "sse": [sse]}.get(config.transport, [http])


def _learned(
    session: SdkSession, result: dict[str, Any], *, is_first: bool
) -> types.ListToolsResult:
    """Return a page of `tools/list`; the session stores the data that later calls of its tools need.

    The tools are validated one by one, because pydantic would block all threads until a whole list is validated. The
    list is emptied here, because freeing it in the event loop would take tens of milliseconds.
    """
    listed = result["tools"]
    tools = [types.Tool.model_validate(item, by_name=False) for item in listed]
    listed.clear()
    page = types.ListToolsResult(tools=tools, next_cursor=result.get("nextCursor"))
    if session.protocol_version in MODERN_PROTOCOL_VERSIONS:
        page.ttl_ms = result["ttlMs"]
    session.learn_tools(page, is_all=is_first and page.next_cursor is None)
    return page


def _note_request(
    phase: str, attempt: Attempt, failure: Exception | None = None
) -> None:
    """Record the request, with the error code of a refusal, for the tool call that sent it."""
    run = current_run()
    if attempt.sent_id is not None and run is not None and run.of_call is not None:
        if isinstance(failure, RefusedError):
            code = failure.code
        else:
            code = None
        run.of_call.request = ServerRequest(
            phase.partition(" ")[0], str(attempt.sent_id), code
        )
