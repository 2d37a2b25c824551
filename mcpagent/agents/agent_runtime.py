"""`AgentRuntime`: the internal part of an `Agent`: start, end, and the values that its sessions share."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from mcpagent.agents.run_input import RunInput
from mcpagent.agents.session_runtime import SessionRuntime
from mcpagent.code_mode.program_tools import RUN_CODE
from mcpagent.code_mode.sandbox import require_installed
from mcpagent.errors import AgentStateError, ConfigError, InputError, SessionBusyError
from mcpagent.history.conversation import usable_prompt
from mcpagent.journal.sessions.loaded_session import LoadedSession
from mcpagent.journal.sessions.store import Sessions, usable_id, written
from mcpagent.models.base import (
    ActiveRequest,
    Model,
    ModelRequest,
    ModelResponse,
    look_up,
)
from mcpagent.models.model_names import shown_spec
from mcpagent.models.output_modes.structured_output import told_form
from mcpagent.models.provider_tools.provider_tool_values import names_taken
from mcpagent.permissions.approval_policy import ApprovalPolicy
from mcpagent.permissions.unused_rules import unused_rule_line, unused_rules
from mcpagent.run.agent_run import (
    AgentRun,
    Pipeline,
    RunContext,
    current_run,
    outside_of_runs,
)
from mcpagent.run.loop import converse
from mcpagent.run.middleware import PIPELINE
from mcpagent.run.output.last_answer import told_to_caller
from mcpagent.run.output.output_spec import OutputSpec
from mcpagent.tool_search.announcements import start_warnings
from mcpagent.tool_search.catalog import Catalogs
from mcpagent.tool_search.search_options import ToolSearch, possible_search
from mcpagent.tool_search.session_tools import SessionTools
from mcpagent.toolsets.agent_tools import agent_behind
from mcpagent.toolsets.definition import Definition, ModelChoice
from mcpagent.toolsets.prompt_and_resource_tools import known_content
from mcpagent.toolsets.sources import McpConfig
from mcpagent.utilities.python.argument_checks import checked, expect
from mcpagent.utilities.python.event_loops import (
    BackgroundLoop,
    done_elsewhere,
    in_own_loop,
    running_loop,
)
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import Emit, Event, Notice, SubagentEvent, ignore
from mcpagent.values.limits.run_limits import Limits
from mcpagent.values.messages import Content, Message, Spent, ToolDefinition
from mcpagent.values.tool_context import ToolContext
from mcpagent.values.tools import Tool, ToolOutput

if TYPE_CHECKING:
    from mcpagent.agents.cards.card import AgentCard
    from mcpagent.mcp.server_link import ServerLink
    from mcpagent.models.imported_histories import History

END_SECONDS = 5.0
"""Maximum wait, when the agent closes, for tool functions that ignore their cancellation."""

MAX_DEPTH = 8
"""Maximum nesting of agents that call agents."""

_STARTED = "the agent is already started; use one `async with` or `with` per agent"

_T = TypeVar("_T")


class AgentRuntime:
    """The state of an agent, which its sessions share; `Agent` is the public part of it.

    `own_session` is the session of `Agent.ask`, `Agent.messages` and so on. `card` is the card that the agent was
    created from. `start_notices` are reported when the agent starts. `store` saves the sessions (None: sessions stay in
    memory).
    """

    def __init__(
        self,
        definition: Definition,
        model: ModelChoice,
        *,
        mcp_config: McpConfig,
        rules: ApprovalPolicy,
        store: Sessions | None,
        listener: Emit,
        unasked: Sequence[str] = (),
    ) -> None:
        self.definition = definition
        self.mcp_config = mcp_config
        self.permissions = rules
        self.store = store
        self.pipeline = Pipeline((*PIPELINE, *definition.middleware))
        self.model_choice = model
        self.from_toolsets: tuple[Tool, ...] = ()
        self.spent = Spent()
        self.card: AgentCard | None = None
        self.start_notices: tuple[str, ...] = ()
        self.emit = definition.telling(listener)
        """Pass an event to the agent's listener."""
        self._wanted_search = definition.tool_search or ToolSearch(enabled="marked")
        self.tool_search = self._wanted_search
        self._taken = names_taken(definition.provider_tools)
        if definition.code_mode is not None:
            self._taken |= {RUN_CODE}
        self.catalogs = Catalogs(
            self.tool_search, definition.sources.listing, self._taken
        )
        self._unasked = tuple(unasked)
        self._model: Model | None = None
        self._subscribers: dict[int, Emit] = {}
        self._sessions: weakref.WeakSet[SessionRuntime[Any]] = weakref.WeakSet()
        self._own: SessionRuntime[Any] | None = None
        self._exits: AsyncExitStack | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0
        self._background: BackgroundLoop | None = None
        self._starting = threading.Lock()
        self._warned: set[str] = set()
        self._has_checked_rules = False

    def __repr__(self) -> str:
        choice = self.model_choice
        chosen = "model not chosen"
        if isinstance(choice, str):
            chosen = shown_spec(choice)
        if self._model is not None:
            model = self._model.name
        else:
            model = chosen
        if not self.is_started or self._own is None:
            return f"<Agent {model}, not started>"
        servers, known = (
            len(self.definition.sources.statuses),
            len(self._own.tools.known),
        )
        return f"<Agent {model}, {servers} servers, {known:,} tools, {len(self._sessions)} sessions>"

    # -- Sessions ------------------------------------------------------------------------------------------------------

    def session(
        self,
        id: str | None,  # noqa: A002 - as in `Agent.session`
        history: History | None,
        deps: Any,
        tool_context: ToolContext | None,
        limits: Limits | None,
    ) -> SessionRuntime[Any]:
        """Return the session for `Agent.session`. In a thread without an event loop, the agent's own loop reads the
        store.
        """
        if id is None or self.store is None:
            return _with_limits(self._made(id, history, deps, tool_context), limits)
        if (
            running_loop() is None
            and self._loop is not None
            and self._loop.is_running()
        ):
            return self.wait_for(
                lambda: self.opened(id, history, deps, tool_context, limits)
            )
        found = self._live(id)
        if found is not None:
            return _with_limits(
                self._going_on(id, found, None, history, deps, tool_context), limits
            )
        kept = self.store.open(usable_id(id))
        try:
            return _with_limits(
                self._going_on(id, None, kept, history, deps, tool_context), limits
            )
        finally:
            self.store.release(id)  # the session now has its own lease

    async def opened(
        self,
        id: str,  # noqa: A002 - as in `Agent.session`
        history: History | None = None,
        deps: Any = None,
        tool_context: ToolContext | None = None,
        limits: Limits | None = None,
    ) -> SessionRuntime[Any]:
        """Return the session of this ID, which a worker thread reads from the store."""
        if self.store is None:
            return _with_limits(self._made(id, history, deps, tool_context), limits)
        self.require_usable()
        found = self._live(id)
        if found is not None:
            return _with_limits(
                self._going_on(id, found, None, history, deps, tool_context), limits
            )
        opened = self.store.begin(usable_id(id))
        try:
            kept = await written(opened)
            return _with_limits(
                self._going_on(id, self._live(id), kept, history, deps, tool_context),
                limits,
            )
        finally:
            opened.add_done_callback(partial(self.store.release_opened, id))

    def session_as_of(self, id: str, kept: LoadedSession | None) -> SessionRuntime[Any]:  # noqa: A002
        """Return a session from the state that this process has read; the worker of a durable run uses this method."""
        return self._made(id, None, None, None, kept)

    @in_own_loop
    async def go_on_with(self, id: str) -> None:  # noqa: A002
        """Make the session of this ID the agent's default session, for `ask`, `messages` and so on.

        Raises `AgentStateError` while the current default session is answering, and the errors of `Agent.session`.
        """
        self.own_session._require_idle()
        before, self._own = self._own, await self.opened(id)
        if before is not None and before is not self._own:
            before.give_back()

    @property
    def own_session(self) -> SessionRuntime[Any]:
        """The session that `Agent.ask` uses. Raises `AgentStateError` before the agent is started."""
        if self._own is None:
            self._require_started()
            raise AgentStateError("the agent is still starting")
        return self._own

    @property
    def own_session_or_none(self) -> SessionRuntime[Any] | None:
        """The session that `Agent.ask` uses; None before the first start of the agent."""
        return self._own

    @property
    def tools(self) -> SessionTools:
        """The tools of the agent's own session."""
        return self.own_session.tools

    def _live(self, id: str) -> SessionRuntime[Any] | None:  # noqa: A002
        """Return the live session of this ID, or None: each stored conversation has only one object."""
        return next(
            (
                session
                for session in self._sessions
                if session.id == id and session.is_kept
            ),
            None,
        )

    def _going_on(
        self,
        id: str,  # noqa: A002
        found: SessionRuntime[Any] | None,
        kept: LoadedSession | None,
        history: History | None,
        deps: Any,
        tool_context: ToolContext | None,
    ) -> SessionRuntime[Any]:
        if history is not None and (found is not None or kept is not None):
            raise InputError(
                f'session "{safe_line(id, 60)}" has messages of its own; leave out messages=, or the id'
            )
        run = ""
        if found is not None:
            run = found.durable_run
        elif kept is not None:
            run = str(kept.values.get("durable") or "")
        if run:
            raise SessionBusyError(id, run=run)
        if found is None:
            return self._made(id, history, deps, tool_context, kept)
        if deps is not None:
            found.deps = deps
        if tool_context is not None:
            found.tool_context = tool_context
        return found

    def _made(
        self,
        id: str | None,  # noqa: A002
        history: History | None,
        deps: Any,
        tool_context: ToolContext | None,
        kept: LoadedSession | None = None,
        *,
        is_kept: bool = True,
    ) -> SessionRuntime[Any]:
        self.require_usable()
        session = SessionRuntime[Any](
            self,
            id=id,
            messages=history.messages if history is not None else (),
            system=history.system if history is not None else "",
            deps=deps,
            tool_context=tool_context,
            store=self.store if is_kept else None,
            kept=kept,
        )
        self._sessions.add(session)
        return session

    @in_own_loop
    async def ask_after(
        self, messages: Sequence[Message], prompt: Sequence[Content], *, system: str
    ) -> tuple[str, list[Message]]:
        """Replace the conversation of the agent's default session by these messages; return the answer to the prompt
        and all messages.
        """
        own = self.own_session
        own.begin_anew(messages, system=system)
        answer = await own.ask(prompt)
        return answer, list(own.messages)

    # -- Model ---------------------------------------------------------------------------------------------------------

    @property
    def model(self) -> Model:
        """The model that the agent calls. The first use resolves a model name and may raise `ConfigError`."""
        if self._model is None:
            self._model = self.definition.resolve(self.model_choice)
        return self._model

    @in_own_loop
    async def use_model(self, model: str | Model | Sequence[str | Model]) -> None:
        """Use another model from now on, in the same conversations with the same discovered tools.

        Raises `ConfigError` for an unknown name, or for a model that accepts fewer tools than the agent's own session
        must offer; and `AgentStateError` while a session is answering. After an error the agent uses the previous
        model. Waits for the end of runs whose stream was abandoned. Other sessions switch to the model when they are
        used next.
        """
        self._require_started()
        for session in tuple(self._sessions):
            await session._left()
        if answering := sum(session.is_answering for session in self._sessions):
            raise AgentStateError(
                f"use_model: {answering} session(s) answering already; await these answers first"
            )
        new, old = self.definition.resolve(model), self.model
        await look_up(new)
        is_own = not isinstance(self.model_choice, Model)
        was = (self._model, self.model_choice, self.card)
        self._model, self.model_choice = new, model
        if self.card is not None:
            from mcpagent.agents.cards.agent_cards import with_model

            self.card = with_model(self.card, model)
        try:
            self.own_session.refresh()
        except ConfigError:
            self._model, self.model_choice, self.card = was
            self.own_session.refresh()
            raise
        if is_own and old is not new:
            await old.aclose()

    @in_own_loop
    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Send a single request to the model, outside of every conversation.

        `spent` includes its cost; recordings omit it.
        """
        expect("complete", request, ModelRequest, "a ModelRequest", error=InputError)
        self.require_usable()
        with (
            outside_of_runs(),
            ActiveRequest(self.model, request, ignore, self.count) as under_way,
        ):
            return under_way.answered(
                await self.model.respond(told_form(self.model, request), under_way)
            )

    # -- Start and end -------------------------------------------------------------------------------------------------

    @property
    def is_started(self) -> bool:
        """True if the agent is started."""
        return self._exits is not None

    async def __aenter__(self) -> AgentRuntime:
        if self._exits is not None:
            raise AgentStateError(_STARTED)
        self._process = os.getpid()
        if self.definition.code_mode is not None:
            require_installed()
        await look_up(self.model)  # unknown names are reported before any server starts
        self._loop = asyncio.get_running_loop()
        sources = self.definition.sources
        await asyncio.sleep(
            0
        )  # creating the agent may already have blocked the loop for long
        async with AsyncExitStack() as exits:
            exits.push_async_callback(self._close_model)
            # Set this before the start: the members of a team may call each other, and each must start only once.
            self._exits = exits
            self._own = None
            try:
                await sources.open(exits, self._broadcast, self._changed)
                self.tool_search = possible_search(self._wanted_search, self.warn)
                self.catalogs = Catalogs(self.tool_search, sources.listing, self._taken)
                with AgentRun(RunContext(None)).entered():
                    self.from_toolsets = await sources.from_toolsets()
                await self.catalogs.count(sources.listing(self.from_toolsets).tools)
                await asyncio.sleep(
                    0
                )  # the next step takes long with thousands of tools
                self._own = self._made(None, None, None, None)
                await asyncio.sleep(0)
                await sources.enter_lifetimes(exits, self.from_toolsets)
            except BaseException:
                self._exits = None
                raise
            self._exits = exits.pop_all()
        asks = "the model's provider calls it, and nobody is asked about its calls"
        unasked = (f'ProviderMcp "{name}": {asks}' for name in self._unasked)
        for line in (
            *self.start_notices,
            *start_warnings(self._own.tools, self.tool_search),
            *unasked,
        ):
            self.emit(Notice(safe_line(line, 300), "warning"))
        self._report_unused_rules()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End all connections and server processes; a second call does nothing.

        Runs in progress end first; code that waits for such a run gets `AgentStateError`.
        """
        exits, self._exits = self._exits, None
        if exits is not None:
            async with exits:
                await self._end_runs()
                for session in tuple(self._sessions):
                    session.give_back()
                if self.store is not None:
                    await written(self.store.flush())

    def __enter__(self) -> AgentRuntime:
        if self._exits is not None or self._background is not None:
            raise AgentStateError(_STARTED)
        self._background = BackgroundLoop()
        atexit.register(self.close)
        try:
            self._background.run(self.__aenter__())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the agent in code without an event loop, as `aclose` does; a second call does nothing."""
        background, self._background = self._background, None
        if (
            background is not None and self._process == os.getpid()
        ):  # a forked process does not have the background thread
            atexit.unregister(self.close)
            try:
                background.run(self.aclose())
            finally:
                background.close()

    # -- Services for sessions -----------------------------------------------------------------------------------------

    def warn(self, text: str) -> None:
        """Report a warning, each text only once."""
        if text not in self._warned:
            self._warned.add(text)
            self.emit(Notice(text, "warning"))

    @checked()
    def subscribe(self, listener: Emit) -> Callable[[], None]:
        """Also pass servers' events to this listener, until the caller calls the returned function."""
        self._subscribers[id(listener)] = listener
        return lambda: self._subscribers.pop(id(listener), None) and None

    def count(self, spent: Spent) -> None:
        """Add this to the usage of the agent."""
        self.spent += spent

    def require_usable(self) -> None:
        """Raise `AgentStateError` unless the agent is started, and usable in this event loop."""
        self._require_started()
        if self._background is None and running_loop() not in (None, self._loop):
            raise AgentStateError(
                "the agent was started in another event loop; use it in that one"
            )

    def wait_for(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Run the work in the agent's own loop, in another thread, and return its result; for code that cannot
        await.
        """
        self._require_started()
        assert self._loop is not None
        return done_elsewhere(
            work, self._loop, is_in_thread=self._background is not None
        )

    def started_session(self) -> SessionRuntime[Any]:
        """Return the agent's own session for `ask_sync`; start the agent if necessary."""
        with self._starting:
            if self._background is None and self._exits is None:
                self.__enter__()
        return self.own_session

    def _here(self, work: Coroutine[Any, Any, _T]) -> Coroutine[Any, Any, _T]:
        """Return a coroutine for the caller's event loop that runs `work` in the agent's own loop.

        If both loops are the same, returns `work` unchanged.
        """
        if self._background is None or running_loop() is self._loop:
            return work
        return self._background.awaited(work)

    def _require_started(self) -> None:
        if self._exits is None:
            raise AgentStateError(
                "the agent is not started; use `async with Agent(...) as agent:` or ask_sync()"
            )
        if self._process != os.getpid():
            raise AgentStateError(
                "the agent was started in the process that this one was forked from; make one here"
            )

    def reachable(self) -> list[AgentRuntime]:
        """Return this agent and all agents that it can call, each once; an agent that is still starting lists no
        further agents.
        """
        found = [self]
        for one in found:
            if one._own is None:
                continue
            for tool in one._own.tools.known.values():
                called = agent_behind(tool)
                if isinstance(called, AgentRuntime) and called not in found:
                    found.append(called)
        return found

    def askable(self) -> list[ToolDefinition]:
        """Return everything that rules can name: tools, and the known prompts and resources of servers.

        The result includes those of all agents that this one can call, because the rules also apply to their calls.
        """
        tools: list[ToolDefinition] = []
        for one in self.reachable():
            known = one.tools.known.values()
            tools += [tool.definition for tool in known if tool.asks is None]
            with suppress(AgentStateError):  # a replay has no servers
                one._require_started()
                tools += known_content(one.definition.sources.servers)
        return tools

    def _report_unused_rules(self) -> None:
        """Report the permission rules that match nothing, once, when all tools are listed.

        If the rules are a function, such as that of the command line, its owner reports them.
        """
        rules = self.permissions.rules
        if self._has_checked_rules or not isinstance(rules, Mapping):
            return
        agents = self.reachable()
        is_listed = all(one.definition.sources.is_listed for one in agents)
        if not is_listed or any(one._own is None for one in agents):
            return
        self._has_checked_rules = True
        servers = tuple(self.definition.sources.servers.configs.values())
        if not rules and not any(server.approval for server in servers):
            return
        known = self.askable()
        own = [tool.definition for tool in self.tools.virtual]
        unused = unused_rules(self.permissions.rules_now(), servers, [*known, *own])
        for place, pattern in unused:
            self.warn(
                unused_rule_line(place, pattern, known, "known_tools has the names")
            )

    def _broadcast(self, event: Event) -> None:
        self.emit(event)
        for subscriber in tuple(self._subscribers.values()):
            subscriber(event)

    def _changed(self, joined: ServerLink | None) -> None:
        """Note a change of the servers, which sessions apply at their next request; report a server that connected
        (None: none did).
        """
        if self._own is None:  # the session's first listing will include the change
            return
        self._own.refresh()
        self._report_unused_rules()
        waits = (
            self.definition.options.servers.startup_seconds != 0
        )  # if no one waited for the server, `ServerConnected` reports it
        if (
            joined is not None
            and waits
            and joined.config.name not in self._own.tools.unavailable
        ):
            self._broadcast(
                Notice(f'server "{joined.config.name}" is ready; its tools have joined')
            )

    async def _end_runs(self) -> None:
        ending = [
            ended
            for session in tuple(self._sessions)
            if (ended := session.close()) is not None
        ]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                for ended in ending:
                    await ended.wait()

    async def _close_model(self) -> None:
        if isinstance(
            self.model_choice, Model
        ):  # a model object belongs to the caller, who closes it
            return
        # A name is resolved again when the agent is entered again.
        model, self._model = self._model, None
        if model is not None:
            await model.aclose()

    async def delegated(
        self, spec: OutputSpec | None, prompt: str, label: str
    ) -> ToolOutput:
        """Run a call of `as_tool` in a new session and return its answer."""
        self._require_started()
        parent = current_run()
        if parent is not None:
            outer = parent.emit
        else:
            outer = self.emit

        def to_caller(event: Event) -> None:
            if isinstance(event, SubagentEvent):
                inner = event
            else:
                inner = SubagentEvent((), event)
            outer(SubagentEvent((label, *inner.path), inner.event))

        listener = self.definition.telling(to_caller)

        if parent is not None and sum(1 for _ in parent.lineage) >= MAX_DEPTH:
            text = f"Agents call agents more than {MAX_DEPTH} deep; answer without calling another one."
            return ToolOutput.of_text(text, error="denied")
        session = self._made(
            None,
            None,
            parent.context.deps if parent is not None else None,
            None,
            is_kept=False,
        )
        with session._running(
            RunInput(usable_prompt(prompt), spec),
            parent=parent,
            label=label,
            listener=listener,
        ) as run:
            finished = await converse(run, spec)
        return told_to_caller(finished, label, has_type=spec is not None)


def _with_limits(
    session: SessionRuntime[Any], limits: Limits | None
) -> SessionRuntime[Any]:
    if limits is not None:
        session.limits = limits
    return session
