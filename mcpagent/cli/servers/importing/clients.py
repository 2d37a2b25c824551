"""Where other MCP clients keep their servers, and how their files are read.

Places and keys as in the clients' own documentation: Claude Desktop (modelcontextprotocol.io, "Connect to local
servers"), Claude Code and its `~/.claude.json`, Cursor, VS Code ("MCP configuration reference"), Codex ("Model Context
Protocol" in its configuration), Gemini CLI (`settings.json`), goose (`config.yaml`).
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mcpagent.cli.frame.options import Client
from mcpagent.config.config_documents import parse_document, read_bytes
from mcpagent.config.user_folders import project_folders
from mcpagent.errors import ConfigError
from mcpagent.text.safe_text import safe_line


@dataclass(frozen=True, slots=True)
class ClientFile:
    """One file of a client; `is_project`: it belongs to the project and not to the user."""

    client: Client
    path: Path
    is_project: bool = False


def client_files(environ: Mapping[str, str], folder: Path, platform: str = sys.platform) -> list[ClientFile]:
    """The files that exist: the user's of each client, then those of the project from its top down to `folder`."""
    home = Path(environ.get("HOME") or environ.get("USERPROFILE") or Path.home())
    found = [ClientFile(client, path) for client, path in _of_user(home, environ, platform)]
    for above in project_folders(folder):
        found += [
            ClientFile("cursor", above / ".cursor" / "mcp.json", is_project=True),
            ClientFile("vscode", above / ".vscode" / "mcp.json", is_project=True),
            ClientFile("codex", above / ".codex" / "config.toml", is_project=True),
            ClientFile("gemini", above / ".gemini" / "settings.json", is_project=True),
        ]
    seen: dict[Path, ClientFile] = {}
    for file in found:  # in the home folder the project's are the user's
        if _is_file(file.path):
            seen.setdefault(file.path, file)
    return list(seen.values())


def _of_user(home: Path, environ: Mapping[str, str], platform: str) -> Iterator[tuple[Client, Path]]:
    if platform == "darwin":
        settings = home / "Library" / "Application Support"
    elif platform == "win32":
        settings = Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
    else:
        settings = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    yield "claude-desktop", settings / "Claude" / "claude_desktop_config.json"
    yield "claude-code", home / ".claude.json"
    yield "cursor", home / ".cursor" / "mcp.json"
    for product in ("Code", "Code - Insiders"):
        user = settings / product / "User"
        yield "vscode", user / "mcp.json"
        yield from (("vscode", path) for path in sorted(user.glob("profiles/*/mcp.json")))
    yield "codex", Path(environ.get("CODEX_HOME") or home / ".codex") / "config.toml"
    yield "gemini", home / ".gemini" / "settings.json"
    if platform == "win32":
        yield "goose", settings / "Block" / "goose" / "config" / "config.yaml"
    else:
        yield "goose", Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "goose" / "config.yaml"


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def read_client_file(file: ClientFile, folder: Path) -> tuple[dict[str, Any], dict[str, Mapping[str, Any]]]:
    """What the file holds for someone in `folder`: server name -> entry as the client writes it, and by their ids the
    inputs that VS Code asks its user for. Raises `ConfigError` for a file that cannot be read."""
    data = _parsed(file.path)
    match file.client:
        case "claude-code":
            return {**_mapping(data, "mcpServers"), **_of_claude_project(data, folder)}, {}
        case "vscode":
            listed = data.get("inputs")
            inputs = [item for item in listed if isinstance(item, Mapping)] if isinstance(listed, list) else []
            return _mapping(data, "servers"), {str(item["id"]): item for item in inputs if "id" in item}
        case "codex":
            return _mapping(data, "mcp_servers"), {}
        case "goose":
            return _mapping(data, "extensions"), {}
        case "gemini":
            # Lists of names apart from the servers switch some off; in older files these stand at the top.
            servers, lists = _mapping(data, "mcpServers"), _mapping(data, "mcp")
            excluded = _names(lists, "excluded") | _names(data, "excludeMCPServers")
            allowed = _names(lists, "allowed") | _names(data, "allowMCPServers")
            return _switched_off(servers, excluded | (servers.keys() - allowed if allowed else set())), {}
        case _:
            return _mapping(data, "mcpServers"), {}


def _of_claude_project(data: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """What Claude Code keeps for this project in the user's file ("local" scope); the nearest folder wins."""
    found: dict[str, Any] = {}
    for above in project_folders(folder):
        project = _mapping(_mapping(data, "projects"), str(above))
        found |= _switched_off(_mapping(project, "mcpServers"), _names(project, "disabledMcpServers"))
    return found


def _switched_off(servers: dict[str, Any], names: Set[str]) -> dict[str, Any]:
    return {
        name: {**entry, "disabled": True} if name in names and isinstance(entry, Mapping) else entry
        for name, entry in servers.items()
    }


def _names(data: Any, key: str) -> set[str]:
    value = data.get(key) if isinstance(data, Mapping) else None
    return {item for item in value if isinstance(item, str)} if isinstance(value, list) else set()


MAX_CLIENT_BYTES = 5_000_000
"""Some clients keep much else in the file that their servers are in."""


def _parsed(path: Path) -> Mapping[str, Any]:
    raw = read_bytes(path, MAX_CLIENT_BYTES)
    data: Any = None
    if raw.strip():
        try:
            match path.suffix:
                case ".toml":
                    data = tomllib.loads(raw.decode("utf-8"))
                case ".yaml" | ".yml":
                    data = yaml.safe_load(raw)
                case _:
                    data = parse_document(str(path), raw, path.parent).data
        except (yaml.YAMLError, ValueError, RecursionError) as error:  # what toml and UTF-8 raise are ValueErrors
            raise ConfigError(f"{path}: {safe_line(str(error), 160)}") from None
    return data if isinstance(data, Mapping) else {}


def _mapping(data: Any, key: str) -> dict[str, Any]:
    value = data.get(key) if isinstance(data, Mapping) else None
    return {str(name): item for name, item in value.items()} if isinstance(value, Mapping) else {}
