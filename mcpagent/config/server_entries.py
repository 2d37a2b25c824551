"""Read one server's entry into a `ServerConfig`."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args
from urllib.parse import unquote, urlsplit, urlunsplit

from mcpagent.config.config_documents import ConfigDocument, entry_values, shown_value
from mcpagent.config.jsonc import ValuePath
from mcpagent.config.server_config import (
    APPROVALS,
    Era,
    Grant,
    LogLevel,
    ServerConfig,
    SignInConfig,
    TransportName,
)
from mcpagent.config.sign_in_entries import (
    BY_PERSON,
    KEY_OF_SIGN_IN,
    SIGN_IN_TEXTS,
    folded,
    sign_in_problem,
)
from mcpagent.config.spellings import KEY_OF_SPELLING, SECONDS_KEYS, TRANSPORTS
from mcpagent.config.variables import (
    UnusableError,
    Variables,
    expand,
    read_env_file,
    refers_to_secret,
)
from mcpagent.errors import ConfigError
from mcpagent.utilities.filesystem.git import is_ignored
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import (
    Secret,
    hide,
    names_a_credential,
    revealed,
    secrets_under,
)
from mcpagent.values.tools import ALL_CALLERS

MAX_MESSAGE_BYTES = 1024**3


def read_server(
    name: str,
    entry: dict[str, Any],
    path: ValuePath,
    document: ConfigDocument,
    variables: Variables,
) -> ServerConfig:
    """Return the entry as a `ServerConfig` with its variables expanded; of a disabled server, only the parts without
    variables.

    Raises `UnusableError` for a problem that other users of the file need not have, such as a missing variable, and
    `ConfigError` for a mistake in the file.
    """
    values, places = entry_values(entry, path, document, KEY_OF_SPELLING)
    _refuse_two_timeouts(values, places, document)
    reader = _Reader(document, variables, values, places, _SERVER_KINDS)
    disabled = reader.value("disabled", default=False) or not reader.value(
        "enabled", default=True
    )
    source = ""
    if document.text:
        source = document.place(path, column=False)
    if disabled:
        # The variables of a disabled server need not be set, so nothing else is read.
        about = values.get("description")
        description = ""
        if isinstance(about, str):
            description = about
        return ServerConfig(
            name, disabled=True, description=description, source=source, written=entry
        )
    command, url = reader.value("command"), reader.value("url")
    openapi = reader.openapi()
    if problem := _target_problem(bool(command), bool(url), bool(openapi)):
        raise document.error(path, problem)
    if "credentials" in values and not openapi:
        raise document.error(places["credentials"], 'is for an entry with "openapi"')
    transport = reader.transport(is_command=bool(command))
    headers = dict(reader.headers())
    sign_in, bearer = reader.sign_in(is_command=bool(command))
    if bearer:
        headers.setdefault("Authorization", bearer)
    if openapi and not url and sign_in != SignInConfig():
        what = 'needs "url", the address of the API that is signed in to'
        raise document.error(places["sign_in"], what)
    if url:
        url, credentials = _checked_url(url, places.get("url", path), document)
        if credentials and any(key.lower() == "authorization" for key in headers):
            what = "has a user or password beside an Authorization header; keep one of them"
            raise document.error(places.get("url", path), what)
        if credentials:
            headers["Authorization"] = credentials
    found = reader.read(*_AS_THEY_ARE) | reader.timeouts()
    if isinstance(approval := reader.value("approval", {}), str):
        approval = {"*": approval}
    # A relative folder starts from the configuration file's folder.
    roots = [
        os.path.abspath(document.folder / Path(root).expanduser())
        for root in reader.value("roots", ())
    ]
    return ServerConfig(
        name=name,
        command=command,
        url=url,
        headers=headers,
        transport=transport,
        sign_in=sign_in,
        source=source,
        written=entry,
        env=reader.environment(),
        cwd=reader.value("cwd") or (document.runs_in if command else ""),
        roots=tuple(roots),
        openapi=openapi,
        credentials=reader.credentials(),
        approval=tuple((glob, APPROVALS[word]) for glob, word in approval.items()),
        **found,
    )


def _target_problem(has_command: bool, has_url: bool, has_openapi: bool) -> str:
    """Return the problem of an entry with these targets; "" if they are valid."""
    if has_openapi and has_command:
        return 'has both "command" and "openapi"; keep one of them'
    if has_openapi or has_command != has_url:
        return ""
    what = 'has neither "command" nor'
    if has_command:
        what = 'has both "command" and'
    return f'{what} "url"; give exactly one of them'


def _refuse_two_timeouts(
    values: Mapping[str, Any], places: Mapping[str, ValuePath], document: ConfigDocument
) -> None:
    """Raise `ConfigError` for two timeouts. They are separate keys, because the unit of "timeout" is guessed."""
    both = [key for key in values if key in ("timeout", "timeout_seconds")]
    if len(both) > 1:
        first, second = (places[key] for key in both)
        what = f'"{first[-1]}" and "{second[-1]}" are two names of one thing; keep one of them'
        raise document.error(second, what)


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of value: its name in errors, its types, and the kind of the items of a list or object (`inner`).

    `bounds` limit a number. `choices` are the allowed texts, before variables are expanded (empty: any).
    """

    words: str
    types: tuple[type, ...]
    inner: _Kind | None = None
    bounds: tuple[float, float] = (-math.inf, math.inf)
    choices: Collection[str] = ()

    def fits(self, value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, self.types):
            return isinstance(value, bool) and bool in self.types
        if isinstance(value, int | float):
            return self.bounds[0] <= value <= self.bounds[1]
        return not (self.choices and isinstance(value, str)) or value in self.choices


