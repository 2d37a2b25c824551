"""A tool as the runtime has it: its definition bound to the code that runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, TypeAlias

from mcpagent.events import Event
from mcpagent.messages import Image, Text, ToolDefinition, ToolErrorKind, ToolsChanged, ToolsShown


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What running a tool gave: content for the model, changes of the offered tools, events to tell."""

    content: tuple[Text | Image, ...]
    error: ToolErrorKind | None = None
    changes: tuple[ToolsShown | ToolsChanged, ...] = ()
    events: tuple[Event, ...] = ()

    @classmethod
    def of_text(cls, text: str, *, error: ToolErrorKind | None = None) -> ToolOutput:
        return cls((Text(text),), error)


Run: TypeAlias = Callable[[dict[str, Any]], Awaitable[ToolOutput]]
"""Runs a tool with arguments that were validated against its schema. Raises to report a failure."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A definition bound to its code.

    `timeout_seconds` limits one call, None leaves the agent's own limit. `deferred` False keeps the tool offered
    from the first request on. `ordered` tools run alone, in the order of the calls of one message, before later
    calls are looked at (`add_tool` must have run before a call to what it added is judged). `checks_arguments`: its
    own code judges the arguments, so they are not validated against the schema first.
    """

    definition: ToolDefinition
    run: Run
    timeout_seconds: float | None = None
    deferred: bool = True
    ordered: bool = False
    checks_arguments: bool = False

    @property
    def name(self) -> str:
        return self.definition.name


class Toolset(Protocol):
    """A source of bound tools with a life of its own: entered before it lists, left when the agent closes."""

    async def tools(self) -> list[Tool]: ...

    async def __aenter__(self) -> Toolset: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None: ...
