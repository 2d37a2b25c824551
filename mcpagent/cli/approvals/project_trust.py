"""Ask for consent to the programs, files and addresses of a project or a card.

A `.mcp.json` found in a folder starts programs, so the user has to agree first. The same applies to a card outside the
user's own folders. A configuration that the user names (`--config FILE`, `--server`) needs no further consent. The
question shows `mcpagent.permissions.trust.descriptions`.
"""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from mcpagent.cli.approvals.approval_box import forget_typed_ahead
from mcpagent.cli.common.configuration import (
    Configuration,
    load_configuration,
    short_path,
)
from mcpagent.cli.common.number_formats import counted
from mcpagent.cli.screen.terminal import is_a_terminal, put, typed_line
from mcpagent.config import ServerConfig, ServerProblem
from mcpagent.errors import ConfigError, ServerError
from mcpagent.permissions.trust.commits import files_changed_by_others
from mcpagent.permissions.trust.consent import (
    Answer,
    consent_to,
    described,
    needs_consent,
    without_consent,
)
from mcpagent.permissions.trust.descriptions import (
    Description,
    Fact,
    describe,
    file_of,
    names_project_file,
    project_of,
    real_place,
    watched_paths,
)
from mcpagent.permissions.trust.trust_store import TrustStore
from mcpagent.skills.finding_skills import describe_skill, first_of_each_name
from mcpagent.utilities.text.safe_text import safe_line, visible

if TYPE_CHECKING:
    from mcpagent.agents.cards.teams import Team
    from mcpagent.cli.common.options import Options
    from mcpagent.cli.screen.terminal import Terminal

AskLines: TypeAlias = Callable[[Sequence[Description], Path], Answer]
"""Callback that shows descriptions, with paths relative to a folder, and asks about all of them at once."""

UNKNOWN_CHANGES = "git cannot tell what others changed since you agreed"
ALLOW_IT = "allow it: --trust-project, or say yes in mcpagent chat"
"""The suggested fix if no user could be asked."""

ASKED_AGAIN = "the next start asks again"
"""The suggested fix if the user was asked and did not agree."""


def ask_trust(
    configuration: Configuration,
    options: Options,
    notify: Callable[[str], None],
    ask: AskLines | None,
    how_to_allow: str = ALLOW_IT,
) -> Configuration:
    """Return the configuration with the servers and skills that the user agreed to; other servers become problems.

    `ask` is None if no user can be asked; `how_to_allow` is the fix that a refusal names. `notify` receives one line
    about the omitted servers, and one about files that other people's commits changed since the consent. Raises
    `ServerError` if no user can be asked and no server remains, or if a member of a card's team would lose its servers.
    Raises `ConfigError` for a refused card or model.
    """
    configuration = _agreed(configuration, options, notify, ask, how_to_allow)
    named = first_of_each_name(configuration.skills)
    for line in (*configuration.skill_problems, *named.problems):
        notify(line)
    return replace(configuration, skills=named.skills)


def _agreed(
    configuration: Configuration,
    options: Options,
    notify: Callable[[str], None],
    ask: AskLines | None,
    how_to_allow: str,
) -> Configuration:
    if options.trust_project or configuration.replayed is not None:
        return configuration
    found = descriptions_here(configuration, options)
    store = TrustStore.of_user(options.environ)
    decided = consent_to(
        found, store, None if ask is None else lambda asked: ask(asked, options.folder)
    )
    changes = changes_by_others(decided.allowed, store)
    for line in (*decided.problems, *_lines_about(changes)):
        notify(line)
    changes |= changes_by_others(_added_by_user(configuration, store), store)
    named = Counter(server.name for server in _servers(configuration))
    # A program may read its tools from any file of its folder, so a change by another person means that it is no longer
    # the user's own.
    own = [
        item
        for item, changed in changes.items()
        if changed == [] and item.folder and named[item.name] == 1
    ]
    configuration = replace(
        configuration,
        own_code={item.name: project_of(item) for item in own},
        own_files=frozenset(item.name for item in own if names_project_file(item)),
    )
    if not decided.refused:
        return configuration
    refused_digests = {item.digest() for item in decided.refused}
    skills = tuple(
        skill
        for skill in configuration.skills
        if skill.scope != "project"
        or describe_skill(skill).digest() not in refused_digests
    )
    configuration = replace(configuration, skills=skills)
    line = f"{_refusal(decided.refused, options.folder)}; {how_to_allow}"
    if all(item.kind == "skill" for item in decided.refused):
        notify(line)
        return configuration
    if any(item.kind in ("card", "model") for item in decided.refused):
        raise ConfigError(line)
    refused = [
        server for server in _servers(configuration) if not decided.covers(server)
    ]
    members = [server for server in refused if server not in configuration.enabled]
    if members or (ask is None and len(refused) == len(configuration.names)):
        raise ServerError(line, server=refused[0].name, phase="config")
    notify(line)
    return _without(configuration, refused, options.folder, how_to_allow)


