"""`Agent`: the class users meet. Wiring only: behaviour lives in loop, execution, catalog and the toolsets."""

from __future__ import annotations

import asyncio
import atexit
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from mcpagent.background import BackgroundLoop
from mcpagent.catalog import Catalog, ToolSearch
from mcpagent.config import ServersConfig, load_servers
from mcpagent.conversation import Conversation
from mcpagent.errors import AgentStateError, ConfigError, InputError
from mcpagent.events import Emit, Event, Notice
from mcpagent.loop import Run, converse
from mcpagent.mcp.servers import McpServers
from mcpagent.messages import Message, Text, ToolDefinition, ToolsChanged, Usage, load_messages
from mcpagent.models.base import Model, ModelSettings
from mcpagent.prompt.builder import category_line, system_prompt, tool_search_section
from mcpagent.selection import Selection
from mcpagent.tools import Tool, Toolset
from mcpagent.toolsets.function import function_tool
from mcpagent.virtual_tools.server_content import server_content_tools
from mcpagent.virtual_tools.tool_search import tool_search_tools

if TYPE_CHECKING:
    from mcpagent.config import ServerConfig, ServersConfig
    from mcpagent.mcp.status import ServerStatus
    from mcpagent.mcp.toolset import McpToolset
    from mcpagent.search import SearchResult

logger = logging.getLogger("mcpagent")

