"""Create agents from cards, and cards from agents. In a folder of cards (a team), an agent's members are its tools."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from mcpagent.agents.cards.card import (
    AgentCard,
    CardError,
    CardStrategy,
    ToolSearchConfig,
)
from mcpagent.agents.cards.reading import FOREIGN, REQUEST_PARAMS
from mcpagent.agents.cards.teams import (
    CONNECT_KNOWN,
    Team,
    card_at,
    card_servers,
    reachable,
)
from mcpagent.code_mode.code_options import search_for_programs
from mcpagent.config import ServerConfig, ServersConfig
from mcpagent.errors import ConfigError
from mcpagent.models.base import Model, ModelSettings
from mcpagent.models.fallback import FallbackModel
from mcpagent.models.model_names import names_in
from mcpagent.models.model_settings import merged
from mcpagent.models.provider_tools.provider_tool_values import (
    ProviderMcp,
    ProviderTool,
)
from mcpagent.models.resolve import spec_of
from mcpagent.tool_search.search_options import ToolSearch
from mcpagent.toolsets.definition import Definition, RunOptions
from mcpagent.utilities.python.argument_checks import expect_options
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import Event, Notice, ServerFailed
from mcpagent.values.limits.run_limits import Limits

MAX_DESCRIPTION = 300

Make: TypeAlias = Callable[..., Any]
"""Type of the factory of agents: `Agent` itself."""


def agent_from_card(
    make: Make, card: str | Path | AgentCard | Team, **options: Any
) -> Any:
    """Create the agent of a card, a card file, or the default card of a folder; see `Agent.from_card`."""
    expect_options("Agent.from_card", make, options)
    if isinstance(card, str | Path):
        card = card_at(card)
    return agents_of(make, card, **options)[
        (card.first if isinstance(card, Team) else card).name
    ]


def agents_of(make: Make, card: AgentCard | Team, **options: Any) -> dict[str, Any]:
    """Return the agent of a card and all agents that it can reach through `agents`, by name. A `Team` is not read
    again.

    Members are the cards in the same folder. Each member has its own context and `limits`. `options` apply to the first
    agent only, except `approval` and shared server options, which apply to all. `on_event` also receives the server
    failures of members.
    """
    if isinstance(card, Team):
        cards, servers = card.cards, card.servers
    else:
        cards, servers = reachable(card), {}
    first, for_members = next(iter(cards)), _for_members(options)
    agents: dict[str, Any] = {}
    for name, item in cards.items():
        known: dict[str, Any] = {"mcp_config": servers[name]} if name in servers else {}
        agents[name] = _single(
            make, item, {**known, **(options if name == first else for_members)}
        )
    for name, item in cards.items():
        for member in item.agents:
            other = cards[member]
            tool = agents[member].as_tool(
                re.sub(r"[^A-Za-z0-9_-]", "_", member),
                _purpose(other),
                defer_loading=False,
                timeout_seconds=float(item.child_timeout_sec)
                if item.child_timeout_sec
                else None,
            )
            # Asking a member has no effect by itself: permissions apply to each call that the member makes.
            agents[name].tool(
                replace(tool, definition=replace(tool.definition, read_only=True))
            )
    agents[first]._runtime.start_notices = tuple(
        line for item in cards.values() for line in card_warnings(item)
    )
    return agents


def _for_members(options: Mapping[str, Any]) -> dict[str, Any]:
    shared: dict[str, Any] = {"approval": options.get("approval", False)}
    if (given := options.get("options")) is not None:
        servers = replace(given.servers, selected_servers=None, selected_tools=None)
        shared["options"] = RunOptions(servers=servers)
    if (listener := options.get("on_event")) is not None:

        def report(event: Event) -> None:
            # Other events of a member arrive as `SubagentEvent` of its caller.
            if isinstance(event, ServerFailed | Notice):
                listener(event)

        shared["on_event"] = report
    return shared


def _purpose(card: AgentCard) -> str:
    first = next((line for line in card.instruction.splitlines() if line.strip()), "")
    return safe_line(
        card.description or first or f"The agent {card.name}.", MAX_DESCRIPTION
    )


def _single(make: Make, card: AgentCard, options: Mapping[str, Any]) -> Any:
    values: dict[str, Any] = {
        "model": _model(card),
        "mcp_config": card_servers(card)
        if "mcp_config" not in options
        else options["mcp_config"],
        "instructions": card.instruction,
        **(
            {"tool_search": tool_search_of(card.tool_search)}
            if card.tool_search is not None
            else {}
        ),
        **({"code_mode": True} if card.code_mode else {}),
        **options,
        "tools": _with_tools(card, options.get("tools", ())),
        "options": _run_options(card, options.get("options") or RunOptions()),
    }
    agent = make(values.pop("model"), **values)
    agent._runtime.card = card
    return agent


def _with_tools(card: AgentCard, given: Sequence[Any]) -> list[Any]:
    """Return the card's provider tools, then the passed tools. A passed tool replaces a card's tool of the same
    name.
    """
    named = {tool.name for tool in given if isinstance(tool, ProviderTool)}
    return [*(tool for tool in card.provider_tools if tool.name not in named), *given]


def _run_options(card: AgentCard, asked: RunOptions) -> RunOptions:
    """Return the run options of the card; the caller's options take precedence."""
    settings = merged(_settings(card), asked.settings)
    turns = int(_params(card).get("max_iterations") or 0) or None
    said = card.limits.filled_by(_of_params(turns, card))
    large = asked.large_result_tokens
    return replace(
        asked,
        limits=asked.limits.filled_by(said),
        large_result_tokens=card.large_result_tokens if large is None else large,
        settings=settings,
    )


