"""Expand `${VAR}` and its variants in the strings of a configuration, and read variables from `.env` files."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from mcpagent.config.config_documents import own_workspace, read_bytes
from mcpagent.config.jsonc import ValuePath
from mcpagent.errors import ConfigError, CredentialsError
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import (
    Secret,
    hide,
    names_a_credential,
    secrets_under,
)

SecretLookup: TypeAlias = Callable[[str], str | None]
"""Callback that returns the secret with a name; None if it is missing. Raises `CredentialsError` if it cannot be
read.
"""


class UnusableError(Exception):
    """Raised if one server cannot be used; other servers still can. `path` is its position in the document."""

    def __init__(self, path: ValuePath, what: str) -> None:
        super().__init__(what)
        self.path = path
        self.what = what


@dataclass(frozen=True, slots=True)
class Variables:
    """The sources of variables. `folder` is the file's folder; `secret` looks up `${keyring:name}`.

    `workspace` is the value of `${workspaceFolder}`; by default, the project folder of the file.
    """

    environ: Mapping[str, str]
    folder: Path
    secret: SecretLookup | None = None
    workspace: Path | None = None

    @property
    def workspace_folder(self) -> Path:
        """The value of `${workspaceFolder}`; for a file in `.vscode` or a similar folder, the parent folder."""
        if self.workspace is not None:
            return self.workspace
        return own_workspace(self.folder)

    def place(self, name: str) -> str | None:
        """Return the value of an editor's variable for a location; None for other names."""
        match name:
            case "workspaceFolder" | "workspaceRoot":
                return str(self.workspace_folder)
            case "workspaceFolderBasename":
                return self.workspace_folder.name
            case "userHome":
                return self.environ.get("HOME") or str(Path.home())
            case "pathSeparator" | "/":
                return os.sep
        return None


_OURS = {"MCPAGENT_PYTHON": sys.executable}
"""Variables that mcpagent defines unless they are set: `MCPAGENT_PYTHON` is the Python that runs mcpagent."""

_HEADERS = frozenset({"headers", "http_headers", "requestOptions"})
_VARIABLE = re.compile(r"\$\{([^{}]*)\}")
_BRACE_IN_DEFAULT = re.compile(r"\$\{(?:env:)?[A-Za-z_][A-Za-z0-9_]*:-[^{}]*\{")
"""Matches a brace inside a default value. It is refused, because the reference would silently stay unexpanded."""

_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def expand(text: str, place: ValuePath, variables: Variables) -> str | Secret:
    """Return the text with its variables replaced; their values are not expanded again. Raises `UnusableError`.

    Variables are `${VAR}`, `${VAR:-default}`, `${env:VAR}`, `${keyring:name}`, `${workspaceFolder}`,
    `${workspaceFolderBasename}`, `${userHome}`, `${pathSeparator}` and `${/}`. `${MCPAGENT_PYTHON}` is by default the
    Python that runs mcpagent.

    A text with a value of the user's environment or keyring becomes a `Secret`, whose origin has the reference. Values
    are redacted in all output if they come from the keyring, or if the variable or the field has a credential's name.
    So are passwords in an address or a connection string.
    """
    if found := _BRACE_IN_DEFAULT.search(text):
        what = f'"{safe_line(found.group(), 60)}": a default cannot hold braces; set the variable instead'
        raise UnusableError(place, what)
    origin, expanded, start = list[str](), list[str](), 0
    for match in _VARIABLE.finditer(text):
        between, value = text[start : match.start()], _value_of(match, place, variables)
        is_private = variables.place(match[1]) is None
        if is_private:
            hide(*_secrets_of(value, match[1], place))
        origin += (between, match.group() if is_private else value)
        expanded += (between, value)
        start = match.end()
    whole, shown = (f"{''.join(pieces)}{text[start:]}" for pieces in (expanded, origin))
    if whole == shown:
        return whole
    hide(*secrets_under("".join(map(str, place[-1:])), whole))
    return Secret(whole, shown)


def refers_to_secret(text: str, place: ValuePath) -> bool:
    """Return whether the text refers to the keyring, or to a variable with a credential's name."""
    return any(_is_credential(found[1], place) for found in _VARIABLE.finditer(text))


def _value_of(match: re.Match[str], place: ValuePath, variables: Variables) -> str:
    inside = match[1]
    if (found := variables.place(inside)) is not None:
        return found
    if inside.startswith("keyring:"):
        return _secret(inside.removeprefix("keyring:"), place, variables.secret)
    name, has_default, default = inside.removeprefix("env:").partition(":-")
    if not _VARIABLE_NAME.fullmatch(name):
        fix = "use"
        if inside.startswith("input:"):
            fix = "import it: mcpagent mcp import, or write"
        forms = "${VAR}, ${VAR:-default} or ${env:VAR}"
        raise UnusableError(
            place, f'"{safe_line(match.group(), 60)}" is not supported; {fix} {forms}'
        )
    try:
        value = variables.environ.get(name, _OURS.get(name))
    except (
        CredentialsError
    ) as error:  # the variable has a stored key, which cannot be read
        raise UnusableError(place, str(error)) from None
    if has_default:
        return value or default
    if value is None:
        fix = f"export it, or keep it: mcpagent keys set {name}, or write ${{{name}:-default}}"
        raise UnusableError(place, f"environment variable {name} is not set; {fix}")
    return value


def _secrets_of(value: str, inside: str, place: ValuePath) -> Iterator[str]:
    if _is_credential(inside, place):
        yield value
    yield from secrets_under(_name_in(inside), value)


def _name_in(inside: str) -> str:
    return inside.removeprefix("env:").partition(":-")[0]


def _is_credential(inside: str, place: ValuePath) -> bool:
    fields = [str(step) for step in place[-2:]]
    is_header = any(field in _HEADERS for field in fields)
    return (
        inside.startswith("keyring:")
        or is_header
        or any(map(names_a_credential, (_name_in(inside), *fields[-1:])))
    )


def _secret(name: str, place: ValuePath, lookup: SecretLookup | None) -> str:
    try:
        value = None
        if lookup is not None:
            value = lookup(name)
    except CredentialsError as error:
        raise UnusableError(place, str(error)) from None
    if value is None:
        shown = safe_line(name, 60)
        raise UnusableError(
            place,
            f"${{keyring:{shown}}} is not stored; store it: mcpagent keys set {shown}",
        )
    return value


def read_env_file(path: Path) -> dict[str, str]:
    """Return the variables of an `.env` file; the last one of each name wins. References in values are not expanded.

    Raises `ConfigError` with file and line.
    """
    from dotenv.parser import parse_stream

    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8; save the file as UTF-8") from None
    found: dict[str, str] = {}
    for line in parse_stream(io.StringIO(text)):
        if line.error or "\0" in line.original.string:
            raise ConfigError(f"{path}:{line.original.line}: expected NAME=value")
        if line.key is not None:
            found[line.key] = line.value or ""
    return found
