"""`mcpagent mcp add|remove|enable|disable`: one server in a file, and nothing else in it changed."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcpagent.cli.configuration import short_path
from mcpagent.cli.exit_codes import ExitCode
from mcpagent.cli.options import Options, WriteScope
from mcpagent.cli.server_files import ServerFile, file_to_write, file_with, files_found, place_of
from mcpagent.cli.terminal import Terminal, open_terminal, put
from mcpagent.config import load_servers
from mcpagent.config.literals import is_literal_secret, literal_secrets
from mcpagent.errors import InputError
from mcpagent.safe_text import safe_line
from mcpagent.secret_store import is_key_name


@dataclass(frozen=True, slots=True)
class NewServer:
    """What `mcp add` was given: a command with its arguments, or one URL, and what belongs to it."""

    name: str
    target: Sequence[str]
    env: Sequence[str] = ()
    secret: Sequence[str] = ()
    header: Sequence[str] = ()
    transport: str = ""
    cwd: str = ""
    description: str = ""


def add_server(options: Options, new: NewServer, scope: WriteScope, *, replace: bool) -> ExitCode:
    """Writes the server into the user's or the project's file; a secret is never written into the latter."""
    terminal = open_terminal(options.color, os.environ)
    file = file_to_write(options, scope)
    if new.name in file.entries and not replace:
        place = place_of(file, new.name, options.folder)
        raise InputError(f'server "{new.name}" is there already ({place}); replace it with --replace')
    entry = entry_of(new)
    if file.is_project:
        _refuse_secrets(entry, file, options.folder)
    file.with_entry(new.name, entry)  # what cannot be written is said before a secret is asked for
    _store_secrets(options, new.secret, terminal)
    file = file.saved(lambda fresh: fresh.with_entry(new.name, entry))
    if file.is_project:
        _trust(options, file, new.name)
    _tell_added(options, terminal, file, new.name, entry)
    return ExitCode.OK


def remove_server(options: Options, name: str, scope: WriteScope | None) -> ExitCode:
    """Takes the server out of the file that counts, or of the one named."""
    terminal = open_terminal(options.color, os.environ)
    file = file_with(options, name, scope)
    file.saved(lambda fresh: fresh.without_entry(name))
    put(terminal.out, f"removed {name} from {short_path(str(file.path), options.folder)}")
    left = [other for other in files_found(options) if name in other.entries]
    if left:
        put(terminal.out, f"{name} is now the one of {place_of(left[-1], name, options.folder)}", style="dim")
    return ExitCode.OK


def switch_server(options: Options, name: str, scope: WriteScope | None, *, on: bool) -> ExitCode:
    """Enables or disables the server where it is configured."""
    terminal = open_terminal(options.color, os.environ)
    file = file_with(options, name, scope)
    changed = file.saved(lambda fresh: fresh.switched(name, on=on))
    word = "enabled" if on else "disabled"
    if changed.text == file.text:
        put(terminal.out, f"{name} is {word} already ({place_of(file, name, options.folder)})")
        return ExitCode.OK
    put(terminal.out, f"{word} {name} in {place_of(changed, name, options.folder)}")
    return ExitCode.OK


def entry_of(new: NewServer) -> dict[str, Any]:
    """The entry as it is written into a file. Raises `InputError`."""
    for name in new.secret:
        if not is_key_name(name):
            raise InputError(f"--secret {safe_line(name, 40)}: write a name such as GITHUB_TOKEN")
    words = _words(new)
    is_url = words[0].startswith(("http://", "https://"))
    entry: dict[str, Any] = {"type": new.transport} if new.transport else {}
    if is_url:
        if len(words) > 1:
            raise InputError(f"{safe_line(words[1], 60)}: an address takes no arguments")
        if new.env:
            raise InputError("--env is for commands; what an address needs goes into --header 'Name: value'")
        entry |= {"type": new.transport or "http", "url": words[0]}
        headers = dict(_header(text) for text in new.header)
        if new.secret and not any("${keyring:" in value for value in headers.values()):
            headers["Authorization"] = f"Bearer ${{keyring:{new.secret[0]}}}"
        return entry | _given(headers=headers, description=new.description)
    if new.header:
        raise InputError("--header is for addresses; what a command needs goes into --env NAME=VALUE")
    env = dict(_variable(text) for text in new.env) | {name: f"${{keyring:{name}}}" for name in new.secret}
    return entry | _given(command=words[0], args=words[1:], env=env, cwd=new.cwd, description=new.description)


def _words(new: NewServer) -> list[str]:
    words = list(new.target)
    if len(words) == 1 and any(char.isspace() for char in words[0]):
        try:
            words = shlex.split(words[0])
        except ValueError as error:
            raise InputError(f"{safe_line(words[0], 80)}: {error}; check the quotes") from None
    if not words or not words[0]:
        raise InputError(f"nothing to start: mcpagent mcp add {new.name} -- COMMAND ARGS..., or a URL")
    return words


def _given(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}


def _variable(text: str) -> tuple[str, str]:
    """`NAME=VALUE`, or `NAME` for the value that the environment has when the server is started."""
    name, equals, value = text.partition("=")
    if not name or not name.replace("_", "a").isalnum() or name[0].isdigit():
        raise InputError(f"--env {safe_line(text, 40)}: write NAME=VALUE, or NAME for a reference to that variable")
    return name, value if equals else f"${{{name}}}"


def _header(text: str) -> tuple[str, str]:
    at = min((place for mark in ":=" if (place := text.find(mark)) > 0), default=0)
    if not at:
        raise InputError(f"--header {safe_line(text, 20)}: write 'Name: value'")
    return text[:at].strip(), text[at + 1 :].strip()


def _refuse_secrets(entry: dict[str, Any], file: ServerFile, folder: Path) -> None:
    for found in literal_secrets(entry):
        raise InputError(
            f"{found} looks like a secret, and {short_path(str(file.path), folder)} is shared with the project: "
            f"write a reference, ${{{found.variable}}}; keep it with --secret {found.variable}; or --scope user"
        )


def _store_secrets(options: Options, names: Sequence[str], terminal: Terminal) -> None:
    """Asks for those that are not kept yet; one that is, is used."""
    from mcpagent.cli.key_commands import keep_secret
    from mcpagent.secret_store import key_store

    store = key_store(options.environ)
    for name in names:
        if store.get(name) is None:
            keep_secret(name, options.environ, terminal, store=store)
        else:
            put(terminal.out, f"{name} is kept already; another value: mcpagent keys set {name}", style="dim")


def _trust(options: Options, file: ServerFile, name: str) -> None:
    """Whoever typed the command need not be asked whether it may run."""
    from mcpagent.cli.trust import TrustStore, digest_of

    TrustStore.of_user(options.environ).add([digest_of(name, file.path, file.entries[name])])


def _tell_added(options: Options, terminal: Terminal, file: ServerFile, name: str, entry: dict[str, Any]) -> None:
    what = entry.get("url") or " ".join((entry["command"], *entry.get("args", ())))
    put(terminal.out, f"added {name} to {place_of(file, name, options.folder)}   {safe_line(what, 120)}")
    if "command" in entry and shutil.which(entry["command"], path=options.environ.get("PATH")) is None:
        put(
            terminal.err,
            f"! {safe_line(entry['command'], 60)} is not found on PATH; install it, or give its whole path",
        )
    for problem in load_servers(file.path, environ=options.environ).problems:
        if problem.name == name:
            put(terminal.err, f"! until then it is skipped: {safe_line(problem.reason, 400)}")
    if not file.is_project and any(is_literal_secret(key, value) for key, value in entry.get("env", {}).items()):
        put(terminal.err, "! a secret is in that file as it is; --secret NAME keeps it in the keyring instead")
    put(terminal.out, f"try it: mcpagent mcp test {name}", style="dim")
