"""Convert another client's server entry to mcpagent's format, and replace its secrets: pure functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from mcpagent.cli.common.options import Client
from mcpagent.config.literals import (
    LiteralSecret,
    literal_secrets,
    literal_warnings,
    variable_name,
)
from mcpagent.config.server_files import load_servers
from mcpagent.config.sign_in_entries import BY_PERSON, KEY_OF_SIGN_IN, folded
from mcpagent.config.spellings import KEY_OF_SPELLING
from mcpagent.errors import ConfigError
from mcpagent.utilities.text.json_texts import with_texts
from mcpagent.utilities.text.safe_text import safe_line

_WRITTEN = {
    "transport": "type",
    "command": "command",
    "args": "args",
    "env": "env",
    "env_file": "envFile",
    "cwd": "cwd",
    "url": "url",
    "headers": "headers",
    "description": "description",
    "required": "required",
    "connect_timeout_seconds": "startupTimeout",
    "timeout_seconds": "toolTimeout",
    "total_timeout_seconds": "totalTimeout",
    "enabled_tools": "enabledTools",
    "disabled_tools": "disabledTools",
    "always_load": "alwaysLoad",
    "sign_in": "sign_in",
}
"""mcpagent's keys, in the order and spelling of a written entry."""

_MEANINGLESS = frozenset(
    {
        "name",
        "display_name",
        "bundled",
        "gallery",
        "version",
        "dev",
        "icon",
        "id",
        "source",
        "timeout",
    }
)
"""Keys of other clients that mcpagent ignores, or that it reads separately."""

_TIMEOUT_UNITS = {"claude-code": 0.001, "gemini": 0.001, "goose": 1.0}
"""The length in seconds of the unit of `timeout`, by the client's documentation."""

Inputs = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class NewSecret:
    """A secret to be stored under a name."""

    name: str
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ConvertedEntry:
    """The converted entry (None if it cannot be imported), and the secrets to store. `notes` report the parts of the
    original entry that the conversion changed or left out.
    """

    entry: dict[str, Any] | None
    notes: tuple[str, ...] = ()
    secrets: tuple[NewSecret, ...] = ()


def taken_over(
    client: Client, entry: Any, inputs: Inputs | None = None
) -> ConvertedEntry:
    """Convert an entry. Approvals are never imported: mcpagent asks for its own.

    `inputs` are the values that VS Code asks its user for, by ID.
    """
    if not isinstance(entry, Mapping):
        return ConvertedEntry(None, ("is no object",))
    given = {str(key): value for key, value in entry.items()}
    if client == "goose" and (kind := str(given.get("type", ""))) in _GOOSE_OWN:
        return ConvertedEntry(
            None, (f"is a {kind} extension of goose and no MCP server",)
        )
    notes: list[str] = []
    prepared = _prepared(client, given, notes)
    known: dict[str, Any] = {}
    for name, value in prepared.items():
        if (key := KEY_OF_SPELLING.get(name)) is not None:
            known.setdefault(key, value)
    unknown = [
        name
        for name in prepared
        if name not in KEY_OF_SPELLING and name not in _MEANINGLESS
    ]
    if not (known.get("command") or known.get("url")):
        return ConvertedEntry(None, ("has neither a command nor a URL",))
    if _starts_gateway(known):
        return ConvertedEntry(
            None, ("is the gateway to mcpagent's servers, so nothing to take over",)
        )
    if unknown:
        notes.append(f"not taken over: {', '.join(sorted(map(_shown, unknown)))}")
    _take_timeout(client, prepared.get("timeout"), known, notes)
    known |= {
        key: _texts(known[key]) for key in ("args", "env", "headers") if key in known
    }
    _take_sign_in(known, notes)
    written = {
        name: known[key]
        for key, name in _WRITTEN.items()
        if known.get(key) not in (None, {}, [], "")
    }
    for key in ("cwd", "envFile"):
        if isinstance(written.get(key), str):
            written[key] = _in_workspace(written[key])
    written = _with_our_variables(written, client, inputs or {}, notes)
    if known.get("disabled") is True or known.get("enabled") is False:
        written["disabled"] = True
    return ConvertedEntry(written, tuple(dict.fromkeys(notes)))


