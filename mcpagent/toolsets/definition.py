"""`RunOptions`: options of runs; `Definition`: the parts of an agent; `Owner`: the interface for its sessions."""

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
"""A `Prompt`, or an answer to each pending call. It is one sequence type, so that type checkers accept a literal
list."""


ModelChoice: TypeAlias = str | Model | Sequence[str | Model] | None
"""A name, an object, a chain of models in which the next one answers if one fails, or None for the environment's
model."""


def expect_model(model: object) -> None:
    """Raise `ConfigError` unless this is a choice of a model."""
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
    """Options of an agent's runs: limits and settings of an answer, shared options of servers, and wrappers.

    `limits` apply to a run with all agents that it calls as tools, `session_limits` to all runs of a session together,
    also in other processes. A reached limit ends the run (`StopReason`, `LimitReached`). When the turns or tool calls
    are used up, the model must answer without calling. With tokens, dollars or seconds, the run ends with the answer so
    far, and makes no further request or call. A request in progress may exceed tokens and dollars; a request that takes
    too many seconds is cut off, and its text so far stays. `tool_timeout_seconds` limits each call without its own
    limit. `settings` go with every request. A tool result of more than `large_result_tokens` (estimated) is offloaded,
    and the model gets a preview and tools that read the rest; 0: never, None: 10,000, or the value of a card.
    `compaction` sets how much of the model's window a conversation may take; with None it is never compacted, and one
    that is too long is an error. `servers` are the options that all MCP servers share. `wrappers` are applied to the
    model and all tools: a `Recorder` writes the runs to a file, a `Replay` reads them from one. `skills` are folders of
    Agent Skills, as in `skills_toolset`.
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

    `resolve` turns a model choice into a `Model`. `bind` can replace the tools that a session makes itself, such as
    `search_tools`. The model's provider runs the `provider_tools`. The callbacks in `hears` receive every event before
    the agent's listener. `middleware` follows the agent's own in the pipeline. `observe` makes the middleware that
    observes a run, such as its trace; an agent that is called as a tool uses its caller's, unless it has its own. With
    `code_mode` the model calls tools from programs that it writes.
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
        """Return a listener that passes each event to all that hear it, then to the last one."""
        if not self.hears:
            return last

        def emit(event: Event) -> None:
            for hears in self.hears:
                hears(event)
            last(event)

        return emit


Wrapper: TypeAlias = Callable[[Definition], Definition]
"""An item of `RunOptions(wrappers=[...])`: returns the definition with its model, tools or options replaced.

One with `is_innermost` true, such as a `Replay`, takes the place of model and tools: it is called before the others.
"""


def wrapped_by(definition: Definition, wrappers: Sequence[Wrapper]) -> Definition:
    """Return the definition that the wrappers make of this one, the innermost first. Raises `ConfigError`."""
    for wrapper in sorted(
        wrappers, key=lambda wrapper: not getattr(wrapper, "is_innermost", False)
    ):
        definition = wrapper(definition)
        expect("wrappers", definition, Definition, f"a Definition from {wrapper!r:.60}")
    return definition


class Owner(Protocol):
    """The parts of an agent that its sessions share."""

    @property
    def is_started(self) -> bool:
        """True while its servers and toolsets are entered."""
        ...

    @property
    def model(self) -> Model:
        """Which answers; a session asks for it at each request, since it may change."""
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
        """The rules for calls, and who decides on those that need approval."""
        ...

    @property
    def from_toolsets(self) -> tuple[Tool, ...]:
        """The tools that the toolsets listed when the agent started."""
        ...

    @property
    def catalogs(self) -> Catalogs:
        """Its tools by name, with an index, for each thing that its toolsets give a session."""
        ...

    def emit(self, event: Event) -> None:
        """Pass an event to all listeners of the agent."""
        ...

    def warn(self, text: str) -> None:
        """Report a warning, once."""
        ...

    def subscribe(self, listener: Emit) -> Callable[[], None]:
        """Call the listener with servers' events too, until the returned function is called."""
        ...

    def count(self, spent: Spent) -> None:
        """Add a run's usage to the agent's total."""
        ...

    def require_usable(self) -> None:
        """Raise `AgentStateError` unless the agent is started, and usable in this event loop."""
        ...

    def wait_for(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Return the result of the work, for code that cannot await."""
        ...

    def _here(self, work: Coroutine[Any, Any, _T]) -> Coroutine[Any, Any, _T]:
        """Return the work as a coroutine for this event loop that runs it in the agent's loop."""
        ...