def _of_params(turns: int | None, card: AgentCard) -> Limits:
    try:
        return Limits(turns=turns)
    except ConfigError as error:
        raise CardError(
            f"'request_params.max_iterations' cannot be used in {card.path}", str(error)
        ) from None


def tool_search_of(config: ToolSearchConfig) -> ToolSearch:
    """Return the tool search settings for a card's `tool_search` block."""
    if not config.enabled:
        return ToolSearch(enabled=False)
    return ToolSearch(
        scope=config.scope, strategy=config.strategy, eager_tools=config.eager_tools
    )


# -- Settings of a card ------------------------------------------------------------------------------------------------


CARD_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}")
_PLACEHOLDER = re.compile(r"\{\{[A-Za-z_][^{}\n]{0,80}\}\}")


def _model(card: AgentCard) -> str | None:
    if not card.model:
        return None
    model = CARD_VARIABLE.sub(lambda match: _value_of(match, card), card.model)
    if not card.api_key or "api_key_env=" in model:
        return model
    variable = CARD_VARIABLE.fullmatch(card.api_key)
    if variable is None:
        details = "Write api_key: ${NAME_OF_A_VARIABLE}; a key itself does not belong into a file"
        raise CardError(
            f"'api_key' must be an environment variable in {card.path}", details
        )
    if len(names_in(model)) > 1:
        details = "Write ?api_key_env=NAME behind each model instead"
        raise CardError(
            f"'api_key' is for one model, and 'model' names several in {card.path}",
            details,
        )
    return f"{model}{'&' if '?' in model else '?'}api_key_env={variable[1]}"


def _value_of(match: re.Match[str], card: AgentCard) -> str:
    value = os.environ.get(match[1]) or match[2]
    if value is None:
        raise CardError(
            f"'model' needs the environment variable {match[1]} in {card.path}",
            "Set it.",
        )
    return value


def _params(card: AgentCard) -> dict[str, Any]:
    return {
        REQUEST_PARAMS[key]: value
        for key, value in card.request_params.items()
        if key in REQUEST_PARAMS
    }


def _settings(card: AgentCard) -> ModelSettings:
    params = {name: value for name, value in _params(card).items() if value is not None}
    turns = params.pop("max_iterations", None)
    if turns is not None and (not isinstance(turns, int) or isinstance(turns, bool)):
        raise CardError(
            f"'request_params.max_iterations' must be a number in {card.path}",
            f"Got: {turns!r}",
        )
    if isinstance(params.get("stop"), list | str):
        params["stop"] = tuple(
            [params["stop"]] if isinstance(params["stop"], str) else params["stop"]
        )
    settings = ModelSettings()
    for name, value in params.items():
        try:
            settings = replace(settings, **{name: value})
        except ConfigError as error:
            raise CardError(
                f"'request_params.{name}' cannot be used in {card.path}", str(error)
            ) from None
    return settings


