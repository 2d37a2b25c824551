"""One server's entry, read into a `ServerConfig`."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args
from urllib.parse import unquote, urlsplit, urlunsplit

from mcpagent.config.config_documents import Document, entry_values, shown_value
from mcpagent.config.jsonc import ValuePath
from mcpagent.config.permissions import APPROVALS
from mcpagent.config.sign_in_entries import BY_PERSON, KEY_OF_SIGN_IN, SIGN_IN_TEXTS, folded, sign_in_problem
from mcpagent.config.spellings import KEY_OF_SPELLING, SECONDS_KEYS, TRANSPORTS
from mcpagent.config.values import Approval, Era, Grant, LogLevel, ServerConfig, SignInConfig, TransportName
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
    values, places = entry_values(entry, path, document, KEY_OF_SPELLING)
    _refuse_two_timeouts(values, places, document)
    variables = replace(variables, told={})
    reader = _Reader(document, variables, values, places, path)
    disabled = reader.boolean("disabled") or not (reader.boolean("enabled") if "enabled" in values else True)
    source = document.place(path, column=False) if document.text else ""
    if disabled:
        # Its variables need not be set, so nothing more of it is read.
        about = values.get("description")
        description = about if isinstance(about, str) else ""
        return ServerConfig(name, disabled=True, description=description, source=source, written=entry)
    command, url = reader.string("command"), reader.string("url")
    if bool(command) == bool(url):
        what = 'has both "command" and' if command else 'has neither "command" nor'
        raise document.error(path, f'{what} "url"; give exactly one of them')
    transport = reader.transport(is_command=bool(command))
    headers = dict(reader.headers())
    sign_in, bearer = reader.sign_in(is_command=bool(command))
    if bearer:
        headers.setdefault("Authorization", bearer)
    if url:
        whole = url
        url, credentials = _checked_url(whole, places.get("url", path), document)
        if credentials and not any(key.lower() == "authorization" for key in headers):
            headers["Authorization"] = credentials
        if whole in variables.told and whole != url:
            shown, _, after = variables.told[whole].partition("@")
            variables.told.update({url: f"{shown.partition('://')[0]}://{after}", credentials: f"Basic {shown}"})
    found = reader.read(_SERVER_READERS)
    found |= {"env": reader.env_file() | reader.string_map("env"), **reader.timeouts(found)}
    if command:
        found.setdefault("cwd", document.runs_in)
    return ServerConfig(
        name=name,
        command=command,
        url=url,
        headers=headers,
        transport=transport,
        sign_in=sign_in,
        source=source,
        written=entry,
        told=variables.told,
        **found,
    )


def _refuse_two_timeouts(values: Mapping[str, Any], places: Mapping[str, ValuePath], document: Document) -> None:
    """ "timeout" is a key of its own because its unit is guessed. Raises `ConfigError` if both keys are there."""
    both = [key for key in values if key in ("timeout", "timeout_seconds")]
    if len(both) > 1:
        first, second = (places[key] for key in both)
        what = f'"{first[-1]}" and "{second[-1]}" are two names of one thing; keep one of them'
        raise document.error(second, what)


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

    def read(self, readers: Mapping[str, Callable[[_Reader, str], Any]]) -> dict[str, Any]:
        """The values of these keys, without those that say nothing."""
        found = {key: reader(self, key) for key, reader in readers.items() if key in self.values}
        return {key: value for key, value in found.items() if value not in (None, "")}

    def string(self, key: str) -> str:
        return self.expanded(self.values[key], self.place(key)) if key in self.values else ""

    def expanded(self, value: Any, place: ValuePath) -> str:
        if not isinstance(value, str):
            quoted = f' (write "{str(value).lower()}")' if isinstance(value, bool | int | float) else ""
            raise self.document.error(place, f"expected a string, got {shown_value(value)}{quoted}")
        text = expand(value, place, self.variables)
        if "\0" in text:
            raise self.document.error(place, "contains a NUL character; remove it")
        return text

    def strings(self, key: str) -> tuple[str, ...]:
        value = self.values.get(key, ())
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise self.document.error(self.place(key), f"expected a list of strings, got {shown_value(value)}")
        return tuple(self.expanded(item, (*self.place(key), index)) for index, item in enumerate(value))

    def string_map(self, key: str) -> dict[str, str]:
        value = self.values.get(key, {})
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

    def boolean(self, key: str) -> bool:
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise self.document.error(self.place(key), f"expected true or false, got {shown_value(value)}")
        return value

    def globs(self, key: str) -> tuple[str, ...]:
        """A list of globs, or true for everything."""
        value = self.values[key]
        if isinstance(value, bool):
            return ("*",) if value else ()
        return self.strings(key)

    def approval(self, key: str) -> tuple[tuple[str, Approval], ...]:
        """(glob, approval) as written; one word is for every tool."""
        value = self.values[key]
        rules = value if isinstance(value, Mapping) else {"*": value}
        return tuple((str(glob), self._approval(word, glob)) for glob, word in rules.items())

    def _approval(self, word: Any, glob: Any) -> Approval:
        found = APPROVALS.get(word) if isinstance(word, str) else None
        if found is None:
            place = self.place("approval")
            place = (*place, glob) if isinstance(self.values["approval"], Mapping) else place
            raise self.document.error(place, f"expected allow, ask or deny, got {shown_value(word)}")
        return found

    def choice(self, key: str) -> str:
        """One of the known strings."""
        value, known = self.string(key), _CHOICES[key]
        if value and value not in known:
            what = f'"{safe_line(value, 40)}" is not one of {", ".join(known)}'
            raise self.document.error(self.place(key), what)
        return value

    def bytes(self, key: str) -> int:
        value = self.values[key]
        if not isinstance(value, int) or isinstance(value, bool) or not 4096 <= value <= MAX_MESSAGE_BYTES:
            what = f"expected bytes between 4096 and {MAX_MESSAGE_BYTES}, got {shown_value(value)}"
            raise self.document.error(self.place(key), what)
        return value

    def tokens(self, key: str) -> int | dict[str, int]:
        """A number of tokens, 0 too, for all tools or by glob."""
        value = self.values[key]
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

    def sign_in(self, *, is_command: bool) -> tuple[SignInConfig, str]:
        """How to sign in, and an `Authorization` header for what is written as a token itself."""
        value, place = self.values.get("sign_in"), self.place("sign_in")
        if value is None or isinstance(value, bool):  # others write true for a person's sign-in
            return SignInConfig(), ""
        if isinstance(value, str):  # as fastmcp has it: "oauth", or a token
            token = self.string("sign_in")
            return SignInConfig(), f"Bearer {token}" if token != BY_PERSON and not is_command else ""
        if not isinstance(value, Mapping):
            raise self.document.error(place, f"expected an object, got {shown_value(value)}")
        if is_command and value:
            raise self.document.error(place, 'is for a server with "url"; a program gets its keys by "env"')
        if any(name.lower() == "authorization" for name in self.string_map("headers")):
            raise self.document.error(place, "stands beside an Authorization header; keep one of them")
        values, places = entry_values(value, place, self.document, KEY_OF_SIGN_IN, folded)
        inner = replace(self, values=values, places=places, path=place)
        config = SignInConfig(**inner.read(_SIGN_IN_READERS))
        if problem := sign_in_problem(config):
            raise self.document.error(place, problem)
        return config, ""

    def words(self, key: str) -> tuple[str, ...]:
        """A list of words, or one text with spaces between them."""
        return tuple(self.string(key).split()) if isinstance(self.values[key], str) else self.strings(key)

    def port(self, key: str) -> int:
        value = self.values[key]
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 65_535:
            raise self.document.error(self.place(key), f"expected a port, 1 to 65535, got {shown_value(value)}")
        return value

    def timeouts(self, found: Mapping[str, Any]) -> dict[str, float]:
        """The timeouts that follow from the others."""
        timeout = found.get("timeout_seconds")
        if "timeout" in self.values:
            # Clients disagree on the unit of the bare key; nobody waits 1000 seconds, nor 999 milliseconds.
            timeout = self.seconds("timeout", highest=86_400_000.0)
            timeout = timeout / 1000 if timeout >= 1000 else timeout
        if timeout is None:
            return {}
        total = max(timeout, ServerConfig("").total_timeout_seconds)
        return {"timeout_seconds": timeout, "total_timeout_seconds": found.get("total_timeout_seconds", total)}

    def seconds(self, key: str, highest: float = 86_400.0) -> float:
        value = self.values[key]
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or not 0.1 <= value <= highest:
            what = f"expected seconds between 0.1 and {highest:.0f}, got {shown_value(value)}"
            raise self.document.error(self.place(key), what)
        return float(value)


_CHOICES: Mapping[str, Sequence[str]] = {
    "log_level": get_args(LogLevel),
    "era": get_args(Era),
    "grant": get_args(Grant),
}
_SERVER_READERS: Mapping[str, Callable[[_Reader, str], Any]] = {
    **dict.fromkeys(("required", "eager", "trust_hints", "elicitation", "sampling"), _Reader.boolean),
    **dict.fromkeys(("args", "enabled_tools", "disabled_tools"), _Reader.strings),
    **dict.fromkeys(("always_load", "safe_to_repeat"), _Reader.globs),
    **dict.fromkeys(SECONDS_KEYS, _Reader.seconds),
    **dict.fromkeys(("log_level", "era"), _Reader.choice),
    "description": _Reader.string,
    "cwd": _Reader.folder,
    "roots": _Reader.folders,
    "approval": _Reader.approval,
    "max_message_bytes": _Reader.bytes,
    "large_result_tokens": _Reader.tokens,
}
_SIGN_IN_READERS: Mapping[str, Callable[[_Reader, str], Any]] = {
    **dict.fromkeys(SIGN_IN_TEXTS, _Reader.string),
    **dict.fromkeys(("private_key_file", "token_file"), _Reader.folder),
    "grant": _Reader.choice,
    "scopes": _Reader.words,
    "callback_port": _Reader.port,
    "proof_of_possession": _Reader.boolean,
}


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
