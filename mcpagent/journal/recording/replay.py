"""`Replay`: repeat a recorded run without a network, a key or a process, with the same answers every time."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from mcpagent.errors import AgentStateError, ConfigError, InputError
from mcpagent.history.conversation import INNER, call_digest
from mcpagent.journal.recording.recorded_entries import (
    AgentStarted,
    CallEnded,
    Document,
    ModelAsked,
    ModelReported,
    ModelResponded,
    RequestEntries,
    RunEndEntry,
    RunStarted,
    ToolsListed,
    as_recorded,
    line_data,
    message_digest,
    read_recording,
)
from mcpagent.journal.sessions.run_ended import RunEnded
from mcpagent.models.base import ModelRequest, ModelResponse, ModelSettings, ToolLimits
from mcpagent.models.provider_tools.provider_calls import call_events
from mcpagent.run.agent_run import (
    AgentRun,
    Middleware,
    active_run,
    current_run,
    run_context,
)
from mcpagent.run.run_parts import CallState, Stop
from mcpagent.tool_search.catalog import Listing
from mcpagent.toolsets.definition import Definition
from mcpagent.toolsets.sources import OnChange
from mcpagent.utilities.python.argument_checks import checked
from mcpagent.utilities.text.for_model import for_model
from mcpagent.utilities.text.json_texts import with_texts
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import without_shapes
from mcpagent.values.events import (
    LIMIT_STOPS,
    Emit,
    LimitReached,
    ToolCallFinished,
    ToolCallStarted,
)
from mcpagent.values.messages import Message, Text, ToolCall, ToolDefinition, ToolResult
from mcpagent.values.tools import Tool, ToolOutput

if TYPE_CHECKING:
    from mcpagent.mcp.all_servers import McpServers
    from mcpagent.mcp.server_status import ServerStatus


class RecordingError(InputError):
    """Raised if a replay needs something that is not in the recording; the message has the first difference."""


_NOT_RUN = ("denied", "invalid_arguments")
_OUTCOME_UNKNOWN = "The recording has this call with other arguments. With these, its outcome is unknown."

_NO_TOOLS = ToolsListed(0)

_NEVER_SECONDS = 1e9

_ById: TypeAlias = tuple[str, str]
"""The ID of a call, and the offered name of its tool."""


@dataclass(slots=True)
class _Contents:
    """A recording: requests in order, responses by number, results by call ID and digest, the ends of runs by number.

    `refused` are the results of calls that were denied, or had invalid arguments. `inner` are the calls of programs, by
    the ID of the program's call. `waiting` are calls that waited for an answer.
    """

    requests: list[ModelAsked] = field(default_factory=list[ModelAsked])
    tools: dict[int, ToolsListed] = field(default_factory=dict[int, ToolsListed])
    responses: dict[int, ModelResponded] = field(
        default_factory=dict[int, ModelResponded]
    )
    calls: dict[tuple[str, str], deque[CallEnded]] = field(
        default_factory=dict[tuple[str, str], deque[CallEnded]]
    )
    inner: dict[str, list[CallEnded]] = field(
        default_factory=dict[str, list[CallEnded]]
    )
    refused: dict[_ById, deque[CallEnded]] = field(
        default_factory=dict[_ById, deque[CallEnded]]
    )
    waiting: set[_ById] = field(default_factory=set[_ById])
    ends: dict[int, RunEnded] = field(default_factory=dict[int, RunEnded])
    questions: list[str] = field(default_factory=list[str])
    problems: deque[str] = field(default_factory=deque[str])
    is_small: bool = False

    def take(self, entry: Any) -> None:
        """Add an entry of the file."""
        match entry:
            case ToolsListed():
                self.tools[entry.number] = entry
            case ModelAsked():
                self.requests.append(entry)
            case ModelResponded(
                error=_
            ):  # parsed here, so that an error has the line number
                self.responses[entry.number] = entry
            case CallEnded():
                self._take_call(entry)
            case RunEndEntry(end=end):
                self.ends[entry.run] = end
                waiting = end.result.pending if end.result is not None else ()
                self.waiting |= {(call.call_id, call.tool) for call in waiting}
            case RunStarted():
                self.questions.append(entry.prompt)
            case ModelReported(search_problem=str(problem)):
                self.problems.append(problem)
            case ModelReported(is_small=bool(is_small)):
                self.is_small = is_small

    def _take_call(self, entry: CallEnded) -> None:
        call_id = entry.result.call_id
        if entry.ran:
            self.calls.setdefault((call_id, entry.digest), deque()).append(entry)
        elif entry.result.error in _NOT_RUN:
            by_id = (call_id, entry.result.name)
            self.refused.setdefault(by_id, deque()).append(entry)
        if INNER in call_id:
            self.inner.setdefault(call_id.rpartition(INNER)[0], []).append(entry)

    def result_of(
        self, run: AgentRun, tool: ToolDefinition, arguments: Document
    ) -> CallEnded | None:
        """Remove and return the result of a call that was recorded with these arguments, or None."""
        call = run.context
        asked = (
            one.arguments
            for one in run.conversation.open_calls
            if one.id == call.call_id
        )
        digest = _digest(
            tool, next(asked, arguments)
        )  # a person may have approved other arguments
        by_id = (call.call_id, call.tool_name)
        if found := self.calls.get((call.call_id, digest)):
            return found.popleft()
        if any(
            key[0] == call.call_id and known and known[0].key == tool.key
            for key, known in self.calls.items()
        ):
            return CallEnded(ToolResult(*by_id, (Text(_OUTCOME_UNKNOWN),), "failed"))
        return None

    def report_inner(self, parent: str, emit: Emit) -> None:
        """Emit the events of the calls that the program of this call made, because the replay does not run the
        program.
        """
        for entry in self.inner.pop(parent, ()):
            call = ToolCall(entry.result.call_id, entry.result.name, entry.arguments)
            emit(ToolCallStarted(call, entry.server, parent))
            self.report_inner(call.id, emit)
            for event in (
                *entry.progress,
                ToolCallFinished(call, entry.result, entry.server, parent),
                *entry.events,
            ):
                emit(event)

    def has_result(self, call: CallState) -> bool:
        """Return whether a result for this call's ID was recorded."""
        return any(
            known
            for (call_id, _), known in self.calls.items()
            if call_id == call.call.id
        )

    def refusal_of(self, call: CallState) -> CallEnded | None:
        """Remove and return the result of a call that was refused; None if it ran."""
        if call.tool is None:
            return None
        refused = self.refused.get((call.call.id, call.tool.name))
        if not refused or self.calls.get(
            (call.call.id, _digest(call.tool.definition, call.call.arguments))
        ):
            return None
        return refused.popleft()

    def messages_of(self, place: int) -> tuple[Message, ...]:
        """Return all messages of the request at this index."""
        messages: tuple[Message, ...] = ()
        for entry in self.requests[: place + 1]:
            messages = (*messages[: entry.kept], *entry.messages)
        return messages