_LISTS = (list, tuple)
_TEXT = _Kind("a string", (str,))
_FLAG = _Kind("true or false", (bool,))
_TEXTS = _Kind("a list of strings", _LISTS, _TEXT)
_TEXT_OR_TEXTS = _Kind("a list of strings", (*_LISTS, str), _TEXT)
_GLOBS = _Kind("a list of strings", (*_LISTS, bool), _TEXT)
_TEXTS_BY_NAME = _Kind("an object of strings", (Mapping,), _TEXT)
_TEXT_OR_TEXTS_BY_NAME = _Kind(
    "a string, or an object of strings", (str, Mapping), _TEXT
)
_SECONDS = _Kind("seconds between 0.1 and 86400", (int, float), bounds=(0.1, 86_400))
_TIMEOUT = _Kind(
    "seconds between 0.1 and 86400000", (int, float), bounds=(0.1, 86_400_000)
)
_BYTES = _Kind(
    f"bytes between 4096 and {MAX_MESSAGE_BYTES}",
    (int,),
    bounds=(4096, MAX_MESSAGE_BYTES),
)
_PORT = _Kind("a port, 1 to 65535", (int,), bounds=(0, 65_535))
_TOKENS = _Kind(
    "a number of tokens, or 0, or an object of these by tool",
    (int,),
    bounds=(0, math.inf),
)
_TOKENS_BY_TOOL = replace(_TOKENS, types=(int, Mapping), inner=_TOKENS)
_WORD = _Kind("allow, ask or deny", (str,), choices=APPROVALS)
_WORDS = replace(_WORD, types=(str, Mapping), inner=_WORD)
_CALLER = _Kind('"direct" or "code"', (str,), choices=ALL_CALLERS)
_CALLERS = _Kind('a list with "direct", "code" or both', _LISTS, _CALLER)
_WRITTEN_SIGN_IN = _Kind("an object", (bool, str, Mapping))

