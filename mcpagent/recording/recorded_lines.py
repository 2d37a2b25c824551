"""The lines of a recording as values: pydantic reads them, and `asdict` gives them as JSON data.

A recording is JSON lines, each with a `type`: `start` (with `schema`), `question`, `conversation` (the tools and the
servers there are at first), `tools` (those from then on), `provider_search`, `request`, `response` and `call`. A line
may hold more than is declared here, which a later version adds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from mcpagent.approval import PendingCall
from mcpagent.code_mode.code_options import CodeMode
from mcpagent.definition import Definition
from mcpagent.errors import ContextOverflowError, CredentialsError, McpAgentError, ModelError
from mcpagent.events import CustomEvent, Event, TextDelta, ThinkingDelta, ToolProgress, ToolsSearched
from mcpagent.large_results.setting_aside import LARGE_RESULT_TOKENS
from mcpagent.limits.run_limits import KINDS, Limits
from mcpagent.mcp.server_status import ServerStatus
from mcpagent.messages import (
    BinaryBlock,
    Image,
    Message,
    Spent,
    Text,
    ToolDefinition,
    ToolErrorKind,
    ToolKey,
    ToolsChanged,
    ToolsShown,
    Usage,
    dump_messages,
    json_copy,
    load_messages,
)
from mcpagent.models.base import ModelRequest, ModelResponse, ResponseStop, ToolLimits
from mcpagent.models.provider_run.provider_calls import call_events
from mcpagent.models.provider_run.provider_tools import as_data, provider_tools_of
from mcpagent.text.for_model import for_model
from mcpagent.tool_search.catalog import Listing
from mcpagent.tool_search.search_options import ToolSearch
from mcpagent.tools import Tool, ToolOutput
from mcpagent.window.how_far import Compaction

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SCHEMA = "mcpagent.recording/1"

Document = dict[str, Any]
Found = TypeVar("Found")


def read(kind: type[Found], data: object) -> Found:
    """The data as a value of this kind. Raises `ValueError` with the place of what does not fit it."""
    from pydantic import ValidationError

    try:
        value: Found = _adapter(cast("Any", kind)).validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    return value


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _shared(kind: Any, value: Any) -> Document:
    """What the value has of the fields of another kind."""
    return {item.name: getattr(value, item.name) for item in fields(kind) if hasattr(value, item.name)}


# -- how the agent is made --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecordedSearch:
    """A `ToolSearch` without what is code, which who replays gives again, and without what lies on one machine."""

    enabled: bool | str = True
    auto_tokens: int | None = None
    strategy: str = "auto"
    execution: str = "auto"
    load: str | None = None
    max_results: int = 5
    extra_tools: tuple[str, ...] = ()
    eager_tools: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    scope: str = "all"
    on_direct_call: str | None = None
    prefetch: int | None = None


@dataclass(frozen=True, slots=True)
class StartLine:
    """How the agent was made, as far as its requests depend on it; instructions that are computed are not in it.

    `limits` are those of a run, and `session_limits` of a session, of seconds nothing: a replay takes none.
    """

    instructions: str
    pinned: tuple[str, ...]
    limits: Mapping[str, int | float]
    search: RecordedSearch | None
    model: str
    search_cost: float | None = None
    tool_limits: ToolLimits = field(default_factory=ToolLimits)
    computes_instructions: bool = False
    provider_tools: tuple[Any, ...] = ()
    code_mode: CodeMode | None = None
    session_limits: Mapping[str, int | float] = field(default_factory=dict[str, int | float])
    large_result_tokens: int = LARGE_RESULT_TOKENS
    compaction: Compaction | None = field(default_factory=Compaction)
    schema: str = SCHEMA
    mcpagent: str = ""


def start_line(definition: Definition, model: str, search_cost: float | None, limits: ToolLimits) -> StartLine:
    """The first line of a recording of that agent, whose model this is."""
    from importlib.metadata import version

    search, instructions = definition.tool_search, definition.instructions
    large = definition.options.large_result_tokens
    kept = {name: value for name, value in _shared(RecordedSearch, search).items() if not callable(value)}
    return StartLine(
        instructions if isinstance(instructions, str) else "",
        definition.pinned,
        replace(definition.options.limits.of_run(), seconds=None).given(),
        None if search is None else RecordedSearch(**kept),
        model,
        search_cost=search_cost,
        tool_limits=limits,
        computes_instructions=callable(instructions),
        provider_tools=tuple(as_data(tool, with_token=False) for tool in definition.provider_tools),
        code_mode=definition.code_mode,
        session_limits=replace(definition.options.session_limits, seconds=None).given(),
        large_result_tokens=LARGE_RESULT_TOKENS if large is None else large,
        compaction=definition.options.compaction,
        mcpagent=version("mcpagent"),
    )


def as_recorded(definition: Definition, line: StartLine) -> Definition:
    """The definition made as the recorded one was, unless something else is asked for. Raises `ConfigError`."""
    search = None if line.search is None else ToolSearch(**_shared(RecordedSearch, line.search))
    return replace(
        definition,
        instructions=definition.instructions or for_model(line.instructions),
        tool_search=definition.tool_search or search,
        pinned=definition.pinned or line.pinned,
        options=replace(
            definition.options,
            limits=_recorded_limits(line.limits),
            session_limits=_recorded_limits(line.session_limits),
            large_result_tokens=line.large_result_tokens,
            compaction=line.compaction,
        ),
        provider_tools=definition.provider_tools or provider_tools_of(line.provider_tools, "provider_tools"),
        code_mode=definition.code_mode or line.code_mode,
    )


def _recorded_limits(recorded: Mapping[str, int | float]) -> Limits:
    known: dict[str, Any] = {kind: recorded[kind] for kind in KINDS if kind in recorded}
    return Limits(**known)


# -- tools ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecordedTool(ToolDefinition):
    """A tool's definition, and what the runtime is told of it besides."""

    deferred: bool | None = None
    checks_arguments: bool = False
    external: bool = False

    @property
    def definition(self) -> ToolDefinition:
        """The definition alone."""
        return ToolDefinition(**_shared(ToolDefinition, self))

    @property
    def tool(self) -> Tool:
        """A tool that cannot be run: what its calls gave is in the recording."""
        tool = Tool(self.definition, _run_nothing, deferred=self.deferred, external=self.external)
        return replace(tool, checks_arguments=self.checks_arguments)


