"""`RunOptions`: options of runs; `Definition`: the components of an agent; `Owner`: an agent as its sessions see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any, Protocol, TypeAlias, TypeVar

from mcpagent.code_mode.code_options import CodeMode
from mcpagent.history.compaction_options import Compaction
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.models.base import Model, ModelSettings
from mcpagent.models.provider_tools.provider_tool_values import ProviderTool
from mcpagent.permissions.approval_policy import ApprovalPolicy
from mcpagent.run.agent_run import (
    TOOL_TIMEOUT_SECONDS,
    Middleware,
    Observe,
    Pipeline,
    RunContext,
)
from mcpagent.tool_search.catalog import Catalogs
from mcpagent.tool_search.search_options import ToolSearch
from mcpagent.toolsets.sources import AgentSources
from mcpagent.utilities.python.argument_checks import expect, expect_fields
from mcpagent.utilities.python.unknown_arguments import answers_unknown_arguments
from mcpagent.values.approval import CallAnswer
from mcpagent.values.events import Emit, Event
from mcpagent.values.limits.run_limits import NO_LIMITS, Limits
from mcpagent.values.messages import Content, File, Spent
from mcpagent.values.tools import Tool

_T = TypeVar("_T")

Instructions: TypeAlias = str | Callable[[RunContext[Any]], "str | Awaitable[str]"]
"""The beginning of the system prompt; a callable is called once, when a conversation starts."""


PromptOrAnswers: TypeAlias = str | Sequence[str | Content | File | CallAnswer]
"""A `Prompt`, or answers to all pending calls. A single sequence type, so that type checkers accept a literal list."""


ModelChoice: TypeAlias = str | Model | Sequence[str | Model] | None
"""A model: a name, an object, or a list in which the next one answers if one fails; None for the environment's
model.
"""


def expect_model(model: object) -> None:
    """Raise `ConfigError` unless the value is a valid choice of a model."""
    wanted = "a name such as anthropic:claude-sonnet-5-5, a Model, or a list of these"
    expect("model", model, (str, Model, Sequence, NoneType), wanted, holds=_is_choice)


def _is_choice(model: Any) -> bool:
    if isinstance(model, str | Model | None):
        return True
    return bool(model) and all(
        isinstance(one, str | Model) and not isinstance(one, type) for one in model
    )


def _resolve(choice: ModelChoice) -> Model:
    from mcpagent.models import resolve_model

    return resolve_model(choice)


@answers_unknown_arguments
@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of an agent's runs: limits and settings of an answer, options that its servers share, and wrappers.

    - `limits` apply to a run with all agents that it calls as tools, `session_limits` to all runs of a session
      together, also in other processes. A reached limit ends the run (`StopReason`, `LimitReached`). After turns or
      tool calls are used up, the model must answer without a call. After tokens, dollars or seconds, the run ends with
      the answer so far, without a further request or call. A request in progress may exceed tokens and dollars; one
      that takes too long is cut off, and its text so far stays.
    - `tool_timeout_seconds` limits each call of a tool without its own timeout.
    - `settings` are sent with every request.
    - `large_result_tokens`: a larger tool result (estimated) is offloaded, and the model gets a preview and tools that
      read the rest; 0: never, None: 10,000, or the value of a card.
    - `compaction` is the share of the model's window for a conversation; with None it is never compacted, and a
      conversation that is too long is an error.
    - `servers` are the options that all MCP servers share.
    - `wrappers` change the model and all tools: a `Recorder` writes the runs to a file, a `Replay` reads them from one.
    - `skills` are folders of Agent Skills, as in `skills_toolset`.
    """

    limits: Limits = field(default_factory=Limits)
    session_limits: Limits = NO_LIMITS
    tool_timeout_seconds: float = TOOL_TIMEOUT_SECONDS
    settings: ModelSettings = field(default_factory=ModelSettings)
    large_result_tokens: int | None = None
    compaction: Compaction | None = field(default_factory=Compaction)
    servers: ServerOptions = field(default_factory=ServerOptions)
    wrappers: Sequence[Wrapper] = ()
    skills: Sequence[str | Path] = ()

    def __post_init__(self) -> None:
        expect_fields(self)
        seconds, tokens = self.tool_timeout_seconds, self.large_result_tokens
        expect(
            "RunOptions.tool_timeout_seconds",
            seconds,
            (int, float),
            "a number above 0",
            holds=lambda it: it > 0,
        )
        if tokens is not None:
            said = "a whole number of tokens, 0 or None"
            expect(
                "RunOptions.large_result_tokens",
                tokens,
                int,
                said,
                holds=lambda it: it >= 0,
            )


