"""Giving a recorded run again: no network, no key, no process, and the same answers every time."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcpagent.errors import ConfigError, InputError, McpAgentError
from mcpagent.events import Emit, Event
from mcpagent.messages import ToolCall, ToolDefinition
from mcpagent.models.base import Model, ModelRequest, ModelResponse
from mcpagent.pending import PendingCall
from mcpagent.recording.documents import (
    change_of,
    error_of,
    opening_of,
    output_of,
    progress_of,
    request_document,
    response_of,
    setting_of,
)
from mcpagent.recording.shapes import misfit
from mcpagent.recording.tape import SCHEMA, Change, Opening, Outcome, Setting, Tape
from mcpagent.safe_text import safe_line
from mcpagent.secret_shapes import redacted, without_shapes
from mcpagent.tools import Tool

if TYPE_CHECKING:
    from mcpagent.mcp.status import ServerStatus

MAX_BYTES = 500_000_000


class RecordingError(InputError):
    """A replay came to something that is not in the recording; the text says where they part, and how."""


Line = Mapping[str, Any]


@dataclass(slots=True)
class _Contents:
    """A recording as it was read: what comes one after the other, and what calls came to, by id and name."""

    start: Line
    steps: deque[Line] = field(default_factory=deque[Line])
    responses: dict[int, Line] = field(default_factory=dict[int, Line])
    calls: dict[tuple[str, str], deque[Line]] = field(default_factory=dict[tuple[str, str], deque[Line]])
    questions: list[str] = field(default_factory=list[str])
    problems: deque[str] = field(default_factory=deque[str])


class Replay(Tape):
    """`Agent(recording=Replay("run.jsonl"))`: the recording in the place of the model, the servers and all tools.

    The agent is made as the recorded one was, where nothing else is asked for. Every call gives what it gave then, that
    of a search too: how it ranks may hang on what a computer has learned or installed. Raises `ConfigError` for a file
    that is no recording, and `RecordingError` at the first request that differs from the recorded one.
    """

    plays = True

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._contents = _read(self.path)
        self._servers: dict[str, ServerStatus] = {}
        self._opening = Opening()
        self._messages: list[Any] = []
        self._emit: Emit | None = None

    @property
    def model_name(self) -> str:
        """The recorded model's, `provider:model`."""
        return str(self._contents.start["model"])

    @property
    def search_cost(self) -> float | None:
        """What a search cost with it, in cached input tokens; where "auto" begins to search hangs on it."""
        cost = self._contents.start.get("search_cost")
        return float(cost) if isinstance(cost, int | float) else None

    @property
    def questions(self) -> tuple[str, ...]:
        """What the user said, in order."""
        return tuple(self._contents.questions)

    def setting(self, live: Setting) -> Setting:
        then = setting_of(self._contents.start)
        return Setting(
            live.instructions or then.instructions,
            live.search or then.search,
            live.pinned or then.pinned,
            then.max_turns,
        )

    def model(self, live: Callable[[], Model]) -> Model:  # noqa: ARG002 - the live one is never made
        return _ReplayedModel(self)

    def opening(self, live: Opening) -> Opening:  # noqa: ARG002 - see above
        steps = self._contents.steps
        before_request = list(takewhile(lambda step: step["type"] != "request", steps))
        openings = [place for place, step in enumerate(before_request) if step["type"] == "conversation"]
        if openings:  # the last one counts: in those before it nothing was asked
            for _ in range(openings[-1]):
                steps.popleft()
            self._opening = opening_of(steps.popleft())
            self._servers = dict(self._opening.servers)
        return self._opening

    def servers(self, live: dict[str, ServerStatus]) -> dict[str, ServerStatus]:  # noqa: ARG002 - see above
        return self._servers

    def changes(self) -> Sequence[Change]:
        steps = self._contents.steps
        found: list[Change] = []
        while steps and steps[0]["type"] == "tools":
            found.append(change_of(steps.popleft()))
        return found

    async def outcome(self, call: ToolCall, tool: Tool, live: Callable[[], Awaitable[Outcome]]) -> Outcome:
        if tool.external:
            return await live()
        recorded = self._contents.calls.get((call.id, call.name))
        if not recorded:
            return await live()
        line = recorded.popleft()
        if "pending" in line:
            return PendingCall.of(line["pending"], call, tool.definition)
        if self._emit is not None:
            for event in progress_of(line, tool.definition.server or "", tool.definition.original_name):
                self._emit(event)
        return output_of(line)

    # -- requests -----------------------------------------------------------------------------------------------------

    def answer(self, request: ModelRequest, emit: Emit) -> tuple[ModelResponse, list[Event]]:
        """What the model said to this request. Raises `RecordingError`, or what it raised then."""
        self._emit = emit
        line = self._next_request()
        number = int(line["number"])
        recorded = [*self._messages[: line["kept"]], *line["messages"]]
        self._messages = recorded
        now = redacted(request_document(request), without_shapes)
        if difference := _difference({**line, "messages": recorded}, now):
            version = str(self._contents.start.get("mcpagent", ""))
            raise RecordingError(
                f"{self._shown}: the replay parts from the recording (mcpagent {safe_line(version, 20)}) "
                f"at request {number}: {difference}"
            )
        response = self._contents.responses.get(number)
        if response is None:
            raise RecordingError(f"{self._shown}: the recording ends at request {number}, which was never answered")
        if "error" in response:
            raise error_of(response["error"])
        return response_of(response)

    def search_problem(self) -> str:
        problems = self._contents.problems
        return problems.popleft() if problems else "the recording does not say whether the provider could search"

    @property
    def _shown(self) -> str:
        return safe_line(str(self.path), 100)

    def _next_request(self) -> Line:
        steps = self._contents.steps
        while steps and steps[0]["type"] == "tools":
            steps.popleft()
        if not steps:
            raise RecordingError(f"{self._shown}: the recording ends here; the replay asks for one more answer")
        if steps[0]["type"] != "request":
            raise RecordingError(f"{self._shown}: the recording begins a new conversation here; the replay goes on")
        return steps.popleft()


