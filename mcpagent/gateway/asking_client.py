"""The clients of a gateway: their capabilities, and requests of servers, which go to the client whose call caused
them.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from mcpagent.mcp.sdk import ServerMessageMetadata

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext

    from mcpagent.mcp.sdk import ServerSession

ANSWER_SECONDS = 600.0
"""Timeout of a client's answer to one question of a server."""

MOST_WAITING = 200
"""Maximum number of notifications that wait for a client; further ones are dropped."""
FLUSH_SECONDS = 1.0

MOST_PARKED = 100
"""Maximum number of calls of one client that wait for its answers."""

_ANSWERS: Mapping[str, type[Any]] = {
    "elicitation/create": types.ElicitResult,
    "sampling/createMessage": types.CreateMessageResult,
    "roots/list": types.ListRootsResult,
}
_MOST_REPORTS = 100
"""Reports of progress that wait for a client that does not read."""


class Client:
    """A connected client, identified by `key`. In the 2026 protocol, a client is the sender of all requests with the
    same key.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self.name = ""
        self.is_modern = False
        self.session: ServerSession | None = None
        self.capabilities = types.ClientCapabilities()
        self.level: str | None = None
        self.added: dict[str, None] = {}
        self.listed: dict[str, Any] = {}
        self.subscribed: dict[tuple[str, str], str] = {}
        self.listening: Counter[str] = Counter()
        self.follows_lists = False
        self.open = 0
        self.used_at = 0.0
        self.parked: dict[str, Parked] = {}
        self._outbox: set[asyncio.Task[None]] = set()
        self._in_order = asyncio.Lock()

    def note(self, context: ServerRequestContext[Any, Any]) -> None:
        """Record what a request states about its client."""
        session = context.session
        self.session = session
        self.is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        if session.client_capabilities is not None:
            self.capabilities = session.client_capabilities
        if session.client_params is not None:
            self.name = session.client_params.client_info.name
        self.used_at = asyncio.get_running_loop().time()

    @property
    def is_busy(self) -> bool:
        """True while a request of the client runs, or while it is subscribed to changes of resources."""
        return bool(self.open or self.subscribed)

    def methods(self) -> frozenset[str]:
        """Return the methods of server requests that the client answers."""
        can = self.capabilities
        named = {
            "elicitation/create": can.elicitation,
            "sampling/createMessage": can.sampling,
            "roots/list": can.roots,
        }
        return frozenset(name for name, value in named.items() if value is not None)

    def sampling(self) -> dict[str, Any]:
        """Return the client's capability for sampling, as JSON."""
        if self.capabilities.sampling is None:
            return {}
        return self.capabilities.sampling.model_dump(by_alias=True, exclude_none=True)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification outside of a request, to a client of the protocols before 2026; a closed connection is
        ignored.
        """
        if self.session is None or self.is_modern:
            return
        message = {"method": method, "params": dict(params or {})}
        self.send(self.session, message, None)

    def send(
        self, session: ServerSession, message: Any, related: types.RequestId | None
    ) -> None:
        """Send a notification in the background, after the earlier ones; an invalid one is dropped."""
        try:
            notification = types.server_notification_adapter.validate_python(message)
        except ValueError:
            return
        if len(self._outbox) >= MOST_WAITING:
            return
        task = asyncio.create_task(self._sent(session, notification, related))
        self._outbox.add(task)
        task.add_done_callback(self._outbox.discard)

    async def _sent(
        self,
        session: ServerSession,
        notification: types.ServerNotification,
        related: types.RequestId | None,
    ) -> None:
        async with self._in_order:
            with contextlib.suppress(Exception):
                await session.send_notification(notification, related)

    async def flushed(self) -> None:
        """Wait until the notifications so far are sent, so that a result follows them."""
        if self._outbox:
            await asyncio.wait(set(self._outbox), timeout=FLUSH_SECONDS)


@dataclass(eq=False)
class Caller:
    """One running request of a client.

    `questions` are requests of servers to a client of the 2026 protocol, which answers them with its next request.
    """

    client: Client
    session: ServerSession
    request_id: types.RequestId
    log_level: str | None = None
    questions: dict[str, Question] = field(default_factory=dict[str, "Question"])
    asked: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    _reports: deque[tuple[float, float | None, str]] = field(
        default_factory=lambda: deque[tuple[float, float | None, str]]()
    )
    _sending: asyncio.Task[None] | None = None

    def on_progress(self, progress: float, total: float | None, message: str) -> None:
        """Pass on a report of progress in the background; too many waiting reports are dropped."""
        if len(self._reports) >= _MOST_REPORTS:
            return
        self._reports.append((progress, total, message))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_reports())

    async def _send_reports(self) -> None:
        while self._reports:
            progress, total, message = self._reports.popleft()
            with contextlib.suppress(Exception):
                await self.session.report_progress(progress, total, message or None)

    async def run(
        self, start: Callable[[Caller], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        """Run the request; its reports of progress are sent before the result."""
        try:
            return await start(self)
        except asyncio.CancelledError:
            if self._sending is not None:
                self._sending.cancel()
            raise
        finally:
            if self._sending is not None:
                await asyncio.wait({self._sending})

    async def ask(self, request: Any, key: str = "") -> Any:
        """Return the client's answer to a server's request, or its error; `key` is the server's ID of the request."""
        try:
            if self.client.is_modern:
                return await self._asked_in_rounds(request, key)
            answer = _ANSWERS[request.method]
            if getattr(request.params, "tools", None):
                answer = types.CreateMessageResultWithTools
            related = ServerMessageMetadata(related_request_id=self.request_id)
            return await self.session.send_request(
                request, answer, ANSWER_SECONDS, metadata=related
            )
        except MCPError as error:
            return error.error
        except TimeoutError:
            text = f"the client did not answer within {ANSWER_SECONDS:g} s"
        except ValidationError:
            text = "the client's answer is not valid"
        return types.ErrorData(code=types.INTERNAL_ERROR, message=text)

    async def _asked_in_rounds(self, request: Any, key: str) -> Any:
        question = Question(request, asyncio.get_running_loop().create_future())
        if not key or key in self.questions:
            key = secrets.token_hex(8)
        self.questions[key] = question
        self._note_questions()
        async with asyncio.timeout(ANSWER_SECONDS):
            return await question.answer

    def resume(
        self, session: ServerSession, responses: Mapping[str, Any] | None
    ) -> None:
        """Continue with the client's answers to questions, which came with another request."""
        self.session = session
        self.asked = asyncio.get_running_loop().create_future()
        for key, response in (responses or {}).items():
            question = self.questions.pop(key, None)
            if question is not None and not question.answer.done():
                question.answer.set_result(response)
        if self.questions:
            self._note_questions()

    def _note_questions(self) -> None:
        if not self.asked.done():
            self.asked.set_result(None)


