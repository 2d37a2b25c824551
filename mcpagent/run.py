"""One prompt being answered: the engine's `AgentRun` with its limits, and the `RunContext` that tool functions see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeAlias, cast

from mcpagent.approval import CallAnswer, OnApproval, PendingCall
from mcpagent.conversation import Conversation
from mcpagent.errors import AgentStateError, LimitError, OutputProblem
from mcpagent.events import LIMIT_STOPS, Emit, Event, LimitReached, Notice, RunFinished, StopReason, guarded, ignore
from mcpagent.large_results.setting_aside import LargeResults
from mcpagent.limits.run_clock import RunClock
from mcpagent.limits.run_limits import FIRM, NO_LIMITS, LimitKind, Limits, LimitScope, UsedUp, used_up
from mcpagent.messages import Citation, Message, Spent, ToolCall, Usage
from mcpagent.models.base import Model, ModelRequest, ModelResponse, ModelSettings
from mcpagent.models.provider_run.provider_tools import ProviderTool
from mcpagent.python.left_behind import LEFT_AFTER_SECONDS, end_or_leave
from mcpagent.text.safe_text import safe_line
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


@dataclass(frozen=True)
class RunResult(Generic[Output]):
    """What one run came to. `messages` are those it added to the conversation, in order.

    Before the prompt's own may stand results of earlier calls that it closed, and what there was to say of new tools.

    `stop` says why it ended; with "calls_pending", `pending` are the calls that wait for an answer. `spent` holds
    `usage`, what it cost, and what tool definitions took of it. `citations` are the sources that the answer names.
    `problems` say where the answer is not what `output_type` says. `limit` is the one that ended it, if one did: the
    answer is what there was by then, "" if there was nothing; with "calls_pending" the one that was reached beside.
    """

    answer: str
    stop: StopReason
    usage: Usage
    spent: Spent
    messages: tuple[Message, ...]
    pending: tuple[PendingCall, ...] = ()
    citations: tuple[Citation, ...] = ()
    problems: tuple[OutputProblem, ...] = ()
    limit: LimitReached | None = None
    _output: Callable[[], Output] | None = field(default=None, repr=False, compare=False)

    @property
    def has_type(self) -> bool:
        """Whether an `output_type` was given."""
        return self._output is not None

    @property
    def output(self) -> Output:
        """The answer in the form of the `output_type` that was given, its text without one. Raises `OutputError` if it
        is not of that form, or if the run ended without an answer (`stop`): `LimitError` if a limit ended it."""
        return cast("Output", self.answer) if self._output is None else self._output()


@dataclass(slots=True)
class Tally:
    """What a run has used so far, with agents that it called; right also when it is cut short. `turns` are its own.

    `waited_seconds`: for servers that were connecting, with what agents waited that it called. `is_over`: it has come
    to an end of its own, with an answer or with calls that wait (`pending`); `finished` is that end. `earlier` is what
    was taken for the same question by a process that ended, which counts for the limits. `clock` has the seconds.
    `reached` is the limit that ends it.
    """

    spent: Spent = field(default_factory=Spent)
    turns: int = 0
    waited_seconds: float = 0.0
    is_over: bool = False
    pending: tuple[PendingCall, ...] = ()
    finished: RunFinished | None = None
    earlier: Spent = field(default_factory=Spent)
    clock: RunClock = field(default_factory=RunClock)
    reached: LimitReached | None = None

    @property
    def taken(self) -> Spent:
        """By this process, its seconds too."""
        return self.spent + Spent(seconds=self.clock.seconds)

    @property
    def so_far(self) -> Spent:
        """For this question."""
        return self.earlier + self.taken

    @property
    def amounts(self) -> tuple[Spent, ...]:
        """The parts of `so_far`, not added up: most limits are not set, so most sums are never needed."""
        return self.earlier, self.spent, Spent(seconds=self.clock.seconds)


@dataclass(slots=True)
class CallTally:
    """The amounts that the agents and requests of one call have used."""

    spent: Spent = field(default_factory=Spent)


@dataclass(frozen=True, slots=True)
class SessionBudget:
    """What a session may take, and what its runs took before this one."""

    limits: Limits = NO_LIMITS
    before: Spent = field(default_factory=Spent)


class LimitStopError(LimitError):
    """Ends a run from within; `converse` makes its result of it."""

    def __init__(self, reached: LimitReached) -> None:
        super().__init__(reached.text, stop=LIMIT_STOPS[reached.limit])
        self.reached = reached


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

    def deciding(self, call: ToolCall) -> AbstractContextManager[None]:  # noqa: ARG002
        """Around the wait for whoever decides on a call."""
        return nullcontext()

    def calling(self, call: ToolCall, tool: Tool) -> AbstractContextManager[None]:  # noqa: ARG002
        """Around what a call runs; its result is an event."""
        return nullcontext()

    def requested(self, call_id: str, method: str, request_id: str, code: int | None) -> None:
        """A call asked a server by a method of MCP; `code` is that of the error it answered with."""

    def nested(self, run: AgentRun, earlier: str) -> RunWatch:  # noqa: ARG002
        """For the run of an agent that is called here, and that nobody else watches."""
        return self


UNWATCHED = RunWatch()

TOOL_TIMEOUT_SECONDS = 300.0
"""The limit of a call whose tool and options name none."""


def _no_tools() -> SessionTools:
    return SessionTools(Catalog(Listing(), ToolSearch(enabled=False)), Conversation())


async def _nothing() -> None:
    """For a run whose tools never change."""


async def nothing_to_keep() -> None:
    """For a run of a session that nobody writes down."""


@dataclass(frozen=True, slots=True)
class RunContext(Generic[Deps]):
    """The run that a tool function is called in, or that a toolset is listed for.

    A tool function receives it as its first parameter, annotated `RunContext` or `RunContext[YourDeps]`. The model
    never sees that parameter. `deps` are the values passed to `Agent.session(deps=...)` or `ask(deps=...)`;
    `tool_context` is the state that the tools share. `thread_id` names the session, `run_id` the answer to one prompt;
    `run_id` is "" while an agent starts. `call_id` and `tool_name` name this call; `approved` is True if a person
    approved it. `prompt` is the text of the question. `emit` reports an event to the listeners of the run. `exits`
    closes what you enter into it when the run ends, also if the run is cancelled.
    """

    deps: Deps
    tool_context: ToolContext = field(default_factory=ToolContext)
    run_id: str = ""
    thread_id: str = ""
    call_id: str = ""
    tool_name: str = ""
    approved: bool = False
    prompt: str = ""
    emit: Emit = field(default=ignore, repr=False, compare=False)
    exits: AsyncExitStack = field(default_factory=AsyncExitStack, repr=False, compare=False)
    _conversation: Conversation = field(default_factory=Conversation, repr=False)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far, with the message that makes this call."""
        return tuple(self._conversation.messages)


