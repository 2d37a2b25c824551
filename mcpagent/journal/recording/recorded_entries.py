"""The entries of a recording as values and as lines of JSON: requests, responses, calls and results.

A recording is JSON lines, each with a `type` and a `time` in seconds since 1970. Readers ignore unknown types and
fields, which later versions may add. The end of a run has the same format as in a session (`RunEnded`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from io import BytesIO
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

from mcpagent.code_mode.code_options import CodeMode
from mcpagent.errors import ConfigError, McpAgentError
from mcpagent.history.compaction_options import Compaction
from mcpagent.journal.sessions.run_ended import (
    RunEnded,
    ended_from_json,
    error_from_json,
)
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.mcp.server_status import ServerStatus
from mcpagent.models.base import ModelRequest, ModelResponse, RequestPurpose, ToolLimits
from mcpagent.models.provider_tools.provider_tool_values import (
    as_data,
    provider_tools_of,
)
from mcpagent.permissions.approval_policy import ApprovalPolicy
from mcpagent.run.large_results.offloaded_results import LARGE_RESULT_TOKENS
from mcpagent.tool_search.catalog import Listing
from mcpagent.tool_search.search_options import ToolSearch
from mcpagent.toolsets.definition import Definition, RunOptions
from mcpagent.toolsets.sources import ToolSources
from mcpagent.utilities.filesystem.bounded_files import FileTooLargeError, read_bounded
from mcpagent.utilities.python.plain_data import dump_value, load_value
from mcpagent.utilities.text.for_model import for_model
from mcpagent.utilities.text.json_texts import with_texts
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import Redact
from mcpagent.values.approval import PendingCall
from mcpagent.values.events import (
    CustomEvent,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
    ToolsSearched,
)
from mcpagent.values.limits.run_limits import NO_LIMITS, Limits
from mcpagent.values.messages import (
    BinaryBlock,
    Message,
    Spent,
    ToolDefinition,
    ToolResult,
    json_copy,
)
from mcpagent.values.tools import (
    ALL_CALLERS,
    Tool,
    ToolCaller,
    ToolChange,
    ToolOutput,
)

SCHEMA = "mcpagent.recording/3"
MAX_BYTES = 500_000_000

Document = dict[str, Any]
Piece = tuple[Literal["text", "thinking"], str]


# -- The agent's definition --------------------------------------------------------------------------------------------


_OF_ONE_PLACE = ("renderer", "cache_folder", "history", "examples")
"""The fields of `ToolSearch` that a recording omits: functions, and paths on one machine."""


@dataclass(frozen=True, slots=True)
class AgentStarted:
    """The agent's options that affect its requests, except instructions that a function computes.

    `limits` are those of a run, `session_limits` those of a session, both without seconds, because a replay takes no
    time.
    """

    instructions: str
    pinned: tuple[str, ...]
    limits: Limits
    search: Document | None
    model: str
    search_cost: float | None = None
    tool_limits: ToolLimits = field(default_factory=ToolLimits)
    computes_instructions: bool = False
    provider_tools: tuple[Any, ...] = ()
    code_mode: CodeMode | None = None
    session_limits: Limits = NO_LIMITS
    large_result_tokens: int = LARGE_RESULT_TOKENS
    compaction: Compaction | None = field(default_factory=Compaction)
    schema: str = SCHEMA
    mcpagent: str = ""


def agent_started(
    definition: Definition, model: str, search_cost: float | None, limits: ToolLimits
) -> AgentStarted:
    """Return the first entry of a recording of this agent with this model; `limits` are the model's."""
    from importlib.metadata import version

    instructions, options, search = (
        definition.instructions,
        definition.options,
        definition.tool_search,
    )
    if search is not None and callable(search.strategy):
        search = replace(search, strategy="auto")
    return AgentStarted(
        instructions if isinstance(instructions, str) else "",
        definition.pinned,
        replace(options.limits.of_run(), seconds=None),
        _fields_of(search, but=_OF_ONE_PLACE) if search is not None else None,
        model,
        search_cost=search_cost,
        tool_limits=limits,
        computes_instructions=callable(instructions),
        provider_tools=tuple(
            as_data(tool, with_token=False) for tool in definition.provider_tools
        ),
        code_mode=definition.code_mode,
        session_limits=replace(options.session_limits, seconds=None),
        large_result_tokens=LARGE_RESULT_TOKENS
        if options.large_result_tokens is None
        else options.large_result_tokens,
        compaction=options.compaction,
        mcpagent=version("mcpagent"),
    )


