"""Load servers from a file, its content, values, or the files found from a folder upwards.

Each server is checked; an unusable one does not stop the others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from types import NoneType
from typing import Any

from mcpagent.config.config_documents import ConfigDocument, kind_of, read_document
from mcpagent.config.jsonc import ValuePath
from mcpagent.config.server_config import (
    APPROVALS,
    Scope,
    ServerConfig,
    ServerProblem,
    ServersConfig,
    ServersSource,
    tool_prefix,
)
from mcpagent.config.server_entries import read_server
from mcpagent.config.variables import SecretLookup, UnusableError, Variables
from mcpagent.errors import ConfigError
from mcpagent.utilities.filesystem.user_folders import (
    is_users_own,
    project_folders,
    user_config_folder,
)
from mcpagent.utilities.python.argument_checks import expect, expect_arguments
from mcpagent.utilities.text.safe_text import safe_line

MAX_SERVERS = 1_000

_NAME = re.compile(r"[A-Za-z0-9_.@:/ -]{1,64}")


def load_servers(
    source: ServersSource,
    *,
    environ: Mapping[str, str] | None = None,
    label: str = "mcp_config",
    folder: Path | None = None,
    workspace: Path | None = None,
    secret: SecretLookup | None = None,
) -> ServersConfig:
    """Load the servers of a file, of its parsed content, or of a list of values.

    Variables are expanded from `environ` (default: the process's). For parsed content, `label` names it in errors, and
    relative paths start from `folder` (default: the current one). `workspace` is the value of `${workspaceFolder}`
    (default: the file's folder). `secret` looks up `${keyring:name}`. By default, these are the keys set by `mcpagent
    keys set`, if `environ` is omitted or comes from `with_stored_keys`. Disabled servers are listed with `disabled`
    True. Raises `ConfigError`.
    """
    expect(
        label,
        source,
        (str, Path, Mapping, list, tuple),
        "a file, a dict, or a list of ServerConfig",
    )
    expect("environ", environ, (Mapping, NoneType), "a dict or None")
    others = {
        "label": label,
        "folder": folder,
        "workspace": workspace,
        "secret": secret,
    }
    expect_arguments("load_servers", load_servers, others)
    environ, secret = _with_keys(environ, secret)
    if isinstance(source, str | Path):
        path = Path(source).expanduser()
        document = read_document(path)
        return replace(
            read_servers(
                document, Variables(environ, document.folder, secret, workspace)
            ),
            files=(str(path),),
        )
    if isinstance(source, Mapping):
        if folder is None:
            runs_in = ""
        else:
            runs_in = str(folder)
        document = ConfigDocument(
            label, dict(source), {}, "", folder or Path.cwd(), runs_in
        )
        return read_servers(
            document, Variables(environ, document.folder, secret, workspace)
        )
    return _checked_values(tuple(source))


def _with_keys(
    environ: Mapping[str, str] | None, secret: SecretLookup | None
) -> tuple[Mapping[str, str], SecretLookup | None]:
    from mcpagent.config.secret_store import EnvironmentWithKeys, with_stored_keys

    if environ is None:
        environ = with_stored_keys(os.environ)
    if secret is None and isinstance(environ, EnvironmentWithKeys):
        secret = environ.secret
    return environ, secret


def load_found_servers(start: Path, environ: Mapping[str, str]) -> ServersConfig:
    """Load the servers of all files from `find_config_files`; if two have the same name, the later file wins.

    A project's file cannot grant itself permissions (`approval` "allow", `trust`). In the user's file,
    `${workspaceFolder}` is the top folder of the project.
    """
    found: list[ServersConfig] = []
    for path in find_config_files(start, environ):
        is_found_there = path.parent == user_config_folder(environ)
        scope: Scope = (
            "user" if is_found_there and is_users_own(path, environ) else "project"
        )
        workspace = None
        if scope == "user":
            workspace = project_folders(start)[0]
        loaded = load_servers(path, environ=environ, workspace=workspace)
        found.append(_of_scope(loaded, scope))
    return merged_servers(found)


def _of_scope(loaded: ServersConfig, scope: Scope) -> ServersConfig:
    """Return the servers with this scope. Entries of a project can make rules stricter, but cannot grant themselves
    permissions.
    """
    servers = tuple(replace(server, scope=scope) for server in loaded.servers)
    if scope == "project":
        servers = tuple(
            replace(
                server,
                approval=tuple(rule for rule in server.approval if rule[1] != "allow"),
                trust_hints=False,
            )
            for server in servers
        )
    return replace(loaded, servers=servers)


def vouches_for_itself(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry grants itself calls without approval, or trust; only the user may grant these."""
    approval = entry.get("approval")
    said = approval.values() if isinstance(approval, Mapping) else [approval]
    allows = any(
        isinstance(word, str) and APPROVALS.get(word) == "allow" for word in said
    )
    return allows or any(
        entry.get(key) is True for key in ("trust", "trust_hints", "trustHints")
    )


def merged_servers(sources: Sequence[ServersConfig]) -> ServersConfig:
    """Merge several configurations into one; if two servers have the same name, the later one wins."""
    merged: dict[str, ServerConfig | ServerProblem] = {}
    for source in sources:
        merged |= {server.name: server for server in source.servers}
        merged |= {problem.name: problem for problem in source.problems}
    return ServersConfig(
        tuple(item for item in merged.values() if isinstance(item, ServerConfig)),
        tuple(item for item in merged.values() if isinstance(item, ServerProblem)),
        tuple(dict.fromkeys(name for source in sources for name in source.files)),
    )


def load_named_servers(
    path: Path, environ: Mapping[str, str], scope: Scope = ""
) -> ServersConfig:
    """Return the servers of a file that was named explicitly: "user" if it is the user's own, else with this `scope`.

    The default "" is for a file that the user named, which counts as consent.
    """
    if is_users_own(Path(path).expanduser(), environ):
        scope = "user"
    return _of_scope(load_servers(path, environ=environ), scope)


def find_config_files(start: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the existing configuration files in reading order.

    First the user's `mcp.json`, then, from the project's top (the folder with `.git`) down to `start`, each
    `.mcp.json`, or `mcp_servers.json` if that is missing. Without a `.git` above, only `start` itself is searched.
    """
    found = [user_config_folder(environ) / "mcp.json"]
    for folder in project_folders(start):
        names = (".mcp.json", "mcp_servers.json")
        found.extend([folder / name for name in names if _is_there(folder / name)][:1])
    return [path for path in found if _is_there(path)]


def _is_there(path: Path) -> bool:
    """Return whether the path exists and is not a folder; an unreadable file is not skipped but reported later."""
    return os.path.lexists(path) and not path.is_dir()


def read_servers(document: ConfigDocument, variables: Variables) -> ServersConfig:
    """Return the servers of one document, with unusable servers as `problems`. Raises `ConfigError` for other
    errors.
    """
    root, entries = server_entries(document)
    if len(entries) > MAX_SERVERS:
        raise document.error(
            root, f"{len(entries)} servers; the limit is {MAX_SERVERS}"
        )
    servers: list[ServerConfig] = []
    problems: list[ServerProblem] = []
    for name, entry in entries.items():
        path = (*root, name)
        _check_name(name, document, path)
        if not isinstance(entry, Mapping):
            raise document.error(
                path,
                f'expected an object with "command" or "url", got {kind_of(entry)}',
            )
        try:
            servers.append(read_server(name, dict(entry), path, document, variables))
        except UnusableError as error:
            problems.append(
                ServerProblem(name, str(document.error(error.path, error.what)))
            )
    _refuse_equal_prefixes(
        [*(server.name for server in servers), *(problem.name for problem in problems)],
        document,
    )
    return ServersConfig(tuple(servers), tuple(problems))


def server_entries(document: ConfigDocument) -> tuple[ValuePath, dict[str, Any]]:
    """Return the path of the object that contains the servers, and the unchanged entries in it. Raises
    `ConfigError`.
    """
    data = document.data
    if not isinstance(data, Mapping):
        raise document.error(
            (), f'expected an object with "mcpServers", got {kind_of(data)}'
        )
    for key in ("mcpServers", "servers", "mcp_servers"):
        if key in data:
            if not isinstance(data[key], Mapping):
                raise document.error(
                    (key,),
                    f"expected an object of name -> server, got {kind_of(data[key])}",
                )
            return (key,), dict(data[key])
    if data and all(
        isinstance(entry, Mapping) and {"command", "url", "openapi"} & entry.keys()
        for entry in data.values()
    ):
        return (), dict(data)
    near = get_close_matches("mcpServers", [str(key) for key in data], n=1, cutoff=0.6)
    hint = '; write {"mcpServers": {"name": {"command": "..."}}}'
    if near:
        hint = f'; "{near[0]}" should be "mcpServers"'
    raise document.error((near[0],) if near else (), f'no "mcpServers" found{hint}')


def _check_name(name: str, document: ConfigDocument, path: ValuePath) -> None:
    if not _NAME.fullmatch(name) or ".." in name or not re.search(r"[A-Za-z0-9]", name):
        what = f'server name "{safe_line(name, 70)}" must be 1 to 64 of A-Z, a-z, 0-9, "_", "-", ".", "/", "@", ":"'
        raise document.error(path[:-1], f"{what}; rename it")


def _refuse_equal_prefixes(names: list[str], document: ConfigDocument) -> None:
    seen: dict[str, str] = {}
    for name in names:
        prefix = tool_prefix(name)
        other = seen.setdefault(prefix, name)
        if other != name:
            raise ConfigError(
                f'{document.label}: servers "{other}" and "{name}" give the same tool prefix "{prefix}"; rename one'
            )


def _checked_values(servers: tuple[Any, ...]) -> ServersConfig:
    for server in servers:
        if not isinstance(server, ServerConfig):
            raise ConfigError(
                f"mcp_config: expected ServerConfig values, got {kind_of(server)}"
            )
        is_api = bool(server.openapi) and not server.command
        is_one = is_api or bool(server.command) != bool(server.url)
        if not is_one and not server.disabled:
            raise ConfigError(
                f'mcp_config: server "{server.name}": give exactly one of command and url'
            )
    document = ConfigDocument("mcp_config", None, {}, "", Path.cwd())
    names = [server.name for server in servers]
    for name in names:
        _check_name(name, document, (name,))
        if names.count(name) > 1:
            raise ConfigError(f'mcp_config: two servers are named "{name}"; rename one')
    _refuse_equal_prefixes(names, document)
    return ServersConfig(servers)
