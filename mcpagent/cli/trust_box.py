"""The question whether a project's servers may be started, on the terminal and before anything is."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcpagent.cli.asking import forget_typed_ahead
from mcpagent.cli.configuration import load_configuration
from mcpagent.cli.terminal import is_a_terminal, put
from mcpagent.cli.trust import Answer, AskTrust, ask_project_trust

if TYPE_CHECKING:
    from mcpagent.cli.configuration import Configuration
    from mcpagent.cli.options import Options
    from mcpagent.cli.terminal import Terminal
    from mcpagent.config import ServerConfig

KEYS = "[y] yes, as they stand there, now and later   [o] only this time   [N] go on without them"
ANSWERS: dict[str, Answer] = {"y": "always", "yes": "always", "o": "once", "once": "once"}


def trusted_configuration(options: Options, terminal: Terminal) -> Configuration:
    """The configuration, with the project's servers only where the user said yes; asks where somebody can be asked."""

    def tell(line: str) -> None:
        put(terminal.err, f"{terminal.glyphs.warning} {line}", style="warning")

    members: Sequence[ServerConfig] = ()
    if options.card is not None:
        from mcpagent.agent_cards import card_at, team_servers

        members = team_servers(card_at(options.card), options.environ)
    return ask_project_trust(load_configuration(options), options, tell, _asker(terminal), members)


def untrusted_apart(options: Options, terminal: Terminal) -> Configuration:
    """The same for a command that reports on each server by itself: what is left out is not told, and is no error."""
    return ask_project_trust(load_configuration(options), options, lambda _: None, _asker(terminal) or (lambda _: "no"))


def _asker(terminal: Terminal) -> AskTrust | None:
    """Asks on stderr; None where nobody is at the terminal."""
    if not (is_a_terminal(sys.stdin) and is_a_terminal(sys.stderr)):
        return None

    def ask(lines: Sequence[str]) -> Answer:
        put(terminal.err, *lines, f"  {KEYS}")
        forget_typed_ahead()
        # Inside an event loop Ctrl-C would only be noted, and this wait would go on.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            terminal.err.file.write("start them? [N] ")
            terminal.err.file.flush()
            return ANSWERS.get(sys.stdin.readline().strip().lower(), "no")
        finally:
            signal.signal(signal.SIGINT, before)

    return ask