async def _run_nothing(_arguments: dict[str, Any]) -> ToolOutput:
    return ToolOutput.of_text("this tool is only recorded", error="failed")


@dataclass(frozen=True, slots=True)
class ListingLine:
    """What a session could have at one moment: all tools, and the servers that they came from; see `Listing`.

    `again`: the same as in the line of these that was the `again`-th, counted from 0; nothing else is given then.
    """

    tools: tuple[RecordedTool, ...] = ()
    servers: Mapping[str, ServerStatus] = field(default_factory=dict[str, ServerStatus])
    descriptions: Mapping[str, str] = field(default_factory=dict[str, str])
    unavailable: Mapping[str, str] = field(default_factory=dict[str, str])
    expects_deferred: bool = False
    connecting: tuple[str, ...] = ()
    again: int | None = None


def listing_line(listing: Listing, servers: Mapping[str, ServerStatus]) -> ListingLine:
    """The listing as a line of type `conversation` or `tools`."""
    shared = {**_shared(ListingLine, listing), "servers": servers}
    tools = (
        RecordedTool(**_shared(RecordedTool, tool) | _shared(ToolDefinition, tool.definition)) for tool in listing.tools
    )
    return ListingLine(**shared | {"tools": tuple(tools)})


# -- requests and responses -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RequestLine:
    """Everything that the model is sent: `messages` behind the first `kept` of the request before, tools by name, and
    one fingerprint of their definitions. `output` is the schema of the answer, if it is to be data."""

    system: str
    messages: list[Document]
    tools: list[str]
    deferred_tools: list[str]
    definitions: str
    tool_choice: str
    number: int = 0
    kept: int = 0
    output: Document | None = None


def request_line(request: ModelRequest, number: int = 0, kept: int = 0) -> RequestLine:
    """The request without what differs from run to run: how long calls took."""
    shown = [(tool.name, tool.description, tool.parameters) for tool in (*request.tools, *request.deferred_tools)]
    messages = dump_messages(request.messages[kept:])
    for part in (part for message in messages for part in message["parts"]):
        part.pop("seconds", None)
    return RequestLine(
        request.system,
        messages,
        [tool.name for tool in request.tools],
        [tool.name for tool in request.deferred_tools],
        hashlib.sha256(json.dumps(shown, sort_keys=True, default=str).encode()).hexdigest(),
        request.tool_choice,
        number=number,
        kept=kept,
        output=json_copy(request.output.schema) if request.output is not None else None,
    )


@dataclass(frozen=True, slots=True)
class ResponseLine:
    """What the model answered; `deltas` are the pieces in which it came, ("text" or "thinking", words)."""

    number: int
    message: Document
    deltas: tuple[tuple[Literal["text", "thinking"], str], ...]
    usage: Usage
    stop: ResponseStop
    dollars: float | None

    @property
    def response(self) -> ModelResponse:
        """The answer as a value. Raises `InputError` if its message is none."""
        [message] = load_messages([self.message])
        return ModelResponse(message, self.usage, self.stop, self.dollars)

    @property
    def events(self) -> list[Event]:
        """The pieces as they are emitted, after what the provider ran."""
        pieces = (ThinkingDelta(text) if kind == "thinking" else TextDelta(text) for kind, text in self.deltas)
        return [*call_events(self.response.message, {}), *pieces]