class _ReplayedModel:
    def __init__(self, replay: Replay) -> None:
        self._replay = replay

    @property
    def name(self) -> str:
        return self._replay.model_name

    def search_problem(self, _strategy: str, _deferred: Sequence[ToolDefinition]) -> str:
        return self._replay.search_problem()

    def search_cost(self) -> float | None:
        return self._replay.search_cost

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        response, deltas = self._replay.answer(request, emit)
        for delta in deltas:
            emit(delta)
        return response

    async def aclose(self) -> None:
        pass


def _difference(then: Line, now: Line) -> str:
    """The first thing in which two requests differ, in words; "" where they are the same."""
    if then["tools"] != now["tools"]:
        return _other_tools(then["tools"], now["tools"])
    for place, (one, other) in enumerate(zip(then["messages"], now["messages"], strict=False)):
        if one != other:
            said, says = (safe_line(_words(item), 60) for item in (one, other))
            what = "question" if one["role"] == other["role"] == "user" else f"message {place + 1}"
            return f'another {what}: then "{said}", now "{says}"'
    if len(then["messages"]) != len(now["messages"]):
        return f"then {len(then['messages'])} messages, now {len(now['messages'])}"
    if then["system"] != now["system"]:
        return "another system prompt"
    if then["definitions"] != now["definitions"]:
        return "a tool has another definition"
    for key in ("deferred_tools", "tool_choice"):
        if then[key] != now[key]:
            return f"another {key}"
    return ""


def _other_tools(then: Sequence[str], now: Sequence[str]) -> str:
    less = [name for name in then if name not in now]
    more = [name for name in now if name not in then]
    parts = [f"{what} {safe_line(', '.join(names), 80)}" for what, names in (("not", less), ("but", more)) if names]
    return f"other tools are offered: {'; '.join(parts)}" if parts else "the tools are offered in another order"


def _words(message: Line) -> str:
    texts = [part.get("text") or json.dumps(part, default=str) for part in message["parts"]]
    return " ".join(str(text) for text in texts)


# -- reading ----------------------------------------------------------------------------------------------------------


def _read(path: Path) -> _Contents:
    shown = safe_line(str(path), 120)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"recording {shown}: larger than {MAX_BYTES // 1_000_000} MB")
        with path.open("rb") as file:
            return _parsed(list(_lines(file)), shown)
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
        raise ConfigError(f'recording {shown}: the first line is no start of a recording ("schema": "{SCHEMA}")')
    if first.get("schema") != SCHEMA:
        schema = safe_line(str(first.get("schema")), 60)
        raise ConfigError(f'recording {shown}: written as "{schema}"; this version of mcpagent reads "{SCHEMA}"')
    contents = _Contents(first)
    for number, line in lines:
        try:
            _take(contents, line)
        except (KeyError, TypeError, ValueError, AttributeError, McpAgentError) as error:
            what = safe_line(f"{type(error).__name__}: {error}", 120)
            raise ConfigError(f"recording {shown}:{number}: not a line of a recording ({what})") from None
    return contents


def _take(contents: _Contents, line: Any) -> None:
    """Checks one line by reading it, and puts it where it belongs. What a later version adds is passed over."""
    kind = line["type"]
    if wrong := misfit(kind, line):
        raise ValueError(wrong)
    if kind in _CHECKS:
        _CHECKS[kind](line)
    match kind:
        case "conversation" | "tools" | "request":
            contents.steps.append(line)
        case "response":
            contents.responses[int(line["number"])] = line
        case "call":
            contents.calls.setdefault((line["id"], line["name"]), deque()).append(line)
        case "question":
            contents.questions.append(str(line["text"]))
        case "provider_search":
            contents.problems.append(str(line["problem"]))


_CHECKS: Mapping[str, Callable[[Line], object]] = {
    "start": setting_of,
    "conversation": opening_of,
    "tools": change_of,
    "response": lambda line: error_of(line["error"]) if "error" in line else response_of(line),
    "call": lambda line: None if "pending" in line else output_of(line),
}
