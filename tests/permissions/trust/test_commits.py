"""Files that others changed: by a commit, in a merge, by an older file that a merge takes, or where git cannot tell."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from mcpagent.permissions.trust.commits import files_changed_by_others, head_commit
from tests.cli.approvals.test_trust_commands import commit, git

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


def changed(folder: Path, base: str) -> list[str] | None:
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


def test_a_revert_and_a_pick_of_ones_own_commit_are_ones_own(mine: Path) -> None:
    base = head_commit(mine)
    commit(mine, "server.py", "mine")
    git(mine, "revert", "--no-edit", "HEAD")
    assert changed(mine, base) == []
    git(mine, "cherry-pick", "HEAD~1")
    assert changed(mine, base) == []
    git(mine.parent / "theirs", "revert", "--no-edit", "HEAD", author="mallory")
    git(mine, "pull", "-q", "--no-rebase", "--no-edit", "-s", "recursive", "-X", "theirs")
    assert changed(mine, base) == ["server.py"], "a revert of theirs"


def test_a_commit_of_theirs_is_not_ones_own_because_it_was_picked_here(mine: Path) -> None:
    theirs, base = mine.parent / "theirs", head_commit(mine)
    commit(theirs, "server.py", "evil", author="mallory")
    git(mine, "fetch", "-q")
    git(mine, "cherry-pick", "origin/main")
    assert changed(mine, base) == ["server.py"]


def test_what_was_committed_in_another_worktree_is_ones_own(mine: Path) -> None:
    base, other = head_commit(mine), mine.parent / "worktree"
    git(mine, "worktree", "add", "-q", "-b", "topic", str(other))
    commit(other, "server.py", "mine")
    assert changed(other, base) == [], "in the worktree itself"
    commit(mine, "settings.ini", "mine too")
    git(mine, "merge", "-q", "--no-edit", "topic")
    assert changed(mine, base) == [], "merged from the worktree"
    git(mine, "worktree", "remove", "--force", str(other))
    assert changed(mine, base) == [], "the worktree is gone"


def test_what_others_changed_and_took_back_is_no_change(mine: Path) -> None:
    theirs, base = mine.parent / "theirs", head_commit(mine)
    commit(theirs, "server.py", "evil", author="mallory")
    commit(theirs, "server.py", "first", author="mallory")
    git(mine, "pull", "-q", "--no-rebase")
    assert changed(mine, base) == []


def test_a_branch_of_ones_own_is_left_and_what_came_by_others_is_a_change(mine: Path) -> None:
    git(mine, "checkout", "-q", "-b", "topic")
    commit(mine, "server.py", "mine")
    base = head_commit(mine)
    git(mine, "checkout", "-q", "main")
    assert changed(mine, base) == [], "one's own commit is undone"
    commit(mine.parent / "theirs", "settings.ini", "theirs", author="mallory")
    git(mine, "pull", "-q", "--no-rebase")
    assert changed(mine, base) == ["settings.ini"]
    git(mine, "checkout", "-q", "topic")
    git(mine, "rebase", "-q", "main")
    assert changed(mine, base) == ["settings.ini"], "one's own commit was made again"
    git(mine, "commit", "-q", "--amend", "-m", "other words")
    assert changed(mine, base) == ["settings.ini"]


def test_ones_own_branch_that_was_squashed_elsewhere_is_ones_own_and_a_revert_is_not(mine: Path) -> None:
    theirs = mine.parent / "theirs"
    commit(mine, "server.py", "version one")
    git(theirs, "pull", "-q", "--no-rebase", str(mine), "HEAD")
    base = head_commit(mine)
    git(mine, "checkout", "-q", "-b", "topic")
    commit(mine, "server.py", "version two")
    git(mine, "mv", "settings.ini", "other.ini")
    commit(mine, "more.py", "mine")
    git(theirs, "fetch", "-q", str(mine), "topic")
    git(theirs, "merge", "-q", "--squash", "FETCH_HEAD", author="web")
    git(theirs, "commit", "-qm", "squashed", author="web")
    git(mine, "checkout", "-q", "main")
    git(mine, "pull", "-q", "--no-rebase")
    assert files_changed_by_others(mine, base, [str(mine)]) == []
    commit(theirs, "more.py", "mine and theirs", author="mallory")
    git(mine, "pull", "-q", "--no-rebase")
    assert files_changed_by_others(mine, base, [str(mine)]) == ["more.py"]
    base = head_commit(mine)
    commit(theirs, "server.py", "version one", author="mallory")
    git(mine, "pull", "-q", "--no-rebase")
    assert changed(mine, base) == ["server.py"], "an older version of one's own"


def test_a_path_that_looks_like_a_commit_of_ones_own_is_a_path(mine: Path) -> None:
    theirs = mine.parent / "theirs"
    base = head_commit(mine)
    commit(mine, "mine.py", "mine")
    forged = f"{head_commit(mine)} me@x"
    git(theirs, "pull", "-q", "--no-rebase", str(mine), "HEAD")
    (theirs / forged).write_text("")
    (theirs / f"{forged}\n").write_text("")
    commit(theirs, "server.py", "evil", author="mallory")
    git(mine, "pull", "-q", "--no-rebase")
    found = files_changed_by_others(mine, base, [str(mine)])
    assert found is not None
    assert {forged, "server.py"} <= {*found}
    assert "mine.py" not in found


def test_a_file_that_one_renames_is_ones_own(mine: Path) -> None:
    base = head_commit(mine)
    git(mine, "mv", "server.py", "other.py")
    commit(mine, "more", "mine")
    assert files_changed_by_others(mine, base, [str(mine)]) == []


def test_a_folder_stands_for_its_files_and_a_submodule_for_its_commit(mine: Path) -> None:
    theirs, base = mine.parent / "theirs", head_commit(mine)
    module = mine.parent / "module"
    module.mkdir()
    git(module, "init", "-q", "-b", "main")
    commit(module, "tool.py", "evil", author="mallory")
    git(theirs, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(module), "lib/module")
    commit(theirs, "lib/more.py", "theirs", author="mallory")
    git(mine, "pull", "-q", "--no-rebase")
    assert files_changed_by_others(mine, base, [str(mine / "lib")]) == ["lib/module", "lib/more.py"]
    assert files_changed_by_others(mine, base, [str(mine)]) == [".gitmodules", "lib/module", "lib/more.py"]
    assert files_changed_by_others(mine, base, [str(mine / "server.py"), str(mine.parent)]) == []
    assert files_changed_by_others(mine, base, [str(mine.parent)]) == [], "all of it outside of the repository"


def test_where_git_cannot_tell_it_is_not_known(mine: Path) -> None:
    base = head_commit(mine)
    assert changed(mine, "a" * 40) is None, "an unknown commit"
    assert changed(mine, "") == [], "no commit when it was agreed to"
    shutil.rmtree(mine / ".git")
    assert changed(mine, base) is None, "no repository any more"
