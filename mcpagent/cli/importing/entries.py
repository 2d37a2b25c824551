"""One server's entry of another client, as ours: pure functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcpagent.cli.importing.clients import Client
from mcpagent.config.literals import literal_secrets, variable_name
from mcpagent.config.spellings import KEY_OF_SPELLING
from mcpagent.safe_text import safe_line

_WRITTEN = {
    "transport": "type",
    "command": "command",
    "args": "args",
    "env": "env",
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
}
"""Our keys, in the order and with the names that we write."""

_MEANINGLESS = frozenset({"name", "display_name", "bundled", "gallery", "version", "dev", "icon", "id", "timeout"})
"""Keys of other clients that change nothing here, or are read in another way."""


@dataclass(frozen=True, slots=True)
class Taken:
    """An entry in our spelling; `notes` say what is different. `entry` is None where it cannot be taken over."""

    entry: dict[str, Any] | None
    notes: tuple[str, ...] = ()


def taken_over(client: Client, entry: Any) -> Taken:
    """The entry as we would write it. Approvals are never taken over: those are asked for here."""
    if not isinstance(entry, Mapping):
        return Taken(None, ("is no object",))
    given = {str(key): value for key, value in entry.items()}
    if client is Client.goose and (kind := str(given.get("type", ""))) in _GOOSE_OWN:
        return Taken(None, (f"is a {kind} extension of goose and no MCP server",))
    known, unknown = _ours(_prepared(client, given))
    if not (known.get("command") or known.get("url")):
        return Taken(None, ("has neither a command nor a URL",))
    notes = [f"not taken over: {', '.join(sorted(map(_shown, unknown)))}"] if unknown else []
    written = {name: known[key] for key, name in _WRITTEN.items() if _says_something(known.get(key))}
    written = _with_our_variables(written, client, notes)
    if known.get("disabled") is True or known.get("enabled") is False:
        written["disabled"] = True
    return Taken(written, tuple(dict.fromkeys(notes)))


def without_literal_secrets(name: str, entry: dict[str, Any]) -> Taken:
    """The entry with references in the place of secrets, for a file that others see."""
    notes: list[str] = []
    changed = _copied(entry)
    for found in literal_secrets(entry):
        key, inner = str(found.path[0]), found.path[1:]
        if key == "url":
            return Taken(None, ("has a secret in its URL, which is no place for a reference; add it by hand",))
        variable = found.variable if key == "env" else f"{variable_name(name)}_{found.variable}"
        holder, place = changed[key], inner[0]
        holder[place] = _referring(holder[place], variable)
        notes.append(f"{found} is now ${{{variable}}}: set it, or mcpagent keys set {variable}")
    return Taken(changed, tuple(notes))


def _referring(value: str, variable: str) -> str:
    """`Bearer x` -> `Bearer ${V}`, `--token=x` -> `--token=${V}`."""
    before = re.match(r"(?:Bearer |Basic |Token |--?[A-Za-z][\w-]*=)?", value, re.IGNORECASE)
    return f"{before.group() if before else ''}${{{variable}}}"


_GOOSE_OWN = frozenset({"builtin", "platform", "frontend", "inline_python"})


def _prepared(client: Client, entry: dict[str, Any]) -> dict[str, Any]:
    """The entry with what only this client has written in the way that all share."""
    match client:
        case Client.codex:
            return _of_codex(entry)
        case Client.goose:
            return _of_goose(entry)
        case Client.gemini:
            kind = {"type": "http"} if "httpUrl" in entry else {"type": "sse"} if "url" in entry else {}
            return {**kind, **{key: value for key, value in entry.items() if key != "trust"}}
        case _:
            return entry


def _of_codex(entry: dict[str, Any]) -> dict[str, Any]:
    own = ("bearer_token_env_var", "env_http_headers", "env_vars", "default_tools_approval_mode", "tools")
    rest = {key: value for key, value in entry.items() if key not in own}
    headers = dict(_strings(entry.get("http_headers")))
    headers |= {name: f"${{{variable}}}" for name, variable in _strings(entry.get("env_http_headers")).items()}
    if isinstance(variable := entry.get("bearer_token_env_var"), str):
        headers["Authorization"] = f"Bearer ${{{variable}}}"
    names = [name for name in entry.get("env_vars") or () if isinstance(name, str)]
    env = {name: f"${{{name}}}" for name in names} | _strings(entry.get("env"))
    return rest | {"http_headers": headers, "env": env}


def _of_goose(entry: dict[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in entry.items() if key not in ("uri", "env_keys", "available_tools")}
    if "uri" in entry:
        rest["url"] = entry["uri"]
    names = [name for name in entry.get("env_keys") or () if isinstance(name, str)]
    rest["envs"] = {name: f"${{{name}}}" for name in names} | _strings(entry.get("envs"))
    if entry.get("available_tools"):
        rest["enabled_tools"] = entry["available_tools"]
    return rest


def _ours(entry: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Our keys -> values, and the keys that mean nothing to us."""
    known: dict[str, Any] = {}
    for written, value in entry.items():
        if (key := KEY_OF_SPELLING.get(written)) is not None:
            known.setdefault(key, value)
    timeout = entry.get("timeout")
    if isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout > 0:
        # Seconds for some and milliseconds for others; nobody waits 1000 seconds, nor 999 milliseconds.
        seconds = timeout / 1000 if timeout >= 1000 else timeout
        known.setdefault("timeout_seconds", int(seconds) if seconds == int(seconds) else seconds)
    unknown = [key for key in entry if key not in KEY_OF_SPELLING and key not in _MEANINGLESS]
    return known, unknown


def _with_our_variables(entry: dict[str, Any], client: Client, notes: list[str]) -> dict[str, Any]:
    """References in our form: `$VAR` of Gemini, `${input:id}` of VS Code."""

    def changed(text: str) -> str:
        if client is Client.gemini:
            text = re.sub(r"\$([A-Za-z_][A-Za-z0-9_]*)", r"${\1}", text)
        return re.sub(r"\$\{input:([^{}]{1,100})\}", asked, text)

    def asked(match: re.Match[str]) -> str:
        variable = variable_name(match[1])
        notes.append(f"{safe_line(match.group(), 60)} is now ${{{variable}}}: set it, or mcpagent keys set {variable}")
        return f"${{{variable}}}"

    return {key: _mapped(value, changed) for key, value in entry.items()}


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {str(key): _mapped(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_mapped(item, change) for item in value]
    return value


def _copied(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _mapped(value, str) for key, value in entry.items()}


def _says_something(value: Any) -> bool:
    return value is not None and value != {} and value != [] and value != ""


def _strings(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        return {}
    return {str(key): item for key, item in value.items() if isinstance(item, str)}


def _shown(key: str) -> str:
    return safe_line(key, 40)
