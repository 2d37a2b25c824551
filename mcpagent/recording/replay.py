"""`Replay`: a recorded run again, without a network, a key or a process, and with the same answers every time."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from mcpagent.errors import AgentStateError, ConfigError, InputError
from mcpagent.models.base import ModelRequest, ModelResponse, ModelSettings, ToolLimits
from mcpagent.models.provider_run.provider_calls import call_events
from mcpagent.recording.recorded_lines import (
    CallLine,
    Document,
    FailureLine,
    ModelLine,
    QuestionLine,
    RequestLine,
    ResponseLine,
    StartLine,
    ToolsLine,
    WaitingLine,
    arguments_digest,
    as_recorded,
    extend_chain,
    line_data,
    message_digest,
    read_recording,
    request_line,
)
from mcpagent.run.agent_run import AgentRun, Middleware, active_run, run_context
from mcpagent.run.run_parts import CallState
from mcpagent.tool_search.catalog import Listing
from mcpagent.toolsets.definition import Definition
from mcpagent.toolsets.sources import OnChange
from mcpagent.utilities.python.argument_checks import checked
from mcpagent.utilities.text.for_model import for_model
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import without_shapes
from mcpagent.values.events import Emit
from mcpagent.values.messages import Message, Text, ToolDefinition, ToolResult
from mcpagent.values.tools import Tool, ToolOutput

if TYPE_CHECKING:
    from mcpagent.mcp.all_servers import McpServers
    from mcpagent.mcp.server_status import ServerStatus


class RecordingError(InputError):
    """A replay asks for something that is not in the recording; the text names the first difference."""


_NOT_RUN = ("denied", "invalid_arguments")
_NOT_BY_THE_TOOL = (*_NOT_RUN, "timeout", "cancelled", "failed", "server_down")
_OUTCOME_UNKNOWN = "The recording has this call with other arguments. With these, its outcome is unknown."

_NO_TOOLS = ToolsLine(0)

_Identity: TypeAlias = tuple[str, str, str]
"""A request by digests: its tools and options, its messages, and its system prompt."""

_ById: TypeAlias = tuple[str, str]
"""A call by its ID and the offered name of its tool."""


@dataclass(slots=True)
class _Contents:
    """A recording: requests in order, answers by number, results by call ID, tool and digest of the arguments.

    `message_digests` belong to the requests: each stands for all messages of one. `without_tool` are results that no
    tool gave, as of calls that were denied.
    """

    requests: list[RequestLine] = field(default_factory=list[RequestLine])
    message_digests: list[str] = field(default_factory=list[str])
    tools: dict[int, ToolsLine] = field(default_factory=dict[int, ToolsLine])
    responses: dict[int, ResponseLine | FailureLine] = field(
        default_factory=dict[int, ResponseLine | FailureLine]
    )
    calls: dict[tuple[Any, ...], deque[CallLine]] = field(
        default_factory=dict[tuple[Any, ...], deque[CallLine]]
    )
    without_tool: dict[_ById, deque[CallLine]] = field(
        default_factory=dict[_ById, deque[CallLine]]
    )
    waiting: set[_ById] = field(default_factory=set[_ById])
    written: Counter[_ById] = field(default_factory=Counter[_ById])
    questions: list[str] = field(default_factory=list[str])
    problems: deque[str] = field(default_factory=deque[str])
    is_small: bool = False
    _chain: list[str] = field(default_factory=lambda: [""])

    def take(self, line: Any) -> None:
        """Put a line in its place."""
        match line:
            case ToolsLine():
                self.tools[line.number] = line
            case RequestLine():
                self._take_request(line)
            case ResponseLine() | FailureLine():
                self.responses[line.number] = line
            case CallLine():
                self.calls.setdefault(
                    (line.result.call_id, line.key, line.digest), deque()
                ).append(line)
                self.written[line.result.call_id, line.result.name] += not line.waits
            case WaitingLine():
                self.waiting.add((line.id, line.name))
            case QuestionLine():
                self.questions.append(line.text)
            case ModelLine(search_problem=str(problem)):
                self.problems.append(problem)
            case ModelLine(is_small=bool(is_small)):
                self.is_small = is_small

    def _take_request(self, line: RequestLine) -> None:
        """Take a request, and from its messages the results that no tool gave."""
        del self._chain[line.kept + 1 :]
        extend_chain(self._chain, line.messages)
        self.requests.append(line)
        self.message_digests.append(self._chain[-1])
        for result in (
            result for message in line.messages for result in message.tool_results
        ):
            key = (result.call_id, result.name)
            if self.written[key]:
                self.written[key] -= 1
            elif result.error in _NOT_BY_THE_TOOL:
                self.without_tool.setdefault(key, deque()).append(CallLine(result))

    def result_of(
        self, run: AgentRun, tool: ToolDefinition, arguments: Document
    ) -> CallLine | None:
        """Take the result of a call that was recorded with these arguments; None if there is no such call."""
        call = run.context
        asked = (
            one.arguments
            for one in run.conversation.open_calls
            if one.id == call.call_id
        )
        digest = arguments_digest(
            next(asked, arguments), without_shapes
        )  # a person may have approved others
        by_id = (call.call_id, call.tool_name)
        found = self.calls.get(
            (call.call_id, tool.key, digest)
        ) or self.without_tool.get(by_id)
        if found:
            return found.popleft()
        if any(
            known and key[:2] == (call.call_id, tool.key)
            for key, known in self.calls.items()
        ):
            return CallLine(ToolResult(*by_id, (Text(_OUTCOME_UNKNOWN),), "failed"))
        return None

    def refusal_of(self, call: CallState) -> CallLine | None:
        """Take the result of a call that was refused, and did not run; None if it ran."""
        if call.tool is None:
            return None
        digest = arguments_digest(call.call.arguments, without_shapes)
        refused = self.without_tool.get((call.call.id, call.tool.name))
        if not refused or self.calls.get(
            (call.call.id, call.tool.definition.key, digest)
        ):
            return None
        if refused[0].result.error in _NOT_RUN:
            return refused.popleft()
        return None

    def messages_of(self, place: int) -> tuple[Message, ...]:
        """Put the messages of a request together."""
        messages: tuple[Message, ...] = ()
        for line in self.requests[: place + 1]:
            messages = (*messages[: line.kept], *line.messages)
        return messages


class Replay:
    """`RunOptions(wrappers=[Replay("run.jsonl")])`: a recording in place of the model, the servers and all tools.

    The agent has the recorded options, unless it has its own. Every call returns its recorded result, a search too: its
    ranking may depend on one computer. A request is found by its digest, a call by its ID, tool and arguments. Raises
    `ConfigError` for a file that is no recording, and `RecordingError` at a request that was not recorded.
    """

    @checked()
    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._contents = _Contents()
        self._start = read_recording(self.path, self._contents.take)
        self._model = _ReplayedModel(
            self._start, self._contents, safe_line(str(self.path), 100)
        )
        self._listings: dict[int, Listing] = {}
        self.functions: list[Tool] = []

    is_innermost = True
    """A `Recorder` in the same list records the replay, whichever comes first."""

    @checked()
    def __call__(self, definition: Definition) -> Definition:
        """Put the recording in place of the model and the sources. Raises `ConfigError` for a second one."""
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
            middleware=(*definition.middleware, _ReplayedRefusals(self._contents)),
        )

    @property
    def questions(self) -> tuple[str, ...]:
        """The questions of the user, in order."""
        return tuple(self._contents.questions)

    # -- in place of the sources ----------------------------------------------------------------------------------

    async def open(
        self, exits: AsyncExitStack, emit: Emit, on_change: OnChange
    ) -> None:
        """Start nothing."""

    async def settle(self, emit: Emit, spent: float) -> float:  # noqa: ARG002
        """Wait for nothing."""
        return 0.0

    async def enter_lifetimes(
        self, exits: AsyncExitStack, tools: Sequence[Tool]
    ) -> None:
        """Start nothing."""

    async def from_toolsets(self) -> tuple[Tool, ...]:
        """Return the tools of the session that asks next, also those of servers."""
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
        """The recorded states of the servers."""
        return dict(self._model.next_tools.servers)

    @property
    def servers(self) -> McpServers:
        """Raises `AgentStateError`: a replay starts no servers."""
        raise AgentStateError("a replay starts no servers")

    def _replayed(self, tool: Tool) -> Tool:
        async def run(arguments: dict[str, Any]) -> ToolOutput:
            run = active_run()
            call = run.context
            line = self._contents.result_of(run, tool.definition, arguments)
            if line is None:
                return await tool.run(arguments)
            for event in line.progress:
                call.emit(event)
            if line.agents is not None:  # it counts for the limits of the run
                run.count(line.agents)
            here = tuple(
                replace(waiting, session=call.thread_id) for waiting in line.waits
            )
            return replace(line.output, pending=here)

        async def waits(_arguments: dict[str, Any]) -> bool:
            call = run_context()
            return (call.call_id, call.tool_name) in self._contents.waiting

        return replace(tool, run=run, approval=waits)


class _ReplayedRefusals(Middleware):
    """Refuses the calls that were refused when they were recorded, so that they neither run nor count."""

    def __init__(self, contents: _Contents) -> None:
        self._contents = contents

    @asynccontextmanager
    async def around_call(self, run: AgentRun, call: CallState) -> AsyncIterator[None]:  # noqa: ARG002
        line = self._contents.refusal_of(call)
        if line is not None:
            call.settle(line.output)
        yield


class _ReplayedModel:
    """Returns the recorded answer to each request, or raises the recorded error."""

    def __init__(self, start: StartLine, contents: _Contents, shown: str) -> None:
        self._start = start
        self._contents = contents
        self._shown = shown
        self._places: dict[_Identity, deque[int]] | None = None
        self._last: tuple[Message, ...] = ()
        self._chain = [""]
        self._answered: set[int] = set()
        self._first = 0
        """The place of the first request without an answer in this replay."""
        self.knows_system = True
        self.name = safe_line(start.model, 200)

    @property
    def next_tools(self) -> ToolsLine:
        """The tools of the first request without an answer; behind the last request, those of the last one."""
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
        line = self._recorded(request_line(request))
        response = self._contents.responses.get(line.number)
        if response is None:
            ends = (
                f"the recording ends at request {line.number}, which was never answered"
            )
            raise RecordingError(f"{self._shown}: {ends}")
        if isinstance(response, FailureLine):
            raise response.error
        for event in (*call_events(response.response.message, {}), *response.pieces):
            emit(event)
        return response.response

    def _recorded(self, now: RequestLine) -> RequestLine:
        """Find the recorded request with this digest. Raises `RecordingError` if none is left."""
        requests = self._contents.requests
        if self._places is None:
            self._places = {}
            for place, (line, digest) in enumerate(
                zip(requests, self._contents.message_digests, strict=True)
            ):
                self._places.setdefault(self._identity(line, digest), deque()).append(
                    place
                )
        now = replace(now, system=without_shapes(now.system))
        places = self._places.get(self._identity(now, self._chained(now.messages)))
        if not places:
            raise RecordingError(self._problem(now))
        place = places.popleft()
        self._answered.add(place)
        while self._first in self._answered:
            self._answered.remove(self._first)
            self._first += 1
        return requests[place]

    def _chained(self, messages: tuple[Message, ...]) -> str:
        """Return the digest of all messages; of those that the last request had too, it is known."""
        kept = sum(
            1
            for _ in takewhile(
                lambda pair: pair[0] is pair[1], zip(self._last, messages, strict=False)
            )
        )
        del self._chain[kept + 1 :]
        self._last = messages
        return extend_chain(self._chain, messages[kept:])[-1]

    def _identity(self, line: RequestLine, messages: str) -> _Identity:
        return (
            line.digest(),
            messages,
            for_model(line.system) if self.knows_system else "",
        )

    def _problem(self, now: RequestLine) -> str:
        """Name the first difference from the first recorded request without an answer."""
        if self._first >= len(self._contents.requests):
            return f"{self._shown}: the recording ends here; the replay asks for one more answer"
        line = self._contents.requests[self._first]
        then = replace(line, messages=self._contents.messages_of(self._first))
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
"""By field of a request."""


def _difference(then: RequestLine, now: RequestLine) -> str:
    """Return the first difference of two requests, in words."""
    if then.tools != now.tools:
        return _other_tools(then.tools, now.tools)
    for place, (one, other) in enumerate(
        zip(then.messages, now.messages, strict=False)
    ):
        if message_digest(one) != message_digest(other):
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
