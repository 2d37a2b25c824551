"""An active prompt: `AgentRun` with its limits for the engine, `RunContext` for tool functions."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, Self, TypeAlias, cast

from mcpagent.errors import AgentStateError, OutputProblem
from mcpagent.history.compaction_options import Compaction
from mcpagent.history.conversation import Conversation
from mcpagent.models.base import (
    ActiveRequest,
    Model,
    ModelRequest,
    ModelResponse,
    ModelSettings,
)
from mcpagent.models.provider_tools.generated_files import generated_files
from mcpagent.models.provider_tools.provider_tool_values import ProviderTool
from mcpagent.permissions.approval_policy import ApprovalPolicy
from mcpagent.run.large_results.offloaded_results import LargeResults
from mcpagent.run.run_parts import CallBatch, CallState, CallTally, StepState
from mcpagent.tool_search.catalog import Catalog, Listing
from mcpagent.tool_search.search_options import ToolSearch
from mcpagent.tool_search.session_tools import SessionTools
from mcpagent.utilities.python.orphaned_tasks import LEFT_AFTER_SECONDS, end_or_leave
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.approval import CallAnswer, PendingCall
from mcpagent.values.events import (
    Emit,
    Event,
    LimitReached,
    Notice,
    RunFinished,
    StopReason,
    guarded,
    ignore,
)
from mcpagent.values.limits.model_hints import NO_HINTS, ModelHints
from mcpagent.values.limits.repeats import Repeats
from mcpagent.values.limits.run_clock import RunClock
from mcpagent.values.limits.run_limits import NO_LIMITS, Limits
from mcpagent.values.messages import Citation, Document, FileId, Message, Spent, Usage
from mcpagent.values.tool_context import StateChannel, ToolContext
from mcpagent.values.type_variables import Deps, Output


@dataclass(frozen=True)
class RunResult(Generic[Output]):
    """The result of a run. `messages` are the messages that the run added to the conversation, in order.

    Before the prompt, these may contain results of earlier calls that the prompt closed, and announcements of new
    tools. `stop` is the reason for the end; with "calls_pending", `pending` are the calls that wait for an answer.
    `spent` contains `usage`, the cost, and the share of tool definitions. `citations` are the sources that the answer
    names. `problems` are the errors of an answer that does not match the `output_type`. `limit` is the limit that ended
    the run, None if no limit did: the answer is then the text so far, or "". With "calls_pending", it is a limit that
    was reached as well.
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
    _output: Callable[[], Output] | None = field(
        default=None, repr=False, compare=False
    )

    @property
    def files(self) -> tuple[Document | FileId, ...]:
        """The files that the provider generated for this answer: with name and bytes, or as the ID of a file stored
        there.
        """
        return generated_files(self.messages)

    @property
    def has_type(self) -> bool:
        """Return whether the caller passed an `output_type`."""
        return self._output is not None

    @property
    def output(self) -> Output:
        """The answer as a value of the requested `output_type`; without one, its text. Raises `OutputError` if it has
        another form or there is no answer, `LimitError` if a limit ended the run.
        """
        if self._output is None:
            return cast("Output", self.answer)
        return self._output()


