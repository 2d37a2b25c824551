"""From options to an `Agent`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from mcpagent.cli.figures import counted
from mcpagent.cli.options import ApproveMode, OutputFormat, SearchStrategy, ToolSearchMode
from mcpagent.errors import ServerError
from mcpagent.events import Event, Notice, ServerFailed
from mcpagent.safe_text import safe_line

if TYPE_CHECKING:
    from mcpagent import Agent, Model, ToolSearch
    from mcpagent.cli.activity import Activity
    from mcpagent.cli.approvals import Approvals, Ask
    from mcpagent.cli.configuration import Configuration
    from mcpagent.cli.options import Options
    from mcpagent.cli.server_requests import ServerRequests
    from mcpagent.cli.terminal import Terminal
    from mcpagent.config import ServerConfig
    from mcpagent.events import Emit
    from mcpagent.mcp.cache import ListCache
    from mcpagent.mcp.pins import ToolChange
    from mcpagent.mcp.servers import ServerOptions
    from mcpagent.mcp.toolset import AllowChange
    from mcpagent.recording import Tape
    from mcpagent.search import SearchHistory

KEY_HINT = "no API key: offline model. A real one: export ANTHROPIC_API_KEY=..., mcpagent keys set, -m ollama:<model>"
SERVERS_HINT = "no configuration: bundled demo server. Your own: .mcp.json or --server NAME='command'"


def make_agent(
    options: Options,
    configuration: Configuration,
    on_event: Emit,
    *,
    model: str | Model | None = None,
    startup_seconds: float | None = None,
    approvals: Approvals | None = None,
    cache: ListCache | None = None,
    allow_change: AllowChange | None = None,
    requests: ServerRequests | None = None,
) -> Agent:
    """An agent, not started. Raises `ConfigError` for a model that means nothing.

    `model` overrides the options'. `startup_seconds`: how long to wait for all servers; None: for each its own limit.
    `approvals` decides on tool calls; without it every call runs. With a `cache`, servers whose lists are known are
    started by the first call of one of their tools. `allow_change` asks whether a tool that its server changed since it
    was first used may be called; without it, only where `--trust-changes` is given. `requests` answers what servers ask
    that may ask something.
    """
    from mcpagent.agent import Agent

    on_event = _without_told(on_event, configuration.untrusted)
    names = tuple(name for name in options.always_load if not _is_pattern(name))
    chosen = model if model is not None else options.model
    common: dict[str, Any] = {
        "mcp_config": configuration.servers,
        "pre_discovered_tools": names,
        "startup_seconds": startup_seconds,
        "server_options": _server_options(options, configuration, on_event, cache, allow_change, requests),
        "approval": approvals.needed if approvals is not None else False,
        "on_approval": approvals.decide if approvals is not None else None,
        "on_event": on_event,
        "recording": _tape(options),
    }
    if options.replay is not None and options.tool_search is ToolSearchMode.auto:
        agent = Agent(max_turns=options.max_turns, **common)
    elif options.card is not None:
        agent = Agent.from_card(options.card, **common, **_asked_for(options, configuration, chosen))
    else:
        search = _tool_search(options, configuration)
        agent = Agent(chosen, tool_search=search, max_turns=options.max_turns, **common)
    if requests is not None:
        requests.agent = agent
    return agent


def _tape(options: Options) -> Tape | None:
    if options.replay is not None:
        from mcpagent.recording import Replay

        return Replay(options.replay)
    if options.record is not None:
        from mcpagent.recording import Recorder

        return Recorder(options.record)
    return None


def _without_told(on_event: Emit, servers: frozenset[str]) -> Emit:
    """Leaves out the failures that one line about the project's trust has told already."""

    def emit(event: Event) -> None:
        if not (isinstance(event, ServerFailed) and event.server in servers):
            on_event(event)

    return emit if servers else on_event


def _server_options(
    options: Options,
    configuration: Configuration,
    on_event: Emit,
    cache: ListCache | None,
    allow_change: AllowChange | None,
    requests: ServerRequests | None,
) -> ServerOptions:
    from mcpagent.cli.folders import state_folder
    from mcpagent.mcp.authentication import stored_sign_ins
    from mcpagent.mcp.pins import PinStore
    from mcpagent.mcp.servers import ServerOptions

    async def trusted(_: ToolChange) -> bool:
        return True

    async def untrusted(_: ToolChange) -> bool:
        on_event(Notice("the changed tool was not called; --trust-changes accepts it as it is now", "warning"))
        return False

    state = state_folder(options.environ)
    return ServerOptions(
        cache=cache,
        # The bundled server changes with the program itself.
        pins=None if configuration.is_demo else PinStore(state / "pins"),
        allow_change=trusted if options.trust_changes else allow_change or untrusted,
        log_folder=state / "logs",
        handlers=requests.handlers if requests is not None else None,
        auth=stored_sign_ins(options.environ),
    )


def make_approvals(options: Options, configuration: Configuration, ask: Ask | None) -> Approvals:
    """The rules that the options and the servers give, with what the user said yes to.

    `ask` is None where nobody can be asked. In a replay nothing runs, so nothing has to be allowed.
    """
    from mcpagent.cli.approvals import Approvals, Rules
    from mcpagent.cli.kept_approvals import KeptApprovals

    servers = {server.name: server for server in (*_servers_of_members(options), *configuration.enabled)}
    mode = ApproveMode.all if configuration.replayed is not None else options.approve
    harmless = frozenset(servers) if configuration.is_demo else frozenset[str]()
    rules = Rules(mode, list(options.allow), list(options.deny), servers, harmless)
    return Approvals(rules, KeptApprovals.of_user(options.environ, servers.values()), ask)


