"""Find the files that other people's commits changed since a consent, using git.

The author of a commit decides, not the way a program starts: there is no table of the files that a command runs.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import filterfalse, islice
from pathlib import Path
from typing import TypeAlias

from mcpagent.utilities.filesystem.git import GIT_FAILURES, git

_HERE = re.compile(
    r"^[0-9a-f]+ ([0-9a-f]{40,64}) .*\t"
    r"(?:(?:commit(?: \([\w-]+\))?|revert|cherry-pick|am"
    r"|(?:rebase|pull)\b[^:\n]* \((?:pick|reword|edit|squash|fixup|continue)\)):"
    r"|(?:merge|pull)\b.*: Merge made by )",
    re.MULTILINE,
)
"""Matches lines of git's reflogs about a commit that was made in this clone, not fetched."""

_MOST_LOGS, _MOST_COMMITS = 1_000, 1_000


def head_commit(folder: Path) -> str:
    """Return the current commit of the folder's repository; "" without a repository, a commit or git."""
    try:
        return git(folder, "rev-parse", "--verify", "-q", "HEAD").strip()
    except GIT_FAILURES:
        return ""


def files_of_project(folder: Path) -> Iterator[Path]:
    """Yield the files of the folder that git does not ignore; without git, all files except hidden ones."""
    try:
        listed = git(
            folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard"
        )
    except GIT_FAILURES:
        for top, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if not name.startswith(".")]
            yield from (Path(top, name) for name in names if not name.startswith("."))
        return
    yield from (folder / name for name in listed.split("\0") if name)


def files_changed_by_others(
    folder: Path, commit: str, paths: Sequence[str]
) -> list[str] | None:
    """Return the files at or below these paths that other people's commits changed after this commit.

    A commit is the user's own if it was made in this clone and its author has the user's e-mail address; an address
    alone can be forged. A change that the user committed here on another branch is their own, even if it came back in a
    squashed commit. Returns None if git cannot decide, for instance if it does not know the commit.
    """
    if not commit:
        return []
    try:
        return _changed_by_others(folder, commit, [*map(os.path.realpath, paths)])
    except GIT_FAILURES:
        return None


def _changed_by_others(folder: Path, commit: str, paths: Sequence[str]) -> list[str]:
    if git(folder, "rev-parse", "--verify", "HEAD").strip() == commit:
        return []
    top = git(folder, "rev-parse", "--show-toplevel").rstrip("\n")
    inside = [path for path in paths if Path(path).is_relative_to(top)]
    if not inside:
        return []
    tree = ["--literal-pathspecs", "diff-tree", "-r", "--name-only", "-z"]
    differing = git(folder, *tree, commit, "HEAD", "--", *inside)
    made_here, address = _commits_made_here(folder), _own_address(folder)

    def is_own(one: _Commit) -> bool:
        return one.author == address and one.number in made_here

    # Three dots include commits that were undone.
    commits = _commits(folder, [f"{commit}...HEAD"], inside)
    squashed = set[Change]()
    if made_here and not all(map(is_own, commits)):
        here = islice(made_here, _MOST_COMMITS)
        apart = _commits(folder, [*here, "--not", "HEAD", commit], inside)
        squashed = {change for one in filter(is_own, apart) for change in one.changes}
    touched = {path for one in commits for path, _ in one.changes}
    others = filterfalse(is_own, commits)
    by_others = {change for one in others for change in one.changes} - squashed
    by_person = touched - {path for path, _ in by_others}
    # If a file differs and no commit names it, a merge restored an older version.
    return sorted({*filter(None, differing.split("\0"))} - by_person)


Change: TypeAlias = tuple[str, str]
"""A path, and git's object ID of its new content."""


@dataclass(frozen=True, slots=True)
class _Commit:
    number: str
    author: str
    changes: tuple[Change, ...]


def _commits(folder: Path, which: Sequence[str], paths: Sequence[str]) -> list[_Commit]:
    """Return commits with their changes to these paths; for a merge, the differences from all its parents.

    Two NULs precede each commit. A single one could also precede a path that looks like the start of a commit.
    """
    command = ["--literal-pathspecs", "log", "--ignore-missing", "--no-show-signature"]
    command += ["-c", "--raw", "--no-abbrev", "--no-renames", "-z"]
    log = git(folder, *command, "--format=%x00%x00%H %ae", *which, "--", *paths)
    return [_commit_of(block) for block in re.split(r"\0{2,}", log) if block]


def _commit_of(block: str) -> _Commit:
    """Parse a commit: `NUMBER AUTHOR`, then for each change `:... CONTENT STATUS` and the path, each followed by a
    NUL.
    """
    head, _, rest = block.partition("\0")
    number, _, author = head.partition(" ")
    parts = rest.strip("\0\n").split("\0")
    changes = [
        (path, about.split()[-2])
        for about, path in zip(parts[::2], parts[1::2], strict=False)
    ]
    return _Commit(number, author.strip(), tuple(changes))


def _commits_made_here(folder: Path) -> Collection[str]:
    """Return the commits that were made in this repository, in any of its worktrees."""
    common = Path(folder, git(folder, "rev-parse", "--git-common-dir").rstrip("\n"))
    logs = [
        common / "logs" / "HEAD",
        *common.glob("worktrees/*/logs/HEAD"),
        *common.glob("logs/refs/heads/**/*"),
    ]
    found: dict[str, None] = {}
    for path in logs[:_MOST_LOGS]:
        with contextlib.suppress(OSError):
            made = _HERE.findall(path.read_text("utf-8", "replace"))
            found |= dict.fromkeys(made[-_MOST_COMMITS:])
    return found.keys()


def _own_address(folder: Path) -> str | None:
    """Return the user's e-mail address as configured in git, or None."""
    try:
        found = re.search(r"<([^>]*)>", git(folder, "var", "GIT_AUTHOR_IDENT"))
    except GIT_FAILURES:
        return None
    if found is None:
        return None
    return found[1]
