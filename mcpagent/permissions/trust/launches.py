"""Resolve a server's command into a `Launch`: its program, arguments, folder and environment."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from mcpagent.config import ServerConfig
from mcpagent.errors import ServerError
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import revealed

_INHERITED = """
    HOME LOGNAME PATH SHELL TERM USER LANG LANGUAGE LC_ALL LC_CTYPE TZ TMPDIR
    SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS
    XDG_CACHE_HOME XDG_DATA_HOME XDG_CONFIG_HOME XDG_RUNTIME_DIR XDG_STATE_HOME
    APPDATA HOMEDRIVE HOMEPATH LOCALAPPDATA PATHEXT PROCESSOR_ARCHITECTURE PROGRAMDATA PROGRAMFILES
    SYSTEMDRIVE SYSTEMROOT TEMP TMP USERNAME USERPROFILE
"""
"""The environment variables that a server inherits from mcpagent, in addition to those in its configuration: enough to
run, and no secrets.
"""


@dataclass(frozen=True, slots=True)
class Launch:
    """A process to start. `environment` is its complete environment.

    `program` is a path; `folder` is the working folder, "" for the current one.
    """

    program: str
    arguments: tuple[str, ...] = field(repr=False)
    folder: str
    environment: Mapping[str, str] = field(repr=False)


def launch_of(config: ServerConfig, environ: Mapping[str, str]) -> Launch:
    """Resolve the command of a server. Raises `ServerError` (phase "start") if it cannot be started."""
    environment = child_environment(config, environ)
    program = find_program(config, environment)
    return Launch(
        program,
        tuple(map(revealed, config.args)),
        config.cwd,
        environment,
    )


def child_environment(
    config: ServerConfig, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the inherited variables of `environ` (an allow list), and those that the configuration sets."""
    inherited = {
        name: environ[name]
        for name in _INHERITED.split()
        if name in environ and not environ[name].startswith("()")
    }
    return (
        inherited
        | {"PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1"}
        | {name: revealed(text) for name, text in config.env.items()}
    )


def find_program(config: ServerConfig, environment: Mapping[str, str]) -> str:
    """Return the path of the program that a command names. Raises `ServerError`, which suggests a similar name, if it
    is missing.

    A command with a slash is a path relative to the server's folder. Another command is searched only in the absolute
    folders of PATH.
    """
    command = revealed(config.command)
    if config.cwd and not Path(config.cwd).is_dir():
        raise start_error(
            config, f'the folder "{safe_line(config.cwd)}" does not exist; fix "cwd"'
        )
    if os.sep in command or (os.altsep and os.altsep in command):
        path = (Path(config.cwd) / Path(command).expanduser()).absolute()
        if found := shutil.which(path):
            return str(found)
        if path.is_dir():
            why = "is a directory"
        elif path.exists():
            why = "is not executable"
        else:
            why = "does not exist"
        raise start_error(config, f'"{safe_line(command)}" {why}; fix "command"')
    search = [
        folder
        for folder in environment.get("PATH", os.defpath).split(os.pathsep)
        if os.path.isabs(folder)
    ]
    for folder in search:
        if found := shutil.which(os.path.join(folder, command)):
            return found
    if (split := split_command(command)) is not None:
        raise start_error(
            config, f'"{safe_line(command)}" is a whole command line; write {split}'
        )
    near = get_close_matches(command, _programs(search), n=1, cutoff=0.75)
    hint = 'install it, or give its full path in "command"'
    if near:
        hint = f'did you mean "{near[0]}"?'
    raise start_error(config, f'"{safe_line(command)}" is not on PATH; {hint}')


def split_command(command: str) -> str | None:
    """Return how to write a whole command line as `command` and `args`; None if it is a single word."""
    try:
        program, *arguments = shlex.split(command)
    except ValueError:
        return None
    if not arguments:
        return None
    return f'"command": {json.dumps(program)}, "args": {json.dumps(arguments)}'


def _programs(folders: list[str]) -> list[str]:
    names: set[str] = set()
    for folder in folders:
        with contextlib.suppress(OSError):
            names.update(os.listdir(folder))
    return sorted(names)


def start_error(config: ServerConfig, what: str) -> ServerError:
    """Return the error for a program that could not be started, with the reason."""
    return ServerError(
        f'server "{config.name}" could not start: {what}',
        server=config.name,
        phase="start",
    )
