"""Agents of cards, and cards of agents. A folder of cards is a team: members are tools of those that name them."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from mcpagent.agent import Agent
from mcpagent.cards.card import AgentCard, CardError, CardStrategy, ToolSearchConfig
from mcpagent.cards.reading import FOREIGN, REQUEST_PARAMS, load_card, load_cards
from mcpagent.catalog import ToolSearch
from mcpagent.config import ServerConfig, ServersConfig, load_found_servers, load_servers
from mcpagent.models.base import Model, ModelSettings
from mcpagent.models.fallback import FallbackModel
from mcpagent.models.resolve import spec_of
from mcpagent.safe_text import safe_line
from mcpagent.secret_store import with_stored_keys

MAX_DESCRIPTION = 300


def agent_from_card(card: str | Path | AgentCard, **options: Any) -> Agent:
    """The agent of a card, of a file, or of the card in a folder that is its default; see `Agent.from_card`."""
    card = card if isinstance(card, AgentCard) else card_at(card)
    return team_of(card, **options)[card.name]


def card_at(path: str | Path) -> AgentCard:
    """The card in a file, or the one of a folder that one talks to."""
    path = Path(path).expanduser()
    return default_card(load_cards(path), path) if path.is_dir() else load_card(path)


def default_card(cards: Mapping[str, AgentCard], folder: Path) -> AgentCard:
    """The card to talk to: the one with `default: true`, else the only one that is not `tool_only`."""
    chosen = [card for card in cards.values() if card.default]
    chosen = chosen or [card for card in cards.values() if not card.tool_only]
    if len(chosen) != 1:
        names = ", ".join(card.name for card in chosen or cards.values()) or "none"
        raise CardError(f"{folder} has no one card to begin with", f"write 'default: true' into one of: {names}")
    return chosen[0]


def team_of(card: AgentCard, **options: Any) -> dict[str, Agent]:
    """The card's agent and all it can reach through `agents`, by name.

    Members come from the cards in the same folder. Each has its own context and its own `max_turns`. `options` are the
    first one's alone, but for `approval`: what needs it does so whoever makes the call.
    """
    cards = _reachable(card)
    for_members = {"approval": options.get("approval", False)}
    agents = {name: _single(item, options if name == card.name else for_members) for name, item in cards.items()}
    for name, item in cards.items():
        for member in item.agents:
            other = cards[member]
            tool = agents[member].as_tool(
                re.sub(r"[^A-Za-z0-9_-]", "_", member),
                _purpose(other),
                defer_loading=False,
                timeout_seconds=float(item.child_timeout_sec) if item.child_timeout_sec else None,
            )
            # Asking a member changes nothing by itself: each call that it makes is judged on its own.
            agents[name].tool(replace(tool, definition=replace(tool.definition, read_only=True)))
    agents[card.name].start_notices = tuple(line for item in cards.values() for line in card_warnings(item))
    return agents


def _reachable(card: AgentCard) -> dict[str, AgentCard]:
    if not card.agents:
        return {card.name: card}
    folder = Path(card.path).parent if card.path else Path.cwd()
    known = {**load_cards(folder), card.name: card}
    found = {card.name: card}
    pending = [card]
    while pending:
        item = pending.pop()
        for member in item.agents:
            if member not in known:
                near = get_close_matches(member, sorted(known), n=1)
                details = f"did you mean '{near[0]}'?" if near else f"cards there: {', '.join(sorted(known))}"
                raise CardError(f"'agents' names '{safe_line(member, 60)}' in {item.path}, which is no card", details)
            if member == item.name:
                raise CardError(f"'agents' names the card itself in {item.path}", "an agent cannot be its own member")
            if member not in found:
                found[member] = known[member]
                pending.append(known[member])
    return found


def _purpose(card: AgentCard) -> str:
    first = next((line for line in card.instruction.splitlines() if line.strip()), "")
    return safe_line(card.description or first or f"The agent {card.name}.", MAX_DESCRIPTION)


def _single(card: AgentCard, options: Mapping[str, Any]) -> Agent:
    values: dict[str, Any] = {
        "model": _model(card),
        "mcp_config": card_servers(card) if "mcp_config" not in options else options["mcp_config"],
        "instructions": card.instruction,
        "settings": _settings(card),
        **({"tool_search": tool_search_of(card.tool_search)} if card.tool_search is not None else {}),
        **({"max_turns": _max_turns(card)} if _max_turns(card) else {}),
        **options,
    }
    agent = Agent(values.pop("model"), **values)
    agent.card = card
    return agent


def tool_search_of(config: ToolSearchConfig) -> ToolSearch:
    """The settings a card's block means here."""
    if not config.enabled:
        return ToolSearch(enabled=False)
    return ToolSearch(scope=config.scope, strategy=config.strategy, eager_tools=config.eager_tools)


