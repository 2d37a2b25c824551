"""Server configuration: the `mcpServers` JSON that MCP clients share, read into values.

One broken server is a `ServerProblem` and the others go on; a mistake in the file itself is a `ConfigError` that names
file, line and column and the mend. Nothing here starts a program or opens a connection.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args
from urllib.parse import unquote, urlsplit, urlunsplit

from mcpagent.errors import ConfigError
from mcpagent.safe_text import safe_line

TransportName: TypeAlias = Literal["auto", "stdio", "http", "sse"]
"""How a server is reached; "auto" is stdio for a command, and streamable HTTP or else SSE for a URL."""

MAX_FILE_BYTES = 5_000_000
MAX_SERVERS = 1_000

_Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One MCP server, variables already expanded.

    Seconds: `connect_timeout_seconds` bounds start, handshake and listing; `timeout_seconds` is how long a call may
    stay silent (progress starts it anew); `total_timeout_seconds` bounds a call whatever it reports. `enabled_tools`,
    `disabled_tools` and `always_load` are globs over the server's own tool names. `defer_loading`: whether its tools
    are hidden until they are found (True), never (False), only those named and no other, or as the agent's tool
    search says (None). `source` is "file:line".
    """

    name: str
    command: str = ""
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    transport: TransportName = "auto"
    disabled: bool = False
    connect_timeout_seconds: float = 30.0
    timeout_seconds: float = 60.0
    total_timeout_seconds: float = 300.0
    shutdown_seconds: float = 5.0
    description: str = ""
    required: bool = False
    enabled_tools: tuple[str, ...] = ()
    disabled_tools: tuple[str, ...] = ()
    always_load: tuple[str, ...] = ()
    defer_loading: bool | Sequence[str] | None = None
    source: str = ""


McpServer: TypeAlias = ServerConfig
"""The same value under the name that fits `Agent(toolsets=[McpServer("files", command="npx", args=[...])])`."""


