"""Find the files that other people's commits changed since a consent, by git."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

SECONDS = 5.0
_HERE = re.compile(
    r"^[0-9a-f]+ ([0-9a-f]{40,64}) .*\t(?:commit(?: \(\w+\))?|rebase \((?:pick|reword|edit|squash|fixup|continue)\)):",
    re.MULTILINE,
)
_QUIET = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_TERMINAL_PROMPT": "0",
}
"""Keep git from locking and from downloading."""


def head_commit(folder: Path) -> str:
    """Return the commit that the folder's repository is at; "" without a repository, a commit or git."""
    return _git(folder, ["rev-parse", "--verify", "-q", "HEAD"]).strip()


def files_changed_by_others(
    folder: Path, commit: str, files: Iterable[str]
) -> list[str]:
    """Return those of the files that another person's commit changed after this one.

    A commit is the person's own if it was made in this clone and has their e-mail address as its author's: an address
    alone can be forged.
    """
    if not commit or head_commit(folder) in ("", commit):
        return []
    top = _git(folder, ["rev-parse", "--show-toplevel"]).rstrip("\n")
    inside = [
        file
        for file in sorted({*map(os.path.realpath, files)})
        if top and Path(file).is_relative_to(top)
    ]
    if not inside:
        return []
    log = _git(
        folder,
        [
            "log",
            "--format=%x00%H %ae",
            "--name-only",
            "-z",
            f"{commit}..HEAD",
            "--",
            *inside,
        ],
    )
    own = _commits_made_here(folder)
    address = re.search(r"<([^>]*)>", _git(folder, ["var", "GIT_AUTHOR_IDENT"]))
    changed: dict[str, None] = {}
    for number, author, names in _commits_in(log):
        if number not in own or address is None or author != address[1]:
            changed |= dict.fromkeys(names)
    return sorted(name for name in changed if os.path.join(top, name) in inside)


def _commits_in(log: str) -> Iterable[tuple[str, str, list[str]]]:
    for block in re.split(r"\0(?=[0-9a-f]{40,64} )", f"\0{log.lstrip(chr(0))}")[1:]:
        head, _, names = block.partition("\0")
        number, _, author = head.partition(" ")
        yield (
            number,
            author.strip(),
            [name.strip("\n") for name in names.split("\0") if name.strip("\n")],
        )


def _commits_made_here(folder: Path) -> frozenset[str]:
    path = Path(
        folder, _git(folder, ["rev-parse", "--git-path", "logs/HEAD"]).rstrip("\n")
    )
    try:
        return frozenset(_HERE.findall(path.read_text("utf-8", "replace")))
    except OSError:
        return frozenset()


def _git(folder: Path, arguments: Sequence[str]) -> str:
    command = [
        "git",
        "-c",
        "core.fsmonitor=false",
        "-c",
        "log.showSignature=false",
        "--literal-pathspecs",
        *arguments,
    ]
    try:
        done = subprocess.run(  # noqa: S603  ours, and its arguments are no shell's
            command,
            cwd=folder,
            env={**os.environ, **_QUIET},
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    if done.returncode == 0:
        return done.stdout.decode("utf-8", "surrogateescape")
    return ""
