"""A file that is a link shows where it leads, before it is sent."""

from __future__ import annotations

from pathlib import Path

from mcpagent import Agent
from mcpagent.cli.chat.attachments import with_attachments
from tests.terminal.process import server_option
from tests.terminal.warm import run


async def test_a_link_shows_where_it_leads(tmp_path: Path) -> None:
    work, private = linked(tmp_path), tmp_path / "private"
    (tmp_path / "here").symlink_to(work)
    async with Agent("offline") as agent:
        for folder in (work, tmp_path / "here"):
            _, told = await with_attachments("see @notes.txt @link.txt @folder/key.txt", agent, folder)
            assert told[0].startswith("notes.txt  ")
            assert told[1].startswith(f"link.txt -> {private / 'key.txt'}  ")
            assert told[2].startswith(f"folder/key.txt -> {private / 'key.txt'}  ")


def linked(tmp_path: Path) -> Path:
    """Make a project with a plain file, a link to a file of somebody, and a link to a folder."""
    work, private = tmp_path / "work", tmp_path / "private"
    work.mkdir()
    private.mkdir()
    (private / "key.txt").write_text("k")
    (work / "notes.txt").write_text("n")
    (work / "link.txt").symlink_to(private / "key.txt")
    (work / "folder").symlink_to(private)
    return work


def test_a_file_of_a_single_question_shows_it_too(tmp_path: Path) -> None:
    work, key = linked(tmp_path), tmp_path / "private" / "key.txt"
    options = ["-m", "offline", *server_option("good")]
    for words in (
        ["ask", "hello", "link.txt", "notes.txt", "--attach", "folder/key.txt", "--instruction", "link.txt"],
        ["-p", "hello", "--attach", "link.txt", "--attach", "folder/key.txt", "--instruction", "link.txt"],
    ):
        ended = run([*words, *options], work)
        assert ended.returncode == 0, ended.stderr
        assert f"link.txt -> {key}\nfolder/key.txt -> {key}\nlink.txt -> {key}\n" in ended.stderr
        assert "notes.txt ->" not in ended.stderr


def test_a_link_shows_where_it_leads_before_its_file_is_read(tmp_path: Path) -> None:
    work = linked(tmp_path)
    (work / "gone.txt").symlink_to(tmp_path / "nowhere\u202e.txt")
    ended = run(["ask", "hello", "gone.txt", "-m", "offline", *server_option("good")], work)
    assert ended.returncode == 2
    first, second = ended.stderr.splitlines()
    assert first == f"gone.txt -> {tmp_path / 'nowhere'}\\u202e.txt"
    assert 'no file "gone.txt"' in second
