"""Locations of persistent data: a file, or the address of a PostgreSQL database."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeGuard

from mcpagent.errors import ConfigError
from mcpagent.utilities.filesystem.user_folders import user_data_folder

_POSTGRES = ("postgresql://", "postgres://")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,30}://")


def is_address(where: object) -> TypeGuard[str]:
    """Return whether the location is the address of a PostgreSQL database."""
    return isinstance(where, str) and where.startswith(_POSTGRES)


def file_meant(where: str | Path | None, name: str, environ: Mapping[str, str]) -> Path:
    """Return the absolute path of the file; for None, the file `name` in the user's data folder.

    Raises `ConfigError` for the address of another kind of database, and for an empty name.
    """
    if where is None:
        return (user_data_folder(environ) / name).absolute()
    if isinstance(where, str) and (found := _SCHEME.match(where)):
        raise ConfigError(
            f"{found[0]}...: no such database is known here; write a file, or postgresql://..."
        )
    if not str(where).strip() or str(where) == ".":
        raise ConfigError(
            "the name of the file is empty; write a file, or postgresql://..."
        )
    return Path(where).expanduser().absolute()
