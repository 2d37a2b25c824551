"""Create an `Agent` from the options."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mcpagent.cli.common.error_lines import did_you_mean
from mcpagent.cli.common.number_formats import counted
from mcpagent.cli.oneshot.prompts import instructions_of
from mcpagent.errors import ConfigError, InputError, ServerError
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import Event, Notice, ServerFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcpagent.agents.agent import Agent
    from mcpagent.cli.approvals.approver import Approver, Ask
    from mcpagent.cli.approvals.server_requests import ServerRequests
    from mcpagent.cli.common.configuration import Configuration
    from mcpagent.cli.common.options import Options
    from mcpagent.cli.screen.rendering import Activity
    from mcpagent.cli.screen.terminal import Terminal
    from mcpagent.config import ServerConfig
    from mcpagent.journal.sessions import Sessions
    from mcpagent.mcp.lists.list_cache import ListCache
    from mcpagent.mcp.lists.pins import AllowChange, ToolChange
    from mcpagent.mcp.server_options import ServerOptions
    from mcpagent.models.base import Model
    from mcpagent.models.model_settings import ModelSettings
    from mcpagent.models.provider_tools.provider_tool_values import ProviderTool
    from mcpagent.permissions.decision import Rules
    from mcpagent.search import SearchHistory
    from mcpagent.tool_search.search_options import ToolSearch
    from mcpagent.toolsets.definition import Wrapper
    from mcpagent.toolsets.skill_toolset import SkillsToolset
    from mcpagent.values.events import Emit
    from mcpagent.values.limits.run_limits import Limits

KEY_HINT = "no API key: offline model. A real one: mcpagent keys set anthropic, or -m ollama:<model>"
_SERVERS_HINT = "bundled demo server. Your own: mcpagent mcp add NAME -- COMMAND"


def make_agent(
    options: Options,
    configuration: Configuration,
    on_event: Emit,
    *,
    model: str | Model | None = None,
    startup_seconds: float | None = None,
    approver: Approver | None = None,
    cache: ListCache | None = None,
    allow_change: AllowChange | None = None,
    requests: ServerRequests | None = None,
    sessions: Sessions | None = None,
    wrappers: Sequence[Wrapper] = (),
    waits: bool = False,
) -> Agent:
    """Return an agent, not started. Raises `ConfigError` for an unknown model.

    - `model` overrides that of the options. `startup_seconds`: limit for connecting all servers; None: each server has
      its own limit.
    - `approver` decides on tool calls; None: every call runs.
    - `cache`: servers with cached lists start at the first call of one of their tools.
    - `allow_change` asks whether a tool that its server changed may be called; None: only `--trust-changes` permits
      this.
    - `requests` answers the allowed questions of servers. `sessions` stores the conversations.
    - `waits`: calls that need the user's answer stay pending for a later answer.
    """
    from mcpagent.agents.agent import Agent
    from mcpagent.agents.cards.agent_cards import agent_from_card
    from mcpagent.cli.oneshot.missing_servers import missing_servers
    from mcpagent.history.compaction_options import Compaction
    from mcpagent.toolsets.definition import RunOptions

    def agent_of(model: str | Model | None, **values: Any) -> Agent:
        return Agent(_usable(model, options, missing), **values)

    def missing() -> list[str]:
        return missing_servers(agent, configuration)

    def report(event: Event) -> None:
        if isinstance(event, Notice):
            on_event(
                replace(
                    event,
                    text=_with_flags(event.text, is_card=options.card is not None),
                )
            )
        # a single line has already reported that the project's servers are not trusted
        elif not (
            isinstance(event, ServerFailed) and event.server in configuration.untrusted
        ):
            on_event(event)

    chosen = model if model is not None else options.model
    servers = _server_options(
        options, configuration, report, cache, allow_change, requests
    )
    common: dict[str, Any] = {
        "mcp_config": configuration.servers,
        "pre_discovered_tools": tuple(
            name for name in options.always_load if not _is_pattern(name)
        ),
        "approval": approver.policy(waits=waits) if approver is not None else False,
        "options": RunOptions(
            limits=_limits(options),
            settings=_settings(options),
            compaction=Compaction(window_tokens=options.context_window),
            large_result_tokens=options.large_result_tokens,
            servers=replace(
                servers,
                startup_seconds=startup_seconds,
                question_seconds=options.server_wait,
            ),
            wrappers=[*_wrappers(options), *wrappers],
        ),
        "on_event": report,
        "sessions": sessions,
        **({"code_mode": True} if options.code else {}),
        "tools": [*_provider_tools(options), *_skills(configuration)],
    }
    is_search_chosen = options.tool_search != "auto"
    if options.replay is not None and not is_search_chosen:
        agent = agent_of("offline", **common)
    elif configuration.team is not None:  # options take precedence over the card
        if chosen is not None:
            common["model"] = chosen
        if is_search_chosen or options.search_strategy != "auto":
            common["tool_search"] = _tool_search(options, configuration)
        usual = configuration.team.first.instruction
        if (instructions := instructions_of(options, usual)) != usual:
            common["instructions"] = instructions
        agent = agent_from_card(agent_of, configuration.team, **common)
    else:
        common["instructions"] = instructions_of(options, "")
        agent = agent_of(
            chosen, tool_search=_tool_search(options, configuration), **common
        )
    if requests is not None:
        requests.agent = agent
    return agent


def _limits(options: Options) -> Limits:
    """Return the limits of the `max_...` options."""
    from mcpagent.values.limits.run_limits import Limits

    return Limits(
        turns=options.max_turns,
        tool_calls=options.max_calls,
        tokens=options.max_tokens,
        # `--max-cost 0` still allows free models.
        dollars=None
        if options.max_cost is None
        else max(options.max_cost, sys.float_info.min),
        seconds=options.max_seconds,
    )


def _unknown_setting(name: str, options: Options) -> str:
    """Return the error message about a name of `--set` that is neither an option nor a setting of the model."""
    from mcpagent.models.model_settings import SETTING_NAMES

    names = [*SETTING_NAMES, *(field.name for field in fields(options))]
    if name in names:
        return f'--set "{name}" is no setting; write --{name.replace("_", "-")}'
    near = get_close_matches(name, names, n=2, cutoff=0.7)
    hint = did_you_mean(near, "mcpagent config show -v lists the names")
    return f'--set "{safe_line(name, 80)}" is not known; {hint}'


def _settings(options: Options) -> ModelSettings:
    """Return the model settings from `thinking`, `profile` and `--set`. Raises `ConfigError`."""
    from mcpagent.models.model_settings import INSIDE, SETTING_NAMES, settings_of

    told: dict[str, str] = {}
    for pair in options.set:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError(
                f'--set "{safe_line(pair, 80)}" has no value; write NAME=VALUE, --set temperature=0'
            )
        told[name.strip()] = value
    for name in told:
        if name not in SETTING_NAMES and not name.startswith(INSIDE):
            raise ConfigError(_unknown_setting(name, options))
    flags = {"thinking": options.thinking, "profile": options.profile}
    told |= {name: value for name, value in flags.items() if value is not None}
    return settings_of(told, "--set")


def _provider_tools(options: Options) -> list[ProviderTool]:
    """Return the provider tools of the option `provider_tool`. Raises `ConfigError`."""
    from mcpagent.models.provider_tools.provider_tool_values import (
        expect_distinct,
        provider_tool_of,
    )

    tools: list[ProviderTool] = []
    for text in options.provider_tool:
        name, equals, written = text.partition("=")
        where = f"provider_tool {safe_line(name, 60)}"
        try:
            told = {}
            if equals:
                told = json.loads(written)
        except (ValueError, RecursionError):
            fix = f"""write '{safe_line(name, 60)}={{"max_uses": 3}}'"""
            raise ConfigError(
                f"{where}: what stands behind = is no JSON; {fix}"
            ) from None
        tools.append(provider_tool_of(name.strip(), told, where))
    return [*expect_distinct(tools)]


def _skills(configuration: Configuration) -> list[SkillsToolset]:
    from mcpagent.toolsets.skill_toolset import SkillsToolset

    if configuration.skills:
        return [SkillsToolset(skills=configuration.skills)]
    return []


def _with_flags(text: str, *, is_card: bool) -> str:
    """Replace parameter names in a notice of the library by the flags that set them. With a card, which sets
    `tool_search` itself, that name stays.
    """
    text = re.sub(r"^pre_discovered_tools: ", "always_load: ", text)
    if is_card:
        return text
    return re.sub(
        r"^tool_search\.eager_tools\.(.*?): ", r"always_load, server \1: ", text
    )


def _wrappers(options: Options) -> list[Wrapper]:
    from mcpagent.journal.recording import Recorder, Replay

    replay, record = options.replay, options.record
    if (
        replay is not None
        and record is not None
        and replay.resolve() == record.resolve()
    ):
        raise InputError(
            "--record and --replay name the same file, which would be lost; record to another one"
        )
    wrappers: list[Wrapper] = [Replay(replay)] if replay is not None else []
    if record is not None:
        return [*wrappers, Recorder(record)]
    return wrappers


def model_of(options: Options) -> str:
    """Return the configured model, else that of the first key, else the offline model, which needs no key.

    A script without a key gets an error from `Agent()`; a user of the command gets an answer, and a line that names the
    model.
    """
    from mcpagent.models.resolve import default_spec

    return options.model or default_spec(options.environ_with_keys) or "offline"


def _usable(
    model: str | Model | None, options: Options, missing: Callable[[], Sequence[str]]
) -> str | Model:
    if model is None:
        model = model_of(options)
    if model == "offline":
        return offline_here(options, missing)
    return model


def offline_here(options: Options, missing: Callable[[], Sequence[str]]) -> Model:
    """Return the offline model, with the flags that its suggested commands need to reach the servers of these options.

    `missing` returns a line for each server whose tools are missing.
    """
    from mcpagent.models.local.offline_model import OfflineModel

    flags = [f"--server {shlex.quote(text)}" for text in options.server]
    flags += [f"--openapi {shlex.quote(text)}" for text in options.openapi]
    flags += [f"--config {shlex.quote(str(file))}" for file in options.config]
    return OfflineModel(
        command=" ".join(["mcpagent tools call", *flags]), missing=missing
    )


def _server_options(
    options: Options,
    configuration: Configuration,
    on_event: Emit,
    cache: ListCache | None,
    allow_change: AllowChange | None,
    requests: ServerRequests | None,
) -> ServerOptions:
    from mcpagent.mcp.server_options import ServerOptions
    from mcpagent.run.agent_run import current_run

    async def accepted_or_allowed(change: ToolChange) -> bool:
        from mcpagent.cli.approvals.changed_tools import is_accepted

        if await is_accepted(change, options, configuration):
            return True
        run = current_run()
        with run.asking_a_person() if run is not None else nullcontext():
            return await (allow_change or untrusted)(change)

    async def untrusted(_: ToolChange) -> bool:
        on_event(
            Notice(
                "the changed tool was not called; --trust-changes accepts it as it is now",
                "warning",
            )
        )
        return False

    stored = ServerOptions.stored(
        options.environ,
        cache=cache,
        allow_change=accepted_or_allowed,
        handlers=requests.handlers if requests is not None else None,
    )
    # The bundled server changes with the program itself, so its tools are not pinned.
    if configuration.is_demo:
        return replace(stored, pins=None)
    return stored


def make_approver(
    options: Options, configuration: Configuration, ask: Ask | None
) -> Approver:
    """Return the approver with the options' rules and the stored approvals; those of servers are added with their
    tools.

    `ask` is None if no user can be asked. A replay runs no calls, so none needs approval.
    """
    from mcpagent.cli.approvals.approver import Approver
    from mcpagent.mcp.lists.list_cache import config_fingerprint
    from mcpagent.permissions.stored_approvals import StoredApprovals, distinct_servers

    servers = _servers_of(configuration)
    fingerprints = distinct_servers(
        (server.name, config_fingerprint(server)) for server in servers
    )
    rules = option_rules(options, configuration)
    return Approver(rules, StoredApprovals.of_user(options.environ, fingerprints), ask)


def _nowhere(_name: str, _value: str) -> tuple[str, str]:
    return "", ""


def option_rules(
    options: Options,
    configuration: Configuration,
    place: Callable[[str, str], tuple[str, str]] = _nowhere,
) -> Rules:
    """Return the permission rules of the command's options.

    `place(option, value)` returns where the user set a value of `allow`, `deny` or `approve`: the file, the variable or
    the option, and the key in the file.
    """
    from mcpagent.permissions.decision import Rules
    from mcpagent.values.approval import Rule

    written = [Rule(glob, "allow", *place("allow", glob)) for glob in options.allow]
    written += [Rule(glob, "deny", *place("deny", glob)) for glob in options.deny]
    names = frozenset(server.name for server in _servers_of(configuration))
    mode_place, mode_key = place("approve", options.approve)
    mode, trusted = options.approve, frozenset[str]()
    if configuration.replayed is not None:
        mode = "all"
    if configuration.is_demo:
        trusted = names
    return Rules(
        mode,
        tuple(written),
        servers=names,
        trusted=trusted,
        own_code=configuration.own_files,
        mode_place=mode_place,
        mode_key=mode_key,
    )


def _servers_of(configuration: Configuration) -> tuple[ServerConfig, ...]:
    """Return the servers, including those of a card's members, whose calls are decided on here, too."""
    if configuration.team is None:
        return configuration.enabled
    return (*configuration.team.members_servers(), *configuration.enabled)


