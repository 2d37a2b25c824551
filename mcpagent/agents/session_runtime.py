"""`SessionRuntime`: the internal part of a `Session`: history, tools, pending calls, storage and the active run."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
import weakref
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import uuid4

from mcpagent.agents.run_input import RunInput
from mcpagent.agents.runnable import Runnable
from mcpagent.code_mode.memory import Memory
from mcpagent.code_mode.program_calls import waiting_inner
from mcpagent.code_mode.program_tools import program_tools
from mcpagent.errors import AgentStateError, InputError, LimitError
from mcpagent.history.conversation import INNER, Conversation
from mcpagent.history.sent_messages import OmittedParts, not_sent
from mcpagent.journal.sessions.loaded_session import LoadedSession, SessionInfo
from mcpagent.journal.sessions.run_ended import DurableResult, RunEnded
from mcpagent.journal.sessions.saved_state import (
    InitialValues,
    KnownTools,
    LastAnnounced,
    PendingParts,
    SavedState,
    StoppedAnswer,
    UnfinishedRun,
)
from mcpagent.journal.sessions.session_writer import SessionWriter, kept_as, restored
from mcpagent.journal.sessions.store import Sessions
from mcpagent.journal.sessions.stored_outputs import StoredOutputs
from mcpagent.models.base import (
    Model,
    runs_provider_tools,
    search_cost,
    search_problem,
    tool_limits,
)
from mcpagent.models.base import is_small as known_as_small
from mcpagent.models.provider_tools.provider_tool_values import ProviderTool
from mcpagent.prompt.builder import (
    category_lines,
    connecting_line,
    connecting_section,
    programs_section,
    system_prompt,
    tool_search_section,
)
from mcpagent.run.agent_run import (
    AgentRun,
    Pipeline,
    RunContext,
    RunResult,
    RunUsage,
    SessionBudget,
    current_run,
    nothing_to_keep,
)
from mcpagent.run.compaction.compacting import compact_now, sent_now
from mcpagent.run.large_results.offloaded_results import LargeResults
from mcpagent.run.loop import converse
from mcpagent.run.middleware.permission_gate import (
    instructs_at_once,
    waiting_calls,
)
from mcpagent.run.output.last_answer import typed_answer
from mcpagent.run.output.output_spec import OutputSpec, spec_from_json, spec_to_json
from mcpagent.run.run_parts import Stop
from mcpagent.tool_search.announcements import announce
from mcpagent.tool_search.catalog import Catalog, Listing, NameTable
from mcpagent.tool_search.catalog_snapshot import listing_as_begun, told_last
from mcpagent.tool_search.search_options import ToolSearch
from mcpagent.tool_search.search_tools import tool_search_tools
from mcpagent.tool_search.session_tools import SessionTools
from mcpagent.toolsets.definition import Owner
from mcpagent.utilities.python.argument_checks import expect
from mcpagent.utilities.python.event_loops import in_own_loop
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.approval import CallsPendingError, PendingCall
from mcpagent.values.events import (
    LIMIT_STOPS,
    ConversationCompacted,
    Emit,
    Event,
    RunFinished,
    guarded,
)
from mcpagent.values.limits.model_hints import NO_HINTS, SMALL_MODEL_HINTS
from mcpagent.values.limits.run_limits import Limits
from mcpagent.values.messages import (
    Content,
    Message,
    Spent,
    Step,
    Text,
    ToolCall,
    ToolDefinition,
)
from mcpagent.values.tool_context import StateChannel, ToolContext
from mcpagent.values.type_variables import Deps

if TYPE_CHECKING:
    from mcpagent.search import SearchResult

_SMALL_WITH_PROGRAMS = (
    "is a small model: in code mode, a search also loads the tools that it finds, for direct calls; "
    'profile="large" disables that'
)

_T = TypeVar("_T")
_O = TypeVar("_O")

NOT_ANSWERED = "This call waited for an approval or an answer that was not given, so it was not run."

BUSY = "this session is answering already; await that answer first, or use another one: agent.session()"


class SessionRuntime(Runnable[Deps]):
    """The state of one conversation; `Session` is the public part of it.

    Tool functions receive `deps` and `tool_context`, unless a run has its own. `limits` apply to all runs of the
    session together. `shown` refers to the `Session` while user code does.
    """

    # A `__dict__` with so many attributes would take two more kilobytes per session.
    __slots__ = (
        "__weakref__",
        "_begun",
        "_conversation",
        "_ended",
        "_given_system",
        "_has_begun",
        "_held",
        "_info",
        "_is_closed",
        "_is_given_back",
        "_is_small",
        "_keeper",
        "_large",
        "_leaving",
        "_listed",
        "_looked_at",
        "_made_at",
        "_memory",
        "_model",
        "_offered_first",
        "_only_asked_wait",
        "_output",
        "_owner",
        "_pending",
        "_prompt_text",
        "_run",
        "_run_end",
        "_section",
        "_shelf",
        "_spent",
        "_stopped",
        "_store",
        "_task",
        "_tools",
        "_trace",
        "_unfinished",
        "_wants_instructions",
        "deps",
        "durable_run",
        "id",
        "limits",
        "shown",
        "tool_context",
    )

    def __init__(
        self,
        owner: Owner,
        *,
        id: str | None = None,  # noqa: A002 - what everybody calls it
        messages: Sequence[Message] = (),
        deps: Deps | None = None,
        tool_context: ToolContext | None = None,
        system: str = "",
        store: Sessions | None = None,
        kept: LoadedSession | None = None,
    ) -> None:
        expect("id", id, (str, NoneType), "a text", error=InputError)
        _expect_usable(tool_context)
        if kept is not None:
            conversation, standing = restored(kept)
        else:
            conversation, standing = Conversation(messages=messages), SavedState()
        self._given_system = standing.beginning.given_system or system
        self.id = id or uuid4().hex
        self.deps = deps
        self.tool_context = tool_context or ToolContext()
        self.limits = owner.definition.options.session_limits
        self.shown: weakref.ref[Any] | None = None
        self._owner = owner
        self._store = store
        self._keeper: SessionWriter | None = None
        self._large = self._with_nothing_aside()
        self._is_given_back = False
        self.durable_run = standing.durable
        self._run_end: RunEnded | None = None
        self._info = kept.info if kept is not None else None
        self._made_at = time.time()
        self._spent = standing.spent
        self._pending = standing.pending
        self._unfinished = standing.run
        self._trace = standing.trace
        self._stopped = tuple(
            one for one in standing.stopped if one.place <= len(conversation)
        )
        self._output = (
            spec_from_json(standing.output) if standing.output is not None else None
        )
        self._only_asked_wait = kept is not None
        """True if open calls without an approval request have not been started."""
        self._begun: SavedState | None = standing if kept is not None else None
        self._run: AgentRun | None = None
        self._task: asyncio.Task[Any] | None = None
        self._ended = asyncio.Event()
        self._is_closed = False
        self._leaving: asyncio.Task[RunFinished] | None = None
        self._memory = self._remembered(standing.programs)
        self._listed = owner.from_toolsets
        self._held: Catalog | None = None
        self._looked_at: Listing | None = None
        self._conversation: Conversation
        self._tools: SessionTools
        self._has_begun: bool
        self._begin(conversation, begun=standing if kept is not None else None)
        if kept is not None:
            for problem in self.tool_context.restore_namespaces(standing.state):
                owner.warn(f'session "{safe_line(self.id, 60)}": {problem}')
        if store is not None:
            self._keep_in(SessionWriter(store, self.id, kept=kept, standing=standing))

    def __repr__(self) -> str:
        pending = len(self.pending)
        if self.is_answering:
            state = "answering"
        elif pending:
            state = f"{pending} pending"
        else:
            state = "idle"
        held = f"{len(self._conversation)} messages, {len(self._tools.known)} tools"
        return f"<Session {safe_line(self.id, 60)}: {held}, {state}>"

    # -- Runs ----------------------------------------------------------------------------------------------------------

    @property
    def _asked(self) -> SessionRuntime[Deps]:
        return self

    @in_own_loop
    async def answer_to(self, given: Callable[[], RunInput]) -> Any:
        """Return the answer, as `ask` and `resume` do."""
        asked = await given().with_files()
        await self._left()
        with self._running(asked) as run:
            return self._answer(
                await converse(run, self._wanted(run, asked)), asked.spec
            )

    @in_own_loop
    async def result_of(self, given: Callable[[], RunInput]) -> RunResult[Any]:
        """Return the whole result, as `run` does."""
        asked = await given().with_files()
        await self._left()
        earlier = len(self._conversation)
        with self._running(asked) as run:
            return self._result(
                await converse(run, self._wanted(run, asked)), earlier, asked.spec
            )

    async def begin_task(
        self, given: Callable[[], RunInput], listener: Emit
    ) -> tuple[asyncio.Task[RunFinished], ExitStack]:
        """Start a run whose events also go to `listener`.

        Return its task, and an exit stack to close if the task never starts.
        """
        asked = await given().with_files()
        await self._left()
        owner, running = self._owner, ExitStack()

        def listen(event: Event) -> None:
            listener(event)
            owner.emit(event)

        # The run is set up here, so that the caller gets the error for an unusable prompt.
        run = running.enter_context(self._running(asked, listener=listen))
        running.callback(owner.subscribe(listener))
        self._task = asyncio.create_task(
            self._streamed(run, asked, running), name="mcpagent-stream"
        )
        return self._task, running

    def leave(self, task: asyncio.Task[RunFinished]) -> None:
        """Abandon the run of `begin_task`: the session is free, and its next run waits for the abandoned one to end."""
        self._run, self._leaving = None, task

    def _wait_for_answer(self, given: Callable[[], RunInput]) -> Any:
        return self._owner.wait_for(lambda: self.answer_to(given))

    def _here(self, work: Coroutine[Any, Any, _T]) -> Coroutine[Any, Any, _T]:
        return self._owner._here(work)

    async def _streamed(
        self, run: AgentRun, asked: RunInput, running: ExitStack
    ) -> RunFinished:
        with (
            running
        ):  # before the task ends, so that listeners of the end find the session idle
            finished = await converse(run, self._wanted(run, asked))
            self._pending = finished.pending
            return finished

    @in_own_loop
    async def compact(self, keep: str = "") -> ConversationCompacted | None:
        """Let the model summarise the messages before the last prompt; later requests contain the summary instead.

        `messages` stays complete. `keep` is the topic that the summary must cover above all. Returns None if there is
        nothing to summarise. Raises `InputError` while calls wait for an answer, `LimitError` when a limit forbids or
        ends the compaction, and the errors of `ask`.
        """
        expect("compact", keep, str, "what to keep, as text", error=InputError)
        await self._left()
        unfinished, pending, before = self._unfinished, self._pending, self._spent
        if self._conversation.open_calls:
            raise InputError(
                "compact: calls wait for an answer; answer them first: session.resume(...)"
            )
        try:
            with self._running(RunInput({})) as run:
                run.tally.is_over, run.tally.pending = True, pending
                made = None
                with run.entered(), contextlib.suppress(Stop):
                    async with (
                        run.pipeline.around_run(run),
                        run.pipeline.around_turns(run),
                    ):
                        await run.refresh()
                        made = await compact_now(run, keep)
                reached = run.tally.reached
                if made is None and reached is not None:
                    raise LimitError(reached.text, stop=LIMIT_STOPS[reached.limit])
                return made
        finally:
            if self._unfinished is None and unfinished is not None:
                self._unfinished, self._spent = unfinished, before + run.tally.taken
                self._keep_soon()

    def pin(self, place: int = -1) -> None:
        """Exempt a message and the results of its calls from summaries.

        `place` is its position in `messages`; -1 is the last prompt. Raises `InputError` if the position is invalid,
        and `AgentStateError` while the session is answering.
        """
        self._require_idle()
        expect("pin", place, int, "the position of a message", error=InputError)
        if not self._conversation.pin(self._last_prompt if place == -1 else place):
            raise InputError(
                f"pin: the conversation has {len(self._conversation)} messages, got {place}"
            )
        self._keep_soon()

    @property
    def _last_prompt(self) -> int:
        messages = self._conversation.messages
        places = range(len(messages) - 1, -1, -1)
        return next(
            (
                at
                for at in places
                if messages[at].text == self._prompt_text
                and messages[at].role == "user"
            ),
            -1,
        )

    @contextmanager
    def _running(
        self,
        asked: RunInput,
        *,
        parent: AgentRun | None = None,
        label: str = "",
        listener: Emit | None = None,
    ) -> Iterator[AgentRun]:
        """Set up a run for an input; count its usage however the run ends."""
        said, options = asked.said, self._owner.definition.options
        _expect_usable(asked.tool_context, asked.limits)
        self._owner.require_usable()
        self._require_idle()
        if self._is_given_back:
            raise AgentStateError(
                "this session ended with its agent; open it again: agent.session(id)"
            )
        self.refresh()
        conversation, unfinished = (
            self._conversation,
            self._unfinished or UnfinishedRun(len(self._conversation)),
        )
        given = said if isinstance(said, Mapping) else None
        if not isinstance(said, Mapping):
            asked_about = {call.call_id for call in self._pending}
            if any(call.call_id in asked_about for call in self._waiting()):
                conversation.close_open_calls(NOT_ANSWERED)
            conversation.say(
                cast("Sequence[Content]", said)
            )  # `with_files` has already read the files
            self._prompt_text = conversation.messages[-1].text
            self._spent += unfinished.spent
            unfinished = UnfinishedRun(len(conversation) - 1)
            self._output = None
        self._unfinished = None
        context = (
            asked.tool_context if asked.tool_context is not None else self.tool_context
        )
        emit = guarded(listener or self._owner.emit)
        seen: RunContext[Any] = RunContext(
            asked.deps if asked.deps is not None else self.deps,
            context,
            run_id=self.durable_run or uuid4().hex,
            thread_id=self.id,
            prompt=self._prompt_text,
            emit=emit,
            _conversation=conversation,
        )
        model = self._owner.model
        run = AgentRun(
            seen,
            conversation,
            model=model,
            tools=self._tools,
            settings=options.settings,
            tool_timeout_seconds=options.tool_timeout_seconds,
            compaction=options.compaction,
            limits=(asked.limits or options.limits).of_run(),
            emit=emit,
            refresh=lambda: self._list_again(run),
            keep=partial(self._keep, conversation)
            if self._keeper is not None
            else nothing_to_keep,
            begins_at=unfinished.begins_at,
            tally=RunUsage(turns=unfinished.turns, earlier=unfinished.spent),
            budget=SessionBudget(self.limits, self._spent),
            permissions=self._owner.permissions,
            answers=given,
            parent=parent,
            label=label,
            state=StateChannel(context),
            hints=SMALL_MODEL_HINTS if self._is_small else NO_HINTS,
            pipeline=self._owner.pipeline,
            provider_tools=self._provider_tools(model),
            large=self._large,
            asking=parent.asking if parent is not None else asyncio.Lock(),
        )
        if self._keeper is not None:
            self._keeper.run = seen.run_id
        run = self._observed(run, is_continued=given is not None)
        self._run, self._task, self._ended, self._is_closed = (
            run,
            asyncio.current_task(),
            asyncio.Event(),
            False,
        )
        ended, earlier = self._ended, len(conversation)
        failure: Exception | None = None
        try:
            yield run
        except Exception as error:
            failure = error
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._is_closed or task is None or task.uncancel():
                raise
            raise AgentStateError("the agent was closed while it answered") from None
        finally:
            ended.set()
            self._trace = run.tally.trace or self._trace
            if self._run is run:
                self._run = None
            self._owner.count(run.tally.taken)
            if failure is not None:
                self._fail_run(run.context.run_id, failure)
            self._account(run, earlier)

    def _account(self, run: AgentRun, earlier: int) -> None:
        """Count the usage of a run that began after `earlier` messages, and note whether it is unfinished."""
        tally, conversation = run.tally, run.conversation
        if conversation is not self._conversation:
            if run.context.thread_id == self.id:  # a new conversation has no cost yet
                self._spent += tally.so_far
            return
        if tally.is_over:
            self._spent += tally.so_far
            self._pending = tally.pending
        else:  # the run that resumes this one counts the usage
            self._unfinished = UnfinishedRun(run.begins_at, tally.turns, tally.so_far)
            if conversation.open_calls and conversation.place > earlier:
                self._only_asked_wait = (
                    True  # the last calls were journaled but not started
                )
        self._output = self._output if self._is_wanted(run) else None
        if tally.is_over:
            self.durable_run = ""
        self._keep_soon()
        self._run_end = None

    def _fail_run(self, run: str, failure: Exception) -> None:
        """Record that the run of this ID ended with this error, also if the run is durable."""
        self._run_end = RunEnded.failed(run, failure)
        self.durable_run = ""

    def fail(self, failure: Exception) -> None:
        """Store the error that ended a durable run before its first step; a second call does nothing."""
        if self.durable_run:
            self._fail_run(self.durable_run, failure)
        self._keep_soon()
        self._run_end = None

    def _with_nothing_aside(self) -> LargeResults:
        definition = self._owner.definition
        self._shelf = (
            StoredOutputs(self._store, self.id) if self._store is not None else None
        )
        return LargeResults(
            self._shelf, definition.options.large_result_tokens, definition.bind
        )

    def _observed(self, run: AgentRun, *, is_continued: bool) -> AgentRun:
        """Return the run with the observing middleware: that of this agent, or else that of the calling agent."""
        observe, earlier = (
            self._owner.definition.observe,
            self._trace if is_continued else "",
        )
        if observe is None and run.parent is not None:
            observe, earlier = run.parent.observe, ""
        observer = None
        if observe is not None:
            observer = observe(run, earlier)
        if observer is None:
            return run
        run = run.heard_by(observer.hear)
        return replace(
            run, observe=observe, pipeline=Pipeline((*run.pipeline.items, observer))
        )

    def _provider_tools(self, model: Model) -> tuple[ProviderTool, ...]:
        """Return the agent's provider tools; () if the model's provider runs no tools."""
        if runs_provider_tools(model):
            return self._owner.definition.provider_tools
        return ()

    @staticmethod
    def _is_wanted(run: AgentRun) -> bool:
        """Return whether the run's answer is still missing, also after a limit ended the run."""
        return (
            not run.tally.is_over
            or bool(run.tally.pending)
            or _is_unfinished(run.conversation)
        )

    def _result(
        self, finished: RunFinished, earlier: int, spec: OutputSpec | None
    ) -> RunResult[Any]:
        self._pending = finished.pending
        new = self._conversation.messages[earlier:]
        about = (finished.answer, finished.stop, finished.usage, finished.spent)
        output = None
        if spec is not None:
            output = partial(typed_answer, finished, spec)
        return RunResult(
            *about,
            new,
            finished.pending,
            finished.citations,
            finished.problems,
            limit=finished.limit,
            _output=output,
        )

    def _answer(self, finished: RunFinished, spec: OutputSpec | None) -> Any:
        self._pending = finished.pending
        if finished.pending:
            raise CallsPendingError(finished.pending)
        return typed_answer(finished, spec)

    def _wanted(self, run: AgentRun, asked: RunInput) -> OutputSpec | None:
        """Check the answers to calls and return the specification of the output (None: text).

        Raises `InputError` for unusable answers.
        """
        self._check_answers(run)
        self._output = asked.spec or self._output
        return self._output

    def _check_answers(self, run: AgentRun) -> None:
        """Raise `InputError` unless the answers match the pending calls one to one."""
        if run.answers is None:
            return
        waiting = {call.call_id: call.tool for call in self._waiting()}
        if (
            self._only_asked_wait
        ):  # the other calls were not started, or can be repeated
            asked = {call.call_id for call in self._pending} | run.answers.keys()
            waiting = {
                call_id: tool for call_id, tool in waiting.items() if call_id in asked
            }
        if foreign := [call_id for call_id in run.answers if call_id not in waiting]:
            raise InputError(
                f'resume: no call "{safe_line(foreign[0], 60)}" waits for an answer; see session.pending'
            )
        is_open = run.begins_at < len(run.conversation)
        if not waiting and not _is_unfinished(run.conversation) and not is_open:
            raise InputError("resume: no call waits for an answer; ask instead")
        if missing := [
            (tool, call_id)
            for call_id, tool in waiting.items()
            if call_id not in run.answers
        ]:
            named = ", ".join(
                f'"{safe_line(tool, 60)}" ({safe_line(call_id, 60)})'
                for tool, call_id in missing
            )
            raise InputError(f"resume: answer every call that waits; missing: {named}")
        if any(answer.session not in ("", self.id) for answer in run.answers.values()):
            raise InputError(
                "resume: an answer is of another session; answer what this session.pending has"
            )

    def close(self) -> asyncio.Event | None:
        """End the active run, because the agent closes; return the event that its end sets, or None without a run.

        Code that waits for the answer gets `AgentStateError`. A run that itself calls this method continues.
        """
        asking = current_run()
        is_own = asking is not None and any(
            run.context.thread_id == self.id for run in asking.lineage
        )
        if is_own or self._task is None or self._task.done() or self._ended.is_set():
            return None
        self._is_closed = True
        self._task.cancel()
        return self._ended

    async def _left(self) -> None:
        """Wait for the end of an abandoned run, unless that run is the caller."""
        while self._is_ending:
            assert self._leaving is not None
            asking = current_run()
            if asking is not None and any(
                run.context.thread_id == self.id for run in asking.lineage
            ):
                raise AgentStateError(BUSY)
            await asyncio.wait({self._leaving})

    @property
    def _is_ending(self) -> bool:
        """True if an abandoned run has not ended yet. A run whose event loop is closed counts as ended."""
        task = self._leaving
        return task is not None and not task.done() and not task.get_loop().is_closed()

    def _require_idle(self) -> None:
        if self._run is not None:
            raise AgentStateError(BUSY)

    # -- Properties ----------------------------------------------------------------------------------------------------

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far: a valid history, except for calls at its end that are pending or running."""
        return tuple(self._conversation.messages)

    @property
    def sent_messages(self) -> tuple[Message, ...]:
        """The messages of the next request before its prompt.

        These are all messages; after a compaction, a message with the summary and then the later messages.
        """
        return tuple(sent_now(self._conversation).sent)

    @property
    def left_out(self) -> OmittedParts:
        """The part of `messages` that the next request omits."""
        return not_sent(sent_now(self._conversation).messages)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The tokens, cost and time of each answer, in order; answers of other programs are missing."""
        return tuple(self._conversation.steps)

    @property
    def system(self) -> str:
        """The system prompt of this conversation."""
        self.refresh()
        return self._conversation.system

    @property
    def spent(self) -> Spent:
        """The tokens, cost, calls and time of all runs of this session."""
        if self._unfinished is not None:
            return self._spent + self._unfinished.spent
        return self._spent

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The calls that wait for an answer: those in the history without a result, unless they are running."""
        waiting = self._waiting()
        if self.is_answering or self._only_asked_wait:
            asked = {call.call_id for call in self._pending}
            waiting = [call for call in waiting if call.call_id in asked]
        return tuple(waiting)

    def _waiting(self) -> list[PendingCall]:
        """Return the calls without a result. Calls that programs make come from the state of the programs."""
        inner: dict[str, PendingCall] = {}
        for asked in self._pending:
            if INNER not in asked.call_id:
                continue
            made = waiting_inner(self._tools, self._memory, asked.call_id, self.id)
            if made is not None:
                inner[asked.call_id] = made
            elif asked.fingerprint:  # the call is from a replay, which runs no programs
                inner[asked.call_id] = asked
        return waiting_calls(self._conversation, self._tools, self.id, inner)

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON Schema of the answer to the active, pending or unfinished run; None for text."""
        return self._output.schema if self._output is not None else None

    @property
    def is_unfinished(self) -> bool:
        """True if a prompt has no answer yet, after an error or the end of a process: `resume()` continues the run.

        False while calls wait for an answer (`pending`), and while a run is active.
        """
        return (
            not self.is_answering
            and not self.pending
            and _is_unfinished(self._conversation)
        )

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the last answer that have no result yet."""
        return self._conversation.open_calls

    @property
    def is_kept(self) -> bool:
        """True if the agent's store saves the messages of this session."""
        return self._keeper is not None and not self._keeper.is_released

    @property
    def is_answering(self) -> bool:
        """True while a run is in progress, or still ending after its stream was abandoned."""
        return self._run is not None or self._is_ending

    @property
    def tools(self) -> SessionTools:
        """The current tools of this conversation: known, deferred, offered."""
        self.refresh()
        return self._tools

    @property
    def discovered_tools(self) -> dict[str, ToolDefinition]:
        """The offered tools, except `search_tools` and other tools of mcpagent: first the pre-discovered ones by name,
        then the rest in the order of discovery.
        """
        tools = self.tools
        return {
            tool.name: tool.definition
            for tool in tools.offer()
            if not tools.is_own(tool)
        }

    # -- Beginning and updates -----------------------------------------------------------------------------------------

    def begin_anew(self, messages: Sequence[Message] = (), *, system: str = "") -> None:
        """Start a new conversation without discovered tools; with `messages`, continue after these.

        `system` is the system prompt of `messages`, which is added to the agent's instructions. Raises
        `AgentStateError` while the session is answering. Messages that an abandoned run still produces are ignored.
        """
        self._require_idle()
        self.stop_keeping()
        self._given_system = system
        self.id = uuid4().hex
        self._info, self._made_at = None, time.time()
        self._large = self._with_nothing_aside()
        self._memory = Memory(store_key=self._memory.store_key)
        self._begin(Conversation(messages=messages))
        self._pending, self._unfinished = (), None
        self._output = None
        self._only_asked_wait, self._begun, self._spent = False, None, Spent()
        self._stopped = ()
        if self._store is not None:
            self._keep_in(SessionWriter(self._store, self.id))

    def rewind(self, length: int) -> None:
        """Remove all but the first `length` messages, and the tools that were discovered after these.

        Variables of programs are restored. A length between a call and its result removes both. Effects outside, and
        the spending, remain. Raises `InputError` for a length that the conversation does not have, and
        `AgentStateError` while the session is answering.
        """
        self._require_idle()
        messages = self._conversation.messages
        expect("rewind", length, int, "a number of messages", error=InputError)
        if not 0 <= length <= len(messages):
            raise InputError(
                f"rewind: the conversation has {len(messages)} messages, got {length}"
            )
        while 0 < length < len(messages) and messages[length].role == "tool":
            length -= 1
        self._go_on(length)
        self._memory.rewind(
            length, self._conversation.open_calls, self._conversation.place
        )
        self._unfinished = self._output = None
        self._stopped = tuple(one for one in self._stopped if one.place <= length)
        self._keep_soon()

    def stopped_after(self, length: int) -> list[str]:
        """Return the texts of the answers that were stopped after the first `length` messages."""
        return [one.text for one in self._stopped if one.place == length]

    def add_stopped(self, text: str) -> None:
        """Store the text of an answer that the user stopped; it is displayed to the user and never sent to a model."""
        stopped = StoppedAnswer(len(self._conversation), text)
        self._stopped = (*self._stopped, stopped)
        self._keep_soon()

    def _go_on(self, length: int | None = None) -> None:
        """Begin again after the first `length` messages (None: all), as the same conversation.

        The beginning of the conversation stays the same, because reasoning and caches depend on it, unless the model
        now finds tools by another method.
        """
        before, system = self._tools, self._conversation.system
        kept = self._conversation.first(length)
        if not len(kept):
            self._begun = None
        self._begin(kept, after=before if len(kept) else None)
        if len(kept) and _how_found(self._tools) == _how_found(before):
            self._conversation.system, self._wants_instructions = system, False
        if self._is_ending:  # ignore later events of the abandoned run
            self._conversation.close_open_calls()

    def _begin(
        self,
        conversation: Conversation,
        after: SessionTools | None = None,
        begun: SavedState | None = None,
    ) -> None:
        """Begin the conversation. `after` is its earlier state in this process, `begun` its state in another process.

        An exception leaves the session unchanged.
        """
        owner, has_begun = self._owner, len(conversation) > 0
        model = owner.model
        is_small = known_as_small(model, owner.definition.options.settings)
        tools = SessionTools(
            self._catalog(has_begun),
            conversation,
            search=owner.catalogs.search.for_model(is_small=is_small),
            pinned=owner.definition.pinned,
            after=after,
            search_cost=partial(search_cost, model),
            limits=partial(tool_limits, model),
            settle=self._settle,
            instructs=instructs_at_once,
            has_programs=owner.definition.code_mode is not None,
        )
        if after is None:
            self._large.begin(tools)
        else:
            tools.later = after.later
        if begun is not None:
            self._looked_at = tools.catalog.listing
            self._know_as_then(tools, begun)
        self._model, self._tools, self._conversation, self._has_begun = (
            model,
            tools,
            conversation,
            has_begun,
        )
        self._is_small = is_small
        self._prompt_text = _last_asked(conversation.messages)
        self._open()
        self._warn_of_misfits()
        if begun is not None:
            self._conversation.system, self._offered_first = (
                begun.beginning.system,
                begun.beginning.offered,
            )
            self._wants_instructions = begun.beginning.wants_instructions

    def _know_anew(self, begun: SavedState) -> None:
        """Restore the catalog of the session's beginning.

        More tools may exist by now: servers have connected, or a `dynamic` toolset has returned others.
        """
        tools, listing = self._tools, self._owner.catalogs.listing_of(self._listed)
        if (
            listing is self._looked_at
            and _how_found(tools) == begun.beginning.how_found
        ):
            return
        self._looked_at, self._held = listing, None
        tools.begin(self._catalog(has_begun=True))
        self._know_as_then(tools, begun)
        system = self._conversation.system
        self._open()
        if _how_found(tools) == begun.beginning.how_found:
            self._conversation.system, self._wants_instructions = (
                system,
                begun.beginning.wants_instructions,
            )
            self._offered_first = begun.beginning.offered
        else:  # the model now finds tools by another method, so the conversation begins with the current tools
            self._held = None
            tools.begin(self._catalog(has_begun=True))
            self._open()

    def _know_as_then(self, tools: SessionTools, begun: SavedState) -> None:
        """Restore the tools that this conversation knew; later changes are announced before its next request."""
        now, offered, discovery = (
            tools.catalog,
            begun.beginning.offered,
            tools.conversation.discovery,
        )
        told = told_last(offered, tools.conversation.parts)
        found = {
            key for name, key in discovery.keys.items() if name not in discovery.lost
        }
        pinned = {tools.known[name].definition.key for name in tools.pinned}
        then = listing_as_begun(
            now.listing,
            told,
            found,
            lost={
                discovery.keys[name]
                for name in discovery.lost
                if name in discovery.keys
            },
            descriptions=begun.told.descriptions,
            connecting=begun.told.connecting,
            searching=begun.beginning.how_found[0],
            newly_offered=pinned - told.keys() - found,
            known=begun.told.known.keys if begun.told.known is not None else None,
        )
        names = {tool.definition.key: name for name, tool in tools.known.items()}
        if then.tools is now.listing.tools and all(
            names.get(key) == tool.name for key, tool in told.items()
        ):
            tools.listing = then
        else:
            shared = self._owner.catalogs.shared
            known = NameTable.of(
                {}, {key: definition.name for key, definition in told.items()}, {}
            )
            self._held = Catalog(
                then, now.search, listed=self._listed, after=known, shared=shared
            )
            tools.begin(self._held)
        tools.pinned = tuple(tool.name for tool in offered)

    def _open(self) -> None:
        """Set the session's own tools and the system prompt, depending on the current tools."""
        tools, owner, section = self._tools, self._owner, ""
        tools.virtual = ()
        if (code := owner.definition.code_mode) is not None:
            tools.virtual = tuple(
                owner.definition.bind(program_tools(tools, self._memory, code))
            )
            loads = tools.options.load == "search"
            section = programs_section(
                _category_lines(tools), loads=loads, has_direct=bool(tools.pinned)
            )
            if loads and self._is_small:
                owner.warn(f"{owner.model.name} {_SMALL_WITH_PROGRAMS}")
        elif tools.searching:
            tools.options = _possible_execution(tools, owner)
            tools.virtual = tuple(owner.definition.bind(tool_search_tools(tools)))
            lines = _category_lines(tools)
            loads = tools.options.load == "search"
            section = tool_search_section(
                lines,
                loads=loads,
                provider_searches=tools.provider_searches,
                is_short=self._is_small,
            )
        elif tools.listing.connecting:
            section = connecting_section(tools.listing.connecting)
        self._section, self._wants_instructions = (
            section,
            callable(owner.definition.instructions),
        )
        if isinstance(owner.definition.instructions, str):
            instructions = owner.definition.instructions
        else:
            instructions = ""
        self._conversation.system = self._prompt(instructions)
        self._offered_first = tools.definitions(
            name for name in tools.pinned if name in tools.known
        )
        if (words := tools.left_out()) and Text(words) not in self._conversation.parts:
            self._conversation.announce(words)

    def _warn_of_misfits(self) -> None:
        for line in self._tools.misfits:
            self._owner.warn(line)
        model = self._owner.model
        for tool in (
            self._owner.definition.provider_tools
            if not runs_provider_tools(model)
            else ()
        ):
            self._owner.warn(
                f"{model.name}: {tool.name} is left out: it has no provider that runs tools"
            )

    def _prompt(self, instructions: str) -> str:
        """Return the system prompt: the agent's instructions, the history's system messages, and the text about tool
        search.
        """
        own = "\n\n".join(text for text in (instructions, self._given_system) if text)
        return system_prompt(own, self._section)

    def _catalog(self, has_begun: bool) -> Catalog:
        """Return the catalog of the listed tools; a session that has begun keeps its tool names."""
        self._held = self._owner.catalogs.of(
            self._listed, self._held, goes_on=has_begun
        )
        return self._held

    async def _list_again(self, run: AgentRun) -> None:
        """Update the tools before a request. The first request waits for instructions that a function computes."""
        if (
            run.conversation is not self._conversation
        ):  # another conversation has replaced this one
            return
        with run.entered():
            self._listed = await self._owner.definition.sources.from_toolsets()
            if self._begun is not None:
                begun, self._begun = self._begun, None
                self._know_anew(begun)
            self.refresh()
            instructions = self._owner.definition.instructions
            if callable(instructions) and self._wants_instructions:
                words = instructions(run.context)
                if inspect.isawaitable(words):
                    words = await words
                expect(
                    "instructions", words, (str, NoneType), "a function that gives text"
                )
                self._conversation.system = self._prompt(words)
                self._wants_instructions = False
        if (
            not self._has_begun
        ):  # an unused session announces no tools that joined since its start
            self._warn_of_misfits()
        self._has_begun = True

    async def _settle(self) -> None:
        """Wait for connecting servers, within one limit per prompt, and update the tools."""
        run, sources = self._run, self._owner.definition.sources
        if run is None:
            await sources.settle(self._owner.emit, 0.0)
        else:
            await run.wait(partial(sources.settle, run.emit))
        if self._begun is not None and run is None:
            self._know_anew(self._begun)
        self.refresh()

    def refresh(self) -> None:
        """Update the tools from the sources, and announce changes to the model in the conversation.

        A new model begins with the tools that it supports. Changes before the first request become part of the
        beginning: the system prompt names the current tools.
        """
        if not self._owner.is_started:
            return
        if self._owner.model is not self._model:
            self._go_on()
        if self._begun is not None:
            return  # before the first run, a missing server does not count as lost
        catalog, tools = self._catalog(self._has_begun), self._tools
        if catalog is tools.catalog and catalog.listing is tools.listing:
            return
        if not self._has_begun:
            tools.begin(catalog)
            self._open()
            return
        before, definitions = tools.listing, [tool.definition for tool in tools.offer()]
        tools.catalog = catalog
        update = tools.refresh()
        if update is not None:
            announce(update, before, definitions, tools)
        self._warn_of_misfits()

    def _remembered(self, programs: Mapping[str, Any]) -> Memory:
        """Return the stored state of the programs of this session."""
        if self._store is None or self._owner.definition.code_mode is None:
            return Memory.from_json(programs, self.id)
        self._store.read_signing_key()
        return Memory.from_json(programs, self.id, self._store.signing_key)

    # -- Storage -------------------------------------------------------------------------------------------------------

    def _keep_in(self, keeper: SessionWriter) -> None:
        self._keeper = keeper
        weakref.finalize(
            self, keeper.release
        ).atexit = False  # the end of the process releases all leases

    async def _keep(self, conversation: Conversation) -> None:
        """Write the changes to the store before the next step of the run. Raises `SessionStoreError`."""
        if self._keeper is not None and conversation is self._conversation:
            await self._keeper.write(
                conversation, self._standing(self._run), model=self._owner.model.name
            )

    def _keep_soon(self) -> None:
        """Write the changes to the store in the background. The next run reports a failed write."""
        if self._keeper is not None:
            self._keeper.write_soon(
                self._conversation, self._standing(None), model=self._owner.model.name
            )

    def _standing(self, run: AgentRun | None) -> SavedState:
        """Return the values with which the session can continue later; `run` is the active run, or None."""
        listing, spent, pending, unfinished = (
            self._tools.listing,
            self._spent,
            self._pending,
            self._unfinished,
        )
        durable, ended = self.durable_run, self._run_end
        if run is not None:
            so_far = run.tally.so_far
            if run.tally.is_over:
                spent, pending = spent + so_far, run.tally.pending
                if run.tally.finished is not None:
                    result = DurableResult.of(run.tally.finished, so_far)
                    if not durable:  # the answer is in the last message
                        result = replace(result, answer="", output=None)
                    ended = RunEnded(run.context.run_id, result)
                durable = ""
            else:
                unfinished = UnfinishedRun(run.begins_at, run.tally.turns, so_far)
        conversation = self._conversation
        wanted = None
        if run is None or self._is_wanted(run):
            wanted = self._output
        return SavedState(
            beginning=InitialValues(
                system=conversation.system,
                given_system=self._given_system,
                wants_instructions=self._wants_instructions,
                how_found=_how_found(self._tools),
                offered=self._offered_first,
            ),
            told=LastAnnounced(
                self._tools.told_of_servers(),
                listing.connecting,
                KnownTools(listing.tools) if self._tools.searching else None,
            ),
            pending=pending,
            announced=PendingParts(
                conversation.announced, conversation.has_unanswered_prompt
            ),
            spent=spent,
            run=unfinished,
            state=self.tool_context.dump_namespaces(),
            durable=durable,
            ended=ended,
            trace=(run.tally.trace if run is not None else "") or self._trace,
            output=spec_to_json(wanted) if wanted is not None else None,
            programs=self._memory.to_json(self.id)
            if self._owner.definition.code_mode is not None
            else {},
            windows={**conversation.windows},
            stopped=self._stopped,
        )

    def snapshot(self) -> LoadedSession:
        """Return the session as a value for `mcpagent.journal.sessions.exported`; the agent needs no store for this."""
        self.refresh()
        info = self._info or SessionInfo(self.id, "", self._made_at, 0.0)
        return kept_as(
            info,
            self._conversation,
            self._standing(self._run),
            model=self._owner.model.name,
        )

    def stop_keeping(self) -> None:
        """Continue in memory only. The stored messages stay, and other processes can open the session."""
        if self._run is None:
            self._keep_soon()  # the calling program may have changed a namespace since the last run
        if self._shelf is not None:
            self._shelf.is_written = False
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.release()

    def release(self) -> None:
        """Let other processes open the session, until `take_again`."""
        self._keep_soon()
        if self._keeper is not None:
            self._keeper.release()

    def take_again(self, updated: float) -> bool:
        """Lease the released session again, unless another process wrote into it. Return whether the lease
        succeeded.
        """
        if self._keeper is None or self._keeper.version != updated:
            return False
        self._keeper.keep_again()
        return True

    def give_back(self) -> None:
        """Release the session because the agent closes. Other processes can open it; this object cannot be used
        again.
        """
        self._is_given_back = self._is_given_back or self._keeper is not None
        self.stop_keeping()

    @in_own_loop
    async def search(self, query: str, limit: int | None = None) -> SearchResult:
        """Return the tools that `search_tools` finds for the query, by the model's own ranking but without a model.

        `limit` is that of `Agent.search`. Raises `InputError` for arguments of other types.
        """
        expect("search", query, str, "a query as text", error=InputError)
        if limit is not None:
            expect("limit", limit, int, "a number of tools", error=InputError)
        return await self.tools.search(query, limit)


