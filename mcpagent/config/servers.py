"""The servers of one document or of values, each checked; one that cannot be used does not stop the others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from mcpagent.config.documents import Document, kind_of
from mcpagent.config.entries import read_server
from mcpagent.config.jsonc import ValuePath
from mcpagent.config.values import ServerConfig, ServerProblem, ServersConfig, tool_prefix
from mcpagent.config.variables import UnusableError, Variables
from mcpagent.errors import ConfigError
from mcpagent.safe_text import safe_line

MAX_SERVERS = 1_000

_NAME = re.compile(r"[A-Za-z0-9_.@:/ -]{1,64}")


def read_servers(document: Document, variables: Variables) -> ServersConfig:
    root, entries = server_entries(document)
    if len(entries) > MAX_SERVERS:
        raise document.error(root, f"{len(entries)} servers; the limit is {MAX_SERVERS}")
    servers: list[ServerConfig] = []
    problems: list[ServerProblem] = []
    for name, entry in entries.items():
        path = (*root, name)
        _check_name(name, document, path)
        if not isinstance(entry, Mapping):
            raise document.error(path, f'expected an object with "command" or "url", got {kind_of(entry)}')
        try:
            servers.append(read_server(name, dict(entry), path, document, variables))
        except UnusableError as error:
            problems.append(ServerProblem(name, str(document.error(error.path, error.what))))
    _refuse_equal_prefixes([*(server.name for server in servers), *(problem.name for problem in problems)], document)
    return ServersConfig(tuple(servers), tuple(problems))


def server_entries(document: Document) -> tuple[ValuePath, dict[str, Any]]:
    data = document.data
    if not isinstance(data, Mapping):
        raise document.error((), f'expected an object with "mcpServers", got {kind_of(data)}')
    for key in ("mcpServers", "servers", "mcp_servers"):
        if key in data:
            if not isinstance(data[key], Mapping):
                raise document.error((key,), f"expected an object of name -> server, got {kind_of(data[key])}")
            return (key,), dict(data[key])
    if data and all(isinstance(entry, Mapping) and {"command", "url"} & entry.keys() for entry in data.values()):
        return (), dict(data)
    near = get_close_matches("mcpServers", [str(key) for key in data], n=1, cutoff=0.6)
    hint = f'; "{near[0]}" should be "mcpServers"' if near else '; write {"mcpServers": {"name": {"command": "..."}}}'
    raise document.error((near[0],) if near else (), f'no "mcpServers" found{hint}')


def _check_name(name: str, document: Document, path: ValuePath) -> None:
    if not _NAME.fullmatch(name) or ".." in name or not re.search(r"[A-Za-z0-9]", name):
        what = f'server name "{safe_line(name, 70)}" must be 1 to 64 of A-Z, a-z, 0-9, "_", "-", ".", "/", "@", ":"'
        raise document.error(path[:-1], f"{what}; rename it")


def _refuse_equal_prefixes(names: list[str], document: Document) -> None:
    seen: dict[str, str] = {}
    for name in names:
        prefix = tool_prefix(name)
        other = seen.setdefault(prefix, name)
        if other != name:
            raise ConfigError(
                f'{document.label}: servers "{other}" and "{name}" give the same tool prefix "{prefix}"; rename one'
            )


def checked_values(servers: tuple[Any, ...]) -> ServersConfig:
    for server in servers:
        if not isinstance(server, ServerConfig):
            raise ConfigError(f"mcp_config: expected ServerConfig values, got {kind_of(server)}")
        if bool(server.command) == bool(server.url) and not server.disabled:
            raise ConfigError(f'mcp_config: server "{server.name}": give exactly one of command and url')
    document = Document("mcp_config", None, {}, "", Path.cwd())
    names = [server.name for server in servers]
    for name in names:
        _check_name(name, document, (name,))
        if names.count(name) > 1:
            raise ConfigError(f'mcp_config: two servers are named "{name}"; rename one')
    _refuse_equal_prefixes(names, document)
    return ServersConfig(servers)