@dataclass(slots=True)
class RunUsage:
    """The usage of a run so far, including agents that it called, even if the run is cut off. `turns` are its own.

    - `waited_seconds`: the wait for connecting servers, including that of agents that it called.
    - `is_over`: the run ended by itself, with an answer or with pending calls (`pending`); `finished` is the end event.
    - `earlier`: the usage of a process that ended while it worked on the same prompt, which counts for the limits.
    - `clock`: measures the seconds. `reached`: the limit that ends the run, or None.
    - `repeats`: counts repeated calls. `missing`: the parts of the prompt that the last note to the model listed as
      missing.
    - `trace`: identifies its trace for a run that continues it.
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
    repeats: Repeats = field(default_factory=Repeats)
    missing: tuple[str, ...] = ()
    trace: str = ""

    @property
    def taken(self) -> Spent:
        """The usage of this process, with its seconds."""
        return self.spent + Spent(seconds=self.clock.seconds)

    @property
    def so_far(self) -> Spent:
        """The usage for this prompt, including earlier processes."""
        return self.earlier + self.taken

    def amounts(self) -> tuple[Spent, ...]:
        """Return the parts of `so_far`. The sum is computed only for a limit that needs it, since most are not set."""
        return self.earlier, self.spent, Spent(seconds=self.clock.seconds)


@dataclass(frozen=True, slots=True)
class SessionBudget:
    """The limits of a session, and the usage of its runs before this one."""

    limits: Limits = NO_LIMITS
    before: Spent = field(default_factory=Spent)


class NoModel:
    """The model of a context in which no agent runs."""

    name = "none"

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:  # noqa: ARG002
        """Raise `AgentStateError`: no agent is running, so there is no model to ask."""
        raise AgentStateError("no agent is running here")

    async def aclose(self) -> None:
        """Do nothing: no model is open."""


Around: TypeAlias = "AbstractAsyncContextManager[Any] | AbstractContextManager[Any]"
"""A context manager around a part of a run: asynchronous if it awaits, else a plain one, which costs less."""


class Middleware:
    """A middleware of the pipeline: context managers around the parts of a run. This base class does nothing.

    Each context manager is entered before the part and exited after it, in the order of the list. If a middleware calls
    `settle` of a step or call, neither the part nor the later middleware is entered. The earlier ones exit as usual.

    `Stop` ends the run. Every part except `around_run` may raise it, and its `final_note` counts in every part except
    `around_turns`. Calls that have begun keep their results; all others get one that states that they did not run. Any
    other exception in `around_execution` fails that call; in other parts it fails the run.
    """

    def around_run(self, run: AgentRun) -> Around:
        """Surround the run, including the writing of its end."""
        raise NotImplementedError

    def around_turns(self, run: AgentRun) -> Around:
        """Surround all turns; the reason for their end is not known yet."""
        raise NotImplementedError

    def around_step(self, run: AgentRun, step: StepState) -> Around:
        """Surround one request to the model, with all its retries."""
        raise NotImplementedError

    def around_calls(self, run: AgentRun, batch: CallBatch) -> Around:
        """Surround the calls of one model message, until their results are in the conversation."""
        raise NotImplementedError

    def around_call(self, run: AgentRun, call: CallState) -> Around:
        """Surround one call, of the model or of a program, including the decision whether it runs."""
        raise NotImplementedError

    def around_question(self, run: AgentRun, call: CallState) -> Around:
        """Surround the wait for a person's decision on a call."""
        raise NotImplementedError

    def around_execution(self, run: AgentRun, call: CallState) -> Around:
        """Surround the execution of a call."""
        raise NotImplementedError


class RunObserver(Middleware):
    """Middleware of one run that also gets the run's events, before any other listener."""

    def hear(self, event: Event) -> None:
        """Receive an event of the run. Events of agents that it calls are not included."""


class Pipeline:
    """An ordered list of middleware.

    Each attribute, such as `around_call`, enters the context managers of that name of all middleware that define one.
    If one settles the step or call, the later ones are not entered.
    """

    def __init__(self, items: Sequence[Middleware] = ()) -> None:
        self.items = tuple(items)
        self.around_run: Callable[[AgentRun], AsyncExitStack] = partial(
            _Entered, self._hooks("around_run"), False
        )
        self.around_turns: Callable[[AgentRun], AsyncExitStack] = partial(
            _Entered, self._hooks("around_turns"), False
        )
        self.around_calls: Callable[[AgentRun, CallBatch], AsyncExitStack] = partial(
            _Entered, self._hooks("around_calls"), False
        )
        self.around_step: Callable[[AgentRun, StepState], AsyncExitStack] = partial(
            _Entered, self._hooks("around_step"), True
        )
        self.around_call: Callable[[AgentRun, CallState], AsyncExitStack] = partial(
            _Entered, self._hooks("around_call"), True
        )
        self.around_question: Callable[[AgentRun, CallState], AsyncExitStack] = partial(
            _Entered, self._hooks("around_question"), True
        )
        self.around_execution: Callable[[AgentRun, CallState], AsyncExitStack] = (
            partial(_Entered, self._hooks("around_execution"), True)
        )

    def _hooks(self, name: str) -> tuple[Callable[..., Around], ...]:
        plain = getattr(Middleware, name)
        return tuple(
            getattr(item, name)
            for item in self.items
            if getattr(type(item), name) is not plain
        )


class _Entered(AsyncExitStack):
    """Enters the context managers around a part of a run, in order.

    With `settles`, it stops after a context manager has settled the step or call `state`. If entering one raises an
    exception, the earlier ones exit with it.
    """

    def __init__(
        self,
        hooks: Sequence[Callable[..., Around]],
        settles: bool,
        run: AgentRun,
        state: Any = None,
    ) -> None:
        super().__init__()
        self._hooks, self._settles = hooks, settles
        self._run, self._state = run, state

    async def __aenter__(self) -> Self:
        about: tuple[Any, ...] = (self._run, self._state)
        if self._state is None:
            about = (self._run,)
        try:
            for hook in self._hooks:
                if self._settles and self._state.is_settled:
                    break
                around = hook(*about)
                if isinstance(around, AbstractContextManager):
                    self.enter_context(around)
                else:
                    await self.enter_async_context(around)
        except BaseException:
            await self.__aexit__(*sys.exc_info())
            raise
        return self


