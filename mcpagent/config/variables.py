"""`${VAR}` and its relatives in the strings of a configuration."""

from __future__ import annotations

import os
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
    """What variables stand for. `folder` is the file's; `secret` looks up `${keyring:name}`.

    `workspace` is what `${workspaceFolder}` stands for; without it the folder that the file belongs to.
    """

    environ: Mapping[str, str]
    folder: Path
    secret: SecretLookup | None = None
    workspace: Path | None = None

    @property
    def workspace_folder(self) -> Path:
        if self.workspace is not None:
            return self.workspace
        return self.folder.parent if self.folder.name in _INSIDE_A_PROJECT else self.folder

    def place(self, name: str) -> str | None:
        """What a variable of editors stands for that names a place; None for one that is none of these."""
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


_INSIDE_A_PROJECT = (".vscode", ".cursor", ".gemini")
"""Folders in which clients keep a project's file."""

_VARIABLE = re.compile(r"\$\{([^{}]*)\}")
_BRACE_IN_DEFAULT = re.compile(r"\$\{(?:env:)?[A-Za-z_][A-Za-z0-9_]*:-[^{}]*\{")
"""It would be left as it stands, and nobody would see why."""

_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def expand(text: str, place: ValuePath, variables: Variables) -> str:
    """The text with its variables replaced; what they give is not read again. Raises `UnusableError`.

    `${VAR}`, `${VAR:-default}`, `${env:VAR}`, `${keyring:name}`, `${workspaceFolder}`, `${workspaceFolderBasename}`,
    `${userHome}`, `${pathSeparator}`, `${/}`.
    """
    environ = variables.environ

    def value_of(match: re.Match[str]) -> str:
        inside = match[1]
        if (found := variables.place(inside)) is not None:
            return found
        if inside.startswith("keyring:"):
            return _secret(inside.removeprefix("keyring:"), place, variables.secret)
        name, has_default, default = inside.removeprefix("env:").partition(":-")
        if not _VARIABLE_NAME.fullmatch(name):
            mend = "import it: mcpagent mcp import, or write" if inside.startswith("input:") else "use"
            forms = "${VAR}, ${VAR:-default} or ${env:VAR}"
            what = f'"{safe_line(match.group(), 60)}" is not supported; {mend} {forms}'
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

    if found := _BRACE_IN_DEFAULT.search(text):
        what = f'"{safe_line(found.group(), 60)}": a default cannot hold braces; set the variable instead'
        raise UnusableError(place, what)
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