# -- what a card says ---------------------------------------------------------------------------------------------


def card_servers(card: AgentCard, environ: Mapping[str, str] | None = None) -> ServersConfig:
    """The servers of a card, filtered by its `tools`. Raises `CardError` for one it names that is not configured."""
    environ = with_stored_keys(os.environ if environ is None else environ)
    folder = Path(card.path).absolute().parent if card.path else Path.cwd()
    label = card.path or f"card {card.name}"
    inline = {**card.mcp_servers, **_connected(card)}
    own = load_servers({"mcpServers": inline}, environ=environ, label=label, folder=folder)
    shared = _shared_servers(card, folder, environ)
    deferring = {
        _connect_name(entry, number): entry.get("defer_loading") for number, entry in enumerate(card.mcp_connect)
    }
    marked = (replace(server, defer_loading=deferring.get(server.name)) for server in own.servers)
    servers = tuple(_narrowed(server, card.tools) for server in (*shared.servers, *marked))
    return ServersConfig(servers, (*shared.problems, *own.problems), shared.files)


def team_servers(card: AgentCard, environ: Mapping[str, str] | None = None) -> tuple[ServerConfig, ...]:
    """The servers of a card and of all the members it can ask."""
    return tuple(server for item in _reachable(card).values() for server in card_servers(item, environ).servers)


def _shared_servers(card: AgentCard, folder: Path, environ: Mapping[str, str]) -> ServersConfig:
    """Those of the server configuration that the card names; all of its own `mcp_config` where it names none."""
    if not card.servers and not card.mcp_config:
        return ServersConfig()
    if card.mcp_config:
        found = load_servers(folder / Path(card.mcp_config).expanduser(), environ=environ)
    else:
        found = load_found_servers(folder, environ)
    if not card.servers:
        return found
    names = {server.name for server in found.servers} | {problem.name for problem in found.problems}
    for name in card.servers:
        if name not in names:
            near = get_close_matches(name, sorted(names), n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"configured: {', '.join(sorted(names)) or 'none'}"
            raise CardError(f"'servers' names '{safe_line(name, 60)}' in {card.path}, which is not configured", hint)
    return ServersConfig(
        tuple(server for server in found.servers if server.name in card.servers),
        tuple(problem for problem in found.problems if problem.name in card.servers),
        found.files,
    )


def _connected(card: AgentCard) -> dict[str, Any]:
    """`mcp_connect` as an `mcpServers` mapping: a target that is a URL, or a command line."""
    servers: dict[str, Any] = {}
    for position, entry in enumerate(card.mcp_connect):
        target = str(entry["target"])
        rest = {key: value for key, value in entry.items() if key in _CONNECT_KEYS}
        name = _connect_name(entry, position)
        if target.startswith(("http://", "https://")):
            servers[name] = {"url": target, **rest}
        else:
            try:
                command, *arguments = shlex.split(target)
            except ValueError as error:
                raise CardError(
                    f"'mcp_connect[{position}].target' is not a command in {card.path}", str(error)
                ) from None
            servers[name] = {"command": command, "args": arguments, **rest}
    return servers


def _connect_name(entry: Mapping[str, Any], position: int) -> str:
    return str(entry.get("name") or f"server{position + 1}")


_CONNECT_KEYS = ("headers", "description", "env", "cwd", "trust", "approval")
_CONNECT_KNOWN = frozenset({*_CONNECT_KEYS, "target", "name", "defer_loading"})


def _narrowed(server: ServerConfig, tools: Mapping[str, tuple[str, ...]]) -> ServerConfig:
    if server.name not in tools:
        return server
    if not tools[server.name]:
        return replace(server, disabled_tools=("*",))
    return replace(server, enabled_tools=tools[server.name])


_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}")
_PLACEHOLDER = re.compile(r"\{\{[A-Za-z_][^{}\n]{0,80}\}\}")


def _model(card: AgentCard) -> str | None:
    if not card.model:
        return None
    model = _VARIABLE.sub(lambda match: _value_of(match, card), card.model)
    if not card.api_key or "api_key_env=" in model:
        return model
    variable = _VARIABLE.fullmatch(card.api_key)
    if variable is None:
        details = "Write api_key: ${NAME_OF_A_VARIABLE}; a key itself does not belong into a file"
        raise CardError(f"'api_key' must be an environment variable in {card.path}", details)
    if "," in model:
        details = "Write ?api_key_env=NAME behind each model instead"
        raise CardError(f"'api_key' is for one model, and 'model' names several in {card.path}", details)
    return f"{model}{'&' if '?' in model else '?'}api_key_env={variable[1]}"


