"""Find the files that other people's commits changed since a consent, by git."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

SECONDS = 5.0
_HERE = re.compile(
    r"^[0-9a-f]+ ([0-9a-f]{40,64}) .*\t"
    r"(?:(?:commit(?: \(\w+\))?|rebase \((?:pick|reword|edit|squash|fixup|continue)\)):"
    r"|(?:merge|pull)\b.*: Merge made by )",
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
    try:
        return _git(folder, "rev-parse", "--verify", "-q", "HEAD").strip()
    except _FAILURES:
        return ""


def files_changed_by_others(
    folder: Path, commit: str, files: Iterable[str]
) -> list[str]:
    """Return those of the files, and those below folders, that another person's commit changed after this one.

    A commit is the person's own if it was made in this clone and has their e-mail address as its author's: an address
    alone can be forged. All paths that exist are returned if git cannot tell, as for a commit that it does not know.
    """
    if not commit:
        return []
    paths = sorted({*map(os.path.realpath, files)})
    try:
        return _changed_by_others(folder, commit, paths)
    except _FAILURES:
        return [os.path.relpath(path, folder) for path in paths if os.path.exists(path)]


def _changed_by_others(folder: Path, commit: str, paths: Sequence[str]) -> list[str]:
    if _git(folder, "rev-parse", "--verify", "HEAD").strip() == commit:
        return []
    top = _git(folder, "rev-parse", "--show-toplevel").rstrip("\n")
    inside = [path for path in paths if Path(path).is_relative_to(top)]
    if not inside:
        return []
    # With -c a merge names the files that differ from all of its parents.
    names = ["-c", "--format=%x00%H %ae", "--name-only", "-z"]
    log = _git(folder, "log", *names, f"{commit}..HEAD", "--", *inside)
    own, address = _commits_made_here(folder), _own_address(folder)
    by_others, by_person = set[str](), set[str]()
    for number, author, names in _commits_in(log):
        if number in own and author == address:
            by_person.update(names)
        else:
            by_others.update(names)
    tree = ["diff-tree", "-r", "--name-only", "-z"]
    differing = _git(folder, *tree, commit, "HEAD", "--", *inside)
    # what differs and no commit explains came by a merge that took an older file
    changed = by_others | ({*filter(None, differing.split("\0"))} - by_person)
    return sorted(
        name
        for name in changed
        if any(Path(top, name).is_relative_to(path) for path in inside)
    )


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
        folder, _git(folder, "rev-parse", "--git-path", "logs/HEAD").rstrip("\n")
    )
    try:
        return frozenset(_HERE.findall(path.read_text("utf-8", "replace")))
    except OSError:
        return frozenset()


def _own_address(folder: Path) -> str | None:
    """Return the person's e-mail address; None if git knows none."""
    try:
        found = re.search(r"<([^>]*)>", _git(folder, "var", "GIT_AUTHOR_IDENT"))
    except _FAILURES:
        return None
    if found is None:
        return None
    return found[1]


_FAILURES = (OSError, subprocess.SubprocessError)


def _git(folder: Path, *arguments: str) -> str:
    """Return what git prints. Raises `_FAILURES` if it fails, is not there, or takes too long."""
    command = [
        "git",
        "-c",
        "core.fsmonitor=false",
        "-c",
        "log.showSignature=false",
        "--literal-pathspecs",
        *arguments,
    ]
    done = subprocess.run(  # noqa: S603  ours, and its arguments are no shell's
        command,
        cwd=folder,
        env={**os.environ, **_QUIET},
        capture_output=True,
        timeout=SECONDS,
        check=True,
    )
    return done.stdout.decode("utf-8", "surrogateescape")