def response_line(number: int, response: ModelResponse, deltas: Sequence[TextDelta | ThinkingDelta]) -> ResponseLine:
    """The answer to the request of that number."""
    [message] = dump_messages([response.message])
    pieces: list[tuple[Literal["text", "thinking"], str]] = [
        ("thinking" if isinstance(delta, ThinkingDelta) else "text", delta.text) for delta in deltas
    ]
    return ResponseLine(number, message, tuple(pieces), response.usage, response.stop, response.dollars)


@dataclass(frozen=True, slots=True)
class RecordedError:
    """Why the model gave no answer; `kind` is "credentials" or "model"."""

    kind: str
    message: str
    overflow: bool = False
    provider: str = ""
    status: int | None = None
    retryable: bool = False

    @property
    def error(self) -> McpAgentError:
        """What was raised then."""
        if self.kind == "credentials":
            return CredentialsError(self.message)
        kind = ContextOverflowError if self.overflow else ModelError
        return kind(self.message, provider=self.provider, status=self.status, retryable=self.retryable)


@dataclass(frozen=True, slots=True)
class FailureLine:
    """A request that was not answered."""

    number: int
    error: RecordedError


def failure_line(number: int, error: ModelError | CredentialsError) -> FailureLine:
    """The failure of the request of that number."""
    kind = "credentials" if isinstance(error, CredentialsError) else "model"
    about = {name: getattr(error, name) for name in ("provider", "status", "retryable") if kind == "model"}
    return FailureLine(
        number, RecordedError(kind, str(error), overflow=isinstance(error, ContextOverflowError), **about)
    )


# -- calls ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecordedShown:
    """A `ToolsShown`."""

    shown: tuple[str, ...]
    keys: tuple[ToolKey, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """A `ToolsChanged`, as far as a tool's result has it."""

    added: tuple[RecordedTool, ...]
    removed: tuple[str, ...]
    was: tuple[tuple[int, RecordedTool], ...] = ()


@dataclass(frozen=True, slots=True)
class CallLine:
    """What a call gave; `progress` is done, total and message of each notification. `waits`: the calls of its program
    that waited for an answer, where it gave nothing yet. `agents`: what was taken inside of it, by agents and programs.
    """

    id: str
    name: str
    content: tuple[Text | Image, ...]
    error: ToolErrorKind | None
    progress: tuple[tuple[float, float | None, str], ...]
    events: tuple[CustomEvent | ToolsSearched, ...]
    changes: tuple[RecordedShown | RecordedChange, ...]
    blocks: tuple[BinaryBlock, ...] = ()
    waits: tuple[PendingCall, ...] = ()
    agents: Spent | None = None

    @property
    def output(self) -> ToolOutput:
        """What the tool gave, as a value."""
        changes = tuple(map(_change, self.changes))
        return ToolOutput(self.content, self.error, changes, self.events, blocks=self.blocks, pending=self.waits)

    def notifications(self, tool: ToolDefinition) -> list[ToolProgress]:
        """The progress that the tool told of."""
        about = (tool.server or "", tool.original_name)
        return [ToolProgress(*about, done, total, message) for done, total, message in self.progress]


def _change(change: RecordedShown | RecordedChange) -> ToolsShown | ToolsChanged:
    if isinstance(change, RecordedShown):
        return ToolsShown(change.shown, change.keys)
    was = tuple((place, tool.definition) for place, tool in change.was)
    return ToolsChanged(tuple(tool.definition for tool in change.added), change.removed, was)


def output_document(output: ToolOutput, progress: Sequence[ToolProgress]) -> Document:
    """What a call gave, as the fields of a line of type `call` beside `id` and `name`."""
    return {
        "content": [asdict(part) for part in output.content],
        "error": output.error,
        "progress": [[item.progress, item.total, item.message] for item in progress],
        "events": [
            {"kind": "search" if isinstance(item, ToolsSearched) else "custom", **asdict(item)}
            for item in output.events
            if isinstance(item, CustomEvent | ToolsSearched)
        ],
        "changes": [
            {"shown": change.names, "keys": change.keys}
            if isinstance(change, ToolsShown)
            else {name: asdict(change)[name] for name in ("added", "removed", "was")}
            for change in output.changes
        ],
        **({"blocks": [asdict(block) for block in output.blocks]} if output.blocks else {}),
        **({"waits": [call.to_json() for call in output.pending]} if output.pending else {}),
    }


@dataclass(frozen=True, slots=True)
class WaitingLine:
    """A call that a run ended with, since somebody else has to answer it."""

    id: str
    name: str
    pending: Literal["approval", "external"]


def results_in(messages: Sequence[Message]) -> list[CallLine]:
    """The results of calls in messages, as what the calls gave."""
    results = [result for message in messages for result in message.tool_results]
    return [
        CallLine(one.call_id, one.name, one.content, one.error, progress=(), events=(), changes=()) for one in results
    ]
