"""One server's entry, read into a `ServerConfig`."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args
from urllib.parse import unquote, urlsplit, urlunsplit

from mcpagent.config.config_documents import Document, shown_value
from mcpagent.config.jsonc import ValuePath
from mcpagent.config.permissions import APPROVALS
from mcpagent.config.spellings import KEY_OF_SPELLING, SECONDS_KEYS, TRANSPORTS
from mcpagent.config.values import Approval, Era, LogLevel, ServerConfig, TransportName
from mcpagent.config.variables import UnusableError, Variables, expand, read_env_file
from mcpagent.errors import ConfigError
from mcpagent.text.safe_text import safe_line

MAX_MESSAGE_BYTES = 1024**3


def read_server(
    name: str, entry: dict[str, Any], path: ValuePath, document: Document, variables: Variables
) -> ServerConfig:
    """The entry as a value, its variables expanded; of a disabled one only what needs none.

    Raises `UnusableError` for what others with the same file need not have, such as a variable, and `ConfigError` for
    a mistake in the file.
    """
    values, keys = _known_values(entry, path, document)
    variables = replace(variables, told={})
    place = {key: (*path, spelling) for key, spelling in keys.items()}
    reader = _Reader(document, variables, values, place, path)
    disabled = reader.boolean("disabled") or not reader.boolean("enabled", default=True)
    source = document.place(path, column=False) if document.text else ""
    if disabled:
        # Its variables need not be set, so nothing more of it is read.
        about = reader.plain("description")
        return ServerConfig(name, disabled=True, description=about, source=source, written=entry)
    command, url = reader.string("command"), reader.string("url")
    if bool(command) == bool(url):
        what = 'has both "command" and' if command else 'has neither "command" nor'
        raise document.error(path, f'{what} "url"; give exactly one of them')
    transport = reader.transport(is_command=bool(command))
    headers = dict(reader.headers())
    if url:
        whole = url
        url, credentials = _checked_url(whole, place.get("url", path), document)
        if credentials and not any(key.lower() == "authorization" for key in headers):
            headers["Authorization"] = credentials
        if whole in variables.told and whole != url:
            shown, _, after = variables.told[whole].partition("@")
            variables.told.update({url: f"{shown.partition('://')[0]}://{after}", credentials: f"Basic {shown}"})
    return ServerConfig(
        name=name,
        command=command,
        args=reader.strings("args"),
        env=reader.env_file() | reader.string_map("env"),
        cwd=reader.folder("cwd") or (document.runs_in if command else ""),
        url=url,
        headers=headers,
        transport=transport,
        description=reader.string("description"),
        required=reader.boolean("required"),
        enabled_tools=reader.strings("enabled_tools"),
        disabled_tools=reader.strings("disabled_tools"),
        always_load=reader.globs("always_load"),
        eager=reader.boolean("eager"),
        safe_to_repeat=reader.globs("safe_to_repeat"),
        trust_hints=reader.boolean("trust_hints"),
        approval=reader.approval(),
        max_message_bytes=reader.bytes("max_message_bytes"),
        large_result_tokens=reader.tokens("large_result_tokens"),
        log_level=reader.choice("log_level", get_args(LogLevel)),
        elicitation=reader.boolean("elicitation"),
        sampling=reader.boolean("sampling"),
        roots=reader.folders("roots"),
        era=reader.choice("era", get_args(Era)) or "auto",
        source=source,
        written=entry,
        told=variables.told,
        **reader.all_seconds(),
    )


_SAME = dict.fromkeys(("timeout", "timeout_seconds"), ("timeout", "timeout_seconds"))
"""Keys that are two names of one thing, besides their own spellings."""


def _known_values(entry: dict[str, Any], path: ValuePath, document: Document) -> tuple[dict[str, Any], dict[str, str]]:
    """Our keys -> values, and our keys -> the spelling found. Keys of other clients are passed over, typos are not."""
    values: dict[str, Any] = {}
    spellings: dict[str, str] = {}
    for written, value in entry.items():
        key = KEY_OF_SPELLING.get(written)
        if key is None:
            continue
        # "timeout" is a key of its own because its unit is guessed.
        other = next((name for name in _SAME.get(key, (key,)) if name in values), None)
        if other is not None:
            what = f'"{spellings[other]}" and "{written}" are two names of one thing; keep one of them'
            raise document.error((*path, written), what)
        values[key], spellings[key] = value, written
    for written in entry:
        if written in KEY_OF_SPELLING:
            continue
        near = get_close_matches(written, list(KEY_OF_SPELLING), n=1, cutoff=0.8)
        if near and KEY_OF_SPELLING[near[0]] not in values:
            raise document.error((*path, written), f'unknown key "{safe_line(written, 60)}"; did you mean "{near[0]}"?')
    return values, spellings


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the typed values of one server's entry, expanding variables in every string."""

    document: Document
    variables: Variables
    values: Mapping[str, Any]
    places: Mapping[str, ValuePath]
    path: ValuePath

    def place(self, key: str) -> ValuePath:
        return self.places.get(key, (*self.path, key))

    def plain(self, key: str) -> str:
        value = self.values.get(key)
        return value if isinstance(value, str) else ""

    def string(self, key: str) -> str:
        value = self.values.get(key)
        return "" if value is None else self.expanded(value, self.place(key))

    def expanded(self, value: Any, place: ValuePath) -> str:
        if not isinstance(value, str):
            quoted = f' (write "{str(value).lower()}")' if isinstance(value, bool | int | float) else ""
            raise self.document.error(place, f"expected a string, got {shown_value(value)}{quoted}")
        text = expand(value, place, self.variables)
        if "\0" in text:
            raise self.document.error(place, "contains a NUL character; remove it")
        return text

    def strings(self, key: str) -> tuple[str, ...]:
        value = self.values.get(key)
        if value is None:
            return ()
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise self.document.error(self.place(key), f"expected a list of strings, got {shown_value(value)}")
        return tuple(self.expanded(item, (*self.place(key), index)) for index, item in enumerate(value))

    def string_map(self, key: str) -> dict[str, str]:
        value = self.values.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self.document.error(self.place(key), f"expected an object of strings, got {shown_value(value)}")
        result: dict[str, str] = {}
        for name, item in value.items():
            if not name or "=" in name or "\0" in name:
                raise self.document.error(self.place(key), f'"{safe_line(name, 60)}" cannot be a variable name')
            result[name] = self.expanded(item, (*self.place(key), name))
        return result

    def env_file(self) -> dict[str, str]:
        """The variables of the `.env` file. Raises `UnusableError`: others who use the same configuration have it."""
        path = self.folder("env_file")
        if not path:
            return {}
        place = self.place("env_file")
        try:
            return read_env_file(Path(path))
        except ConfigError as error:
            raise UnusableError(place, str(error)) from None

    def headers(self) -> dict[str, str]:
        headers, seen = self.string_map("headers"), dict[str, str]()
        for name, value in headers.items():
            place = (*self.place("headers"), name)
            if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
                raise self.document.error(place, "not a legal header name; use letters, digits and hyphens")
            if (first := seen.setdefault(name.lower(), name)) != name:
                raise self.document.error(place, f'the same header as "{first}"; keep one of them')
            for position, char in enumerate(value):
                if not (" " <= char <= "~" or char == "\t"):
                    kind = "control character" if ord(char) < 0x20 or ord(char) == 0x7F else "non-ASCII character"
                    raise self.document.error(place, f"{kind} at position {position}; remove it")
        return headers

    def folder(self, key: str) -> str:
        value = self.string(key)
        return str(self.document.folder / Path(value).expanduser()) if value else ""

    def folders(self, key: str) -> tuple[str, ...]:
        """Absolute; a relative one is meant from the file's folder."""
        base = self.document.folder
        return tuple(os.path.abspath(base / Path(value).expanduser()) for value in self.strings(key))

    def boolean(self, key: str, *, default: bool = False) -> bool:
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise self.document.error(self.place(key), f"expected true or false, got {shown_value(value)}")
        return value

    def globs(self, key: str) -> tuple[str, ...]:
        """A list of globs, or true for everything."""
        value = self.values.get(key)
        if isinstance(value, bool):
            return ("*",) if value else ()
        return self.strings(key)

    def approval(self) -> tuple[tuple[str, Approval], ...]:
        """(glob, approval) as written; one word is for every tool."""
        value = self.values.get("approval")
        if value is None:
            return ()
        rules = value if isinstance(value, Mapping) else {"*": value}
        return tuple((str(glob), self._approval(word, glob)) for glob, word in rules.items())

    def _approval(self, word: Any, glob: Any) -> Approval:
        found = APPROVALS.get(word) if isinstance(word, str) else None
        if found is None:
            place = self.place("approval")
            place = (*place, glob) if isinstance(self.values["approval"], Mapping) else place
            raise self.document.error(place, f"expected allow, ask or deny, got {shown_value(word)}")
        return found

    def choice(self, key: str, known: Sequence[Any]) -> Any:
        """One of the known strings; None if nothing is said."""
        value = self.string(key)
        if value and value not in known:
            what = f'"{safe_line(value, 40)}" is not one of {", ".join(known)}'
            raise self.document.error(self.place(key), what)
        return value or None

    def bytes(self, key: str) -> int:
        value = self.values.get(key, ServerConfig("").max_message_bytes)
        if not isinstance(value, int) or isinstance(value, bool) or not 4096 <= value <= MAX_MESSAGE_BYTES:
            what = f"expected bytes between 4096 and {MAX_MESSAGE_BYTES}, got {shown_value(value)}"
            raise self.document.error(self.place(key), what)
        return value

    def tokens(self, key: str) -> int | dict[str, int] | None:
        """A number of tokens, 0 too, for all tools or by glob; None if nothing is said."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, Mapping):
            return {str(glob): self._tokens(number, (*self.place(key), glob)) for glob, number in value.items()}
        return self._tokens(value, self.place(key))

    def _tokens(self, value: Any, place: ValuePath) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            what = f"expected a number of tokens, or 0, or an object of these by tool, got {shown_value(value)}"
            raise self.document.error(place, what)
        return value

    def transport(self, *, is_command: bool) -> TransportName:
        value = self.string("transport")
        if not value:
            return "auto"
        name = TRANSPORTS.get(value.strip().lower())
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
        found = {key: self.seconds(key) for key in SECONDS_KEYS if key in self.values}
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
            what = f"expected seconds between 0.1 and {highest:.0f}, got {shown_value(value)}"
            raise self.document.error(self.place(key), what)
        return float(value)


def _checked_url(url: str, path: ValuePath, document: Document) -> tuple[str, str]:
    """The URL without credentials, and an Authorization header value for those it had."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise document.error(path, f"not a URL: {safe_line(str(error), 80)}") from None
    if any(ord(char) <= 0x20 or ord(char) == 0x7F for char in url):
        raise document.error(path, "contains a space or control character; remove it")
    if "://" not in url:
        raise document.error(path, f"write http://{safe_line(url.rpartition('@')[2], 80)}")
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
