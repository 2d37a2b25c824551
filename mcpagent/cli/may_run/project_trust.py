"""What of a project, a card or a named file may be used: what the user said yes to, as it is now.

A `.mcp.json` that came with a repository starts programs, so somebody has to look at it first. So do cards and
configurations that are named and do not stand in the user's own folders. What the question shows is
`mcpagent.trust.descriptions`; the user's own files and servers given by `--server` need no yes.
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
    """The configuration with what the user said yes to; servers that are left out become problems.

    `ask` is None if nobody can be asked. `notify` gets one line about what is left out. Raises `ServerError` if nobody
    can be asked and nothing is left, or if a member of a card's team would be without its servers, and `ConfigError`
    for a card that nobody said yes to.
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
    """The names of the servers that nobody said yes to as they are now."""
    store = TrustStore.of_user(options.environ)
    return frozenset(item.name for item in without_a_yes(described(configuration.enabled, options.environ), store))


def lines_to_say_yes_to(team: Team, options: Options) -> list[str]:
    """What a card and its members do that nobody said yes to yet; none if that is nothing."""
    store = TrustStore.of_user(options.environ)
    servers = [server for found in team.servers.values() for server in found.servers]
    waiting = without_a_yes(_descriptions(team, servers, options), store)
    return trust_lines(waiting, options.folder) if waiting else []


def remember_added(server: ServerConfig, options: Options) -> None:
    """Keeps a yes to a server that the user wrote by a command: nobody has to ask them about it."""
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
    """All of the descriptions, exactly and in full; of the rest only secrets are left out."""
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
    """`2 servers of .mcp.json are not trusted, so not started: git, docs. allow it: ...`."""
    names = ", ".join(safe_line(item.name, 64) for item in found[:5])
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    verb = "is" if len(found) == 1 else "are"
    is_card = any(item.kind == "card" for item in found)
    which = counted(len(found), "part" if is_card else "server")
    what = "used" if is_card else "started"
    return f"{which} of {_files(found, folder)} {verb} not trusted, so not {what}: {names}{more}. {ALLOW_IT}"


def _bound(configuration: Configuration, decided: Consent) -> Configuration:
    """With each server that has a yes bound to what it was given for."""

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
    """The configuration, with what others wrote only if the user said yes; asks if somebody can be asked."""
    return ask_trust(load_configuration(options), options, terminal.warn, _asker(terminal))


def untrusted_apart(options: Options, terminal: Terminal) -> Configuration:
    """The same for a command that reports on each server itself: those left out are no error, and nothing is said."""
    return ask_trust(load_configuration(options), options, lambda _: None, _asker(terminal) or (lambda _: "no"))


def _asker(terminal: Terminal) -> AskLines | None:
    """Asks on stderr; None if nobody is at the terminal."""
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
