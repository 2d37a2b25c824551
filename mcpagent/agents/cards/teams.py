"""Read a team: a card and all members that it reaches, with their servers."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from mcpagent.agents.cards.card import AgentCard, CardError
from mcpagent.agents.cards.reading import load_card, load_cards
from mcpagent.config import (
    ServerConfig,
    ServersConfig,
    load_found_servers,
    load_named_servers,
    load_servers,
)
from mcpagent.config.secret_store import with_stored_keys
from mcpagent.config.server_config import Scope
from mcpagent.utilities.filesystem.user_folders import is_users_own
from mcpagent.utilities.text.safe_text import safe_line


@dataclass(frozen=True, slots=True)
class Team:
    """The cards of a team by name, and the servers of each. The user talks to the agent of the first card."""

    cards: Mapping[str, AgentCard]
    servers: Mapping[str, ServersConfig]

    @property
    def first(self) -> AgentCard:
        """The card whose agent the user talks to."""
        return next(iter(self.cards.values()))

    def members_servers(self) -> tuple[ServerConfig, ...]:
        """Return the servers of all cards but the first."""
        return tuple(
            server
            for name in list(self.cards)[1:]
            for server in self.servers[name].servers
        )


def read_team(
    card: str | Path | AgentCard, environ: Mapping[str, str] | None = None
) -> Team:
    """Read a card, a card file or a folder, and all cards that its agent can reach. Raises `CardError`."""
    cards = reachable(card if isinstance(card, AgentCard) else card_at(card))
    return Team(
        cards, {name: card_servers(item, environ) for name, item in cards.items()}
    )


def card_at(path: str | Path) -> AgentCard:
    """Read the card in a file, or the default card of a folder."""
    path = Path(path).expanduser()
    if path.is_dir():
        return default_card(load_cards(path), path)
    return load_card(path)


def default_card(cards: Mapping[str, AgentCard], folder: Path) -> AgentCard:
    """Return the default card: the one with `default: true`, else the only one that is not `tool_only`."""
    chosen = [card for card in cards.values() if card.default]
    chosen = chosen or [card for card in cards.values() if not card.tool_only]
    if not cards:
        raise CardError(
            f"{folder} holds no agent card",
            "name a card, or a folder with files .md, .yaml or .yml",
        )
    if len(chosen) != 1:
        names = ", ".join(card.name for card in chosen or cards.values())
        raise CardError(
            f"{folder} has no one card to begin with",
            f"write 'default: true' into one of: {names}",
        )
    return chosen[0]


def reachable(card: AgentCard) -> dict[str, AgentCard]:
    """Return the card and all cards in its folder that its agent can reach, by name. Raises `CardError`."""
    if not card.agents:
        return {card.name: card}
    if card.path:
        folder = Path(card.path).parent
    else:
        folder = Path.cwd()
    known = {**load_cards(folder), card.name: card}
    found = {card.name: card}
    pending = [card]
    while pending:
        item = pending.pop()
        for member in item.agents:
            if member not in known:
                near = get_close_matches(member, sorted(known), n=1)
                if near:
                    details = f"did you mean '{near[0]}'?"
                else:
                    details = f"cards there: {', '.join(sorted(known))}"
                raise CardError(
                    f"'agents' names '{safe_line(member, 60)}' in {item.path}, which is no card",
                    details,
                )
            if member == item.name:
                raise CardError(
                    f"'agents' names the card itself in {item.path}",
                    "an agent cannot be its own member",
                )
            if member not in found:
                found[member] = known[member]
                pending.append(known[member])
    return found


def card_servers(
    card: AgentCard, environ: Mapping[str, str] | None = None
) -> ServersConfig:
    """Return a card's servers, restricted to its `tools`. Raises `CardError` for a server that is not configured."""
    environ = with_stored_keys(os.environ if environ is None else environ)
    if card.path:
        folder = Path(card.path).absolute().parent
    else:
        folder = Path.cwd()
    label = card.path or f"card {card.name}"
    connected = _connected(card)
    for name in connected.keys() & card.mcp_servers.keys():
        raise CardError(
            f"Two servers are named '{safe_line(name, 60)}' in {label}", "rename one"
        )
    inline = {**card.mcp_servers, **connected}
    own = load_servers(
        {"mcpServers": inline}, environ=environ, label=label, folder=folder
    )
    scope: Scope
    if not card.path:
        scope = ""
    elif is_users_own(card.path, environ):
        scope = "user"
    else:
        scope = "card"
    # A file that another person's card names was not chosen by the user: it counts as a project's file.
    shared = _shared_servers(
        card, folder, environ, "project" if scope == "card" else ""
    )
    deferring = {
        _connect_name(entry, number): entry.get("defer_loading")
        for number, entry in enumerate(card.mcp_connect)
    }
    marked = (
        replace(
            server,
            defer_loading=deferring.get(server.name),
            source=card.path,
            scope=scope,
        )
        for server in own.servers
    )
    servers = tuple(
        _narrowed(server, card.tools) for server in (*shared.servers, *marked)
    )
    return ServersConfig(servers, (*shared.problems, *own.problems), shared.files)