class _NoPipeline(Pipeline):
    """The pipeline of a context in which no agent runs. Raises `AgentStateError`, because nothing is permitted
    there.
    """

    def _hooks(self, name: str) -> tuple[Callable[..., Around], ...]:  # noqa: ARG002
        return (_raise_no_agent,)


def _raise_no_agent(*_about: Any) -> Around:
    raise AgentStateError("no agent is running here")


NO_PIPELINE = _NoPipeline()

Observe: TypeAlias = "Callable[[AgentRun, str], RunObserver | None]"
"""Callback that creates the observing middleware of one run, None for no observer. The text is the `RunUsage.trace` of
the run that this one continues, or "".
"""

TOOL_TIMEOUT_SECONDS = 300.0
"""The default timeout of a call, if neither the tool nor the options set one."""


def _no_tools() -> SessionTools:
    return SessionTools(Catalog(Listing(), ToolSearch(enabled=False)), Conversation())


async def _nothing() -> None:
    """Do nothing: the default of `refresh`, for a run whose tools never change."""


async def nothing_to_keep() -> None:
    """Do nothing: the default of `keep`, for a session that is not stored."""


@dataclass(frozen=True, slots=True)
class RunContext(Generic[Deps]):
    """The run in which a tool function is called, or for which a toolset lists its tools.

    A tool function receives it as its first parameter, annotated `RunContext` or `RunContext[YourDeps]`. The model
    never sees that parameter. `deps` are the values passed to `Agent.session(deps=...)` or `ask(deps=...)`;
    `tool_context` is the state that tools share. `thread_id` is the ID of the session, `run_id` that of the run, ""
    while an agent starts. `call_id` and `tool_name` identify this call; `approved` is True if a person or
    `ApprovalPolicy(decide=...)` approved it. `prompt` is the text of the prompt. `emit` reports an event to the
    listeners of the run. What you enter into `exits` is closed when the run ends, even if it is cancelled.
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
    exits: AsyncExitStack = field(
        default_factory=AsyncExitStack, repr=False, compare=False
    )
    _conversation: Conversation = field(default_factory=Conversation, repr=False)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far, including the message with this call."""
        return tuple(self._conversation.messages)


