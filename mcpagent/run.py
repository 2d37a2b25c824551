"""One prompt being answered: what it works with, its limits, and what a tool function can know of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, cast

from mcpagent.approval import CallAnswer, OnApproval, PendingCall
from mcpagent.conversation import Conversation
from mcpagent.errors import AgentStateError, LimitError, OutputProblem
from mcpagent.events import Emit, Event, StopReason, guarded, ignore
from mcpagent.large_results.setting_aside import LARGE_RESULT_TOKENS, LargeResults
from mcpagent.messages import Citation, Message, Spent, ToolCall, Usage
from mcpagent.models.base import Model, ModelRequest, ModelResponse, ModelSettings
from mcpagent.models.provider_run.provider_tools import ProviderTool
from mcpagent.python.argument_checks import expect
from mcpagent.tool_context import StateChannel, ToolContext
from mcpagent.tool_search.catalog import Catalog, Listing
from mcpagent.tool_search.search_options import ToolSearch
from mcpagent.tool_search.session_tools import SessionTools
from mcpagent.tools import Tool
from mcpagent.window.how_far import Compaction

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Deps = TypeVar("Deps", default=Any)
    Output = TypeVar("Output", default=Any)
else:
    from typing import TypeVar

    Deps = TypeVar("Deps")
    Output = TypeVar("Output")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What one answer may take. Limits hold for a run with all agents that it calls as tools.

    `max_turns`: answers of the model; then it is made to answer without calling. `max_tokens` (input and output, as the
    provider counts) and `max_dollars` (US): no further request is made once they are reached, and `LimitError` is
    raised; a request under way may go beyond them. `tool_timeout_seconds` limits each call that has no limit of its
    own. `settings` go with every request. A tool's result of more than `large_result_tokens` (estimated) is kept beside
    the conversation, and the model gets a short form and tools that read it; 0: never. `compaction` says how much of
    the model's window a conversation may take; with None it is never made shorter, and one that is too long is an
    error.
    """

    max_turns: int = 100
    max_tokens: int | None = None
    max_dollars: float | None = None
    tool_timeout_seconds: float = 300.0
    settings: ModelSettings = field(default_factory=ModelSettings)
    large_result_tokens: int = LARGE_RESULT_TOKENS
    compaction: Compaction | None = field(default_factory=Compaction)

    def __post_init__(self) -> None:
        expect("compaction", self.compaction, (Compaction, NoneType), "Compaction(...) or None")
        expect("max_turns", self.max_turns, int, "a whole number, 1 or more", holds=lambda turns: turns >= 1)
        for name in ("max_tokens", "max_dollars"):
            expect(
                name,
                getattr(self, name),
                (int, float, NoneType),
                "a number above 0 or None",
                holds=lambda limit: limit is None or limit > 0,
            )
        seconds = self.tool_timeout_seconds
        expect("tool_timeout_seconds", seconds, (int, float), "a number above 0", holds=lambda limit: limit > 0)
        tokens = self.large_result_tokens
        expect("large_result_tokens", tokens, int, "a whole number of tokens, or 0", holds=lambda it: it >= 0)
        expect("settings", self.settings, ModelSettings, "ModelSettings(...)")


@dataclass(frozen=True)
class RunResult(Generic[Output]):
    """What one run came to. `messages` are those it added to the conversation, in order.

    Before the prompt's own may stand results of earlier calls that it closed, and what there was to say of new tools.

    `stop` says why it ended; with "calls_pending", `pending` are the calls that wait for an answer. `spent` holds
    `usage`, what it cost, and what tool definitions took of it. `citations` are the sources that the answer names.
    `problems` say where the answer is not what `output_type` says.
    """

    answer: str
    stop: StopReason
    usage: Usage
    spent: Spent
    messages: tuple[Message, ...]
    pending: tuple[PendingCall, ...] = ()
    citations: tuple[Citation, ...] = ()
    problems: tuple[OutputProblem, ...] = ()
    _output: Callable[[], Output] | None = field(default=None, repr=False, compare=False)

    @property
    def has_type(self) -> bool:
        """Whether an `output_type` was given."""
        return self._output is not None

    @property
    def output(self) -> Output:
        """The answer in the form of the `output_type` that was given, its text without one. Raises `OutputError` if it
        is not of that form, or if the run ended without an answer (`stop`)."""
        return cast("Output", self.answer) if self._output is None else self._output()


@dataclass(slots=True)
class Tally:
    """What a run has used so far; right also when it is cut short. `nested_turns` are those of agents it called.

    `waited_seconds`: for servers that were connecting, with what agents waited that it called. `is_over`: it has come
    to an end of its own, with an answer or with calls that wait (`pending`). `earlier` is what was taken for the same
    question by a process that ended, which counts for the limits.
    """

    spent: Spent = field(default_factory=Spent)
    turns: int = 0
    nested_turns: int = 0
    waited_seconds: float = 0.0
    is_over: bool = False
    pending: tuple[PendingCall, ...] = ()
    earlier: Spent = field(default_factory=Spent)