def rules_without_effect(
    agent: Agent, configuration: Configuration, rules: Rules
) -> list[str]:
    """Return a line for each rule without effect: it matches nothing (with suggestions), or is not permitted."""
    from mcpagent.config.server_files import vouches_for_itself
    from mcpagent.permissions.unused_rules import unused_rule_line, unused_rules

    servers = _servers_of(configuration)
    lines = [
        f"{server.source}: a project's file may not allow or trust its own tools; what it says of {server.name} is left"
        for server in servers
        if server.scope == "project" and vouches_for_itself(server.written)
    ]
    if any(one.tools.listing.connecting for one in agent._runtime.reachable()):
        return lines  # the rules may refer to tools of servers that are missing
    known, where = agent._runtime.askable(), "mcpagent tools list names them"
    unused = unused_rules(rules, servers, known)
    return lines + [
        unused_rule_line(place, pattern, known, where) for place, pattern in unused
    ]


def hints(agent: Agent, options: Options, configuration: Configuration) -> list[str]:
    """Return hints on using a real model and own servers, if the defaults are in use."""
    unasked = options.model is None and options.card is None and options.replay is None
    lines = []
    if unasked and agent._runtime.model.name.startswith("offline"):
        lines = [KEY_HINT]
    if configuration.is_demo:
        return [*lines, servers_hint(options, configuration)]
    return lines