@dataclass(frozen=True)
class AgentRun:
    """The engine's state of one active prompt; tool functions receive only its `context`.

    - `refresh` updates the tools before each request. `keep` stores new entries before the next step if sessions are
      stored, and raises `SessionStoreError` if that fails.
    - `answers` are the answers to open calls by call ID.
    - `parent` is the run whose call this run answers, as the tool `label`. Its limits apply to both, as does its
      session's `budget`.
    - `asking` is locked during a question to a person, so there is one question at a time.
    - `hints` are those for its model. `begins_at` is the index of the run's first message: the prompt, or an
      announcement before it.
    - `of_call` counts the usage of agents inside one call; None outside of a call.
    - `limits` are those of this run. `large` stores large results. `provider_tools` run at the model's provider.
    - `pipeline` surrounds the parts of the run; `observe` creates an observer, also for called agents that have none.
    """

    context: RunContext[Any]
    conversation: Conversation = field(default_factory=Conversation, repr=False)
    model: Model = field(default_factory=NoModel, repr=False, compare=False)
    tools: SessionTools = field(default_factory=_no_tools, repr=False, compare=False)
    settings: ModelSettings = field(default_factory=ModelSettings, repr=False)
    tool_timeout_seconds: float = TOOL_TIMEOUT_SECONDS
    compaction: Compaction | None = field(default_factory=Compaction, repr=False)
    emit: Emit = field(default=ignore, repr=False, compare=False)
    refresh: Callable[[], Awaitable[None]] = field(
        default=_nothing, repr=False, compare=False
    )
    keep: Callable[[], Awaitable[None]] = field(
        default=nothing_to_keep, repr=False, compare=False
    )
    begins_at: int = 0
    permissions: ApprovalPolicy = field(
        default_factory=ApprovalPolicy, repr=False, compare=False
    )
    answers: Mapping[str, CallAnswer] | None = field(default=None, repr=False)
    parent: AgentRun | None = field(default=None, repr=False)
    label: str = ""
    tally: RunUsage = field(default_factory=RunUsage, repr=False, compare=False)
    budget: SessionBudget = field(default_factory=SessionBudget, repr=False)
    state: StateChannel = field(
        default_factory=lambda: StateChannel(ToolContext()), repr=False, compare=False
    )
    hints: ModelHints = field(default=NO_HINTS, repr=False)
    provider_tools: tuple[ProviderTool, ...] = field(default=(), repr=False)
    large: LargeResults = field(default_factory=LargeResults, repr=False, compare=False)
    asking: asyncio.Lock = field(
        default_factory=asyncio.Lock, repr=False, compare=False
    )
    of_call: CallTally | None = field(default=None, repr=False, compare=False)
    limits: Limits = field(default_factory=Limits, repr=False)
    pipeline: Pipeline = field(default=NO_PIPELINE, repr=False, compare=False)
    observe: Observe | None = field(default=None, repr=False, compare=False)

    def for_call(self, call: CallState) -> AgentRun:
        """Return the run with the context of this call."""
        if call.tool is not None:
            name = call.tool.name
        else:
            name = call.call.name
        context = replace(
            self.context, call_id=call.call.id, tool_name=name, approved=call.by_person
        )
        call.tally.caller = self.of_call
        return replace(self, context=context, of_call=call.tally)

    def heard_by(self, listener: Emit) -> AgentRun:
        """Return the run with a listener that receives each event before the others."""
        hear, emit = guarded(listener), self.emit

        def report(event: Event) -> None:
            hear(event)
            emit(event)

        return replace(self, context=replace(self.context, emit=report), emit=report)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Make this the current run in this task and the tasks that it starts."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    @property
    def lineage(self) -> Iterator[AgentRun]:
        """Yield this run, its parent, and so on up to the outermost run."""
        run: AgentRun | None = self
        while run is not None:
            yield run
            run = run.parent

    @property
    def left_after(self) -> float:
        """Maximum wait for a cancelled call or request to end. It is shorter in a run that is itself a call, so that it
        ends before its caller abandons it.
        """
        return LEFT_AFTER_SECONDS / len(list(self.lineage))

    async def wait(self, settle: Callable[[float], Awaitable[float]]) -> None:
        """Wait for servers.

        `settle` receives the seconds that the whole prompt has waited so far, including called agents, and returns the
        seconds that it added.
        """
        *_, question = self.lineage
        question.tally.waited_seconds += await settle(question.tally.waited_seconds)

    def session_amounts(self) -> tuple[Spent, ...]:
        """Return the usage of the run's session: of this run, and of the earlier ones."""
        return *self.tally.amounts(), self.budget.before

    def count(self, spent: Spent) -> None:
        """Add the usage of a request or a call to this run and to all runs that contain it."""
        run: AgentRun | None = self
        while run is not None:
            run.tally.spent += spent
            if run.of_call is not None:
                run.of_call.spent += spent
            run = run.parent

    @asynccontextmanager
    async def sending(
        self, step: StepState, emit: Emit, sent_tokens: Callable[[], int] | None = None
    ) -> AsyncIterator[ActiveRequest]:
        """Await the `task` that the body sets, and store its response in the step. A request that is cut off is
        counted, too.

        `emit` receives the events of the answer. `sent_tokens` estimates the tokens of the request.
        """
        request, offer = step.prepared()
        step.begun, started = time.time(), time.monotonic()
        step.under_way = ActiveRequest(
            self.model, request, emit, self.count, sent_tokens
        )
        with step.under_way as under_way:
            yield under_way
            task = under_way.task
            assert task is not None
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                left = f"{safe_line(self.model.name, 80)} does not end when it is cancelled; its request is left"
                await end_or_leave(
                    task, self.left_after, lambda: self.emit(Notice(left, "warning"))
                )
                raise asyncio.CancelledError from None
            saved = offer.known_tokens - offer.offered_tokens
            step.settle(
                under_way.answered(
                    task.result(), offered=offer.offered_tokens, saved=saved
                )
            )
        step.seconds = time.monotonic() - started

    @contextmanager
    def asking_a_person(self) -> Iterator[None]:
        """Stop the clocks of this run, of its call, and of all runs and calls that contain it, while a person is
        asked.
        """
        with ExitStack() as clocks:
            for run in self.lineage:
                clocks.enter_context(run.tally.clock.standing())
                tally = run.of_call
                while tally is not None:
                    clocks.enter_context(tally.standing())
                    tally = tally.caller
            yield


_CURRENT: ContextVar[AgentRun | None] = ContextVar("mcpagent_run_context", default=None)


def current_run() -> AgentRun | None:
    """Return the run that calls this code; None outside of a run."""
    return _CURRENT.get()


def active_run() -> AgentRun:
    """Return the run that calls this code. Raises `AgentStateError` outside of a run."""
    run = _CURRENT.get()
    if run is None:
        raise AgentStateError(
            "no agent is running here; a RunContext exists only while a tool is called or listed"
        )
    return run


def run_context() -> RunContext[Any]:
    """Return the context of the run that calls this code. Raises `AgentStateError` outside of a run."""
    return active_run().context


@contextmanager
def outside_of_runs() -> Iterator[None]:
    """Make code in this context run outside of any run."""
    token = _CURRENT.set(None)
    try:
        yield
    finally:
        _CURRENT.reset(token)