def _digest(tool: ToolDefinition, arguments: Document) -> str:
    return call_digest(tool.key, with_texts(arguments, without_shapes))


class Replay:
    """A replay for `RunOptions(wrappers=[Replay("run.jsonl")])`: a recording instead of the model, the servers and all
    tools.

    The agent has the recorded options, unless it sets its own. Every call returns its recorded result, including
    searches, whose ranking may depend on the computer. A request is identified by its digest, a call by its ID, tool
    and arguments. Raises `ConfigError` for a file that is not a recording, and `RecordingError` for a request that was
    not recorded.
    """

    @checked()
    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._contents = _Contents()
        self._start = read_recording(self.path, self._contents.take)
        shown = safe_line(str(self.path), 100)
        self._runs = _ReplayedRuns(self._contents, shown)
        self._model = _ReplayedModel(self._start, self._contents, self._runs, shown)
        self._listings: dict[int, Listing] = {}
        self.functions: list[Tool] = []

    is_innermost = True
    """Applied before other wrappers, so that a `Recorder` in the same list records the replay."""

    @checked()
    def __call__(self, definition: Definition) -> Definition:
        """Return the definition with the recording as its model and sources. Raises `ConfigError` for a second
        `Replay`.
        """
        if isinstance(definition.sources, Replay):
            shown, other = (
                safe_line(str(self.path), 100),
                safe_line(str(definition.sources.path), 100),
            )
            raise ConfigError(
                f"wrappers: two recordings to replay, {other} and {shown}; give one"
            )
        made = as_recorded(definition, self._start)
        self._model.knows_system = (
            bool(definition.instructions) or not self._start.computes_instructions
        )
        return replace(
            made,
            resolve=lambda _: self._model,
            sources=self,
            bind=lambda tools: [
                self._replayed(tool) for tool in definition.bind(tools)
            ],
            middleware=(*definition.middleware, self._runs),
        )

    @property
    def questions(self) -> tuple[str, ...]:
        """The recorded prompts of the user, in order."""
        return tuple(self._contents.questions)

    # -- The interface of `AgentSources` -------------------------------------------------------------------------------

    async def open(
        self, exits: AsyncExitStack, emit: Emit, on_change: OnChange
    ) -> None:
        """Do nothing: a replay starts no servers."""

    async def settle(self, emit: Emit, spent: float) -> float:  # noqa: ARG002
        """Return 0: a replay waits for no servers."""
        return 0.0

    async def enter_lifetimes(
        self, exits: AsyncExitStack, tools: Sequence[Tool]
    ) -> None:
        """Do nothing: a replay starts no tools."""

    async def from_toolsets(self) -> tuple[Tool, ...]:
        """Return the recorded tools, including those of servers, that belong to the next unanswered request."""
        return self._next_listing().tools

    def listing(self, from_toolsets: tuple[Tool, ...]) -> Listing:
        """Return the listing that these tools belong to."""
        known = (
            listing
            for listing in self._listings.values()
            if listing.tools is from_toolsets
        )
        return next(known, None) or self._next_listing()

    def _next_listing(self) -> Listing:
        line = self._model.next_tools
        if line.number not in self._listings:
            self._listings[line.number] = line.listing(
                tuple(self._replayed(one.tool) for one in line.tools)
            )
        return self._listings[line.number]

    @property
    def statuses(self) -> dict[str, ServerStatus]:
        """The recorded statuses of the servers."""
        return dict(self._model.next_tools.servers)

    @property
    def is_listed(self) -> bool:
        """Return False: the tools may differ in each recorded request."""
        return False

    @property
    def servers(self) -> McpServers:
        """Raises `AgentStateError`: a replay starts no servers."""
        raise AgentStateError("a replay starts no servers")

    def _replayed(self, tool: Tool) -> Tool:
        async def run(arguments: dict[str, Any]) -> ToolOutput:
            run = active_run()
            call = run.context
            entry = self._contents.result_of(run, tool.definition, arguments)
            if entry is None:
                return await tool.run(arguments)
            self._contents.report_inner(call.call_id, call.emit)
            for event in entry.progress:
                call.emit(event)
            if entry.agents is not None:  # the usage counts for the limits of the run
                run.count(entry.agents)
            here = tuple(
                replace(waiting, session=call.thread_id) for waiting in entry.waits
            )
            return replace(entry.output, pending=here)

        async def waits(_arguments: dict[str, Any]) -> bool:
            call = run_context()
            return (call.call_id, call.tool_name) in self._contents.waiting

        return replace(tool, run=run, approval=waits)