def _fields_of(value: Any, but: Sequence[str]) -> Document:
    return {
        item.name: getattr(value, item.name)
        for item in fields(value)
        if item.name not in but
    }


def as_recorded(definition: Definition, line: AgentStarted) -> Definition:
    """Return the definition with the recorded options, unless it has its own. Raises `ConfigError`."""
    if line.search is not None:
        search = ToolSearch(**line.search)
    else:
        search = None
    return replace(
        definition,
        instructions=definition.instructions or for_model(line.instructions),
        tool_search=definition.tool_search or search,
        pinned=definition.pinned or line.pinned,
        options=replace(
            definition.options,
            limits=line.limits,
            session_limits=line.session_limits,
            large_result_tokens=line.large_result_tokens,
            compaction=line.compaction,
        ),
        provider_tools=definition.provider_tools
        or provider_tools_of(line.provider_tools, "provider_tools"),
        code_mode=definition.code_mode or line.code_mode,
    )


# -- Tools -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecordedTool:
    """A tool without its code."""

    definition: ToolDefinition
    deferred: bool | None = None
    checks_arguments: bool = False
    external: bool = False
    allowed_callers: tuple[ToolCaller, ...] = ALL_CALLERS

    @property
    def tool(self) -> Tool:
        """The tool for a replay. It cannot run, because the results of its calls are in the recording."""
        tool = Tool(
            self.definition,
            _run_nothing,
            deferred=self.deferred,
            external=self.external,
            allowed_callers=self.allowed_callers,
        )
        return replace(tool, checks_arguments=self.checks_arguments)


async def _run_nothing(_arguments: dict[str, Any]) -> ToolOutput:
    return ToolOutput.of_text("this tool is only recorded", error="failed")


@dataclass(frozen=True, slots=True)
class ToolsListed:
    """A `Listing` without the code of its tools, and the servers. Requests refer to it by its `number`."""

    number: int
    tools: tuple[RecordedTool, ...] = ()
    descriptions: Mapping[str, str] = field(default_factory=dict[str, str])
    unavailable: Mapping[str, str] = field(default_factory=dict[str, str])
    expects_deferred: bool = False
    connecting: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    servers: Mapping[str, ServerStatus] = field(default_factory=dict[str, ServerStatus])

    def listing(self, tools: tuple[Tool, ...]) -> Listing:
        """Return the listing with `tools` as its tools."""
        told = (
            self.descriptions,
            self.unavailable,
            self.expects_deferred,
            self.connecting,
            self.trusted,
        )
        return Listing(tools, *told)


def tools_listed(
    number: int, listing: Listing, servers: Mapping[str, ServerStatus]
) -> ToolsListed:
    """Return the listing as an entry with this number."""
    tools = [
        RecordedTool(
            it.definition,
            it.deferred,
            it.checks_arguments,
            it.external,
            it.allowed_callers,
        )
        for it in listing.tools
    ]
    return ToolsListed(
        number, tuple(tools), **_fields_of(listing, but=("tools",)), servers=servers
    )


# -- Requests and responses --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The prompt of a run. Runs are numbered from 1."""

    prompt: str
    run: int = 0
    time: float = 0.0


@dataclass(frozen=True, slots=True)
class RunEndEntry:
    """The recorded end of run number `run`; `ended` is the JSON that `ended_to_json` writes."""

    run: int
    ended: Document

    @property
    def end(self) -> RunEnded:
        """The result, or the error that ended the run."""
        return ended_from_json(str(self.run), self.ended)