def card_warnings(card: AgentCard) -> list[str]:
    """List the fields of the card that have no effect here, one line per field."""
    place = card.path or f"card {card.name}"
    nothing = [
        f"'{name}'"
        for name, value in card.foreign.items()
        if value not in FOREIGN[name]
    ]
    params = [
        f"'request_params.{safe_line(key, 60)}'"
        for key in card.request_params
        if key not in REQUEST_PARAMS
    ]
    connects = [
        f"'mcp_connect[{position}].{safe_line(str(key), 60)}'"
        for position, entry in enumerate(card.mcp_connect)
        for key in entry
        if key not in CONNECT_KNOWN
    ]
    lines = [
        f"{place}: {what} has no counterpart here and does nothing"
        for what in (*nothing, *params, *connects)
    ]
    if placeholder := _PLACEHOLDER.search(card.instruction):
        shown = safe_line(placeholder.group())
        lines.insert(
            len(nothing), f"{place}: {shown} in the instruction is not filled in here"
        )
    return lines


# -- Cards of agents ---------------------------------------------------------------------------------------------------


class _Carded(Protocol):
    """The parts of an agent that a card describes."""

    @property
    def card(self) -> AgentCard | None: ...
    @property
    def mcp_config(
        self,
    ) -> (
        str | Path | Mapping[str, Any] | Sequence[ServerConfig] | ServersConfig | None
    ): ...
    @property
    def model_choice(self) -> str | Model | Sequence[str | Model] | None: ...
    @property
    def tool_search(self) -> ToolSearch: ...
    @property
    def definition(self) -> Definition: ...


def card_of(agent: _Carded, name: str = "") -> AgentCard:
    """Return the agent as a card; see `Agent.to_card`."""
    if agent.card is not None:
        if name:
            return replace(agent.card, name=name)
        return agent.card
    config = agent.mcp_config
    servers: dict[str, Any] = {}
    if isinstance(config, Mapping):
        servers["mcp_servers"] = dict(config.get("mcpServers", config))
    elif isinstance(config, str | Path):
        servers["mcp_config"] = str(config)
    elif config is not None:
        if isinstance(config, ServersConfig):
            values = config.servers
        else:
            values = tuple(config)
        servers["servers"] = tuple(server.name for server in values)
    options, instructions = agent.definition.options, agent.definition.instructions
    # Code mode has its own search, which also finds functions; a card's `tool_search` cannot express it.
    is_usual = (
        agent.definition.code_mode is not None
        and agent.definition.tool_search == search_for_programs(None)
    )
    params = {
        name: value
        for name, value in options.settings.given().items()
        if name in REQUEST_PARAMS
    }
    if "stop" in params:
        params["stop"] = list(params["stop"])
    return AgentCard(
        name or "agent",
        instructions.strip() if isinstance(instructions, str) else "",
        model=_model_text(agent.model_choice),
        tool_search=None if is_usual else _search_config(agent.tool_search),
        code_mode=agent.definition.code_mode is not None,
        limits=options.limits,
        large_result_tokens=options.large_result_tokens,
        request_params=params,
        provider_tools=tuple(map(_without_token, agent.definition.provider_tools)),
        **servers,
    )


def _without_token(tool: ProviderTool) -> ProviderTool:
    """Return the tool without a literal token, which must not appear in a file."""
    if isinstance(tool, ProviderMcp) and not tool.is_referred_to:
        return replace(tool, authorization="")
    return tool


def with_model(
    card: AgentCard, chosen: str | Model | Sequence[str | Model]
) -> AgentCard:
    """Return the card with another model, and without the API key of its previous model."""
    return replace(card, model=_model_text(chosen), api_key="")


def _model_text(chosen: str | Model | Sequence[str | Model] | None) -> str:
    """Return the model choice as text for a card, or "". Models that have no such text are skipped."""
    if chosen is None or isinstance(chosen, str):
        return chosen or ""
    if isinstance(chosen, FallbackModel):
        chosen = chosen.models
    if isinstance(chosen, Model):
        return spec_of(chosen)
    return ", ".join(text for one in chosen if (text := _model_text(one)))


def _search_config(search: ToolSearch) -> ToolSearchConfig | None:
    if search.enabled == "marked":
        return None
    strategies: dict[object, CardStrategy] = {"bm25": "bm25", "regex": "regex"}
    strategy = (
        "auto" if callable(search.strategy) else strategies.get(search.strategy, "auto")
    )
    eager = {server: tuple(patterns) for server, patterns in search.eager_tools.items()}
    return ToolSearchConfig(bool(search.enabled), "mcp", strategy, eager)