class NoModel:
    """The model of a context that no agent runs in."""

    name = "none"

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:  # noqa: ARG002
        """Raises `AgentStateError`."""
        raise AgentStateError("no agent is running here")

    async def aclose(self) -> None:
        """Nothing to give back."""


def _take(response: object) -> None:
    """For an answer that nobody wants."""


class RunWatch:
    """What stands beside one run, such as its trace: it hears the run's events, and is around what takes time.

    Nothing of it may raise, but for what is raised inside of what it is around. This one does nothing.
    """

    trace: str = ""
    """What a later run names as the one that it goes on with, as a text that can be kept."""

    def hear(self, event: Event) -> None:
        """Something happened in the run; not in those of agents that it calls."""

    def running(self) -> AbstractContextManager[None]:
        """Around all of it, in the task that does it, its last event included."""
        return nullcontext()

    def asking(self, request: ModelRequest, model: Model) -> AbstractContextManager[Callable[[ModelResponse], None]]:  # noqa: ARG002
        """Around one request to the model, with all that is tried for it; it is to be given the answer."""
        return nullcontext(_take)

    def replayed(self) -> None:
        """The answer to the request under way is one that was given before, and is not asked for again."""

    def deciding(self, call: ToolCall) -> AbstractContextManager[None]:  # noqa: ARG002
        """Around the wait for whoever decides on a call."""
        return nullcontext()

    def calling(self, call: ToolCall, tool: Tool) -> AbstractContextManager[None]:  # noqa: ARG002
        """Around what a call runs; its result is an event."""
        return nullcontext()

    def requested(self, call_id: str, method: str, request_id: str, code: int | None) -> None:
        """A call asked a server by a method of MCP; `code` is that of the error it answered with."""

    def nested(self, run: RunContext[Any], earlier: str) -> RunWatch:  # noqa: ARG002
        """For the run of an agent that is called here, and that nobody else watches."""
        return self


UNWATCHED = RunWatch()


def _no_tools() -> SessionTools:
    return SessionTools(Catalog(Listing(), ToolSearch(enabled=False)), Conversation())


async def _nothing() -> None:
    """For a run whose tools never change."""


async def nothing_to_keep() -> None:
    """For a run of a session that nobody writes down."""