def servers_hint(options: Options, configuration: Configuration) -> str:
    """Return why the bundled server is used, and how to add servers."""
    return f"{configuration.why_demo(options.folder)}: {_SERVERS_HINT}"


@contextmanager
def connecting(terminal: Terminal, configuration: Configuration) -> Iterator[Activity]:
    """Show on stderr, during the block, that servers are connecting."""
    from mcpagent.cli.screen.rendering import Activity

    activity = Activity(terminal.err, terminal.glyphs)
    with activity.showing(
        f"connecting {counted(len(configuration.enabled), 'server')}"
    ):
        yield activity


@asynccontextmanager
async def known_tools(
    options: Options, terminal: Terminal, configuration: Configuration | None = None
) -> AsyncIterator[Agent]:
    """Start the agent for commands about tools. These call no model, and start no server whose lists are cached.

    `configuration` None: the one that the user agreed to. Failures are reported on stderr. Raises `ServerError` if no
    server works.
    """
    from mcpagent.cli.approvals.project_trust import trusted_configuration
    from mcpagent.cli.screen.lines import notice_line
    from mcpagent.cli.screen.rendering import print_failed_server
    from mcpagent.cli.screen.terminal import put
    from mcpagent.mcp.server_options import stored_lists

    if configuration is None:
        configuration = trusted_configuration(options, terminal)
    cache = stored_lists(options.environ, stale_seconds=0.0)
    for server in configuration.enabled if options.refresh else ():
        cache.drop(server)

    def report(event: Event) -> None:
        # The progress line may be on stderr while this line goes to stdout.
        with moving.paused():
            if isinstance(event, ServerFailed):
                print_failed_server(
                    terminal.err, event, configuration.enabled, terminal.glyphs
                )
            elif isinstance(event, Notice) and event.level == "warning":
                put(terminal.err, notice_line(event, terminal.glyphs))

    agent = make_agent(options, configuration, report, model="offline", cache=cache)
    if configuration.is_demo and options.output == "text":
        put(terminal.err, servers_hint(options, configuration), style="dim")
    with connecting(terminal, configuration) as moving:
        await agent.__aenter__()
    try:
        require_a_server(agent, configuration.untrusted)
        if (
            configuration.untrusted
            and not agent.servers.keys() - configuration.untrusted
        ):
            raise ServerError(
                "no server is left that may be started",
                server=min(configuration.untrusted),
                phase="config",
            )
        yield agent
    finally:
        await agent.aclose()


