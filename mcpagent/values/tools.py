"""A tool as the runtime has it: its definition bound to the code that runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from types import NoneType, TracebackType
from typing import Any, Literal, Protocol, TypeAlias

from mcpagent.utilities.python.argument_checks import expect, expect_fields, expect_kind
from mcpagent.values.approval import PendingCall, Rule
from mcpagent.values.events import Event
from mcpagent.values.messages import (
    BinaryBlock,
    Content,
    Pinned,
    Text,
    ToolDefinition,
    ToolErrorKind,
    ToolKey,
    ToolsChanged,
    ToolsShown,
    texts_for_model,
)

ToolChange: TypeAlias = ToolsShown | ToolsChanged | Pinned
"""A part that follows a result in the history: tools that it shows, adds or removes, or that it stays when others are
summarised."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The output of a tool: content for the model, changes of the offered tools, events to report.

    `structured` is the result as data, if a server returns that too, to be validated by the tool's `output_schema`.
    `schema_problem` is how it breaks that schema, found by the runtime. `blocks` are stored outside of the
    conversation; the content names them. `pending` is only for the runtime's own
    tools: there is no output yet, the tool waits for answers to these calls and is resumed when they arrive.
    """

    content: tuple[Content, ...]
    error: ToolErrorKind | None = None
    changes: tuple[ToolChange, ...] = ()
    events: tuple[Event, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    structured: Any = None
    schema_problem: str = ""
    blocks: tuple[BinaryBlock, ...] = ()
    pending: tuple[PendingCall, ...] = ()

    @classmethod
    def of_text(cls, text: str, *, error: ToolErrorKind | None = None) -> ToolOutput:
        """Return an output of a single text, as a success or as this kind of error."""
        return cls((Text(text),), error)

    def for_model(self) -> ToolOutput:
        """Return the output with each text cleaned for a model (`text.for_model`); the same one if nothing changes."""
        shown = texts_for_model(self.content)
        if shown is self.content:
            return self
        return replace(self, content=shown)


@dataclass(frozen=True, slots=True)
class ToolReturn:
    """A return value of a tool function, for when a value alone is not enough.

    `state` changes the run's `ToolContext`, by namespace and field, all or nothing, after the function has returned.
    `events` are reported after the call. `metadata` is for the caller, and is never shown to a model.
    """

    value: object = None
    state: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict[str, Mapping[str, Any]]
    )
    events: tuple[Event, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


Run: TypeAlias = Callable[[dict[str, Any]], Awaitable[ToolOutput]]
"""Function that runs a tool with arguments that were validated against its schema. It raises to report a failure."""


NeedsApproval: TypeAlias = Callable[[dict[str, Any]], "bool | Awaitable[bool]"]
"""Predicate over a call's validated arguments: True if it needs approval. An exception is a denial."""


Asks: TypeAlias = Callable[[ToolDefinition, dict[str, Any]], ToolDefinition]
"""Function that returns, as a definition, the server request that a call with these arguments makes; by default the
tool's own."""


ToolCaller: TypeAlias = Literal["direct", "code"]
"""A caller of a tool in code mode: "direct" is the model itself, "code" a program that it writes."""

ALL_CALLERS: tuple[ToolCaller, ...] = ("direct", "code")