def descriptions_here(
    configuration: Configuration, options: Options
) -> list[Description]:
    """Return everything that needs consent: servers, cards, and a model that a project's settings choose."""
    return [
        *_model_of_project(options),
        *(
            describe_skill(skill)
            for skill in configuration.skills
            if skill.scope == "project"
        ),
        *_descriptions(configuration.team, _servers(configuration), options),
    ]


def waiting_servers(configuration: Configuration, options: Options) -> frozenset[str]:
    """Return the names of the servers to whose current entries the user has not agreed."""
    store = TrustStore.of_user(options.environ)
    return frozenset(
        item.name for item in without_consent(described(configuration.enabled), store)
    )


def lines_to_say_yes_to(team: Team, options: Options) -> list[str]:
    """Return lines about the effects of a card and its members to which the user has not agreed yet."""
    store = TrustStore.of_user(options.environ)
    servers = [server for found in team.servers.values() for server in found.servers]
    waiting = without_consent(_descriptions(team, servers, options), store)
    if waiting:
        return trust_lines(waiting, options.folder)
    return []


def remember_added(server: ServerConfig, options: Options) -> None:
    """Store consent to a server that the user added by a command, so that no question follows.

    The user's own file needs no consent; the entry records the state of the program's folder, to detect later changes.
    """
    if needs_consent(server) or (server.scope == "user" and server.command):
        TrustStore.of_user(options.environ).add([describe(server)])


def _added_by_user(
    configuration: Configuration, store: TrustStore
) -> Iterator[Description]:
    """Yield the unchanged entries that the user added to their own file by a command and that start a program in this
    project.
    """
    known = store.digests()
    for server in configuration.enabled:
        if server.scope == "user" and server.command and not server.disabled:
            item = describe(server)
            if item.digest() in known and names_project_file(item):
                yield item


def changes_by_others(
    found: Iterable[Description], store: TrustStore
) -> dict[Description, list[str] | None]:
    """Return the files that other people's commits changed since each consent; None if git gives no answer."""
    commits = {entry.digest: entry.commit for entry in store.entries()}
    changed_by_others = cache(files_changed_by_others)
    return {
        item: changed_by_others(
            project_of(item),
            commits.get(item.digest(), ""),
            watched_paths(item),
        )
        for item in found
        if item.kind
        != "skill"  # the consent includes the digest of its files, so any change causes a new question
    }


def changed_files(changes: Mapping[Description, list[str] | None]) -> list[str]:
    """Return all changed files, each once."""
    return sorted({file for changed in changes.values() for file in changed or ()})


def _lines_about(changes: Mapping[Description, list[str] | None]) -> list[str]:
    changed = changed_files(changes)
    if changed:
        files = counted(len(changed), "file")
        return [f"{files} changed by others since you agreed: mcpagent trust show"]
    if None in changes.values():
        return [f"{UNKNOWN_CHANGES}: mcpagent trust show"]
    return []


def _model_of_project(options: Options) -> list[Description]:
    """Return the model that a project's settings choose, if it sends to other hosts than the user's own model."""
    if options.model is None or options.model_file is None:
        return []
    from mcpagent.models.resolve import default_spec, receivers_of

    receivers = receivers_of(options.model)
    own = options.own_model or default_spec(options.environ_with_keys)
    if receivers <= receivers_of(own):
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
    """Return all descriptions, exactly and in full, broken at `width` (0: not at all).

    Continuation lines begin with a bar, which no line of mcpagent does: a long argument cannot imitate another row.
    """
    lines = [f"{_files(found, folder)}: if you agree, {_effect(found)}:"]
    for item in found:
        lines.append(f"  {_exact(item.name)}  ({short_path(item.source, folder)})")
        facts = (*item.facts, *item.notes)
        longest = max((len(fact.what) for fact in facts), default=0)
        for fact in facts:
            lines += _row(f"      {fact.what:<{longest}}  ", _exact(fact.text), width)
    return lines


