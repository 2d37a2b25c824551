"""All events of a working agent as one union of values, for a terminal, a web page, a tracer and tests.

Every event passes through an `Emit` callback, which must not block.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from mcpagent.errors import OutputProblem
from mcpagent.values.approval import PendingCall
from mcpagent.values.limits.run_limits import (
    LimitKind,
    LimitScope,
    ReachedLimit,
    shown_amount,
    stopped_words,
)
from mcpagent.values.messages import Citation, Spent, ToolCall, ToolResult, Usage

logger = logging.getLogger("mcpagent")

StopReason: TypeAlias = Literal[
    "answered",
    "max_turns",
    "max_tool_calls",
    "max_tokens",
    "max_dollars",
    "max_seconds",
    "repeated_calls",
    "truncated",
    "refused",
    "calls_pending",
    "misfit",
]
"""The reason for the end of a run.

- "max_turns", "max_tool_calls" and "repeated_calls": the model had to give a last answer.
- "max_tokens", "max_dollars" and "max_seconds": the run ended at once, with the text so far.
- "truncated": the answer was cut off.
- "calls_pending": calls wait for an approval or an external result.
- "misfit": the answer does not match `output_type`, even after a second request.
"""

LIMIT_STOPS: Mapping[LimitKind, StopReason] = {
    "turns": "max_turns",
    "tool_calls": "max_tool_calls",
    "tokens": "max_tokens",
    "dollars": "max_dollars",
    "seconds": "max_seconds",
}
"""Limit -> the stop reason of a run that reached it."""


@dataclass(frozen=True, slots=True)
class ServerConnecting:
    """The server is being started or reached."""

    server: str


@dataclass(frozen=True, slots=True)
class ServersAwaited:
    """A prompt or a search waits for these servers to connect. Sent again whenever some of them are ready or have
    failed.
    """

    servers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ServerConnected:
    """The server is ready; `seconds` is the time from the start of the attempt until its list of tools arrived."""

    server: str
    tools: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ServerFailed:
    """The server cannot be used. `reason` is one printable line with phase and cause.

    `stderr_tail` has the last printable lines of its process.
    """

    server: str
    reason: str
    stderr_tail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerLogged:
    """A log message of a server about its own work (`notifications/message`).

    `text` is a printable line, and `level` the server's own level, "debug" to "emergency".
    """

    server: str
    level: str
    text: str


@dataclass(frozen=True, slots=True)
class ResourceUpdated:
    """A subscribed resource has changed since it was read."""

    server: str
    uri: str


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning or a hint for the person who runs the agent; one printable line."""

    text: str
    level: Literal["info", "warning"] = "info"


@dataclass(frozen=True, slots=True)
class RequestSent:
    """A request is sent to the model. Token counts are estimates (characters / 4) of tool definitions as JSON.

    `offered` are the names of the offered tools. Of the `known_tools`, `deferred_tools` are hidden until a search finds
    them; `searches` is True if the search tools are offered for that.
    """

    turn: int
    offered: tuple[str, ...]
    known_tools: int
    offered_tokens: int
    known_tokens: int
    deferred_tools: int = 0
    searches: bool = False

    @property
    def eager_tools(self) -> int:
        """Number of known tools that every request offers."""
        return self.known_tools - self.deferred_tools

    @property
    def saved_tokens(self) -> int:
        """The tokens that offering all known tools would add to the request; negative if it would need fewer."""
        return self.known_tokens - self.offered_tokens