@dataclass(frozen=True, slots=True)
class ServerProblem:
    """A configured server that cannot be used; `reason` is one line with place and mend."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class ServersConfig:
    """The servers to start, those that cannot be, and the files they came from (in reading order)."""

    servers: tuple[ServerConfig, ...] = ()
    problems: tuple[ServerProblem, ...] = ()
    files: tuple[str, ...] = ()


ServersSource: TypeAlias = str | Path | Mapping[str, Any] | Sequence[ServerConfig]


def load_servers(
    source: ServersSource,
    *,
    environ: Mapping[str, str] | None = None,
    label: str = "mcp_config",
    folder: Path | None = None,
) -> ServersConfig:
    """The servers of a file, of its parsed content, or given as values.

    Variables are expanded from `environ` (default: the process's). For parsed content, `label` names it in errors and
    `folder` is what its relative paths start from (default: the current one).
    Disabled servers are listed with `disabled` True. Raises `ConfigError`.
    """
    environ = os.environ if environ is None else environ
    if isinstance(source, str | Path):
        return _load_file(Path(source).expanduser(), environ)
    if isinstance(source, Mapping):
        document = _Document(label, dict(source), {}, "", folder or Path.cwd())
        return _read_servers(document, environ)
    return _checked_values(tuple(source))


def load_found_servers(start: Path, environ: Mapping[str, str]) -> ServersConfig:
    """The servers of all files `find_config_files` names; the later file wins by server name."""
    merged: dict[str, ServerConfig | ServerProblem] = {}
    files = find_config_files(start, environ)
    for path in files:
        loaded = load_servers(path, environ=environ)
        for server in loaded.servers:
            merged[server.name] = server
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
    start = start.absolute()
    upward = [start, *start.parents]
    top = next((index for index, folder in enumerate(upward) if (folder / ".git").exists()), 0)
    found = [user_config_folder(environ) / "mcp.json"]
    for folder in reversed(upward[: top + 1]):
        names = (".mcp.json", "mcp_servers.json")
        found.extend([folder / name for name in names if (folder / name).is_file()][:1])
    return [path for path in found if path.is_file()]


def user_config_folder(environ: Mapping[str, str]) -> Path:
    """Where the user's own configuration is: `$MCPAGENT_HOME/config`, else the platform's place for mcpagent."""
    if home := environ.get("MCPAGENT_HOME"):
        return Path(home).expanduser() / "config"
    if sys.platform in ("win32", "darwin"):
        from platformdirs import user_config_path

        return user_config_path("mcpagent", appauthor=False)
    base = environ.get("XDG_CONFIG_HOME") or ""
    if not base.startswith("/"):  # the XDG specification: relative paths are to be ignored
        base = str(Path(environ.get("HOME") or Path.home()) / ".config")
    return Path(base) / "mcpagent"


# --- Files ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Document:
    """Parsed JSON with the offset of each value, so that an error can say line and column."""

    label: str
    data: Any
    offsets: Mapping[_Path, int]
    text: str
    folder: Path

    def place(self, path: _Path, *, column: bool = True) -> str:
        offset = next(
            (self.offsets[path[:end]] for end in range(len(path), -1, -1) if path[:end] in self.offsets), None
        )
        if offset is None:
            return self.label
        line = self.text.count("\n", 0, offset) + 1
        at = offset - (self.text.rfind("\n", 0, offset) + 1) + 1
        return f"{self.label}:{line}:{at}" if column else f"{self.label}:{line}"

    def error(self, path: _Path, what: str) -> ConfigError:
        dotted = ".".join(safe_line(str(step), 60) for step in path)
        return ConfigError(f"{self.place(path)}: {dotted}{': ' if dotted else ''}{what}")


def _load_file(path: Path, environ: Mapping[str, str]) -> ServersConfig:
    label = str(path)
    try:
        if path.is_dir():
            raise ConfigError(f"{label}: is a directory; give the JSON file inside it")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ConfigError(f"{label}: larger than {MAX_FILE_BYTES // 1_000_000} MB; this cannot be a server list")
        raw = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"{label}: not found{_near_file(path)}; create it or pass another file") from None
    except PermissionError:
        raise ConfigError(f"{label}: permission denied; make it readable for your user") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{safe_line(label)}: cannot be read: {safe_line(str(error))}") from None
    document = _parse(label, raw, path.absolute().parent)
    loaded = _read_servers(document, environ)
    return replace(loaded, files=(label,))


def _near_file(path: Path) -> str:
    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.suffix == ".json"]
    except OSError:
        return f' (the folder "{path.parent}" does not exist)' if not path.parent.exists() else ""
    near = get_close_matches(path.name, names, n=1, cutoff=0.6)
    return f'; did you mean "{near[0]}"?' if near else ""


def _parse(label: str, raw: bytes, folder: Path) -> _Document:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if raw[:2] not in (b"\xff\xfe", b"\xfe\xff"):
            line = raw.count(b"\n", 0, error.start) + 1
            raise ConfigError(f"{label}:{line}: not UTF-8; save the file as UTF-8") from None
        text = raw.decode("utf-16", errors="replace")
    blanked = _blank_extras(text)
    if not blanked.strip():
        raise ConfigError(f'{label}: is empty; write {{"mcpServers": {{}}}} and add servers to it')
    try:
        data = json.loads(blanked)
    except json.JSONDecodeError as error:
        shown = safe_line(text.splitlines()[error.lineno - 1] if error.lineno <= text.count("\n") + 1 else "", 80)
        what = error.msg[:1].lower() + error.msg[1:]
        raise ConfigError(f"{label}:{error.lineno}:{error.colno}: {what} in: {shown}") from None
    except RecursionError:
        raise ConfigError(f"{label}: nests too deeply; this cannot be a server list") from None
    except ValueError as error:
        raise ConfigError(f"{label}: {safe_line(str(error))}") from None
    document = _Document(label, data, dict(_offsets(blanked)), text, folder)
    _refuse_repeated_servers(document, blanked)
    return document


_EXTRAS = re.compile(
    r"""(?P<string>"(?:[^"\\\n]|\\.)*"?) | (?P<line>//[^\n]*) | (?P<block>/\*.*?(?:\*/|\Z))""", re.VERBOSE | re.DOTALL
)
_TRAILING_COMMA = re.compile(r'"(?:[^"\\\n]|\\.)*"?|(,)(?=\s*[}\]])', re.DOTALL)


