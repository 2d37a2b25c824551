"""Giving a recorded run again: no network, no key, no process, and the same answers every time."""

from __future__ import annotations

import io
import json
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcpagent.config.bounded_files import LargerError, read_bounded
from mcpagent.definition import Definition, RunOptions
from mcpagent.errors import AgentStateError, ConfigError, InputError, McpAgentError
from mcpagent.events import Emit
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.messages import ToolDefinition, load_messages
from mcpagent.models.base import ModelRequest, ModelResponse, ModelSettings, ToolLimits
from mcpagent.python.argument_checks import checked
from mcpagent.recording.recorded_lines import (
    SCHEMA,
    CallLine,
    Document,
    FailureLine,
    ListingLine,
    RequestLine,
    ResponseLine,
    StartLine,
    WaitingLine,
    as_recorded,
    read,
    request_line,
    results_in,
)
from mcpagent.run import active_run, run_context
from mcpagent.text.for_model import for_model
from mcpagent.text.safe_text import safe_line
from mcpagent.text.secret_shapes import redacted, without_shapes
from mcpagent.tool_search.catalog import Listing
from mcpagent.tools import Tool, ToolOutput
from mcpagent.toolsets.sources import OnChange, ToolSources

if TYPE_CHECKING:
    from mcpagent.mcp.all_servers import McpServers
    from mcpagent.mcp.server_status import ServerStatus

MAX_BYTES = 500_000_000


class RecordingError(InputError):
    """A replay came to something that is not in the recording; the text says where they part, and how."""


_NOT_BY_THE_TOOL = ("denied", "timeout", "cancelled", "failed", "server_down")


@dataclass(slots=True)
class _Contents:
    """A recording as it was read: what comes one after the other, and what calls came to, by id and name."""

    start: StartLine
    steps: deque[ListingLine | RequestLine] = field(default_factory=deque[ListingLine | RequestLine])
    responses: dict[int, ResponseLine | FailureLine] = field(default_factory=dict[int, ResponseLine | FailureLine])
    calls: dict[tuple[str, str], deque[CallLine]] = field(default_factory=dict[tuple[str, str], deque[CallLine]])
    waiting: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    written: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    questions: list[str] = field(default_factory=list[str])
    problems: deque[str] = field(default_factory=deque[str])
    is_small: bool = False

    def take(self, line: Mapping[str, Any]) -> None:
        """Reads one line and puts it where it belongs. What a later version adds is passed over."""
        match line["type"]:
            case "conversation" | "tools":
                self.steps.append(read(ListingLine, line))
            case "request":
                self._take_request(read(RequestLine, line))
            case "response" if "error" in line:
                failure = read(FailureLine, line)
                self.responses[failure.number] = failure
            case "response":
                response = read(ResponseLine, line)
                load_messages([response.message])
                self.responses[response.number] = response
            case "call" if "pending" in line:
                waiting = read(WaitingLine, line)
                self.waiting.add((waiting.id, waiting.name))
            case "call":
                call = read(CallLine, line)
                self.calls.setdefault((call.id, call.name), deque()).append(call)
                self.written[call.id, call.name] += not call.waits
            case "question":
                self.questions.append(read(str, line["text"]))
            case "provider_search":
                self.problems.append(read(str, line["problem"]))
            case "model_size":
                self.is_small = read(bool, line["small"])

    def _take_request(self, line: RequestLine) -> None:
        """A request, with results that no tool gave: of calls that were denied, or ran out of time."""
        self.steps.append(line)
        for result in results_in(load_messages(line.messages)):
            key = (result.id, result.name)
            if self.written[key]:
                self.written[key] -= 1
            elif result.error in _NOT_BY_THE_TOOL:
                self.calls.setdefault(key, deque()).append(result)