def _effect(found: Sequence[Description]) -> str:
    if all(item.kind == "skill" for item in found):
        return "the model gets these instructions when it needs them, until a file of them changes"
    return "this is used, and code in this folder will run, also after it changes"


def _row(label: str, text: str, width: int) -> list[str]:
    from mcpagent.cli.screen.drawn_width import cut_into_rows

    room = max(width - len(label), 20)
    if width and text:
        first, *rest = cut_into_rows(text, room)
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
    """Return `2 servers of .mcp.json are not trusted, so not started: git, docs`."""
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
    elif kinds == {"skill"}:
        noun = "skill"
    which = counted(len(found), noun)
    return f"{which} of {_files(found, folder)} {verb} not trusted, so not {what}: {names}{more}"


def _without(
    configuration: Configuration,
    servers: Sequence[ServerConfig],
    folder: Path,
    how_to_allow: str,
) -> Configuration:
    names = frozenset(server.name for server in servers)
    problems = [
        ServerProblem(
            server.name,
            f"not trusted yet ({short_path(server.source, folder)}); {how_to_allow}",
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


# -- Questions at start ------------------------------------------------------------------------------------------------

KEYS = "[y] yes, always  [o] only this time  [N] go on without it"
ANSWERS: dict[str, Answer] = {
    "y": "always",
    "yes": "always",
    "o": "once",
    "once": "once",
    "": "no",
    "n": "no",
    "no": "no",
}
_KEYS_MEAN = (
    "y agrees for now and later, o for this time; n, or Enter alone, goes on without it"
)


def trusted_configuration(options: Options, terminal: Terminal) -> Configuration:
    """Return the configuration, with third-party entries only if the user agreed; a terminal user is asked."""
    return _asked_on(terminal, options, terminal.warn, None)


def untrusted_apart(options: Options, terminal: Terminal) -> Configuration:
    """Return the same, for a command that reports on each server itself: omitted servers cause no error and no
    output.
    """
    options = replace(
        options, model_file=None
    )  # the command sends no conversation to a model
    return _asked_on(terminal, options, lambda _: None, lambda *_: "no")


def _asked_on(
    terminal: Terminal,
    options: Options,
    notify: Callable[[str], None],
    otherwise: AskLines | None,
) -> Configuration:
    """Ask on the terminal; without a terminal, `otherwise` answers."""
    configuration, ask = load_configuration(options), _asker(terminal)
    if ask is None:
        return ask_trust(configuration, options, notify, otherwise)
    return ask_trust(configuration, options, notify, ask, ASKED_AGAIN)


def _can_ask() -> bool:
    return is_a_terminal(sys.stdin) and is_a_terminal(sys.stderr)


def _asker(terminal: Terminal) -> AskLines | None:
    """Return a function that asks on stderr; None if there is no terminal."""
    if not _can_ask():
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
        while (typed := _typed(terminal, "allow it? [N] ")) not in ANSWERS:
            put(terminal.err, f"  {_KEYS_MEAN}", style="dim")
        return ANSWERS[typed]

    return ask


def may_agree(terminal: Terminal) -> bool:
    """Ask whether the user agrees to the displayed changes of others; return False if stdout is no terminal, so the
    user did not see them.
    """
    if not (_can_ask() and is_a_terminal(sys.stdout)):
        return False
    return _typed(terminal, "agree to these changes? [y/N] ") in ("y", "yes")


def _typed(terminal: Terminal, question: str) -> str:
    forget_typed_ahead(terminal.err)
    # Inside an event loop, Ctrl-C would only set a flag, and this read would continue.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        terminal.err.file.write(question)
        terminal.err.file.flush()
        return typed_line().strip().lower()
    finally:
        signal.signal(signal.SIGINT, before)
