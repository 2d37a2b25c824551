"""Determine the servers of a command: files, `--server`, or the bundled demo server if there are none."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mcpagent.cli.frame.figures import counted
from mcpagent.cli.frame.options import Options
from mcpagent.config import (
    ServerConfig,
    ServersConfig,
    load_found_servers,
    load_named_servers,
    load_servers,
)
from mcpagent.config.secret_store import with_stored_keys
from mcpagent.config.server_files import merged_servers
from mcpagent.config.spellings import KEY_OF_SPELLING
from mcpagent.errors import ConfigError, InputError
from mcpagent.utilities.text.safe_text import safe_line, visible
from mcpagent.utilities.text.secrets import without_credentials, without_secrets

if TYPE_CHECKING:
    from mcpagent.agents.cards.teams import Team


@dataclass(frozen=True, slots=True)
class Configuration:
    """The servers of one command.

    `is_demo`: no server was configured, so the bundled one is used; `empty` are the found files without servers.
    `untrusted` are the names of the problems that only need consent (see `may_run/project_trust.py`). `own_code` are
    the servers whose code the person writes here. `replayed`: a recording replaces all servers. `team`: the cards of
    `--card`.
    """

    servers: ServersConfig
    is_demo: bool = False
    empty: tuple[str, ...] = ()
    untrusted: frozenset[str] = frozenset()
    own_code: frozenset[str] = frozenset()
    replayed: Path | None = None
    team: Team | None = None

    @property
    def enabled(self) -> tuple[ServerConfig, ...]:
        """The servers that are used."""
        return tuple(server for server in self.servers.servers if not server.disabled)

    @property
    def names(self) -> list[str]:
        """Names of all configured servers, including disabled and unusable ones."""
        return [server.name for server in self.servers.servers] + [
            problem.name for problem in self.servers.problems
        ]

    def describe(self, folder: Path) -> str:
        """Describe in one line how many servers there are, and their origin."""
        if self.replayed is not None:
            return f"a replay of {short_path(str(self.replayed), folder)}"
        if self.is_demo:
            return f"the bundled demo server ({self.why_demo(folder)})"
        files = (
            ", ".join(short_path(name, folder) for name in self.servers.files)
            or "--server"
        )
        return f"{counted(len(self.enabled) + len(self.servers.problems), 'server')} from {files}"

    def why_demo(self, folder: Path) -> str:
        """Return why the bundled server is used."""
        files = ", ".join(short_path(name, folder) for name in self.empty)
        if files:
            return f"no servers in {files}"
        return "no configuration"


def load_configuration(options: Options) -> Configuration:
    """Return the servers that the options, the folder and the user's configuration name. Raises `ConfigError`."""
    environ = with_stored_keys(options.environ)
    team = _team(options, environ)
    if options.replay is not None:
        return Configuration(ServersConfig(), replayed=options.replay, team=team)
    added = [_from_option(text, options.folder, environ) for text in options.server]
    if options.config:
        if Path() in options.config:  # "" is that too, as a path
            raise InputError(
                "--config: is empty or the folder itself; name a file with mcpServers"
            )
        servers = merged_servers(
            [*(load_named_servers(path, environ) for path in options.config), *added]
        )
    elif team is not None:
        servers = merged_servers([team.servers[team.first.name], *added])
        servers = replace(servers, files=servers.files or (team.first.path,))
    else:
        servers = merged_servers([load_found_servers(options.folder, environ), *added])
    is_named = bool(options.config) or team is not None
    if servers.servers or servers.problems or (servers.files and is_named):
        return Configuration(servers, team=team)
    from mcpagent.demo import demo_server_config

    demo = load_servers(demo_server_config(), environ=environ)
    return Configuration(demo, is_demo=True, empty=servers.files, team=team)


def _team(options: Options, environ: Mapping[str, str]) -> Team | None:
    if options.card is None:
        return None
    from mcpagent.agents.cards.teams import read_team

    return read_team(options.card, environ)


def _from_option(text: str, folder: Path, environ: Mapping[str, str]) -> ServersConfig:
    """Return the server of a `--server`. It runs in `folder`, so it is another server in each folder."""
    name, equals, target = text.partition("=")
    if text.startswith(("http://", "https://")):
        name, equals, target = urlsplit(text).hostname or "", "=", text
    name, target = name.strip(), target.strip()
    if not (equals and name and target):
        raise InputError(
            f"--server {safe_line(text, 60)!r}: write NAME='command args' or NAME=https://..."
        )
    if target.startswith(("http://", "https://")):
        entry: dict[str, object] = {"url": target}
    else:
        try:
            command, *arguments = shlex.split(target)
        except ValueError as error:
            raise InputError(
                f"--server {name}: {error}; check the quotes in {safe_line(target, 80)}"
            ) from None
        entry = {"command": command, "args": arguments}
    try:
        return load_servers(
            {"mcpServers": {name: entry}}, environ=environ, folder=folder.absolute()
        )
    except ConfigError as error:
        raise InputError(
            f"--server {str(error).removeprefix('mcp_config: ')}"
        ) from None


def short_path(name: str, folder: Path) -> str:
    """Return the path (maybe with `:line`) as a person would write it from here."""
    path = Path(name)
    for base, prefix in ((folder, ""), (Path.home(), "~/")):
        if path.is_relative_to(base):
            return safe_line(prefix + str(path.relative_to(base)), 120)
    return safe_line(name, 120)


def link_target(folder: Path, name: str | Path) -> str:
    """Return where the path of a file leads, as ` -> /etc/passwd`; "" if there is no link in it.

    A file of `/dev`, such as the pipe of a shell, is a link of the system.
    """
    path = Path(name).expanduser()
    real = os.path.realpath(folder / path)
    named = os.path.normpath(Path(os.path.realpath(folder), path))
    if real == named or named.startswith("/dev/"):
        return ""
    return f" -> {visible(real, kept='')}"


def link_lines(files: Iterable[Path], options: Options) -> list[str]:
    """Return a line for each file to be sent whose path has a link in it, which shows where it leads."""
    found = list(files)
    if options.instruction is not None:
        found.append(options.instruction)
    targets = [(file, link_target(options.folder, file)) for file in found]
    return [f"{safe_line(str(file), 100)}{to}" for file, to in targets if to]


def target_of(server: ServerConfig, limit: int = 100) -> str:
    """Return the server's command or address as written: variables are not expanded and no secret is shown.

    The query is omitted because it may contain a key.
    """
    entry = {
        KEY_OF_SPELLING.get(key, key): value for key, value in server.written.items()
    }
    url = str(entry.get("url") or server.url)
    if url:
        return safe_line(
            without_secrets(without_credentials(url.partition("?")[0])), limit
        )
    words = (
        entry.get("command") or server.command,
        *(entry.get("args") or server.args),
    )
    return safe_line(without_secrets(" ".join(map(str, words))), limit)
