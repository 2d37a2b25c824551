"""Where other MCP clients keep their servers, and how their files are read.

Places and keys as in the clients' own documentation: Claude Desktop (modelcontextprotocol.io, "Connect to local
servers"), Claude Code and its `~/.claude.json`, Cursor, VS Code ("MCP configuration reference"), Codex ("Model Context
Protocol" in its configuration), Gemini CLI (`settings.json`), goose (`config.yaml`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from mcpagent.config.documents import parse_document, read_bytes
from mcpagent.config.folders import project_folders
from mcpagent.errors import ConfigError
from mcpagent.safe_text import safe_line


class Client(StrEnum):
    """The clients whose servers can be taken over, in the order in which a name is looked for."""

    claude_desktop = "claude-desktop"
    claude_code = "claude-code"
    cursor = "cursor"
    vscode = "vscode"
    codex = "codex"
    gemini = "gemini"
    goose = "goose"


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
            ClientFile(Client.cursor, above / ".cursor" / "mcp.json", is_project=True),
            ClientFile(Client.vscode, above / ".vscode" / "mcp.json", is_project=True),
            ClientFile(Client.codex, above / ".codex" / "config.toml", is_project=True),
            ClientFile(Client.gemini, above / ".gemini" / "settings.json", is_project=True),
        ]
    seen: dict[Path, ClientFile] = {}
    for file in found:  # in the home folder the project's are the user's
        if _is_file(file.path):
            seen.setdefault(file.path, file)
    return list(seen.values())


def _of_user(home: Path, environ: Mapping[str, str], platform: str) -> Iterator[tuple[Client, Path]]:
    config = _settings_folder(home, environ, platform)
    yield Client.claude_desktop, config / "Claude" / "claude_desktop_config.json"
    yield Client.claude_code, home / ".claude.json"
    yield Client.cursor, home / ".cursor" / "mcp.json"
    for product in ("Code", "Code - Insiders"):
        user = config / product / "User"
        yield Client.vscode, user / "mcp.json"
        yield from ((Client.vscode, path) for path in sorted(user.glob("profiles/*/mcp.json")))
    yield Client.codex, Path(environ.get("CODEX_HOME") or home / ".codex") / "config.toml"
    yield Client.gemini, home / ".gemini" / "settings.json"
    if platform == "win32":
        yield Client.goose, config / "Block" / "goose" / "config" / "config.yaml"
    else:
        yield Client.goose, Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "goose" / "config.yaml"


def _settings_folder(home: Path, environ: Mapping[str, str], platform: str) -> Path:
    if platform == "darwin":
        return home / "Library" / "Application Support"
    if platform == "win32":
        return Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class ClientServers:
    """Server name -> entry as the client writes it; `inputs`: what VS Code asks its user for, by its id."""

    entries: Mapping[str, Any]
    inputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])


def read_client_file(file: ClientFile, folder: Path) -> ClientServers:
    """What the file holds for someone in `folder`. Raises `ConfigError` for a file that cannot be read."""
    data = _parsed(file.path)
    match file.client:
        case Client.claude_code:
            return ClientServers({**_mapping(data, "mcpServers"), **_of_claude_project(data, folder)})
        case Client.vscode:
            return ClientServers(_mapping(data, "servers"), _inputs(data))
        case Client.codex:
            return ClientServers(_mapping(data, "mcp_servers"))
        case Client.goose:
            return ClientServers(_mapping(data, "extensions"))
        case Client.gemini:
            return ClientServers(_of_gemini(data))
        case _:
            return ClientServers(_mapping(data, "mcpServers"))


def _inputs(data: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    listed = data.get("inputs")
    found = [item for item in listed if isinstance(item, Mapping)] if isinstance(listed, list) else []
    return {str(item["id"]): item for item in found if "id" in item}


def _of_claude_project(data: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """What Claude Code keeps for this project in the user's file ("local" scope); the nearest folder wins."""
    found: dict[str, Any] = {}
    for above in project_folders(folder):
        project = _mapping(_mapping(data, "projects"), str(above))
        found |= _switched_off(_mapping(project, "mcpServers"), _names(project, "disabledMcpServers"))
    return found


def _of_gemini(data: Mapping[str, Any]) -> dict[str, Any]:
    """The servers; lists of names apart from them switch some off (in older files these stand at the top)."""
    servers, lists = _mapping(data, "mcpServers"), _mapping(data, "mcp")
    excluded = _names(lists, "excluded") | _names(data, "excludeMCPServers")
    allowed = _names(lists, "allowed") | _names(data, "allowMCPServers")
    return _switched_off(servers, excluded | (servers.keys() - allowed if allowed else set()))


def _switched_off(servers: dict[str, Any], names: Set[str]) -> dict[str, Any]:
    return {
        name: {**entry, "disabled": True} if name in names and isinstance(entry, Mapping) else entry
        for name, entry in servers.items()
    }


def _names(data: Any, key: str) -> set[str]:
    value = data.get(key) if isinstance(data, Mapping) else None
    return {item for item in value if isinstance(item, str)} if isinstance(value, list) else set()


def _parsed(path: Path) -> Mapping[str, Any]:
    raw = read_bytes(path)
    if not raw.strip():
        return {}
    data: Any = None
    match path.suffix:
        case ".toml":
            data = _parsed_toml(path, raw)
        case ".yaml" | ".yml":
            data = _parsed_yaml(path, raw)
        case _:
            data = parse_document(str(path), raw, path.parent).data
    return data if isinstance(data, Mapping) else {}


def _parsed_toml(path: Path, raw: bytes) -> Any:
    import tomllib

    try:
        return tomllib.loads(raw.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: {safe_line(str(error), 160)}") from None


def _parsed_yaml(path: Path, raw: bytes) -> Any:
    import yaml

    try:
        return yaml.safe_load(raw)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: {safe_line(str(error), 160)}") from None


def _mapping(data: Any, key: str) -> dict[str, Any]:
    value = data.get(key) if isinstance(data, Mapping) else None
    return {str(name): item for name, item in value.items()} if isinstance(value, Mapping) else {}