@dataclass(frozen=True)
class AgentRun:
    """The engine's side of one prompt being answered; tool functions receive only its `context`.

    `refresh` updates the tools before each request. `answers` holds the answers to open calls by call ID. `parent` is
    the run whose call this run answers, as the tool `label`: its limits hold for both, and so does `budget`, the budget
    of its session. `asking` is locked while a person is asked: one question at a time. `is_small`: the model is a small
    one. `keep` stores new entries before the next step if sessions are stored, and raises `SessionStoreError` if it
    fails. `begins_at` is the position of the run's first message: the prompt, or an announcement before the prompt.
    `provider_tools` are run by the model's provider. `of_call` counts the spending of agents within one call; it is
    None outside of a call. `limits` are those of this run. `large` stores large results. `watch` observes the run.
    """

    context: RunContext[Any]
    conversation: Conversation = field(default_factory=Conversation, repr=False)
    model: Model = field(default_factory=NoModel, repr=False, compare=False)
    tools: SessionTools = field(default_factory=_no_tools, repr=False, compare=False)
    settings: ModelSettings = field(default_factory=ModelSettings, repr=False)
    tool_timeout_seconds: float = TOOL_TIMEOUT_SECONDS
    compaction: Compaction | None = field(default_factory=Compaction, repr=False)
    emit: Emit = field(default=ignore, repr=False, compare=False)
    refresh: Callable[[], Awaitable[None]] = field(default=_nothing, repr=False, compare=False)
    keep: Callable[[], Awaitable[None]] = field(default=nothing_to_keep, repr=False, compare=False)
    begins_at: int = 0
    on_approval: OnApproval | None = field(default=None, repr=False, compare=False)
    answers: Mapping[str, CallAnswer] | None = field(default=None, repr=False)
    parent: AgentRun | None = field(default=None, repr=False)
    label: str = ""
    tally: Tally = field(default_factory=Tally, repr=False, compare=False)
    budget: SessionBudget = field(default_factory=SessionBudget, repr=False)
    state: StateChannel = field(default_factory=lambda: StateChannel(ToolContext()), repr=False, compare=False)
    is_small: bool = field(default=False, repr=False)
    provider_tools: tuple[ProviderTool, ...] = field(default=(), repr=False)
    large: LargeResults = field(default_factory=LargeResults, repr=False, compare=False)
    asking: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False, compare=False)
    of_call: CallTally | None = field(default=None, repr=False, compare=False)
    limits: Limits = field(default_factory=Limits, repr=False)
    watch: RunWatch = field(default=UNWATCHED, repr=False, compare=False)

    def for_call(self, call_id: str, tool_name: str, *, approved: bool = False) -> AgentRun:
        """Return the run as one call sees it."""
        context = replace(self.context, call_id=call_id, tool_name=tool_name, approved=approved)
        return replace(self, context=context, of_call=CallTally())

    def watched_by(self, watch: RunWatch) -> AgentRun:
        """Return the run with this watch, which hears each event first."""
        heard, emit = guarded(watch.hear), self.emit

        def tell(event: Event) -> None:
            heard(event)
            emit(event)

        return replace(self, context=replace(self.context, emit=tell), watch=watch, emit=tell)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Make this the current run in this task and the tasks that it starts."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    # -- limits -------------------------------------------------------------------------------------------------------

    @property
    def lineage(self) -> Iterator[AgentRun]:
        """This run, its parent, and so on to the outermost."""
        run: AgentRun | None = self
        while run is not None:
            yield run
            run = run.parent

    @property
    def left_after(self) -> float:
        """The seconds that a call or request of this run may take to end when it is cancelled; fewer in a run that is a
        call itself, which ends before its caller would leave it."""
        return LEFT_AFTER_SECONDS / len(list(self.lineage))

    async def wait(self, settle: Callable[[float], Awaitable[float]]) -> None:
        """Waits for servers. `settle` gets the seconds that the whole question has waited so far, with the agents that
        it calls, and says how many more it did."""
        *_, question = self.lineage
        question.tally.waited_seconds += await settle(question.tally.waited_seconds)

    def count(self, spent: Spent) -> None:
        """Adds what a request or a call took, here and in all runs that this one is part of."""
        run: AgentRun | None = self
        while run is not None:
            run.tally.spent += spent
            if run.of_call is not None:
                run.of_call.spent += spent
            run = run.parent

    def count_turn(self) -> None:
        """Counts a request that is about to be made; raises `LimitStopError` when a limit does not allow it."""
        self.check_limits()
        self.tally.turns += 1
        self.count(Spent(turns=1))

    def check_limits(self) -> None:
        """Raises `LimitStopError` when tokens, dollars or seconds are used up, here or for whoever called this."""
        if (reached := self._reaches(FIRM)) is not None:
            raise LimitStopError(reached)

    def must_answer(self) -> LimitReached | None:
        """The limit that ends the run, after one more answer of its model; None: it may go on.

        Raises `LimitStopError` when the model may not even be asked for that.
        """
        self.check_limits()
        reached = self.tally.reached or self._reaches(("turns",))
        if reached is not None and not self.tally.earlier.turns + self.tally.spent.turns:
            raise LimitStopError(reached)
        return reached

    def refuses_call(self, *, is_own: bool) -> LimitReached | None:
        """The limit that does not allow another call of a tool; an `is_own` one of the runtime's does not count."""
        return self._reaches(FIRM if is_own else ("tool_calls", *FIRM))

    def _reaches(self, kinds: Sequence[LimitKind]) -> LimitReached | None:
        """The limit of these kinds that is used up, here or in a run that this one is part of; that is told once."""
        run: AgentRun | None = self
        while run is not None:
            so_far = run.tally.amounts
            if used := used_up(run.limits, so_far, kinds):
                return self._tell(used, "run" if run is self else "caller")
            budget = run.budget
            if budget.limits is not NO_LIMITS and (used := used_up(budget.limits, (*so_far, budget.before), kinds)):
                return self._tell(used, "session" if run is self else "caller")
            run = run.parent
        return None

    def _tell(self, used: UsedUp, scope: LimitScope) -> LimitReached:
        reached = LimitReached(used.kind, used.most, used.used, scope)
        if self.tally.reached is None:
            self.tally.reached = reached
            self.emit(reached)
        return reached

    async def end_request(self, working: asyncio.Future[ModelResponse]) -> NoReturn:
        """Ends a request to the model that was cancelled, as `end_or_leave` does; raises `CancelledError` anyway."""
        left = f"{safe_line(self.model.name, 80)} does not end when it is cancelled; its request is left"
        await end_or_leave(working, self.left_after, lambda: self.emit(Notice(left, "warning")))
        raise asyncio.CancelledError

    @asynccontextmanager
    async def within_limits(self) -> AsyncIterator[None]:
        """Ends what stands in it when the run may go on no longer, which `tally.reached` says then."""
        clock, earlier, session = self.tally.clock, self.tally.earlier.seconds, self.budget
        offered: tuple[tuple[LimitScope, float | None, float], ...] = (
            ("run", self.limits.seconds, earlier),
            ("session", session.limits.seconds, earlier + session.before.seconds),
        )
        ends = sorted((most - before, scope, most) for scope, most, before in offered if most is not None)
        try:
            async with clock.limited(ends[0][0] if ends else None):
                yield
        except LimitStopError:
            if self.tally.reached is None:
                raise
        except TimeoutError:
            if not clock.is_up:
                raise
            left, scope, most = ends[0]
            self._tell(UsedUp("seconds", most, most - left + clock.seconds), scope)

    @contextmanager
    def asking_a_person(self) -> Iterator[None]:
        """What they take is in no limit of seconds, here and in the runs that this one is part of."""
        with ExitStack() as clocks:
            for run in self.lineage:
                clocks.enter_context(run.tally.clock.standing())
            yield


Watch: TypeAlias = Callable[[AgentRun, str], RunWatch]
"""What begins to watch a run; the text is the `trace` of the run that it goes on with, "" if there is none."""


_CURRENT: ContextVar[AgentRun | None] = ContextVar("mcpagent_run_context", default=None)


def current_run() -> AgentRun | None:
    """The run in which this code is called, None outside of one."""
    return _CURRENT.get()


def active_run() -> AgentRun:
    """Return the run in which this code is called; raises `AgentStateError` if there is none."""
    run = _CURRENT.get()
    if run is None:
        raise AgentStateError("no agent is running here; a RunContext exists only while a tool is called or listed")
    return run


def run_context() -> RunContext[Any]:
    """Return the context of the run in which this code is called; raises `AgentStateError` if there is none."""
    return active_run().context


@contextmanager
def outside_of_runs() -> Iterator[None]:
    """What is called in here belongs to no run."""
    token = _CURRENT.set(None)
    try:
        yield
    finally:
        _CURRENT.reset(token)
