"""Where the terminal keeps what it remembers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mcpagent.config.folders import cache_folder, state_folder

__all__ = ["cache_folder", "history_file", "state_folder"]


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