@dataclass(frozen=True, slots=True)
class Tool:
    """A definition bound to its code.

    `timeout_seconds` limits one call, None leaves the agent's own limit. `deferred` True hides the tool until it is
    discovered, False offers it from the first request on, None leaves it to the agent's tool search. `ordered` tools
    run alone, in the order of the calls of one message, before later calls are admitted: `add_tool` must have run
    before a call to a tool that it added. With `checks_arguments` the tool's own code checks the arguments, so they are
    not validated against the schema first. The caller runs `external` tools, so their `run` is never used. The agent
    enters `lifetime` when it starts and leaves it when it closes. `asks` is for a tool that gives access to many things
    of many servers: it returns the definition that rules, the approval and the fingerprint refer to for one call.
    `output_schema` is the schema of its results by its server (`ToolOutput.structured`); a result that breaks it is
    reported. Results of more than `large_result_tokens` (estimated) are offloaded; 0: never, None: the agent decides.
    `rules` are those in the entries of the servers that a call may be for; they count for every agent. A tool that
    `instructs` returns instructions for a call without arguments and changes nothing: `add_tool` returns them at once.
    `companions` are the keys of tools that are loaded with it. `leads_to` are the prompts that calls can request: a
    search finds them beside tools. `returns` is the return annotation of a function. `allowed_callers` are those that
    may call it in code mode; without code mode, the model calls every tool directly.
    """

    definition: ToolDefinition
    run: Run
    timeout_seconds: float | None = None
    deferred: bool | None = None
    ordered: bool = False
    checks_arguments: bool = False
    approval: NeedsApproval | None = None
    external: bool = False
    lifetime: AbstractAsyncContextManager[Any] | None = None
    asks: Asks | None = None
    safe_to_repeat: bool = False
    output_schema: dict[str, Any] | None = None
    large_result_tokens: int | None = None
    rules: tuple[Rule, ...] = ()
    instructs: bool = False
    companions: tuple[ToolKey, ...] = ()
    leads_to: tuple[ToolDefinition, ...] = ()
    returns: Any = None
    allowed_callers: tuple[ToolCaller, ...] = ALL_CALLERS

    def asked(self, arguments: dict[str, Any]) -> ToolDefinition:
        """Return the definition that a call with these arguments requests, valid or not, for rules and consent."""
        if self.asks is None:
            return self.definition
        return self.asks(self.definition, arguments)

    def limit(self, usual_seconds: float) -> float:
        """Return the timeout of one call in seconds."""
        if self.timeout_seconds is not None:
            return self.timeout_seconds
        return usual_seconds

    @property
    def name(self) -> str:
        """The name that the model sees; the tool's server may use another (`definition.original_name`)."""
        return self.definition.name


def usable_tool(tool: Tool) -> Tool:
    """Return the tool unchanged. Raises `ConfigError` if a field of it has the wrong type."""
    expect_fields(tool.definition)
    expect_fields(tool)
    label = f'tool "{tool.definition.name}"'
    expect_timeout(label, tool.timeout_seconds)
    expect_callers(label, tool.allowed_callers)
    return tool


def usable_output(tool: Tool, output: ToolOutput) -> ToolOutput:
    """Return the output of a tool's code.

    Raises `ConfigError` if the code, or a wrapper around it, returned anything else.
    """
    expect(
        f'the code of "{tool.name}"',
        output,
        ToolOutput,
        "a ToolOutput",
        hint='; give ToolOutput.of_text("...")',
    )
    return output


def usable_tools(label: str, tools: Sequence[Tool]) -> list[Tool]:
    """Return a copy of the list that a toolset returned. Raises `ConfigError` if it is no list of tools."""
    if not isinstance(tools, list | tuple):
        expect_kind(f"{label}: tools()", tools, list[Tool])
    for tool in list[object](tools):
        if not isinstance(tool, Tool):
            expect_kind(f"{label}: tools()", tools, list[Tool])
    return list(tools)


def expect_timeout(label: str, seconds: float | None) -> None:
    """Raise `ConfigError` unless this is a number of seconds above 0, or None."""
    # Nearly all of thousands of tools have no timeout of their own.
    if seconds is None:
        return
    expect(
        f"{label}: timeout_seconds",
        seconds,
        (int, float, NoneType),
        "a number above 0 or None",
        holds=lambda limit: limit > 0,
    )


def expect_callers(label: str, callers: Sequence[ToolCaller]) -> None:
    """Raise `ConfigError` unless these are "direct", "code" or both."""
    # Nearly all of thousands of tools have the default.
    if callers is ALL_CALLERS:
        return
    place = f"{label}: allowed_callers"
    expect_kind(place, callers, Sequence[ToolCaller])
    what = '"direct", "code" or both, as a list'
    expect(place, callers, (list, tuple), what, holds=bool)


class Toolset(Protocol):
    """A source of bound tools with its own lifecycle: entered before it lists, left when the agent closes.

    A class that has nothing to enter derives from this one and has `tools` alone, which is called before every request
    to the model; `run_context()` returns the run's context. If a toolset has an `id`, a text, its tools keep their
    identity by that and their original names, also after a rename.
    """

    async def tools(self) -> list[Tool]:
        """Return the current tools, the same objects while nothing has changed."""
        ...

    async def __aenter__(self) -> Toolset:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return None