def _servers_of_members(options: Options) -> Sequence[ServerConfig]:
    """Those of a card and its members: a member's calls are decided on here too."""
    if options.card is None:
        return ()
    from mcpagent.agent_cards import card_at, team_servers

    return team_servers(card_at(options.card), options.environ)


def rules_without_effect(agent: Agent, approvals: Approvals) -> list[str]:
    """One line for each rule that does nothing: it covers no tool, with what may have been meant, or may not count."""
    from mcpagent.cli.approvals import label_of
    from mcpagent.config.permissions import vouches_for_itself

    labels = [label_of(tool) for tool in agent.known_tools.values()]
    lines = [
        f"{server.source}: a project's file may not allow or trust its own tools; what it says of {server.name} is left"
        for server in approvals.rules.servers.values()
        if server.scope == "project" and vouches_for_itself(server.written)
    ]
    for glob in approvals.rules.without_effect(agent.known_tools.values()):
        near = get_close_matches(glob, labels, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]}?" if near else "; mcpagent tools list names them"
        lines.append(f"--allow or --deny {safe_line(glob, 80) or repr(glob)}: no tool of that name is known{hint}")
    return lines


def _asked_for(options: Options, configuration: Configuration, model: str | Model | None) -> dict[str, Any]:
    """What was asked for on the command line, which goes before what a card says."""
    asked: dict[str, Any] = {"model": model} if model is not None else {}
    if (options.tool_search, options.search_strategy) != (ToolSearchMode.auto, SearchStrategy.auto):
        asked["tool_search"] = _tool_search(options, configuration)
    if options.max_turns != _DEFAULT_MAX_TURNS:
        asked["max_turns"] = options.max_turns
    return asked


_DEFAULT_MAX_TURNS = 100


def hints(agent: Agent, options: Options, configuration: Configuration) -> list[str]:
    """How to get a real model and one's own servers, where stand-ins are used that nobody asked for."""
    unasked = options.model is None and options.card is None and options.replay is None
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
    options: Options,
    configuration: Configuration,
    terminal: Terminal,
    on_event: Emit | None = None,
    *,
    cache: ListCache | None = None,
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

    agent = make_agent(options, configuration, tell, model="offline", cache=cache)
    if configuration.is_demo and options.output is OutputFormat.text:
        put(terminal.err, SERVERS_HINT, style="dim")
    with connecting(terminal, configuration) as moving:
        await agent.__aenter__()
    try:
        yield agent
    finally:
        await agent.aclose()


@asynccontextmanager
async def known_tools(options: Options, terminal: Terminal) -> AsyncIterator[Agent]:
    """The agent for commands about tools: from the cache no server is started. Raises where no server works."""
    from mcpagent.cli.folders import cache_folder
    from mcpagent.cli.trust_box import trusted_configuration
    from mcpagent.mcp.cache import ListCache

    configuration = trusted_configuration(options, terminal)
    cache = ListCache(cache_folder(options.environ) / "catalog")
    if options.refresh:
        for server in configuration.enabled:
            cache.drop(server)
    async with connected_without_model(options, configuration, terminal, cache=cache) as agent:
        require_a_server(agent)
        yield agent


def require_a_server(agent: Agent) -> None:
    """Raises `ServerError` where servers are configured and none works: the answer would be made up."""
    states = agent.servers
    if states and all(status.state == "failed" for status in states.values()):
        which = "the only server" if len(states) == 1 else f"all {len(states)} servers"
        raise ServerError(f"{which} failed; mcpagent mcp test tells more", server=next(iter(states)), phase="connect")


def _tool_search(options: Options, configuration: Configuration) -> ToolSearch:
    from mcpagent.catalog import ToolSearch
    from mcpagent.cli.folders import cache_folder

    patterns = [name for name in options.always_load if _is_pattern(name)]
    eager: dict[str, list[str]] = {}
    for server in configuration.enabled:
        for pattern in patterns:
            owner, dot, rest = pattern.partition(".")
            if dot and owner == server.name:
                eager.setdefault(server.name, []).append(rest)
            elif not (dot and owner in {other.name for other in configuration.enabled}):
                eager.setdefault(server.name, []).append(pattern)
    # Whoever tries the bundled server wants to see tool search, however small that server is.
    unsaid = True if configuration.is_demo else "auto"
    enabled = {ToolSearchMode.on: True, ToolSearchMode.off: False}.get(options.tool_search, unsaid)
    return ToolSearch(
        enabled=enabled,  # type: ignore[arg-type]
        strategy=options.search_strategy.value,
        eager_tools=eager,
        cache_folder=cache_folder(options.environ) / "search",
        history=search_history(options) if options.learn else None,
    )


def search_history(options: Options) -> SearchHistory:
    """What tool search has learned on this machine; the file is made with the first thing that is."""
    from mcpagent.cli.folders import state_folder
    from mcpagent.search import SearchHistory

    return SearchHistory(state_folder(options.environ) / "search-history.sqlite3")


def _is_pattern(name: str) -> bool:
    """Whether this is a glob or SERVER.GLOB rather than a tool's name in one of its forms."""
    return any(char in name for char in "*?[")