def _value_of(match: re.Match[str], card: AgentCard) -> str:
    value = os.environ.get(match[1]) or match[2]
    if value is None:
        raise CardError(f"'model' needs the environment variable {match[1]} in {card.path}", "Set it.")
    return value


def _params(card: AgentCard) -> dict[str, Any]:
    return {REQUEST_PARAMS[key]: value for key, value in card.request_params.items() if key in REQUEST_PARAMS}


def _settings(card: AgentCard) -> ModelSettings:
    params = _params(card)
    for name, kinds in (("max_tokens", int), ("temperature", (int, float)), ("max_iterations", int)):
        value = params.get(name)
        if value is not None and (not isinstance(value, kinds) or isinstance(value, bool)):
            raise CardError(f"'request_params.{name}' must be a number in {card.path}", f"Got: {value!r}")
    return ModelSettings(max_output_tokens=params.get("max_tokens"), temperature=params.get("temperature"))


def _max_turns(card: AgentCard) -> int:
    return card.max_turns or int(_params(card).get("max_iterations") or 0)


def card_warnings(card: AgentCard) -> list[str]:
    """What the card asks for that has no counterpart here, one line per field."""
    place = card.path or f"card {card.name}"
    lines = [
        f"{place}: '{name}' has no counterpart here and does nothing"
        for name, value in card.foreign.items()
        if not any(value == harmless for harmless in FOREIGN[name])
    ]
    if placeholder := _PLACEHOLDER.search(card.instruction):
        lines.append(f"{place}: {safe_line(placeholder.group())} in the instruction is not filled in here")
    lines += [
        f"{place}: 'request_params.{safe_line(key, 60)}' has no counterpart here and does nothing"
        for key in card.request_params
        if key not in REQUEST_PARAMS
    ]
    lines += [
        f"{place}: 'mcp_connect[{position}].{safe_line(str(key), 60)}' has no counterpart here and does nothing"
        for position, entry in enumerate(card.mcp_connect)
        for key in entry
        if key not in _CONNECT_KNOWN
    ]
    return lines


# -- cards of agents ----------------------------------------------------------------------------------------------


def card_of(agent: Agent, name: str = "") -> AgentCard:
    """See `Agent.to_card`."""
    if agent.card is not None:
        return replace(agent.card, name=name) if name else agent.card
    config = agent.mcp_config
    servers: dict[str, Any] = {}
    if isinstance(config, Mapping):
        servers["mcp_servers"] = dict(config.get("mcpServers", config))
    elif isinstance(config, str | Path):
        servers["mcp_config"] = str(config)
    elif config is not None:
        values = config.servers if isinstance(config, ServersConfig) else tuple(config)
        servers["servers"] = tuple(server.name for server in values)
    return AgentCard(
        name or "agent",
        agent.instructions.strip(),
        model=_model_text(agent.model_choice),
        tool_search=_search_config(agent.tool_search),
        max_turns=agent.max_turns if agent.max_turns != _DEFAULT_TURNS else 0,
        request_params=_request_params(agent.settings),
        **servers,
    )


def with_model(card: AgentCard, chosen: str | Model | Sequence[str | Model]) -> AgentCard:
    """The card with another model; the key that it named was for the one before."""
    return replace(card, model=_model_text(chosen), api_key="")


def _model_text(chosen: str | Model | Sequence[str | Model] | None) -> str:
    """What a card says of a model: a text that can be read back. A model object that has none is code, and left out."""
    if chosen is None or isinstance(chosen, str):
        return chosen or ""
    if isinstance(chosen, FallbackModel):
        chosen = chosen.models
    if isinstance(chosen, Model):
        return spec_of(chosen)
    return ", ".join(text for one in chosen if (text := _model_text(one)))


_DEFAULT_TURNS = 100


def _request_params(settings: ModelSettings) -> dict[str, Any]:
    params = {"max_tokens": settings.max_output_tokens, "temperature": settings.temperature}
    return {key: value for key, value in params.items() if value is not None}


def _search_config(search: ToolSearch) -> ToolSearchConfig | None:
    if search.enabled == "marked":
        return None
    strategies: dict[object, CardStrategy] = {"bm25": "bm25", "regex": "regex"}
    strategy = "auto" if callable(search.strategy) else strategies.get(search.strategy, "auto")
    eager = {server: tuple(patterns) for server, patterns in search.eager_tools.items()}
    return ToolSearchConfig(bool(search.enabled), "mcp", strategy, eager)