MAX_PROMPT_CHARACTERS = 10_000_000

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Agent:
    """An LLM with tools from MCP servers and Python functions, in one conversation.

        async with Agent("anthropic:claude-sonnet-4-6", mcp_config="mcp_servers.json",
                         with_tool_search_mode=True, pre_discovered_tools=["get_weather"]) as agent:
            answer = await agent.ask("What is the weather in Tokyo?")

    `model`: `provider:name`, any object with `Model.respond`, or None for the first provider whose key is set (the
    offline stand-in where none is). `mcp_config`: a file, a dict of the same shape, `ServerConfig` values,
    or what `load_servers` gave.
    `with_tool_search_mode=True` is short for `tool_search=ToolSearch()`; "auto" turns it on for large catalogues.
    `pre_discovered_tools` are offered from the first request on. `selected_servers` and `selected_tools`
    (`server:tool`, `server:*`) narrow what is connected and known.
    `max_turns` limits the model's answers per `ask`. `startup_seconds`: how long entering waits for slow servers (None:
    until each is ready or has failed); those that need longer join the conversation when they are ready.

    Constructing does no I/O and needs no key; entering connects all servers at once. A server that fails is named in
    `servers` and by an event, and the others work. `on_event` gets every event; its errors are logged, never raised.
    """

    def __init__(
        self,
        model: str | Model | None = None,
        *,
        mcp_config: str | Path | Mapping[str, Any] | Sequence[ServerConfig] | ServersConfig | None = None,
        instructions: str = "",
        with_tool_search_mode: bool | Literal["auto"] = False,
        tool_search: ToolSearch | None = None,
        pre_discovered_tools: Sequence[str] = (),
        tools: Sequence[Callable[..., Any] | Tool] = (),
        toolsets: Sequence[Toolset] = (),
        selected_servers: Sequence[str] | None = None,
        selected_tools: Sequence[str] | None = None,
        max_turns: int = 100,
        tool_timeout_seconds: float = 300.0,
        startup_seconds: float | None = 10.0,
        settings: ModelSettings | None = None,
        on_event: Emit | None = None,
    ) -> None:
        if isinstance(pre_discovered_tools, str):
            raise ConfigError('pre_discovered_tools: expected a list of names, got a string; write ["name"]')
        if max_turns < 1:
            raise ConfigError(f"max_turns: expected 1 or more, got {max_turns}")
        self.instructions = instructions
        self.max_turns = max_turns
        self.tool_timeout_seconds = tool_timeout_seconds
        self.startup_seconds = startup_seconds
        self.settings = settings or ModelSettings()
        self._tool_search = tool_search or ToolSearch(enabled=with_tool_search_mode)
        self._pinned = tuple(pre_discovered_tools)
        self._functions = [item if isinstance(item, Tool) else function_tool(item) for item in tools]
        self._toolsets = tuple(toolsets)
        self._selection = Selection(selected_servers, selected_tools)
        self._mcp_config = mcp_config
        self._model_choice = model
        self._model: Model | None = None
        self._listener = on_event
        self._mcp: McpServers | None = None
        self._exits: AsyncExitStack | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._background: BackgroundLoop | None = None
        self._catalog: Catalog | None = None
        self._listed: list[Tool] = []
        self._conversation = Conversation()
        self._usage = Usage()
        self._busy = False

    # -- asking ---------------------------------------------------------------------------------------------------

    async def ask(self, prompt: str) -> str:
        """The answer to the prompt, continuing the conversation.

        Raises `ModelError` when the model fails, `InputError` for an unusable prompt, `AgentStateError` when another
        `ask` is running. After an error or a cancellation the conversation goes on with the next `ask`.
        """
        with self._run(prompt, self._emit) as run:
            return (await converse(run)).answer

    def ask_sync(self, prompt: str) -> str:
        """`ask` for code without an event loop; starts the agent if need be. Close it with `close()` or `with`."""
        return self._run_blocking(self.ask, prompt)

    async def ask_with_history(self, messages: Sequence[Message | Mapping[str, Any]]) -> tuple[str, list[Message]]:
        """The answer to the history's last message, a user's, and the whole history after it.

        The history replaces the agent's conversation. Messages are `Message` values, what `dump_messages` gave, or
        `{"role": "user" | "assistant", "content": "..."}`. Tools discovered in it are offered again where configured.
        """
        *earlier, last = _history(messages)
        if last.role != "user":
            raise InputError(f"messages: the last one must be the user's, got role {last.role!r}")
        self._require_started()
        self._require_idle()
        self._begin(earlier)
        answer = await self.ask(last.text)
        return answer, list(self.messages)

    async def stream(self, prompt: str) -> AsyncIterator[Event]:
        """The events of one `ask` as they happen, ending with `RunFinished`. Closing the iterator cancels the run."""
        events: asyncio.Queue[Event | None] = asyncio.Queue()

        def emit(event: Event) -> None:
            events.put_nowait(event)
            self._emit(event)

        with self._run(prompt, emit) as run:
            answering = asyncio.create_task(converse(run))
            answering.add_done_callback(lambda _: events.put_nowait(None))
            try:
                while (event := await events.get()) is not None:
                    yield event
                await answering
            finally:
                answering.cancel()
                # Waits for the end and takes its error, which is nobody's once the iterator is closed.
                await asyncio.gather(answering, return_exceptions=True)

    async def search(self, query: str, limit: int = 5) -> SearchResult:
        """What `search_tools` finds for the query: the model's own ranking, without a model."""
        return await self.catalog.index.find(query, limit)

    # -- what there is --------------------------------------------------------------------------------------------

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
        defer_loading: bool = True,
    ) -> Callable[[_Function], _Function]: ...

    def tool(self, function: _Function | None = None, **options: Any) -> _Function | Callable[[_Function], _Function]:
        """Decorator: a Python function, sync or async, as a tool. The options are those of `function_tool`."""

        def register(function: _Function) -> _Function:
            self._functions.append(function_tool(function, **options))
            if self._catalog is not None:
                offered = self._replace_local(self._catalog)
                self._announce(f'The tool "{self._functions[-1].name}" can be used from now on.', offered)
            return function

        return register(function) if function is not None else register

    @property
    def catalog(self) -> Catalog:
        """All tools of this conversation; raises `AgentStateError` before the agent is started."""
        self._require_started()
        assert self._catalog is not None
        return self._catalog

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
        return self._usage

    @property
    def model(self) -> Model:
        """The model that is called; resolves a name on first use, so it may raise `ConfigError`."""
        if self._model is None:
            from mcpagent.models import resolve_model

            self._model = resolve_model(self._model_choice)
        return self._model

    @property
    def servers(self) -> dict[str, ServerStatus]:
        """Each configured MCP server by name, also those that failed or cannot be used, with the reason."""
        return self._mcp.statuses if self._mcp is not None else {}

    def new_conversation(self) -> None:
        """Forgets the conversation and what was discovered in it; connections and usage stay."""
        self._require_started()
        self._require_idle()
        self._begin(())

    # -- life -----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Agent:
        if self._exits is not None:
            raise AgentStateError("the agent is already started; use one `async with` per agent")
        model = self.model
        self._loop = asyncio.get_running_loop()
        async with AsyncExitStack() as exits:
            if not isinstance(self._model_choice, Model):
                exits.push_async_callback(self._close_model, model)
            await self._connect(exits)
            for toolset in self._toolsets:
                await exits.enter_async_context(toolset)
            self._listed = [tool for toolset in self._toolsets for tool in await toolset.tools()]
            self._begin(())
            self._exits = exits.pop_all()
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
    def _run(self, prompt: str, emit: Emit) -> Iterator[Run]:
        """The prompt said, ready for `converse`; what the run used is counted however it ends."""
        self._require_started()
        if asyncio.get_running_loop() is not self._loop:
            raise AgentStateError("the agent was started in another event loop; use it in that one")
        self._require_idle()
        catalog = self.catalog
        self._conversation.say(_usable(prompt))
        run = Run(
            self.model,
            catalog,
            self._conversation,
            _guarded(emit),
            self.max_turns,
            self.tool_timeout_seconds,
            self.settings,
        )
        self._busy = True
        try:
            yield run
        finally:
            self._busy = False
            self._usage += run.usage

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

    async def _connect(self, exits: AsyncExitStack) -> None:
        """Connects all MCP servers at once; raises only for a wrong configuration or a `required` server."""
        given = self._mcp_config if self._mcp_config is not None else ServersConfig((), (), ())
        config = given if isinstance(given, ServersConfig) else load_servers(given)
        self._selection.check([*(server.name for server in config.servers), *(item.name for item in config.problems)])
        wanted = [item for item in config.servers if not item.disabled and self._selection.has_server(item.name)]
        self._mcp = McpServers(config, wanted, emit=self._emit, on_late=self._joins, on_lost=self._stays_away)
        exits.push_async_callback(self._mcp.close)
        await self._mcp.open(self.startup_seconds)

    def _joins(self, toolset: McpToolset) -> None:
        """A server that connected late: its tools are known from now on, and the conversation says so."""
        name, catalog = toolset.config.name, self._catalog
        if catalog is None or self._mcp is None:  # the conversation has not begun: it will begin with this server
            return
        tools = self._selection.of(self._mcp.tools(name))
        offered = [*catalog.replace_source(name, tools, _about(toolset)), *self._replace_local(catalog)]
        line = category_line(name, catalog.server_descriptions[name], len(tools)).removeprefix("- ")
        self._announce(f"A server has connected, its tools can be used from now on: {line}.", offered)
        self._emit(Notice(f'server "{name}" is ready; its tools have joined'))

    def _stays_away(self, name: str, reason: str) -> None:
        if self._catalog is not None:
            self._catalog.unavailable[name] = reason

    def _replace_local(self, catalog: Catalog) -> tuple[str, ...]:
        """Takes functions and virtual tools into the catalogue; gives those to be offered at once."""
        return catalog.replace_source(None, [*self._content_tools(), *self._functions])

    def _announce(self, text: str, offered: Sequence[str]) -> None:
        catalog = self.catalog
        added = ToolsChanged(added=catalog.definitions(offered)) if offered and catalog.searching else None
        self._conversation.announce(text, added)

    async def _close_model(self, model: Model) -> None:
        # A name is resolved anew when the agent is entered again.
        self._model = None
        await model.aclose()

    def _begin(self, messages: Sequence[Message]) -> None:
        """A new conversation: names, categories and the system prompt are fixed here."""
        conversation = Conversation(messages=messages)
        servers = self._mcp
        listed = (
            [tool for toolset in self._connected() for tool in servers.tools(toolset.config.name)] if servers else []
        )
        catalog = Catalog(
            [*self._selection.of([*listed, *self._listed]), *self._content_tools(), *self._functions],
            search=self._tool_search,
            pinned=self._pinned,
            server_descriptions={toolset.config.name: _about(toolset) for toolset in self._connected()},
            unavailable=servers.unavailable if servers else {},
        )
        section = ""
        if catalog.searching:
            catalog.virtual = tool_search_tools(catalog, conversation)
            lines = [category_line(item.name, item.description, item.tools) for item in catalog.categories()]
            section = tool_search_section(lines, loads=catalog.options.load == "search")
        conversation.system = system_prompt(self.instructions, section)
        self._conversation, self._catalog = conversation, catalog

    def _connected(self) -> list[McpToolset]:
        return self._mcp.toolsets if self._mcp is not None else []

    def _content_tools(self) -> list[Tool]:
        return server_content_tools(self._connected())

    def _emit(self, event: Event) -> None:
        if self._listener is not None:
            _guarded(self._listener)(event)


