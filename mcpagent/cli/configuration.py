"""Which servers a command works with: files, `--server`, or the bundled demo server where there is nothing."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from mcpagent.cli.options import Options
from mcpagent.config import ServerConfig, ServerProblem, ServersConfig, load_found_servers, load_servers
from mcpagent.config.spellings import KEY_OF_SPELLING
from mcpagent.errors import ConfigError, InputError
from mcpagent.safe_text import safe_line
from mcpagent.secret_shapes import without_shapes
from mcpagent.secret_store import with_stored_keys


@dataclass(frozen=True, slots=True)
class Configuration:
    """The servers of one command. `is_demo`: nothing was configured, so the bundled server stands in.

    `untrusted` names those of the problems that only wait for a yes (see `trust.py`). `replayed`: a recording stands in
    for all servers.
    """

    servers: ServersConfig
    is_demo: bool = False
    untrusted: frozenset[str] = frozenset()
    replayed: Path | None = None

    @property
    def enabled(self) -> tuple[ServerConfig, ...]:
        return tuple(server for server in self.servers.servers if not server.disabled)

    @property
    def names(self) -> list[str]:
        """All configured servers, also those that are disabled or cannot be used."""
        return [server.name for server in self.servers.servers] + [problem.name for problem in self.servers.problems]

    def describe(self, folder: Path) -> str:
        """One line: how many servers, from where."""
        count = len(self.enabled) + len(self.servers.problems)
        noun = "server" if count == 1 else "servers"
        if self.replayed is not None:
            return f"a replay of {short_path(str(self.replayed), folder)}"
        if self.is_demo:
            return "the bundled demo server"
        files = ", ".join(short_path(name, folder) for name in self.servers.files) or "--server"
        return f"{count} {noun} from {files}"


def load_configuration(options: Options) -> Configuration:
    """The servers that the options, the folder and the user's configuration name. Raises `ConfigError`."""
    if options.replay is not None:
        return Configuration(ServersConfig(), replayed=options.replay)
    environ = with_stored_keys(options.environ)
    if options.card is not None and not options.config:
        from mcpagent.agent_cards import card_at, card_servers

        card = card_at(options.card)
        servers = _merged([card_servers(card, environ), *(_from_option(text, environ) for text in options.server)])
        return Configuration(replace(servers, files=servers.files or (card.path,)))
    if options.config:
        found = _merged([load_servers(path, environ=environ) for path in options.config])
    else:
        found = load_found_servers(options.folder, environ)
    by_option = [_from_option(text, environ) for text in options.server]
    servers = _merged([found, *by_option])
    if servers.servers or servers.problems or servers.files:
        return Configuration(servers)
    from mcpagent.demo import demo_server_config

    return Configuration(load_servers(demo_server_config(), environ=environ), is_demo=True)


def _merged(sources: Sequence[ServersConfig]) -> ServersConfig:
    """One configuration of several; the later one wins by server name."""
    merged: dict[str, ServerConfig | ServerProblem] = {}
    for source in sources:
        merged.update({server.name: server for server in source.servers})
        merged.update({problem.name: problem for problem in source.problems})
    return ServersConfig(
        tuple(item for item in merged.values() if isinstance(item, ServerConfig)),
        tuple(item for item in merged.values() if isinstance(item, ServerProblem)),
        tuple(dict.fromkeys(name for source in sources for name in source.files)),
    )


def _from_option(text: str, environ: Mapping[str, str]) -> ServersConfig:
    name, equals, target = text.partition("=")
    if text.startswith(("http://", "https://")):
        name, equals, target = urlsplit(text).hostname or "", "=", text
    name, target = name.strip(), target.strip()
    if not (equals and name and target):
        raise InputError(f"--server {safe_line(text, 60)!r}: write NAME='command args' or NAME=https://...")
    if target.startswith(("http://", "https://")):
        entry: dict[str, object] = {"url": target}
    else:
        try:
            command, *arguments = shlex.split(target)
        except ValueError as error:
            raise InputError(f"--server {name}: {error}; check the quotes in {safe_line(target, 80)}") from None
        entry = {"command": command, "args": arguments}
    try:
        return load_servers({"mcpServers": {name: entry}}, environ=environ)
    except ConfigError as error:
        raise InputError(f"--server {str(error).removeprefix('mcp_config: ')}") from None


def short_path(name: str, folder: Path) -> str:
    """The path (maybe with `:line`) as a person would write it from here."""
    path = Path(name)
    for base, prefix in ((folder, ""), (Path.home(), "~/")):
        if path.is_relative_to(base):
            return safe_line(prefix + str(path.relative_to(base)), 120)
    return safe_line(name, 120)


def target_of(server: ServerConfig, limit: int = 100) -> str:
    """What is started or where it is, as it is written: variables are not expanded and no key of an issuer is shown.

    A query may hold a key, so it is left out.
    """
    entry = {KEY_OF_SPELLING.get(key, key): value for key, value in server.written.items()}
    url = str(entry.get("url") or server.url)
    if url:
        address = url.partition("?")[0]
        credentials = address.partition("://")[2].partition("/")[0].rpartition("@")[0]
        return safe_line(without_shapes(address.replace(f"{credentials}@", "", 1) if credentials else address), limit)
    words = [entry.get("command") or server.command, *(entry.get("args") or server.args)]
    return safe_line(without_shapes(" ".join(map(str, words))), limit)
