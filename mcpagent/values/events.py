"""Define every event of a working agent as one union of values, for a terminal, a web page, a tracer and tests.

All events pass through `Emit`. It must not block.
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
"""The reason for the end of a run. "max_turns", "max_tool_calls" and "repeated_calls" end with one forced answer;
"max_tokens", "max_dollars" and "max_seconds" end at once, with the text so far; "truncated": the answer was cut off;
"calls_pending": calls wait for an approval or an outside result; "misfit": the answer does not match `output_type`,
also after a second request."""

LIMIT_STOPS: Mapping[LimitKind, StopReason] = {
    "turns": "max_turns",
    "tool_calls": "max_tool_calls",
    "tokens": "max_tokens",
    "dollars": "max_dollars",
    "seconds": "max_seconds",
}
"""The reason for each limit."""


@dataclass(frozen=True, slots=True)
class ServerConnecting:
    """The server is being started or reached."""

    server: str


@dataclass(frozen=True, slots=True)
class ServersAwaited:
    """A question, or a search, waits for these servers, which are connecting; once more when some are settled."""

    servers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ServerConnected:
    """The server can be used; `seconds` from the start of the attempt to its list of tools."""

    server: str
    tools: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ServerFailed:
    """`reason` is one printable line with phase and cause; `stderr_tail` the last printable lines of its process."""

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
    """A request goes to the model. Token figures are estimates (characters / 4) of tool definitions as JSON.

    Of the `known_tools`, `deferred_tools` are hidden until they are found; if there are any, `searches` says that
    the search tools are among those offered.
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
        """Known tools that every request offers."""
        return self.known_tools - self.deferred_tools

    @property
    def saved_tokens(self) -> int:
        """The tokens that offering all known tools would add to the offered ones; below 0 if that is less."""
        return self.known_tokens - self.offered_tokens


@dataclass(frozen=True, slots=True)
class ResponseReceived:
    """`dollars` is what the request cost (US), None if its price is not known. `citations` are the sources that the
    words of the answer name, each once."""

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
    """The next piece of the model's thinking, if its provider shows that."""

    text: str


@dataclass(frozen=True, slots=True)
class AnswerRestarted:
    """The answer that was arriving broke off and starts again, by the same model or by the next one of a chain.

    Everything shown since the last `RequestSent` is dropped, text and thoughts: forget it, or mark it. The answer
    follows from here on. `text` is the dropped text, unchanged; `reason` is one printable line.
    """

    reason: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """`server` is where the call goes, None for local functions and virtual tools. `parent` is the id of the call whose
    program makes this one, "" for a call of the model's own."""

    call: ToolCall
    server: str | None
    parent: str = ""


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """The progress of a call on an MCP server, by the tool's own name there; `message` is a printable line or empty."""

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
    """A call that the model's provider runs by itself. `server` is the MCP server that it goes to there, else None."""

    id: str
    name: str
    input: dict[str, Any]
    server: str | None = None


@dataclass(frozen=True, slots=True)
class ProviderCallStarted:
    """The provider runs a call; its `input` may become known only with its end."""

    call: ProviderCall


@dataclass(frozen=True, slots=True)
class ProviderCallFinished:
    """The provider's call is over: `outcome` is one printable line. A `failed` one is the model's to react to."""

    call: ProviderCall
    outcome: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class ToolsSearched:
    """`found` counts all matches; `matches` holds those shown, by offered name, best first. The tools of the servers
    that were still `connecting` could not be found."""

    query: str
    found: int
    matches: tuple[str, ...]
    known: int
    seconds: float
    connecting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolsLoaded:
    """Tools that the next request offers for the first time; `tokens` estimates their definitions."""

    names: tuple[str, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class ToolsRemoved:
    """Tools that are not offered any more, by offered name."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConversationCompacted:
    """From now on the model receives less of the conversation, which itself stays complete.

    A summary replaces `summarised` messages; if there is no summary, `without_summary` is the reason in one printable
    line. Of `shortened` results the beginning remains. Both count all compactions so far. Tokens are expected ones, of
    the next request before and after the compaction. `usage` is that of the summary.
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
    """A limit is used up, so the run ends. Of `most`, `used` was taken; None if a price is not known.

    `scope` says whose it is: the "run"'s, the "session"'s, or that of the "caller" of this agent.
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
        """Return the text with `what` after the amount, and `limit` instead of the limit's Python spelling."""
        return stopped_words(
            ReachedLimit(self.limit, self.most, self.used),
            self.scope,
            what=what,
            limit=limit,
        )


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """The whole state that tools share with a client, as JSON data."""

    state: dict[str, Any]


@dataclass(frozen=True, slots=True)
class StateDelta:
    """The changes of that state since the last snapshot or delta: an RFC 6902 patch."""

    patch: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class CustomEvent:
    """An event of a tool's own, from `ToolReturn(events=...)`; `value` is JSON data."""

    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class SubagentEvent:
    """An event of an agent that was called as a tool; `path` names the tools from the outermost agent down to it."""

    path: tuple[str, ...]
    event: Event


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The end of one run: its answer, why it ended, what it used.

    `pending` are the calls that wait for an answer, `citations` the sources that the answer names.

    `spent` holds `usage`, the cost, and the share of tool definitions in it. `seconds` are those from the prompt to the
    end, without those in which a person was asked.

    With an `output_type`, `output` is the value, if there is one (`has_output`), and `answer` its JSON; `problems` are
    the misfits.

    `limit` is the limit that ended the run, if one did: `answer` is the text so far, "" if there was none. If calls
    wait, it is a limit that was reached as well, and the stop reason stays "calls_pending".
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
    """Log warnings; this is the default listener."""
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
    """Return the listener with its errors logged, and one warning if it takes a second or more or is `async`.

    A listener cannot break a run, but the run waits for it.
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
    """Ignore an event."""
