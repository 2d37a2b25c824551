"""Ask for consent to the programs, files and addresses of a project or a card.

A `.mcp.json` that was found in a folder starts programs, so the user has to agree first. The same holds for a card
outside the user's own folders. A configuration that the person names (`--config FILE`, `--server`) needs no consent:
naming it is consent. The question shows `mcpagent.permissions.trust.descriptions`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from mcpagent.cli.frame.configuration import (
    Configuration,
    load_configuration,
    short_path,
)
from mcpagent.cli.frame.figures import counted
from mcpagent.cli.may_run.asking import forget_typed_ahead
from mcpagent.cli.screen.terminal import is_a_terminal, put
from mcpagent.config import ServerConfig, ServerProblem
from mcpagent.errors import ConfigError, ServerError
from mcpagent.permissions.trust.commits import files_changed_by_others
from mcpagent.permissions.trust.consent import (
    Answer,
    consent_to,
    described,
    without_consent,
)
from mcpagent.permissions.trust.descriptions import (
    Description,
    Fact,
    file_of,
    real_place,
)
from mcpagent.permissions.trust.trust_store import TrustStore
from mcpagent.utilities.text.safe_text import safe_line, visible

if TYPE_CHECKING:
    from mcpagent.agents.cards.teams import Team
    from mcpagent.cli.frame.options import Options
    from mcpagent.cli.screen.terminal import Terminal

AskLines: TypeAlias = Callable[[Sequence[Description], Path], Answer]
"""Shows descriptions, with paths as they are written from a folder, and asks about all of them at once."""

ALLOW_IT = "allow it: --trust-project, or say yes in mcpagent chat"


def ask_trust(
    configuration: Configuration,
    options: Options,
    notify: Callable[[str], None],
    ask: AskLines | None,
) -> Configuration:
    """Return the configuration with the servers that the user agreed to; the others become problems.

    `ask` is None if there is no user to ask. `notify` gets one line about the omitted servers, and one about files that
    other people's commits changed since the consent. Raises `ServerError` if there is no user to ask and no server
    remains, or if a member of a card's team would be without its servers, and `ConfigError` for a card or a model that
    is refused.
    """
    if options.trust_project or configuration.replayed is not None:
        return configuration
    found = descriptions_here(configuration, options)
    store = TrustStore.of_user(options.environ)
    decided = consent_to(
        found, store, None if ask is None else lambda asked: ask(asked, options.folder)
    )
    changed = changed_files(decided.allowed, store)
    for line in (*decided.problems, *_changes(changed)):
        notify(line)
    if not changed:
        named = Counter(server.name for server in _servers(configuration))
        own_code = frozenset(
            name for name in _own_code(decided.allowed, store) if named[name] == 1
        )
        configuration = replace(configuration, own_code=own_code)
    if not decided.refused:
        return configuration
    line = _refusal(decided.refused, options.folder)
    if any(item.kind in ("card", "model") for item in decided.refused):
        raise ConfigError(line)
    refused = [
        server for server in _servers(configuration) if not decided.covers(server)
    ]
    members = [server for server in refused if server not in configuration.enabled]
    if members or (ask is None and len(refused) == len(configuration.names)):
        raise ServerError(line, server=refused[0].name, phase="config")
    notify(line)
    return _without(configuration, refused, options.folder)


def descriptions_here(
    configuration: Configuration, options: Options
) -> list[Description]:
    """Return all that needs consent: servers and cards, and a model that a project's settings choose."""
    return [
        *_model_of_project(options),
        *_descriptions(configuration.team, _servers(configuration), options),
    ]


def waiting_servers(configuration: Configuration, options: Options) -> frozenset[str]:
    """Return the names of the servers whose current entries the user has not agreed to."""
    store = TrustStore.of_user(options.environ)
    return frozenset(
        item.name for item in without_consent(described(configuration.enabled), store)
    )


