"""From options to an `Agent`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from mcpagent.cli.figures import counted
from mcpagent.cli.options import OutputFormat, ToolSearchMode
from mcpagent.errors import ServerError
from mcpagent.events import Event, Notice, ServerFailed

if TYPE_CHECKING:
    from mcpagent import Agent, Model, ToolSearch
    from mcpagent.cli.activity import Activity
    from mcpagent.cli.configuration import Configuration
    from mcpagent.cli.options import Options
    from mcpagent.cli.terminal import Terminal
    from mcpagent.events import Emit

KEY_HINT = "no API key: offline model. A real one: export ANTHROPIC_API_KEY=... or use -m ollama:<model>"
SERVERS_HINT = "no configuration: bundled demo server. Your own: .mcp.json or --server NAME='command'"


def make_agent(
    options: Options,
    configuration: Configuration,
    on_event: Emit,
    *,
    model: str | Model | None = None,
    startup_seconds: float | None = None,
) -> Agent:
    """An agent, not started. Raises `ConfigError` for a model that means nothing.

    `model` overrides the options'. `startup_seconds`: how long to wait for all servers; None: for each its own limit.
    """
    from mcpagent.agent import Agent

    names = tuple(name for name in options.always_load if not _is_pattern(name))
    if options.card is not None:
        return _agent_of_card(
            options, configuration, on_event, model=model, startup_seconds=startup_seconds, names=names
        )
    return Agent(
        model if model is not None else options.model,
        mcp_config=configuration.servers,
        tool_search=_tool_search(options, configuration),
        pre_discovered_tools=names,
        max_turns=options.max_turns,
        startup_seconds=startup_seconds,
        on_event=on_event,
    )


def _agent_of_card(
    options: Options,
    configuration: Configuration,
    on_event: Emit,
    *,
    model: str | Model | None,
    startup_seconds: float | None,
    names: Sequence[str],
) -> Agent:
    """The card's agent; what was asked for on the command line goes before what the card says."""
    from mcpagent.agent import Agent

    assert options.card is not None
    asked: dict[str, Any] = {}
    if (chosen := model if model is not None else options.model) is not None:
        asked["model"] = chosen
    if options.tool_search is not ToolSearchMode.auto:
        asked["tool_search"] = _tool_search(options, configuration)
    if options.max_turns != _DEFAULT_MAX_TURNS:
        asked["max_turns"] = options.max_turns
    return Agent.from_card(
        options.card,
        mcp_config=configuration.servers,
        pre_discovered_tools=names,
        startup_seconds=startup_seconds,
        on_event=on_event,
        **asked,
    )


_DEFAULT_MAX_TURNS = 100


def hints(agent: Agent, options: Options, configuration: Configuration) -> list[str]:
    """How to get a real model and one's own servers, where stand-ins are used that nobody asked for."""
    unasked = options.model is None and options.card is None
    lines = [KEY_HINT] if unasked and agent.model.name.startswith("offline") else []
    return [*lines, SERVERS_HINT] if configuration.is_demo else lines


@contextmanager
def connecting(terminal: Terminal, configuration: Configuration) -> Iterator[Activity]:
    """Says on stderr that servers are being connected, while they are."""
    from mcpagent.cli.activity import Activity

    activity = Activity(terminal.err, terminal.glyphs)
    activity.show(f"connecting {counted(len(configuration.enabled), 'server')}")
    try:
        yield activity
    finally:
        activity.hide()


@asynccontextmanager
async def connected_without_model(
    options: Options, configuration: Configuration, terminal: Terminal, on_event: Emit | None = None
) -> AsyncIterator[Agent]:
    """The agent for commands that only look: servers connected, failures told on stderr, no model asked."""
    from mcpagent.cli.rendering import notice_line, print_failed_server
    from mcpagent.cli.terminal import put

    servers = {server.name: server for server in configuration.enabled}

    def tell(event: Event) -> None:
        with moving.paused():  # it may be on stderr while the line goes to stdout
            (on_event or tell_failures)(event)

    def tell_failures(event: Event) -> None:
        if isinstance(event, ServerFailed):
            print_failed_server(terminal.err, event, servers, terminal.glyphs)
        elif isinstance(event, Notice) and event.level == "warning":
            put(terminal.err, notice_line(event.text, event.level, terminal.glyphs))

    agent = make_agent(options, configuration, tell, model="offline")
    if configuration.is_demo and options.output is OutputFormat.text:
        put(terminal.err, SERVERS_HINT, style="dim")
    with connecting(terminal, configuration) as moving:
        await agent.__aenter__()
    try:
        yield agent
    finally:
        await agent.aclose()


def require_a_server(agent: Agent) -> None:
    """Raises `ServerError` where servers are configured and none works: the answer would be made up."""
    states = agent.servers
    if states and all(status.state == "failed" for status in states.values()):
        which = "the only server" if len(states) == 1 else f"all {len(states)} servers"
        raise ServerError(f"{which} failed; mcpagent mcp test tells more", server=next(iter(states)), phase="connect")


def _tool_search(options: Options, configuration: Configuration) -> ToolSearch:
    from mcpagent.catalog import ToolSearch

    patterns = [name for name in options.always_load if _is_pattern(name)]
    eager: dict[str, list[str]] = {}
    for server in configuration.enabled:
        for pattern in patterns:
            owner, dot, rest = pattern.partition(".")
            if dot and owner == server.name:
                eager.setdefault(server.name, []).append(rest)
            elif not (dot and owner in {other.name for other in configuration.enabled}):
                eager.setdefault(server.name, []).append(pattern)
    enabled = {ToolSearchMode.on: True, ToolSearchMode.off: False}.get(options.tool_search, "auto")
    return ToolSearch(enabled=enabled, eager_tools=eager)  # type: ignore[arg-type]


def _is_pattern(name: str) -> bool:
    """Whether this is a glob or SERVER.GLOB rather than a tool's name in one of its forms."""
    return any(char in name for char in "*?[")