@dataclass(frozen=True, slots=True)
class ResponseReceived:
    """The model's answer is complete. `dollars` is the cost of the request (US), None if the price is unknown.

    `citations` are the sources that the answer names, each once.
    """

    turn: int
    usage: Usage
    seconds: float
    dollars: float | None = None
    citations: tuple[Citation, ...] = ()


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the model's text, unchanged."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """The next piece of the model's thinking, if the provider sends it."""

    text: str


@dataclass(frozen=True, slots=True)
class AnswerRestarted:
    """The answer that was arriving broke off; the same model, or the next one of a chain, starts it again.

    All text and thinking since the last `RequestSent` is invalid: remove or mark it. The new answer follows. `text` is
    the invalid text, unchanged; `reason` is one printable line.
    """

    reason: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """A call starts. `server` is the server that receives it, None for local functions and virtual tools.

    `parent` is the ID of the call whose program makes this call, "" for a call by the model itself.
    """

    call: ToolCall
    server: str | None
    parent: str = ""


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """The progress of a call on an MCP server. `tool` is the tool's name on that server; `message` is a printable line
    or "".
    """

    server: str
    tool: str
    progress: float
    total: float | None
    message: str


@dataclass(frozen=True, slots=True)
class ToolCallFinished:
    """A call has its result; `server` and `parent` as in `ToolCallStarted`."""

    call: ToolCall
    result: ToolResult
    server: str | None
    parent: str = ""


@dataclass(frozen=True, slots=True)
class ProviderCall:
    """A call that the model's provider runs itself. `server` is the MCP server that the provider calls, None if it
    calls none.
    """

    id: str
    name: str
    input: dict[str, Any]
    server: str | None = None


@dataclass(frozen=True, slots=True)
class ProviderCallStarted:
    """The provider runs a call; `input` may be empty here and complete only in `ProviderCallFinished`."""

    call: ProviderCall


@dataclass(frozen=True, slots=True)
class ProviderCallFinished:
    """The provider's call has ended; `outcome` is one printable line. If it `failed`, the model decides what to do."""

    call: ProviderCall
    outcome: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class ToolsSearched:
    """A search for tools. `found` is the number of all matches; `matches` has the shown ones by offered name, best
    first.

    Tools of servers that were still `connecting` could not be found.
    """

    query: str
    found: int
    matches: tuple[str, ...]
    known: int
    seconds: float
    connecting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolsLoaded:
    """Tools that the next request offers for the first time; `tokens` is an estimate for their definitions."""

    names: tuple[str, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class ToolsRemoved:
    """Tools that the next request no longer offers, by offered name."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConversationCompacted:
    """From now on, requests contain a shorter version of the conversation. The history itself stays complete.

    A summary replaces `summarised` messages; if there is no summary, `without_summary` is the reason in one printable
    line. `shortened` results are sent only with their beginnings. Both numbers count all compactions so far.
    `tokens_before` and `tokens_after` are estimates for the next request. `usage` is the usage of the summary.
    `window_tokens` is the model's context window.
    """

    tokens_before: int
    tokens_after: int
    summarised: int = 0
    shortened: int = 0
    without_summary: str = ""
    usage: Usage = field(default_factory=Usage)
    window_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class LimitReached:
    """The run ends because it used up a limit. `most` is the limit, `used` the usage; None if a price is unknown.

    `scope` is the owner of the limit: this "run", its "session", or the "caller" that called this agent as a tool.
    """

    limit: LimitKind
    most: float
    used: float | None
    scope: LimitScope = "run"

    @property
    def text(self) -> str:
        """The limit as one line, such as `stopped after 300 tokens (Limits(tokens=250) of a run)`."""
        return self.said()

    @property
    def allowed(self) -> str:
        """The limit as text, such as `5 tool calls`."""
        return shown_amount(self.limit, self.most)

    def said(self, what: str = "", *, limit: str = "") -> str:
        """Return the text with `what` after the amount, and with `limit` instead of the limit as Python code."""
        return stopped_words(
            ReachedLimit(self.limit, self.most, self.used),
            self.scope,
            what=what,
            limit=limit,
        )


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """The whole state that tools share with a client (`ToolContext`), as JSON data."""

    state: dict[str, Any]


@dataclass(frozen=True, slots=True)
class StateDelta:
    """The changes of the shared state since the last snapshot or delta, as an RFC 6902 patch."""

    patch: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class CustomEvent:
    """An event that a tool defines, from `ToolReturn(events=...)`; `value` is JSON data."""

    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class SubagentEvent:
    """An event of an agent that was called as a tool; `path` has the names of the called tools, the outermost first."""

    path: tuple[str, ...]
    event: Event


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The end of a run: its answer, the reason for the end, and the usage.

    `pending` are the calls that wait for an answer, `citations` the sources that the answer names.

    `spent` contains `usage`, the cost, and the share of tool definitions in it. `seconds` is the time since the prompt,
    without the time that a person needed to answer questions.

    With an `output_type`, `output` is the value, if there is one (`has_output`), and `answer` its JSON; `problems` are
    the errors of an answer that does not match.

    `limit` is the limit that ended the run, None if no limit did: `answer` is then the text so far, or "". If calls
    wait, `limit` may name a limit that was reached as well; the stop reason stays "calls_pending".
    """

    answer: str
    stop: StopReason
    turns: int
    usage: Usage
    seconds: float
    pending: tuple[PendingCall, ...] = ()
    spent: Spent = field(default_factory=Spent)
    citations: tuple[Citation, ...] = ()
    output: Any = None
    has_output: bool = False
    problems: tuple[OutputProblem, ...] = ()
    limit: LimitReached | None = None


Event: TypeAlias = (
    ServerConnecting
    | ServersAwaited
    | ServerConnected
    | ServerFailed
    | ServerLogged
    | ResourceUpdated
    | Notice
    | RequestSent
    | ResponseReceived
    | TextDelta
    | ThinkingDelta
    | AnswerRestarted
    | ToolCallStarted
    | ToolProgress
    | ToolCallFinished
    | ProviderCallStarted
    | ProviderCallFinished
    | ToolsSearched
    | ToolsLoaded
    | ToolsRemoved
    | ConversationCompacted
    | LimitReached
    | StateSnapshot
    | StateDelta
    | CustomEvent
    | SubagentEvent
    | RunFinished
)

Emit: TypeAlias = Callable[[Event], None]


def log_warnings(event: Event) -> None:
    """Log warnings and failures; this is the default listener."""
    if isinstance(event, ServerFailed):
        logger.warning("%s", event.reason)
    elif isinstance(event, LimitReached) or (
        isinstance(event, Notice) and event.level == "warning"
    ):
        logger.warning("%s", event.text)


_SLOW_SECONDS = 1.0


def guarded(
    listener: Callable[[Event], object], clock: Callable[[], float] = time.monotonic
) -> Emit:
    """Return a listener that never raises: its errors are logged.

    It is reported once if it takes a second or longer, or if it is `async`. The run waits for its listener.
    """
    told: set[str] = set()

    def name() -> str:
        return str(getattr(listener, "__qualname__", listener))

    def tell_once(what: str, advice: str) -> None:
        if advice not in told:
            told.add(advice)
            logger.warning("event listener %s %s: %s", name(), what, advice)

    def emit(event: Event) -> None:
        started, kind = clock(), type(event).__name__
        try:
            outcome = listener(event)
            if isinstance(outcome, Coroutine):
                outcome.close()
                tell_once(
                    f"gave a coroutine on {kind}",
                    "nothing awaits it; write def, and start a task in it",
                )
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # also the CancelledError of a future that the listener reads: nothing is awaited here
            logger.exception("event listener %s raised on %s", name(), kind)
        seconds = clock() - started
        if seconds >= _SLOW_SECONDS:
            tell_once(
                f"took {seconds:.1f} s on {kind}",
                "the run waits for it; give its work to a thread or a task",
            )

    return emit


def ignore(event: Event) -> None:
    """Do nothing; the listener of a run without one."""
