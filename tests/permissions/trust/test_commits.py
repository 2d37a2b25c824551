"""Files that others changed: by a commit, in a merge, by an older file that a merge takes, or where git cannot tell."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from mcpagent.permissions.trust.commits import files_changed_by_others, head_commit
from tests.cli.may_run.test_trust_commands import commit, git

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX terminals")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """The person's clone; `theirs` beside it is the one that they pull from."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    git(theirs, "init", "-q", "-b", "main")
    commit(theirs, "settings.ini", "a")
    commit(theirs, "server.py", "old and weak")
    commit(theirs, "server.py", "first")
    git(tmp_path, "clone", "-q", "theirs", "mine")
    folder = tmp_path / "mine"
    git(folder, "config", "user.email", "me@x")
    git(folder, "config", "user.name", "me")
    return folder


def changed(folder: Path, base: str) -> list[str]:
    named = ("server.py", "settings.ini", "python3")
    return files_changed_by_others(folder, base, [str(folder / name) for name in named])


def branch(theirs: Path, start: str) -> None:
    """Begin a branch with a commit that touches nothing of interest."""
    git(theirs, "checkout", "-q", "-b", "side", start)
    commit(theirs, "other", "x", author="mallory")


def test_a_merge_that_edits_a_file_itself_is_a_change_by_others(mine: Path) -> None:
    theirs, base = mine.parent / "theirs", head_commit(mine)
    branch(theirs, "main")
    git(theirs, "checkout", "-q", "main")
    commit(theirs, "more", "y", author="mallory")
    git(theirs, "merge", "-q", "--no-commit", "side", author="mallory")
    commit(theirs, "server.py", "evil", author="mallory")
    git(mine, "pull", "-q", "--no-rebase")
    assert changed(mine, base) == ["server.py"]


def test_a_merge_that_takes_an_older_file_is_a_change_by_others(mine: Path) -> None:
    theirs, base = mine.parent / "theirs", head_commit(mine)
    branch(theirs, "main~1")
    git(theirs, "merge", "-q", "-s", "ours", "-m", "merge", "main", author="mallory")
    git(theirs, "branch", "-f", "main", "side")
    git(mine, "pull", "-q", "--no-rebase")
    assert (mine / "server.py").read_text() == "old and weak"
    assert changed(mine, base) == ["server.py"]


def test_ones_own_edits_stay_ones_own_through_merges(mine: Path) -> None:
    theirs, base = mine.parent / "theirs", head_commit(mine)
    commit(mine, "server.py", "mine")
    commit(theirs, "other", "x", author="mallory")
    git(mine, "pull", "-q", "--no-rebase", "--no-edit")
    assert changed(mine, base) == [], "a merge of mine"
    commit(theirs, "settings.ini", "theirs", author="mallory")
    git(theirs, "pull", "-q", "--no-rebase", "--no-edit", str(mine), "HEAD", author="mallory")
    git(mine, "pull", "-q", "--no-rebase")
    assert changed(mine, base) == ["settings.ini"], "a merge of theirs, with my edit in it"


def test_where_git_cannot_tell_each_file_counts_as_changed(mine: Path) -> None:
    base = head_commit(mine)
    assert changed(mine, "a" * 40) == ["server.py", "settings.ini"], "an unknown commit"
    assert changed(mine, "") == [], "no commit when it was agreed to"
    shutil.rmtree(mine / ".git")
    assert changed(mine, base) == ["server.py", "settings.ini"], "no repository any more"
