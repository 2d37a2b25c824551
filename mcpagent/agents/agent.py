"""`Agent`: the public class. An agent defines the model, the tools and the settings that its sessions share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import NoneType, TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from mcpagent.agents.other_libraries import answers_other_names
from mcpagent.agents.runnable import Runnable
from mcpagent.errors import InputError
from mcpagent.utilities.python.argument_checks import checked, expect, expect_options
from mcpagent.values.type_variables import Deps

# `from mcpagent import Agent` loads only this module; the first `Agent(...)` loads the modules that run it.
if TYPE_CHECKING:
    from pathlib import Path

    from mcpagent.agents.cards.card import AgentCard
    from mcpagent.agents.run_input import RunInput
    from mcpagent.agents.session import Session
    from mcpagent.agents.session_runtime import SessionRuntime
    from mcpagent.code_mode.code_options import CodeMode
    from mcpagent.journal.sessions.protocol import SessionStore
    from mcpagent.journal.sessions.store import Sessions
    from mcpagent.mcp.all_servers import McpServers
    from mcpagent.mcp.server_status import ServerStatus
    from mcpagent.models.base import Model
    from mcpagent.models.imported_histories import History
    from mcpagent.permissions.approval_policy import ApprovalPolicy, ApprovalPredicate
    from mcpagent.search import SearchResult
    from mcpagent.tool_search.search_options import ToolSearch
    from mcpagent.toolsets.definition import Instructions, ModelChoice, RunOptions
    from mcpagent.toolsets.sources import AnyTools, McpConfig
    from mcpagent.values.approval import PendingCall
    from mcpagent.values.events import Emit
    from mcpagent.values.limits.run_limits import Limits
    from mcpagent.values.messages import Message, Spent, ToolDefinition
    from mcpagent.values.tool_context import ToolContext
    from mcpagent.values.tools import Tool, ToolCaller

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Agent(Runnable[Deps]):
    """An LLM with tools from MCP servers and Python functions.

        async with Agent("anthropic:claude-sonnet-4-6", mcp_config="mcp_servers.json",
                         with_tool_search_mode=True, pre_discovered_tools=["get_weather"]) as agent:
            answer = await agent.ask("What is the weather in Tokyo?")

    An agent is a definition; a conversation is a `Session`: `agent.session()` begins one, any number at once. `ask`,
    `messages` and the like of the agent itself use the agent's default session.

    Constructing does no I/O and needs no key; entering connects all servers at once. If a server fails, `servers` and
    an event name it, and the others work.

    Args:
        model: `provider:name`, any object with `Model.respond`, or a list of these, whose next one answers if one
            cannot. None: the first of Anthropic, OpenAI, Gemini and OpenRouter whose key is set.
        tools: Functions, tools, toolsets, `McpServer` values, lists of functions, and tools that the model's provider
            runs, such as `WebSearch()`.
        mcp_config: A file, a dict of the same shape, `ServerConfig` values, or the result of `load_servers`.
        instructions: The beginning of the system prompt. A function of the run's context is called when a conversation
            begins.
        tool_search: True, "auto" (on for large catalogues), `ToolSearch(...)`, or False. None: only tools that are
            marked as deferred are searched.
        with_tool_search_mode: True and "auto" mean the same as in `tool_search`.
        pre_discovered_tools: Names and patterns such as `get_*` that are offered from the first request on.
        code_mode: True, or `CodeMode(...)`: the model calls tools as functions in Python programs.
        approval: True, a predicate `(context, definition, arguments)`, or an `ApprovalPolicy` with its approver.
        options: `RunOptions`: the limits of an answer, the model's settings, the options of all servers, and wrappers
            such as a `Recorder`.
        sessions: The store of the conversations: a path, or an address of PostgreSQL. `agent.session("id")` continues
            one, in any process.
        on_event: A listener for every event. Its errors are logged, never raised. Without it, warnings are logged.
    """

    @answers_other_names
    def __init__(
        self,
        model: ModelChoice = None,
        tools: Sequence[AnyTools] = (),
        *,
        mcp_config: McpConfig = None,
        instructions: Instructions = "",
        tool_search: bool | Literal["auto"] | ToolSearch | None = None,
        with_tool_search_mode: bool | Literal["auto"] = False,
        pre_discovered_tools: Sequence[str] = (),
        code_mode: bool | CodeMode = False,
        approval: bool | ApprovalPredicate | ApprovalPolicy = False,
        options: RunOptions | None = None,
        sessions: Sessions | SessionStore | str | Path | None = None,
        on_event: Emit | None = None,
    ) -> None:
        from mcpagent.agents.building import runtime_of

        self._runtime = runtime_of(
            model,
            tools,
            mcp_config=mcp_config,
            instructions=instructions,
            tool_search=tool_search,
            with_tool_search_mode=with_tool_search_mode,
            pre_discovered_tools=pre_discovered_tools,
            code_mode=code_mode,
            approval=approval,
            options=options,
            sessions=sessions,
            on_event=on_event,
        )

    def __repr__(self) -> str:
        return repr(self._runtime)

    # -- Conversations -------------------------------------------------------------------------------------------------

    @answers_other_names
    def session(
        self,
        id: str | None = None,  # noqa: A002 - what everybody calls it
        messages: Sequence[Message | Mapping[str, Any]] | None = None,
        deps: Deps | None = None,
        tool_context: ToolContext | None = None,
        limits: Limits | None = None,
        trusted: bool | None = None,
    ) -> Session[Deps]:
        """Start a separate conversation over this agent's servers, tools and model, optionally from `messages`.

        It lives as long as your code holds it. If the agent stores its sessions, a known ID continues its conversation.
        Reading it takes some milliseconds, during which the event loop waits:
        `await asyncio.to_thread(agent.session, id)` reads it in a thread. Calls at the end of `messages` that have no
        result can be answered with `Session.resume`; the next prompt closes them.

            session = agent.session("ann")
            print(await session.ask("What time is it in Tokyo?"))

        Args:
            id: The name of the session for the store, toolsets and listeners.
            messages: A history to continue.
            deps: Your own objects; tool functions find them in their `RunContext`.
            tool_context: The context of tool functions, in their `RunContext`.
            limits: The limits of all its runs together, in place of `RunOptions(session_limits=...)`. The session
                stores its use.
            trusted: False: the messages are third-party data; their system words, open calls, compactions and
                containers of programs are ignored. None: messages of mcpagent are trusted, messages in the format of
                another API are not.

        Raises:
            AgentStateError: The agent is not started.
            InputError: The messages cannot be read.
            SessionBusyError: Another process has the session, or a durable run that has not ended.
        """
        from mcpagent.agents.session import session_of
        from mcpagent.values.limits.run_limits import Limits

        expect("limits", limits, (Limits, NoneType), "Limits(...)")
        expect(
            "trusted",
            trusted,
            (bool, NoneType),
            "True, False or None",
            error=InputError,
        )
        self._runtime.require_usable()
        history = None
        if messages is not None:
            history = _history(messages, trusted)
        return session_of(
            self._runtime.session(id, history, deps, tool_context, limits)
        )

    async def ask_with_history(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        *,
        trusted: bool | None = None,
    ) -> tuple[str, list[Message]]:
        """Answer the last message of a history, which must be a user's; return the answer and the history with it.

        The history replaces the agent's conversation. Messages are `Message` values, the result of `dump_messages`, or
        messages in the format of OpenAI or Anthropic; `trusted` is as in `session`. Tools discovered in the history are
        offered again if they still exist.
        """
        expect(
            "trusted",
            trusted,
            (bool, NoneType),
            "True, False or None",
            error=InputError,
        )
        history = _history(messages, trusted)
        if not history.messages:
            raise InputError(
                "messages: the history is empty; it must end with a user's message"
            )
        from mcpagent.values.messages import Content

        *earlier, last = history.messages
        if last.role != "user":
            raise InputError(
                f"messages: the last one must be the user's, got role {last.role!r}"
            )
        prompt = [part for part in last.parts if isinstance(part, Content)]
        return await self._runtime.ask_after(earlier, prompt, system=history.system)

    async def search(self, query: str, limit: int | None = None) -> SearchResult:
        """Return the tools that `search_tools` finds for the query, by the model's own ranking but without a model.

        Without a limit, a `select:` query returns all tools that it names, any other query at most five.
        """
        return await self._runtime.own_session.search(query, limit)

    async def use_model(self, model: str | Model | Sequence[str | Model]) -> None:
        """Use another model from now on, in the same conversations with the same discovered tools.

        Raises `ConfigError` for an unknown name, or for a model that accepts fewer tools than the agent's own session
        must offer; and `AgentStateError` while a session is answering. After an error the agent uses the previous
        model. Waits for the end of runs whose stream was abandoned. Other sessions switch to the model when they are
        used next.
        """
        await self._runtime.use_model(model)

    # -- Tools and servers ---------------------------------------------------------------------------------------------

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
        allowed_callers: Sequence[ToolCaller] = ("direct", "code"),
    ) -> Callable[[_Function], _Function]: ...

    def tool(self, function: Any = None, **options: Any) -> Any:
        """Register a Python function, sync or async, as a tool; use this method as a decorator.

        A `Tool`, such as another agent's `as_tool`, is added unchanged.
        """
        from mcpagent.toolsets.functions import function_tool
        from mcpagent.values.tools import Tool, usable_tool

        expect_options("tool", function_tool, options)

        def register(function: Any) -> Any:
            self._runtime.definition.sources.functions.append(
                usable_tool(function)
                if isinstance(function, Tool)
                else function_tool(function, **options)
            )
            return function

        if function is not None:
            return register(function)
        return register

    @property
    def known_tools(self) -> dict[str, ToolDefinition]:
        """All known tools, by the name under which the model would see them."""
        return {
            name: tool.definition for name, tool in self._runtime.tools.known.items()
        }

    @property
    def all_deferred_tools(self) -> dict[str, ToolDefinition]:
        """The tools that the model must find by searching, by offered name; {} if tool search is off."""
        return {
            name: tool.definition for name, tool in self._runtime.tools.deferred.items()
        }

    @property
    def discovered_tools(self) -> dict[str, ToolDefinition]:
        """The offered tools, except `search_tools` and other tools of mcpagent: first the pre-discovered ones by name,
        then the rest in the order of discovery.
        """
        return self._runtime.own_session.discovered_tools

    def offered_tools(self) -> list[ToolDefinition]:
        """Return the tools of the next request, in order."""
        return [tool.definition for tool in self._runtime.tools.offer()]

    @property
    def servers(self) -> dict[str, ServerStatus]:
        """Status of each configured MCP server by name, with the reason if a server failed or cannot be used."""
        return self._runtime.definition.sources.statuses

    @property
    def mcp(self) -> McpServers:
        """The MCP servers: their prompts and resources, and methods to turn a server off or on, or to restart it.

        Raises `AgentStateError` before the agent is started.
        """
        self._runtime._require_started()
        return self._runtime.definition.sources.servers

    # -- Default session -----------------------------------------------------------------------------------------------

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation of the agent's own session so far; see `Session.messages`."""
        own = self._runtime.own_session_or_none
        if own is not None:
            return own.messages
        return ()

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The calls of the agent's own session that wait for an answer; see `Session.pending`."""
        own = self._runtime.own_session_or_none
        if own is not None:
            return own.pending
        return ()

    @property
    def spent(self) -> Spent:
        """The cost, turns and calls of this agent over all sessions; `spent.usage` has the tokens."""
        return self._runtime.spent

    def new_conversation(self) -> None:
        """Start a new conversation in the agent's default session, without discovered tools; servers stay connected."""
        self._runtime.own_session.begin_anew()

    # -- Agents from cards, and agents as tools ------------------------------------------------------------------------

    @classmethod
    @checked()
    def from_card(cls, card: str | Path | AgentCard, **options: Any) -> Agent[Any]:
        """Create an agent from a card (`.md` or `.yaml`, or a folder of cards); the members that the card names become
        its tools.

        `options` are arguments of `Agent` and take precedence over the card. Raises `CardError` for an invalid card.
        When the agent starts, it warns about fields of the card that have no effect in mcpagent.
        """
        from mcpagent.agents.cards.agent_cards import agent_from_card

        agent: Agent[Any] = agent_from_card(cls, card, **options)
        return agent

    @checked()
    def to_card(self, name: str = "") -> AgentCard:
        """Return the agent as a card: the card that it was created from, or else one from its settings.

        The card omits functions, toolsets and callbacks, which are code, and values of variables and `ServerConfig`s,
        which may be secret.
        """
        from mcpagent.agents.cards.agent_cards import card_of

        return card_of(self._runtime, name)

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
        """Return this agent as a tool of another one: `Agent(tools=[helper.as_tool("research", "...")])`.

        Each call runs in a new session. The run shares the caller's limits, cancellation and usage, and its events
        arrive as `SubagentEvent`. Calls that need approval go to the caller's approver and are denied without one. The
        agent starts with the caller, unless it is already started. With an `output_type` the answers are JSON of that
        type.
        """
        from mcpagent.agents.run_input import wanted_output
        from mcpagent.toolsets.agent_tools import agent_tool

        spec = wanted_output(output_type)
        return agent_tool(
            self._runtime,
            partial(self._runtime.delegated, spec),
            name,
            description,
            defer_loading=defer_loading,
            timeout_seconds=timeout_seconds,
        )

    # -- Closing -------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Agent[Deps]:
        await self._runtime.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._runtime.aclose()

    async def aclose(self) -> None:
        """End all connections and server processes; a second call does nothing.

        Runs in progress end first; code that waits for such a run gets `AgentStateError`.
        """
        await self._runtime.aclose()

    def __enter__(self) -> Agent[Deps]:
        self._runtime.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._runtime.close()

    def close(self) -> None:
        """Close the agent in code without an event loop, as `aclose` does; a second call does nothing."""
        self._runtime.close()

    # -- Internals -----------------------------------------------------------------------------------------------------

    @property
    def _asked(self) -> SessionRuntime[Deps]:
        return self._runtime.own_session

    def _wait_for_answer(self, given: Callable[[], RunInput]) -> Any:
        return self._runtime.started_session()._wait_for_answer(given)


def _history(
    messages: Sequence[Message | Mapping[str, Any]], trusted: bool | None
) -> History:
    from mcpagent.models.imported_histories import history_of

    return history_of(messages, trusted)
