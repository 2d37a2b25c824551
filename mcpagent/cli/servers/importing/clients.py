"""Locate and read the server configurations of other MCP clients.

Paths and keys follow the clients' own documentation: Claude Desktop (modelcontextprotocol.io, "Connect to local
servers"), Claude Code and its `~/.claude.json`, Cursor, VS Code ("MCP configuration reference"), Codex ("Model Context
Protocol" in its configuration), Gemini CLI (`settings.json`), goose (`config.yaml`), Windsurf ("Cascade MCP
integration"), Zed ("Model Context Protocol").
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mcpagent.cli.common.options import Client
from mcpagent.config.config_documents import parse_document, read_bytes
from mcpagent.errors import ConfigError
from mcpagent.utilities.filesystem.user_folders import project_folders
from mcpagent.utilities.text.front_matter import bounded_yaml
from mcpagent.utilities.text.safe_text import safe_line


@dataclass(frozen=True, slots=True)
class ClientFile:
    """A configuration file of a client; `is_project`: it belongs to the project, not to the user."""

    client: Client
    path: Path
    is_project: bool = False


_OF_USER: tuple[tuple[Client, str, str], ...] = (
    ("claude-desktop", "settings", "Claude/claude_desktop_config.json"),
    ("claude-code", "home", ".claude.json"),
    ("cursor", "home", ".cursor/mcp.json"),
    ("vscode", "settings", "Code/User/mcp.json"),
    ("vscode", "settings", "Code/User/profiles/*/mcp.json"),
    ("vscode", "settings", "Code - Insiders/User/mcp.json"),
    ("vscode", "settings", "Code - Insiders/User/profiles/*/mcp.json"),
    ("codex", "codex", "config.toml"),
    ("gemini", "home", ".gemini/settings.json"),
    ("goose", "goose", "config.yaml"),
    ("windsurf", "home", ".codeium/windsurf/mcp_config.json"),
    ("zed", "zed", "settings.json"),
)
"""Rows: client, the base folder of the path (see `_folders`), and the path, which may be a glob."""

_OF_PROJECT: tuple[tuple[Client, str], ...] = (
    ("cursor", ".cursor/mcp.json"),
    ("vscode", ".vscode/mcp.json"),
    ("codex", ".codex/config.toml"),
    ("gemini", ".gemini/settings.json"),
)
_SECTIONS: Mapping[Client, str] = {
    "vscode": "servers",
    "codex": "mcp_servers",
    "goose": "extensions",
    "zed": "context_servers",
}
"""The key under which a client lists its servers; all other clients use `mcpServers`."""


def client_files(
    environ: Mapping[str, str], folder: Path, platform: str = sys.platform
) -> list[ClientFile]:
    """Return the existing files: the user's file of each client, then the project's from the top folder down to
    `folder`.
    """
    folders = _folders(environ, platform)
    found = [
        ClientFile(client, path)
        for client, base, name in _OF_USER
        for path in sorted(folders[base].glob(name))
    ]
    for above in project_folders(folder):
        found += [
            ClientFile(client, above / name, is_project=True)
            for client, name in _OF_PROJECT
        ]
    seen: dict[Path, ClientFile] = {}
    for file in found:  # in the home folder, a project's files are the user's own
        if _is_file(file.path):
            seen.setdefault(file.path, file)
    return list(seen.values())


def _folders(environ: Mapping[str, str], platform: str) -> dict[str, Path]:
    home = Path(environ.get("HOME") or environ.get("USERPROFILE") or Path.home())
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    roaming = Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
    settings = {
        "darwin": home / "Library" / "Application Support",
        "win32": roaming,
    }.get(platform, config)
    if platform == "win32":
        goose = roaming / "Block" / "goose" / "config"
    else:
        goose = config / "goose"
    codex = Path(environ.get("CODEX_HOME") or home / ".codex")
    zed = config / "zed"
    if platform == "win32":
        zed = roaming / "Zed"
    bases = {"home": home, "settings": settings, "codex": codex, "goose": goose}
    return bases | {"zed": zed}


def usual_file(
    client: Client, environ: Mapping[str, str], platform: str = sys.platform
) -> ClientFile:
    """Return the path of the user's file of a client, which need not exist."""
    folders = _folders(environ, platform)
    own = [
        folders[base] / name
        for of, base, name in _OF_USER
        if of == client and "*" not in name
    ]
    found = [path for path in own if _is_file(path)]
    return ClientFile(client, [*found, *own][0])


