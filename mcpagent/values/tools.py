"""`Tool`: a definition with the code that runs it, and the values that this code accepts and returns."""

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
"""A part of a message after a result: tools that the call showed, added or removed, or a mark that keeps the result in
a compaction.
"""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The output of a tool: content for the model, changes of the offered tools, and events to report.

    `structured` is the result as data, if the server returns that too; it is validated by the tool's `output_schema`.
    `schema_problem` describes a violation of that schema, which the runtime sets. `blocks` are files stored outside of
    the conversation, to which the content refers. `pending` is only for the runtime's own tools: there is no output
    yet, because these calls wait for answers.
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
        """Return the output with each text cleaned for a model (`text.for_model`); the same object if nothing
        changes.
        """
        shown = texts_for_model(self.content)
        if shown is self.content:
            return self
        return replace(self, content=shown)


@dataclass(frozen=True, slots=True)
class ToolReturn:
    """A return value for a tool function that returns more than a value.

    `state` changes the run's `ToolContext`, by namespace and field, all or nothing, after the function has returned.
    `events` are reported after the call. `metadata` is for the caller, and is never sent to a model.
    """

    value: object = None
    state: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict[str, Mapping[str, Any]]
    )
    events: tuple[Event, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


Run: TypeAlias = Callable[[dict[str, Any]], Awaitable[ToolOutput]]
"""Function that runs a tool with validated arguments. It raises an exception to report a failure."""


NeedsApproval: TypeAlias = Callable[[dict[str, Any]], "bool | Awaitable[bool]"]
"""Predicate over a call's validated arguments: True if the call needs approval. An exception denies the call."""


Asks: TypeAlias = Callable[[ToolDefinition, dict[str, Any]], ToolDefinition]
"""Function that returns the server request of a call with these arguments, as a definition; by default the tool's
own.
"""


ToolCaller: TypeAlias = Literal["direct", "code"]
"""A caller of a tool in code mode: "direct" is the model itself, "code" a program that the model writes."""

ALL_CALLERS: tuple[ToolCaller, ...] = ("direct", "code")


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool definition with its code and options.

    - `timeout_seconds`: limit of one call; None: the agent's limit.
    - `deferred`: True hides the tool until it is discovered, False offers it from the first request on, None leaves it
      to the agent's tool search.
    - `ordered`: calls run alone, in order, before later calls of the message are admitted. So `add_tool` has run before
      a call to a tool that it added.
    - `checks_arguments`: the tool's code validates the arguments, instead of the schema.
    - `external`: the caller runs the tool, `run` is never used.
    - `lifetime`: a context that the agent enters when it starts and exits when it closes.
    - `asks`: for a tool that gives access to many things of many servers. It returns the definition to which rules,
      approval and fingerprint of one call refer.
    - `output_schema`: the server's schema of `ToolOutput.structured`; a violation is reported.
    - `large_result_tokens`: larger results (estimated) are offloaded; 0: never; None: the agent's setting.
    - `rules`: rules in the entries of the servers that a call may reach; they apply for every agent.
    - `instructs`: a call without arguments returns instructions and changes nothing, so `add_tool` returns them at
      once.
    - `companions`: keys of tools that are loaded together with this one.
    - `leads_to`: prompts that calls can request; a search finds them along with tools.
    - `returns`: the return annotation of a function.
    - `allowed_callers`: who may call it in code mode; without code mode, the model calls every tool directly.
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
        """Return the definition of the request that a call with these arguments makes, for rules and consent.

        The arguments need not be valid.
        """
        if self.asks is None:
            return self.definition
        return self.asks(self.definition, arguments)

    def limit(self, usual_seconds: float) -> float:
        """Return the timeout of one call in seconds: the tool's own, else `usual_seconds`."""
        if self.timeout_seconds is not None:
            return self.timeout_seconds
        return usual_seconds

    @property
    def name(self) -> str:
        """The name that the model sees; the tool's server may have another (`definition.original_name`)."""
        return self.definition.name


def usable_tool(tool: Tool) -> Tool:
    """Return the tool unchanged. Raises `ConfigError` if one of its fields has the wrong type."""
    expect_fields(tool.definition)
    expect_fields(tool)
    label = f'tool "{tool.definition.name}"'
    expect_timeout(label, tool.timeout_seconds)
    expect_callers(label, tool.allowed_callers)
    return tool


def usable_output(tool: Tool, output: ToolOutput) -> ToolOutput:
    """Return the output of a tool's code. Raises `ConfigError` if the code, or a wrapper, returned no `ToolOutput`."""
    expect(
        f'the code of "{tool.name}"',
        output,
        ToolOutput,
        "a ToolOutput",
        hint='; give ToolOutput.of_text("...")',
    )
    return output


def usable_tools(label: str, tools: Sequence[Tool]) -> list[Tool]:
    """Return a copy of the list that a toolset returned. Raises `ConfigError` unless it is a list of tools."""
    if not isinstance(tools, list | tuple):
        expect_kind(f"{label}: tools()", tools, list[Tool])
    for tool in list[object](tools):
        if not isinstance(tool, Tool):
            expect_kind(f"{label}: tools()", tools, list[Tool])
    return list(tools)


def expect_timeout(label: str, seconds: float | None) -> None:
    """Raise `ConfigError` unless the value is a number of seconds above 0, or None."""
    # Fast path: among thousands of tools, few have a timeout.
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
    """Raise `ConfigError` unless the value is "direct", "code" or both."""
    # Fast path: among thousands of tools, few change the default.
    if callers is ALL_CALLERS:
        return
    place = f"{label}: allowed_callers"
    expect_kind(place, callers, Sequence[ToolCaller])
    what = '"direct", "code" or both, as a list'
    expect(place, callers, (list, tuple), what, holds=bool)


class Toolset(Protocol):
    """A source of tools with its own lifecycle: the agent enters it before it lists tools, and exits it when it closes.

    Derive from this class if there is nothing to enter, and implement only `tools`, which is called before every
    request to the model; `run_context()` returns the run's context. If a toolset has an `id` (text), its tools are
    identified by it and by their original names, also after a rename.
    """

    async def tools(self) -> list[Tool]:
        """Return the current tools; the same objects as long as nothing has changed."""
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