@dataclass(frozen=True, slots=True)
class Question:
    """A request of a server, and the future answer of the client."""

    request: Any
    answer: asyncio.Future[Any]


@dataclass(frozen=True, slots=True)
class Parked:
    """A running call that waits for its client's answers."""

    caller: Caller
    work: asyncio.Task[dict[str, Any]]


current_caller: ContextVar[Caller | None] = ContextVar("gateway_caller", default=None)


class OpenCalls:
    """The callers with an open request at each server, to determine to which client a server's request belongs."""

    def __init__(self) -> None:
        self._open: list[tuple[str, Caller]] = []

    @contextlib.contextmanager
    def opened(self, caller: Caller, server: str) -> Iterator[None]:
        """Register an open request of the caller at the server during the block."""
        self._open.append((server, caller))
        before = current_caller.set(caller)
        try:
            yield
        finally:
            current_caller.reset(before)
            self._open.remove((server, caller))

    def callers(self, server: str) -> list[Caller]:
        """Return the callers with an open request at the server."""
        return [caller for at, caller in self._open if at == server]

    async def send(
        self, server: str, request: Any, key: str, *, is_in_call: bool
    ) -> Any:
        """Pass a server's request to the client to which it belongs; return an error if that is not certain.

        Servers of the 2026 protocol ask within a call (`is_in_call`). For other servers, the request belongs to the
        only open call.
        """
        callers = self.callers(server)
        if is_in_call:
            callers = [caller for caller in callers if caller is current_caller.get()]
        is_one_client = len({caller.client.key for caller in callers}) == 1
        is_one_call = len(callers) == 1 or not any(
            caller.client.is_modern for caller in callers
        )
        if is_one_client and is_one_call:
            return await callers[-1].ask(request, key)
        text = "no call is open that this belongs to"
        if callers:
            text = "several calls are open; it is not certain which one this belongs to"
        return types.ErrorData(code=types.INVALID_REQUEST, message=text)


async def in_rounds(
    caller: Caller,
    params: types.InputResponseRequestParams,
    start: Callable[[Caller], Awaitable[dict[str, Any]]],
) -> dict[str, Any]:
    """Run a request; return its result, or the questions that a client of 2026 answers with its next request.

    Raises `MCPError` for a state that the gateway did not issue to this client.
    """
    if not caller.client.is_modern:
        return await caller.run(start)
    if params.request_state is None:
        work = asyncio.create_task(caller.run(start))
        parked = Parked(caller, work)
    else:
        parked = _resumed(caller, params)
    try:
        return await _next_round(parked)
    except asyncio.CancelledError:
        parked.work.cancel()
        await asyncio.gather(parked.work, return_exceptions=True)
        raise


def _resumed(caller: Caller, params: types.InputResponseRequestParams) -> Parked:
    parked = caller.client.parked.pop(str(params.request_state), None)
    if parked is None:
        text = "this requestState is not known, or its call has ended"
        raise MCPError(code=types.INVALID_PARAMS, message=text)
    parked.caller.resume(caller.session, params.input_responses)
    return parked


async def _next_round(parked: Parked) -> dict[str, Any]:
    either: set[asyncio.Future[Any]] = {parked.caller.asked, parked.work}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if parked.work.done():
        return parked.work.result()
    waiting = parked.caller.client.parked
    if len(waiting) >= MOST_PARKED:
        waiting.pop(next(iter(waiting))).work.cancel()
    state = secrets.token_urlsafe(24)
    waiting[state] = parked
    requests = {
        key: question.request.model_dump(by_alias=True, mode="json", exclude_none=True)
        for key, question in parked.caller.questions.items()
    }
    return {
        "resultType": "input_required",
        "inputRequests": requests,
        "requestState": state,
    }