class _ReplayedRuns(Middleware):
    """Refuses calls that were refused in the recording, and ends a run where the recorded one was cut off."""

    def __init__(self, contents: _Contents, shown: str) -> None:
        self._contents, self._shown = contents, shown
        self._numbers: dict[str, int] = {}
        """The number of each run in the recording, by its ID in the replay."""
        self._stuck: Counter[str] = Counter()
        """By run ID: the number of calls without a result at the end of the recorded run."""

    def begin(self, number: int) -> None:
        """Assign the current run to the recorded run of this number."""
        if (run := current_run()) is not None:
            self._numbers[run.context.run_id] = number

    def _end_of(self, run: AgentRun) -> RunEnded | None:
        return self._contents.ends.get(self._numbers.get(run.context.run_id, 0))

    def _limit_of(self, run: AgentRun) -> LimitReached | None:
        """Return the limit of seconds that ended the recorded run; None if it ended otherwise."""
        end = self._end_of(run)
        if end is not None and end.result is not None:
            limit = end.result.limit
        else:
            limit = None
        if limit is not None and limit.limit == "seconds":
            return limit
        return None

    async def end(self) -> None:
        """End the run if the recorded one was cut off here. Raises `RecordingError` if it was cancelled."""
        run = current_run()
        end = None
        if run is not None:
            end = self._end_of(run)
        if end is not None and end.state == "cancelled":
            raise RecordingError(f"{self._shown}: the recorded run was cancelled here")
        if run is not None and self._limit_of(run) is not None:
            run.tally.clock.end()
            await asyncio.Event().wait()

    @asynccontextmanager
    async def around_turns(self, run: AgentRun) -> AsyncIterator[None]:
        """Stop a run that `end` has ended, with the recorded limit, unless the replay itself has a limit of seconds."""
        clock = run.tally.clock
        try:
            async with (
                nullcontext() if clock.is_limited else clock.limited(_NEVER_SECONDS)
            ):
                yield
        except TimeoutError:
            limit = self._limit_of(run)
            if limit is None:
                raise
            run.tally.reached = run.tally.reached or limit
            run.emit(limit)
            raise Stop(LIMIT_STOPS["seconds"]) from None

    @asynccontextmanager
    async def around_call(self, run: AgentRun, call: CallState) -> AsyncIterator[None]:  # noqa: ARG002
        """Return its recorded result for a refused call, so that it neither runs nor counts."""
        entry = self._contents.refusal_of(call)
        if entry is not None:
            call.settle(entry.output)
        yield

    @asynccontextmanager
    async def around_execution(
        self, run: AgentRun, call: CallState
    ) -> AsyncIterator[None]:
        """End the run at a call without a recorded result, after the other calls of its message have theirs."""
        if self._limit_of(run) is not None and not self._contents.has_result(call):
            call.has_begun = True
            self._contents.report_inner(call.call.id, run.emit)
            self._stuck[run.context.run_id] += 1
            while True:
                if call.batch.unfinished <= self._stuck[run.context.run_id]:
                    break
                await asyncio.sleep(0)
            await self.end()
        yield