def section_of(client: Client) -> str:
    """Return the key under which a client's file lists servers."""
    return _SECTIONS.get(client, "mcpServers")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def read_client_file(
    file: ClientFile, folder: Path
) -> tuple[dict[str, Any], dict[str, Mapping[str, Any]]]:
    """Read the client's servers for a user in `folder`.

    Returns the entries by server name, in the client's format, and by ID the inputs that VS Code asks its user for.
    Raises `ConfigError` for an unreadable file.
    """
    data = _parsed(file.path)
    servers, inputs = (
        _mapping(data, _SECTIONS.get(file.client, "mcpServers")),
        dict[str, Mapping[str, Any]](),
    )
    if file.client == "claude-code":
        servers |= _of_claude_project(data, folder)
    elif file.client == "vscode" and isinstance(listed := data.get("inputs"), list):
        inputs = {
            str(item["id"]): item
            for item in listed
            if isinstance(item, Mapping) and "id" in item
        }
    elif file.client == "gemini":
        # Separate lists of names disable some servers; in older files these lists are at the top level.
        lists = _mapping(data, "mcp")
        excluded = _names(lists, "excluded") | _names(data, "excludeMCPServers")
        allowed = _names(lists, "allowed") | _names(data, "allowMCPServers")
        servers = _switched_off(
            servers, excluded | (servers.keys() - allowed if allowed else set())
        )
    return servers, inputs


def _of_claude_project(data: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return Claude Code's servers for this project in the user's file (its "local" scope); the nearest folder wins."""
    found: dict[str, Any] = {}
    for above in project_folders(folder):
        project = _mapping(_mapping(data, "projects"), str(above))
        found |= _switched_off(
            _mapping(project, "mcpServers"), _names(project, "disabledMcpServers")
        )
    return found


def _switched_off(servers: dict[str, Any], names: Set[str]) -> dict[str, Any]:
    return {
        name: {**entry, "disabled": True}
        if name in names and isinstance(entry, Mapping)
        else entry
        for name, entry in servers.items()
    }


def _names(data: Any, key: str) -> set[str]:
    value = None
    if isinstance(data, Mapping):
        value = data.get(key)
    if isinstance(value, list):
        return {item for item in value if isinstance(item, str)}
    return set()


MAX_CLIENT_BYTES = 5_000_000
"""Maximum size of a client's file, which may contain much besides its servers."""


def _parsed(path: Path) -> Mapping[str, Any]:
    raw = read_bytes(path, MAX_CLIENT_BYTES)
    data: Any = None
    if raw.strip():
        try:
            match path.suffix:
                case ".toml":
                    data = tomllib.loads(raw.decode("utf-8-sig"))
                case ".yaml" | ".yml":
                    data = bounded_yaml(raw)
                case _:
                    data = parse_document(str(path), raw, path.parent).data
        except yaml.MarkedYAMLError as error:
            raise ConfigError(_no_yaml(path, error)) from None
        except (
            yaml.YAMLError,
            ValueError,
            RecursionError,
        ) as error:  # errors of TOML and UTF-8 are ValueErrors, too
            what = str(error).partition("; use sys.")[0]
            raise ConfigError(f"{path}: {safe_line(what, 160)}") from None
    if isinstance(data, Mapping):
        return data
    return {}


def _no_yaml(path: Path, error: yaml.MarkedYAMLError) -> str:
    """Return `path:line:column: problem` without quoted values, which may be secrets."""
    mark, place = error.problem_mark, ""
    if mark is not None:
        place = f":{mark.line + 1}:{mark.column + 1}"
    what = re.sub(r"'(?!<)[^']{2,}'", "'…'", error.problem or "is not YAML")
    return f"{path}{place}: {safe_line(what, 160)}"


def _mapping(data: Any, key: str) -> dict[str, Any]:
    value = None
    if isinstance(data, Mapping):
        value = data.get(key)
    if isinstance(value, Mapping):
        return {str(name): item for name, item in value.items()}
    return {}
