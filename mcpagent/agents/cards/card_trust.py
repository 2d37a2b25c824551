"""Describe the effects of an agent card besides its servers: models, addresses, keys and provider tools."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from mcpagent.agents.cards.agent_cards import CARD_VARIABLE
from mcpagent.agents.cards.card import AgentCard
from mcpagent.agents.cards.teams import Team
from mcpagent.config import ServersConfig
from mcpagent.models.model_names import names_in
from mcpagent.models.model_settings import INSIDE
from mcpagent.models.provider_tools.provider_tool_values import ProviderMcp, as_data
from mcpagent.models.resolve import parse_spec
from mcpagent.permissions.trust.descriptions import Description, Fact, real_place
from mcpagent.utilities.filesystem.user_folders import is_users_own
from mcpagent.utilities.text.secrets import as_written, names_a_credential


def describe_cards(
    team: Team, environ: Mapping[str, str], *, is_model_chosen: bool = False
) -> list[Description]:
    """Describe the cards outside of the user's own folders that send data; their servers are described separately.

    `is_model_chosen`: the user chose another model for the first card, so the card's own model is not described.
    """
    found = [
        _described(
            card,
            team.servers[name],
            environ,
            has_model=bool(number) or not is_model_chosen,
        )
        for number, (name, card) in enumerate(team.cards.items())
        if card.path and not is_users_own(card.path, environ)
    ]
    return [item for item in found if item.facts]


def _described(
    card: AgentCard,
    servers: ServersConfig,
    environ: Mapping[str, str],
    *,
    has_model: bool,
) -> Description:
    facts = []
    if has_model:
        facts = list(_of_the_model(card, environ))
    facts += _of_the_provider(card)
    facts += [
        Fact("uses", f"your server {server.name}")
        for server in servers.servers
        if server.scope == "user"
    ]
    return Description(
        card.name, real_place(card.path), card.path, tuple(facts), "card"
    )


def _of_the_provider(card: AgentCard) -> Iterator[Fact]:
    """Yield the tools that the provider would run at the user's expense, and the addresses that would receive data."""
    for tool in card.provider_tools:
        if not isinstance(tool, ProviderMcp):
            written = as_data(tool)
            yield Fact(
                "has its provider run",
                written if isinstance(written, str) else json.dumps(written),
            )
            continue
        yield Fact("has its provider call", f"{tool.name} at {as_written(tool.url)}")
        if tool.allowed_tools:
            yield Fact("allows there", ", ".join(tool.allowed_tools))
        if tool.description:
            yield Fact("says of it", tool.description)
        if tool.authorization:
            yield Fact("sends the token", as_written(tool.authorization))


def _of_the_model(card: AgentCard, environ: Mapping[str, str]) -> Iterator[Fact]:
    """Yield the facts about a card's model: its name, address and key. Secrets appear as references, as in the file."""
    told = CARD_VARIABLE.sub(
        lambda match: (
            match[0]
            if names_a_credential(match[1])
            else environ.get(match[1]) or match[2] or match[0]
        ),
        card.model,
    )
    if told.strip() in ("", "offline"):
        return
    yield Fact("asks", told)
    for name in filter(None, names_in(told)):
        if name == "offline":
            continue
        options = parse_spec(name).options
        if "base_url" in options:
            yield Fact("sends to", options["base_url"])
        if "api_key_env" in options:
            yield Fact("sends the key", options["api_key_env"])
        for option, value in options.items():
            if option.startswith(INSIDE):
                yield Fact("sends besides", f"{option}={value}")
    if card.api_key:
        yield Fact("sends the key", card.api_key)
