"""The parts of a run that middleware surrounds: a request to the model, and a tool call; and `Stop`."""

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
    """Raised to end a run; the only way to stop a run before the model has answered.

    `reason` and `answer` become those of the result; `pending` are the calls that wait for an answer. With a
    `final_note`, the model gets this text and answers once more without calling tools.
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
    """The numbers of known and hidden tools of a request, and the estimated tokens of the offered and of all known
    definitions.
    """

    known_tools: int = 0
    offered_tokens: int = 0
    known_tokens: int = 0
    deferred_tools: int = 0

    @property
    def saved_tokens(self) -> int:
        """The estimated tokens of known definitions that are not sent."""
        return self.known_tokens - self.offered_tokens


@dataclass(slots=True)
class StepState:
    """A request to the model, and its response once there is one; a middleware may set the response itself.

    `build` creates the request when it is first needed, because earlier middleware may change the conversation.
    `is_final`: a last answer without calls is requested. `is_shortened`: the request was too long and the conversation
    was compacted, so the step builds it again. `is_summary`: the request is for the summary of a compaction.
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

    `is_resumed`: an earlier run made the calls. `unfinished` is the number of calls that have no result and are not
    pending. `results` are the results in call order, after all calls have ended. `stop` is the `Stop` that a call
    raised, None if none did.
    """

    calls: Sequence[ToolCall]
    is_resumed: bool = False
    unfinished: int = 1
    results: tuple[ToolResult, ...] = ()
    stop: Stop | None = None


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """A request to an MCP server: its method, its ID, and the code of the error that the server returned (None: no
    error).
    """

    method: str
    id: str
    code: int | None = None


@dataclass(slots=True)
class CallTally:
    """The usage of agents and requests inside one call, and its last request to an MCP server.

    `asked_seconds` is the time of questions to a person, which counts neither for the call's time nor for its
    `timeout`. `caller` is the call whose program makes this one, None if the model does.
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
        """Pause the call's time and its timeout while a person is asked; several questions may overlap."""
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
    """Set the deadline of a timeout, unless it has expired or has not started."""
    if limit is not None:
        with suppress(RuntimeError):
            limit.reschedule(end)


@dataclass(slots=True)
class CallState:
    """A tool call from the moment when the model makes it. A middleware may set its `output` or `pending`.

    `tool` is set if the model may call it now; else `refusal` is the reason. `answer` is the answer to a call that was
    pending. `changes` are the tools that the call loads. `parent` is the ID of the call whose program makes this one,
    "" if the model makes it. `progress` is the journal's entry for a call that was sent. The call runs with
    `arguments`; `by_person`: a person approved it. In the end it has a `result`, or is `pending`.
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
        """The result and the tool changes of the call, as parts for the conversation; () without a result."""
        if self.result is not None:
            return self.result, *self.changes
        return ()

    def settle(self, output: ToolOutput) -> None:
        """Set the output of the call; it then does not run."""
        self.output, self.is_settled = output, True

    def refuse(self, text: str, error: ToolErrorKind) -> None:
        """Set this error text as the output of the call; it then does not run."""
        self.settle(ToolOutput.of_text(text, error=error))

    def wait_with(self, requests: tuple[PendingCall, ...]) -> None:
        """Make the call pending until these requests are answered."""
        self.pending, self.is_settled = requests, True