def _shared_servers(
    card: AgentCard, folder: Path, environ: Mapping[str, str], scope: Scope
) -> ServersConfig:
    """Return the configured servers that the card names; all servers of the card's `mcp_config` if the card names no
    server.

    Servers of `mcp_config` get `scope`. Raises `CardError` for a name that is not configured.
    """
    if not card.servers and not card.mcp_config:
        return ServersConfig()
    if card.mcp_config:
        path = folder / Path(card.mcp_config).expanduser()
        found = load_named_servers(path, environ, scope)
    else:
        found = load_found_servers(folder, environ)
    if not card.servers:
        return found
    names = {server.name for server in found.servers} | {
        problem.name for problem in found.problems
    }
    for name in card.servers:
        if name not in names:
            near = get_close_matches(name, sorted(names), n=1)
            if near:
                hint = f"did you mean '{near[0]}'?"
            else:
                hint = f"configured: {', '.join(sorted(names)) or 'none'}"
            raise CardError(
                f"'servers' names '{safe_line(name, 60)}' in {card.path}, which is not configured",
                hint,
            )
    return ServersConfig(
        tuple(server for server in found.servers if server.name in card.servers),
        tuple(problem for problem in found.problems if problem.name in card.servers),
        found.files,
    )


def _connected(card: AgentCard) -> dict[str, Any]:
    """Return `mcp_connect` as an `mcpServers` mapping; each target is a URL or a command line."""
    servers: dict[str, Any] = {}
    for position, entry in enumerate(card.mcp_connect):
        target = str(entry["target"])
        rest = {key: value for key, value in entry.items() if key in _CONNECT_KEYS}
        name = _connect_name(entry, position)
        if name in servers:
            raise CardError(
                f"Two of 'mcp_connect' are named '{safe_line(name, 60)}' in {card.path}",
                "rename one",
            )
        if target.startswith(("http://", "https://")):
            servers[name] = {"url": target, **rest}
        else:
            try:
                command, *arguments = shlex.split(target)
            except ValueError as error:
                raise CardError(
                    f"'mcp_connect[{position}].target' is not a command in {card.path}",
                    str(error),
                ) from None
            servers[name] = {"command": command, "args": arguments, **rest}
    return servers


def _connect_name(entry: Mapping[str, Any], position: int) -> str:
    return str(entry.get("name") or f"server{position + 1}")


_CONNECT_KEYS = ("headers", "description", "env", "cwd", "trust", "approval")
CONNECT_KNOWN = frozenset({*_CONNECT_KEYS, "target", "name", "defer_loading"})


def _narrowed(
    server: ServerConfig, tools: Mapping[str, tuple[str, ...]]
) -> ServerConfig:
    if server.name not in tools:
        return server
    if not tools[server.name]:
        return replace(server, disabled_tools=("*",))
    return replace(server, enabled_tools=tools[server.name])
