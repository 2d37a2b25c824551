"""`Agent`: the class users meet. A definition of who answers with what, shared by its sessions; wiring only."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import NoneType, TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from mcpagent.approval import PendingCall
from mcpagent.code_mode.code_options import CodeMode, search_for_programs
from mcpagent.code_mode.program_tools import RUN_CODE
from mcpagent.code_mode.sandbox import require_installed
from mcpagent.conversation import usable_prompt
from mcpagent.definition import Definition, Instructions, ModelChoice, Wrapper, expect_model
from mcpagent.errors import AgentStateError, ConfigError, InputError, SessionBusyError
from mcpagent.events import Emit, Event, Notice, SubagentEvent, guarded, ignore, log_warnings
from mcpagent.limits.run_limits import Limits
from mcpagent.loop import converse
from mcpagent.mcp.all_servers import McpServers
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.messages import Image, Message, Spent, Text, ToolDefinition, Usage
from mcpagent.models.base import Model, ModelRequest, ModelResponse, RequestUnderWay, look_up
from mcpagent.models.model_names import shown_spec
from mcpagent.models.output_ways.asked_output import told_form
from mcpagent.models.provider_run.provider_tools import ProviderMcp, ProviderTool, expect_distinct, names_taken
from mcpagent.output.last_answer import told_to_caller
from mcpagent.output.output_spec import OutputSpec
from mcpagent.python.argument_checks import checked, expect, expect_function, expect_names, expect_options
from mcpagent.python.event_loops import BackgroundLoop, done_elsewhere, in_own_loop, running_loop
from mcpagent.questions.given import Given, wanted_output
from mcpagent.questions.ways_to_ask import WaysToAsk
from mcpagent.run import AgentRun, Deps, RunContext, RunOptions, current_run, outside_of_runs
from mcpagent.session import Session
from mcpagent.sessions.kept import KeptSession
from mcpagent.sessions.store import Sessions, usable_id, written
from mcpagent.text.safe_text import safe_line
from mcpagent.tool_context import ToolContext
from mcpagent.tool_search.announcing import start_warnings
from mcpagent.tool_search.catalog import Catalogs
from mcpagent.tool_search.search_options import ToolSearch, possible_search
from mcpagent.tool_search.session_tools import SessionTools
from mcpagent.tools import Tool, ToolOutput, usable_tool
from mcpagent.toolsets.agent_tools import agent_tool
from mcpagent.toolsets.approval_policy import ApprovalPolicy
from mcpagent.toolsets.functions import function_tool
from mcpagent.toolsets.listed_tools import ApprovalPredicate
from mcpagent.toolsets.sources import AnyTools, McpConfig, expect_config, sources_of

if TYPE_CHECKING:
    from mcpagent.cards.card import AgentCard
    from mcpagent.mcp.link import ServerLink
    from mcpagent.mcp.server_status import ServerStatus
    from mcpagent.models.foreign_histories import History
    from mcpagent.search import SearchResult

END_SECONDS = 5.0
"""So long closing an agent waits for a tool function that does not heed its cancellation."""

MAX_DEPTH = 8
"""Agents called by agents, one inside the other."""

_STARTED = "the agent is already started; use one `async with` or `with` per agent"

_Function = TypeVar("_Function", bound=Callable[..., Any])
_T = TypeVar("_T")
_O = TypeVar("_O")


class Agent(WaysToAsk[Deps]):
    """An LLM with tools from MCP servers and Python functions.

        async with Agent("anthropic:claude-sonnet-4-6", mcp_config="mcp_servers.json",
                         with_tool_search_mode=True, pre_discovered_tools=["get_weather"]) as agent:
            answer = await agent.ask("What is the weather in Tokyo?")

    An agent is a definition; a conversation is a `Session`. `agent.session()` begins one, any number at once; what the
    agent itself has of that kind (`ask`, `messages`, ...) means a session of its own.

    `model`: `provider:name`, any object with `Model.respond`, a list of these (the next one answers if one cannot), or
    None for the first provider whose key is set. `mcp_config`: a file, a dict of the same shape, `ServerConfig` values,
    or what `load_servers` gave. `instructions` begin the system prompt; a function of the run's context is asked when a
    conversation begins.
    `with_tool_search_mode=True` is short for `tool_search=ToolSearch()`; "auto" turns it on for large catalogues.
    `with_code_mode=True` is short for `code_mode=CodeMode()`: the model calls tools as functions in Python programs.
    `pre_discovered_tools` are offered from the first request on. `tools` may hold functions, tools, toolsets,
    `McpServer` values, lists of functions, and tools that the model's provider runs, such as `WebSearch()`.
    `server_options` say what all servers share: which are selected, how long starting waits for them, lists cached on
    disk, pinned tools, what they may ask of us. `options` limit an answer: turns, tokens, money, time.
    `approval`: True, a predicate `(context, definition, arguments)`, or an `ApprovalPolicy` with who decides.
    `on_event` gets every event; its errors are logged, never raised (without it, warnings are logged).
    `wrappers` stand around the model and all tools: a `Recorder` writes the runs down, a `Replay` takes their place.
    `sessions` keeps the conversations: `agent.session("id")` goes on where it was, in any process.

    Constructing does no I/O and needs no key; entering connects all servers at once. A server that fails is named in
    `servers` and by an event, and the others work.
    """

    def __init__(
        self,
        model: ModelChoice = None,
        *,
        mcp_config: McpConfig = None,
        instructions: Instructions = "",
        with_tool_search_mode: bool | Literal["auto"] = False,
        tool_search: ToolSearch | None = None,
        with_code_mode: bool = False,
        code_mode: CodeMode | None = None,
        pre_discovered_tools: Sequence[str] = (),
        tools: Sequence[AnyTools] = (),
        server_options: ServerOptions | None = None,
        options: RunOptions | None = None,
        approval: bool | ApprovalPredicate | ApprovalPolicy = False,
        on_event: Emit | None = None,
        wrappers: Sequence[Wrapper] = (),
        sessions: Sessions | None = None,
    ) -> None:
        expect_model(model)
        expect_config(mcp_config)
        expect("instructions", instructions, (str, Callable), "text or a function")
        if not isinstance(instructions, str):
            expect_function("instructions", instructions, "context")
        mode = with_tool_search_mode
        expect("with_tool_search_mode", mode, (bool, str), 'True, False or "auto"', holds=lambda it: it in _MODES)
        hint = "; or write with_tool_search_mode=True"
        expect("tool_search", tool_search, (ToolSearch, NoneType), "ToolSearch(...)", hint=hint)
        expect("with_code_mode", with_code_mode, bool, "True or False")
        code_hint = "; or write with_code_mode=True"
        expect("code_mode", code_mode, (CodeMode, NoneType), "CodeMode(...)", hint=code_hint)
        expect_names("pre_discovered_tools", pre_discovered_tools)
        expect("tools", tools, (list, tuple), "list of functions, tools and toolsets")
        expect("server_options", server_options, (ServerOptions, NoneType), "ServerOptions(...)")
        expect("options", options, (RunOptions, NoneType), "RunOptions(...)")
        expect("on_event", on_event, (Callable, NoneType), "a function")
        if on_event is not None:
            expect_function("on_event", on_event, "event")
        expect("wrappers", wrappers, (list, tuple), "list of wrappers such as [Recorder(...)]")
        expect("sessions", sessions, (Sessions, NoneType), "Sessions(...)")
        rules = approval if isinstance(approval, ApprovalPolicy) else ApprovalPolicy(approval)
        run_there = expect_distinct(tool for tool in tools if isinstance(tool, ProviderTool))
        ours = [tool for tool in tools if not isinstance(tool, ProviderTool)]
        sources = sources_of(ours, mcp_config, server_options or ServerOptions(), rules.required)
        search = tool_search or (ToolSearch(enabled=with_tool_search_mode) if with_tool_search_mode else None)
        code = code_mode or (CodeMode() if with_code_mode else None)
        search = search_for_programs(search) if code is not None else search
        pinned = tuple(pre_discovered_tools)
        definition = Definition(
            instructions, search, pinned, options or RunOptions(), sources, provider_tools=run_there, code_mode=code
        )
        for wrapper in sorted(wrappers, key=lambda wrapper: not getattr(wrapper, "is_innermost", False)):
            expect("wrappers", wrapper, Callable, "functions, or objects such as Recorder(...)")
            definition = wrapper(definition)
            expect("wrappers", definition, Definition, f"a Definition from {wrapper!r:.60}")
        self.definition = definition
        self._tell = definition.telling(guarded(on_event) if on_event is not None else log_warnings)
        self._wanted_search = definition.tool_search or ToolSearch(enabled="marked")
        self._search = self._wanted_search
        self._taken = names_taken(definition.provider_tools)
        if definition.code_mode is not None:
            self._taken |= {RUN_CODE}
        servers = (tool for tool in run_there if isinstance(tool, ProviderMcp))
        self._unasked = () if rules.required is False else tuple(tool.name for tool in servers)
        self.mcp_config = mcp_config
        self.on_approval = rules.decide
        self.startup_seconds = (server_options or ServerOptions()).startup_seconds
        self._model_choice = model
        self._model: Model | None = None
        self.store = sessions
        self._subscribers: dict[int, Emit] = {}
        self._sessions: weakref.WeakSet[Session[Any]] = weakref.WeakSet()
        self._own: Session[Deps] | None = None
        self._exits: AsyncExitStack | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0
        self._background: BackgroundLoop | None = None
        self._starting = threading.Lock()
        self._warned: set[str] = set()
        self.from_toolsets: tuple[Tool, ...] = ()
        self.catalogs = Catalogs(self._search, definition.sources.listing, self._taken)
        self._spent = Spent()
        self.card: AgentCard | None = None
        self.start_notices: tuple[str, ...] = ()

    def __repr__(self) -> str:
        choice = self._model_choice
        chosen = shown_spec(choice) if isinstance(choice, str) else "model not chosen"
        model = self._model.name if self._model is not None else chosen
        if not self.is_started or self._own is None:
            return f"<Agent {model}, not started>"
        servers, known = len(self.servers), len(self._own.tools.known)
        return f"<Agent {model}, {servers} servers, {known:,} tools, {len(self._sessions)} sessions>"

    # -- asking -------------------------------------------------------------------------------------------------------

    def session(
        self,
        id: str | None = None,  # noqa: A002 - what everybody calls it
        messages: Sequence[Message | Mapping[str, Any]] | None = None,
        deps: Deps | None = None,
        tool_context: ToolContext | None = None,
        limits: Limits | None = None,
        trusted: bool | None = None,
    ) -> Session[Deps]:
        """A conversation of its own over this agent's servers, tools and model; after these `messages`, if given.

        `trusted=False` says that the messages are somebody else's: their system words, open calls, compactions and
        containers of programs are ignored. None: messages of our own are trusted, those in the shape of another API are
        not. Calls at their end that have no result can be answered with `Session.resume`; the next prompt closes them.
        `id` names it for toolsets and listeners. `deps` and `tool_context` are what tool functions find in their
        `RunContext`. `limits` are what all its runs together may take, in place of `RunOptions(session_limits=...)`;
        what was spent is kept with it. It lives as long as somebody holds it. Where the agent keeps its sessions, an id
        that is known goes on where it was; reading it takes some milliseconds, in which the event loop stands
        (`open_session` does it beside it). Raises `AgentStateError` before the agent is started, `InputError` for
        messages that cannot be read, and `SessionBusyError` if another process has the session, or a durable run that
        has not ended.
        """
        expect("limits", limits, (Limits, NoneType), "Limits(...)")
        expect("trusted", trusted, (bool, NoneType), "True, False or None", error=InputError)
        self.require_usable()
        history = _history(messages, trusted) if messages is not None else None
        if id is None or self.store is None:
            return _with_limits(self._made(id, history, deps, tool_context), limits)
        found = self._live(id)
        if found is not None:
            return _with_limits(self._going_on(id, found, None, history, deps, tool_context), limits)
        kept = self.store.open(usable_id(id))
        try:
            return _with_limits(self._going_on(id, None, kept, history, deps, tool_context), limits)
        finally:
            self.store.release(id)  # the session has it now

    @in_own_loop
    async def open_session(
        self,
        id: str,  # noqa: A002 - as `session`
        deps: Deps | None = None,
        tool_context: ToolContext | None = None,
        limits: Limits | None = None,
    ) -> Session[Deps]:
        """As `session(id)`, with the store read beside the event loop."""
        expect("limits", limits, (Limits, NoneType), "Limits(...)")
        if self.store is None:
            return _with_limits(self._made(id, None, deps, tool_context), limits)
        self.require_usable()
        found = self._live(id)
        if found is not None:
            return _with_limits(self._going_on(id, found, None, None, deps, tool_context), limits)
        opened = self.store.begin(usable_id(id))
        try:
            kept = await written(opened)
            return _with_limits(self._going_on(id, self._live(id), kept, None, deps, tool_context), limits)
        finally:
            opened.add_done_callback(partial(self.store.release_opened, id))

    def session_as_of(self, id: str, kept: KeptSession | None) -> Session[Deps]:  # noqa: A002
        """Return the session as this process has read it; the worker of a durable run opens it so."""
        return self._made(id, None, None, None, kept)

    @in_own_loop
    async def go_on_with(self, id: str) -> None:  # noqa: A002
        """Makes the session of this id the agent's own, so that `ask`, `messages` and the like mean it.

        Raises `AgentStateError` while the agent's own session is answering, and what `session` raises.
        """
        self._current._require_idle()
        before, self._own = self._own, await self.open_session(id)
        if before is not None and before is not self._own:
            before.give_back()

    def _live(self, id: str) -> Session[Deps] | None:  # noqa: A002
        """The session of this id that somebody holds: a conversation is one value."""
        return next((session for session in self._sessions if session.id == id and session.is_kept), None)

    def _going_on(
        self,
        id: str,  # noqa: A002
        found: Session[Deps] | None,
        kept: KeptSession | None,
        history: History | None,
        deps: Deps | None,
        tool_context: ToolContext | None,
    ) -> Session[Deps]:
        if history is not None and (found is not None or kept is not None):
            raise InputError(f'session "{safe_line(id, 60)}" has messages of its own; leave out messages=, or the id')
        run = ""
        if found is not None:
            run = found.durable_run
        elif kept is not None:
            run = str(kept.values.get("durable") or "")
        if run:
            raise SessionBusyError(id, run=run)
        if found is None:
            return self._made(id, history, deps, tool_context, kept)
        found.deps = deps if deps is not None else found.deps
        found.tool_context = tool_context if tool_context is not None else found.tool_context
        return found

    def _made(
        self,
        id: str | None,  # noqa: A002
        history: History | None,
        deps: Deps | None,
        tool_context: ToolContext | None,
        kept: KeptSession | None = None,
        *,
        is_kept: bool = True,
    ) -> Session[Deps]:
        self.require_usable()
        session = Session[Deps](
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
    async def ask_with_history(
        self, messages: Sequence[Message | Mapping[str, Any]], *, trusted: bool | None = None
    ) -> tuple[str, list[Message]]:
        """The answer to the history's last message, a user's, and the whole history after it.

        The history replaces the agent's conversation. Messages are `Message` values, what `dump_messages` gave, or in
        the shape of OpenAI's or Anthropic's messages; `trusted` as in `session`. Tools discovered in it are offered
        again if they are there.
        """
        expect("trusted", trusted, (bool, NoneType), "True, False or None", error=InputError)
        history = _history(messages, trusted)
        if not history.messages:
            raise InputError("messages: the history is empty; it must end with a user's message")
        *earlier, last = history.messages
        if last.role != "user":
            raise InputError(f"messages: the last one must be the user's, got role {last.role!r}")
        self._current.begin_anew(earlier, system=history.system)
        answer = await self.ask([part for part in last.parts if isinstance(part, Text | Image)])
        return answer, list(self.messages)

    @in_own_loop
    async def complete(self, request: ModelRequest) -> ModelResponse:
        """One request to the model outside of every conversation; it counts in `spent` and is in no recording."""
        expect("complete", request, ModelRequest, "a ModelRequest", error=InputError)
        self.require_usable()
        with outside_of_runs(), RequestUnderWay(self.model, request, ignore, self.count) as under_way:
            return under_way.answered(await self.model.respond(told_form(self.model, request), under_way))

    @in_own_loop
    async def search(self, query: str, limit: int | None = None) -> SearchResult:
        """What `search_tools` finds for the query: the model's own ranking, without a model. Without a limit these are
        all that `select:` names, and five of all else."""
        return await self._current.search(query, limit)

    # -- what there is ------------------------------------------------------------------------------------------------

    @overload
    def tool(self, function: Tool) -> Tool: ...
    @overload
    def tool(self, function: _Function) -> _Function: ...
    @overload
    def tool(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        category: str = "",
        timeout_seconds: float | None = None,
        defer_loading: bool | None = None,
        approval: bool | ApprovalPredicate = False,
        read_only: bool | None = None,
        safe_to_repeat: bool | None = None,
        large_result_tokens: int | None = None,
    ) -> Callable[[_Function], _Function]: ...

    def tool(self, function: Any = None, **options: Any) -> Any:
        """Decorator: a Python function, sync or async, as a tool. The options are those of `function_tool`.

        Called with a `Tool`, such as another agent's `as_tool`, it takes that one as it is.
        """

        expect_options("tool", function_tool, options)

        def register(function: Any) -> Any:
            self.definition.sources.functions.append(
                usable_tool(function) if isinstance(function, Tool) else function_tool(function, **options)
            )
            return function

        return register(function) if function is not None else register

    @property
    def tools(self) -> SessionTools:
        """The tools of the agent's own session; raises `AgentStateError` before the agent is started."""
        return self._current.tools

    @property
    def known_tools(self) -> dict[str, ToolDefinition]:
        """Every tool by offered name."""
        return {name: tool.definition for name, tool in self.tools.known.items()}

    @property
    def all_deferred_tools(self) -> dict[str, ToolDefinition]:
        """The tools that are found by searching, by offered name; none in normal mode."""
        return {name: tool.definition for name, tool in self.tools.deferred.items()}

    @property
    def discovered_tools(self) -> dict[str, ToolDefinition]:
        """What the model is offered beyond the virtual tools: pinned ones by name, then in order of discovery."""
        return self._current.discovered_tools

    def offered_tools(self) -> list[ToolDefinition]:
        """What the next request offers, in order."""
        return [tool.definition for tool in self.tools.offer()]

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation of the agent's own session so far; see `Session.messages`."""
        return self._own.messages if self._own is not None else ()

    @property
    def own_session(self) -> Session[Deps]:
        """The session that `ask`, `messages` and the like mean. Raises `AgentStateError` before there is one."""
        return self._current

    @property
    def system(self) -> str:
        """The system prompt of the agent's own session."""
        return self._own.system if self._own is not None else ""

    def snapshot(self) -> KeptSession:
        """The agent's own session as a value; see `Session.snapshot`."""
        return self._current.snapshot()

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The calls of the agent's own session that wait for an answer; see `Session.pending`."""
        return self._own.pending if self._own is not None else ()

    @property
    def usage(self) -> Usage:
        """Tokens of all requests of this agent, over all sessions."""
        return self._spent.usage

    @property
    def spent(self) -> Spent:
        """What these requests took: tokens, their cost, and how much of it were tool definitions."""
        return self._spent

    @property
    def model(self) -> Model:
        """The model that is called; resolves a name on first use, so it may raise `ConfigError`."""
        if self._model is None:
            self._model = self.definition.resolve(self._model_choice)
        return self._model

    @property
    def model_choice(self) -> ModelChoice:
        """The model as it was chosen."""
        return self._model_choice

    @property
    def options(self) -> RunOptions:
        """What one answer may take."""
        return self.definition.options

    @property
    def provider_tools(self) -> tuple[ProviderTool, ...]:
        """The tools that its model's provider runs."""
        return self.definition.provider_tools

    @property
    def tool_search(self) -> ToolSearch:
        """How tool search works in the sessions of this agent."""
        return self._search

    @property
    def instructions(self) -> Instructions:
        """What the system prompt begins with."""
        return self.definition.instructions

    @property
    def servers(self) -> dict[str, ServerStatus]:
        """Each configured MCP server by name, also those that failed or cannot be used, with the reason."""
        return self.definition.sources.statuses

    @property
    def mcp(self) -> McpServers:
        """The MCP servers themselves: their prompts and resources, and turning one off, on, or restarting it.

        Raises `AgentStateError` before the agent is started.
        """
        self._require_started()
        return self.definition.sources.servers

    def new_conversation(self) -> None:
        """Forgets the agent's own conversation and what was discovered in it; connections and usage stay."""
        self._current.begin_anew()

    def rewind(self, length: int) -> None:
        """Takes back all but the first `length` messages of the agent's own session; see `Session.rewind`."""
        self._current.rewind(length)

    @in_own_loop
    async def use_model(self, model: str | Model | Sequence[str | Model]) -> None:
        """Another model from now on, in the same conversations with the same discovered tools.

        Raises `ConfigError` for a name that means nothing or a model that takes fewer tools than the agent's own
        session has to be offered, and `AgentStateError` while a session is answering; then the model stays what it was.
        Waits for the end of runs whose stream was left. The other sessions find it when they are used next.
        """
        self._require_started()
        for session in tuple(self._sessions):
            await session._left()
        if answering := sum(session.is_answering for session in self._sessions):
            raise AgentStateError(f"use_model: {answering} session(s) answering already; await these answers first")
        new, old = self.definition.resolve(model), self.model
        await look_up(new)
        is_own = not isinstance(self._model_choice, Model)
        was = (self._model, self._model_choice, self.card)
        self._model, self._model_choice = new, model
        if self.card is not None:
            from mcpagent.cards.agent_cards import with_model

            self.card = with_model(self.card, model)
        try:
            self._current.refresh()
        except ConfigError:
            self._model, self._model_choice, self.card = was
            self._current.refresh()
            raise
        if is_own and old is not new:
            await old.aclose()

    @classmethod
    @checked()
    def from_card(cls, card: str | Path | AgentCard, **options: Any) -> Agent[Any]:
        """An agent as a card (`.md` or `.yaml`, or a folder of them) describes it, with the members it names as tools.

        `options` are those of `Agent` and go before what the card says. Raises `CardError` for a card that cannot be
        used. What a card asks for and does not exist here is told by a warning when the agent starts.
        """
        from mcpagent.cards.agent_cards import agent_from_card

        agent: Agent[Any] = agent_from_card(cls, card, **options)
        return agent

    @checked()
    def to_card(self, name: str = "") -> AgentCard:
        """The agent as a card: the one it was made of, else one made of its settings.

        Functions, toolsets and callbacks are code and not in it, nor are values of variables and `ServerConfig`s, which
        may be secret.
        """
        from mcpagent.cards.agent_cards import card_of

        return card_of(self, name)

    @checked()
    def as_tool(
        self,
        name: str,
        description: str,
        *,
        output_type: Any = None,
        defer_loading: bool | None = None,
        timeout_seconds: float | None = None,
    ) -> Tool:
        """This agent as a tool of another one: `Agent(tools=[helper.as_tool("research", "...")])`.

        Each call is a session of its own. It shares the caller's limits, cancellation and usage, and its events come as
        `SubagentEvent`; calls that need approval ask whoever decides for the caller, and are denied without one. The
        agent is started with the caller, if it is not started already. With an `output_type` its answers are the JSON
        of such values.
        """
        spec = wanted_output(output_type)
        return agent_tool(
            self,
            partial(self._delegated, spec),
            name,
            description,
            defer_loading=defer_loading,
            timeout_seconds=timeout_seconds,
        )

    # -- life ---------------------------------------------------------------------------------------------------------

    @property
    def is_started(self) -> bool:
        """Whether its servers are connected and it can be asked."""
        return self._exits is not None

    async def __aenter__(self) -> Agent[Deps]:
        if self._exits is not None:
            raise AgentStateError(_STARTED)
        self._process = os.getpid()
        if self.definition.code_mode is not None:
            require_installed()
        await look_up(self.model)  # a name that means nothing is told before anything is started
        self._loop = asyncio.get_running_loop()
        sources = self.definition.sources
        async with AsyncExitStack() as exits:
            exits.push_async_callback(self._close_model)
            # Set already here: a team whose members call each other must not start anybody twice.
            self._exits = exits
            self._own = None
            try:
                await sources.open(exits, self._broadcast, self._changed)
                if self.store is not None:
                    self.store.hide(sources.secrets)
                self._search = possible_search(self._wanted_search, self.warn)
                self.catalogs = Catalogs(self._search, sources.listing, self._taken)
                with AgentRun(RunContext(None)).entered():
                    self.from_toolsets = await sources.from_toolsets()
                self._own = self.session()
                await sources.enter_lifetimes(exits, self.from_toolsets)
            except BaseException:
                self._exits = None
                raise
            self._exits = exits.pop_all()
        asks = "the model's provider calls it, and nobody is asked about its calls"
        unasked = (f'ProviderMcp "{name}": {asks}' for name in self._unasked)
        for line in (*self.start_notices, *start_warnings(self._own.tools, self.tool_search), *unasked):
            self.emit(Notice(safe_line(line, 300), "warning"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends all connections and server processes; a second call does nothing.

        Runs that are under way end first: whoever waits for one gets `AgentStateError`.
        """
        exits, self._exits = self._exits, None
        if exits is not None:
            async with exits:
                await self._end_runs()
                for session in tuple(self._sessions):
                    session.give_back()
                if self.store is not None:
                    await written(self.store.flush())

    def __enter__(self) -> Agent[Deps]:
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
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """`aclose` for code without an event loop; a second call does nothing."""
        background, self._background = self._background, None
        if background is not None and self._process == os.getpid():  # a forked process has no such thread
            atexit.unregister(self.close)
            try:
                background.run(self.aclose())
            finally:
                background.close()

    # -- for its sessions ---------------------------------------------------------------------------------------------

    def emit(self, event: Event) -> None:
        """Tells the agent's listener."""
        self._tell(event)

    def warn(self, text: str) -> None:
        """Reports a warning, once."""
        if text not in self._warned:
            self._warned.add(text)
            self.emit(Notice(text, "warning"))

    @checked()
    def subscribe(self, listener: Emit) -> Callable[[], None]:
        """Hears what servers say, too, until what this gives is called."""
        self._subscribers[id(listener)] = listener
        return lambda: self._subscribers.pop(id(listener), None) and None

    def count(self, spent: Spent) -> None:
        """Adds to what the agent has spent."""
        self._spent += spent

    def require_usable(self) -> None:
        """Raises `AgentStateError` unless the agent is started, and can be used in this event loop."""
        self._require_started()
        if self._background is None and running_loop() not in (None, self._loop):
            raise AgentStateError("the agent was started in another event loop; use it in that one")

    def wait_for(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """What it gives, for code that cannot await; the agent's own loop does it meanwhile, in another thread."""
        self._require_started()
        assert self._loop is not None
        return done_elsewhere(work, self._loop, is_in_thread=self._background is not None)

    # -- inside -------------------------------------------------------------------------------------------------------

    @property
    def _current(self) -> Session[Deps]:
        if self._own is None:
            self._require_started()
            raise AgentStateError("the agent is still starting")
        return self._own

    @property
    def _asked(self) -> Session[Deps]:
        return self._current

    def _wait_for_answer(self, given: Callable[[], Given]) -> Any:
        with self._starting:
            if self._background is None and self._exits is None:
                self.__enter__()
        return self._current._wait_for_answer(given)

    def _here(self, work: Coroutine[Any, Any, _T]) -> Coroutine[Any, Any, _T]:
        """The work, to be awaited in this event loop and done in the agent's own."""
        if self._background is None or running_loop() is self._loop:
            return work
        return self._background.awaited(work)

    def _require_started(self) -> None:
        if self._exits is None:
            raise AgentStateError("the agent is not started; use `async with Agent(...) as agent:` or ask_sync()")
        if self._process != os.getpid():
            raise AgentStateError("the agent was started in the process that this one was forked from; make one here")

    def _broadcast(self, event: Event) -> None:
        self.emit(event)
        for subscriber in tuple(self._subscribers.values()):
            subscriber(event)

    def _changed(self, joined: ServerLink | None) -> None:
        """Servers are not what they were: every session finds it when it looks; one that joined is reported."""
        if self._own is None:  # it will begin with this
            return
        self._own.refresh()
        if joined is not None and joined.config.name not in self._own.tools.unavailable and self.startup_seconds != 0:
            # Who waits for no server sees `ServerConnected`.
            self._broadcast(Notice(f'server "{joined.config.name}" is ready; its tools have joined'))

    async def _end_runs(self) -> None:
        ending = [ended for session in tuple(self._sessions) if (ended := session.close()) is not None]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                for ended in ending:
                    await ended.wait()

    async def _close_model(self) -> None:
        if isinstance(self._model_choice, Model):  # it belongs to whoever gave it
            return
        # A name is resolved anew when the agent is entered again.
        model, self._model = self._model, None
        if model is not None:
            await model.aclose()

    async def _delegated(self, spec: OutputSpec | None, prompt: str, label: str) -> ToolOutput:
        """The answer to one call of `as_tool`, in a session of its own."""
        self._require_started()
        parent = current_run()
        outer = parent.emit if parent is not None else self.emit

        def to_caller(event: Event) -> None:
            inner = event if isinstance(event, SubagentEvent) else SubagentEvent((), event)
            outer(SubagentEvent((label, *inner.path), inner.event))

        listener = self.definition.telling(to_caller)

        if parent is not None and sum(1 for _ in parent.lineage) >= MAX_DEPTH:
            text = f"Agents call agents more than {MAX_DEPTH} deep; answer without calling another one."
            return ToolOutput.of_text(text, error="denied")
        session = self._made(None, None, parent.context.deps if parent is not None else None, None, is_kept=False)
        with session._running(Given(usable_prompt(prompt), spec), parent=parent, label=label, listener=listener) as run:
            finished = await converse(run, spec)
        return told_to_caller(finished, label, has_type=spec is not None)


def _with_limits(session: Session[Deps], limits: Limits | None) -> Session[Deps]:
    session.limits = limits if limits is not None else session.limits
    return session


def _history(messages: Sequence[Message | Mapping[str, Any]], trusted: bool | None) -> History:
    from mcpagent.models.foreign_histories import history_of

    return history_of(messages, trusted)


_MODES = (True, False, "auto")
