"""Files are written whole or not at all, and changed by one process at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcpagent.errors import ConfigError
from mcpagent.utilities.filesystem.file_changes import alone_with, close_to_others, write_text, write_whole
from tests.tables import each_row


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_new_file_is_its_users_only_and_so_are_new_folders(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    write_whole(path, "é\r\n")
    assert path.read_bytes() == "é\r\n".encode()
    assert (mode_of(path), mode_of(path.parent)) == (0o600, 0o700)
    write_whole(path, b"\xff")
    assert (path.read_bytes(), mode_of(path)) == (b"\xff", 0o600)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no umask")
@each_row("umask", [0o000, 0o002, 0o022, 0o077, 0o277, 0o777])
def test_what_is_written_is_its_users_only_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    was = os.umask(umask)
    try:
        write_whole(tmp_path / "state" / "ours" / "file", "x")
        write_text(tmp_path / "config" / "ours" / "file", "x")
    finally:
        os.umask(was)
    modes = {str(path.relative_to(tmp_path)): mode_of(path) for path in tmp_path.rglob("*")}
    assert {mode for name, mode in modes.items() if name.endswith("file")} == {0o600}
    assert {mode for name, mode in modes.items() if not name.endswith("file")} == {0o700}
    assert len(modes) == 6


def test_a_folder_that_was_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o775)
    write_whole(tmp_path / "shared" / "file", "x")
    write_text(tmp_path / "shared" / "other", "x")
    assert mode_of(tmp_path / "shared") == 0o775


@each_row("was", [0o777, 0o770, 0o722, 0o755, 0o700, 0o1777])
def test_a_folder_of_ours_that_others_may_write_into_is_taken_back(tmp_path: Path, was: int) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(was)
    close_to_others(folder)
    assert mode_of(folder) == (0o700 if was & 0o022 else was)
    (tmp_path / "link").symlink_to(folder)
    folder.chmod(was)
    close_to_others(tmp_path / "link")
    close_to_others(tmp_path / "not there")
    assert mode_of(folder) == was & 0o777


def test_what_killed_writers_left_is_swept(tmp_path: Path) -> None:
    old, fresh, others = (tmp_path / name for name in (".mcpagent-new-old", ".mcpagent-new-fresh", ".new-old"))
    for path in (old, fresh, others):
        path.write_text("half of it")
    (tmp_path / ".mcpagent-new-folder").mkdir()
    (tmp_path / ".mcpagent-new-link").symlink_to(others)
    for path in (old, others, tmp_path / ".mcpagent-new-folder"):
        os.utime(path, (0, 0))
    write_whole(tmp_path / "file", "x")
    left = {".mcpagent-new-fresh", ".mcpagent-new-folder", ".mcpagent-new-link", ".new-old", "file"}
    assert {path.name for path in tmp_path.iterdir()} == left


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such lock")
def test_a_lock_that_somebody_holds_ends_in_one_line(tmp_path: Path) -> None:
    code = (
        "import fcntl, os, sys\n"
        "fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdin=-1, stdout=-1) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        said = r"another program has been changing this folder for 0\.2 seconds; end that one, and try again"
        with pytest.raises(ConfigError, match=said), alone_with(tmp_path / "file", wait_seconds=0.2):
            pytest.fail("it is held")
        holder.communicate(timeout=30)
    with alone_with(tmp_path / "file"):
        pass


def test_what_cannot_be_written_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    (target / "kept").mkdir(parents=True)
    with pytest.raises(OSError, match="irectory"):
        write_whole(target, "text")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["folder", "kept"]
    with pytest.raises(ConfigError, match=r"folder: cannot be written: .*irectory"):
        write_text(target, "text")


def test_a_changed_file_keeps_its_mode_its_link_and_its_byte_order_mark(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_bytes("\ufeff{}".encode())
    real.chmod(0o640)
    link.symlink_to(real)
    write_text(link, '{"a": 1}')
    assert link.is_symlink()
    assert real.read_bytes() == '\ufeff{"a": 1}'.encode()
    assert mode_of(real) == 0o640
    write_text(tmp_path / "new.json", "{}", new_mode=0o644)
    assert mode_of(tmp_path / "new.json") == 0o644


def test_links_in_a_circle_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(ConfigError, match="cannot be written") as caught:
        write_text(tmp_path / "a", "x")
    assert "\n" not in str(caught.value)
    with alone_with(tmp_path / "a" / "file"):  # nothing is held, and nothing fails
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such lock")
def test_two_processes_that_change_one_file_lose_nothing(tmp_path: Path) -> None:
    counter = tmp_path / "folder" / "counter"
    code = (
        "import sys, pathlib\n"
        "from mcpagent.utilities.filesystem.file_changes import alone_with, write_whole\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "for _ in range(40):\n"
        "    with alone_with(path):\n"
        "        write_whole(path, str(int(path.read_text()) + 1 if path.exists() else 1))\n"
    )
    workers = [subprocess.Popen([sys.executable, "-c", code, str(counter)]) for _ in range(2)]
    assert [worker.wait(timeout=100) for worker in workers] == [0, 0]
    assert counter.read_text() == "80"
    assert os.listdir(counter.parent) == ["counter"]