def _blank_extras(text: str) -> str:
    """The text with comments and trailing commas turned into spaces, so that offsets stay."""

    def blank(match: re.Match[str]) -> str:
        found = match.group()
        return found if match["string"] else "".join("\n" if char == "\n" else " " for char in found)

    plain = _EXTRAS.sub(blank, text)
    return _TRAILING_COMMA.sub(lambda match: " " if match[1] else match.group(), plain)


_LEXEME = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


def _offsets(text: str) -> Iterator[tuple[_Path, int]]:
    """(path, offset of the key or array item) for each value of a valid JSON text; a repeated key comes repeatedly."""
    path: list[str | int] = []
    open_kinds: list[str] = []
    expect_key = False
    for match in _LEXEME.finditer(text):
        lexeme = match.group()
        if expect_key and lexeme[0] == '"':
            path[-1] = json.loads(lexeme)
            expect_key = False
            yield tuple(path), match.start()
            continue
        if lexeme not in "}],:" and open_kinds and open_kinds[-1] == "[":
            yield tuple(path), match.start()
        if lexeme in ("{", "["):
            open_kinds.append(lexeme)
            path.append("" if lexeme == "{" else 0)
            expect_key = lexeme == "{"
        elif lexeme in ("}", "]"):
            open_kinds.pop()
            path.pop()
            expect_key = False
        elif lexeme == "," and open_kinds[-1] == "[":
            path[-1] = cast("int", path[-1]) + 1
        elif lexeme == ",":
            expect_key = True


def _refuse_repeated_servers(document: _Document, text: str) -> None:
    seen: set[_Path] = set()
    for path, offset in _offsets(text):
        if len(path) == 2 and path[0] in ("mcpServers", "servers") and path in seen:
            place = replace(document, offsets={path: offset}).place(path)
            raise ConfigError(f'{place}: two servers are named "{safe_line(str(path[1]), 60)}"; rename one')
        seen.add(path)


# --- Servers -------------------------------------------------------------------------------------------------------

_KEYS: Mapping[str, tuple[str, ...]] = {
    "command": ("command", "cmd"),
    "args": ("args",),
    "env": ("env", "envs"),
    "cwd": ("cwd", "working_dir", "workingDirectory"),
    "url": ("url", "serverUrl", "httpUrl", "endpoint"),
    "headers": ("headers", "http_headers", "requestOptions"),
    "transport": ("transport", "type", "protocol", "transportType"),
    "disabled": ("disabled",),
    "enabled": ("enabled",),
    "connect_timeout_seconds": ("connect_timeout_seconds", "startupTimeout", "startup_timeout_sec", "initTimeout"),
    "timeout_seconds": ("timeout_seconds", "toolTimeout", "tool_timeout_sec", "call_timeout"),
    "timeout": ("timeout",),
    "total_timeout_seconds": ("total_timeout_seconds", "totalTimeout"),
    "shutdown_seconds": ("shutdown_seconds", "shutdownTimeout"),
    "description": ("description",),
    "required": ("required",),
    "enabled_tools": ("enabled_tools", "enabledTools", "allowedTools", "allowed_tools", "includeTools"),
    "disabled_tools": ("disabled_tools", "disabledTools", "excludedTools", "excluded_tools", "excludeTools"),
    "always_load": ("always_load", "alwaysLoad"),
}
"""Our key, and the spellings under which clients write it."""

_SPELLINGS = {spelling: key for key, spellings in _KEYS.items() for spelling in spellings}
_SECONDS = ("connect_timeout_seconds", "timeout_seconds", "total_timeout_seconds", "shutdown_seconds")
_TRANSPORTS: Mapping[str, TransportName] = {
    "auto": "auto",
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamablehttp": "http",
    "sse": "sse",
    "remote": "auto",
}
_NAME = re.compile(r"[A-Za-z0-9_.@:/ -]{1,64}")


class _UnusableError(Exception):
    """What keeps one server, and only that one, from being used."""

    def __init__(self, path: _Path, what: str) -> None:
        super().__init__(what)
        self.path = path
        self.what = what