def _guarded(listener: Emit) -> Emit:
    """The listener with its errors logged: whoever listens cannot break a run."""

    def emit(event: Event) -> None:
        try:
            listener(event)
        except Exception:
            name = getattr(listener, "__qualname__", repr(listener))
            logger.exception("event listener %s raised on %s", name, type(event).__name__)

    return emit


def _about(toolset: McpToolset) -> str:
    status = toolset.status
    return toolset.config.description or status.title or status.instructions


def _usable(prompt: str) -> str:
    """The prompt as it can be sent; raises `InputError` where it is empty or too long."""
    if not prompt.strip():
        raise InputError("prompt is empty; say what you want to know")
    if len(prompt) > MAX_PROMPT_CHARACTERS:
        raise InputError(f"prompt is {len(prompt):,} characters; the limit is {MAX_PROMPT_CHARACTERS:,}")
    # NUL and lone surrogates cannot be sent to any provider.
    return prompt.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def _history(messages: Sequence[Message | Mapping[str, Any]]) -> list[Message]:
    if not messages:
        raise InputError("messages: the history is empty; it must end with a user's message")
    history: list[Message] = []
    for position, item in enumerate(messages):
        if isinstance(item, Message):
            history.append(item)
        elif "parts" in item:
            history.extend(load_messages([item]))
        else:
            role, content = item.get("role"), item.get("content")
            if role not in ("user", "assistant") or not isinstance(content, str):
                raise InputError(
                    f'messages[{position}]: expected {{"role": "user" or "assistant", "content": "..."}}; '
                    "system text goes into Agent(instructions=...)"
                )
            history.append(Message(role, (Text(content),)))
    return history