def lines_to_say_yes_to(team: Team, options: Options) -> list[str]:
    """Return the effects of a card and its members that the user has not agreed to yet, as lines."""
    store = TrustStore.of_user(options.environ)
    servers = [server for found in team.servers.values() for server in found.servers]
    waiting = without_consent(_descriptions(team, servers, options), store)
    if waiting:
        return trust_lines(waiting, options.folder)
    return []


def remember_added(server: ServerConfig, options: Options) -> None:
    """Store consent to a server that the user wrote by a command: no question about it is needed."""
    TrustStore.of_user(options.environ).add(described([server]))


def changed_files(found: Iterable[Description], store: TrustStore) -> list[str]:
    """Return the configurations, and files they name by path, that other people's commits changed since the consent."""
    commits = {entry.digest: entry.commit for entry in store.entries()}
    changed: dict[str, None] = {}
    for folder, commit in dict.fromkeys(
        (Path(item.place).parent, commits.get(item.digest(), "")) for item in found
    ):
        of_folder = [item for item in found if Path(item.place).parent == folder]
        named = (
            path
            for item in of_folder
            for path in item.paths
            if len(path) < 1_000 and not os.path.isdir(path)
        )
        changed |= dict.fromkeys(
            files_changed_by_others(
                folder, commit, (*{item.place for item in of_folder}, *named)
            )
        )
    return list(changed)


def _changes(changed: Sequence[str]) -> list[str]:
    if not changed:
        return []
    files = counted(len(changed), "file")
    return [f"{files} changed by others since you agreed: mcpagent trust show"]


def _own_code(allowed: Iterable[Description], store: TrustStore) -> Iterator[str]:
    """Yield the servers of a project whose program is a file of its folder, if only this person committed there since.

    To edit it is the person's own business. A commit of another person to any file of the folder ends that, since a
    program may read its tools from each of these files.
    """
    commits = {entry.digest: entry.commit for entry in store.entries()}
    is_own: dict[tuple[Path, str], bool] = {}
    for item in allowed:
        if item.kind != "server" or not os.path.isfile(item.program):
            continue
        folder = Path(item.place).parent
        if not Path(os.path.realpath(item.program)).is_relative_to(folder):
            continue
        since = folder, commits.get(item.digest(), "")
        if since not in is_own:
            is_own[since] = not files_changed_by_others(*since, [str(folder)])
        if is_own[since]:
            yield item.name


def _model_of_project(options: Options) -> list[Description]:
    """Return the model that a project's settings choose, if it sends elsewhere than the person's own."""
    if options.model is None or options.model_file is None:
        return []
    from mcpagent.models.resolve import default_spec, receivers_of

    receivers = receivers_of(options.model)
    if receivers <= receivers_of(options.own_model or default_spec(options.environ)):
        return []
    source = str(options.model_file)
    facts = (Fact("sends the conversation to", ", ".join(sorted(receivers))),)
    return [
        Description(
            "model",
            real_place(source),
            source,
            facts,
            "model",
            notes=(Fact("asks", options.model),),
        )
    ]


def _servers(configuration: Configuration) -> tuple[ServerConfig, ...]:
    team = configuration.team
    return (
        *configuration.enabled,
        *(team.members_servers() if team is not None else ()),
    )


def _descriptions(
    team: Team | None, servers: Iterable[ServerConfig], options: Options
) -> list[Description]:
    cards: list[Description] = []
    if team is not None:
        from mcpagent.agents.cards.card_trust import describe_cards

        cards = describe_cards(
            team, options.environ, is_model_chosen=options.model is not None
        )
    return [*cards, *described(servers)]


def trust_lines(
    found: Sequence[Description], folder: Path, width: int = 0
) -> list[str]:
    """Return all of the descriptions, exactly and in full, broken at `width` (0: not at all).

    Behind a break a line begins with a bar, which no line of ours does: a long argument cannot look like another row.
    """
    lines = [
        f"{_files(found, folder)}: if you agree, this is used, and code in this folder will run,"
    ]
    lines.append("also after it changes:")
    for item in found:
        lines.append(f"  {_exact(item.name)}  ({short_path(item.source, folder)})")
        facts = (*item.facts, *item.notes)
        longest = max((len(fact.what) for fact in facts), default=0)
        for fact in facts:
            lines += _row(f"      {fact.what:<{longest}}  ", _exact(fact.text), width)
    return lines