class Replay:
    """`RunOptions(wrappers=[Replay("run.jsonl")])`: the recording in the place of the model, the servers and all tools.

    The agent is made as the recorded one was, unless something else is asked for. Every call gives what it gave then,
    that of a search too: how it ranks may hang on what a computer has learned or installed. Raises `ConfigError` for a
    file that is no recording, and `RecordingError` at the first request that differs from the recorded one.
    """

    @checked()
    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._contents = _read(self.path)
        self._model = _ReplayedModel(self._contents, safe_line(str(self.path), 100))
        self._listings: list[tuple[tuple[Tool, ...], Listing]] = []
        self._current: tuple[tuple[Tool, ...], Listing] = ((), Listing())
        self._statuses: Mapping[str, ServerStatus] = {}
        self.functions: list[Tool] = []
        self.secrets: list[str] = []

    is_innermost = True
    """A `Recorder` beside it writes the replay down, whichever comes first in the list."""

    @checked()
    def __call__(self, definition: Definition) -> Definition:
        """The agent with the recording in the place of its model and its sources. Raises `ConfigError` for a second."""
        if isinstance(definition.sources, Replay):
            shown, other = safe_line(str(self.path), 100), safe_line(str(definition.sources.path), 100)
            raise ConfigError(f"wrappers: two recordings to replay, {other} and {shown}; give one")
        made = as_recorded(definition, self._contents.start)
        self._model.knows_system = bool(definition.instructions) or not self._contents.start.computes_instructions
        return replace(
            made,
            resolve=lambda _: self._model,
            sources=self,
            bind=lambda tools: [self._replayed(tool) for tool in definition.bind(tools)],
        )

    @property
    def questions(self) -> tuple[str, ...]:
        """What the user said, in order."""
        return tuple(self._contents.questions)

    # -- in the place of the sources ----------------------------------------------------------------------------------

    async def open(self, exits: AsyncExitStack, emit: Emit, on_change: OnChange) -> None:
        """Starts nothing."""

    async def settle(self, emit: Emit, spent: float) -> float:  # noqa: ARG002
        """Waits for nothing."""
        return 0.0

    async def enter_lifetimes(self, exits: AsyncExitStack, tools: Sequence[Tool]) -> None:
        """Starts nothing."""

    async def from_toolsets(self) -> tuple[Tool, ...]:
        """All that the session that asks next could have, servers' tools too."""
        self._go_on()
        return self._current[0]

    def listing(self, from_toolsets: tuple[Tool, ...]) -> Listing:
        """The listing that these tools are of."""
        self._go_on()
        return next((listing for tools, listing in self._listings if tools is from_toolsets), self._current[1])

    def _go_on(self) -> None:
        """To what there was before the next request."""
        steps = self._contents.steps
        while steps and isinstance(line := steps[0], ListingLine):
            steps.popleft()
            if line.again is not None:
                self._current = self._listings[line.again]
                continue
            tools = tuple(self._replayed(recorded.tool) for recorded in line.tools)
            told = (line.descriptions, line.unavailable, line.expects_deferred, line.connecting)
            self._current = (tools, Listing(tools, *told))
            self._listings.append(self._current)
            self._statuses = line.servers

    @property
    def statuses(self) -> dict[str, ServerStatus]:
        """The servers as they were."""
        self._go_on()
        return dict(self._statuses)

    @property
    def servers(self) -> McpServers:
        """Raises `AgentStateError`: none is started."""
        raise AgentStateError("a replay starts no servers")

    def _replayed(self, tool: Tool) -> Tool:
        async def run(arguments: dict[str, Any]) -> ToolOutput:
            run = active_run()
            call = run.context
            recorded = self._contents.calls.get((call.call_id, call.tool_name))
            if not recorded:
                return await tool.run(arguments)
            line = recorded.popleft()
            for event in line.notifications(tool.definition):
                call.emit(event)
            if line.agents is not None:  # it counts for the limits of the run
                run.count(line.agents)
            here = tuple(replace(waiting, session=call.thread_id) for waiting in line.waits)
            return replace(line.output, pending=here)

        async def waits(_arguments: dict[str, Any]) -> bool:
            call = run_context()
            return (call.call_id, call.tool_name) in self._contents.waiting

        return replace(tool, run=run, approval=waits)


class _ReplayedModel:
    """The recorded model: gives what it said to each request, and raises what it raised."""

    def __init__(self, contents: _Contents, shown: str) -> None:
        self._contents = contents
        self._shown = shown
        self._messages: list[Any] = []
        self.knows_system = True
        self.name = safe_line(contents.start.model, 200)

    def search_problem(self, _strategy: str, _deferred: Sequence[ToolDefinition]) -> str:
        problems = self._contents.problems
        if len(problems) > 1:
            return problems.popleft()
        return problems[0] if problems else "the recording does not say whether the provider could search"

    def search_cost(self) -> float | None:
        return self._contents.start.search_cost

    def tool_limits(self) -> ToolLimits:
        return self._contents.start.tool_limits

    def is_small(self, _settings: ModelSettings) -> bool:
        return self._contents.is_small

    def runs_provider_tools(self) -> bool:
        return True

    def takes_output(self) -> bool:
        return True

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        line = self._next_request()
        self._messages = [*self._messages[: line.kept], *line.messages]
        then = replace(line, messages=self._messages)
        now = RequestLine(**redacted(asdict(request_line(request)), without_shapes))
        if difference := _difference(then, now if self.knows_system else replace(now, system=then.system)):
            version = safe_line(self._contents.start.mcpagent, 20)
            raise RecordingError(
                f"{self._shown}: the replay parts from the recording (mcpagent {version}) "
                f"at request {line.number}: {difference}"
            )
        response = self._contents.responses.get(line.number)
        if response is None:
            ends = f"the recording ends at request {line.number}, which was never answered"
            raise RecordingError(f"{self._shown}: {ends}")
        if isinstance(response, FailureLine):
            raise response.error.error
        for event in response.events:
            emit(event)
        return response.response

    def _next_request(self) -> RequestLine:
        steps = self._contents.steps
        while steps:
            if isinstance(line := steps.popleft(), RequestLine):
                return line
        raise RecordingError(f"{self._shown}: the recording ends here; the replay asks for one more answer")

    async def aclose(self) -> None:
        pass