_SERVER_KINDS: Mapping[str, _Kind] = {
    **dict.fromkeys(
        (
            "disabled",
            "enabled",
            "required",
            "eager",
            "keeps_running",
            "trust_hints",
            "elicitation",
            "sampling",
        ),
        _FLAG,
    ),
    **dict.fromkeys(
        (
            "command",
            "url",
            "description",
            "transport",
            "log_level",
            "era",
            "cwd",
            "env_file",
        ),
        _TEXT,
    ),
    **dict.fromkeys(("args", "enabled_tools", "disabled_tools", "roots"), _TEXTS),
    **dict.fromkeys(("always_load", "safe_to_repeat"), _GLOBS),
    **dict.fromkeys(("env", "headers"), _TEXTS_BY_NAME),
    **dict.fromkeys(SECONDS_KEYS, _SECONDS),
    "timeout": _TIMEOUT,
    "max_message_bytes": _BYTES,
    "large_result_tokens": _TOKENS_BY_TOOL,
    "allowed_callers": _CALLERS,
    "approval": _WORDS,
    "openapi": _TEXT,
    "credentials": _TEXT_OR_TEXTS_BY_NAME,
    "sign_in": _WRITTEN_SIGN_IN,
}
_SIGN_IN_KINDS: Mapping[str, _Kind] = {
    **dict.fromkeys((*SIGN_IN_TEXTS, "grant", "private_key_file", "token_file"), _TEXT),
    "scopes": _TEXT_OR_TEXTS,
    "callback_port": _PORT,
    "proof_of_possession": _FLAG,
}
_CHOICES: Mapping[str, Sequence[str]] = {
    "log_level": get_args(LogLevel),
    "era": get_args(Era),
    "grant": get_args(Grant),
}
_AS_THEY_ARE = (
    *(
        "args",
        "description",
        "required",
        "enabled_tools",
        "disabled_tools",
        "always_load",
        "eager",
        "keeps_running",
        "safe_to_repeat",
    ),
    *(
        "trust_hints",
        "max_message_bytes",
        "large_result_tokens",
        "allowed_callers",
        "log_level",
        "elicitation",
        "sampling",
        "era",
    ),
)
"""Keys whose values go into `ServerConfig` unchanged, under the same names."""

