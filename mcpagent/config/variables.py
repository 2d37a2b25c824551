"""`${VAR}` and its relatives in the strings of a configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from mcpagent.config.jsonc import ValuePath
from mcpagent.errors import CredentialsError
from mcpagent.safe_text import safe_line

SecretLookup: TypeAlias = Callable[[str], str | None]
"""The secret kept under a name, None where there is none. Raises `CredentialsError` where it cannot be read."""


class UnusableError(Exception):
    """What keeps one server, and only that one, from being used; `path` is where in the document."""

    def __init__(self, path: ValuePath, what: str) -> None:
        super().__init__(what)
        self.path = path
        self.what = what


@dataclass(frozen=True, slots=True)
class Variables:
    """What variables stand for. `folder` is the file's; `secret` looks up `${keyring:name}`."""

    environ: Mapping[str, str]
    folder: Path
    secret: SecretLookup | None = None


_VARIABLE = re.compile(r"\$\{([^{}]*)\}")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def expand(text: str, place: ValuePath, variables: Variables) -> str:
    """The text with its variables replaced; what they give is not read again. Raises `UnusableError`.

    `${VAR}`, `${VAR:-default}`, `${env:VAR}`, `${keyring:name}`, `${workspaceFolder}`, `${userHome}`.
    """
    environ, folder = variables.environ, variables.folder

    def value_of(match: re.Match[str]) -> str:
        inside = match[1]
        if inside in ("workspaceFolder", "workspaceRoot"):
            return str(folder.parent if folder.name in (".vscode", ".cursor") else folder)
        if inside == "userHome":
            return environ.get("HOME") or str(Path.home())
        if inside.startswith("keyring:"):
            return _secret(inside.removeprefix("keyring:"), place, variables.secret)
        name, has_default, default = inside.removeprefix("env:").partition(":-")
        if not _VARIABLE_NAME.fullmatch(name):
            what = f'"{safe_line(match.group(), 60)}" is not supported; use ${{VAR}}, ${{VAR:-default}} or ${{env:VAR}}'
            raise UnusableError(place, what)
        try:
            value = environ.get(name)
        except CredentialsError as error:  # it is one of the keys set for this environment
            raise UnusableError(place, str(error)) from None
        if has_default:
            return value or default
        if value is None:
            mend = f"export it, or keep it: mcpagent keys set {name}, or write ${{{name}:-default}}"
            raise UnusableError(place, f"environment variable {name} is not set; {mend}")
        return value

    return _VARIABLE.sub(value_of, text)


def _secret(name: str, place: ValuePath, lookup: SecretLookup | None) -> str:
    try:
        value = lookup(name) if lookup is not None else None
    except CredentialsError as error:
        raise UnusableError(place, str(error)) from None
    if value is None:
        shown = safe_line(name, 60)
        raise UnusableError(place, f"${{keyring:{shown}}} is not stored; store it: mcpagent keys set {shown}")
    return value