def _read_servers(document: _Document, environ: Mapping[str, str]) -> ServersConfig:
    root, entries = _server_entries(document)
    if len(entries) > MAX_SERVERS:
        raise document.error(root, f"{len(entries)} servers; the limit is {MAX_SERVERS}")
    servers: list[ServerConfig] = []
    problems: list[ServerProblem] = []
    for name, entry in entries.items():
        path = (*root, name)
        _check_name(name, document, path)
        if not isinstance(entry, Mapping):
            raise document.error(path, f'expected an object with "command" or "url", got {_kind(entry)}')
        try:
            servers.append(_read_server(name, dict(entry), path, document, environ))
        except _UnusableError as error:
            problems.append(ServerProblem(name, str(document.error(error.path, error.what))))
    _refuse_equal_prefixes([*(server.name for server in servers), *(problem.name for problem in problems)], document)
    return ServersConfig(tuple(servers), tuple(problems))


def _server_entries(document: _Document) -> tuple[_Path, dict[str, Any]]:
    data = document.data
    if not isinstance(data, Mapping):
        raise document.error((), f'expected an object with "mcpServers", got {_kind(data)}')
    for key in ("mcpServers", "servers", "mcp_servers"):
        if key in data:
            if not isinstance(data[key], Mapping):
                raise document.error((key,), f"expected an object of name -> server, got {_kind(data[key])}")
            return (key,), dict(data[key])
    if data and all(isinstance(entry, Mapping) and {"command", "url"} & entry.keys() for entry in data.values()):
        return (), dict(data)
    near = get_close_matches("mcpServers", [str(key) for key in data], n=1, cutoff=0.6)
    hint = f'; "{near[0]}" should be "mcpServers"' if near else '; write {"mcpServers": {"name": {"command": "..."}}}'
    raise document.error((near[0],) if near else (), f'no "mcpServers" found{hint}')


def _read_server(
    name: str, entry: dict[str, Any], path: _Path, document: _Document, environ: Mapping[str, str]
) -> ServerConfig:
    values, keys = _known_values(entry, path, document)
    place = {key: (*path, spelling) for key, spelling in keys.items()}
    reader = _Reader(document, environ, values, place, path)
    disabled = reader.boolean("disabled") or not reader.boolean("enabled", default=True)
    source = document.place(path, column=False) if document.text else ""
    if disabled:
        # Its variables need not be set, so nothing more of it is read.
        return ServerConfig(name, disabled=True, description=reader.plain("description"), source=source)
    command, url = reader.string("command"), reader.string("url")
    if bool(command) == bool(url):
        what = 'has both "command" and' if command else 'has neither "command" nor'
        raise document.error(path, f'{what} "url"; give exactly one of them')
    transport = reader.transport(is_command=bool(command))
    headers = dict(reader.headers())
    if url:
        url, credentials = _checked_url(url, place.get("url", path), document)
        if credentials and not any(key.lower() == "authorization" for key in headers):
            headers["Authorization"] = credentials
    return ServerConfig(
        name=name,
        command=command,
        args=reader.strings("args"),
        env=reader.string_map("env"),
        cwd=reader.folder("cwd"),
        url=url,
        headers=headers,
        transport=transport,
        description=reader.string("description"),
        required=reader.boolean("required"),
        enabled_tools=reader.strings("enabled_tools"),
        disabled_tools=reader.strings("disabled_tools"),
        always_load=reader.always_load(),
        source=source,
        **reader.all_seconds(),
    )