_FOLDERS = ("cwd", "env_file", "private_key_file", "token_file")
_MAY_BE_SECRET = frozenset(
    {
        "command",
        "args",
        "env",
        "url",
        "headers",
        "credentials",
        "sign_in",
        "client_secret",
        "private_key",
        "token",
        "idp_client_secret",
    }
)
"""Keys whose texts become a `Secret` if they contain a value of the user's environment or keyring."""


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the typed values of one server's entry, and expands variables in every string."""

    document: ConfigDocument
    variables: Variables
    values: Mapping[str, Any]
    places: Mapping[str, ValuePath]
    kinds: Mapping[str, _Kind]

    def read(self, *keys: str) -> dict[str, Any]:
        """Return the values of these keys, except missing keys and empty texts."""
        found = {key: self.value(key) for key in keys if key in self.values}
        return {key: value for key, value in found.items() if value != ""}

    def value(self, key: str, default: Any = "") -> Any:
        """Return the value of a key as `ServerConfig` has it. Raises `ConfigError` if its type is wrong."""
        if key not in self.values:
            return default
        place, kind = self.places[key], self.kinds[key]
        value = self.checked(self.values[key], kind, place)
        if key not in _MAY_BE_SECRET:
            if self.kinds is _SERVER_KINDS:
                self._refuse_secrets(value, place)
            value = _all_revealed(value)
        if key in _CHOICES and value and value not in _CHOICES[key]:
            what = f'"{safe_line(value, 40)}" is not one of {", ".join(_CHOICES[key])}'
            raise self.document.error(place, what)
        if key in _FOLDERS and value:
            return str(self.document.folder / Path(value).expanduser())
        if kind is _GLOBS and isinstance(value, bool):
            if value:
                return ("*",)
            return ()
        return value

    def _refuse_secrets(self, value: Any, place: ValuePath) -> None:
        """Raise `ConfigError` for a secret in a text that the model, the server or other people can see."""
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, Secret) and refers_to_secret(text.origin, place):
                what = f"{safe_line(text.origin, 60)} is a secret, and this is shown; use env or headers"
                raise self.document.error(place, what)

    def checked(self, value: Any, kind: _Kind, place: ValuePath) -> Any:
        """Return the value with its variables expanded; a list becomes a tuple."""
        if not kind.fits(value):
            is_plain = kind is _TEXT and isinstance(value, bool | int | float)
            quoted = ""
            if is_plain:
                quoted = f' (write "{str(value).lower()}")'
            elif kind is _TEXTS and isinstance(value, str):
                quoted = f"; write {safe_line(json.dumps(_words(value)), 120)}"
            raise self.document.error(
                place, f"expected {kind.words}, got {shown_value(value)}{quoted}"
            )
        if isinstance(value, str):
            text = expand(value, place, self.variables)
            if "\0" in revealed(text):
                raise self.document.error(place, "contains a NUL character; remove it")
            return text
        if kind.inner is None or isinstance(value, int):
            return value
        if not isinstance(value, Mapping):
            return tuple(
                self.checked(item, kind.inner, (*place, index))
                for index, item in enumerate(value)
            )
        if kind is _TEXTS_BY_NAME:
            for name in value:
                if not name or "=" in name or "\0" in name:
                    raise self.document.error(
                        place, f'"{safe_line(name, 60)}" cannot be a variable name'
                    )
        return {
            str(name): self.checked(item, kind.inner, (*place, name))
            for name, item in value.items()
        }

    def environment(self) -> dict[str, str | Secret]:
        """Return the environment variables set for the server; those of `env` override those of its `.env` file.

        Raises `UnusableError` if the `.env` file cannot be read, because it may exist for other users of the
        configuration.
        """
        path, found = self.value("env_file"), dict[str, str | Secret]()
        if path:
            try:
                found |= read_env_file(Path(path))
            except ConfigError as error:
                raise UnusableError(self.places["env_file"], str(error)) from None
            if is_ignored(Path(path)):
                found = _of_the_person(found, str(self.values["env_file"]))
        return {**found, **self.value("env", {})}

    def headers(self) -> dict[str, str | Secret]:
        headers: dict[str, str | Secret] = self.value("headers", {})
        seen: dict[str, str] = {}
        for name, value in headers.items():
            place = (*self.places["headers"], name)
            if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
                raise self.document.error(
                    place, "not a legal header name; use letters, digits and hyphens"
                )
            if (first := seen.setdefault(name.lower(), name)) != name:
                raise self.document.error(
                    place, f'the same header as "{first}"; keep one of them'
                )
            for position, char in enumerate(revealed(value)):
                if not (" " <= char <= "~" or char == "\t"):
                    kind = "non-ASCII character"
                    if ord(char) < 0x20 or ord(char) == 0x7F:
                        kind = "control character"
                    raise self.document.error(
                        place, f"{kind} at position {position}; remove it"
                    )
        return headers

    def openapi(self) -> str:
        """Return the URL of the OpenAPI document, or its absolute path, or ""."""
        source: str = self.value("openapi")
        if not source or source.lower().startswith(("http://", "https://")):
            return source
        return os.path.abspath(self.document.folder / Path(source).expanduser())

    def credentials(self) -> dict[str, str | Secret]:
        """Return the credentials by security scheme; a single text applies to any scheme ("*")."""
        given = self.value("credentials", {})
        if isinstance(given, Mapping):
            return dict(given)
        return {"*": given}

    def transport(self, *, is_command: bool) -> TransportName:
        value = self.value("transport")
        if not value:
            return "auto"
        name = TRANSPORTS.get(value.strip().lower())
        if name is None:
            known = ", ".join(get_args(TransportName))
            what = f'transport "{safe_line(value, 40)}" is not one of {known}'
            raise self.document.error(self.places["transport"], what)
        if is_command != (name == "stdio") and name != "auto":
            if is_command:
                given, needs = "command", "stdio"
            else:
                given, needs = "url", "http or sse"
            what = f'"{safe_line(value, 40)}" does not fit a server with "{given}"; write {needs}'
            raise self.document.error(self.places["transport"], what)
        return name

    def sign_in(self, *, is_command: bool) -> tuple[SignInConfig, str | Secret]:
        """Return the sign-in settings, and an `Authorization` header if the entry contains a token itself."""
        value = self.value("sign_in", default=True)
        if isinstance(
            value, bool
        ):  # other clients write true for a sign-in by the user
            return SignInConfig(), ""
        if isinstance(value, str | Secret):  # the form of fastmcp: "oauth", or a token
            is_token = value != BY_PERSON and not is_command
            return SignInConfig(), Secret(
                f"Bearer {revealed(value)}", _bearer_origin(value)
            ) if is_token else ""
        place = self.places["sign_in"]
        if is_command and value:
            raise self.document.error(
                place, 'is for a server with "url"; a program gets its keys by "env"'
            )
        if any(name.lower() == "authorization" for name in self.value("headers", {})):
            raise self.document.error(
                place, "stands beside an Authorization header; keep one of them"
            )
        values, places = entry_values(
            value, place, self.document, KEY_OF_SIGN_IN, folded
        )
        found = replace(self, values=values, places=places, kinds=_SIGN_IN_KINDS).read(
            *_SIGN_IN_KINDS
        )
        if isinstance(scopes := found.get("scopes"), str):
            found["scopes"] = tuple(scopes.split())
        config = SignInConfig(**found)
        if problem := sign_in_problem(config):
            raise self.document.error(place, problem)
        return config, ""

    def timeouts(self) -> dict[str, float]:
        found = {key: float(value) for key, value in self.read(*SECONDS_KEYS).items()}
        if "timeout" in self.values:
            # Clients disagree about the unit of this key; 1000 seconds and 999 milliseconds are both implausible.
            value = float(self.value("timeout"))
            if value >= 1000:
                found["timeout_seconds"] = value / 1000
            else:
                found["timeout_seconds"] = value
        if "timeout_seconds" in found and "total_timeout_seconds" not in found:
            found["total_timeout_seconds"] = max(
                found["timeout_seconds"], ServerConfig("").total_timeout_seconds
            )
        return found


