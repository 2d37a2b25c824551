"""Determine which entries of a project, a card or a named file may be used: those the user approved as they are now.

A `.mcp.json` that came with a repository starts programs, so the user has to review it first. The same applies to named
cards and configurations outside the user's own folders. The question shows `mcpagent.trust.descriptions`. The user's
own files, and servers given by `--server`, need no consent.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from mcpagent.cli.frame.configuration import Configuration, load_configuration, short_path
from mcpagent.cli.frame.figures import counted
from mcpagent.cli.may_run.asking import forget_typed_ahead
from mcpagent.cli.screen.terminal import is_a_terminal, put
from mcpagent.config import ServerConfig, ServerProblem
from mcpagent.errors import ConfigError, ServerError
from mcpagent.text.safe_text import safe_line, visible
from mcpagent.trust.consent import Answer, Consent, consent_to, described, without_a_yes
from mcpagent.trust.descriptions import Description, file_of
from mcpagent.trust.trust_store import TrustStore

if TYPE_CHECKING:
    from mcpagent.cards.teams import Team
    from mcpagent.cli.frame.options import Options
    from mcpagent.cli.screen.terminal import Terminal

AskLines: TypeAlias = Callable[[Sequence[str]], Answer]
"""Shows lines and asks about all that stands in them at once."""

ALLOW_IT = "allow it: --trust-project, or say yes in mcpagent chat"


def ask_trust(
    configuration: Configuration, options: Options, notify: Callable[[str], None], ask: AskLines | None
) -> Configuration:
    """Return the configuration with the approved servers; the others become problems.

    `ask` is None if no user can be asked. `notify` receives one line about the omitted servers. Raises `ServerError` if
    no user can be asked and no server is left, or if a member of a card's team would lack its servers, and
    `ConfigError` for a card without approval.
    """
    if options.trust_project or configuration.replayed is not None:
        return configuration
    decided = consent_to(
        _descriptions(configuration.team, _servers(configuration), options),
        TrustStore.of_user(options.environ),
        None if ask is None else lambda found: ask(trust_lines(found, options.folder)),
    )
    for line in decided.problems:
        notify(line)
    bound = _bound(configuration, decided)
    if not decided.refused:
        return bound
    line = _refusal(decided.refused, options.folder)
    if any(item.kind == "card" for item in decided.refused):
        raise ConfigError(line)
    refused = [server for server in _servers(configuration) if not decided.covers(server)]
    members = [server for server in refused if server not in configuration.enabled]
    if members or (ask is None and len(refused) == len(configuration.names)):
        raise ServerError(line, server=refused[0].name, phase="config")
    notify(line)
    return _without(bound, refused, options.folder)


def waiting_servers(configuration: Configuration, options: Options) -> frozenset[str]:
    """Return the names of the servers without an approval of their current version."""
    store = TrustStore.of_user(options.environ)
    return frozenset(item.name for item in without_a_yes(described(configuration.enabled, options.environ), store))


def lines_to_say_yes_to(team: Team, options: Options) -> list[str]:
    """Return the effects of a card and its members that are not approved yet; empty if all are."""
    store = TrustStore.of_user(options.environ)
    servers = [server for found in team.servers.values() for server in found.servers]
    waiting = without_a_yes(_descriptions(team, servers, options), store)
    return trust_lines(waiting, options.folder) if waiting else []


def remember_added(server: ServerConfig, options: Options) -> None:
    """Store the approval of a server that the user added by a command, so they are not asked about it."""
    TrustStore.of_user(options.environ).add(described([server], options.environ))


def _servers(configuration: Configuration) -> tuple[ServerConfig, ...]:
    team = configuration.team
    return (*configuration.enabled, *(team.members_servers() if team is not None else ()))


def _descriptions(team: Team | None, servers: Iterable[ServerConfig], options: Options) -> list[Description]:
    cards: list[Description] = []
    if team is not None:
        from mcpagent.cards.card_trust import describe_cards

        cards = describe_cards(team, options.environ, is_model_chosen=options.model is not None)
    return [*cards, *described(servers, options.environ)]


def trust_lines(found: Sequence[Description], folder: Path) -> list[str]:
    """Return all of the descriptions, exactly and in full; only secrets are omitted."""
    lines = [f"{_files(found, folder)}: nobody here has said yes to what this does"]
    for item in found:
        lines.append(f"  {_exact(item.name)}  ({short_path(item.source, folder)})")
        width = max((len(fact.what) for fact in item.facts), default=0)
        for fact in item.facts:
            digest = f"  sha256 {fact.digest[:16]}" if fact.digest else ""
            lines.append(f"      {fact.what:<{width}}  {_exact(fact.text)}{digest}")
        if item.why_not_kept:
            lines.append(f"      a yes to this is not kept: {_exact(item.why_not_kept)}")
    return lines


def _exact(text: str) -> str:
    return visible(text, kept="")


def _files(found: Sequence[Description], folder: Path) -> str:
    return ", ".join(dict.fromkeys(short_path(file_of(item.source), folder) for item in found))


def _refusal(found: Sequence[Description], folder: Path) -> str:
    """Return `2 servers of .mcp.json are not trusted, so not started: git, docs. allow it: ...`."""
    names = ", ".join(safe_line(item.name, 64) for item in found[:5])
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    verb = "is" if len(found) == 1 else "are"
    is_card = any(item.kind == "card" for item in found)
    which = counted(len(found), "part" if is_card else "server")
    what = "used" if is_card else "started"
    return f"{which} of {_files(found, folder)} {verb} not trusted, so not {what}: {names}{more}. {ALLOW_IT}"


def _bound(configuration: Configuration, decided: Consent) -> Configuration:
    """Return the configuration with each approved server bound to its approved version."""

    def bound(servers: Sequence[ServerConfig]) -> tuple[ServerConfig, ...]:
        return tuple(decided.bound(server) if decided.covers(server) else server for server in servers)

    team, found = configuration.team, configuration.servers
    if team is not None:
        members = {name: replace(known, servers=bound(known.servers)) for name, known in team.servers.items()}
        team = replace(team, servers=members)
    return replace(configuration, servers=replace(found, servers=bound(found.servers)), team=team)


def _without(configuration: Configuration, servers: Sequence[ServerConfig], folder: Path) -> Configuration:
    names = frozenset(server.name for server in servers)
    problems = [
        ServerProblem(server.name, f"not trusted yet ({short_path(server.source, folder)}). {ALLOW_IT}")
        for server in servers
    ]
    found = configuration.servers
    rest = tuple(server for server in found.servers if server.name not in names)
    return replace(
        configuration,
        servers=replace(found, servers=rest, problems=(*found.problems, *problems)),
        untrusted=names,
    )


# -- on the terminal, before anything is started ----------------------------------------------------------------------

KEYS = "[y] yes, as they stand there, now and later   [o] only this time   [N] go on without them"
ANSWERS: dict[str, Answer] = {"y": "always", "yes": "always", "o": "once", "once": "once"}


def trusted_configuration(options: Options, terminal: Terminal) -> Configuration:
    """Return the configuration, with third-party entries only if approved; asks the user if possible."""
    return ask_trust(load_configuration(options), options, terminal.warn, _asker(terminal))


def untrusted_apart(options: Options, terminal: Terminal) -> Configuration:
    """Return the same for a command that reports on each server itself: without errors and notices."""
    return ask_trust(load_configuration(options), options, lambda _: None, _asker(terminal) or (lambda _: "no"))


def _asker(terminal: Terminal) -> AskLines | None:
    """Return a function that asks on stderr; None without a user at the terminal."""
    if not (is_a_terminal(sys.stdin) and is_a_terminal(sys.stderr)):
        return None

    def ask(lines: Sequence[str]) -> Answer:
        put(terminal.err, *lines, f"  {KEYS}")
        forget_typed_ahead()
        # Inside an event loop Ctrl-C would only be noted, and this wait would go on.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            terminal.err.file.write("allow it? [N] ")
            terminal.err.file.flush()
            return ANSWERS.get(sys.stdin.readline().strip().lower(), "no")
        finally:
            signal.signal(signal.SIGINT, before)

    return ask
