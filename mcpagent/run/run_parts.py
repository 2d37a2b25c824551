"""The parts of a run that middleware surrounds, a request to the model and a tool call, and `Stop`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from mcpagent.history.conversation import CallProgress
from mcpagent.models.base import ActiveRequest, ModelRequest, ModelResponse
from mcpagent.values.approval import CallAnswer, PendingCall
from mcpagent.values.events import StopReason
from mcpagent.values.messages import (
    Part,
    Spent,
    ToolCall,
    ToolErrorKind,
    ToolResult,
)
from mcpagent.values.tools import Tool, ToolChange, ToolOutput


class Stop(Exception):  # noqa: N818 - no error: the run ends
    """Ends the run that it is raised in: the one way in which a run stops before the model has answered.

    `reason` and `answer` become those of the result, `pending` are the calls that wait for an answer. With a
    `final_note` the model gets this text first, and answers once more without calling tools.
    """

    def __init__(
        self,
        reason: StopReason,
        answer: str = "",
        *,
        pending: tuple[PendingCall, ...] = (),
        final_note: str = "",
    ) -> None:
        super().__init__(reason)
        self.reason, self.answer, self.pending, self.final_note = (
            reason,
            answer,
            pending,
            final_note,
        )


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """The number of known and offered tools of a request, in estimated tokens of their definitions."""

    known_tools: int = 0
    offered_tokens: int = 0
    known_tokens: int = 0
    deferred_tools: int = 0

    @property
    def saved_tokens(self) -> int:
        """The tokens of the definitions that are known and not sent."""
        return self.known_tokens - self.offered_tokens


@dataclass(slots=True)
class StepState:
    """A request to the model, and its response once there is one; a middleware may set the response itself.

    `build` makes the request when it is first needed: what comes before may still change the conversation. `is_final`:
    the request is for the last answer, without calls. `is_shortened`: the request was too long, and the conversation is
    shorter now, so the step builds it again.
    """

    build: Callable[[], tuple[ModelRequest, ToolOffer]]
    is_final: bool = False
    is_summary: bool = False
    response: ModelResponse | None = None
    is_settled: bool = False
    under_way: ActiveRequest | None = None
    begun: float = 0.0
    seconds: float = 0.0
    is_shortened: bool = False
    _built: tuple[ModelRequest, ToolOffer] | None = None

    def settle(self, response: ModelResponse) -> None:
        """Set the response of the step, so that no request is sent."""
        self.response, self.is_settled = response, True

    @property
    def heard(self) -> str:
        """The text of the answer that has arrived so far."""
        if self.under_way is not None:
            return self.under_way.heard
        return ""

    def prepared(self) -> tuple[ModelRequest, ToolOffer]:
        """Return the final request, and the tools that it offers."""
        if self._built is None:
            self._built = self.build()
        return self._built


@dataclass(slots=True)
class CallBatch:
    """The calls of one model message.

    `is_resumed`: an earlier run made them. `unfinished` is how many have no result and do not wait. `results` are those
    of the batch in call order, once it is over. `stop` is the `Stop` that a call raised.
    """

    calls: Sequence[ToolCall]
    is_resumed: bool = False
    unfinished: int = 1
    results: tuple[ToolResult, ...] = ()
    stop: Stop | None = None


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """A request to an MCP server by its method and ID; `code` is that of the error that the server returned."""

    method: str
    id: str
    code: int | None = None


@dataclass(slots=True)
class CallTally:
    """The amounts that the agents and requests of one call have used, and its last request to an MCP server.

    `asked_seconds` are those in which a person was asked while it ran, without which its time and its `timeout` count.
    `caller` is the call whose program makes this one.
    """

    spent: Spent = field(default_factory=Spent)
    asked_seconds: float = 0.0
    timeout: asyncio.Timeout | None = None
    caller: CallTally | None = None
    request: ServerRequest | None = None
    stop: Stop | None = None
    _questions: int = 0
    _asked_from: float = 0.0
    _end: float | None = None

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Pause the time of the call and its limit during a question, also several at a time."""
        loop = asyncio.get_running_loop()
        if not self._questions:
            self._asked_from = loop.time()
            self._end = self.timeout.when() if self.timeout is not None else None
            _reschedule(self.timeout, None)
        self._questions += 1
        try:
            yield
        finally:
            self._questions -= 1
            if not self._questions:
                asked = loop.time() - self._asked_from
                self.asked_seconds += asked
                if self._end is not None:
                    _reschedule(self.timeout, self._end + asked)


def _reschedule(limit: asyncio.Timeout | None, end: float | None) -> None:
    """Set the deadline of a limit, unless it has passed or has not begun."""
    if limit is not None:
        with suppress(RuntimeError):
            limit.reschedule(end)


@dataclass(slots=True)
class CallState:
    """A tool call, from the moment when the model makes it. A middleware may set its `output` or `pending`.

    `tool` is the tool if the model may call it now, else `refusal` is the reason. `answer` is the answer to a call that
    was pending. `changes` are the tools that the call loads. `parent` is the call whose program makes this one, "" if
    the model makes it. `progress` is the entry of the journal for a call that was sent. The call runs with `arguments`;
    `by_person`: a person approved it. Once it is over there is a `result`, or the call is `pending`.
    """

    call: ToolCall
    tool: Tool | None = None
    answer: CallAnswer | None = None
    changes: tuple[ToolChange, ...] = ()
    output: ToolOutput | None = None
    pending: tuple[PendingCall, ...] = ()
    parent: str = ""
    progress: CallProgress = field(default_factory=CallProgress)
    batch: CallBatch = field(default_factory=lambda: CallBatch(()))
    refusal: ToolOutput | None = None
    arguments: dict[str, Any] | None = None
    by_person: bool = False
    times_sent: int = 0
    is_settled: bool = False
    has_begun: bool = False
    tally: CallTally = field(default_factory=CallTally)
    result: ToolResult | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """The result with the tools that the call has changed, as the conversation gets them."""
        if self.result is not None:
            return self.result, *self.changes
        return ()

    def settle(self, output: ToolOutput) -> None:
        """Set the output of the call, so that it does not run."""
        self.output, self.is_settled = output, True

    def refuse(self, text: str, error: ToolErrorKind) -> None:
        """Give the call this text as its output, so that it does not run."""
        self.settle(ToolOutput.of_text(text, error=error))

    def wait_with(self, requests: tuple[PendingCall, ...]) -> None:
        """Have the call wait for the answers to these requests."""
        self.pending, self.is_settled = requests, True