def _of_the_person(
    found: Mapping[str, str | Secret], file: str
) -> dict[str, str | Secret]:
    """Return the variables of a file that git ignores. The values of credentials become `Secret`, shown only by name.

    Other values are shown in full, since another person may have written the file: `NODE_OPTIONS` decides which code
    runs.
    """
    variables = dict(found)
    for name, value in found.items():
        hide(*secrets_under(name, revealed(value)))
        if names_a_credential(name):
            variables[name] = Secret(revealed(value), f"(in {file})")
    return variables


def _all_revealed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _all_revealed(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_all_revealed, value))
    if isinstance(value, Secret):
        return revealed(value)
    return value


def _bearer_origin(token: str | Secret) -> str:
    if isinstance(token, Secret):
        return f"Bearer {token.origin}"
    return ""


def _words(text: str) -> list[str]:
    """Return the words of a command line, split like in a shell; the whole text if a quotation mark is not closed."""
    try:
        return shlex.split(text)
    except ValueError:
        return [text]


def _checked_url(
    given: str | Secret, path: ValuePath, document: ConfigDocument
) -> tuple[str | Secret, str | Secret]:
    """Return the URL without user name and password, and an Authorization header value for them."""
    url, origin = revealed(given), given.origin if isinstance(given, Secret) else ""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise document.error(path, f"not a URL: {safe_line(str(error), 80)}") from None
    if any(ord(char) <= 0x20 or ord(char) == 0x7F for char in url):
        raise document.error(path, "contains a space or control character; remove it")
    if "://" not in url:
        place = safe_line(url.rpartition("@")[2], 80)
        if place.isdigit():
            place = f"localhost:{place}/mcp"
        raise document.error(path, f"write http://{place}")
    if parts.scheme not in ("http", "https"):
        raise document.error(
            path, f'only http and https URLs, got "{safe_line(parts.scheme, 20)}"'
        )
    if not parts.hostname:
        raise document.error(path, "has no host; write https://host/path")
    if "@" not in parts.netloc:
        return given, ""
    from base64 import b64encode

    user_and_password = (
        f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    )
    if ":" in parts.hostname:
        host = f"[{parts.hostname}]"
    else:
        host = parts.hostname
    if port is None:
        netloc = host
    else:
        netloc = f"{host}:{port}"
    bare = urlunsplit(parts._replace(netloc=netloc))
    hide(unquote(parts.password or ""))
    credentials = "Basic " + b64encode(user_and_password.encode()).decode()
    if not origin:
        return bare, Secret(credentials)
    before, at, after = origin.partition("@")
    if at:
        origin = f"{before.partition('://')[0]}://{after}"
    return Secret(bare, origin), Secret(credentials, f"Basic {before}")
