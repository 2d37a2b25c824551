"""`Agent`: the class users meet. Wiring only: behaviour lives in loop, execution, catalog and the toolsets."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload
from uuid import uuid4

from mcpagent.background import BackgroundLoop
from mcpagent.catalog import Catalog, ToolSearch, eager_tool_warnings
from mcpagent.config import ServerConfig, ServersConfig
from mcpagent.conversation import Conversation
from mcpagent.conversations import Conversations
from mcpagent.errors import AgentStateError, ConfigError, InputError
from mcpagent.events import Emit, Event, Notice, RunFinished, SubagentEvent, guarded, ignore
from mcpagent.execution import open_requests
from mcpagent.inputs import Prompt, read_history, usable_prompt
from mcpagent.loop import Run, converse, current_run, execution_of
from mcpagent.mcp.servers import McpServers, ServerOptions
from mcpagent.messages import Message, Spent, Text, ToolDefinition, Usage
from mcpagent.models.base import Model, ModelRequest, ModelResponse, ModelSettings
from mcpagent.names import collision_warnings
from mcpagent.pending import CallAnswer, CallsPendingError, OnApproval, PendingCall
from mcpagent.recording.tape import Setting, Tape
from mcpagent.run_context import RunContext
from mcpagent.safe_text import safe_line
from mcpagent.selection import Selection
from mcpagent.session import Session
from mcpagent.sources import ToolSources
from mcpagent.tool_algebra import ApprovalPredicate
from mcpagent.tool_context import ToolContext
from mcpagent.tools import Tool, ToolOutput
from mcpagent.toolsets.compose import ToolSource
from mcpagent.toolsets.function import function_tool

if TYPE_CHECKING:
    from mcpagent.cards.card import AgentCard
    from mcpagent.mcp.status import ServerStatus
    from mcpagent.mcp.toolset import McpToolset
    from mcpagent.search import SearchResult

MAX_DEPTH = 8
"""Agents called by agents, one inside the other."""

NOT_ANSWERED = "This call waited for an approval or an answer that was not given, so it was not run."

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Agent:
    """An LLM with tools from MCP servers and Python functions, in one conversation.

        async with Agent("anthropic:claude-sonnet-4-6", mcp_config="mcp_servers.json",
                         with_tool_search_mode=True, pre_discovered_tools=["get_weather"]) as agent:
            answer = await agent.ask("What is the weather in Tokyo?")

    `model`: `provider:name`, any object with `Model.respond`, a list of these (the next one answers where one cannot),
    or None for the first provider whose key is set (the offline stand-in where none is). `mcp_config`: a file, a dict
    of the same shape, `ServerConfig` values, or what `load_servers` gave.
    `with_tool_search_mode=True` is short for `tool_search=ToolSearch()`; "auto" turns it on for large catalogues.
    `pre_discovered_tools` are offered from the first request on. `selected_servers` and `selected_tools`
    (`server:tool`, `server:*`) narrow what is connected and known.
    `toolsets` may hold toolsets, `McpServer` values and lists of functions. `deps` and `tool_context` are what tool
    functions find in their `RunContext`; `ask` may give others. `approval=True`, or a predicate `(context, definition,
    arguments)`, makes calls of every tool wait for approval; `on_approval` decides on such calls at once, and without
    it they end the run (`CallsPendingError`, `resume`).
    `max_turns` limits the model's answers per `ask`. `startup_seconds`: how long entering waits for slow servers (None:
    until each is ready or has failed, 0: not at all); those that need longer join the conversation when they are ready.
    `server_options` says what all servers share: lists cached on disk, pinned tools, what they may ask of us.
    `card` is the one it was made of, and `start_notices` what is told of it when the agent starts.
    `recording`: a `Recorder` writes the run down, a `Replay` takes the place of the model and of all tools.

    Constructing does no I/O and needs no key; entering connects all servers at once. A server that fails is named in
    `servers` and by an event, and the others work. `on_event` gets every event; its errors are logged, never raised.
    """

    def __init__(
        self,
        model: str | Model | Sequence[str | Model] | None = None,
        *,
        mcp_config: str | Path | Mapping[str, Any] | Sequence[ServerConfig] | ServersConfig | None = None,
        instructions: str = "",
        with_tool_search_mode: bool | Literal["auto"] = False,
        tool_search: ToolSearch | None = None,
        pre_discovered_tools: Sequence[str] = (),
        tools: Sequence[Callable[..., Any] | Tool] = (),
        toolsets: Sequence[ToolSource] = (),
        selected_servers: Sequence[str] | None = None,
        selected_tools: Sequence[str] | None = None,
        max_turns: int = 100,
        tool_timeout_seconds: float = 300.0,
        startup_seconds: float | None = 10.0,
        settings: ModelSettings | None = None,
        server_options: ServerOptions | None = None,
        deps: Any = None,
        tool_context: ToolContext | None = None,
        approval: bool | ApprovalPredicate = False,
        on_approval: OnApproval | None = None,
        on_event: Emit | None = None,
        recording: Tape | None = None,
    ) -> None:
        if isinstance(pre_discovered_tools, str):
            raise ConfigError('pre_discovered_tools: expected a list of names, got a string; write ["name"]')
        if max_turns < 1:
            raise ConfigError(f"max_turns: expected 1 or more, got {max_turns}")
        self._tape = recording or Tape()
        search = tool_search or (ToolSearch(enabled=with_tool_search_mode) if with_tool_search_mode else None)
        setting = self._tape.setting(Setting(instructions, search, tuple(pre_discovered_tools), max_turns))
        self.max_turns = setting.max_turns
        self.tool_timeout_seconds = tool_timeout_seconds
        self.startup_seconds = startup_seconds
        self.settings = settings or ModelSettings()
        self.deps = deps
        self.tool_context = tool_context or ToolContext()
        self._on_approval = on_approval
        self.mcp_config = mcp_config
        self._sources = ToolSources(
            [item if isinstance(item, Tool) else function_tool(item) for item in tools if not self._tape.plays],
            toolsets if not self._tape.plays else (),
            mcp_config if not self._tape.plays else None,
            Selection(selected_servers, selected_tools),
            approval,
        )
        self._server_options = server_options or ServerOptions()
        self._model_choice = model
        self._model: Model | None = None
        self._listener = on_event
        self._streamed: asyncio.Queue[Event | None] | None = None
        self._exits: AsyncExitStack | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._background: BackgroundLoop | None = None
        self._conversations = Conversations(
            self._sources, self._tape, setting, model=lambda: self.model, emit=self._emit
        )
        self._pending: tuple[PendingCall, ...] = ()
        self._spent = Spent()
        self._busy = False
        self.card: AgentCard | None = None
        self.start_notices: tuple[str, ...] = ()

    # -- asking ---------------------------------------------------------------------------------------------------

    async def ask(self, prompt: Prompt, *, deps: Any = None, tool_context: ToolContext | None = None) -> str:
        """The answer to the prompt, continuing the conversation; `[Text("What is this?"), Image(...)]` is one too.

        `deps` and `tool_context` take the place of the agent's own for this run. Raises `ModelError` when the model
        fails, `InputError` for an unusable prompt, `AgentStateError` when another `ask` is running, `CallsPendingError`
        when calls wait for an answer. After an error or a cancellation the conversation goes on with the next `ask`.
        """
        with self._run(prompt, self._emit, deps=deps, tool_context=tool_context) as run:
            return self._answer(await converse(run))

    def ask_sync(self, prompt: str) -> str:
        """`ask` for code without an event loop; starts the agent if need be. Close it with `close()` or `with`."""
        return self._run_blocking(self.ask, prompt)

    async def resume(
        self,
        answers: Sequence[CallAnswer],
        *,
        messages: Sequence[Message | Mapping[str, Any]] | None = None,
        deps: Any = None,
        tool_context: ToolContext | None = None,
    ) -> str:
        """Goes on after `CallsPendingError`, with an answer to each call that waits.

        `messages`, in another process: the history as it was then, which replaces the agent's conversation. Raises
        `InputError` where an answer is missing or answers nothing. Calls are run once: they have a result afterwards.
        """
        if messages is not None:
            self._require_started()
            self._require_idle()
            self._conversations.current = await self._begin(read_history(messages), keep_open=True)
        with self._run(list(answers), self._emit, deps=deps, tool_context=tool_context) as run:
            await self._check_answers(run)
            return self._answer(await converse(run))

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The calls that wait for an answer since the last run."""
        return self._pending

    async def ask_with_history(self, messages: Sequence[Message | Mapping[str, Any]]) -> tuple[str, list[Message]]:
        """The answer to the history's last message, a user's, and the whole history after it.

        The history replaces the agent's conversation. Messages are `Message` values, what `dump_messages` gave, or
        `{"role": "user" | "assistant", "content": "..."}`. Tools discovered in it are offered again where configured.
        """
        *earlier, last = read_history(messages)
        if last.role != "user":
            raise InputError(f"messages: the last one must be the user's, got role {last.role!r}")
        self._require_started()
        self._require_idle()
        self._conversations.current = await self._begin(earlier)
        answer = await self.ask(last.text)
        return answer, list(self.messages)

    async def stream(
        self, prompt: Prompt | Sequence[CallAnswer], *, deps: Any = None, tool_context: ToolContext | None = None
    ) -> AsyncIterator[Event]:
        """The events of one `ask` as they happen, those of servers too, ending with `RunFinished`.

        Closing the iterator cancels the run.

        With answers in place of a prompt, those of one `resume`. Calls that wait for an answer raise nothing here: they
        are in `RunFinished.pending`.
        """
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        with self._run(prompt, self._emit, deps=deps, tool_context=tool_context) as run:
            await self._check_answers(run)
            self._streamed = events  # also what servers say meanwhile
            answering = asyncio.create_task(converse(run))
            answering.add_done_callback(lambda _: events.put_nowait(None))
            try:
                while (event := await events.get()) is not None:
                    yield event
                self._pending = (await answering).pending
            finally:
                self._streamed = None
                answering.cancel()
                # Waits for the end and takes its error, which is nobody's once the iterator is closed.
                await asyncio.gather(answering, return_exceptions=True)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """One request to the model outside of the conversation; it counts in `spent` and is in no recording."""
        self._require_started()
        model: Model = getattr(self.model, "unrecorded", self.model)
        response = await model.respond(request, ignore)
        price, usage = response.dollars, response.usage
        self._spent += Spent(usage, price or 0.0, price is not None or not (usage.input_tokens or usage.output_tokens))
        return response

    async def search(self, query: str, limit: int = 5) -> SearchResult:
        """What `search_tools` finds for the query: the model's own ranking, without a model."""
        return await self.catalog.index.find(query, limit)

    # -- what there is --------------------------------------------------------------------------------------------

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
    ) -> Callable[[_Function], _Function]: ...

    def tool(self, function: Any = None, **options: Any) -> Any:
        """Decorator: a Python function, sync or async, as a tool. The options are those of `function_tool`.

        Called with a `Tool`, such as another agent's `as_tool`, it takes that one as it is.
        """

        def register(function: Any) -> Any:
            if not self._tape.plays:
                self._sources.functions.append(
                    function if isinstance(function, Tool) else function_tool(function, **options)
                )
                self._conversations.more_functions()
            return function

        return register(function) if function is not None else register

    @property
    def catalog(self) -> Catalog:
        """All tools of this conversation; raises `AgentStateError` before the agent is started."""
        return self._current.catalog

    @property
    def _current(self) -> Session:
        self._require_started()
        assert self._conversations.current is not None
        return self._conversations.current

    @property
    def _conversation(self) -> Conversation:
        session = self._conversations.current
        return session.conversation if session is not None else _NO_CONVERSATION

    @property
    def known_tools(self) -> dict[str, ToolDefinition]:
        """Every tool by offered name."""
        return {name: tool.definition for name, tool in self.catalog.known.items()}

    @property
    def all_deferred_tools(self) -> dict[str, ToolDefinition]:
        """The tools that are found by searching, by offered name; none in normal mode."""
        return {name: tool.definition for name, tool in self.catalog.deferred.items()}

    @property
    def discovered_tools(self) -> dict[str, ToolDefinition]:
        """What the model is offered beyond the virtual tools: pinned ones by name, then in order of discovery."""
        virtual = {tool.name for tool in self.catalog.virtual}
        return {tool.name: tool for tool in self.offered_tools() if tool.name not in virtual}

    def offered_tools(self) -> list[ToolDefinition]:
        """What the next request offers, in order."""
        return [tool.definition for tool in self.catalog.offer(self._conversation.discovery)]

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far; always a valid history."""
        return self._conversation.messages

    @property
    def system(self) -> str:
        """The system prompt of this conversation."""
        return self._conversation.system

    @property
    def usage(self) -> Usage:
        """Tokens of all requests this agent made, over all conversations."""
        return self._spent.usage

    @property
    def spent(self) -> Spent:
        """What these requests took: tokens, their cost, and how much of it were tool definitions."""
        return self._spent

    @property
    def model(self) -> Model:
        """The model that is called; resolves a name on first use, so it may raise `ConfigError`."""
        if self._model is None:
            self._model = self._resolved(self._model_choice)
        return self._model

    @property
    def model_choice(self) -> str | Model | Sequence[str | Model] | None:
        """The model as it was chosen: a name, an object, a chain of these, or None for the environment's."""
        return self._model_choice

    @property
    def tool_search(self) -> ToolSearch:
        """How tool search works in the conversations of this agent."""
        return self._conversations.search

    @property
    def instructions(self) -> str:
        """What the system prompt begins with."""
        return self._conversations.instructions

    def _resolved(self, choice: str | Model | Sequence[str | Model] | None) -> Model:
        from mcpagent.models import resolve_model

        return self._tape.model(lambda: resolve_model(choice))

    @property
    def tape(self) -> Tape:
        """The recording that is written or played, or one that lets everything through."""
        return self._tape

    @property
    def servers(self) -> dict[str, ServerStatus]:
        """Each configured MCP server by name, also those that failed or cannot be used, with the reason."""
        return self._tape.servers(self._sources.statuses)

    @property
    def mcp(self) -> McpServers:
        """The MCP servers themselves: their prompts and resources, and turning one off, on, or restarting it.

        Raises `AgentStateError` before the agent is started.
        """
        self._require_started()
        return self._sources.servers

    def new_conversation(self) -> None:
        """Forgets the conversation and what was discovered in it; connections and usage stay."""
        self._require_idle()
        self._conversations.begin_anew(self._current)
        self._pending = ()

    def rewind(self, length: int) -> None:
        """Takes back all but the first `length` messages, and with them the tools that were discovered since.

        What tools did outside stays done, and usage stays counted.
        """
        self._require_idle()
        if not 0 <= length <= len(self.messages):
            raise InputError(f"rewind: the conversation has {len(self.messages)} messages, got {length}")
        self._go_on(self.messages[:length])

    async def use_model(self, model: str | Model | Sequence[str | Model]) -> None:
        """Another model from now on, in the same conversation with the same discovered tools.

        Raises `ConfigError` for a name that means nothing; the model stays what it was then.
        """
        self._require_started()
        self._require_idle()
        new, old = self._resolved(model), self.model
        is_own = not isinstance(self._model_choice, Model)
        self._model, self._model_choice = new, model
        if self.card is not None:
            from mcpagent.agent_cards import with_model

            self.card = with_model(self.card, model)
        self._go_on(self.messages)
        if is_own and old is not new:
            await old.aclose()

    def _go_on(self, messages: Sequence[Message]) -> None:
        self._conversations.go_on(self._current, messages)
        self._pending = ()

    @classmethod
    def from_card(cls, card: str | Path | AgentCard, **options: Any) -> Agent:
        """An agent as a card (`.md` or `.yaml`, or a folder of them) describes it, with the members it names as tools.

        `options` are those of `Agent` and go before what the card says. Raises `CardError` for a card that cannot be
        used. What a card asks for and does not exist here is told by a warning when the agent starts.
        """
        from mcpagent.agent_cards import agent_from_card

        return agent_from_card(card, **options)

    def to_card(self, name: str = "") -> AgentCard:
        """The agent as a card: the one it was made of, else one made of its settings.

        Functions, toolsets and callbacks are code and not in it, nor are values of variables and `ServerConfig`s, which
        may be secret.
        """
        from mcpagent.agent_cards import card_of

        return card_of(self, name)

    def as_tool(
        self, name: str, description: str, *, defer_loading: bool | None = None, timeout_seconds: float | None = None
    ) -> Tool:
        """This agent as a tool of another one: `Agent(tools=[helper.as_tool("research", "...")])`.

        Each call is a conversation of its own. It shares the caller's limits, cancellation and usage, and its events
        come as `SubagentEvent`; calls that need approval ask the caller's `on_approval` and are denied without one.
        The agent is started with the caller, where it is not started already.
        """
        definition = ToolDefinition(name, description, _DELEGATED, original_name=name)

        async def run(arguments: dict[str, Any]) -> ToolOutput:
            return await self._delegated(arguments["prompt"], name)

        return Tool(definition, run, timeout_seconds, deferred=defer_loading, lifetime=_StartedOnce(self))

    # -- life -----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Agent:
        if self._exits is not None:
            raise AgentStateError("the agent is already started; use one `async with` per agent")
        _ = self.model  # a name that means nothing is told before anything is started
        self._loop = asyncio.get_running_loop()
        async with AsyncExitStack() as exits:
            exits.callback(self._tape.close)
            exits.push_async_callback(self._close_model)
            # Set already here: a team whose members call each other must not start anybody twice.
            self._exits = exits
            self._conversations.current, self._pending = None, ()
            try:
                await self._sources.open(
                    exits,
                    self._server_options,
                    self.startup_seconds,
                    emit=self._emit,
                    on_late=self._joins,
                    on_lost=self._conversations.lost,
                    on_changed=self._conversations.changed,
                )
                self._tape.hide(self._sources.secrets)
                with self._context().entered():
                    session = await self._conversations.start()
                await self._sources.enter_lifetimes(exits, session.listed)
            except BaseException:
                self._exits = None
                raise
            self._exits = exits.pop_all()
        eager = eager_tool_warnings(self.tool_search.eager_tools, self._tool_names_by_server())
        for line in (*self.start_notices, *eager, *collision_warnings(self.catalog.names)):
            self._emit(Notice(safe_line(line, 300), "warning"))
        for name in self.catalog.unknown_pins:
            near = ", ".join(self.catalog.near(name))
            hint = f"; did you mean {near}?" if near else ""
            self._emit(Notice(f'pre_discovered_tools: no tool "{name}"{hint}', "warning"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends all connections and server processes; a second call does nothing."""
        exits, self._exits = self._exits, None
        if exits is not None:
            await exits.aclose()

    def __enter__(self) -> Agent:
        if self._background is None:
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
        if background is not None:
            atexit.unregister(self.close)
            try:
                background.run(self.aclose())
            finally:
                background.close()

    # -- inside ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _run(
        self, prompt: Prompt | Sequence[CallAnswer], emit: Emit, *, deps: Any, tool_context: ToolContext | None
    ) -> Iterator[Run]:
        """The prompt said, or answers ready to be used; what the run used is counted however it ends."""
        self._require_started()
        if asyncio.get_running_loop() is not self._loop:
            raise AgentStateError("the agent was started in another event loop; use it in that one")
        self._require_idle()
        session = self._current
        answers: dict[str, CallAnswer] | None = None
        given = () if isinstance(prompt, str) else [item for item in prompt if isinstance(item, CallAnswer)]
        if not isinstance(prompt, str) and len(given) == len(prompt):
            answers = {answer.call_id: answer for answer in given}
        else:
            usable = usable_prompt(prompt)  # type: ignore[arg-type]  # answers beside words are no prompt
            if self._pending:
                session.conversation.close_open_calls(NOT_ANSWERED)
            self._tape.asked("".join(part.text for part in usable if isinstance(part, Text)))
            session.conversation.say(usable)
            self._pending = ()
        run = self._run_of(session, guarded(emit), deps=deps, tool_context=tool_context)
        run.answers = answers
        self._busy = True
        earlier = len(session.conversation.parts)
        try:
            yield run
        finally:
            self._busy = False
            self._spent += run.spent
            session.learn(earlier, run.emit)

    def _run_of(
        self, session: Session, emit: Emit, *, deps: Any = None, tool_context: ToolContext | None = None
    ) -> Run:
        context = RunContext(
            deps if deps is not None else self.deps,
            tool_context if tool_context is not None else self.tool_context,
            run_id=uuid4().hex,
            thread_id=session.thread_id,
            conversation=session.conversation,
        )

        async def list_tools() -> None:
            with context.entered():
                await self._conversations.list_again(session)

        return Run(
            self.model,
            session.catalog,
            session.conversation,
            emit,
            self.max_turns,
            self.tool_timeout_seconds,
            self.settings,
            context,
            list_tools,
            self._on_approval,
            tape=self._tape,
        )

    def _answer(self, finished: RunFinished) -> str:
        self._pending = finished.pending
        if finished.pending:
            raise CallsPendingError(finished.pending)
        return finished.answer

    async def _check_answers(self, run: Run) -> None:
        """Raises `InputError` unless each call that waits, and no other, has one answer."""
        if run.answers is None:
            return
        await run.list_tools()
        waiting = {request.call_id: request for request in await open_requests(execution_of(run))}
        if foreign := [call_id for call_id in run.answers if call_id not in waiting]:
            raise InputError(f'resume: no call "{safe_line(foreign[0], 60)}" waits for an answer; see agent.pending')
        if missing := [request for call_id, request in waiting.items() if call_id not in run.answers]:
            named = ", ".join(f'"{request.tool}" ({request.call_id})' for request in missing)
            raise InputError(f"resume: answer every call that waits; missing: {named}")

    async def _delegated(self, prompt: str, label: str) -> ToolOutput:
        """The answer to one call of `as_tool`, in a conversation of its own."""
        self._require_started()
        parent = current_run()
        outer = parent.emit if parent is not None else self._emit

        def emit(event: Event) -> None:
            inner = event if isinstance(event, SubagentEvent) else SubagentEvent((), event)
            outer(SubagentEvent((label, *inner.path), inner.event))

        if parent is not None and sum(1 for _ in parent.lineage) >= MAX_DEPTH:
            text = f"Agents call agents more than {MAX_DEPTH} deep; answer without calling another one."
            return ToolOutput.of_text(text, error="denied")
        session = await self._begin()
        session.conversation.say(usable_prompt(prompt))
        deps = self.deps if self.deps is not None or parent is None else parent.context.deps
        run = self._run_of(session, emit, deps=deps)
        run.parent, run.label = parent, label
        if run.on_approval is None and parent is not None:
            run.on_approval = parent.on_approval
        if not run.has_turns_left:
            return ToolOutput.of_text("The turns that this run may use are used up; answer now.", error="denied")
        try:
            finished = await converse(run)
        finally:
            self._spent += run.spent
        if finished.pending:
            names = ", ".join(f'"{request.tool}"' for request in finished.pending)
            text = f"{label} needed an approval or an outside answer for {names}, which nobody can give here."
            return ToolOutput.of_text(text, error="denied")
        return ToolOutput.of_text(finished.answer)

    def _require_idle(self) -> None:
        if self._busy:
            raise AgentStateError("the agent is answering already; await that answer first, or use a second Agent")

    def _require_started(self) -> None:
        if self._exits is None:
            raise AgentStateError("the agent is not started; use `async with Agent(...) as agent:` or ask_sync()")

    def _run_blocking(self, work: Callable[[str], Coroutine[Any, Any, str]], prompt: str) -> str:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            if self._background is None and self._exits is not None:
                raise AgentStateError("ask_sync() would block the running event loop; use `await agent.ask(...)`")
        if self._background is None:
            if self._exits is not None:
                assert self._loop is not None
                return asyncio.run_coroutine_threadsafe(work(prompt), self._loop).result()
            self.__enter__()
        assert self._background is not None
        return self._background.run(work(prompt))

    def _joins(self, toolset: McpToolset) -> None:
        # Who waits for no server sees `ServerConnected`.
        if self._conversations.joined(toolset) and self.startup_seconds != 0:
            self._emit(Notice(f'server "{toolset.config.name}" is ready; its tools have joined'))

    async def _close_model(self) -> None:
        if isinstance(self._model_choice, Model):  # it belongs to whoever gave it
            return
        # A name is resolved anew when the agent is entered again.
        model, self._model = self._model, None
        if model is not None:
            await model.aclose()

    def _tool_names_by_server(self) -> dict[str, list[str]]:
        """The original names of the tools of each server that is connected."""
        names: dict[str, list[str]] = {toolset.config.name: [] for toolset in self._sources.connected}
        for tool in self.catalog.known.values():
            if tool.definition.server is not None:
                names.setdefault(tool.definition.server, []).append(tool.definition.original_name)
        return names

    async def _begin(self, messages: Sequence[Message] = (), *, keep_open: bool = False) -> Session:
        with self._context().entered():
            return await self._conversations.begin(messages, keep_open=keep_open)

    def _context(self) -> RunContext[Any]:
        """What toolsets can know outside of a run."""
        return RunContext(self.deps, self.tool_context)

    def _emit(self, event: Event) -> None:
        self._tape.heard(event)
        if self._streamed is not None:
            self._streamed.put_nowait(event)
            if isinstance(event, RunFinished):
                self._streamed = None
        if self._listener is not None:
            guarded(self._listener)(event)


_NO_CONVERSATION = Conversation()

_DELEGATED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "prompt": {"type": "string", "description": "The whole task: the one who gets it knows nothing else of it"}
    },
    "required": ["prompt"],
}


class _StartedOnce:
    """Starts the agent where it is not started, and closes it only then."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._starts: list[bool] = []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _StartedOnce) and other._agent is self._agent

    def __hash__(self) -> int:
        return id(self._agent)

    async def __aenter__(self) -> Agent:
        starts = self._agent._exits is None
        self._starts.append(starts)
        return await self._agent.__aenter__() if starts else self._agent

    async def __aexit__(self, *_: object) -> None:
        if self._starts.pop():
            await self._agent.aclose()