class _ReplayedModel:
    """Returns the recorded answer to each request, or raises the recorded error."""

    def __init__(
        self, start: AgentStarted, contents: _Contents, runs: _ReplayedRuns, shown: str
    ) -> None:
        self._start, self._runs = start, runs
        self._contents = contents
        self._shown = shown
        self._places: dict[tuple[str, str], deque[int]] | None = None
        self._asked = RequestEntries(without_shapes)
        self._answered: set[int] = set()
        self._first = 0
        """The index of the first request that was not answered in this replay."""
        self.knows_system = True
        self.name = safe_line(start.model, 200)

    @property
    def next_tools(self) -> ToolsListed:
        """The tools of the first request that was not answered yet; after the last request, those of the last one."""
        requests = self._contents.requests
        line = None
        if requests:
            line = requests[min(self._first, len(requests) - 1)]
        return self._contents.tools.get(
            line.listing if line is not None else 1, _NO_TOOLS
        )

    def search_problem(
        self, _strategy: str, _deferred: Sequence[ToolDefinition]
    ) -> str:
        problems = self._contents.problems
        if len(problems) > 1:
            return problems.popleft()
        if problems:
            return problems[0]
        return "the recording does not say whether the provider could search"

    def search_cost(self) -> float | None:
        return self._start.search_cost

    def tool_limits(self) -> ToolLimits:
        return self._start.tool_limits

    def is_small(self, _settings: ModelSettings) -> bool:
        return self._contents.is_small

    def runs_provider_tools(self) -> bool:
        return True

    def takes_output(self) -> bool:
        return True

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        now = self._asked.entry(request)
        asked = self._recorded(now)
        if asked is None:
            await self._runs.end()
            raise RecordingError(self._problem(now))
        self._runs.begin(asked.run)
        responded = self._contents.responses.get(asked.number) or ModelResponded(
            asked.number
        )
        response = responded.response
        for event in (
            *(call_events(response.message, {}) if response is not None else ()),
            *responded.pieces,
        ):
            emit(event)
        if (error := responded.error) is not None:
            raise error
        if response is None:
            await self._runs.end()
            ends = f"the recording ends at request {asked.number}, which was never answered"
            raise RecordingError(f"{self._shown}: {ends}")
        return response

    def _recorded(self, now: ModelAsked) -> ModelAsked | None:
        """Remove and return the next recorded request with this digest, or None."""
        requests = self._contents.requests
        if self._places is None:
            self._places = {}
            for place, asked in enumerate(requests):
                self._places.setdefault(self._identity(asked), deque()).append(place)
        places = self._places.get(
            self._identity(replace(now, system=without_shapes(now.system)))
        )
        if not places:
            return None
        place = places.popleft()
        self._answered.add(place)
        while self._first in self._answered:
            self._answered.remove(self._first)
            self._first += 1
        return requests[place]

    def _identity(self, asked: ModelAsked) -> tuple[str, str]:
        return asked.digest, for_model(asked.system) if self.knows_system else ""

    def _problem(self, now: ModelAsked) -> str:
        """Return a message with the first difference from the first recorded request that was not answered yet."""
        if self._first >= len(self._contents.requests):
            return f"{self._shown}: the recording ends here; the replay asks for one more answer"
        line = self._contents.requests[self._first]
        then = replace(line, messages=self._contents.messages_of(self._first))
        now = replace(
            now, system=without_shapes(now.system), messages=tuple(self._asked.messages)
        )
        if not self.knows_system:
            now = replace(now, system=then.system)
        version = safe_line(self._start.mcpagent, 20)
        return (
            f"{self._shown}: the replay parts from the recording (mcpagent {version}) "
            f"at request {line.number}: {_difference(then, now)}"
        )

    async def aclose(self) -> None:
        pass