def _difference(then: RequestLine, now: RequestLine) -> str:
    """The first thing in which two requests differ, in words; "" if they are the same."""
    if then.tools != now.tools:
        return _other_tools(then.tools, now.tools)
    for place, (one, other) in enumerate(zip(then.messages, now.messages, strict=False)):
        if one != other:
            said, says = (safe_line(_words(item), 60) for item in (one, other))
            what = "question" if one["role"] == other["role"] == "user" else f"message {place + 1}"
            return f'another {what}: then "{said}", now "{says}"'
    if len(then.messages) != len(now.messages):
        return f"then {len(then.messages)} messages, now {len(now.messages)}"
    if for_model(then.system) != for_model(now.system):
        return "another system prompt"
    if then.definitions != now.definitions:
        return "a tool has another definition"
    if then.deferred_tools != now.deferred_tools:
        return "another deferred_tools"
    if then.output != now.output:
        return "another form of the answer (output_type)"
    return "another tool_choice" if then.tool_choice != now.tool_choice else ""


def _other_tools(then: Sequence[str], now: Sequence[str]) -> str:
    less = [name for name in then if name not in now]
    more = [name for name in now if name not in then]
    parts = [f"{what} {safe_line(', '.join(names), 80)}" for what, names in (("not", less), ("but", more)) if names]
    return f"other tools are offered: {'; '.join(parts)}" if parts else "the tools are offered in another order"


def _words(message: Document) -> str:
    texts = [part.get("text") or json.dumps(part, default=str) for part in message["parts"]]
    return " ".join(str(text) for text in texts)


# -- reading ----------------------------------------------------------------------------------------------------------


def _read(path: Path) -> _Contents:
    shown = safe_line(str(path), 120)
    try:
        return _parsed(list(_lines(io.BytesIO(read_bounded(path, MAX_BYTES)))), shown)
    except LargerError:
        raise ConfigError(f"recording {shown}: larger than {MAX_BYTES // 1_000_000} MB") from None
    except OSError as error:
        raise ConfigError(
            f"recording {shown}: cannot be read: {error.strerror or error}; give a file that --record wrote"
        ) from None


def _lines(file: Any) -> Iterator[tuple[int, Any]]:
    """Each line's number and document; the last one may be cut off, as a killed run leaves it."""
    for number, raw in enumerate(file, start=1):
        try:
            document = json.loads(raw)
        except (ValueError, RecursionError):
            if raw.endswith(b"\n"):
                yield number, None
            return
        yield number, document


def _parsed(lines: Sequence[tuple[int, Any]], shown: str) -> _Contents:
    first = lines[0][1] if lines else None
    if not isinstance(first, dict) or first.get("type") != "start":
        what = f'the first line is no start of a recording ("schema": "{SCHEMA}")'
        raise ConfigError(f"recording {shown}: {what}; give a file that --record wrote")
    if first.get("schema") != SCHEMA:
        schema = safe_line(str(first.get("schema")), 60)
        raise ConfigError(f'recording {shown}: written as "{schema}"; this version of mcpagent reads "{SCHEMA}"')
    number = 1
    try:
        contents = _Contents(read(StartLine, first))
        as_recorded(_NOTHING, contents.start)
        for number, line in lines:  # noqa: B007 - said in the error
            contents.take(line)
    except (KeyError, TypeError, ValueError, AttributeError, McpAgentError) as error:
        what = safe_line(f"{type(error).__name__}: {error}", 120)
        raise ConfigError(f"recording {shown}:{number}: not a line of a recording ({what})") from None
    return contents


_NOTHING = Definition("", None, (), RunOptions(), ToolSources((), (), None, ServerOptions(), False))