@dataclass(frozen=True, slots=True)
class Definition:
    """The components of an agent. A wrapper, such as a `Recorder`, is a function from one definition to another.

    `resolve` converts a model choice to a `Model`. `bind` can replace the runtime's own tools of a session, such as
    `search_tools`. `provider_tools` run at the model's provider. The callbacks in `hears` receive every event before
    the agent's listener. `middleware` comes after the agent's own in the pipeline. `observe` creates the middleware
    that observes a run, such as its trace; an agent that is called as a tool uses its caller's, unless it has its own.
    With `code_mode`, the model calls tools from programs that it writes.
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
    observe: Observe | None = None
    middleware: tuple[Middleware, ...] = ()
    code_mode: CodeMode | None = None

    def telling(self, last: Emit) -> Emit:
        """Return a listener that passes each event to all callbacks in `hears`, then to `last`."""
        if not self.hears:
            return last

        def emit(event: Event) -> None:
            for hears in self.hears:
                hears(event)
            last(event)

        return emit


Wrapper: TypeAlias = Callable[[Definition], Definition]
"""A function in `RunOptions(wrappers=[...])` that returns the definition with its model, tools or options replaced.

One with `is_innermost` true, such as a `Replay`, replaces model and tools, and is called before the others.
"""


def wrapped_by(definition: Definition, wrappers: Sequence[Wrapper]) -> Definition:
    """Return the definition after applying the wrappers, the innermost first. Raises `ConfigError`."""
    for wrapper in sorted(
        wrappers, key=lambda wrapper: not getattr(wrapper, "is_innermost", False)
    ):
        definition = wrapper(definition)
        expect("wrappers", definition, Definition, f"a Definition from {wrapper!r:.60}")
    return definition


class Owner(Protocol):
    """The parts of an agent that its sessions use."""

    @property
    def is_started(self) -> bool:
        """Return whether the agent's servers and toolsets are entered."""
        ...

    @property
    def model(self) -> Model:
        """The current model; a session reads it at each request, because it may change."""
        ...

    @property
    def definition(self) -> Definition:
        """The definition of the agent."""
        ...

    @property
    def pipeline(self) -> Pipeline:
        """The middleware that every run of the agent passes through."""
        ...

    @property
    def permissions(self) -> ApprovalPolicy:
        """The permission rules for calls, and the callback that decides on calls that need approval."""
        ...

    @property
    def from_toolsets(self) -> tuple[Tool, ...]:
        """The tools that the toolsets listed when the agent started."""
        ...

    @property
    def catalogs(self) -> Catalogs:
        """The catalogues of the agent's tools, one for each set of tools that its toolsets return for a session."""
        ...

    def emit(self, event: Event) -> None:
        """Pass an event to all listeners of the agent."""
        ...

    def warn(self, text: str) -> None:
        """Emit a warning, only once for each text."""
        ...

    def subscribe(self, listener: Emit) -> Callable[[], None]:
        """Pass also the events of servers to the listener, until the returned function is called."""
        ...

    def count(self, spent: Spent) -> None:
        """Add a run's usage to the agent's total."""
        ...

    def require_usable(self) -> None:
        """Raise `AgentStateError` unless the agent is started, and usable in this event loop."""
        ...

    def wait_for(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Run the coroutine that `work` creates, and return its result to synchronous code."""
        ...

    def _here(self, work: Coroutine[Any, Any, _T]) -> Coroutine[Any, Any, _T]:
        """Return a coroutine for this event loop that runs the work in the agent's event loop."""
        ...