_DIFFERENCES = {
    "definitions": "a tool has another definition",
    "deferred_tools": "another deferred_tools",
    "purpose": "another purpose",
    "output": "another form of the answer (output_type)",
    "tool_choice": "another tool_choice",
}
"""Field of a request -> the text for a difference in it."""


def _difference(then: ModelAsked, now: ModelAsked) -> str:
    """Return the first difference between two requests as text."""
    if then.tools != now.tools:
        return _other_tools(then.tools, now.tools)
    for place, (one, other) in enumerate(
        zip(then.messages, now.messages, strict=False)
    ):
        if message_digest(one, without_shapes) != message_digest(other, without_shapes):
            said, says = (safe_line(_words(message), 60) for message in (one, other))
            if one.role == other.role == "user":
                what = "question"
            else:
                what = f"message {place + 1}"
            return f'another {what}: then "{said}", now "{says}"'
    if len(then.messages) != len(now.messages):
        return f"then {len(then.messages)} messages, now {len(now.messages)}"
    if for_model(then.system) != for_model(now.system):
        return "another system prompt"
    differ = [
        words
        for name, words in _DIFFERENCES.items()
        if getattr(then, name) != getattr(now, name)
    ]
    if differ:
        return differ[0]
    return "it was answered already"


def _other_tools(then: Sequence[str], now: Sequence[str]) -> str:
    less = [name for name in then if name not in now]
    more = [name for name in now if name not in then]
    parts = [
        f"{what} {safe_line(', '.join(names), 80)}"
        for what, names in (("not", less), ("but", more))
        if names
    ]
    if parts:
        return f"other tools are offered: {'; '.join(parts)}"
    return "the tools are offered in another order"


def _words(message: Message) -> str:
    words = (
        part.text if isinstance(part, Text) else json.dumps(line_data(part, str))
        for part in message.parts
    )
    return " ".join(words)
