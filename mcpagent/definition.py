"""`Definition`: what an agent is made of; `Owner`: what its sessions take of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, Protocol, TypeAlias, TypeVar

from mcpagent.approval import CallAnswer, OnApproval
from mcpagent.code_mode.code_options import CodeMode
from mcpagent.events import Emit, Event
from mcpagent.messages import Image, Spent, Text
from mcpagent.models.base import Model
from mcpagent.models.provider_run.provider_tools import ProviderTool
from mcpagent.python.argument_checks import expect
from mcpagent.run import RunContext, RunOptions, Watch
from mcpagent.tool_search.catalog import Catalogs
from mcpagent.tool_search.search_options import ToolSearch
from mcpagent.tools import Tool
from mcpagent.toolsets.sources import AgentSources

_T = TypeVar("_T")

Instructions: TypeAlias = str | Callable[[RunContext[Any]], "str | Awaitable[str]"]
"""What the system prompt begins with; a callable is asked once, when a conversation begins."""


PromptOrAnswers: TypeAlias = str | Sequence[Text | Image | CallAnswer]
"""A `Prompt`, or an answer to each call that waits. One sequence, so that type checkers take a literal list."""


ModelChoice: TypeAlias = str | Model | Sequence[str | Model] | None
"""A name, an object, a chain of these of which the next answers when one cannot, or None for the environment's."""


def expect_model(model: object) -> None:
    """Raises `ConfigError` unless this is a choice of a model."""
    wanted = "a name such as anthropic:claude-sonnet-5-5, a Model, or a list of these"
    expect("model", model, (str, Model, Sequence, NoneType), wanted, holds=_is_choice)


def _is_choice(model: Any) -> bool:
    if isinstance(model, str | Model | None):
        return True
    return bool(model) and all(isinstance(one, str | Model) and not isinstance(one, type) for one in model)


def _resolve(choice: ModelChoice) -> Model:
    from mcpagent.models import resolve_model

    return resolve_model(choice)


@dataclass(frozen=True, slots=True)
class Definition:
    """What an agent is made of. A wrapper, such as a `Recorder`, is a function from one definition to another.

    `resolve` makes the model of a choice. `bind` has the last word on the tools of a session's own, such as
    `search_tools`. `provider_tools` are run by the model's provider. `hears` are told every event, before the agent's
    listener. `watch` begins to stand beside a run, and beside those of agents that it calls.
    With `code_mode` the model calls tools in programs.
    """

    instructions: Instructions
    tool_search: ToolSearch | None
    pinned: tuple[str, ...]
    options: RunOptions
    sources: AgentSources
    resolve: Callable[[ModelChoice], Model] = _resolve
    bind: Callable[[Sequence[Tool]], Sequence[Tool]] = tuple
    provider_tools: tuple[ProviderTool, ...] = ()
    hears: tuple[Emit, ...] = ()
    watch: Watch | None = None
    code_mode: CodeMode | None = None

    def telling(self, last: Emit) -> Emit:
        """Tells all that hear every event, then the last one."""

        def emit(event: Event) -> None:
            for hears in self.hears:
                hears(event)
            last(event)

        return emit


Wrapper: TypeAlias = Callable[[Definition], Definition]
"""What `Agent(wrappers=[...])` takes: it gives the definition back with its model, tools or options replaced.

One with `is_innermost` true, such as a `Replay`, takes the place of model and tools: it is called before the others.
"""


class Owner(Protocol):
    """What a session takes from its agent, which it shares with all the others."""

    @property
    def is_started(self) -> bool:
        """Whether its servers and toolsets are entered."""
        ...

    @property
    def model(self) -> Model:
        """Which answers; a session asks for it at each request, since it may change."""
        ...

    @property
    def definition(self) -> Definition:
        """What the agent is made of."""
        ...

    @property
    def on_approval(self) -> OnApproval | None:
        """Who decides on calls that need approval; None: they end the run."""
        ...

    @property
    def from_toolsets(self) -> tuple[Tool, ...]:
        """What the toolsets listed when the agent started."""
        ...

    @property
    def catalogs(self) -> Catalogs:
        """Its tools by name, with an index, for each thing that its toolsets give a session."""
        ...

    def emit(self, event: Event) -> None:
        """To all that listen to the agent."""
        ...

    def warn(self, text: str) -> None:
        """Reports a warning, once."""
        ...

    def subscribe(self, listener: Emit) -> Callable[[], None]:
        """Hears what servers say, too, until what this gives is called."""
        ...

    def count(self, spent: Spent) -> None:
        """Adds what a run has used to the agent's own sum."""
        ...

    def require_usable(self) -> None:
        """Raises `AgentStateError` unless the agent is started, and can be used in this event loop."""
        ...

    def wait_for(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """What it gives, for code that cannot await."""
        ...

    def _here(self, work: Coroutine[Any, Any, _T]) -> Coroutine[Any, Any, _T]:
        """The work, to be awaited in this event loop and done in the agent's own."""
        ...