def _starts_gateway(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry runs `mcpagent gateway`, as `mcpagent gateway install` writes it."""
    words = [str(entry.get("command", ""))]
    if isinstance(entry.get("args"), list):
        words += map(str, entry["args"])
    if words[1:4] == ["-m", "mcpagent", "gateway"]:
        return True
    return Path(words[0]).stem == "mcpagent" and words[1:2] == ["gateway"]


def _take_sign_in(known: dict[str, Any], notes: list[str]) -> None:
    """Convert the OAuth settings of a registered client; the sign-in of a user needs no setting."""
    given = known.pop("sign_in", None)
    headers = known.get("headers") or {}
    if given in (None, True, False, "", {}, BY_PERSON):
        return
    if not known.get("url") or any(name.lower() == "authorization" for name in headers):
        notes.append(
            "not taken over: its sign-in, beside "
            + ("its header" if known.get("url") else "a command")
        )
    elif isinstance(given, str):
        known["headers"] = {**headers, "Authorization": f"Bearer {given}"}
    elif isinstance(given, Mapping) and (entry := _usable_sign_in(given)):
        known["sign_in"] = entry
        if left := [
            str(name) for name in given if folded(str(name)) not in KEY_OF_SIGN_IN
        ]:
            notes.append(
                f"not taken over: {', '.join(sorted(map(_shown, left)))} of its sign-in"
            )
    else:
        notes.append("not taken over: its sign-in")


def _usable_sign_in(given: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the OAuth settings under mcpagent's keys; {} if they are not valid in a server's entry."""
    keys = {
        key: value
        for name, value in given.items()
        if (key := KEY_OF_SIGN_IN.get(folded(str(name)))) is not None
    }
    # Variables have no values yet; this placeholder is valid as text and as an address.
    tried = _with_texts(
        keys, lambda text: re.sub(r"\$\{[^{}]*\}", "https://host/path", text)
    )
    try:
        load_servers(
            {"mcpServers": {"it": {"url": "https://host", "sign_in": tried}}},
            environ={},
        )
    except ConfigError:
        return {}
    return keys


def taken_by_project(server: str, entry: dict[str, Any]) -> ConvertedEntry:
    """Replace secrets by references to variables, which each user of the shared file sets."""

    def name_of(found: LiteralSecret) -> str:
        if found.path[0] == "env":
            return found.variable
        return f"{variable_name(server)}_{found.variable}"

    changed, moved = _without_literal_secrets(entry, name_of, "${{{}}}")
    notes = [
        f"{found} becomes ${{{new.name}}}: set it, or mcpagent keys set {new.name}"
        for found, new in moved
    ]
    return ConvertedEntry(changed, tuple(notes))


def taken_by_user(server: str, entry: dict[str, Any], *, plain: bool) -> ConvertedEntry:
    """Replace secrets by references to keys of this server, `${keyring:server.VARIABLE}`.

    The server's prefix and a dot make the name invalid for a variable, so no other server and no model finds the secret
    in its environment.
    """
    if plain:
        return ConvertedEntry(entry, tuple(literal_warnings(server, entry)))
    prefix = re.sub(r"[^A-Za-z0-9_@:/-]", "_", server)[:60]

    def name_of(found: LiteralSecret) -> str:
        return f"{prefix}.{re.sub(r'[^A-Za-z0-9_]', '_', found.variable)[:30]}"

    changed, moved = _without_literal_secrets(entry, name_of, "${{keyring:{}}}")
    notes = [f"{found} becomes ${{keyring:{new.name}}}" for found, new in moved]
    return ConvertedEntry(changed, tuple(notes), tuple(new for _, new in moved))


def _without_literal_secrets(
    entry: Mapping[str, Any], name_of: Callable[[LiteralSecret], str], form: str
) -> tuple[dict[str, Any], list[tuple[LiteralSecret, NewSecret]]]:
    """Return the entry with references in place of secrets, and the replaced secrets."""
    moved: list[tuple[LiteralSecret, NewSecret]] = []
    changed = _with_texts(entry, str)
    for found in literal_secrets(entry):
        holder: Any = changed
        for step in found.path[:-1]:
            holder = holder[str(step)]
        text, start = holder[found.path[-1]], len(found.before)
        end = len(text)
        if found.length is not None:
            end = start + found.length
        secret = text[start:end]
        taken = {new.name: new.value for _, new in moved}
        wanted = name_of(found)
        # A number is appended if another secret of this entry already has the name.
        tries = (wanted, *(f"{wanted}_{number}" for number in range(2, len(taken) + 3)))
        name = next(item for item in tries if taken.get(item, secret) == secret)
        holder[found.path[-1]] = found.before + form.format(name) + text[end:]
        moved.append((found, NewSecret(name, secret)))
    return changed, moved


def moved_workspace(entry: dict[str, Any], inner: PurePath) -> dict[str, Any]:
    """Return the entry for a file in a parent folder; `inner` is the path from that folder to the entry's own."""
    if inner == PurePath():
        return entry
    place = f"${{workspaceFolder}}/{inner.as_posix()}"

    def moved(text: str) -> str:
        return text.replace("${workspaceFolder}", place).replace(
            "${workspaceFolderBasename}", inner.name
        )

    return _with_texts(entry, moved)


_GOOSE_OWN = frozenset({"builtin", "platform", "frontend", "inline_python"})


def _prepared(
    client: Client, entry: dict[str, Any], notes: list[str]
) -> dict[str, Any]:
    """Return the entry with this client's special keys converted to those that all clients share."""
    match client:
        case "codex":
            return _of_codex(entry, notes)
        case "goose":
            return _of_goose(entry, notes)
        case "gemini":
            # `httpUrl` takes precedence over `url`, and this over `command`; `url` alone does not determine the
            # transport.
            chosen = next(
                (key for key in ("httpUrl", "url", "command") if entry.get(key)), ""
            )
            others = {"httpUrl", "url", "command", "trust"} - {chosen}
            kind = {}
            if chosen == "httpUrl":
                kind = {"type": "http"}
            return kind | {
                key: value for key, value in entry.items() if key not in others
            }
        case _:
            return entry


def _of_codex(entry: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    own = (
        "bearer_token_env_var",
        "env_http_headers",
        "env_vars",
        "default_tools_approval_mode",
        "tools",
    )
    rest = {key: value for key, value in entry.items() if key not in own}
    headers = dict(_strings(entry.get("http_headers")))
    headers |= {
        name: f"${{{variable}}}"
        for name, variable in _strings(entry.get("env_http_headers")).items()
    }
    if isinstance(variable := entry.get("bearer_token_env_var"), str):
        headers["Authorization"] = f"Bearer ${{{variable}}}"
    env = {
        name: f"${{{name}}}" for name in _codex_variables(entry.get("env_vars"), notes)
    }
    started = rest.pop("startup_timeout_ms", None)
    if _is_number(started):
        rest.setdefault("startup_timeout_sec", started / 1000)
    return rest | {"http_headers": headers, "env": env | _strings(entry.get("env"))}


def _codex_variables(listed: Any, notes: list[str]) -> list[str]:
    """Return variable names from texts or tables of `name` and `source`; variables of remote machines are unavailable
    and noted.
    """
    names: list[str] = []
    for item in listed if isinstance(listed, list) else ():
        if isinstance(item, Mapping):
            if item.get("source") == "remote":
                notes.append(
                    f"env_vars: {_shown(str(item.get('name')))} is a variable of another machine; set it here"
                )
            item = item.get("name")
        if isinstance(item, str):
            names.append(item)
    return names


def _of_goose(entry: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """Convert an entry of goose, whose secrets are in goose's own keyring and listed in `env_keys`."""
    rest = {
        key: value
        for key, value in entry.items()
        if key not in ("uri", "envs", "env_keys", "available_tools")
    }
    keys = entry.get("env_keys")
    names = []
    if isinstance(keys, list):
        names = [name for name in keys if isinstance(name, str)]
    notes += [
        f"{_shown(name)} is kept by goose: set it here too, or mcpagent keys set {_shown(name)}"
        for name in names
    ]
    given = _strings(entry.get("envs"))
    if entry.get("available_tools"):
        rest["enabled_tools"] = entry["available_tools"]
    if "uri" not in entry:
        return rest | {"envs": {name: f"${{{name}}}" for name in names} | given}

    def filled(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return given.get(name, f"${{{name}}}" if name in names else match.group())

    # In an entry with an address, variables apply to the headers only.
    rest["url"] = entry["uri"]
    rest["headers"] = _with_texts(
        _strings(entry.get("headers")), lambda text: _ANY_VARIABLE.sub(filled, text)
    )
    return rest


_ANY_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)")


def _take_timeout(
    client: Client, timeout: Any, known: dict[str, Any], notes: list[str]
) -> None:
    """Convert the key `timeout` to the timeout of a call in seconds."""
    if not _is_number(timeout):
        return
    # If the client documents no unit: 1000 or more are milliseconds, less are seconds.
    seconds = timeout * _TIMEOUT_UNITS.get(client, 0.001 if timeout >= 1000 else 1.0)
    if 0.1 <= seconds <= 86_400:
        known.setdefault(
            "timeout_seconds",
            int(seconds) if seconds == int(seconds) else round(seconds, 3),
        )
    else:
        notes.append(f"not taken over: timeout {safe_line(str(timeout), 20)}")


def _texts(value: Any) -> Any:
    """Return a list or object with its numbers and booleans as texts, without null values."""

    def text(item: Any) -> Any:
        if isinstance(item, bool):
            return str(item).lower()
        if isinstance(item, int | float):
            return str(item)
        return item

    if isinstance(value, Mapping):
        return {str(key): text(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [text(item) for item in value]
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _in_workspace(place: str) -> str:
    """Return a path relative to the client's start folder as one relative to the project."""
    if (
        PurePath(place).is_absolute()
        or place.startswith(("$", "~"))
        or place[1:2] == ":"
    ):
        return place
    return f"${{workspaceFolder}}/{place.removeprefix('./')}"


def _with_our_variables(
    entry: dict[str, Any], client: Client, inputs: Inputs, notes: list[str]
) -> dict[str, Any]:
    """Convert references to mcpagent's form: `$VAR` of Gemini, `${input:id}` of VS Code."""

    def changed(text: str) -> str:
        if client == "gemini":
            text = re.sub(r"\$([A-Za-z_][A-Za-z0-9_]*)", r"${\1}", text)
        return re.sub(r"\$\{input:([^{}]{1,100})\}", asked, text)

    def asked(match: re.Match[str]) -> str:
        variable = variable_name(match[1])
        about = inputs.get(match[1], {})
        default, words = about.get("default"), about.get("description")
        has_default = (
            isinstance(default, str) and default != "" and not set("{}") & set(default)
        )
        if has_default:
            reference = f"${{{variable}:-{default}}}"
        else:
            reference = f"${{{variable}}}"
        meaning = ""
        if isinstance(words, str) and words:
            meaning = f" ({safe_line(words, 60)})"
        notes.append(
            f"{safe_line(match.group(), 60)}{meaning} becomes {reference}: set it, or mcpagent keys set {variable}"
        )
        return reference

    return _with_texts(entry, changed)


def _with_texts(
    entry: Mapping[str, Any], change: Callable[[str], str]
) -> dict[str, Any]:
    """Return a copy of the entry with `change` applied to every text."""
    return {key: with_texts(value, change) for key, value in entry.items()}


def _strings(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        return {}
    return {str(key): item for key, item in value.items() if isinstance(item, str)}


def _shown(key: str) -> str:
    return safe_line(key, 40)