@dataclass(frozen=True)
class RunContext(Generic[Deps]):
    """The run that a tool is called in, or a toolset is listed for.

    A tool function gets it as its first parameter, annotated `RunContext` or `RunContext[YourDeps]`; the model never
    sees that parameter. `deps` are the values given to `Agent.session(deps=...)` or `ask(deps=...)`. `thread_id` names
    the session, `run_id` the answer to one prompt; it is "" while an agent starts. `approved`: this very call was
    approved. `exits` is left when the run ends.

    What follows is for the loop: `refresh` brings the tools up to date before each request; `answers`, by call id, are
    for the calls that the conversation has open; `parent` is the run whose call this one answers, as the tool `label`:
    its limits hold for both. `asking` is held while a person is asked: one question at a time. `is_small`: its model
    is a small one. `keep` writes down what is new before the next step, where sessions are kept, and raises
    `SessionStoreError` if it cannot. `begins_at` is the place of its first message, which is the prompt but for what
    was announced before it. `provider_tools` are run by the model's provider. `of_call` is what agents took that this
    one call has asked. `large` has what was set aside of this conversation, and sets results aside. `watch` stands
    beside it.
    """

    deps: Deps
    tool_context: ToolContext = field(default_factory=ToolContext)
    run_id: str = ""
    thread_id: str = ""
    call_id: str = ""
    tool_name: str = ""
    approved: bool = False
    prompt: str = ""
    conversation: Conversation = field(default_factory=Conversation, repr=False)
    exits: AsyncExitStack = field(default_factory=AsyncExitStack, repr=False, compare=False)
    model: Model = field(default_factory=NoModel, repr=False, compare=False)
    tools: SessionTools = field(default_factory=_no_tools, repr=False, compare=False)
    options: RunOptions = field(default_factory=RunOptions, repr=False)
    emit: Emit = field(default=ignore, repr=False, compare=False)
    refresh: Callable[[], Awaitable[None]] = field(default=_nothing, repr=False, compare=False)
    keep: Callable[[], Awaitable[None]] = field(default=nothing_to_keep, repr=False, compare=False)
    begins_at: int = 0
    on_approval: OnApproval | None = field(default=None, repr=False, compare=False)
    answers: Mapping[str, CallAnswer] | None = field(default=None, repr=False)
    parent: RunContext[Any] | None = field(default=None, repr=False)
    label: str = ""
    tally: Tally = field(default_factory=Tally, repr=False, compare=False)
    state: StateChannel = field(default_factory=lambda: StateChannel(ToolContext()), repr=False, compare=False)
    is_small: bool = field(default=False, repr=False)
    provider_tools: tuple[ProviderTool, ...] = field(default=(), repr=False)
    large: LargeResults = field(default_factory=LargeResults, repr=False, compare=False)
    asking: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False, compare=False)
    of_call: Tally = field(default_factory=Tally, repr=False, compare=False)
    watch: RunWatch = field(default=UNWATCHED, repr=False, compare=False)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far, with the message that makes this call."""
        return tuple(self.conversation.messages)

    def for_call(self, call_id: str, tool_name: str, *, approved: bool = False) -> RunContext[Deps]:
        """The context of one call."""
        return replace(self, call_id=call_id, tool_name=tool_name, approved=approved, of_call=Tally())

    def watched_by(self, watch: RunWatch) -> RunContext[Deps]:
        """The same run, with this beside it, which hears each event first."""
        heard, emit = guarded(watch.hear), self.emit

        def tell(event: Event) -> None:
            heard(event)
            emit(event)

        return replace(self, watch=watch, emit=tell)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Makes this what `run_context()` gives, in this task and those it starts."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    # -- limits -------------------------------------------------------------------------------------------------------

    @property
    def lineage(self) -> Iterator[RunContext[Any]]:
        """This run, its parent, and so on to the outermost."""
        run: RunContext[Any] | None = self
        while run is not None:
            yield run
            run = run.parent

    async def wait(self, settle: Callable[[float], Awaitable[float]]) -> None:
        """Waits for servers. `settle` gets the seconds that the whole question has waited so far, with the agents that
        it calls, and says how many more it did."""
        *_, question = self.lineage
        question.tally.waited_seconds += await settle(question.tally.waited_seconds)

    @property
    def has_turns_left(self) -> bool:
        """Whether this run, and all that it is part of, may ask the model once more."""
        return all(run.tally.turns + run.tally.nested_turns < run.options.max_turns for run in self.lineage)

    def count(self, spent: Spent) -> None:
        """Adds what a request took, here and in all runs that this one is part of."""
        for run in self.lineage:
            run.tally.spent += spent
            run.of_call.spent += spent

    def check_limits(self) -> None:
        """Raises `LimitError` when a budget is used up, here or in a run that this one is part of."""
        for run in self.lineage:
            check_budget(run.options, run.tally.earlier + run.tally.spent)

    def count_turn(self) -> None:
        """Counts a request that is about to be made; raises `LimitError` when a budget is used up."""
        self.check_limits()
        self.tally.turns += 1
        if self.parent is not None:
            self.parent.count_nested(1)

    def count_nested(self, turns: int) -> None:
        """Adds requests that agents made which this run has called."""
        for run in self.lineage:
            run.tally.nested_turns += turns
            run.of_call.nested_turns += turns


def check_budget(options: RunOptions, spent: Spent) -> None:
    """Raises `LimitError` when this much is at or beyond `max_tokens` or `max_dollars`, or its price is not known."""
    tokens = spent.usage.input_tokens + spent.usage.output_tokens
    if options.max_tokens is not None and tokens >= options.max_tokens:
        raise LimitError(f"stopped after {tokens:,} tokens without an answer (max_tokens {options.max_tokens:,})")
    if options.max_dollars is None:
        return
    if not spent.cost_known:
        what = "the price of this model, or of a tool that its provider ran,"
        raise LimitError(f"{what} is not known, so max_dollars cannot be kept; use max_tokens")
    if spent.dollars and spent.dollars >= options.max_dollars:
        raise LimitError(f"stopped after ${spent.dollars:.4f} without an answer (max_dollars {options.max_dollars:g})")


Watch: TypeAlias = Callable[[RunContext[Any], str], RunWatch]
"""What begins to watch a run; the text is the `trace` of the run that it goes on with, "" if there is none."""


_CURRENT: ContextVar[RunContext[Any] | None] = ContextVar("mcpagent_run_context", default=None)


def current_run() -> RunContext[Any] | None:
    """The run in which this code is called, None outside of one."""
    return _CURRENT.get()


def run_context() -> RunContext[Any]:
    """The run in which this code is called; raises `AgentStateError` when there is none."""
    context = _CURRENT.get()
    if context is None:
        raise AgentStateError("no agent is running here; a RunContext exists only while a tool is called or listed")
    return context


@contextmanager
def outside_of_runs() -> Iterator[None]:
    """What is called in here belongs to no run."""
    token = _CURRENT.set(None)
    try:
        yield
    finally:
        _CURRENT.reset(token)
