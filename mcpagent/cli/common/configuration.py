"""Determine the servers of a command: files, `--server`, or else the bundled demo server."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mcpagent.cli.common.number_formats import counted
from mcpagent.cli.common.options import Options
from mcpagent.config import (
    ServerConfig,
    ServersConfig,
    load_found_servers,
    load_named_servers,
    load_servers,
)
from mcpagent.config.config_documents import near_file
from mcpagent.config.secret_store import with_stored_keys
from mcpagent.config.server_files import merged_servers
from mcpagent.config.spellings import KEY_OF_SPELLING
from mcpagent.errors import ConfigError, InputError
from mcpagent.skills.finding_skills import find_skills, skill_places
from mcpagent.toolsets.api_toolset import openapi_toolset
from mcpagent.utilities.text.safe_text import safe_line, visible
from mcpagent.utilities.text.secrets import without_credentials, without_secrets

if TYPE_CHECKING:
    from mcpagent.agents.cards.teams import Team
    from mcpagent.skills.skill_folders import Skill


@dataclass(frozen=True, slots=True)
class Configuration:
    """The servers of one command.

    - `is_demo`: no server was configured, so the bundled one is used. `empty`: found configuration files without
      servers.
    - `untrusted`: names of the problems that only need consent (`approvals/project_trust.py`).
    - `own_code`: servers whose programs may be the user's own, with their project folder. The entries of `own_files`
      also name a file in it.
    - `replayed`: a recording that replaces all servers. `team`: the cards of `--card`.
    - `skills`: the skills of the folder and of the user; of several with a name, the first. `skill_problems`: a line
      for each omitted skill.
    """

    servers: ServersConfig
    is_demo: bool = False
    empty: tuple[str, ...] = ()
    untrusted: frozenset[str] = frozenset()
    own_code: Mapping[str, Path] = field(default_factory=dict[str, Path])
    own_files: frozenset[str] = frozenset()
    replayed: Path | None = None
    team: Team | None = None
    skills: tuple[Skill, ...] = ()
    skill_problems: tuple[str, ...] = ()

    @property
    def enabled(self) -> tuple[ServerConfig, ...]:
        """The enabled servers."""
        return tuple(server for server in self.servers.servers if not server.disabled)

    @property
    def names(self) -> list[str]:
        """Names of all configured servers, including disabled and unusable ones."""
        return [server.name for server in self.servers.servers] + [
            problem.name for problem in self.servers.problems
        ]

    def describe(self, folder: Path) -> str:
        """Describe in one line the number and the origin of the servers."""
        if self.replayed is not None:
            return f"a replay of {short_path(str(self.replayed), folder)}"
        if self.is_demo:
            return f"{self.describe_briefly()} ({self.why_demo(folder)})"
        servers, comma, refused = self.describe_briefly().partition(", ")
        return f"{servers} from {', '.join(self._places(folder))}{comma}{refused}"

    def _places(self, folder: Path) -> list[str]:
        """Return the files that servers come from, and `--server` or `--openapi` if used; all files if one has an
        error.
        """
        used = {server.source.rpartition(":")[0] for server in self.servers.servers}
        files = [
            short_path(name, folder)
            for name in self.servers.files
            if name in used or self.servers.problems or not self.servers.servers
        ]
        if any(server.openapi and not server.source for server in self.enabled):
            files.append("--openapi")
        if any(not server.openapi and not server.source for server in self.enabled):
            files.append("--server")
        return files

    def describe_briefly(self) -> str:
        """Describe in a few words the number of servers."""
        if self.replayed is not None:
            return "a replay"
        if self.is_demo:
            return "the bundled demo server"
        used = len(self.enabled) + len(self.servers.problems) - len(self.untrusted)
        if self.untrusted:
            return f"{counted(used, 'server')}, {len(self.untrusted)} not trusted"
        return counted(used, "server")

    def why_demo(self, folder: Path) -> str:
        """Return why the bundled server is used."""
        files = ", ".join(short_path(name, folder) for name in self.empty)
        if files:
            return f"no servers in {files}"
        return "no configuration"


def load_configuration(options: Options) -> Configuration:
    """Return the servers and skills that the options, the folder and the user's files define. Raises `ConfigError`."""
    configuration = _configured_servers(options)
    if configuration.replayed is not None:
        return configuration
    found = find_skills(skill_places(options.folder, options.environ))
    return replace(configuration, skills=found.skills, skill_problems=found.problems)


