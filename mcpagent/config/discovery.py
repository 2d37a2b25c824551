"""Where servers come from: a file, its content, values, or the files that are found from a folder up."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mcpagent.config.documents import Document, read_document
from mcpagent.config.folders import project_folders, user_config_folder
from mcpagent.config.permissions import without_own_permissions
from mcpagent.config.servers import checked_values, read_servers
from mcpagent.config.values import Scope, ServerConfig, ServerProblem, ServersConfig, ServersSource
from mcpagent.config.variables import SecretLookup, Variables


def load_servers(
    source: ServersSource,
    *,
    environ: Mapping[str, str] | None = None,
    label: str = "mcp_config",
    folder: Path | None = None,
    workspace: Path | None = None,
    secret: SecretLookup | None = None,
) -> ServersConfig:
    """The servers of a file, of its parsed content, or given as values.

    Variables are expanded from `environ` (default: the process's). For parsed content, `label` names it in errors and
    `folder` is what its relative paths start from (default: the current one). `workspace` is what `${workspaceFolder}`
    stands for (default: the file's folder).
    `secret` looks up `${keyring:name}`; without it the keys set by `mcpagent keys set` are meant, where `environ` is
    left out or has them (`with_stored_keys`). Disabled servers are listed with `disabled` True. Raises `ConfigError`.
    """
    environ, secret = _with_keys(environ, secret)
    if isinstance(source, str | Path):
        path = Path(source).expanduser()
        document = read_document(path)
        return replace(
            read_servers(document, Variables(environ, document.folder, secret, workspace)), files=(str(path),)
        )
    if isinstance(source, Mapping):
        document = Document(label, dict(source), {}, "", folder or Path.cwd())
        return read_servers(document, Variables(environ, document.folder, secret, workspace))
    return checked_values(tuple(source))


def _with_keys(
    environ: Mapping[str, str] | None, secret: SecretLookup | None
) -> tuple[Mapping[str, str], SecretLookup | None]:
    from mcpagent.secret_store import EnvironmentWithKeys, with_stored_keys

    environ = with_stored_keys(os.environ) if environ is None else environ
    if secret is None and isinstance(environ, EnvironmentWithKeys):
        secret = environ.secret
    return environ, secret


def load_found_servers(start: Path, environ: Mapping[str, str], *, secret: SecretLookup | None = None) -> ServersConfig:
    """The servers of all files `find_config_files` names; the later file wins by server name.

    What a project's file says in its own favour (`approval` "allow", `trust`) does not count. In the user's file
    `${workspaceFolder}` is the project's top.
    """
    merged: dict[str, ServerConfig | ServerProblem] = {}
    files = find_config_files(start, environ)
    for path in files:
        scope: Scope = "user" if path.parent == user_config_folder(environ) else "project"
        workspace = project_folders(start)[0] if scope == "user" else None
        loaded = load_servers(path, environ=environ, secret=secret, workspace=workspace)
        for server in loaded.servers:
            found = server if scope == "user" else without_own_permissions(server)
            merged[server.name] = replace(found, scope=scope)
        for problem in loaded.problems:
            merged[problem.name] = problem
    return ServersConfig(
        tuple(item for item in merged.values() if isinstance(item, ServerConfig)),
        tuple(item for item in merged.values() if isinstance(item, ServerProblem)),
        tuple(str(path) for path in files),
    )


def find_config_files(start: Path, environ: Mapping[str, str]) -> list[Path]:
    """The configuration files that exist, in reading order.

    First the user's `mcp.json`, then from the project's top (the folder with `.git`) down to `start` each `.mcp.json`,
    or `mcp_servers.json` where that is absent. Without a `.git` above, only `start` itself is looked at.
    """
    found = [user_config_folder(environ) / "mcp.json"]
    for folder in project_folders(start):
        names = (".mcp.json", "mcp_servers.json")
        found.extend([folder / name for name in names if (folder / name).is_file()][:1])
    return [path for path in found if path.is_file()]