def _expect_usable(context: object, limits: object = None) -> None:
    """Raise `InputError` for a context or limits of another type; both may be None."""
    if context is not None:
        expect(
            "tool_context", context, ToolContext, "ToolContext(...)", error=InputError
        )
    if limits is not None:
        expect("limits", limits, Limits, "Limits(...)", error=InputError)


def _possible_execution(tools: SessionTools, owner: Owner) -> ToolSearch:
    """Return the requested tool search; if the provider does not support it, local search, with a warning."""
    if not tools.provider_searches:
        return tools.options
    deferred = [tool.definition for tool in tools.deferred.values()]
    problem = search_problem(owner.model, tools.provider_strategy, deferred)
    if not problem:
        return tools.options
    owner.warn(f'tool search: {problem}; mcpagent searches instead (execution "local")')
    return replace(tools.options, execution="local")


def _last_asked(messages: Sequence[Message]) -> str:
    """Return the text of the last prompt, or ""."""
    from mcpagent.journal.sessions.export.transcript import is_news

    places = range(len(messages) - 1, -1, -1)
    asked = (
        messages[at].text
        for at in places
        if messages[at].role == "user" and not is_news(messages, at)
    )
    return next(asked, "")


def _is_unfinished(conversation: Conversation) -> bool:
    """Return whether the last message needs an answer, or its calls need results."""
    last = conversation.messages[-1:]
    return bool(last) and (last[0].role != "assistant" or bool(conversation.open_calls))


def _category_lines(tools: SessionTools) -> list[str]:
    return category_lines(tools.categories()) + [
        connecting_line(server) for server in tools.listing.connecting
    ]


def _how_found(tools: SessionTools) -> tuple[bool, bool, str | None]:
    return tools.searching, tools.provider_searches, tools.options.load
