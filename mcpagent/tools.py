"""A tool as the runtime has it: its definition bound to the code that runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, TypeAlias

from mcpagent.events import Event
from mcpagent.messages import Image, Text, ToolDefinition, ToolErrorKind, ToolsChanged, ToolsShown
from mcpagent.run_context import RunContext


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What running a tool gave: content for the model, changes of the offered tools, events to tell."""

    content: tuple[Text | Image, ...]
    error: ToolErrorKind | None = None
    changes: tuple[ToolsShown | ToolsChanged, ...] = ()
    events: tuple[Event, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def of_text(cls, text: str, *, error: ToolErrorKind | None = None) -> ToolOutput:
        return cls((Text(text),), error)


@dataclass(frozen=True, slots=True)
class ToolReturn:
    """What a tool function may return where a value alone is not enough.

    `state` changes the run's `ToolContext`, by namespace and field, all or nothing, after the function has returned.
    `events` are told after the call. `metadata` is kept for the caller, never shown to a model.
    """

    value: object = None
    state: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    events: tuple[Event, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


Run: TypeAlias = Callable[[dict[str, Any]], Awaitable[ToolOutput]]
"""Runs a tool with arguments that were validated against its schema. Raises to report a failure."""


NeedsApproval: TypeAlias = Callable[[RunContext[Any], dict[str, Any]], bool | Awaitable[bool]]
"""Whether a call with these (valid) arguments must be approved; what it raises counts as a denial."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A definition bound to its code.

    `timeout_seconds` limits one call, None leaves the agent's own limit. `deferred` True hides the tool until it is
    discovered, False offers it from the first request on, None leaves it to the agent's tool search. `ordered` tools
    run alone, in the order of the calls of one message, before later calls are looked at (`add_tool` must have run
    before a call to what it added is judged). `checks_arguments`: its own code judges the arguments, so they are not
    validated against the schema first. `external` ones are run by the caller: `run` is never used. `lifetime` is
    entered when the agent that has the tool starts, and left when it closes.
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

    @property
    def name(self) -> str:
        return self.definition.name


class Toolset(Protocol):
    """A source of bound tools with a life of its own: entered before it lists, left when the agent closes.

    `tools` is asked before every request to the model; `run_context()` says for which run.
    """

    async def tools(self) -> list[Tool]: ...

    async def __aenter__(self) -> Toolset: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None: ...
