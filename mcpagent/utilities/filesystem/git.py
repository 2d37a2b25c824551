"""Ask git about a folder, without running anything that the folder's repository configures."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SECONDS = 5.0
_QUIET = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_TERMINAL_PROMPT": "0",
}
"""Environment variables that keep git from taking locks, downloading and asking."""

_NO_PROGRAMS = ("core.fsmonitor=false", f"core.hooksPath={os.devnull}")
"""Overrides of settings with which a repository could start programs."""

GIT_FAILURES = (OSError, subprocess.SubprocessError)


def git(folder: Path, *arguments: str) -> str:
    """Return the output of a git command. Raises `GIT_FAILURES` if it fails, git is not installed, or it takes too
    long.
    """
    settings = [word for setting in _NO_PROGRAMS for word in ("-c", setting)]
    command = ["git", *settings, *arguments]
    done = subprocess.run(  # noqa: S603  ours, and its arguments are no shell's
        command,
        cwd=folder,
        env={**os.environ, **_QUIET},
        capture_output=True,
        timeout=SECONDS,
        check=True,
    )
    return done.stdout.decode("utf-8", "surrogateescape")


def is_ignored(path: Path) -> bool:
    """Return whether the file's repository ignores it (`.gitignore`), so that commits do not contain it.

    Links are followed. Returns False without a repository or git.
    """
    real = Path(os.path.realpath(path))
    try:
        return bool(git(real.parent, "check-ignore", "--", f"./{real.name}"))
    except GIT_FAILURES:
        return False