def _known_values(entry: dict[str, Any], path: _Path, document: _Document) -> tuple[dict[str, Any], dict[str, str]]:
    """Our keys -> values, and our keys -> the spelling found. Keys of other clients are passed over, typos are not."""
    values: dict[str, Any] = {}
    spellings: dict[str, str] = {}
    for written, value in entry.items():
        key = _SPELLINGS.get(written)
        if key is not None:
            values.setdefault(key, value)
            spellings.setdefault(key, written)
    for written in entry:
        if written in _SPELLINGS:
            continue
        near = get_close_matches(written, list(_SPELLINGS), n=1, cutoff=0.8)
        if near and _SPELLINGS[near[0]] not in values:
            raise document.error((*path, written), f'unknown key "{safe_line(written, 60)}"; did you mean "{near[0]}"?')
    return values, spellings


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the typed values of one server's entry, expanding variables in every string."""

    document: _Document
    environ: Mapping[str, str]
    values: Mapping[str, Any]
    places: Mapping[str, _Path]
    path: _Path

    def place(self, key: str) -> _Path:
        return self.places.get(key, (*self.path, key))

    def plain(self, key: str) -> str:
        value = self.values.get(key)
        return value if isinstance(value, str) else ""

    def string(self, key: str) -> str:
        value = self.values.get(key)
        return "" if value is None else self.expanded(value, self.place(key))

    def expanded(self, value: Any, place: _Path) -> str:
        if not isinstance(value, str):
            quoted = f' (write "{str(value).lower()}")' if isinstance(value, bool | int | float) else ""
            raise self.document.error(place, f"expected a string, got {_shown(value)}{quoted}")
        text = _expand(value, place, self.environ, self.document.folder)
        if "\0" in text:
            raise self.document.error(place, "contains a NUL character; remove it")
        return text

    def strings(self, key: str) -> tuple[str, ...]:
        value = self.values.get(key)
        if value is None:
            return ()
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise self.document.error(self.place(key), f"expected a list of strings, got {_shown(value)}")
        return tuple(self.expanded(item, (*self.place(key), index)) for index, item in enumerate(value))

    def string_map(self, key: str) -> dict[str, str]:
        value = self.values.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self.document.error(self.place(key), f"expected an object of strings, got {_shown(value)}")
        result: dict[str, str] = {}
        for name, item in value.items():
            if not name or "=" in name or "\0" in name:
                raise self.document.error(self.place(key), f'"{safe_line(name, 60)}" cannot be a variable name')
            result[name] = self.expanded(item, (*self.place(key), name))
        return result

    def headers(self) -> dict[str, str]:
        headers = self.string_map("headers")
        for name, value in headers.items():
            place = (*self.place("headers"), name)
            if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
                raise self.document.error(place, "not a legal header name; use letters, digits and hyphens")
            for position, char in enumerate(value):
                if not (" " <= char <= "~" or char == "\t"):
                    kind = "control character" if ord(char) < 0x20 or ord(char) == 0x7F else "non-ASCII character"
                    raise self.document.error(place, f"{kind} at position {position}; remove it")
        return headers

    def folder(self, key: str) -> str:
        value = self.string(key)
        return str(self.document.folder / Path(value).expanduser()) if value else ""

    def boolean(self, key: str, *, default: bool = False) -> bool:
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise self.document.error(self.place(key), f"expected true or false, got {_shown(value)}")
        return value

    def always_load(self) -> tuple[str, ...]:
        value = self.values.get("always_load")
        if isinstance(value, bool):
            return ("*",) if value else ()
        return self.strings("always_load")

    def transport(self, *, is_command: bool) -> TransportName:
        value = self.string("transport")
        if not value:
            return "auto"
        name = _TRANSPORTS.get(value.strip().lower())
        if name is None:
            known = ", ".join(get_args(TransportName))
            what = f'transport "{safe_line(value, 40)}" is not one of {known}'
            raise self.document.error(self.place("transport"), what)
        if is_command != (name == "stdio") and name != "auto":
            given, needs = ("command", "stdio") if is_command else ("url", "http or sse")
            what = f'"{safe_line(value, 40)}" does not fit a server with "{given}"; write {needs}'
            raise self.document.error(self.place("transport"), what)
        return name

    def all_seconds(self) -> dict[str, Any]:
        found = {key: self.seconds(key) for key in _SECONDS if key in self.values}
        if "timeout" in self.values and "timeout_seconds" not in found:
            # Clients disagree on the unit of the bare key; nobody waits 1000 seconds, nor 999 milliseconds.
            value = self.seconds("timeout", highest=86_400_000.0)
            found["timeout_seconds"] = value / 1000 if value >= 1000 else value
        if "timeout_seconds" in found and "total_timeout_seconds" not in found:
            found["total_timeout_seconds"] = max(found["timeout_seconds"], ServerConfig("").total_timeout_seconds)
        return found

    def seconds(self, key: str, highest: float = 86_400.0) -> float:
        value = self.values[key]
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or not 0.1 <= value <= highest:
            what = f"expected seconds between 0.1 and {highest:.0f}, got {_shown(value)}"
            raise self.document.error(self.place(key), what)
        return float(value)


