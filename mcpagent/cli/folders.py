"""Where the terminal keeps what it remembers."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path


def state_folder(environ: Mapping[str, str]) -> Path:
    """`$MCPAGENT_HOME/state`, else the platform's place (`$XDG_STATE_HOME/mcpagent` on Linux)."""
    if home := environ.get("MCPAGENT_HOME"):
        return Path(home).expanduser() / "state"
    if sys.platform in ("win32", "darwin"):
        from platformdirs import user_state_path

        return user_state_path("mcpagent", appauthor=False)
    base = environ.get("XDG_STATE_HOME") or ""
    if not base.startswith("/"):  # the XDG specification: relative paths are to be ignored
        base = str(Path(environ.get("HOME") or Path.home()) / ".local" / "state")
    return Path(base) / "mcpagent"


def cache_folder(environ: Mapping[str, str]) -> Path:
    """`$MCPAGENT_HOME/cache`, else the platform's place (`$XDG_CACHE_HOME/mcpagent` on Linux)."""
    if home := environ.get("MCPAGENT_HOME"):
        return Path(home).expanduser() / "cache"
    if sys.platform in ("win32", "darwin"):
        from platformdirs import user_cache_path

        return user_cache_path("mcpagent", appauthor=False)
    base = environ.get("XDG_CACHE_HOME") or ""
    if not base.startswith("/"):  # the XDG specification: relative paths are to be ignored
        base = str(Path(environ.get("HOME") or Path.home()) / ".cache")
    return Path(base) / "mcpagent"


def history_file(environ: Mapping[str, str]) -> Path | None:
    """The file of typed questions, readable by its user only; None where none can be written."""
    path = state_folder(environ) / "history"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
        with path.open("ab"):
            return path
    except OSError:
        return None