def _configured_servers(options: Options) -> Configuration:
    environ = with_stored_keys(options.environ)
    team = _team(options, environ)
    if options.replay is not None:
        return Configuration(ServersConfig(), replayed=options.replay, team=team)
    added = [_from_option(text, options.folder, environ) for text in options.server]
    added += [_api_from_option(text, options.folder) for text in options.openapi]
    if options.config:
        if Path() in options.config:  # "" becomes the same path
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


def _api_from_option(text: str, folder: Path) -> ServersConfig:
    """Return the HTTP API of a `--openapi` option, named after its host or file unless the option names it."""
    named = re.fullmatch(r"([A-Za-z][\w-]*)=(.+)", text.strip())
    name, source = named.groups() if named is not None else ("", text.strip())
    if not source.startswith(("http://", "https://")):
        path = folder.absolute() / Path(source).expanduser()
        if not path.exists():
            shown = safe_line(source, 100)
            raise ConfigError(
                f"--openapi {shown}: not found{near_file(path)}; name a file or the address of an OpenAPI document"
            )
        source = str(path)
    try:
        return ServersConfig((openapi_toolset(source, name=name),))
    except ConfigError as error:
        raise InputError(f"--openapi {safe_line(text, 60)!r}: {error}") from None


def _from_option(text: str, folder: Path, environ: Mapping[str, str]) -> ServersConfig:
    """Return the server of a `--server` option. It runs in `folder`, so the same option means different servers in
    different folders.
    """
    name, equals, target = text.partition("=")
    if text.startswith(("http://", "https://")):
        name, equals, target = urlsplit(text).hostname or "", "=", text
    name, target = name.strip(), target.strip()
    if not (equals and name and target):
        raise InputError(
            f"--server {safe_line(text, 60)!r}: write NAME='command args' or NAME=https://..."
        )
    if target.isdigit():
        raise InputError(
            f"--server {name}: {target} is a port; write {name}=http://localhost:{target}/mcp"
        )
    if fixed := meant_target(target):
        raise InputError(f"--server {name}: write {name}={shlex.quote(fixed)}")
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


_ADDRESS = re.compile(r"(?:localhost|\d+(?:\.\d+){3}|[\w-]+(?:\.[\w-]+)+):\d+(?:/\S*)?")
_NPM_PACKAGE = re.compile(r"@[\w.-]+/[\w.-]+(?:@[\w.-]+)?")


def meant_target(word: str) -> str:
    """Return the server that a single word means if it cannot be a command: an address without scheme, an npm
    package.
    """
    if _ADDRESS.fullmatch(word):
        return f"http://{word}"
    if _NPM_PACKAGE.fullmatch(word):
        return f"npx -y {word}"
    return ""


def short_path(name: str, folder: Path) -> str:
    """Return the path (with an optional `:line`) as a user would write it in this folder."""
    path = Path(name)
    if path == Path.home():
        return "~"
    for base, prefix in ((folder, ""), (Path.home(), "~/")):
        if path.is_relative_to(base):
            return safe_line(prefix + str(path.relative_to(base)), 120)
    return safe_line(name, 120)


def link_target(folder: Path, name: str | Path) -> str:
    """Return the target of a path that contains a link, as ` -> /etc/passwd`; otherwise "".

    Files in `/dev`, such as the pipe of a shell, are links of the system and do not count.
    """
    path = Path(name).expanduser()
    real = os.path.realpath(folder / path)
    named = os.path.normpath(Path(os.path.realpath(folder), path))
    if real == named or named.startswith("/dev/"):
        return ""
    return f" -> {visible(real, kept='')}"


def link_lines(files: Iterable[Path], options: Options) -> list[str]:
    """Return a line for each file to be sent whose path contains a link, with the target of the link."""
    found = list(files)
    if options.instruction is not None:
        found.append(options.instruction)
    targets = [(file, link_target(options.folder, file)) for file in found]
    return [f"{safe_line(str(file), 100)}{to}" for file, to in targets if to]


def target_of(server: ServerConfig, limit: int = 100) -> str:
    """Return the server's command or address as written: variables are not expanded, and secrets are hidden.

    The query is omitted because it may contain a key.
    """
    entry = {
        KEY_OF_SPELLING.get(key, key): value for key, value in server.written.items()
    }
    url = str(entry.get("url") or server.url)
    if not url and isinstance(server.openapi, str):
        url = server.openapi
    if url:
        return safe_line(
            without_secrets(without_credentials(url.partition("?")[0])), limit
        )
    words = (
        entry.get("command") or server.command,
        *(entry.get("args") or server.args),
    )
    return safe_line(without_secrets(" ".join(map(str, words))), limit)