_VARIABLE = re.compile(r"\$\{([^{}]*)\}")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _expand(text: str, place: _Path, environ: Mapping[str, str], folder: Path) -> str:
    """`${VAR}`, `${VAR:-default}`, `${env:VAR}` and `${workspaceFolder}` replaced; what they give is not read again."""

    def value_of(match: re.Match[str]) -> str:
        inside = match[1]
        if inside in ("workspaceFolder", "workspaceRoot"):
            return str(folder.parent if folder.name in (".vscode", ".cursor") else folder)
        if inside == "userHome":
            return environ.get("HOME") or str(Path.home())
        name, has_default, default = inside.removeprefix("env:").partition(":-")
        if not _VARIABLE_NAME.fullmatch(name):
            what = f'"{safe_line(match.group(), 60)}" is not supported; use ${{VAR}}, ${{VAR:-default}} or ${{env:VAR}}'
            raise _UnusableError(place, what)
        value = environ.get(name)
        if has_default:
            return value or default
        if value is None:
            raise _UnusableError(
                place, f"environment variable {name} is not set; set it, or write ${{{name}:-default}}"
            )
        return value

    return _VARIABLE.sub(value_of, text)


def _checked_url(url: str, path: _Path, document: _Document) -> tuple[str, str]:
    """The URL without credentials, and an Authorization header value for those it had."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise document.error(path, f"not a URL: {safe_line(str(error), 80)}") from None
    if any(ord(char) <= 0x20 or ord(char) == 0x7F for char in url):
        raise document.error(path, "contains a space or control character; remove it")
    if "://" not in url:
        raise document.error(path, f"write http://{safe_line(_without_credentials(url), 80)}")
    if parts.scheme not in ("http", "https"):
        raise document.error(path, f'only http and https URLs, got "{safe_line(parts.scheme, 20)}"')
    if not parts.hostname:
        raise document.error(path, "has no host; write https://host/path")
    if "@" not in parts.netloc:
        return url, ""
    from base64 import b64encode

    user_and_password = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    netloc = host if port is None else f"{host}:{port}"
    return urlunsplit(parts._replace(netloc=netloc)), "Basic " + b64encode(user_and_password.encode()).decode()


def _without_credentials(url: str) -> str:
    return url.rpartition("@")[2]


def tool_prefix(server_name: str) -> str:
    """The server's name with each character that a tool name cannot have as "_"."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", server_name)


def _check_name(name: str, document: _Document, path: _Path) -> None:
    if not _NAME.fullmatch(name) or ".." in name or not re.search(r"[A-Za-z0-9]", name):
        what = f'server name "{safe_line(name, 70)}" must be 1 to 64 of A-Z, a-z, 0-9, "_", "-", ".", "/", "@", ":"'
        raise document.error(path[:-1], f"{what}; rename it")


def _refuse_equal_prefixes(names: list[str], document: _Document) -> None:
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
            raise ConfigError(f"mcp_config: expected ServerConfig values, got {_kind(server)}")
        if bool(server.command) == bool(server.url) and not server.disabled:
            raise ConfigError(f'mcp_config: server "{server.name}": give exactly one of command and url')
    document = _Document("mcp_config", None, {}, "", Path.cwd())
    names = [server.name for server in servers]
    for name in names:
        _check_name(name, document, (name,))
        if names.count(name) > 1:
            raise ConfigError(f'mcp_config: two servers are named "{name}"; rename one')
    _refuse_equal_prefixes(names, document)
    return ServersConfig(servers)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    names = {str: "a string", int: "a number", float: "a number", list: "a list", tuple: "a list", dict: "an object"}
    return names.get(type(value), type(value).__name__)


def _shown(value: Any) -> str:
    """The value for an error line; a string's own text only where it is short enough not to be a secret's whole."""
    if isinstance(value, str):
        return f'"{safe_line(value, 30)}"'
    if isinstance(value, list | tuple | dict) or value is None:
        return _kind(value)
    return str(value).lower() if isinstance(value, bool) else safe_line(str(value), 30)
