"""What git knows of a file; nothing that a repository configures is run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mcpagent.permissions.trust.commits import files_changed_by_others, files_of_project, head_commit
from mcpagent.utilities.filesystem.git import is_ignored
from tests.cli.approvals.test_trust_commands import commit, git

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX")


def test_a_file_is_ignored_if_no_commit_can_contain_it(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    (repository / "sub").mkdir(parents=True)
    git(repository, "init", "-q")
    (repository / "forced.env").write_text("A=1")
    git(repository, "add", "forced.env")
    commit(repository, ".gitignore", "*.env\n:(top)odd\n")
    for name in ("own.env", "sub/own.env", "shipped.txt", ":(top)odd"):
        (repository / name).write_text("A=1")
    (tmp_path / "outside.env").write_text("A=1")
    (repository / "to-own.txt").symlink_to("own.env")
    (repository / "to-shipped.env").symlink_to("shipped.txt")
    (repository / "to-outside.env").symlink_to(tmp_path / "outside.env")
    for name, expected in {
        "own.env": True,
        "sub/own.env": True,
        "to-own.txt": True,
        ":(top)odd": True,
        "forced.env": False,
        "shipped.txt": False,
        "to-shipped.env": False,
        "to-outside.env": False,
        "missing/own.env": False,
        "../outside.env": False,
        ".git/config": False,
    }.items():
        assert is_ignored(repository / name) is expected, name


def test_nothing_that_a_repository_configures_is_run(tmp_path: Path) -> None:
    """An archive may contain a whole repository, with settings and hooks of its own."""
    repository, marker = tmp_path / "repository", tmp_path / "PWNED"
    repository.mkdir()
    git(repository, "init", "-q")
    program = repository / "program"
    program.write_text(f"#!/bin/sh\ntouch {marker}\ncat\n")
    program.chmod(0o755)
    commit(repository, "server.py", "1")
    base = head_commit(repository)
    commit(repository, ".gitattributes", "* filter=evil diff=evil\n")
    commit(repository, ".gitignore", ".env\n")
    (repository / ".env").write_text("A=1")
    for hook in ("post-index-change", "post-checkout", "reference-transaction", "fsmonitor-watchman"):
        (repository / ".git" / "hooks" / hook).symlink_to(program)
    for setting in (
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "gpg.program",
        "credential.helper",
        "alias.log",
        "pager.log",
    ):
        git(repository, "config", setting, str(program))
    git(repository, "config", "log.showSignature", "true")
    git(repository, "config", "filter.evil.required", "true")
    os.utime(repository / "server.py", (1, 1))
    assert is_ignored(repository / ".env")
    changed = files_changed_by_others(repository, base, [str(repository)])
    assert changed == [".gitattributes", ".gitignore"], "of another address than the person's"
    assert repository / ".env" not in list(files_of_project(repository))
    assert not marker.exists()