def require_a_server(agent: Agent, left_out: Collection[str] = ()) -> None:
    """Raise `ServerError` if servers are configured and none works, because a model would invent the answer.

    `left_out` are servers without which the user chose to continue.
    """
    from mcpagent.cli.common.suggested_fixes import look_command

    states = {
        name: status for name, status in agent.servers.items() if name not in left_out
    }
    if states and all(status.state == "failed" for status in states.values()):
        which, more = f"all {len(states)} servers", ""
        if len(states) == 1:
            which = "the only server"
        configs = [
            agent.mcp.configs[name] for name in states if name in agent.mcp.configs
        ]
        if configs and not configs[0].openapi:
            more = f"; {look_command(configs[0])} shows more"
        raise ServerError(
            f"{which} failed{more}",
            server=next(iter(states)),
            phase="connect",
        )


def enabled_search(
    options: Options, configuration: Configuration
) -> bool | Literal["auto"]:
    """Return whether tools are hidden behind tool search; always with the bundled server, which demonstrates it."""
    if options.tool_search in ("on", "off"):
        return options.tool_search == "on"
    return True if configuration.is_demo else "auto"


def _tool_search(options: Options, configuration: Configuration) -> ToolSearch:
    from mcpagent.search.examples import read_examples
    from mcpagent.tool_search.search_options import ToolSearch
    from mcpagent.utilities.filesystem.user_folders import cache_folder

    names = {server.name for server in configuration.enabled}
    eager: dict[str, list[str]] = {}
    for pattern in filter(_is_pattern, options.always_load):
        owner, dot, rest = pattern.partition(".")
        of_one_server = bool(dot) and owner in names
        for name in [owner] if of_one_server else sorted(names):
            eager.setdefault(name, []).append(rest if of_one_server else pattern)
    return ToolSearch(
        enabled=enabled_search(options, configuration),
        strategy=options.search_strategy,
        eager_tools=eager,
        cache_folder=cache_folder(options.environ) / "search",
        history=search_history(options) if options.learn else None,
        examples=read_examples(example_file(options)),
    )


def example_file(options: Options) -> Path:
    """Return the file of example requests that a model wrote for tools (`mcpagent tools examples suggest`)."""
    from mcpagent.utilities.filesystem.user_folders import user_data_folder

    return user_data_folder(options.environ) / "example-requests.json"


def search_history(options: Options) -> SearchHistory:
    """Return the history from which tool search learns; the first entry creates the file."""
    from mcpagent.search import SearchHistory
    from mcpagent.utilities.filesystem.user_folders import state_folder

    return SearchHistory(state_folder(options.environ) / "search-history.sqlite3")


def _is_pattern(name: str) -> bool:
    """Return whether the name is a glob or SERVER.GLOB, not a tool's name."""
    return any(char in name for char in "*?[")