def _row(label: str, text: str, width: int) -> list[str]:
    from rich.cells import chop_cells

    room = max(width - len(label), 20)
    if width and text:
        first, *rest = chop_cells(text, room)
    else:
        first, *rest = [text]
    return [
        f"{label}{first}",
        *(f"{' ' * (len(label) - 2)}| {piece}" for piece in rest),
    ]


def _exact(text: str) -> str:
    return visible(text, kept="")


def _files(found: Sequence[Description], folder: Path) -> str:
    return ", ".join(
        dict.fromkeys(short_path(file_of(item.source), folder) for item in found)
    )


def _refusal(found: Sequence[Description], folder: Path) -> str:
    """Return `2 servers of .mcp.json are not trusted, so not started: git, docs. allow it: ...`."""
    names = ", ".join(safe_line(item.name, 64) for item in found[:5])
    more = ""
    if len(found) > 5:
        more = f" and {len(found) - 5} more"
    verb = "are"
    if len(found) == 1:
        verb = "is"
    kinds = {item.kind for item in found}
    noun, what = "part", "used"
    if kinds == {"server"}:
        noun, what = "server", "started"
    which = counted(len(found), noun)
    return f"{which} of {_files(found, folder)} {verb} not trusted, so not {what}: {names}{more}. {ALLOW_IT}"


def _without(
    configuration: Configuration, servers: Sequence[ServerConfig], folder: Path
) -> Configuration:
    names = frozenset(server.name for server in servers)
    problems = [
        ServerProblem(
            server.name,
            f"not trusted yet ({short_path(server.source, folder)}). {ALLOW_IT}",
        )
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

KEYS = "[y] yes, now and later   [o] only this time   [N] go on without it"
ANSWERS: dict[str, Answer] = {
    "y": "always",
    "yes": "always",
    "o": "once",
    "once": "once",
}


def trusted_configuration(options: Options, terminal: Terminal) -> Configuration:
    """Return the configuration, with third-party entries only if the user agreed; ask if there is a terminal."""
    return ask_trust(
        load_configuration(options), options, terminal.warn, _asker(terminal)
    )


def untrusted_apart(options: Options, terminal: Terminal) -> Configuration:
    """Do the same for a command that reports on each server itself: omitted servers are no error, and print nothing."""
    options = replace(options, model_file=None)  # no conversation is sent to it
    return ask_trust(
        load_configuration(options),
        options,
        lambda _: None,
        _asker(terminal) or (lambda *_: "no"),
    )


def _asker(terminal: Terminal) -> AskLines | None:
    """Return a function that asks on stderr; None if there is no terminal."""
    if not (is_a_terminal(sys.stdin) and is_a_terminal(sys.stderr)):
        return None

    def ask(found: Sequence[Description], folder: Path) -> Answer:
        lines = trust_lines(found, folder, terminal.err.width)
        room = max(terminal.err.height - 3, 5)
        pages = [lines[start : start + room] for start in range(0, len(lines), room)]
        for number, page in enumerate(pages, 1):
            put(terminal.err, *page, exact=True)
            if (
                number < len(pages)
                and _typed(
                    terminal, f"page {number} of {len(pages)}: [Enter] next  [n] no "
                )
                == "n"
            ):
                return "no"
        put(terminal.err, f"  {KEYS}")
        return ANSWERS.get(_typed(terminal, "allow it? [N] "), "no")

    return ask


def _typed(terminal: Terminal, question: str) -> str:
    forget_typed_ahead()
    # Inside an event loop Ctrl-C would only be noted, and this wait would continue.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        terminal.err.file.write(question)
        terminal.err.file.flush()
        return sys.stdin.readline().strip().lower()
    finally:
        signal.signal(signal.SIGINT, before)