@dataclass(frozen=True, slots=True)
class ModelAsked:
    """A request to the model. Its messages are the first `kept` ones of the previous request, followed by `messages`.

    `tools` are names. `digest` is that of the request without its system prompt, and identifies its response.
    `definitions` is the digest of the tools' definitions, `output` the schema of a structured answer. `listing` is the
    number of the entry with all tools that the session could have. `known_tools` and `saved_tokens` are those of
    `RequestSent`.
    """

    system: str
    messages: tuple[Message, ...]
    tools: tuple[str, ...]
    deferred_tools: tuple[str, ...]
    definitions: str
    tool_choice: str
    digest: str = ""
    number: int = 0
    kept: int = 0
    output: Document | None = None
    listing: int = 0
    run: int = 0
    purpose: RequestPurpose = "answer"
    known_tools: int = 0
    saved_tokens: int = 0
    time: float = 0.0


class RequestEntries:
    """Creates the entries of requests. Digests of messages in the previous request are reused."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self.messages: Sequence[Message] = ()
        """The messages of the previous request."""
        self._digests = [""]

    def entry(self, request: ModelRequest) -> ModelAsked:
        """Return the entry of a request, with the messages that differ from those of the previous request."""
        same = (
            one is other or one == other
            for one, other in zip(self.messages, request.messages, strict=False)
        )
        kept = sum(takewhile(bool, same))
        self.messages = request.messages
        del self._digests[kept + 1 :]
        for message in request.messages[kept:]:
            self._digests.append(
                digest_of([self._digests[-1], message_digest(message, self._redact)])
            )
        shown = [
            (tool.name, tool.description, tool.parameters)
            for tool in (*request.tools, *request.deferred_tools)
        ]
        asked = ModelAsked(
            request.system,
            tuple(request.messages[kept:]),
            tuple(tool.name for tool in request.tools),
            tuple(tool.name for tool in request.deferred_tools),
            digest_of(line_data(shown, self._redact)),
            request.tool_choice,
            kept=kept,
            output=json_copy(request.output.schema)
            if request.output is not None
            else None,
            purpose=request.purpose,
        )
        told = [
            asked.purpose,
            asked.tools,
            asked.deferred_tools,
            asked.definitions,
            asked.tool_choice,
            asked.output,
        ]
        return replace(
            asked, digest=digest_of([line_data(told, self._redact), self._digests[-1]])
        )


@dataclass(frozen=True, slots=True)
class ModelResponded:
    """The answer to the request of that number, or the error; neither if the run ended before.

    `deltas` are the pieces of the stream: "text" or "thinking", and the text.
    """

    number: int
    response: ModelResponse | None = None
    failure: Document | None = None
    deltas: tuple[Piece, ...] = ()
    seconds: float = 0.0

    @property
    def error(self) -> McpAgentError | None:
        """The error that the model raised; None if it answered."""
        if self.failure is not None:
            return error_from_json(self.failure)
        return None

    @property
    def pieces(self) -> Iterator[TextDelta | ThinkingDelta]:
        """Yield the pieces of the stream as events."""
        for kind, text in self.deltas:
            yield ThinkingDelta(text) if kind == "thinking" else TextDelta(text)


@dataclass(frozen=True, slots=True)
class CallEnded:
    """The result of a call. `digest` is that of its tool and arguments, as the model or a program passed them.

    `key` is the tool's `ToolKey`; `arguments` are those it ran with. `ran` is False for a refused call. `waits` are the
    calls of its program that wait for an answer. `agents` is the usage of agents and programs inside it.
    """

    result: ToolResult
    key: tuple[str | None, str, str] = (None, "", "")
    digest: str = ""
    arguments: Document = field(default_factory=dict[str, Any])
    server: str | None = None
    changes: tuple[ToolChange, ...] = ()
    progress: tuple[ToolProgress, ...] = ()
    events: tuple[CustomEvent | ToolsSearched, ...] = ()
    blocks: tuple[BinaryBlock, ...] = ()
    waits: tuple[PendingCall, ...] = ()
    agents: Spent | None = None
    ran: bool = True
    run: int = 0
    time: float = 0.0

    @property
    def output(self) -> ToolOutput:
        """The output of the tool for a replay."""
        result = self.result
        return ToolOutput(
            result.content,
            result.error,
            self.changes,
            self.events,
            blocks=self.blocks,
            pending=self.waits,
        )


@dataclass(frozen=True, slots=True)
class ModelReported:
    """A fact that the model reported, in one field: another name, why its provider cannot search, or its size."""

    name: str = ""
    search_problem: str | None = None
    is_small: bool | None = None


ENTRIES: Mapping[str, type] = {
    "start": AgentStarted,
    "run_started": RunStarted,
    "tools_listed": ToolsListed,
    "model_asked": ModelAsked,
    "model_responded": ModelResponded,
    "call_ended": CallEnded,
    "model_reported": ModelReported,
    "run_ended": RunEndEntry,
}


TYPES: Mapping[type, str] = {kind: name for name, kind in ENTRIES.items()}


# -- Reading and writing -----------------------------------------------------------------------------------------------


def line_data(value: Any, redact: Redact) -> Any:
    """Return the value as JSON data, with every text in it redacted."""
    return with_texts(dump_value(value), redact)


def digest_of(data: Any) -> str:
    """Return a digest of JSON data."""
    return hashlib.sha256(
        json.dumps(data, sort_keys=True, default=str).encode()
    ).hexdigest()


def message_digest(message: Message, redact: Redact) -> str:
    """Return a digest of a message without run times and secrets, which a recording does not have."""
    parts = (
        replace(part, seconds=0.0) if isinstance(part, ToolResult) else part
        for part in message.parts
    )
    return digest_of(line_data(replace(message, parts=tuple(parts)), redact))


def read_recording(path: Path, take: Callable[[Any], None]) -> AgentStarted:
    """Pass each entry to `take`, and return the first one.

    Raises `ConfigError` for a file that is not a recording, and, with the line number, for an error of `take`.
    """
    shown = safe_line(str(path), 120)
    lines = _documents(path, shown)
    number, first = next(lines, (1, None))
    if not isinstance(first, dict) or first.get("type") != "start":
        what = f'the first line is no start of a recording ("schema": "{SCHEMA}")'
        raise ConfigError(f"recording {shown}: {what}; give a file that --record wrote")
    if first.get("schema") != SCHEMA:
        schema = safe_line(str(first.get("schema")), 60)
        raise ConfigError(
            f'recording {shown}: written as "{schema}"; this version of mcpagent reads "{SCHEMA}"; record it again'
        )
    try:
        start = load_value(AgentStarted, first)
        as_recorded(_NOTHING, start)
        take(start)
        for number, line in lines:  # noqa: B007 - named in the error
            if (kind := ENTRIES.get(line["type"])) is not None:
                take(load_value(kind, line))
    except (KeyError, TypeError, ValueError, AttributeError, McpAgentError) as error:
        what = safe_line(f"{type(error).__name__}: {error}", 120)
        raise ConfigError(
            f"recording {shown}:{number}: not a line of a recording ({what})"
        ) from None
    return start


_NOTHING = Definition(
    "",
    None,
    (),
    RunOptions(),
    ToolSources((), (), None, ServerOptions(), ApprovalPolicy()),
)


def _documents(path: Path, shown: str) -> Iterator[tuple[int, Any]]:
    """Yield each line's number and JSON data. The last line may be incomplete, as after a killed run."""
    try:
        content = read_bounded(path, MAX_BYTES)
    except FileTooLargeError:
        raise ConfigError(
            f"recording {shown}: larger than {MAX_BYTES // 1_000_000} MB"
        ) from None
    except OSError as error:
        raise ConfigError(
            f"recording {shown}: cannot be read: {error.strerror or error}; give a file that --record wrote"
        ) from None
    for number, raw in enumerate(BytesIO(content), start=1):
        try:
            document = json.loads(raw)
        except (ValueError, RecursionError):
            if not raw.endswith(b"\n"):
                return
            document = None
        yield number, document
