"""`mcpagent keys set|list|remove`: secrets by name, in the system keyring or a file of the user."""

from __future__ import annotations

import getpass
import sys
import time
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn, TextIO

from rich.text import Text

from mcpagent.cli.common.configuration import short_path
from mcpagent.cli.common.error_lines import did_you_mean
from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.options import Options
from mcpagent.cli.screen.lines import table
from mcpagent.cli.screen.terminal import Terminal, is_a_terminal, open_terminal
from mcpagent.config.secret_store import (
    SecretStore,
    StoredSecret,
    is_key_name,
    key_store,
)
from mcpagent.errors import InputError
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import hide

MAX_KEY_CHARACTERS = 65_536

ReadHidden = Callable[[str], str]
"""Callback that reads one line from the terminal without an echo."""


def set_key(
    name: str,
    options: Options,
    *,
    stdin: TextIO | None = None,
    hidden: ReadHidden = getpass.getpass,
    store: SecretStore | None = None,
) -> ExitCode:
    """Store the key that the user types or pipes in, and report its location."""
    terminal = open_terminal(options.color)
    keep_secret(
        name, options.environ, terminal, stdin=stdin, hidden=hidden, store=store
    )
    if options.environ.get(key_name(name), "").strip():
        terminal.warn(
            f"{key_name(name)} is set in the environment too, which goes first"
        )
    return ExitCode.OK


def refuse_value(name: str) -> NoReturn:
    """Raise `InputError` for a key that was passed as an argument, without repeating it."""
    shown = safe_line(name.partition("=")[0], 60)
    raise InputError(
        "a key on the command line stays in the shell's history and can be seen by others; type it unseen, or pipe it "
        f"in: mcpagent keys set {shown} < FILE"
    )


def keep_secret(
    name: str,
    environ: Mapping[str, str],
    terminal: Terminal,
    *,
    stdin: TextIO | None = None,
    hidden: ReadHidden = getpass.getpass,
    store: SecretStore | None = None,
) -> str:
    """Ask for a secret, store it and report its location; return the reference for a configuration, `${keyring:name}`.

    Raises `InputError` for an invalid name or secret.
    """
    name = key_name(name)
    value = _read(name, stdin if stdin is not None else sys.stdin, hidden)
    hide(value)
    kept = (store or key_store(environ)).set(name, value)
    terminal.done(f"{kept.name} is kept in {place_of_secret(kept)}")
    return f"${{keyring:{name}}}"


def place_of_secret(kept: StoredSecret) -> str:
    """Return `the system keyring`, or the file and the reason for it."""
    if kept.place == "keyring":
        return "the system keyring"
    file = short_path(str(kept.path), Path("/nowhere"))
    return f"a file that only you can read, {file}: {safe_line(kept.reason or 'it is kept there', 200)}"


def key_name(name: str) -> str:
    """Return the name under which a key is stored; for a provider its variable: `ANTHROPIC_API_KEY` for `anthropic`.

    Raises `InputError`.
    """
    from mcpagent.models.resolve import PROVIDERS

    provider = PROVIDERS.get(name.strip().lower())
    if provider is not None and provider.key_variables:
        return provider.key_variables[0]
    if "=" in name:
        refuse_value(name)
    if not is_key_name(name):
        raise InputError(
            f'a key cannot be named "{safe_line(name, 60)}"; use letters, digits and _ . @ : / -, 100 at most'
        )
    return name


def _read(name: str, stdin: TextIO | None, hidden: ReadHidden) -> str:
    if is_a_terminal(stdin):
        try:
            value = hidden(f"{name} (not shown): ")
        except EOFError:
            value = ""
    else:
        value = ""
        if stdin is not None:
            value = stdin.read(MAX_KEY_CHARACTERS + 1)
    if "\n" in value.strip("\r\n"):
        value = value.strip("\r\n")
    else:
        value = value.strip()
    if not value:
        raise InputError(
            f"no value for {name}; type it, or pipe it in: mcpagent keys set {name} < FILE"
        )
    if len(value) > MAX_KEY_CHARACTERS or "\0" in value:
        raise InputError(
            f"this cannot be the value of {name}: {'too long' if len(value) > 100 else 'a NUL in it'}"
        )
    return value


def list_keys(options: Options, *, store: SecretStore | None = None) -> ExitCode:
    """Run `mcpagent keys list`: print names and locations, without values."""
    kept = (store or key_store(options.environ)).list()
    days = [time.strftime("%Y-%m-%d", time.localtime(key.saved)) for key in kept]
    lines = table(
        ((safe_line(key.name, 100), "user"), key.place, (day, "dim"))
        for key, day in zip(kept, days, strict=True)
    )
    document = [
        {"name": key.name, "place": key.place, "saved": key.saved} for key in kept
    ]
    lines = lines or [Text("no keys are set; mcpagent keys set NAME keeps one")]
    open_terminal(options.color).report(options, document, *lines)
    return ExitCode.OK


def remove_key(
    name: str, options: Options, *, store: SecretStore | None = None
) -> ExitCode:
    """Run `mcpagent keys remove`. Raises `InputError` for a key that is not set."""
    keys = store or key_store(options.environ)
    name = key_name(name)
    if keys.remove(name) is None:
        known = [key.name for key in keys.list()]
        hint = did_you_mean(
            get_close_matches(name, known, n=1),
            f"set are: {', '.join(known) or 'none'}",
        )
        raise InputError(f"no key {safe_line(name, 100)} is set; {hint}")
    open_terminal(options.color).done(f"{name} is no longer kept")
    return ExitCode.OK
