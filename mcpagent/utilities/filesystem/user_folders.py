"""Locate the user's folders for configuration, state, data and cache, and the folder of a project."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from mcpagent.utilities.filesystem.bounded_files import is_nobody_elses

_XDG = {
    "config": ("XDG_CONFIG_HOME", ".config"),
    "data": ("XDG_DATA_HOME", ".local/share"),
    "state": ("XDG_STATE_HOME", ".local/state"),
    "cache": ("XDG_CACHE_HOME", ".cache"),
}
"""The folder kinds: the variable of the XDG Base Directory Specification, and its default below HOME."""


def user_config_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of `mcp.json` and `config.toml`, which the user writes."""
    return _folder("config", environ)


def user_data_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder for data that must not be lost, such as conversations."""
    return _folder("data", environ)


def state_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder for state: history, approvals, trust, logs."""
    return _folder("state", environ)


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder for data that can be recreated."""
    return _folder("cache", environ)


def own_folders(environ: Mapping[str, str]) -> list[Path]:
    """Return the user's folders for configuration, data, state and cache."""
    return [_folder(kind, environ) for kind in _XDG]


def is_users_own(path: str | Path, environ: Mapping[str, str]) -> bool:
    """Return whether a file is in the user's own folders and no other user can have put it there."""
    folder = Path(path).absolute().parent.resolve()
    owns = (user_config_folder(environ).resolve(), user_data_folder(environ).resolve())
    return is_nobody_elses(path) and any(folder.is_relative_to(own) for own in owns)


def _folder(kind: str, environ: Mapping[str, str]) -> Path:
    """Return `$MCPAGENT_HOME/<kind>`, else the platform's folder for mcpagent (on Linux by the XDG specification)."""
    if home := environ.get("MCPAGENT_HOME"):
        return Path(home).expanduser() / kind
    if sys.platform in ("win32", "darwin"):
        import platformdirs

        return Path(
            getattr(platformdirs, f"user_{kind}_path")("mcpagent", appauthor=False)
        )
    variable, default = _XDG[kind]
    base = environ.get(variable) or ""
    if not base.startswith("/"):  # the XDG specification ignores relative paths
        base = str(_home(environ) / default)
    return Path(base) / "mcpagent"


def _home(environ: Mapping[str, str]) -> Path:
    """Return the user's home as an absolute path: with a relative one, files of any working directory would count as
    the user's own.
    """
    home = environ.get("HOME") or ""
    if home.startswith("/"):
        return Path(home)
    import pwd

    return Path(pwd.getpwuid(os.getuid()).pw_dir)


def project_folders(start: Path) -> list[Path]:
    """Return the project's folders from its top, the one with `.git`, to `start`; without a `.git` only `start`."""
    start = start.absolute()
    upward = [start, *start.parents]
    top = next(
        (index for index, folder in enumerate(upward) if (folder / ".git").exists()), 0
    )
    return list(reversed(upward[: top + 1]))
